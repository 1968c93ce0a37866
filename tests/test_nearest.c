/* Did you mean: which known word is near, and which is not. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "support/test.h"
#include "support/folder.h"

static const char *const known[] = {"epochs", "epoch", "batch", "none", "step", "lr", NULL};

/* The sentence about a word that is unknown. */
static const char *sentence(const char *given) {
  static Error error;
  error_set(&error, "unknown");
  Nearest nearest;
  nearest_start(&nearest, given);
  for (int i = 0; known[i]; i++) nearest_try(&nearest, known[i]);
  assert_false(nearest_append(&nearest, "--", &error));
  return error.text;
}

TEST(test_words) {
  const char *const cases[][2] = {
      {"epohcs", "unknown: did you mean '--epochs'?"}, /* a swap is one edit */
      {"epochss", "unknown: did you mean '--epochs'?"},
      {"bach", "unknown: did you mean '--batch'?"},
      {"nune", "unknown: did you mean '--none'?"},
      {"stp", "unknown: did you mean '--step'?"},
      {"epoc", "unknown: did you mean '--epoch'?"},
      {"epochx", "unknown: did you mean '--epoch'?"}, /* as near as epochs, and before it */
      {"l", "unknown: did you mean '--lr'?"},
      {"bxxch", "unknown"}, /* two of five letters */
      {"quiet", "unknown"},
      {"", "unknown"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_string_equal(sentence(cases[i][0]), cases[i][1]);
  char longest[200];
  memset(longest, 'e', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  assert_string_equal(sentence(longest), "unknown");
}

TEST_WITH(test_files, folder_open, folder_close) {
  char expected[512];
  FILE *file = fopen(folder_path("train.csv"), "w");
  assert_non_null(file);
  assert_int_equal(fclose(file), 0);
  Error error;
  error_set(&error, "missing");
  assert_true(nearest_append_file(folder_path("tran.csv"), &error));
  snprintf(expected, sizeof expected, "missing: did you mean '%s'?", folder_path("train.csv"));
  assert_string_equal(error.text, expected);
  assert_false(nearest_append_file(folder_path("test.csv"), &error));
  assert_false(nearest_append_file("/no/such/folder/train.csv", &error));
  assert_string_equal(error.text, expected);
}

TEST(test_options) {
  static const struct option accepted[] = {{"seed", required_argument, NULL, 's'},
                                           {"train-rows", required_argument, NULL, 'r'},
                                           {NULL, 0, NULL, 0}};
  static const char *const cases[][2] = {
      {"--sead", "x: did you mean '--seed'?"},
      {"--train-row5=3", "x: did you mean '--train-rows'?"},
      {"--other", "x"},
      {"-", "x"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Error error;
    error_set(&error, "x");
    assert_false(nearest_append_option(cases[i][0], accepted, &error));
    assert_string_equal(error.text, cases[i][1]);
  }
}
