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

/* Returns the planes' first `rows` rows. */
static Planes first_rows(Planes planes, int rows) {
  planes.rows = rows;
  return planes;
}

static cudaError_t input(CudaEngine *e, BatchView batch) {
  return launch_pixel_planes(batch, first_rows(e->wide.x[0], batch.rows), e->compute);
}

static cudaError_t forward(CudaEngine *e, BatchView batch, int l, bool trains) {
  (void)trains; /* wide layers take no dropout */
  const int rows = batch.rows;
  const LayerUpdate at = layer_at(e, l);
  const bool last = l == e->engine.config.network.layers - 1;
  if (last && has_head(e)) return cudaSuccess; /* part of the loss */
  const Planes y =
      last ? (Planes){.rows = rows, .columns = at.out} : first_rows(e->wide.x[l + 1], rows);
  return launch_wide_forward(first_rows(e->wide.x[l], rows), e->wide.w[l], at.d_b, y,
                             e->d_activation[l + 1], !last, e->compute);
}

static cudaError_t loss(CudaEngine *e, BatchView batch, bool trains) {
  const int last = e->engine.config.network.layers - 1;
  const LayerUpdate at = layer_at(e, last);
  if (!trains || !has_head(e)) return level_layer.loss(e, batch, trains);
  return launch_wide_head(batch, at.d_x, at.d_w, at.d_b,
                          first_rows(e->wide.dz[last + 1], batch.rows),
                          first_rows(e->wide.dz[last], batch.rows), e->results, e->compute);
}

static cudaError_t backward(CudaEngine *e, BatchView batch, int l) {
  const int last = e->engine.config.network.layers - 1, rows = batch.rows;
  const Planes above = first_rows(e->wide.dz[l + 1], rows);
  if (l == 0 || (l == last && has_head(e))) return cudaSuccess;
  if (l == last) TRY(launch_split(e->d_delta[last + 1], above, e->compute));
  return launch_wide_backward(above, e->wide.w[l], first_rows(e->wide.x[l], rows),
                              first_rows(e->wide.dz[l], rows), e->compute);
}

static cudaError_t update(CudaEngine *e, BatchView batch, int first, int end) {
  WideUpdate updates[NETWORK_MAX_LAYERS];
  for (int l = first; l < end; l++) {
    const LayerUpdate at = layer_at(e, l);
    updates[l - first] = (WideUpdate){.x = first_rows(e->wide.x[l], batch.rows),
                                      .dz = first_rows(e->wide.dz[l + 1], batch.rows),
                                      .w = e->wide.w[l],
                                      .d_w = at.d_w,
                                      .d_b = at.d_b,
                                      .d_vw = at.d_vw,
                                      .d_vb = at.d_vb,
                                      .d_gw = at.d_gw,
                                      .d_gb = at.d_gb};
  }
  return launch_wide_updates(batch, update_rule(e), updates, end - first, e->compute);
}

const Level level_wide = {.input = input,
                          .forward = forward,
                          .loss = loss,
                          .backward = backward,
                          .update = update,
                          .joins_late = true};
