/* The last rung of matmul.cu without tensor cores. */
#pragma once

#include "lab/matmul_tile.cuh"

namespace {
namespace pipelined {

/* All that can be tuned. A lane has TM x TN of C in quads, LANES_DOWN and LANES_ACROSS quads apart.
   STAGES slabs are in shared memory at once, BLOCKS blocks on a multiprocessor: while one waits or
   writes, the other multiplies. docs/lab/matmul.md has what other numbers gave. */
constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 16, STAGES = 4, BLOCKS = 2;
constexpr int LANES_DOWN = 4, LANES_ACROSS = 32 / LANES_DOWN;
constexpr int WM = LANES_DOWN * TM, WN = LANES_ACROSS * TN; /* the tile of a warp */
constexpr int WARPS_ACROSS = BN / WN, THREADS = 32 * (BM / WM) * WARPS_ACROSS;
/* A slab of A is transposed on its way: OCTET neighbours of four rows go to 32 banks. */
constexpr int PITCH = BM + 4, OCTET = 8, ROWS_AT_ONCE = THREADS / OCTET;
constexpr int A_FLOATS = BK * PITCH, SLAB_FLOATS = A_FLOATS + BK * BN;
static_assert(BM % WM == 0 && BN % WN == 0 && TM % 4 == 0 && TN % 4 == 0, "whole warps");
static_assert(BM % ROWS_AT_ONCE == 0 && BK % OCTET == 0 && BK * BN % (4 * THREADS) == 0,
              "each thread copies as much");
static_assert(STAGES >= 2 && BK % 2 == 0, "two fragments in turns");

/* The slabs that a block copies, as a thread sees them. WHOLE: all end within the matrices. */
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
    unrolled (r, ROWS) from_a[r] = (uint32_t)(row + r * ROWS_AT_ONCE) * p.k + eighth;
    unrolled (i, LINES) from_b[i] = (uint32_t)line(i) * p.n + column(i);
  }
  /* Queues the next slabs as a group, with zeros, which add nothing, where matrices have ended. */
  __device__ void next(float *to) {
    unrolled_by (e, BK, OCTET)
      unrolled (r, ROWS)
        copy_async<1>(to + (eighth + e) * PITCH + row + r * ROWS_AT_ONCE, slab_a + from_a[r] + e,
                      k + (WHOLE ? 0 : eighth + e) < p.k &&
                          (WHOLE || corner.row + row + r * ROWS_AT_ONCE < p.m));
    unrolled (i, LINES)
      copy_async<WIDTH>(to + A_FLOATS + line(i) * BN + column(i), slab_b + from_b[i],
                        k + (WHOLE ? 0 : line(i)) < p.k &&
                            (WHOLE || corner.column + column(i) < p.n));
    close_copies();
    slab_a += BK;
    slab_b += (int64_t)p.n * BK;
    k += BK;
  }
};

/* C = A B. Block: a tile BM x BN of C. Warp: WM x WN of it. Lane: TM x TN of that, in registers.
   Lanes n and n ^ 1 share columns, n and n ^ 2 rows: a 16-byte load takes 2 wavefronts. A step in k
   takes 6 such loads, 12 cycles of shared memory, and 128 cycles of one of its four schedulers.

   Copies are asynchronous, into the last of STAGES slabs while the block multiplies the first, and
   one barrier per slab is left. Fragments, too, are loaded a step ahead. The registers that are
   free now hold a tile of 8 x 16. What limits it then is the instructions that a scheduler starts.
 */
template <int WIDTH, bool WHOLE>
__global__ void __launch_bounds__(THREADS, BLOCKS) kernel(Matrices p) {
#if __CUDA_ARCH__ >= 800 /* the rung is refused on what is older */
  extern __shared__ float4 slabs[];
  float *const shared = reinterpret_cast<float *>(slabs);
  const Corner corner = lab_corner<BM, BN>(p.n);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int lane_row = lane % 2 + lane / (2 * LANES_ACROSS) * 2;
  const int lane_column = lane / 2 % LANES_ACROSS;
  const int row = warp / WARPS_ACROSS * WM + 4 * lane_row;
  const int column = warp % WARPS_ACROSS * WN + 4 * lane_column;
  constexpr int ROW_GAP = 4 * LANES_DOWN, COLUMN_GAP = 4 * LANES_ACROSS;

  SlabCopy<WIDTH, WHOLE> copy(p, corner);
  unrolled (s, STAGES - 1) copy.next(shared + s * SLAB_FLOATS);
  await_groups<STAGES - 2>();
  __syncthreads();

  float acc[TM][TN] = {}, a[2][TM], b[2][TN];
  int slab = 0, free_slab = (STAGES - 1) * SLAB_FLOATS;
  load_fragment(a[0], shared + row, ROW_GAP);
  load_fragment(b[0], shared + A_FLOATS + column, COLUMN_GAP);
#pragma unroll 1
  for (int k0 = 0; k0 < p.k; k0 += BK) {
    unrolled (k, BK) {
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
cudaError_t launch(const LabCall *call) {
  const Matrices p = matrices_of(call);
  const bool whole = p.m % BM == 0 && p.n % BN == 0 && p.k % BK == 0;
  return lab_launch(call,
                    whole          ? kernel<4, true>
                    : p.n % 4 == 0 ? kernel<4, false>
                                   : kernel<1, false>,
                    lab_tiles<BM, BN>(p.m, p.n), THREADS, STAGES * SLAB_FLOATS * sizeof(float), p);
}

} // namespace pipelined
} // namespace
