/* Reads the bytes of a file, a pipe or standard input ("-"). Unpacks them if they begin as a gzip
   archive does (RFC 1952). An archive may have several members, and zeros after the last member.

   A regular file must not change while it is open. Each read from the file checks this; bytes that
   were read after a change are dropped. If an archive is damaged, source_read returns 0 when it
   finds the damage, which is at the end of the damaged member at the latest. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/error.h"

/* Returns true if both stamps (results of fstat) describe the same file in the same state. */
bool source_stamps_equal(const struct stat *a, const struct stat *b);

enum { SOURCE_INPUT = 1 << 16 };

/* A source. Only one thread at a time may use a source, but any thread may set `abandoned`. Callers
   may read the fields from name to error. */
typedef struct {
  const char *name;  /* the file's name in messages */
  struct stat stamp; /* the result of fstat when the file was opened */
  bool once;         /* true for a pipe, a device or standard input, which can be read only once */
  bool packed;       /* the file is a gzip archive */
  uint64_t size;     /* the size of the file itself, packed or not; 0 if unknown */
  uint64_t offset;   /* bytes of the file read so far */
  bool ended;
  Error error; /* why the source ended too early; "" if it did not */

  int file;
  atomic_bool abandoned; /* true makes all reads stop waiting for a pipe's writer */
  z_stream stream;       /* next_in points to avail_in bytes of `input` that are not yet used */
  unsigned char input[SOURCE_INPUT];
} Source;

/* Waits for a pipe's writer and its first bytes. `path` must outlive the source. Returns false if
   `path` cannot be opened or read; the caller must call source_close even then. */
bool source_open(Source *source, const char *path, Error *error);

/* Reads `size` bytes (below 2^32), or fewer if the source ends. Returns the number read. */
size_t source_read(Source *source, char *bytes, size_t size);

/* Closes the source; must be called even after source_open has failed. */
void source_close(Source *source);

/* Returns true if `path` names a regular file, which can be read several times, or a folder, which
   source_open refuses with another reason. */
bool source_can_repeat(const char *path);
