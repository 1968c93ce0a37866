/* Launches the kernel of wide_wgmma.cuh: products of wide layers on compute capability 9.0. The
   Makefile compiles this file for sm_90a. If nvcc cannot do so, the launcher returns an error. */
#include "layer/wide_products.cuh"

#ifdef HAVE_SM_90A

#include "layer/wide_wgmma.cuh"

namespace wide {
using namespace wgmma;

namespace {

/* Describes the first `columns` columns of planes to the copy engine. A copy moves
   one box: `depth` values along k of `sides` rows or columns of C, in `terms` terms. */
cudaError_t describe(const Planes &planes, int columns, Major major, int depth, int sides,
                     int terms, CUtensorMap *map) {
  const MatrixPlanes of = {
      planes.d, planes.terms, planes.rows, columns, planes_pitch(planes.columns), planes.plane};
  return major == ALONG_K ? describe_planes(of, sides, depth, terms, map)
                          : describe_planes(of, depth, sides, terms, map);
}

constexpr int MAX_CLUSTER = 8; /* every GPU allows clusters of up to 8 blocks */

/* clusters[n] is how many clusters of n blocks run at once. */
struct Capacity {
  int clusters[MAX_CLUSTER + 1];
};

/* The unit of the times estimated below: what a tile of 128 x 128 takes for this many k. */
constexpr int K_PER_TIME = 32;

/* Returns how many blocks share the k of a tile, at most `stages`. Without splits, a multiprocessor
   with several tiles finishes a tile while it multiplies the next tile. With splits, each tile also
   takes the time START + EXCHANGE (of sums) + a part of FINISH. Splits must save more than 1 /
   MARGIN of the time. */
int choose_splits(int tiles, int k, int stages, const Capacity &capacity) {
  constexpr int START = 12, EXCHANGE = 8, FINISH = 16, MARGIN = 16;
  const int steps = ceil_div(k, K_PER_TIME);
  int best = 1, best_time = ceil_div(tiles, capacity.clusters[1]) * steps + START + FINISH;
  for (int splits = 2; splits <= MAX_CLUSTER && splits <= stages; splits++) {
    if (capacity.clusters[splits] == 0) continue;
    const int waves = ceil_div(tiles, capacity.clusters[splits]);
    const int time =
        waves * (START + ceil_div(steps, splits) + EXCHANGE + ceil_div(FINISH, 2 * splits));
    const bool faster = best == 1 ? MARGIN * time < (MARGIN - 1) * best_time : time < best_time;
    if (faster) best = splits, best_time = time;
  }
  return best;
}

/* Pairs a product's tiles down (same columns) or across (same rows), whichever leaves fewer tiles
   without a partner. If both leave equally many, the tiles of a pair share the larger operand. */
void pair_tiles(Product &p, int columns, bool input_is_a) {
  const int down = ceil_div(p.m, TILE), across = ceil_div(p.n, columns);
  const int idle_down = down % 2 * across, idle_across = across % 2 * down;
  const bool larger_b = p.pixels ? input_is_a : columns > TILE;
  const bool shares_b = larger_b ? idle_down <= idle_across : idle_down < idle_across;
  p.down = shares_b ? 2 : 1;
  p.across = 3 - p.down;
}

/* Divides the work among blocks. Pairs tiles if at most a tenth of them lacks a partner. */
template <class Schedule, class Kind>
void share_out(const Work<Kind> &work, const Capacity &capacity,
               Products<typename Kind::Epilogue> &all) {
  constexpr int COLUMNS = Schedule::COLUMNS;
  const int tiles = work.tiles(TILE, COLUMNS);
  int paired = 0;
  all.count = work.count;
  for (int i = 0; i < all.count; i++) {
    const Factors &f = work.product[i];
    Product &p = all.product[i];
    p.m = f.m, p.n = f.n, p.k = f.k;
    p.d_scales[0] = f.a.d_scale, p.d_scales[1] = f.b.d_scale;
    p.pixels = f.pixels;
    all.epilogue[i] = work.epilogue[i];
    pair_tiles(p, COLUMNS, Kind::INPUT_IS_A);
    paired += 2 * ceil_div(p.m, p.down * TILE) * ceil_div(p.n, p.across * COLUMNS);
  }
  const int stages = ceil_div(work.depth(), Ring<Kind::TERMS, Schedule>::DEPTH);
  all.splits = Schedule::TURNS ? choose_splits(tiles, work.depth(), stages, capacity) : 1;
  all.pair = all.splits == 1 && capacity.clusters[2] > 0 && 10 * (paired - tiles) <= tiles;
  all.units = 0;
  for (int i = 0; i < all.count; i++) {
    Product &p = all.product[i];
    if (!all.pair) p.down = p.across = 1;
    p.units_down = ceil_div(p.m, p.down * TILE);
    p.first_unit = all.units;
    all.units += p.units_down * ceil_div(p.n, p.across * COLUMNS);
  }
}

/* The tiles of a launch. `half` counts tiles that take half as long, as their input is pixels. */
struct Tiles {
  int whole, half;
};

/* Returns the time of a launch. A whole tile takes 1, a half tile 0.5. */
double waves(const Tiles &tiles, int multiprocessors) {
  const int halves = ceil_div(2 * tiles.whole + tiles.half, multiprocessors);
  const int wholes = 2 * ceil_div(tiles.whole, multiprocessors);
  return 0.5 * (halves > wholes ? halves : wholes);
}

/* Returns true if tiles of 128 x 256 are faster than 128 x 128. */
template <class Kind> bool prefers_large_tiles(const Work<Kind> &work, int multiprocessors) {
  constexpr double LARGE_PACE = 0.75, FINISH = 8;
  Tiles small = {}, large = {};
  for (int i = 0; i < work.count; i++) {
    const Factors &p = work.product[i];
    const bool half = p.pixels && work.count > 1;
    const int down = ceil_div(p.m, TILE);
    (half ? small.half : small.whole) += down * ceil_div(p.n, TILE);
    (half ? large.half : large.whole) += down * ceil_div(p.n, 2 * TILE);
  }
  const int steps = ceil_div(work.depth(), K_PER_TIME);
  return waves(large, multiprocessors) * (2 * LARGE_PACE * steps + 2 * FINISH) <
         waves(small, multiprocessors) * steps + FINISH;
}

/* Returns how many clusters to launch, at most `most`. If all units take equally long, this is the
   smallest number that needs no extra wave. */
template <class Epilogue> int clusters_for(const Products<Epilogue> &all, int most) {
  const int busy = all.units < most ? all.units : most;
  for (int i = 1; i < all.count; i++)
    if (all.product[i].pixels != all.product[0].pixels) return busy;
  return ceil_div(all.units, ceil_div(all.units, busy));
}

/* Asks the first device how many clusters of each size run at once. A cluster must fit a GPC. */
template <class Kernel>
cudaError_t ask_capacity(Kernel kernel, int shared, int multiprocessors, Capacity *capacity) {
  cudaError_t status = cudaSuccess;
  capacity->clusters[1] = multiprocessors;
  for (int blocks = 2; status == cudaSuccess && blocks <= MAX_CLUSTER; blocks++)
    status = ask_clusters(kernel, THREADS, shared, blocks, &capacity->clusters[blocks]);
  return launched(status);
}

template <class Schedule, class Kind>
cudaError_t launch(const Work<Kind> &work, const BatchView &batch, int multiprocessors,
                   cudaStream_t stream) {
  constexpr int COLUMNS = Schedule::COLUMNS, SHARED = WIDE_SHARED_BYTES<Kind::TERMS, Schedule>,
                DEPTH = Ring<Kind::TERMS, Schedule>::DEPTH;
  const auto kernel = wide_kernel<Kind, Schedule>;
  TRY(allow_shared(kernel, SHARED));
  static Capacity capacity;
  static const cudaError_t asked = ask_capacity(kernel, SHARED, multiprocessors, &capacity);
  TRY(asked);
  Products<typename Kind::Epilogue> all = {};
  share_out<Schedule>(work, capacity, all);
  for (int i = 0; i < all.count; i++) {
    Product &p = all.product[i];
    const Factors &f = work.product[i];
    const bool along = Kind::B == ALONG_K, shared = p.down == 2; /* both describe B */
    const int terms = along && shared ? 1 : f.b.terms;
    int sides = SIDE;
    if (along) sides = shared ? COLUMNS / 2 : COLUMNS;
    TRY(describe(f.a, Kind::A == ALONG_K ? f.k : f.m, Kind::A, DEPTH, SIDE, f.a.terms, &p.a));
    TRY(describe(f.b, along ? f.k : f.n, Kind::B, DEPTH, sides, terms, &p.b));
  }
  const int cluster = all.pair ? 2 : all.splits, most = capacity.clusters[cluster];
  const int clusters = all.splits > 1 ? all.units : clusters_for(all, most);
  return launch_pdl_clusters(kernel, clusters * cluster, THREADS, SHARED, cluster, stream, all,
                             batch);
}

} // namespace

/* Returns true if the device can run wide_kernel and runs the other kernels compiled for 9.0, too:
   launch_pdl() expects one architecture for all kernels. */
bool has_wgmma() {
  int others;
  cudaFuncAttributes attributes;
  const bool has =
      kernels_can_run(&others) == cudaSuccess && others == 90 &&
      cudaFuncGetAttributes(&attributes, wide_kernel<Update<2>, PingPong>) == cudaSuccess;
  launched(); /* clears the last error */
  return has;
}

template <class Kind>
cudaError_t multiply_by_wgmma(const Work<Kind> &work, const BatchView &batch, cudaStream_t stream) {
  Gpu gpu;
  TRY(ask_gpu(&gpu));
  return (prefers_large_tiles(work, gpu.multiprocessors)
              ? launch<Cooperative, Kind>
              : launch<PingPong, Kind>)(work, batch, gpu.multiprocessors, stream);
}

#else

namespace wide {

bool has_wgmma() {
  return false;
}

template <class Kind>
cudaError_t multiply_by_wgmma(const Work<Kind> &, const BatchView &, cudaStream_t) {
  return cudaErrorNotSupported;
}

#endif

#define BY_WGMMA(KIND, TERMS)                                                                      \
  template cudaError_t multiply_by_wgmma(const Work<KIND<TERMS>> &, const BatchView &,             \
                                         cudaStream_t);
FOR_EACH_WIDE_KIND(BY_WGMMA)

} // namespace wide
