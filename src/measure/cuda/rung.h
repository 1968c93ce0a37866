/* A rung: work of a GPU that is timed by the GPU's clock and compared with other work. */
#pragma once

#include <stddef.h>

#include "base/stats.h"
#include "engine/cuda/cuda_error.h"
#include "measure/record.h"

typedef struct {
  const char *name;                                       /* names the rung in errors */
  cudaError_t (*run)(void *context, cudaStream_t stream); /* queues one call on the stream */
  void *context;
  int calls;        /* between two events */
  bool on_host;     /* timed by the host's clock, since the host's work is part of it */
  double amount;    /* bytes or operations of a call; pieces of work if the unit is "us" */
  const char *unit; /* "us" per piece; "GB/s" or "GFLOP/s" */
} Rung;

enum { RUNG_SAMPLES = 9 };

/* Measures the seconds of one call `samples` times, at most RUNG_SAMPLES, after one warm-up. */
bool rung_time(const Rung *rung, int samples, Stats *seconds, Error *error);

/* Returns how many kernels and graphs the host has launched since the program started. */
uint64_t launch_count(void);

/* Creates a context. Fails with one sentence if there is no GPU. */
bool gpu_start(Error *error);
/* Starts the GPU and adds its line to the record, with a name. */
bool gpu_add_machine(Record *record, const char *name, Error *error);

/* The ceilings of a GPU: rates with which others are compared. */
typedef enum {
  CEILING_COPY,   /* inside the GPU's memory, far more than a cache holds */
  CEILING_PINNED, /* from pinned memory of the host to the GPU */
  CEILING_FMA,    /* fused multiply-adds with nothing else to do */
  CEILING_LAUNCH,
  CEILING_BARRIER,
  CEILING_PACKET,
  CEILINGS
} Ceiling;

/* Measures ceilings first to end - 1 and adds a line for each. Stops at one that fails. */
bool ceilings_add(Record *record, Ceiling first, Ceiling end, Error *error);
