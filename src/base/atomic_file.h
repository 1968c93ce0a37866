/* Files that take their name only once they are whole: what stood there is there, or replaced. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdio.h>

#include "base/error.h"

typedef struct {
  FILE *file;
  const char *path; /* the caller's */
  char *temporary;  /* beside it; NULL: a device or a pipe, which is written to as it is */
} Output;

/* Creates the file that is to become `path`; output_close is owed unless this fails. */
bool output_open(Output *output, const char *path, Error *error);

/* Gives the file its name, or removes it if it is not `good` or cannot be written; then, and if it
   was not good, returns false. */
bool output_close(Output *output, bool good, Error *error);

/* "cannot write PATH" and what errno says; false. */
bool output_failed(const Output *output, Error *error);

#endif
