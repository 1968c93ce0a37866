/* Runs a wide network with the kernels of kernels/layer/wide.cu, on planes of fp16 terms. If
   has_head(e), launch_wide_head trains the last layer. It reads floats and writes planes. */
#include "engine/cuda/cuda_state.h"

static bool allocate_planes(CudaEngine *e, int at, int terms, size_t rows, int columns,
                            Error *error) {
  Planes *planes = &e->wide.planes[at];
  const size_t plane = rows * planes_pitch(columns), values = (size_t)terms * plane;
  *planes = (Planes){
      NULL, plane, terms, (int)rows, columns, e->wide.d_scales + at, &e->d_sums->overflowed};
  return cuda_zeros(e, &planes->d, values, sizeof *planes->d, error);
}

bool wide_allocate(CudaEngine *e, Error *error) {
  const Network *n = &e->engine.config.network;
  const int *size = n->size, terms = bf16_terms(e) - 1, multiplied = n->layers - has_head(e);
  const size_t rows = (size_t)e->forward_rows, batch = (size_t)engine_rows(&e->engine.config);
  const float of_pixels = 255;
  if (!cuda_array(e, &e->wide.d_scales, WIDE_PLANES, sizeof(float), error) ||
      !cuda_array(e, &e->wide.d_largest, WIDE_PLANES, sizeof(uint32_t), error) ||
      !cuda_done(cudaMemcpyAsync(e->wide.d_scales, &of_pixels, sizeof of_pixels,
                                 cudaMemcpyHostToDevice, e->compute),
                 "the first copy", error))
    return false;
  for (int l = 0; l < n->layers; l++) {
    e->wide.planes[WIDE_W + l] = (Planes){.terms = terms, .rows = size[l + 1], .columns = size[l]};
    if (!allocate_planes(e, WIDE_X + l, l > 0 ? terms : 1, rows, size[l], error) ||
        (l > 0 && !cuda_done(launch_ones(e->wide.planes[WIDE_X + l], e->compute),
                             "the first launch", error)) ||
        (l < multiplied &&
         !allocate_planes(e, WIDE_W + l, terms, (size_t)size[l + 1], size[l], error)) ||
        !allocate_planes(e, WIDE_DZ + l, terms, batch, size[l + 1], error))
      return false;
  }
  return true;
}

cudaError_t wide_rescale(CudaEngine *e, int rows, bool trains, float bound) {
  const Network *n = &e->engine.config.network;
  const size_t r = (size_t)rows;
  float *d_scales = e->wide.d_scales;
  ScaledArray arrays[WIDE_PLANES];
  int count = 0;
  for (int l = 0; l < n->layers; l++) {
    const size_t in = (size_t)n->size[l], out = (size_t)n->size[l + 1];
    arrays[count++] = (ScaledArray){layer_at(e, l).d_w, in * out, d_scales + WIDE_W + l, false};
    if (l > 0)
      arrays[count++] = (ScaledArray){e->d_activation[l], r * in, d_scales + WIDE_X + l, false};
    if (trains)
      arrays[count++] = (ScaledArray){e->d_delta[l + 1], r * out, d_scales + WIDE_DZ + l, true};
  }
  TRY(launch_scales(arrays, count, bound, e->wide.d_largest, e->compute));
  for (int l = 0; l < n->layers; l++)
    if (e->wide.planes[WIDE_W + l].d)
      TRY(launch_split(layer_at(e, l).d_w, e->wide.planes[WIDE_W + l], e->compute));
  return cudaSuccess;
}

/* Returns the planes with index `at` (WIDE_X + l, ...), limited to the batch's rows. */
static Planes planes_of(const CudaEngine *e, BatchView batch, int at) {
  Planes planes = e->wide.planes[at];
  planes.rows = batch.rows;
  return planes;
}

static cudaError_t input(CudaEngine *e, BatchView batch) {
  return launch_pixel_planes(batch, planes_of(e, batch, WIDE_X), e->compute);
}

static cudaError_t forward(CudaEngine *e, BatchView batch, int l, bool trains) {
  (void)trains; /* wide layers have no dropout */
  const LayerUpdate at = layer_at(e, l);
  const bool last = l == last_layer(e);
  if (last && has_head(e)) return cudaSuccess; /* `loss` computes the last layer */
  const Planes y =
      last ? (Planes){.rows = batch.rows, .columns = at.out} : planes_of(e, batch, WIDE_X + l + 1);
  const bool wanted = last || (l + 1 == last_layer(e) && has_head(e));
  return launch_wide_forward(planes_of(e, batch, WIDE_X + l), e->wide.planes[WIDE_W + l], at.d_b, y,
                             wanted ? e->d_activation[l + 1] : NULL, !last, e->compute);
}

static cudaError_t loss(CudaEngine *e, BatchView batch, bool trains) {
  const int last = last_layer(e);
  const LayerUpdate at = layer_at(e, last);
  if (!trains || !has_head(e)) return level_layer.loss(e, batch, trains);
  return launch_wide_head(batch, at.d_x, at.d_w, at.d_b, planes_of(e, batch, WIDE_DZ + last),
                          planes_of(e, batch, WIDE_DZ + last - 1), e->results, e->compute);
}

static cudaError_t backward(CudaEngine *e, BatchView batch, int l) {
  const int last = last_layer(e);
  const Planes above = planes_of(e, batch, WIDE_DZ + l);
  if (l == 0 || (l == last && has_head(e))) return cudaSuccess;
  if (l == last) TRY(launch_split(e->d_delta[last + 1], above, e->compute));
  return launch_wide_backward(above, e->wide.planes[WIDE_W + l], planes_of(e, batch, WIDE_X + l),
                              planes_of(e, batch, WIDE_DZ + l - 1), e->compute);
}

static cudaError_t update(CudaEngine *e, BatchView batch, int first, int end) {
  WideUpdate updates[NETWORK_MAX_LAYERS];
  for (int l = first; l < end; l++)
    updates[l - first] =
        (WideUpdate){planes_of(e, batch, WIDE_X + l), planes_of(e, batch, WIDE_DZ + l),
                     e->wide.planes[WIDE_W + l], layer_at(e, l)};
  return launch_wide_updates(batch, updates, end - first, e->compute);
}

const Level level_wide = {.input = input,
                          .forward = forward,
                          .loss = loss,
                          .backward = backward,
                          .update = update,
                          .joins_late = true};
