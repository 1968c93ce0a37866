/* The CUDA engine inside: engine_cuda.c has its memory, streams and events, engine_cuda_choose.c
   decides on a level of fusion, engine_cuda_steps.c says which kernels make a step at each,
   engine_cuda_wide.c does so for wide networks. */
#ifndef ENGINE_CUDA_H
#define ENGINE_CUDA_H

#include "engine/cuda/cuda_error.h"
#include "engine/engine.h"
#include "kernels.h"

/* Matrix products from outside, which mlp-bench takes from cuBLAS. The engine then runs level step
   with them and with the small kernels of level none between them. */
typedef struct {
  void *context;
  /* Queues C (m, n) = op(A) op(B), the sum over `depth`, where op transposes if it is told to. All
     matrices are row-major and given with the columns of their memory; C has n. May be captured. */
  cudaError_t (*gemm)(void *context, bool transpose_a, const float *d_a, int a_columns,
                      bool transpose_b, const float *d_b, int b_columns, float *d_c, int m, int n,
                      int depth, cudaStream_t stream);
  void (*close)(void *context); /* called once, when the engine is closed or could not be opened */
} GemmLibrary;

typedef struct {
  uint8_t *h_pixels;
  uint16_t *h_labels;
  cudaEvent_t copied;       /* on the copy stream: the host buffer is free, the rows are there */
  cudaEvent_t consumed;     /* on the compute stream: nobody trains on those rows any more */
  uint64_t first_row, rows; /* where the staging buffer's rows went last */
} Staging;

/* The layers of a wide network as planes of bf16 terms: the weights of layer l, its input, and the
   gradient of that input. */
typedef struct {
  Planes w[NETWORK_MAX_LAYERS];      /* (size[l + 1], size[l]); d NULL: of a head */
  Planes x[NETWORK_MAX_LAYERS];      /* (forward_rows, size[l]); of layer 0 pixels */
  Planes dz[NETWORK_MAX_LAYERS + 1]; /* (batch, size[l]), from 1 on; of the logits too */
} WideNetwork;

/* The sums of gradients over ranks. */
typedef struct {
  struct ncclComm *comm;        /* NULL: one process trains, or the others are gone */
  bool allocates, shares;       /* NCCL has allocated d_gradient; all ranks may read and write it */
  cudaStream_t stream, updates; /* of the sums, and of the updates by them */
  cudaEvent_t ready, summed;
  cudaEvent_t updated[NETWORK_MAX_LAYERS]; /* of the layers of a bucket that begins there */
  int bucket[NETWORK_MAX_LAYERS]; /* 1 more than the first layer of the layer's, whose update
                                     e->compute does not wait for yet; 0: there is none */
  bool closes;                    /* the engine does: nobody is waited for long */
} RankSums;

typedef struct {
  Engine engine;       /* first: an Engine * of ours is a CudaEngine * */
  GemmLibrary library; /* gemm NULL: our own kernels */
  cudaStream_t copy, compute;
  Staging staging[2];
  uint64_t rows_seen; /* dataset rows ever written are below this */
  size_t stride;
  uint64_t taken;   /* bytes of device memory */
  RowShare share;   /* this rank's of every step */
  int forward_rows; /* rows the activations hold: engine_rows, or more for evaluation */
  RankSums sums;

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
  float *d_x;          /* levels none, exercise; library; pixels scaled otherwise than by 1 / 255:
                          (forward_rows, inputs) */
  float *d_z;          /* levels none, exercise; library: (forward_rows, widest layer) */
  float *d_largest, *d_sum;                    /* level exercise: (forward_rows) */
  float *d_activation[NETWORK_MAX_LAYERS + 1]; /* of layer l's output, from 1: (rows, size[l]) */
  float *d_delta[NETWORK_MAX_LAYERS + 1];      /* its gradient: (engine_rows, size[l]) */
  WideNetwork
      wide; /* if engine.wide, of both only the last layer is there, and the input of a head */

  cudaGraphExec_t many_steps, one_step, last_steps; /* level step */
  uint32_t positions_before;                        /* of the range before this one */
  uint64_t steps_of_last;                           /* whole steps */
  int rows_of_last;                                 /* of one more, 0: there is none */
  const uint8_t *d_captured;                        /* the d_train_on that they read */
  EpochPlan plan;                                   /* level epoch */
  float *d_gram;                                    /* its products of pixels */
  void *d_mail;
  void *d_work; /* of the gradient updates */
  uint32_t stamp;
} CudaEngine;

/* As engine_cuda_open, with the matrix products of `library`; the fusion level of the config is
   ignored, and weight decay must be 0. */
Engine *engine_cuda_open_with(const EngineConfig *config, const GemmLibrary *library, Error *error);

/* Replaces what engine->config asks for, fusion and precision, by what such a GPU runs, and says
   why in engine->reason. Fills *plan for level epoch. Asks no device. False with one sentence where
   level epoch was asked for and cannot run. */
bool engine_cuda_choose(Engine *engine, const GpuLimits *limits, EpochPlan *plan, Error *error);
/* Sets engine->wide: whether such a GPU is faster at what engine_cuda_choose left of the config by
   the kernels for wide layers; engine->reason then says so. Asks no device. */
void engine_cuda_choose_wide(Engine *engine, const GpuLimits *limits);

/* Takes device memory for *pointer, of --device-memory if that is less than the GPU has. */
bool engine_cuda_array(CudaEngine *e, void *pointer, size_t count, size_t size, Error *error);

/* The same of what the allocator gives, which takes `bytes` for *pointer. */
typedef cudaError_t CudaAllocator(void **pointer, size_t bytes);
bool engine_cuda_array_by(CudaEngine *e, CudaAllocator *allocator, void *pointer, size_t count,
                          size_t size, Error *error);

/* The bf16 terms that a float32 is split into for a gemm. */
int bf16_terms(const CudaEngine *e);

/* Whether the last layer is one kernel there and back. */
bool has_head(const CudaEngine *e);

/* What the layers of a wide network do of a step: see engine_cuda_wide.c. */
bool wide_allocate(CudaEngine *e, Error *error);
void wide_free(CudaEngine *e);
/* The planes of the weights become those of the parameters. */
cudaError_t wide_split_weights(CudaEngine *e);
/* The first `layers` of them; logits, and what a head reads, become floats. */
cudaError_t wide_forward(CudaEngine *e, BatchView batch, int layers);
/* The last layer, forward and back, and the results. */
cudaError_t wide_head(CudaEngine *e, BatchView batch);
/* The gradient of the input of layer l, from 1 on: of the last layer's from its floats, of others
   from that of the layer above. */
cudaError_t wide_backward(CudaEngine *e, BatchView batch, int l);
/* layers: `count` from the first on, as for launch_updates. */
cudaError_t wide_update(CudaEngine *e, BatchView batch, const LayerUpdate *layers, int first,
                        int count, UpdateRule rule);

/* The ranks' sums of gradients: see engine_cuda_ranks.c. Nothing where one process trains. */
bool sums_open(CudaEngine *e, Error *error);
/* Takes memory for e->d_gradient, one rank's or several's. */
bool sums_array(CudaEngine *e, Error *error);
/* And of e->d_gradient. */
void sums_close(CudaEngine *e);
/* Queues: `count` values of e->d_gradient from `first` on, which is what e->compute has queued so
   far, become their sums over all ranks; what e->sums.updates is given from now on waits for that.
 */
cudaError_t sums_add(CudaEngine *e, size_t first, size_t count);
/* What e->sums.updates is given from now on waits for what e->compute has been given. */
cudaError_t sums_follow(CudaEngine *e);
/* e->sums.updates was given the update of layers first to end - 1. */
cudaError_t sums_updated(CudaEngine *e, int first, int end);
/* What e->compute is given from now on waits for the updates of layers first to end - 1. */
cudaError_t sums_join(CudaEngine *e, int first, int end);
/* Waits for the event, NULL: for all that e->compute was given. False also if a rank that is waited
   for is gone; then nothing more can be summed. */
bool sums_wait(CudaEngine *e, cudaEvent_t event, const char *what, Error *error);

/* Queue work on e->compute at the engine's level of fusion. The steps of a range that covers
   positions state.position to state.end of e->d_order; e->d_state says the same. */
cudaError_t steps_train(CudaEngine *e, StepState state, const TrainRange *range);
/* The forward pass over rows first_row .. first_row + rows - 1, at most e->forward_rows. */
cudaError_t steps_evaluate(CudaEngine *e, uint32_t first_row, int rows);

#endif
