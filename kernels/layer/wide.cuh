/* The gemm of wide layers, for compute capability 9.0: one persistent kernel whose warps have
   different parts (warp specialisation).

   C (m, n) = the sum over k of A(m, k) B(n, k), in tiles of 128 x 128. Numbers are bf16 terms in
   planes (kernels.h), split by the kernel that wrote them, so here nothing is converted: of each
   operand all terms of 128 x 64 values are copied once and multiplied with all terms of the other
   (three products for two terms, six for three; the products that gemm.cuh leaves out are left out
   here, too).

                        shared memory: a ring of stages
     producer thread ──TMA──> [A terms | B terms] [A terms | B terms] ... ──wgmma──> consumer 0
                        <────────────────── free ────────────────────                consumer 1

   One thread, the producer, asks the copy engine for patches, as far ahead as there are free
   stages. Two warpgroups of 128 threads, the consumers, take turns: one multiplies tile after tile
   with all the tensor cores of the multiprocessor, while the other one finishes the tile before
   (epilogue). What a consumer holds of its tile are 128 accumulators per thread.

   The blocks of a launch, one per multiprocessor, share out its units: a unit is a tile, or one of
   several splits of its k where tiles alone would leave multiprocessors idle (split-K). The last
   split to be finished adds all of them, in their order. */
#ifndef LAYER_WIDE_CUH
#define LAYER_WIDE_CUH

#include "batch.cuh"
#include "bf16_split.cuh"
#include "layer/hopper.cuh"

constexpr int TILE = 2 * PATCH;    /* rows and columns of a tile */
constexpr int GROUP = 128;         /* threads of a warpgroup */
constexpr int THREADS = 3 * GROUP; /* the producer's, and two of consumers */
constexpr int MAX_PRODUCTS = MAX_UPDATES;
constexpr int TILE_FLOATS = TILE * TILE;

/* One product of a launch. */
struct Product {
  CUtensorMap a, b; /* maps of planes */
  int m, n, k;
  float scale;                          /* of the finished sum */
  bool pixels;                          /* the layer's input has one plane */
  int first_unit;                       /* up to the next product's */
  int tiles_down, splits, split_blocks; /* splits of a tile; each of so many blocks of 64 k */
  float *d_partial;                     /* (tile, split, TILE_FLOATS), if splits > 1 */
  unsigned *d_done;                     /* (tile) splits that are finished, 0 between launches */
};

template <class Epilogue> struct Products {
  Product product[MAX_PRODUCTS];
  Epilogue epilogue[MAX_PRODUCTS];
  int count, units;
};

/* ---- units ---------------------------------------------------------------------------------- */

/* Where a unit lies: its tile, and its part of k. */
struct Unit {
  int product, tile, split, row, column; /* row, column: of the tile's first element */
  int first_block, blocks;               /* of 64 k */
};

template <class Epilogue> __device__ Unit find_unit(const Products<Epilogue> &all, int unit) {
  Unit u;
  u.product = 0;
  while (u.product + 1 < all.count && unit >= all.product[u.product + 1].first_unit) u.product++;
  const Product &p = all.product[u.product];
  const int at = unit - p.first_unit;
  u.tile = at / p.splits, u.split = at % p.splits;
  u.row = u.tile % p.tiles_down * TILE, u.column = u.tile / p.tiles_down * TILE;
  u.first_block = u.split * p.split_blocks;
  u.blocks = min(p.split_blocks, ceil_div(p.k, PATCH) - u.first_block);
  return u;
}

/* ---- the ring ------------------------------------------------------------------------------- */

/* Stages of shared memory. Each has of A, then of B: term by term, two patches. Position p of the
   endless sequence of blocks of k that a multiprocessor works on is stage p % STAGES. */
template <int TERMS> struct Ring {
  static constexpr int STAGES = TERMS == 3 ? 2 : 3;
  static constexpr int TERM_BYTES = 2 * PATCH_BYTES, OPERAND_BYTES = TERMS * TERM_BYTES;
  unsigned char stage[STAGES][2][OPERAND_BYTES];
  uint64_t filled[STAGES], free[STAGES];
  uint64_t turn[2]; /* to multiply, of each consumer */

  __device__ void init() {
    for (int s = 0; s < STAGES; s++) {
      barrier_init(&filled[s], 1);
      barrier_init(&free[s], GROUP / 32);
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

/* Copies block `block` of k of an operand's 128 rows (or columns, of C) from `first` on. */
template <Major MAJOR>
__device__ void copy_operand(const CUtensorMap *map, int terms, int first, int block,
                             unsigned char *to, uint64_t *filled) {
  for (int term = 0; term < terms; term++)
    for (int half = 0; half < 2; half++, to += PATCH_BYTES) {
      const int side = first + PATCH * half, k = PATCH * block;
      copy_patch(to, map, term, MAJOR == ALONG_K ? side : k, MAJOR == ALONG_K ? k : side, filled);
    }
}

/* What the producer does: the stages of all units of this block. */
template <class Kind, int TERMS>
__device__ void produce(const Products<typename Kind::Epilogue> &all, Ring<TERMS> &ring) {
  unsigned position = 0;
  for (int unit = blockIdx.x; unit < all.units; unit += gridDim.x) {
    const Unit u = find_unit(all, unit);
    const Product &p = all.product[u.product];
    const int terms_a = p.pixels && Kind::INPUT_IS_A ? 1 : TERMS;
    const int terms_b = p.pixels && !Kind::INPUT_IS_A ? 1 : TERMS;
    for (int block = 0; block < u.blocks; block++, position++) {
      const int s = ring.stage_of(position);
      barrier_wait(&ring.free[s], ring.phase_of(position) ^ 1);
      barrier_expect(&ring.filled[s], (terms_a + terms_b) * ring.TERM_BYTES);
      copy_operand<Kind::A>(&p.a, terms_a, u.row, u.first_block + block, ring.stage[s][0],
                            &ring.filled[s]);
      copy_operand<Kind::B>(&p.b, terms_b, u.column, u.first_block + block, ring.stage[s][1],
                            &ring.filled[s]);
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
  for (int step = 0; step < PATCH / 16; step++) {
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

/* The sum of a unit: `blocks` stages from `position` on. The tensor cores have one stage in work
   while the next one is handed to them. When the last is filled, it is the other consumer's turn:
   not before, for a barrier tells only its last phase from the one in progress. */
template <class Kind, int TERMS>
__device__ void multiply_unit(Accumulators &c, Ring<TERMS> &ring, unsigned position, int blocks,
                              bool pixels, uint64_t *next_turn) {
#pragma unroll
  for (int e = 0; e < 64; e++) c.half[0][e] = c.half[1][e] = 0.0f;
  const bool tells = threadIdx.x % 32 == 0;
#pragma unroll 1
  for (int block = 0; block < blocks; block++, position++) {
    const int s = ring.stage_of(position);
    barrier_wait(&ring.filled[s], ring.phase_of(position));
    if (block == blocks - 1 && threadIdx.x % GROUP == 0) barrier_arrive(next_turn);
    const uint64_t a = operand_at(shared_address(ring.stage[s][0]));
    const uint64_t b = operand_at(shared_address(ring.stage[s][1]));
    if (Kind::HAS_PIXELS && pixels)
      multiply_stage<Kind, TERMS, true>(c, a, b);
    else
      multiply_stage<Kind, TERMS, false>(c, a, b);
    close_group();
    wait_for_groups<1>();
    if (block > 0 && tells) barrier_arrive(&ring.free[ring.stage_of(position - 1)]);
  }
  wait_for_groups<0>();
  if (tells) barrier_arrive(&ring.free[ring.stage_of(position - 1)]);
#pragma unroll
  for (int e = 0; e < 64; e++) /* no use of them moves up to before the wait */
    asm volatile("" : "+f"(c.half[0][e]), "+f"(c.half[1][e])::"memory");
}

/* ---- split-K -------------------------------------------------------------------------------- */

/* Waits for the threads of this warpgroup. */
__device__ inline void group_barrier(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(GROUP) : "memory");
}

/* Stores this split's sum; if it is the tile's last to come, adds all splits in their order to c
   and returns true. *last: shared memory of this warpgroup. Thread t of the group has float4 i at
   i * GROUP + t. */
__device__ inline bool add_splits(Accumulators &c, const Product &p, const Unit &u, int group,
                                  bool *last) {
  const int thread = threadIdx.x % GROUP;
  float4 *first =
      reinterpret_cast<float4 *>(p.d_partial + (size_t)u.tile * p.splits * TILE_FLOATS) + thread;
  float4 *mine = first + u.split * (TILE_FLOATS / 4);
#pragma unroll
  for (int i = 0; i < 32; i++) {
    const float *v = &c.half[i / 16][i % 16 * 4];
    mine[i * GROUP] = {v[0], v[1], v[2], v[3]};
  }
  __threadfence(); /* the split must be visible before it is counted */
  group_barrier(group);
  if (thread == 0) *last = atomicAdd(&p.d_done[u.tile], 1) == (unsigned)p.splits - 1;
  group_barrier(group);
  if (!*last) return false;
  __threadfence();
  if (thread == 0) p.d_done[u.tile] = 0;
#pragma unroll
  for (int e = 0; e < 64; e++) c.half[0][e] = c.half[1][e] = 0.0f;
#pragma unroll 1
  for (int split = 0; split < p.splits; split++) {
    const float4 *from = first + split * (TILE_FLOATS / 4);
#pragma unroll
    for (int i = 0; i < 32; i++) {
      const float4 v = __ldcg(from + i * GROUP);
      float *sum = &c.half[i / 16][i % 16 * 4];
      sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
    }
  }
  return true;
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

/* Hands the tile at (i0, j0) to the epilogue, quad by quad. A lane has four rows, and of each eight
   quads, 16 columns apart; what the epilogue needs for a row is loaded at once. */
template <class Epilogue>
__device__ void finish_tile(const Accumulators &c, const Epilogue &epilogue, int i0, int j0, int m,
                            int n, float scale) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % GROUP / 32;
  const int column = j0 + lane % 2 * 8 + lane % 4 / 2 * 4;
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int row = i0 + PATCH * half + 16 * warp + lane / 4 + 8 * r;
      typename Epilogue::Prefetched prefetched[8];
#pragma unroll
      for (int q = 0; q < 8; q++)
        if (row < m && column + 16 * q < n) prefetched[q] = epilogue.prefetch(row, column + 16 * q);
#pragma unroll
      for (int q = 0; q < 8; q++) {
        const float *values = &c.half[half][8 * q + 2 * r];
        Quad quad = exchange(values[0], values[1], values[4], values[5]);
#pragma unroll
        for (int e = 0; e < 4; e++) quad.value[e] *= scale;
        if (row < m && column + 16 * q < n)
          epilogue.store(row, column + 16 * q, quad, prefetched[q]);
      }
    }
}

/* What a consumer does: every other unit of this block. */
template <class Kind, int TERMS>
__device__ void consume(const Products<typename Kind::Epilogue> &all, Ring<TERMS> &ring, int group,
                        const BatchView &batch, bool *last) {
  unsigned position = 0;
  int turn = 0;
  for (int unit = blockIdx.x; unit < all.units; unit += gridDim.x, turn++) {
    const Unit u = find_unit(all, unit);
    const Product &p = all.product[u.product];
    if (turn % 2 == group) {
      Accumulators c;
      barrier_wait(&ring.turn[group], (turn / 2 + 1 + group) & 1); /* the very first is given */
      multiply_unit<Kind>(c, ring, position, u.blocks, p.pixels, &ring.turn[1 - group]);
      if (p.splits == 1 || add_splits(c, p, u, group, last))
        finish_tile(c, all.epilogue[u.product].begin(batch), u.row, u.column, p.m, p.n, p.scale);
    }
    position += u.blocks;
  }
}

/* The products of a launch. Kind says how A and B lie in their planes (A, B), which of them a
   layer's input is (INPUT_IS_A), whether that may be pixels (HAS_PIXELS), whether a step without
   rows does nothing (SKIPS), and what is done with the sums (Epilogue). */
template <class Kind, int TERMS>
__global__ void __launch_bounds__(THREADS, 1)
    wide_kernel(__grid_constant__ const Products<typename Kind::Epilogue> all, BatchView batch) {
  extern __shared__ unsigned char shared[];
  __shared__ bool last[2];
  Ring<TERMS> &ring =
      *reinterpret_cast<Ring<TERMS> *>(shared + (1024 - shared_address(shared) % 1024) % 1024);
  const int group = __shfl_sync(FULL_WARP, threadIdx.x / GROUP, 0); /* the same for a warp */
  if (threadIdx.x == 0) {
    ring.init();
    for (int p = 0; p < all.count; p++) {
      prefetch_map(&all.product[p].a);
      prefetch_map(&all.product[p].b);
    }
  }
  __syncthreads();
  pdl_wait();
  if (Kind::SKIPS && rows_of_all_ranks(batch) == 0) return;
  if (group == 0) {
    keep_registers<40>();
    if (threadIdx.x == 0) {
      writes_are_ready_to_copy();
      produce<Kind>(all, ring);
    }
  } else {
    take_registers<232>();
    consume<Kind>(all, ring, group - 1, batch, &last[group - 1]);
  }
}

template <int TERMS> constexpr int WIDE_SHARED_BYTES = sizeof(Ring<TERMS>) + 1024;

#endif
