/* Where a path leads that is to be written: links are followed, to a file yet to come as well, and
   /dev/stdout and /dev/fd/N are what they name, an open descriptor. */
#ifndef FILE_TARGET_H
#define FILE_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

typedef enum {
  TARGET_NEW,      /* not there yet; its folder may not be there either */
  TARGET_REGULAR,  /* a regular file */
  TARGET_FOLDER,   /* cannot be written */
  TARGET_IN_PLACE, /* a device, a pipe or a file without a name */
  TARGET_STREAM,   /* an open descriptor of this process */
} FileTargetKind;

typedef struct {
  FileTargetKind kind;
  int stream;          /* the descriptor of TARGET_STREAM */
  struct stat status;  /* of all kinds but TARGET_NEW */
  char path[PATH_MAX]; /* at the end of the links */
} FileTarget;

/* False with errno set if the path leads nowhere: through a file, in a circle, to a closed
   descriptor, or through a folder or a link that the system keeps us from following. */
bool file_target_find(FileTarget *target, const char *path);

/* The folder that target->path lies in, of PATH_MAX bytes. Returns the rest: the name in it. */
const char *file_target_folder(const FileTarget *target, char *folder);

/* Whether this user may write what is there; false with errno set, EISDIR for a folder. True for a
   new file: its folder decides. Root may write read-only files, as everywhere. */
bool file_target_may_write(const FileTarget *target);

/* A descriptor to write to a device, a pipe or a stream, through output_stream.h; the caller closes
   it. A stream goes on at its offset, after what this process printed to it. -1 with errno set on
   failure. */
int file_target_open_in_place(const FileTarget *target);

#endif
