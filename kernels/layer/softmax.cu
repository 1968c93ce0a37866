/* Softmax, cross-entropy, its gradient and each row's result in one kernel, with one warp per row.

   Online softmax (Milakov and Gimelshein 2018) needs one pass. Each lane keeps a running maximum m,
   at first -infinity, and the sum s of exp(z - m). When m grows, the lane rescales s. Warp shuffles
   merge the lanes' pairs (m, s) by the same rule. The loss is log(s) + m - z[label], which is
   accurate for any finite logits. With label smoothing, the mean of z weighted by the target
   replaces z[label]. */
#include "batch.cuh"

namespace {

constexpr int WARPS = 4; /* each warp has a row, so a batch of 64 uses 16 multiprocessors */

/* The largest of some logits, and the sum of exp(z - largest) over these logits. */
struct Online {
  float largest, sum;
};

__device__ Online merge(Online a, Online b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return {largest, 0.0f}; /* two empty lanes would make inf - inf */
  return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
}

/* Computes each row's results and gradient. One warp has a row; it reads each logit twice. */
__global__ void __launch_bounds__(32 * WARPS)
    softmax_kernel(BatchView batch, const float *d_z, float *d_dz, int classes, Target target,
                   RowResults results) {
  const int r = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (r >= batch.rows) return; /* a whole warp returns, so full-warp shuffles below are safe */
  const int rows = rows_of_step(batch);
  const int label = batch.d_labels[dataset_row(batch, r)]; /* constant: read before the wait */
  pdl_wait();
  const float *z = d_z + (size_t)r * classes;
  float *dz = d_dz ? d_dz + (size_t)r * classes : nullptr;
  if (r >= rows) {
    if (dz)
      for (int c = lane; c < classes; c += 32) dz[c] = 0.0f;
    return;
  }

  Online online = {-INFINITY, 0.0f};
  int best = INT_MAX; /* the first class that has this lane's maximum */
  float all = 0.0f;   /* the sum of the logits, for label smoothing */
  for (int c = lane; c < classes; c += 32) {
    if (best == INT_MAX || z[c] > online.largest) best = c;
    online = merge(online, {z[c], 1.0f});
    all += z[c];
  }
  for (int step = 16; step > 0; step /= 2) {
    const Online other = {__shfl_xor_sync(FULL_WARP, online.largest, step),
                          __shfl_xor_sync(FULL_WARP, online.sum, step)};
    const int other_best = __shfl_xor_sync(FULL_WARP, best, step);
    if (other.largest > online.largest || (other.largest == online.largest && other_best < best))
      best = other_best;
    online = merge(online, other);
  }
  if (target.is_smooth())
    for (int step = 16; step > 0; step /= 2) all += __shfl_xor_sync(FULL_WARP, all, step);

  if (lane == 0) {
    const uint32_t position = position_of(batch, r);
    const float wanted = /* with smoothing, the mean of the logits weighted by the target */
        target.is_smooth() ? target.other * (all - z[label]) + target.own * z[label] : z[label];
    if (results.d_loss) results.d_loss[position] = logf(online.sum) + (online.largest - wanted);
    if (results.d_correct) results.d_correct[position] = best == label;
  }
  if (!dz) return;
  __syncwarp(); /* dz may be z: lane 0 must read z[label] before any lane overwrites it */
  const float inverse = 1.0f / online.sum, mean = 1.0f / rows_of_all_ranks(batch);
  for (int c = lane; c < classes; c += 32) {
    const float p = expf(z[c] - online.largest) * inverse;
    dz[c] = (p - target.of(c == label)) * mean;
  }
}

} // namespace

cudaError_t launch_softmax(BatchView batch, const float *d_z, float *d_dz, int classes,
                           RowResults results, cudaStream_t stream) {
  REQUIRE(valid_batch(batch) && d_z && classes >= 1);
  return launch_pdl(softmax_kernel, blocks_for(batch.rows, WARPS), 32 * WARPS, stream, batch, d_z,
                    d_dz, classes, target_of(batch, classes), results);
}
