/* Forward, backward and update of wide layers, on compute capability 9.0: the gemm of wide.cuh with
   the epilogues of forward.cu, backward.cu and update.cu.

   Here an epilogue also splits what it has made into bf16 terms, once, for every tile that will
   read it: activations, gradients, and weights beside their float32 masters.

   The Makefile compiles this file for sm_90a, whose code no other GPU runs. Where it cannot, the
   launchers refuse. */
#include "kernels.h"

#ifdef HAVE_SM_90A

#include "layer/wide.cuh"

namespace {

/* ---- what epilogues load and store ---------------------------------------------------------- */

/* Four neighbours, of which the first `count` exist; in one load or store where they are aligned
   (`vector`). */
__device__ Quad load_quad(const float *p, int count, bool vector) {
  Quad q = {};
  if (vector && count >= 4) {
    const float4 v = *reinterpret_cast<const float4 *>(p);
    q = {{v.x, v.y, v.z, v.w}};
  } else {
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (e < count) q.value[e] = p[e];
  }
  return q;
}

__device__ void store_quad(float *p, const Quad &q, int count, bool vector) {
  if (vector && count >= 4) {
    *reinterpret_cast<float4 *>(p) = {q.value[0], q.value[1], q.value[2], q.value[3]};
  } else {
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (e < count) p[e] = q.value[e];
  }
}

/* Planes to be written: (TERMS, rows, pitch). */
struct Terms {
  uint16_t *d;
  size_t plane;
  int pitch, columns;
};

template <int TERMS>
__device__ void store_terms(const Terms &t, int row, int column, const Quad &q) {
  uint32_t near[TERMS], far[TERMS];
  split_terms(q.value[0], q.value[1], near);
  split_terms(q.value[2], q.value[3], far);
  uint16_t *to = t.d + (size_t)row * t.pitch + column;
#pragma unroll
  for (int term = 0; term < TERMS; term++, to += t.plane) {
    if (column + 4 <= t.columns) {
      *reinterpret_cast<uint2 *>(to) = {near[term], far[term]};
    } else { /* what follows the columns is not ours: the one */
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (column + e < t.columns) to[e] = (uint16_t)((e < 2 ? near : far)[term] >> 16 * (e % 2));
    }
  }
}

/* ---- forward -------------------------------------------------------------------------------- */

/* Adds the bias, applies ReLU, stores Y. */
template <int TERMS> struct Forward {
  static constexpr Major A = ALONG_K, B = ALONG_K;
  static constexpr bool INPUT_IS_A = true, HAS_PIXELS = true, SKIPS = false;
  struct Epilogue {
    const float *d_b;
    float *d_y; /* (rows, out), or NULL */
    Terms y;    /* or d NULL */
    bool relu;
    using Prefetched = Quad;
    __device__ const Epilogue &begin(const BatchView &) const {
      return *this;
    }
    __device__ Prefetched prefetch(int, int column) const {
      return load_quad(d_b + column, y.columns - column, true);
    }
    __device__ void store(int row, int column, Quad value, const Prefetched &bias) const {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        value.value[e] += bias.value[e];
        if (relu) value.value[e] = relu_of(value.value[e]);
      }
      if (y.d) store_terms<TERMS>(y, row, column, value);
      if (d_y)
        store_quad(d_y + (size_t)row * y.columns + column, value, y.columns - column,
                   y.columns % 4 == 0);
    }
  };
};

/* ---- backward ------------------------------------------------------------------------------- */

/* Masks the gradient by the activation, of which the first term says enough, and stores dX. */
template <int TERMS> struct Backward {
  static constexpr Major A = ALONG_K, B = ACROSS_K;
  static constexpr bool INPUT_IS_A = true, HAS_PIXELS = false, SKIPS = false;
  struct Epilogue {
    const uint16_t *d_a; /* its first plane */
    Terms dx;            /* of the same pitch */
    using Prefetched = uint2;
    __device__ const Epilogue &begin(const BatchView &) const {
      return *this;
    }
    __device__ Prefetched prefetch(int row, int column) const {
      return *reinterpret_cast<const uint2 *>(d_a + (size_t)row * dx.pitch + column);
    }
    __device__ void store(int row, int column, Quad value, Prefetched a) const {
      if (first_of(a.x) <= 0.0f) value.value[0] = 0.0f;
      if (second_of(a.x) <= 0.0f) value.value[1] = 0.0f;
      if (first_of(a.y) <= 0.0f) value.value[2] = 0.0f;
      if (second_of(a.y) <= 0.0f) value.value[3] = 0.0f;
      store_terms<TERMS>(dx, row, column, value);
    }
  };
};

/* ---- update --------------------------------------------------------------------------------- */

/* Applies the momentum rule to W and b, or stores their gradient; the bias is the weight of column
   `in`. */
template <int TERMS> struct Update {
  static constexpr Major A = ACROSS_K, B = ACROSS_K;
  static constexpr bool INPUT_IS_A = false, HAS_PIXELS = true, SKIPS = true;
  struct Epilogue {
    float *d_w, *d_b, *d_vw, *d_vb; /* stores: d_w and d_b are where the gradient goes */
    bool stores;
    Terms w;
    UpdateRule rule;
    float rate; /* set on the device */
    struct Prefetched {
      Quad w, v;
    };
    __device__ Epilogue begin(const BatchView &batch) const {
      Epilogue e = *this;
      e.rate = batch.d_state->learning_rate;
      return e;
    }
    __device__ Prefetched prefetch(int o, int i) const {
      if (stores) return {};
      const size_t at = (size_t)o * w.columns + i;
      const bool vector = w.columns % 4 == 0;
      return {load_quad(d_w + at, w.columns - i, vector),
              load_quad(d_vw + at, w.columns - i, vector)};
    }
    __device__ void store(int o, int i, const Quad &gradient, Prefetched p) const {
      const size_t at = (size_t)o * w.columns + i;
      const bool vector = w.columns % 4 == 0;
      if (stores) {
        store_quad(d_w + at, gradient, w.columns - i, vector);
      } else {
#pragma unroll
        for (int e = 0; e < 4; e++)
          update_value(p.w.value[e], p.v.value[e], gradient.value[e], rule, rate);
        store_quad(d_w + at, p.w, w.columns - i, vector);
        store_quad(d_vw + at, p.v, w.columns - i, vector);
        store_terms<TERMS>(w, o, i, p.w);
      }
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (i + e == w.columns) finish_bias(o, gradient.value[e]);
    }
    __device__ void finish_bias(int o, float gradient) const {
      if (stores)
        d_b[o] = gradient;
      else
        update_value(d_b[o], d_vb[o], gradient, {rule.momentum, 0.0f}, rate);
    }
  };
};

/* ---- launching ------------------------------------------------------------------------------ */

/* The multiprocessors of the current device; 0 where it does not run this code, or where the other
   kernels were compiled for something else: launch_pdl() treats all alike. */
int ask_device() {
  int device, major = 0, minor = 0, multiprocessors = 0, others = 0;
  cudaFuncAttributes attributes;
  const bool can =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) ==
          cudaSuccess &&
      10 * major + minor == 90 && kernels_can_run(&others) == cudaSuccess && others == 90 &&
      cudaFuncGetAttributes(&attributes, wide_kernel<Update<3>, 3>) == cudaSuccess;
  launched(); /* forgets a failure */
  return can ? multiprocessors : 0;
}

/* The map of planes whose rows have `columns` values that count; beyond, and beyond the rows, the
   copy engine reads zeros. */
template <Major MAJOR> cudaError_t describe(const Planes &planes, int columns, CUtensorMap *map) {
  static const auto encode = [] {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                     &result);
#else
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &result);
#endif
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  if (!encode) return launched(cudaErrorNotSupported);
  const cuuint64_t sizes[] = {(cuuint64_t)columns, (cuuint64_t)planes.rows,
                              (cuuint64_t)planes.terms};
  const cuuint64_t strides[] = {planes_pitch(planes.columns) * sizeof(uint16_t),
                                planes.plane * sizeof(uint16_t)};
  const cuuint32_t columns_of_box = MAJOR == ALONG_K ? BLOCK : SIDE;
  const cuuint32_t box[] = {columns_of_box, PATCH_BYTES / 2 / columns_of_box, 1};
  const cuuint32_t each[] = {1, 1, 1};
  const CUresult status =
      encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, planes.d, sizes, strides, box, each,
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             MAJOR == ALONG_K ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

Terms terms_of(const Planes &p) {
  return {p.d, p.plane, (int)planes_pitch(p.columns), p.columns};
}

bool valid(const Planes &p, int terms) {
  return p.d && p.terms == terms && p.rows > 0 && p.columns > 0 &&
         p.plane >= (size_t)p.rows * planes_pitch(p.columns) && p.plane % 64 == 0;
}

bool valid_input(const Planes &p, int terms) {
  return valid(p, p.terms == 1 ? 1 : terms);
}

constexpr int MAX_CLUSTER = 8; /* blocks, on every GPU */

/* How many clusters of 1 to MAX_CLUSTER blocks run at once. */
struct Capacity {
  int clusters[MAX_CLUSTER + 1];
};

/* How many blocks are to share the k of a tile. Times are compared in blocks of k. A multiprocessor
   with several tiles finishes one beneath the next, but for the last; those of a cluster start
   anew each time, exchange their sums and finish a tile together. */
int choose_splits(int tiles, int k, const Capacity &capacity) {
  constexpr int START = 6, EXCHANGE = 4, FINISH = 8;
  const int blocks = ceil_div(k, BLOCK);
  int best = 1, best_time = ceil_div(tiles, capacity.clusters[1]) * blocks + START + FINISH;
  for (int splits = 2; splits <= MAX_CLUSTER && splits <= blocks; splits++) {
    if (capacity.clusters[splits] == 0) continue;
    const int waves = ceil_div(tiles, capacity.clusters[splits]);
    const int time =
        waves * (START + ceil_div(blocks, splits) + EXCHANGE + ceil_div(FINISH, 2 * splits));
    if (time < best_time) best = splits, best_time = time;
  }
  return best;
}

/* How a product's tiles are paired: along the side that they divide. */
void pair_tiles(Product &p) {
  const int down = ceil_div(p.m, TILE), across = ceil_div(p.n, TILE);
  const int idle_down = down % 2 * across, idle_across = across % 2 * down;
  p.down = idle_down <= idle_across ? 2 : 1;
  p.across = 3 - p.down;
}

/* Divides the products among blocks. Pairs are formed unless more than a tenth of the tiles would
   be none. */
template <class Epilogue> void share_out(Products<Epilogue> &all, const Capacity &capacity) {
  int tiles = 0, paired = 0, k = 0;
  for (int i = 0; i < all.count; i++) {
    Product &p = all.product[i];
    pair_tiles(p);
    tiles += ceil_div(p.m, TILE) * ceil_div(p.n, TILE);
    paired += 2 * ceil_div(p.m, p.down * TILE) * ceil_div(p.n, p.across * TILE);
    k = p.k > k ? p.k : k;
  }
  all.splits = choose_splits(tiles, k, capacity);
  all.pair = all.splits == 1 && capacity.clusters[2] > 0 && 10 * (paired - tiles) <= tiles;
  for (int i = 0; i < all.count; i++) {
    Product &p = all.product[i];
    if (!all.pair) p.down = p.across = 1;
    p.units_down = ceil_div(p.m, p.down * TILE);
    p.first_unit = all.units;
    all.units += p.units_down * ceil_div(p.n, p.across * TILE);
  }
}

/* A cluster runs on the multiprocessors of one group (GPC), which are not alike in number, so the
   device is asked. Once: the answer is that of the first device. */
template <class Kernel>
cudaError_t ask_capacity(Kernel kernel, int shared, int multiprocessors, Capacity *capacity) {
  cudaError_t status = cudaSuccess;
  capacity->clusters[1] = multiprocessors;
  for (int blocks = 2; status == cudaSuccess && blocks <= MAX_CLUSTER; blocks++) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {(unsigned)blocks, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = shared;
    config.attrs = &attribute;
    config.numAttrs = 1;
    status = cudaOccupancyMaxActiveClusters(&capacity->clusters[blocks], kernel, &config);
  }
  return launched(status);
}

template <class Kind, int TERMS>
cudaError_t launch(Products<typename Kind::Epilogue> &all, const BatchView &batch,
                   cudaStream_t stream) {
  constexpr int SHARED = WIDE_SHARED_BYTES<TERMS>;
  const int multiprocessors = wide_multiprocessors();
  if (!multiprocessors) return cudaErrorNotSupported;
  const auto kernel = wide_kernel<Kind, TERMS>;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
  if (status != cudaSuccess) return launched(status);
  static Capacity capacity;
  static const cudaError_t asked = ask_capacity(kernel, SHARED, multiprocessors, &capacity);
  if (asked != cudaSuccess) return asked;
  share_out(all, capacity);
  const int cluster = all.pair ? 2 : all.splits, most = capacity.clusters[cluster];
  const int clusters = all.splits > 1 || all.units < most ? all.units : most;
  return launch_pdl_clusters(kernel, dim3(clusters * cluster), THREADS, SHARED, cluster, stream,
                             all, batch);
}

template <int TERMS>
cudaError_t forward(const Planes &x, const Planes &w, const float *d_b, const Planes &y, float *d_y,
                    bool relu, cudaStream_t stream) {
  Products<typename Forward<TERMS>::Epilogue> all = {};
  all.count = 1;
  all.epilogue[0] = {d_b, d_y, terms_of(y), relu};
  Product &p = all.product[0];
  p.m = x.rows, p.n = w.rows, p.k = w.columns;
  p.pixels = x.terms == 1;
  p.scale = p.pixels ? PIXEL_SCALE : 1.0f;
  cudaError_t status = describe<ALONG_K>(x, p.k, &p.a);
  if (status == cudaSuccess) status = describe<ALONG_K>(w, p.k, &p.b);
  return status == cudaSuccess ? launch<Forward<TERMS>, TERMS>(all, {}, stream) : status;
}

template <int TERMS>
cudaError_t backward(const Planes &dz, const Planes &w, const Planes &a, const Planes &dx,
                     cudaStream_t stream) {
  Products<typename Backward<TERMS>::Epilogue> all = {};
  all.count = 1;
  all.epilogue[0] = {a.d, terms_of(dx)};
  Product &p = all.product[0];
  p.m = dz.rows, p.n = w.columns, p.k = w.rows;
  p.scale = 1.0f;
  cudaError_t status = describe<ALONG_K>(dz, p.k, &p.a);
  if (status == cudaSuccess) status = describe<ACROSS_K>(w, p.n, &p.b);
  return status == cudaSuccess ? launch<Backward<TERMS>, TERMS>(all, {}, stream) : status;
}

/* The last layers first: pixels, which have the fewest products, fill the gaps at the end. */
template <int TERMS>
cudaError_t updates(const BatchView &batch, UpdateRule rule, const WideUpdate *layers, int count,
                    cudaStream_t stream) {
  Products<typename Update<TERMS>::Epilogue> all = {};
  all.count = count;
  for (int i = 0; i < count; i++) {
    const WideUpdate &l = layers[count - 1 - i];
    const bool stores = l.d_gw;
    all.epilogue[i] = {stores ? l.d_gw : l.d_w,
                       stores ? l.d_gb : l.d_b,
                       l.d_vw,
                       l.d_vb,
                       stores,
                       terms_of(l.w),
                       rule,
                       0.0f};
    Product &p = all.product[i];
    p.m = l.w.rows, p.n = l.w.columns + 1, p.k = l.x.rows;
    p.pixels = l.x.terms == 1;
    p.scale = p.pixels ? PIXEL_SCALE : 1.0f;
    cudaError_t status = describe<ACROSS_K>(l.dz, p.m, &p.a);
    if (status == cudaSuccess) status = describe<ACROSS_K>(l.x, p.n, &p.b);
    if (status != cudaSuccess) return status;
  }
  return launch<Update<TERMS>, TERMS>(all, batch, stream);
}

} // namespace

int wide_multiprocessors(void) {
  enum { DEVICES = 64 };
  static std::atomic<int> answers[DEVICES]; /* 1 more than the number; 0: not asked yet */
  int device;
  if (cudaGetDevice(&device) != cudaSuccess || device >= DEVICES) return 0;
  int answer = answers[device].load(std::memory_order_relaxed);
  if (answer == 0) {
    answer = 1 + ask_device();
    answers[device].store(answer, std::memory_order_relaxed);
  }
  return answer - 1;
}

cudaError_t launch_wide_forward(Planes x, Planes w, const float *d_b, Planes y, float *d_y,
                                int relu, cudaStream_t stream) {
  if (!valid_terms(w.terms) || !valid_input(x, w.terms) || !valid(w, w.terms) ||
      !(y.d ? valid(y, w.terms) : d_y != nullptr) || !d_b || x.columns != w.columns ||
      y.columns != w.rows || y.rows != x.rows)
    return cudaErrorInvalidValue;
  return (w.terms == 3 ? forward<3> : forward<2>)(x, w, d_b, y, d_y, relu != 0, stream);
}

cudaError_t launch_wide_backward(Planes dz, Planes w, Planes a, Planes dx, cudaStream_t stream) {
  if (!valid_terms(w.terms) || !valid(dz, w.terms) || !valid(w, w.terms) || !valid(a, w.terms) ||
      !valid(dx, w.terms) || dz.columns != w.rows || dx.columns != w.columns ||
      a.columns != w.columns || dx.rows != dz.rows || a.rows != dz.rows)
    return cudaErrorInvalidValue;
  return (w.terms == 3 ? backward<3> : backward<2>)(dz, w, a, dx, stream);
}

cudaError_t launch_wide_updates(BatchView batch, UpdateRule rule, const WideUpdate *layers,
                                int count, cudaStream_t stream) {
  if (!valid_batch(batch) || !layers || count < 1 || count > MAX_PRODUCTS)
    return cudaErrorInvalidValue;
  const int terms = layers[0].w.terms;
  for (int i = 0; i < count; i++) {
    const WideUpdate &l = layers[i];
    const bool updates = l.d_w && l.d_b && l.d_vw && l.d_vb, stores = l.d_gw && l.d_gb;
    if (!valid_terms(terms) || !valid(l.w, terms) || !valid(l.dz, terms) ||
        !valid_input(l.x, terms) || !l.d_gw != !l.d_gb || !(updates || stores) ||
        l.x.columns != l.w.columns || l.dz.columns != l.w.rows || l.x.rows != l.dz.rows)
      return cudaErrorInvalidValue;
  }
  return (terms == 3 ? updates<3> : updates<2>)(batch, rule, layers, count, stream);
}

#else

int wide_multiprocessors(void) {
  return 0;
}

cudaError_t launch_wide_forward(Planes, Planes, const float *, Planes, float *, int, cudaStream_t) {
  return cudaErrorNotSupported;
}

cudaError_t launch_wide_backward(Planes, Planes, Planes, Planes, cudaStream_t) {
  return cudaErrorNotSupported;
}

cudaError_t launch_wide_updates(BatchView, UpdateRule, const WideUpdate *, int, cudaStream_t) {
  return cudaErrorNotSupported;
}

#endif
