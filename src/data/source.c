#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/output.h"
#include "base/stream.h"

enum { GZIP_ONLY = MAX_WBITS + 16 }; /* makes inflateInit2 accept only gzip */
static const unsigned char MAGIC[] = {0x1f, 0x8b};

static bool is_standard_input(const char *path) {
  return strcmp(path, "-") == 0;
}

/* Compares ctime, the time of the last change of status, because nobody can set it back. */
bool source_stamps_equal(const struct stat *a, const struct stat *b) {
  return is_same_file(a, b) && a->st_size == b->st_size && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
         a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool source_can_repeat(const char *path) {
  struct stat status;
  return !path || (!is_standard_input(path) && stat(path, &status) == 0 &&
                   (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)));
}

/* ---- the file's bytes -------------------------------------------------------------------- */

/* Checks that a regular file is unchanged. This also notices that another file has taken its name,
   because losing a name changes a file's stamp. */
static bool check_unchanged(Source *source) {
  struct stat status;
  return !S_ISREG(source->stamp.st_mode) ||
         (fstat(source->file, &status) == 0 && source_stamps_equal(&status, &source->stamp)) ||
         error_set(&source->error, "%s changed while it was being read", source->name);
}

/* Reads at least one byte. Returns 0 at the end. On failure returns 0 with source->error set. */
static size_t read_file(Source *source, void *bytes, size_t size) {
  for (;;) {
    if (source->once && !stream_wait(source->file, &source->abandoned)) {
      if (interrupt_pending()) error_set(&source->error, "interrupted reading %s", source->name);
      return 0;
    }
    const ssize_t count = read(source->file, bytes, size);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) {
      error_set(&source->error, "cannot read %s: %s", source->name, strerror(errno));
      return 0;
    }
    if (!check_unchanged(source)) return 0;
    source->offset += (uint64_t)count;
    return (size_t)count;
  }
}

/* Moves unused input to the front of source->input and reads more. Returns false if none came. */
static bool read_input(Source *source) {
  z_stream *stream = &source->stream;
  memmove(source->input, stream->next_in, stream->avail_in);
  stream->next_in = source->input;
  const size_t count =
      read_file(source, source->input + stream->avail_in, SOURCE_INPUT - stream->avail_in);
  stream->avail_in += (unsigned)count;
  return count > 0;
}

/* ---- the data ---------------------------------------------------------------------------- */

/* copy and unpack return the number of bytes written. At the end, they set `ended` or `error`. */

static size_t copy(Source *source, char *bytes, size_t size) {
  z_stream *stream = &source->stream;
  size_t count = stream->avail_in < size ? stream->avail_in : size;
  if (count == 0) {
    count = read_file(source, bytes, size);
    source->ended = count == 0;
    return count;
  }
  memcpy(bytes, stream->next_in, count);
  stream->next_in += count;
  stream->avail_in -= (unsigned)count;
  return count;
}

/* Skips zeros, which tapes and dd append to an archive. Begins the next gzip member, if any. */
static void begin_member(Source *source) {
  z_stream *stream = &source->stream;
  while (stream->avail_in > 0 || read_input(source)) {
    if (*stream->next_in) {
      inflateReset(stream);
      return;
    }
    stream->next_in++;
    stream->avail_in--;
  }
  source->ended = true;
}

static size_t unpack(Source *source, char *bytes, size_t size) {
  z_stream *stream = &source->stream;
  if (stream->avail_in == 0 && !read_input(source)) {
    if (!*source->error.text)
      error_set(&source->error, "%s is cut off: its gzip archive does not end", source->name);
    return 0;
  }
  stream->next_out = (unsigned char *)bytes;
  stream->avail_out = (unsigned)size;
  const int code = inflate(stream, Z_NO_FLUSH);
  if (code == Z_STREAM_END) {
    begin_member(source);
  } else if (code == Z_MEM_ERROR) {
    error_set(&source->error, "no memory to unpack %s", source->name);
  } else if (code != Z_OK && code != Z_BUF_ERROR) {
    error_set(&source->error, "%s is a damaged gzip archive: %s", source->name,
              stream->msg ? stream->msg : "no deflated data");
  }
  return size - stream->avail_out;
}

size_t source_read(Source *source, char *bytes, size_t size) {
  size_t count = 0;
  while (count < size && !source->ended) {
    count += source->packed ? unpack(source, bytes + count, size - count)
                            : copy(source, bytes + count, size - count);
    if (*source->error.text) source->ended = true;
  }
  return source->packed && *source->error.text ? 0 : count;
}

/* ---- opening and closing ----------------------------------------------------------------- */

static bool open_file(Source *source, const char *path, Error *error) {
  const bool is_stream = is_standard_input(path);
  source->file = is_stream ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                           : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (source->file < 0 && errno == ENOENT) return error_set(error, "%s: no such file", path);
  if (source->file < 0)
    return error_set(error, "cannot open %s: %s", source->name, strerror(errno));
  if (fstat(source->file, &source->stamp) != 0)
    return error_set(error, "cannot read %s: %s", source->name, strerror(errno));
  if (S_ISDIR(source->stamp.st_mode))
    return error_set(error,
                     "%s is a directory, not a CSV file; convert its pictures to rows, or pass "
                     "them to --classify",
                     source->name);
  source->once = is_stream || !S_ISREG(source->stamp.st_mode);
  source->size = source->once ? 0 : (uint64_t)source->stamp.st_size;
  return true;
}

bool source_open(Source *source, const char *path, Error *error) {
  memset(source, 0, sizeof *source);
  source->file = -1;
  z_stream *stream = &source->stream;
  source->name = is_standard_input(path) ? "standard input" : path;
  stream->next_in = source->input;
  if (!open_file(source, path, error)) return false;
  while (stream->avail_in < sizeof MAGIC && read_input(source)) {
  }
  if (*source->error.text) return error_set(error, "%s", source->error.text);
  if (stream->avail_in < sizeof MAGIC || memcmp(source->input, MAGIC, sizeof MAGIC) != 0)
    return true;
  source->packed = inflateInit2(stream, GZIP_ONLY) == Z_OK;
  return source->packed || error_set(error, "no memory to unpack %s", source->name);
}

void source_close(Source *source) {
  if (source->packed) inflateEnd(&source->stream);
  if (source->file >= 0) close(source->file);
  source->file = -1;
}
