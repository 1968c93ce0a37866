/* Traces: what becomes of launches, kernels and stamps that are made up and, on a GPU, of those
   that mlp-bench records. */
#include "support/cuda_only.h"
#include "bench/cuda/recording.h"
#include "support/folder.h"
#include "support/process.h"
#include "support/trace_format.h"

/* What was recorded, and the trace that is made of it. */
static Trace list, trace;
static RangeFacts facts;

static void forget(void) {
  trace_close(&list);
  trace_close(&trace);
}

static void add(int track, int number, int64_t start, int64_t end, const char *name) {
  trace_add(&list, (TraceEvent){'X', 0, track, -1, number, start, end, ""}, name);
}

static bool add_range(bool one_kernel) {
  return range_add(&trace, 0, &list, one_kernel, &facts, &error);
}

/* Returns when a kernel of a made-up range is launched, on the host's clock. */
static int64_t launch_time(int step, int kernel) {
  return 2000 + 300 * step + 100 * kernel;
}

static const TraceEvent *slice_at(int track, int64_t start) {
  for (const TraceEvent *e = NULL; (e = trace_next(&trace, e, 0, track, track + 1));)
    if (e->start == start) return e;
  fail_msg("nothing starts at %d on track %d", (int)start, track);
  return NULL;
}

/* A range of 40 steps of three kernels, behind one that is passed over, gives its own launch and
   kernel and three steps, from TRACE_FIRST on. */
TEST(kernels_find_their_steps) {
  for (int overlap = 0; overlap < 2; overlap++) {
    const int64_t zero = 1000, late = overlap ? 10 : 50;
    int number = 7;
    forget();
    add(TRACE_HOST, 5, 100, 110, "cudaLaunchKernel");
    add(TRACE_GPU, 5, 120, 130, "begin_kernel");
    add(TRACE_GPU, 6, 140, 150, "gemm");
    add(TRACE_HOST, number, 1000, 1010, "cudaLaunchKernel");
    add(TRACE_GPU, number, 1020, 1030, "begin_kernel");
    for (int step = 0; step < 40; step++)
      for (int k = 0; k < 3; k++) {
        const int64_t start = launch_time(step, k);
        add(TRACE_HOST, ++number, start, start + 40, "cudaLaunchKernel");
        add(TRACE_GPU, number, start + late, start + (overlap ? 120 : 90),
            k == 0 ? "scale" : "gemm");
      }
    const int step = TRACE_FIRST + 1;
    OK(add_range(false));
    assert_close(facts.us, 0.3, 1e-9);
    assert_int_equal(facts.begin, launch_time(0, 0) + late - zero);
    assert_int_equal(slice_at(TRACE_HOST, 0)->step, -1);
    assert_string_equal(slice_at(TRACE_GPU, 20)->name, "begin");
    assert_int_equal(slice_at(TRACE_HOST, launch_time(step, 1) - zero)->step, step);
    const TraceEvent *gemm = slice_at(TRACE_GPU + 2 * overlap, launch_time(step, 2) + late - zero);
    assert_int_equal(gemm->step, step);
    assert_string_equal(gemm->name, "gemm 2");
    assert_string_equal(slice_at(TRACE_GPU, launch_time(step, 0) + late - zero)->name, "scale");
    const int steps = TRACE_END - TRACE_FIRST, launch_after = 1;
    assert_int_equal(trace.arrows, 1 + 3 * steps);
    const int tracks = overlap ? 4 : 2;
    assert_int_equal(trace.count, 2 + 2 * 3 * steps + launch_after + 2 * trace.arrows + tracks);
  }
}

/* A graph's kernels have one launch, which belongs to no step and has one arrow; an epoch's only
   kernel belongs to none either. */
TEST(one_launch_of_many_steps) {
  for (int one_kernel = 0; one_kernel < 2; one_kernel++) {
    forget();
    add(TRACE_HOST, 1, 10, 20, "cudaLaunchKernel");
    add(TRACE_GPU, 1, 30, 40, "begin_kernel");
    add(TRACE_HOST, 2, 50, 60, "cudaGraphLaunch");
    for (int step = 0; step < (one_kernel ? 1 : TRACE_END); step++)
      add(TRACE_GPU, 2, 100 + 100 * step, 190 + 100 * step, "scale");
    OK(add_range(one_kernel));
    assert_int_equal(slice_at(TRACE_HOST, 40)->step, -1);
    if (one_kernel)
      assert_int_equal(slice_at(TRACE_GPU, 90)->step, -1);
    else
      assert_int_equal(slice_at(TRACE_GPU, 90 + 100 * TRACE_FIRST)->step, TRACE_FIRST);
    assert_int_equal(trace.arrows, 2);
    assert_int_equal(facts.begin, 90);
  }
}

TEST(ranges_that_were_not_seen) {
  forget();
  assert_false(add_range(false));
  add(TRACE_HOST, 0, 10, 20, "cudaLaunchKernel"); /* a launch whose kernel is not known */
  add(TRACE_GPU, 1, 30, 40, "begin_kernel");
  assert_false(add_range(false));
  list.events[0].arrow = 1;
  FAILS(add_range(false), "no kernel of a step");
}

/* ---- stamps --------------------------------------------------------------------------------- */

/* Two groups: 2 x 16 row blocks, then 2 x 2 x 5 matrix blocks. */
enum { STEPS = 6, GROUPS = 2, ROW_BLOCKS = 32, BLOCKS = 52, MATRIX_BLOCKS = BLOCKS - ROW_BLOCKS };
static const EpochPlan stamped = {.groups = GROUPS,
                                  .tiles = 4,
                                  .depth = 1,
                                  .sets = 2,
                                  .splits = 5,
                                  .row_blocks = ROW_BLOCKS,
                                  .blocks = BLOCKS};

static uint64_t ticks[BLOCKS * STEPS * EPOCH_STAMPS];
static EpochAnchor anchor[BLOCKS];

/* Every block's clock has its own zero and runs at 2 GHz; team after team, a stamp every 100 ns,
   and the last team's blocks a little later each. */
static void stamp(void) {
  for (int b = 0; b < BLOCKS; b++) {
    const uint64_t zero = 1000000 * (uint64_t)(b + 1), late = (uint64_t)b;
    anchor[b] = (EpochAnchor){{5000 + late, 105000 + late}, {zero, zero + 200000}};
    for (int step = 0; step < STEPS; step++)
      for (int s = 0; s < EPOCH_STAMPS; s++) {
        const bool taken = (s < STAMP_ROW) == (b >= ROW_BLOCKS);
        ticks[(b * STEPS + step) * EPOCH_STAMPS + s] =
            taken ? zero + 2 * (uint64_t)(1000 + 3000 * step + 100 * s) : 0;
      }
  }
}

IN_FOLDER(stamps_become_stages) {
  const char *path = "stages.json";
  forget();
  trace_add_level(&trace, "epoch", STEPS, 3, 3);
  const Stages stages = {&trace, 0, &stamped, ticks, anchor, STEPS, 700};
  int arrows, tracks = 0;
  stamp();
  stages_add(&stages, 1, 3);
  assert_close(stages_us(&stages, 1, 5), 3, 1e-9);
  const int track = TRACE_TEAM + TRACE_TEAMS * 7 + TEAM_MATRIX;
  const TraceEvent *first = slice_at(track, 700 + ROW_BLOCKS + 7 + 1000 + 3000);
  assert_string_equal(first->name, "Z1 = W1 X");
  assert_int_equal(first->end - first->start, 100);
  assert_int_equal(first->step, 1);
  foreach_event (e, &trace) tracks += e->phase == 'M';
  assert_int_equal(tracks, MATRIX_BLOCKS + 3 * ROW_BLOCKS);
  OK(trace_save(&trace, path, &error));
  const int matrix_stages = STAMP_ROW - STAMP_MATRIX - 1, row_stages = STAMP_HEAD - STAMP_ROW - 1,
            head_stages = STAMP_PATCH - STAMP_HEAD - 1,
            patch_stages = EPOCH_STAMPS - STAMP_PATCH - 1;
  assert_int_equal(
      assert_format(path, 1, &arrows),
      2 * (MATRIX_BLOCKS * matrix_stages + ROW_BLOCKS * (row_stages + head_stages + patch_stages)));
  /* Seven kinds of mail, two of which come in the next step: in two steps once. What is stamped as
     received before it is stamped as sent goes back in time: dZ1 here. */
  assert_int_equal(arrows + trace.backwards, 2 * (4 * ROW_BLOCKS + MATRIX_BLOCKS) + 2 * ROW_BLOCKS);
  assert_true(trace.backwards >= 2 * MATRIX_BLOCKS);
}

/* Z1 comes from the group's matrix block that sent last, Z2 from the other group's row block. */
TEST(arrows_come_from_the_last_sender) {
  const Stages stages = {&trace, 0, &stamped, ticks, anchor, STEPS, 0};
  int z1 = 0, z2 = 0;
  forget();
  stamp();
  ticks[(ROW_BLOCKS + 13) * STEPS * EPOCH_STAMPS + STAMP_Z1_SENT] += 2 * 300;
  stages_add(&stages, 0, 1);
  for (int i = 0; i + 1 < trace.count; i++) {
    const TraceEvent *tail = &trace.events[i], *head = tail + 1;
    if (tail->phase != 's') continue;
    const int from = (tail->track - TRACE_TEAM) / TRACE_TEAMS,
              to = (head->track - TRACE_TEAM) / TRACE_TEAMS;
    if (strcmp(tail->name, "Z1") == 0) {
      assert_int_equal(from, to < 16 ? 9 : 13);
      z1++;
    }
    if (strcmp(tail->name, "Z2") == 0) {
      assert_int_equal(from, (to + 16) % ROW_BLOCKS);
      z2++;
    }
  }
  assert_int_equal(z1, GROUPS * 16);
  assert_int_equal(z2, GROUPS * 16);
}

/* Launches and kernels of each level, and stages that take as long as the kernel. Other programs
   may slow down one of the two runs that are compared, so there are three tries. */
IN_FOLDER(a_gpu_is_recorded) {
  enum { TRIES = 3 };
  char *output, *path = "trace.json";
  int arrows;
  bool agree = false;
  needs_gpu();
  for (int i = 0; i < TRIES && !agree; i++) {
    const int code = process_run(text_printf("%s --trace '%s' --timeline t.png",
                                             folder_before(PROGRAM_FOLDER "/mlp-bench"), path),
                                 &output);
    if (code == 1 && (strstr(output, "CUPTI cannot") || strstr(output, "need CUPTI")))
      skip_because(output); /* not on every machine, nor beside a profiler */
    if (code != 0) fail_msg("%s", output);
    const int steps = TRACE_END - TRACE_FIRST;
    assert_true(assert_format(path, 37, &arrows) > steps * (28 + 5 + 5));
    assert_true(arrows >= steps * (28 + 5));
    forget();
    OK(trace_load(&trace, path, &error));
    agree = true;
    for (int l = 0; l < trace_levels(&trace); l++) { /* recording has a price, but no other */
      const json_t *level = trace_level(&trace, l);
      const double cost =
          number_of(level, "recorded_us_per_step") / number_of(level, "us_per_step");
      agree &= cost > 0.9 && cost < 5;
    }
  }
  assert_true(agree);
}
