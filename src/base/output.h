/* The files and streams that a run writes: whether two paths are the same file, and how what was
   written gets there whole.

   A file takes its name only once it is whole: whatever fails, the old file is still there, or the
   new one in its place. The new content goes to a file beside the target, NAME.tmp.NUMBER, which is
   on the disk before it is renamed. The mode of a replaced file is kept, and a link to it is
   followed. A new file's mode is as the umask says. A file that this user may not write is not
   replaced, even if its folder would allow it. Devices, pipes, /dev/stdout and /dev/fd/N are
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
  const char *path;   /* NULL or "": not given; "-": standard input, or output if it is written */
  bool written;       /* else it is only read */
} NamedFile;

/* Refuses a run whose output would destroy an input or another output. To be called before anything
   is opened for writing. Returns false if two paths of which one is written are the same file, by
   device and inode, or the same name of a file that does not exist yet. Character devices
   (/dev/null, a terminal) and sockets are not compared: writing there destroys nothing. */
bool same_file_check(const NamedFile *files, int count, Error *error);

/* ---- files that are replaced whole ---------------------------------------------------------- */

/* Returns true if what is written to the path goes there at once: it is a device, a pipe,
   /dev/stdout or /dev/fd/N. */
bool output_is_in_place(const char *path);

typedef struct TemporaryFile TemporaryFile;

typedef struct {
  FILE *file;               /* to be written, not closed */
  const char *path;         /* the caller's */
  TemporaryFile *temporary; /* NULL: written in place */
  char target[PATH_MAX];    /* where its links lead */
} AtomicFile;

/* Tries what writing `path` will need and leaves no trace, so that a run whose output could not be
   written fails before it begins. A pipe is not opened: that would wait for its reader. */
bool atomic_file_probe(const char *path, Error *error);

/* Creates the file that is to become `path`; unless this fails, atomic_file_close must follow. At
   most eight are open at a time. A signal that ends the process removes their temporary files; a
   process that is killed outright (SIGKILL, a power cut) leaves them; they stop no later one. */
bool atomic_file_open(AtomicFile *output, const char *path, Error *error);

/* Gives the file its name. Removes it and returns false unless it is `good` and can be written. */
bool atomic_file_close(AtomicFile *output, bool good, Error *error);

/* Sets *error to "cannot write PATH" and what errno says, and returns false. */
bool atomic_file_failed(const AtomicFile *output, Error *error);

/* ---- standard output ------------------------------------------------------------------------ */

/* Opens /dev/null in place of a standard stream that is closed, and makes the others wait for their
   reader. From now on writing to a closed pipe, or beyond the most that a file may have
   (ulimit -f), is a failed write and no signal. To be called once, before anything is opened or
   printed. */
void standard_output_open(void);

/* Writes out what was printed. False if that, or anything printed before, could not be written. */
bool standard_output_flush(Error *error);
