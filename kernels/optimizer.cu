/* The update by any rule of base/optimizer.h, of all parameters at once: they lie in one array, and
   so do their gradients and what the rule keeps of them. And the average of the parameters.

   The momentum rule is part of the kernel that forms the gradient (layer/update.cu). Rules that
   keep a second moment would want registers there that the gemm needs, so the gradient goes through
   memory, 8 bytes per parameter more. */
#include "batch.cuh"

namespace {

constexpr int THREADS = 256;

/* One thread per value: reads 12 bytes or, with a second moment, 16, and writes 8 or 12. */
__global__ void __launch_bounds__(THREADS)
    optimize(BatchView batch, OptimizerRule rule, __grid_constant__ const FlatParameters p) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  const OptimizerStep step =
      optimizer_step(rule, batch.d_state->learning_rate, updates_before(batch));
  bool decays = false;
#pragma unroll
  for (int l = 0; l < MAX_UPDATES; l++) decays |= l < p.layers && i >= p.weight[l] && i < p.bias[l];
  pdl_wait();
  if (i >= p.count || rows_of_all_ranks(batch) == 0) return;
  float w = p.d_w[i], m = p.d_m[i], v = p.d_v ? p.d_v[i] : 0.0f;
  optimizer_value(rule, step, decays ? rule.weight_decay : 0.0f, p.d_g[i], &w, &m, &v);
  p.d_w[i] = w;
  p.d_m[i] = m;
  if (p.d_v) p.d_v[i] = v;
}

/* One thread per value: reads 8 bytes, writes 4. */
__global__ void __launch_bounds__(THREADS)
    average(BatchView batch, float decay, float *d_average, const float *d_w, size_t count) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  const float keeps = optimizer_average_keeps(decay, updates_before(batch));
  pdl_wait();
  if (i >= count || rows_of_all_ranks(batch) == 0) return;
  d_average[i] += (1.0f - keeps) * (d_w[i] - d_average[i]);
}

} // namespace

cudaError_t launch_optimizer(BatchView batch, OptimizerRule rule, const FlatParameters *parameters,
                             cudaStream_t stream) {
  const FlatParameters *p = parameters;
  if (!valid_batch(batch) || !p || !p->d_w || !p->d_m || !p->d_g || p->count < 1 || p->layers < 1 ||
      p->layers > MAX_UPDATES || (optimizer_has_second(rule.kind) && !p->d_v))
    return cudaErrorInvalidValue;
  return launch_pdl(optimize, dim3(blocks_for(p->count, THREADS)), THREADS, stream, batch, rule,
                    *p);
}

cudaError_t launch_average(BatchView batch, float decay, float *d_average, const float *d_w,
                           size_t count, cudaStream_t stream) {
  if (!valid_batch(batch) || !d_average || !d_w || count < 1 || !(decay > 0.0f && decay < 1.0f))
    return cudaErrorInvalidValue;
  return launch_pdl(average, dim3(blocks_for(count, THREADS)), THREADS, stream, batch, decay,
                    d_average, d_w, count);
}
