/* The lab on the emulator, which counts what a GPU would be asked for and has no times. */
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

bool lab_machine(Record *record, const char *command, bool rates, Error *error) {
  (void)rates, (void)error;
  strcpy(record->machine.name, "the emulator");
  json_t *line = record_line("lab-machine");
  record_text(line, "driver", "none: it counts, and has no times");
  json_object_set_new(line, "counted", json_true());
  record_text(line, "command", command);
  record_add(record, line, true);
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

void lab_watch(const LabArrays *a, LabRow *row, bool starts) {
  if (starts) {
    name_arrays(a);
    emulator_forget();
    return;
  }
  row->counts = emulator_counts();
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
