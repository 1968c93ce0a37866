/* The gemms of the fused kernels, with small, medium or large tiles. fragment.cuh says how a warp
   multiplies: on tensor cores or, below compute capability 8.0, in float32.

   Each float32 is the sum of three bf16 terms (bf16_split.cuh), so the product of two float32 is
   nine products of bf16. The three smallest products, below 2^-24, are left out; the result still
   has float32's accuracy. A pixel has one term, so it needs only three products. --precision tf32
   keeps two terms and three products.

   The epilogue decides what happens to the finished C. prefetch() or prefetch_segment() reads its
   other inputs early. operator() finishes single values of small and medium tiles; store_segment()
   finishes segments of rows of large tiles. So forward, backward and weight gradient share one
   gemm.

   - small_tile: a block computes 16 x 16 of C straight from the L2 cache, with all loads in flight
   at once. SLICES warps share a tile, and each sums a part of k (split-K). These sums are added in
   a fixed order.
   - medium_tile: a block computes several 16 x 16 pieces, so that splitting a value once serves two
   pieces. This pays if medium tiles fill the GPU. With one piece, medium_tile would take 8 to 16
   instructions more than small_tile.
   - large_tile: slabs of A and B go to shared memory. A value is split once for several warps, and
   the next slab is fetched meanwhile. This pays from a few hundred rows on. */
#pragma once

#include "layer/fragment.cuh"

enum Tile { SMALL, MEDIUM, LARGE };

__host__ __device__ constexpr int larger(int a, int b) {
  return a > b ? a : b;
}

/* ---- small tiles -------------------------------------------------------------------------- */

/* The small tile. 64 rows and 300 neurons make 76 blocks. The time of such a short kernel depends
   on how many instructions a warp runs in sequence. So 16 warps share the k-steps. */
struct SmallTile {
  static constexpr Tile TILE = SMALL;
  static constexpr int ROWS = 16, COLUMNS = 16, SLICES = 16, THREADS = 32 * SLICES, BLOCKS = 0;
};

/* Computes the block's small tile. A warp has every SLICES-th k-step. Each value is read once. */
template <class A, class B, class Epilogue>
__device__ void small_tile(A a, B b, int m, int n, int depth, const Epilogue &epilogue) {
  /* Prologue: where this block and this warp start. */
  using Step = Arithmetic::SmallStep<A, B, 1>;
  constexpr int STRIDE = 16 * SmallTile::SLICES, PITCH = 17;
  __shared__ alignas(16) float shared[SmallTile::SLICES][larger(16 * PITCH, Step::FLOATS)];
  const int slice = threadIdx.x / 32;
  const int i0 = blockIdx.y * SmallTile::ROWS, j0 = blockIdx.x * SmallTile::COLUMNS;
  a.begin();
  b.begin();
  typename RawFragment<A>::Line lines_a[RawFragment<A>::LINES];
  typename RawFragment<B>::Line lines_b[RawFragment<B>::LINES];
  RawFragment<A> x;
  RawFragment<B> y;
  int k = 16 * slice;

  /* Fetch the first k-step. CONSTANT operands (operand.cuh) are fetched before pdl_wait(). */
  RawFragment<A>::seek(a, i0, k, lines_a);
  RawFragment<B>::seek(b, j0, k, lines_b);
  if (A::CONSTANT) x.fetch(a, i0, k, lines_a);
  pdl_wait();
  if (!A::CONSTANT) x.fetch(a, i0, k, lines_a);
  y.fetch(b, j0, k, lines_b);

  /* Split and multiply this warp's k-steps. */
  float piece[2][4] = {};
#pragma unroll 1
  for (; k < depth; k += STRIDE) {
    Step step(shared[slice]);
    x.zero_out_of_bounds(a, i0, k, lines_a);
    step.take_a(0, x);
    y.zero_out_of_bounds(b, j0, k, lines_b);
    step.take_b(y);
    if (k + STRIDE < depth) { /* the next step's loads run while this step multiplies */
      RawFragment<B>::seek(b, j0, k + STRIDE, lines_b);
      x.fetch(a, i0, k + STRIDE, lines_a);
      y.fetch(b, j0, k + STRIDE, lines_b);
    }
    step.multiply(0, piece);
  }

  /* Epilogue: prefetch, add up the slices, combine and store. Each thread has one element. */
  unrolled (e, 8) shared[slice][Step::row(e) * PITCH + Step::column(e)] = piece[e / 4][e % 4];
  const int i = i0 + threadIdx.x / 16, j = j0 + threadIdx.x % 16;
  const bool mine = threadIdx.x < 256 && i < m && j < n;
  const typename Epilogue::Prefetched prefetched =
      mine ? epilogue.prefetch(i, j) : typename Epilogue::Prefetched{};
  __syncthreads();
  if (!mine) return;
  float sum = 0.0f;
  unrolled (s, SmallTile::SLICES) sum += shared[s][threadIdx.x / 16 * PITCH + threadIdx.x % 16];
  epilogue(i, j, sum * (A::SCALE * B::SCALE), prefetched);
}

/* ---- medium tiles ------------------------------------------------------------------------- */

/* A medium tile: DOWN x WIDE pieces of 16 x 16. A value's terms serve several pieces. */
template <int DOWN_, int WIDE_> struct MediumShape {
  static constexpr Tile TILE = MEDIUM;
  static constexpr int DOWN = DOWN_, WIDE = WIDE_, ROWS = 16 * DOWN, COLUMNS = 16 * WIDE;
  static constexpr int SLICES = 16, THREADS = 32 * SLICES, STRIDE = 16 * SLICES, BLOCKS = 0;
  static constexpr int PITCH = COLUMNS + 1; /* row pitch of a tile in floats */
  static constexpr int SUMS = DOWN * WIDE > 2 ? SLICES / 2 : SLICES; /* tiles of partial sums */
};
using PairTile = MediumShape<1, 2>;
using QuadTile = MediumShape<2, 2>;

/* Adds the pieces of the warps, in a fixed order, into SUMS tiles in shared memory. The caller adds
   up these tiles. */
template <class Shape, class Step>
__device__ void share_pieces(const float (&pieces)[Shape::DOWN][Shape::WIDE][2][4], float *sums) {
  constexpr int TILE = Shape::ROWS * Shape::PITCH;
  const int slice = threadIdx.x / 32;
  float *mine = sums + slice % Shape::SUMS * TILE;
  for (int half = Shape::SLICES / Shape::SUMS - 1; half >= 0; half--) {
    if (slice / Shape::SUMS == half)
      unrolled (d, Shape::DOWN)
        unrolled (c, Shape::WIDE)
          unrolled (e, 8) {
            float &to = mine[(16 * d + Step::row(e)) * Shape::PITCH + 16 * c + Step::column(e)];
            const float own = pieces[d][c][e / 4][e % 4];
            to = (half + 1) * Shape::SUMS < Shape::SLICES ? to + own : own;
          }
    __syncthreads();
  }
}

/* Computes a medium tile as small_tile() does. A thread finishes every THREADS-th element. */
template <class Shape, class A, class B, class Epilogue>
__device__ void medium_tile(A a, B b, int m, int n, int depth, const Epilogue &epilogue) {
  /* Prologue: where this block and this warp start. */
  using Step = Arithmetic::SmallStep<A, B, Shape::DOWN>;
  constexpr int TILE = Shape::ROWS * Shape::PITCH;
  __shared__ alignas(16) float shared[larger(Shape::SUMS * TILE, Shape::SLICES * Step::FLOATS)];
  const int slice = threadIdx.x / 32;
  const int i0 = blockIdx.y * Shape::ROWS, j0 = blockIdx.x * Shape::COLUMNS;
  a.begin();
  b.begin();
  typename RawFragment<A>::Line lines_a[Shape::DOWN][RawFragment<A>::LINES];
  typename RawFragment<B>::Line lines_b[Shape::WIDE][RawFragment<B>::LINES];
  RawFragment<A> x[Shape::DOWN];
  RawFragment<B> y[Shape::WIDE];
  int k = 16 * slice;

  /* Fetch the first k-step. CONSTANT operands (operand.cuh) are fetched before pdl_wait(). */
  unrolled (d, Shape::DOWN) RawFragment<A>::seek(a, i0 + 16 * d, k, lines_a[d]);
  unrolled (c, Shape::WIDE) RawFragment<B>::seek(b, j0 + 16 * c, k, lines_b[c]);
  if (!A::CONSTANT) pdl_wait();
  unrolled (d, Shape::DOWN) x[d].fetch(a, i0 + 16 * d, k, lines_a[d]);
  if (A::CONSTANT) pdl_wait();
  unrolled (c, Shape::WIDE) y[c].fetch(b, j0 + 16 * c, k, lines_b[c]);

  /* Split and multiply this warp's k-steps, and fetch the next step after each split. */
  float pieces[Shape::DOWN][Shape::WIDE][2][4] = {};
#pragma unroll 1
  for (; k < depth; k += Shape::STRIDE) {
    const int next = k + Shape::STRIDE;
    Step step(shared + slice * Step::FLOATS);
    unrolled (d, Shape::DOWN) {
      x[d].zero_out_of_bounds(a, i0 + 16 * d, k, lines_a[d]);
      step.take_a(d, x[d]);
      if (next < depth) x[d].fetch(a, i0 + 16 * d, next, lines_a[d]);
    }
    unrolled (c, Shape::WIDE) {
      y[c].zero_out_of_bounds(b, j0 + 16 * c, k, lines_b[c]);
      step.take_b(y[c]);
      if (next < depth) {
        RawFragment<B>::seek(b, j0 + 16 * c, next, lines_b[c]);
        y[c].fetch(b, j0 + 16 * c, next, lines_b[c]);
      }
      unrolled (d, Shape::DOWN) step.multiply(d, pieces[d][c]);
    }
  }

  /* Epilogue: prefetch, add up the slices, combine and store. */
  constexpr int ELEMENTS = Shape::ROWS * Shape::COLUMNS;
  constexpr int EACH = (ELEMENTS + Shape::THREADS - 1) / Shape::THREADS;
  typename Epilogue::Prefetched prefetched[EACH] = {};
  int i[EACH], j[EACH];
  bool mine[EACH];
  unrolled (e, EACH) {
    const int element = threadIdx.x + e * Shape::THREADS;
    i[e] = element / Shape::COLUMNS;
    j[e] = element % Shape::COLUMNS;
    mine[e] = element < ELEMENTS && i0 + i[e] < m && j0 + j[e] < n;
    if (mine[e]) prefetched[e] = epilogue.prefetch(i0 + i[e], j0 + j[e]);
  }
  if (Step::FLOATS > 0) __syncthreads(); /* all warps have read their slabs */
  share_pieces<Shape, Step>(pieces, shared);
  unrolled (e, EACH) {
    if (!mine[e]) continue;
    float sum = 0.0f;
    unrolled (s, Shape::SUMS) sum += shared[s * TILE + i[e] * Shape::PITCH + j[e]];
    epilogue(i0 + i[e], j0 + j[e], sum * (A::SCALE * B::SCALE), prefetched[e]);
  }
}

/* ---- large tiles --------------------------------------------------------------------------- */

template <int ROWS_, int COLUMNS_, int WARPS_DOWN_, int WARPS_WIDE, int DEPTH_> struct LargeShape {
  static constexpr Tile TILE = LARGE;
  static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_;
  static constexpr int WARPS_DOWN = WARPS_DOWN_, WARPS_ACROSS = WARPS_WIDE;
  static constexpr int THREADS = 32 * WARPS_DOWN * WARPS_ACROSS, BLOCKS = 512 / THREADS;
};

/* For large batches. DEPTH is the largest whose two slabs fit into 48 KB of shared memory. */
using PixelTile = LargeShape<64, 64, 2, 4, 64>;
using LargeTile = LargeShape<64, 64, 2, 4, 32>;
/* For few neurons: with this tile a layer of 100 neurons keeps every multiprocessor busy. */
using NarrowTile = LargeShape<32, 32, 2, 2, 64>;
/* For weight gradients: 300 x 784 weights are 130 tiles, and a batch of 64 rows is one slab. */
using GradientTile = LargeShape<32, 64, 2, 4, 64>;

/* An operand's slab (SIDE x DEPTH). Threads fetch it, split it and store it to shared memory. */
template <class Shape, int SIDE, class Operand> struct Slab {
  static constexpr bool ALONG_K = Operand::ALONG_K;
  static constexpr int LINES = ALONG_K ? SIDE : Shape::DEPTH;
  static constexpr int LINE = ALONG_K ? Shape::DEPTH : SIDE, PITCH = LINE + Arithmetic::GAP;
  static constexpr int QUADS = SIDE * Shape::DEPTH / 4 / Shape::THREADS;
  static constexpr int PLANE = LINES * PITCH;
  static constexpr int BYTES =
      (int)sizeof(Arithmetic::Stored) * Arithmetic::PLANES<Operand> * PLANE;
  static_assert(QUADS * 4 * Shape::THREADS == SIDE * Shape::DEPTH,
                "each thread copies whole quads");
  typename Operand::Line lines[QUADS];
  typename Operand::template Raw<4> raw[QUADS];

  static __device__ int line_of(int n) {
    return (threadIdx.x + n * Shape::THREADS) / (LINE / 4);
  }
  static __device__ int at_of(int n) {
    return (threadIdx.x + n * Shape::THREADS) % (LINE / 4) * 4;
  }
  /* Finds this thread's lines of the slab at (first, k). If ALONG_K, every k has the same lines. */
  __device__ void seek(const Operand &operand, int first, int k) {
    unrolled (n, QUADS) lines[n] = operand.line((ALONG_K ? first : k) + line_of(n));
  }
  __device__ void fetch(const Operand &operand, int first, int k) {
    unrolled (n, QUADS)
      raw[n] = operand.template load<4>(lines[n], (ALONG_K ? k : first) + at_of(n));
  }
  __device__ void store_shared(const Operand &operand, int first, int k,
                               Arithmetic::Stored *planes) {
    const int row = ALONG_K ? first : k;
    const int column = ALONG_K ? k : first;
    if (!operand.in_bounds(row, LINES, column, LINE))
      unrolled (n, QUADS) operand.zero_out_of_bounds(raw[n], lines[n], column + at_of(n));
    unrolled (n, QUADS) Arithmetic::store<Slab, Operand>(raw[n], planes, line_of(n), at_of(n));
  }
};

constexpr int SEGMENT = 8; /* neighbours in a row of C that one thread finishes together */

/* The finished tile. It replaces the slabs in shared memory. A thread then reads whole segments. */
template <class Shape> struct FinishedTile {
  static constexpr int PITCH = Shape::COLUMNS + 4; /* in floats */
  static constexpr int BYTES = 4 * Shape::ROWS * PITCH;
};

template <class Shape, class A, class B>
constexpr int LARGE_TILE_BYTES = larger(Slab<Shape, Shape::ROWS, A>::BYTES +
                                            Slab<Shape, Shape::COLUMNS, B>::BYTES,
                                        FinishedTile<Shape>::BYTES);

/* SEGMENT neighbours of a row. load_segment() and store_segment() access the first `count` of them,
   16 bytes at a time if `vector` is true. */
struct Floats {
  float value[SEGMENT];
};

__device__ inline Floats load_segment(const float *p, int count, bool vector) {
  Floats f = {};
  if (vector && count >= SEGMENT) {
    unrolled_by (q, SEGMENT, 4) {
      float quad[4];
      load_vector(p + q, quad);
      unrolled (e, 4) f.value[q + e] = quad[e];
    }
  } else {
    unrolled (e, SEGMENT)
      if (e < count) f.value[e] = p[e];
  }
  return f;
}

__device__ inline void store_segment(float *p, const Floats &f, int count, bool vector) {
  if (vector && count >= SEGMENT) {
    unrolled_by (q, SEGMENT, 4)
      *reinterpret_cast<float4 *>(p + q) = {f.value[q], f.value[q + 1], f.value[q + 2],
                                            f.value[q + 3]};
  } else {
    unrolled (e, SEGMENT)
      if (e < count) p[e] = f.value[e];
  }
}

/* Computes large tile (row, column), summed over k in [from, to). Warp: DOWN x WIDE pieces of 16 x
   16. A block reads (to - from) * (ROWS + COLUMNS) values. `shared` has LARGE_TILE_BYTES bytes. */
template <class Shape, class A, class B, class Epilogue>
__device__ void large_tile(A a, B b, int m, int n, int from, int to, const Epilogue &epilogue,
                           int row, int column, unsigned char *shared) {
  /* Prologue: where this block and this warp start. */
  using SlabA = Slab<Shape, Shape::ROWS, A>;
  using SlabB = Slab<Shape, Shape::COLUMNS, B>;
  constexpr int DOWN = Shape::ROWS / Shape::WARPS_DOWN / 16;
  constexpr int WIDE = Shape::COLUMNS / Shape::WARPS_ACROSS / 16;
  using Stored = Arithmetic::Stored;
  Stored *planes_a = reinterpret_cast<Stored *>(shared);
  Stored *planes_b = reinterpret_cast<Stored *>(shared + SlabA::BYTES);
  const int warp = threadIdx.x / 32;
  const int warp_row = warp / Shape::WARPS_ACROSS * 16 * DOWN;
  const int warp_column = warp % Shape::WARPS_ACROSS * 16 * WIDE;
  const int i0 = row * Shape::ROWS, j0 = column * Shape::COLUMNS;
  float pieces[DOWN][WIDE][2][4] = {};
  SlabA slab_a;
  SlabB slab_b;

  /* Fetch the first slabs into registers. CONSTANT operands are fetched before pdl_wait(). */
  a.begin();
  b.begin();
  slab_a.seek(a, i0, from);
  slab_b.seek(b, j0, from);
  if (A::CONSTANT) slab_a.fetch(a, i0, from);
  if (B::CONSTANT) slab_b.fetch(b, j0, from);
  pdl_wait();
  if (!A::CONSTANT) slab_a.fetch(a, i0, from);
  if (!B::CONSTANT) slab_b.fetch(b, j0, from);

  /* Prefetch the other inputs of the epilogue. These loads run while the gemm runs. */
  constexpr int ACROSS_SEGMENTS = Shape::COLUMNS / SEGMENT;
  constexpr int SEGMENTS = Shape::ROWS * ACROSS_SEGMENTS / Shape::THREADS; /* segments per thread */
  const int line = threadIdx.x / ACROSS_SEGMENTS, at = threadIdx.x % ACROSS_SEGMENTS * SEGMENT;
  constexpr int LINES_APART = Shape::THREADS / ACROSS_SEGMENTS;
  typename Epilogue::PrefetchedSegment prefetched[SEGMENTS];
  unrolled (s, SEGMENTS)
    if (i0 + line + LINES_APART * s < m && j0 + at < n)
      prefetched[s] = epilogue.prefetch_segment(i0 + line + LINES_APART * s, j0 + at);

  for (int k0 = from; k0 < to; k0 += Shape::DEPTH) {
    /* Split the slabs into terms and store them to shared memory. */
    slab_a.store_shared(a, i0, k0, planes_a);
    slab_b.store_shared(b, j0, k0, planes_b);
    if (!A::ALONG_K) slab_a.seek(a, i0, k0 + Shape::DEPTH);
    if (!B::ALONG_K) slab_b.seek(b, j0, k0 + Shape::DEPTH);
    __syncthreads();
    /* Fetch the next slabs into registers. These loads run while this slab is multiplied. */
    if (k0 + Shape::DEPTH < to) {
      slab_a.fetch(a, i0, k0 + Shape::DEPTH);
      slab_b.fetch(b, j0, k0 + Shape::DEPTH);
    }
    /* Multiply all pairs of the warp's fragments, for STEP values of k at a time. */
    unrolled_by (k, Shape::DEPTH, Arithmetic::STEP) {
      Arithmetic::Fragment<false, B> y[WIDE];
      unrolled (c, WIDE) Arithmetic::load<SlabB>(planes_b, warp_column + 16 * c, k, y[c]);
      unrolled (r, DOWN) {
        Arithmetic::Fragment<true, A> x;
        Arithmetic::load<SlabA>(planes_a, warp_row + 16 * r, k, x);
        unrolled (c, WIDE) Arithmetic::multiply(pieces[r][c], x, y[c]);
      }
    }
    __syncthreads();
  }

  /* Epilogue: collect segments of rows through shared memory, combine and store them. */
  constexpr int PITCH = FinishedTile<Shape>::PITCH;
  float *tile = reinterpret_cast<float *>(shared);
  unrolled (r, DOWN)
    unrolled (c, WIDE)
      unrolled (e, 8)
        tile[(warp_row + 16 * r + Arithmetic::row<A>(e)) * PITCH + warp_column + 16 * c +
             Arithmetic::column<B>(e)] = pieces[r][c][e / 4][e % 4] * (A::SCALE * B::SCALE);
  __syncthreads();
  unrolled (s, SEGMENTS) {
    const int i = line + LINES_APART * s;
    if (i0 + i < m && j0 + at < n)
      epilogue.store_segment(i0 + i, j0 + at, load_segment(tile + i * PITCH + at, SEGMENT, true),
                             prefetched[s]);
  }
}

/* ---- which tile ---------------------------------------------------------------------------- */

/* Computes this block's tile, whether small, medium or large: row blockIdx.y, column blockIdx.x. */
template <class Shape, class A, class B, class Epilogue>
__device__ void tile_of_block(A a, B b, int m, int n, int depth, const Epilogue &epilogue) {
  if constexpr (Shape::TILE == LARGE) {
    __shared__ alignas(16) unsigned char shared[LARGE_TILE_BYTES<Shape, A, B>];
    large_tile<Shape>(a, b, m, n, 0, depth, epilogue, blockIdx.y, blockIdx.x, shared);
  } else if constexpr (Shape::TILE == MEDIUM) {
    medium_tile<Shape>(a, b, m, n, depth, epilogue);
  } else {
    small_tile(a, b, m, n, depth, epilogue);
  }
}

template <class Shape> dim3 tile_grid(int m, int n) {
  return dim3(ceil_div(n, Shape::COLUMNS), ceil_div(m, Shape::ROWS));
}

constexpr unsigned MULTIPROCESSORS = 132; /* of a big GPU */

/* Returns true if medium tiles are faster than small tiles: if they keep at least BUSY % of the
   multiprocessors busy on average, and every warp has a k-step. Times on an H200: weights (1000,
   784) and 128 rows take 6.1 us in medium tiles, 7.9 us in small tiles. Where this returns false,
   small tiles are faster: 9.5 us against 11.3 us for weights (300, 784) and 512 rows, 3.1 us
   against 3.9 us for weights (300, 100) and 256 rows. */
template <class Shape> bool is_medium(int m, int n, int depth) {
  constexpr unsigned BUSY = 70; /* percent */
  const dim3 grid = tile_grid<Shape>(m, n);
  const unsigned tiles = grid.x * grid.y;
  return depth >= Shape::STRIDE &&
         100 * tiles >= BUSY * MULTIPROCESSORS * ceil_div(tiles, MULTIPROCESSORS);
}

/* Calls launch(shape) with the fastest tile for C (m, n). PairTile is tried only if PAIRS. */
template <class Large, bool PAIRS, class Launch>
cudaError_t with_best_tile(int m, int n, int depth, const Launch &launch) {
  if ((long long)m * n >= 64ll * LargeTile::ROWS * LargeTile::COLUMNS) return launch(Large{});
  if (is_medium<QuadTile>(m, n, depth)) return launch(QuadTile{});
  if constexpr (PAIRS)
    if (is_medium<PairTile>(m, n, depth)) return launch(PairTile{});
  return launch(SmallTile{});
}

/* Returns true if a grid, which has at most 65535 blocks along y, can cover C (m, n). */
static inline bool valid_tiling(int m, int n) {
  return m > 0 && n > 0 && m <= 65535 * 16;
}
