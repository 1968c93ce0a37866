/* Five small kernels to repair before the exercise; docs/exercise.md is the handout.

       make warmup                # what is wrong, on which line, and the bytes that are asked for
       make warmup ONLY=3 HINT=1  # one function; its first hint

   Each is wrong or wasteful, as many first kernels are. Matrices are (rows, columns), row-major. */
#include "batch.cuh"

namespace {

constexpr int THREADS = 256, SIDE = 16;

/* ---- 1: map --------------------------------------------------------------------------------- */

/* y[i] = max(z[i], 0) for every i below count. One thread per value.

   TASK   Say which threads have a value.
   HINT   Blocks are whole: 700 values take 3 blocks of 256 threads. What do the last 68 threads
          do? */
__global__ void map(const float *d_z, float *d_y, int count) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  d_y[i] = fmaxf(d_z[i], 0.0f);
}

/* ---- 2: index ------------------------------------------------------------------------------- */

/* Y[r][c] = Z[r][c] + b[c], Y and Z (rows, columns). One thread per value, in blocks of 16 x 16.

   TASK   Find the element of the thread, and say which threads have an element.
   HINT   Neighbouring threads differ in threadIdx.x. Which of r and c should differ for them?
   HINT   Row r begins at r * columns. */
__global__ void index(const float *d_z, const float *d_b, float *d_y, int rows, int columns) {
  const int r = blockIdx.x * SIDE + threadIdx.x, c = blockIdx.y * SIDE + threadIdx.y;
  if (r < columns && c < rows) d_y[r * rows + c] = d_z[r * rows + c] + d_b[c];
}

/* ---- 3: reverse ----------------------------------------------------------------------------- */

/* Y has each row of Z reversed. A block reads 256 neighbours of a row, reverses them in shared
   memory and writes 256 neighbours.

   TASK   Who may read what another thread has written, and when?
   HINT   No thread passes __syncthreads() before all threads of the block reach it. So no thread
          may return earlier. */
__global__ void reverse(const float *d_z, float *d_y, int columns) {
  __shared__ float piece[THREADS];
  const int first = blockIdx.x * THREADS, t = threadIdx.x, count = min(THREADS, columns - first);
  const float *z = d_z + (size_t)blockIdx.y * columns;
  float *y = d_y + (size_t)blockIdx.y * columns;
  if (t < count) piece[t] = z[first + t];
  if (t < count) y[columns - first - count + t] = piece[count - 1 - t];
}

/* ---- 4: sum --------------------------------------------------------------------------------- */

/* sum[r] = the sum of row r of Z. One block per row. Every thread adds up some values. Then
   half of the threads add the sums of the other half, then a quarter, until one thread has the sum.

   TASK   Add the missing barriers. Without them a thread may read what is not yet written.
   HINT   Each round of the second loop reads what the previous round wrote.
   HINT   A barrier inside a branch hangs if some threads do not take the branch. */
__global__ void sum(const float *d_z, float *d_sum, int columns) {
  __shared__ float part[THREADS];
  const int t = threadIdx.x;
  float mine = 0.0f;
  for (int c = t; c < columns; c += THREADS) mine += d_z[(size_t)blockIdx.x * columns + c];
  part[t] = mine;
  for (int half = THREADS / 2; half > 0; half /= 2)
    if (t < half) part[t] += part[t + half];
  if (t == 0) d_sum[blockIdx.x] = part[0];
}

/* ---- 5: copy -------------------------------------------------------------------------------- */

/* Y = Z. The kernel is right, but asks for eight times the bytes that it copies.

   TASK   Ask for every sector of 32 bytes only once.
   HINT   The 32 lanes of a warp load at once. How far apart are their addresses? */
__global__ void copy(const float *d_z, float *d_y, int rows, int columns) {
  const int r = blockIdx.x * THREADS + threadIdx.x;
  if (r >= rows) return;
  for (int c = 0; c < columns; c++) d_y[(size_t)r * columns + c] = d_z[(size_t)r * columns + c];
}

} // namespace

/* ---- the five functions ---------------------------------------------------------------------- */

cudaError_t launch_warmup_map(const float *d_z, float *d_y, int count, cudaStream_t stream) {
  map<<<blocks_for(count, THREADS), THREADS, 0, stream>>>(d_z, d_y, count);
  return launched();
}

cudaError_t launch_warmup_index(const float *d_z, const float *d_b, float *d_y, int rows,
                                int columns, cudaStream_t stream) {
  const dim3 blocks(blocks_for(columns, SIDE), blocks_for(rows, SIDE));
  index<<<blocks, dim3(SIDE, SIDE), 0, stream>>>(d_z, d_b, d_y, rows, columns);
  return launched();
}

cudaError_t launch_warmup_reverse(const float *d_z, float *d_y, int rows, int columns,
                                  cudaStream_t stream) {
  const dim3 blocks(blocks_for(columns, THREADS), rows);
  reverse<<<blocks, THREADS, 0, stream>>>(d_z, d_y, columns);
  return launched();
}

cudaError_t launch_warmup_sum(const float *d_z, float *d_sum, int rows, int columns,
                              cudaStream_t stream) {
  sum<<<rows, THREADS, 0, stream>>>(d_z, d_sum, columns);
  return launched();
}

cudaError_t launch_warmup_copy(const float *d_z, float *d_y, int rows, int columns,
                               cudaStream_t stream) {
  copy<<<blocks_for(rows, THREADS), THREADS, 0, stream>>>(d_z, d_y, rows, columns);
  return launched();
}
