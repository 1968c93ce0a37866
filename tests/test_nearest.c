/* Which known word is near to a mistyped one, and which is not. */

#include "base/nearest.h"
#include "support/folder.h"

static const char *const known[] = {"epochs", "epoch", "batch", "none", "step", "lr", NULL};

static void assert_nearest(const char *given, const char *expected) {
  error_set(&error, "unknown");
  Nearest nearest = nearest_to(given);
  for (int i = 0; known[i]; i++) nearest_try(&nearest, known[i]);
  assert_false(nearest_append(&nearest, "--", &error));
  assert_string_equal(
      error.text, text_printf(*expected ? "unknown: did you mean '--%s'?" : "unknown%s", expected));
}

TEST(test_words) {
  static const Pair cases[] = {
      {"epohcs", "epochs"}, /* a swap is one edit */
      {"epochss", "epochs"}, {"bach", "batch"},
      {"nune", "none"},      {"stp", "step"},
      {"epoc", "epoch"},     {"epochx", "epoch"}, /* as near as epochs, and before it */
      {"l", "lr"},           {"bxxch", ""},       /* two of five letters */
      {"quiet", ""},         {"", ""}};
  foreach (word, cases) assert_nearest(word->given, word->wanted);
  char longest[200] = "";
  memset(longest, 'e', sizeof longest - 1);
  assert_nearest(longest, "");
}

TEST_WITH(test_files, folder_enter, folder_close) {
  folder_write("train.csv", "");
  const char *expected = text_printf("missing: did you mean '%s/train.csv'?", folder);
  error_set(&error, "missing");
  assert_true(nearest_append_file(text_printf("%s/tran.csv", folder), &error));
  assert_string_equal(error.text, expected);
  assert_false(nearest_append_file(text_printf("%s/test.csv", folder), &error));
  assert_false(nearest_append_file("/no/such/folder/train.csv", &error));
  assert_string_equal(error.text, expected);
}
