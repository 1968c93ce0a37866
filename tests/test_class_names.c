/* Names of classes: lists and files of them, and what is refused. */
#include "model/class_names.h"
#include "model/network.h"
#include "support/folder.h"

TESTS_WITH(folder_enter, folder_close);

/* Three names, in a file or in a list; bad: NULL, or what is said. */
TEST(lists_and_files) {
  static const struct {
    const char *file, *list, *bad;
  } cases[] = {
      {NULL, "a, b \xc3\xa4 ,c", NULL},
      {"\xef\xbb\xbf\x61 \r\n\tb \xc3\xa4\r\nc\r\n\r\n", NULL, NULL},
      {NULL, "a,b", "--names: 2 names, but the network has 3 classes"},
      {NULL, "a,b,c,", "--names: name 4 is empty"},
      {NULL, "a, ,c", "--names: name 2 is empty"},
      {NULL, "a,b,a", "--names: 'a' is there twice"},
      {"a\nb,c", NULL, "names.txt: 2 names, but the network has 3 classes"},
      {"a\nb\x1b[2J\nc", NULL, "names.txt: name 2, 'b\\x1b[2J', must be UTF-8 without control"},
      {"a\nb\n\xe4", NULL, "name 3, '\\xe4', must be UTF-8"},
      {"", NULL, "names.txt: name 1 is empty"},
      {"a\nb\n0123456789012345678901234567890123456789012345678901234567890123", NULL,
       "name 3 has 64 bytes, but at most 63 are kept"},
      {NULL, "none.txt", "cannot read none.txt: No such file or directory; a list has commas"},
      {NULL, ".", "--names: cannot read .: Is a directory"},
  };
  foreach (row, cases) {
    char *names = NULL;
    if (row->file) folder_write("names.txt", row->file);
    const bool good = class_names_read(row->file ? "names.txt" : row->list, 3, &names, &error);
    if (row->bad)
      FAILS(good, row->bad);
    else
      assert_string_equal(names, "a\nb \xc3\xa4\nc");
    free(names);
  }
}

/* The most names, the longest, replace others; an option that is not given does not. */
TEST(many_names) {
  FILE *file = fopen("names.txt", "w");
  for (int c = 0; c < NETWORK_MAX_CLASSES; c++) fprintf(file, "%063d\n", c);
  close_file(file);
  char *names = strdup("others");
  OK(class_names_read("names.txt", NETWORK_MAX_CLASSES, &names, &error));
  OK(class_names_read("", 2, &names, &error));
  assert_int_equal(atoi(class_name(names, 1023).text), 1023);
  free(names);
}
