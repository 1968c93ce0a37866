/* The CPU engine inside: engine_cpu.c has its memory and the calls of engine.h, engine_cpu_steps.c
   the arithmetic of a step, engine_cpu_optimizer.c that of an update by another rule than sgd. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/gemm_cpu.h"

enum { ENGINE_CPU_MAX_BLOCKS = 8 * NETWORK_MAX_LAYERS + 17 };

/* The arrays of a layer, each (in + 1, out): of its weights, then of its biases. */
enum {
  PARAMETERS,    /* the parameters that are trained */
  AVERAGE,       /* the network, if it is an average of those; NULL: they are */
  FIRST_MOMENT,  /* or the momentum */
  SECOND_MOMENT, /* NULL: the rule has none */
  ARRAYS
};

/* OpenMP's own barrier may spin for milliseconds, dear where threads outnumber cores. */
typedef struct {
  pthread_mutex_t mutex;
  pthread_cond_t opened;
  atomic_size_t arrived, phase;
} Barrier;

typedef struct {
  size_t inputs, outputs;
  size_t in, out; /* the same, padded */
  float *array[ARRAYS];
  float *weight_copy; /* (out, in), for backward; NULL in the first layer */
  float *y;           /* (capacity, out): after the activation; the last layer's logits */
  float *dy;          /* (capacity, out): the gradient of y before the activation */
  size_t gradient;    /* where (in + 1, out), of weights and bias, begin in `gradients` */
} Layer;

/* Pixels as panels for GemmTerms, scaled; panel p has terms[p], those not 0 in all of it. */
typedef struct {
  size_t length;
  float *values;   /* (panels, length, GEMM_PANEL) */
  uint32_t *index; /* (panels, length) */
  size_t *terms;   /* (panels) */
} Panels;

typedef struct {
  Engine engine; /* first: an Engine * of ours is a CpuEngine * */
  const GemmKernels *kernels;
  size_t capacity; /* rows of the largest block, a multiple of GEMM_PANEL */
  Layer layer[NETWORK_MAX_LAYERS];
  uint32_t *identity;   /* 0, 1, 2, ...: the index of a product that leaves nothing out */
  const uint8_t **row;  /* (capacity) the block's rows in the dataset */
  uint16_t *label;      /* (capacity) */
  Panels rows, columns; /* panels of rows for forward, of pixels for the gradient */
  double *loss;         /* (capacity) */
  bool *correct;        /* (capacity) */
  uint8_t *pixels;      /* the dataset: (dataset_rows + 1, stride), the last row black */
  uint16_t *labels;     /* (dataset_rows) */
  uint8_t *augmented;   /* as pixels; NULL until a range asks for it */
  TrainRange drawn;     /* whose rows `augmented` holds; rows 0: nobody's */
  StagingBuffer staging[2];
  EngineSums sums;
  float *gradients; /* (gradient_floats): of all layers, one after the other; NULL: one rank */
  size_t gradient_floats; /* a multiple of the number of ranks */
  Error failure;          /* of the ranks' sum */
  bool failed;
  Barrier barrier;
  double bytes;                       /* of all that was asked for, */
  uint64_t most;                      /* of which so many are given */
  void *block[ENGINE_CPU_MAX_BLOCKS]; /* all that was allocated */
  int blocks;
} CpuEngine;

/* A thread and its team. It takes every `threads`-th panel of rows; for weights see first_panel. */
typedef struct {
  size_t thread, threads;
} Team;

/* A team of threads calls these together, each by its own number, in the same order. */

/* Runs step `step` of a range; false, with cpu->failure, if ranks could not add their gradients. */
bool cpu_train_step(CpuEngine *cpu, const TrainRange *range, uint64_t step, Team team);
/* Goes forward over `count` rows of the range's window from `first` on, at most cpu->capacity. */
void cpu_forward_rows(CpuEngine *cpu, const TrainRange *range, uint64_t first, size_t count,
                      Team team);
/* Adds the loss of the rows of the last forward pass to cpu->sums. */
void cpu_add_loss(CpuEngine *cpu, size_t count, Team team);

/* Walks over the panels of `rows` rows that are this thread's, and over their rows. */
#define OWN_PANELS(p, rows, team)                                                                  \
  for (size_t p = (team).thread; p * GEMM_PANEL < (rows); p += (team).threads)
#define OWN_ROWS(r, rows, team)                                                                    \
  OWN_PANELS (p, rows, team)                                                                       \
    for (size_t r = p * GEMM_PANEL; r < (p + 1) * GEMM_PANEL && r < (rows); r++)

/* Updates `count` neighbours of a layer's parameters from `at` on by any rule and gradient. */
void cpu_optimize(const CpuEngine *cpu, const Layer *layer, size_t at, size_t count,
                  const float *gradient, float decay, OptimizerStep step);

/* Computes average = keeps average + (1 - keeps) values, (count); both begin on a cache line. */
void cpu_average(float *average, const float *values, size_t count, float keeps);
