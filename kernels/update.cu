/* Weight gradient and update in one kernel: dW = dZ^T X, then the momentum rule on W, b.

   The gradient lives in registers only. `none` writes it, reads it and then reads and writes W
   and its momentum: 24 bytes a weight; here it is 16. The bias is the weight of an input that is
   always 1: column `in` of X, which exists only in the loads. Each weight has one owner, which
   adds its rows in order: no atomics, the same bits every time. */
#include "tile.cuh"

namespace {

struct MomentumUpdate {
  float *d_w, *d_b, *d_vw, *d_vb;
  UpdateRule rule;
  float rate;
  int in;
  __device__ void operator()(int o, int i, float gradient) const {
    if (i < in) {
      const size_t at = (size_t)o * in + i;
      update_value(d_w[at], d_vw[at], gradient, rule, rate);
    } else {
      update_value(d_b[o], d_vb[o], gradient, UpdateRule{rule.momentum, 0.0f}, rate);
    }
  }
};

/* A block a tile of W (out, in + 1); the sum runs over the rows of the batch. Reads 4 bytes of dZ
   and 4 (pixels: 1) of X for COLUMNS, ROWS multiply-adds, then 8 bytes a weight, written back. */
template <class Shape, class Input>
__global__ void __launch_bounds__(Shape::THREADS)
    update_kernel(MatrixAcross dz, Input x, MomentumUpdate update, BatchView batch) {
  if (rows_of_step(batch) == 0) return;
  update.rate = batch.d_state->learning_rate;
  tile_product<Shape>(dz, x, dz.columns, update.in + 1, batch.rows, update);
}

template <class Input>
void gradient_update(MatrixAcross dz, Input x, const MomentumUpdate &update,
                     const BatchView &batch, cudaStream_t stream) {
  const dim3 grid = tile_grid<GradientTile>(dz.columns, update.in + 1);
  update_kernel<GradientTile>
      <<<grid, GradientTile::THREADS, 0, stream>>>(dz, x, update, batch);
}

} // namespace

cudaError_t launch_gradient_update(LayerInput input, UpdateRule rule, const float *d_dz,
                                   float *d_w, float *d_b, float *d_vw, float *d_vb, int in,
                                   int out, cudaStream_t stream) {
  if (!valid_batch(input.batch) || !d_dz || !d_w || !d_b || !d_vw || !d_vb || in < 1 ||
      !valid_tiling(out, in))
    return cudaErrorInvalidValue;
  const int rows = input.batch.rows;
  const MatrixAcross dz = {d_dz, rows, out, false};
  const MomentumUpdate update = {d_w, d_b, d_vw, d_vb, rule, 0.0f, in};
  if (input.d_x)
    gradient_update(dz, MatrixAcross{input.d_x, rows, in, true}, update, input.batch, stream);
  else
    gradient_update(dz, Pixels<false>{input.batch, in, true}, update, input.batch, stream);
  return launched();
}
