/* same_file.c: which paths are the same file, those that are not there yet among them. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/same_file.h"
#include "support/test.h"
#include "support/folder.h"

static Error error;

static void touch(const char *path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  assert_true(file >= 0);
  close(file);
}

static void link_to(const char *target, const char *name) {
  assert_int_equal(symlink(target, name), 0);
}

/* a.csv under other names, links to a file yet to come, and what is not a file. */
static int open_files(void **state) {
  folder_open(state);
  assert_int_equal(chdir(folder), 0);
  touch("a.csv");
  touch("b.csv");
  assert_int_equal(link("a.csv", "hard.csv"), 0);
  link_to("a.csv", "soft.csv");
  link_to("soft.csv", "softer.csv");
  assert_int_equal(mkdir("sub", 0700), 0);
  link_to("../a.csv", "sub/up.csv");
  link_to("sub", "other-sub");
  link_to("sub/new", "to-new");
  link_to("to-new", "to-to-new");
  link_to("/dev/null", "nothing");
  link_to("circle", "circle");
  assert_int_equal(mkfifo("pipe", 0600), 0);
  return 0;
}

static int close_files(void **state) {
  assert_int_equal(chdir("/"), 0);
  return folder_close(state);
}

/* Whether they are the same, one after the other and the other way round. */
static bool same(const char *a, bool a_written, const char *b, bool b_written) {
  const NamedFile files[] = {{"--first", a, a_written}, {"--second", b, b_written}};
  const NamedFile swapped[] = {files[1], files[0]};
  const bool is_same = !same_file_check(files, 2, &error);
  assert_int_equal(!same_file_check(swapped, 2, NULL), is_same);
  return is_same;
}

TESTS_WITH(open_files, close_files);

TEST(existing_files) {
  static const char *const names[] = {"a.csv",    "./a.csv",    "sub/../a.csv", "hard.csv",
                                      "soft.csv", "softer.csv", "sub/up.csv",   "sub//up.csv"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!same("a.csv", false, names[i], true)) fail_msg("%s is not a.csv", names[i]);
    assert_true(same(names[i], true, "a.csv", true));
    assert_false(same("a.csv", false, names[i], false));
    assert_false(same("b.csv", false, names[i], true));
    assert_false(same("b.csv", true, names[i], true));
  }
  assert_true(same("a.csv", true, folder_path("a.csv"), false));
}

TEST(files_yet_to_come) {
  static const char *const names[] = {"sub/new",        "./sub/new", "other-sub/new",
                                      "sub/../sub/new", "to-new",    "to-to-new"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!same("sub/new", true, names[i], true)) fail_msg("%s is not sub/new", names[i]);
    assert_true(same("sub/new", false, names[i], true));
    assert_false(same("sub/new", false, names[i], false));
    assert_false(same("new", true, names[i], true));
    assert_false(same("sub/newer", true, names[i], true));
    assert_false(same("a.csv", true, names[i], true));
  }
  assert_int_not_equal(access("sub/new", F_OK), 0);
}

TEST(devices_and_pipes) {
  assert_false(same("/dev/null", false, "/dev/null", true));
  assert_false(same("/dev/null", true, "nothing", true));
  assert_true(same("pipe", false, "pipe", true));
  assert_true(same("pipe", true, "./pipe", true));
  int ends[2];
  char in[32], out[32];
  assert_int_equal(pipe(ends), 0);
  snprintf(in, sizeof in, "/dev/fd/%d", ends[0]);
  snprintf(out, sizeof out, "/dev/fd/%d", ends[1]);
  assert_true(same(in, false, out, true)); /* the process would wait for itself */
  close(ends[0]);
  close(ends[1]);
}

/* Standard input and output, which may be any file. */
TEST(streams) {
  const int input = dup(STDIN_FILENO), output = dup(STDOUT_FILENO);
  const int file = open("a.csv", O_RDWR | O_APPEND);
  assert_true(input >= 0 && output >= 0 && file >= 0);
  fflush(stdout);
  dup2(file, STDIN_FILENO);
  dup2(file, STDOUT_FILENO);
  const bool all = same("-", false, "hard.csv", true) && same("a.csv", false, "-", true) &&
                   same("/dev/stdin", false, "a.csv", true) &&
                   same("a.csv", false, "/dev/stdout", true) &&
                   same("-", false, "/dev/fd/1", true) && same("-", true, "/dev/stdout", true);
  const bool none = !same("-", false, "b.csv", true) && !same("-", true, "b.csv", false);
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  const bool nothing = !same("-", false, "-", true) && !same("-", true, "/dev/stdout", true);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  for (int i = 0; i < 4; i++) close((const int[]){input, output, file, null}[i]);
  assert_true(all);
  assert_true(none);
  assert_true(nothing);
}

/* Whoever opens these says what is wrong with them. */
TEST(paths_that_lead_nowhere) {
  static const char *const names[] = {"circle", "a.csv/new", "none/new", "/dev/fd/9999", "", NULL};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    assert_false(same(names[i], true, names[i], true));
}

TEST(the_sentence) {
  const NamedFile files[] = {{"--config", "b.csv", false}, {"--train", "a.csv", false},
                             {"--test", "a.csv", false},   {"--save", "", true},
                             {"--log", "run", true},       {"--plot", "sub/up.csv", true}};
  assert_true(same_file_check(files, 5, &error));
  assert_false(same_file_check(files, 6, &error));
  assert_string_equal(error.text, "--train a.csv and --plot sub/up.csv are the same file: give one "
                                  "of them another name");
}
