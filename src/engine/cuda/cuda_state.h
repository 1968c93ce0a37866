/* The CUDA engine's internals: its state, and the functions that its files share. */
#pragma once

#include "engine/cuda/cuda_error.h"
#include "engine/engine.h"
#include "kernels.h"

typedef struct CudaEngine CudaEngine;

enum { WIDE_STEPS = 256 }; /* a wide network sets its scales again after at most 256 steps */

/* A level of fusion: functions that launch a step's kernels. engine_cuda_steps.c calls them. */
typedef struct {
  /* Converts the batch's pixels to the form that the first layer reads. */
  cudaError_t (*input)(CudaEngine *e, BatchView batch);
  /* Computes the output of layer l from its input. */
  cudaError_t (*forward)(CudaEngine *e, BatchView batch, int l, bool trains);
  /* Computes each row's results (loss, correct) and, if `trains`, the gradient of the logits. */
  cudaError_t (*loss)(CudaEngine *e, BatchView batch, bool trains);
  /* If l > 0, computes the gradient of layer l's input from the gradient of its output. */
  cudaError_t (*backward)(CudaEngine *e, BatchView batch, int l);
  /* Updates layers first to end - 1 by sgd or, if stores_gradient(e), fills e->d_gradient. */
  cudaError_t (*update)(CudaEngine *e, BatchView batch, int first, int end);
  bool unfused;    /* the level's kernels pass values through d_x, d_z, d_gradient */
  bool each;       /* `update` runs after each layer's backward instead of once per step */
  bool joins_late; /* forward of layer l waits only for the ranks' update of layer l */
} Level;

typedef struct {
  uint8_t *h_pixels;
  uint16_t *h_labels;
  cudaEvent_t copied;       /* recorded on `copy` after the upload, when the buffer is free */
  cudaEvent_t consumed;     /* recorded on `compute` after the work that reads the uploaded rows */
  uint64_t first_row, rows; /* the dataset rows that the buffer's last upload wrote */
} Staging;

/* Indices in WideNetwork.planes for layer 0. Add l for layer l. Planes hold fp16 terms. */
enum {
  WIDE_X,                      /* the layer's input (forward_rows, size[l]); pixels if l is 0 */
  WIDE_W = NETWORK_MAX_LAYERS, /* weights (size[l + 1], size[l]); none for launch_head's layer */
  WIDE_DZ = 2 * NETWORK_MAX_LAYERS, /* gradient of the layer's output (batch, size[l + 1]) */
  WIDE_PLANES = 3 * NETWORK_MAX_LAYERS
};
typedef struct {
  Planes planes[WIDE_PLANES];
  float *d_scales; /* one scale for each element of `planes`; d_scales[0] is for pixels */
  uint32_t *d_largest;
} WideNetwork;

/* Holds all work since ResultSums.overflowed was last checked, so that it can be repeated. */
enum { REPLAY_MOST = 64 };
typedef struct {
  TrainRange work[REPLAY_MOST]; /* ranges that trained or, with 0 steps, were evaluated */
  int count;
  float *d_before;    /* parameters, moments and average before `work` */
  ResultSums *d_sums; /* the results' sums before `work` */
} Replay;

typedef struct {
  cudaGraphExec_t graph; /* NULL until it is captured */
  uint64_t steps;        /* number of full steps */
  int rest;              /* rows of a short last step; 0 means that there is none */
} StepGraph;

/* State for adding the ranks' gradients. */
typedef struct {
  struct ncclComm *comm; /* NULL with one rank, or after sums_close */
  cudaError_t (*allocate)(void **pointer, size_t bytes); /* ncclMemAlloc; NULL means cudaMalloc */
  cudaError_t (*release)(void *pointer);
  bool shares;                  /* true if all ranks may read and write d_gradient */
  cudaStream_t stream, updates; /* NCCL adds gradients on `stream`; the updates run on `updates` */
  cudaEvent_t ready, summed;
  cudaEvent_t updated[NETWORK_MAX_LAYERS]; /* [l]: recorded by sums_updated(e, l, end) */
  int bucket[NETWORK_MAX_LAYERS]; /* [l]: 1 + `first` of l's sums_updated; 0 after sums_join */
  bool closes;                    /* true while the engine closes; waits are then short */
} RankSums;

/* An array, a stream or an event, and the function that releases it. */
typedef struct {
  void *what;
  cudaError_t (*release)(void *what);
} Owned;

/* Capacity of `owned`. A layer owns 2 arrays, 3 planes, 1 event; the engine owns about 40 more. */
enum { CUDA_MAX_OWNED = 64 + 8 * NETWORK_MAX_LAYERS };

struct CudaEngine {
  Engine engine; /* must be first: an Engine * is cast to CudaEngine * */
  const Level *level;
  void *library;                 /* data of a level that the caller supplied, or NULL */
  void (*close_library)(void *); /* called once with `library` */
  cudaStream_t copy, compute;
  Staging staging[2];
  uint64_t rows_seen; /* 1 + the largest dataset row written so far */
  size_t stride;
  uint64_t taken; /* bytes of device memory that the engine has allocated */
  Owned owned[CUDA_MAX_OWNED];
  int owned_count;
  RowShare share;   /* this rank's rows of every step */
  int forward_rows; /* rows that the activations hold: engine_rows, or more for evaluation */
  RankSums sums;

  CudaEngine *first; /* the engine that opened this member (see engine.h), or NULL */
  bool may_join;     /* true if --fusion is auto; only then may the engine have members */
  int device;        /* the device's number in CUDA */

  uint8_t *d_pixels;
  uint16_t *d_labels;
  uint32_t *d_order;
  TrainRange ordered;        /* the range whose order d_order holds; rows == 0 means none */
  uint8_t *d_augmented;      /* shaped like d_pixels; NULL if training augments nothing */
  TrainRange augmented;      /* the range that d_augmented holds; rows == 0 means none */
  const uint8_t *d_train_on; /* the rows that steps read: d_pixels or d_augmented */
  StepState *d_state;
  RowResults results;
  ResultSums *d_sums;

  float *d_parameters;      /* trained parameters */
  float *d_average;         /* the average of the parameters; NULL if training keeps no average */
  float *d_momentum;        /* momentum or first moment; the second moment, if any, follows it */
  float *d_gradient;        /* gradient of d_parameters; NULL if gradients stay in registers */
  float *d_x;               /* (forward_rows, inputs): pixels as floats; NULL if not needed */
  float *d_z;               /* (forward_rows, widest): scratch memory; NULL unless Level.unfused */
  float *d_largest, *d_sum; /* (forward_rows): scratch memory of level exercise's softmax */
  float *d_activation[NETWORK_MAX_LAYERS + 1]; /* [l]: (rows, size[l]), the output of layer l - 1 */
  float *d_delta[NETWORK_MAX_LAYERS + 1];      /* gradient of d_activation[l] */
  WideNetwork wide;                            /* used if engine.wide */
  Replay replay;

  StepGraph many_steps, one_step, last_steps; /* the graphs of level step */
  uint32_t positions_before;                  /* number of rows of the previous steps_by_graph */
  const uint8_t *d_captured;                  /* value of d_train_on that the graphs captured */
  TilesPlan tiles; /* plan of launch_tiles; tiles.blocks is 0 if launch_tiles is not used */
  void *d_steps;   /* scratch memory of launch_tiles or launch_many */
  void *d_mail;    /* messages between the blocks of launch_tiles */
  void *d_work;    /* scratch memory of launch_updates */
  uint32_t stamp;
};

/* Opens an engine. If `level` is NULL, chooses a level. Otherwise uses `level`, and weight decay
   must be 0. Calls close_library(library) when the engine closes or cannot open. */
Engine *engine_cuda_open_with(const EngineConfig *config, const Level *level, void *library,
                              void (*close_library)(void *), Error *error);

/* Sets the fusion and precision of engine->config to what a GPU with these limits can run, and
   writes the reason to engine->reason. Sets *tiles to the plan of level epoch, or to zeros. Fails
   if level epoch or exercise was asked for and cannot run. */
bool engine_cuda_choose(Engine *engine, const GpuLimits *limits, TilesPlan *tiles, Error *error);
/* Returns true if launch_many can train members of this configuration. With a small first layer and
   many classes, launch_many would give other bits than launch_tiles, so members do not use it. */
bool engine_cuda_suits_many(const EngineConfig *config);
/* If the kernels for wide layers are faster, sets engine->wide and says so in engine->reason. */
void engine_cuda_choose_wide(Engine *engine, const GpuLimits *limits);

/* These functions allocate what cuda_release_all releases. They respect --device-memory. */
bool cuda_array(CudaEngine *e, void *pointer, size_t count, size_t size, Error *error);
bool cuda_zeros(CudaEngine *e, void *pointer, size_t count, size_t size, Error *error);
bool cuda_pinned(CudaEngine *e, void *pointer, size_t bytes, Error *error);
bool cuda_stream(CudaEngine *e, cudaStream_t *stream, int priority, Error *error);
bool cuda_event(CudaEngine *e, cudaEvent_t *event, Error *error);
/* cuda_array_by is cuda_array with another allocator of device memory. */
typedef cudaError_t CudaAllocate(void **pointer, size_t bytes);
typedef cudaError_t CudaRelease(void *pointer);
bool cuda_array_by(CudaEngine *e, CudaAllocate *allocate, CudaRelease *release, void *pointer,
                   size_t count, size_t size, Error *error);
/* Releases everything that the engine owns, in reverse order of allocation. */
void cuda_release_all(CudaEngine *e);

/* Returns how many bf16 terms make a float32 at level layer. level_wide uses one less, in fp16. */
static inline int bf16_terms(const CudaEngine *e) {
  return e->engine.config.training.precision == PRECISION_TF32 ? 2 : 3;
}

static inline int last_layer(const CudaEngine *e) {
  return e->engine.config.network.layers - 1;
}

/* Returns true if the engine has level `epoch` and trains by launch_tiles. */
static inline bool has_tiles(const CudaEngine *e) {
  return e->engine.config.training.fusion == FUSION_EPOCH && e->tiles.blocks > 0;
}

/* Returns true if the engine is a member that trains by launch_many, in one cluster of blocks. */
static inline bool has_cluster(const CudaEngine *e) {
  return e->first && e->engine.config.training.fusion == FUSION_EPOCH && !has_tiles(e);
}

/* Returns the shape of the engine's network, which must have two hidden layers. */
static inline ManyShape many_shape(const CudaEngine *e) {
  const int *size = e->engine.config.network.size;
  return (ManyShape){size[0], size[1], size[2], size[3], e->engine.config.training.batch};
}

/* Returns true if training uses fp16 terms and so repeats steps when a number is out of range. */
static inline bool has_fp16_terms(const CudaEngine *e) {
  return e->engine.wide || e->engine.config.training.fusion == FUSION_EPOCH;
}

/* Returns true if one kernel runs the last layer forward and backward. */
static inline bool has_head(const CudaEngine *e) {
  const Network *n = &e->engine.config.network;
  return n->layers > 1 && head_takes(n->size[n->layers - 1], n->size[n->layers]);
}

/* Returns true if `update` only stores the gradient, and the optimizer or ranks update later. */
static inline bool stores_gradient(const CudaEngine *e) {
  return e->engine.config.training.rule.kind != OPTIMIZER_SGD || e->engine.config.ranks;
}

static inline UpdateRule update_rule(const CudaEngine *e) {
  const OptimizerRule *rule = &e->engine.config.training.rule;
  return (UpdateRule){rule->momentum, rule->weight_decay};
}

/* Returns the arrays of layer l, counted from 0. If layer 0 reads pixels as bytes, d_x is NULL. */
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

/* Writes the batch's pixels to e->d_x as floats. Serves as Level.input. */
cudaError_t scale_pixels(CudaEngine *e, BatchView batch);

/* Allocates the planes of level_wide. */
bool wide_allocate(CudaEngine *e, Error *error);
/* Sets all scales from the activations and, if `trains`, the gradients of the `rows` rows that
   level_layer ran last. Then sets the planes of weights. A logit's gradient is at most `bound`. */
cudaError_t wide_rescale(CudaEngine *e, int rows, bool trains, float bound);

/* Records a range before it is queued. If range->steps is 0, the rows are to be evaluated. */
bool replay_note(CudaEngine *e, const TrainRange *range, Error *error);
/* Waits for the recorded work, repeats it if necessary, returns the sums. All ranks call this. */
bool replay_sums(CudaEngine *e, ResultSums *sums, Error *error);
bool replay_settle(CudaEngine *e, Error *error);
/* Computes logits by cuda_queue_rows, and again at level layer if a number was out of range. */
cudaError_t replay_logits(CudaEngine *e, uint64_t first_row, uint64_t rows, float *logits);
/* cuda_queue_range queues training steps, cuda_queue_rows a forward pass (engine_cuda.c). */
cudaError_t cuda_queue_range(CudaEngine *e, const TrainRange *range);
cudaError_t cuda_queue_rows(CudaEngine *e, uint64_t first_row, uint64_t rows, float *logits);

/* Prepares the sums of gradients over ranks (engine_cuda_ranks.c). With one rank, does nothing. */
bool sums_open(CudaEngine *e, Error *error);
/* Allocates e->d_gradient and sets it to zeros. */
bool sums_array(CudaEngine *e, Error *error);
/* Closes the communicator by ncclCommAbort if `breaks`, otherwise by ncclCommDestroy. */
void sums_close(CudaEngine *e, bool breaks);
/* Queues the sum over ranks of `count` gradients. Later work on e->sums.updates waits for it. */
cudaError_t sums_add(CudaEngine *e, size_t first, size_t count);
/* Makes work queued on e->sums.updates from now on wait for everything queued on e->compute. */
cudaError_t sums_follow(CudaEngine *e);
/* Records that the update of layers first to end - 1 was queued on e->sums.updates. */
cudaError_t sums_updated(CudaEngine *e, int first, int end);
/* Makes work queued on e->compute from now on wait for the updates of layers first to end - 1. */
cudaError_t sums_join(CudaEngine *e, int first, int end);
/* Waits for `event` or, if it is NULL, for e->compute. Fails if the GPU fails or a rank is gone. */
bool sums_wait(CudaEngine *e, cudaEvent_t event, const char *what, Error *error);

/* Queues `steps` steps on e->compute. The caller has set *e->d_state to `state`. */
cudaError_t steps_train(CudaEngine *e, StepState state, uint64_t steps);
/* Sets the scales of level_wide for these steps, from the first rows of the first step. */
cudaError_t steps_rescale(CudaEngine *e, StepState state);
/* Queues the forward pass over `rows` rows from first_row on. rows is at most e->forward_rows. */
cudaError_t steps_evaluate(CudaEngine *e, uint32_t first_row, int rows);

/* Destroys the graphs of level step. */
void steps_forget(CudaEngine *e);
