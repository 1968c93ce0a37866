/* Errors that students make, a kernel for each, and some that only look like errors; what is said
   of them is in tests/test_emulator.c. */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "batch.cuh"

namespace {

namespace groups = cooperative_groups;
constexpr int SIDE = 16;
void (*plants[20])(const float *d_x, float *d, float *d_freed);

#define PLANT(number, name)                                                                        \
  __global__ void name(const float *d_x, float *d, float *d_freed);                                \
  const bool planted_##name = (plants[number] = name);                                             \
  __global__ void name(const float *d_x, float *d, float *d_freed)
#define TILE                                                                                       \
  __shared__ float tile[SIDE][SIDE];                                                               \
  const int x = threadIdx.x, y = threadIdx.y;

PLANT(0, no_barrier_before_reading) {
  TILE tile[y][x] = d[y * SIDE + x];
  d[y * SIDE + x] = tile[x][y];
}

PLANT(1, no_barrier_before_writing) {
  TILE for (int k = 0; k < 2; k++) {
    tile[y][x] = d[y * SIDE + x];
    __syncthreads();
    d[y * SIDE + x] += tile[x][y];
  }
}

PLANT(2, one_too_far) {
  float sum = 0;
  for (int k = 0; k <= 256; k++) sum += d_x[k];
  d[threadIdx.y * SIDE + threadIdx.x] = sum;
}

PLANT(3, everybody_updates) {
  d[0] = d[1] + 1;
}

PLANT(4, some_return) {
  TILE if (y == 3) return;
  tile[y][x] = 0;
  __syncthreads();
  d[y * SIDE + x] = tile[y][x];
}

PLANT(5, barrier_in_a_branch) {
  TILE tile[y][x] = 0;
  if (x < 8) __syncthreads();
  __syncthreads();
  d[y * SIDE + x] = tile[y][x];
}

PLANT(6, half_a_mask) {
  d[threadIdx.y * SIDE + threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1);
}

PLANT(7, lanes_not_there) {
  float value = 1;
  if (threadIdx.y % 2 == 0) value += __shfl_xor_sync(0xffffffffu, value, 16);
  d[threadIdx.y * SIDE + threadIdx.x] = value;
}

PLANT(8, tile_not_filled) {
  TILE if (x < 9) tile[y][x] = 0;
  __syncthreads();
  d[y * SIDE + x] = tile[y][x];
}

PLANT(9, neighbour_too_early) {
  __shared__ float line[256];
  const int i = threadIdx.y * SIDE + threadIdx.x;
  line[i] = 1;
  d[i] = line[(i + 1) % 256];
}

PLANT(10, segments) {
  const int i = threadIdx.y * SIDE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 8; k++) sum += d_x[8 * (i % 32) + k];
  d[i] = sum;
}

PLANT(11, one_bank) {
  __shared__ float tile[32][32];
  const int i = threadIdx.y * SIDE + threadIdx.x;
  for (int k = 0; k < 4; k++) tile[8 * k + i / 32][i % 32] = 1;
  __syncthreads();
  d[i] = tile[i % 32][i / 32];
}

PLANT(16, no_bounds_check) {
  d[blockIdx.x * 256 + threadIdx.y * SIDE + threadIdx.x] = 1;
}

PLANT(12, beyond_a_row) {
  TILE tile[y][x] = 0;
  __syncthreads();
  float sum = 0;
  for (int k = 0; k <= SIDE; k++) sum += tile[y][k];
  d[y * SIDE + x] = sum;
}

PLANT(13, writes_const) {
  ((float *)d_x)[threadIdx.x] = 0;
}

PLANT(14, freed) {
  d_freed[threadIdx.x] = 0;
}

/* Right: a branch that half of the lanes take in each round is eight requests, not four. */
PLANT(15, parted) {
  const int i = threadIdx.y * SIDE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 8; k++)
    if ((k + i) % 2) sum += d_x[i % 32 + k];
  d[i] = sum;
}

/* Right: a transpose through padded shared memory, of values that the next block adds to, after a
   fence and an atomic. */
__device__ unsigned arrived;
PLANT(17, last_block_adds) {
  __shared__ float tile[SIDE][SIDE + 1];
  __shared__ bool last;
  const int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = d_x[y * SIDE + x];
  __syncthreads();
  d[SIDE * SIDE * blockIdx.x + y * SIDE + x] = tile[x][y];
  __threadfence();
  __syncthreads();
  if (x + y == 0) last = atomicAdd(&arrived, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  float sum = 0;
  for (unsigned b = 0; b < gridDim.x; b++) sum += d[SIDE * SIDE * b + y * SIDE + x];
  __syncthreads();
  d[y * SIDE + x] = sum;
  if (x + y == 0) arrived = 0;
}

/* Right: sums of warps and of the block by cooperative groups. */
PLANT(19, grouped) {
  __shared__ float sums[8];
  const auto block = groups::this_thread_block();
  const auto warp = groups::tiled_partition<32>(block);
  const float rank = (float)block.thread_rank(),
              sum = groups::reduce(warp, rank, groups::plus<float>());
  if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = sum + warp.size();
  block.sync();
  float all = 0;
  for (int w = 0; w < 8; w++) all += sums[w];
  d[block.thread_rank()] = all + warp.shfl_down(rank, 1) + warp.shfl_xor(rank, 2);
}

} // namespace

extern "C" void plant(int which, const float *d_x, float *d, float *d_freed) {
  const dim3 threads(SIDE, SIDE);
  if (plants[which])
    plants[which]<<<which == 16 ? 2 : 1, threads>>>(d_x, d, d_freed);
  else
    d[0] = d_x[0]; /* on the host */
}
