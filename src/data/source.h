/* Reads a data file's bytes from a file, a pipe or standard input ("-"). It unpacks bytes that
   begin as gzip does (RFC 1952), in any number of members. Zeros after the last member are padding.

   A regular file must stay as it was when it was opened. It is checked after every read, and bytes
   read after a change are dropped. If an archive fails, the bytes unpacked in the same call are
   dropped, too; damage shows at the latest at the end of its member. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/error.h"

/* Returns true if both stamps are of the same file in the same state. */
bool source_stamps_equal(const struct stat *a, const struct stat *b);

enum { SOURCE_INPUT = 1 << 16 };

/* A source. Only one thread may use it at a time, except `abandoned`. Callers may read the fields
   of the first group. */
typedef struct {
  const char *name;  /* the name in messages */
  struct stat stamp; /* the file's when it was opened */
  bool once;         /* cannot be read a second time: a pipe, a device, standard input */
  bool packed;       /* the bytes begin as gzip does */
  uint64_t size;     /* the file's bytes, packed or not; 0 if unknown */
  uint64_t offset;   /* bytes of the file read so far */
  bool ended;
  Error error; /* why it ended too early; empty if it did not */

  int file;
  atomic_bool abandoned; /* ends reads that wait for a pipe's writer, now and later */
  z_stream stream; /* its input holds bytes that were read but not handed out, packed or not */
  unsigned char input[SOURCE_INPUT];
} Source;

/* Waits for a pipe's writer and its first bytes. `path` must outlive the source. Returns false if
   it cannot be opened or read; the caller calls source_close even then. */
bool source_open(Source *source, const char *path, Error *error);

/* Fills all `size` bytes, below 2^32, unless the source ends first. Returns how many it filled. */
size_t source_read(Source *source, char *bytes, size_t size);

/* Closes the source; must be called even after source_open has failed. */
void source_close(Source *source);

/* Returns true if `path` names a regular file, which can be read several times. */
bool source_can_repeat(const char *path);
