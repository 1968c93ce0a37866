/* mlp-lab --from: a record on a machine that may have no GPU and no CUDA Toolkit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/harness.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/process.h"

#define RECORD "docs/results/lab-h100.json"

/* The record's tables, made again from its JSON, are those that its run has printed. */
TEST_WITH(the_record_shows_what_was_measured, folder_open, folder_close) {
  static const struct {
    const char *record, *topics, *pictures; /* pictures: how many there are then */
  } cases[] = {{"lab-h100", "all", "12\n"}, {"lab-h200-matmul", "matmul", "13\n"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char output[4096];
    int code = process_run(output, sizeof output,
                           "%s/mlp-lab %s --from docs/results/%s.json --markdown %s/tables.md "
                           "--plot %s/%s.png >/dev/null",
                           PROGRAM_FOLDER, cases[i].topics, cases[i].record, folder, folder,
                           cases[i].record);
    if (code != 0) fail_msg("exit code %d, %s", code, output);
    code = process_run(output, sizeof output, "diff %s/tables.md docs/results/%s.md", folder,
                       cases[i].record);
    if (code != 0) fail_msg("%s", output);
    code = process_run(output, sizeof output, "cd %s && ls lab-*.png | wc -l", folder);
    assert_string_equal(output, cases[i].pictures);
  }
}

TEST(one_topic_or_problem_is_shown) {
  char output[65536];
  assert_int_equal(
      process_run(output, sizeof output, "%s/mlp-lab softmax --from %s", PROGRAM_FOLDER, RECORD),
      0);
  assert_non_null(strstr(output, "softmax: "));
  assert_null(strstr(output, "reduce, "));
  assert_int_equal(process_run(output, sizeof output, "%s/mlp-lab reduce --problem int32 --from %s",
                               PROGRAM_FOLDER, RECORD),
                   0);
  assert_non_null(strstr(output, "reduce, int32: "));
  assert_null(strstr(output, "reduce, float32: "));
  assert_int_equal(
      process_run(output, sizeof output, "%s/mlp-lab list --from %s", PROGRAM_FOLDER, RECORD), 0);
  assert_non_null(strstr(output, "\ntransfers "));
}

TEST(wrong_usage_is_named) {
  static const ProcessCase cases[] = {
      {"softmax --rung online --from " RECORD, "--from shows what was recorded", 2},
      {"softmax --check --from " RECORD, "--from shows what was recorded", 2},
      {"softmax --json x --from " RECORD, "--from shows what was recorded", 2},
      {"nonsense --from " RECORD, "unknown topic 'nonsense'", 2},
      {"softmax --from no/such/file", "cannot open no/such/file: ", 2},
      {"softmax --from README.md", "README.md is no record of mlp-lab", 2},
      {"softmax --from docs/results/fusion-h100.json", "it has no results", 2},
      {"all --markdown " RECORD " --from " RECORD, "same file", 2},
#ifndef HAVE_CUDA
      {"softmax", "built without CUDA: --from docs/results/lab-h100.json shows a recorded run", 2},
      {"list", "", 0},
      {"device", "this program was built without CUDA", 1},
#endif
  };
  process_run_cases("mlp-lab", cases, sizeof cases / sizeof *cases);
}

#define MACHINE "{\"case\":\"lab-machine\",\"gpu\":\"G\",\"copy_gb_per_s\":1000}\n"
#define TOPIC                                                                                      \
  "{\"case\":\"lab-topic\",\"topic\":\"t\",\"title\":\"T\",\"dims\":\"rows x width\","             \
  "\"unit\":\"GB/s\",\"predicted_name\":\"bytes\"}\n"
#define RUNG                                                                                       \
  "{\"case\":\"lab-rung\",\"topic\":\"t\",\"rung\":\"r\",\"kind\":\"rung\","                       \
  "\"lesson\":\"L\",\"sweep\":true}\n"
#define PROBLEM                                                                                    \
  "{\"case\":\"lab-problem\",\"topic\":\"t\",\"problem\":\"p\",\"size\":\"2x3\",\"bytes\":4e6,"    \
  "\"operations\":5}\n"
#define ROW(point)                                                                                 \
  "{\"case\":\"lab\",\"topic\":\"t\",\"problem\":\"p\",\"size\":\"2x3\",\"rung\":\"r\","           \
  "\"check\":\"right\",\"point\":" point ",\"ms\":2,\"predicted\":7}\n"

TEST_WITH(a_record_is_read, folder_open, folder_close) {
  LabReplay r;
  Error error;
  const char *path = folder_path("r.json");
  folder_write(path, MACHINE TOPIC RUNG PROBLEM ROW("4") ROW("8"));
  assert_true(lab_replay_open(&r, path, &error));
  assert_int_equal(r.count, 1);
  const LabTable *t = &r.tables[0];
  assert_string_equal(t->topic->problems[0].name, "p");
  assert_true(t->count == 2 && t->bytes == 4e6 && t->size.dim[1] == 3 && !t->extra);
  assert_true(t->rows[1].point == 8 && t->rows[1].rung->point_count == 2);
  assert_true(t->rows[1].rung->points[1] == 8 && t->rows[0].predicted == 7);
  assert_true(isnan(t->rows[0].measured) && t->rows[0].outcome == LAB_RIGHT);
  assert_true(fabs(lab_rate(t, &t->rows[0]) - 2e9) < 1);
  lab_replay_close(&r);
}

TEST_WITH(what_is_no_record_is_refused, folder_open, folder_close) {
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"", "it has no results"},
      {MACHINE, "it has no results"},
      {MACHINE "[1]\n", "line 2: it is no JSON object"},
      {MACHINE "{\"case\":", "line 2: it is no JSON object"},
      {MACHINE ROW("1"), "does not describe the topic 't'"},
      {MACHINE RUNG, "the rung 'r' is of no topic"},
      {MACHINE TOPIC PROBLEM ROW("1"), "t has no rung 'r'"},
      {MACHINE TOPIC RUNG "{\"case\":\"lab\",\"topic\":\"t\",\"size\":\"0x1\"}\n",
       "'0x1' is no size of t"},
      {MACHINE TOPIC RUNG "{\"case\":\"lab\",\"topic\":7}\n", "describe the topic ''"},
      {MACHINE TOPIC RUNG "{\"case\":\"lab\",\"topic\":\"t\",\"size\":\"1x1\",\"rung\":\"r\"}\n",
       "or it has no check"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    LabReplay r;
    Error error = {.text = ""};
    const char *path = folder_path("r.json");
    folder_write(path, cases[i].text);
    const bool good = lab_replay_open(&r, path, &error);
    lab_replay_close(&r);
    if (good || !strstr(error.text, cases[i].says)) fail_msg("%d: %s", (int)i, error.text);
  }
}

/* Tables are the record's, and what is read aloud stands in the topic's files. */
TEST_WITH(pages_say_what_the_record_and_the_kernels_say, folder_open, folder_close) {
  char output[8192];
  int code = process_run(output, sizeof output,
                         "cp -r docs/lab %s/lab && scripts/lab_pages.sh %s/mlp-lab %s/lab && "
                         "diff -r docs/lab %s/lab",
                         folder, PROGRAM_FOLDER, folder, folder);
  if (code != 0) fail_msg("scripts/lab_pages.sh would change them:\n%s", output);
  code =
      process_run(output, sizeof output,
                  "for page in docs/lab/*.md; do topic=$(basename $page .md); "
                  "[ $topic = README ] || awk '/^```/ { drawn = !drawn } !drawn' $page | "
                  "sed -n 's/^    //p' | "
                  "while IFS= read -r line; do grep -qxF -- \"$line\" kernels/lab/$topic*.cu* || "
                  "echo \"$topic: $line\"; done; done");
  if (code != 0 || *output) fail_msg("not in the kernels: %s", output);
}
