/* A file several times as long, streamed: the same memory; and from a file, a pipe and an archive
   the same rows. $STREAM_ROWS rows and $STREAM_TIMES as many; `make stream` takes as many as MNIST
   has, and ten times that. */
#define _DEFAULT_SOURCE /* wait4 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"
#include "support/folder.h"

/* More rows than are ever read ahead. */
enum { ROWS = 20000, TIMES = 3 };
/* MB; the pixels of 2 * ROWS are 31. */
enum { MORE_MEMORY = 16 };

/* Runs a shell command in the folder, from which the programs are $P/mlp-train; its peak memory in
   MB, 2^20 bytes. */
static double run(const char *command) {
  struct rusage usage;
  int status;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    char programs[PATH_MAX];
    if (!realpath(PROGRAM_FOLDER, programs) || setenv("P", programs, 1) != 0 || chdir(folder) != 0)
      _exit(126);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  assert_int_equal(wait4(child, &status, 0, &usage), child);
  if (status != 0) fail_msg("%s: status %d", command, status);
  return (double)usage.ru_maxrss / 1024;
}

static unsigned long number(const char *name, unsigned long other) {
  const char *text = getenv(name);
  return text ? strtoul(text, NULL, 10) : other;
}

static void draw(const char *name, unsigned long rows) {
  char command[256];
  snprintf(command, sizeof command,
           "mkdir %s && \"$P\"/mlp-digits --output-dir %s --train-rows %lu --test-rows 100 >%s/out",
           name, name, rows, name);
  run(command);
}

#define TRAIN                                                                                      \
  "exec \"$P\"/mlp-train --device cpu --threads 2 --epochs 1 --resident no --hidden 16 --quiet "   \
  "--test one/digits_test.csv >out --train "

/* The line of the epoch as far as its accuracies: times follow. */
static char *result(void) {
  char path[PATH_MAX], line[512] = "";
  snprintf(path, sizeof path, "%s/out", folder);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (strncmp(line, "epoch ", 6) != 0) assert_non_null(fgets(line, sizeof line, file));
  fclose(file);
  char *end = strrchr(line, '%');
  assert_non_null(end);
  end[1] = '\0';
  char *copy = strdup(line);
  assert_non_null(copy);
  return copy;
}

TESTS_WITH(folder_open, folder_close);

TEST(test_stream) {
  const unsigned long rows = number("STREAM_ROWS", ROWS), times = number("STREAM_TIMES", TIMES);
  draw("one", rows);
  draw("many", rows * times);
  const double one = run(TRAIN "one/digits_train.csv");
  const double many = run(TRAIN "many/digits_train.csv");
  print_message("%lu rows: %.1f MB; %lu rows: %.1f MB\n", rows, one, rows * times, many);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  assert_true(many <= one + MORE_MEMORY); /* a sanitizer keeps what was freed */
#endif
  char *file = result();
  run("cat many/digits_train.csv | (" TRAIN "-)");
  char *pipe = result();
  run("gzip -1 <many/digits_train.csv >many.csv.gz && " TRAIN "many.csv.gz");
  char *archive = result();
  print_message("%s\n", file);
  assert_string_equal(pipe, file);
  assert_string_equal(archive, file);
  free(file);
  free(pipe);
  free(archive);
}
