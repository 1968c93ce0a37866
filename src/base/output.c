#define _GNU_SOURCE /* for mkostemp and fopencookie */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/sizes.h"
#include "base/text.h"

/* ---- where a path leads --------------------------------------------------------------------- */

/* The end of a path after its links. A link in /proc is not followed, because it stands for a file
   that a process has open, which may have no name. */
typedef struct {
  char path[PATH_MAX];
  struct stat status; /* of the file or, if it does not exist, of its folder */
  bool exists, is_descriptor;
  int descriptor; /* this process's descriptor, if the path names one, otherwise -1 */
} Place;

/* Returns the length of the path's folder, including its last slash. */
static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash + 1 - path) : 0;
}

static const char *name_of(const char *path) {
  return path + folder_length(path);
}

/* Copies the path of the folder. A path without a slash is in the working folder. */
static const char *folder_of(const char *path, char folder[PATH_MAX]) {
  const size_t length = folder_length(path);
  snprintf(folder, PATH_MAX, "%.*s", (int)length, path);
  return length > 0 ? folder : strcpy(folder, ".");
}

static bool is_in_proc(const char *path) {
  char folder[PATH_MAX];
  struct statfs system;
  return statfs(folder_of(path, folder), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

/* Replaces the path of a link by the path in the link. Returns false with errno set on failure. */
static bool follow(char path[PATH_MAX], const char *link) {
  const size_t kept = *link == '/' ? 0 : folder_length(path);
  errno = ENAMETOOLONG;
  return (size_t)snprintf(path + kept, PATH_MAX - kept, "%s", link) < PATH_MAX - kept;
}

/* Sets place->descriptor if the path's last name is the number of that very file in this process.
 */
static void find_descriptor(Place *place) {
  char *end;
  struct stat own;
  const long number = strtol(name_of(place->path), &end, 10);
  if (!*end && number >= 0 && number <= INT_MAX && fstat((int)number, &own) == 0 &&
      is_same_file(&own, &place->status))
    place->descriptor = (int)number;
}

/* Finds the place of a path, which may lead to a new file. Returns false with errno set if no file
   can be there. */
static bool find_place(const char *path, Place *place) {
  enum { MOST_LINKS = 40 }; /* as in Linux */
  char link[PATH_MAX], folder[PATH_MAX];
  *place = (Place){.descriptor = -1};
  if (!follow(place->path, path)) return false;
  for (int links = 0;; links++) {
    const ssize_t length = readlink(place->path, link, sizeof link - 1);
    if (length < 0) break;
    link[length] = '\0';
    if (is_in_proc(place->path)) {
      place->is_descriptor = true;
      break;
    }
    if (!follow(place->path, link)) return false;
    errno = ELOOP;
    if (links == MOST_LINKS) return false;
  }
  place->exists = stat(place->path, &place->status) == 0;
  if (place->is_descriptor) find_descriptor(place);
  if (place->exists) return true;
  if (errno != ENOENT || !*name_of(place->path)) return false;
  if (stat(folder_of(place->path, folder), &place->status) != 0) return false;
  errno = EBADF;
  return !is_in_proc(place->path);
}

/* ---- the same file under two names ---------------------------------------------------------- */

/* What two names of one file have in common. */
typedef struct {
  dev_t device;
  ino_t inode;             /* of the file or, if it does not exist, of its folder */
  char name[NAME_MAX + 1]; /* the file's name in its folder, or "" if the file exists */
  bool is_compared, is_regular, is_descriptor;
} Identity;

static const NamedFile standard_streams[] = {{NULL, "standard output", true, true},
                                             {NULL, "standard error", true, true}};

static Identity identity_of_place(const Place *p) {
  const mode_t mode = p->status.st_mode;
  Identity id = {.device = p->status.st_dev,
                 .inode = p->status.st_ino,
                 .is_compared = !S_ISCHR(mode) && !S_ISSOCK(mode),
                 .is_regular = !p->exists || S_ISREG(mode),
                 .is_descriptor = p->is_descriptor};
  if (!p->exists) snprintf(id.name, sizeof id.name, "%.255s", name_of(p->path)); /* NAME_MAX */
  return id;
}

static Identity identity_of_descriptor(int descriptor) {
  Place place = {.exists = true, .is_descriptor = true};
  return fstat(descriptor, &place.status) == 0 ? identity_of_place(&place) : (Identity){0};
}

static Identity identity_of(const NamedFile *file) {
  Place place;
  if (!file->path || !*file->path) return (Identity){0};
  if (strcmp(file->path, "-") == 0)
    return identity_of_descriptor(file->written ? STDOUT_FILENO : STDIN_FILENO);
  return find_place(file->path, &place) ? identity_of_place(&place) : (Identity){0};
}

static void append_name(const NamedFile *file, char text[2 * PATH_MAX]) {
  const size_t used = strlen(text);
  const ShortText option = file->option ? text_format("--%s ", file->option) : (ShortText){""};
  snprintf(text + used, 2 * PATH_MAX - used, "%s%s", option.text, file->path);
}

/* Returns false, with both names in *error, if files a and b are the same and may not be. */
static bool may_be_both(const NamedFile *a, const Identity *of_a, const NamedFile *b,
                        const Identity *of_b, Error *error) {
  if (!of_a->is_compared || !of_b->is_compared || of_a->device != of_b->device ||
      of_a->inode != of_b->inode || strcmp(of_a->name, of_b->name) != 0)
    return true;
  char names[2 * PATH_MAX] = "";
  append_name(a, names);
  strncat(names, " and ", sizeof names - strlen(names) - 1);
  append_name(b, names);
  if (!a->written && !b->written) {
    const bool once = !of_a->is_regular || (strcmp(a->path, "-") == 0 && strcmp(b->path, "-") == 0);
    return !once ||
           error_set(
               error,
               "%s are the same input, which can be read only once; use a file for one of them",
               names);
  }
  if (a->option)
    return error_set(error, "%s are the same file; use a different name for one of them", names);
  return (b->written && b->lines && of_b->is_descriptor) ||
         error_set(error, "%s are the same file: redirect %s to another file", names, a->path);
}

/* Returns true if the file may be an input any number of times. */
static bool can_be_shared(const NamedFile *file, const Identity *id) {
  return !file->written && (id->is_regular || !id->is_compared) &&
         !(file->path && strcmp(file->path, "-") == 0);
}

/* Compares file number `f` with all others that have not been compared with it. The others that are
   compared are those that may not be shared, because --classify may have very many pictures. */
static bool is_alone(const NamedFile *files, const Identity *ids, int count, int f, Error *error) {
  for (int i = 0; i < count; i++) {
    if (i == f || (i < f && !can_be_shared(&files[i], &ids[i]))) continue;
    const int a = min_int(i, f), b = max_int(i, f);
    if (!may_be_both(&files[a], &ids[a], &files[b], &ids[b], error)) return false;
  }
  return true;
}

bool same_file_check(const NamedFile *files, int count, Error *error) {
  Identity stream[LENGTH(standard_streams)], *ids = make_array(ids, count + 1);
  bool good = ids || error_too_large(error, "out of memory");
  for (int f = 0; good && f < count; f++) ids[f] = identity_of(&files[f]);
  for (size_t s = 0; good && s < LENGTH(stream); s++) {
    stream[s] = identity_of_descriptor(STDOUT_FILENO + (int)s);
    for (int f = 0; good && f < count; f++)
      good = may_be_both(&standard_streams[s], &stream[s], &files[f], &ids[f], error);
  }
  for (int f = 0; good && f < count; f++)
    good = can_be_shared(&files[f], &ids[f]) || is_alone(files, ids, count, f, error);
  free(ids);
  return good;
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

/* Gives a new file the owner and the mode of the file that it will replace. Only root may give a
   file to another user. Whoever is not in the old file's group must not open the new file to its
   own group instead. */
static bool take_over(int file, const Place *place) {
  const struct stat *old = &place->status;
  struct stat own;
  mode_t mode = old->st_mode & 0777;
  if (!place->exists) {
    const mode_t mask = umask(022);
    umask(mask);
    mode = 0666 & ~mask;
  } else if (fstat(file, &own) != 0) {
    return false;
  } else if ((own.st_uid != old->st_uid || own.st_gid != old->st_gid) &&
             fchown(file, old->st_uid, old->st_gid) != 0 && own.st_gid != old->st_gid &&
             fchown(file, (uid_t)-1, old->st_gid) != 0) {
    mode &= ~(mode_t)070;
  }
  return fchmod(file, mode) == 0;
}

/* Creates a temporary file in the target's folder and returns its stream. Until the file takes over
   the target's mode, only this user may read it (0600). Returns NULL with errno set on failure. */
static FILE *open_beside(AtomicFile *output, const Place *place) {
  TemporaryFile *own = output->temporary = claim();
  if (!own) return NULL;
  strcpy(output->target, place->path);
  const int length =
      snprintf(own->path, PATH_MAX, "%.*s%.100s.tmp.XXXXXX", (int)folder_length(place->path),
               place->path, name_of(place->path)); /* %.100s cuts the name to a valid length */
  atomic_store(&own->state, LIVE);
  errno = ENAMETOOLONG;
  own->file = length < PATH_MAX ? mkostemp(own->path, O_CLOEXEC) : -1;
  FILE *stream = own->file >= 0 && take_over(own->file, place) ? fdopen(own->file, "wb") : NULL;
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

/* ---- writing in place ----------------------------------------------------------------------- */

static const double READER_SECONDS = 1; /* how long a reader may pause after a signal */

static void nap(void) {
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* Waits until a pipe or socket takes bytes. Returns false with errno EINTR if a signal that ends
   the run has come and nothing is read. */
static bool wait_for_reader(int file) {
  enum { PATIENCE = 50 }; /* milliseconds between checks for a signal */
  struct pollfd wait = {.fd = file, .events = POLLOUT};
  double since = -1;
  for (int ready; (ready = poll(&wait, 1, PATIENCE)) <= 0;) {
    if (ready < 0 && errno != EINTR) return true; /* write will report an error */
    if (!interrupt_pending()) continue;
    if (since < 0) since = seconds_now();
    errno = EINTR;
    if (seconds_now() - since > READER_SECONDS) return false;
  }
  return true;
}

static int descriptor_of(void *cookie) {
  return (int)(intptr_t)cookie;
}

/* Implements cookie_write_function_t. A pipe that is ready takes at least PIPE_BUF bytes at once,
   so that write does not wait, even if the descriptor is shared and must stay blocking. */
static ssize_t write_some(void *cookie, const char *bytes, size_t size) {
  const int file = descriptor_of(cookie);
  size_t done = 0;
  while (done < size) {
    if (!wait_for_reader(file)) return 0; /* means a failure, with errno set */
    const ssize_t count = write(file, bytes + done, min_size(size - done, PIPE_BUF));
    if (count < 0 && errno != EINTR && errno != EAGAIN) return 0;
    if (count > 0) done += (size_t)count;
  }
  return (ssize_t)size;
}

static int close_file(void *cookie) {
  return close(descriptor_of(cookie));
}

static bool has_reader(int file) {
  struct stat status;
  return fstat(file, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

/* Returns a stream to a pipe or a socket, whose writes a signal can end. */
static FILE *stream_to_reader(int file, bool closes) {
  const cookie_io_functions_t calls = {.write = write_some, .close = closes ? close_file : NULL};
  return fopencookie((void *)(intptr_t)file, "w", calls); // NOLINT(performance-no-int-to-ptr)
}

/* Opens a device, a pipe or a descriptor. Without O_NONBLOCK, open would wait for a pipe's reader,
   and no signal could end the wait. Returns -1 with errno set on failure. */
static int open_in_place(const Place *place) {
  if (place->descriptor >= 0) {
    const int copy = fcntl(place->descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (copy >= 0 && S_ISREG(place->status.st_mode)) lseek(copy, 0, SEEK_END);
    return copy;
  }
  const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY;
  int file;
  while ((file = open(place->path, flags | O_NONBLOCK)) < 0 && errno == ENXIO &&
         S_ISFIFO(place->status.st_mode)) {
    errno = EINTR;
    if (interrupt_pending()) return -1;
    nap();
  }
  if (file >= 0) fcntl(file, F_SETFL, flags);
  return file;
}

static FILE *stream_in_place(const Place *place) {
  const int file = open_in_place(place);
  if (file < 0) return NULL;
  FILE *stream = has_reader(file) ? stream_to_reader(file, true) : fdopen(file, "w");
  const int cause = errno;
  if (!stream) close(file);
  errno = cause;
  return stream;
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool is_in_place(const Place *place) {
  return place->exists && (place->is_descriptor || !S_ISREG(place->status.st_mode));
}

bool output_is_in_place(const char *path) {
  Place place;
  return find_place(path, &place) && is_in_place(&place) && !S_ISDIR(place.status.st_mode);
}

/* Sets the message from errno. Sets error->unread if the file is standard output, under this name
   or another such as /dev/fd/1, and its pipe is closed. */
static bool not_written(const char *path, const FILE *file, Error *error) {
  const int cause = errno;
  struct stat stream, named;
  const bool is_stream =
      file == stdout || (fstat(STDOUT_FILENO, &stream) == 0 && stat(path, &named) == 0 &&
                         is_same_file(&stream, &named));
  error_set(error, "cannot write %s: %s", path, strerror(cause));
  if (error) error->unread = is_stream && cause == EPIPE;
  return false;
}

bool atomic_file_failed(const AtomicFile *output, Error *error) {
  return not_written(output->path, output->file, error);
}

bool line_file_failed(const LineFile *lines, Error *error) {
  return not_written(lines->path, lines->file, error);
}

static bool not_opened(const char *path, Error *error) {
  return error_set(error, "cannot write %s: %s", path,
                   errno == ENOENT ? "its folder does not exist" : strerror(errno));
}

/* Returns false with errno set if this user cannot write the file. An open descriptor was opened
   for writing or not, whatever the file's mode is now. */
static bool may_write(const Place *place) {
  if (!place->exists) return true;
  errno = EISDIR;
  if (S_ISDIR(place->status.st_mode)) return false;
  if (place->descriptor < 0) return faccessat(AT_FDCWD, place->path, W_OK, AT_EACCESS) == 0;
  const int flags = fcntl(place->descriptor, F_GETFL);
  errno = EBADF;
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

/* Opens a temporary file or, if it is written in place, `path` (unless atomic_file_probe calls). */
static bool open_output(AtomicFile *output, const char *path, bool tried, Error *error) {
  Place place;
  *output = (AtomicFile){.path = path};
  bool good = find_place(path, &place) && may_write(&place);
  if (good && !is_in_place(&place))
    good = (output->file = open_beside(output, &place));
  else if (good && !tried)
    good = (output->file = stream_in_place(&place));
  return good || not_opened(path, error);
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

/* ---- files that grow line by line ----------------------------------------------------------- */

/* Opens the file at the place and locks it. A file that another process removes before it is locked
   is opened again. A file system without locks is accepted. */
static int open_locked(const Place *place, bool *created) {
  const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOCTTY;
  for (;;) {
    int file = open(place->path, flags);
    *created = file < 0 && errno == ENOENT;
    if (*created) file = open(place->path, flags | O_CREAT | O_EXCL, 0666);
    if (file < 0 && *created && errno == EEXIST) continue;
    if (file < 0) return -1;
    struct stat opened, named;
    const bool locked = flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    const int cause = errno;
    if (locked && fstat(file, &opened) == 0 && stat(place->path, &named) == 0 &&
        is_same_file(&opened, &named))
      return file;
    close(file);
    errno = cause;
    if (!locked) return -1;
  }
}

bool line_file_open(LineFile *lines, const char *path, Error *error) {
  Place place;
  *lines = (LineFile){.path = path, .descriptor = -1};
  if (!find_place(path, &place) || !may_write(&place)) return not_opened(path, error);
  if (is_in_place(&place)) return true;
  strcpy(lines->target, place.path);
  lines->descriptor = open_locked(&place, &lines->created);
  if (lines->descriptor >= 0) return true;
  if (errno == EWOULDBLOCK)
    return error_set(error, "cannot write %s: another run is writing it", path);
  return not_opened(path, error);
}

bool line_file_begin(LineFile *lines, bool replace, int *last, Error *error) {
  enum { BUFFER = 1 << 16 }; /* bytes; a line is written at once, so that lines do not mix */
  Place place;
  struct stat status;
  *last = EOF;
  if (lines->descriptor < 0) {
    lines->file = find_place(lines->path, &place) ? stream_in_place(&place) : NULL;
  } else if (fstat(lines->descriptor, &status) == 0 &&
             (!replace || ftruncate(lines->descriptor, 0) == 0)) {
    unsigned char byte;
    if (!replace && status.st_size > 0 &&
        pread(lines->descriptor, &byte, 1, status.st_size - 1) == 1)
      *last = byte;
    if (replace || status.st_size == 0 || *last != EOF)
      lines->file = fdopen(lines->descriptor, "a");
  }
  if (!lines->file) return not_opened(lines->path, error);
  lines->created = false;
  setvbuf(lines->file, NULL, _IOFBF, BUFFER);
  return true;
}

bool line_file_close(LineFile *lines, Error *error) {
  if (lines->created) unlink(lines->target); /* before the lock ends */
  int failed = 0;
  if (lines->file)
    failed = fclose(lines->file);
  else if (lines->descriptor >= 0)
    failed = close(lines->descriptor);
  return failed == 0 || line_file_failed(lines, error);
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
  FILE *waits = has_reader(STDOUT_FILENO) ? stream_to_reader(STDOUT_FILENO, false) : NULL;
  if (waits) stdout = waits;
  setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
}

bool standard_output_flush(Error *error) {
  return (fflush(stdout) == 0 && !ferror(stdout)) ||
         not_written("to standard output", stdout, error);
}
