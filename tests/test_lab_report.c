/* mlp-lab's reports of results made up here: text, Markdown and JSON. They are made from records
   that were written and read again, without a GPU and without the CUDA Toolkit. */
#include "support/copies.h"
#include "support/folder.h"

TESTS_WITH(folder_enter, folder_close);

static const LabProblem problems[] = {COPY("exact", few)};

static const int64_t sweep[] = {1, 2, 4, 8};
static const LabRung shown[] = {
    {"first", "the first lesson", .launch = NULL},
    {"swept",
     "a lesson that goes on for so long that its line must be broken somewhere, because "
     "no line of a report is wider than a hundred columns",
     .points = sweep, .point_count = 4},
    {"library", "what others call", .kind = LAB_LIBRARY},
    {"slip", "a slip", .kind = LAB_MISTAKE}};
static const LabTopic shown_topic = {"shown",
                                     "what is shown",
                                     COPIES(problems, shown),
                                     .sizes = {{{1000, 1000, 1}}},
                                     .predicted_name = "twice the point",
                                     .point_name = "the point",
                                     .shows_ulp = true};

/* Adds the table of arrays of 8 MB, for which 4 ms are 2 GB/s. */
static void add_shown(Record *record) {
  static const double ms[] = {4, 0.008, 0.016, 0.032, 0.064, 0.016, NAN};
  json_t *table = lab_table(&shown_topic, 0, shown_topic.sizes[0]), *row;
  size_t i;
  json_array_foreach (json_object_get(table, "rows"), i, row) {
    json_object_del(row, "check");
    record_number(row, "ms", ms[i]);
    record_number(row, "predicted", 2 * number_of(row, "point"));
    record_number(row, "ulp", 0.5);
    if (i == 5) continue;
    record_number(row, "blocks_per_sm", 4);
    record_number(row, "registers", 40);
  }
  record_text(row = json_array_get(json_object_get(table, "rows"), 6), "check", LAB_CAUGHT);
  record_text(row, "note", "element 5 is 1, expected 2 (allowed 0)");
  lab_add_table(record, table);
}

/* Writes the machine, the topic, the table, one of another size and one that could not be run, and
   reads them again. */
TEST(reports_say_what_was_measured) {
  static const char *const wanted[] = {"tests/support/lab.txt", "tests/support/lab.md"};
  Record written = {.lines = NULL}, record = {.lines = NULL};
  OK(record_create(&written, "r.json", &error));
  record_add(&written,
             json_pack("{ss ss ss}", "case", "machine", "device", "GPU 1", "date", "today"));
  record_add(&written, json_pack("{ss ss si ss}", "case", "ceiling", "name",
                                 "copy on the GPU, read + write", "value", 2000, "unit", "GB/s"));
  lab_add_topic(&written, &shown_topic);
  add_shown(&written);
  lab_add_table(&written, json_pack("{ss ss ss ss si s[{ss sf}]}", "case", "table", "topic",
                                    "shown", "problem", "exact", "size", "77x99", "bytes", 60984,
                                    "rows", "rung", "swept", "ms", 0.064));
  lab_add_table(&written, json_pack("{ss ss ss ss ss}", "case", "table", "topic", "shown",
                                    "problem", "exact", "size", "1x2", "reason", "too \"large\""));
  OK(record_close(&written, true, &error));
  OK(lab_read(&record, "r.json", &error));
  for (int markdown = 0; markdown < 2; markdown++) {
    const char *text = PRINTED(file, lab_print(&record, "shown", "exact", file, markdown));
    assert_string_equal(text, folder_read(folder_before(wanted[markdown])));
  }
  OK(record_close(&record, true, &error));
}

#define MACHINE "{'case':'machine','device':'G'}\n"
#define TOPIC                                                                                      \
  "{'case':'topic','topic':'t','title':'T','dims':'rows x width','unit':'GB/s',"                   \
  "'rungs':[{'rung':'r','kind':'rung','lesson':'L'}]}\n"
#define TABLE(rung)                                                                                \
  "{'case':'table','topic':'t','problem':'p','size':'2x3','bytes':4e6,'operations':5,"             \
  "'rows':[{'rung':'" rung "','check':'right','ms':2}]}\n"

TEST(what_is_no_record_is_refused) {
  static const Pair cases[] = {
      {"", "it has no results"},
      {MACHINE, "it has no results"},
      {MACHINE "[1]\n", "line 2: it is no JSON object"},
      {MACHINE TABLE("r"), "it does not describe the topic 't'"},
      {MACHINE TOPIC TABLE("s"), "t has no rung 's'"},
      {MACHINE TOPIC "{'case':'table','topic':7}\n", "describe the topic ''"},
  };
  foreach (c, cases) {
    Record r = {.lines = NULL};
    folder_write_json("r.json", c->given);
    FAILS(lab_read(&r, "r.json", &error), c->wanted);
    record_close(&r, true, &error);
  }
}
