/* Level layer: one kernel per layer and direction. */
#include "engine/cuda/level.h"

size_t layer_scratch(const EngineConfig *config, int rows) {
  (void)config;
  (void)rows;
  return update_work_bytes();
}

/* Writes pixels to d_x. Does nothing if d_x is NULL: the first layer then reads bytes. */
cudaError_t layer_input(const Pass *p) {
  return p->arrays->d_x ? scale_pixels(p) : cudaSuccess;
}

cudaError_t layer_forward(const Pass *p, int l) {
  const LayerUpdate at = layer_at(p, l);
  const bool last = l == last_layer(p);
  if (last && has_head(&p->config->network)) return cudaSuccess; /* loss runs the last layer */
  return launch_forward((LayerInput){at.d_x, p->batch}, at.d_w, at.d_b,
                        p->arrays->d_activation[l + 1], at.in, at.out, !last, dropout_after(p, l),
                        bf16_terms(p->precision), p->stream);
}

/* Computes the loss. If has_head(), launch_head also runs the last layer, forward and backward. */
cudaError_t layer_loss(const Pass *p) {
  const int last = last_layer(p);
  const LayerUpdate at = layer_at(p, last);
  const LayerArrays *a = p->arrays;
  float *d_z = a->d_activation[last + 1], *d_dz = p->trains ? a->d_delta[last + 1] : NULL;
  float *d_dx = p->trains ? a->d_delta[last] : NULL;
  if (!has_head(&p->config->network))
    return launch_softmax(p->batch, d_z, d_dz, at.out, p->results, p->stream);
  return launch_head(p->batch, at.d_x, at.d_w, at.d_b, p->trains ? NULL : d_z, d_dz, d_dx, at.in,
                     at.out, dropout_after(p, last - 1), p->results, p->stream);
}

cudaError_t layer_backward(const Pass *p, int l) {
  const LayerUpdate at = layer_at(p, l);
  if (l == 0 || (l == last_layer(p) && has_head(&p->config->network))) return cudaSuccess;
  return launch_backward(p->batch, at.d_dz, at.d_w, at.d_x, p->arrays->d_delta[l], at.in, at.out,
                         dropout_after(p, l - 1), bf16_terms(p->precision), p->stream);
}

/* Computes gradients. If d_gradient is NULL, updates the layers, else stores gradients there. */
cudaError_t layer_update(const Pass *p, int first, int end) {
  LayerUpdate layers[NETWORK_MAX_LAYERS];
  for (int l = first; l < end; l++) layers[l - first] = layer_at(p, l);
  return launch_updates(p->batch, layers, end - first, bf16_terms(p->precision),
                        p->arrays->d_scratch, p->stream);
}
