/* The layers of a wide network, by the kernels of layer/wide.cu: their memory and what of a step
   they do. Layer 0's input is a plane of pixels; between layers there are planes of bf16 terms, no
   floats. A last layer that launch_head takes is its own there and back: it reads the last hidden
   activation as floats and leaves planes of gradients. */
#include "engine/cuda/engine_cuda.h"

static bool allocate_planes(CudaEngine *e, Planes *planes, int terms, size_t rows, int columns,
                            Error *error) {
  const size_t plane = rows * planes_pitch(columns), values = (size_t)terms * plane;
  uint16_t *d = NULL;
  if (!engine_cuda_array(e, &d, values, sizeof *d, error)) return false;
  *planes = (Planes){d, plane, terms, (int)rows, columns};
  return cuda_done(cudaMemsetAsync(d, 0, values * sizeof *d, e->compute), "clearing", error);
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

void wide_free(CudaEngine *e) {
  for (int l = 0; l < NETWORK_MAX_LAYERS; l++) {
    cudaFree(e->wide.w[l].d);
    cudaFree(e->wide.x[l].d);
    cudaFree(e->wide.dz[l + 1].d);
  }
}

cudaError_t wide_split_weights(CudaEngine *e) {
  for (int l = 0; l < e->engine.config.network.layers; l++)
    if (e->wide.w[l].d)
      TRY(launch_split(e->d_parameters + e->engine.config.network.weight[l], e->wide.w[l],
                       e->compute));
  return cudaSuccess;
}

/* The first `rows` rows. */
static Planes first_rows(Planes planes, int rows) {
  planes.rows = rows;
  return planes;
}

cudaError_t wide_forward(CudaEngine *e, BatchView batch, int layers) {
  const Network *n = &e->engine.config.network;
  const int rows = batch.rows;
  const Planes *x = e->wide.x;
  TRY(launch_pixel_planes(batch, first_rows(x[0], rows), e->compute));
  for (int l = 0; l < layers; l++) {
    const bool last = l == n->layers - 1;
    const Planes y =
        last ? (Planes){.rows = rows, .columns = n->size[n->layers]} : first_rows(x[l + 1], rows);
    TRY(sums_join(e, l, l + 1));
    TRY(launch_wide_forward(first_rows(x[l], rows), e->wide.w[l], e->d_parameters + n->bias[l], y,
                            e->d_activation[l + 1], !last, e->compute));
  }
  return cudaSuccess;
}

cudaError_t wide_head(CudaEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const int last = n->layers - 1;
  return launch_wide_head(batch, e->d_activation[last], e->d_parameters + n->weight[last],
                          e->d_parameters + n->bias[last],
                          first_rows(e->wide.dz[last + 1], batch.rows),
                          first_rows(e->wide.dz[last], batch.rows), e->results, e->compute);
}

cudaError_t wide_backward(CudaEngine *e, BatchView batch, int l) {
  const int last = e->engine.config.network.layers - 1, rows = batch.rows;
  const Planes above = first_rows(e->wide.dz[l + 1], rows);
  if (l == last) TRY(launch_split(e->d_delta[last + 1], above, e->compute));
  return launch_wide_backward(above, e->wide.w[l], first_rows(e->wide.x[l], rows),
                              first_rows(e->wide.dz[l], rows), e->compute);
}

cudaError_t wide_update(CudaEngine *e, BatchView batch, const LayerUpdate *layers, int first,
                        int count, UpdateRule rule) {
  WideUpdate updates[NETWORK_MAX_LAYERS];
  for (int n = 0; n < count; n++)
    updates[n] = (WideUpdate){.x = first_rows(e->wide.x[first + n], batch.rows),
                              .dz = first_rows(e->wide.dz[first + n + 1], batch.rows),
                              .w = e->wide.w[first + n],
                              .d_w = layers[n].d_w,
                              .d_b = layers[n].d_b,
                              .d_vw = layers[n].d_vw,
                              .d_vb = layers[n].d_vb,
                              .d_gw = layers[n].d_gw,
                              .d_gb = layers[n].d_gb};
  return launch_wide_updates(batch, rule, updates, count, e->compute);
}
