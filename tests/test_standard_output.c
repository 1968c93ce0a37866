/* Standard output and error into a pipe that is full: nothing is lost. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "base/output.h"
#include "support/process.h"

enum { LINES = 20000, LINE = 32, CAPACITY = 4096 };

/* The child's work; its exit status. */
typedef int Work(void);

static FILE **stream; /* that is printed to; NULL: standard output, which is flushed */

static int print_lines(void) {
  standard_output_open();
  for (int i = 0; i < LINES; i++) {
    fprintf(stream ? *stream : stdout, "line %-*d\n", LINE - 6, i);
    if (!stream && i % 7 == 0 && !standard_output_flush(&error)) return 1;
  }
  return !stream && !standard_output_flush(&error);
}

static int run_help(void) {
  return execl(PROGRAM_FOLDER "/mlp-train", "mlp-train", "--help", (char *)NULL);
}

/* 0 if the failure is told, and told again. */
static int print_for_nobody(void *unused, Error *why) {
  (void)unused;
  int ends[2];
  signal(SIGPIPE, SIG_IGN);
  if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0 || close(ends[1]) != 0 ||
      close(ends[0]) != 0)
    return 2;
  standard_output_open();
  puts("line");
  for (int i = 0; i < 2; i++)
    if (standard_output_flush(why) ||
        strcmp(why->text, "cannot write to standard output: Broken pipe") != 0)
      return 1;
  return 0;
}

/* Forks, with the non-blocking end of a pipe that takes little for standard output and error. Reads
   late, then a little at a time: it must be that text, and the status 0. */
static void check(Work *work, const char *expected) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, CAPACITY), CAPACITY);
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
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  FILE *output = fdopen(ends[0], "r");
  assert_non_null(output);
  setvbuf(output, NULL, _IOFBF, 1000);
  assert_string_equal(read_rest(output).bytes, expected);
  fclose(output);
  assert_int_equal(process_status(child), 0);
}

TEST(every_line_arrives) {
  FILE *lines = text_open();
  for (int i = 0; i < LINES; i++) fprintf(lines, "line %-*d\n", LINE - 6, i);
  const char *expected = text_close(lines);
  foreach (to, VALUES(FILE **, NULL, &stdout, &stderr)) {
    stream = *to;
    check(print_lines, expected);
  }
}

/* Every byte of --help, as from a file. */
TEST(test_program) {
  char *help;
  assert_int_equal(process_run(PROGRAM_FOLDER "/mlp-train --help", &help), 0);
  assert_true(strlen(help) > CAPACITY);
  check(run_help, help);
}

TEST(test_failure) {
  assert_int_equal(process_do(print_for_nobody, NULL).status, 0);
}
