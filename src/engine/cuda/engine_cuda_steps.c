/* Runs training steps at every level (levels.c), with ranks, optimizers, averages and graphs. */
#include "engine/cuda/cuda_state.h"

enum {
  GRAPH_STEPS = 64, /* steps in a long graph, which launches as fast as a graph of one step */
  /* Minimum and maximum number of values that ranks add in one call of NCCL. To add 4 MB takes 30
     us, half of which is fixed cost; to add 32 MB takes 100 us. */
  LEAST_OF_BUCKET = 1 << 20,
  MOST_OF_BUCKET = 1 << 23,
};

/* Returns a BatchView of `rows` rows of d_pixels, in the order of the dataset. */
static BatchView batch_view(const CudaEngine *e, const uint8_t *d_pixels, int rows) {
  return (BatchView){.d_pixels = d_pixels,
                     .d_labels = e->d_labels,
                     .stride = e->stride,
                     .d_state = e->d_state,
                     .rows = rows};
}

/* Returns a BatchView of a step's rows, in the epoch's order. */
static BatchView train_view(const CudaEngine *e, int rows) {
  BatchView view = batch_view(e, e->d_train_on, rows);
  view.d_order = e->d_order;
  view.smoothing = e->engine.config.training.label_smoothing;
  view.share = e->share;
  return view;
}

/* Returns the index of layer l's first parameter. If l equals n->layers, returns n->floats. */
static size_t layer_start(const Network *n, int l) {
  return l < n->layers ? n->weight[l] : n->floats;
}

/* Updates layers first to end - 1 and their planes from e->d_gradient, by the optimizer's rule. */
static cudaError_t optimize(CudaEngine *e, BatchView batch, int first, int end,
                            cudaStream_t stream) {
  const EngineConfig *config = &e->engine.config;
  const Network *n = &config->network;
  const size_t start = layer_start(n, first);
  FlatParameters p = {
      .d_w = e->d_parameters + start,
      .d_m = e->d_momentum + start,
      .d_v = training_moments(&config->training) > 1 ? e->d_momentum + n->floats + start : NULL,
      .d_g = e->d_gradient + start,
      .count = layer_start(n, end) - start,
      .layers = end - first};
  for (int l = first; l < end; l++) {
    p.weight[l - first] = n->weight[l] - start;
    p.bias[l - first] = n->bias[l] - start;
    p.planes[l - first] = e->wide.planes[WIDE_W + l];
  }
  return launch_optimizer(batch, &p, stream);
}

/* Updates layers first to end - 1 from the ranks' sums, while e->compute continues. */
static cudaError_t update_by_sums(CudaEngine *e, BatchView batch, int first, int end) {
  TRY(optimize(e, batch, first, end, e->sums.updates));
  return sums_updated(e, first, end);
}

static cudaError_t join_all_sums(CudaEngine *e) {
  return sums_join(e, 0, e->engine.config.network.layers);
}

/* ---- one step -------------------------------------------------------------------------------- */

static cudaError_t forward(CudaEngine *e, BatchView batch, bool trains) {
  const int layers = e->engine.config.network.layers;
  TRY(e->level->input(e, batch));
  for (int l = 0; l < layers; l++) {
    TRY(sums_join(e, l, e->level->joins_late ? l + 1 : layers));
    TRY(e->level->forward(e, batch, l, trains));
  }
  return e->level->loss(e, batch, trains);
}

/* Returns true if layers l to end - 1 form a bucket, whose gradients ranks add together. Most
   networks have three buckets: the last layers, with at most a quarter of the values; the middle
   layers; and the first layer, whose sum hardly overlaps with other work. */
static bool is_bucket(const Network *n, int l, int end) {
  const size_t all = layer_start(n, n->layers), past = layer_start(n, end);
  const size_t values = past - layer_start(n, l);
  if (l == 0 || values < LEAST_OF_BUCKET) return l == 0;
  return l == 1 || values >= MOST_OF_BUCKET ||
         (end == n->layers && past - layer_start(n, l - 1) > all / 4);
}

/* Adds the ranks' gradients of layers l to end - 1 and updates these layers. But if l > 0, backward
   still needs layer l's old weights: this sets *late to l, and the next call updates layer l. */
static cudaError_t update_by_ranks(CudaEngine *e, BatchView batch, int l, int end, int *late) {
  const Network *n = &e->engine.config.network;
  const int first = l > 0 ? l + 1 : 0;
  TRY(sums_add(e, layer_start(n, l), layer_start(n, end) - layer_start(n, l)));
  if (first < end) TRY(update_by_sums(e, batch, first, end));
  if (*late > 0) TRY(sums_follow(e));
  if (*late > 0) TRY(update_by_sums(e, batch, *late, *late + 1));
  *late = l;
  return cudaSuccess;
}

/* Runs one step: forward, backward and the updates. Ranks add the gradients bucket by bucket. */
static cudaError_t step(CudaEngine *e, BatchView batch) {
  const Level *level = e->level;
  const Network *n = &e->engine.config.network;
  const bool ranks = e->engine.config.ranks;
  int end = n->layers, late = 0;
  TRY(forward(e, batch, true));
  for (int l = n->layers - 1; l >= 0; l--) {
    if (ranks && !level->each && l > 0 && is_bucket(n, l, end)) {
      TRY(level->update(e, batch, l, end));
      TRY(update_by_ranks(e, batch, l, end, &late));
      end = l;
    }
    TRY(level->backward(e, batch, l));
    if (level->each || l == 0) TRY(level->update(e, batch, l, level->each ? l + 1 : end));
  }
  if (!stores_gradient(e)) return cudaSuccess;
  return ranks ? update_by_ranks(e, batch, 0, end, &late) : optimize(e, batch, 0, end, e->compute);
}

/* Queues `count` steps from the position in *d_state and, if rest > 0, a step of `rest` rows. */
static cudaError_t steps_by_kernel(CudaEngine *e, uint64_t count, int rest) {
  const EngineConfig *config = &e->engine.config;
  const int rows = engine_rows(config);
  BatchView view = train_view(e, rows);
  for (uint64_t s = 0; s < count + (rest > 0); s++) {
    view.offset = (uint32_t)(s * (uint64_t)config->training.batch);
    view.rows = s < count ? rows : rest;
    TRY(step(e, view));
    if (!e->d_average) continue;
    TRY(join_all_sums(e));
    TRY(launch_average(view, config->training.ema, e->d_average, e->d_parameters,
                       config->network.floats, e->compute));
  }
  return join_all_sums(e);
}

/* ---- level step --------------------------------------------------------------------------- */

/* Captures a graph of of->steps steps. Each launch advances *d_state for the next launch. */
static cudaError_t capture_steps(CudaEngine *e, StepGraph *of) {
  cudaGraph_t graph = NULL;
  TRY(cudaStreamBeginCapture(e->compute, cudaStreamCaptureModeThreadLocal));
  const uint64_t positions =
      (of->steps + (of->rest > 0)) * (uint64_t)e->engine.config.training.batch;
  cudaError_t status = steps_by_kernel(e, of->steps, of->rest);
  if (status == cudaSuccess) status = launch_advance(e->d_state, (uint32_t)positions, e->compute);
  const cudaError_t captured = cudaStreamEndCapture(e->compute, &graph);
  if (status == cudaSuccess) status = captured;
  if (status == cudaSuccess) status = cudaGraphInstantiate(&of->graph, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return status;
}

static void forget_graph(StepGraph *of) {
  if (of->graph) cudaGraphExecDestroy(of->graph);
  of->graph = NULL;
}

void steps_forget(CudaEngine *e) {
  forget_graph(&e->one_step);
  forget_graph(&e->many_steps);
  forget_graph(&e->last_steps);
}

/* Queues `steps` full steps and a step of `rest` rows as one graph, which it captures if needed. */
static cudaError_t launch_steps(CudaEngine *e, StepGraph *by, uint64_t steps, int rest) {
  if (steps == 0 && rest == 0) return cudaSuccess;
  if (by->steps != steps || by->rest != rest) forget_graph(by);
  by->steps = steps;
  by->rest = rest;
  if (!by->graph) TRY(capture_steps(e, by));
  return cudaGraphLaunch(by->graph, e->compute);
}

/* Queues a range's steps as graphs of GRAPH_STEPS steps, then of 1 step, then a short step. With
   ranks, if the previous range had the same length, all steps after the long graphs form one graph
   instead, because the ranks' updates overlap with the next step only inside a graph. */
static cudaError_t steps_by_graph(CudaEngine *e, StepState state) {
  const Ranks *ranks = e->engine.config.ranks;
  const uint32_t batch = (uint32_t)e->engine.config.training.batch,
                 positions = state.end - state.position;
  const int rest = (int)ceil_div(positions % batch, (size_t)ranks_count(ranks));
  uint64_t steps = positions / batch;
  const uint64_t last = ranks && positions == e->positions_before ? steps % GRAPH_STEPS : 0;
  e->positions_before = positions;
  if (e->d_captured != e->d_train_on) steps_forget(e);
  e->d_captured = e->d_train_on;
  for (; steps >= GRAPH_STEPS; steps -= GRAPH_STEPS)
    TRY(launch_steps(e, &e->many_steps, GRAPH_STEPS, 0));
  for (; steps > last; steps--) TRY(launch_steps(e, &e->one_step, 1, 0));
  return launch_steps(e, &e->last_steps, last, rest);
}

/* ---- level epoch -------------------------------------------------------------------------- */

/* Queues a range's steps. The first launch begins at the first step. Later launches begin at
   multiples of tiles.steps, so that the cuts between calls do not change the bits. */
static cudaError_t steps_by_tiles(CudaEngine *e, StepState state, uint64_t steps) {
  const EngineConfig *c = &e->engine.config;
  const Network *n = &c->network;
  const PixelFactor pixels = training_pixel_factor(&c->training);
  const uint64_t batch = (uint64_t)c->training.batch, first = state.position / batch,
                 most = (uint64_t)e->tiles.steps;
  TilesJob job = {.d_pixels = e->d_train_on,
                  .d_labels = e->d_labels,
                  .d_order = e->d_order,
                  .stride = e->stride,
                  .learning_rate = state.learning_rate,
                  .rule = state.rule,
                  .smoothing = c->training.label_smoothing,
                  .ema = c->training.ema,
                  .dropout_key = state.dropout_key,
                  .pixel_factor = pixels.factor,
                  .pixel_offset = pixels.offset,
                  .d_parameters = e->d_parameters,
                  .d_first = e->d_momentum,
                  .d_second = e->tiles.shape.second ? e->d_momentum + n->floats : NULL,
                  .d_average = e->d_average,
                  .results = e->results,
                  .d_overflowed = &e->d_sums->overflowed,
                  .d_mail = e->d_mail,
                  .d_work = e->d_steps};
  for (int l = 0; l < n->layers; l++) {
    job.weight[l] = n->weight[l];
    job.bias[l] = n->bias[l];
    job.dropout[l] = l < last_layer(e) ? training_dropout(&c->training, l) : 0;
  }
  for (uint64_t step = first, end; step < first + steps; step = end) {
    end = min_size((step / most + 1) * most, first + steps);
    job.position = (uint32_t)(step * batch);
    job.end = (uint32_t)min_size(end * batch, state.end);
    job.updates = state.updates + (uint32_t)step;
    job.first_stamp = e->stamp;
    e->stamp += (uint32_t)(end - step);
    TRY(launch_tiles(&e->tiles, &job, e->compute));
  }
  return cudaSuccess;
}

/* Queues all steps of a member (engine.h) as one launch, which waits until a cluster is free. */
static cudaError_t steps_by_cluster(CudaEngine *e, StepState state) {
  const size_t *w = e->engine.config.network.weight, *b = e->engine.config.network.bias;
  const ManyJob job = {.shape = many_shape(e),
                       .d_pixels = e->d_train_on,
                       .d_labels = e->d_labels,
                       .d_order = e->d_order,
                       .stride = e->stride,
                       .position = state.position,
                       .end = state.end,
                       .learning_rate = state.learning_rate,
                       .rule = {state.rule.momentum, state.rule.weight_decay},
                       .weight = {w[0], w[1], w[2]},
                       .bias = {b[0], b[1], b[2]},
                       .d_parameters = e->d_parameters,
                       .d_momentum = e->d_momentum,
                       .results = e->results,
                       .d_overflowed = &e->d_sums->overflowed,
                       .d_work = e->d_steps};
  return launch_many(&job, e->compute);
}

/* ---- any level ---------------------------------------------------------------------------- */

cudaError_t steps_train(CudaEngine *e, StepState state, uint64_t steps) {
  switch (e->engine.config.training.fusion) {
  case FUSION_EPOCH:
    return has_cluster(e) ? steps_by_cluster(e, state) : steps_by_tiles(e, state, steps);
  case FUSION_STEP:
    /* Libraries load kernels in their first step. So a step without rows precedes the capture. */
    if ((e->library || e->engine.config.ranks) && !e->many_steps.graph && !e->one_step.graph &&
        !e->last_steps.graph) {
      TRY(launch_begin(e->d_state, (StepState){.position = 1, .end = 1}, e->compute));
      TRY(steps_by_kernel(e, 1, 0));
      TRY(cudaStreamSynchronize(e->compute));
      TRY(launch_begin(e->d_state, state, e->compute));
    }
    return steps_by_graph(e, state);
  default:
    return steps_by_kernel(e, steps, 0);
  }
}

enum { PROBE_ROWS = 64 }; /* rows from which the scales are computed */

/* Runs level_layer's forward and, if `trains`, backward on `view`. Then sets the wide scales. */
static cudaError_t rescale(CudaEngine *e, BatchView view, bool trains, float bound) {
  Precision *precision = &e->engine.config.training.precision, before = *precision;
  if (view.rows > PROBE_ROWS) view.rows = PROBE_ROWS;
  e->level = &level_layer;
  *precision = PRECISION_TF32; /* precise enough to set scales */
  cudaError_t status = forward(e, view, trains);
  for (int l = last_layer(e); trains && status == cudaSuccess && l > 0; l--)
    status = e->level->backward(e, view, l);
  e->level = &level_wide;
  *precision = before;
  return status != cudaSuccess ? status : wide_rescale(e, view.rows, trains, bound);
}

cudaError_t steps_rescale(CudaEngine *e, StepState state) {
  const uint32_t left = state.end - state.position;
  const uint32_t batch = (uint32_t)e->engine.config.training.batch;
  TRY(join_all_sums(e));
  return rescale(e, train_view(e, engine_rows(&e->engine.config)), true,
                 1.0f / (float)(left < batch ? left : batch));
}

cudaError_t steps_evaluate(CudaEngine *e, uint32_t first_row, int rows) {
  BatchView view = batch_view(e, e->d_pixels, rows);
  float *d_trained = e->d_parameters;
  view.first_row = first_row;
  if (e->level == &level_wide) TRY(rescale(e, view, false, 0));
  if (e->d_average) e->d_parameters = e->d_average; /* forward uses the average */
  const cudaError_t status = forward(e, view, false);
  e->d_parameters = d_trained;
  return status;
}
