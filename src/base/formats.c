#define _GNU_SOURCE /* for FNM_CASEFOLD */
#include "base/formats.h"

#include <fnmatch.h>
#include <string.h>

#include "base/sizes.h"

#define SAVE_FILE "save_file of safetensors.torch or .numpy writes what is read here"
#define PICTURE "--classify takes pictures"

/* The known formats. `begins` is a shell pattern for a file's start; the first match wins. */
static const struct {
  const char *begins, *what;
  const char *cure[2]; /* advice, indexed by FormatWanted; NULL if the format is accepted */
} formats[] = {
    {"\x93NUMPY*",
     "a NumPy array",
     {"np.savetxt(\"rows.csv\", rows, fmt=\"%d\", delimiter=\",\") writes CSV", SAVE_FILE}},
    {"PK\x03\x04*",
     "a ZIP archive, .npz or a file of torch.save",
     {"unzip it, and give the CSV file that is in it",
      "docs/formats.md has the lines that convert it"}},
    {"\x89PNG*", "a PNG picture", {PICTURE}},
    {"\xff\xd8\xff*", "a JPEG picture", {PICTURE}},
    {"\x89HDF*", "an HDF5 file", {"h5py reads it, np.savetxt writes CSV", SAVE_FILE}},
    {"\x80[\x02-\x05]*", "a pickle of Python", {"np.savetxt writes CSV", SAVE_FILE}},
    {"BZh*", "a bzip2 archive", {"bunzip2 unpacks it"}},
    {"\xfd"
     "7zXZ*",
     "an xz archive",
     {"unxz unpacks it"}},
    {"\xff\xfe*", "UTF-16 text", {"iconv -f UTF-16 -t UTF-8 converts it", SAVE_FILE}},
    {"\xfe\xff*", "UTF-16 text", {"iconv -f UTF-16 -t UTF-8 converts it", SAVE_FILE}},
    {"version https://git-lfs*", "a pointer of Git LFS", {"git lfs pull gets the file"}},
    {"<*", "a page of HTML or XML", {"get the file itself"}},
    {"*,*", "CSV text", {NULL, "--load takes a network that --save wrote"}},
};

bool format_check(const char *name, const char *bytes, size_t length, FormatWanted wanted,
                  Error *error) {
  char start[128] = ""; /* the file's first bytes, up to the first zero byte */
  memcpy(start, bytes, min_size(length, sizeof start - 1));
  const char *text = start + strspn(start, " \t\r\n");
  foreach (format, formats) {
    const char *cure = format->cure[format->cure[wanted] ? wanted : FORMAT_ROWS];
    if (cure && fnmatch(format->begins, text, FNM_CASEFOLD) == 0)
      return error_set(error, "%s is %s: %s", name, format->what, cure);
  }
  return true;
}
