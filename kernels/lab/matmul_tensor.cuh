/* The parts that the tensor-core rungs of matmul.cu share. Rungs for any GPU since Ampere are in
   matmul_mma.cu. Rungs with instructions of compute capability 9.0 are in matmul_hopper.cu.

   C (m, n) = A (m, k) B (k, n), row-major; A and B are bf16, C is float32. A tensor core multiplies
   bf16 numbers exactly and adds in float32, a tile at a time: mma.sync has a warp multiply 16 x 16
   by 16 x 8. */
#pragma once

#include "bf16_split.cuh"
#include "lab/matmul_tile.cuh"

using Bf16Matrices = MatricesOf<__nv_bfloat16>; /* rows start on 16 bytes: k, n multiples of 8 */

/* Writes two neighbours of C, the first of an even column, where they exist. */
__device__ inline void store_pair(float *c, int m, int n, int row, int column, float first,
                                  float second) {
  if (row >= m || column >= n) return;
  float *to = c + (int64_t)row * n + column;
  if (n % 2 == 0) { /* the pair lies on 8 bytes, and both exist */
    *reinterpret_cast<float2 *>(to) = {first, second};
  } else {
    to[0] = first;
    if (column + 1 < n) to[1] = second;
  }
}

/* ---- mma.sync -------------------------------------------------------------------------------- */

/* A block of 8 warps computes 128 x 128 of C, a warp 64 x 32 of that: 4 x 4 tiles of 16 x 8. */
struct WarpTile {
  static constexpr int BM = 128, BN = 128, WM = 64, WN = 32, THREADS = 256;
  float sum[WM / 16][WN / 8][4];

  static __device__ Corner corner() { /* of the warp's part */
    const int warp = threadIdx.x / 32;
    return {warp / (BN / WN) * WM, warp % (BN / WN) * WN};
  }

  /* sum += A B of 16 k. a(row, k) and b(k, column): where 8 neighbours lie in shared memory, of the
     block's slabs. A warp reads 64 + 32 times 16 numbers, 24 wavefronts, and multiplies 1024 times
     32. */
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
          store_pair(c, m, n, tile.row + mine.row + 16 * i + 8 * half + lane / 4,
                     tile.column + mine.column + 8 * j + lane % 4 * 2, sum[i][j][2 * half],
                     sum[i][j][2 * half + 1]);
  }
};

/* ---- launchers ------------------------------------------------------------------------------- */

/* matmul_mma.cu */
cudaError_t launch_matmul_mma(const LabCall *call);
cudaError_t launch_matmul_stages(const LabCall *call);

/* matmul_hopper.cu */
enum HopperRung { TMA, WGMMA, SPECIALISED, CLUSTERS, ONE_TERM, TWO_TERMS };
using HopperLaunch = cudaError_t(const LabCall *call);
extern HopperLaunch *const matmul_hopper[];

/* Returns why a GPU cannot run those (one clause), or NULL. */
const char *matmul_hopper_refuses(const LabCall *call);

/* LabRung.work of products of float32 matrices as TERMS fp16 terms per number: the terms, then two
   scales, and three words that they are made with. */
template <int TERMS> size_t matmul_terms_bytes(const LabCall *call) {
  const size_t m = call->size.dim[0], n = call->size.dim[1], k = call->size.dim[2];
  return TERMS * sizeof(uint16_t) * (m * planes_pitch((int)k) + k * planes_pitch((int)n)) +
         5 * sizeof(uint32_t);
}
