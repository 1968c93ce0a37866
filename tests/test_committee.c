/* Several networks that predict together: --load given more than once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/folder.h"
#include "support/program.h"

enum { ROWS = 50, CLASSES = 2, MEMBERS = 3 };

static const char *const names[MEMBERS] = {"a.st", "b.st", "c.st"};

/* Networks of other shapes and seeds, hardly trained, so that they disagree. */
static int train_members(void **state) {
  static const char *const hidden[MEMBERS] = {"4", "none", "8,3"};
  static const char *const seeds[MEMBERS] = {"1", "2", "3"};
  program_open(state);
  for (int m = 0; m < MEMBERS; m++)
    RUN_WELL(TINY, "--hidden", hidden[m], "--seed", seeds[m], "--epochs", "1", "--lr", "0.002",
             "--save", names[m]);
  return 0;
}

/* The answers in a file of predictions with probabilities. */
typedef struct {
  int label[ROWS];
  double probability[ROWS][CLASSES];
} Answers;

static Answers read_answers(const char *path) {
  Answers a;
  char line[256];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_non_null(fgets(line, sizeof line, file));
  for (int r = 0; r < ROWS; r++) {
    int row;
    assert_int_equal(fscanf(file, "%d,%d,%lf,%lf", &row, &a.label[r], &a.probability[r][0],
                            &a.probability[r][1]),
                     4);
    assert_int_equal(row, r + 1);
  }
  fclose(file);
  return a;
}

#define PREDICT "--device", "cpu", "--predict", "test.csv", "--probabilities", "--output"

TESTS_WITH(train_members, program_close);

TEST(probabilities_are_averaged) {
  Answers each[MEMBERS];
  for (int m = 0; m < MEMBERS; m++) {
    RUN_WELL("--load", names[m], PREDICT, "one.csv");
    each[m] = read_answers("one.csv");
  }
  RUN_WELL("--load", "a.st", "--load", "b.st", "--load", "c.st", PREDICT, "all.csv");
  const Answers all = read_answers("all.csv");
  int others = 0;
  for (int r = 0; r < ROWS; r++) {
    for (int k = 0; k < CLASSES; k++) {
      double mean = 0;
      for (int m = 0; m < MEMBERS; m++) mean += each[m].probability[r][k] / MEMBERS;
      assert_float_equal(all.probability[r][k], mean, 2e-6);
    }
    assert_int_equal(all.label[r], all.probability[r][1] > all.probability[r][0]);
    for (int m = 0; m < MEMBERS; m++) others += each[m].label[r] != all.label[r];
  }
  assert_true(others > 0);
}

TEST(it_is_evaluated) {
  RUN_WELL("--load", "a.st", "--load", "b.st", "--load", "c.st", PREDICT, "all.csv");
  const Answers all = read_answers("all.csv");
  int right = 0;
  FILE *file = fopen("test.csv", "r");
  assert_non_null(file);
  for (int r = 0; r < ROWS; r++) {
    int label;
    assert_int_equal(fscanf(file, "%d,%*d,%*d", &label), 1);
    right += label == all.label[r];
  }
  fclose(file);
  char expected[64];
  snprintf(expected, sizeof expected, "%.2f%%", 100.0 * right / ROWS);
  RUN_WELL("--load", "a.st", "--load", "b.st", "--load", "c.st", "--device", "cpu", "--evaluate",
           "--test", "test.csv");
  assert_non_null(strstr(program.out, expected));
}

TEST(twice_the_same_is_once) {
  RUN_WELL("--load", "a.st", PREDICT, "once.csv");
  RUN_WELL("--load", "a.st", "--load", "a.st", PREDICT, "twice.csv");
  const Answers once = read_answers("once.csv"), twice = read_answers("twice.csv");
  assert_memory_equal(once.label, twice.label, sizeof once.label);
  for (int r = 0; r < ROWS; r++)
    assert_float_equal(once.probability[r][0], twice.probability[r][0], 2e-6);
}

TEST(what_does_not_fit_is_refused) {
  folder_write("three.csv", "0,1,2,3\n1,200,3,4\n2,5,6,7\n");
  RUN_WELL(TINY, "--train", "three.csv", "--test", "none", "--classes", "3", "--epochs", "1",
           "--save", "three.st");
  RUN("--load", "a.st", "--load", "three.st", "--device", "cpu", "--predict", "test.csv");
  program_failed(1, "three.st has 3 inputs and 3 classes, but a.st has 2 and 2");
  RUN("--load", "a.st", "--load", "missing.st", "--device", "cpu", "--predict", "test.csv");
  program_failed(1, "missing.st");
  RUN("--load", "a.st", "--load", "b.st", "--evaluate", "--weights", "w.png");
  program_said("--weights draws one network: give it one --load");
  assert_int_equal(program.status, 2);
  RUN("--load", "a.st", "--load", "b.st", "--predict", "test.csv", "--output", "b.st");
  assert_int_equal(program.status, 2);
  const char *many[2 * 33 + 4];
  int count = 0;
  for (int i = 0; i < 33; i++) many[count++] = "--load", many[count++] = "a.st";
  many[count++] = "--predict", many[count++] = "test.csv", many[count] = NULL;
  program_end(program_start(PROGRAM_OUT, many), PROGRAM_OUT);
  program_said("--load can be given 32 times at most");
  assert_int_equal(program.status, 2);
}

/* The weights of the second one are too large: the error is about its layer. */
TEST(a_member_that_overflows_is_an_error) {
  Checkpoint saved = program_checkpoint("c.st");
  const Network *n = &saved.network;
  const size_t first = n->weight[1];
  for (size_t i = 0; i < (size_t)n->size[1] * (size_t)n->size[2]; i++)
    saved.parameters[first + i] = 3e38f;
  Error error;
  if (!checkpoint_save(&saved, "vast.st", &error)) fail_msg("%s", error.text);
  checkpoint_free(&saved);
  RUN("--load", "a.st", "--load", "vast.st", "--device", "cpu", "--predict", "test.csv");
  program_failed(1, "the output of layers.1 is not a finite number");
}
