/* The part of a warp in the rungs of matmul that multiply by mma.sync: `tensor-cores` and `stages`
   (matmul_mma.cu), and `tma` (matmul_hopper.cu). These rungs differ only in how the slabs of A and
   B get to shared memory, and how they lie there. */
#pragma once

#include "lab/matmul_tile.cuh"

namespace mma {

/* A block of 8 warps computes 128 x 128 of C. A warp computes 64 x 32: 4 x 4 tiles of 16 x 8. */
constexpr int BM = 128, BN = 128, WM = 64, WN = 32, THREADS = 256;

struct WarpTile {
  float sum[WM / 16][WN / 8][4];

  static __device__ Corner corner() { /* where the warp starts in the block's tile */
    const int warp = threadIdx.x / 32;
    return {warp / (BN / WN) * WM, warp % (BN / WN) * WN};
  }

  /* sum += A B over 16 k of a slab. a(row, k) and b(k, column) return the place in shared memory of
     eight neighbours. For 1024 multiply-adds per lane, ldmatrix loads the operands in 24
     wavefronts. */
  template <class A, class B> __device__ void multiply(const A &a, const B &b) {
    const int lane = threadIdx.x % 32;
    const Corner mine = corner();
    uint32_t left[WM / 16][4], right[WN / 16][4];
    unrolled (i, WM / 16) ldmatrix_x4(left[i], a(mine.row + 16 * i + lane % 16, lane / 16 * 8));
    unrolled (j, WN / 16)
      ldmatrix_x4_trans(right[j], b(lane % 16, mine.column + 16 * j + lane / 16 * 8));
    unrolled (i, WM / 16)
      unrolled (j, WN / 8)
        mma_m16n8k16(sum[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
  }

  __device__ void store(float *c, int m, int n, const Corner &tile) const {
    const int lane = threadIdx.x % 32;
    const Corner mine = corner();
    unrolled (i, WM / 16)
      unrolled (j, WN / 8)
        unrolled (half, 2)
          store_word<2>(c, m, n, tile.row + mine.row + 16 * i + 8 * half + lane / 4,
                        tile.column + mine.column + 8 * j + lane % 4 * 2,
                        {sum[i][j][2 * half], sum[i][j][2 * half + 1]});
  }
};

} // namespace mma
