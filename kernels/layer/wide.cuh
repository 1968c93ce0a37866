/* The gemm of wide layers, for compute capability 9.0: one persistent kernel whose warps have
   different parts (warp specialisation).

   C (m, n) = the sum over k of A(m, k) B(n, k), in tiles of 128 x 128. Numbers are bf16 terms in
   planes (kernels.h), split by the kernel that wrote them, so here nothing is converted: of each
   operand all terms of 128 x 32 values are copied once and multiplied with all terms of the other
   (three products for two terms, six for three; the products that gemm.cuh leaves out are left out
   here, too).

                        shared memory: a ring of stages
     producer thread ──TMA──> [A terms | B terms] [A terms | B terms] ... ──wgmma──> consumer 0
                        <────────────────── free ────────────────────                consumer 1

   One thread, the producer, asks the copy engine for patches, as far ahead as there are free
   stages. Two warpgroups of 128 threads, the consumers, take turns: one multiplies tile after tile
   with all the tensor cores of the multiprocessor, while the other one finishes the tile before
   (epilogue). What a consumer holds of its tile are 128 accumulators per thread.

   Blocks, one per multiprocessor, may form clusters:

   - A pair of blocks works on two tiles of the same rows or the same columns. What both need is
     copied once: each block asks for a half and the copy engine writes it to both. That saves a
     quarter of the bytes from the L2 cache, which otherwise are what the tensor cores wait for.
   - Where tiles are too few for all multiprocessors, each block of a cluster sums a part of the k
     of one tile (split-K). Then each adds a part of the tile from the shared memory of all, in
     their order, and finishes it. */
#ifndef LAYER_WIDE_CUH
#define LAYER_WIDE_CUH

#include "batch.cuh"
#include "bf16_split.cuh"
#include "layer/hopper.cuh"

constexpr int TILE = 2 * SIDE;     /* rows and columns of a tile */
constexpr int GROUP = 128;         /* threads of a warpgroup */
constexpr int THREADS = 3 * GROUP; /* the producer's, and two of consumers */
constexpr int MAX_PRODUCTS = MAX_UPDATES;

/* One product of a launch. */
struct Product {
  CUtensorMap a, b; /* maps of planes */
  int m, n, k;
  float scale;      /* of the finished sum */
  bool pixels;      /* the layer's input has one plane */
  int first_unit;   /* up to the next product's */
  int down, across; /* tiles of a unit: 1 x 1, or of a pair 2 x 1 or 1 x 2 */
  int units_down;
};

/* A launch. The blocks of a cluster share a unit: a pair of tiles, or the k of a tile. */
template <class Epilogue> struct Products {
  Product product[MAX_PRODUCTS];
  Epilogue epilogue[MAX_PRODUCTS];
  int count, units;
  int splits, pair; /* blocks of a cluster: splits, or 2 with `pair`, or 1 */
};

/* ---- units ---------------------------------------------------------------------------------- */

/* What this block has of a unit: a tile, and a part of k. */
struct Unit {
  int product, row, column; /* row, column: of the tile's first element */
  int first_block, blocks;  /* of BLOCK k */
};

template <class Epilogue>
__device__ Unit find_unit(const Products<Epilogue> &all, int unit, int rank) {
  Unit u;
  u.product = 0;
  while (u.product + 1 < all.count && unit >= all.product[u.product + 1].first_unit) u.product++;
  const Product &p = all.product[u.product];
  const int at = unit - p.first_unit, blocks = ceil_div(p.k, BLOCK);
  u.row = (at % p.units_down * p.down + (p.down == 2 ? rank : 0)) * TILE;
  u.column = (at / p.units_down * p.across + (p.across == 2 ? rank : 0)) * TILE;
  const int split = all.splits > 1 ? rank : 0;
  u.first_block = blocks * split / all.splits;
  u.blocks = blocks * (split + 1) / all.splits - u.first_block;
  return u;
}

/* ---- the ring ------------------------------------------------------------------------------- */

/* Stages of shared memory. Each has of A, then of B: term by term, two patches. Position p of the
   endless sequence of blocks of k that a multiprocessor works on is stage p % STAGES. */
template <int TERMS> struct Ring {
  static constexpr int STAGES = TERMS == 3 ? 4 : 7;
  static constexpr int TERM_BYTES = 2 * PATCH_BYTES, OPERAND_BYTES = TERMS * TERM_BYTES;
  unsigned char stage[STAGES][2][OPERAND_BYTES];
  uint64_t filled[STAGES], free[STAGES];
  uint64_t turn[2]; /* to multiply, of each consumer */

  /* readers: blocks whose consumers read what this one copies */
  __device__ void init(int readers) {
    for (int s = 0; s < STAGES; s++) {
      barrier_init(&filled[s], 1);
      barrier_init(&free[s], readers * GROUP / 32);
    }
    barrier_init(&turn[0], 1);
    barrier_init(&turn[1], 1);
    barriers_are_ready();
  }
  static __device__ int stage_of(unsigned position) {
    return position % STAGES;
  }
  static __device__ uint32_t phase_of(unsigned position) {
    return position / STAGES & 1;
  }
};

/* Copies block `block` of k of an operand's 128 rows (or columns, of C) from `first` on. both: the
   pair's other block needs the same; this one copies half `rank`. */
template <Major MAJOR>
__device__ void copy_operand(const CUtensorMap *map, int terms, int first, int block,
                             unsigned char *to, uint64_t *filled, bool both, int rank) {
  for (int term = 0; term < terms; term++)
    for (int half = 0; half < 2; half++, to += PATCH_BYTES) {
      const int side = first + SIDE * half, k = BLOCK * block;
      const int row = MAJOR == ALONG_K ? side : k, column = MAJOR == ALONG_K ? k : side;
      if (!both)
        copy_patch(to, map, term, row, column, filled);
      else if (half == rank)
        copy_patch_to_both(to, map, term, row, column, filled);
    }
}

/* What the producer does: the stages of all units of this block. */
template <class Kind, int TERMS>
__device__ void produce(const Products<typename Kind::Epilogue> &all, Ring<TERMS> &ring,
                        int first_unit, int step, int rank) {
  unsigned position = 0;
  for (int unit = first_unit; unit < all.units; unit += step) {
    const Unit u = find_unit(all, unit, rank);
    const Product &p = all.product[u.product];
    const int terms_a = p.pixels && Kind::INPUT_IS_A ? 1 : TERMS;
    const int terms_b = p.pixels && !Kind::INPUT_IS_A ? 1 : TERMS;
    for (int block = u.first_block; block < u.first_block + u.blocks; block++, position++) {
      const int s = ring.stage_of(position);
      barrier_wait(&ring.free[s], ring.phase_of(position) ^ 1);
      barrier_expect(&ring.filled[s], (terms_a + terms_b) * ring.TERM_BYTES);
      copy_operand<Kind::A>(&p.a, terms_a, u.row, block, ring.stage[s][0], &ring.filled[s],
                            p.across == 2, rank);
      copy_operand<Kind::B>(&p.b, terms_b, u.column, block, ring.stage[s][1], &ring.filled[s],
                            p.down == 2, rank);
    }
  }
}

/* ---- multiplying ---------------------------------------------------------------------------- */

/* A thread's part of a tile: of each half of 64 rows what multiply() says. */
struct Accumulators {
  float half[2][64];
};

/* One stage. Of 16 k term by term, the smallest products first; pixels have one term. */
template <class Kind, int TERMS, bool PIXELS>
__device__ void multiply_stage(Accumulators &c, uint64_t a, uint64_t b) {
  constexpr int TERM = 2 * PATCH_BYTES / 16, HALF = PATCH_BYTES / 16;
  start_multiplying();
#pragma unroll
  for (int step = 0; step < BLOCK / 16; step++) {
#pragma unroll
    for (int order = TERMS - 1; order >= 0; order--)
#pragma unroll
      for (int i = 0; i <= order; i++) {
        const int j = order - i;
        if (PIXELS && (Kind::INPUT_IS_A ? i : j) > 0) continue;
        multiply<Kind::A, Kind::B>(c.half[0], a + i * TERM, b + j * TERM);
        multiply<Kind::A, Kind::B>(c.half[1], a + i * TERM + HALF, b + j * TERM);
      }
    a += NEXT_16_K<Kind::A>;
    b += NEXT_16_K<Kind::B>;
  }
}

/* Tells the producers of all `readers` that this warp has read the stage of `position`. */
template <int TERMS> __device__ void release(Ring<TERMS> &ring, unsigned position, int readers) {
  if (threadIdx.x % 32 != 0) return;
  uint64_t *free = &ring.free[ring.stage_of(position)];
  if (readers == 1)
    barrier_arrive(free);
  else
    for (int rank = 0; rank < 2; rank++) barrier_arrive_in(free, rank);
}

/* The sum of a unit: `blocks` stages from `position` on. The tensor cores have one stage in work
   while the next one is handed to them. When the last is filled, it is the other consumer's turn:
   not before, for a barrier tells only its last phase from the one in progress. */
template <class Kind, int TERMS>
__device__ void multiply_unit(Accumulators &c, Ring<TERMS> &ring, unsigned position, int blocks,
                              bool pixels, int readers, uint64_t *next_turn) {
#pragma unroll
  for (int e = 0; e < 64; e++) c.half[0][e] = c.half[1][e] = 0.0f;
#pragma unroll 1
  for (int block = 0; block < blocks; block++, position++) {
    const int s = ring.stage_of(position);
    barrier_wait(&ring.filled[s], ring.phase_of(position));
    if (block == blocks - 1 && threadIdx.x % GROUP == 0) barrier_arrive(next_turn);
    const uint64_t a = operand_at<Kind::A>(shared_address(ring.stage[s][0]));
    const uint64_t b = operand_at<Kind::B>(shared_address(ring.stage[s][1]));
    if (Kind::HAS_PIXELS && pixels)
      multiply_stage<Kind, TERMS, true>(c, a, b);
    else
      multiply_stage<Kind, TERMS, false>(c, a, b);
    close_group();
    wait_for_groups<1>();
    if (block > 0) release(ring, position - 1, readers);
  }
  wait_for_groups<0>();
  release(ring, position - 1, readers);
#pragma unroll
  for (int e = 0; e < 64; e++) /* no use of them moves up to before the wait */
    asm volatile("" : "+f"(c.half[0][e]), "+f"(c.half[1][e])::"memory");
}

/* ---- epilogues ------------------------------------------------------------------------------ */

/* Four neighbours of a row of C. */
struct Quad {
  float value[4];
};

/* Two lanes, 2 i and 2 i + 1, have two neighbours each in two groups of 8 columns: near0 and near1,
   far0 and far1. Returns four neighbours: of the near group to the even lane, of the far one to the
   odd lane. */
__device__ inline Quad exchange(float near0, float near1, float far0, float far1) {
  const bool odd = threadIdx.x % 2;
  const float first = __shfl_xor_sync(FULL_WARP, odd ? near0 : far0, 1);
  const float second = __shfl_xor_sync(FULL_WARP, odd ? near1 : far1, 1);
  return {{odd ? first : near0, odd ? second : near1, odd ? far0 : first, odd ? far1 : second}};
}

/* A tile is finished in PIECES pieces of 64 x 16: of each a thread has eight accumulators in a row,
   from 8 * (piece % 8) of half piece / 8 on. They are a quad in each of two rows, 8 apart. */
constexpr int PIECES = 16;

template <class Epilogue> struct Finish {
  const Epilogue &epilogue;
  int m, n, row, column; /* of piece 0, this thread's first quad */
  float scale;
  struct Prefetched {
    typename Epilogue::Prefetched quad[2];
  };
  __device__ Finish(const Epilogue &epilogue, const Product &p, const Unit &u)
      : epilogue(epilogue), m(p.m), n(p.n), scale(p.scale) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x % GROUP / 32;
    row = u.row + 16 * warp + lane / 4;
    column = u.column + lane % 2 * 8 + lane % 4 / 2 * 4;
  }
  __device__ bool exists(int piece, int r) const {
    return row + piece / 8 * SIDE + 8 * r < m && column + piece % 8 * 16 < n;
  }
  __device__ void prefetch(int piece, Prefetched &to) const {
#pragma unroll
    for (int r = 0; r < 2; r++)
      if (exists(piece, r))
        to.quad[r] = epilogue.prefetch(row + piece / 8 * SIDE + 8 * r, column + piece % 8 * 16);
  }
  /* values: the eight accumulators. Called by whole warps. */
  __device__ void store(int piece, const float *values, const Prefetched &prefetched) const {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      Quad quad = exchange(values[2 * r], values[2 * r + 1], values[4 + 2 * r], values[5 + 2 * r]);
#pragma unroll
      for (int e = 0; e < 4; e++) quad.value[e] *= scale;
      if (exists(piece, r))
        epilogue.store(row + piece / 8 * SIDE + 8 * r, column + piece % 8 * 16, quad,
                       prefetched.quad[r]);
    }
  }
};

constexpr int AHEAD = 3; /* pieces whose prefetched values are in flight */

/* Finishes a whole tile. */
template <class Epilogue>
__device__ void finish_tile(const Accumulators &c, const Finish<Epilogue> &finish) {
  typename Finish<Epilogue>::Prefetched prefetched[AHEAD];
#pragma unroll
  for (int i = 0; i < AHEAD; i++) finish.prefetch(i, prefetched[i]);
#pragma unroll
  for (int i = 0; i < PIECES; i++) {
    finish.store(i, &c.half[i / 8][i % 8 * 8], prefetched[i % AHEAD]);
    if (i + AHEAD < PIECES) finish.prefetch(i + AHEAD, prefetched[i % AHEAD]);
  }
}

/* ---- split-K -------------------------------------------------------------------------------- */

/* Where a thread's accumulators lie in shared memory for the other blocks, 16 bytes of them. */
__device__ inline unsigned split_at(int part) {
  return (part * GROUP + threadIdx.x % GROUP) * sizeof(float4);
}

__device__ inline void store_split(const Accumulators &c, unsigned char *shared) {
#pragma unroll
  for (int i = 0; i < 2 * PIECES; i++) {
    const float *v = &c.half[i / 16][i % 16 * 4];
    *reinterpret_cast<float4 *>(shared + split_at(i)) = {v[0], v[1], v[2], v[3]};
  }
}

/* Finishes every splits-th piece of the tile, from this block's rank on; the two consumers take
   them in turn. The splits are added in their order. */
template <class Epilogue>
__device__ void finish_split(const unsigned char *shared, const Finish<Epilogue> &finish,
                             int splits, int rank, int group) {
#pragma unroll 1
  for (int piece = rank + group * splits; piece < PIECES; piece += 2 * splits) {
    typename Finish<Epilogue>::Prefetched prefetched;
    finish.prefetch(piece, prefetched);
    float sum[8] = {};
#pragma unroll 4
    for (int split = 0; split < splits; split++) {
      const uint32_t from = address_in(shared_address(shared), split);
      const float4 near = load_cluster(from + split_at(2 * piece));
      const float4 far = load_cluster(from + split_at(2 * piece + 1));
      sum[0] += near.x, sum[1] += near.y, sum[2] += near.z, sum[3] += near.w;
      sum[4] += far.x, sum[5] += far.y, sum[6] += far.z, sum[7] += far.w;
    }
    finish.store(piece, sum, prefetched);
  }
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* What a consumer does: every other unit of this block. */
template <class Kind, int TERMS>
__device__ void consume(const Products<typename Kind::Epilogue> &all, Ring<TERMS> &ring, int group,
                        const BatchView &batch, int first_unit, int step, int rank) {
  unsigned position = 0;
  int turn = 0;
  for (int unit = first_unit; unit < all.units; unit += step, turn++) {
    const Unit u = find_unit(all, unit, rank);
    const Product &p = all.product[u.product];
    if (turn % 2 == group) {
      Accumulators c;
      barrier_wait(&ring.turn[group], (turn / 2 + 1 + group) & 1); /* the very first is given */
      multiply_unit<Kind>(c, ring, position, u.blocks, p.pixels, all.pair ? 2 : 1,
                          &ring.turn[1 - group]);
      if (all.splits == 1)
        finish_tile(c, Finish<typename Kind::Epilogue>(all.epilogue[u.product].begin(batch), p, u));
      else
        store_split(c, ring.stage[0][0]);
    }
    position += u.blocks;
  }
}

/* The products of a launch. Kind says how A and B lie in their planes (A, B), which of them a
   layer's input is (INPUT_IS_A), whether that may be pixels (HAS_PIXELS), whether a step without
   rows does nothing (SKIPS), and what is done with the sums (Epilogue). Blocks stay until nobody
   reads or writes their shared memory any more. */
template <class Kind, int TERMS>
__global__ void __launch_bounds__(THREADS, 1)
    wide_kernel(__grid_constant__ const Products<typename Kind::Epilogue> all, BatchView batch) {
  using Epilogue = typename Kind::Epilogue;
  extern __shared__ unsigned char shared[];
  Ring<TERMS> &ring =
      *reinterpret_cast<Ring<TERMS> *>(shared + (1024 - shared_address(shared) % 1024) % 1024);
  const int group = __shfl_sync(FULL_WARP, threadIdx.x / GROUP, 0); /* the same for a warp */
  const int blocks = all.pair ? 2 : all.splits, rank = cluster_rank();
  const int first_unit = blockIdx.x / blocks, step = gridDim.x / blocks;
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
      produce<Kind>(all, ring, first_unit, step, rank);
    }
    __syncwarp();
    if (all.splits > 1) cluster_fence();
    cluster_barrier();
  } else {
    take_registers<232>();
    consume<Kind>(all, ring, group - 1, batch, first_unit, step, rank);
    if (all.splits > 1) {
      cluster_fence();
      const Unit u = find_unit(all, first_unit, rank);
      const Epilogue epilogue = all.epilogue[u.product].begin(batch);
      finish_split(ring.stage[0][0], Finish<Epilogue>(epilogue, all.product[u.product], u),
                   all.splits, rank, group - 1);
    }
    cluster_barrier();
  }
}

template <int TERMS> constexpr int WIDE_SHARED_BYTES = sizeof(Ring<TERMS>) + 1024;

#endif
