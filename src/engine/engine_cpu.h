/* The CPU engine's internals. engine_cpu.c contains its memory and its calls, engine_cpu_steps.c
   the arithmetic of a step, engine_cpu_optimizer.c the updates by rules other than sgd. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/gemm_cpu.h"

enum { ENGINE_CPU_MAX_BLOCKS = 8 * NETWORK_MAX_LAYERS + 17 };

/* The arrays of a layer, each (in + 1, out): rows of weights, then one row of biases. */
enum {
  PARAMETERS,    /* the trained parameters */
  AVERAGE,       /* the average of the parameters; NULL if training keeps no average */
  FIRST_MOMENT,  /* the first moment or the momentum */
  SECOND_MOMENT, /* NULL if the rule has no second moment */
  ARRAYS
};

/* Replaces OpenMP's barrier, which may spin for milliseconds. That is slow if cores are shared. */
typedef struct {
  pthread_mutex_t mutex;
  pthread_cond_t opened;
  atomic_size_t arrived, phase;
} Barrier;

typedef struct {
  size_t inputs, outputs;
  size_t in, out; /* `inputs` and `outputs`, padded */
  float *array[ARRAYS];
  float *weight_copy; /* (out, in), for backward; NULL in the first layer */
  float *y;           /* (capacity, out): activations or, in the last layer, logits */
  float *dy;          /* (capacity, out): the gradient of the output before activation */
  size_t gradient;    /* index of the layer's gradient (in + 1, out) in CpuEngine.gradients */
} Layer;

/* Scaled pixels in panels for GemmTerms. A term whose GEMM_PANEL values are all 0 is left out. */
typedef struct {
  size_t length;   /* maximum terms of a panel */
  float *values;   /* (panels, length, GEMM_PANEL) */
  uint32_t *index; /* (panels, length): the index j of each kept term */
  size_t *terms;   /* (panels): the number of terms that the panel keeps */
} Panels;

typedef struct {
  Engine engine; /* must be first: an Engine * is cast to CpuEngine * */
  const GemmKernels *kernels;
  size_t capacity; /* rows of the largest block, a multiple of GEMM_PANEL */
  Layer layer[NETWORK_MAX_LAYERS];
  uint32_t *identity;   /* 0, 1, 2, ...: the GemmTerms.index for a product with all terms */
  const uint8_t **row;  /* (capacity): pointers to the rows of the block */
  uint16_t *label;      /* (capacity) */
  Panels rows, columns; /* `rows` is packed for forward, `columns` for the gradient */
  double *loss;         /* (capacity) */
  bool *correct;        /* (capacity) */
  uint8_t *pixels;      /* the dataset: (dataset_rows + 1, stride), the last row black */
  uint16_t *labels;     /* (dataset_rows) */
  uint8_t *augmented;   /* like `pixels`; NULL if the configuration augments nothing */
  TrainRange drawn;     /* the range that `augmented` holds; drawn.rows 0 means none */
  StagingBuffer staging[2];
  EngineSums sums;
  float *gradients;       /* (gradient_floats): all layers in order; NULL if there is one rank */
  size_t gradient_floats; /* a multiple of the number of ranks */
  Error failure;          /* why the ranks could not add gradients; "" if they could */
  Barrier barrier;
  uint64_t most;                      /* maximum bytes to allocate */
  void *block[ENGINE_CPU_MAX_BLOCKS]; /* all allocated blocks */
  int blocks;
} CpuEngine;

/* The number of a thread and the size of its team. Thread t computes panels t, t + threads, ... of
   the rows, and updates panels first_panel(t) to first_panel(t + 1) - 1 of the weights. */
typedef struct {
  size_t thread, threads;
} Team;

/* Loops over this thread's panels of `rows` rows; OWN_ROWS loops over the rows of these panels. */
#define OWN_PANELS(p, rows, team)                                                                  \
  for (size_t p = (team).thread; p * GEMM_PANEL < (rows); p += (team).threads)
#define OWN_ROWS(r, rows, team)                                                                    \
  OWN_PANELS (p, rows, team)                                                                       \
    for (size_t r = p * GEMM_PANEL; r < (p + 1) * GEMM_PANEL && r < (rows); r++)

/* The calls of engine.h that compute (in engine_cpu_steps.c). */
bool cpu_train(Engine *engine, const TrainRange *range, Error *error);
bool cpu_predict(Engine *engine, uint64_t first_row, uint64_t rows, float *logits, Error *error);

/* Updates `count` parameters of a layer, from index `at` on, by the rule of the configuration. */
void cpu_optimize(const CpuEngine *cpu, const Layer *layer, size_t at, size_t count,
                  const float *gradient, float decay, OptimizerStep step);

/* Sets average[i] = keeps * average[i] + (1 - keeps) * values[i], for i from 0 to count - 1. Both
   arrays start on a cache line. */
void cpu_average(float *average, const float *values, size_t count, float keeps);
