/* Traces and timelines: the file against Chrome's Trace Event Format, the picture, and, with CUDA,
   what becomes of launches, kernels and stamps; on a GPU, of those that were recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/trace.h"
#include "plot/timeline.h"
#include "support/cuda.h"
#include "support/folder.h"
#include "support/process.h"
#ifdef HAVE_CUDA
#include "bench/cuda/range.h"
#include "bench/cuda/stages.h"
#endif

static Error error;

/* ---- the format ----------------------------------------------------------------------------- */

static double number_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value)) fail_msg("%s is not a number", key);
  return json_number_value(value);
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  if (!text) fail_msg("%s is not text", key);
  return text;
}

/* Microseconds with three decimals, as nanoseconds. */
static int64_t time_of(const json_t *event, const char *key) {
  const double us = number_of(event, key);
  assert_true(us >= 0);
  return llround(1e3 * us);
}

static bool same_track(const json_t *a, const json_t *b) {
  return number_of(a, "pid") == number_of(b, "pid") && number_of(a, "tid") == number_of(b, "tid");
}

/* The track has a name, the process too. */
static void assert_named(const json_t *events, const json_t *event) {
  const json_t *e;
  size_t i;
  bool process = false, track = false;
  json_array_foreach(events, i, e) {
    if (strcmp(text_of(e, "ph"), "M") != 0) break; /* names come first */
    if (strcmp(text_of(e, "name"), "process_name") == 0)
      process |= number_of(e, "pid") == number_of(event, "pid");
    if (strcmp(text_of(e, "name"), "thread_name") == 0) track |= same_track(e, event);
  }
  if (!process || !track) fail_msg("%s lies on a track without a name", text_of(event, "name"));
}

/* Some slice of its track holds the event. */
static void assert_in_a_slice(const json_t *events, const json_t *event) {
  const int64_t at = time_of(event, "ts");
  const json_t *e;
  size_t i;
  json_array_foreach(events, i, e) if (strcmp(text_of(e, "ph"), "X") == 0 && same_track(e, event) &&
                                       time_of(e, "ts") <= at &&
                                       at < time_of(e, "ts") + time_of(e, "dur")) return;
  fail_msg("an arrow, %s, begins or ends in no slice", text_of(event, "name"));
}

/* The other end of an arrow is there, once, and not before its beginning. */
static void assert_paired(const json_t *events, const json_t *event) {
  const bool head = strcmp(text_of(event, "ph"), "f") == 0;
  const json_t *e;
  size_t i;
  int others = 0;
  json_array_foreach(events, i, e) {
    if (e == event || !json_object_get(e, "id") || number_of(e, "id") != number_of(event, "id"))
      continue;
    others++;
    assert_string_equal(text_of(e, "ph"), head ? "s" : "f");
    assert_string_equal(text_of(e, "name"), text_of(event, "name"));
    assert_string_equal(text_of(e, "cat"), text_of(event, "cat"));
    assert_true(number_of(e, "pid") == number_of(event, "pid"));
    assert_true(head ? time_of(e, "ts") <= time_of(event, "ts")
                     : time_of(e, "ts") >= time_of(event, "ts"));
  }
  assert_int_equal(others, 1);
  if (head) assert_string_equal(text_of(event, "bp"), "e");
}

/* What the track's slices have come to. */
typedef struct {
  double pid, tid;
  int64_t end;
} Track;

static Track *track_of(Track tracks[], int *count, const json_t *event) {
  for (int i = 0; i < *count; i++)
    if (tracks[i].pid == number_of(event, "pid") && tracks[i].tid == number_of(event, "tid"))
      return &tracks[i];
  assert_in_range(*count, 0, 999);
  tracks[*count] = (Track){number_of(event, "pid"), number_of(event, "tid"), 0};
  return &tracks[(*count)++];
}

/* Every nth arrow is looked up: that takes a search through all events. Returns the slices. */
static int assert_format(const char *path, int nth, int *arrows) {
  static Track tracks[1000];
  json_error_t fault;
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
  if (!root) fail_msg("%s, line %d: %s", path, fault.line, fault.text);
  const json_t *events = json_object_get(root, "traceEvents"), *e;
  int slices = 0, count = 0;
  int64_t last = 0;
  size_t i;
  *arrows = 0;
  assert_string_equal(text_of(root, "displayTimeUnit"), "ns");
  assert_true(json_is_array(events));
  json_array_foreach(events, i, e) {
    const char *phase = text_of(e, "ph");
    assert_true(number_of(e, "pid") >= 1);
    assert_true(*text_of(e, "name"));
    if (strcmp(phase, "M") == 0) {
      assert_true(json_is_object(json_object_get(e, "args")));
      continue;
    }
    assert_true(time_of(e, "ts") >= last); /* sorted */
    last = time_of(e, "ts");
    assert_true(number_of(e, "tid") >= 1);
    if (strcmp(phase, "X") == 0) {
      Track *track = track_of(tracks, &count, e);
      if (track->end == 0) assert_named(events, e);
      assert_true(time_of(e, "dur") > 0);
      if (last < track->end) fail_msg("%s overlaps another slice", text_of(e, "name"));
      track->end = last + time_of(e, "dur");
      slices++;
      continue;
    }
    assert_true(strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0);
    if (++*arrows % nth != 0) continue;
    assert_in_a_slice(events, e);
    assert_paired(events, e);
  }
  *arrows /= 2;
  json_decref(root);
  return slices;
}

/* ---- a trace that is made up ---------------------------------------------------------------- */

static void add_slice(Trace *trace, int level, int track, int step, int start, int end,
                      const char *name) {
  assert_true(trace_add_slice(trace, level, track, step, start, end, name, &error));
}

/* Five steps of three kernels of 4000 ns, one after the other or, overlapping, on three tracks;
   with launches of 2000 ns or one of all, and a range's launch before. */
static void add_kernels(Trace *trace, int level, bool launches, bool overlap) {
  static const char *const names[] = {"forward", "back\\ward", "up\"date"};
  add_slice(trace, level, TRACE_HOST, -1, 0, 3000, "cudaGraphLaunch");
  for (int step = 0; step <= TRACE_STEPS; step++)
    for (int k = 0; k < 3; k++) {
      const int start = 5000 + 15000 * step + 5000 * k, track = TRACE_GPU + (overlap ? k : 0);
      if (launches) {
        add_slice(trace, level, TRACE_HOST, step, start, start + 2000, "cudaLaunchKernel");
        assert_true(
            trace_add_arrow(trace, level, TRACE_HOST, start, track, start + 999, "launch", &error));
      }
      add_slice(trace, level, track, step, start + (overlap ? -2000 : 500), start + 4500, names[k]);
    }
  assert_true(trace_add_track(trace, level, TRACE_HOST, "host", &error));
  for (int k = 0; k < 3; k++)
    assert_true(trace_add_track(trace, level, TRACE_GPU + k, "GPU", &error));
}

static void add_teams(Trace *trace, int level) {
  add_slice(trace, level, TRACE_HOST, -1, 0, 3000, "cudaLaunchCooperativeKernel");
  add_slice(trace, level, TRACE_GPU, -1, 4000, 100000, "epoch");
  assert_true(trace_add_track(trace, level, TRACE_HOST, "host", &error));
  assert_true(trace_add_track(trace, level, TRACE_GPU, "GPU", &error));
  for (int team = 0; team < TRACE_TEAMS; team++) {
    const int track = TRACE_TEAM + team;
    assert_true(trace_add_track(trace, level, track, "a team", &error));
    for (int step = 1; step < TRACE_STEPS; step++) {
      add_slice(trace, level, track, step, 5000 + 8000 * step, 9000 + 8000 * step, "update W1");
      add_slice(trace, level, track, step, 9000 + 8000 * step, 13000 + 8000 * step, "wait for Z1");
    }
  }
}

static Trace made_up(void) {
  static const char *const names[] = {"none", "layer", "step", "epoch"};
  Trace trace = {.gpu = "GPU 1", .driver = "580.1", .date = "2026-11-22", .network = "5-4-3-2"};
  for (int i = 0; i < 4; i++) {
    TraceLevel level = {.range = 64, .us = 14, .recorded_us = 15};
    snprintf(level.name, sizeof level.name, "%s", names[i]);
    assert_true(trace_add_level(&trace, &level, &error));
  }
  for (int i = 0; i < 3; i++) add_kernels(&trace, i, i < 2, i == 2);
  add_teams(&trace, 3);
  return trace;
}

static char *file_of(const char *path) {
  static char text[1 << 17];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

static void the_file_has_the_format(void **state) {
  (void)state;
  const char *path = folder_path("trace.json");
  Trace trace = made_up();
  int arrows;
  OK(trace_save(&trace, path, &error));
  assert_int_equal(assert_format(path, 1, &arrows), 3 + 45 + 30 + 2 + 18);
  assert_int_equal(arrows, 30);
  trace_close(&trace);
}

/* What is read is what was written: it is written the same again. */
static void a_trace_comes_back(void **state) {
  (void)state;
  char first[1 << 17], output[256], *path = strdup(folder_path("trace.json"));
  Trace trace = made_up(), back = {0};
  OK(trace_save(&trace, path, &error));
  snprintf(first, sizeof first, "%s", file_of(path));
  OK(trace_load(&back, path, &error));
  assert_int_equal(back.levels, 4);
  assert_int_equal(back.count, trace.count);
  assert_string_equal(back.gpu, "GPU 1");
  OK(trace_save(&back, path, &error));
  assert_string_equal(file_of(path), first);
  trace_close(&back);
  assert_int_equal(process_run(output, sizeof output, "gzip '%s'", path), 0);
  OK(trace_load(&back, folder_path("trace.json.gz"), &error));
  assert_int_equal(back.count, trace.count);
  trace_close(&trace);
  trace_close(&back);
  free(path);
}

static void files_that_are_no_trace(void **state) {
  (void)state;
  static const char level[] =
      "{\"otherData\":{\"levels\":[{\"name\":\"none\",\"range\":64,\"us_per_step\":1,"
      "\"recorded_us_per_step\":1}]},\"traceEvents\":[";
  static const struct {
    const char *start, *end, *says;
  } cases[] = {
      {"", "", "line 1"},
      {"{\"case\":\"epoch\"}", "\n{}", "line 2"},
      {"[]", "", "not a trace"},
      {"{\"traceEvents\":[{}]}", "", "not a trace"},
      {"{\"otherData\":{\"levels\":[{}]},\"traceEvents\":[{}]}", "", "level 1"},
      {level, "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":1,\"dur\":1,\"name\":\"a\"}]}", "event 1"},
      {level, "{\"ph\":\"X\",\"pid\":1,\"ts\":1,\"dur\":1,\"name\":\"a\"}]}", "event 1"},
      {level, "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":-1,\"dur\":1,\"name\":\"a\"}]}", "event 1"},
      {level, "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":1,\"name\":\"a\"}]}", "event 1"},
      {level, "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":1e300,\"dur\":1}]}", "event 1"},
      {level, "{\"ph\":\"s\",\"pid\":1,\"tid\":1,\"ts\":1,\"name\":\"a\"}]}", "event 1"},
  };
  char *path = strdup(folder_path("bad.json"));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Trace trace = {0};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s%s", cases[i].start, cases[i].end);
    assert_int_equal(fclose(file), 0);
    assert_false(trace_load(&trace, path, &error));
    if (!strstr(error.text, path) || !strstr(error.text, cases[i].says))
      fail_msg("case %zu: '%s' is not in '%s'", i, cases[i].says, error.text);
    trace_close(&trace);
  }
  Trace trace = {0};
  char output[256];
  assert_int_equal(process_run(output, sizeof output, "echo '[]' | gzip | head -c 20 >'%s'", path),
                   0);
  assert_false(trace_load(&trace, path, &error)); /* the archive has no end */
  assert_false(trace_load(&trace, "/no/such/file", &error));
  assert_false(trace_save(&trace, "/no/such/folder/trace.json", &error));
  free(path);
}

static void kernels_have_short_names(void **state) {
  (void)state;
  static const char *const names[][2] = {
      {"(anonymous namespace)::scale_pixels(BatchView, float*, int)", "scale pixels"},
      {"void (anonymous namespace)::forward_small<(anonymous namespace)::Pixels<0>, "
       "Matrix<(bool)1> >(BatchView, int)",
       "forward"},
      {"void lab::(anonymous namespace)::tile_large<4>(int)", "tile"},
      {"epoch_stamped::epoch_kernel(EpochPlan, EpochJob, EpochStamps)", "epoch"},
      {"order_kernel", "order"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char name[48];
    trace_kernel_name(names[i][0], name, sizeof name);
    assert_string_equal(name, names[i][1]);
  }
}

static void costs_are_printed(void **state) {
  (void)state;
  Trace trace = made_up();
  char *path = strdup(folder_path("table"));
  FILE *file = fopen(path, "w");
  snprintf(trace.missing, sizeof trace.missing, "epoch (it is too old)");
  trace.backwards = 2;
  assert_non_null(file);
  trace_print(&trace, file);
  assert_int_equal(fclose(file), 0);
  const char *text = file_of(path);
  assert_non_null(strstr(text, "GPU 1, driver 580.1"));
  assert_non_null(strstr(text, "none            14.0       15.0    +7.1%         3          3\n"));
  assert_non_null(strstr(text, "step            14.0       15.0    +7.1%         3          0\n"));
  assert_non_null(strstr(text, "Not recorded: epoch (it is too old)."));
  assert_non_null(strstr(text, "2 arrows"));
  trace_close(&trace);
  free(path);
}

/* ---- the picture ---------------------------------------------------------------------------- */

static void assert_colour(const Canvas *picture, int x, int y, Colour colour) {
  const uint8_t *pixel = picture->pixels + 3 * (y * picture->width + x);
  if (pixel[0] != colour.red || pixel[1] != colour.green || pixel[2] != colour.blue)
    fail_msg("pixel (%d, %d) is %d, %d, %d", x, y, pixel[0], pixel[1], pixel[2]);
}

static bool has_colour(const Canvas *picture, int top, int bottom, Colour colour) {
  for (int y = top; y < bottom; y++)
    for (int x = 0; x < picture->width; x++) {
      const uint8_t *pixel = picture->pixels + 3 * (y * picture->width + x);
      if (pixel[0] == colour.red && pixel[1] == colour.green && pixel[2] == colour.blue)
        return true;
    }
  return false;
}

/* A row of 10 on an axis of 20, and one of 100, whose slices lie at its start and its end. */
static void slices_lie_where_they_belong(void **state) {
  (void)state;
  static const Colour red = {200, 0, 0}, blue = {0, 0, 200};
  const TimelineSlice whole = {0, 10, "whole", "", red};
  const TimelineSlice ends[] = {
      {-5, 1, "", "", blue}, {50, 52, "middle", "", red}, {99, 200, "", "", blue}};
  const TimelineRow rows[] = {
      {.name = "a",
       .below = {"b", "c"},
       .length = 10,
       .lane = {{"d", NULL, &whole, 1}},
       .lanes = 1},
      {.name = "e", .length = 100, .lane = {{"f", NULL, ends, 3}}, .lanes = 1}};
  const Timeline chart = {
      .title = "t", .subtitle = "s", .unit = "us", .span = 20, .row = rows, .rows = 2};
  Canvas picture;
  OK(timeline_draw(&chart, &picture, &error));
  assert_int_equal(picture.width, TIMELINE_WIDTH);
  const int left = 262, right = TIMELINE_WIDTH - 28 - 64, first = 140 + 5, second = 194 + 5;
  assert_colour(&picture, left, first, red);
  assert_colour(&picture, (left + right) / 2 - 3, first, red);
  assert_true(!has_colour(&picture, 140, 172, blue));
  assert_colour(&picture, left, second, blue);
  assert_colour(&picture, left + (right - left) / 20 - 3, second, blue);
  assert_colour(&picture, right - 4, second, blue);
  assert_true(!has_colour(&picture, 194, 226, red)); /* the middle is left out */
  canvas_close(&picture);
}

static void timelines_that_cannot_be(void **state) {
  (void)state;
  const TimelineRow rows[] = {{.name = "a", .length = 0, .lanes = 1},
                              {.name = "b", .length = 1, .lanes = 0}};
  Timeline chart = {.title = "", .subtitle = "", .unit = "", .span = 1, .row = rows};
  Canvas picture;
  assert_false(timeline_draw(&chart, &picture, &error));
  chart.rows = 1;
  assert_false(timeline_draw(&chart, &picture, &error));
  assert_non_null(strstr(error.text, "'a'"));
  chart.row = rows + 1;
  assert_false(timeline_draw(&chart, &picture, &error));
  assert_non_null(strstr(error.text, "'b'"));
  chart.span = INFINITY;
  assert_false(timeline_draw(&chart, &picture, &error));
}

/* Rows of 2, 2, 4 and 4 lanes. */
static void a_trace_is_drawn(void **state) {
  (void)state;
  static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  uint8_t head[24];
  char *path = strdup(folder_path("timeline.png"));
  Trace trace = made_up();
  OK(trace_draw(&trace, path, &error));
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
  fclose(file);
  assert_memory_equal(head, signature, sizeof signature);
  assert_int_equal(head[18] * 256 + head[19], TIMELINE_WIDTH);
  assert_int_equal(head[22] * 256 + head[23], 140 + 12 * 32 + 3 * 22 + 62);
  assert_false(trace_draw(&trace, "/no/such/folder/x.png", &error));
  for (int i = 0; i < trace.count; i++)
    if (trace.events[i].level == 1 && trace.events[i].step == TRACE_SHOWN + 1)
      trace.events[i].step = -1;
  assert_false(trace_draw(&trace, path, &error));
  assert_non_null(strstr(error.text, "no whole step 2 of level layer"));
  trace_close(&trace);
  assert_false(trace_draw(&trace, path, &error));
  free(path);
}

#ifdef HAVE_CUDA

/* ---- launches and kernels ------------------------------------------------------------------- */

typedef struct {
  Activity of[64];
  int count;
} Recorded;

static void add(Recorded *to, bool on_host, uint32_t correlation, int64_t start, int64_t end,
                const char *name) {
  Activity *a = &to->of[to->count++];
  *a = (Activity){on_host, correlation, start, end, ""};
  snprintf(a->name, sizeof a->name, "%s", name);
}

/* A range before, which is passed over, then TRACE_STEPS + 1 steps of three kernels. */
static Recorded recorded_range(bool overlap) {
  Recorded r = {.count = 0};
  uint32_t number = 7;
  add(&r, true, 5, 100, 110, "cudaLaunchKernel");
  add(&r, false, 5, 120, 130, "begin_kernel");
  add(&r, false, 6, 140, 150, "gemm");
  add(&r, true, number, 1000, 1010, "cudaLaunchKernel");
  add(&r, false, number, 1020, 1030, "begin_kernel");
  for (int step = 0; step <= TRACE_STEPS; step++)
    for (int k = 0; k < 3; k++) {
      const int64_t start = 2000 + 300 * step + 100 * k;
      add(&r, true, ++number, start, start + 40, "cudaLaunchKernel");
      add(&r, false, number, start + (overlap ? 10 : 50), start + (overlap ? 120 : 90),
          k == 0 ? "scale" : "gemm");
    }
  return r;
}

static const TraceEvent *slice_at(const Trace *trace, int track, int64_t start) {
  for (int i = 0; i < trace->count; i++)
    if (trace->events[i].phase == 'X' && trace->events[i].track == track &&
        trace->events[i].start == start)
      return &trace->events[i];
  fail_msg("nothing starts at %d on track %d", (int)start, track);
  return NULL;
}

static void kernels_find_their_steps(void **state) {
  (void)state;
  for (int overlap = 0; overlap < 2; overlap++) {
    Recorded r = recorded_range(overlap);
    const Activities list = {r.of, r.count, r.count};
    Trace trace = {.levels = 1};
    RangeFacts facts;
    OK(range_add(&trace, 0, &list, false, &facts, &error));
    assert_true(fabs(facts.us - 0.3) < 1e-9);
    assert_int_equal(facts.begin, overlap ? 1010 : 1050);
    const TraceEvent *launch = slice_at(&trace, TRACE_HOST, 1400);
    assert_int_equal(launch->step, 1);
    const TraceEvent *gemm = slice_at(&trace, TRACE_GPU + 2 * overlap, overlap ? 1510 : 1550);
    assert_int_equal(gemm->step, 1);
    assert_string_equal(gemm->name, "gemm 2");
    assert_string_equal(slice_at(&trace, TRACE_GPU, overlap ? 1310 : 1350)->name, "scale");
    assert_int_equal(slice_at(&trace, TRACE_HOST, 0)->step, -1);
    assert_int_equal(trace.arrows, 1 + 3 * TRACE_STEPS);
    for (int i = 0; i < trace.count; i++) assert_true(trace.events[i].start < 1000 + 1200 + 60);
    trace_close(&trace);
  }
}

/* A graph's kernels have one launch, which belongs to no step and has one arrow; an epoch's only
   kernel belongs to none either. */
static void one_launch_of_many_steps(void **state) {
  (void)state;
  for (int one_kernel = 0; one_kernel < 2; one_kernel++) {
    Recorded r = {.count = 0};
    add(&r, true, 1, 10, 20, "cudaLaunchKernel");
    add(&r, false, 1, 30, 40, "begin_kernel");
    add(&r, true, 2, 50, 60, "cudaGraphLaunch");
    for (int step = 0; step < (one_kernel ? 1 : 6); step++)
      add(&r, false, 2, 100 + 100 * step, 190 + 100 * step, "scale");
    const Activities list = {r.of, r.count, r.count};
    Trace trace = {.levels = 1};
    RangeFacts facts;
    OK(range_add(&trace, 0, &list, one_kernel, &facts, &error));
    assert_int_equal(slice_at(&trace, TRACE_HOST, 40)->step, -1);
    assert_int_equal(slice_at(&trace, TRACE_GPU, 90)->step, one_kernel ? -1 : 0);
    assert_int_equal(trace.arrows, 2);
    assert_int_equal(facts.begin, 90);
    trace_close(&trace);
  }
}

static void ranges_that_were_not_seen(void **state) {
  (void)state;
  Recorded r = {.count = 0};
  Activities list = {r.of, 0, 0};
  Trace trace = {.levels = 1};
  RangeFacts facts;
  assert_false(range_add(&trace, 0, &list, false, &facts, &error));
  add(&r, true, 0, 10, 20, "cudaLaunchKernel"); /* a launch whose kernel is not known */
  add(&r, false, 1, 30, 40, "begin_kernel");
  list.count = 2;
  assert_false(range_add(&trace, 0, &list, false, &facts, &error));
  r.of[0].correlation = 1;
  assert_false(range_add(&trace, 0, &list, false, &facts, &error));
  assert_non_null(strstr(error.text, "no kernel of a step"));
  trace_close(&trace);
}

/* ---- stamps --------------------------------------------------------------------------------- */

enum { STEPS = 6, GROUPS = 2, TILES = 4, SPLITS = 5, BLOCKS = GROUPS * TILES * SPLITS };

/* Every block's clock has its own zero and runs at 2 GHz; team after team, a stamp every 100 ns,
   and the last team's blocks a little later each. */
static void stamp(uint64_t *clock, EpochAnchor *anchor) {
  for (int b = 0; b < BLOCKS; b++) {
    const uint64_t zero = 1000000 * (uint64_t)(b + 1), late = (uint64_t)b;
    anchor[b] = (EpochAnchor){{5000 + late, 105000 + late}, {zero, zero + 200000}};
    for (int step = 0; step < STEPS; step++)
      for (int s = 0; s < EPOCH_STAMPS; s++) {
        const bool owner = b % (TILES * SPLITS) < 16, row = s >= STAMP_ROW && s < STAMP_PATCH;
        clock[(b * STEPS + step) * EPOCH_STAMPS + s] =
            (row && !owner) || (s == STAMP_W3_RECEIVED && !owner)
                ? 0
                : zero + 2 * (uint64_t)(1000 + 3000 * step + 100 * s);
      }
  }
}

static void stamps_become_stages(void **state) {
  (void)state;
  static uint64_t clock[BLOCKS * STEPS * EPOCH_STAMPS];
  static EpochAnchor anchor[BLOCKS];
  const EpochPlan plan = {.groups = GROUPS, .tiles = TILES, .splits = SPLITS};
  const Stages stages = {&plan, clock, anchor, STEPS, 700};
  const TraceLevel level = {"epoch", STEPS, 3, 3};
  const char *path = folder_path("stages.json");
  Trace trace = {0};
  int arrows;
  stamp(clock, anchor);
  OK(trace_add_level(&trace, &level, &error));
  OK(stages_add(&trace, 0, &stages, 1, 3, &error));
  assert_true(fabs(stages_us(&stages, 1, 5) - 3) < 1e-9);
  const int track = TRACE_TEAM + TRACE_TEAMS * 7;
  const TraceEvent *first = slice_at(&trace, track, 700 + 7 + 1000 + 3000);
  assert_string_equal(first->name, "Z1 = W1 X");
  assert_int_equal(first->end - first->start, 100);
  assert_int_equal(first->step, 1);
  assert_int_equal(trace.track_count, BLOCKS * 2 + GROUPS * 16);
  OK(trace_save(&trace, path, &error));
  const int row_stages = STAMP_PATCH - STAMP_ROW - 1, matrix_stages = STAMP_ROW - STAMP_MATRIX - 1,
            patch_stages = EPOCH_STAMPS - STAMP_PATCH - 1;
  assert_int_equal(
      assert_format(path, 1, &arrows),
      2 * (BLOCKS * (matrix_stages + patch_stages - 1) + GROUPS * 16 * (row_stages + 1)));
  /* dZ1 is stamped before it is sent here, W2 before P is: these go back in time. */
  assert_int_equal(arrows + trace.backwards, 2 * (3 * BLOCKS + 4 * GROUPS * 16));
  assert_true(trace.backwards >= 2 * (BLOCKS + GROUPS * 16));
  trace_close(&trace);
}

/* Z1 comes from the block of the group that sent last, Z2 from the other group's. */
static void arrows_come_from_the_last_sender(void **state) {
  (void)state;
  static uint64_t clock[BLOCKS * STEPS * EPOCH_STAMPS];
  static EpochAnchor anchor[BLOCKS];
  const EpochPlan plan = {.groups = GROUPS, .tiles = TILES, .splits = SPLITS};
  const Stages stages = {&plan, clock, anchor, STEPS, 0};
  Trace trace = {.levels = 1};
  int z1 = 0, z2 = 0;
  stamp(clock, anchor);
  clock[(TILES * SPLITS + 3) * STEPS * EPOCH_STAMPS + STAMP_Z1_SENT] += 2 * 300;
  OK(stages_add(&trace, 0, &stages, 0, 1, &error));
  for (int i = 0; i + 1 < trace.count; i++) {
    const TraceEvent *tail = &trace.events[i], *head = tail + 1;
    if (tail->phase != 's') continue;
    const int from = (tail->track - TRACE_TEAM) / TRACE_TEAMS,
              to = (head->track - TRACE_TEAM) / TRACE_TEAMS, size = TILES * SPLITS;
    if (strcmp(tail->name, "Z1") == 0) {
      assert_int_equal(from, to < size ? size - 1 : size + 3);
      z1++;
    }
    if (strcmp(tail->name, "Z2") == 0) {
      assert_int_equal(from, (to + size) % BLOCKS);
      z2++;
    }
  }
  assert_int_equal(z1, GROUPS * 16);
  assert_int_equal(z2, GROUPS * 16);
  trace_close(&trace);
}

/* ---- the program ---------------------------------------------------------------------------- */

static void the_program_draws_a_recorded_trace(void **state) {
  (void)state;
  char output[8192], *path = strdup(folder_path("trace.json"));
  Trace trace = made_up();
  OK(trace_save(&trace, path, &error));
  trace_close(&trace);
  assert_int_equal(
      process_run(output, sizeof output,
                  "%s/mlp-bench --from '%s' --timeline '%s/t.png' && test -s '%s/t.png'",
                  PROGRAM_FOLDER, path, folder, folder),
      0);
  assert_non_null(strstr(output, "none            14.0"));
  assert_int_equal(process_run(output, sizeof output, "%s/mlp-bench --from '%s' --timeline '%s'",
                               PROGRAM_FOLDER, path, path),
                   2); /* the picture would replace the trace */
  free(path);
}

static void the_command_line(void **state) {
  (void)state;
  static const struct {
    const char *arguments, *says;
    int code;
  } cases[] = {
      {"--trace a --json b", "run mlp-bench twice", 2},
      {"--timeline a --plot b", "run mlp-bench twice", 2},
      {"--trace a --from b", "no use for --from", 2},
      {"--trace /tmp/a --timeline /tmp/a", "--timeline", 2},
      {"--trace /no/such/folder/x", "/no/such/folder/x", 1},
      {"--timeline /no/such/folder/x", "/no/such/folder/x", 1},
      {"--timeline /dev/null --from /no/such/file", "/no/such/file", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char output[8192];
    const int code =
        process_run(output, sizeof output, "%s/mlp-bench %s", PROGRAM_FOLDER, cases[i].arguments);
    if (code != cases[i].code || !strstr(output, cases[i].says))
      fail_msg("%s: exit code %d, %s", cases[i].arguments, code, output);
  }
}

/* Launches and kernels of each level, and stages that take as long as the kernel. */
static void a_gpu_is_recorded(void **state) {
  (void)state;
  Error why;
  char output[8192], *path = strdup(folder_path("trace.json"));
  int arrows;
  needs_gpu();
  if (!activity_available(&why)) {
    print_message("%s\n", why.text);
    skip();
  }
  if (process_run(output, sizeof output, "%s/mlp-bench --trace '%s' --timeline '%s/t.png'",
                  PROGRAM_FOLDER, path, folder) != 0)
    fail_msg("%s", output);
  assert_true(assert_format(path, 37, &arrows) > TRACE_STEPS * (28 + 5 + 5));
  assert_true(arrows >= TRACE_STEPS * (28 + 5));
  Trace trace = {0};
  OK(trace_load(&trace, path, &error));
  for (int i = 0; i < trace.levels; i++)
    assert_true(trace.level[i].recorded_us > 0.9 * trace.level[i].us &&
                trace.level[i].recorded_us < 5 * trace.level[i].us);
  trace_close(&trace);
  free(path);
}

#endif

int main(void) {
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_open, folder_close)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(the_file_has_the_format),
      IN_FOLDER(a_trace_comes_back),
      IN_FOLDER(files_that_are_no_trace),
      cmocka_unit_test(kernels_have_short_names),
      IN_FOLDER(costs_are_printed),
      cmocka_unit_test(slices_lie_where_they_belong),
      cmocka_unit_test(timelines_that_cannot_be),
      IN_FOLDER(a_trace_is_drawn),
#ifdef HAVE_CUDA
      cmocka_unit_test(kernels_find_their_steps),
      cmocka_unit_test(one_launch_of_many_steps),
      cmocka_unit_test(ranges_that_were_not_seen),
      IN_FOLDER(stamps_become_stages),
      cmocka_unit_test(arrows_come_from_the_last_sender),
      IN_FOLDER(the_program_draws_a_recorded_trace),
      cmocka_unit_test(the_command_line),
      IN_FOLDER(a_gpu_is_recorded),
#endif
  };
  return cmocka_run_group_tests_name("traces", tests, NULL, NULL);
}
