/* The kernel of level `epoch`. tiles.cu explains it. Its variants take long to compile, so they are
   in five files: tiles_first.cu, tiles_second.cu, tiles_mail.cu, tiles_80.cu and
   tiles_without_hidden.cu. */
#pragma once

#include "epoch/tiles_classes.cuh"

namespace tiles {

extern __shared__ __align__(128) unsigned char shared_memory[];

template <class S, bool FIRST, bool LAST>
__device__ __forceinline__ void run_block(const Ground<S> &block) {
  if constexpr (FIRST) {
    if (block.warp < MATRIX)
      PixelWarp<S, !LAST>(block).run();
    else if (block.warp == HELPER)
      HelperWarp<S, !LAST, LAST>(block).run();
    else
      Chain<S, FIRST, LAST>(block).run_first();
  } else {
    if (block.warp >= CHAIN)
      Chain<S, FIRST, LAST>(block).run_later();
    else
      LaterWarp<S, LAST>(block).run();
  }
}

template <class S> __device__ __forceinline__ void run_classes(const Ground<S> &block) {
  if (block.warp >= CHAIN)
    ClassChain<S>(block).run();
  else if (block.warp < MATRIX)
    PixelWarp<S, false>(block).run();
  else
    HelperWarp<S, false, false>(block).run();
}

template <class S> __device__ __forceinline__ void start_barriers(S &s) {
  uint64_t *const barriers[] = {&s.pixels_came[0], &s.pixels_came[1], &s.pixels_came[2],
                                &s.k_came,         &s.logits_came,    &s.head_came};
  if (threadIdx.x == 0) {
    for (uint64_t *barrier : barriers) barrier_init(barrier, 1);
    barriers_are_ready();
    barrier_expect(&s.logits_came, S::ROWS * 64);
    barrier_expect(&s.head_came, S::ROWS * 64);
  }
  __syncthreads();
  if constexpr (!S::MAIL) cluster_fence();
}

template <class S> __device__ __forceinline__ void run_all(const Job &job) {
  S &s = *reinterpret_cast<S *>(shared_memory);
  for (size_t i = threadIdx.x; i < sizeof(S) / 4; i += THREADS)
    reinterpret_cast<uint32_t *>(shared_memory)[i] = 0;
  __syncthreads();
  if constexpr (!S::FROM_80) start_barriers(s);
  /* The block's first eight warps become the chain, because the scheduler prefers them. */
  const int warp = (__shfl_sync(FULL_WARP, threadIdx.x / 32, 0) + CHAIN) % WARPS,
            lane = threadIdx.x % 32;
  int layer = 1;
  while (layer + 1 < job.layers && (int)blockIdx.x >= job.first_block[layer + 1]) layer++;
  const int tile = blockIdx.x - job.first_block[layer];
  const bool last = layer == job.layers - 1;
  const Ground<S> block = {job, s, layer, tile, warp, lane, lane / 4, lane % 4};
  if constexpr (!S::HIDDEN) {
    run_classes(block);
  } else {
    if (S::MAIL && (int)blockIdx.x >= job.first_row_block) return RowBlock<S>(block).run();
    if (!last && tile >= job.tiles[layer]) return;
    if (layer == 1 && last)
      run_block<S, true, true>(block);
    else if (layer == 1)
      run_block<S, true, false>(block);
    else if (last)
      run_block<S, false, true>(block);
    else
      run_block<S, false, false>(block);
  }
}

/* Trains on all steps of the job. Grid: one block per tile of hidden layer 1, then of layer 2, and
   so on. Without mail, each layer's blocks are rounded up to whole clusters. With mail, RowBlocks
   follow the tiles. */
template <int ROWS, bool SECOND, Way WAY>
__global__ void __launch_bounds__(THREADS, 1) tiles_kernel(const __grid_constant__ Job job) {
#if __CUDA_ARCH__ >= 800
  if constexpr (__CUDA_ARCH__ >= 900 || WAY == BY_MAIL_FROM_80)
    run_all<Shared<ROWS, SECOND, WAY>>(job);
#endif
}

template <int ROWS, bool SECOND, Way WAY> Variant variant() {
  using S = Shared<ROWS, SECOND, WAY>;
  return {ROWS,
          SECOND,
          WAY,
          S::AHEAD,
          tiles_kernel<ROWS, SECOND, WAY>,
          sizeof(S),
          (size_t)S::BUFFERS * S::PIXEL_BYTES,
          S::TURNS};
}

} // namespace tiles
