#include "support/test.h"
#include "support/program.h"

#include <fcntl.h>
#include <inttypes.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/folder.h"
#include "base/random.h"

Program program;

char program_called[4200];

static char before[4096];

int program_open(void **state) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP}; /* a shell may have them ignored */
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], SIG_DFL);
  assert_non_null(getcwd(before, sizeof before));
  snprintf(program_called, sizeof program_called, "%s/" PROGRAM_FOLDER "/mlp-train", before);
  folder_open(state);
  assert_int_equal(chdir(folder), 0);
  program_write_csv("train.csv", 300, 0);
  program_write_csv("test.csv", 50, 0);
  return 0;
}

int program_close(void **state) {
  assert_int_equal(chdir(before), 0);
  return folder_close(state);
}

void program_write_csv(const char *name, int rows, int bad) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  for (int row = 0; row < rows; row++) {
    const uint32_t a = random_words(1, 0, (uint64_t)row).word[0] % 256;
    fprintf(file, "%d,%" PRIu32 ",%" PRIu32 "\n", row + 1 == bad ? 99 : a >= 128, a,
            a >= 128 ? a - 100 : a + 100);
  }
  assert_int_equal(fclose(file), 0);
}

void program_write_digits(const char *name, DigitsSeries series, int rows, bool labelled) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  for (int row = 0; row < rows; row++) {
    uint8_t pixels[DIGITS_PIXELS];
    const int label = digits_draw(1, series, (uint64_t)row, pixels);
    if (labelled) fprintf(file, "%d,", label);
    for (int i = 0; i < DIGITS_PIXELS; i++)
      fprintf(file, "%d%c", pixels[i], i + 1 < DIGITS_PIXELS ? ',' : '\n');
  }
  assert_int_equal(fclose(file), 0);
}

/* ---- files -------------------------------------------------------------------------------- */

char *program_read(const char *name, size_t *size) {
  FILE *file = fopen(name, "rb");
  if (!file) fail_msg("there is no file %s", name);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long length = ftell(file);
  assert_true(length >= 0);
  rewind(file);
  char *text = malloc((size_t)length + 1);
  assert_non_null(text);
  assert_int_equal(fread(text, 1, (size_t)length, file), length);
  fclose(file);
  text[length] = '\0';
  if (size) *size = (size_t)length;
  return text;
}

void program_same_files(const char *name, const char *other) {
  size_t size, other_size;
  char *a = program_read(name, &size), *b = program_read(other, &other_size);
  if (size != other_size || memcmp(a, b, size) != 0) fail_msg("%s is not %s", name, other);
  free(a);
  free(b);
}

static void read_text(const char *name, char *text, size_t size) {
  char *all = program_read(name, NULL);
  assert_true(strlen(all) < size);
  strcpy(text, all);
  free(all);
}

/* ---- the process -------------------------------------------------------------------------- */

/* In the child. */
static void redirect(int target, const char *name) {
  const int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, target) < 0) _exit(127);
}

pid_t program_start(const char *output, const char *const *arguments) {
  enum { MOST = 512 };
  char *argv[MOST + 2] = {program_called};
  size_t count = 0;
  while (arguments[count]) count++;
  assert_in_range(count, 0, MOST);
  memcpy(argv + 1, arguments, count * sizeof *argv);
  unlink(PROGRAM_OUT); /* what an earlier one printed is not this one's */
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    int ends[2];
    redirect(STDERR_FILENO, "err");
    if (output)
      redirect(STDOUT_FILENO, output);
    else if (pipe(ends) != 0 || close(ends[0]) != 0 || dup2(ends[1], STDOUT_FILENO) < 0)
      _exit(127);
    execv(program_called, argv);
    _exit(127);
  }
  return child;
}

void program_end(pid_t process, const char *output) {
  int status;
  assert_int_equal(waitpid(process, &status, 0), process);
  program.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  read_text("err", program.error, sizeof program.error);
  program.out[0] = '\0';
  if (output && strcmp(output, PROGRAM_OUT) == 0)
    read_text(PROGRAM_OUT, program.out, sizeof program.out);
  if (program.status == 127) fail_msg("%s cannot be started", program_called);
}

/* Whole lines of the file that begin with `start`. */
static int count_starts(const char *name, const char *start) {
  if (access(name, F_OK) != 0) return 0;
  char *text = program_read(name, NULL);
  int count = 0;
  for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
    count += strncmp(line, start, strlen(start)) == 0;
  free(text);
  return count;
}

void program_run_on_pipe(const char *const *arguments) {
  assert_int_equal(mkfifo("fifo", 0600), 0);
  const pid_t process = program_start(PROGRAM_OUT, arguments);
  FILE *pipe = fopen("fifo", "w");
  assert_non_null(pipe);
  fputs("1,2,1\n0,1,2\n", pipe);
  fclose(pipe);
  program_end(process, PROGRAM_OUT);
}

bool program_printed(pid_t process, const char *start, int count) {
  const struct timespec millisecond = {.tv_nsec = 1000000};
  for (;;) {
    siginfo_t ended = {0};
    assert_int_equal(waitid(P_PID, (id_t)process, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    if (count_starts(PROGRAM_OUT, start) >= count) return true;
    if (ended.si_pid == process) return false;
    nanosleep(&millisecond, NULL);
  }
}

/* ---- what it printed ---------------------------------------------------------------------- */

void program_said(const char *expected) {
  if (!strstr(program.error, expected))
    fail_msg("\"%s\" does not say \"%s\"", program.error, expected);
}

void program_failed(int status, const char *expected) {
  program_said(expected);
  assert_int_equal(program.status, status);
  assert_memory_equal(program.error, "mlp-train: ", 11);
  assert_ptr_equal(strchr(program.error, '\n') + 1, program.error + strlen(program.error));
}

int program_lines(const char *pattern) {
  regex_t regex;
  int count = 0;
  assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
  static char copy[sizeof program.out];
  strcpy(copy, program.out);
  for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n"))
    count += regexec(&regex, line, 0, NULL, 0) == 0;
  regfree(&regex);
  return count;
}

/* ---- what it saved ------------------------------------------------------------------------ */

Checkpoint program_checkpoint(const char *path) {
  Checkpoint saved;
  Error error;
  if (!checkpoint_load(&saved, path, &error)) fail_msg("%s", error.text);
  return saved;
}

void program_same_networks(const char *path, const char *other) {
  Checkpoint a = program_checkpoint(path), b = program_checkpoint(other);
  assert_int_equal(a.network.floats, b.network.floats);
  assert_memory_equal(a.parameters, b.parameters, a.network.floats * sizeof *a.parameters);
  assert_memory_equal(a.momentum, b.momentum, a.network.floats * sizeof *a.momentum);
  assert_true(a.test_accuracy == b.test_accuracy);
  assert_true(a.best_accuracy == b.best_accuracy);
  assert_int_equal(a.best_epoch, b.best_epoch);
  checkpoint_free(&a);
  checkpoint_free(&b);
}
