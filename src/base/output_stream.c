#define _GNU_SOURCE /* fopencookie */
#include "base/output_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/interrupt.h"

enum { PATIENCE = 100 }; /* milliseconds after which a wait looks up */

/* False with errno set if a signal asks for the end, and the reader had its time since. */
static bool wait_for_reader(int file) {
  struct pollfd wait = {.fd = file, .events = POLLOUT};
  for (;;) {
    const bool ending = interrupt_pending();
    const int ready = poll(&wait, 1, PATIENCE);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true; /* write says what is wrong */
    errno = EINTR;
    if (ending) return false;
  }
}

static int descriptor_of(void *cookie) {
  return (int)(intptr_t)cookie;
}

/* A cookie_write_function_t: all bytes, or 0 and errno. PIPE_BUF bytes at a time: so many a pipe
   takes without blocking when it takes any. */
static ssize_t write_all(void *cookie, const char *bytes, size_t size) {
  const int file = descriptor_of(cookie);
  size_t written = 0;
  while (written < size) {
    const size_t left = size - written;
    if (!wait_for_reader(file)) return 0;
    const ssize_t count = write(file, bytes + written, left < PIPE_BUF ? left : PIPE_BUF);
    if (count >= 0)
      written += (size_t)count;
    else if (errno != EAGAIN && errno != EINTR)
      return 0;
  }
  return (ssize_t)written;
}

static int close_file(void *cookie) {
  return close(descriptor_of(cookie));
}

FILE *output_stream_open(int file, int buffering) {
  const cookie_io_functions_t calls = {.write = write_all, .close = close_file};
  void *cookie = (void *)(intptr_t)file; // NOLINT(performance-no-int-to-ptr)
  FILE *stream = fopencookie(cookie, "w", calls);
  if (stream) setvbuf(stream, NULL, buffering, BUFSIZ);
  return stream;
}

int output_stream_wait_open(const char *path) {
  for (;;) {
    const bool ending = interrupt_pending();
    const int file = open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 || errno != ENXIO) return file; /* ENXIO: a FIFO without a reader */
    errno = EINTR;
    if (ending) return -1;
    poll(NULL, 0, PATIENCE);
  }
}
