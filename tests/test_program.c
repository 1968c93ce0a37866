/* mlp-train as a process: exit codes, messages, and output that scripts can read. Only the CPU
   is used. The Makefile builds the program first and says in which folder it is. */
#include <fcntl.h>
#include <inttypes.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process.h"
#include "random.h"

static char *folder, program[4200], train_path[4200], test_path[4200], out_path[4200],
    error_path[4200];

/* Rows of two pixels, labelled 1 where the first is the brighter; a bad one at line `bad`, 0: none.
 */
static void write_csv(const char *path, int rows, int bad) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int row = 0; row < rows; row++) {
    const uint32_t a = random_words(1, 0, (uint64_t)row).word[0] % 256;
    fprintf(file, "%d,%" PRIu32 ",%" PRIu32 "\n", row + 1 == bad ? 99 : a >= 128, a,
            a >= 128 ? a - 100 : a + 100);
  }
  assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state) {
  (void)state;
  char here[4096];
  assert_non_null(getcwd(here, sizeof here));
  snprintf(program, sizeof program, "%s/" PROGRAM_FOLDER "/mlp-train", here);
  folder = process_folder();
  snprintf(train_path, sizeof train_path, "%s/train.csv", folder);
  snprintf(test_path, sizeof test_path, "%s/test.csv", folder);
  snprintf(out_path, sizeof out_path, "%s/out", folder);
  snprintf(error_path, sizeof error_path, "%s/err", folder);
  write_csv(train_path, 300, 0);
  write_csv(test_path, 50, 0);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  process_folder_remove(folder);
  return 0;
}

/* ---- running it --------------------------------------------------------------------------- */

enum { MOST_ARGUMENTS = 20 };

static struct {
  int status; /* exit status, -1: ended by a signal */
  char out[16384], error[4096];
} run;

static void read_text(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, size - 1, file)] = '\0';
  assert_true(feof(file));
  fclose(file);
}

/* In the child. */
static void redirect(int target, const char *path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, target) < 0) _exit(127);
}

/* Not process_run, which has one stream for both: runs the program in `folder`. standard_output: a
   file's name, or NULL: a pipe that nobody reads. `arguments` ends with NULL. */
static void run_program(const char *standard_output, const char *const *arguments) {
  static char copies[MOST_ARGUMENTS][4200];
  char *argv[MOST_ARGUMENTS + 2] = {program};
  for (int i = 0; arguments[i]; i++) {
    assert_true(i < MOST_ARGUMENTS);
    argv[i + 1] = strcpy(copies[i], arguments[i]);
  }
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    int ends[2];
    if (chdir(folder) != 0) _exit(127);
    redirect(STDERR_FILENO, error_path);
    if (standard_output)
      redirect(STDOUT_FILENO, standard_output);
    else if (pipe(ends) != 0 || close(ends[0]) != 0 || dup2(ends[1], STDOUT_FILENO) < 0)
      _exit(127);
    execv(program, argv);
    _exit(127);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  read_text(error_path, run.error, sizeof run.error);
  run.out[0] = '\0';
  if (standard_output == out_path) read_text(out_path, run.out, sizeof run.out);
  assert_int_not_equal(run.status, 127);
}

#define RUN(...) run_program(out_path, (const char *const[]){__VA_ARGS__, NULL})
#define TINY                                                                                       \
  "--device", "cpu", "--threads", "1", "--classes", "2", "--hidden", "4", "--batch", "8",          \
      "--train", train_path, "--test", test_path

static void assert_error(const char *expected) {
  if (!strstr(run.error, expected)) fail_msg("\"%s\" does not say \"%s\"", run.error, expected);
}

/* The only thing that was said is one line: what is wrong. */
static void assert_failed(const char *expected) {
  assert_int_equal(run.status, 1);
  assert_error(expected);
  assert_memory_equal(run.error, "mlp-train: ", 11);
  assert_ptr_equal(strchr(run.error, '\n') + 1, run.error + strlen(run.error));
}

/* Lines of the output that match the extended regular expression. */
static int count_lines(const char *pattern) {
  regex_t regex;
  int count = 0;
  assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
  static char copy[sizeof run.out];
  strcpy(copy, run.out);
  for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n"))
    count += regexec(&regex, line, 0, NULL, 0) == 0;
  regfree(&regex);
  return count;
}

#define LOSS " +[0-9]+\\.[0-9]{3,4}"
#define PART " +([0-9]{1,2}\\.[0-9]{2}|100\\.0)%"
#define TIME " +[0-9]+(\\.[0-9]{1,2})? m?s ?"
#define EPOCH(counter)                                                                             \
  "^epoch " counter "  loss" LOSS "  acc" PART "  test-loss" LOSS "  test-acc" PART "  train" TIME \
  "  eval" TIME "  +[0-9]+(\\.[0-9])?[ kMG] img/s$"

/* ---- tests -------------------------------------------------------------------------------- */

static void a_run_prints_what_scripts_can_read(void **state) {
  (void)state;
  RUN(TINY, "--epochs", "12");
  assert_string_equal(run.error, "");
  assert_int_equal(run.status, 0);
  assert_int_equal(count_lines(EPOCH("[ 1][0-9]/12")), 12);
  assert_int_equal(count_lines("^epoch  1/12 "), 1);
  assert_int_equal(count_lines("^epoch 12/12 .*  acc 100.0%.*  test-acc 100.0%  "), 1);
  assert_int_equal(count_lines("^device   CPU.* GiB$"), 1);
  assert_int_equal(count_lines("^network  2-4-2, 22 parameters$"), 1);
  assert_int_equal(count_lines("^fusion   [a-z]+: .+$"), 1);
  assert_int_equal(count_lines("^data     .*train.csv and .*test.csv, resident$"), 1);
  assert_int_equal(
      count_lines("^total    load" TIME "  train" TIME "  eval" TIME "  process" TIME "$"), 1);
  assert_int_equal(count_lines(""), 17);
  assert_null(strpbrk(run.out, "\r\033")); /* no progress bar in a file */
}

static void epoch_lines_are_aligned(void **state) {
  (void)state;
  RUN(TINY, "--epochs", "10");
  size_t length = 0;
  int lines = 0;
  for (char *line = strtok(run.out, "\n"); line; line = strtok(NULL, "\n")) {
    if (strncmp(line, "epoch", 5) != 0) continue;
    if (lines++) assert_int_equal(strlen(line), length);
    length = strlen(line);
  }
  assert_int_equal(lines, 10);
}

static void quiet_prints_the_last_epoch_alone(void **state) {
  (void)state;
  RUN(TINY, "--epochs", "3", "--quiet");
  assert_int_equal(run.status, 0);
  assert_int_equal(count_lines(""), 1);
  assert_int_equal(count_lines(EPOCH("3/3")), 1);
}

static void streaming_runs_too(void **state) {
  (void)state;
  RUN(TINY, "--epochs", "2", "--resident", "no", "--threads", "0");
  assert_int_equal(run.status, 0);
  assert_int_equal(count_lines("^data .*, streamed every epoch$"), 1);
  assert_int_equal(count_lines(EPOCH("[12]/2")), 2);
}

static void help_and_version_succeed(void **state) {
  (void)state;
  RUN("--version");
  assert_int_equal(run.status, 0);
  assert_int_equal(count_lines("^mlp-train [0-9]+\\.[0-9]+\\.[0-9]+$"), 1);
  RUN("--help");
  assert_int_equal(run.status, 0);
  assert_int_equal(count_lines("^Usage: ./mlp-train"), 1);
  assert_int_equal(count_lines("^  -e, --epochs N .*\\[10\\]$"), 1);
  assert_string_equal(run.error, "");
}

static void wrong_usage_exits_2(void **state) {
  (void)state;
  static const struct {
    const char *arguments[3], *says;
  } wrong[] = {
      {{"--bogus"}, "mlp-train: there is no option '--bogus'\n"},
      {{"--epochs"}, "mlp-train: --epochs wants an argument\n"},
      {{"--epochs", "0"}, "mlp-train: --epochs wants a whole number from 1 to 1000000, not '0'\n"},
      {{"stray"}, "'stray'"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    run_program(out_path, wrong[i].arguments);
    assert_int_equal(run.status, 2);
    assert_error(wrong[i].says);
    assert_error("\ntry ./mlp-train --help\n");
    assert_string_equal(run.out, "");
  }
}

static void a_missing_file_is_named_with_ways_to_get_one(void **state) {
  (void)state;
  RUN("--device", "cpu"); /* the folder has no data/ */
  assert_failed("data/mnist_train.csv");
  assert_error("`make data`");
  assert_error("scripts/download_mnist.sh");
  assert_error("./mlp-digits");
  RUN(TINY, "--test", "none.csv");
  assert_failed("there is no file none.csv");
  assert_string_equal(run.out, "");
}

static void bad_files_exit_1(void **state) {
  (void)state;
  write_csv(train_path, 300, 123);
  RUN(TINY);
  assert_failed("train.csv, line 123, column 1: ");
  write_csv(train_path, 300, 0);
  RUN(TINY, "--train", folder);
  assert_failed("is a directory");
  RUN(TINY, "--config", train_path);
  assert_failed("train.csv:1: the line is no [section]");
  RUN(TINY, "--config", "none.conf");
  assert_failed("cannot open none.conf: No such file");
}

static void output_that_cannot_be_written_exits_1(void **state) {
  (void)state;
  const char *const tiny[] = {TINY, NULL}, *const help[] = {"--help", NULL};
  run_program("/dev/full", tiny);
  assert_failed("cannot write to standard output: No space left");
  run_program("/dev/full", help);
  assert_failed("cannot write to standard output: No space left");
  run_program(NULL, tiny);
  assert_failed("cannot write to standard output: Broken pipe");
  run_program(NULL, help);
  assert_failed("cannot write to standard output: Broken pipe");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_prints_what_scripts_can_read),
      cmocka_unit_test(epoch_lines_are_aligned),
      cmocka_unit_test(quiet_prints_the_last_epoch_alone),
      cmocka_unit_test(streaming_runs_too),
      cmocka_unit_test(help_and_version_succeed),
      cmocka_unit_test(wrong_usage_exits_2),
      cmocka_unit_test(a_missing_file_is_named_with_ways_to_get_one),
      cmocka_unit_test(bad_files_exit_1),
      cmocka_unit_test(output_that_cannot_be_written_exits_1),
  };
  return cmocka_run_group_tests_name("program", tests, make_folder, remove_folder);
}
