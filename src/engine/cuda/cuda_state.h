/* The CUDA engine inside: its state, and what its files ask of each other. */
#pragma once

#include "engine/cuda/cuda_error.h"
#include "engine/engine.h"
#include "kernels.h"

typedef struct CudaEngine CudaEngine;

enum { WIDE_STEPS = 256 }; /* of level wide that have the same scales, at most */

/* A level of fusion: what it launches for each part of a step. engine_cuda_steps.c calls these. */
typedef struct {
  /* The batch's pixels, as the first layer reads them. */
  cudaError_t (*input)(CudaEngine *e, BatchView batch);
  /* The output of layer l from its input. */
  cudaError_t (*forward)(CudaEngine *e, BatchView batch, int l, bool trains);
  /* The results from the logits and, if it trains, the gradient of the logits. */
  cudaError_t (*loss)(CudaEngine *e, BatchView batch, bool trains);
  /* The gradient of layer l's input from that of its output; layer 0 needs none. */
  cudaError_t (*backward)(CudaEngine *e, BatchView batch, int l);
  /* Updates layers first to end - 1 by sgd or, if stores_gradient(e), fills e->d_gradient. */
  cudaError_t (*update)(CudaEngine *e, BatchView batch, int first, int end);
  bool unfused;    /* needs d_x, d_z and d_gradient between its kernels */
  bool each;       /* update follows the backward of each layer, else that of all of them */
  bool joins_late; /* a layer waits for its own update by the ranks only, not for all updates */
} Level;

typedef struct {
  uint8_t *h_pixels;
  uint16_t *h_labels;
  cudaEvent_t copied;       /* on the copy stream: the host buffer is free, the rows are there */
  cudaEvent_t consumed;     /* on the compute stream: nobody trains on those rows any more */
  uint64_t first_row, rows; /* where the staging buffer's rows went last */
} Staging;

/* The layers of a wide network as planes of fp16 terms. Of layer l, from 0, planes are: */
enum {
  WIDE_X,                           /* + l: its input (forward_rows, size[l]); of layer 0 pixels */
  WIDE_W = NETWORK_MAX_LAYERS,      /* + l: weights (size[l + 1], size[l]); d NULL: of a head */
  WIDE_DZ = 2 * NETWORK_MAX_LAYERS, /* + l: the gradient of its output (batch, size[l + 1]) */
  WIDE_PLANES = 3 * NETWORK_MAX_LAYERS
};
typedef struct {
  Planes planes[WIDE_PLANES];
  float *d_scales; /* one of each; the first is that of pixels */
  uint32_t *d_largest;
} WideNetwork;

/* The work since the last look at ResultSums.overflowed, to be done again: replay.c. */
enum { REPLAY_MOST = 64 };
typedef struct {
  TrainRange work[REPLAY_MOST]; /* of 0 steps: its rows were evaluated */
  int count;
  float *d_before;    /* parameters and moments */
  ResultSums *d_sums; /* sums */
} Replay;

/* A graph of steps. */
typedef struct {
  cudaGraphExec_t graph; /* NULL: not made yet */
  uint64_t steps;        /* full steps */
  int rest;              /* rows of a shorter last step, or 0 */
} StepGraph;

/* The sums of gradients over ranks. */
typedef struct {
  struct ncclComm *comm; /* NULL: one process trains, or the others are gone */
  cudaError_t (*allocate)(void **pointer, size_t bytes); /* by NCCL; NULL: by CUDA */
  cudaError_t (*release)(void *pointer);
  bool shares;                  /* all ranks may read and write d_gradient */
  cudaStream_t stream, updates; /* of the sums, and of the updates by them */
  cudaEvent_t ready, summed;
  cudaEvent_t updated[NETWORK_MAX_LAYERS]; /* of the layers of a bucket that begins there */
  int bucket[NETWORK_MAX_LAYERS]; /* 1 + the first layer of the one not yet waited for, or 0 */
  bool closes;                    /* the engine does: nobody is waited for long */
} RankSums;

/* Memory, a stream or an event, and the function that gives it back. */
typedef struct {
  void *what;
  cudaError_t (*release)(void *what);
} Owned;

/* More than there is: three arrays, two planes and an event for each layer, and some 40 others. */
enum { CUDA_MAX_OWNED = 64 + 8 * NETWORK_MAX_LAYERS };

struct CudaEngine {
  Engine engine; /* first: an Engine * of ours is a CudaEngine * */
  const Level *level;
  void *library;                 /* what a level from outside needs; NULL: the level is ours */
  void (*close_library)(void *); /* called once with it */
  cudaStream_t copy, compute;
  Staging staging[2];
  uint64_t rows_seen; /* dataset rows ever written are below this */
  size_t stride;
  uint64_t taken; /* bytes of device memory */
  Owned owned[CUDA_MAX_OWNED];
  int owned_count;
  RowShare share;   /* this rank's of every step */
  int forward_rows; /* rows the activations hold: engine_rows, or more for evaluation */
  RankSums sums;

  CudaEngine *first; /* whose member this one is, and whose rows it reads; NULL: nobody's */
  bool may_join;     /* it may have members: the level was not asked for */
  int device;        /* as CUDA counts */

  uint8_t *d_pixels;
  uint16_t *d_labels;
  uint32_t *d_order;
  TrainRange ordered;        /* what d_order holds; rows 0: nothing yet */
  uint8_t *d_augmented;      /* as d_pixels; NULL: nobody augments */
  TrainRange augmented;      /* whose rows it holds; rows 0: nobody's */
  const uint8_t *d_train_on; /* what steps read: d_pixels or d_augmented */
  StepState *d_state;
  RowResults results;
  ResultSums *d_sums;

  float *d_parameters; /* that are trained */
  float *d_average;    /* the network, if it is an average of those; NULL: they are */
  float *d_momentum;   /* or the first moment; behind it, where there is one, the second moment */
  float *d_gradient;   /* as d_parameters; NULL: the update's kernel forms it in registers */
  float *d_x;          /* pixels that are not read as bytes: (forward_rows, inputs) */
  float *d_z;          /* levels none, exercise; library: (forward_rows, widest layer) */
  float *d_largest, *d_sum;                    /* level exercise: (forward_rows) */
  float *d_activation[NETWORK_MAX_LAYERS + 1]; /* of layer l's output, from 1: (rows, size[l]) */
  float *d_delta[NETWORK_MAX_LAYERS + 1];      /* its gradient: (engine_rows, size[l]) */
  WideNetwork wide;                            /* if engine.wide */
  Replay replay;

  StepGraph many_steps, one_step, last_steps; /* level step */
  uint32_t positions_before;                  /* of the range before this one */
  const uint8_t *d_captured;                  /* the d_train_on that they read */
  TilesPlan tiles;                            /* level epoch by tiles; no blocks: by rows */
  void *d_steps;                              /* what tiles work with */
  EpochPlan plan;                             /* level epoch by rows */
  float *d_gram;                              /* its products of pixels */
  void *d_mail;                               /* of either, or of a cluster */
  void *d_work;                               /* of the gradient updates */
  uint32_t stamp;
};

/* Opens an engine at the caller's `level`, without weight decay. It owns `library` in any case. */
Engine *engine_cuda_open_with(const EngineConfig *config, const Level *level, void *library,
                              void (*close_library)(void *), Error *error);

/* Replaces the fusion and precision of engine->config by what such a GPU runs, and says why in
   engine->reason. Level epoch is by tiles if *tiles has blocks then, else by rows; *plan is that of
   rows, zeros if there is none. Returns false if level epoch was asked for and cannot run. */
bool engine_cuda_choose(Engine *engine, const GpuLimits *limits, TilesPlan *tiles, EpochPlan *plan,
                        Error *error);
/* Sets engine->wide if the kernels for wide layers are faster then, and says so. */
void engine_cuda_choose_wide(Engine *engine, const GpuLimits *limits);

/* These allocate what the engine owns until cuda_release_all, within --device-memory, or fail. */
bool cuda_array(CudaEngine *e, void *pointer, size_t count, size_t size, Error *error);
bool cuda_zeros(CudaEngine *e, void *pointer, size_t count, size_t size, Error *error);
bool cuda_pinned(CudaEngine *e, void *pointer, size_t bytes, Error *error);
bool cuda_stream(CudaEngine *e, cudaStream_t *stream, int priority, Error *error);
bool cuda_event(CudaEngine *e, cudaEvent_t *event, Error *error);
/* Does the same as cuda_array by another allocator of device memory. */
typedef cudaError_t CudaAllocate(void **pointer, size_t bytes);
typedef cudaError_t CudaRelease(void *pointer);
bool cuda_array_by(CudaEngine *e, CudaAllocate *allocate, CudaRelease *release, void *pointer,
                   size_t count, size_t size, Error *error);
/* Gives all of it back, what came last first. */
void cuda_release_all(CudaEngine *e);

/* Returns the bf16 terms of a float32 in gemms of level layer. Planes have one fp16 term less. */
static inline int bf16_terms(const CudaEngine *e) {
  return e->engine.config.training.precision == PRECISION_TF32 ? 2 : 3;
}

static inline int last_layer(const CudaEngine *e) {
  return e->engine.config.network.layers - 1;
}

/* Returns true if level epoch is by tiles. */
static inline bool has_tiles(const CudaEngine *e) {
  return e->engine.config.training.fusion == FUSION_EPOCH && e->tiles.blocks > 0;
}

/* Returns true if it is a member that trains by a cluster of kernels/many/. */
static inline bool has_cluster(const CudaEngine *e) {
  return e->first && e->engine.config.training.fusion == FUSION_EPOCH && !has_tiles(e);
}

/* Returns true if its training is by fp16 terms, which may have to be done again. */
static inline bool has_fp16_terms(const CudaEngine *e) {
  return e->engine.wide || has_cluster(e) || has_tiles(e);
}

/* Returns true if the last layer is one kernel forward and back. */
static inline bool has_head(const CudaEngine *e) {
  const Network *n = &e->engine.config.network;
  return n->layers > 1 && head_takes(n->size[n->layers - 1], n->size[n->layers]);
}

/* Returns true if update kernels only store the gradient: optimizer or ranks update later. */
static inline bool stores_gradient(const CudaEngine *e) {
  return e->engine.config.training.rule.kind != OPTIMIZER_SGD || e->engine.config.ranks;
}

static inline UpdateRule update_rule(const CudaEngine *e) {
  const OptimizerRule *rule = &e->engine.config.training.rule;
  return (UpdateRule){rule->momentum, rule->weight_decay};
}

/* Returns layer l's arrays, l from 0. d_x is NULL where pixels are read as bytes. */
static inline LayerUpdate layer_at(const CudaEngine *e, int l) {
  const Network *n = &e->engine.config.network;
  const size_t w = n->weight[l], b = n->bias[l];
  return (LayerUpdate){.d_x = l > 0 ? e->d_activation[l] : e->d_x,
                       .d_dz = e->d_delta[l + 1],
                       .d_w = e->d_parameters + w,
                       .d_b = e->d_parameters + b,
                       .d_vw = e->d_momentum + w,
                       .d_vb = e->d_momentum + b,
                       .in = n->size[l],
                       .out = n->size[l + 1],
                       .d_gw = e->d_gradient ? e->d_gradient + w : NULL,
                       .d_gb = e->d_gradient ? e->d_gradient + b : NULL};
}

extern const Level level_none, level_layer, level_wide, level_exercise;

/* The next `rows` rows of the epoch, in the order of the dataset. */
BatchView batch_view(const CudaEngine *e, const uint8_t *d_pixels, int rows);

/* A Level's input: writes the batch's pixels to e->d_x as floats. */
cudaError_t scale_pixels(CudaEngine *e, BatchView batch);

/* Allocates the planes of level_wide. */
bool wide_allocate(CudaEngine *e, Error *error);
/* Sets all scales by the last `rows` rows that level_layer has taken forward and, if it `trains`,
   backward; then the planes of weights. bound: a step's largest gradient of a logit. */
cudaError_t wide_rescale(CudaEngine *e, int rows, bool trains, float bound);

/* Notes a range, or with 0 steps its rows to evaluate, that is about to be queued. */
bool replay_note(CudaEngine *e, const TrainRange *range, Error *error);
/* Waits for what was noted, does it again if need be, and returns the sums. All ranks call this. */
bool replay_sums(CudaEngine *e, ResultSums *sums, Error *error);
bool replay_settle(CudaEngine *e, Error *error);
/* As cuda_queue_rows, for logits, after which the right ones are there. */
cudaError_t replay_logits(CudaEngine *e, uint64_t first_row, uint64_t rows, float *logits);
/* Queue the training of a range, and the forward pass over rows: engine_cuda.c. */
cudaError_t cuda_queue_range(CudaEngine *e, const TrainRange *range);
cudaError_t cuda_queue_rows(CudaEngine *e, uint64_t first_row, uint64_t rows, float *logits);

/* The ranks' sums of gradients: engine_cuda_ranks.c. These do nothing where one process trains. */
bool sums_open(CudaEngine *e, Error *error);
/* Allocates e->d_gradient, zeros. */
bool sums_array(CudaEngine *e, Error *error);
/* Leaves the other ranks; if it `breaks`, without waiting for them. */
void sums_close(CudaEngine *e, bool breaks);
/* Queues the sum over ranks of `count` gradients. Later work on e->sums.updates waits for it. */
cudaError_t sums_add(CudaEngine *e, size_t first, size_t count);
/* Makes work queued on e->sums.updates from now on wait for all that e->compute has queued. */
cudaError_t sums_follow(CudaEngine *e);
/* Notes that the update of layers first to end - 1 was queued on e->sums.updates. */
cudaError_t sums_updated(CudaEngine *e, int first, int end);
/* Makes work queued on e->compute from now on wait for the updates of layers first to end - 1. */
cudaError_t sums_join(CudaEngine *e, int first, int end);
/* Waits for the event or, if NULL, for e->compute. Returns false also if another rank is gone. */
bool sums_wait(CudaEngine *e, cudaEvent_t event, const char *what, Error *error);

/* Queues `steps` steps on e->compute: positions state.position to state.end, as in *e->d_state. */
cudaError_t steps_train(CudaEngine *e, StepState state, uint64_t steps);
/* Finds the scales for these steps of level_wide, by the first rows of the first. */
cudaError_t steps_rescale(CudaEngine *e, StepState state);
/* Queues the forward pass over rows first_row to first_row + rows - 1, at most e->forward_rows. */
cudaError_t steps_evaluate(CudaEngine *e, uint32_t first_row, int rows);

/* Destroys the graphs of level step. */
void steps_forget(CudaEngine *e);
