/* The faces of the kernels: plain C launchers, one a kernel, grouped by fusion level.

   Every launcher checks its arguments, queues its kernel on `stream` and returns at once:
   cudaSuccess, cudaErrorInvalidValue for a shape or pointer it cannot serve, or what the launch
   said. Device pointers start d_. Matrices are (rows, columns), row-major, float32 unless said;
   arrays of floats start on 16 bytes. rows is the batch; in and out are a layer's sizes; W is (out,
   in). */
#ifndef KERNELS_H
#define KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- where a step reads its rows ---------------------------------------------------------- */

/* What changes from step to step, in device memory, so that a captured graph needs no change.
   A step trains on positions [position + offset, min(position + offset + batch, end)) of the
   epoch's order; none left: it is no step and updates nothing. */
typedef struct {
  uint32_t position, end;
  float learning_rate;
} StepState;

/* A batch of stored rows, passed by value. A row beyond the end reads the last row (so that no
   kernel reads outside) and is given gradient 0, so it counts for nothing. */
typedef struct {
  const uint8_t *d_pixels;  /* (store rows, stride) bytes, scaled by 1/255 where they are used */
  const uint16_t *d_labels; /* (store rows) */
  const uint32_t *d_order;  /* position -> store row; NULL: first_row + position */
  uint32_t first_row;       /* used without d_order */
  size_t stride;            /* bytes from row to row, a multiple of 16, at least a row's inputs */
  const StepState *d_state;
  uint32_t offset; /* positions after d_state->position */
  int rows;        /* batch */
} BatchView;

/* Where a row's judgement goes, by position; NULL pointers are not written. */
typedef struct {
  float *d_loss;      /* cross-entropy, natural logarithm */
  uint8_t *d_correct; /* 1 where the first largest logit is the label's */
} RowResults;

typedef struct {
  double loss;
  unsigned long long correct, rows;
} ResultSums;

typedef struct {
  float momentum, weight_decay; /* v = momentum v + g + weight_decay w;  w = w - rate v */
} UpdateRule;

/* ---- bookkeeping (state.cu) ---------------------------------------------------------------- */

/* d_order[p] = first_row + (shuffled ? random_permute(p, rows, key) : p) for p < rows. */
cudaError_t launch_order(uint32_t *d_order, uint32_t first_row, uint32_t rows, int shuffled,
                         uint64_t key, cudaStream_t stream);
/* Sets *d_state. */
cudaError_t launch_begin(StepState *d_state, uint32_t position, uint32_t end, float learning_rate,
                         cudaStream_t stream);
/* d_state->position += positions. */
cudaError_t launch_advance(StepState *d_state, uint32_t positions, cudaStream_t stream);
/* *d_sums += the results of positions [position, end), in a fixed order. */
cudaError_t launch_sum(ResultSums *d_sums, RowResults results, uint32_t position, uint32_t end,
                       cudaStream_t stream);

/* ---- augmentation (augment.cu) --------------------------------------------------------------- */

/* d_to (rows, stride) = what augment.h makes of each of d_from (rows, stride), pictures of side x
   side pixels, by (kinds, key, its row); padding becomes 0. Both start on 16 bytes and do not
   overlap; stride as in BatchView. kinds: AUGMENT_... bits; 0 copies. */
cudaError_t launch_augment(const uint8_t *d_from, uint8_t *d_to, uint32_t rows, size_t stride,
                           int side, int kinds, uint64_t key, cudaStream_t stream);

/* ---- fusion level `none`: one kernel an operation (none.cu) --------------------------------- */

/* d_x (rows, in) = the batch's pixels / 255. */
cudaError_t launch_scale_pixels(BatchView batch, float *d_x, int in, cudaStream_t stream);
/* d_z (rows, out) = d_x (rows, in) W^T. */
cudaError_t launch_product(const float *d_x, const float *d_w, float *d_z, int rows, int in,
                           int out, cudaStream_t stream);
/* d_z (rows, out) += d_b (out) in every row. */
cudaError_t launch_add_bias(float *d_z, const float *d_b, int rows, int out, cudaStream_t stream);
/* d_a = max(d_z, 0), count values. */
cudaError_t launch_relu(const float *d_z, float *d_a, size_t count, cudaStream_t stream);
/* d_p (rows, classes) = z - max - log(sum(exp(z - max))) of each row: log-probabilities. */
cudaError_t launch_log_softmax(const float *d_z, float *d_p, int rows, int classes,
                               cudaStream_t stream);
/* Loss and correctness of each row of the batch, from log-probabilities. */
cudaError_t launch_cross_entropy(BatchView batch, const float *d_p, int classes, RowResults results,
                                 cudaStream_t stream);
/* d_dz (rows, classes) = (exp(d_p) - one-hot(label)) / rows of this step, 0 in rows beyond. */
cudaError_t launch_cross_entropy_gradient(BatchView batch, const float *d_p, float *d_dz,
                                          int classes, cudaStream_t stream);
/* d_dx (rows, in) = d_dz (rows, out) W. */
cudaError_t launch_backward_product(const float *d_dz, const float *d_w, float *d_dx, int rows,
                                    int in, int out, cudaStream_t stream);
/* d_da *= (d_a > 0), count values: the gradient through ReLU. */
cudaError_t launch_relu_mask(float *d_da, const float *d_a, size_t count, cudaStream_t stream);
/* d_dw (out, in) = d_dz^T d_x, summed over rows. */
cudaError_t launch_weight_gradient(const float *d_dz, const float *d_x, float *d_dw, int rows,
                                   int in, int out, cudaStream_t stream);
/* d_db (out) = the sum of d_dz over rows. */
cudaError_t launch_bias_gradient(const float *d_dz, float *d_db, int rows, int out,
                                 cudaStream_t stream);
/* The momentum rule over count values; biases are given a rule without decay. */
cudaError_t launch_update(BatchView batch, UpdateRule rule, float *d_w, float *d_v,
                          const float *d_g, size_t count, cudaStream_t stream);

/* ---- fusion level `layer`: a layer's operations in one kernel ------------------------------- */

/* Products run on the tensor cores. parts: as how many bf16 numbers each float32 is multiplied: 3
   for float32's accuracy, 2 for at least tf32's, with half the products. */

/* A layer's input: pixels of the batch (d_x NULL) or activations d_x (rows, in). */
typedef struct {
  const float *d_x;
  BatchView batch;
} LayerInput;

/* d_y (rows, out) = x W^T + b, through ReLU where relu is not 0. forward.cu */
cudaError_t launch_forward(LayerInput input, const float *d_w, const float *d_b, float *d_y, int in,
                           int out, int relu, int parts, cudaStream_t stream);
/* Online softmax, cross-entropy, its gradient and the results, a warp a row. d_dz (rows,
   classes) as launch_cross_entropy_gradient says; it may be d_z itself, or NULL for evaluation.
   softmax.cu */
cudaError_t launch_softmax(BatchView batch, const float *d_z, float *d_dz, int classes,
                           RowResults results, cudaStream_t stream);
/* The last layer there and back: from its input d_x (rows, in) the logits d_z (rows, classes), the
   results, d_dz as launch_softmax, and d_dx (rows, in) as launch_backward with d_a = d_x. d_z may
   be NULL; d_dz and d_dx are NULL for evaluation, together. head_takes: whether the layer is small
   enough. head.cu */
int head_takes(int in, int classes);
cudaError_t launch_head(BatchView batch, const float *d_x, const float *d_w, const float *d_b,
                        float *d_z, float *d_dz, float *d_dx, int in, int classes,
                        RowResults results, cudaStream_t stream);
/* d_dx (rows, in) = (d_dz (rows, out) W) masked by d_a (rows, in) > 0. backward.cu */
cudaError_t launch_backward(const float *d_dz, const float *d_w, const float *d_a, float *d_dx,
                            int rows, int in, int out, int parts, cudaStream_t stream);
/* One layer to be updated: W, b and their momenta d_vw, d_vb by the gradient d_dz^T x, which
   itself is never written; weight decay spares b. d_x (rows, in), NULL for the batch's pixels. */
typedef struct {
  const float *d_x, *d_dz;
  float *d_w, *d_b, *d_vw, *d_vb;
  int in, out;
} LayerUpdate;

enum { MAX_UPDATES = 8 };

/* Updates `count` layers at once, in any order. d_work: update_work_bytes() bytes, zero before
   the first use, of one stream's updates at a time. update.cu */
size_t update_work_bytes(void);
cudaError_t launch_updates(BatchView batch, UpdateRule rule, const LayerUpdate *layers, int count,
                           int parts, void *d_work, cudaStream_t stream);

/* ---- fusion level `epoch`: one kernel for all the steps of a range (epoch.cu) ---------------- */

typedef struct {
  int inputs, hidden1, hidden2, classes, batch;
} EpochShape;

/* How a shape is laid over the current device's multiprocessors. */
typedef struct {
  EpochShape shape;
  int groups; /* each owns a share of the first hidden layer's neurons, and every row */
  int tiles;  /* of 15 neurons in a group */
  int splits; /* of the inputs: a block is one tile of neurons times one split of inputs */
  size_t mail_bytes;
} EpochPlan;

/* Lays out `shape`. Returns NULL, or why this device cannot run it so: one clause. */
const char *plan_epoch(EpochShape shape, EpochPlan *plan);

/* Where the six tensors of a 2-hidden-layer network lie in the flat arrays of parameters and of
   momentum, in floats. */
typedef struct {
  size_t weight[3], bias[3];
} EpochLayout;

typedef struct {
  const uint8_t *d_pixels;
  const uint16_t *d_labels;
  const uint32_t *d_order; /* position -> store row */
  size_t stride;
  uint32_t position, end; /* trains on positions [position, end), batch by batch */
  float learning_rate;
  UpdateRule rule;
  EpochLayout layout;
  float *d_parameters, *d_momentum;
  RowResults results;
  void *d_mail;         /* plan.mail_bytes, zero before the first launch */
  uint32_t first_stamp; /* above 0; steps 0, 1, ... use first_stamp + step, none of them twice */
} EpochJob;

/* Queues the kernel as a cooperative launch: a grid that cannot be resident at once is refused
   with cudaErrorCooperativeLaunchTooLarge, never started. */
cudaError_t launch_epoch(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream);

/* ---- the exercise: four functions to be fused (exercise.cu) --------------------------------- */

/* What d_... scratch arrays hold before and after a call is nobody's business; a function that
   needs none of them leaves them alone. No two arrays overlap. */

/* (1) d_y (rows, out) = d_x (rows, in) W^T + d_b (out) in every row, through ReLU where relu is not
   0. Scratch: d_z (rows, out). */
cudaError_t launch_exercise_forward(const float *d_x, const float *d_w, const float *d_b,
                                    float *d_z, float *d_y, int rows, int in, int out, int relu,
                                    cudaStream_t stream);
/* (2) d_p (rows, classes) = z - max - log(sum(exp(z - max))) of each row of d_z: log-probabilities.
   Scratch: d_largest, d_sum (rows). */
cudaError_t launch_exercise_softmax(const float *d_z, float *d_largest, float *d_sum, float *d_p,
                                    int rows, int classes, cudaStream_t stream);
/* (3) From logits d_z (rows, classes): the results of each row of the step, and d_dz (rows,
   classes) = (softmax - one-hot(label)) / rows of this step, 0 in rows beyond. Scratch: d_largest,
   d_sum (rows), d_p (rows, classes). */
cudaError_t launch_exercise_loss(BatchView batch, const float *d_z, float *d_largest, float *d_sum,
                                 float *d_p, float *d_dz, int classes, RowResults results,
                                 cudaStream_t stream);
/* (4) Updates W, b and their momenta by the gradient d_dz^T x; weight decay spares b; nothing
   changes where the step has no rows. layer.d_x must not be NULL. Scratch: d_dw (out, in), d_db
   (out). */
cudaError_t launch_exercise_update(BatchView batch, UpdateRule rule, LayerUpdate layer, float *d_dw,
                                   float *d_db, cudaStream_t stream);

/* ---- what a GPU can do at most (ceilings.cu) ------------------------------------------------ */

/* A kernel that does nothing. */
cudaError_t launch_nothing(int blocks, int threads, cudaStream_t stream);
/* A kernel that crosses `count` barriers of the whole grid, `blocks` blocks of 256 threads; one
   that cannot be resident at once is refused. */
cudaError_t launch_barriers(int blocks, int count, cudaStream_t stream);
/* Two blocks pass a packet of 16 bytes to and fro. d_mail: PING_PONG_BYTES, zero before the first
   launch; stamps first_stamp (above 0) to first_stamp + 2 round_trips - 1 must be new to it. */
enum { PING_PONG_BYTES = 8192 };
cudaError_t launch_ping_pong(void *d_mail, uint32_t first_stamp, int round_trips,
                             cudaStream_t stream);
/* `blocks` blocks do rounds * FMA_OPERATIONS float32 operations each, all in fused multiply-adds.
   d_out (1): never written. */
enum { FMA_OPERATIONS = 2 * 256 * 8 * 32 };
cudaError_t launch_fma(float *d_out, int blocks, int rounds, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
