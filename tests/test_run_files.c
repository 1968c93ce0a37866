/* The files that a run names: no output destroys an input, and none costs an epoch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "support/program.h"

static int open_folder(void **state) {
  program_open(state);
  RUN_WELL(TINY, "--epochs", "1", "--save", "net");
  assert_int_equal(link("train.csv", "hard.csv"), 0);
  assert_int_equal(symlink("train.csv", "soft.csv"), 0);
  assert_int_equal(symlink("new.st", "dangling"), 0);
  return 0;
}

TESTS_WITH(open_folder, program_close);

/* Each of them, once, would have ended with a file gone. */
TEST(no_output_destroys_an_input) {
  static const char *const runs[][8] = {
      {"--log", "train.csv"},
      {"--save", "train.csv"},
      {"--plot", "test.csv"},
      {"--mistakes", "./train.csv"},
      {"--confusion", "hard.csv"},
      {"--weights", "soft.csv"},
      {"--save", "new", "--plot", "new"},
      {"--save", "new.st", "--confusion", "dangling"},
      {"--log", "new.csv", "--resume", "net", "--epochs", "2", "--save", "./new.csv"},
      {"--resume", "net", "--epochs", "2", "--plot", "net"},
      {"--load", "net", "--predict", "test.csv", "--output", "net"},
      {"--load", "net", "--predict", "test.csv", "--output", "./test.csv"},
      {"--load", "net", "--evaluate", "--mistakes", "test.csv"},
  };
  char *train = program_read("train.csv", NULL), *test = program_read("test.csv", NULL);
  size_t size, after;
  char *net = program_read("net", &size);
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    const char *const *r = runs[i];
    RUN(TINY, r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]);
    if (program.status != 2) fail_msg("run %zu: %s", i, program.error);
    program_said(" are the same file: give one of them another name");
    assert_string_equal(program.out, "");
    char *now[] = {program_read("train.csv", NULL), program_read("test.csv", NULL),
                   program_read("net", &after)};
    assert_string_equal(now[0], train);
    assert_string_equal(now[1], test);
    assert_int_equal(after, size);
    assert_memory_equal(now[2], net, size);
    for (int n = 0; n < 3; n++) free(now[n]);
    assert_int_equal(access("new", F_OK), -1);
    assert_int_equal(access("new.st", F_OK), -1);
  }
  free(train);
  free(test);
  free(net);
}

/* They are said once, and what was trained is saved. */
TEST(what_cannot_be_written_costs_no_epoch) {
  assert_int_equal(symlink("/dev/full", "full.jsonl"), 0);
  assert_int_equal(symlink("/dev/full", "full.png"), 0);
  RUN(TINY, "--epochs", "3", "--log", "full.jsonl", "--save", "whole.st");
  program_failed(1, "cannot write the log full.jsonl: No space left on device");
  assert_int_equal(program_lines("^epoch "), 3);
  assert_int_equal(program_lines("^total "), 1);
  RUN_WELL(TINY, "--epochs", "3", "--save", "twin.st");
  program_same_files("whole.st", "twin.st");
  RUN(TINY, "--epochs", "3", "--plot", "full.png", "--save", "drawn.st");
  program_failed(1, "full.png");
  assert_int_equal(program_lines("^total "), 1);
  program_same_files("drawn.st", "twin.st");
}

TEST(a_closed_output_does_not_cost_the_network) {
  RUN_WELL(TINY, "--epochs", "3", "--save", "twin.st");
  program_end(program_start("/dev/full", (const char *const[]){TINY, "--epochs", "3", "--save",
                                                               "muted.st", NULL}),
              NULL);
  program_failed(1, "cannot write to standard output: No space left on device");
  program_same_files("muted.st", "twin.st");
  program_end(program_start("/dev/full", (const char *const[]){TINY, "--epochs", "1000000", NULL}),
              NULL); /* nobody would get anything of it */
  program_failed(1, "cannot write to standard output");
}

TEST(places_are_tried_before_training) {
  static const char *const options[] = {"--save", "--plot", "--weights", "--mistakes",
                                        "--confusion"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    RUN(TINY, options[i], i == 0 ? "none/x.st" : "none/x.png");
    program_failed(1, ": its folder does not exist");
    assert_string_equal(program.out, "");
  }
  RUN(TINY, "--save", "-");
  assert_int_equal(program.status, 2);
  program_said("--save cannot write to standard output: give it the name of a file");
  RUN(TINY, "--log", "none/x.jsonl");
  program_failed(1, "its folder does not exist");
  assert_string_equal(program.out, "");
}

TEST(an_old_log_outlives_a_run_that_fails) {
  RUN_WELL(TINY, "--epochs", "1", "--log", "run.jsonl");
  char *before = program_read("run.jsonl", NULL);
  program_write_csv("bad.csv", 300, 7);
  RUN(TINY, "--train", "bad.csv", "--log", "run.jsonl");
  program_failed(1, "bad.csv");
  char *after = program_read("run.jsonl", NULL);
  assert_string_equal(after, before);
  free(after);
  RUN_WELL(TINY, "--epochs", "1", "--save", "part.st", "--log", "run.jsonl");
  char *first = program_read("run.jsonl", NULL);
  RUN_WELL("--resume", "part.st", "--epochs", "2", "--log", "run.jsonl");
  after = program_read("run.jsonl", NULL);
  assert_int_equal(strncmp(after, first, strlen(first)), 0);
  assert_true(strlen(after) > strlen(first));
  free(after);
  free(first);
  free(before);
}

/* Whether it is the last one, or the one after which the run stops early. */
TEST(quiet_prints_the_last_epoch) {
  RUN_WELL(TINY, "--quiet", "--epochs", "1000", "--early-stop", "2");
  assert_int_equal(program_lines("^epoch "), 1);
}
