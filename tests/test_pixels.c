/* --pixel-max, --mean and --std as a user meets them: what auto finds, and that a saved network is
   asked with the scale that it was trained with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "model/checkpoint.h"
#include "support/test.h"
#include "support/program.h"

/* Rows of two pixels of 0 to `largest`, labelled 1 where the first is the brighter. */
static void write_rows(const char *path, uint32_t largest, int rows, uint64_t seed) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int r = 0; r < rows; r++) {
    const RandomWords w = random_words(seed, 1, (uint64_t)r);
    const uint32_t a = r ? w.word[0] % (largest + 1) : largest, b = w.word[1] % (largest + 1);
    fprintf(file, "%d,%u,%u\n", a > b, a, b);
  }
  assert_int_equal(fclose(file), 0);
}

static int open_folder(void **state) {
  program_open(state);
  write_rows("dim.csv", 16, 300, 1);
  write_rows("dim_test.csv", 16, 100, 2);
  return 0;
}

#define DIM TINY, "--train", "dim.csv", "--test", "dim_test.csv", "--epochs", "12"

static double accuracy_of(const char *path) {
  Checkpoint saved = program_checkpoint(path);
  const double accuracy = saved.test_accuracy;
  checkpoint_free(&saved);
  return accuracy;
}

TESTS_WITH(open_folder, program_close);

TEST(auto_is_the_largest_pixel) {
  RUN_WELL(DIM, "--pixel-max", "auto", "--save", "auto.st");
  assert_int_equal(program_lines("^pixels   0 to 16: --pixel-max 16$"), 1);
  RUN_WELL(DIM, "--pixel-max", "16", "--save", "16.st");
  assert_int_equal(program_lines("^pixels"), 0);
  program_same_files("auto.st", "16.st");
  assert_true(accuracy_of("16.st") > 0.95);
  RUN_WELL(DIM, "--save", "255.st");
  assert_true(accuracy_of("255.st") < accuracy_of("16.st"));
}

/* Nor of rows that are all black. */
TEST(of_255_auto_says_nothing) {
  write_rows("bright.csv", 255, 50, 3);
  write_rows("black.csv", 0, 50, 4);
  static const char *const files[] = {"bright.csv", "black.csv"};
  for (int i = 0; i < 2; i++) {
    RUN_WELL(TINY, "--train", files[i], "--epochs", "2", "--pixel-max", "auto", "--save", "a.st");
    assert_int_equal(program_lines("^pixels"), 0);
    RUN_WELL(TINY, "--train", files[i], "--epochs", "2", "--save", "b.st");
    program_same_files("a.st", "b.st");
  }
}

/* It is read twice. */
TEST(auto_takes_no_pipe) {
  RUN_ON_PIPE(TINY, "--train", "fifo", "--pixel-max", "auto");
  program_failed(1, "--pixel-max auto reads --train twice");
}

/* Every use of the saved network takes the scale from its file, whatever the command line says. */
TEST(a_network_keeps_its_scale) {
  char expected[64];
  RUN_WELL(DIM, "--pixel-max", "16", "--mean", "0.5", "--std", "0.25", "--lr", "0.01", "--save",
           "kept.st");
  snprintf(expected, sizeof expected, "accuracy +%.2f%%", 100 * accuracy_of("kept.st"));
  RUN_WELL("--load", "kept.st", "--evaluate", "--test", "dim_test.csv", "--device", "cpu");
  assert_int_equal(program_lines(expected), 1);
  char *kept = strdup(program.out);
  RUN_WELL("--load", "kept.st", "--evaluate", "--test", "dim_test.csv", "--device", "cpu",
           "--pixel-max", "99");
  assert_string_equal(program.out, kept);

  /* Of another program's file only the command line knows. */
  Checkpoint saved = program_checkpoint("kept.st");
  Error error;
  *saved.options = '\0';
  assert_true(checkpoint_save(&saved, "other.st", &error));
  checkpoint_free(&saved);
  RUN_WELL("--load", "other.st", "--evaluate", "--test", "dim_test.csv", "--device", "cpu",
           "--pixel-max", "16", "--mean", "0.5", "--std", "0.25");
  assert_string_equal(program.out, kept);
  RUN_WELL("--load", "other.st", "--evaluate", "--test", "dim_test.csv", "--device", "cpu");
  assert_string_not_equal(program.out, kept);
  free(kept);
}

/* A resumed run has the number, not another look at the rows. */
TEST(auto_may_be_resumed) {
  RUN_WELL(DIM, "--epochs", "3", "--pixel-max", "auto", "--save", "whole.st");
  RUN_WELL(DIM, "--epochs", "1", "--pixel-max", "auto", "--save", "part.st");
  RUN_WELL("--resume", "part.st", "--epochs", "3", "--pixel-max", "auto");
  assert_int_equal(program_lines("^pixels"), 0);
  program_same_files("part.st", "whole.st");
  RUN("--resume", "part.st", "--epochs", "4", "--pixel-max", "255");
  program_failed(1, "part.st was trained with another --pixel-max: continue with that");
}
