#define _GNU_SOURCE /* for mkostemp */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"

/* ---- the same file under two names ---------------------------------------------------------- */

/* The identity of a file. If the file exists, it is the file's own status. Otherwise it is the
   status of the folder and the file's name in that folder. */
typedef struct {
  struct stat status;
  const char *name; /* the file's name in its folder, or "" if the file exists */
} Identity;

/* Sets *id. Returns false if the file need not be compared with other files. */
static bool identify(const NamedFile *file, Identity *id) {
  char folder[PATH_MAX];
  *id = (Identity){.name = ""};
  if (!file->path || !*file->path || strlen(file->path) >= sizeof folder) return false;
  const int failed = strcmp(file->path, "-") == 0
                         ? fstat(file->written ? STDOUT_FILENO : STDIN_FILENO, &id->status)
                         : stat(file->path, &id->status);
  if (!failed) return !S_ISCHR(id->status.st_mode) && !S_ISSOCK(id->status.st_mode);
  const char *slash = strrchr(file->path, '/');
  id->name = slash ? slash + 1 : file->path;
  return errno == ENOENT && stat(dirname(strcpy(folder, file->path)), &id->status) == 0;
}

bool same_file_check(const NamedFile *files, int count, Error *error) {
  Identity of_a, of_b;
  for (const NamedFile *b = files; b < files + count; b++) {
    if (!identify(b, &of_b)) continue;
    for (const NamedFile *a = files; a < b; a++)
      if ((a->written || b->written) && identify(a, &of_a) &&
          is_same_file(&of_a.status, &of_b.status) && strcmp(of_a.name, of_b.name) == 0)
        return error_set(error,
                         "--%s %s and --%s %s are the same file: give one of them another name",
                         a->option, a->path, b->option, b->path);
  }
  return true;
}

/* ---- temporary files ------------------------------------------------------------------------ */

enum { TEMPORARIES = 8 }; /* maximum number of files open at a time; enough for a run */

/* States of an entry of `temporaries`. An entry is LIVE from before its file is created until after
   the file is removed. The entries are static, since a signal handler in any thread reads them. */
enum { FREE, CLAIMED, LIVE };
struct TemporaryFile {
  atomic_int state;
  int file; /* the descriptor of the open file */
  char path[PATH_MAX];
};
static TemporaryFile temporaries[TEMPORARIES];

/* Removes all temporary files. A signal handler may call this, since unlink is signal-safe. */
static void remove_temporaries(void) {
  const int cause = errno;
  for (int i = 0; i < TEMPORARIES; i++)
    if (atomic_load(&temporaries[i].state) == LIVE) unlink(temporaries[i].path);
  errno = cause;
}

static TemporaryFile *claim(void) {
  interrupt_clean_by(remove_temporaries);
  for (int i = 0; i < TEMPORARIES; i++) {
    int state = FREE;
    if (atomic_compare_exchange_strong(&temporaries[i].state, &state, CLAIMED))
      return &temporaries[i];
  }
  errno = EMFILE;
  return NULL;
}

/* Creates a temporary file in the target's folder and returns its stream. Until the file gets
   `mode`, only this user may read it (0600). Returns NULL with errno set on failure. */
static FILE *open_beside(AtomicFile *output, mode_t mode) {
  TemporaryFile *own = output->temporary = claim();
  if (!own) return NULL;
  const char *slash = strrchr(output->target, '/');
  const int folder = slash ? (int)(slash + 1 - output->target) : 0;
  const int length = snprintf(own->path, PATH_MAX, "%.*s%.100s.tmp.XXXXXX", folder, output->target,
                              output->target + folder); /* %.100s cuts the name to a valid length */
  atomic_store(&own->state, LIVE);
  errno = ENAMETOOLONG;
  own->file = length < PATH_MAX ? mkostemp(own->path, O_CLOEXEC) : -1;
  FILE *stream = own->file >= 0 && fchmod(own->file, mode) == 0 ? fdopen(own->file, "wb") : NULL;
  if (stream) return stream;
  const int cause = errno;
  if (own->file >= 0) {
    unlink(own->path);
    close(own->file);
  }
  atomic_store(&own->state, FREE);
  errno = cause;
  return NULL;
}

/* ---- opening -------------------------------------------------------------------------------- */

bool output_is_in_place(const char *path) {
  struct stat status;
  return strcmp(path, "/dev/stdout") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
         (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
}

/* Sets the message from errno. Sets error->unread if `file` is stdout and its pipe is closed. */
static bool not_written(const char *what, const FILE *file, Error *error) {
  const bool unread = file == stdout && errno == EPIPE;
  error_set(error, "cannot write %s: %s", what, strerror(errno));
  if (error) error->unread = unread;
  return false;
}

bool atomic_file_failed(const AtomicFile *output, Error *error) {
  return not_written(output->path, output->file, error);
}

/* Follows links from the path to the target. Sets *mode to the target's mode or, if there is no
   target, to the mode of a new file. Returns false with errno set if this user cannot write it. */
static bool find_target(AtomicFile *output, mode_t *mode) {
  struct stat status;
  const mode_t mask = umask(022);
  umask(mask);
  *mode = 0666 & ~mask;
  if (stat(output->path, &status) != 0) {
    const bool is_new = errno == ENOENT && strlen(output->path) < PATH_MAX;
    if (is_new) strcpy(output->target, output->path);
    return is_new;
  }
  *mode = status.st_mode & 0777;
  errno = EISDIR;
  return !S_ISDIR(status.st_mode) && faccessat(AT_FDCWD, output->path, W_OK, AT_EACCESS) == 0 &&
         (output_is_in_place(output->path) || realpath(output->path, output->target));
}

/* Opens a temporary file or, if it is written in place, `path` (unless atomic_file_probe calls). */
static bool open_output(AtomicFile *output, const char *path, bool tried, Error *error) {
  mode_t mode;
  *output = (AtomicFile){.path = path};
  bool good = find_target(output, &mode);
  if (good && !output_is_in_place(path))
    good = (output->file = open_beside(output, mode));
  else if (good && !tried)
    good = (output->file = fopen(path, "ae")); /* appends, since the path may be /dev/stdout */
  return good || error_set(error, "cannot write %s: %s", path,
                           errno == ENOENT ? "its folder does not exist" : strerror(errno));
}

bool atomic_file_open(AtomicFile *output, const char *path, Error *error) {
  return open_output(output, path, false, error);
}

bool atomic_file_probe(const char *path, Error *error) {
  AtomicFile output;
  const bool good = open_output(&output, path, true, error);
  if (output.file) atomic_file_close(&output, false, NULL);
  return good;
}

/* ---- closing -------------------------------------------------------------------------------- */

static bool sync_file(int file) {
  while (fsync(file) != 0)
    if (errno != EINTR) return false;
  return true;
}

/* Renames the temporary file. Then brings the rename to the disk by fsync of the folder, unless the
   folder is unreadable (EACCES) or a network file system refuses fsync (EINVAL). */
static bool replace_target(const AtomicFile *output, Error *error) {
  char path[PATH_MAX];
  strcpy(path, output->target);
  const int folder = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0 && errno != EACCES) return atomic_file_failed(output, error);
  bool good =
      rename(output->temporary->path, output->target) == 0 || atomic_file_failed(output, error);
  if (good && folder >= 0 && !sync_file(folder) && errno != EINVAL)
    good = error_set(error, "cannot write %s: its folder cannot be written to the disk: %s",
                     output->path, strerror(errno));
  if (folder >= 0) close(folder);
  return good;
}

bool atomic_file_close(AtomicFile *output, bool good, Error *error) {
  const bool replaces = output->temporary != NULL;
  if (good && (fflush(output->file) != 0 || ferror(output->file) ||
               (replaces && !sync_file(output->temporary->file))))
    good = atomic_file_failed(output, error);
  if (fclose(output->file) != 0 && good) good = atomic_file_failed(output, error);
  if (!replaces) return good;
  if (good) good = replace_target(output, error);
  unlink(output->temporary->path);
  atomic_store(&output->temporary->state, FREE);
  return good;
}

/* ---- standard output ------------------------------------------------------------------------ */

void standard_output_open(void) {
  /* Opens /dev/null for closed standard streams. A later file would get their descriptors. */
  int file;
  while ((file = open("/dev/null", O_RDWR)) >= 0 && file <= STDERR_FILENO) continue;
  if (file > STDERR_FILENO) close(file);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  /* A shell or a parent may have made the streams non-blocking. Output would then be lost. */
  for (file = STDOUT_FILENO; file <= STDERR_FILENO; file++)
    fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
}

bool standard_output_flush(Error *error) {
  return (fflush(stdout) == 0 && !ferror(stdout)) ||
         not_written("to standard output", stdout, error);
}
