/* The kernels that a step launches at level none and at level layer. To see fusion, compare the two
   tables below, whose comments name the kernels. The functions are in the tables' order. step() of
   engine_cuda_steps.c loops over the layers. For 784-300-100-10, level none launches 28 kernels per
   step, which pass every intermediate result through global memory. Level layer launches 5 kernels,
   which keep most results on the chip. */
#include "engine/cuda/cuda_state.h"

/* Returns the dropout of layer l's output; l counts from 0. Logits and evaluation have none. */
static Dropout dropout_after(const CudaEngine *e, int l, bool trains) {
  const EngineConfig *c = &e->engine.config;
  const bool drops = trains && l >= 0 && l < c->network.layers - 1;
  return (Dropout){drops ? training_dropout(&c->training, l) : 0.0f, l + 1};
}

/* ---- pixels ---------------------------------------------------------------------------------- */

cudaError_t scale_pixels(CudaEngine *e, BatchView batch) {
  const PixelFactor by = training_pixel_factor(&e->engine.config.training);
  return launch_scale_pixels(batch, e->d_x, e->engine.config.network.size[0], by.factor, by.offset,
                             e->compute);
}

/* Writes pixels to e->d_x. Does nothing if e->d_x is NULL: the first layer then reads bytes. */
static cudaError_t input_layer(CudaEngine *e, BatchView batch) {
  return e->d_x ? scale_pixels(e, batch) : cudaSuccess;
}

/* ---- forward --------------------------------------------------------------------------------- */

static cudaError_t forward_none(CudaEngine *e, BatchView batch, int l, bool trains) {
  const LayerUpdate at = layer_at(e, l);
  const bool last = l == last_layer(e);
  const Dropout dropout = dropout_after(e, l, trains);
  float *d_y = e->d_activation[l + 1], *d_z = last ? d_y : e->d_z;
  TRY(launch_gemm(at.d_x, at.d_w, d_z, batch.rows, at.in, at.out, e->compute));
  TRY(launch_add_bias(d_z, at.d_b, batch.rows, at.out, e->compute));
  if (!last) TRY(launch_activation(d_z, d_y, (size_t)batch.rows * (size_t)at.out, e->compute));
  return dropout.share > 0 ? launch_dropout(batch, d_y, at.out, dropout, e->compute) : cudaSuccess;
}

static cudaError_t forward_layer(CudaEngine *e, BatchView batch, int l, bool trains) {
  const LayerUpdate at = layer_at(e, l);
  const bool last = l == last_layer(e);
  if (last && has_head(e)) return cudaSuccess; /* loss_layer runs the last layer */
  return launch_forward((LayerInput){at.d_x, batch}, at.d_w, at.d_b, e->d_activation[l + 1], at.in,
                        at.out, !last, dropout_after(e, l, trains), bf16_terms(e), e->compute);
}

/* ---- loss ------------------------------------------------------------------------------------ */

static cudaError_t loss_none(CudaEngine *e, BatchView batch, bool trains) {
  const int last = last_layer(e), classes = e->engine.config.network.size[last + 1];
  TRY(launch_log_softmax(e->d_activation[last + 1], e->d_z, batch.rows, classes, e->compute));
  TRY(launch_cross_entropy(batch, e->d_z, classes, e->results, e->compute));
  if (!trains) return cudaSuccess;
  return launch_cross_entropy_gradient(batch, e->d_z, e->d_delta[last + 1], classes, e->compute);
}

/* Computes the loss. If has_head(e), launch_head also runs the last layer, forward and backward. */
static cudaError_t loss_layer(CudaEngine *e, BatchView batch, bool trains) {
  const int last = last_layer(e);
  const LayerUpdate at = layer_at(e, last);
  float *d_z = e->d_activation[last + 1], *d_dz = trains ? e->d_delta[last + 1] : NULL;
  if (!has_head(e)) return launch_softmax(batch, d_z, d_dz, at.out, e->results, e->compute);
  return launch_head(batch, at.d_x, at.d_w, at.d_b, trains ? NULL : d_z, d_dz,
                     trains ? e->d_delta[last] : NULL, at.in, at.out,
                     dropout_after(e, last - 1, true), e->results, e->compute);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Computes the gradient of layer l's input. */
static cudaError_t backward_input(CudaEngine *e, BatchView batch, int l) {
  const LayerUpdate at = layer_at(e, l);
  const Dropout dropout = dropout_after(e, l - 1, true);
  const int rows = batch.rows;
  float *d_dx = e->d_delta[l];
  if (l == 0) return cudaSuccess;
  TRY(launch_backward_gemm(at.d_dz, at.d_w, d_dx, rows, at.in, at.out, e->compute));
  if (dropout.share > 0) TRY(launch_dropout(batch, d_dx, at.in, dropout, e->compute));
  return launch_activation_slope(d_dx, at.d_x, (size_t)rows * (size_t)at.in, e->compute);
}

static cudaError_t backward_none(CudaEngine *e, BatchView batch, int l) {
  const LayerUpdate at = layer_at(e, l);
  TRY(launch_weight_gradient(at.d_dz, at.d_x, at.d_gw, batch.rows, at.in, at.out, e->compute));
  TRY(launch_bias_gradient(at.d_dz, at.d_gb, batch.rows, at.out, e->compute));
  return backward_input(e, batch, l);
}

static cudaError_t backward_layer(CudaEngine *e, BatchView batch, int l) {
  const LayerUpdate at = layer_at(e, l);
  if (l == 0 || (l == last_layer(e) && has_head(e))) return cudaSuccess;
  return launch_backward(batch, at.d_dz, at.d_w, at.d_x, e->d_delta[l], at.in, at.out,
                         dropout_after(e, l - 1, true), bf16_terms(e), e->compute);
}

/* ---- update ---------------------------------------------------------------------------------- */

static cudaError_t update_none(CudaEngine *e, BatchView batch, int first, int end) {
  for (int l = first; l < end && !stores_gradient(e); l++) {
    const LayerUpdate at = layer_at(e, l);
    const size_t weights = (size_t)at.in * (size_t)at.out, biases = (size_t)at.out;
    TRY(launch_update(batch, at.d_w, at.d_vw, at.d_gw, weights, weights, e->compute));
    TRY(launch_update(batch, at.d_b, at.d_vb, at.d_gb, biases, 0, e->compute));
  }
  return cudaSuccess;
}

/* Computes gradients. If e->d_gradient is NULL, updates the layers, else stores gradients there. */
static cudaError_t update_layer(CudaEngine *e, BatchView batch, int first, int end) {
  LayerUpdate layers[NETWORK_MAX_LAYERS];
  for (int l = first; l < end; l++) layers[l - first] = layer_at(e, l);
  return launch_updates(batch, layers, end - first, bf16_terms(e), e->d_work, e->compute);
}

/* ---- the levels ------------------------------------------------------------------------------ */

const Level level_none = {
    .input = scale_pixels,     /* scale_pixels */
    .forward = forward_none,   /* gemm, add_bias, activation, dropout */
    .loss = loss_none,         /* log_softmax, cross_entropy, cross_entropy_gradient */
    .backward = backward_none, /* weight_gradient, bias_gradient, backward_gemm, dropout, slope */
    .update = update_none,     /* update, once for the weights and once for the biases */
    .unfused = true,           /* d_x, d_z and d_gradient pass values between kernels */
    .each = true,              /* `update` runs after each layer's backward */
};

const Level level_layer = {
    .input = input_layer,       /* no kernel if forward reads pixels as bytes */
    .forward = forward_layer,   /* forward */
    .loss = loss_layer,         /* head; or softmax, if the last layer is too large for head */
    .backward = backward_layer, /* backward; none for layer 0 or for what `head` has done */
    .update = update_layer,     /* the kernel `updates`: computes gradients, updates all layers */
};

/* ---- level exercise: the kernels of kernels/exercise.cu, and some of level none -------------- */

static cudaError_t forward_exercise(CudaEngine *e, BatchView batch, int l, bool trains) {
  (void)trains; /* this level has no dropout */
  const LayerUpdate at = layer_at(e, l);
  return launch_exercise_forward(at.d_x, at.d_w, at.d_b, e->d_z, e->d_activation[l + 1], batch.rows,
                                 at.in, at.out, l < last_layer(e), e->compute);
}

static cudaError_t loss_exercise(CudaEngine *e, BatchView batch, bool trains) {
  const Network *n = &e->engine.config.network;
  const int classes = n->size[n->layers];
  const float *d_logits = e->d_activation[n->layers];
  if (trains)
    return launch_exercise_loss(batch, d_logits, e->d_largest, e->d_sum, e->d_z,
                                e->d_delta[n->layers], classes, e->results, e->compute);
  TRY(launch_exercise_softmax(d_logits, e->d_largest, e->d_sum, e->d_z, batch.rows, classes,
                              e->compute));
  return launch_cross_entropy(batch, e->d_z, classes, e->results, e->compute);
}

static cudaError_t update_exercise(CudaEngine *e, BatchView batch, int first, int end) {
  for (int l = first; l < end; l++) {
    LayerUpdate at = layer_at(e, l);
    float *d_dw = at.d_gw, *d_db = at.d_gb;
    at.d_gw = at.d_gb = NULL; /* so the kernel updates the weights; d_dw, d_db are scratch memory */
    TRY(launch_exercise_update(batch, update_rule(e), at, d_dw, d_db, e->compute));
  }
  return cudaSuccess;
}

const Level level_exercise = {.input = scale_pixels,
                              .forward = forward_exercise,
                              .loss = loss_exercise,
                              .backward = backward_input,
                              .update = update_exercise,
                              .unfused = true,
                              .each = true};
