/* Level exercise: the functions of kernels/exercise.cu as their reader has left them, and the
   kernels of level none for what is not part of the exercise. */
#include "engine/cuda/cuda_state.h"

static cudaError_t forward(CudaEngine *e, BatchView batch, int l, bool trains) {
  (void)trains; /* this level takes no dropout */
  const LayerUpdate at = layer_at(e, l);
  return launch_exercise_forward(at.d_x, at.d_w, at.d_b, e->d_z, e->d_activation[l + 1], batch.rows,
                                 at.in, at.out, l < last_layer(e), e->compute);
}

static cudaError_t loss(CudaEngine *e, BatchView batch, bool trains) {
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

static cudaError_t backward(CudaEngine *e, BatchView batch, int l) {
  const LayerUpdate at = layer_at(e, l);
  float *d_dx = e->d_delta[l];
  if (l == 0) return cudaSuccess;
  TRY(launch_backward_gemm(at.d_dz, at.d_w, d_dx, batch.rows, at.in, at.out, e->compute));
  return launch_activation_slope(d_dx, at.d_x, (size_t)batch.rows * (size_t)at.in, e->compute);
}

static cudaError_t update(CudaEngine *e, BatchView batch, int first, int end) {
  for (int l = first; l < end; l++) {
    LayerUpdate at = layer_at(e, l);
    float *d_dw = at.d_gw, *d_db = at.d_gb;
    at.d_gw = at.d_gb = NULL; /* scratch: the weights are updated */
    TRY(launch_exercise_update(batch, update_rule(e), at, d_dw, d_db, e->compute));
  }
  return cudaSuccess;
}

const Level level_exercise = {.input = scale_pixels,
                              .forward = forward,
                              .loss = loss,
                              .backward = backward,
                              .update = update,
                              .unfused = true,
                              .each = true};
