#define _GNU_SOURCE /* for fopencookie */
#include "base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "base/interrupt.h"

enum { PATIENCE = 100 }; /* milliseconds between checks for a signal */

bool stream_wait(int file, const atomic_bool *abandoned) {
  struct pollfd wait = {.fd = file, .events = POLLIN};
  while (!interrupt_pending() && !(abandoned && atomic_load(abandoned))) {
    const int ready = poll(&wait, 1, PATIENCE);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true; /* read will report an error */
  }
  errno = EINTR;
  return false;
}

static int descriptor_of(void *cookie) {
  return (int)(intptr_t)cookie;
}

/* Implements cookie_read_function_t for fopencookie. */
static ssize_t read_some(void *cookie, char *bytes, size_t size) {
  ssize_t count;
  do {
    if (!stream_wait(descriptor_of(cookie), NULL)) return -1;
    count = read(descriptor_of(cookie), bytes, size);
  } while (count < 0 && (errno == EINTR || errno == EAGAIN));
  return count;
}

static int close_file(void *cookie) {
  return close(descriptor_of(cookie));
}

FILE *stream_open_input(const char *path) {
  /* Without O_NONBLOCK, open would wait here for a FIFO's writer. */
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  void *cookie = (void *)(intptr_t)file; // NOLINT(performance-no-int-to-ptr)
  const cookie_io_functions_t calls = {.read = read_some, .close = close_file};
  FILE *stream = file < 0 ? NULL : fopencookie(cookie, "r", calls);
  if (!stream && file >= 0) close(file);
  return stream;
}
