/* Which kernels make a training step, at each level of fusion. */
#include "engine/cuda/engine_cuda.h"

enum {
  GRAPH_STEPS = 64, /* of the long graph: a launch of it costs as much as of one */
  /* Values that ranks add at once, unless a step has fewer. A sum of 4 MB takes some 30 us, of
     which what it costs whatever its size is half; one of 32 MB some 100 us. */
  LEAST_OF_BUCKET = 1 << 20,
  MOST_OF_BUCKET = 1 << 23,
};

static BatchView batch_view(const CudaEngine *e, const uint8_t *d_pixels, int rows) {
  return (BatchView){.d_pixels = d_pixels,
                     .d_labels = e->d_labels,
                     .stride = e->stride,
                     .d_state = e->d_state,
                     .rows = rows};
}

static UpdateRule update_rule(const CudaEngine *e) {
  return (UpdateRule){e->engine.config.training.rule.momentum,
                      e->engine.config.training.rule.weight_decay};
}

/* Where layer l's parameters begin, with their padding: of the last but one, where they end. */
static size_t layer_start(const Network *n, int l) {
  return l < n->layers ? n->weight[l] : n->floats;
}

/* The update by e->d_gradient of layers first to end - 1, their planes too. */
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
    p.planes[l - first] = e->wide.w[l];
  }
  return launch_optimizer(batch, config->training.rule, &p, stream);
}

/* The ranks add their gradients of layers first to end - 1, which e->compute was given. */
static cudaError_t add_gradients(CudaEngine *e, int first, int end) {
  const Network *n = &e->engine.config.network;
  const size_t start = layer_start(n, first);
  return sums_add(e, start, layer_start(n, end) - start);
}

/* Updates layers first to end - 1 by their sums, while e->compute goes on: who reads those layers
   waits by sums_join. */
static cudaError_t update_by_sums(CudaEngine *e, BatchView batch, int first, int end) {
  TRY(optimize(e, batch, first, end, e->sums.updates));
  return sums_updated(e, first, end);
}

static cudaError_t join_all_sums(CudaEngine *e) {
  return sums_join(e, 0, e->engine.config.network.layers);
}

/* Whether the update's kernels leave the gradient in e->d_gradient, for what follows to update. */
static bool stores_gradient(const CudaEngine *e) {
  return e->engine.config.training.rule.kind != OPTIMIZER_SGD || e->engine.config.ranks;
}

/* The batch's pixels to e->d_x. */
static cudaError_t scale_pixels(CudaEngine *e, BatchView batch) {
  const PixelFactor by = training_pixel_factor(&e->engine.config.training);
  return launch_scale_pixels(batch, e->d_x, e->engine.config.network.size[0], by.factor, by.offset,
                             e->compute);
}

/* Of hidden layer l, from 1. trains: evaluation drops nothing. */
static Dropout dropout_of(const CudaEngine *e, int l, bool trains) {
  return (Dropout){trains && l > 0 && l < e->engine.config.network.layers
                       ? training_dropout(&e->engine.config.training, l - 1)
                       : 0.0f,
                   l};
}

/* ---- level none --------------------------------------------------------------------------- */

static cudaError_t forward_none(CudaEngine *e, BatchView batch, bool trains) {
  const Network *n = &e->engine.config.network;
  const int rows = batch.rows;
  const float *d_x = e->d_x;
  TRY(scale_pixels(e, batch));
  TRY(join_all_sums(e));
  for (int l = 0; l < n->layers; l++) {
    const int in = n->size[l], out = n->size[l + 1];
    const bool last = l == n->layers - 1;
    float *d_z = last ? e->d_activation[l + 1] : e->d_z;
    TRY(launch_gemm(d_x, e->d_parameters + n->weight[l], d_z, rows, in, out, e->compute));
    TRY(launch_add_bias(d_z, e->d_parameters + n->bias[l], rows, out, e->compute));
    if (!last)
      TRY(launch_relu(d_z, e->d_activation[l + 1], (size_t)rows * (size_t)out, e->compute));
    const Dropout dropout = dropout_of(e, l + 1, trains);
    if (dropout.share > 0)
      TRY(launch_dropout(batch, e->d_activation[l + 1], out, dropout, e->compute));
    d_x = e->d_activation[l + 1];
  }
  const int classes = n->size[n->layers];
  TRY(launch_log_softmax(d_x, e->d_z, rows, classes, e->compute));
  return launch_cross_entropy(batch, e->d_z, classes, e->results, e->compute);
}

static cudaError_t step_none(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const UpdateRule rule = update_rule(e);
  const int rows = batch.rows;
  TRY(forward_none(e, batch, true));
  TRY(launch_cross_entropy_gradient(batch, e->d_z, e->d_delta[n->layers], n->size[n->layers],
                                    e->compute));
  for (int l = n->layers - 1; l >= 0; l--) {
    const int in = n->size[l], out = n->size[l + 1];
    const float *d_x = l > 0 ? e->d_activation[l] : e->d_x, *d_dz = e->d_delta[l + 1];
    const size_t w = n->weight[l], b = n->bias[l];
    float *d_p = e->d_parameters, *d_v = e->d_momentum, *d_g = e->d_gradient;
    TRY(launch_weight_gradient(d_dz, d_x, d_g + w, rows, in, out, e->compute));
    TRY(launch_bias_gradient(d_dz, d_g + b, rows, out, e->compute));
    if (l > 0) {
      const Dropout dropout = dropout_of(e, l, true);
      TRY(launch_backward_gemm(d_dz, d_p + w, e->d_delta[l], rows, in, out, e->compute));
      if (dropout.share > 0) TRY(launch_dropout(batch, e->d_delta[l], in, dropout, e->compute));
      TRY(launch_relu_mask(e->d_delta[l], e->d_activation[l], (size_t)rows * (size_t)in,
                           e->compute));
    }
    if (stores_gradient(e)) continue;
    const size_t weights = (size_t)in * (size_t)out;
    TRY(launch_update(batch, rule, d_p + w, d_v + w, d_g + w, weights, weights, e->compute));
    TRY(launch_update(batch, rule, d_p + b, d_v + b, d_g + b, (size_t)out, 0, e->compute));
  }
  if (!stores_gradient(e)) return cudaSuccess;
  if (!e->engine.config.ranks) return optimize(e, batch, 0, n->layers, e->compute);
  TRY(add_gradients(e, 0, n->layers));
  return update_by_sums(e, batch, 0, n->layers);
}

/* ---- level layer -------------------------------------------------------------------------- */

/* The first layer reads pixels as bytes, if they are scaled as its kernels do; NULL stands for
   that. Else they lie scaled in e->d_x. */
static const float *input_pixels(const CudaEngine *e) {
  return training_pixel_factor(&e->engine.config.training).is_default ? NULL : e->d_x;
}

int bf16_terms(const CudaEngine *e) {
  return e->engine.config.training.precision == PRECISION_TF32 ? 2 : 3;
}

static LayerInput input_of(const CudaEngine *e, BatchView batch, int l) {
  return (LayerInput){l > 0 ? e->d_activation[l] : input_pixels(e), batch};
}

static cudaError_t forward_layers(CudaEngine *e, BatchView batch, int layers, bool trains) {
  const Network *n = &e->engine.config.network;
  if (e->engine.wide)
    TRY(wide_forward(e, batch, layers));
  else if (input_pixels(e))
    TRY(scale_pixels(e, batch));
  TRY(join_all_sums(e));
  for (int l = e->engine.wide ? layers : 0; l < layers; l++)
    TRY(launch_forward(input_of(e, batch, l), e->d_parameters + n->weight[l],
                       e->d_parameters + n->bias[l], e->d_activation[l + 1], n->size[l],
                       n->size[l + 1], l < n->layers - 1, dropout_of(e, l + 1, trains),
                       bf16_terms(e), e->compute));
  return cudaSuccess;
}

bool has_head(const CudaEngine *e) {
  const Network *n = &e->engine.config.network;
  return n->layers > 1 && head_takes(n->size[n->layers - 1], n->size[n->layers]);
}

/* d_z, d_dz, d_dx: as launch_head has them. */
static cudaError_t head(CudaEngine *e, BatchView batch, float *d_z, float *d_dz, float *d_dx) {
  const Network *n = &e->engine.config.network;
  const int last = n->layers - 1;
  return launch_head(batch, e->d_activation[last], e->d_parameters + n->weight[last],
                     e->d_parameters + n->bias[last], d_z, d_dz, d_dx, n->size[last],
                     n->size[last + 1], dropout_of(e, last, true), e->results, e->compute);
}

/* The results, and the gradient of the logits; where there is a head, that of its input too. */
static cudaError_t forward_and_loss(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const int last = n->layers;
  if (has_head(e)) {
    TRY(forward_layers(e, batch, last - 1, true));
    if (e->engine.wide) return wide_head(e, batch);
    return head(e, batch, NULL, e->d_delta[last], e->d_delta[last - 1]);
  }
  TRY(forward_layers(e, batch, last, true));
  return launch_softmax(batch, e->d_activation[last], e->d_delta[last], n->size[last], e->results,
                        e->compute);
}

/* From the gradient of the output of layer l, from 1 on, to that of its input. */
static cudaError_t backward_layer(CudaEngine *e, BatchView batch, int l) {
  const Network *n = &e->engine.config.network;
  if (l == n->layers - 1 && has_head(e)) return cudaSuccess;
  if (e->engine.wide) return wide_backward(e, batch, l);
  return launch_backward(e->d_delta[l + 1], e->d_parameters + n->weight[l], e->d_activation[l],
                         e->d_delta[l], batch.rows, n->size[l], n->size[l + 1],
                         dropout_of(e, l, true), bf16_terms(e), e->compute);
}

/* The gradients of layers first to end - 1, and the update by them, unless they are stored. */
static cudaError_t update_layers(CudaEngine *e, BatchView batch, int first, int end) {
  const Network *n = &e->engine.config.network;
  float *d_p = e->d_parameters, *d_v = e->d_momentum, *d_g = e->d_gradient;
  LayerUpdate updates[NETWORK_MAX_LAYERS];
  for (int l = first; l < end; l++)
    updates[l - first] = (LayerUpdate){.d_x = l > 0 ? e->d_activation[l] : input_pixels(e),
                                       .d_dz = e->d_delta[l + 1],
                                       .d_w = d_p + n->weight[l],
                                       .d_b = d_p + n->bias[l],
                                       .d_vw = d_v + n->weight[l],
                                       .d_vb = d_v + n->bias[l],
                                       .in = n->size[l],
                                       .out = n->size[l + 1],
                                       .d_gw = d_g ? d_g + n->weight[l] : NULL,
                                       .d_gb = d_g ? d_g + n->bias[l] : NULL};
  if (e->engine.wide) return wide_update(e, batch, updates, first, end - first, update_rule(e));
  return launch_updates(batch, update_rule(e), updates, end - first, bf16_terms(e), e->d_work,
                        e->compute);
}

/* Whether layers l to end - 1, above which all are in buckets, are one. Most networks have three:
   the last layers, with a quarter of the values at most; the others; the first layer, whose
   gradient is the last. The second one's sum runs beside the gradient of the first hidden
   activation and the first layer's, and only the third one's has little to run beside. */
static bool is_bucket(const Network *n, int l, int end) {
  const size_t all = layer_start(n, n->layers), past = layer_start(n, end);
  const size_t values = past - layer_start(n, l);
  if (l == 0 || values < LEAST_OF_BUCKET) return l == 0;
  return l == 1 || values >= MOST_OF_BUCKET ||
         (end == n->layers && past - layer_start(n, l - 1) > all / 4);
}

/* Backward with the sums of ranks, bucket after bucket, from the last layers on. The update of a
   bucket's first layer must not overtake the gradient of its input, which reads its weights: it
   follows the next bucket's updates, which the next step's forward wants sooner. */
static cudaError_t backward_of_ranks(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  int late = 0; /* a layer to be updated, 0: there is none */
  for (int l = n->layers - 1, end = n->layers; l >= 0; l--) {
    if (is_bucket(n, l, end)) {
      const int first = l > 0 ? l + 1 : 0;
      TRY(update_layers(e, batch, l, end));
      TRY(add_gradients(e, l, end));
      if (first < end) TRY(update_by_sums(e, batch, first, end));
      if (late > 0) TRY(sums_follow(e));
      if (late > 0) TRY(update_by_sums(e, batch, late, late + 1));
      late = end = l;
    }
    if (l > 0) TRY(backward_layer(e, batch, l));
  }
  return cudaSuccess;
}

static cudaError_t step_layer(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  TRY(forward_and_loss(e, batch));
  if (e->engine.config.ranks) return backward_of_ranks(e, batch);
  for (int l = n->layers - 1; l > 0; l--) TRY(backward_layer(e, batch, l));
  TRY(update_layers(e, batch, 0, n->layers));
  if (!stores_gradient(e)) return cudaSuccess;
  return optimize(e, batch, 0, n->layers, e->compute);
}

/* The logits are kept: predict wants them. */
static cudaError_t evaluate_layer(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const int last = n->layers;
  if (has_head(e)) {
    TRY(forward_layers(e, batch, last - 1, false));
    return head(e, batch, e->d_activation[last], NULL, NULL);
  }
  TRY(forward_layers(e, batch, last, false));
  return launch_softmax(batch, e->d_activation[last], NULL, n->size[last], e->results, e->compute);
}

/* ---- products from a library -------------------------------------------------------------- */

static cudaError_t forward_library(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const GemmLibrary *library = &e->library;
  const float *d_x = e->d_x;
  TRY(scale_pixels(e, batch));
  for (int l = 0; l < n->layers; l++) {
    const int in = n->size[l], out = n->size[l + 1];
    float *d_z = e->d_activation[l + 1];
    TRY(library->gemm(library->context, false, d_x, in, true, e->d_parameters + n->weight[l], in,
                      d_z, batch.rows, out, in, e->compute));
    TRY(launch_add_bias(d_z, e->d_parameters + n->bias[l], batch.rows, out, e->compute));
    if (l < n->layers - 1) TRY(launch_relu(d_z, d_z, (size_t)batch.rows * (size_t)out, e->compute));
    d_x = d_z;
  }
  return cudaSuccess;
}

/* One update serves all tensors: they lie in one array, as do their gradients and momenta, and the
   gradient of the padding is 0. */
static cudaError_t step_library(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const GemmLibrary *library = &e->library;
  const int rows = batch.rows;
  TRY(forward_library(e, batch));
  TRY(launch_softmax(batch, e->d_activation[n->layers], e->d_delta[n->layers], n->size[n->layers],
                     e->results, e->compute));
  for (int l = n->layers - 1; l >= 0; l--) {
    const int in = n->size[l], out = n->size[l + 1];
    const float *d_x = l > 0 ? e->d_activation[l] : e->d_x, *d_dz = e->d_delta[l + 1];
    TRY(library->gemm(library->context, true, d_dz, out, false, d_x, in,
                      e->d_gradient + n->weight[l], out, in, rows, e->compute));
    TRY(launch_bias_gradient(d_dz, e->d_gradient + n->bias[l], rows, out, e->compute));
    if (l == 0) break;
    TRY(library->gemm(library->context, false, d_dz, out, false, e->d_parameters + n->weight[l], in,
                      e->d_delta[l], rows, in, out, e->compute));
    TRY(launch_relu_mask(e->d_delta[l], e->d_activation[l], (size_t)rows * (size_t)in, e->compute));
  }
  return launch_update(batch, update_rule(e), e->d_parameters, e->d_momentum, e->d_gradient,
                       n->floats, n->floats, e->compute);
}

static cudaError_t evaluate_library(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  TRY(forward_library(e, batch));
  return launch_softmax(batch, e->d_activation[n->layers], NULL, n->size[n->layers], e->results,
                        e->compute);
}

/* ---- level exercise ----------------------------------------------------------------------- */

static cudaError_t forward_exercise(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const float *d_x = e->d_x;
  TRY(scale_pixels(e, batch));
  for (int l = 0; l < n->layers; l++) {
    TRY(launch_exercise_forward(d_x, e->d_parameters + n->weight[l], e->d_parameters + n->bias[l],
                                e->d_z, e->d_activation[l + 1], batch.rows, n->size[l],
                                n->size[l + 1], l < n->layers - 1, e->compute));
    d_x = e->d_activation[l + 1];
  }
  return cudaSuccess;
}

static cudaError_t step_exercise(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const int rows = batch.rows;
  float *d_p = e->d_parameters, *d_v = e->d_momentum, *d_g = e->d_gradient;
  TRY(forward_exercise(e, batch));
  TRY(launch_exercise_loss(batch, e->d_activation[n->layers], e->d_largest, e->d_sum, e->d_z,
                           e->d_delta[n->layers], n->size[n->layers], e->results, e->compute));
  for (int l = n->layers - 1; l >= 0; l--) {
    const int in = n->size[l], out = n->size[l + 1];
    const size_t w = n->weight[l], b = n->bias[l];
    if (l > 0) {
      TRY(launch_backward_gemm(e->d_delta[l + 1], d_p + w, e->d_delta[l], rows, in, out,
                               e->compute));
      TRY(launch_relu_mask(e->d_delta[l], e->d_activation[l], (size_t)rows * (size_t)in,
                           e->compute));
    }
    const LayerUpdate layer = {.d_x = l > 0 ? e->d_activation[l] : e->d_x,
                               .d_dz = e->d_delta[l + 1],
                               .d_w = d_p + w,
                               .d_b = d_p + b,
                               .d_vw = d_v + w,
                               .d_vb = d_v + b,
                               .in = in,
                               .out = out};
    TRY(launch_exercise_update(batch, update_rule(e), layer, d_g + w, d_g + b, e->compute));
  }
  return cudaSuccess;
}

static cudaError_t evaluate_exercise(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const int classes = n->size[n->layers];
  TRY(forward_exercise(e, batch));
  TRY(launch_exercise_softmax(e->d_activation[n->layers], e->d_largest, e->d_sum, e->d_z,
                              batch.rows, classes, e->compute));
  return launch_cross_entropy(batch, e->d_z, classes, e->results, e->compute);
}

/* ---- a kernel after the other ------------------------------------------------------------- */

static cudaError_t queue_update(CudaEngine *e, BatchView batch) {
  if (e->library.gemm) return step_library(e, batch);
  switch (e->engine.config.training.fusion) {
  case FUSION_NONE:
    return step_none(e, batch);
  case FUSION_EXERCISE:
    return step_exercise(e, batch);
  default:
    return step_layer(e, batch);
  }
}

static cudaError_t queue_step(CudaEngine *e, BatchView batch) {
  const EngineConfig *config = &e->engine.config;
  TRY(queue_update(e, batch));
  if (!e->d_average) return cudaSuccess;
  TRY(join_all_sums(e));
  return launch_average(batch, config->training.ema, e->d_average, e->d_parameters,
                        config->network.floats, e->compute);
}

/* The steps of `count` batches, the first at d_state's position, of each of which this process has
   `rows` rows at most, and one more of `rest`, 0: none. */
static cudaError_t steps_by_kernel(CudaEngine *e, uint64_t count, int rows, int rest) {
  BatchView view = batch_view(e, e->d_train_on, rows);
  view.d_order = e->d_order;
  view.smoothing = e->engine.config.training.label_smoothing;
  view.share = e->share;
  for (uint64_t s = 0; s < count + (rest > 0); s++) {
    view.offset = (uint32_t)(s * (uint64_t)e->engine.config.training.batch);
    view.rows = s < count ? rows : rest;
    TRY(queue_step(e, view));
  }
  return join_all_sums(e);
}

/* ---- level step --------------------------------------------------------------------------- */

/* What a graph is made of: steps as above, then the state moves on, so that the same graph launched
   again trains on the next steps. */
static cudaError_t queue_graph(CudaEngine *e, uint64_t count, int rows, int rest) {
  TRY(steps_by_kernel(e, count, rows, rest));
  const uint64_t positions = (count + (rest > 0)) * (uint64_t)e->engine.config.training.batch;
  return launch_advance(e->d_state, (uint32_t)positions, e->compute);
}

static cudaError_t capture_steps(CudaEngine *e, uint64_t count, int rows, int rest,
                                 cudaGraphExec_t *out) {
  cudaGraph_t graph = NULL;
  TRY(cudaStreamBeginCapture(e->compute, cudaStreamCaptureModeThreadLocal));
  const cudaError_t queued = queue_graph(e, count, rows, rest);
  const cudaError_t captured = cudaStreamEndCapture(e->compute, &graph);
  cudaError_t status = queued != cudaSuccess ? queued : captured;
  if (status == cudaSuccess) status = cudaGraphInstantiate(out, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return status;
}

static void forget_graph(cudaGraphExec_t *graph) {
  if (*graph) cudaGraphExecDestroy(*graph);
  *graph = NULL;
}

static void forget_graphs_of_others(CudaEngine *e) {
  if (e->d_captured == e->d_train_on) return;
  forget_graph(&e->one_step);
  forget_graph(&e->many_steps);
  forget_graph(&e->last_steps);
  e->d_captured = e->d_train_on;
}

/* A step outside of any graph, past the end of its range so that it changes nothing: a library,
   NCCL too, may load its kernels in it, which a capture might refuse. */
static cudaError_t warm_library_up(CudaEngine *e) {
  TRY(launch_begin(e->d_state, (StepState){.position = 1, .end = 1}, e->compute));
  TRY(steps_by_kernel(e, 1, engine_rows(&e->engine.config), 0));
  return cudaStreamSynchronize(e->compute);
}

/* Whole steps, by replaying graphs. */
static cudaError_t whole_steps_by_graph(CudaEngine *e, uint64_t steps) {
  const int rows = engine_rows(&e->engine.config);
  if (steps >= GRAPH_STEPS && !e->many_steps)
    TRY(capture_steps(e, GRAPH_STEPS, rows, 0, &e->many_steps));
  for (; steps >= GRAPH_STEPS; steps -= GRAPH_STEPS)
    TRY(cudaGraphLaunch(e->many_steps, e->compute));
  if (steps > 0 && !e->one_step) TRY(capture_steps(e, 1, rows, 0, &e->one_step));
  for (; steps > 0; steps--) TRY(cudaGraphLaunch(e->one_step, e->compute));
  return cudaSuccess;
}

/* The steps of a range; the last may be short. That has a graph of its own: kernels for all rows of
   a step would take as long over a few. Ranks' updates go on beside the next step's forward, but
   for the last of a graph: so when they get as long a range again, as of every epoch but the first,
   one graph has all that the long ones leave. */
static cudaError_t steps_by_graph(CudaEngine *e, StepState state) {
  const Ranks *ranks = e->engine.config.ranks;
  const uint32_t batch = (uint32_t)e->engine.config.training.batch,
                 positions = state.end - state.position;
  const uint64_t steps = positions / batch;
  const int rest = (int)ceil_div(positions % batch, (size_t)ranks_count(ranks));
  const uint64_t last = ranks && positions == e->positions_before ? steps % GRAPH_STEPS : 0;
  e->positions_before = positions;
  forget_graphs_of_others(e);
  TRY(whole_steps_by_graph(e, steps - last));
  if (last == 0 && rest == 0) return cudaSuccess;
  if (e->steps_of_last != last || e->rows_of_last != rest) forget_graph(&e->last_steps);
  e->steps_of_last = last;
  e->rows_of_last = rest;
  if (!e->last_steps)
    TRY(capture_steps(e, last, engine_rows(&e->engine.config), rest, &e->last_steps));
  return cudaGraphLaunch(e->last_steps, e->compute);
}

/* ---- level epoch -------------------------------------------------------------------------- */

/* A launch's steps: one kernel for products of pixels, one for everything else. */
static cudaError_t launch_steps(CudaEngine *e, EpochJob *job, uint32_t steps) {
  job->first_stamp = e->stamp;
  e->stamp += steps;
  TRY(launch_gram(&e->plan, job, e->compute));
  return launch_epoch(&e->plan, job, e->compute);
}

/* The steps of a range: a launch or, of a long one, several, which begin at multiples of
   EPOCH_STEPS so that the bits are those of one. */
static cudaError_t steps_by_epoch(CudaEngine *e, StepState state, uint64_t steps) {
  const Network *n = &e->engine.config.network;
  const uint64_t batch = (uint64_t)e->engine.config.training.batch, first = state.position / batch;
  EpochJob job = {.d_pixels = e->d_train_on,
                  .d_labels = e->d_labels,
                  .d_order = e->d_order,
                  .stride = e->stride,
                  .learning_rate = state.learning_rate,
                  .rule = update_rule(e),
                  .d_parameters = e->d_parameters,
                  .d_momentum = e->d_momentum,
                  .results = e->results,
                  .d_gram = e->d_gram,
                  .d_mail = e->d_mail};
  for (int l = 0; l < n->layers; l++) {
    job.layout.weight[l] = n->weight[l];
    job.layout.bias[l] = n->bias[l];
  }
  for (uint64_t step = first, end; step < first + steps; step = end) {
    end = (step / EPOCH_STEPS + 1) * EPOCH_STEPS;
    if (end > first + steps) end = first + steps;
    job.position = (uint32_t)(step * batch);
    job.end = end * batch < state.end ? (uint32_t)(end * batch) : state.end;
    TRY(launch_steps(e, &job, (uint32_t)(end - step)));
  }
  return cudaSuccess;
}

/* ---- any level ---------------------------------------------------------------------------- */

cudaError_t steps_train(CudaEngine *e, StepState state, const TrainRange *range) {
  switch (e->engine.config.training.fusion) {
  case FUSION_EPOCH:
    return steps_by_epoch(e, state, range->steps);
  case FUSION_STEP:
    if ((e->library.gemm || e->engine.config.ranks) && !e->many_steps && !e->one_step &&
        !e->last_steps) {
      TRY(warm_library_up(e));
      TRY(launch_begin(e->d_state, state, e->compute));
    }
    return steps_by_graph(e, state);
  default:
    return steps_by_kernel(e, range->steps, engine_rows(&e->engine.config), 0);
  }
}

static cudaError_t queue_evaluation(CudaEngine *e, BatchView view) {
  if (e->library.gemm) return evaluate_library(e, view);
  switch (e->engine.config.training.fusion) {
  case FUSION_NONE:
    return forward_none(e, view, false);
  case FUSION_EXERCISE:
    return evaluate_exercise(e, view);
  default:
    return evaluate_layer(e, view);
  }
}

cudaError_t steps_evaluate(CudaEngine *e, uint32_t first_row, int rows) {
  BatchView view = batch_view(e, e->d_pixels, rows);
  float *d_trained = e->d_parameters;
  view.first_row = first_row;
  if (e->d_average) e->d_parameters = e->d_average; /* while the kernels are queued */
  const cudaError_t status = queue_evaluation(e, view);
  e->d_parameters = d_trained;
  return status;
}
