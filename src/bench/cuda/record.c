/* Records a trace: each level trains a few ranges of steps while CUPTI looks on, and the epoch
   kernel, which is one kernel to CUPTI, runs with stamps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "bench/bench.h"
#include "bench/cuda/recording.h"
#include "measure/cuda/rung.h"

enum { BATCH = 64, RANGE = 64, LONG_RANGE = 512, SAMPLES = 5 };

/* ---- stamps --------------------------------------------------------------------------------- */

/* The arrays of the stamped epoch kernel; d_clock NULL: the kernel without stamps runs. */
static EpochStamps stamps;
static EpochPlan stamped_plan;

/* The linker sends the engine's launches through here (--wrap in the Makefile). */
cudaError_t __real_launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream);
cudaError_t __wrap_launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream);

cudaError_t __wrap_launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream) {
  if (!stamps.d_clock) return __real_launch_epoch(plan, job, stream);
  stamped_plan = *plan;
  return launch_epoch_stamped(plan, job, &stamps, stream);
}

#ifndef HAVE_CUPTI

bool trace_record(Trace *trace, const char *command, Error *error) {
  (void)trace, (void)command;
  return error_set(error, "--trace and --timeline need CUPTI, which the CUDA Toolkit did not have "
                          "when this program was built: install libcupti-dev or, of NVIDIA's "
                          "packages, cuda-cupti-dev-13-0 (your release), then `make clean all`");
}

#else

/* Random pixels and labels: how long a step takes does not depend on what they show. */
static const BenchRows rows = {.inputs = 784, .train_rows = (uint64_t)LONG_RANGE * BATCH};

static size_t clock_bytes(int blocks) {
  return (size_t)blocks * LONG_RANGE * EPOCH_STAMPS * sizeof *stamps.d_clock;
}

/* Stamps every step of a range, in as many blocks as there may be. */
static bool open_stamps(int blocks, Error *error) {
  stamps = (EpochStamps){.steps = LONG_RANGE};
  return cuda_done(cudaMalloc((void **)&stamps.d_anchor, (size_t)blocks * sizeof(EpochAnchor)),
                   "allocating", error) &&
         cuda_done(cudaMalloc((void **)&stamps.d_clock, clock_bytes(blocks)), "allocating",
                   error) &&
         cuda_done(cudaMemset(stamps.d_clock, 0, clock_bytes(blocks)), "clearing", error);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static bool train(Engine *engine, uint64_t steps, double *seconds, Error *error) {
  return bench_train(engine, &rows, 0, steps, 1e-3f, seconds, error);
}

/* Loads and captures what there is. */
static bool warm_up(Engine *engine, Error *error) {
  double seconds;
  return train(engine, RANGE, &seconds, error) && train(engine, LONG_RANGE, &seconds, error);
}

/* The median of what a step of a long range takes. */
static bool time_steps(Engine *engine, double *us, Error *error) {
  double seconds[SAMPLES];
  if (!warm_up(engine, error)) return false;
  for (int i = 0; i < SAMPLES; i++)
    if (!train(engine, LONG_RANGE, &seconds[i], error)) return false;
  *us = 1e6 * stats_of(seconds, SAMPLES).median / LONG_RANGE;
  return true;
}

/* ---- all levels ----------------------------------------------------------------------------- */

/* begin: of the kernel. *us: of a step. */
static bool add_stages(Trace *trace, int level, int64_t begin, double *us, Error *error) {
  const int blocks = stamped_plan.blocks;
  const size_t anchors = (size_t)blocks * sizeof(EpochAnchor);
  uint64_t *clock = malloc(clock_bytes(blocks));
  EpochAnchor *anchor = malloc(anchors);
  const Stages stages = {trace, level, &stamped_plan, clock, anchor, LONG_RANGE, begin};
  const bool good =
      ((clock && anchor) || error_set(error, "no memory for the stamps of %d blocks", blocks)) &&
      cuda_done(cudaMemcpy(clock, stamps.d_clock, clock_bytes(blocks), cudaMemcpyDeviceToHost),
                "fetching stamps", error) &&
      cuda_done(cudaMemcpy(anchor, stamps.d_anchor, anchors, cudaMemcpyDeviceToHost),
                "fetching stamps", error);
  if (good) stages_add(&stages, TRACE_FIRST, TRACE_END);
  if (good) *us = stages_us(&stages, TRACE_SHOWN, RANGE - 1);
  free(clock);
  free(anchor);
  return good;
}

/* A level that does not run here leaves us[level] NAN, and its reason in trace->missing. */
static void time_levels(Trace *trace, double us[TRACE_LEVELS]) {
  for (int level = 0; level < TRACE_LEVELS; level++) {
    Error reason;
    Engine *engine = bench_open(&bench_levels[level], &rows, &bench_usual, BATCH, &reason);
    us[level] = NAN;
    if (!engine || !time_steps(engine, &us[level], &reason))
      snprintf(trace->missing, sizeof trace->missing, "%s (%.300s)", bench_levels[level].name,
               reason.text);
    if (engine) engine->call->close(engine);
  }
}

/* The second of two ranges: the first thing that CUPTI sees after activity_take costs it a
   millisecond. */
static bool record_range(Engine *engine, Trace *list, Error *error) {
  double seconds;
  return warm_up(engine, error) && activity_take(list, error) &&
         train(engine, RANGE, &seconds, error) && train(engine, RANGE, &seconds, error) &&
         activity_take(list, error);
}

static bool add_level(Trace *trace, const BenchLevel *of, double us, Trace *list, Error *error) {
  TraceLevel *level = &trace->level[trace->levels];
  const bool one_kernel = of->level == FUSION_EPOCH;
  RangeFacts facts;
  if (!range_add(trace, trace->levels, list, one_kernel, &facts, error) ||
      (one_kernel && !add_stages(trace, trace->levels, facts.begin, &facts.us, error)))
    return false;
  *level = (TraceLevel){.range = RANGE, .us = us, .recorded_us = facts.us};
  snprintf(level->name, sizeof level->name, "%s", of->name);
  trace->levels++;
  return true;
}

static bool record_level(Trace *trace, int level, double us, Trace *list, int blocks,
                         Error *error) {
  const BenchLevel *of = &bench_levels[level];
  Engine *engine = bench_open(of, &rows, &bench_usual, BATCH, error);
  const bool good = engine && (of->level != FUSION_EPOCH || open_stamps(blocks, error)) &&
                    record_range(engine, list, error) && add_level(trace, of, us, list, error);
  cudaFree(stamps.d_clock);
  cudaFree(stamps.d_anchor);
  stamps = (EpochStamps){0};
  if (engine) engine->call->close(engine);
  return good;
}

static bool describe(Trace *trace, const char *command, int *blocks, Error *error) {
  GpuMachine machine;
  if (!gpu_machine(&machine, error)) return false;
  *blocks = machine.multiprocessors;
  memcpy(trace->gpu, machine.name, sizeof trace->gpu);
  memcpy(trace->driver, machine.driver, sizeof trace->driver);
  memcpy(trace->date, machine.date, sizeof trace->date);
  snprintf(trace->network, sizeof trace->network, "784-300-100-10, batch %d", BATCH);
  snprintf(trace->command, sizeof trace->command, "%s", command);
  return true;
}

/* Without CUPTI first: once it looks, it does to the end. */
bool trace_record(Trace *trace, const char *command, Error *error) {
  double us[TRACE_LEVELS];
  Trace list = {0};
  int blocks;
  if (!describe(trace, command, &blocks, error)) return false;
  time_levels(trace, us);
  bool good = activity_start(error);
  for (int level = 0; good && level < TRACE_LEVELS; level++)
    if (isfinite(us[level])) good = record_level(trace, level, us[level], &list, blocks, error);
  trace_close(&list);
  return good && trace_whole(trace, error);
}

#endif
