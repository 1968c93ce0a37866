/* Writes each output file as a whole, and checks whether two paths are the same file.

   A file gets its name only when it is complete. Whatever fails, the path holds either the whole
   old file or the whole new file. The new content goes to a temporary file beside the target,
   NAME.tmp.XXXXXX, which is renamed once it is complete on the disk. A replaced file's mode is
   kept, and links are followed. A new file's mode follows the umask. A file that this user may not
   write is not replaced, even if its folder would allow it. Devices, pipes, /dev/stdout and
   /dev/fd/N are written in place. */
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
  const char *option; /* the long name of the option */
  /* NULL or "" if the option is not given; "-" means standard output for an output, standard input
     for an input */
  const char *path;
  bool written; /* true for an output, false for an input */
} NamedFile;

/* Refuses a run whose output would destroy an input or another output. Call it before anything is
   opened for writing. Returns false if an output and another of the files are the same file (by
   device and inode), or would become the same new file. Character devices (/dev/null, a terminal)
   and sockets are not compared, since writing there destroys nothing. */
bool same_file_check(const NamedFile *files, int count, Error *error);

/* ---- files that are replaced whole ---------------------------------------------------------- */

/* Returns true if the path is written in place: it is a device, a pipe, /dev/stdout or
   /dev/fd/N. */
bool output_is_in_place(const char *path);

typedef struct TemporaryFile TemporaryFile;

typedef struct {
  FILE *file;               /* the caller writes to it, but does not close it */
  const char *path;         /* the path as the caller gave it */
  TemporaryFile *temporary; /* NULL if the file is written in place */
  char target[PATH_MAX];    /* the path after following links */
} AtomicFile;

/* Tests whether `path` can be written, without leaving a trace, so that a run can fail at its start
   rather than at its end. A pipe is not opened, since open would wait for the pipe's reader. */
bool atomic_file_probe(const char *path, Error *error);

/* Creates the file that will become `path`. If this succeeds, atomic_file_close must follow. At
   most eight files are open at a time. A signal that ends the process removes the temporary files.
   A process that is killed outright (SIGKILL, a power cut) leaves the files, which do not disturb
   later runs. */
bool atomic_file_open(AtomicFile *output, const char *path, Error *error);

/* Gives the file its name if `good` and if all of the file could be written. Otherwise removes the
   temporary file and returns false. */
bool atomic_file_close(AtomicFile *output, bool good, Error *error);

/* Sets *error to "cannot write PATH" and errno's reason, and returns false. */
bool atomic_file_failed(const AtomicFile *output, Error *error);

/* ---- standard output ------------------------------------------------------------------------ */

/* Opens /dev/null in place of each standard stream that is closed, and makes standard output and
   standard error wait for their readers (blocking). From now on a write fails, without a signal, if
   the pipe is closed or the file is at its limit (ulimit -f). Call this once, before anything is
   opened or printed. */
void standard_output_open(void);

/* Flushes standard output. Returns false if this or an earlier write to it has failed. */
bool standard_output_flush(Error *error);
