/* mlp-lab's reports of results made up here: text, Markdown, JSON and pictures.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/harness.h"
#include "support/test.h"
#include "support/cuda.h"
#include "support/folder.h"

static Error error;

static double twice(const GpuLimits *gpu, int problem, LabSize size, int64_t point) {
  (void)gpu;
  (void)problem, (void)size;
  return 2.0 * (double)point;
}

static double bytes(LabSize size) {
  return 8.0 * (double)(size.dim[0] * size.dim[1]);
}

static double operations(LabSize size) {
  return (double)(size.dim[0] * size.dim[1]);
}

static const LabProblem problems[] = {{.name = "exact",
                                       .in = {LAB_FLOAT32},
                                       .out = LAB_FLOAT32,
                                       .bytes = bytes,
                                       .operations = operations}};

static const int64_t sweep[] = {1, 2, 4, 8};
static const LabRung shown[] = {
    {.name = "first", .lesson = "the first lesson"},
    {.name = "swept",
     .lesson = "a lesson that goes on for so long that its line must be broken somewhere, because "
               "no line of a report is wider than a hundred columns",
     .points = sweep,
     .point_count = 4,
     .predicted = twice},
    {.name = "library", .lesson = "what others call", .kind = LAB_LIBRARY},
    {.name = "slip", .lesson = "a slip", .kind = LAB_MISTAKE}};
static const LabTopic shown_topic = {.name = "shown",
                                     .title = "what is shown",
                                     .dims = "rows x columns",
                                     .problems = problems,
                                     .problem_count = 1,
                                     .rungs = shown,
                                     .rung_count = 4,
                                     .size = {{1000, 1000, 1}},
                                     .predicted_name = "twice the point",
                                     .point_name = "the point",
                                     .shows_ulp = true};
/* A table of arrays of 8 MB, for which 4 ms are 2 GB/s. */
static LabTable make_shown(void) {
  static const double ms[] = {4, 0.008, 0.016, 0.032, 0.064, 0.016, NAN};
  LabTable table = lab_table(&shown_topic, 0, shown_topic.size, false);
  for (int i = 0; i < table.count; i++) {
    LabRow *row = &table.rows[i];
    row->outcome = LAB_RIGHT;
    row->ulp = 0.5;
    row->seconds = (Stats){ms[i] / 1e3, ms[i] / 1e3, ms[i] / 1e3};
    row->samples = 9;
    if (row->rung->predicted) row->predicted = 2.0 * (double)row->point;
    row->occupancy = (LabOccupancy){4, "registers", 40, 1024, 256};
  }
  table.rows[5].occupancy.blocks = 0;
  table.rows[6].outcome = LAB_CAUGHT;
  table.rows[6].samples = 0;
  strcpy(table.rows[6].note, "element 5 is 1, expected 2 (allowed 0)");
  return table;
}

static char text[16384];
static const char *path;

static int open_folder(void **state) {
  folder_open(state);
  path = folder_path("out");
  return 0;
}

static void read_back(void) {
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
}

static void assert_says(const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in:\n%s", part, text);
}

static void assert_narrow(int columns) {
  for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
    if ((int)strcspn(line, "\n") > columns)
      fail_msg("more than %d columns: %.*s", columns, (int)strcspn(line, "\n"), line);
}

/* The machine, the topic, both tables and one that could not be run. json: where they are written,
   too, or NULL. */
static Record record_shown(const char *json) {
  Record record = {.gpu = "GPU 1", .sources = "abc"};
  const LabTable none = {.topic = &shown_topic, .size = {{1, 2, 1}}, .reason = "too \"large\""};
  const LabTable table = make_shown();
  LabTable other = table;
  other.size = (LabSize){{77, 99, 1}};
  other.extra = true;
  other.rows[0] = table.rows[4];
  other.count = 1;
  OK(record_create(&record, json, &error));
  json_t *machine = record_line("lab-machine");
  record_text(machine, "driver", "1.2");
  record_number(machine, "copy_gb_per_s", 2000);
  record_number(machine, "link_gb_per_s", 50);
  record_number(machine, "fma_gflop_per_s", 60000);
  OK(record_add(&record, machine, true, &error));
  OK(lab_add_topic(&record, &shown_topic, &error));
  OK(lab_add_table(&record, &table, &error));
  OK(lab_add_table(&record, &other, &error));
  OK(lab_add_table(&record, &none, &error));
  return record;
}

static void print_shown(bool markdown) {
  Record record = record_shown(NULL);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  lab_print_machine(&record, file, markdown);
  lab_print(&record, "shown", "exact", file, markdown);
  assert_int_equal(fclose(file), 0);
  OK(record_close(&record, true, &error));
  read_back();
}

#define IN_FOLDER(name) TEST_WITH(name, open_folder, folder_close)

IN_FOLDER(test_text) {
  print_shown(false);
  assert_narrow(110);
  assert_says("\nshown, exact: what is shown\n");
  assert_says("1000x1000 (rows x columns) on GPU 1");
  assert_says("Ceiling: 2000 GB/s, measured: copy on the GPU, read + write.");
  assert_says("Predicted: twice the point.");
  assert_says("Point: the point.");
  assert_says(" 4.00  2.00        0.1");
  assert_says("0.00800  1000       50.0      500       2.00  4 registers    40       2.00");
  assert_says("caught, slip: element 5 is 1, expected 2 (allowed 0).");
  assert_says("\n 1  first: the first lesson.\n");
  assert_says(" 3  library, library: what others call.\n");
  assert_says(" 2  swept: a lesson that goes on");
  assert_says("\n    ");
  assert_says("77x99");
  assert_says("\ntoo \"large\".\n");
}

IN_FOLDER(test_markdown) {
  print_shown(true);
  assert_says("# The kernel lab on GPU 1\n");
  assert_says("- sources `abc`\n");
  assert_says("## shown, exact: what is shown\n");
  assert_says("| # | rung ");
  assert_says("| ---: | :--- ");
  assert_says("1. **first**: the first lesson.\n");
}

IN_FOLDER(test_json) {
  Record record = record_shown(path);
  OK(record_close(&record, true, &error));
  read_back();
  assert_says("{\"case\":\"lab-machine\",\"driver\":\"1.2\"");
  assert_says("\"fma_gflop_per_s\":60000,");
  assert_says("{\"case\":\"lab\",\"topic\":\"shown\",\"problem\":\"exact\",\"size\":\"1000x1000\","
              "\"rung\":\"swept\",\"kind\":\"rung\",\"point\":2,\"check\":\"right\",\"ms\":0.016,");
  assert_says("\"gb_per_s\":500,\"percent_of_ceiling\":25,\"times_first\":250,\"times_library\":1,"
              "\"predicted\":4,\"ulp\":0.5,\"blocks_per_sm\":4,\"limit\":\"registers\"");
  assert_says(
      "\"check\":\"caught\",\"note\":\"element 5 is 1, expected 2 (allowed 0)\",\"ulp\":0.5,");
  assert_says("\"reason\":\"too \\\"large\\\"\",\"gpu\":\"GPU 1\",\"sources\":\"abc\"}\n");
}

static bool plot_shown(int count, bool swept) {
  Record record = {.lines = NULL};
  LabTable table = make_shown();
  if (!swept) table.rows[1] = table.rows[5];
  table.count = count;
  OK(lab_add_topic(&record, &shown_topic, &error));
  OK(lab_add_table(&record, &table, &error));
  const bool good = lab_plot(&record, "shown", NULL, path, &error);
  Error ignored;
  return record_close(&record, good, &ignored);
}

IN_FOLDER(test_plots) {
  OK(plot_shown(7, true));
  read_back();
  assert_memory_equal(text, "\x89PNG", 4);
  OK(plot_shown(2, false)); /* dots */
  assert_false(plot_shown(0, true));
  assert_non_null(strstr(error.text, "nothing to draw"));
}

TEST(test_outcomes) {
  LabTable table = make_shown();
  assert_true(lab_table_good(&table));
  static const LabOutcome bad[] = {LAB_WRONG, LAB_MISSED};
  for (int i = 0; i < 2; i++) {
    table.rows[6].outcome = bad[i];
    assert_false(lab_table_good(&table));
  }
  const LabTable none = {.topic = &shown_topic, .reason = "too large"};
  assert_false(lab_table_good(&none));
}
