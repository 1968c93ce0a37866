/* Level exercise: the student's kernels in kernels/exercise.cu, and some of level none. */
#include "engine/cuda/level.h"

typedef struct {
  float *d_largest, *d_sum; /* (rows): scratch memory of the softmax */
} Exercise;

static bool open_exercise(Pass *p, const Opening *o, Error *error) {
  Exercise *own = p->own = cuda_host(o->memory, sizeof *own, error);
  return own && cuda_array(o->memory, &own->d_largest, (size_t)o->rows, sizeof(float), error) &&
         cuda_array(o->memory, &own->d_sum, (size_t)o->rows, sizeof(float), error);
}

static cudaError_t forward(const Pass *p, int l) {
  const LayerUpdate at = layer_at(p, l);
  return launch_exercise_forward(at.d_x, at.d_w, at.d_b, p->arrays->d_scratch,
                                 p->arrays->d_activation[l + 1], p->batch.rows, at.in, at.out,
                                 l < last_layer(p), p->stream);
}

static cudaError_t loss(const Pass *p) {
  const Exercise *own = p->own;
  const int layers = p->config->network.layers, classes = p->config->network.size[layers];
  const float *d_logits = p->arrays->d_activation[layers];
  float *d_p = p->arrays->d_scratch;
  if (p->trains)
    return launch_exercise_loss(p->batch, d_logits, own->d_largest, own->d_sum, d_p,
                                p->arrays->d_delta[layers], classes, p->results, p->stream);
  TRY(launch_exercise_softmax(d_logits, own->d_largest, own->d_sum, d_p, p->batch.rows, classes,
                              p->stream));
  return launch_cross_entropy(p->batch, d_p, classes, p->results, p->stream);
}

static cudaError_t update(const Pass *p, int first, int end) {
  const OptimizerRule *rule = &p->config->training.rule;
  for (int l = first; l < end; l++) {
    LayerUpdate at = layer_at(p, l);
    float *d_dw = at.d_gw, *d_db = at.d_gb;
    at.d_gw = at.d_gb = NULL; /* so the kernel updates the weights; d_dw, d_db are scratch memory */
    TRY(launch_exercise_update(p->batch, (UpdateRule){rule->momentum, rule->weight_decay}, at, d_dw,
                               d_db, p->stream));
  }
  return cudaSuccess;
}

const Level level_exercise = {.input = scale_pixels,
                              .forward = forward,
                              .loss = loss,
                              .backward = backward_input,
                              .update = update,
                              .unfused = true,
                              .each = true,
                              .train = steps_by_kernel,
                              .open = open_exercise,
                              .scratch = none_scratch};
