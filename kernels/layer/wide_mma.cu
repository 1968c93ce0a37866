/* Launches the kernel of wide_mma.cuh: products of wide layers by mma.sync. */
#include "layer/wide_mma.cuh"

namespace wide {
using namespace mma;

namespace {

/* Returns how many stages a block has room for if a multiprocessor holds Tile::BLOCKS blocks. If
   fewer than two stages fit, the multiprocessor holds fewer blocks. */
template <int TERMS, class Tile> int choose_stages(const Gpu &gpu) {
  int stages = 0;
  for (int blocks = Tile::BLOCKS; stages < LEAST_STAGES && blocks > 0; blocks--)
    stages = (gpu.shared_bytes / blocks - 1024) / STAGE_BYTES<TERMS, Tile>;
  return stages < MOST_STAGES ? stages : MOST_STAGES;
}

template <class Tile, class Kind>
cudaError_t launch(const Work<Kind> &work, const BatchView &batch, const Gpu &gpu,
                   cudaStream_t stream) {
  const auto kernel = mma_kernel<Kind, Tile>;
  Products<typename Kind::Epilogue> all = {};
  int tiles = 0;
  all.count = work.count;
  all.stages = choose_stages<Kind::TERMS, Tile>(gpu);
  for (int i = 0; i < work.count; i++) {
    const Factors &f = work.product[i];
    const auto operand = [](const Planes &p) {
      return Operand{p.d, p.plane, (int)planes_pitch(p.columns)};
    };
    const int down = ceil_div(f.m, Tile::SIDE);
    all.product[i] = {operand(f.a), operand(f.b), f.m, f.n, f.k, {f.a.d_scale, f.b.d_scale},
                      f.pixels,     tiles,        down};
    all.epilogue[i] = work.epilogue[i];
    tiles += down * ceil_div(f.n, Tile::SIDE);
  }
  const int shared = all.stages * STAGE_BYTES<Kind::TERMS, Tile>;
  TRY(allow_shared(kernel, shared));
  return launch_pdl_clusters(kernel, tiles, THREADS, shared, 1, stream, all, batch);
}

/* Returns true if large tiles are faster than small tiles. The unit of time is one stage of a large
   tile on a multiprocessor that has two tiles. A tile that is alone waits for its own loads: its
   stage takes 1 + ALONE. Small tiles spread more evenly over the multiprocessors but read twice as
   much: a stage of four small tiles takes PACE. Finishing a large tile takes FINISH. The constants
   fit 216 launches on an H200. The best tile for each launch would save 0.02% of their time. */
template <class Kind> bool prefers_large_tiles(const Work<Kind> &work, const Gpu &gpu) {
  constexpr double ALONE = 0.3, PACE = 1.25, FINISH = 4;
  if (mma_side) return mma_side == LargeTile::SIDE;
  const int stages = ceil_div(work.depth(), DEPTH);
  const auto waves = [&](int side) {
    return ceil_div(work.tiles(side, side), gpu.multiprocessors);
  };
  const int large = waves(LargeTile::SIDE), small = waves(SmallTile::SIDE);
  return (large + large % 2 * ALONE) * (stages + FINISH) <= small * PACE / 4 * stages;
}

} // namespace

template <class Kind>
cudaError_t multiply_by_mma(const Work<Kind> &work, const BatchView &batch, cudaStream_t stream) {
  Gpu gpu;
  TRY(ask_gpu(&gpu));
  return (prefers_large_tiles(work, gpu) ? launch<LargeTile, Kind>
                                         : launch<SmallTile, Kind>)(work, batch, gpu, stream);
}

#define BY_MMA(KIND, TERMS)                                                                        \
  template cudaError_t multiply_by_mma(const Work<KIND<TERMS>> &, const BatchView &, cudaStream_t);
FOR_EACH_WIDE_KIND(BY_MMA)

} // namespace wide
