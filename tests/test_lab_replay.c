/* Records of mlp-lab are read without a GPU and without the CUDA Toolkit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/harness.h"
#include "support/test.h"
#include "support/folder.h"

#define MACHINE "{'case':'lab-machine','gpu':'G','copy_gb_per_s':1000}\n"
#define TOPIC                                                                                      \
  "{'case':'lab-topic','topic':'t','title':'T','dims':'rows x width',"                             \
  "'unit':'GB/s','predicted_name':'bytes'}\n"
#define RUNG                                                                                       \
  "{'case':'lab-rung','topic':'t','rung':'r','kind':'rung',"                                       \
  "'lesson':'L','sweep':true}\n"
#define PROBLEM                                                                                    \
  "{'case':'lab-problem','topic':'t','problem':'p','size':'2x3','bytes':4e6,"                      \
  "'operations':5}\n"
#define ROW(point)                                                                                 \
  "{'case':'lab','topic':'t','problem':'p','size':'2x3','rung':'r',"                               \
  "'check':'right','point':" point ",'ms':2,'predicted':7}\n"

TEST_WITH(a_record_is_read, folder_open, folder_close) {
  Record r = {.lines = NULL};
  Error error;
  const char *path = folder_path("r.json"), *problems[LAB_PROBLEMS];
  folder_write_json(path, MACHINE TOPIC RUNG PROBLEM ROW("4") ROW("8"));
  assert_true(lab_read(&r, path, &error));
  assert_int_equal(lab_problems(&r, "t", problems), 1);
  assert_string_equal(problems[0], "p");
  LabLadder l = lab_ladder_open(&r, "t", "p");
  assert_string_equal(l.size, "2x3");
  assert_true(l.rows.count == 2 && l.others.count == 0 && !l.reason);
  assert_true(number_of(l.table, "bytes") == 4e6 && number_of(l.rows.of[1], "point") == 8);
  int number;
  assert_true(text_is(lab_rung(&r, l.rows.of[0], &number), "lesson", "L") && number == 1);
  assert_true(l.ceiling.value == 1000);
  lab_ladder_close(&l);
  assert_true(record_close(&r, true, &error));
}

TEST_WITH(what_is_no_record_is_refused, folder_open, folder_close) {
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"", "it has no results"},
      {MACHINE, "it has no results"},
      {MACHINE "[1]\n", "line 2: it is no JSON object"},
      {MACHINE "{'case':", "line 2: it is no JSON object"},
      {MACHINE ROW("1"), "does not describe the topic 't'"},
      {MACHINE RUNG, "the rung 'r' is of no topic"},
      {MACHINE TOPIC PROBLEM ROW("1"), "t has no rung 'r'"},
      {MACHINE TOPIC RUNG "{'case':'lab','topic':'t','size':'0x1'}\n", "'0x1' is no size of t"},
      {MACHINE TOPIC RUNG "{'case':'lab','topic':7}\n", "describe the topic ''"},
      {MACHINE TOPIC RUNG "{'case':'lab','topic':'t','size':'1x1','rung':'r'}\n",
       "or it has no check"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Record r = {.lines = NULL};
    Error error = {.text = ""}, ignored;
    const char *path = folder_path("r.json");
    folder_write_json(path, cases[i].text);
    const bool good = lab_read(&r, path, &error);
    record_close(&r, good, &ignored);
    if (good || !strstr(error.text, cases[i].says)) fail_msg("%d: %s", (int)i, error.text);
  }
}
