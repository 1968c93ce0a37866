/* Times a GPU's work by its own clock, describes the GPU, and measures what it can do at most. */
#ifndef GPU_RATES_H
#define GPU_RATES_H

#include <stddef.h>

#include "base/stats.h"
#include "engine/cuda/cuda_error.h"

/* ---- timing --------------------------------------------------------------------------------- */

/* Queues one piece of work on the stream. */
typedef cudaError_t GpuQueue(void *context, cudaStream_t stream);

typedef struct {
  GpuQueue *queue;
  void *context;
  int calls;  /* between two events */
  bool graph; /* as nodes of one graph, captured before */
} GpuWork;

enum { GPU_SAMPLES = 9 };

/* The seconds of one call, by the GPU's clock: `samples` of them, at most GPU_SAMPLES, after one
   that does not count. `name` is what an error says failed. */
bool gpu_time(const char *name, GpuWork work, int samples, Stats *seconds, Error *error);

/* ---- the machine ---------------------------------------------------------------------------- */

typedef struct {
  char name[128];
  char driver[64]; /* "580.95.05, CUDA 13.0": the driver, and the CUDA version that it serves */
  char date[32];   /* today */
  int multiprocessors;
} GpuMachine;

/* Creates a context. Fails in one sentence where there is no GPU. */
bool gpu_start(Error *error);
/* Starts the GPU and describes it. */
bool gpu_machine(GpuMachine *machine, Error *error);

/* Bytes a second of a copy inside the GPU's memory, read and written: far more than a cache
   holds. */
bool gpu_copy_rate(double *rate, Error *error);
/* Bytes a second of a copy from pinned memory of the host to the GPU. */
bool gpu_link_rate(double *rate, Error *error);
/* Float32 operations a second, two a fused multiply-add, with nothing else to do. */
bool gpu_fma_rate(double *rate, Error *error);

#endif
