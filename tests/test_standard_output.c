/* Standard output and error into a pipe that is full: nothing is lost. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/output.h"
#include "support/test.h"
#include "support/process.h"

enum { LINES = 20000, LINE = 32 }; /* ten times what a pipe takes */

/* The child's work; its exit status. */
typedef int Work(void);

static int print_and_flush(void) {
  Error error = {.text = ""};
  standard_output_open();
  for (int i = 0; i < LINES; i++) {
    printf("line %-*d\n", LINE - 6, i);
    if (i % 7 == 0 && !standard_output_flush(&error)) return 1;
  }
  return standard_output_flush(&error) ? 0 : 1;
}

static int print_lines(bool to_error) {
  standard_output_open();
  for (int i = 0; i < LINES; i++) fprintf(to_error ? stderr : stdout, "line %-*d\n", LINE - 6, i);
  return 0;
}

static int print_and_exit(void) {
  return print_lines(false);
}

static int complain(void) {
  return print_lines(true);
}

/* 0 if the failure is told, and told again. */
static int print_for_nobody(void *unused, Error *error) {
  (void)unused;
  int ends[2];
  signal(SIGPIPE, SIG_IGN);
  if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0 || close(ends[1]) != 0 ||
      close(ends[0]) != 0)
    return 2;
  standard_output_open();
  puts("line");
  for (int i = 0; i < 2; i++)
    if (standard_output_flush(error) ||
        strcmp(error->text, "cannot write to standard output: Broken pipe") != 0)
      return 1;
  return 0;
}

/* Forks, with the non-blocking end of a pipe for standard output and error. */
static pid_t start(Work *work, int *read_end) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    close(ends[0]);
    if (dup2(ends[1], STDOUT_FILENO) < 0 || dup2(ends[1], STDERR_FILENO) < 0) _exit(126);
    const int status = work();
    _exit(fflush(NULL) == 0 ? status : 125);
  }
  close(ends[1]);
  *read_end = ends[0];
  return child;
}

/* Reads late, then a little at a time. */
static void check(Work *work) {
  int file;
  const pid_t child = start(work, &file);
  const struct timespec late = {.tv_nsec = 20000000};
  nanosleep(&late, NULL);
  FILE *lines = fdopen(file, "r");
  assert_non_null(lines);
  setvbuf(lines, NULL, _IOFBF, 1000);
  char line[2 * LINE], expected[2 * LINE];
  for (int i = 0; i < LINES; i++) {
    snprintf(expected, sizeof expected, "line %-*d\n", LINE - 6, i);
    if (!fgets(line, sizeof line, lines)) fail_msg("there are %d lines", i);
    assert_string_equal(line, expected);
  }
  assert_null(fgets(line, sizeof line, lines));
  fclose(lines);
  assert_int_equal(process_status(child), 0);
}

TEST(every_line_arrives) {
  static Work *const works[] = {print_and_flush, print_and_exit, complain};
  foreach (work, works) check(*work);
}

/* Into a pipe that is full: every byte of --help, as from a file. */
TEST(test_program) {
  enum { CAPACITY = 4096, SIZE = 1 << 16 };
  static char expected[SIZE], got[SIZE], before[CAPACITY];
  assert_int_equal(process_run(expected, SIZE, PROGRAM_FOLDER "/mlp-train --help"), 0);
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, CAPACITY), CAPACITY);
  assert_int_equal(write(ends[1], before, CAPACITY), CAPACITY);
  assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (close(ends[0]) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) _exit(126);
    execl(PROGRAM_FOLDER "/mlp-train", "mlp-train", "--help", (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  const struct timespec late = {.tv_nsec = 50000000};
  nanosleep(&late, NULL);
  FILE *output = fdopen(ends[0], "r");
  assert_non_null(output);
  assert_int_equal(fread(before, 1, CAPACITY, output), CAPACITY);
  assert_int_equal(fread(got, 1, SIZE - 1, output), strlen(expected));
  fclose(output);
  assert_int_equal(process_status(child), 0);
  assert_string_equal(got, expected);
}

TEST(test_failure) {
  assert_int_equal(process_do(print_for_nobody, NULL).status, 0);
}
