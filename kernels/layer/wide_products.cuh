/* Two kernels for wide layers share this file: wide_wgmma.cuh on compute capability 9.0, and
   wide_mma.cuh on every other GPU from 8.0 on.

   C(m, n) is the sum over k of A(m, k) B(n, k). A and B are fp16 terms in planes (kernels.h). With
   two terms per value, three pairs of terms are multiplied; with one term, one pair. Each kind of
   product (Forward, Backward, Update) says:

     TERMS         how many terms values have
     A, B          how the operands lie in their planes
     INPUT_IS_A    which operand is a layer's input
     HAS_PIXELS    whether this input may be pixels, which have one term
     SKIPS         whether the kernel does nothing in a step without rows
     Epilogue      what happens to the sums

   An Epilogue finishes four neighbours of a row of C at a time, and splits results into terms:

     once()        returns the values that a tile loads once
     is_full()     returns whether all columns before a given end exist and every Quad is aligned
     prefetch()    loads what store() needs; the position may be out of bounds unless FULL
     store()       finishes and stores the neighbours that are in bounds
     store_last()  stores the last column of C if it has an array of its own (LAST_APART) */
#pragma once

#include "layer/planes.cuh"

constexpr int MAX_PRODUCTS = MAX_UPDATES;

namespace wide {

/* Values that are the same for a whole tile, so that a thread loads them once. */
struct Once {
  float scale; /* scale of the planes that the tile writes */
  float rate;
  float one;      /* the input's scale: a factor for biases, whose column of ones is not scaled */
  float unscaled; /* the factor that removes the scales from a finished sum */
  UpdateRule rule;

  template <class Product> __device__ Once of(const Product &p) const {
    return {scale, rate, one, 1.0f / (*p.d_scales[0] * *p.d_scales[1]), rule};
  }
};

/* ---- what epilogues load and store ---------------------------------------------------------- */

/* Loads four values from `column` on. If not FULL, values beyond the row's end are undefined. */
template <bool FULL> __device__ Quad load_quad(const float *row, int column, int columns) {
  Quad q;
  if (FULL || columns % 4 == 0) {
    q = ::load_quad(row + (FULL ? column : min(column, columns - 4)));
  } else {
    unrolled (e, 4) q.value[e] = row[min(column + e, columns - 1)];
  }
  return q;
}

/* Stores four values from `column` on. Skips values beyond the row's end. */
template <bool FULL>
__device__ void store_quad(float *row, int column, int columns, const Quad &q) {
  if (FULL || (columns % 4 == 0 && column + 4 <= columns)) {
    ::store_quad(row + column, q);
  } else {
    unrolled (e, 4)
      if (column + e < columns) row[column + e] = q.value[e];
  }
}

/* ---- forward -------------------------------------------------------------------------------- */

/* Forward: adds the bias, activates and stores Y. */
template <int TERMS_> struct Forward {
  static constexpr int TERMS = TERMS_;
  static constexpr Major A = ALONG_K, B = ALONG_K;
  static constexpr bool INPUT_IS_A = true, HAS_PIXELS = true, SKIPS = false;
  struct Epilogue {
    static constexpr bool LAST_APART = false;
    const float *d_b;
    float *d_y; /* (rows, out), or NULL if Y is not wanted as floats */
    Terms y;    /* y.d is NULL if Y is not wanted as terms */
    bool activates;
    using Prefetched = Quad;
    __device__ Once once() const {
      return {scale_of(y), 0.0f, 0.0f};
    }
    __device__ bool is_full(int columns) const {
      return columns <= y.columns && y.columns % 4 == 0;
    }
    template <bool FULL> __device__ Prefetched prefetch(int, int, int column) const {
      return load_quad<FULL>(d_b, column, y.columns);
    }
    template <bool FULL>
    __device__ void store(int row, int column, Quad value, const Prefetched &bias,
                          const Once &once) const {
      unrolled (e, 4) {
        value.value[e] += bias.value[e];
        if (activates) value.value[e] = activate(value.value[e]);
      }
      if (y.d) store_terms<TERMS, FULL>(y, row, column, value, once.scale);
      if (d_y) store_quad<FULL>(d_y + (size_t)row * y.columns, column, y.columns, value);
    }
  };
};

/* ---- backward ------------------------------------------------------------------------------- */

/* Backward: multiplies the gradient by the activation's slope and stores dX. It takes the slope at
   the first term of the output, which is enough for ReLU only (see wide_by). */
template <int TERMS_> struct Backward {
  static constexpr int TERMS = TERMS_;
  static constexpr Major A = ALONG_K, B = ACROSS_K;
  static constexpr bool INPUT_IS_A = true, HAS_PIXELS = false, SKIPS = false;
  struct Epilogue {
    static constexpr bool LAST_APART = false;
    const uint16_t *d_a; /* the activation's first plane */
    Terms dx;            /* dX has the same pitch as the activation */
    using Prefetched = uint2;
    __device__ Once once() const {
      return {scale_of(dx), 0.0f, 0.0f};
    }
    __device__ bool is_full(int columns) const {
      return columns <= dx.columns;
    }
    template <bool FULL> __device__ Prefetched prefetch(int row, int rows, int column) const {
      const uint16_t *a = d_a + (size_t)(FULL ? row : min(row, rows - 1)) * dx.pitch;
      return *reinterpret_cast<const uint2 *>(a + (FULL ? column : min(column, dx.pitch - 4)));
    }
    template <bool FULL>
    __device__ void store(int row, int column, Quad value, Prefetched a, const Once &once) const {
      const float2 near = unpack_fp16(a.x), far = unpack_fp16(a.y);
      const float y[4] = {near.x, near.y, far.x, far.y};
      unrolled (e, 4) value.value[e] = times_slope(activation_slope(y[e], 1.0f), value.value[e]);
      store_terms<TERMS, FULL>(dx, row, column, value, once.scale);
    }
  };
};

/* ---- update --------------------------------------------------------------------------------- */

/* Applies sgd to W and b, or stores their gradient. Column `in` of C is for b. */
template <int TERMS_> struct Update {
  static constexpr int TERMS = TERMS_;
  static constexpr Major A = ACROSS_K, B = ACROSS_K;
  static constexpr bool INPUT_IS_A = false, HAS_PIXELS = true, SKIPS = true;
  struct Epilogue : Updated {
    static constexpr bool LAST_APART = true;
    Terms w;
    const StepState *d_state; /* holds the learning rate and the rule */
    const float *d_scale;     /* scale of the input */
    struct Prefetched {
      Quad w, v;
    };
    __device__ Once once() const {
      const OptimizerRule &rule = d_state->rule;
      return {
          scale_of(w), d_state->learning_rate, *d_scale, 0.0f, {rule.momentum, rule.weight_decay}};
    }
    __device__ bool is_full(int columns) const {
      return columns <= w.columns && w.columns % 4 == 0;
    }
    template <bool FULL> __device__ Prefetched prefetch(int o, int out, int i) const {
      if (stores) return {};
      const size_t at = (size_t)(FULL ? o : min(o, out - 1)) * w.columns;
      return {load_quad<FULL>(d_w + at, i, w.columns), load_quad<FULL>(d_vw + at, i, w.columns)};
    }
    template <bool FULL>
    __device__ void store(int o, int i, const Quad &gradient, Prefetched p,
                          const Once &once) const {
      const size_t at = (size_t)o * w.columns;
      if (stores) {
        store_quad<FULL>(d_w + at, i, w.columns, gradient);
        return;
      }
      unrolled (e, 4)
        update_value(p.w.value[e], p.v.value[e], gradient.value[e], once.rule, once.rate);
      store_quad<FULL>(d_w + at, i, w.columns, p.w);
      store_quad<FULL>(d_vw + at, i, w.columns, p.v);
      if (w.d) store_terms<TERMS, FULL>(w, o, i, p.w, once.scale);
    }
    /* Updates COUNT biases, or stores their gradient. Ignores rows from `out` on. */
    template <int COUNT>
    __device__ void store_last(const int (&o)[COUNT], const float (&gradient)[COUNT], int out,
                               const Once &once) const {
      float bias[COUNT], v[COUNT];
#pragma unroll
      for (int i = 0; i < COUNT && !stores; i++) {
        bias[i] = d_b[min(o[i], out - 1)];
        v[i] = d_vb[min(o[i], out - 1)];
      }
      unrolled (i, COUNT) {
        if (o[i] >= out) continue;
        if (stores) {
          d_b[o[i]] = gradient[i] * once.one;
        } else {
          update_value(bias[i], v[i], gradient[i] * once.one, {once.rule.momentum, 0.0f},
                       once.rate);
          d_b[o[i]] = bias[i];
          d_vb[o[i]] = v[i];
        }
      }
    }
  };
};

/* ---- tiles of C ------------------------------------------------------------------------------ */

/* Returns a sum's index in shared memory. Columns are swizzled, so lanes use different banks. */
template <int WIDTH> __device__ int tile_at(int row, int column) {
  return row * WIDTH + (column ^ row % 4 * 8);
}

/* Finishes and stores the four sums v. Returns the sum in C's last column if v has that column. */
template <bool FULL, class Product, class Epilogue>
__device__ float finish_quad(const Epilogue &epilogue, const Product &p, int row, int column,
                             const float4 &v, const typename Epilogue::Prefetched &prefetched,
                             const Once &once) {
  const float by = once.unscaled;
  const Quad sum = {{v.x * by, v.y * by, v.z * by, v.w * by}};
  if (FULL || (row < p.m && column < p.n))
    epilogue.template store<FULL>(row, column, sum, prefetched, once);
  const int e = p.n - 1 - column;
  return e == 0 ? sum.value[0] : e == 1 ? sum.value[1] : e == 2 ? sum.value[2] : sum.value[3];
}

/* Stores C's last column if it is one of the four columns from `column` on. Does nothing unless the
   epilogue has a separate array for this column (LAST_APART). */
template <bool FULL, class Product, class Epilogue, int COUNT>
__device__ void finish_last(const Epilogue &epilogue, const Product &p, const int (&row)[COUNT],
                            int column, const float (&last)[COUNT], const Once &once) {
  if constexpr (!FULL && Epilogue::LAST_APART)
    if (column < p.n && p.n <= column + 4) epilogue.store_last(row, last, p.m, once);
}

/* ---- a launch ------------------------------------------------------------------------------- */

/* One product: C is m x n, summed over k. In an Update, n counts the column of ones, too. */
struct Factors {
  Planes a, b;
  int m, n, k;
  bool pixels; /* the layer's input is pixels, which have one plane */
};

/* The work of a launch: `count` products of the same kind. */
template <class Kind> struct Work {
  Factors product[MAX_PRODUCTS];
  typename Kind::Epilogue epilogue[MAX_PRODUCTS];
  int count;

  /* Returns how many tiles of rows x columns all products have together. */
  int tiles(int rows, int columns) const {
    int sum = 0;
    for (int i = 0; i < count; i++)
      sum += ceil_div(product[i].m, rows) * ceil_div(product[i].n, columns);
    return sum;
  }
  /* Returns the largest k of all products. */
  int depth() const {
    int k = 0;
    for (int i = 0; i < count; i++) k = product[i].k > k ? product[i].k : k;
    return k;
  }
};

/* Launch the products. multiply_by_wgmma() returns cudaErrorNotSupported if it was not built. */
template <class Kind>
cudaError_t multiply_by_wgmma(const Work<Kind> &work, const BatchView &batch, cudaStream_t stream);
template <class Kind>
cudaError_t multiply_by_mma(const Work<Kind> &work, const BatchView &batch, cudaStream_t stream);

#define FOR_EACH_WIDE_KIND(DO)                                                                     \
  DO(Forward, 1) DO(Forward, 2) DO(Backward, 1) DO(Backward, 2) DO(Update, 1) DO(Update, 2)

/* The tile side that wide_test_mma() has set, or 0. */
inline std::atomic<int> mma_side{0};

/* Returns true if the program's code for wgmma runs on the current device. */
bool has_wgmma();

/* The facts about the current device that a launch depends on. */
struct Gpu {
  int multiprocessors, shared_bytes; /* shared_bytes: per multiprocessor */
};

static inline cudaError_t ask_gpu(Gpu *gpu) {
  int device;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&gpu->multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&gpu->shared_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                                    device);
  return launched(status);
}

} // namespace wide
