/* The first rung of matmul on tensor cores: mma.sync, from compute capability 8.0 on. */
#include "lab/matmul_tile.cuh"

namespace mma {

/* A block of 8 warps computes 128 x 128 of C. A warp computes 64 x 32: 4 x 4 tiles of 16 x 8. */
constexpr int BM = 128, BN = 128, BK = 32, WM = 64, WN = 32, THREADS = 256;

/* Rows end with 16 unused bytes, so that the eight rows of an ldmatrix start in different banks. */
struct __align__(16) Slab {
  __nv_bfloat16 a[BM][BK + 8], b[BK][BN + 8];
};

struct WarpTile {
  float sum[WM / 16][WN / 8][4];

  static __device__ Corner corner() { /* where the warp starts in the block's tile */
    const int warp = threadIdx.x / 32;
    return {warp / (BN / WN) * WM, warp % (BN / WN) * WN};
  }

  /* sum += A B over the 32 k of a slab. */
  __device__ void multiply(const Slab &slab) {
    const int lane = threadIdx.x % 32;
    const Corner mine = corner();
    unrolled_by (k, BK, 16) {
      uint32_t left[WM / 16][4], right[WN / 16][4];
      unrolled (i, WM / 16)
        ldmatrix_x4(left[i], &slab.a[mine.row + 16 * i + lane % 16][k + lane / 16 * 8]);
      unrolled (j, WN / 16)
        ldmatrix_x4_trans(right[j], &slab.b[k + lane % 16][mine.column + 16 * j + lane / 16 * 8]);
      unrolled (i, WM / 16)
        unrolled (j, WN / 8)
          mma_m16n8k16(sum[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
  }

  __device__ void store(const Bf16Matrices &p, const Corner &tile) const {
    const int lane = threadIdx.x % 32;
    const Corner mine = corner();
    unrolled (i, WM / 16)
      unrolled (j, WN / 8)
        unrolled (half, 2)
          store_word<2>(p.c, p.m, p.n, tile.row + mine.row + 16 * i + 8 * half + lane / 4,
                        tile.column + mine.column + 8 * j + lane % 4 * 2,
                        {sum[i][j][2 * half], sum[i][j][2 * half + 1]});
  }
};

/* From each matrix a thread copies COPIES words of 8 neighbours (zeros outside the matrix). */
constexpr int A_ACROSS = BK / 8, B_ACROSS = BN / 8, COPIES = BM * A_ACROSS / THREADS;
static_assert(BM * A_ACROSS == COPIES * THREADS && BK * B_ACROSS == COPIES * THREADS, "all alike");

__device__ void copy_eight(__nv_bfloat16 *to, const __nv_bfloat16 *from, bool exists,
                           const Bf16Matrices &p) {
  copy_async<4>((float *)to, (const float *)(exists ? from : p.a), exists);
}

__device__ void copy_slab(Slab &slab, const Bf16Matrices &p, const Corner &corner, int k0) {
  unrolled (i, COPIES) {
    const int at = threadIdx.x + i * THREADS;
    const int r = at / A_ACROSS, c = at % A_ACROSS * 8, row = corner.row + r;
    const int k = at / B_ACROSS, j = at % B_ACROSS * 8, column = corner.column + j;
    copy_eight(&slab.a[r][c], p.a + (int64_t)row * p.k + k0 + c, row < p.m && k0 + c < p.k, p);
    copy_eight(&slab.b[k][j], p.b + (int64_t)(k0 + k) * p.n + column, k0 + k < p.k && column < p.n,
               p);
  }
  close_copies();
}

/* C = A B. Block: 128 x 128 of C, in slabs of 32 along k. Warp: 64 x 32 of C. An mma.sync does 64
   multiply-adds per lane. For 1024 multiply-adds per lane, ldmatrix loads the operands in 24
   wavefronts. cp.async copies slabs into a ring of four: three arrive while one is multiplied. */
constexpr int STAGES = 4;

__global__ void __launch_bounds__(THREADS, 2) stages_kernel(Bf16Matrices p) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ float4 shared[];
  Slab *const stage = reinterpret_cast<Slab *>(shared);
  const Corner corner = lab_corner<BM, BN>(p.n);
  WarpTile tile = {};
  unrolled (s, STAGES - 1) copy_slab(stage[s], p, corner, s * BK);
#pragma unroll 1
  for (int k0 = 0, s = 0; k0 < p.k; k0 += BK, s = (s + 1) % STAGES) {
    await_groups<STAGES - 2>(); /* this thread's copies to slab s have arrived */
    __syncthreads();            /* slab s is complete; all threads have read the previous slab */
    copy_slab(stage[(s + STAGES - 1) % STAGES], p, corner, k0 + (STAGES - 1) * BK);
    tile.multiply(stage[s]);
  }
  await_groups<0>(); /* a block must not end while its copies are in flight */
  tile.store(p, corner);
#endif
}

} // namespace mma

using namespace mma;

cudaError_t launch_matmul_stages(const LabCall *call) {
  const Bf16Matrices p = matrices_of<__nv_bfloat16>(call);
  return lab_launch(call, stages_kernel, lab_tiles<BM, BN>(p.m, p.n), THREADS,
                    STAGES * sizeof(Slab), p);
}
