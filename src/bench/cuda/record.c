/* Records a trace: each level trains a few ranges of steps while CUPTI looks on, and the epoch
   kernel, which is one kernel to CUPTI, runs with stamps. */

#include "bench/bench.h"
#include "bench/cuda/recording.h"
#include "engine/cuda/cuda_state.h"
#include "measure/cuda/rung.h"

enum { BATCH = 64, RANGE = 64, LONG_RANGE = 512, SAMPLES = 5 };

/* ---- stamps --------------------------------------------------------------------------------- */

/* The arrays of the stamped epoch kernel; d_clock NULL: the kernel without stamps runs. */
static EpochStamps stamps;

/* The linker sends the engine's launches through here (--wrap in the Makefile). */
cudaError_t __real_launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream);
cudaError_t __wrap_launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream);

cudaError_t __wrap_launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream) {
  return stamps.d_clock ? launch_epoch_stamped(plan, job, &stamps, stream)
                        : __real_launch_epoch(plan, job, stream);
}

#ifndef HAVE_CUPTI

bool trace_record(Trace *trace, const char *command, const char *sources, Error *error) {
  (void)trace, (void)command, (void)sources;
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

/* Stamps every step of a range. */
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

/* Adds the stages of the level that is being recorded. */
static bool add_stages(Trace *trace, const EpochPlan *plan, RangeFacts *facts, Error *error) {
  const int blocks = plan->blocks;
  const size_t anchors = (size_t)blocks * sizeof(EpochAnchor);
  uint64_t *clock = malloc(clock_bytes(blocks));
  EpochAnchor *anchor = malloc(anchors);
  const Stages stages = {trace, trace_levels(trace), plan, clock, anchor, LONG_RANGE, facts->begin};
  const bool good =
      ((clock && anchor) || error_set(error, "no memory for the stamps of %d blocks", blocks)) &&
      cuda_done(cudaMemcpy(clock, stamps.d_clock, clock_bytes(blocks), cudaMemcpyDeviceToHost),
                "fetching stamps", error) &&
      cuda_done(cudaMemcpy(anchor, stamps.d_anchor, anchors, cudaMemcpyDeviceToHost),
                "fetching stamps", error);
  if (good) stages_add(&stages, TRACE_FIRST, TRACE_END);
  if (good) facts->us = stages_us(&stages, TRACE_SHOWN, RANGE - 1);
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

static bool record_level(Trace *trace, const BenchLevel *of, double us, Trace *list, Error *error) {
  Engine *engine = bench_open(of, &rows, &bench_usual, BATCH, error);
  const EpochPlan *plan =
      engine && of->level == FUSION_EPOCH ? &((CudaEngine *)engine)->plan : NULL;
  RangeFacts facts;
  const bool good = engine && (!plan || open_stamps(plan->blocks, error)) &&
                    record_range(engine, list, error) &&
                    range_add(trace, trace_levels(trace), list, plan != NULL, &facts, error) &&
                    (!plan || add_stages(trace, plan, &facts, error));
  if (good) trace_add_level(trace, of->name, RANGE, us, facts.us);
  cudaFree(stamps.d_clock);
  cudaFree(stamps.d_anchor);
  stamps = (EpochStamps){0};
  if (engine) engine->call->close(engine);
  return good;
}

/* Without CUPTI first: once it looks, it does to the end. */
bool trace_record(Trace *trace, const char *command, const char *sources, Error *error) {
  double us[TRACE_LEVELS];
  Trace list = {0};
  GpuMachine machine;
  if (!gpu_machine(&machine, error)) return false;
  const ShortText network = text_format("784-300-100-10, batch %d", BATCH);
  const char *const head[][2] = {{"gpu", machine.name},  {"driver", machine.driver},
                                 {"date", machine.date}, {"network", network.text},
                                 {"command", command},   {"sources", sources ? sources : ""}};
  trace->head = json_object();
  foreach (pair, head) record_text(trace->head, (*pair)[0], text_shown((*pair)[1]).text);
  time_levels(trace, us);
  bool good = activity_start(error);
  for (int level = 0; good && level < TRACE_LEVELS; level++)
    if (isfinite(us[level]))
      good = record_level(trace, &bench_levels[level], us[level], &list, error);
  trace_close(&list);
  return good && trace_whole(trace, error);
}

#endif
