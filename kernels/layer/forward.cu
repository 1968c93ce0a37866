/* Forward through one layer in one kernel: Y = activate(X W^T + b), then dropout. The
   pre-activation never leaves registers. At level `none` it is written and read twice more, 8 bytes
   per value each time. The first layer reads its pixels as bytes, a quarter of float32's size. */
#include "layer/gemm.cuh"

namespace {

/* The epilogue. It adds the bias, activates, applies dropout and stores Y. */
struct Activated {
  using Prefetched = float;
  using PrefetchedSegment = Floats;
  const float *d_b;
  float *d_y;
  int out;
  bool activates;
  Dropout dropout;
  float scale;     /* dropout multiplies kept values by this */
  BatchView batch; /* dropout depends on the rows' positions */
  __device__ Prefetched prefetch(int, int column) const {
    return d_b[column];
  }
  __device__ void operator()(int row, int column, float value, Prefetched bias) const {
    float y = finish(value, bias);
    if (dropout.share > 0.0f) /* the same for all threads of the grid */
      y = drop(y, words(row, column / 4).word[column % 4]);
    d_y[(size_t)row * out + column] = y;
  }
  __device__ PrefetchedSegment prefetch_segment(int, int column) const {
    return load_segment(d_b + column, out - column, true);
  }
  __device__ void store_segment(int row, int column, Floats value,
                                const PrefetchedSegment &bias) const {
    unrolled (e, SEGMENT) value.value[e] = finish(value.value[e], bias.value[e]);
    if (dropout.share > 0.0f)
      unrolled_by (q, SEGMENT, 4) {
        const RandomWords four = words(row, (column + q) / 4);
        unrolled (e, 4) value.value[q + e] = drop(value.value[q + e], four.word[e]);
      }
    ::store_segment(d_y + (size_t)row * out + column, value, out - column, out % 4 == 0);
  }
  __device__ float finish(float value, float bias) const {
    return activates ? activate(value + bias) : value + bias;
  }
  __device__ RandomWords words(int row, int group) const {
    return dropout_words(batch.d_state->dropout_key, dropout.layer, position_of(batch, row), group);
  }
  __device__ float drop(float value, uint32_t word) const {
    return activation_drop(value, scale, random_drops(word, dropout.share));
  }
};

/* Computes Y = activate(X W^T + b). Block: one tile of Y. An element takes 2 * in operations. */
template <class Shape, class Input, class Weights>
__global__ void __launch_bounds__(Shape::THREADS, Shape::BLOCKS)
    forward_kernel(Input x, Weights w, Activated y, int rows) {
  tile_of_block<Shape>(x, w, rows, y.out, w.columns, y);
}

template <bool VECTOR, int TERMS>
cudaError_t forward(const LayerInput &input, const float *d_w, const Activated &y, int in,
                    cudaStream_t stream) {
  using Floats = Matrix<ALONG, VECTOR, TERMS>;
  const int rows = input.batch.rows;
  const Floats w = {d_w, y.out, in, false};
  /* `large` is the tile for large batches. PairTile splits a value of X once for its two
     pieces. Pixels need no split, so for pixels it saves nothing. */
  const auto launch = [&](auto large, auto x) {
    using Input = decltype(x);
    return with_best_tile<decltype(large), (Input::TERMS > 1)>(rows, y.out, in, [&](auto shape) {
      using Shape = decltype(shape);
      return launch_pdl(forward_kernel<Shape, Input, Floats>, tile_grid<Shape>(rows, y.out),
                        Shape::THREADS, stream, x, w, y, rows);
    });
  };
  return input.d_x ? launch(NarrowTile(), Floats{input.d_x, rows, in, false})
                   : launch(PixelTile(), Pixels<ALONG>{input.batch, in, false, 0, 0});
}

} // namespace

cudaError_t launch_forward(LayerInput input, const float *d_w, const float *d_b, float *d_y, int in,
                           int out, int activates, Dropout dropout, int terms,
                           cudaStream_t stream) {
  const int rows = input.batch.rows;
  REQUIRE(given(d_w, d_b, d_y) && in >= 1 && valid_tiling(rows, out) && valid_terms(terms) &&
          valid_dropout(dropout) &&
          ((input.d_x && dropout.share <= 0.0f) || valid_batch(input.batch)));
  const Activated y = {d_b, d_y, out, activates != 0, dropout, dropout_scale(dropout), input.batch};
  /* If 4 does not divide `in`, values are read one by one and always have three terms. */
  auto run = terms == 3 ? forward<true, 3> : forward<true, 2>;
  if (in % 4 != 0) run = forward<false, 3>;
  return run(input, d_w, y, in, stream);
}
