/* Level epoch: one kernel trains on all steps of a range (kernels/epoch/tiles.cu). Level layer
   evaluates, and repeats the work if a number leaves the range of fp16. */
#include "engine/cuda/level.h"

/* The plan is made once. All launches use it. */
static bool open_epoch(Pass *p, const Opening *o, Error *error) {
  const Training *t = &p->config->training;
  const Network *n = &p->config->network;
  const PixelFactor pixels = training_pixel_factor(t);
  const size_t steps = ceil_div(p->config->dataset_rows, (size_t)t->batch);
  TilesPlan *plan = p->own = cuda_host(o->memory, sizeof *plan, error);
  if (!plan) return false;
  *plan = *o->tiles;
  plan->steps = (int)min_size((size_t)plan->steps, round_up(steps, EPOCH_DIRECT));
  if (plan->ahead) *o->aligned = EPOCH_DIRECT;
  plan->smoothing = t->label_smoothing;
  plan->ema = t->ema;
  plan->pixel_factor = pixels.factor;
  plan->pixel_offset = pixels.offset;
  for (int l = 0; l < n->layers; l++) {
    plan->weight[l] = n->weight[l];
    plan->bias[l] = n->bias[l];
    plan->dropout[l] = l < last_layer(p) ? training_dropout(t, l) : 0;
  }
  plan->d_parameters = p->d_parameters;
  plan->d_first = p->d_momentum;
  plan->d_second = plan->shape.second ? p->d_momentum + n->floats : NULL;
  plan->d_average = p->d_average;
  plan->results = p->results;
  plan->d_overflowed = o->d_overflowed;
  return cuda_zeros(o->memory, &plan->d_mail, 1, plan->mail_bytes, error) &&
         cuda_array(o->memory, &plan->d_work, 1, tiles_work_bytes(plan), error) &&
         cuda_done(open_tiles(plan), "planning level epoch", error);
}

const TilesPlan *epoch_plan(const Pass *p) {
  return p->own;
}

static cudaError_t train(const Pass *p, uint64_t steps) {
  (void)steps; /* p->state has their positions */
  return launch_tiles(p->own, p->batch, p->state, p->stream);
}

const Level level_epoch = {
    .train = train, .again = &level_layer, .open = open_epoch, .scratch = layer_scratch};
