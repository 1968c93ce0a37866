/* Files that take their name only once they are whole: whatever fails, what stood there is there,
   or replaced.

   What is written goes to a new file beside the target, NAME.tmp.RANDOM, which is on the disk
   before it is renamed. A link is followed and its target replaced. A replaced file's mode is kept,
   and its owner and group if the system lets us; a group that is not kept has the permissions that
   others have. Other hard links of the file keep the old content. A new file's mode is as the umask
   says. A file that this user may not write is not replaced, though its folder would allow it; root
   may write every file.

   Devices, pipes and open descriptors (/dev/stdout, /dev/fd/N) are written in place. */
#ifndef ATOMIC_FILE_H
#define ATOMIC_FILE_H

#include <stdio.h>

#include "base/error.h"
#include "base/file_target.h"

typedef struct TemporaryFile TemporaryFile;

typedef struct {
  FILE *file;               /* to be written, not closed */
  const char *path;         /* the caller's */
  FileTarget target;        /* where it leads */
  int descriptor;           /* of `file` */
  TemporaryFile *temporary; /* NULL: written in place */
} AtomicFile;

/* Creates the file that is to become `path`; unless this fails, atomic_file_close must follow. */
bool atomic_file_open(AtomicFile *output, const char *path, Error *error);

/* Gives the file its name, or removes it if it is not `good` or cannot be written; then, and if it
   was not good, returns false. */
bool atomic_file_close(AtomicFile *output, bool good, Error *error);

/* "cannot write PATH" and what errno says; false. */
bool atomic_file_failed(const AtomicFile *output, Error *error);

/* Tries what writing `path` will need, and leaves no trace: so a run whose output could not be
   written fails before it begins. A pipe is not opened: that would wait for its reader. */
bool atomic_file_probe(const char *path, Error *error);

/* Removes what open files wrote so far; they can then not be closed with success. For signal
   handlers and other ends of the process: it only unlinks. What a process leaves that is killed
   outright (SIGKILL, a power cut) stops no later one. */
void atomic_file_remove_temporaries(void);

#endif
