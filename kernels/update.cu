/* Weight gradient and update in one kernel: dW = dZ^T X, then the momentum rule on W, b.

   The gradient lives in registers only. `none` writes it, reads it and then reads and writes W
   and its momentum: 24 bytes a weight; here it is 16. The bias is the weight of an input that is
   always 1: column `in` of X, which exists only in the loads. The rows of a long batch are shared
   by several blocks; the sums have one order all the same: no floating-point atomics, the same
   bits every time. */
#include "tile.cuh"

namespace {

struct MomentumUpdate {
  float *d_w, *d_b, *d_vw, *d_vb;
  UpdateRule rule;
  int out, in;
  float rate; /* set on the device */

  struct Held {
    float w, v;
  };
  __device__ Held hold(int o, int i) const {
    const size_t at = (size_t)o * in + i;
    const float *w = i < in ? d_w + at : d_b + o, *v = i < in ? d_vw + at : d_vb + o;
    return {*w, *v};
  }
  __device__ void operator()(int o, int i, float gradient, Held held) const {
    const size_t at = (size_t)o * in + i;
    const UpdateRule mine = {rule.momentum, i < in ? rule.weight_decay : 0.0f};
    update_value(held.w, held.v, gradient, mine, rate);
    *(i < in ? d_w + at : d_b + o) = held.w;
    *(i < in ? d_vw + at : d_vb + o) = held.v;
  }
};

/* Partial tiles of a gradient whose rows are shared by several blocks, and how many are done. */
struct Parts {
  float *d_partial;   /* (tile, part, ROWS, COLUMNS) */
  unsigned *d_done;   /* (tile), 0 between launches */
  int rows;           /* of the batch for each part */
};

constexpr int TILE_FLOATS = GradientTile::ROWS * GradientTile::COLUMNS;
constexpr int MAX_PART_TILES = 640;  /* that the work space holds */
constexpr int WANTED_BLOCKS = 528;   /* four for each multiprocessor of a big GPU */
constexpr int MIN_PART_ROWS = 128, MAX_PARTS = 16;

/* Where a block that shares a tile leaves its part of the gradient. */
struct StorePart {
  struct Held {};
  float *d_part; /* (ROWS, COLUMNS) */
  int o0, i0;
  __device__ Held hold(int, int) const {
    return {};
  }
  __device__ void operator()(int o, int i, float gradient, Held) const {
    d_part[(o - o0) * GradientTile::COLUMNS + i - i0] = gradient;
  }
};

/* The last block of a tile adds all parts, in their order: the same bits whoever is last. */
__device__ void add_parts(const Parts &parts, const MomentumUpdate &update, int tile) {
  __shared__ bool last;
  __threadfence(); /* the part is visible before it is counted */
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&parts.d_done[tile], 1) == gridDim.z - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  const float *first = parts.d_partial + (size_t)tile * gridDim.z * TILE_FLOATS;
  for (int e = threadIdx.x; e < TILE_FLOATS; e += GradientTile::THREADS) {
    const int o = blockIdx.y * GradientTile::ROWS + e / GradientTile::COLUMNS;
    const int i = blockIdx.x * GradientTile::COLUMNS + e % GradientTile::COLUMNS;
    if (o >= update.out || i > update.in) continue;
    const MomentumUpdate::Held held = update.hold(o, i);
    float sum = 0.0f;
#pragma unroll 4
    for (int part = 0; part < gridDim.z; part++) sum += first[(size_t)part * TILE_FLOATS + e];
    update(o, i, sum, held);
  }
  if (threadIdx.x == 0) parts.d_done[tile] = 0;
}

/* A block a tile of W (out, in + 1). Reads 4 bytes of dZ for COLUMNS and 4 (pixels: 1) of X for
   ROWS multiply-adds, then 8 bytes a weight, written back. */
template <class Gradient, class Input>
__global__ void __launch_bounds__(GradientTile::THREADS, 2)
    update_kernel(Gradient dz, Input x, MomentumUpdate update, BatchView batch) {
  if (rows_of_step(batch) == 0) {
    await_kernel_before(); /* or the kernel after next would not wait for the one before */
    return;
  }
  update.rate = batch.d_state->learning_rate;
  large_tile<GradientTile>(dz, x, update.out, update.in + 1, 0, batch.rows, update);
}

/* The same for a long batch: blockIdx.z tells which part of the rows is the block's. */
template <class Gradient, class Input>
__global__ void __launch_bounds__(GradientTile::THREADS, 3)
    update_in_parts(Gradient dz, Input x, MomentumUpdate update, BatchView batch, Parts parts) {
  if (rows_of_step(batch) == 0) {
    await_kernel_before();
    return;
  }
  update.rate = batch.d_state->learning_rate;
  const int tile = blockIdx.y * gridDim.x + blockIdx.x;
  const int from = blockIdx.z * parts.rows, to = min(from + parts.rows, batch.rows);
  const StorePart part = {
      parts.d_partial + ((size_t)tile * gridDim.z + blockIdx.z) * TILE_FLOATS,
      (int)blockIdx.y * GradientTile::ROWS, (int)blockIdx.x * GradientTile::COLUMNS};
  large_tile<GradientTile>(dz, x, update.out, update.in + 1, from, to, part);
  add_parts(parts, update, tile);
}

template <class Gradient, class Input>
cudaError_t gradient_update(Gradient dz, Input x, const MomentumUpdate &update,
                            const BatchView &batch, void *d_work, cudaStream_t stream) {
  dim3 grid = tile_grid<GradientTile>(update.out, update.in + 1);
  const int tiles = grid.x * grid.y;
  int parts = WANTED_BLOCKS / tiles;
  if (parts > batch.rows / MIN_PART_ROWS) parts = batch.rows / MIN_PART_ROWS;
  if (parts > MAX_PARTS) parts = MAX_PARTS;
  if (parts < 1) parts = 1;
  const int slabs = (batch.rows + GradientTile::DEPTH - 1) / GradientTile::DEPTH;
  const int each = (slabs + parts - 1) / parts;
  grid.z = (slabs + each - 1) / each;
  const Parts shares = {static_cast<float *>(d_work),
                        reinterpret_cast<unsigned *>(static_cast<float *>(d_work) +
                                                     (size_t)MAX_PART_TILES * TILE_FLOATS),
                        each * GradientTile::DEPTH};
  if (grid.z == 1)
    return launch_early(update_kernel<Gradient, Input>, grid, GradientTile::THREADS, stream, dz, x,
                        update, batch);
  return launch_early(update_in_parts<Gradient, Input>, grid, GradientTile::THREADS, stream, dz, x,
                      update, batch, shares);
}

template <bool VECTOR>
cudaError_t gradient_update(const LayerInput &input, const float *d_dz,
                            const MomentumUpdate &update, void *d_work, cudaStream_t stream) {
  const int rows = input.batch.rows;
  const Matrix<ACROSS, VECTOR> dz = {d_dz, rows, update.out, false};
  if (input.d_x)
    return gradient_update(dz, Matrix<ACROSS, VECTOR>{input.d_x, rows, update.in, true}, update,
                           input.batch, d_work, stream);
  return gradient_update(dz, Pixels<ACROSS>{input.batch, update.in, true, 0, 0}, update,
                         input.batch, d_work, stream);
}

} // namespace

size_t update_work_bytes(void) {
  return (size_t)MAX_PART_TILES * (TILE_FLOATS * sizeof(float) + sizeof(unsigned));
}

cudaError_t launch_gradient_update(LayerInput input, UpdateRule rule, const float *d_dz,
                                   float *d_w, float *d_b, float *d_vw, float *d_vb, int in,
                                   int out, void *d_work, cudaStream_t stream) {
  if (!valid_batch(input.batch) || !d_dz || !d_w || !d_b || !d_vw || !d_vb || in < 1 ||
      !d_work || !valid_tiling(out, in))
    return cudaErrorInvalidValue;
  const MomentumUpdate update = {d_w, d_b, d_vw, d_vb, rule, out, in, 0.0f};
  return out % 4 == 0 && (in % 4 == 0 || !input.d_x)
             ? gradient_update<true>(input, d_dz, update, d_work, stream)
             : gradient_update<false>(input, d_dz, update, d_work, stream);
}
