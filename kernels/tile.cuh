/* The two products under the fused kernels, on the tensor cores at float32 accuracy.

   Each float32 is the sum of three bf16 numbers (thirds.cuh), so a product of two floats is nine
   products of bf16, of which the three smallest, below 2^-24 of the largest, are left out; a
   pixel needs only three. What becomes of C is a Store: hold(i, j) fetches early what the result
   will meet (bias, activation, weight), store(i, j, value, held) finishes. Forward, backward and
   weight gradient are so one product with different sources and ends.

   small_tile: a warp computes 16 x 16 of C straight out of the L2 cache, without a copy in shared
   memory. A batch of 64 has few tiles and short sums: what counts is that all loads are under way
   at once. SLICES warps share a tile, each a part of k, and add up through shared memory in a
   fixed order.

   large_tile: a block copies slabs of A and B to shared memory, where every value is split into
   thirds once and read by several warps; the next slab is fetched into registers while the
   tensor cores work on this one. From some hundred rows on. */
#ifndef TILE_CUH
#define TILE_CUH

#include "operand.cuh"
#include "thirds.cuh"

/* acc (16 x 16, two accumulators side by side) += a b for the thirds of each, smallest first. */
template <int THIRDS_A, int THIRDS_B>
__device__ inline void multiply_thirds(float (&acc)[2][4], const uint32_t (&a)[THIRDS_A][4],
                                       const uint32_t (&b)[THIRDS_B][4]) {
#pragma unroll
  for (int order = 2; order >= 0; order--)
#pragma unroll
    for (int i = 0; i < THIRDS_A; i++)
#pragma unroll
      for (int j = 0; j < THIRDS_B; j++)
        if (i + j == order) {
          multiply(acc[0], a[i], b[j][0], b[j][1]);
          multiply(acc[1], a[i], b[j][2], b[j][3]);
        }
}

/* ---- small tiles ------------------------------------------------------------------------------- */

/* The 16 x 16 values of an operand from (first, k) on, as the tensor core wants them in lane
   4 g + t. The order of the 16 k is free if A and B agree: lane t takes k + 4 t .. k + 4 t + 3.
   The order of the rows is free too: index_of(g, half) tells which row is slot g + 8 half. */
template <class Operand> struct Fragment {
  uint32_t words[Operand::THIRDS][4];

  static __device__ int index_of(int g, int half) {
    return Operand::ALONG_K ? g + 8 * half : 2 * g + half;
  }
  using Line = typename Operand::Line;
  static constexpr int LINES = Operand::ALONG_K ? 2 : 4;
  static constexpr int COUNT = Operand::ALONG_K ? 4 : 2; /* neighbours in a load */

  /* The lines of this lane from (first, k) on; along k they are the same for every k. */
  static __device__ void seek(const Operand &operand, int first, int k, Line (&lines)[LINES]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < LINES; n++)
      lines[n] = operand.line(Operand::ALONG_K ? first + g + 8 * n : k + 4 * t + n);
  }
  /* Words in the tensor core's order: of A row halves run first, of B halves of k. */
  template <bool IS_A>
  __device__ void load(const Operand &operand, int first, int k, const Line (&lines)[LINES]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    typename Operand::template Raw<COUNT> raw[LINES];
#pragma unroll
    for (int n = 0; n < LINES; n++)
      raw[n] = operand.template load<COUNT>(lines[n],
                                            Operand::ALONG_K ? k + 4 * t : first + 2 * g);
    if constexpr (Operand::ALONG_K) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        uint32_t out[Operand::THIRDS][2];
        Operand::split_raw(raw[half], out);
#pragma unroll
        for (int third = 0; third < Operand::THIRDS; third++)
#pragma unroll
          for (int e = 0; e < 2; e++)
            words[third][IS_A ? half + 2 * e : 2 * half + e] = out[third][e];
      }
    } else { /* a line has two rows at one k: pairs along k are made of two lines */
#pragma unroll
      for (int half = 0; half < 2; half++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const Thirds t3 = split(raw[2 * e].value[half], raw[2 * e + 1].value[half]);
          const int word = IS_A ? half + 2 * e : 2 * half + e;
          words[0][word] = t3.hi, words[1][word] = t3.mid, words[2][word] = t3.lo;
        }
    }
  }
};

/* A batch of 64 through 300 neurons: 76 blocks of eight warps, each an eighth of the inputs. */
struct SmallTile {
  static constexpr int ROWS = 16, COLUMNS = 16, SLICES = 8, THREADS = 32 * SLICES;
};

/* The product of one block, called by all its threads; blockIdx.y, x: tile of rows, columns. */
template <class A, class B, class Store>
__device__ void small_tile(A a, B b, int m, int n, int depth, const Store &store) {
  constexpr int SLICES = SmallTile::SLICES;
  __shared__ float part[SLICES][16][17];
  const int slice = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int i0 = blockIdx.y * SmallTile::ROWS, j0 = blockIdx.x * SmallTile::COLUMNS;
  const int i = threadIdx.x / 16, j = threadIdx.x % 16; /* of the finished tile */
  a.begin();
  b.begin();
  typename Fragment<A>::Line lines_a[Fragment<A>::LINES];
  typename Fragment<B>::Line lines_b[Fragment<B>::LINES];
  Fragment<A>::seek(a, i0, 0, lines_a);
  await_kernel_before();
  const typename Store::Held held = store.hold(min(i0 + i, m - 1), min(j0 + j, n - 1));
  float acc[2][4] = {};
#pragma unroll 4
  for (int k = 16 * slice; k < depth; k += 16 * SLICES) {
    Fragment<A> x;
    Fragment<B> y;
    Fragment<B>::seek(b, j0, k, lines_b);
    x.template load<true>(a, i0, k, lines_a);
    y.template load<false>(b, j0, k, lines_b);
    multiply_thirds(acc, x.words, y.words);
  }
#pragma unroll
  for (int e = 0; e < 8; e++) /* accumulator e / 4, value e % 4 */
    part[slice][Fragment<A>::index_of(g, e / 2 % 2)][Fragment<B>::index_of(2 * t + e % 2, e / 4)] =
        acc[e / 4][e % 4];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int s = 0; s < SLICES; s++) sum += part[s][i][j];
  if (i0 + i < m && j0 + j < n) store(i0 + i, j0 + j, sum * (A::SCALE * B::SCALE), held);
}

/* ---- large tiles -------------------------------------------------------------------------------- */

template <int ROWS_, int COLUMNS_, int WARPS_DOWN_, int WARPS_WIDE, int DEPTH_>
struct LargeShape {
  static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_;
  static constexpr int WARPS_DOWN = WARPS_DOWN_, WARPS_ACROSS = WARPS_WIDE;
  static constexpr int THREADS = 32 * WARPS_DOWN * WARPS_ACROSS;
};

/* DEPTH as far as 48 KB of shared memory hold the thirds of both slabs. */
using PixelTile = LargeShape<64, 64, 2, 4, 64>;
using LargeTile = LargeShape<64, 64, 2, 4, 32>;
/* The gradient of 300 x 784 weights is 130 of these, and a batch of 64 is one slab. */
using GradientTile = LargeShape<32, 64, 2, 4, 64>;

/* A slab of one operand, SIDE x DEPTH, line by line: fetched into registers, then laid down as
   thirds. A pitch of an odd number of 16 bytes keeps ldmatrix free of conflicts. */
template <class Shape, int SIDE, class Operand> struct Slab {
  static constexpr bool ALONG_K = Operand::ALONG_K;
  static constexpr int LINES = ALONG_K ? SIDE : Shape::DEPTH;
  static constexpr int LINE = ALONG_K ? Shape::DEPTH : SIDE, PITCH = LINE + 8;
  static constexpr int QUADS = SIDE * Shape::DEPTH / 4 / Shape::THREADS;
  static constexpr int PLANE = LINES * PITCH; /* bf16 of one third */
  static_assert(QUADS * 4 * Shape::THREADS == SIDE * Shape::DEPTH, "each thread copies whole quads");
  typename Operand::Line lines[QUADS];
  typename Operand::template Raw<4> held[QUADS];

  static __device__ int line_of(int n) {
    return (threadIdx.x + n * Shape::THREADS) / (LINE / 4);
  }
  static __device__ int at_of(int n) {
    return (threadIdx.x + n * Shape::THREADS) % (LINE / 4) * 4;
  }
  /* Finds the lines of the slab at (first, k); along k they are the same for every k. */
  __device__ void seek(const Operand &operand, int first, int k) {
#pragma unroll
    for (int n = 0; n < QUADS; n++) lines[n] = operand.line((ALONG_K ? first : k) + line_of(n));
  }
  __device__ void fetch(const Operand &operand, int first, int k) {
#pragma unroll
    for (int n = 0; n < QUADS; n++)
      held[n] = operand.template load<4>(lines[n], (ALONG_K ? k : first) + at_of(n));
  }
  __device__ void lay_down(__nv_bfloat16 *planes) const {
#pragma unroll
    for (int n = 0; n < QUADS; n++) {
      uint32_t words[Operand::THIRDS][2];
      Operand::split_raw(held[n], words);
#pragma unroll
      for (int third = 0; third < Operand::THIRDS; third++)
        *reinterpret_cast<uint2 *>(planes + third * PLANE + line_of(n) * PITCH + at_of(n)) = {
            words[third][0], words[third][1]};
    }
  }
  /* The fragment of 16 of the side and 16 of k, every third. */
  template <bool IS_A>
  static __device__ void fragment(const __nv_bfloat16 *planes, int side, int k,
                                  uint32_t (&out)[Operand::THIRDS][4]) {
    const int lane = threadIdx.x % 32, near = lane / 8 % 2 * 8, far = lane / 16 * 8;
    const int s = side + (IS_A ? near : far), d = k + (IS_A ? far : near);
    const __nv_bfloat16 *at =
        planes + (ALONG_K ? (s + lane % 8) * PITCH + d : (d + lane % 8) * PITCH + s);
#pragma unroll
    for (int third = 0; third < Operand::THIRDS; third++)
      if constexpr (ALONG_K)
        load_matrices(out[third], at + third * PLANE);
      else
        load_transposed(out[third], at + third * PLANE);
  }
};

/* The sum over k from `from` to `to` (a multiple of DEPTH apart, or the end) of one block's
   tile. */
template <class Shape, class A, class B, class Store>
__device__ void large_tile(A a, B b, int m, int n, int from, int to, const Store &store) {
  using SlabA = Slab<Shape, Shape::ROWS, A>;
  using SlabB = Slab<Shape, Shape::COLUMNS, B>;
  constexpr int DOWN = Shape::ROWS / Shape::WARPS_DOWN / 16;
  constexpr int WIDE = Shape::COLUMNS / Shape::WARPS_ACROSS / 16;
  __shared__ alignas(16) __nv_bfloat16 planes_a[A::THIRDS * SlabA::PLANE];
  __shared__ alignas(16) __nv_bfloat16 planes_b[B::THIRDS * SlabB::PLANE];
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int warp_row = warp / Shape::WARPS_ACROSS * 16 * DOWN;
  const int warp_column = warp % Shape::WARPS_ACROSS * 16 * WIDE;
  const int i0 = blockIdx.y * Shape::ROWS, j0 = blockIdx.x * Shape::COLUMNS;
  float acc[DOWN][WIDE][2][4] = {};
  SlabA slab_a;
  SlabB slab_b;
  a.begin();
  b.begin();
  slab_a.seek(a, i0, from);
  slab_b.seek(b, j0, from);
  await_kernel_before();
  slab_a.fetch(a, i0, from);
  slab_b.fetch(b, j0, from);
  constexpr int VALUES = DOWN * WIDE * 8; /* of a lane */
  const auto row_of = [&](int v) {
    return i0 + warp_row + v / 8 / WIDE * 16 + g + v / 2 % 2 * 8;
  };
  const auto column_of = [&](int v) {
    return j0 + warp_column + v / 8 % WIDE * 16 + v / 4 % 2 * 8 + 2 * t + v % 2;
  };
  typename Store::Held held[VALUES];
#pragma unroll
  for (int v = 0; v < VALUES; v++)
    held[v] = store.hold(min(row_of(v), m - 1), min(column_of(v), n - 1));
  for (int k0 = from; k0 < to; k0 += Shape::DEPTH) {
    if (!A::ALONG_K) slab_a.seek(a, i0, k0 + Shape::DEPTH); /* arrives while this slab is used */
    if (!B::ALONG_K) slab_b.seek(b, j0, k0 + Shape::DEPTH);
    slab_a.lay_down(planes_a);
    slab_b.lay_down(planes_b);
    __syncthreads();
    if (k0 + Shape::DEPTH < to) {
      slab_a.fetch(a, i0, k0 + Shape::DEPTH);
      slab_b.fetch(b, j0, k0 + Shape::DEPTH);
    }
#pragma unroll
    for (int k = 0; k < Shape::DEPTH; k += 16) {
      uint32_t y[WIDE][B::THIRDS][4];
#pragma unroll
      for (int c = 0; c < WIDE; c++)
        SlabB::template fragment<false>(planes_b, warp_column + 16 * c, k, y[c]);
#pragma unroll
      for (int r = 0; r < DOWN; r++) {
        uint32_t x[A::THIRDS][4];
        SlabA::template fragment<true>(planes_a, warp_row + 16 * r, k, x);
#pragma unroll
        for (int c = 0; c < WIDE; c++) multiply_thirds(acc[r][c], x, y[c]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int v = 0; v < VALUES; v++)
    if (row_of(v) < m && column_of(v) < n)
      store(row_of(v), column_of(v),
            acc[v / 8 / WIDE][v / 8 % WIDE][v / 4 % 2][v % 4] * (A::SCALE * B::SCALE), held[v]);
}

/* ---- grids -------------------------------------------------------------------------------------- */

template <class Shape> dim3 tile_grid(int m, int n) {
  return dim3((n + Shape::COLUMNS - 1) / Shape::COLUMNS, (m + Shape::ROWS - 1) / Shape::ROWS);
}

/* Large tiles pay once there are enough of them to occupy half of a big GPU. */
template <class Shape> bool enough_tiles(int m, int n) {
  const dim3 grid = tile_grid<Shape>(m, n);
  return grid.x * grid.y >= 64;
}

/* blockIdx.y counts tiles of rows, at most 65535 of them. */
static inline bool valid_tiling(int m, int n) {
  return m > 0 && n > 0 && m <= 65535 * 16;
}

#endif
