#define _GNU_SOURCE /* mkostemp */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/stream.h"

/* ---- where a path leads --------------------------------------------------------------------- */

static int wait_open(const char *path) {
  for (;;) {
    const bool ending = interrupt_pending();
    const int file = open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 || errno != ENXIO) return file; /* ENXIO: a FIFO without a reader */
    errno = EINTR;
    if (ending) return -1;
    poll(NULL, 0, STREAM_PATIENCE);
  }
}

/* Sets `folder`, of PATH_MAX bytes, to the folder of target->path; returns the name in it. */
static const char *split(const FileTarget *target, char *folder) {
  const char *slash = strrchr(target->path, '/');
  strcpy(folder, slash ? target->path : ".");
  if (slash) folder[slash == target->path ? 1 : slash - target->path] = '\0';
  return slash ? slash + 1 : target->path;
}

/* Leaves `path`, of PATH_MAX bytes, at the end of its links. realpath would not do: it fails on
   files that do not exist yet. */
static bool follow_links(char *path) {
  enum { LINKS_MAX = 40 }; /* as Linux follows */
  char text[PATH_MAX];
  for (int links = 0; links <= LINKS_MAX; links++) {
    const ssize_t length = readlink(path, text, sizeof text);
    if (length < 0) return errno == EINVAL || errno == ENOENT; /* not a link; nothing there */
    const char *slash = *text == '/' ? NULL : strrchr(path, '/');
    const size_t at = slash ? (size_t)(slash + 1 - path) : 0;
    errno = ENAMETOOLONG;
    if (at + (size_t)length >= PATH_MAX) return false;
    memcpy(path + at, text, (size_t)length);
    path[at + (size_t)length] = '\0';
  }
  errno = ELOOP;
  return false;
}

bool file_target_find(FileTarget *target, const char *path) {
  struct stat end;
  errno = *path ? ENAMETOOLONG : ENOENT;
  if (!*path || strlen(path) >= PATH_MAX) return false;
  strcpy(target->path, path);
  target->is_stdout = strcmp(path, "/dev/stdout") == 0;
  /* The system is asked first: it may refuse a link that readlink would read. */
  const bool exists = stat(path, &target->status) == 0;
  const mode_t mode = exists ? target->status.st_mode : 0;
  if (!exists && errno != ENOENT) return false;
  errno = EISDIR;
  if (S_ISDIR(mode)) return false;
  target->kind = !exists                               ? TARGET_NEW
                 : S_ISREG(mode) && !target->is_stdout ? TARGET_REGULAR
                                                       : TARGET_IN_PLACE;
  if (target->kind == TARGET_IN_PLACE) return true;
  if (!follow_links(target->path)) return false;
  if (!exists || (stat(target->path, &end) == 0 && is_same_file(&target->status, &end)))
    return true;
  /* A link of /proc to a file without a name, whose text leads elsewhere. */
  target->kind = TARGET_IN_PLACE;
  strcpy(target->path, path);
  return true;
}

bool file_target_may_write(const FileTarget *target) {
  return target->kind == TARGET_NEW || faccessat(AT_FDCWD, target->path, W_OK, AT_EACCESS) == 0;
}

FILE *file_target_open_in_place(const FileTarget *target) {
  if (target->is_stdout && fflush(stdout) != 0) return NULL;
  const int file = target->is_stdout ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                                     : wait_open(target->path);
  FILE *stream = file < 0 ? NULL : stream_open(file, "w", _IOFBF);
  if (!stream && file >= 0) close(file);
  return stream;
}

/* ---- the same file under two names ---------------------------------------------------------- */

/* Says which file it is: the file's own status, or the status of the folder and the name there. */
typedef struct {
  bool known; /* else there is nothing to compare */
  struct stat status;
  char name[NAME_MAX + 1]; /* "": it exists */
} Identity;

/* False if there is nothing to compare. */
static bool identify(const NamedFile *file, Identity *identity) {
  FileTarget target;
  char folder[PATH_MAX];
  struct stat *status = &identity->status;
  identity->name[0] = '\0';
  if (!file->path || !*file->path) return false;
  if (strcmp(file->path, "-") == 0) {
    if (fstat(file->written ? STDOUT_FILENO : STDIN_FILENO, status) != 0) return false;
  } else if (!file_target_find(&target, file->path)) {
    return false;
  } else if (target.kind == TARGET_NEW) {
    const char *name = split(&target, folder);
    if (strlen(name) > NAME_MAX || stat(folder, status) != 0) return false;
    strcpy(identity->name, name);
  } else {
    *status = target.status;
  }
  return !S_ISCHR(status->st_mode) && !S_ISSOCK(status->st_mode);
}

bool same_file_check(const NamedFile *files, int count, Error *error) {
  Identity *identity = calloc((size_t)count + 1, sizeof *identity);
  bool good = identity || error_no_memory(error);
  for (int i = 0; good && i < count; i++) identity[i].known = identify(&files[i], &identity[i]);
  for (int b = 0; good && b < count; b++)
    for (int a = 0; good && a < b && identity[b].known; a++)
      good =
          !(files[a].written || files[b].written) || !identity[a].known ||
          !is_same_file(&identity[a].status, &identity[b].status) ||
          strcmp(identity[a].name, identity[b].name) != 0 ||
          error_set(error, "--%s %s and --%s %s are the same file: give one of them another name",
                    files[a].option, files[a].path, files[b].option, files[b].path);
  free(identity);
  return good;
}

/* ---- temporary files ------------------------------------------------------------------------ */

enum { TEMPORARIES = 8 }; /* open at a time: enough for one per output of a run */

/* Signal handlers read these, in any thread. So the paths are static, and a path is LIVE before its
   file exists and until after it has gone. */
enum { FREE, CLAIMED, LIVE };
struct TemporaryFile {
  atomic_int state;
  int file; /* its descriptor, which is the stream's */
  char path[PATH_MAX];
};
static TemporaryFile temporaries[TEMPORARIES];

/* Safe in a signal handler: it only unlinks. */
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

/* Creates a file beside the target, and its stream. The file is ours alone (0600) until it has the
   mode of the old one, or the mode that the umask gives a new one. NULL with errno set on failure.
 */
static FILE *open_beside(AtomicFile *output) {
  const FileTarget *target = &output->target;
  TemporaryFile *own = output->temporary = claim();
  if (!own) return NULL;
  const char *slash = strrchr(target->path, '/');
  const int folder = slash ? (int)(slash + 1 - target->path) : 0;
  const int length = snprintf(own->path, PATH_MAX, "%.*s%.100s.tmp.XXXXXX", folder, target->path,
                              target->path + folder); /* short enough whatever the target's is */
  const mode_t mask = umask(022);
  umask(mask);
  const mode_t mode = target->kind == TARGET_NEW ? 0666 & ~mask : target->status.st_mode & 0777;
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

/* Sets error->unread if nobody reads standard output. */
static bool not_written(const char *what, const FILE *file, Error *error) {
  const bool unread = file == stdout && errno == EPIPE;
  error_set(error, "cannot write %s: %s", what, strerror(errno));
  if (error) error->unread = unread;
  return false;
}

bool atomic_file_failed(const AtomicFile *output, Error *error) {
  return not_written(output->path, output->file, error);
}

/* Opens what writing `path` needs; nothing that is written in place if it is only tried. */
static bool open_output(AtomicFile *output, const char *path, bool tried, Error *error) {
  const FileTarget *target = &output->target;
  *output = (AtomicFile){.path = path};
  bool good = file_target_find(&output->target, path) && file_target_may_write(target);
  if (good && target->kind < TARGET_IN_PLACE)
    good = (output->file = open_beside(output));
  else if (good && !tried)
    good = (output->file = file_target_open_in_place(target));
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

/* The rename is on the disk once the folder is. Some network file systems know no fsync of a folder
   and say EINVAL, and a folder that we may write may be one that we cannot read. */
static bool replace_target(const AtomicFile *output, Error *error) {
  char path[PATH_MAX];
  split(&output->target, path);
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0 && errno != EACCES) return atomic_file_failed(output, error);
  bool good = rename(output->temporary->path, output->target.path) == 0 ||
              atomic_file_failed(output, error);
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
  /* A file that is opened next would take the number of a stream that is closed, and its lines. */
  int file;
  while ((file = open("/dev/null", O_RDWR)) >= 0 && file <= STDERR_FILENO) continue;
  if (file > STDERR_FILENO) close(file);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  FILE *output = stream_open(STDOUT_FILENO, "w", isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
  FILE *error_output = stream_open(STDERR_FILENO, "w", _IOLBF);
  if (output) stdout = output;
  if (error_output) stderr = error_output;
}

bool standard_output_flush(Error *error) {
  return (fflush(stdout) == 0 && !ferror(stdout)) ||
         not_written("to standard output", stdout, error);
}
