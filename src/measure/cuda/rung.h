/* A rung: work of a GPU that is measured and compared with other work. It is timed by the GPU's own
   clock, the same way whether it is a level's kernel, a library's or a lesson's. */
#pragma once

#include <stddef.h>

#include "base/stats.h"
#include "engine/cuda/cuda_error.h"
#include "measure/record.h"

/* Calls are queued one by one; as nodes of one graph that was captured before; or one by one and
   timed by the host's clock, as what the host does is part of them. */
typedef enum { RUNG_QUEUED, RUNG_GRAPH, RUNG_ON_HOST } RungMode;

typedef struct {
  const char *name; /* of the row; an error says that this failed */
  cudaError_t (*run)(void *context, cudaStream_t stream); /* queues one call on the stream */
  void *context;
  int calls; /* between two events */
  RungMode mode;
  double amount;    /* that a call does: bytes or operations; pieces of work if the unit is "us" */
  const char *unit; /* "us" a piece, or so much a second: "GB/s", "GFLOP/s", "TFLOP/s" */
} Rung;

enum { RUNG_SAMPLES = 9 };

/* The seconds of one call: `samples` of them, at most RUNG_SAMPLES, after one that is left out. */
bool rung_time(const Rung *rung, int samples, Stats *seconds, Error *error);
/* The median of RUNG_SAMPLES, in the rung's unit. */
bool rung_value(const Rung *rung, double *value, Error *error);

/* ---- what the host launches: how it is counted, launch_count.c tells ------------------------- */

/* Launches of kernels and graphs by the host since the program started. */
uint64_t launch_count(void);

/* ---- the machine ---------------------------------------------------------------------------- */

typedef struct {
  char name[128];  /* "NVIDIA H100 80GB HBM3" */
  char driver[64]; /* "580.95.05, CUDA 13.0": the driver, and the CUDA version that it serves */
} GpuMachine;

/* Creates a context. Fails in one sentence where there is no GPU. */
bool gpu_start(Error *error);
/* Starts the GPU and describes it. */
bool gpu_machine(GpuMachine *machine, Error *error);
