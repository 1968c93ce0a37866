/* Traces and timelines: the file against Chrome's Trace Event Format, and the picture. What is
   recorded on a GPU: test_trace_cuda.c. */
#include "bench/trace.h"
#include "measure/record.h"
#include "support/folder.h"
#include "support/process.h"
#include "support/trace_format.h"

/* Four steps of three kernels of 4000 ns, one after the other or, overlapping, on three tracks;
   with launches of 2000 ns or one of all, and a range's launch before. */
static void add_kernels(Trace *trace, int level, bool launches, bool overlap) {
  static const char *const names[] = {"forward", "back\\ward", "up\"date"};
  trace_add_slice(trace, level, TRACE_HOST, -1, 0, 3000, "cudaGraphLaunch");
  for (int step = TRACE_FIRST; step <= TRACE_END; step++)
    for (int k = 0; k < 3; k++) {
      const int start = 5000 + 15000 * (step - TRACE_FIRST) + 5000 * k,
                track = TRACE_GPU + (overlap ? k : 0);
      if (launches) {
        trace_add_slice(trace, level, TRACE_HOST, step, start, start + 2000, "cudaLaunchKernel");
        trace_add_arrow(trace, level, TRACE_HOST, start, track, start + 999, "launch");
      }
      trace_add_slice(trace, level, track, step, start + (overlap ? -2000 : 500), start + 4500,
                      names[k]);
    }
  trace_add_track(trace, level, TRACE_HOST, "host");
  for (int k = 0; k < 3; k++) trace_add_track(trace, level, TRACE_GPU + k, "GPU");
}

static void add_teams(Trace *trace, int level) {
  trace_add_slice(trace, level, TRACE_HOST, -1, 0, 3000, "cudaLaunchCooperativeKernel");
  trace_add_slice(trace, level, TRACE_GPU, -1, 4000, 100000, "epoch");
  trace_add_track(trace, level, TRACE_HOST, "host");
  trace_add_track(trace, level, TRACE_GPU, "GPU");
  for (int track = TRACE_TEAM; track < TRACE_TEAM + TRACE_TEAMS; track++) {
    trace_add_track(trace, level, track, "a team");
    for (int step = TRACE_FIRST; step < TRACE_END; step++) {
      const int start = 5000 + 8000 * (step - TRACE_FIRST);
      trace_add_slice(trace, level, track, step, start, start + 4000, "update W1");
      trace_add_slice(trace, level, track, step, start + 4000, start + 8000, "wait for Z1");
    }
  }
}

/* Closed at the end of its block. */
#define TRACE __attribute__((cleanup(trace_close))) Trace

static Trace made_up(void) {
  static const char *const levels[] = {"none", "layer", "step", "epoch"};
  Trace trace = {.head = json_pack("{ss ss ss ss}", "gpu", "GPU 1", "driver", "580.1", "date",
                                   "2026-11-22", "network", "5-4-3-2")};
  foreach (name, levels) trace_add_level(&trace, *name, 64, 14, 15);
  for (int i = 0; i < 3; i++) add_kernels(&trace, i, i < 2, i == 2);
  add_teams(&trace, 3);
  return trace;
}

static const char path[] = "trace.json";

TESTS_WITH(folder_enter, folder_close);

/* The file has the format, and a trace that was read is written the same again. */
TEST(a_trace_comes_back) {
  char *output;
  int arrows;
  TRACE trace = made_up(), back = {0};
  OK(trace_save(&trace, path, &error));
  assert_int_equal(assert_format(path, 1, &arrows), 3 + 36 + 24 + 2 + 6 * TRACE_TEAMS);
  assert_int_equal(arrows, 24);
  const char *first = folder_read(path);
  OK(trace_load(&back, path, &error));
  assert_int_equal(trace_levels(&back), 4);
  assert_int_equal(back.count, trace.count);
  assert_string_equal(text_of(back.head, "gpu"), "GPU 1");
  OK(trace_save(&back, path, &error));
  assert_string_equal(folder_read(path), first);
  trace_close(&back);
  assert_int_equal(process_run("gzip trace.json", &output), 0);
  OK(trace_load(&back, "trace.json.gz", &error));
  assert_int_equal(back.count, trace.count);
}

/* A level, and an event that is none. */
#define EVENT(phase)                                                                               \
  "{'otherData':{'levels':[{'name':'none','range':64,'us_per_step':1,'recorded_us_per_step':1}]}," \
  "'traceEvents':[{'ph':" phase "}]}",                                                             \
      "event 1"

TEST(files_that_are_no_trace) {
  static const Pair cases[] = {
      {"", "line 1"},
      {"{'case':'epoch'}\n{}", "line 2"},
      {"[]", "not a trace"},
      {"{'traceEvents':[{}]}", "not a trace"},
      {"{'otherData':{'levels':[{}]},'traceEvents':[{}]}", "level 1"},
      {EVENT("'X','pid':2,'tid':1,'ts':1,'dur':1")},
      {EVENT("'X','pid':1,'ts':1,'dur':1")},
      {EVENT("'X','pid':1,'tid':1,'ts':-1,'dur':1")},
      {EVENT("'X','pid':1,'tid':1,'ts':1")},
      {EVENT("'X','pid':1,'tid':1,'ts':1e300,'dur':1")},
      {EVENT("'s','pid':1,'tid':1,'ts':1")},
  };
  char *output;
  Trace trace = {0};
  foreach (row, cases) {
    folder_write_json(path, row->given);
    const bool loaded = trace_load(&trace, path, &error);
    assert_in(error.text, path);
    FAILS(loaded, row->wanted);
    trace_close(&trace);
  }
  assert_int_equal(process_run("echo '[]' | gzip | head -c 20 >trace.json", &output), 0);
  assert_false(trace_load(&trace, path, &error)); /* the archive has no end */
  assert_false(trace_load(&trace, "/no/such/file", &error));
  assert_false(trace_save(&trace, "/no/such/folder/trace.json", &error));
}

TEST(kernels_have_short_names) {
  static const Pair names[] = {
      {"(anonymous namespace)::scale_pixels(BatchView, float*, int)", "scale pixels"},
      {"void (anonymous namespace)::forward_kernel<(anonymous namespace)::Pixels<0>, "
       "Matrix<(bool)1> >(BatchView, int)",
       "forward"},
      {"void lab::(anonymous namespace)::weight_tile<4>(int)", "weight tile"},
      {"epoch_stamped::epoch_kernel(EpochPlan, EpochJob, EpochStamps)", "epoch"},
      {"order_kernel", "order"},
      {"", ""},
  };
  foreach (row, names) {
    char name[48];
    trace_kernel_name(row->given, name, sizeof name);
    assert_string_equal(name, row->wanted);
  }
}

TEST(costs_are_printed) {
  TRACE trace = made_up();
  snprintf(trace.missing, sizeof trace.missing, "epoch (it is too old)");
  trace.backwards = 2;
  const char *text = PRINTED(file, trace_print(&trace, file));
  static const char *const says[] = {
      "GPU 1, driver 580.1", "Not recorded: epoch (it is too old).", "2 arrows",
      "none            14.0       15.0    +7.1%         3          3\n",
      "step            14.0       15.0    +7.1%         3          0\n"};
  foreach (words, says) assert_in(text, *words);
}

/* Rows of 2, 2, 4 and 5 lanes. */
TEST(a_trace_is_drawn) {
  TRACE trace = made_up();
  OK(trace_draw(&trace, path, &error));
  assert_png(path, 1200, 140 + 13 * 32 + 3 * 22 + 62);
  assert_false(trace_draw(&trace, "/no/such/folder/x.png", &error));
  foreach_event (e, &trace)
    if (e->level == 1 && e->step == TRACE_SHOWN + 1) e->step = -1;
  FAILS(trace_draw(&trace, path, &error), "no whole step 32 of level layer");
  trace_close(&trace);
  assert_false(trace_draw(&trace, path, &error));
}
