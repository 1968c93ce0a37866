/* Tests the record of measurements. tests/scenarios/lab.sh tests the tables of a record. */
#include "measure/record.h"
#include "base/text.h"
#include "support/folder.h"

static const char path[] = "lines.json";
static Record record;

TESTS_WITH(folder_enter, folder_close);

TEST(lines_come_back) {
  static const char reason[] = "a \"quote\", a \\, a\ttab and\na line";
  OK(record_create(&record, path, &error));
  json_t *line = record_line("epoch");
  record_text(line, "reason", reason);
  record_text(line, "peer", NULL);
  record_text(line, "name", "not UTF-8: \xff");
  record_number(line, "batch", 4096);
  record_number(line, "ms_per_epoch", 6.123456789);
  record_number(line, "min_ms", (double)NAN);
  record_add(&record, line);
  setenv("SOURCES", "abc", 1);
  record_add_machine(&record, "GPU 1", "1.2", NULL);
  OK(record_close(&record, true, &error));

  OK(record_read(&record, path, "a program", NULL, &error));
  assert_int_equal(json_array_size(record.lines), 2);
  const json_t *back = record_first(&record, "epoch");
  assert_string_equal(text_of(back, "reason"), reason);
  assert_string_equal(text_of(back, "name"), "not UTF-8: \\xff");
  assert_true(number_of(back, "batch") == 4096);
  assert_close(number_of(back, "ms_per_epoch"), 6.123456789, 1e-6);
  assert_true(!json_object_get(back, "peer") && isnan(number_of(back, "min_ms")));
  assert_non_null(record_find(&record, "machine", "device", "GPU 1", "sources", "abc"));
  assert_null(record_find(&record, "machine", "device", "GPU 2"));
  const char *text = PRINTED(file, record_print_machine(&record, "A program", file, true));
  assert_in(text, "# A program on GPU 1\n\n- GPU 1, driver 1.2; ");
  assert_in(text, "test_record`\n- sources `abc`\n");
  OK(record_close(&record, true, &error));
}

/* Seven digits of 1.2349999999 are 1.235, and three digits of 1.235 are 1.24, not 1.23. */
TEST(what_is_printed_is_what_the_file_has) {
  static const double value = 1.2349999999;
  const json_t *line, *row;
  OK(record_create(&record, path, &error));
  record_add(&record,
             json_pack("{ss sf s[{sf}]}", "case", "part", "value", value, "rows", "ms", value));
  for (int from_file = 0; from_file < 2; from_file++) {
    line = record_first(&record, "part");
    row = json_array_get(json_object_get(line, "rows"), 0);
    assert_string_equal(text_of_number(number_of(line, "value")).text, "1.24");
    assert_string_equal(text_of_number(number_of(row, "ms")).text, "1.24");
    OK(record_close(&record, true, &error));
    if (!from_file) OK(record_read(&record, path, "a program", NULL, &error));
  }
}

TEST(what_is_no_record_is_refused) {
  foreach (line,
           TEXTS("case", "{'case': 'epoch'", "{'case': 'epoch'} x", "{'case': 'a\\q'}", "[]")) {
    folder_write_json(path, text_printf("{'case':'epoch'}\n\n%s\n", *line));
    FAILS(record_read(&record, path, "a program", NULL, &error),
          "lines.json is not a record of a program, line 3: it is not");
    OK(record_close(&record, true, &error));
  }
  FAILS(record_read(&record, "/no/such/file", "a program", NULL, &error),
        "cannot open /no/such/file: ");
  FAILS(record_create(&record, "/no/such/file", &error),
        "cannot write /no/such/file: its folder does not exist");
}

TEST(a_full_disk_is_told) {
  if (!record_create(&record, "/dev/full", &error)) skip_because("there is no /dev/full");
  record_add(&record, record_line("epoch"));
  record_add(&record, record_line("epoch")); /* the first failure is the one reported */
  FAILS(record_good(&record, &error), "cannot write /dev/full: No space");
  FAILS(record_close(&record, true, &error), "cannot write /dev/full: No space");
}

TEST(numbers_have_three_digits) {
  static const struct {
    double value;
    const char *text;
  } cases[] = {{0.01234, "0.0123"}, {1.234, "1.23"}, {12.34, "12.3"}, {1234, "1234"},
               {-9.999, "-10.0"},   {0, "0.0000"},   {HUGE_VAL, "-"}};
  foreach (row, cases) assert_string_equal(text_of_number(row->value).text, row->text);
}
