/* Products of pixels for level epoch: K (64 x 64) of a step, each row of the step before with each
   row of this one, over 255^2, and 1 for the bias. Its rows correct the first layer by K
   (epoch/rows.cuh), so that nobody waits for the first layer's weights.

   One block per step, one warp per 16 x 32 tile. Pixels are bytes, their products integers: exact
   on tensor cores (u8, m16n8k32), 128 bytes of a row at once. It reads each row twice, 94 MB per
   epoch of MNIST, mostly in the L2 cache, and writes 15 MB. */
#include "batch.cuh"
#include "epoch/layout.cuh"

namespace epoch {

constexpr int GRAM_WARPS = 8, GRAM_THREADS = 32 * GRAM_WARPS;
constexpr int GRAM_COLUMNS = 32; /* of a warp's tile: rows of the step before */
constexpr int TILES_ACROSS = ROWS / GRAM_COLUMNS;
static_assert(GRAM_WARPS * 16 * GRAM_COLUMNS == ROWS * ROWS, "a tile for each warp");

/* Returns the 16 bytes of a row from `input` on, zeros after its end. */
__device__ inline uint4 load_bytes(const uint8_t *row, int input, int inputs) {
  if (input >= inputs) return {0, 0, 0, 0};
  uint4 bytes = __ldg(reinterpret_cast<const uint4 *>(row + input));
  const int left = inputs - input; /* of the row */
  if (left >= 16) return bytes;
  uint32_t *word = reinterpret_cast<uint32_t *>(&bytes);
  unrolled (i, 4) {
    const int keep = left - 4 * i; /* bytes of this word */
    if (keep < 4) word[i] &= keep <= 0 ? 0u : 0xffffffffu >> 8 * (4 - keep);
  }
  return bytes;
}

/* Computes K of every step of a launch.

   Grid: one block per step. Warp: a tile of 16 rows of the step by 32 of the step before. A sum
   does not care which bytes of 64 a lane takes, as long as it takes the same of both: 16
   neighbours, one load. */
__global__ void __launch_bounds__(GRAM_THREADS) gram_kernel(EpochShape shape, EpochJob job) {
#if __CUDA_ARCH__ >= 800 /* plan_epoch refuses what is older */
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int first_row = warp / TILES_ACROSS * 16, first_column = warp % TILES_ACROSS * GRAM_COLUMNS;
  const uint32_t batch = shape.batch, position = job.position + blockIdx.x * batch;
  float *out = job.d_gram + (size_t)blockIdx.x * ROWS * ROWS;
  if (position / batch % EPOCH_DIRECT == 0 ||
      blockIdx.x == 0) { /* a direct step corrects nothing */
    for (int i = threadIdx.x; i < ROWS * ROWS; i += GRAM_THREADS) out[i] = 0.0f;
    return;
  }
  const uint8_t *row[2], *column[4];
  unrolled (i, 2) row[i] = job.d_pixels + row_at(job, position, first_row + 8 * i + g) * job.stride;
  unrolled (i, 4)
    column[i] = job.d_pixels + row_at(job, position - batch, first_column + 8 * i + g) * job.stride;
  int sum[4][4] = {};
#pragma unroll 2
  for (int input = 16 * t; input < shape.inputs + 16 * t; input += 64) {
    uint4 a[2], b[4];
    unrolled (i, 2) a[i] = load_bytes(row[i], input, shape.inputs);
    unrolled (i, 4) b[i] = load_bytes(column[i], input, shape.inputs);
    unrolled (i, 4) {
      mma_m16n8k32(sum[i], {a[0].x, a[1].x, a[0].y, a[1].y}, b[i].x, b[i].y);
      mma_m16n8k32(sum[i], {a[0].z, a[1].z, a[0].w, a[1].w}, b[i].z, b[i].w);
    }
  }
  unrolled (i, 4)
    unrolled (e, 4) {
      const int s = first_column + 8 * i + 2 * t + e % 2, r = first_row + g + 8 * (e / 2);
      out[s * ROWS + r] = (float)(sum[i][e] + 255 * 255) / (255.0f * 255.0f);
    }
#endif
}

} // namespace epoch

using namespace epoch;

cudaError_t launch_gram(const EpochPlan *plan, const EpochJob *job, cudaStream_t stream) {
  REQUIRE(given(plan, job) && given(job->d_pixels, job->d_order, job->d_gram) &&
          job->stride % 16 == 0 && job->position < job->end && plan->shape.batch >= 1);
  const unsigned steps = (unsigned)ceil_div(job->end - job->position, (uint32_t)plan->shape.batch);
  EpochShape shape = plan->shape;
  EpochJob job_copy = *job;
  void *arguments[] = {&shape, &job_copy};
  return launched(cudaLaunchKernel((const void *)gram_kernel, dim3(steps), dim3(GRAM_THREADS),
                                   arguments, 0, stream));
}
