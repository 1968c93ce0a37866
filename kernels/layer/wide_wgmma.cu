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

/* The neighbours from `column` on of a row with `columns` values, in one load where rows start on
   16 bytes. FULL: they do, and the neighbours exist; else, beyond the row they are any values of
   it. */
template <bool FULL> __device__ Quad load_quad(const float *row, int column, int columns) {
  Quad q;
  if (FULL || columns % 4 == 0) {
    const int at = FULL ? column : min(column, columns - 4);
    const float4 v = *reinterpret_cast<const float4 *>(row + at);
    q = {{v.x, v.y, v.z, v.w}};
  } else {
#pragma unroll
    for (int e = 0; e < 4; e++) q.value[e] = row[min(column + e, columns - 1)];
  }
  return q;
}

/* Stores those that exist. */
template <bool FULL>
__device__ void store_quad(float *row, int column, int columns, const Quad &q) {
  if (FULL || (columns % 4 == 0 && column + 4 <= columns)) {
    *reinterpret_cast<float4 *>(row + column) = {q.value[0], q.value[1], q.value[2], q.value[3]};
  } else {
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (column + e < columns) row[column + e] = q.value[e];
  }
}

/* ---- forward -------------------------------------------------------------------------------- */

/* Adds the bias, applies ReLU, stores Y. */
template <int TERMS> struct Forward {
  static constexpr Major A = ALONG_K, B = ALONG_K;
  static constexpr bool INPUT_IS_A = true, HAS_PIXELS = true, SKIPS = false;
  struct Epilogue {
    static constexpr bool LAST_APART = false;
    const float *d_b;
    float *d_y; /* (rows, out), or NULL */
    Terms y;    /* or d NULL */
    bool relu;
    using Prefetched = Quad;
    __device__ float rate() const {
      return 0.0f;
    }
    __device__ bool is_full(int columns) const {
      return columns <= y.columns && y.columns % 4 == 0;
    }
    template <bool FULL> __device__ Prefetched prefetch(int, int, int column) const {
      return load_quad<FULL>(d_b, column, y.columns);
    }
    template <bool FULL>
    __device__ void store(int row, int column, Quad value, const Prefetched &bias, float) const {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        value.value[e] += bias.value[e];
        if (relu) value.value[e] = relu_of(value.value[e]);
      }
      if (y.d) store_terms<TERMS, FULL>(y, row, column, value);
      if (d_y) store_quad<FULL>(d_y + (size_t)row * y.columns, column, y.columns, value);
    }
  };
};

/* ---- backward ------------------------------------------------------------------------------- */

/* Masks the gradient by the activation, of which the first term says enough, and stores dX. */
template <int TERMS> struct Backward {
  static constexpr Major A = ALONG_K, B = ACROSS_K;
  static constexpr bool INPUT_IS_A = true, HAS_PIXELS = false, SKIPS = false;
  struct Epilogue {
    static constexpr bool LAST_APART = false;
    const uint16_t *d_a; /* its first plane */
    Terms dx;            /* of the same pitch */
    using Prefetched = uint2;
    __device__ float rate() const {
      return 0.0f;
    }
    __device__ bool is_full(int columns) const {
      return columns <= dx.columns;
    }
    template <bool FULL> __device__ Prefetched prefetch(int row, int rows, int column) const {
      const uint16_t *a = d_a + (size_t)(FULL ? row : min(row, rows - 1)) * dx.pitch;
      return *reinterpret_cast<const uint2 *>(a + (FULL ? column : min(column, dx.pitch - 4)));
    }
    template <bool FULL>
    __device__ void store(int row, int column, Quad value, Prefetched a, float) const {
      if (first_of(a.x) <= 0.0f) value.value[0] = 0.0f;
      if (second_of(a.x) <= 0.0f) value.value[1] = 0.0f;
      if (first_of(a.y) <= 0.0f) value.value[2] = 0.0f;
      if (second_of(a.y) <= 0.0f) value.value[3] = 0.0f;
      store_terms<TERMS, FULL>(dx, row, column, value);
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
    static constexpr bool LAST_APART = true;
    float *d_w, *d_b, *d_vw, *d_vb; /* stores: d_w and d_b are where the gradient goes */
    bool stores;
    Terms w;
    UpdateRule rule;
    const StepState *d_state; /* of the learning rate */
    struct Prefetched {
      Quad w, v;
    };
    __device__ float rate() const {
      return d_state->learning_rate;
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
    __device__ void store(int o, int i, const Quad &gradient, Prefetched p, float rate) const {
      const size_t at = (size_t)o * w.columns;
      if (stores) {
        store_quad<FULL>(d_w + at, i, w.columns, gradient);
        return;
      }
#pragma unroll
      for (int e = 0; e < 4; e++)
        update_value(p.w.value[e], p.v.value[e], gradient.value[e], rule, rate);
      store_quad<FULL>(d_w + at, i, w.columns, p.w);
      store_quad<FULL>(d_vw + at, i, w.columns, p.v);
      if (w.d) store_terms<TERMS, FULL>(w, o, i, p.w);
    }
    /* The biases of several rows, those of rows below `out`, at once. */
    template <int COUNT>
    __device__ void store_last(const int (&o)[COUNT], const float (&gradient)[COUNT], int out,
                               float rate) const {
      float bias[COUNT], v[COUNT];
#pragma unroll
      for (int i = 0; i < COUNT && !stores; i++) {
        bias[i] = d_b[min(o[i], out - 1)];
        v[i] = d_vb[min(o[i], out - 1)];
      }
#pragma unroll
      for (int i = 0; i < COUNT; i++) {
        if (o[i] >= out) continue;
        if (stores) {
          d_b[o[i]] = gradient[i];
        } else {
          update_value(bias[i], v[i], gradient[i], {rule.momentum, 0.0f}, rate);
          d_b[o[i]] = bias[i];
          d_vb[o[i]] = v[i];
        }
      }
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
      cudaFuncGetAttributes(&attributes, wide_kernel<Update<3>, 3, TILE>) == cudaSuccess;
  launched(); /* forgets a failure */
  return can ? multiprocessors : 0;
}

/* The map of planes of which `columns` count. A box is BLOCK k of so many sides and terms. */
cudaError_t describe(const Planes &planes, int columns, Major major, int sides, int terms,
                     CUtensorMap *map) {
  const MatrixPlanes of = {
      planes.d, planes.terms, planes.rows, columns, planes_pitch(planes.columns), planes.plane};
  return major == ALONG_K ? describe_planes(of, sides, BLOCK, terms, map)
                          : describe_planes(of, BLOCK, sides, terms, map);
}

bool valid_input(const Planes &p, int terms) {
  return valid_planes(p, p.terms == 1 ? 1 : terms);
}

constexpr int MAX_CLUSTER = 8; /* blocks, on every GPU */

/* How many clusters of 1 to MAX_CLUSTER blocks run at once. */
struct Capacity {
  int clusters[MAX_CLUSTER + 1];
};

/* How many blocks are to share the k of a tile. Times are compared in blocks of k. A multiprocessor
   with several tiles finishes one beneath the next, but for the last; those of a cluster start
   anew each time, exchange their sums and finish a tile together. For less than a MARGIN-th part it
   is not worth it: whole tiles may leave multiprocessors to other streams' kernels. */
int choose_splits(int tiles, int k, const Capacity &capacity) {
  constexpr int START = 6, EXCHANGE = 4, FINISH = 8, MARGIN = 16;
  const int blocks = ceil_div(k, BLOCK);
  int best = 1, best_time = ceil_div(tiles, capacity.clusters[1]) * blocks + START + FINISH;
  for (int splits = 2; splits <= MAX_CLUSTER && splits <= blocks; splits++) {
    if (capacity.clusters[splits] == 0) continue;
    const int waves = ceil_div(tiles, capacity.clusters[splits]);
    const int time =
        waves * (START + ceil_div(blocks, splits) + EXCHANGE + ceil_div(FINISH, 2 * splits));
    const bool faster = best == 1 ? MARGIN * time < (MARGIN - 1) * best_time : time < best_time;
    if (faster) best = splits, best_time = time;
  }
  return best;
}

/* How a product's tiles are paired: along the side that they divide; if that may be either, so that
   the operand of more bytes is shared: not pixels, else the longer one, or A, which takes fewer
   boxes where B lies ALONG_K. */
void pair_tiles(Product &p, int columns, bool input_is_a) {
  const int down = ceil_div(p.m, TILE), across = ceil_div(p.n, columns);
  const int idle_down = down % 2 * across, idle_across = across % 2 * down;
  const bool larger_b = p.pixels ? input_is_a : columns > TILE;
  const bool shares_b = larger_b ? idle_down <= idle_across : idle_down < idle_across;
  p.down = shares_b ? 2 : 1;
  p.across = 3 - p.down;
}

/* Divides the products among blocks, in tiles of `columns`. Pairs are formed unless more than a
   tenth of the tiles would be none. */
template <class Kind>
void share_out(Products<typename Kind::Epilogue> &all, int columns, const Capacity &capacity) {
  int tiles = 0, paired = 0, k = 0;
  for (int i = 0; i < all.count; i++) {
    Product &p = all.product[i];
    pair_tiles(p, columns, Kind::INPUT_IS_A);
    tiles += ceil_div(p.m, TILE) * ceil_div(p.n, columns);
    paired += 2 * ceil_div(p.m, p.down * TILE) * ceil_div(p.n, p.across * columns);
    k = p.k > k ? p.k : k;
  }
  all.splits = columns == TILE ? choose_splits(tiles, k, capacity) : 1;
  all.pair = all.splits == 1 && capacity.clusters[2] > 0 && 10 * (paired - tiles) <= tiles;
  all.units = 0;
  for (int i = 0; i < all.count; i++) {
    Product &p = all.product[i];
    if (!all.pair) p.down = p.across = 1;
    p.units_down = ceil_div(p.m, p.down * TILE);
    p.first_unit = all.units;
    all.units += p.units_down * ceil_div(p.n, p.across * columns);
  }
}

/* The tiles of a launch, those of pixels apart, which take half of the time. */
struct Tiles {
  int whole, half;
};

/* When the last of them is done, in times of a whole one, where every multiprocessor takes the next
   tile when it has done one. */
double waves(const Tiles &tiles, int multiprocessors) {
  const int halves = ceil_div(2 * tiles.whole + tiles.half, multiprocessors);
  const int wholes = 2 * ceil_div(tiles.whole, multiprocessors);
  return 0.5 * (halves > wholes ? halves : wholes);
}

/* Whether the tiles of 128 x 256 are done sooner than those of 128 x 128, of which a multiprocessor
   does two in 1 / LARGE_PACE of the time of a large one, and finishes one beneath the next. Times
   are those of a block of k of a small tile. */
template <class Epilogue>
bool prefers_large_tiles(const Products<Epilogue> &all, int multiprocessors) {
  constexpr double LARGE_PACE = 0.85, FINISH = 8;
  Tiles small = {}, large = {};
  int k = 0;
  for (int i = 0; i < all.count; i++) {
    const Product &p = all.product[i];
    const bool half = p.pixels && all.count > 1;
    const int down = ceil_div(p.m, TILE);
    (half ? small.half : small.whole) += down * ceil_div(p.n, TILE);
    (half ? large.half : large.whole) += down * ceil_div(p.n, 2 * TILE);
    k = p.k > k ? p.k : k;
  }
  const int blocks = ceil_div(k, BLOCK);
  return waves(large, multiprocessors) * (2 * LARGE_PACE * blocks + 2 * FINISH) <
         waves(small, multiprocessors) * blocks + FINISH;
}

/* As many clusters as the last wave of units needs too, of units that take as long: other streams'
   kernels may have the multiprocessors that it would leave idle. */
template <class Epilogue> int clusters_for(const Products<Epilogue> &all, int most) {
  const int busy = all.units < most ? all.units : most;
  for (int i = 1; i < all.count; i++)
    if (all.product[i].pixels != all.product[0].pixels) return busy;
  return ceil_div(all.units, ceil_div(all.units, busy));
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

/* What a product reads: planes of A and B, and how many columns of them count. */
struct Operands {
  Planes a, b;
  int a_columns, b_columns;
};

template <class Kind, int TERMS, int COLUMNS>
cudaError_t launch(Products<typename Kind::Epilogue> &all, const Operands *operands,
                   const BatchView &batch, int multiprocessors, cudaStream_t stream) {
  constexpr int SHARED = WIDE_SHARED_BYTES<TERMS, COLUMNS>;
  const auto kernel = wide_kernel<Kind, TERMS, COLUMNS>;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
  if (status != cudaSuccess) return launched(status);
  static Capacity capacity;
  static const cudaError_t asked = ask_capacity(kernel, SHARED, multiprocessors, &capacity);
  if (asked != cudaSuccess) return asked;
  share_out<Kind>(all, COLUMNS, capacity);
  for (int i = 0; i < all.count; i++) {
    Product &p = all.product[i];
    const Operands &o = operands[i];
    const bool along = Kind::B == ALONG_K, shared = p.down == 2; /* B */
    const int sides = !along ? SIDE : shared ? COLUMNS / 2 : COLUMNS;
    cudaError_t described = describe(o.a, o.a_columns, Kind::A, SIDE, o.a.terms, &p.a);
    if (described == cudaSuccess)
      described = describe(o.b, o.b_columns, Kind::B, sides, along && shared ? 1 : o.b.terms, &p.b);
    if (described != cudaSuccess) return described;
  }
  const int cluster = all.pair ? 2 : all.splits, most = capacity.clusters[cluster];
  const int clusters = all.splits > 1 ? all.units : clusters_for(all, most);
  return launch_pdl_clusters(kernel, dim3(clusters * cluster), THREADS, SHARED, cluster, stream,
                             all, batch);
}

/* Large tiles pay where multiprocessors have several to do. */
template <class Kind, int TERMS>
cudaError_t launch(Products<typename Kind::Epilogue> &all, const Operands *operands,
                   const BatchView &batch, cudaStream_t stream) {
  const int multiprocessors = wide_multiprocessors();
  if (!multiprocessors) return cudaErrorNotSupported;
  return (prefers_large_tiles(all, multiprocessors)
              ? launch<Kind, TERMS, 2 * TILE>
              : launch<Kind, TERMS, TILE>)(all, operands, batch, multiprocessors, stream);
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
  const Operands operands = {x, w, p.k, p.k};
  return launch<Forward<TERMS>, TERMS>(all, &operands, {}, stream);
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
  const Operands operands = {dz, w, p.k, p.n};
  return launch<Backward<TERMS>, TERMS>(all, &operands, {}, stream);
}

/* Planes of weights that nobody multiplies do not exist. */
bool valid_weights(const Planes &w, int terms) {
  return w.d ? valid_planes(w, terms) : w.terms == terms && w.rows > 0 && w.columns > 0;
}

/* The last layers first: pixels, which have the fewest products, fill the gaps at the end. */
template <int TERMS>
cudaError_t updates(const BatchView &batch, UpdateRule rule, const WideUpdate *layers, int count,
                    cudaStream_t stream) {
  Products<typename Update<TERMS>::Epilogue> all = {};
  Operands operands[MAX_PRODUCTS];
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
                       batch.d_state};
    Product &p = all.product[i];
    p.m = l.w.rows, p.n = l.w.columns + 1, p.k = l.x.rows;
    p.pixels = l.x.terms == 1;
    p.scale = p.pixels ? PIXEL_SCALE : 1.0f;
    operands[i] = {l.dz, l.x, p.m, p.n};
  }
  return launch<Update<TERMS>, TERMS>(all, operands, batch, stream);
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
  if (!valid_terms(w.terms) || !valid_input(x, w.terms) || !valid_planes(w, w.terms) ||
      !(y.d ? valid_planes(y, w.terms) : d_y != nullptr) || !d_b || x.columns != w.columns ||
      y.columns != w.rows || y.rows != x.rows)
    return cudaErrorInvalidValue;
  return (w.terms == 3 ? forward<3> : forward<2>)(x, w, d_b, y, d_y, relu != 0, stream);
}

cudaError_t launch_wide_backward(Planes dz, Planes w, Planes a, Planes dx, cudaStream_t stream) {
  if (!valid_terms(w.terms) || !valid_planes(dz, w.terms) || !valid_planes(w, w.terms) ||
      !valid_planes(a, w.terms) || !valid_planes(dx, w.terms) || dz.columns != w.rows ||
      dx.columns != w.columns || a.columns != w.columns || dx.rows != dz.rows || a.rows != dz.rows)
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
    if (!valid_terms(terms) || !valid_weights(l.w, terms) || !valid_planes(l.dz, terms) ||
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
