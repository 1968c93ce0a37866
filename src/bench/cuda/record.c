/* Records a trace: each level trains a few ranges of steps while CUPTI looks on, and the epoch
   kernel, which is one kernel to CUPTI, runs with stamps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/stats.h"
#include "bench/bench.h"
#include "bench/cuda/range.h"
#include "bench/cuda/stages.h"
#include "engine/loader.h"
#include "measure/cuda/gpu_rates.h"

enum { BATCH = 64, RANGE = 64, LONG_RANGE = 512, SAMPLES = 5 };

static const Fusion fusions[TRACE_LEVELS] = {FUSION_NONE, FUSION_LAYER, FUSION_STEP, FUSION_EPOCH};
static const char *const names[TRACE_LEVELS] = {"none", "layer", "step", "epoch"};

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

static void close_stamps(void) {
  cudaFree(stamps.d_clock);
  cudaFree(stamps.d_anchor);
  stamps = (EpochStamps){0};
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Random pixels and labels: how long a step takes does not depend on what they show. */
static bool fill(Engine *engine, Error *error) {
  const EngineConfig *config = &engine->config;
  for (uint64_t first = 0, index = 0; first < config->dataset_rows; index = 1 - index) {
    StagingBuffer to;
    const uint64_t left = config->dataset_rows - first;
    const uint64_t rows = left < config->staging_rows ? left : config->staging_rows;
    if (!engine->call->staging(engine, (int)index, &to, error)) return false;
    for (uint64_t i = 0; i < rows * to.stride; i += sizeof(RandomWords)) {
      const RandomWords words = random_words(1, 2, first * to.stride + i);
      memcpy(to.pixels + i, &words, sizeof words);
    }
    for (uint64_t r = 0; r < rows; r++)
      to.labels[r] = (uint16_t)(random_words(1, 3, first + r).word[0] % 10);
    if (!engine->call->upload(engine, (int)index, first, rows, error)) return false;
    first += rows;
  }
  return true;
}

static Engine *open_level(int level, Error *error) {
  static const int hidden[] = {300, 100};
  EngineConfig config = {
      .training = {.batch = BATCH, .seed = 1, .rule.momentum = 0.9f, .fusion = fusions[level]},
      .dataset_rows = (uint64_t)LONG_RANGE * BATCH,
      .staging_rows = loader_staging_rows(BATCH)};
  if (!network_init(&config.network, 784, hidden, 2, 10, error)) return NULL;
  Engine *engine = engine_cuda_open(&config, error);
  if (!engine || fill(engine, error)) return engine;
  engine->call->close(engine);
  return NULL;
}

static bool train(Engine *engine, int steps, Error *error) {
  const TrainRange range = {.rows = (uint64_t)LONG_RANGE * BATCH,
                            .shuffled = true,
                            .key = random_order_key(1, 0),
                            .steps = (uint64_t)steps,
                            .learning_rate = 1e-3f};
  EngineSums sums;
  return engine->call->train(engine, &range, error) && engine->call->collect(engine, &sums, error);
}

/* Loads and captures what there is. */
static bool warm_up(Engine *engine, Error *error) {
  return train(engine, RANGE, error) && train(engine, LONG_RANGE, error);
}

/* The median of what a step of a long range takes. */
static bool time_steps(Engine *engine, double *us, Error *error) {
  double seconds[SAMPLES];
  if (!warm_up(engine, error)) return false;
  for (int i = 0; i < SAMPLES; i++) {
    const double start = seconds_now();
    if (!train(engine, LONG_RANGE, error)) return false;
    seconds[i] = seconds_now() - start;
  }
  *us = 1e6 * stats_of(seconds, SAMPLES).median / LONG_RANGE;
  return true;
}

/* ---- all levels ----------------------------------------------------------------------------- */

/* begin: of the kernel. *us: of a step. */
static bool add_stages(Trace *trace, int level, int64_t begin, double *us, Error *error) {
  const int blocks = stamped_plan.blocks;
  uint64_t *clock = malloc(clock_bytes(blocks));
  EpochAnchor *anchor = malloc((size_t)blocks * sizeof *anchor);
  const Stages stages = {&stamped_plan, clock, anchor, LONG_RANGE, begin};
  const bool good =
      ((clock && anchor) || error_set(error, "no memory for the stamps of %d blocks", blocks)) &&
      cuda_done(cudaMemcpy(clock, stamps.d_clock, clock_bytes(blocks), cudaMemcpyDeviceToHost),
                "fetching stamps", error) &&
      cuda_done(cudaMemcpy(anchor, stamps.d_anchor, (size_t)blocks * sizeof *anchor,
                           cudaMemcpyDeviceToHost),
                "fetching stamps", error) &&
      stages_add(trace, level, &stages, TRACE_FIRST, TRACE_END, error);
  if (good) *us = stages_us(&stages, TRACE_SHOWN, RANGE - 1);
  free(clock);
  free(anchor);
  return good;
}

/* A level that does not run here leaves us[level] NAN, and its reason in trace->missing. */
static void time_levels(Trace *trace, double us[TRACE_LEVELS]) {
  for (int level = 0; level < TRACE_LEVELS; level++) {
    Error reason;
    Engine *engine = open_level(level, &reason);
    us[level] = NAN;
    if (!engine || !time_steps(engine, &us[level], &reason)) {
      us[level] = NAN;
      snprintf(trace->missing, sizeof trace->missing, "%s (%.300s)", names[level], reason.text);
    }
    if (engine) engine->call->close(engine);
  }
}

/* The second of two ranges: the first thing that CUPTI sees after activity_take costs it a
   millisecond. */
static bool record_range(Engine *engine, Activities *list, Error *error) {
  return warm_up(engine, error) && activity_take(list, error) && train(engine, RANGE, error) &&
         train(engine, RANGE, error) && activity_take(list, error);
}

static bool add_level(Trace *trace, const char *name, Fusion fusion, double us,
                      const Activities *list, Error *error) {
  TraceLevel level = {.range = RANGE, .us = us};
  const int number = trace->levels;
  const bool one_kernel = fusion == FUSION_EPOCH;
  RangeFacts facts;
  snprintf(level.name, sizeof level.name, "%s", name);
  if (!trace_add_level(trace, &level, error) ||
      !range_add(trace, number, list, one_kernel, &facts, error) ||
      (one_kernel && !add_stages(trace, number, facts.begin, &facts.us, error)))
    return false;
  trace->level[number].recorded_us = facts.us;
  return true;
}

static bool record_level(Trace *trace, int level, double us, Activities *list, int blocks,
                         Error *error) {
  Engine *engine = open_level(level, error);
  const bool good = engine && (fusions[level] != FUSION_EPOCH || open_stamps(blocks, error)) &&
                    record_range(engine, list, error) &&
                    add_level(trace, names[level], fusions[level], us, list, error);
  close_stamps();
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
  Activities list = {0};
  int blocks;
  if (!activity_available(error) || !describe(trace, command, &blocks, error)) return false;
  time_levels(trace, us);
  bool good = activity_start(error);
  for (int level = 0; good && level < TRACE_LEVELS; level++)
    if (isfinite(us[level])) good = record_level(trace, level, us[level], &list, blocks, error);
  activity_free(&list);
  return good;
}
