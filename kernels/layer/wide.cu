/* The launchers of wide layers: forward, backward, update. They choose which kernel multiplies. */
#include "layer/wide_products.cuh"

using namespace wide;

namespace {

/* Returns true if the planes are valid and either are pixels or have `terms` terms. */
bool valid_input(const Planes &p, int terms) {
  return valid_planes(p, p.terms == 1 ? 1 : terms);
}

/* Returns true if the weights' planes have `terms` terms. The planes need not be allocated. */
bool valid_weights(const Planes &w, int terms) {
  return w.d ? valid_planes(w, terms) : w.terms == terms && w.rows > 0 && w.columns > 0;
}

template <class Kind>
cudaError_t multiply(WideBy by, const Work<Kind> &work, const BatchView &batch,
                     cudaStream_t stream) {
  if (by == WIDE_BY_WGMMA) return multiply_by_wgmma(work, batch, stream);
  return by == WIDE_BY_MMA ? multiply_by_mma(work, batch, stream) : cudaErrorNotSupported;
}

/* Returns run(terms), where `terms` (1 or 2) is a compile-time constant. */
template <class Run> cudaError_t by_terms(int terms, const Run &run) {
  return terms == 2 ? run(std::integral_constant<int, 2>()) : run(std::integral_constant<int, 1>());
}

/* Returns true if mma.sync is faster than wgmma for updates. A wgmma block fills a whole
   multiprocessor, and waits for memory if there are few products per weight. The smaller blocks of
   mma.sync have more loads in flight. With few tiles they leave fewer multiprocessors idle. */
template <int TERMS> bool prefers_small_blocks(const Work<Update<TERMS>> &work) {
  constexpr int TILE = 128, PRODUCTS = TERMS == 2 ? 3 : 1, FEW = 1024;
  Gpu gpu;
  const int tiles = work.tiles(TILE, TILE);
  return ask_gpu(&gpu) == cudaSuccess && 2 * tiles >= gpu.multiprocessors &&
         (tiles <= gpu.multiprocessors || PRODUCTS * work.product[0].k <= FEW);
}

/* Layers run in reverse order: the first layer's tiles (pixels) are shortest and fill the end. */
template <int TERMS>
cudaError_t updates(const BatchView &batch, const WideUpdate *layers, int count,
                    cudaStream_t stream) {
  Work<Update<TERMS>> work = {};
  work.count = count;
  for (int i = 0; i < count; i++) {
    const WideUpdate &l = layers[count - 1 - i];
    const LayerUpdate &at = l.at;
    const bool stores = at.d_gw;
    work.product[i] = {l.dz, l.x, l.w.rows, l.w.columns + 1, l.x.rows, l.x.terms < l.w.terms};
    work.epilogue[i] = {
        {stores ? at.d_gw : at.d_w, stores ? at.d_gb : at.d_b, at.d_vw, at.d_vb, stores},
        terms_of(l.w),
        batch.d_state,
        l.x.d_scale};
  }
  const bool small = wide_by() == WIDE_BY_WGMMA && !layers[0].at.d_gw && prefers_small_blocks(work);
  return multiply(small ? WIDE_BY_MMA : wide_by(), work, batch, stream);
}

} // namespace

WideBy wide_by(void) {
  if (!ACTIVATION_IS_RELU) return WIDE_BY_NOTHING;
  const int more = ask_once([] {
    int capability;
    const bool has_mma = kernels_can_run(&capability) == cudaSuccess && capability >= 80;
    if (has_wgmma()) return 1 + WIDE_BY_WGMMA;
    return 1 + (has_mma ? WIDE_BY_MMA : WIDE_BY_NOTHING);
  });
  const WideBy by = more ? (WideBy)(more - 1) : WIDE_BY_NOTHING;
  return by == WIDE_BY_WGMMA && mma_side ? WIDE_BY_MMA : by;
}

void wide_test_mma(int side) {
  mma_side = side;
}

cudaError_t launch_wide_forward(Planes x, Planes w, const float *d_b, Planes y, float *d_y,
                                int activates, cudaStream_t stream) {
  REQUIRE(valid_fp16_terms(w.terms) && valid_input(x, w.terms) && valid_planes(w, w.terms) &&
          (y.d ? valid_planes(y, w.terms) : d_y != nullptr) && d_b && x.columns == w.columns &&
          y.columns == w.rows && y.rows == x.rows);
  return by_terms(w.terms, [&](auto terms) {
    const Work<Forward<terms>> work = {{{x, w, x.rows, w.rows, w.columns, x.terms < w.terms}},
                                       {{d_b, d_y, terms_of(y), activates != 0}},
                                       1};
    return multiply(wide_by(), work, {}, stream);
  });
}

cudaError_t launch_wide_backward(Planes dz, Planes w, Planes a, Planes dx, cudaStream_t stream) {
  REQUIRE(valid_fp16_terms(w.terms) && valid_planes(dz, w.terms) && valid_planes(w, w.terms) &&
          valid_planes(a, w.terms) && valid_planes(dx, w.terms) && dz.columns == w.rows &&
          dx.columns == w.columns && a.columns == w.columns && dx.rows == dz.rows &&
          a.rows == dz.rows);
  return by_terms(w.terms, [&](auto terms) {
    const Work<Backward<terms>> work = {
        {{dz, w, dz.rows, w.columns, w.rows, false}}, {{a.d, terms_of(dx)}}, 1};
    return multiply(wide_by(), work, {}, stream);
  });
}

cudaError_t launch_wide_updates(BatchView batch, const WideUpdate *layers, int count,
                                cudaStream_t stream) {
  REQUIRE(valid_batch(batch) && layers && count >= 1 && count <= MAX_PRODUCTS);
  const int terms = layers[0].w.terms;
  for (int i = 0; i < count; i++) {
    const WideUpdate &l = layers[i];
    REQUIRE(valid_fp16_terms(terms) && valid_weights(l.w, terms) && valid_planes(l.dz, terms) &&
            valid_input(l.x, terms) && valid_update(l.at) && l.at.in == l.w.columns &&
            l.at.out == l.w.rows && l.x.columns == l.w.columns && l.dz.columns == l.w.rows &&
            l.x.rows == l.dz.rows);
  }
  return (terms == 2 ? updates<2> : updates<1>)(batch, layers, count, stream);
}
