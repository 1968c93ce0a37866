/* Updates all parameters at once by any rule of base/optimizer.h, and their moving average.
   The kernel that computes the gradient (layer/update.cu) can apply only sgd, because its gemm
   leaves too few registers for other rules. Here the gradient goes through
   memory, which costs 8 bytes more per parameter. */
#include "layer/planes.cuh"

namespace {

constexpr int THREADS = 256, QUAD = 4; /* QUAD: values per thread */

/* Writes values `first` to first + 3 of a matrix to its planes. Skips values beyond the matrix. */
template <int TERMS>
__device__ void renew(const Terms &t, int rows, unsigned first, const Quad &q) {
  const unsigned columns = t.columns;
  const float scale = scale_of(t);
  int row = first / columns, column = first % columns;
  if (columns % QUAD == 0) {
    if (row < rows) store_terms<TERMS, true>(t, row, column, q, scale);
    return;
  }
  unrolled (e, QUAD) {
    if (row < rows) store_term<TERMS>(t, row, column, q.value[e], scale);
    if (++column == t.columns) column = 0, row++;
  }
}

/* Updates all parameters and writes the planes of the weights. Each thread has four parameters. */
__global__ void __launch_bounds__(THREADS)
    optimize(BatchView batch, __grid_constant__ const FlatParameters p) {
  const size_t i = QUAD * ((size_t)blockIdx.x * THREADS + threadIdx.x);
  const OptimizerRule rule = batch.d_state->rule;
  const bool second = optimizer_has_second(rule.kind);
  const OptimizerStep step =
      optimizer_step(rule, batch.d_state->learning_rate, updates_before(batch));
  int layer = 0;
#pragma unroll
  for (int l = 1; l < MAX_UPDATES; l++)
    if (l < p.layers && i >= p.weight[l]) layer = l;
  const bool is_weight = i >= p.weight[layer] && i < p.bias[layer];
  pdl_wait();
  if (i >= p.count || rows_of_all_ranks(batch) == 0) return;
  const Quad g = load_quad(p.d_g + i);
  float *d_w = p.d_w + i, *d_m = p.d_m + i, *d_v = p.d_v + i;
  Quad w = load_quad(d_w), m = load_quad(d_m), v = {};
  if (second) v = load_quad(d_v);
  unrolled (e, QUAD)
    optimizer_value(rule, step, is_weight ? rule.weight_decay : 0.0f, g.value[e], &w.value[e],
                    &m.value[e], &v.value[e]);
  store_quad(d_w, w);
  store_quad(d_m, m);
  if (second) store_quad(d_v, v);
  const Planes &planes = p.planes[layer];
  if (!is_weight || !planes.d) return;
  const unsigned first = (unsigned)(i - p.weight[layer]);
  if (planes.terms == 2)
    renew<2>(terms_of(planes), planes.rows, first, w);
  else
    renew<1>(terms_of(planes), planes.rows, first, w);
}

/* Updates the average of each parameter. One thread per value reads 8 bytes and writes 4. */
__global__ void __launch_bounds__(THREADS)
    average(BatchView batch, float decay, float *d_average, const float *d_w, size_t count) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  const float keeps = optimizer_average_keeps(decay, updates_before(batch));
  pdl_wait();
  if (i >= count || rows_of_all_ranks(batch) == 0) return;
  d_average[i] += (1.0f - keeps) * (d_w[i] - d_average[i]);
}

} // namespace

cudaError_t launch_optimizer(BatchView batch, const FlatParameters *parameters,
                             cudaStream_t stream) {
  const FlatParameters *p = parameters;
  REQUIRE(valid_batch(batch) && p && given(p->d_w, p->d_m, p->d_g) && p->count >= 1 &&
          p->count % QUAD == 0 && p->layers >= 1 && p->layers <= MAX_UPDATES);
  for (int l = 0; l < p->layers; l++)
    REQUIRE(p->weight[l] % QUAD == 0 && p->bias[l] % QUAD == 0 &&
            (!p->planes[l].d || valid_fp16_terms(p->planes[l].terms)));
  return launch_pdl(optimize, blocks_for(p->count / QUAD, THREADS), THREADS, stream, batch, *p);
}

cudaError_t launch_average(BatchView batch, float decay, float *d_average, const float *d_w,
                           size_t count, cudaStream_t stream) {
  REQUIRE(valid_batch(batch) && given(d_average, d_w) && count >= 1 && decay > 0.0f &&
          decay < 1.0f);
  return launch_pdl(average, blocks_for(count, THREADS), THREADS, stream, batch, decay, d_average,
                    d_w, count);
}
