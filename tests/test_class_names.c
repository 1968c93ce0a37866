/* Names of classes: lists and files of them, and what is refused. */
#include "model/class_names.h"
#include "model/network.h"
#include "support/folder.h"

static Error error;

TESTS_WITH(folder_enter, folder_close);

TEST(a_class_without_a_name_is_a_number) {
  assert_string_equal(class_name(NULL, 1023).text, "1023");
  assert_int_equal(class_names_width(NULL, 10), 1);
  assert_int_equal(class_names_width(NULL, 11), 2);
}

/* Lists and files of three names; bad: NULL, or what is said. */
TEST(lists_and_files) {
  static const struct {
    const char *text, *bad;
    bool file;
  } cases[] = {
      {"a, b \xc3\xa4 ,c", NULL, false},
      {"a\nb \xc3\xa4\nc", NULL, true},
      {"\xef\xbb\xbf"
       "a \r\n\tb \xc3\xa4\r\nc\r\n\r\n",
       NULL, true},
      {"a,b", "--names: 2 names, but the network has 3 classes", false},
      {"a,b,c,", "--names: 4 names", false},
      {"a, ,c", "--names: name 2 is empty", false},
      {"a,b,a", "--names: names 1 and 3 are both 'a'", false},
      {"a\nb,c", "names.txt: 2 names, but the network has 3 classes", true},
      {"a\n\nc", "names.txt: name 2 is empty", true},
      {"a\nb\x1b[2J\nc", "names.txt: name 2, 'b\\x1b[2J', must be UTF-8 without control", true},
      {"a\nb\n\xe4", "name 3, '\\xe4', must be UTF-8", true},
      {"", "names.txt: 1 names", true},
      {"a\nb\n0123456789012345678901234567890123456789012345678901234567890123",
       "name 3 has 64 bytes, but at most 63 are kept", true},
  };
  foreach (row, cases) {
    folder_write("names.txt", row->text);
    ClassName *names = class_names_read(row->file ? "names.txt" : row->text, 3, &error);
    if (row->bad) {
      FAILS(names != NULL, row->bad);
      continue;
    }
    OK(names != NULL);
    assert_string_equal(names[0].text, "a");
    assert_string_equal(names[1].text, "b \xc3\xa4");
    assert_string_equal(names[2].text, "c");
    assert_int_equal(class_name_length(names, 1), 3);
    free(names);
  }
  FAILS(class_names_read("none.txt", 3, &error),
        "--names: cannot read none.txt: No such file or directory; a list has commas");
  FAILS(class_names_read(".", 3, &error), "--names: cannot read .: Is a directory");
}

/* The most names, the longest. */
TEST(many_names) {
  FILE *file = fopen("names.txt", "w");
  for (int c = 0; c < NETWORK_MAX_CLASSES; c++) fprintf(file, "%063d\n", c);
  assert_int_equal(fclose(file), 0);
  ClassName *names = class_names_read("names.txt", NETWORK_MAX_CLASSES, &error);
  OK(names != NULL);
  assert_int_equal(atoi(names[1023].text), 1023);
  free(names);
}
