/* Bookkeeping between steps: the epoch's order, the step's position, the sums of the results.
   Tiny kernels, so that nothing of it goes through the host. What they write is read by kernels
   that start early (batch.cuh) before they wait, so it is fenced. */
#include "batch.cuh"
#include "base/random.h"

namespace {

/* A thread a position. Writes 4 bytes each; some 60 integer operations a permuted position. */
__global__ void order_kernel(uint32_t *d_order, uint32_t first_row, uint32_t rows, bool shuffled,
                             uint64_t key) {
  const uint32_t p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p < rows) d_order[p] = first_row + (shuffled ? random_permute(p, rows, key) : p);
  __threadfence();
}

__global__ void begin_kernel(StepState *d_state, StepState state) {
  *d_state = state;
  __threadfence();
}

__global__ void advance_kernel(StepState *d_state, uint32_t positions) {
  d_state->position += positions;
  __threadfence();
}

constexpr int SUM_THREADS = 1024; /* one block: the order of the additions is then fixed */

/* Thread t adds positions t, t + 1024, ... in float64, then the block adds its threads' sums as
   a binary tree: the same order on every GPU. Reads 5 bytes a row. */
__global__ void sum_kernel(ResultSums *d_sums, RowResults results, uint32_t position,
                           uint32_t end) {
  __shared__ double loss[SUM_THREADS];
  __shared__ unsigned correct[SUM_THREADS];
  const int t = threadIdx.x;
  loss[t] = 0.0;
  correct[t] = 0;
  for (size_t p = (size_t)position + t; p < end; p += SUM_THREADS) {
    loss[t] += results.d_loss[p];
    correct[t] += results.d_correct[p];
  }
  for (int half = SUM_THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) {
      loss[t] += loss[t + half];
      correct[t] += correct[t + half];
    }
  }
  if (t == 0) {
    d_sums->loss += loss[0];
    d_sums->correct += correct[0];
    d_sums->rows += end - position;
  }
}

} // namespace

cudaError_t kernels_can_run(void) {
  cudaFuncAttributes attributes;
  return launched(cudaFuncGetAttributes(&attributes, order_kernel));
}

cudaError_t launch_order(uint32_t *d_order, uint32_t first_row, uint32_t rows, int shuffled,
                         uint64_t key, cudaStream_t stream) {
  if (!d_order || rows == 0) return cudaErrorInvalidValue;
  order_kernel<<<blocks_for(rows, 256), 256, 0, stream>>>(d_order, first_row, rows, shuffled, key);
  return launched();
}

cudaError_t launch_begin(StepState *d_state, uint32_t position, uint32_t end, float learning_rate,
                         cudaStream_t stream) {
  if (!d_state || end == 0 || position > end) return cudaErrorInvalidValue;
  begin_kernel<<<1, 1, 0, stream>>>(d_state, StepState{position, end, learning_rate});
  return launched();
}

cudaError_t launch_advance(StepState *d_state, uint32_t positions, cudaStream_t stream) {
  if (!d_state) return cudaErrorInvalidValue;
  advance_kernel<<<1, 1, 0, stream>>>(d_state, positions);
  return launched();
}

cudaError_t launch_sum(ResultSums *d_sums, RowResults results, uint32_t position, uint32_t end,
                       cudaStream_t stream) {
  if (!d_sums || !results.d_loss || !results.d_correct || position > end)
    return cudaErrorInvalidValue;
  sum_kernel<<<1, SUM_THREADS, 0, stream>>>(d_sums, results, position, end);
  return launched();
}
