/* Fifteen small kernels to repair before the exercise; docs/exercise.md is the handout.

       make warmup                # what is wrong, on which line, and the bytes that are asked for
       make warmup ONLY=3 HINT=1  # one function; its first hint

   Each is wrong or wasteful, as many first kernels are. Matrices are (rows, columns), row-major. */
#include "batch.cuh"

namespace {

constexpr int THREADS = 256, SIDE = 16; // of blocks: 256 threads, or 16 x 16
constexpr int WARP = 32, TILE_ROWS = 8; // of blocks of 32 x 8 threads
constexpr int BINS = 256, MOST_BLOCKS = 8;

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

/* ---- 6: axpy -------------------------------------------------------------------------------- */

/* y[i] += scale * z[i] for every i below count. The grid has at most 8 blocks, so a thread has
   several values. The values of a warp are neighbours (a grid-stride loop).

   TASK   Every value must have exactly one thread.
   HINT   Which i does thread 0 of block 0 have after its first? And thread 0 of block 1?
   HINT   All blocks together have gridDim.x * THREADS threads. */
__global__ void axpy(float scale, const float *d_z, float *d_y, int count) {
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += THREADS)
    d_y[i] += scale * d_z[i];
}

/* ---- 7: gather ------------------------------------------------------------------------------ */

/* Row r of Y is row order[r] of Z. If order[r] is `rows`, Z has no such row, and row r of Y is 0:
   batches are padded like this. Z is (rows, columns), Y (rows + 1, columns).

   TASK   Check what is read from memory before it becomes an index.
   HINT   Which value of order[r] leads out of bounds? */
__global__ void gather(const float *d_z, const uint32_t *d_order, float *d_y, int rows,
                       int columns) {
  const int r = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
  if (c >= columns) return;
  const float *z = d_z + (size_t)d_order[r] * columns;
  d_y[(size_t)r * columns + c] = z[c];
}

/* ---- 8: stencil ----------------------------------------------------------------------------- */

/* y[c] = (z[c - 1] + z[c] + z[c + 1]) / 3 in each row, where values beyond the row's ends count as
   0. A block has 256 neighbours of a row in shared memory, and one value more at each end.

   TASK   No value may change while another thread still needs it.
   HINT   Thread t replaces tile[t + 1]. Which threads read it, and when?
   HINT   The mean need not go back to shared memory. */
__global__ void stencil(const float *d_z, float *d_y, int columns) {
  __shared__ float tile[THREADS + 2];
  const int t = threadIdx.x, c = blockIdx.x * THREADS + t;
  const float *z = d_z + (size_t)blockIdx.y * columns;
  tile[t + 1] = c < columns ? z[c] : 0.0f;
  if (t == 0) tile[0] = c > 0 ? z[c - 1] : 0.0f;
  if (t == THREADS - 1) tile[THREADS + 1] = c + 1 < columns ? z[c + 1] : 0.0f;
  __syncthreads();
  tile[t + 1] = (tile[t] + tile[t + 1] + tile[t + 2]) / 3.0f;
  if (c < columns) d_y[(size_t)blockIdx.y * columns + c] = tile[t + 1];
}

/* ---- 9: column sum -------------------------------------------------------------------------- */

/* sum[c] = the sum of column c of Z. A block has 32 columns and 8 threads for each of them. Thread
   (x, y) adds up every eighth row, beginning with row y. Then the threads of y = 0 add the 8 sums.

   TASK   All threads of a block must reach the same barrier.
   HINT   Which threads reach the barrier, and which does it wait for? */
__global__ void column_sum(const float *d_z, float *d_sum, int rows, int columns) {
  __shared__ float part[TILE_ROWS][WARP];
  const int x = threadIdx.x, y = threadIdx.y, c = blockIdx.x * WARP + x;
  float mine = 0.0f;
  for (int r = y; r < rows && c < columns; r += TILE_ROWS) mine += d_z[(size_t)r * columns + c];
  part[y][x] = mine;
  if (y == 0) {
    __syncthreads();
    for (int k = 1; k < TILE_ROWS; k++) mine += part[k][x];
    if (c < columns) d_sum[c] = mine;
  }
}

/* ---- 10: block sum -------------------------------------------------------------------------- */

/* Y has an element for each 16 x 16 block of Z: its sum. Blocks at the right and at the bottom may
   have fewer rows and columns. Half of the threads of a row add the values of the other half, and
   so on. Then the first column is added up in the same way.

   TASK   Shared memory holds anything at first. Give every element a value before it is read.
   HINT   What does a thread without an element of Z leave in the tile?
   HINT   What can be added to a sum without changing it? */
__global__ void block_sum(const float *d_z, float *d_y, int rows, int columns) {
  __shared__ float tile[SIDE][SIDE];
  const int x = threadIdx.x, y = threadIdx.y;
  const int r = blockIdx.y * SIDE + y, c = blockIdx.x * SIDE + x;
  if (r < rows && c < columns) tile[y][x] = d_z[(size_t)r * columns + c];
  __syncthreads();
  for (int half = SIDE / 2; half > 0; half /= 2) {
    if (x < half) tile[y][x] += tile[y][x + half];
    __syncthreads();
  }
  for (int half = SIDE / 2; half > 0; half /= 2) {
    if (x == 0 && y < half) tile[y][0] += tile[y + half][0];
    __syncthreads();
  }
  if (x == 0 && y == 0) d_y[(size_t)blockIdx.y * gridDim.x + blockIdx.x] = tile[0][0];
}

/* ---- 11: transpose -------------------------------------------------------------------------- */

/* Y (columns, rows) is Z (rows, columns) transposed. A block reads 32 neighbours of 32 rows into
   shared memory, and writes 32 neighbours of 32 columns. The kernel is right, and asks for every
   sector once, but its reads of shared memory take 32 turns each.

   TASK   Let a warp read a column of the tile in one turn.
   HINT   Shared memory has 32 banks, and word w is in bank w % 32. In which banks is a column?
   HINT   The tile may be wider than it needs to be. */
__global__ void transpose(const float *d_z, float *d_y, int rows, int columns) {
  __shared__ float tile[WARP][WARP];
  const int x = threadIdx.x, first_row = blockIdx.y * WARP, first_column = blockIdx.x * WARP;
  for (int y = threadIdx.y; y < WARP; y += TILE_ROWS)
    if (first_row + y < rows && first_column + x < columns)
      tile[y][x] = d_z[(size_t)(first_row + y) * columns + first_column + x];
  __syncthreads();
  for (int y = threadIdx.y; y < WARP; y += TILE_ROWS)
    if (first_column + y < columns && first_row + x < rows)
      d_y[(size_t)(first_column + y) * rows + first_row + x] = tile[x][y];
}

/* ---- 12: dot -------------------------------------------------------------------------------- */

/* sum[r] = the dot product of row r of Z and row r of X. One warp per row. Lanes exchange their
   sums by warp shuffles, without shared memory and without barriers.

   TASK   A shuffle needs all the lanes that its mask names.
   HINT   __shfl_down_sync(mask, v, n) gives a lane the v of lane + n, if that lane calls it, too.
   HINT   Lanes that add up what nobody needs do no harm. */
__global__ void dot(const float *d_z, const float *d_x, float *d_sum, int rows, int columns) {
  const int r = (blockIdx.x * THREADS + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
  if (r >= rows) return;
  float mine = 0.0f;
  for (int c = lane; c < columns; c += WARP)
    mine += d_z[(size_t)r * columns + c] * d_x[(size_t)r * columns + c];
  for (int half = WARP / 2; half > 0; half /= 2)
    if (lane < half) mine += __shfl_down_sync(FULL_WARP, mine, half);
  if (lane == 0) d_sum[r] = mine;
}

/* ---- 13: matvec ----------------------------------------------------------------------------- */

/* y = W x, with W (rows, columns), x (columns) and y (rows). One warp per row, as in dot. The
   scorer also gives it a matrix of more than 2^31 elements.

   TASK   Find the product that is too large for its type.
   HINT   r and columns are ints. Which type has r * columns?
   HINT   Make the first factor a size_t. The product then has 64 bits. */
__global__ void matvec(const float *d_w, const float *d_x, float *d_y, int rows, int columns) {
  const int r = (blockIdx.x * THREADS + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
  if (r >= rows) return;
  float mine = 0.0f;
  for (int c = lane; c < columns; c += WARP) mine += d_w[r * columns + c] * d_x[c];
  for (int half = WARP / 2; half > 0; half /= 2) mine += __shfl_xor_sync(FULL_WARP, mine, half);
  if (lane == 0) d_y[r] = mine;
}

/* ---- 14: histogram -------------------------------------------------------------------------- */

/* Adds to counts[k] how many of the bytes keys[0], keys[1], ... are k. At most 8 blocks count in
   shared memory, and then add their 256 counts to the counts of the others.

   TASK   Two threads may have the same key at the same time. Count both.
   HINT   bins[k]++ reads, adds and writes. What happens if another thread reads in between?
   HINT   The last line of the kernel has the same problem, and solves it. */
__global__ void histogram(const uint8_t *d_keys, uint32_t *d_counts, int count) {
  __shared__ uint32_t bins[BINS];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * BINS + threadIdx.x; i < count; i += gridDim.x * BINS) bins[d_keys[i]]++;
  __syncthreads();
  atomicAdd(&d_counts[threadIdx.x], bins[threadIdx.x]);
}

/* ---- 15: scan ------------------------------------------------------------------------------- */

/* A row of Z consists of pieces of 256 values; the last may be shorter. y[c] is the sum of z from
   the first value of its piece to z[c] (an inclusive scan). In step 1, 2, 4, ... each thread adds
   the value that many places before its own, so that values are sums of 2, 4, 8, ... neighbours.

   TASK   In each step, all threads must read before any thread writes.
   HINT   Thread t reads part[t - step], which thread t - step replaces in the same step.
   HINT   Read into a variable, wait, write, and wait. How many barriers are in the loop then? */
__global__ void scan(const float *d_z, float *d_y, int columns) {
  __shared__ float part[THREADS];
  const int t = threadIdx.x, c = blockIdx.x * THREADS + t;
  part[t] = c < columns ? d_z[(size_t)blockIdx.y * columns + c] : 0.0f;
  __syncthreads();
  for (int step = 1; step < THREADS; step *= 2) {
    if (t >= step) part[t] += part[t - step];
    __syncthreads();
  }
  if (c < columns) d_y[(size_t)blockIdx.y * columns + c] = part[t];
}

} // namespace

/* ---- the fifteen functions ------------------------------------------------------------------- */

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

cudaError_t launch_warmup_axpy(float scale, const float *d_z, float *d_y, int count,
                               cudaStream_t stream) {
  const int blocks = min((int)blocks_for(count, THREADS), MOST_BLOCKS);
  axpy<<<blocks, THREADS, 0, stream>>>(scale, d_z, d_y, count);
  return launched();
}

cudaError_t launch_warmup_gather(const float *d_z, const uint32_t *d_order, float *d_y, int rows,
                                 int columns, cudaStream_t stream) {
  const dim3 blocks(blocks_for(columns, THREADS), rows + 1);
  gather<<<blocks, THREADS, 0, stream>>>(d_z, d_order, d_y, rows, columns);
  return launched();
}

cudaError_t launch_warmup_stencil(const float *d_z, float *d_y, int rows, int columns,
                                  cudaStream_t stream) {
  const dim3 blocks(blocks_for(columns, THREADS), rows);
  stencil<<<blocks, THREADS, 0, stream>>>(d_z, d_y, columns);
  return launched();
}

cudaError_t launch_warmup_column_sum(const float *d_z, float *d_sum, int rows, int columns,
                                     cudaStream_t stream) {
  column_sum<<<blocks_for(columns, WARP), dim3(WARP, TILE_ROWS), 0, stream>>>(d_z, d_sum, rows,
                                                                              columns);
  return launched();
}

cudaError_t launch_warmup_block_sum(const float *d_z, float *d_y, int rows, int columns,
                                    cudaStream_t stream) {
  const dim3 blocks(blocks_for(columns, SIDE), blocks_for(rows, SIDE));
  block_sum<<<blocks, dim3(SIDE, SIDE), 0, stream>>>(d_z, d_y, rows, columns);
  return launched();
}

cudaError_t launch_warmup_transpose(const float *d_z, float *d_y, int rows, int columns,
                                    cudaStream_t stream) {
  const dim3 blocks(blocks_for(columns, WARP), blocks_for(rows, WARP));
  transpose<<<blocks, dim3(WARP, TILE_ROWS), 0, stream>>>(d_z, d_y, rows, columns);
  return launched();
}

cudaError_t launch_warmup_dot(const float *d_z, const float *d_x, float *d_sum, int rows,
                              int columns, cudaStream_t stream) {
  dot<<<blocks_for(rows, THREADS / WARP), THREADS, 0, stream>>>(d_z, d_x, d_sum, rows, columns);
  return launched();
}

cudaError_t launch_warmup_matvec(const float *d_w, const float *d_x, float *d_y, int rows,
                                 int columns, cudaStream_t stream) {
  matvec<<<blocks_for(rows, THREADS / WARP), THREADS, 0, stream>>>(d_w, d_x, d_y, rows, columns);
  return launched();
}

cudaError_t launch_warmup_histogram(const uint8_t *d_keys, uint32_t *d_counts, int count,
                                    cudaStream_t stream) {
  const int blocks = min((int)blocks_for(count, BINS), MOST_BLOCKS);
  histogram<<<blocks, BINS, 0, stream>>>(d_keys, d_counts, count);
  return launched();
}

cudaError_t launch_warmup_scan(const float *d_z, float *d_y, int rows, int columns,
                               cudaStream_t stream) {
  const dim3 blocks(blocks_for(columns, THREADS), rows);
  scan<<<blocks, THREADS, 0, stream>>>(d_z, d_y, columns);
  return launched();
}
