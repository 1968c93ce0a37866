/* The first rungs of matmul on tensor cores, for compute capability 8.0 and later: mma.sync, which
   a warp feeds from its registers. */
#include "lab/matmul_tensor.cuh"

namespace {

/* ---- slabs ----------------------------------------------------------------------------------- */

/* Rows 16 bytes longer than they need be: the eight rows that ldmatrix reads at a time start in
   eight different groups of four banks. */
constexpr int BM = WarpTile::BM, BN = WarpTile::BN, BK = 32, THREADS = WarpTile::THREADS;
struct __align__(16) Slab {
  __nv_bfloat16 a[BM][BK + 8], b[BK][BN + 8];
};

/* A thread copies COPIES times 8 neighbours of each slab. */
constexpr int A_ACROSS = BK / 8, B_ACROSS = BN / 8, COPIES = BM * A_ACROSS / THREADS;
static_assert(BM * A_ACROSS == COPIES * THREADS && BK * B_ACROSS == COPIES * THREADS, "all alike");

/* Calls use(matrix, piece, place in the slab, exists, place in the matrix) for the pieces of A (0)
   and B (1) that this thread copies. */
template <class Use>
__device__ void each_piece(Slab &slab, const Bf16Matrices &p, const Corner &corner, int k0,
                           Use use) {
  unrolled (i, COPIES) {
    const int at = threadIdx.x + i * THREADS;
    const int r = at / A_ACROSS, c = at % A_ACROSS * 8, row = corner.row + r;
    const int k = at / B_ACROSS, j = at % B_ACROSS * 8, column = corner.column + j;
    use(0, i, &slab.a[r][c], row < p.m && k0 + c < p.k, p.a + (int64_t)row * p.k + k0 + c);
    use(1, i, &slab.b[k][j], k0 + k < p.k && column < p.n, p.b + (int64_t)(k0 + k) * p.n + column);
  }
}

/* The sums of one slab. */
[[maybe_unused]] __device__ void multiply_slab(WarpTile &tile, const Slab &slab) {
  unrolled_by (k, BK, 16)
    tile.multiply([&](int row, int column) { return &slab.a[row][k + column]; },
                  [&](int row, int column) { return &slab.b[k + row][column]; });
}

/* ---- mma.sync -------------------------------------------------------------------------------- */

/* C = A B. Block: 128 x 128 of C, slabs of 32. Warp: 64 x 32.

   What changed, since warp-tiles: one mma.sync does 64 multiply-adds for each lane, and what it
   takes comes from shared memory by ldmatrix, which hands 8 x 8 numbers out to a warp as the tensor
   core wants them, transposed for B. 16 mma.sync on six ldmatrix: 24 wavefronts for 1024
   multiply-adds of a warp. Registers carry the next slab from global to shared memory. */
__global__ void __launch_bounds__(THREADS, 2) mma_kernel(Bf16Matrices p) {
#if __CUDA_ARCH__ >= 800
  __shared__ Slab slab;
  const Corner corner = lab_corner<BM, BN>(p.n);
  WarpTile tile = {};
  uint4 held[2][COPIES];
  using Number = __nv_bfloat16;
  const auto load = [&](int k0) {
    each_piece(slab, p, corner, k0, [&](int x, int i, Number *, bool exists, const Number *from) {
      held[x][i] = exists ? *reinterpret_cast<const uint4 *>(from) : uint4{};
    });
  };
  load(0);
#pragma unroll 1
  for (int k0 = 0; k0 < p.k; k0 += BK) {
    __syncthreads();
    each_piece(slab, p, corner, k0, [&](int x, int i, Number *to, bool, const Number *) {
      *reinterpret_cast<uint4 *>(to) = held[x][i];
    });
    __syncthreads();
    load(k0 + BK);
    multiply_slab(tile, slab);
  }
  tile.store(p.c, p.m, p.n, corner);
#endif
}

/* ---- a ring of stages ------------------------------------------------------------------------ */

/* Change: as in async-copies, cp.async brings slabs without registers, into a ring of four.
   Three are on their way while one is multiplied, and one barrier per slab is left. */
constexpr int STAGES = 4;

[[maybe_unused]] __device__ void copy_slab(Slab &slab, const Bf16Matrices &p, const Corner &corner,
                                           int k0) {
  each_piece(slab, p, corner, k0, [&](int, int, void *to, bool exists, const void *from) {
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
    await_groups<STAGES - 2>(); /* this thread's part of slab s is here */
    __syncthreads();            /* everyone's; and nobody reads the slab before it any more */
    copy_slab(stage[(s + STAGES - 1) % STAGES], p, corner, k0 + (STAGES - 1) * BK);
    multiply_slab(tile, stage[s]);
  }
  await_groups<0>(); /* a block must not end while its copies are in flight */
  tile.store(p.c, p.m, p.n, corner);
#endif
}

} // namespace

cudaError_t launch_matmul_mma(const LabCall *call) {
  const Bf16Matrices p = matrices_of<__nv_bfloat16>(call);
  return lab_launch(call, mma_kernel, lab_tiles<BM, BN>(p.m, p.n), THREADS, 0, p);
}

cudaError_t launch_matmul_stages(const LabCall *call) {
  const Bf16Matrices p = matrices_of<__nv_bfloat16>(call);
  return lab_launch(call, stages_kernel, lab_tiles<BM, BN>(p.m, p.n), THREADS,
                    STAGES * sizeof(Slab), p);
}
