/* The gemm of wide layers by mma.sync, for compute capability 8.0 and later. A block has one square
   tile and four warps, and each warp has a quarter of the tile. Several blocks share a
   multiprocessor: while one block starts or finishes its tile, the others multiply.

     global ──cp.async──> [A terms | B terms] [A terms | B terms] ... ──ldmatrix──> registers
                           a ring of stages in shared memory             ──mma.sync──> sums

   A stage holds 32 values along k of each of the tile's rows of A and columns of B, in all terms,
   with zeros beyond the edges. In each step of 16 along k, a warp with 64 x 64 sums and two terms
   reads 8 KB and executes 96 mma.sync. A line of shared memory is a row of A or a column of B at 32
   values of k (ALONG_K), or all rows or columns of the tile at one k (ACROSS_K). For ACROSS_K
   ldmatrix transposes. The 16-byte words of a line are swizzled: a word's place is its
   number, exclusive-or'ed with bits of the line's number. So ldmatrix reads eight lines at a time
   from different banks. */
#pragma once

#include "layer/wide_products.cuh"

namespace wide::mma {

constexpr int WARPS = 4, THREADS = 32 * WARPS;
constexpr int DEPTH = 32;                        /* number of values along k in a stage */
constexpr int LEAST_STAGES = 2, MOST_STAGES = 4; /* one stage fills while another is multiplied */

/* A tile of SIDE x SIDE. Each of 2 x 2 warps has a quarter of the tile. */
template <int SIDE_, int BLOCKS_> struct Tile {
  static constexpr int SIDE = SIDE_, WARP_SIDE = SIDE / 2;
  static constexpr int BLOCKS = BLOCKS_; /* blocks that a multiprocessor holds at once */
  static constexpr int TERM_BYTES = 2 * SIDE * DEPTH; /* one term of an operand in a stage */
};
using LargeTile = Tile<128, 2>;
using SmallTile = Tile<64, 4>;

template <int TERMS, class Tile> constexpr int STAGE_BYTES = 2 * TERMS *Tile::TERM_BYTES;

/* An operand's planes: (sides, k) if ALONG_K, (k, sides) if ACROSS_K. A side is a row of A or a
   column of B. */
struct Operand {
  const uint16_t *d;
  size_t plane;
  int pitch;
};

struct Product {
  Operand a, b;
  int m, n, k;
  const float *d_scales[2];   /* scales of a and b */
  bool pixels;                /* the layer's input is pixels, which have one plane */
  int first_tile, tiles_down; /* tiles are numbered column by column */
};

template <class Epilogue> struct Products {
  Product product[MAX_PRODUCTS];
  Epilogue epilogue[MAX_PRODUCTS];
  int count, stages;
};

/* ---- stages ---------------------------------------------------------------------------------- */

/* One term of an operand in a stage: LINES lines, each of WORDS words of 16 bytes. */
template <Major MAJOR, int SIDE> struct Slab {
  static constexpr int BYTES = 2 * SIDE * DEPTH;
  static constexpr int LINES = MAJOR == ALONG_K ? SIDE : DEPTH;
  static constexpr int WORDS = (MAJOR == ALONG_K ? DEPTH : SIDE) / 8, LINE_BYTES = 16 * WORDS;

  /* Returns the byte offset of word `word` of a line. In eight neighbouring lines, words with the
     same number lie in different banks. */
  static __device__ int place(int line, int word) {
    const int turn = WORDS >= 8 ? line % 8 : line / (8 / WORDS) % WORDS;
    return line * LINE_BYTES + 16 * (word ^ turn);
  }
};

/* The words of an operand that one thread copies: one word in every APART-th line. */
template <Major MAJOR, int SIDE> struct Copies {
  using S = Slab<MAJOR, SIDE>;
  static constexpr int COUNT = S::LINES * S::WORDS / THREADS, APART = THREADS / S::WORDS;
  static_assert(COUNT * THREADS == S::LINES * S::WORDS && APART % 8 == 0, "all threads alike");
  const uint16_t *from;
  int line, column; /* line and column, in the planes, of the next stage's first word */
  int place;

  /* `first` is the tile's first row of A or first column of B. */
  __device__ Copies(const Operand &o, int first) {
    const int at = threadIdx.x / S::WORDS, word = threadIdx.x % S::WORDS;
    line = at + (MAJOR == ALONG_K ? first : 0);
    column = 8 * word + (MAJOR == ALONG_K ? 0 : first);
    place = S::place(at, word);
    from = o.d + (size_t)line * o.pitch + column;
  }

  /* Starts to copy DEPTH more values along k to a stage, with zeros beyond `sides` and `k`. */
  __device__ void start(const Operand &o, int terms, int sides, int k, uint32_t to) {
    const int lines = MAJOR == ALONG_K ? sides : k;
    const int columns = MAJOR == ALONG_K ? k : sides;
    const int bytes = min(16, max(0, 2 * (columns - column)));
    unrolled (i, COUNT) {
      const bool some = line + i * APART < lines && bytes > 0;
      const uint16_t *at = some ? from + (size_t)(i * APART) * o.pitch : o.d;
      unrolled (term, 2)
        if (term < terms)
          copy_16_bytes(to + place + term * S::BYTES + i * APART * S::LINE_BYTES,
                        at + term * o.plane, some ? bytes : 0);
    }
    if (MAJOR == ALONG_K)
      column += DEPTH, from += DEPTH;
    else
      line += DEPTH, from += (size_t)DEPTH * o.pitch;
  }
};

/* Loads fragments of 16 sides x 16 k for mma.sync. A fragment is four matrices of 8 x 8. The second
   matrix is 8 sides further on in A, and 8 k further on in B. */
template <Major MAJOR, bool IS_A, int SIDE> struct Fragments {
  using S = Slab<MAJOR, SIDE>;
  uint32_t at;

  __device__ Fragments(uint32_t slab, int side) {
    const int lane = threadIdx.x % 32, near = lane / 8 % 2 * 8, far = lane / 16 * 8;
    const int s = side + (IS_A ? near : far);
    const int k = IS_A ? far : near;
    at = slab + (MAJOR == ALONG_K ? S::place(s + lane % 8, k / 8) : S::place(k + lane % 8, s / 8));
  }
  /* Loads the fragment that is 16 i sides and 16 * step k after the first fragment. An exclusive or
     moves the address along a line, because lines are swizzled by exclusive or. */
  __device__ void load(int i, int step, int term, uint32_t (&out)[4]) const {
    if constexpr (MAJOR == ALONG_K)
      ldmatrix_x4(out, (at ^ 32 * step) + i * 16 * S::LINE_BYTES + term * S::BYTES);
    else
      ldmatrix_x4_trans(out, (at ^ 32 * i) + step * 16 * S::LINE_BYTES + term * S::BYTES);
  }
};

/* ---- multiplying ----------------------------------------------------------------------------- */

/* Waits until the oldest of `stages` - 1 groups of copies has arrived. */
__device__ inline void await_oldest(int stages) {
  if (stages == 2)
    await_groups<0>();
  else if (stages == 3)
    await_groups<1>();
  else
    await_groups<MOST_STAGES - 2>();
}

template <class Kind, class Tile> struct Quarter {
  static constexpr int TERMS = Kind::TERMS, SIDE = Tile::SIDE, WIDTH = Tile::WARP_SIDE;
  static constexpr int DOWN = WIDTH / 16, ACROSS = WIDTH / 8;
  using Epilogue = typename Kind::Epilogue;
  float sum[DOWN][ACROSS][4]; /* the lane's four sums of each 16 x 8 (see mma_m16n8k16) */

  /* Return the first row and the first column of the warp's quarter in the tile. */
  static __device__ int warp_row() {
    return threadIdx.x / 64 * WIDTH;
  }
  static __device__ int warp_column() {
    return threadIdx.x / 32 % 2 * WIDTH;
  }

  /* Multiplies one stage, 16 k at a time. Adds all products of terms, small products first. */
  template <int TERMS_A, int TERMS_B> __device__ void multiply_stage(uint32_t stage) {
    const Fragments<Kind::A, true, SIDE> from_a(stage, warp_row());
    const Fragments<Kind::B, false, SIDE> from_b(stage + TERMS * Tile::TERM_BYTES, warp_column());
    unrolled (step, DEPTH / 16) {
      uint32_t a[TERMS_A][DOWN][4];
      unrolled (term, TERMS_A)
        unrolled (i, DOWN) from_a.load(i, step, term, a[term][i]);
      unrolled (j, ACROSS / 2) {
        uint32_t b[TERMS_B][4];
        unrolled (term, TERMS_B) from_b.load(j, step, term, b[term]);
        each_product<TERMS>([&](int p, int q) {
          if (p >= TERMS_A || q >= TERMS_B) return;
          unrolled (half, 2)
            unrolled (i, DOWN)
              mma_m16n8k16_fp16(sum[i][2 * j + half], a[p][i], b[q][2 * half], b[q][2 * half + 1]);
        });
      }
    }
  }

  template <int TERMS_A, int TERMS_B>
  __device__ void multiply_tile(const Product &p, int row, int column, int stages, uint32_t ring) {
    constexpr int BYTES = STAGE_BYTES<TERMS, Tile>;
    Copies<Kind::A, SIDE> copies_a(p.a, row);
    Copies<Kind::B, SIDE> copies_b(p.b, column);
    const int blocks = ceil_div(p.k, DEPTH);
    const uint32_t end = ring + stages * BYTES;
    const auto copy = [&](int block, uint32_t to) {
      if (block < blocks) {
        copies_a.start(p.a, TERMS_A, p.m, p.k, to);
        copies_b.start(p.b, TERMS_B, p.n, p.k, to + TERMS * Tile::TERM_BYTES);
      }
      close_copies();
    };
    uint32_t filled = ring, free = ring;
    for (int block = 0; block < stages - 1; block++, free += BYTES) copy(block, free);
#pragma unroll 1
    for (int block = 0; block < blocks; block++) {
      await_oldest(stages); /* this thread's copies to the stage have arrived */
      __syncthreads();      /* all copies have arrived; all warps have read the previous stage */
      copy(block + stages - 1, free);
      multiply_stage<TERMS_A, TERMS_B>(filled);
      free = filled;
      filled = filled + BYTES == end ? ring : filled + BYTES;
    }
    await_groups<0>();
    __syncthreads(); /* finish_tile() will overwrite the ring */
  }

  /* Finishes the warp's quarter of the tile, 16 rows at a time, through shared memory. */
  template <bool FULL>
  __device__ void finish_tile(const Epilogue &epilogue, const Product &p, int row, int column,
                              float *piece) const {
    constexpr int LANES = WIDTH / 4, QUADS = 16 * LANES / 32; /* LANES: lanes that share a row */
    const int lane = threadIdx.x % 32, at = lane % LANES * 4;
    const Once once = epilogue.once().of(p);
    column += at;
#pragma unroll 1
    for (int part = 0; part < DOWN; part++) {
      int r[QUADS];
      float last[QUADS];
      typename Epilogue::Prefetched prefetched[QUADS];
      unrolled (q, QUADS) {
        r[q] = row + 16 * part + lane / LANES + q * (32 / LANES);
        prefetched[q] = epilogue.template prefetch<FULL>(r[q], p.m, column);
      }
      __syncwarp(); /* the whole warp has read the previous 16 rows */
      unrolled (own, DOWN)
        if (own == part)
          unrolled (j, ACROSS)
            unrolled (half, 2)
              *reinterpret_cast<float2 *>(
                  piece + tile_at<WIDTH>(lane / 4 + 8 * half, 8 * j + lane % 4 * 2)) = {
                  sum[own][j][2 * half], sum[own][j][2 * half + 1]};
      __syncwarp();
      unrolled (q, QUADS) {
        const float4 v = *reinterpret_cast<const float4 *>(
            piece + tile_at<WIDTH>(lane / LANES + q * (32 / LANES), at));
        last[q] = finish_quad<FULL>(epilogue, p, r[q], column, v, prefetched[q], once);
      }
      finish_last<FULL>(epilogue, p, r, column, last, once);
    }
  }
};

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Computes the products of a launch. Block: one tile of one product. Blocks with neighbouring
   numbers have tiles one below the other, which use the same columns of B. Warp: a quarter of the
   tile. For each term a block reads 2 k SIDE numbers, half of them from A, half from B. For each
   product of two terms it does 2 k SIDE^2 operations. */
template <class Kind, class Tile>
__global__ void __launch_bounds__(THREADS, Tile::BLOCKS)
    mma_kernel(__grid_constant__ const Products<typename Kind::Epilogue> all, BatchView batch) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) unsigned char shared[];
  constexpr int TERMS = Kind::TERMS;
  const int tile = blockIdx.x, warp = threadIdx.x / 32;
  int product = 0;
  while (product + 1 < all.count && tile >= all.product[product + 1].first_tile) product++;
  const Product &p = all.product[product];
  const auto &epilogue = all.epilogue[product];
  const int at = tile - p.first_tile;
  const int row = at % p.tiles_down * Tile::SIDE, column = at / p.tiles_down * Tile::SIDE;
  pdl_wait();
  if (Kind::SKIPS && rows_of_all_ranks(batch) == 0) return;
  Quarter<Kind, Tile> c = {};
  const uint32_t ring = (uint32_t)__cvta_generic_to_shared(shared);
  constexpr int A_TERMS = Kind::INPUT_IS_A ? 1 : TERMS; /* a pixel has one term */
  constexpr int B_TERMS = Kind::INPUT_IS_A ? TERMS : 1;
  if (Kind::HAS_PIXELS && p.pixels)
    c.template multiply_tile<A_TERMS, B_TERMS>(p, row, column, all.stages, ring);
  else
    c.template multiply_tile<TERMS, TERMS>(p, row, column, all.stages, ring);
  float *piece = reinterpret_cast<float *>(shared) + warp * 16 * Tile::WARP_SIDE;
  const int own_row = row + c.warp_row(), own_column = column + c.warp_column();
  if (row + Tile::SIDE <= p.m && epilogue.is_full(column + Tile::SIDE))
    c.template finish_tile<true>(epilogue, p, own_row, own_column, piece);
  else
    c.template finish_tile<false>(epilogue, p, own_row, own_column, piece);
#endif
}

} // namespace wide::mma
