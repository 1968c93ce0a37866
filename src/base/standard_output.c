#include "base/standard_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/output_stream.h"

void standard_output_open(void) {
  FILE *output = output_stream_open(STDOUT_FILENO, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
  FILE *error_output = output_stream_open(STDERR_FILENO, _IOLBF);
  if (output) stdout = output;
  if (error_output) stderr = error_output;
}

bool standard_output_flush(Error *error) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return true;
  const bool unread = errno == EPIPE;
  error_set(error, "cannot write to standard output: %s", strerror(errno));
  if (error) error->unread = unread;
  return false;
}
