/* The source of a data file's bytes: a file, a pipe or standard input ("-"), unpacked on
   the way if they begin as gzip does (RFC 1952), in any number of members. Zeros behind the last
   one are its padding.

   A regular file must stay as it was when it was opened. It is looked at after every read, and
   what was read after a change is not handed out. Of an archive that fails, what was unpacked in
   the same call is not handed out either; damage shows at the latest at the end of its member. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/error.h"

/* True if both are of the same file, in the same state. */
bool source_stamps_equal(const struct stat *a, const struct stat *b);

enum { SOURCE_INPUT = 1 << 16 };

/* Belongs to one thread at a time, except for `abandoned`. Callers may read the first group. */
typedef struct {
  const char *name;  /* for messages */
  struct stat stamp; /* of the file when it was opened */
  bool once;         /* cannot be read a second time: a pipe, a device, standard input */
  bool packed;       /* begins as gzip does */
  uint64_t size;     /* bytes of the file as it stands, 0 if that is not known */
  uint64_t offset;   /* of them read */
  bool ended;
  Error error; /* what ended it too early; empty: nothing did */

  int file;
  atomic_bool abandoned; /* a read that waits for a pipe's writer, now or later, sees the end */
  z_stream stream;       /* its input is all that was read but not handed out, packed or not */
  unsigned char input[SOURCE_INPUT];
} Source;

/* Waits for a pipe's writer and its first bytes. `path` must outlive the source. False if it
   cannot be opened or read; source_close is due all the same. */
bool source_open(Source *source, const char *path, Error *error);

/* Fills all `size` bytes, below 2^32, unless the source ends before; returns how many. */
size_t source_read(Source *source, char *bytes, size_t size);

/* Is due also after source_open has failed. */
void source_close(Source *source);

/* True if `path` names a regular file, which can be read as often as wanted. */
bool source_can_repeat(const char *path);
