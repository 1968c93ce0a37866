/* A rung: work on a GPU whose time is measured and compared with other work. */
#pragma once

#include <stddef.h>

#include "base/stats.h"
#include "engine/cuda/cuda_error.h"
#include "measure/record.h"

typedef struct {
  const char *name;                                       /* the name in errors and records */
  cudaError_t (*run)(void *context, cudaStream_t stream); /* queues one call on the stream */
  void *context;
  int calls;        /* number of calls between two events */
  bool on_host;     /* true: uses the host's clock, because the call includes work of the host */
  double amount;    /* work of a call: bytes, operations or, if the unit is "us", repetitions */
  const char *unit; /* "us" (per repetition), "GB/s" or "GFLOP/s" */
} Rung;

enum { RUNG_SAMPLES = 9 };

/* Measures the seconds per call after a warm-up, `samples` times (at most RUNG_SAMPLES). */
bool rung_time(const Rung *rung, int samples, Stats *seconds, Error *error);

/* Returns how many kernels and graphs the host has launched since the program started. */
uint64_t launch_count(void);

/* Creates a CUDA context. Fails if there is no GPU. */
bool gpu_start(Error *error);
/* Starts the GPU and adds a line "machine" to the record. `name` says what is measured. */
bool gpu_add_machine(Record *record, const char *name, Error *error);

/* The ceilings of a GPU: measured limits, with which other measurements are compared. */
typedef enum {
  CEILING_COPY,   /* a copy in the GPU's memory, far larger than its cache */
  CEILING_PINNED, /* a copy from the host's pinned memory to the GPU */
  CEILING_FMA,    /* a kernel that does only fused multiply-adds */
  CEILING_LAUNCH,
  CEILING_BARRIER,
  CEILING_PACKET,
  CEILINGS
} Ceiling;

/* Measures ceilings first to end - 1 and adds a line for each ceiling. Stops at a failure. */
bool ceilings_add(Record *record, Ceiling first, Ceiling end, Error *error);

/* Adds lines for the device's properties, and for the theory of the ceilings CEILING_COPY and
   CEILING_FMA. Leaves out the theory of a clock that the driver does not tell. */
bool theory_add(Record *record, Error *error);
