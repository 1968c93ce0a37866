/* The lab on the emulator, which counts what a GPU would be asked for and has no times. */
#include <math.h>
#include <string.h>

#include "engine/cuda/cuda_error.h"
#include "engine/cuda/gpu_limits.h"
#include "lab/harness.h"

bool cuda_done(cudaError_t status, const char *what, Error *error) {
  return status == cudaSuccess ||
         error_set(error, "%s failed: %s", what, cudaGetErrorString(status));
}

bool gpu_limits_read(GpuLimits *limits, Error *error) {
  (void)error;
  *limits = (GpuLimits){80, 108, 163 << 10, WIDE_NEVER, WIDE_BY_NOTHING, 0};
  return true;
}

bool lab_start(Error *error) {
  (void)error;
  return true;
}

bool lab_machine(Record *record, const char *command, const char *sources, bool rates,
                 Error *error) {
  (void)rates, (void)error;
  record_add_machine(record, "the emulator", NULL, "it counts, and has no times", command, sources);
  return true;
}

bool lab_device(Error *error) {
  return error_set(error, "the emulator is no GPU that could be described");
}

static void name_arrays(const LabArrays *a) {
  static const char *const names[] = {"in", "in2", "in3", "out"};
  for (int b = 0; b < LAB_BLOCKS; b++)
    if (a->blocks[b].start)
      emulator_name(a->blocks[b].start, b == LAB_WORK ? "work" : names[b % LAB_PAGEABLE], 1,
                    (int)(a->blocks[b].bytes / 4), 4, b < LAB_OUT);
}

/* Returns what stands beside the predicted number, in its unit. */
static double count(const LabArrays *a, const EmulatorCounts *c) {
  enum { SECTOR = 32, WARP = 32 };
  const LabTopic *t = a->topic;
  const double operations = t->problems[a->call.problem].operations(a->call.size),
               values = (double)lab_count(t, a->call.problem, a->call.size, 0),
               turns = (double)c->turns, sectors = (double)c->sectors;
  switch (t->counted) {
  case LAB_COUNTS_SECTORS:
    return sectors / (double)c->requests;
  case LAB_COUNTS_BYTES:
    return SECTOR * sectors / lab_bytes(t, a->call.problem, a->call.size);
  case LAB_COUNTS_TURNS:
    return turns / (values / WARP);
  case LAB_COUNTS_ATOMICS:
    return (double)c->atomic_turns / (values / WARP);
  case LAB_COUNTS_MULTIPLY_ADDS:
    return turns / (operations / 2 / WARP);
  case LAB_COUNTS_TILE:
    return 2 * turns / (double)c->least_turns - 1;
  case LAB_COUNTS_LOADS:
    return (double)c->lanes / (operations / 3);
  case LAB_COUNTS_PATHS:
    return (double)c->step_slots / (double)c->lane_steps;
  default:
    return NAN;
  }
}

void lab_watch(const LabArrays *a, LabRow *row, bool starts) {
  if (starts) {
    name_arrays(a);
    emulator_forget();
    return;
  }
  row->counts = emulator_counts();
  if (row->rung->predicted && !row->rung->uncounted) row->counted = count(a, &row->counts);
  emulator_told(false, 1, row->note, sizeof row->note);
  row->note[strcspn(row->note, "\n")] = '\0';
}

cudaError_t lab_find_occupancy(const LabRecord *record, LabOccupancy *occupancy) {
  (void)record, (void)occupancy;
  return cudaSuccess;
}

bool lab_time(const LabArrays *a, LabRow *row, double once, Error *error) {
  (void)a, (void)row, (void)once, (void)error;
  return true;
}

/* ---- topics that only a GPU has -------------------------------------------------------------- */

static double nothing(LabSize size) {
  (void)size;
  return 0;
}

static const char *refuse_math(int problem, LabSize size) {
  (void)problem, (void)size;
  return "the emulator has no special function units, whose cycles and errors are the lesson: "
         "--from shows them";
}

static const char *refuse_transfers(int problem, LabSize size) {
  (void)problem, (void)size;
  return "the emulator has neither a link to the host nor times: --from shows them";
}

static const LabProblem problem = {.name = "", .out = LAB_FLOAT32, .operations = nothing};

#define ABSENT(topic, heading, why)                                                                \
  const LabTopic lab_##topic = {.name = #topic,                                                    \
                                .title = heading,                                                  \
                                .dims = "elements",                                                \
                                .problems = &problem,                                              \
                                .problem_count = 1,                                                \
                                .sizes = {{{1, 1, 1}}},                                            \
                                .tested = {{1, 1, 1}},                                             \
                                .refuse = why}
ABSENT(math, LAB_MATH_TITLE, refuse_math);
ABSENT(transfers, LAB_TRANSFERS_TITLE, refuse_transfers);
