/* The files and streams that a run writes: checks whether two paths are the same file, and writes
   each file as a whole.

   A file gets its name only when it is complete. Whatever fails, either the old file is still there
   or the new one has replaced it. The new content goes to a file beside the target,
   NAME.tmp.NUMBER, which is on the disk before it is renamed. A replaced file's mode is kept, and
   links are followed. A new file's mode follows the umask. A file that this user may not write is
   not replaced, even if its folder would allow it. Devices, pipes, /dev/stdout and /dev/fd/N are
   written in place. */
#pragma once

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/error.h"

/* ---- the same file under two names ---------------------------------------------------------- */

static inline bool is_same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

typedef struct {
  const char *option; /* its long name */
  /* NULL or "" means that the option is not given. "-" means standard output if `written`, and
     standard input otherwise. */
  const char *path;
  bool written; /* if false, the file is only read */
} NamedFile;

/* Refuses a run whose output would destroy an input or another output. Call it before anything is
   opened for writing. Returns false if one of two paths is written and both are the same file (by
   device and inode), or the same name of a file that does not exist yet. Character devices
   (/dev/null, a terminal) and sockets are not compared, since writing there destroys nothing. */
bool same_file_check(const NamedFile *files, int count, Error *error);

/* ---- files that are replaced whole ---------------------------------------------------------- */

/* Returns true if the path is written in place: it is a device, a pipe, /dev/stdout or
   /dev/fd/N. */
bool output_is_in_place(const char *path);

typedef struct TemporaryFile TemporaryFile;

typedef struct {
  FILE *file;               /* the caller writes it, but does not close it */
  const char *path;         /* the caller's */
  TemporaryFile *temporary; /* NULL if the file is written in place */
  char target[PATH_MAX];    /* the path after following links */
} AtomicFile;

/* Tests whether `path` can be written and leaves no trace, so that a run fails before it begins
   rather than after. A pipe is not opened, since that would wait for its reader. */
bool atomic_file_probe(const char *path, Error *error);

/* Creates the file that will become `path`. If this succeeds, atomic_file_close must follow. At
   most eight are open at a time. A signal that ends the process removes their temporary files. A
   process that is killed outright (SIGKILL, a power cut) leaves them, but they do not disturb later
   runs. */
bool atomic_file_open(AtomicFile *output, const char *path, Error *error);

/* Gives the file its name if it is `good` and all of it could be written. Otherwise removes the
   file and returns false. */
bool atomic_file_close(AtomicFile *output, bool good, Error *error);

/* Sets *error to "cannot write PATH" and errno's reason, and returns false. */
bool atomic_file_failed(const AtomicFile *output, Error *error);

/* ---- standard output ------------------------------------------------------------------------ */

/* Opens /dev/null in place of each standard stream that is closed, and makes the other streams wait
   for their reader. From now on a write fails, without a signal, if the pipe is closed or the file
   is at its limit (ulimit -f). Call this once, before anything is opened or printed. */
void standard_output_open(void);

/* Writes out what was printed. Returns false if any of it, also earlier, could not be written. */
bool standard_output_flush(Error *error);
