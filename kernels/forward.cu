/* Forward through one layer: Y = relu(X W^T + b), product, bias and ReLU in one kernel.

   Fused, the pre-activation never leaves registers: `none` writes and reads it twice more, 8
   bytes a value each time. The first layer reads its pixels as bytes, a quarter of float32, and
   scales them as they enter shared memory. */
#include "tile.cuh"

namespace {

struct BiasRelu {
  const float *d_b;
  float *d_y;
  int out;
  bool relu;
  __device__ void operator()(int row, int column, float value) const {
    value += d_b[column];
    d_y[(size_t)row * out + column] = relu ? fmaxf(value, 0.0f) : value;
  }
};

/* A block a tile of Y (rows, out). Reads in * (ROWS + COLUMNS) values, does in * ROWS * COLUMNS
   multiply-adds, writes each value of Y once. */
template <class Shape, class Input>
__global__ void __launch_bounds__(Shape::THREADS)
    forward_kernel(Input x, const float *d_w, BiasRelu y, int rows, int in) {
  tile_product<Shape>(x, MatrixAlongK{d_w, y.out, in}, rows, y.out, in, y);
}

template <class Input>
void forward(Input x, const float *d_w, BiasRelu y, int rows, int in, cudaStream_t stream) {
  if (enough_large_tiles(rows, y.out))
    forward_kernel<LargeTile>
        <<<tile_grid<LargeTile>(rows, y.out), LargeTile::THREADS, 0, stream>>>(x, d_w, y, rows, in);
  else
    forward_kernel<SmallTile>
        <<<tile_grid<SmallTile>(rows, y.out), SmallTile::THREADS, 0, stream>>>(x, d_w, y, rows, in);
}

} // namespace

cudaError_t launch_forward(LayerInput input, const float *d_w, const float *d_b, float *d_y,
                           int in, int out, int relu, cudaStream_t stream) {
  const int rows = input.batch.rows;
  if (!d_w || !d_b || !d_y || in < 1 || !valid_tiling(rows, out)) return cudaErrorInvalidValue;
  const BiasRelu y = {d_b, d_y, out, relu != 0};
  if (input.d_x) {
    forward(MatrixAlongK{input.d_x, rows, in}, d_w, y, rows, in, stream);
  } else {
    if (!valid_batch(input.batch)) return cudaErrorInvalidValue;
    forward(Pixels<true>{input.batch, in, false}, d_w, y, rows, in, stream);
  }
  return launched();
}
