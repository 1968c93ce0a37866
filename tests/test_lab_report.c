/* mlp-lab's reports of results made up here: text, Markdown, JSON and pictures. They are made from
   records that were written and read again, without a GPU and without the CUDA Toolkit. */
#include "support/copies.h"
#include "support/folder.h"

TESTS_WITH(folder_enter, folder_close);

static double twice(const LabCall *call) {
  return 2.0 * (double)call->point;
}

static const LabProblem problems[] = {COPY("exact", few)};

static const int64_t sweep[] = {1, 2, 4, 8};
static const LabRung shown[] = {
    {"first", "the first lesson", .launch = NULL},
    {"swept",
     "a lesson that goes on for so long that its line must be broken somewhere, because "
     "no line of a report is wider than a hundred columns",
     .points = sweep, .point_count = 4, .predicted = twice},
    {"library", "what others call", .kind = LAB_LIBRARY},
    {"slip", "a slip", .kind = LAB_MISTAKE}};
static const LabTopic shown_topic = {"shown",
                                     "what is shown",
                                     COPIES(problems, shown),
                                     .sizes = {{{1000, 1000, 1}}},
                                     .predicted_name = "twice the point",
                                     .point_name = "the point",
                                     .shows_ulp = true};
/* A table of arrays of 8 MB, for which 4 ms are 2 GB/s. */
static LabTable make_shown(void) {
  static const double ms[] = {4, 0.008, 0.016, 0.032, 0.064, 0.016, NAN};
  LabTable table = lab_table(&shown_topic, 0, shown_topic.sizes[0], false);
  for (int i = 0; i < table.count; i++) {
    LabRow *row = &table.rows[i];
    row->outcome = LAB_RIGHT;
    row->ulp = 0.5;
    row->seconds = stats_of(&(double){ms[i] / 1e3}, 1);
    if (row->rung->predicted) row->predicted = 2.0 * (double)row->point;
    row->occupancy = (LabOccupancy){4, "registers", 40, 0, 1024, 256};
  }
  table.rows[5].occupancy.blocks = 0;
  table.rows[6].outcome = LAB_CAUGHT;
  strcpy(table.rows[6].note, "element 5 is 1, expected 2 (allowed 0)");
  return table;
}

/* Writes the machine, the topic, the table, one of another size and one that could not be run, and
   reads them again. */
TEST(reports_say_what_was_measured) {
  static const char *const wanted[] = {"tests/support/lab.txt", "tests/support/lab.md"};
  Record written = {.lines = NULL}, record = {.lines = NULL};
  const LabTable none = {.topic = &shown_topic, .size = {{1, 2, 1}}, .reason = "too \"large\""},
                 table = make_shown();
  LabTable other = table;
  other.size = (LabSize){{77, 99, 1}};
  other.rows[0] = table.rows[4];
  other.count = 1;
  OK(record_create(&written, "r.json", &error));
  record_add(&written,
             json_pack("{ss ss ss}", "case", "machine", "device", "GPU 1", "date", "today"));
  record_add(&written, json_pack("{ss ss si ss}", "case", "ceiling", "name",
                                 "copy on the GPU, read + write", "value", 2000, "unit", "GB/s"));
  lab_add_topic(&written, &shown_topic);
  lab_add_table(&written, &table);
  lab_add_table(&written, &other);
  lab_add_table(&written, &none);
  OK(record_close(&written, true, &error));
  OK(lab_read(&record, "r.json", &error));
  assert_string_equal(folder_read("r.json"), folder_read(folder_before("tests/support/lab.json")));
  for (int markdown = 0; markdown < 2; markdown++) {
    const char *text = PRINTED(file, lab_print(&record, "shown", "exact", file, markdown));
    assert_string_equal(text, folder_read(folder_before(wanted[markdown])));
  }
  OK(record_close(&record, true, &error));
}

TEST(outcomes_are_good_or_bad) {
  LabTable table = make_shown();
  assert_true(lab_table_good(&table));
  table.rows[6].outcome = LAB_WRONG;
  assert_false(lab_table_good(&table));
  table.rows[6].outcome = LAB_MISSED;
  assert_false(lab_table_good(&table));
  const LabTable none = {.topic = &shown_topic, .reason = "too large"};
  assert_false(lab_table_good(&none));
}

#define MACHINE "{'case':'machine','device':'G'}\n"
#define TOPIC                                                                                      \
  "{'case':'topic','topic':'t','title':'T','dims':'rows x width','unit':'GB/s',"                   \
  "'rungs':[{'rung':'r','kind':'rung','lesson':'L'}]}\n"
#define TABLE(size, rung)                                                                          \
  "{'case':'table','topic':'t','problem':'p','size':'" size "','bytes':4e6,'operations':5,"        \
  "'rows':[{'rung':'" rung "','check':'right','ms':2}]}\n"

TEST(what_is_no_record_is_refused) {
  static const Pair cases[] = {
      {"", "it has no results"},
      {MACHINE, "it has no results"},
      {MACHINE "[1]\n", "line 2: it is no JSON object"},
      {MACHINE TABLE("2x3", "r"), "it does not describe the topic 't'"},
      {MACHINE TOPIC TABLE("0x1", "r"), "'0x1' is no size of t"},
      {MACHINE TOPIC TABLE("2x3", "s"), "t has no rung 's'"},
      {MACHINE TOPIC "{'case':'table','topic':7}\n", "describe the topic ''"},
  };
  foreach (c, cases) {
    Record r = {.lines = NULL};
    folder_write_json("r.json", c->given);
    FAILS(lab_read(&r, "r.json", &error), c->wanted);
    record_close(&r, true, &error);
  }
}
