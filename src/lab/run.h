/* Calls of cuda/run.c, which checks rungs, to a GPU (cuda/times.c) and to the emulator
   (emulated/counts.c). */
#pragma once

#include <cuda_runtime_api.h>

#include "lab/harness.h"

/* One topic, problem and size, while its rungs run. */
typedef struct {
  const LabHow *how;
  LabArrays arrays;
} LabStand;

/* A call of the row on copy `copy` of the arrays. */
LabCall lab_call_of(const LabStand *s, const LabRow *row, int copy, LabRecord *record);

/* A call that is not timed starts, or has ended. Sets row->note if something is found wrong. */
void lab_watch(const LabStand *s, LabRow *row, bool starts);
cudaError_t lab_find_occupancy(const LabRecord *record, LabOccupancy *occupancy);
/* Times a row. `once`: the seconds of the run that was checked. */
bool lab_time(const LabStand *s, LabRow *row, double once, Error *error);
