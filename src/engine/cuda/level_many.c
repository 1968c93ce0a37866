/* Level many: level epoch for a member (engine.h) that trains in one cluster of blocks
   (kernels/many/). Level layer evaluates, and repeats the work if a number leaves fp16's range. */
#include "engine/cuda/level.h"

typedef struct {
  void *d_work; /* many_work_bytes(steps) */
  uint32_t *d_overflowed;
} Many;

ManyShape many_shape(const EngineConfig *config) {
  const int *size = config->network.size;
  return (ManyShape){size[0], size[1], size[2], size[3], config->training.batch};
}

static bool open_many(Pass *p, const Opening *o, Error *error) {
  const size_t steps = ceil_div(p->config->dataset_rows, (size_t)p->config->training.batch);
  Many *own = p->own = cuda_host(o->memory, sizeof *own, error);
  if (!own) return false;
  own->d_overflowed = o->d_overflowed;
  return cuda_array(o->memory, &own->d_work, 1, many_work_bytes((uint32_t)steps), error);
}

/* Queues all steps as one launch, which waits until a cluster is free. */
static cudaError_t train(const Pass *p, uint64_t steps) {
  (void)steps;
  const Many *own = p->own;
  const size_t *w = p->config->network.weight, *b = p->config->network.bias;
  const ManyJob job = {.shape = many_shape(p->config),
                       .d_pixels = p->batch.d_pixels,
                       .d_labels = p->batch.d_labels,
                       .d_order = p->batch.d_order,
                       .stride = p->batch.stride,
                       .position = p->state.position,
                       .end = p->state.end,
                       .learning_rate = p->state.learning_rate,
                       .rule = {p->state.rule.momentum, p->state.rule.weight_decay},
                       .weight = {w[0], w[1], w[2]},
                       .bias = {b[0], b[1], b[2]},
                       .d_parameters = p->d_parameters,
                       .d_momentum = p->d_momentum,
                       .results = p->results,
                       .d_overflowed = own->d_overflowed,
                       .d_work = own->d_work};
  return launch_many(&job, p->stream);
}

const Level level_many = {
    .train = train, .again = &level_layer, .open = open_many, .scratch = layer_scratch};
