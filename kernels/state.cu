/* Bookkeeping between steps on the GPU, so that no step waits for the host. Kernels that write the
   order or the state end with a fence: kernels that start early read both before pdl_wait(). */
#include "batch.cuh"
#include "base/random.h"

namespace {

/* Writes the order of an epoch's rows. Each thread writes one row number. */
__global__ void order_kernel(uint32_t *d_order, uint32_t first_row, uint32_t rows, bool shuffled,
                             uint64_t key) {
  const uint32_t p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p < rows) d_order[p] = first_row + (shuffled ? random_permute(p, rows, key) : p);
  __threadfence();
}

/* Sets the state. The grid is one thread. */
__global__ void begin_kernel(StepState *d_state, StepState state) {
  *d_state = state;
  __threadfence();
}

/* Advances the state's position by `positions`. The grid is one thread. */
__global__ void advance_kernel(StepState *d_state, uint32_t positions) {
  d_state->position += positions;
  __threadfence();
}

constexpr int SUM_THREADS = 1024; /* one block, so that the order of the additions is fixed */

/* Returns true if the row at position p is this rank's. The first step starts at `position`. */
__device__ inline bool is_mine(uint32_t p, uint32_t position, uint32_t end, RowShare share) {
  if (share.ranks == 0) return true;
  const uint32_t in_step = (p - position) % share.step, rows = min(share.step, end - (p - in_step));
  return in_step >= part_start(rows, share.rank, share.ranks) &&
         in_step < part_start(rows, share.rank + 1, share.ranks);
}

/* Adds up the results of this rank's rows at positions [position, end). The grid is one block.
   Thread t adds the rows at position + t, position + t + 1024, ... in float64. Then the block adds
   its threads' sums as a binary tree. The kernel reads 5 bytes per row. The order of the additions
   is fixed, so every GPU computes the same bits. */
__global__ void sum_kernel(ResultSums *d_sums, RowResults results, uint32_t position, uint32_t end,
                           RowShare share) {
  __shared__ double loss[SUM_THREADS];
  __shared__ unsigned correct[SUM_THREADS], rows[SUM_THREADS];
  const int t = threadIdx.x;
  loss[t] = 0.0;
  correct[t] = rows[t] = 0;
  for (size_t p = (size_t)position + t; p < end; p += SUM_THREADS) {
    if (!is_mine((uint32_t)p, position, end, share)) continue;
    rows[t]++;
    loss[t] += results.d_loss[p];
    correct[t] += results.d_correct[p];
  }
  for (int half = SUM_THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) {
      loss[t] += loss[t + half];
      correct[t] += correct[t + half];
      rows[t] += rows[t + half];
    }
  }
  if (t == 0) {
    d_sums->loss += loss[0];
    d_sums->correct += correct[0];
    d_sums->rows += rows[0];
  }
}

} // namespace

cudaError_t kernels_can_run(int *capability) {
  cudaFuncAttributes attributes;
  const cudaError_t status = cudaFuncGetAttributes(&attributes, order_kernel);
  if (status == cudaSuccess && capability) *capability = attributes.ptxVersion;
  has_pdl_wait((const void *)order_kernel); /* caches the answer before any graph is captured */
  return launched(status);
}

void kernels_start_early(int may) {
  starts_early = may != 0;
}

cudaError_t launch_order(uint32_t *d_order, uint32_t first_row, uint32_t rows, int shuffled,
                         uint64_t key, cudaStream_t stream) {
  REQUIRE(d_order && rows != 0);
  order_kernel<<<blocks_for(rows, 256), 256, 0, stream>>>(d_order, first_row, rows, shuffled, key);
  return launched();
}

cudaError_t launch_begin(StepState *d_state, StepState state, cudaStream_t stream) {
  REQUIRE(d_state && state.end != 0 && state.position <= state.end);
  begin_kernel<<<1, 1, 0, stream>>>(d_state, state);
  return launched();
}

cudaError_t launch_advance(StepState *d_state, uint32_t positions, cudaStream_t stream) {
  REQUIRE(d_state);
  advance_kernel<<<1, 1, 0, stream>>>(d_state, positions);
  return launched();
}

cudaError_t launch_sum(ResultSums *d_sums, RowResults results, uint32_t position, uint32_t end,
                       RowShare share, cudaStream_t stream) {
  REQUIRE(d_sums && results.d_loss && results.d_correct && position <= end && valid_share(share));
  sum_kernel<<<1, SUM_THREADS, 0, stream>>>(d_sums, results, position, end, share);
  return launched();
}
