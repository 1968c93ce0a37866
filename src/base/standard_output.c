#define _GNU_SOURCE /* fopencookie */
#include "base/standard_output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int output = STDOUT_FILENO, error_output = STDERR_FILENO;

/* A cookie_write_function_t: all bytes, or 0 and errno. */
static ssize_t write_all(void *cookie, const char *bytes, size_t size) {
  struct pollfd wait = {.fd = *(int *)cookie, .events = POLLOUT};
  size_t written = 0;
  while (written < size) {
    const ssize_t count = write(wait.fd, bytes + written, size - written);
    if (count >= 0)
      written += (size_t)count;
    else if (errno == EAGAIN)
      poll(&wait, 1, -1); /* whatever it says, write says it better */
    else if (errno != EINTR)
      return 0;
  }
  return (ssize_t)written;
}

static FILE *waiting(int *file, FILE *otherwise, int buffering) {
  FILE *stream = fopencookie(file, "w", (cookie_io_functions_t){.write = write_all});
  if (!stream) return otherwise;
  setvbuf(stream, NULL, buffering, BUFSIZ);
  return stream;
}

void standard_output_open(void) {
  stdout = waiting(&output, stdout, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
  stderr = waiting(&error_output, stderr, _IOLBF);
}

bool standard_output_flush(Error *error) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return true;
  return error_set(error, "cannot write to standard output: %s", strerror(errno));
}
