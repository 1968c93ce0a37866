#define _GNU_SOURCE /* fopencookie */
#include "base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/sizes.h"

bool stream_wait(int file, short event, const atomic_bool *abandoned) {
  struct pollfd wait = {.fd = file, .events = event};
  for (;;) {
    const bool ending = interrupt_pending() || (abandoned && atomic_load(abandoned));
    const int ready = ending && event == POLLIN ? 0 : poll(&wait, 1, STREAM_PATIENCE);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true; /* the call says what is wrong */
    errno = EINTR;
    if (ending) return false;
  }
}

static int descriptor_of(void *cookie) {
  return (int)(intptr_t)cookie;
}

/* A cookie_read_function_t. */
static ssize_t read_some(void *cookie, char *bytes, size_t size) {
  ssize_t count;
  do {
    if (!stream_wait(descriptor_of(cookie), POLLIN, NULL)) return -1;
    count = read(descriptor_of(cookie), bytes, size);
  } while (count < 0 && (errno == EINTR || errno == EAGAIN));
  return count;
}

/* A cookie_write_function_t: writes all bytes, or returns 0 with errno set. It writes PIPE_BUF
   bytes at a time: a pipe that takes any takes so many without blocking. */
static ssize_t write_all(void *cookie, const char *bytes, size_t size) {
  size_t written = 0;
  while (written < size) {
    if (!stream_wait(descriptor_of(cookie), POLLOUT, NULL)) return 0;
    const ssize_t count =
        write(descriptor_of(cookie), bytes + written, min_size(size - written, PIPE_BUF));
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

FILE *stream_open(int file, const char *mode, int buffering) {
  void *cookie = (void *)(intptr_t)file; // NOLINT(performance-no-int-to-ptr)
  FILE *stream =
      fopencookie(cookie, mode, (cookie_io_functions_t){read_some, write_all, NULL, close_file});
  if (stream) setvbuf(stream, NULL, buffering, BUFSIZ);
  return stream;
}

FILE *stream_open_input(const char *path) {
  /* Without O_NONBLOCK a FIFO would wait here for its writer. */
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  FILE *stream = file < 0 ? NULL : stream_open(file, "r", _IOFBF);
  if (!stream && file >= 0) close(file);
  return stream;
}
