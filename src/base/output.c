#define _GNU_SOURCE /* S_ISVTX */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

/* Returns N if the path is /dev/fd/N under any name, such as /proc/self/fd/N; else -1. */
static int stream_of(const FileTarget *target) {
  enum { DIGITS_MAX = 9 };
  char folder[PATH_MAX];
  struct stat its, streams;
  const char *name = split(target, folder);
  const size_t length = strlen(name);
  if (length == 0 || length > DIGITS_MAX || strspn(name, "0123456789") < length) return -1;
  const bool found = stat(folder, &its) == 0 && stat("/dev/fd", &streams) == 0;
  return found && is_same_file(&its, &streams) ? (int)strtol(name, NULL, 10) : -1;
}

/* Puts `text` into the path from `at` on. */
static bool set_path(FileTarget *target, size_t at, const char *text, size_t length) {
  errno = ENAMETOOLONG;
  if (at + length >= sizeof target->path) return false;
  memcpy(target->path + at, text, length);
  target->path[at + length] = '\0';
  return true;
}

/* Leaves target->path at the end of its links. realpath would not do: it fails on files that do not
   exist yet, and it would pass by the descriptor on the way to the file behind it. */
static bool follow_links(FileTarget *target) {
  enum { LINKS_MAX = 40 }; /* as Linux follows */
  char text[PATH_MAX], folder[PATH_MAX];
  for (int links = 0; links <= LINKS_MAX; links++) {
    if ((target->stream = stream_of(target)) >= 0) return true;
    const ssize_t length = readlink(target->path, text, sizeof text);
    if (length < 0) return errno == EINVAL || errno == ENOENT; /* not a link; nothing there */
    const size_t at = *text == '/' ? 0 : (size_t)(split(target, folder) - target->path);
    if (!set_path(target, at, text, (size_t)length)) return false;
  }
  errno = ELOOP;
  return false;
}

bool file_target_find(FileTarget *target, const char *path) {
  struct stat end;
  errno = ENOENT;
  if (!*path || !set_path(target, 0, path, strlen(path))) return false;
  /* The system is asked first: it may refuse a link that readlink would read. */
  const bool exists = stat(path, &target->status) == 0;
  if ((!exists && errno != ENOENT) || !follow_links(target)) return false;
  target->kind = TARGET_STREAM;
  if (target->stream >= 0) return fstat(target->stream, &target->status) == 0;
  target->kind = TARGET_NEW;
  if (!exists) return true;
  const mode_t mode = target->status.st_mode;
  target->kind = S_ISREG(mode) ? TARGET_REGULAR : S_ISDIR(mode) ? TARGET_FOLDER : TARGET_IN_PLACE;
  if (stat(target->path, &end) == 0 && is_same_file(&target->status, &end)) return true;
  /* A link of /proc to a file without a name, whose text leads elsewhere. */
  if (target->kind == TARGET_REGULAR) target->kind = TARGET_IN_PLACE;
  return set_path(target, 0, path, strlen(path));
}

bool file_target_may_write(const FileTarget *target) {
  if (target->kind == TARGET_STREAM) {
    const int flags = fcntl(target->stream, F_GETFL);
    errno = EBADF;
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
  }
  errno = EISDIR;
  return target->kind == TARGET_NEW || (target->kind != TARGET_FOLDER &&
                                        faccessat(AT_FDCWD, target->path, W_OK, AT_EACCESS) == 0);
}

FILE *file_target_open_in_place(const FileTarget *target) {
  if (target->kind == TARGET_STREAM && target->stream == STDOUT_FILENO && fflush(stdout) != 0)
    return NULL;
  const int file = target->kind == TARGET_STREAM
                       ? fcntl(target->stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
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
  bool good = identity || error_set(error, "out of memory");
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

/* Makes a name beside the target, short enough whatever the target's is. The number need not be a
   secret: O_EXCL keeps us from taking a file of others. */
static bool name_temporary(const FileTarget *target, char *path, int salt) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
  const uint64_t number = time ^ (uint64_t)getpid() << 40 ^ (uint64_t)salt << 32;
  const char *slash = strrchr(target->path, '/');
  const int folder = slash ? (int)(slash + 1 - target->path) : 0;
  const int length = snprintf(path, PATH_MAX, "%.*s%.100s.tmp.%016" PRIx64, folder, target->path,
                              target->path + folder, number);
  errno = ENAMETOOLONG;
  return length < PATH_MAX;
}

/* Gives the new file the owner and mode of the old one. It is ours alone (0600) until then. */
static bool take_after(int file, const struct stat *old) {
  mode_t mode = old->st_mode & 0777;
  if (fchown(file, old->st_uid, old->st_gid) != 0 && fchown(file, (uid_t)-1, old->st_gid) != 0)
    mode = (mode & 0707) | (mode & 0007) << 3;
  return fchmod(file, mode) == 0;
}

/* Creates a file beside the target, and its stream. NULL with errno set on failure. */
static FILE *open_beside(AtomicFile *output) {
  enum { TRIES = 100 };
  const bool replaces = output->target.kind == TARGET_REGULAR;
  TemporaryFile *own = output->temporary = claim();
  int file = -1;
  if (!own) return NULL;
  errno = EEXIST;
  for (int i = 0; file < 0 && errno == EEXIST && i < TRIES; i++) {
    atomic_store(&own->state, CLAIMED);
    if (!name_temporary(&output->target, own->path, i)) break;
    atomic_store(&own->state, LIVE);
    file = open(own->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666);
  }
  own->file = file;
  const bool good = file >= 0 && (!replaces || take_after(file, &output->target.status));
  FILE *stream = good ? fdopen(file, "wb") : NULL;
  if (stream) return stream;
  const int cause = errno;
  if (file >= 0) {
    unlink(own->path);
    close(file);
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

/* False if this is a folder in which only owners may replace files, as in /tmp, and we own none. */
static bool may_replace(const FileTarget *target) {
  struct stat status;
  char folder[PATH_MAX];
  split(target, folder);
  if (stat(folder, &status) != 0) return false;
  const uid_t user = geteuid();
  errno = EPERM;
  return target->kind == TARGET_NEW || !(status.st_mode & S_ISVTX) || user == 0 ||
         user == status.st_uid || user == target->status.st_uid;
}

/* Opens what writing `path` needs; nothing that is written in place if it is only tried. */
static bool open_output(AtomicFile *output, const char *path, bool tried, Error *error) {
  const FileTarget *target = &output->target;
  *output = (AtomicFile){.path = path};
  bool good = file_target_find(&output->target, path) && file_target_may_write(target);
  if (good && target->kind < TARGET_IN_PLACE)
    good = may_replace(target) && (output->file = open_beside(output));
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
