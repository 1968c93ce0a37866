/* The levels of fusion. To see fusion, compare the two tables at the end of this file, whose
   comments name the kernels; step() calls them. For 784-300-100-10, level none launches 28 kernels
   per step, which pass every intermediate result through global memory. Level layer launches 5
   kernels, which keep most results on the chip. */
#include "engine/cuda/around.h"

/* ---- one step -------------------------------------------------------------------------------- */

cudaError_t forward_pass(const Pass *p) {
  TRY(p->level->input(p));
  for (int l = 0; l < p->config->network.layers; l++) TRY(p->level->forward(p, l));
  return p->level->loss(p);
}

static cudaError_t step(const Pass *p) {
  const Level *level = p->level;
  TRY(forward_pass(p));
  for (int l = last_layer(p); l >= 0; l--) {
    TRY(level->backward(p, l));
    if (level->each) TRY(level->update(p, l, l + 1));
  }
  return level->each ? cudaSuccess : level->update(p, 0, p->config->network.layers);
}

/* Updates the average of the parameters after a step. */
static cudaError_t average(const Pass *p) {
  if (p->level->join) TRY(p->level->join(p));
  return launch_average(p->batch, p->config->training.ema, p->d_average, p->d_parameters,
                        p->config->network.floats, p->stream);
}

cudaError_t steps_by_kernel(const Pass *p, uint64_t steps) {
  const uint64_t batch = (uint64_t)p->config->training.batch;
  Pass now = *p;
  for (uint64_t s = 0; s < steps + (p->rest > 0); s++) {
    now.batch.offset = (uint32_t)(s * batch);
    if (s == steps) now.batch.rows = p->rest;
    TRY(step(&now));
    if (p->d_average) TRY(average(&now));
  }
  return p->level->join ? p->level->join(p) : cudaSuccess;
}

/* ---- optimizers ------------------------------------------------------------------------------ */

cudaError_t optimize(const Pass *p, int first, int end, cudaStream_t stream) {
  const Network *n = &p->config->network;
  const size_t start = layer_start(n, first);
  FlatParameters flat = {
      .d_w = p->d_parameters + start,
      .d_m = p->d_momentum + start,
      .d_v = training_moments(&p->config->training) > 1 ? p->d_momentum + n->floats + start : NULL,
      .d_g = p->arrays->d_gradient + start,
      .count = layer_start(n, end) - start,
      .layers = end - first};
  for (int l = first; l < end; l++) {
    flat.weight[l - first] = n->weight[l] - start;
    flat.bias[l - first] = n->bias[l] - start;
    if (p->around->planes) flat.planes[l - first] = p->around->planes[l];
  }
  return launch_optimizer(p->batch, &flat, stream);
}

static cudaError_t update_by_optimizer(const Pass *p, int first, int end) {
  TRY(p->inner->update(p, first, end));
  return optimize(p, first, end, p->stream);
}

Level level_by_optimizer(const Level *inner) {
  Level level = *inner;
  level.each = false;
  level.update = update_by_optimizer;
  return level;
}

/* ---- the levels ------------------------------------------------------------------------------ */

const Level level_none = {
    .input = scale_pixels,     /* scale_pixels */
    .forward = none_forward,   /* gemm, add_bias, activation, dropout */
    .loss = none_loss,         /* log_softmax, cross_entropy, cross_entropy_gradient */
    .backward = none_backward, /* weight_gradient, bias_gradient, backward_gemm, dropout, slope */
    .update = none_update,     /* update, once for the weights and once for the biases */
    .each = true,              /* `update` runs after each layer's backward */
    .unfused = true,           /* global memory passes values between kernels */
    .scratch = none_scratch,
    .train = steps_by_kernel,
};

const Level level_layer = {
    .input = layer_input,       /* no kernel if forward reads pixels as bytes */
    .forward = layer_forward,   /* forward */
    .loss = layer_loss,         /* head; or softmax, if the last layer is too large for head */
    .backward = layer_backward, /* backward; none for layer 0 or for what `head` has done */
    .update = layer_update,     /* the kernel `updates`: computes gradients, updates all layers */
    .scratch = layer_scratch,
    .train = steps_by_kernel,
};
