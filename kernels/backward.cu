/* Backward through one layer: dX = (dZ W) where the activation was positive, else 0.

   The ReLU mask is applied to the finished sum in its register: `none` writes dX, reads it and
   the activation, and writes it again. */
#include "tile.cuh"

namespace {

struct ReluMask {
  const float *d_a; /* (rows, in), the layer's input as the forward pass left it */
  float *d_dx;
  int in;
  __device__ void operator()(int row, int column, float value) const {
    const size_t i = (size_t)row * in + column;
    d_dx[i] = d_a[i] > 0.0f ? value : 0.0f;
  }
};

/* A block a tile of dX (rows, in); the sum runs over the layer's outputs. */
template <class Shape>
__global__ void __launch_bounds__(Shape::THREADS)
    backward_kernel(MatrixAlongK dz, MatrixAcross w, ReluMask dx) {
  tile_product<Shape>(dz, w, dz.rows, w.columns, w.rows, dx);
}

} // namespace

cudaError_t launch_backward(const float *d_dz, const float *d_w, const float *d_a, float *d_dx,
                            int rows, int in, int out, cudaStream_t stream) {
  if (!d_dz || !d_w || !d_a || !d_dx || out < 1 || !valid_tiling(rows, in))
    return cudaErrorInvalidValue;
  const MatrixAlongK dz = {d_dz, rows, out};
  const MatrixAcross w = {d_w, out, in, false};
  const ReluMask dx = {d_a, d_dx, in};
  if (enough_large_tiles(rows, in))
    backward_kernel<LargeTile>
        <<<tile_grid<LargeTile>(rows, in), LargeTile::THREADS, 0, stream>>>(dz, w, dx);
  else
    backward_kernel<SmallTile>
        <<<tile_grid<SmallTile>(rows, in), SmallTile::THREADS, 0, stream>>>(dz, w, dx);
  return launched();
}
