/* Level none: one kernel per operation. Each value goes through global memory. */
#include "engine/cuda/level.h"

size_t none_scratch(const EngineConfig *config, int rows) {
  int widest = 0; /* scratch memory has Z, or the log-probabilities: (rows, widest) */
  for (int l = 1; l <= config->network.layers; l++)
    widest = max_int(widest, config->network.size[l]);
  return (size_t)rows * (size_t)widest * sizeof(float);
}

cudaError_t scale_pixels(const Pass *p) {
  const PixelFactor by = training_pixel_factor(&p->config->training);
  return launch_scale_pixels(p->batch, p->arrays->d_x, p->config->network.size[0], by.factor,
                             by.offset, p->stream);
}

cudaError_t none_forward(const Pass *p, int l) {
  const LayerUpdate at = layer_at(p, l);
  const bool last = l == last_layer(p);
  const Dropout dropout = dropout_after(p, l);
  const int rows = p->batch.rows;
  float *d_y = p->arrays->d_activation[l + 1], *d_z = last ? d_y : p->arrays->d_scratch;
  TRY(launch_gemm(at.d_x, at.d_w, d_z, rows, at.in, at.out, p->stream));
  TRY(launch_add_bias(d_z, at.d_b, rows, at.out, p->stream));
  if (!last) TRY(launch_activation(d_z, d_y, (size_t)rows * (size_t)at.out, p->stream));
  return dropout.share > 0 ? launch_dropout(p->batch, d_y, at.out, dropout, p->stream)
                           : cudaSuccess;
}

cudaError_t none_loss(const Pass *p) {
  const int layers = p->config->network.layers, classes = p->config->network.size[layers];
  const LayerArrays *a = p->arrays;
  float *d_p = a->d_scratch;
  TRY(launch_log_softmax(a->d_activation[layers], d_p, p->batch.rows, classes, p->stream));
  TRY(launch_cross_entropy(p->batch, d_p, classes, p->results, p->stream));
  if (!p->trains) return cudaSuccess;
  return launch_cross_entropy_gradient(p->batch, d_p, a->d_delta[layers], classes, p->stream);
}

cudaError_t backward_input(const Pass *p, int l) {
  const LayerUpdate at = layer_at(p, l);
  const Dropout dropout = dropout_after(p, l - 1);
  const int rows = p->batch.rows;
  float *d_dx = p->arrays->d_delta[l];
  if (l == 0) return cudaSuccess;
  TRY(launch_backward_gemm(at.d_dz, at.d_w, d_dx, rows, at.in, at.out, p->stream));
  if (dropout.share > 0) TRY(launch_dropout(p->batch, d_dx, at.in, dropout, p->stream));
  return launch_activation_slope(d_dx, at.d_x, dropout, (size_t)rows * (size_t)at.in, p->stream);
}

cudaError_t none_backward(const Pass *p, int l) {
  const LayerUpdate at = layer_at(p, l);
  const int rows = p->batch.rows;
  TRY(launch_weight_gradient(at.d_dz, at.d_x, at.d_gw, rows, at.in, at.out, p->stream));
  TRY(launch_bias_gradient(at.d_dz, at.d_gb, rows, at.out, p->stream));
  return backward_input(p, l);
}

cudaError_t none_update(const Pass *p, int first, int end) {
  for (int l = first; l < end && !stores_gradient(p->config); l++) {
    const LayerUpdate at = layer_at(p, l);
    const size_t weights = (size_t)at.in * (size_t)at.out, biases = (size_t)at.out;
    TRY(launch_update(p->batch, at.d_w, at.d_vw, at.d_gw, weights, weights, p->stream));
    TRY(launch_update(p->batch, at.d_b, at.d_vb, at.d_gb, biases, 0, p->stream));
  }
  return cudaSuccess;
}
