/* Tests output.c. A new file must replace the old one, keep its mode and leave no temporary file.
   A full pipe must lose no line. tests/scenarios/output.sh tests links and paths of one file. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include <fcntl.h>
#include <time.h>

#include "base/output.h"
#include "support/folder.h"
#include "support/process.h"

enum { NOBODY = 65534 };

static void assert_has(const char *path, const char *text) {
  assert_string_equal(folder_read(path), text);
}

static void assert_mode(const char *path, mode_t mode) {
  struct stat status;
  assert_int_equal(lstat(path, &status), 0);
  assert_int_equal(status.st_mode & 07777, mode);
}

static void set_mode(const char *path, mode_t mode) {
  assert_int_equal(chmod(path, mode), 0);
}

static void start(AtomicFile *output, const char *path, const char *text) {
  OK(atomic_file_open(output, path, &error));
  fputs(text, output->file);
  fflush(output->file);
}

static bool save(const char *path, const char *text) {
  AtomicFile output;
  if (!atomic_file_open(&output, path, &error)) return false;
  fputs(text, output.file);
  return atomic_file_close(&output, true, &error);
}

/* Checks that a write to the path fails for this reason, and that atomic_file_probe() gives the
   same reason. For root, the check runs as another user, since root may write everywhere. */
static void refuse(const char *path, const char *reason) {
  const char *expected = text_printf("cannot write %s: %s", path, reason);
  const uid_t user = geteuid();
  if (user == 0) assert_int_equal(seteuid(NOBODY), 0);
  for (int probe = 0; probe < 2; probe++) {
    error.text[0] = '\0';
    if (probe ? atomic_file_probe(path, &error) : save(path, "new")) fail_msg("%s", path);
    assert_string_equal(error.text, expected);
  }
  if (user == 0) assert_int_equal(seteuid(user), 0);
}

IN_FOLDER(old_or_new) {
  AtomicFile output;
  folder_write("a", "old");
  start(&output, "a", "new");
  assert_has("a", "old");
  OK(atomic_file_close(&output, true, &error));
  assert_has("a", "new");
  start(&output, "a", "newer");
  assert_false(atomic_file_close(&output, false, &error));
  assert_has("a", "new");
  assert_files(1);
}

/* A new file has the mode of the old file. While the new file is written, users who may not read
   the old file cannot read the new one either. */
IN_FOLDER(mode_is_kept) {
  AtomicFile output;
  struct stat status;
  folder_write("a", "old");
  foreach (mode, VALUES(mode_t, 0600, 0640, 0755, 0666)) {
    set_mode("a", *mode);
    start(&output, "a", "new");
    assert_int_equal(fstat(fileno(output.file), &status), 0);
    assert_int_equal(status.st_mode & 0777 & ~*mode, 0);
    assert_true(atomic_file_close(&output, true, &error));
    assert_mode("a", *mode);
  }
  const mode_t old = umask(027);
  OK(atomic_file_probe("b", &error) && save("b", "new"));
  assert_has("b", "new");
  umask(old);
  assert_mode("b", 0640);
}

/* ---- what cannot be written ---------------------------------------------------------------- */

IN_FOLDER(read_only) {
  folder_write("a", "old");
  if (geteuid() == 0) assert_int_equal(chown("a", NOBODY, NOBODY), 0);
  set_mode("a", 0444);
  assert_int_equal(symlink("a", "link"), 0);
  set_mode(folder, 0777);
  refuse("a", "Permission denied");
  refuse("link", "Permission denied");
  assert_has("a", "old");
  set_mode("a", 0666);
  set_mode(folder, 0555);
  refuse("a", "Permission denied");
  refuse("new", "Permission denied");
  set_mode(folder, 0755);
  assert_files(2);
}

/* Many files can be open at a time, and all are complete in the end. After a file is closed,
   another file can be opened. */
IN_FOLDER(many_at_a_time) {
  enum { MANY = 100 };
  static AtomicFile outputs[MANY];
  for (int round = 0; round < 2; round++) {
    int count = 0;
    while (count < MANY && atomic_file_open(&outputs[count], "a", &error)) count++;
    assert_in_range(count, 6, MANY - 1);
    assert_in(error.text, "Too many open files");
    for (int i = 0; i < count; i++) fprintf(outputs[i].file, "number %d", i);
    for (int i = 0; i < count; i++) {
      assert_int_equal(atomic_file_close(&outputs[i], i % 2, &error), i % 2);
      if (i > 0) assert_has("a", text_printf("number %d", i - !(i % 2)));
    }
    assert_files(1);
  }
}

/* ---- standard output and error ------------------------------------------------------------- */

enum { LINES = 20000, LINE = 32, CAPACITY = 4096 };

static int print_lines(void *ends, Error *why) {
  if (dup2(((int *)ends)[1], STDOUT_FILENO) < 0) return 2;
  standard_output_open();
  for (int i = 0; i < LINES; i++) printf("line %-*d\n", LINE - 6, i);
  return !standard_output_flush(why);
}

/* All lines arrive, even if standard output is a small, non-blocking pipe with a slow reader. */
TEST(every_line_arrives) {
  int ends[2];
  FILE *lines = text_open();
  for (int i = 0; i < LINES; i++) fprintf(lines, "line %-*d\n", LINE - 6, i);
  const char *expected = text_close(lines);
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, CAPACITY), CAPACITY);
  assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(print_lines(ends, &error));
  close(ends[1]);
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  FILE *output = fdopen(ends[0], "r");
  assert_string_equal(read_rest(output).bytes, expected);
  fclose(output);
  assert_int_equal(process_status(child), 0);
}
