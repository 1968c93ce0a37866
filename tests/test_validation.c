/* --validation as a user meets it: which rows train, which judge, what is printed, saved and
   resumed, and how files that lack something are refused. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/split.h"
#include "model/checkpoint.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/program.h"

#define TINY_TRAIN                                                                                 \
  "--device", "cpu", "--threads", "1", "--classes", "2", "--hidden", "4", "--batch", "8",          \
      "--train", "train.csv"

/* What --validation 0.2 --seed 1 makes of train.csv, as two files. */
static void write_parts(void) {
  FILE *all = fopen("train.csv", "r"), *held = fopen("held.csv", "w"),
       *rest = fopen("rest.csv", "w");
  char line[64];
  Split split;
  Error error;
  assert_true(all && held && rest);
  assert_true(split_open(&split, 0.2, 1, true, 2, &error));
  while (fgets(line, sizeof line, all)) fputs(line, split_takes(&split, atoi(line)) ? held : rest);
  split_close(&split);
  fclose(all);
  assert_int_equal(fclose(held), 0);
  assert_int_equal(fclose(rest), 0);
}

TESTS_WITH(program_open, program_close);

/* A share is the two files that it stands for, to the bit: no row that judges has trained. */
TEST(a_share_is_two_files) {
  static const char *const residencies[] = {"yes", "no"};
  write_parts();
  for (int i = 0; i < 2; i++) {
    RUN_WELL(TINY_TRAIN, "--test", "none", "--validation", "0.2", "--epochs", "4", "--resident",
             residencies[i], "--save", "share.st");
    assert_int_equal(program_lines("^data +train.csv, 0.2 of it for validation, no test file, "),
                     1);
    RUN_WELL(TINY_TRAIN, "--train", "rest.csv", "--test", "none", "--validation", "held.csv",
             "--epochs", "4", "--resident", residencies[i], "--save", "files.st");
    assert_int_equal(program_lines("^data +rest.csv, held.csv for validation, no test file, "), 1);
    program_same_networks("share.st", "files.st");
  }
}

TEST(none_is_what_it_was) {
  RUN_WELL(TINY, "--epochs", "3", "--save", "a.st");
  RUN_WELL(TINY, "--epochs", "3", "--validation", "0", "--save", "b.st");
  program_same_files("a.st", "b.st");
}

static double last_number(const char *kind, const char *name) {
  char *text = program_read("run.jsonl", NULL), *next = text;
  double number = -1;
  while (*next) {
    char *end = strchr(next, '\n');
    json_t *object = json_loadb(next, (size_t)(end - next), 0, NULL);
    if (strcmp(json_string_value(json_object_get(object, "kind")), kind) == 0)
      number = json_number_value(json_object_get(object, name));
    json_decref(object);
    next = end + 1;
  }
  free(text);
  return number;
}

/* The epochs say val-acc, the last line test accuracy: that of the saved network. */
TEST(test_rows_speak_once) {
  RUN_WELL(TINY, "--epochs", "3", "--validation", "0.2", "--log", "run.jsonl", "--save", "v.st",
           "--plot", "v.png", "--quiet");
  assert_int_equal(program_lines("^epoch "), 1);
  assert_int_equal(program_lines("^test     loss [0-9.]+  acc [0-9.]+%  of 50 rows$"), 1);
  assert_int_equal(program_lines(" val-loss   val-acc "), 1);
  assert_int_equal(program_lines("test-acc"), 0);
  assert_int_equal(program_lines("^.{81}"), 0);
  const double told = last_number("test", "test_accuracy");
  assert_true(last_number("test", "test_rows") == 50);
  assert_true(last_number("epoch", "train_rows") + last_number("epoch", "val_rows") == 300);
  assert_true(last_number("epoch", "val_accuracy") > 0.5);
  assert_true(last_number("epoch", "test_accuracy") == 0); /* null */
  RUN_WELL("--load", "v.st", "--device", "cpu", "--evaluate", "--test", "test.csv");
  char line[64];
  snprintf(line, sizeof line, "%.2f%%", 100 * told);
  if (!strstr(program.out, told == 1 ? "100" : line)) fail_msg("not %s: %s", line, program.out);
}

TEST(resumed_as_if_never_stopped) {
  static const char *const judges[] = {"0.2", "test.csv"}, *const residencies[] = {"yes", "no"};
  for (int i = 0; i < 4; i++) {
    RUN_WELL(TINY, "--validation", judges[i / 2], "--resident", residencies[i % 2], "--epochs", "5",
             "--save", "whole.st");
    RUN_WELL(TINY, "--validation", judges[i / 2], "--resident", residencies[i % 2], "--epochs", "2",
             "--save", "part.st");
    RUN_WELL("--resume", "part.st", "--epochs", "5");
    program_same_networks("whole.st", "part.st");
  }
}

/* Rows that were trained on would judge. */
TEST(other_rows_are_not_held_out) {
  RUN_WELL(TINY, "--validation", "0.2", "--epochs", "1", "--save", "part.st");
  RUN("--resume", "part.st", "--epochs", "2", "--validation", "0.3");
  program_failed(1, "--validation 0.3 would hold out rows that part.st was trained on: continue "
                    "with its --validation");
  RUN("--resume", "part.st", "--epochs", "2", "--seed", "2");
  program_failed(1, "continue with its --seed");
  RUN_WELL("--resume", "part.st", "--epochs", "2", "--validation", "test.csv", "--save", "f.st");
  Checkpoint saved = program_checkpoint("f.st");
  assert_int_equal(saved.best_epoch, 2); /* of these rows */
  checkpoint_free(&saved);
  RUN_WELL("--resume", "part.st", "--epochs", "2", "--validation", "0", "--save", "f.st");
}

/* The last network to resume, the best to use. */
TEST(early_stopping_keeps_the_best) {
  RUN_WELL(TINY, "--validation", "0.2", "--epochs", "1000", "--early-stop", "3", "--save", "e.st");
  Checkpoint last = program_checkpoint("e.st"), best = program_checkpoint("e.st.best");
  char line[128], epochs[16];
  assert_int_equal(last.best_epoch, last.epoch - 3);
  assert_int_equal(best.epoch, last.best_epoch);
  assert_true(best.test_accuracy == last.best_accuracy);
  snprintf(line, sizeof line, "^wrote    e.st: the network after epoch %d, for --resume$",
           last.epoch);
  assert_int_equal(program_lines(line), 1);
  snprintf(line, sizeof line, "^wrote    e.st.best: that after epoch %d, the best, [0-9.]+%%$",
           best.epoch);
  assert_int_equal(program_lines(line), 1);
  snprintf(epochs, sizeof epochs, "%d", best.epoch); /* the network of a run that ended there */
  RUN_WELL(TINY, "--validation", "0.2", "--epochs", epochs, "--save", "b.st");
  program_same_networks("b.st", "e.st.best");
  snprintf(epochs, sizeof epochs, "%d", last.epoch + 1);
  RUN_WELL("--resume", "e.st", "--epochs", epochs, "--early-stop", "0");
  checkpoint_free(&last);
  checkpoint_free(&best);
  RUN(TINY, "--early-stop", "3", "--save", "s", "--train", "s.best");
  assert_int_equal(program.status, 2);
  program_said("are the same file");
}

TEST(without_a_test_file) {
  RUN_WELL(TINY_TRAIN, "--test", "none", "--epochs", "2", "--save", "n.st", "--plot", "n.png",
           "--weights", "w.png", "--log", "run.jsonl");
  assert_int_equal(program_lines("^epoch [12]/2 .*%          -         - "), 2);
  assert_int_equal(program_lines("^wrote "), 4);
  assert_true(last_number("epoch", "test_loss") == 0);
  Checkpoint saved = program_checkpoint("n.st");
  assert_int_equal(saved.best_epoch, 0);
  checkpoint_free(&saved);
  static const char *const refused[][4] = {
      {"--mistakes", "m.png", "--mistakes wants test rows"},
      {"--confusion", "m.png", "--confusion wants test rows"},
      {"--early-stop", "3", "--early-stop wants rows to judge by"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    RUN(TINY_TRAIN, "--test", "none", refused[i][0], refused[i][1]);
    assert_int_equal(program.status, 2);
    program_said(refused[i][2]);
  }
  RUN("--load", "n.st", "--evaluate", "--test", "none");
  assert_int_equal(program.status, 2);
}

/* Kaggle's files: a header, and test rows without labels. */
TEST(a_competition_s_files) {
  folder_write("unlabelled.csv", "pixel0,pixel1\n1,2\n200,100\n");
  RUN(TINY_TRAIN, "--test", "unlabelled.csv");
  program_failed(1, "unlabelled.csv has no label column");
  program_said("--validation 0.1");
  RUN(TINY_TRAIN); /* and nothing in data/ */
  program_failed(1, "there is no test file: --validation 0.1 judges by a tenth of the rows of "
                    "train.csv");
  RUN_WELL(TINY_TRAIN, "--validation", "0.1", "--epochs", "20", "--save", "k.st");
  assert_int_equal(program_lines("^test "), 0);
  RUN_WELL("--load", "k.st", "--device", "cpu", "--predict", "unlabelled.csv", "--output", "k.csv");
  char *text = program_read("k.csv", NULL);
  assert_string_equal(text, "ImageId,Label\n1,0\n2,1\n");
  free(text);
  RUN("--load", "k.st", "--device", "cpu", "--evaluate", "--test", "unlabelled.csv");
  program_failed(1, "unlabelled.csv has no label column");
}

TEST(what_cannot_be_is_refused) {
  RUN(TINY, "--validation", "none.csv");
  program_failed(1, "none.csv does not exist");
  RUN(TINY, "--validation", "0.91");
  assert_int_equal(program.status, 2);
  program_said("--validation must be a share from 0 to 0.9, or the name of a file, not '0.91'");
  RUN(TINY, "--validation", "0.0001");
  program_failed(1, "--validation 0.0001 leaves no row of train.csv to judge by");
  folder_write("three.csv", "1,2,3,4\n");
  RUN(TINY, "--validation", "three.csv");
  program_failed(1, "three.csv has 3 pixels a row but train.csv has 2");
  RUN(TINY, "--validation", "held.csv", "--save", "held.csv");
  assert_int_equal(program.status, 2);
  RUN(TINY, "--validation", "0.1", "--train", "/dev/null");
  program_failed(1, "/dev/null");
  RUN_ON_PIPE(TINY, "--validation", "0.1", "--train", "fifo");
  program_failed(1, "--validation 0.1 reads --train twice, but it can be read only once");
}
