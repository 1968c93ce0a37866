/* The record of measurements, and the tables that are made of its lines. */
#include "measure/table.h"
#include "support/folder.h"

static const char path[] = "lines.json";
static Record record;

static void read_text(const char *text) {
  folder_write_json(path, text);
  OK(record_read(&record, path, "a program", NULL, &error));
}

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
  record_add_machine(&record, "GPU 1", "1.2", NULL, "./a program", "abc");
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
  assert_in(text, "- command `./a program`\n- sources `abc`\n");
  OK(record_close(&record, true, &error));
}

/* A record that is written again is the same file. */
TEST(records_are_kept) {
  static const char *const records[] = {"tests/support/bench.json", "docs/results/lab-h100.json"};
  for (int i = 0; i < 2; i++) {
    Record again = {.lines = NULL};
    const char *kept = folder_before(records[i]);
    OK(record_read(&record, kept, "a program", NULL, &error));
    OK(record_create(&again, path, &error));
    size_t k;
    json_t *line;
    json_array_foreach (record.lines, k, line) {
      json_incref(line);
      record_add(&again, line);
    }
    OK(record_close(&again, true, &error));
    assert_string_equal(folder_read(path), folder_read(kept));
    OK(record_close(&record, true, &error));
  }
}

TEST(what_is_no_record_is_refused) {
  foreach (line,
           TEXTS("case", "{'case': 'epoch'", "{'case': 'epoch'} x", "{'case': 'a\\q'}", "[]")) {
    folder_write_json(path, text_printf("{'case':'epoch'}\n\n%s\n", *line));
    FAILS(record_read(&record, path, "a program", NULL, &error),
          "lines.json is no record of a program, line 3: it is no");
    OK(record_close(&record, true, &error));
  }
  FAILS(record_read(&record, "/no/such/file", "a program", NULL, &error),
        "cannot open /no/such/file: ");
  FAILS(record_create(&record, "/no/such/file", &error), "cannot create /no/such/file: ");
}

TEST(a_full_disk_is_told) {
  if (!record_create(&record, "/dev/full", &error)) skip_because("there is no /dev/full");
  record_add(&record, record_line("epoch"));
  record_add(&record, record_line("epoch")); /* the first failure is kept */
  FAILS(record_good(&record, &error), "cannot write /dev/full: No space");
  FAILS(record_close(&record, true, &error), "cannot write /dev/full: No space");
}

static ShortText twice(const TableCell *at) {
  assert_null(at->record);
  return text_format("%g", 2 * number_of(at->row, "x"));
}

TEST(tables_are_printed) {
  static const TableColumn columns[] = {{"name", 6, true, .key = "name"},
                                        {"x", 0, .key = "x", .format = "%.1f%%", .small = "%.3f"},
                                        {"2x", 4, .cell = twice, .in = 1},
                                        {"of another table", 4, .key = "x", .in = 2},
                                        {"last", 9, true, .key = "last"}};
  static const char *const wanted[] = {"name         x    2x  last\n"
                                       "a            -   nan  b\n"
                                       "b        0.010  0.02  \n"
                                       "long name   10.5%    21  \n"
                                       "\n"
                                       "c       100.0%   200  d\n",
                                       "| name   |      x |   2x | last      |\n"
                                       "| :--- | ---: | ---: | :--- |\n"
                                       "| a      |      - |  nan | b         |\n"
                                       "| b      |  0.010 | 0.02 |           |\n"
                                       "| long name |  10.5% |   21 |           |\n"
                                       "| c      | 100.0% |  200 | d         |\n"};
  read_text("{'case':'row','name':'a','x':null,'last':'b','batch':true}\n"
            "{'case':'row','name':'b','x':0.01,'batch':1}\n"
            "{'case':'row','name':'long name','x':10.5,'batch':1}\n"
            "{'case':'row','reason':'it was not run'}\n"
            "{'case':'row','name':'c','x':100,'last':'d','batch':2}\n");
  const Lines rows = lines_of(&record, "row");
  for (int markdown = 0; markdown < 2; markdown++) {
    FILE *file = text_open();
    table_print(&(Table){file, markdown, NULL, (const char *const[]){"batch", NULL}, 1}, columns, 5,
                &rows);
    assert_string_equal(text_close(file), wanted[markdown]);
  }
  free(rows.of);
  OK(record_close(&record, true, &error));
}

TEST(numbers_have_three_digits) {
  static const struct {
    double value;
    const char *text;
  } cases[] = {{0.01234, "0.0123"}, {1.234, "1.23"}, {12.34, "12.3"}, {1234, "1234"},
               {-9.999, "-10.0"},   {0, "0.0000"},   {HUGE_VAL, "-"}};
  foreach (row, cases) assert_string_equal(text_of_number(row->value).text, row->text);
}
