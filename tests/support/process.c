#include "support/test.h"
#include "support/process.h"

#include <sys/wait.h>

int process_run(char *output, size_t size, const char *format, ...) {
  char command[4096] = "exec 2>&1; ";
  const size_t start = strlen(command);
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(command + start, sizeof command - start, format, arguments);
  va_end(arguments);
  assert_in_range(length, 1, sizeof command - start - 1);

  FILE *stream = popen(command, "r");
  assert_non_null(stream);
  const size_t got = fread(output, 1, size - 1, stream);
  output[got] = 0;
  while (fgetc(stream) != EOF) continue; /* more than fits must not block the process */
  const int status = pclose(stream);
  assert_int_not_equal(status, -1);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

size_t process_longest_line(const char *text) {
  size_t longest = 0;
  while (*text) {
    const size_t length = strcspn(text, "\n");
    if (length > longest) longest = length;
    text += length + (text[length] == '\n');
  }
  return longest;
}
