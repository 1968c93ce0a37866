/* The ceilings of a GPU, as rungs: the rates that others are compared with. */
#pragma once

#include "measure/cuda/rung.h"

typedef enum {
  CEILING_COPY,   /* inside the GPU's memory, far more than a cache holds */
  CEILING_PINNED, /* from pinned memory of the host to the GPU */
  CEILING_FMA,    /* fused multiply-adds with nothing else to do */
  CEILING_SGEMM_FP32,
  CEILING_SGEMM_TF32,
  CEILING_LAUNCH,
  CEILING_NODE,
  CEILING_BARRIER,
  CEILING_PACKET,
  CEILINGS
} Ceiling;

extern const Rung ceilings[CEILINGS]; /* their names and units */

/* Measures ceilings first to end - 1 in their order, up to one that fails, and sets their values,
   in the units of their rungs; without cuBLAS those of SGEMM are left as they are. */
bool ceilings_measure(Ceiling first, Ceiling end, double values[CEILINGS], Error *error);
