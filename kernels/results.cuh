/* Sums over the results of rows. */
#pragma once

#include "batch.cuh"

constexpr int SUM_THREADS = 1024; /* one block, so that the order of the additions is fixed */

/* Returns true if position p, of steps that begin at `position`, belongs to the share. */
__device__ inline bool is_mine(uint32_t p, uint32_t position, uint32_t end, RowShare share) {
  if (share.ranks == 0) return true;
  const uint32_t in_step = (p - position) % share.step, rows = min(share.step, end - (p - in_step));
  return in_step >= part_start(rows, share.rank, share.ranks) &&
         in_step < part_start(rows, share.rank + 1, share.ranks);
}

/* Adds up the results of a share of a range of positions, by a block of SUM_THREADS. Thread t adds
   positions t, t + 1024, ... in float64; then the block adds the sums of its threads as a binary
   tree. It reads 5 bytes per row. The order of the additions is the same on every GPU, and so are
   the bits. */
__device__ inline void add_results(ResultSums *d_sums, RowResults results, uint32_t position,
                                   uint32_t end, RowShare share) {
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
