/* Backward through one layer in one kernel: dX = dZ W times the activation's slope. The slope is
   applied while dX is in a register. At level `none` dX is written, read and written again. */
#include "layer/gemm.cuh"

namespace {

/* The epilogue. It multiplies by the activation's slope (0 for dropped values) and stores dX. */
struct Slopes {
  using Prefetched = Slope;
  using PrefetchedSegment = Floats;
  const float *d_a; /* (rows, in): the layer's input, after activation and dropout */
  float *d_dx;
  int in;
  float scale;
  __device__ Prefetched prefetch(int row, int column) const {
    return activation_slope(d_a[(size_t)row * in + column], scale);
  }
  __device__ void operator()(int row, int column, float value, Prefetched slope) const {
    d_dx[(size_t)row * in + column] = times_slope(slope, value * scale);
  }
  __device__ PrefetchedSegment prefetch_segment(int row, int column) const {
    return load_segment(d_a + (size_t)row * in + column, in - column, in % 4 == 0);
  }
  __device__ void store_segment(int row, int column, Floats value,
                                const PrefetchedSegment &a) const {
    unrolled (e, SEGMENT)
      value.value[e] = times_slope(activation_slope(a.value[e], scale), value.value[e] * scale);
    ::store_segment(d_dx + (size_t)row * in + column, value, in - column, in % 4 == 0);
  }
};

/* Computes dX = dZ W times the slope. Block: a tile of dX. An element takes 2 * out operations. */
template <class Shape, class Gradient, class Weights>
__global__ void __launch_bounds__(Shape::THREADS, Shape::BLOCKS)
    backward_kernel(Gradient dz, Weights w, Slopes dx) {
  tile_of_block<Shape>(dz, w, dz.rows, w.columns, w.rows, dx);
}

template <bool ALONG_VECTOR, bool ACROSS_VECTOR, int TERMS>
cudaError_t backward(int rows, const float *d_dz, const float *d_w, const Slopes &dx, int out,
                     cudaStream_t stream) {
  using Gradient = Matrix<ALONG, ALONG_VECTOR, TERMS>;
  using Weights = Matrix<ACROSS, ACROSS_VECTOR, TERMS>;
  const Gradient dz = {d_dz, rows, out, false};
  const Weights w = {d_w, out, dx.in, false};
  return with_best_tile<LargeTile, true>(rows, dx.in, out, [&](auto shape) {
    using Shape = decltype(shape);
    return launch_pdl(backward_kernel<Shape, Gradient, Weights>, tile_grid<Shape>(rows, dx.in),
                      Shape::THREADS, stream, dz, w, dx);
  });
}

} // namespace

cudaError_t launch_backward(BatchView batch, const float *d_dz, const float *d_w, const float *d_a,
                            float *d_dx, int in, int out, Dropout dropped, int terms,
                            cudaStream_t stream) {
  REQUIRE(given(d_dz, d_w, d_a, d_dx) && out >= 1 && valid_tiling(batch.rows, in) &&
          valid_terms(terms) && valid_dropout(dropped));
  const Slopes dx = {d_a, d_dx, in, dropout_scale(dropped)};
  const bool along = out % 4 == 0, across = in % 4 == 0;
  /* If 4 does not divide a size, values are read one by one and always have three terms. */
  auto run = terms == 3 ? backward<true, true, 3> : backward<true, true, 2>;
  if (!along) run = backward<false, true, 3>;
  if (!across) run = along ? backward<true, false, 3> : backward<false, false, 3>;
  return run(batch.rows, d_dz, d_w, dx, out, stream);
}
