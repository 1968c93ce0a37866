/* The layers of a wide network, by the kernels of kernels/layer/wide.cu. Layer 0 reads a plane of
   pixels; between layers there are planes of bf16 terms instead of floats. A last layer that
   launch_head takes reads the last hidden activation as floats and leaves planes of gradients. */
#include "engine/cuda/cuda_state.h"

static bool allocate_planes(CudaEngine *e, Planes *planes, int terms, size_t rows, int columns,
                            Error *error) {
  const size_t plane = rows * planes_pitch(columns), values = (size_t)terms * plane;
  *planes = (Planes){NULL, plane, terms, (int)rows, columns};
  return cuda_zeros(e, &planes->d, values, sizeof *planes->d, error);
}

bool wide_allocate(CudaEngine *e, Error *error) {
  const Network *n = &e->engine.config.network;
  const int *size = n->size, terms = bf16_terms(e), multiplied = n->layers - has_head(e);
  const size_t rows = (size_t)e->forward_rows, batch = (size_t)engine_rows(&e->engine.config);
  if (!allocate_planes(e, &e->wide.x[0], 1, rows, size[0], error)) return false;
  for (int l = 1; l < n->layers; l++)
    if (!allocate_planes(e, &e->wide.x[l], terms, rows, size[l], error) ||
        !cuda_done(launch_ones(e->wide.x[l], e->compute), "the first launch", error))
      return false;
  for (int l = 0; l < n->layers; l++) {
    e->wide.w[l] = (Planes){.terms = terms, .rows = size[l + 1], .columns = size[l]};
    if ((l < multiplied &&
         !allocate_planes(e, &e->wide.w[l], terms, (size_t)size[l + 1], size[l], error)) ||
        !allocate_planes(e, &e->wide.dz[l + 1], terms, batch, size[l + 1], error))
      return false;
  }
  return true;
}

cudaError_t wide_split_weights(CudaEngine *e) {
  for (int l = 0; l < e->engine.config.network.layers; l++)
    if (e->wide.w[l].d)
      TRY(launch_split(e->d_parameters + e->engine.config.network.weight[l], e->wide.w[l],
                       e->compute));
  return cudaSuccess;
}

/* Return the batch's rows of layer l's input, and of the gradient of that input. */
static Planes x_of(const CudaEngine *e, BatchView batch, int l) {
  Planes x = e->wide.x[l];
  x.rows = batch.rows;
  return x;
}
static Planes dz_of(const CudaEngine *e, BatchView batch, int l) {
  Planes dz = e->wide.dz[l];
  dz.rows = batch.rows;
  return dz;
}

static cudaError_t input(CudaEngine *e, BatchView batch) {
  return launch_pixel_planes(batch, x_of(e, batch, 0), e->compute);
}

static cudaError_t forward(CudaEngine *e, BatchView batch, int l, bool trains) {
  (void)trains; /* wide layers take no dropout */
  const LayerUpdate at = layer_at(e, l);
  const bool last = l == e->engine.config.network.layers - 1;
  if (last && has_head(e)) return cudaSuccess; /* part of the loss */
  const Planes y = last ? (Planes){.rows = batch.rows, .columns = at.out} : x_of(e, batch, l + 1);
  return launch_wide_forward(x_of(e, batch, l), e->wide.w[l], at.d_b, y, e->d_activation[l + 1],
                             !last, e->compute);
}

static cudaError_t loss(CudaEngine *e, BatchView batch, bool trains) {
  const int last = e->engine.config.network.layers - 1;
  const LayerUpdate at = layer_at(e, last);
  if (!trains || !has_head(e)) return level_layer.loss(e, batch, trains);
  return launch_wide_head(batch, at.d_x, at.d_w, at.d_b, dz_of(e, batch, last + 1),
                          dz_of(e, batch, last), e->results, e->compute);
}

static cudaError_t backward(CudaEngine *e, BatchView batch, int l) {
  const int last = e->engine.config.network.layers - 1;
  const Planes above = dz_of(e, batch, l + 1);
  if (l == 0 || (l == last && has_head(e))) return cudaSuccess;
  if (l == last) TRY(launch_split(e->d_delta[last + 1], above, e->compute));
  return launch_wide_backward(above, e->wide.w[l], x_of(e, batch, l), dz_of(e, batch, l),
                              e->compute);
}

static cudaError_t update(CudaEngine *e, BatchView batch, int first, int end) {
  WideUpdate updates[NETWORK_MAX_LAYERS];
  for (int l = first; l < end; l++)
    updates[l - first] =
        (WideUpdate){x_of(e, batch, l), dz_of(e, batch, l + 1), e->wide.w[l], layer_at(e, l)};
  return launch_wide_updates(batch, update_rule(e), updates, end - first, e->compute);
}

const Level level_wide = {.input = input,
                          .forward = forward,
                          .loss = loss,
                          .backward = backward,
                          .update = update,
                          .joins_late = true};
