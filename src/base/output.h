/* The files and streams that a run writes: where a path leads, whether two paths are the same file,
   and how what was written gets there whole.

   A file takes its name only once it is whole: whatever fails, the old file is still there, or the
   new one in its place. The new content goes to a file beside the target, NAME.tmp.NUMBER, which is
   on the disk before it is renamed. A link is followed and its target replaced. The mode of a
   replaced file is kept, its owner and other hard links are not. A new file's mode is as the umask
   says. A file that this user may not write is not replaced, even if its folder would allow it.

   Devices, pipes and /dev/stdout are written in place. Streams to them wait for their reader, but
   after a signal (interrupt.h) not for long, because whoever reads a pipe or a terminal may have
   stopped (stream.h). */
#pragma once

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/error.h"

/* ---- where a path leads --------------------------------------------------------------------- */

typedef enum {
  TARGET_NEW,      /* does not exist yet; its folder may not exist either */
  TARGET_REGULAR,  /* a regular file */
  TARGET_IN_PLACE, /* a device, a pipe, a file without a name, or /dev/stdout */
} FileTargetKind;

typedef struct {
  FileTargetKind kind;
  bool is_stdout;      /* it is /dev/stdout */
  struct stat status;  /* of all kinds but TARGET_NEW */
  char path[PATH_MAX]; /* at the end of the links */
} FileTarget;

/* Follows links, also to a file that does not exist yet. Returns false with errno set if the path
   leads nowhere: to a folder, through a file, in a circle, or through a folder or a link that the
   system keeps us from following. */
bool file_target_find(FileTarget *target, const char *path);

/* Returns true if this user may write the target; else errno is set. True for a new file: its
   folder decides. */
bool file_target_may_write(const FileTarget *target);

/* Opens a stream to a target of kind TARGET_IN_PLACE; waits for a FIFO's reader. /dev/stdout goes
   on after what this process printed there. A write fails with EINTR if a signal asks for the end
   and the reader takes nothing. NULL with errno set on failure. fclose closes it. */
FILE *file_target_open_in_place(const FileTarget *target);

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
   is opened for writing. False if two paths of which one is written are the same file: by device
   and inode, through links of both kinds, or the same name in the same folder if it does not exist
   yet. Character devices (/dev/null, a terminal) and sockets are not compared: writing there
   destroys nothing. A path that cannot be followed is left to whoever opens it. */
bool same_file_check(const NamedFile *files, int count, Error *error);

/* ---- files that are replaced whole ---------------------------------------------------------- */

typedef struct TemporaryFile TemporaryFile;

typedef struct {
  FILE *file;               /* to be written, not closed */
  const char *path;         /* the caller's */
  FileTarget target;        /* where it leads */
  TemporaryFile *temporary; /* NULL: written in place */
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

/* Makes stdout and stderr streams that wait for their reader, and opens /dev/null in place of a
   standard stream that is closed. From now on writing to a closed pipe, or beyond the most that a
   file may have (ulimit -f), is a failed write and no signal. To be called once, before anything is
   opened or printed. The streams stay as they are if there is no memory for it. */
void standard_output_open(void);

/* Writes out what was printed. False if that, or anything printed before, could not be written. */
bool standard_output_flush(Error *error);
