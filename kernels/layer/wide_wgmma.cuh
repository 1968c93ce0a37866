/* The gemm of wide layers, for compute capability 9.0: one persistent kernel whose warps have
   different roles (warp specialisation). Tiles are 128 x COLUMNS. For every DEPTH values along k
   the kernel copies all terms of a tile's operands once, then multiplies terms of A by terms of B.

                        shared memory: a ring of stages
     producer thread ──TMA──> [A terms | B terms] [A terms | B terms] ... ──wgmma──> consumer 0
                        <────────────────── free ────────────────────                consumer 1

   One thread, the producer, tells the copy engine to fill stages, and runs ahead as long as a stage
   is free. Two warpgroups of 128 threads, the consumers, multiply with 128 accumulators per thread.
   There are two schedules, named as in CUTLASS:

   - PingPong, tiles of 128 columns: one consumer multiplies a tile with all tensor cores of the
     multiprocessor, while the other consumer finishes the previous tile (epilogue).
   - Cooperative, tiles of 256 columns: the consumers share every tile, 64 rows each. Nothing hides
     the epilogue. But for equal work the tensor cores read a sixth less of shared memory than in
     PingPong, and the copy engine writes a quarter less.

   Each multiprocessor has one block. Blocks may form clusters. A pair of blocks works on two tiles
   with the same rows or columns. Each block copies half of those to both blocks. This saves a
   quarter of the bytes from the L2 cache. If there are too few tiles, the blocks of a cluster share
   one tile, and each block sums a part of the tile's k (split-K). Then each block adds up and
   finishes some of the tile's rows, in a fixed order. */
#pragma once

#include "layer/hopper.cuh"
#include "layer/wide_products.cuh"

namespace wide::wgmma {

constexpr int TILE = 2 * SIDE;     /* rows of a tile, and columns of a small tile */
constexpr int GROUP = 128;         /* threads of a warpgroup */
constexpr int THREADS = 3 * GROUP; /* one warpgroup for the producer, two for the consumers */
constexpr int PIECE = 32;          /* columns that a warp finishes at a time */

struct PingPong {
  static constexpr bool TURNS = true; /* each consumer multiplies every second tile */
  static constexpr int COLUMNS = TILE;
};
struct Cooperative {
  static constexpr bool TURNS = false;
  static constexpr int COLUMNS = 2 * TILE;
};

struct Product {
  CUtensorMap a, b; /* the copy engine's descriptions of the planes */
  int m, n, k;
  const float *d_scales[2]; /* scales of a and b */
  bool pixels;              /* the layer's input is pixels, which have one plane */
  int first_unit;           /* the product's units are first_unit, first_unit + 1, ... */
  int down, across;         /* tiles of a unit: 1 x 1, or for a pair 2 x 1 or 1 x 2 */
  int units_down;
};

/* A launch. A cluster computes one unit at a time: two tiles if `pair`, else one tile. */
template <class Epilogue> struct Products {
  Product product[MAX_PRODUCTS];
  Epilogue epilogue[MAX_PRODUCTS];
  int count, units;
  int splits, pair; /* a cluster has 2 blocks if `pair`, else `splits` (1 or more) */
};

/* ---- units ---------------------------------------------------------------------------------- */

/* The part of a unit that this block computes: one tile, summed over a range of k. */
struct Unit {
  int product, row, column; /* row and column of the tile's first element */
  int first_block, blocks;  /* the range of k, counted in stages */
};

/* ---- the ring ------------------------------------------------------------------------------- */

/* A ring of stages in shared memory. A stage holds DEPTH values along k of A's rows, then of B's
   columns. Copy number p of the producer goes to stage p % STAGES. An operand is stored as all
   terms of 64 rows or columns, then all terms of the next 64. But a B that lies ALONG_K is stored
   term by term, because wgmma takes all columns of a term as one operand. */
template <int TERMS, class Schedule> struct Ring {
  static constexpr int COLUMNS = Schedule::COLUMNS;
  /* The copy engine moves a patch of 8 KB almost as fast as one of 4 KB, so deep stages halve the
     time of the copies. Two terms would leave room for only two or three deep stages, which is too
     few to hide the copies, so there a stage stays shallow. */
  static constexpr int DEPTH = TERMS == 1 ? 64 : 32;
  static constexpr int PATCH_BYTES = SIDE * DEPTH * 2;
  static constexpr int HALF_BYTES = TERMS * PATCH_BYTES; /* all terms of 64 rows or columns */
  static constexpr int A_BYTES = 2 * HALF_BYTES, B_BYTES = COLUMNS / SIDE * HALF_BYTES;
  static constexpr int WARPS = 2 * GROUP / 32, WARP_FLOATS = 8 * PIECE;
  /* the bytes for stages: 226 KB without the barriers (256 bytes) and the pieces */
  static constexpr int ROOM = 226 * 1024 - 256 - WARPS * WARP_FLOATS * 4;
  static constexpr int STAGES = ROOM / (A_BYTES + B_BYTES);
  unsigned char stage[STAGES][A_BYTES + B_BYTES];
  float piece[WARPS][WARP_FLOATS]; /* the piece of a tile that each consumer warp finishes */
  uint64_t filled[STAGES], free[STAGES];
  uint64_t turn[2]; /* if TURNS, consumer c waits at turn[c] before it multiplies */

  /* Initialises the barriers. Copies of this block are read by `blocks` blocks: 2 if `pair`. */
  __device__ void init(int blocks) {
    for (int s = 0; s < STAGES; s++) {
      barrier_init(&filled[s], 1);
      barrier_init(&free[s], blocks * (Schedule::TURNS ? WARPS / 2 : WARPS));
    }
    barrier_init(&turn[0], WARPS / 2);
    barrier_init(&turn[1], WARPS / 2);
    barriers_are_ready();
  }
  static __device__ int stage_of(unsigned position) {
    return position % STAGES;
  }
  static __device__ uint32_t phase_of(unsigned position) {
    return position / STAGES & 1;
  }
};

/* Copies WIDTH rows or columns, DEPTH values along k of each. If both blocks of a pair need them
   (`both`), this block copies half of them to both blocks. */
template <class Ring, Major MAJOR, int WIDTH>
__device__ void copy_sides(const CUtensorMap *map, int first, int block, unsigned char *to,
                           uint64_t *filled, bool both, int rank) {
#pragma unroll
  for (int at = 0; at < WIDTH; at += SIDE, to += Ring::HALF_BYTES) {
    const int side = first + at, k = Ring::DEPTH * block;
    const int row = MAJOR == ALONG_K ? side : k;
    const int column = MAJOR == ALONG_K ? k : side;
    if (!both)
      copy_box(to, map, 0, row, column, filled);
    else if (at / (WIDTH / 2) == rank)
      copy_box_to_both(to, map, 0, row, column, filled);
  }
}

/* Copies WIDTH columns of a B that lies ALONG_K. A box has all terms of all columns. If both blocks
   of a pair need B (`both`), a box has one term of half the columns and goes to both blocks. */
template <class Ring, int WIDTH>
__device__ void copy_columns(const CUtensorMap *map, int terms, int first, int block,
                             unsigned char *to, uint64_t *filled, bool both, int rank) {
  constexpr int HALF = WIDTH / 2, BYTES = HALF / SIDE * Ring::PATCH_BYTES;
  if (!both) copy_box(to, map, 0, first, Ring::DEPTH * block, filled);
  if (both)
    for (int term = 0; term < terms; term++)
      copy_box_to_both(to + (2 * term + rank) * BYTES, map, term, first + HALF * rank,
                       Ring::DEPTH * block, filled);
}

/* ---- tiles ---------------------------------------------------------------------------------- */

/* A thread's sums of a tile: 64 sums of each half, in the order of multiply_128(). In PingPong
   a half is 64 rows of the tile. In Cooperative it is 128 columns. */
struct Accumulators {
  float sum[128];
};

/* Stores COUNT columns from `first` on of rows 8 r to 8 r + 7 of the warp's 16 rows of a half. */
template <int COUNT>
__device__ void store_rows(const Accumulators &c, int half, int r, int first, float *tile,
                           int row) {
  const int lane = threadIdx.x % 32;
  unrolled (i, COUNT / 8) {
    const int at = 64 * half + 4 * (first / 8 + i) + 2 * r;
    *reinterpret_cast<float2 *>(tile + tile_at<COUNT>(row + lane / 4, 8 * i + lane % 4 * 2)) = {
        c.sum[at], c.sum[at + 1]};
  }
}

/* A warp's sums are four parts of 8 rows x 128 columns. Each lane finishes 8 quads of a part. */
constexpr int QUADS = 8, PARTS = 4;

/* Return the row and the column in a part at which a quad of this lane starts. */
__device__ inline int row_of_quad(int quad) {
  return threadIdx.x % 32 / 8 + 4 * (quad % 2);
}
__device__ inline int column_of_quad(int quad) {
  return PIECE * (quad / 2) + 4 * (threadIdx.x % 8);
}

/* Stores the sums in shared memory, where the other blocks of the cluster read them. */
__device__ inline void store_split(const Accumulators &c, float *tile) {
  const int warp = threadIdx.x % GROUP / 32;
  unrolled (part, 4)
    store_rows<TILE>(c, part / 2, part % 2, 0, tile, part / 2 * SIDE + 16 * warp + part % 2 * 8);
}

/* ---- a block -------------------------------------------------------------------------------- */

template <class Kind, class Schedule> struct Block {
  static constexpr int TERMS = Kind::TERMS, COLUMNS = Schedule::COLUMNS;
  static constexpr bool TURNS = Schedule::TURNS;
  using Epilogue = typename Kind::Epilogue;
  using Ring = wgmma::Ring<TERMS, Schedule>;
  const Products<Epilogue> &all;
  Ring &ring;
  int rank; /* this block's rank in the cluster */

  /* Returns the unit that a cluster computes in a turn. In odd turns the clusters get units in
     reverse order, so that a cluster computes a short unit after a long unit. */
  static __device__ int unit_of_turn(int turn, int cluster, int clusters) {
    return turn * clusters + (turn % 2 ? clusters - 1 - cluster : cluster);
  }

  __device__ Unit find_unit(int unit) const {
    Unit u;
    u.product = 0;
    while (u.product + 1 < all.count && unit >= all.product[u.product + 1].first_unit) u.product++;
    const Product &p = all.product[u.product];
    const int at = unit - p.first_unit, blocks = ceil_div(p.k, Ring::DEPTH);
    u.row = (at % p.units_down * p.down + (p.down == 2 ? rank : 0)) * TILE;
    u.column = (at / p.units_down * p.across + (p.across == 2 ? rank : 0)) * COLUMNS;
    const int split = all.splits > 1 ? rank : 0;
    u.first_block = blocks * split / all.splits;
    u.blocks = blocks * (split + 1) / all.splits - u.first_block;
    return u;
  }

  __device__ void produce(int cluster, int clusters) const {
    unsigned position = 0;
    for (int turn = 0, unit; (unit = unit_of_turn(turn, cluster, clusters)) < all.units; turn++) {
      const Unit u = find_unit(unit);
      const Product &p = all.product[u.product];
      const int terms_a = p.pixels && Kind::INPUT_IS_A ? 1 : TERMS;
      const int terms_b = p.pixels && !Kind::INPUT_IS_A ? 1 : TERMS;
      for (int block = u.first_block; block < u.first_block + u.blocks; block++, position++) {
        const int s = ring.stage_of(position);
        barrier_wait(&ring.free[s], ring.phase_of(position) ^ 1);
        const int patches = (terms_a * TILE + terms_b * COLUMNS) / SIDE;
        barrier_expect(&ring.filled[s], patches * Ring::PATCH_BYTES);
        unsigned char *to_a = ring.stage[s], *to_b = to_a + ring.A_BYTES;
        copy_sides<Ring, Kind::A, TILE>(&p.a, u.row, block, to_a, &ring.filled[s], p.across == 2,
                                        rank);
        if (Kind::B == ALONG_K)
          copy_columns<Ring, COLUMNS>(&p.b, terms_b, u.column, block, to_b, &ring.filled[s],
                                      p.down == 2, rank);
        else
          copy_sides<Ring, Kind::B, COLUMNS>(&p.b, u.column, block, to_b, &ring.filled[s],
                                             p.down == 2, rank);
      }
    }
  }

  /* Multiplies one stage, 16 values along k at a time. Adds small products of terms first. */
  template <bool PIXELS>
  static __device__ void multiply_stage(Accumulators &c, uint64_t a, uint64_t b) {
    constexpr int TERM_A = Ring::PATCH_BYTES / 16, HALF_A = TERMS * TERM_A;
    constexpr int TERM_B = (Kind::B == ALONG_K ? COLUMNS / SIDE : 1) * Ring::PATCH_BYTES / 16;
    start_multiplying();
    unrolled (step, Ring::DEPTH / 16) {
      each_product<TERMS>([&](int i, int j) {
        if (PIXELS && (Kind::INPUT_IS_A ? i : j) > 0) return;
        const uint64_t term_a = a + i * TERM_A, term_b = b + j * TERM_B;
        if constexpr (TURNS) {
          multiply_128<FP16, Kind::A, Kind::B, 0>(c.sum, term_a, term_b);
          multiply_128<FP16, Kind::A, Kind::B, 64>(c.sum, term_a + HALF_A, term_b);
        } else {
          multiply_256<FP16, Kind::A, Kind::B>(c.sum, term_a, term_b);
        }
      });
      a += NEXT_16_K<Kind::A>;
      b += NEXT_16_K<Kind::B>;
    }
  }

  /* Tells the producer, or both producers of a pair, that this warp has read a stage. */
  __device__ void release(unsigned position) const {
    if (threadIdx.x % 32 != 0) return;
    uint64_t *free = &ring.free[ring.stage_of(position)];
    if (!all.pair)
      barrier_arrive(free);
    else
      for (int rank = 0; rank < 2; rank++) barrier_arrive_in(free, rank);
  }

  /* Computes the sums of a unit: `blocks` stages from `position` on. If TURNS, every warp sends a
     signal once the last stage is filled. The other consumer starts when it has all signals. If
     these came sooner, it could take an old phase of a barrier for a new one. If only one warp sent
     a signal, a warp could be two units ahead of the slowest warp. */
  __device__ void multiply_unit(Accumulators &c, int group, unsigned position, int blocks,
                                bool pixels) const {
    constexpr int HALF_BYTES = Ring::HALF_BYTES;
    unrolled (e, 128) c.sum[e] = 0.0f;
#pragma unroll 1
    for (int block = 0; block < blocks; block++, position++) {
      const int s = ring.stage_of(position);
      barrier_wait(&ring.filled[s], ring.phase_of(position));
      if (TURNS && block == blocks - 1 && threadIdx.x % 32 == 0)
        barrier_arrive(&ring.turn[1 - group]);
      const uint32_t stage = shared_address(ring.stage[s]);
      const uint64_t a =
          operand_at<Kind::A, HALF_BYTES, Ring::DEPTH>(stage + (TURNS ? 0 : group * HALF_BYTES));
      const uint64_t b = operand_at<Kind::B, HALF_BYTES, Ring::DEPTH>(stage + ring.A_BYTES);
      if (Kind::HAS_PIXELS && pixels)
        multiply_stage<true>(c, a, b);
      else
        multiply_stage<false>(c, a, b);
      close_group();
      wait_for_groups<1>();
      if (block > 0) release(position - 1);
    }
    wait_for_groups<0>();
    release(position - 1);
    unrolled (e, 128) /* keeps the compiler from using the sums before the wait */
      asm volatile("" : "+f"(c.sum[e])::"memory");
  }

  /* Return the row and the column in the tile at which a part starts. */
  static __device__ int row_of_part(int group, int part) {
    const int warp = threadIdx.x % GROUP / 32;
    return (TURNS ? part / 2 : group) * SIDE + 16 * warp + part % 2 * 8;
  }
  static __device__ int column_of_part(int part) {
    return TURNS ? 0 : part / 2 * 128;
  }

  template <bool FULL>
  static __device__ void prefetch_part(const Epilogue &epilogue, int rows, int row, int column,
                                       typename Epilogue::Prefetched (&to)[QUADS]) {
    unrolled (q, QUADS)
      to[q] =
          epilogue.template prefetch<FULL>(row + row_of_quad(q), rows, column + column_of_quad(q));
  }

  /* Finishes this consumer's sums of a tile. Unrolled loops keep the accumulators in registers. */
  template <bool FULL>
  __device__ void finish_tile(const Accumulators &c, const Epilogue &epilogue, const Product &p,
                              const Unit &u, const Once &once, int group, float *piece) const {
#pragma unroll 1
    for (int part = 0; part < PARTS; part++) {
      const int row = u.row + row_of_part(group, part);
      const int column = u.column + column_of_part(part);
      typename Epilogue::Prefetched prefetched[QUADS];
      prefetch_part<FULL>(epilogue, p.m, row, column, prefetched);
      unrolled_by (q, QUADS, 2) {
        __syncwarp(); /* the whole warp has read the previous piece */
        unrolled (own, PARTS)
          if (own == part) store_rows<PIECE>(c, own / 2, own % 2, PIECE * q / 2, piece, 0);
        __syncwarp();
        int r[2];
        float last[2];
        unrolled (i, 2) {
          const float4 v = *reinterpret_cast<const float4 *>(
              piece + tile_at<PIECE>(row_of_quad(i), column_of_quad(0)));
          r[i] = row + row_of_quad(i);
          last[i] = finish_quad<FULL>(epilogue, p, r[i], column + column_of_quad(q), v,
                                      prefetched[q + i], once);
        }
        finish_last<FULL>(epilogue, p, r, column + column_of_quad(q), last, once);
      }
    }
  }

  /* Adds up and finishes rows rank, rank + splits, ... of the tile. Both consumers take part. */
  template <bool FULL>
  __device__ void finish_split(const float *tile, const Epilogue &epilogue, const Product &p,
                               const Unit &u, int splits) const {
    constexpr int WARPS = 2 * GROUP / 32;
    static_assert(TILE <= 2 * WARPS * QUADS, "two splits or more");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - GROUP / 32;
    const int column = u.column + 4 * lane, first = rank + warp * splits, step = WARPS * splits;
    const Once once = epilogue.once().of(p);
    typename Epilogue::Prefetched prefetched[QUADS];
    unrolled (i, QUADS)
      prefetched[i] = epilogue.template prefetch<false>(u.row + first + i * step, p.m, column);
    cluster_fence();
    int r[QUADS];
    float last[QUADS];
    unrolled (i, QUADS) {
      const int row = first + i * step;
      r[i] = row < TILE ? u.row + row : p.m;
      last[i] = 0.0f;
      if (row >= TILE) continue;
      const uint32_t at = shared_address(tile + tile_at<TILE>(row, 4 * lane));
      float4 v = {};
#pragma unroll 4
      for (int split = 0; split < splits; split++) {
        const float4 part = load_cluster(address_in(at, split));
        v.x += part.x, v.y += part.y, v.z += part.z, v.w += part.w;
      }
      last[i] = finish_quad<FULL>(epilogue, p, r[i], column, v, prefetched[i], once);
    }
    finish_last<FULL>(epilogue, p, r, column, last, once);
  }

  /* Runs a consumer. It computes every second unit if TURNS, else half of every unit. */
  __device__ void consume(int group, int cluster, int clusters) const {
    unsigned position = 0;
    for (int turn = 0, unit; (unit = unit_of_turn(turn, cluster, clusters)) < all.units; turn++) {
      const Unit u = find_unit(unit);
      const Product &p = all.product[u.product];
      if (!TURNS || turn % 2 == group) {
        const auto &epilogue = all.epilogue[u.product];
        const bool full = u.row + TILE <= p.m && epilogue.is_full(u.column + COLUMNS);
        const Once once =
            epilogue.once().of(p); /* `of` starts loads that overlap the multiplication */
        Accumulators c;
        if (TURNS) /* consumer 0's first wait returns at once */
          barrier_wait(&ring.turn[group], (turn / 2 + 1 + group) & 1);
        multiply_unit(c, group, position, u.blocks, p.pixels);
        float *piece = ring.piece[threadIdx.x / 32 - GROUP / 32];
        if (TURNS && all.splits > 1)
          store_split(c, reinterpret_cast<float *>(ring.stage));
        else if (full)
          finish_tile<true>(c, epilogue, p, u, once, group, piece);
        else
          finish_tile<false>(c, epilogue, p, u, once, group, piece);
      }
      position += u.blocks;
    }
  }
};

/* Computes the products of a launch. Grid: clusters of blocks. Block: a producer thread and two
   consumers. A tile needs k * (TILE + COLUMNS) numbers of every term. In a pair, the other block
   copies half of one operand. Each pair of terms takes 2 k TILE COLUMNS operations per tile. */
template <class Kind, class Schedule>
__global__ void __launch_bounds__(THREADS, 1)
    wide_kernel(__grid_constant__ const Products<typename Kind::Epilogue> all, BatchView batch) {
  extern __shared__ unsigned char shared[];
  using Ring = wgmma::Ring<Kind::TERMS, Schedule>;
  Ring &ring = *reinterpret_cast<Ring *>(shared + (1024 - shared_address(shared) % 1024) % 1024);
  /* the shuffle tells the compiler that all lanes of a warp have the same `group` */
  const int group = __shfl_sync(FULL_WARP, threadIdx.x / GROUP, 0);
  const int blocks = all.pair ? 2 : all.splits;
  const Block<Kind, Schedule> block = {all, ring, cluster_rank()};
  const int cluster = blockIdx.x / blocks, clusters = gridDim.x / blocks;
  if (threadIdx.x == 0) {
    ring.init(all.pair ? 2 : 1);
    for (int p = 0; p < all.count; p++) {
      prefetch_map(&all.product[p].a);
      prefetch_map(&all.product[p].b);
    }
  }
  __syncthreads();
  cluster_barrier();
  pdl_wait();
  if (Kind::SKIPS && rows_of_all_ranks(batch) == 0) return;
  if (group == 0) {
    keep_registers<40>();
    if (threadIdx.x == 0) {
      writes_are_ready_to_copy();
      block.produce(cluster, clusters);
    }
    __syncwarp();
    if (all.splits > 1) cluster_fence();
  } else {
    take_registers<232>();
    block.consume(group - 1, cluster, clusters);
    if (Schedule::TURNS && all.splits > 1) {
      const Unit u = block.find_unit(cluster);
      const Product &p = all.product[u.product];
      const auto &epilogue = all.epilogue[u.product];
      const float *tile = reinterpret_cast<const float *>(ring.stage);
      if (u.row + TILE <= p.m && epilogue.is_full(u.column + TILE))
        block.template finish_split<true>(tile, epilogue, p, u, all.splits);
      else
        block.template finish_split<false>(tile, epilogue, p, u, all.splits);
    }
  }
  cluster_barrier(); /* one call for both roles: synccheck reports a barrier with two call sites */
}

template <int TERMS, class Schedule>
constexpr int WIDE_SHARED_BYTES = sizeof(Ring<TERMS, Schedule>) + 1024;

} // namespace wide::wgmma
