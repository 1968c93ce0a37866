/* The first rungs of matmul on tensor cores, from compute capability 8.0 on: mma.sync, which a warp
   feeds from its registers. */
#include "lab/matmul_warp.cuh"

namespace mma {

constexpr int BK = 32;

/* Rows end with 16 unused bytes, so that the eight rows of an ldmatrix start in different banks. */
struct __align__(16) Slab {
  __nv_bfloat16 a[BM][BK + 8], b[BK][BN + 8];
};

/* sum += A B over the 32 k of a slab. */
__device__ void multiply(WarpTile &tile, const Slab &slab) {
  unrolled_by (k, BK, 16)
    tile.multiply([&](int row, int column) { return &slab.a[row][k + column]; },
                  [&](int row, int column) { return &slab.b[k + row][column]; });
}

/* From each matrix a thread copies COPIES words of 8 neighbours (zeros outside the matrix). */
constexpr int A_ACROSS = BK / 8, B_ACROSS = BN / 8, COPIES = BM * A_ACROSS / THREADS;
static_assert(BM * A_ACROSS == COPIES * THREADS && BK * B_ACROSS == COPIES * THREADS, "all alike");

/* Calls copy(word, to, from, exists) for the 2 COPIES words that this thread copies to the slab
   that starts at k0. `from` may be read only if `exists`. */
template <class Copy>
__device__ void each_word(Slab &slab, const Bf16Matrices &p, const Corner &corner, int k0,
                          const Copy &copy) {
  unrolled (i, COPIES) {
    const int at = threadIdx.x + i * THREADS;
    const int r = at / A_ACROSS, c = at % A_ACROSS * 8, row = corner.row + r;
    const int k = at / B_ACROSS, j = at % B_ACROSS * 8, column = corner.column + j;
    copy(2 * i, &slab.a[r][c], p.a + ((uint32_t)row * p.k + k0 + c), row < p.m && k0 + c < p.k);
    copy(2 * i + 1, &slab.b[k][j], p.b + ((uint32_t)(k0 + k) * p.n + column),
         k0 + k < p.k && column < p.n);
  }
}

/* ---- tensor-cores -------------------------------------------------------------------------------
   C = A B. Block: 128 x 128 of C, in slabs of 32 along k. Warp: 64 x 32 of C. As in `warp-tiles`
   there is one slab in shared memory, and registers carry the next slab there while this one is
   multiplied. Only the multiplication is new: one mma.sync does 64 multiply-adds per lane, and
   ldmatrix hands its operands out to the lanes as the tensor core wants them. */
__global__ void __launch_bounds__(THREADS, 2) tensor_kernel(Bf16Matrices p) {
#if __CUDA_ARCH__ >= 800
  __shared__ Slab slab;
  const Corner corner = lab_corner<BM, BN>(p.n);
  WarpTile tile = {};
  uint4 held[2 * COPIES];
  const auto load = [&](int k0) {
    each_word(slab, p, corner, k0, [&](int word, void *, const void *from, bool exists) {
      held[word] = exists ? *static_cast<const uint4 *>(from) : uint4{};
    });
  };
  load(0);
#pragma unroll 1
  for (int k0 = 0; k0 < p.k; k0 += BK) {
    __syncthreads(); /* all threads have read the previous slab */
    each_word(slab, p, corner, k0, [&](int word, void *to, const void *, bool) {
      *static_cast<uint4 *>(to) = held[word];
    });
    __syncthreads(); /* this slab is complete */
    load(k0 + BK);
    multiply(tile, slab);
  }
  tile.store(p.c, p.m, p.n, corner);
#endif
}

/* ---- stages -------------------------------------------------------------------------------------
   The same tiles, but cp.async copies slabs to shared memory without registers, into a ring of
   four: three arrive while one is multiplied, and one barrier per slab is left. */
constexpr int STAGES = 4;

__device__ void copy_slab(Slab &slab, const Bf16Matrices &p, const Corner &corner, int k0) {
  each_word(slab, p, corner, k0, [&](int, void *to, const void *from, bool exists) {
    copy_async<4>((float *)to, (const float *)(exists ? from : p.a), exists);
  });
  close_copies();
}

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
    multiply(tile, stage[s]);
  }
  await_groups<0>(); /* a block must not end while its copies are in flight */
  tile.store(p.c, p.m, p.n, corner);
#endif
}

} // namespace mma

using namespace mma;

cudaError_t launch_matmul_tensor_cores(const LabCall *call) {
  const Bf16Matrices p = matrices_of<__nv_bfloat16>(call);
  return lab_launch(call, tensor_kernel, lab_tiles<BM, BN>(p.m, p.n), THREADS, 0, p);
}

cudaError_t launch_matmul_stages(const LabCall *call) {
  const Bf16Matrices p = matrices_of<__nv_bfloat16>(call);
  return lab_launch(call, stages_kernel, lab_tiles<BM, BN>(p.m, p.n), THREADS,
                    STAGES * sizeof(Slab), p);
}
