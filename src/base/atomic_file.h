/* Files that take their name only once they are whole: what stood there is there, or replaced. */
#ifndef ATOMIC_FILE_H
#define ATOMIC_FILE_H

#include <stdio.h>

#include "base/error.h"

typedef struct {
  FILE *file;
  const char *path; /* the caller's */
  char *temporary;  /* beside it; NULL: a device or a pipe, which is written to as it is */
} AtomicFile;

/* Creates the file that is to become `path`; atomic_file_close is owed unless this fails. */
bool atomic_file_open(AtomicFile *output, const char *path, Error *error);

/* Gives the file its name, or removes it if it is not `good` or cannot be written; then, and if it
   was not good, returns false. */
bool atomic_file_close(AtomicFile *output, bool good, Error *error);

/* "cannot write PATH" and what errno says; false. */
bool atomic_file_failed(const AtomicFile *output, Error *error);

#endif
