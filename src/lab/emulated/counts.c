/* The lab on the emulator, which counts the requests that a GPU would get but measures no times. */
#include <math.h>
#include <string.h>

#include "engine/cuda/gpu_limits.h"
#include "lab/harness.h"

bool gpu_limits_read(GpuLimits *limits, Error *error) {
  (void)error;
  *limits = (GpuLimits){.capability = 80, .multiprocessors = 108, .shared_bytes = 163 << 10};
  return true;
}

bool gpu_start(Error *error) {
  (void)error;
  return true;
}

bool lab_machine(Record *record, bool rates, Error *error) {
  (void)rates, (void)error;
  record_add_machine(record, "the emulator", NULL, "it counts, and has no times");
  return true;
}

static void name_arrays(const LabArrays *a) {
  static const char *const names[] = {"in", "in2", "out"};
  for (int b = 0; b < LAB_BLOCKS; b++)
    if (a->blocks[b].start)
      emulator_name(a->blocks[b].start, b == LAB_WORK ? "work" : names[b % LAB_PAGEABLE], 1,
                    (int)(a->blocks[b].bytes / 4), 4, b < LAB_OUT);
}

/* Returns the count that the topic's rungs predict, in the unit of the predictions. */
static double count(const LabArrays *a, const EmulatorCounts *c) {
  enum { SECTOR = 32, WARP = 32 };
  const LabTopic *t = a->topic;
  const double operations = a->problem->operations(a->call.size),
               values = (double)lab_count(t, a->call.problem, a->call.size, 0),
               turns = (double)c->turns, sectors = (double)c->sectors;
  const double counted[] = {
      [LAB_COUNTS_NOTHING] = NAN,
      [LAB_COUNTS_SECTORS] = sectors / (double)c->requests,
      [LAB_COUNTS_BYTES] = SECTOR * sectors / lab_bytes(t, a->call.problem, a->call.size),
      [LAB_COUNTS_TURNS] = turns / (values / WARP),
      [LAB_COUNTS_ATOMICS] = (double)c->atomic_turns / (values / WARP),
      [LAB_COUNTS_MULTIPLY_ADDS] = (double)c->load_turns / (operations / 2 / WARP),
      [LAB_COUNTS_TILE] = 2 * turns / (double)c->least_turns - 1,
      [LAB_COUNTS_ACCESSES] = (double)c->lanes / (operations / 3),
      [LAB_COUNTS_PATHS] = (double)c->step_slots / (double)c->lane_steps};
  return counted[t->counted];
}

/* Sets "differs", which says why the counted quantity is not the predicted one. */
static void explain(const LabRow *row) {
  static const double SAME = 0.01;
  const char *why = row->rung->differs;
  const double predicted = number_of(row->line, "predicted"),
               counted = number_of(row->line, "counted");
  if (isnan(predicted) || isnan(counted) || fabs(counted - predicted) <= SAME * predicted) return;
  record_text(row->line, "differs",
              why ? why
                  : "the prediction is for full warps and tiles, which large powers of two give");
}

static void add_counts(const LabArrays *a, const LabRow *row) {
  const EmulatorCounts counts = emulator_counts(), *c = &counts;
  const LabRung *rung = row->rung;
  const double least = lab_bytes(a->topic, a->call.problem, a->call.size);
  if (rung->predicted ? !rung->uncounted : !a->topic->predicted_name)
    record_number(row->line, "counted", count(a, c));
  explain(row);
  record_number(row->line, "moved_mb", (double)c->bytes_once / 1e6);
  record_number(row->line, "times_least", (double)c->bytes_once / least);
  record_number(row->line, "sectors", (double)c->sectors);
  record_number(row->line, "sectors_per_request", (double)c->sectors / (double)c->requests);
  record_number(row->line, "turns", (double)c->turns);
  record_number(row->line, "turns_times_least", (double)c->turns / (double)c->least_turns);
}

ShortText lab_watch(const LabArrays *a, const LabRow *row, bool starts) {
  ShortText note = {""};
  if (starts) {
    name_arrays(a);
    emulator_forget();
    return note;
  }
  add_counts(a, row);
  emulator_told(false, 1, note.text, sizeof note.text);
  note.text[strcspn(note.text, "\n")] = '\0';
  return note;
}
