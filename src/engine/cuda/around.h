/* What stands around a step of a level that launches kernels for each layer: the optimizer, the
   sums over ranks, and CUDA graphs. */
#pragma once

#include "engine/cuda/level.h"

typedef struct {
  cudaGraphExec_t graph; /* NULL until it is captured */
  uint64_t steps;        /* number of full steps */
  int rest;              /* rows of a short last step; 0 means that there is none */
} StepGraph;

/* The graphs of steps_by_graph. */
typedef struct {
  StepGraph many_steps, one_step, last_steps, short_step;
  uint32_t positions_before; /* number of rows of the previous range */
  const uint8_t *d_captured; /* the rows that the graphs read */
} StepGraphs;

/* State for adding the ranks' gradients. */
typedef struct {
  Ranks *ranks;           /* NULL with one rank */
  cudaStream_t compute;   /* the stream of the steps */
  struct ncclComm *comm;  /* NULL with one rank, or after sums_close */
  CudaAllocate *allocate; /* ncclMemAlloc; NULL means cudaMalloc */
  CudaRelease *release;
  bool shares;                  /* true if all ranks may read and write d_gradient */
  cudaStream_t stream, updates; /* NCCL adds gradients on `stream`; the updates run on `updates` */
  cudaEvent_t ready, summed;
  cudaEvent_t updated[NETWORK_MAX_LAYERS]; /* [first]: the update of a bucket was queued */
  int bucket[NETWORK_MAX_LAYERS]; /* [l]: 1 + `first` of l's bucket; 0 if forward has waited */
  int end, late; /* in a step: layers from `end` on are in buckets; `late` (0: none) updates late */
  bool closes;   /* true while the engine closes; waits are then short */
} RankSums;

struct Around {
  StepState *d_state;
  const Planes *planes; /* (layers): planes of the weights, which the optimizer writes; or NULL */
  StepGraphs graphs;
  RankSums sums;
};

/* Returns `inner` with an `update` that then runs the optimizer on all parameters (levels.c). */
Level level_by_optimizer(const Level *inner);
/* Returns `inner` with functions that also add the gradients of all ranks, one bucket of layers
   after another, and run the optimizer on each bucket (engine_cuda_ranks.c). */
Level level_by_ranks(const Level *inner);

/* Updates layers first to end - 1 and their planes from d_gradient, by the optimizer's rule. */
cudaError_t optimize(const Pass *p, int first, int end, cudaStream_t stream);
/* Returns the index of layer l's first parameter. If l equals n->layers, returns n->floats. */
static inline size_t layer_start(const Network *n, int l) {
  return l < n->layers ? n->weight[l] : n->floats;
}

/* Destroys the graphs. */
void graphs_forget(StepGraphs *graphs);

/* Meets the other ranks, if s->ranks is not NULL (engine_cuda_ranks.c). */
bool sums_open(RankSums *s, CudaMemory *memory, Error *error);
/* Allocates an array of `count` gradients, set to zeros, in memory that the ranks can share. */
bool sums_array(const RankSums *s, CudaMemory *memory, float **d_gradient, size_t count,
                Error *error);
/* Closes the communicator by ncclCommAbort if `breaks`, otherwise by ncclCommDestroy. */
void sums_close(RankSums *s, bool breaks);
/* Waits for `event` or, if it is NULL, for s->compute. Fails if the GPU fails or a rank is gone. */
bool sums_wait(RankSums *s, cudaEvent_t event, const char *what, Error *error);
