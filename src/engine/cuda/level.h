/* A level of fusion, and what its functions see. Each level has a file of its own (level_none.c,
   level_layer.c, ...) with the state that only this level needs. levels.c has the tables. */
#pragma once

#include "engine/cuda/cuda_memory.h"
#include "engine/engine.h"
#include "kernels.h"

typedef struct Level Level;
typedef struct Around Around; /* what stands around a step: graphs, ranks (around.h) */

/* The arrays of levels that launch kernels for each layer. */
typedef struct {
  float *d_x; /* (rows, inputs): pixels as floats; NULL if the first layer reads bytes */
  float *d_activation[NETWORK_MAX_LAYERS + 1]; /* [l]: (rows, size[l]), the output of layer l - 1 */
  float *d_delta[NETWORK_MAX_LAYERS + 1];      /* gradient of d_activation[l] */
  float *d_gradient; /* gradient of the parameters; NULL if gradients stay in registers */
  void *d_scratch;   /* Level.scratch bytes; NULL if the level needs none */
} LayerArrays;

/* The argument of a level's functions: the network, and how this range of steps or this evaluation
   runs. Whoever needs another mode (another level, the averaged parameters, tf32) passes a changed
   copy on. So no mode has to be switched back, not even after a failure. */
typedef struct {
  const EngineConfig *config;
  const Level *level; /* whose functions a step calls */
  const Level *inner; /* in training, the level that `level` was made from (around.h) */
  void *own;          /* what level->open made: state that only this level knows */
  Around *around;
  cudaStream_t stream;
  BatchView batch;
  StepState state;     /* of the part that level->train queues; *batch.d_state is equal to it */
  int rest;            /* rows of a short step after these steps; 0 means that there is none */
  bool trains;         /* false in an evaluation, which drops no units and needs no gradient */
  Precision precision; /* of level layer's products */
  float *d_parameters; /* what forward reads: the trained parameters or their average */
  float *d_momentum;   /* momentum or first moment; the second moment, if any, follows it */
  float *d_average;    /* NULL if training keeps no average */
  RowResults results;
  const LayerArrays *arrays;
} Pass;

/* What a level may use to open its state. */
typedef struct {
  CudaMemory *memory;
  int rows;               /* the largest number of rows of a forward pass */
  uint32_t *d_overflowed; /* kernels set it to 1 if a number leaves the range of fp16 */
  uint32_t *aligned;      /* Engine.aligned, which is 0 */
  const TilesPlan *tiles; /* the plan of level epoch */
} Opening;

struct Level {
  /* A step of a level that launches kernels for each layer; NULL in other levels.
     Converts the batch's pixels to the form that the first layer reads. */
  cudaError_t (*input)(const Pass *p);
  /* Computes the output of layer l from its input. */
  cudaError_t (*forward)(const Pass *p, int l);
  /* Computes each row's results (loss, correct) and, in training, the gradient of the logits. */
  cudaError_t (*loss)(const Pass *p);
  /* If l > 0, computes the gradient of layer l's input from the gradient of its output. */
  cudaError_t (*backward)(const Pass *p, int l);
  /* Updates layers first to end - 1 by sgd or, if stores_gradient(), fills d_gradient. */
  cudaError_t (*update)(const Pass *p, int first, int end);
  /* Makes work queued on p->stream from now on wait for all updates. NULL if they run there. */
  cudaError_t (*join)(const Pass *p);
  bool unfused;    /* the kernels pass values through d_x and d_gradient */
  bool each;       /* `update` runs after each layer's backward instead of once per step */
  bool joins_late; /* forward of layer l waits only for the ranks' update of layer l */
  bool loads;      /* the first step loads a library's kernels, so no graph may capture it */

  /* Queues `steps` steps, which p->state describes. */
  cudaError_t (*train)(const Pass *p, uint64_t steps);
  /* Returns the end of the part of the range that begins with `step`. A part is one call of
     `train`. If end_of_part is NULL, a range has one part. */
  uint64_t (*end_of_part)(const Pass *p, const TrainRange *range, uint64_t step);
  /* The level that does the work again if a number left the range of fp16, and that evaluates if
     this level only trains. NULL if the level has no fp16 terms. */
  const Level *again;

  /* Sets p->own. May be NULL. */
  bool (*open)(Pass *p, const Opening *o, Error *error);
  void (*close)(void *own);
  /* Returns the bytes of d_scratch, which start as zeros. May be NULL. */
  size_t (*scratch)(const EngineConfig *config, int rows);
};

extern const Level level_none, level_layer; /* levels.c; each other one is in a file of its name */
extern const Level level_step, level_wide, level_epoch, level_many, level_exercise;

/* ---- what levels share ----------------------------------------------------------------------- */

static inline int last_layer(const Pass *p) {
  return p->config->network.layers - 1;
}

/* Returns how many bf16 terms make a float32 at level layer. level_wide uses one less, in fp16. */
static inline int bf16_terms(Precision precision) {
  return precision == PRECISION_TF32 ? 2 : 3;
}

/* Returns true if one kernel runs the last layer forward and backward. */
static inline bool has_head(const Network *n) {
  return n->layers > 1 && head_takes(n->size[n->layers - 1], n->size[n->layers]);
}

/* Returns true if `update` only stores the gradient, and the optimizer or ranks update later. */
static inline bool stores_gradient(const EngineConfig *config) {
  return config->training.rule.kind != OPTIMIZER_SGD || config->ranks;
}

/* Returns the dropout of layer l's output; l counts from 0. Logits and evaluation have none. */
static inline Dropout dropout_after(const Pass *p, int l) {
  const bool drops = p->trains && l >= 0 && l < last_layer(p);
  return (Dropout){drops ? training_dropout(&p->config->training, l) : 0.0f, l + 1};
}

/* Returns the arrays of layer l, counted from 0. If layer 0 reads pixels as bytes, d_x is NULL. */
static inline LayerUpdate layer_at(const Pass *p, int l) {
  const Network *n = &p->config->network;
  const LayerArrays *a = p->arrays;
  const size_t w = n->weight[l], b = n->bias[l];
  LayerUpdate at = {.d_x = l > 0 ? a->d_activation[l] : a->d_x,
                    .d_dz = a->d_delta[l + 1],
                    .d_w = p->d_parameters + w,
                    .d_b = p->d_parameters + b,
                    .d_vw = p->d_momentum + w,
                    .d_vb = p->d_momentum + b,
                    .in = n->size[l],
                    .out = n->size[l + 1]};
  if (!a->d_gradient) return at;
  at.d_gw = a->d_gradient + w;
  at.d_gb = a->d_gradient + b;
  return at;
}

/* Returns the plan of an engine of level epoch. */
const TilesPlan *epoch_plan(const Pass *p);
/* Returns the shape of a network, which must have two hidden layers. */
ManyShape many_shape(const EngineConfig *config);

/* Runs the level's input, forward and loss (levels.c). */
cudaError_t forward_pass(const Pass *p);
/* Level.train of levels that launch every kernel from the host (levels.c). If p->rest > 0, queues a
   step of p->rest rows after the steps. */
cudaError_t steps_by_kernel(const Pass *p, uint64_t steps);
/* Level.train of levels whose steps are captured as CUDA graphs (level_step.c). */
cudaError_t steps_by_graph(const Pass *p, uint64_t steps);

/* ---- the functions of levels none and layer, for the tables in levels.c ---------------------- */

cudaError_t scale_pixels(const Pass *p); /* writes the batch's pixels to d_x as floats */
cudaError_t none_forward(const Pass *p, int l);
cudaError_t none_loss(const Pass *p);
cudaError_t none_backward(const Pass *p, int l);
cudaError_t backward_input(const Pass *p, int l); /* computes the gradient of layer l's input */
cudaError_t none_update(const Pass *p, int first, int end);
size_t none_scratch(const EngineConfig *config, int rows);

cudaError_t layer_input(const Pass *p);
cudaError_t layer_forward(const Pass *p, int l);
cudaError_t layer_loss(const Pass *p);
cudaError_t layer_backward(const Pass *p, int l);
cudaError_t layer_update(const Pass *p, int first, int end);
size_t layer_scratch(const EngineConfig *config, int rows);
