/* Kernels that test which mistakes the emulator reports. Some kernels are wrong; some only look
   wrong. PLANT's second argument is the expected report, in which @N is the Nth line below PLANT.
   test_emulator.c compares the reports. tests/scenarios/mistakes.sh has students' mistakes. */
#include "batch.cuh"

namespace {

constexpr int SIDE = 16, MOST = 20;

struct Plant {
  void (*kernel)(const float *d_x, float *d, float *d_freed);
  const char *said;
  int line;
} plants[MOST];
int planted;

#define PLANT(name, said)                                                                          \
  __global__ void name(const float *d_x, float *d, float *d_freed);                                \
  const int planted_##name = (plants[planted] = {name, said, __LINE__}, planted++);                \
  __global__ void name(const float *d_x, float *d, float *d_freed)
#define TILE                                                                                       \
  __shared__ float tile[SIDE][SIDE];                                                               \
  const int x = threadIdx.x, y = threadIdx.y;

/* A correct kernel. A thread loads 4 floats, but a warp makes 8 requests, each from half of it. */
PLANT(parted, "") {
  const int i = threadIdx.y * SIDE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 8; k++)
    if ((k + i) % 2) sum += d_x[i % 32 + k];
  d[i] = sum;
}

/* A correct kernel. Each block transposes a tile through padded shared memory. After a fence and an
   atomic, the last block adds up the tiles of all blocks. */
__device__ unsigned arrived;
PLANT(last_block_adds, "") {
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

PLANT(no_barrier, "@2: block 0, thread 16 writes tile[16]; thread 1 reads it at @3, and there is "
                  "no __syncwarp() or __syncthreads() between (120 times)\n") {
  TILE tile[y][x] = d[y * SIDE + x];
  d[y * SIDE + x] = tile[x][y];
}

PLANT(one_too_far, "@2: block 0, thread 0 reads x[256], and x has elements 0 to 255\n") {
  float sum = 0;
  for (int k = 0; k <= 256; k++) sum += d_x[k];
  d[threadIdx.y * SIDE + threadIdx.x] = sum;
}

PLANT(barrier_in_a_branch,
      "@5: in block 0, thread 0 waits at this __syncthreads, and thread 8 at that of @6 (128 times)\n"
      "@6: in block 0, 128 threads wait at __syncthreads, and 128 have returned without it, the "
      "first is thread 8\n") {
  TILE tile[y][x] = 0;
  if (x < 8) __syncthreads();
  __syncthreads();
  d[y * SIDE + x] = tile[y][x];
}

PLANT(lanes_not_there, "@3: block 0, thread 0 gets the value of lane 16, which is not there (there "
                       "are 0x0000ffff) (128 times)\n") {
  float value = 1;
  if (threadIdx.y % 2 == 0) value += __shfl_xor_sync(0xffffffffu, value, 16);
  d[threadIdx.y * SIDE + threadIdx.x] = value;
}

PLANT(tile_not_filled, "@4: block 0, thread 9 reads tile[9], shared memory that no thread of the "
                       "block has written (112 times)\n") {
  TILE if (x < 9) tile[y][x] = 0;
  __syncthreads();
  d[y * SIDE + x] = tile[y][x];
}

PLANT(unaligned_row,
      "@6: block 0, thread 16 reads 16 bytes at tile[17], not on a multiple of 16\n") {
  __shared__ __align__(16) float tile[SIDE][SIDE + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = d_x[y * SIDE + x];
  __syncthreads();
  const float4 four = *reinterpret_cast<const float4 *>(tile[y]);
  d[y * SIDE + x] = four.x + four.y + four.z + four.w;
}

PLANT(freed, "@1: block 0, thread 0 writes gone, which has been freed\n") {
  d_freed[threadIdx.x] = 0;
}

PLANT(segments,
      "@6: a load: 32.0 sectors for a request, of which it uses 128 of 1024 bytes\n"
      "    a warp's words (#) in its sectors [ ]: [#.......] x 32; if lanes were neighbours: "
      "[########] x 4\n") {
  const int i = threadIdx.y * SIDE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 8; k++) sum += d_x[8 * (i % 32) + k];
  d[i] = sum;
}

PLANT(one_bank, "@6: a load of shared memory, bank conflicts: 32.0 turns of the banks for a request, "
                "where 1.0 would do\n") {
  __shared__ float tile[32][32];
  const int i = threadIdx.y * SIDE + threadIdx.x;
  for (int k = 0; k < 4; k++) tile[8 * k + i / 32][i % 32] = 1;
  __syncthreads();
  d[i] = tile[i % 32][i / 32];
}

__global__ void one_value_per_page(float *d, size_t pages) {
  for (size_t i = threadIdx.x; i < pages; i += blockDim.x) d[i * 1024] = 1;
}

} // namespace

extern "C" void write_pages(float *d, size_t pages) {
  one_value_per_page<<<1, 32>>>(d, pages);
}

/* Runs a plant and returns the report that is expected, or NULL if there is no such plant. In the
   report, @N means line *line + N. */
extern "C" const char *plant(int which, const float *d_x, float *d, float *d_freed, int *line) {
  if (which > planted) return nullptr;
  *line = __LINE__;
  if (which == planted) return d[0] = d_x[0], "@1: the host reads x[0], memory of the device\n";
  plants[which].kernel<<<1, dim3(SIDE, SIDE)>>>(d_x, d, d_freed);
  *line = plants[which].line;
  return plants[which].said;
}
