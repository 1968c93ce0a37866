/* Level epoch: one kernel trains on all steps of a range (kernels/epoch/tiles.cu). Level layer
   evaluates, and repeats the work if a number leaves the range of fp16. */
#include "engine/cuda/level.h"

typedef struct {
  TilesPlan plan;
  void *d_work, *d_mail; /* scratch memory; messages between blocks */
  uint32_t *d_overflowed;
  uint32_t stamp; /* the stamp of the next step's messages */
} Epoch;

static bool open_epoch(Pass *p, const Opening *o, Error *error) {
  Epoch *own = p->own = cuda_host(o->memory, sizeof *own, error);
  if (!own) return false;
  own->plan = *o->tiles;
  own->plan.steps = (int)min_size(
      (size_t)own->plan.steps,
      round_up(ceil_div(p->config->dataset_rows, (size_t)p->config->training.batch), EPOCH_DIRECT));
  if (own->plan.ahead) *o->aligned = EPOCH_DIRECT;
  own->d_overflowed = o->d_overflowed;
  own->stamp = TILES_FIRST_STAMP;
  return cuda_zeros(o->memory, &own->d_mail, 1, own->plan.mail_bytes, error) &&
         cuda_array(o->memory, &own->d_work, 1, tiles_work_bytes(&own->plan), error);
}

const TilesPlan *epoch_plan(const Pass *p) {
  return &((const Epoch *)p->own)->plan;
}

/* The first launch begins at the first step. Later launches begin at multiples of plan.steps, so
   that the cuts between calls do not change the bits. */
static cudaError_t train(const Pass *p, StepState state, uint64_t steps) {
  Epoch *own = p->own;
  const Training *t = &p->config->training;
  const Network *n = &p->config->network;
  const PixelFactor pixels = training_pixel_factor(t);
  const uint64_t batch = (uint64_t)t->batch, first = state.position / batch,
                 most = (uint64_t)own->plan.steps;
  TilesJob job = {.d_pixels = p->batch.d_pixels,
                  .d_labels = p->batch.d_labels,
                  .d_order = p->batch.d_order,
                  .stride = p->batch.stride,
                  .learning_rate = state.learning_rate,
                  .rule = state.rule,
                  .smoothing = p->batch.smoothing,
                  .ema = t->ema,
                  .dropout_key = state.dropout_key,
                  .pixel_factor = pixels.factor,
                  .pixel_offset = pixels.offset,
                  .d_parameters = p->d_parameters,
                  .d_first = p->d_momentum,
                  .d_second = own->plan.shape.second ? p->d_momentum + n->floats : NULL,
                  .d_average = p->d_average,
                  .results = p->results,
                  .d_overflowed = own->d_overflowed,
                  .d_mail = own->d_mail,
                  .d_work = own->d_work};
  for (int l = 0; l < n->layers; l++) {
    job.weight[l] = n->weight[l];
    job.bias[l] = n->bias[l];
    job.dropout[l] = l < last_layer(p) ? training_dropout(t, l) : 0;
  }
  for (uint64_t step = first, end; step < first + steps; step = end) {
    end = min_size((step / most + 1) * most, first + steps);
    job.position = (uint32_t)(step * batch);
    job.end = (uint32_t)min_size(end * batch, state.end);
    job.updates = state.updates + (uint32_t)step;
    job.first_stamp = own->stamp;
    own->stamp += (uint32_t)(end - step);
    TRY(launch_tiles(&own->plan, &job, p->stream));
  }
  return cudaSuccess;
}

const Level level_epoch = {
    .train = train, .again = &level_layer, .open = open_epoch, .scratch = layer_scratch};
