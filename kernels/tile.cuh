/* The shared-memory tile under the fused kernels: C (M, N) = the sum over k of A(i, k) B(j, k).

   A block owns a ROWS x COLUMNS tile of C and walks k in steps of DEPTH. Per step it copies a
   slab of A and of B into shared memory, each global value once a block instead of once a
   thread, then every thread multiplies its own small tile out of registers. The next slab is
   fetched into registers while the current one is multiplied.

   SLICES > 1 splits k among groups of threads of the same block, which add their partial tiles
   through shared memory at the end, in a fixed order: a small batch has too few tiles of C to
   fill the GPU, and this is what keeps its multiprocessors' warps busy.

   Where the operands come from is a type with `quad(i, k, out)`: four values along k of row i
   (ALONG_K) or four rows from i at one k, 0 outside the matrix. What becomes of C is a functor
   (i, j, value). So forward, backward and weight gradient are one product with three sources. */
#ifndef TILE_CUH
#define TILE_CUH

#include "batch.cuh"

/* A row-major float matrix (rows, columns) read along its rows: element (i, k) at i * columns + k. */
struct MatrixAlongK {
  static constexpr bool ALONG_K = true;
  const float *data;
  int rows, columns;
  __device__ void quad(int i, int k, float out[4]) const {
    const float *p = data + (size_t)i * columns + k;
    if (i < rows && k + 3 < columns && columns % 4 == 0) {
      const float4 q = *reinterpret_cast<const float4 *>(p);
      out[0] = q.x, out[1] = q.y, out[2] = q.z, out[3] = q.w;
    } else {
      for (int e = 0; e < 4; e++) out[e] = i < rows && k + e < columns ? p[e] : 0.0f;
    }
  }
};

/* The same matrix read across: element (i, k) at k * columns + i. one: an extra row i = columns
   of ones, the input whose weight is the bias. */
struct MatrixAcross {
  static constexpr bool ALONG_K = false;
  const float *data;
  int rows, columns;
  bool one;
  __device__ void quad(int i, int k, float out[4]) const {
    const float *p = data + (size_t)k * columns + i;
    if (k < rows && i + 3 < columns && columns % 4 == 0) {
      const float4 q = *reinterpret_cast<const float4 *>(p);
      out[0] = q.x, out[1] = q.y, out[2] = q.z, out[3] = q.w;
    } else {
      for (int e = 0; e < 4; e++)
        out[e] = k < rows && i + e < columns           ? p[e]
                 : k < rows && one && i + e == columns ? 1.0f
                                                       : 0.0f;
    }
  }
};

/* The batch's pixels, (rows, in), bytes until here; read along a row or across rows. Rows start
   on 16 bytes, so four pixels are one load. */
template <bool ALONG> struct Pixels {
  static constexpr bool ALONG_K = ALONG;
  BatchView batch;
  int in;
  bool one;
  __device__ void quad(int i, int k, float out[4]) const {
    const int row = ALONG ? i : k, column = ALONG ? k : i;
    uchar4 q = {0, 0, 0, 0};
    if (row < batch.rows && column < in)
      q = *reinterpret_cast<const uchar4 *>(batch.d_pixels + store_row(batch, row) * batch.stride +
                                            column);
    const unsigned char bytes[4] = {q.x, q.y, q.z, q.w};
    for (int e = 0; e < 4; e++)
      out[e] = column + e < in                                       ? PIXEL_SCALE * bytes[e]
               : one && row < batch.rows && column + e == in ? 1.0f
                                                                     : 0.0f;
  }
};

template <int ROWS_, int COLUMNS_, int DEPTH_, int THREAD_ROWS_, int THREAD_COLUMNS_, int SLICES_>
struct TileShape {
  static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_;
  static constexpr int THREAD_ROWS = THREAD_ROWS_, THREAD_COLUMNS = THREAD_COLUMNS_;
  static constexpr int SLICES = SLICES_;
  static constexpr int SLICE_THREADS = ROWS / THREAD_ROWS * (COLUMNS / THREAD_COLUMNS);
  static constexpr int THREADS = SLICE_THREADS * SLICES;
  static_assert(DEPTH % (4 * SLICES) == 0 && ROWS * DEPTH % (4 * THREADS) == 0 &&
                    COLUMNS * DEPTH % (4 * THREADS) == 0,
                "each thread copies whole quads");
};

/* A batch of 64 through 300 neurons is 76 of these: one wave, k split over the block's warps. */
using SmallTile = TileShape<16, 16, 128, 2, 4, 8>;
/* The weight gradient of 300 x 784: 130 of these; k is the batch, too short to split. */
using GradientTile = TileShape<32, 64, 32, 2, 4, 1>;
/* From some hundred rows on: 12 loads of shared memory feed 32 multiplications. */
using LargeTile = TileShape<64, 64, 16, 8, 4, 1>;

/* A slab of one operand, (SIDE, DEPTH): fetched into registers, then laid down with k outermost.
   The pad of 4 keeps rows on 16 bytes and spreads the transposing stores over the banks. */
template <class Shape, int SIDE, class Operand> struct Slab {
  static constexpr int PITCH = SIDE + 4, QUADS = SIDE * Shape::DEPTH / 4 / Shape::THREADS;
  float held[QUADS][4];

  static __device__ int row_of(int q) {
    return Operand::ALONG_K ? q / 4 % SIDE : q % (SIDE / 4) * 4;
  }
  static __device__ int k_of(int q) {
    return Operand::ALONG_K ? (q % 4 + q / 4 / SIDE * 4) * 4 : q / (SIDE / 4);
  }
  __device__ void fetch(const Operand &operand, int first_row, int first_k) {
#pragma unroll
    for (int n = 0; n < QUADS; n++) {
      const int q = threadIdx.x + n * Shape::THREADS;
      operand.quad(first_row + row_of(q), first_k + k_of(q), held[n]);
    }
  }
  __device__ void lay_down(float *slab) const {
#pragma unroll
    for (int n = 0; n < QUADS; n++) {
      const int q = threadIdx.x + n * Shape::THREADS;
      for (int e = 0; e < 4; e++) {
        const int row = row_of(q) + (Operand::ALONG_K ? 0 : e);
        const int k = k_of(q) + (Operand::ALONG_K ? e : 0);
        slab[k * PITCH + row] = held[n][e];
      }
    }
  }
};

/* The whole product of one block. Called by all Shape::THREADS threads of a 2-D grid: blockIdx.y
   the tile's rows, blockIdx.x its columns. */
template <class Shape, class A, class B, class Store>
__device__ void tile_product(const A &a, const B &b, int m, int n, int depth, const Store &store) {
  constexpr int TR = Shape::THREAD_ROWS, TC = Shape::THREAD_COLUMNS;
  using SlabA = Slab<Shape, Shape::ROWS, A>;
  using SlabB = Slab<Shape, Shape::COLUMNS, B>;
  constexpr int FLOATS_A = Shape::DEPTH * SlabA::PITCH, FLOATS_B = Shape::DEPTH * SlabB::PITCH;
  constexpr int PARTIALS = Shape::SLICES > 1 ? Shape::SLICES * Shape::ROWS * Shape::COLUMNS : 0;
  constexpr int FLOATS = FLOATS_A + FLOATS_B > PARTIALS ? FLOATS_A + FLOATS_B : PARTIALS;
  __shared__ alignas(16) float shared[FLOATS];

  const int first_row = blockIdx.y * Shape::ROWS, first_column = blockIdx.x * Shape::COLUMNS;
  const int slice = threadIdx.x / Shape::SLICE_THREADS, t = threadIdx.x % Shape::SLICE_THREADS;
  const int row = t / (Shape::COLUMNS / TC) * TR, column = t % (Shape::COLUMNS / TC) * TC;
  float sum[TR][TC] = {};
  SlabA slab_a;
  SlabB slab_b;
  slab_a.fetch(a, first_row, 0);
  slab_b.fetch(b, first_column, 0);
  for (int k0 = 0; k0 < depth; k0 += Shape::DEPTH) {
    slab_a.lay_down(shared);
    slab_b.lay_down(shared + FLOATS_A);
    __syncthreads();
    if (k0 + Shape::DEPTH < depth) {
      slab_a.fetch(a, first_row, k0 + Shape::DEPTH);
      slab_b.fetch(b, first_column, k0 + Shape::DEPTH);
    }
#pragma unroll 8
    for (int k = slice; k < Shape::DEPTH; k += Shape::SLICES) {
      float x[TR], y[TC];
#pragma unroll
      for (int i = 0; i < TR; i++) x[i] = shared[k * SlabA::PITCH + row + i];
#pragma unroll
      for (int j = 0; j < TC; j++) y[j] = shared[FLOATS_A + k * SlabB::PITCH + column + j];
#pragma unroll
      for (int i = 0; i < TR; i++)
#pragma unroll
        for (int j = 0; j < TC; j++) sum[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }

  if constexpr (Shape::SLICES == 1) {
#pragma unroll
    for (int i = 0; i < TR; i++)
#pragma unroll
      for (int j = 0; j < TC; j++)
        if (first_row + row + i < m && first_column + column + j < n)
          store(first_row + row + i, first_column + column + j, sum[i][j]);
  } else {
    for (int i = 0; i < TR; i++)
      for (int j = 0; j < TC; j++)
        shared[(slice * Shape::ROWS + row + i) * Shape::COLUMNS + column + j] = sum[i][j];
    __syncthreads();
    for (int e = threadIdx.x; e < Shape::ROWS * Shape::COLUMNS; e += Shape::THREADS) {
      float total = 0.0f;
      for (int s = 0; s < Shape::SLICES; s++) total += shared[s * Shape::ROWS * Shape::COLUMNS + e];
      const int i = first_row + e / Shape::COLUMNS, j = first_column + e % Shape::COLUMNS;
      if (i < m && j < n) store(i, j, total);
    }
  }
}

template <class Shape> dim3 tile_grid(int m, int n) {
  return dim3((n + Shape::COLUMNS - 1) / Shape::COLUMNS, (m + Shape::ROWS - 1) / Shape::ROWS);
}

/* Large tiles pay once there are enough of them to occupy half of a big GPU. */
static inline bool enough_large_tiles(int m, int n) {
  const dim3 grid = tile_grid<LargeTile>(m, n);
  return grid.x * grid.y >= 64;
}

/* blockIdx.y counts tiles of rows, at most 65535 of them. */
static inline bool valid_tiling(int m, int n) {
  return m > 0 && n > 0 && m <= 65535 * 16;
}

#endif
