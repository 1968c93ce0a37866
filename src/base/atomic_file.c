/* Writes beside the target, then renames. */
#define _XOPEN_SOURCE 700 /* S_ISVTX */
#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/output_stream.h"

/* ---- what is to be removed ----------------------------------------------------------------- */

enum { TEMPORARIES = 8 }; /* open at a time: one per output of a run is enough */

/* Read by signal handlers, in whichever thread: so the paths are static, and a path is LIVE before
   its file is there and until after it has gone. */
enum { FREE, CLAIMED, LIVE };
struct TemporaryFile {
  atomic_int state;
  char path[PATH_MAX];
};
static TemporaryFile temporaries[TEMPORARIES];

static TemporaryFile *claim(void) {
  for (int i = 0; i < TEMPORARIES; i++) {
    int state = FREE;
    if (atomic_compare_exchange_strong(&temporaries[i].state, &state, CLAIMED))
      return &temporaries[i];
  }
  errno = EMFILE;
  return NULL;
}

static void release(TemporaryFile *temporary) {
  atomic_store(&temporary->state, FREE);
}

static void remove_temporary(TemporaryFile *temporary) {
  const int cause = errno;
  unlink(temporary->path);
  release(temporary);
  errno = cause;
}

void atomic_file_remove_temporaries(void) {
  const int cause = errno;
  for (int i = 0; i < TEMPORARIES; i++)
    if (atomic_load(&temporaries[i].state) == LIVE) unlink(temporaries[i].path);
  errno = cause;
}

/* ---- a file of our own --------------------------------------------------------------------- */

/* Need not be good: O_EXCL keeps us from taking a file of others. */
static uint64_t random_number(int salt) {
  struct timespec now;
  uint64_t number = 0;
  const int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  const bool got = file >= 0 && read(file, &number, sizeof number) == sizeof number;
  if (file >= 0) close(file);
  if (got) return number;
  clock_gettime(CLOCK_REALTIME, &now);
  number = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
  return number ^ (uint64_t)getpid() << 40 ^ (uint64_t)salt << 32;
}

/* A name beside the target that is short enough whatever the target's is. */
static bool name_temporary(const FileTarget *target, char *path, int salt) {
  const char *slash = strrchr(target->path, '/');
  const int folder = slash ? (int)(slash + 1 - target->path) : 0;
  const int length = snprintf(path, PATH_MAX, "%.*s%.100s.tmp.%016llx", folder, target->path,
                              target->path + folder, (unsigned long long)random_number(salt));
  errno = ENAMETOOLONG;
  return length < PATH_MAX;
}

/* Gives the new file what the old one had. It is ours alone (0600) until then. */
static bool take_after(int file, const struct stat *old) {
  mode_t mode = old->st_mode & 0777;
  if (fchown(file, old->st_uid, old->st_gid) != 0 && fchown(file, (uid_t)-1, old->st_gid) != 0)
    mode = (mode & 0707) | (mode & 0007) << 3;
  return fchmod(file, mode) == 0;
}

/* Creates a file of that name that was not there. */
static int create(TemporaryFile *temporary, const FileTarget *target, mode_t mode) {
  enum { TRIES = 100 };
  int file = -1;
  for (int i = 0; file < 0 && i < TRIES; i++) {
    atomic_store(&temporary->state, CLAIMED);
    if (!name_temporary(target, temporary->path, i)) return -1;
    atomic_store(&temporary->state, LIVE);
    file = open(temporary->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0 && errno != EEXIST) return -1;
  }
  return file;
}

/* Creates a file beside the target and sets *temporary. -1 with errno set on failure. */
static int create_temporary(const FileTarget *target, TemporaryFile **temporary) {
  const bool replaces = target->kind == TARGET_REGULAR;
  if (!(*temporary = claim())) return -1;
  const int file = create(*temporary, target, replaces ? 0600 : 0666);
  if (file < 0) {
    release(*temporary);
    return -1;
  }
  if (!replaces || take_after(file, &target->status)) return file;
  const int cause = errno;
  remove_temporary(*temporary);
  close(file);
  errno = cause;
  return -1;
}

/* ---- opening ------------------------------------------------------------------------------- */

bool atomic_file_failed(const AtomicFile *output, Error *error) {
  const bool unread = output->file == stdout && errno == EPIPE;
  error_set(error, "cannot write %s: %s", output->path, strerror(errno));
  if (error) error->unread = unread;
  return false;
}

static bool not_opened(const char *path, Error *error) {
  return error_set(error, "cannot write %s: %s", path,
                   errno == ENOENT ? "its folder does not exist" : strerror(errno));
}

static bool is_in_place(const FileTarget *target) {
  return target->kind == TARGET_IN_PLACE || target->kind == TARGET_STREAM;
}

static int open_output(AtomicFile *output) {
  FileTarget *target = &output->target;
  if (!file_target_find(target, output->path) || !file_target_may_write(target)) return -1;
  return is_in_place(target) ? file_target_open_in_place(target)
                             : create_temporary(target, &output->temporary);
}

bool atomic_file_open(AtomicFile *output, const char *path, Error *error) {
  output->path = path;
  output->temporary = NULL;
  output->descriptor = open_output(output);
  if (output->descriptor < 0) return not_opened(path, error);
  output->file = output->temporary ? fdopen(output->descriptor, "wb")
                                   : output_stream_open(output->descriptor, _IOFBF);
  if (output->file) return true;
  not_opened(path, error);
  close(output->descriptor);
  if (output->temporary) remove_temporary(output->temporary);
  return false;
}

/* In a folder where only owners may replace files, as /tmp is. */
static bool may_replace(const FileTarget *target) {
  struct stat status;
  char folder[PATH_MAX];
  file_target_folder(target, folder);
  if (stat(folder, &status) != 0) return false;
  const uid_t user = geteuid();
  errno = EPERM;
  return target->kind == TARGET_NEW || !(status.st_mode & S_ISVTX) || user == 0 ||
         user == status.st_uid || user == target->status.st_uid;
}

static bool try_temporary(const FileTarget *target) {
  TemporaryFile *temporary;
  const int file = create_temporary(target, &temporary);
  if (file < 0) return false;
  const bool good = close(file) == 0;
  remove_temporary(temporary);
  return good;
}

bool atomic_file_probe(const char *path, Error *error) {
  FileTarget target;
  const bool good = file_target_find(&target, path) && file_target_may_write(&target) &&
                    (is_in_place(&target) || (may_replace(&target) && try_temporary(&target)));
  return good || not_opened(path, error);
}

/* ---- closing ------------------------------------------------------------------------------- */

static bool sync_file(int file) {
  while (fsync(file) != 0)
    if (errno != EINTR) return false;
  return true;
}

/* The rename is on the disk once the folder is; some network file systems know no fsync of a folder
   and say EINVAL, and a folder that we may write may be one that we cannot read. */
static bool replace_target(const AtomicFile *output, Error *error) {
  char path[PATH_MAX];
  file_target_folder(&output->target, path);
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
  if (good && (fflush(output->file) != 0 || (replaces && !sync_file(output->descriptor))))
    good = atomic_file_failed(output, error);
  if (fclose(output->file) != 0 && good) good = atomic_file_failed(output, error);
  if (!replaces) return good;
  if (good) good = replace_target(output, error);
  remove_temporary(output->temporary);
  return good;
}
