/* Follows the links of a path by hand: realpath knows no files that are yet to come. */
#include "base/file_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/output_stream.h"

enum { LINKS_MAX = 40 }; /* as Linux follows */

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool set_path(FileTarget *target, const char *path, size_t length) {
  errno = ENAMETOOLONG;
  if (length >= sizeof target->path) return false;
  memcpy(target->path, path, length);
  target->path[length] = '\0';
  return true;
}

const char *file_target_folder(const FileTarget *target, char *folder) {
  const char *slash = strrchr(target->path, '/');
  strcpy(folder, slash ? target->path : ".");
  if (slash) folder[slash == target->path ? 1 : slash - target->path] = '\0';
  return slash ? slash + 1 : target->path;
}

/* N if the path is /dev/fd/N under any name, such as /proc/self/fd/N; else -1. */
static int stream_of(const FileTarget *target) {
  enum { DIGITS_MAX = 9 };
  char folder[PATH_MAX];
  struct stat its, streams;
  const char *name = file_target_folder(target, folder);
  const size_t length = strlen(name);
  if (length == 0 || length > DIGITS_MAX || strspn(name, "0123456789") < length) return -1;
  const bool found = stat(folder, &its) == 0 && stat("/dev/fd", &streams) == 0;
  return found && is_same(&its, &streams) ? (int)strtol(name, NULL, 10) : -1;
}

/* The link's text in place of the link's name. */
static bool follow(FileTarget *target) {
  char text[PATH_MAX], folder[PATH_MAX];
  const ssize_t length = readlink(target->path, text, sizeof text);
  if (length < 0) return false;
  const size_t before =
      *text == '/' ? 0 : (size_t)(file_target_folder(target, folder) - target->path);
  errno = ENAMETOOLONG;
  if (before + (size_t)length >= sizeof target->path) return false;
  memcpy(target->path + before, text, (size_t)length);
  target->path[before + (size_t)length] = '\0';
  return true;
}

/* Leaves target->path at the end of the links, *there with what lies there. */
static bool follow_all(FileTarget *target, bool *there) {
  for (int links = 0; links <= LINKS_MAX; links++) {
    if ((target->stream = stream_of(target)) >= 0) return true;
    *there = lstat(target->path, &target->status) == 0;
    if (!*there) return errno == ENOENT;
    if (!S_ISLNK(target->status.st_mode)) return true;
    if (!follow(target)) return false;
  }
  errno = ELOOP;
  return false;
}

bool file_target_find(FileTarget *target, const char *path) {
  struct stat status;
  bool there;
  target->stream = -1;
  errno = ENOENT;
  if (!*path || !set_path(target, path, strlen(path))) return false;
  /* The system is asked first: it may refuse a link that readlink would read. */
  const bool exists = stat(path, &status) == 0;
  if ((!exists && errno != ENOENT) || !follow_all(target, &there)) return false;
  if (target->stream >= 0) {
    target->kind = TARGET_STREAM;
    return fstat(target->stream, &target->status) == 0;
  }
  target->kind = TARGET_NEW;
  if (!exists) return true;
  target->kind = S_ISREG(status.st_mode)   ? TARGET_REGULAR
                 : S_ISDIR(status.st_mode) ? TARGET_FOLDER
                                           : TARGET_IN_PLACE;
  if (there && is_same(&status, &target->status)) return true;
  /* A link of /proc to a file without a name, whose text leads elsewhere. */
  target->status = status;
  if (target->kind == TARGET_REGULAR) target->kind = TARGET_IN_PLACE;
  return set_path(target, path, strlen(path));
}

bool file_target_may_write(const FileTarget *target) {
  switch (target->kind) {
  case TARGET_NEW:
    return true;
  case TARGET_FOLDER:
    errno = EISDIR;
    return false;
  case TARGET_STREAM: {
    const int flags = fcntl(target->stream, F_GETFL);
    errno = EBADF;
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
  }
  default:
    return faccessat(AT_FDCWD, target->path, W_OK, AT_EACCESS) == 0;
  }
}

int file_target_open_in_place(const FileTarget *target) {
  if (target->kind != TARGET_STREAM) return output_stream_wait_open(target->path);
  if (target->stream == STDOUT_FILENO && fflush(stdout) != 0) return -1;
  return fcntl(target->stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}
