/* The ceilings of a GPU, as rungs: the rates that others are compared with. */
#pragma once

#include "measure/cuda/rung.h"

typedef enum {
  CEILING_COPY,   /* inside the GPU's memory, far more than a cache holds */
  CEILING_PINNED, /* from pinned memory of the host to the GPU */
  CEILING_FMA,    /* fused multiply-adds with nothing else to do */
  CEILING_LAUNCH,
  CEILING_BARRIER,
  CEILING_PACKET,
  CEILINGS
} Ceiling;

/* Measures ceilings first to end - 1 in their order, up to one that fails, and adds a line of each
   to the record. */
bool ceilings_add(Record *record, Ceiling first, Ceiling end, Error *error);
