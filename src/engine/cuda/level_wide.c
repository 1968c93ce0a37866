/* Level wide: levels layer and step of a wide network, with the kernels of kernels/layer/wide.cu,
   on planes of fp16 terms. If has_head(), launch_wide_head trains the last layer. It reads floats
   and writes planes. */
#include "engine/cuda/around.h"

enum {
  PROBE_ROWS = 64, /* rows from which the scales are computed */
  PART = 256,      /* the scales are computed again after at most this many steps */
};

/* Indices in Wide.planes for layer 0. Add l for layer l. Planes hold fp16 terms. */
enum {
  X,                           /* the layer's input (forward_rows, size[l]); pixels if l is 0 */
  W = NETWORK_MAX_LAYERS,      /* weights (size[l + 1], size[l]); none for launch_head's layer */
  DZ = 2 * NETWORK_MAX_LAYERS, /* gradient of the layer's output (batch, size[l + 1]) */
  PLANES = 3 * NETWORK_MAX_LAYERS
};
typedef struct {
  Planes planes[PLANES];
  float *d_scales; /* one scale for each element of `planes`; d_scales[0] is for pixels */
  uint32_t *d_largest;
} Wide;

static bool allocate_planes(Wide *own, int at, int terms, int rows, int columns, const Opening *o,
                            Error *error) {
  const size_t plane = (size_t)rows * planes_pitch(columns), values = (size_t)terms * plane;
  own->planes[at] =
      (Planes){NULL, plane, terms, rows, columns, own->d_scales + at, o->d_overflowed};
  return cuda_zeros(o->memory, &own->planes[at].d, values, sizeof *own->planes[at].d, error);
}

static bool open_wide(Pass *p, const Opening *o, Error *error) {
  const Network *n = &p->config->network;
  const int *size = n->size, terms = bf16_terms(p->precision) - 1,
            multiplied = n->layers - has_head(n), batch = engine_rows(p->config);
  const float of_pixels = 255;
  Wide *own = p->own = cuda_host(o->memory, sizeof *own, error);
  if (!own || !cuda_array(o->memory, &own->d_scales, PLANES, sizeof(float), error) ||
      !cuda_array(o->memory, &own->d_largest, PLANES, sizeof(uint32_t), error) ||
      !cuda_done(cudaMemcpyAsync(own->d_scales, &of_pixels, sizeof of_pixels,
                                 cudaMemcpyHostToDevice, p->stream),
                 "the first copy", error))
    return false;
  for (int l = 0; l < n->layers; l++) {
    own->planes[W + l] = (Planes){.terms = terms, .rows = size[l + 1], .columns = size[l]};
    if (!allocate_planes(own, X + l, l > 0 ? terms : 1, o->rows, size[l], o, error) ||
        (l > 0 &&
         !cuda_done(launch_ones(own->planes[X + l], p->stream), "the first launch", error)) ||
        (l < multiplied && !allocate_planes(own, W + l, terms, size[l + 1], size[l], o, error)) ||
        !allocate_planes(own, DZ + l, terms, batch, size[l + 1], o, error))
      return false;
  }
  p->around->planes = own->planes + W;
  *o->aligned = PART;
  return true;
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* Sets all scales from the activations and, in training, the gradients of the batch's rows, which
   level_layer ran last. Then sets the planes of weights. A logit's gradient is at most `bound`. */
static cudaError_t set_scales(const Pass *p, float bound) {
  const Wide *own = p->own;
  const Network *n = &p->config->network;
  const size_t rows = (size_t)p->batch.rows;
  float *d_scales = own->d_scales;
  ScaledArray arrays[PLANES];
  int count = 0;
  for (int l = 0; l < n->layers; l++) {
    const LayerUpdate at = layer_at(p, l);
    const size_t in = (size_t)at.in, out = (size_t)at.out;
    arrays[count++] = (ScaledArray){at.d_w, in * out, d_scales + W + l, false};
    if (l > 0) arrays[count++] = (ScaledArray){at.d_x, rows * in, d_scales + X + l, false};
    if (p->trains) arrays[count++] = (ScaledArray){at.d_dz, rows * out, d_scales + DZ + l, true};
  }
  TRY(launch_scales(arrays, count, bound, own->d_largest, p->stream));
  for (int l = 0; l < n->layers; l++)
    if (own->planes[W + l].d) TRY(launch_split(layer_at(p, l).d_w, own->planes[W + l], p->stream));
  return cudaSuccess;
}

/* Runs some rows at level layer, forward and in training backward, and sets the scales by them. */
static cudaError_t rescale(const Pass *p, float bound) {
  Pass probe = *p;
  probe.level = &level_layer;
  probe.precision = PRECISION_TF32; /* precise enough to set scales */
  probe.batch.rows = min_int(p->batch.rows, PROBE_ROWS);
  TRY(forward_pass(&probe));
  for (int l = last_layer(p); p->trains && l > 0; l--) TRY(layer_backward(&probe, l));
  return set_scales(&probe, bound);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Returns the planes with index `at` (X + l, ...), limited to the batch's rows. */
static Planes planes_of(const Pass *p, int at) {
  Planes planes = ((const Wide *)p->own)->planes[at];
  planes.rows = p->batch.rows;
  return planes;
}

static Planes weights_of(const Pass *p, int l) {
  return ((const Wide *)p->own)->planes[W + l];
}

static cudaError_t input(const Pass *p) {
  if (!p->trains) TRY(rescale(p, 0));
  return launch_pixel_planes(p->batch, planes_of(p, X), p->stream);
}

static cudaError_t forward(const Pass *p, int l) {
  const LayerUpdate at = layer_at(p, l);
  const bool last = l == last_layer(p), head = has_head(&p->config->network);
  if (last && head) return cudaSuccess; /* `loss` computes the last layer */
  const Planes y =
      last ? (Planes){.rows = p->batch.rows, .columns = at.out} : planes_of(p, X + l + 1);
  const bool wanted = last || (l + 1 == last_layer(p) && head);
  return launch_wide_forward(planes_of(p, X + l), weights_of(p, l), at.d_b, y,
                             wanted ? p->arrays->d_activation[l + 1] : NULL, !last, p->stream);
}

static cudaError_t loss(const Pass *p) {
  const int last = last_layer(p);
  const LayerUpdate at = layer_at(p, last);
  if (!p->trains || !has_head(&p->config->network)) return layer_loss(p);
  return launch_wide_head(p->batch, at.d_x, at.d_w, at.d_b, planes_of(p, DZ + last),
                          planes_of(p, DZ + last - 1), p->results, p->stream);
}

static cudaError_t backward(const Pass *p, int l) {
  const int last = last_layer(p);
  const Planes above = planes_of(p, DZ + l);
  if (l == 0 || (l == last && has_head(&p->config->network))) return cudaSuccess;
  if (l == last) TRY(launch_split(p->arrays->d_delta[last + 1], above, p->stream));
  return launch_wide_backward(above, weights_of(p, l), planes_of(p, X + l),
                              planes_of(p, DZ + l - 1), p->stream);
}

static cudaError_t update(const Pass *p, int first, int end) {
  WideUpdate updates[NETWORK_MAX_LAYERS];
  for (int l = first; l < end; l++)
    updates[l - first] =
        (WideUpdate){planes_of(p, X + l), planes_of(p, DZ + l), weights_of(p, l), layer_at(p, l)};
  return launch_wide_updates(p->batch, updates, end - first, p->stream);
}

/* ---- a range of steps ------------------------------------------------------------------------ */

/* The scales are set once per part, so a part has few steps. A last step with less than half a
   batch gets its own part, because fewer rows mean larger gradients. */
static uint64_t end_of_part(const Pass *p, const TrainRange *range, uint64_t step) {
  const uint64_t batch = (uint64_t)p->config->training.batch, whole = range->rows / batch,
                 end = range->first_step + range->steps;
  uint64_t part = (step / PART + 1) * PART;
  if (step < whole && whole < part && 2 * (range->rows % batch) < batch) part = whole;
  return part < end ? part : end;
}

static cudaError_t train(const Pass *p, uint64_t steps) {
  const uint32_t left = p->state.end - p->state.position,
                 batch = (uint32_t)p->config->training.batch;
  TRY(rescale(p, 1.0f / (float)(left < batch ? left : batch)));
  const bool by_graph = p->config->training.fusion == FUSION_STEP;
  return (by_graph ? steps_by_graph : steps_by_kernel)(p, steps);
}

const Level level_wide = {.input = input,
                          .forward = forward,
                          .loss = loss,
                          .backward = backward,
                          .update = update,
                          .joins_late = true,
                          .train = train,
                          .end_of_part = end_of_part,
                          .again = &level_layer,
                          .open = open_wide,
                          .scratch = layer_scratch};
