/* Whether the paths of a run are the same file, so that no output destroys an input. */
#ifndef SAME_FILE_H
#define SAME_FILE_H

#include <stdbool.h>

#include "base/error.h"

typedef struct {
  const char *option; /* as the user names it: "--train" */
  const char *path;   /* NULL or "": not given; "-": standard input, or output if it is written */
  bool written;       /* else it is only read */
} NamedFile;

/* To be called before anything is opened to be written. False if two paths of which one is written
   are the same file: one by device and inode, through links of both kinds, or one that is yet to
   come. Not compared are character devices, /dev/null or a terminal, and sockets: what is written
   there destroys nothing. A path that cannot be followed is left to whoever opens it. */
bool same_file_check(const NamedFile *files, int count, Error *error);

#endif
