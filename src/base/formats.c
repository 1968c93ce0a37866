#define _GNU_SOURCE /* for FNM_CASEFOLD */
#include "base/formats.h"

#include <fnmatch.h>
#include <string.h>

#include "base/sizes.h"

#define SAVE_FILE "save_file of safetensors.torch or safetensors.numpy can write what Python read"
#define SAVETXT                                                                                    \
  "load it in Python, and write the rows with np.savetxt(..., fmt=\"%d\", delimiter=\",\")"
#define TO_CSV "pandas reads it, and DataFrame.to_csv(..., index=False) writes CSV"
#define CLASSIFY "--classify takes pictures"
#define TO_PNG "convert it to PNG"
#define UNPACKS(TOOL) TOOL " unpacks it"
#define ONLY_ROWS "it has rows; --train, --test and --predict take them"
#define ONLY_NETWORK "--load takes networks"
#define UTF8 "iconv -f UTF-16 -t UTF-8 converts it"
#define EVERY(CURE)                                                                                \
  { CURE, CURE, CURE }

/* The known formats. `begins` is a shell pattern for a file's start, in which \x7f stands for a
   zero byte. The first match wins, so a row for a special case stands before the general one. A
   pattern must not match the header of a CSV file, whose first word may be MATLAB or [label]. */
static const struct {
  const char *begins, *what;
  const char *cure[FORMATS_WANTED]; /* what to do, by what was wanted; NULL accepts the format */
} formats[] = {
    {"\x93NUMPY*",
     "a NumPy array",
     {"np.savetxt(\"rows.csv\", rows, fmt=\"%d\", delimiter=\",\") writes CSV", SAVE_FILE,
      "np.savetxt writes its rows as CSV for --predict"}},
    {"PK\x03\x04*.npy*",
     "a .npz archive of NumPy arrays",
     {"numpy.load reads its arrays, np.savetxt(..., fmt=\"%d\", delimiter=\",\") writes one as CSV",
      "numpy.load reads its arrays, safetensors.numpy.save_file writes them",
      "numpy.load reads its arrays, np.savetxt writes rows as CSV for --predict"}},
    {"PK\x03\x04*data.pkl*",
     "a file of torch.save",
     {"it holds tensors; np.savetxt can write one as CSV",
      "load it in Python, and write its state_dict() with safetensors.torch.save_file",
      ONLY_NETWORK}},
    {"PK\x03\x04*Content_Types*", "a spreadsheet or document of an office program",
     EVERY("save it as CSV in that program, and give the CSV file")},
    {"PK\x03\x04*", "a ZIP archive", EVERY("unzip it, and give the file that is in it")},
    {"\x89PNG*", "a PNG picture", {CLASSIFY, CLASSIFY}},
    {"\xff\xd8\xff*", "a JPEG picture", {CLASSIFY, CLASSIFY}},
    {"BM????\x7f\x7f\x7f\x7f*", "a BMP picture", {CLASSIFY, CLASSIFY}},
    {"GIF8[79]a??????\x7f*", "a GIF picture", EVERY(TO_PNG " for --classify")},
    {"II[*]\x7f*", "a TIFF picture", EVERY(TO_PNG " for --classify")},
    {"MM\x7f[*]*", "a TIFF picture", EVERY(TO_PNG " for --classify")},
    {"RIFF????WEBP*", "a WebP picture", EVERY(TO_PNG " for --classify")},
    {"\x7f\x7f\x7f?ftyp*", "a HEIC or AVIF picture", EVERY(TO_PNG " for --classify")},
    {"\x89HDF*", "an HDF5 file", {"h5py reads it, np.savetxt writes CSV", SAVE_FILE, ONLY_ROWS}},
    {"PAR1\x15*", "a Parquet file", EVERY(TO_CSV)},
    {"ARROW1\x7f\x7f*", "an Arrow or Feather file", EVERY(TO_CSV)},
    {"MATLAB [0-9].[0-9] MAT-file*",
     "a MAT-file of MATLAB",
     {"scipy.io.loadmat reads it, np.savetxt writes CSV", SAVE_FILE, ONLY_ROWS}},
    {"GGUF?\x7f\x7f\x7f*", "a GGUF file",
     EVERY("it does not hold a network of linear layers with ReLU")},
    {"\x08*pytorch*", "an ONNX model",
     EVERY("export the PyTorch module with safetensors.torch.save_file")},
    {"\x08*onnx*", "an ONNX model", EVERY("write its weights with safetensors.numpy.save_file")},
    {"\x7f\x7f\x7f\x7f\x02\x7f\x7f\x7f[\x01-\x09]\x7f\x7f\x7f*", "a file of darknet weights",
     EVERY("write its layers with safetensors.numpy.save_file")},
    {"\x80[\x02-\x05]*", "a pickle of Python", {SAVETXT, SAVE_FILE, ONLY_ROWS}},
    {"\x1f\x8b*", "a gzip archive", {NULL, UNPACKS("gunzip"), UNPACKS("gunzip")}},
    {"BZh[1-9]1AY&SY*", "a bzip2 archive", EVERY(UNPACKS("bunzip2"))},
    {"\xfd"
     "7zXZ*",
     "an xz archive", EVERY(UNPACKS("unxz"))},
    {"(\xb5/\xfd*", "a Zstandard archive", EVERY(UNPACKS("unzstd"))},
    {"7z\xbc\xaf*", "a 7-Zip archive", EVERY(UNPACKS("7z x"))},
    {"\xff\xfe*", "UTF-16 text", {UTF8, SAVE_FILE, ONLY_ROWS}},
    {"\xfe\xff*", "UTF-16 text", {UTF8, SAVE_FILE, ONLY_ROWS}},
    {"version https://git-lfs.*", "a pointer of Git LFS", EVERY("git lfs pull gets the file")},
    {"<svg*", "an SVG drawing", EVERY(TO_PNG " for --classify")},
    {"<[?]xml*<svg*", "an SVG drawing", EVERY(TO_PNG " for --classify")},
    {"<*", "a page of HTML or XML", EVERY("get the file itself")},
    {"@relation*", "an ARFF file", EVERY("remove the lines before @data and @data itself")},
    {"%*@relation*", "an ARFF file", EVERY("remove the lines before @data and @data itself")},
    {"[0-9] [0-9]*:[0-9]*", "in the format of libsvm",
     EVERY("sklearn.datasets.load_svmlight_file reads it, np.savetxt writes CSV")},
    {"[-+0-9][0-9] [0-9]*:[0-9]*", "in the format of libsvm",
     EVERY("sklearn.datasets.load_svmlight_file reads it, np.savetxt writes CSV")},
    {"{[\"'} \t\r\n]*", "JSON text", {TO_CSV, SAVE_FILE, ONLY_ROWS}},
    {"[[][][{\"0-9 \t\r\n-]*", "JSON text", {TO_CSV, SAVE_FILE, ONLY_ROWS}},
    {"*\x7f\x7f\x7f\x7f{\"*",
     "a saved network",
     {"--resume goes on training it, --load uses it", NULL, ONLY_NETWORK}},
    {"*\x7f*", "no text", {NULL}},
    {"*,*", "CSV text", {NULL, "--load takes a network that --save wrote", ONLY_ROWS}},
};

bool format_check(const char *name, const char *bytes, size_t length, FormatWanted wanted,
                  Error *error) {
  char start[FORMAT_START + 1] = "";
  length = min_size(length, FORMAT_START);
  for (size_t i = 0; i < length; i++) start[i] = (char)(bytes[i] ? bytes[i] : 0x7f);
  const char *text = start + strspn(start, " \t\r\n");
  foreach (format, formats) {
    const char *cure = format->cure[wanted];
    if (fnmatch(format->begins, text, FNM_CASEFOLD) == 0)
      return !cure || error_set(error, "%s is %s: %s", name, format->what, cure);
  }
  return true;
}
