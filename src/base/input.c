#define _GNU_SOURCE /* fopencookie */
#include "base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "base/interrupt.h"

enum { PATIENCE = 100 }; /* milliseconds after which a wait looks up */

bool input_wait(int file, const atomic_bool *abandoned) {
  struct pollfd wait = {.fd = file, .events = POLLIN};
  while (!(abandoned && atomic_load(abandoned)) && !interrupt_pending()) {
    const int ready = poll(&wait, 1, PATIENCE);
    if (ready != 0 && (ready > 0 || errno != EINTR)) return true;
  }
  return false;
}

/* A cookie_read_function_t. */
static ssize_t read_some(void *cookie, char *bytes, size_t size) {
  ssize_t count;
  do {
    errno = EINTR;
    if (!input_wait((int)(intptr_t)cookie, NULL)) return -1;
    count = read((int)(intptr_t)cookie, bytes, size);
  } while (count < 0 && (errno == EINTR || errno == EAGAIN));
  return count;
}

static int close_file(void *cookie) {
  return close((int)(intptr_t)cookie);
}

FILE *input_open(const char *path) {
  /* Without O_NONBLOCK a FIFO would wait here for its writer. */
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  const cookie_io_functions_t calls = {.read = read_some, .close = close_file};
  void *cookie = (void *)(intptr_t)file; // NOLINT(performance-no-int-to-ptr)
  FILE *stream = file < 0 ? NULL : fopencookie(cookie, "r", calls);
  if (!stream && file >= 0) close(file);
  return stream;
}
