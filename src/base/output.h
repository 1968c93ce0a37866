/* Decides where outputs go: checks whether two paths are the same file, replaces files as a whole,
   and lets logs grow line by line.

   Links are followed, even if the file at their end does not exist yet, and stay links. A file that
   is replaced gets its name only when it is complete. Whatever fails, the path holds either the
   whole old file or the whole new file. The new content goes to a temporary file beside the target,
   NAME.tmp.XXXXXX, which is renamed once it is complete on the disk. A replaced file's mode and,
   as far as this user may give it away, its owner are kept. A new file's mode follows the umask. A
   file that this user may not write is not replaced, even if its folder would allow it.

   Devices and pipes are written in place. So are descriptors that are already open, such as
   /dev/stdout, /dev/fd/3 and /proc/self/fd/3: they are appended to and never truncated. */
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
  bool lines;   /* true for an output of whole lines, which may be written to /dev/stdout */
} NamedFile;

/* Refuses a run whose output would destroy an input or another output, and a run that would read
   one pipe under two names. Call it before anything is opened for writing. Standard output and
   standard error are outputs of every run. Two files are the same if they have the same device and
   inode, or if neither exists and both would get the same name in the same folder. Character
   devices (/dev/null, a terminal) and sockets are not compared, since writing there destroys
   nothing. Returns false, with both names in *error, if a run is refused or if memory runs out. */
bool same_file_check(const NamedFile *files, int count, Error *error);

/* ---- files that are replaced whole ---------------------------------------------------------- */

/* Returns true if the path is written in place: it is a device, a pipe or an open descriptor. */
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

/* ---- files that grow line by line ----------------------------------------------------------- */

typedef struct {
  FILE *file;            /* NULL until line_file_begin; the caller writes to it and flushes it */
  const char *path;      /* the path as the caller gave it */
  int descriptor;        /* the locked file, or -1 if the file is written in place */
  bool created;          /* the file did not exist, and nothing was written to it */
  char target[PATH_MAX]; /* the path after following links */
} LineFile;

/* Opens a file to which this process alone will add lines, and locks it. Changes no content: that
   begins with line_file_begin. Returns false if another process holds the lock. If this succeeds,
   line_file_close must follow. A device, a pipe or a descriptor is only tested. */
bool line_file_open(LineFile *lines, const char *path, Error *error);

/* Begins to write at the end of the file or, if `replace`, empties it first. Sets *last to the
   file's last byte, or to EOF if the file is empty or written in place. Waits for the reader of a
   pipe until a signal comes. */
bool line_file_begin(LineFile *lines, bool replace, int *last, Error *error);

/* Sets *error to "cannot write PATH" and errno's reason, and returns false. */
bool line_file_failed(const LineFile *lines, Error *error);

/* Closes the file and, if line_file_open created it and line_file_begin was not called, removes it.
   Returns false if the file could not be written. */
bool line_file_close(LineFile *lines, Error *error);

/* ---- standard output ------------------------------------------------------------------------ */

/* Opens /dev/null in place of each standard stream that is closed, and makes standard output and
   standard error wait for their readers. A signal that ends the run ends the wait (interrupt.h),
   unless the reader goes on within a second. From now on a write fails, without a signal, if
   the pipe is closed or the file is at its limit (ulimit -f). Call this once, before anything is
   opened or printed. */
void standard_output_open(void);

/* Flushes standard output. Returns false if this or an earlier write to it has failed. */
bool standard_output_flush(Error *error);
