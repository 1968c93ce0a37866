/* The parts that the rungs of matmul.cu share, and the last rung.

   C (m, n) = A (m, k) B (k, n), all row-major. A block computes a tile of C, BM x BN, from slabs of
   A (BM x BK) and of B (BK x BN) that it copies to shared memory one after the other. */
#ifndef LAB_MATMUL_TILE_CUH
#define LAB_MATMUL_TILE_CUH

#include "copies.cuh"
#include "lab/lab.cuh"

/* In: float or __nv_bfloat16. */
template <class In> struct MatricesOf {
  const In *a, *b; /* of fewer than 2^32 elements each */
  float *c;
  int m, n, k; /* up to 2^30: a tile that hangs over still has int indices */
};

using Matrices = MatricesOf<float>;

template <class In = float> MatricesOf<In> matrices_of(const LabCall *call) {
  const LabSize &size = call->size;
  return {(const In *)call->d_in[0], (const In *)call->d_in[1], (float *)call->d_out,
          (int)size.dim[0],          (int)size.dim[1],          (int)size.dim[2]};
}

/* Tiles are numbered along the rows of C in a grid of one dimension, as the other two end at 65535.
   Blocks that run at the same time share a few slabs of A and go along B side by side, step by
   step: nearly all they read is in the L2 cache, so no cleverer order is needed. */
struct Corner {
  int row, column; /* of C */
};

template <int BM, int BN, class P> __device__ Corner tile_corner(const P &p) {
  const int tiles = ceil_div(p.n, BN);
  return {(int)(blockIdx.x / tiles) * BM, (int)(blockIdx.x % tiles) * BN};
}

template <int BM, int BN, class P> dim3 tile_grid(const P &p) {
  return dim3(lab_blocks(p.m, BM) * lab_blocks(p.n, BN));
}

/* Loads COUNT floats from shared memory, a multiple of 4: quads, each `gap` floats after the one
   before. */
template <int COUNT> __device__ void load_fragment(float (&to)[COUNT], const float *from, int gap) {
#pragma unroll
  for (int q = 0; q < COUNT; q += 4) {
    const float4 v = *reinterpret_cast<const float4 *>(from + q / 4 * gap);
    to[q] = v.x, to[q + 1] = v.y, to[q + 2] = v.z, to[q + 3] = v.w;
  }
}

/* acc (TM, TN) += a (TM) b (TN), in an order that should spare the registers.

   A Hopper scheduler can start one FFMA per cycle, and an FFMA reads three registers. The register
   file has two banks, even and odd numbers, that deliver one each per cycle (measured on Ampere by
   Huerta et al., Analyzing Modern NVIDIA GPU Cores, 2025). By that rule the pace holds only where
   one operand is taken again from the FFMA before (.reuse in SASS) and the other two lie in
   different banks. The compiler chooses registers and marks reuse, but follows the order given:
   columns, down and up in turn, even rows and odd rows apart, has the fewest conflicts in SASS of
   those tried. Take it for a count, not for a cause: what else the rule predicted was not what was
   measured (store_tile, pipelined::kernel). */
template <int TM, int TN>
__device__ void add_outer_product(float (&acc)[TM][TN], const float (&a)[TM],
                                  const float (&b)[TN]) {
  constexpr int EVEN = (TM + 1) / 2;
#pragma unroll
  for (int j = 0; j < TN; j++)
#pragma unroll
    for (int step = 0; step < TM; step++) {
      const int up = j % 2 ? TM - 1 - step : step;
      const int i = up < EVEN ? 2 * up : 2 * (up - EVEN) + 1;
      acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
}

/* Writes a thread's part of C, up to four neighbours in each direction and the next four a gap
   away. One float at a time: one way for every n. 16-byte stores would take fewer instructions, but
   want accumulators in aligned fours of registers, so column j in bank j % 2, right where 16-byte
   loads have put b[j]: by the rule above the loop would lose 5%. Measured, it lost nothing, and the
   whole gained nothing (an H100, 4096, slabs of 16: 46.6 TFLOP/s against 46.4). */
template <bool WHOLE = false, int TM, int TN>
__device__ void store_tile(const Matrices &p, const float (&acc)[TM][TN], int row, int column,
                           int row_gap, int column_gap) {
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) {
      const int r = row + i / 4 * row_gap + i % 4, s = column + j / 4 * column_gap + j % 4;
      if (WHOLE || (r < p.m && s < p.n)) p.c[(int64_t)r * p.n + s] = acc[i][j];
    }
}

/* ---- asynchronous copies --------------------------------------------------------------------- */

/* Copies WIDTH floats (1 or 4) from global to shared memory, without using registers. Where they
   are not in bounds, zeros are written and nothing is read. */
template <int WIDTH> __device__ void copy_async(float *to, const float *from, bool in_bounds) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (WIDTH == 4)
    copy_16_bytes(at, from, in_bounds ? 16 : 0);
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from),
                 "r"(in_bounds ? 4 : 0)
                 : "memory");
}

/* ---- the pipelined gemm ---------------------------------------------------------------------- */

namespace pipelined {

/* All that can be tuned. A warp's lanes are LANES_DOWN x LANES_ACROSS, each with TM x TN of C in
   quads: four rows, four more 4 LANES_DOWN further down, and so on; likewise across. STAGES slabs
   are in shared memory at once, BLOCKS blocks on a multiprocessor.

   128 x 128 per block of four warps, 32 x 128 per warp, two blocks per multiprocessor: while one
   waits at its barrier or writes its tile, the other multiplies. An H100 runs 264 blocks at once;
   the 1024 tiles at 4096 are 3.88 turns of that, which take the time of 4: 97% is the most that can
   be reached. Slabs of 8, four of them at once (33 KB per block), and lanes 4 x 8 were the best of
   the shapes that were measured, 1.5% ahead of lanes 8 x 4; pipelined::kernel tells what the others
   show. */
constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 16, STAGES = 4, BLOCKS = 2;
constexpr int LANES_DOWN = 4, LANES_ACROSS = 32 / LANES_DOWN;
constexpr int WM = LANES_DOWN * TM, WN = LANES_ACROSS * TN; /* the tile of a warp */
constexpr int WARPS_ACROSS = BN / WN, THREADS = 32 * (BM / WM) * WARPS_ACROSS;
/* A slab of A is transposed on its way. A warp copies OCTET neighbours in k of four rows, whole
   sectors of 32 bytes; a pitch of 4 more than BM puts its 32 floats into 32 banks. */
constexpr int PITCH = BM + 4, OCTET = 8, ROWS_AT_ONCE = THREADS / OCTET;
constexpr int A_FLOATS = BK * PITCH, SLAB_FLOATS = A_FLOATS + BK * BN;
static_assert(BM % WM == 0 && BN % WN == 0 && TM % 4 == 0 && TN % 4 == 0, "whole warps");
static_assert(BM % ROWS_AT_ONCE == 0 && BK % OCTET == 0 && BK * BN % (4 * THREADS) == 0,
              "each thread copies as much");
static_assert(STAGES >= 2 && BK % 2 == 0, "two fragments in turns");

/* The slabs that a block copies one after the other, as one of its threads sees them. WHOLE: all
   tiles and slabs end within the matrices, so no copy has to check. */
template <int WIDTH, bool WHOLE> struct SlabCopy {
  static constexpr int PER_LINE = BN / WIDTH; /* copies per line of B's slab */
  static constexpr int ROWS = BM / ROWS_AT_ONCE, LINES = BK * PER_LINE / THREADS;
  const Matrices &p;
  const Corner corner;
  const int eighth, row;                /* of A's slab: the first that this thread copies */
  const float *slab_a, *slab_b;         /* the next slabs: the same in all threads */
  uint32_t from_a[ROWS], from_b[LINES]; /* what this thread copies of them; does not change */
  int k;                                /* where the next slabs start */

  static __device__ int line(int i) {
    return (threadIdx.x + i * THREADS) / PER_LINE;
  }
  static __device__ int column(int i) {
    return (threadIdx.x + i * THREADS) % PER_LINE * WIDTH;
  }
  __device__ SlabCopy(const Matrices &matrices, Corner tile)
      : p(matrices), corner(tile), eighth(threadIdx.x % OCTET), row(threadIdx.x / OCTET),
        slab_a(p.a + (int64_t)tile.row * p.k), slab_b(p.b + tile.column), k(0) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) from_a[r] = (uint32_t)(row + r * ROWS_AT_ONCE) * p.k + eighth;
#pragma unroll
    for (int i = 0; i < LINES; i++) from_b[i] = (uint32_t)line(i) * p.n + column(i);
  }
  /* Queues the next slabs as one group, with zeros, which add nothing, where the matrices have
     ended. */
  __device__ void next(float *to) {
#pragma unroll
    for (int e = 0; e < BK; e += OCTET)
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        copy_async<1>(to + (eighth + e) * PITCH + row + r * ROWS_AT_ONCE, slab_a + from_a[r] + e,
                      k + (WHOLE ? 0 : eighth + e) < p.k &&
                          (WHOLE || corner.row + row + r * ROWS_AT_ONCE < p.m));
#pragma unroll
    for (int i = 0; i < LINES; i++)
      copy_async<WIDTH>(to + A_FLOATS + line(i) * BN + column(i), slab_b + from_b[i],
                        k + (WHOLE ? 0 : line(i)) < p.k &&
                            (WHOLE || corner.column + column(i) < p.n));
    close_copies();
    slab_a += BK;
    slab_b += (int64_t)p.n * BK;
    k += BK;
  }
};

/* C = A B.

   Block: a tile BM x BN of C. Warp: WM x WN of it. Lane: TM x TN of that, in registers. Lanes are
   numbered so that n and n ^ 1 share columns, n and n ^ 2 rows: shared memory then serves two
   quarters of a warp at a time, and a 16-byte load takes 2 wavefronts. A step in k takes 6 such
   loads, 12 cycles of shared memory, and 128 multiply-adds, 128 cycles of one of the four
   schedulers that share it: shared memory is busy for 12 of every 32 cycles.

   What changed: copies are asynchronous. They go into the last of STAGES slabs while the block
   multiplies the first and need no registers. One barrier per slab is left, at which the new slab
   has long arrived. Fragments, too, are loaded a step ahead, the first of a slab during the last
   step of the slab before. The registers that are free now hold a tile of 8 x 16.

   What limits it then is the instructions that a scheduler starts, one per cycle, and what they
   wait for. The loop over a slab of 8 has 1136 in SASS of CUDA 13.0, 1024 of them FFMA: 90% of the
   peak while it lasts, 83% if 102 of them wait a cycle for a register as the rule says. A slab of
   16 has 2242, 2048 and 103: 91% and 87%, and half the barriers. So 16 should have been 5% faster.
   On an H100 it took 10% longer: at 4096 slabs of 16 had 89 to 95% of cuBLAS, slabs of 8 98 to
   101.5%. Most likely it is the loop itself, 36 KB of code against 18, that no longer reaches the
   schedulers fast enough: slabs of 16 with only 8 x 8 per thread, 1024 FFMA again, had 98 to 100%,
   and slabs of 32, 72 KB, only 86%. */
template <int WIDTH, bool WHOLE>
__global__ void __launch_bounds__(THREADS, BLOCKS) kernel(Matrices p) {
#if __CUDA_ARCH__ >= 800 /* the rung is refused on what is older */
  extern __shared__ float4 slabs[];
  float *const shared = reinterpret_cast<float *>(slabs);
  const Corner corner = tile_corner<BM, BN>(p);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int lane_row = lane % 2 + lane / (2 * LANES_ACROSS) * 2;
  const int lane_column = lane / 2 % LANES_ACROSS;
  const int row = warp / WARPS_ACROSS * WM + 4 * lane_row;
  const int column = warp % WARPS_ACROSS * WN + 4 * lane_column;
  constexpr int ROW_GAP = 4 * LANES_DOWN, COLUMN_GAP = 4 * LANES_ACROSS;

  SlabCopy<WIDTH, WHOLE> copy(p, corner);
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) copy.next(shared + s * SLAB_FLOATS);
  await_groups<STAGES - 2>();
  __syncthreads();

  float acc[TM][TN] = {}, a[2][TM], b[2][TN];
  int slab = 0, free_slab = (STAGES - 1) * SLAB_FLOATS;
  load_fragment(a[0], shared + row, ROW_GAP);
  load_fragment(b[0], shared + A_FLOATS + column, COLUMN_GAP);
#pragma unroll 1
  for (int k0 = 0; k0 < p.k; k0 += BK) {
#pragma unroll
    for (int k = 0; k < BK; k++) {
      const int now = k % 2, then = 1 - now, next = (k + 1) % BK;
      if (next == 0) { /* all have read this slab's last fragment, and the next slab is here */
        await_groups<STAGES - 2>();
        __syncthreads();
        free_slab = slab;
        slab = slab == (STAGES - 1) * SLAB_FLOATS ? 0 : slab + SLAB_FLOATS;
      }
      load_fragment(a[then], shared + row + slab + next * PITCH, ROW_GAP);
      load_fragment(b[then], shared + column + slab + A_FLOATS + next * BN, COLUMN_GAP);
      if (k == 0) copy.next(shared + free_slab);
      add_outer_product(acc, a[now], b[now]);
    }
  }

  await_groups<0>(); /* a block must not end while its copies are in flight */
  store_tile<WHOLE>(p, acc, corner.row + row, corner.column + column, ROW_GAP, COLUMN_GAP);
#endif
}

/* 16-byte copies of B need rows that start on 16 bytes; those of A are of 4 bytes in any case. */
inline cudaError_t launch(const LabCall *call) {
  const Matrices p = matrices_of(call);
  const bool whole = p.m % BM == 0 && p.n % BN == 0 && p.k % BK == 0;
  return lab_launch(call,
                    whole          ? kernel<4, true>
                    : p.n % 4 == 0 ? kernel<4, false>
                                   : kernel<1, false>,
                    tile_grid<BM, BN>(p), THREADS, STAGES * SLAB_FLOATS * sizeof(float), p);
}

} // namespace pipelined

#endif
