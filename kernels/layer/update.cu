/* Weight gradient and update in one kernel: dW = dZ^T X, then sgd on W and b. The
   gradient stays in registers, so 16 bytes move per weight; level `none` moves 24. The bias is the
   weight of an input that is always 1. Loads return this input as column `in` of X. If the batch
   has many rows, several blocks divide the rows of a tile (split-K), and the sums of the blocks are
   added in a fixed order. With several ranks the kernel only stores the gradient. */
#include "layer/gemm.cuh"

namespace {

/* The epilogue. It updates W and b, or stores their gradient if `stores` is true. */
struct MomentumUpdate : Updated {
  UpdateRule rule;
  int out, in;
  float rate; /* learning rate, from batch.d_state */

  struct Prefetched {
    float w, v;
  };
  __device__ Prefetched prefetch(int o, int i) const {
    if (stores) return {};
    const size_t at = (size_t)o * in + i;
    const float *w = i < in ? d_w + at : d_b + o;
    const float *v = i < in ? d_vw + at : d_vb + o;
    return {*w, *v};
  }
  __device__ void operator()(int o, int i, float gradient, Prefetched prefetched) const {
    const size_t at = (size_t)o * in + i;
    const UpdateRule mine = {rule.momentum, i < in ? rule.weight_decay : 0.0f};
    if (!stores) update_value(prefetched.w, prefetched.v, gradient, mine, rate);
    float *to = i < in ? d_w + at : d_b + o;
    *to = stores ? gradient : prefetched.w;
    if (!stores) *(i < in ? d_vw + at : d_vb + o) = prefetched.v;
  }

  struct PrefetchedSegment {
    Floats w, v;
  };
  /* Prefetches weights. If the segment includes the bias, store_segment() fetches the bias. */
  __device__ PrefetchedSegment prefetch_segment(int o, int i) const {
    if (stores) return {};
    const size_t at = (size_t)o * in + i;
    return {load_segment(d_w + at, in - i, in % 4 == 0),
            load_segment(d_vw + at, in - i, in % 4 == 0)};
  }
  __device__ void store_segment(int o, int i, const Floats &gradient,
                                PrefetchedSegment prefetched) const {
    const size_t at = (size_t)o * in + i;
    if (stores) {
      ::store_segment(d_w + at, gradient, in - i, in % 4 == 0);
    } else {
      unrolled (e, SEGMENT)
        update_value(prefetched.w.value[e], prefetched.v.value[e], gradient.value[e], rule, rate);
      ::store_segment(d_w + at, prefetched.w, in - i, in % 4 == 0);
      ::store_segment(d_vw + at, prefetched.v, in - i, in % 4 == 0);
    }
    unrolled (e, SEGMENT)
      if (i + e == in) (*this)(o, in, gradient.value[e], prefetch(o, in));
  }
};

/* The epilogue of every block. If a tile has several splits, each block stores the gradient of its
   split. Otherwise the block updates W and b. One epilogue for both halves the compile time. */
struct PartialOrUpdate {
  MomentumUpdate update;
  float *d_partial; /* (ROWS, COLUMNS); NULL if the tile has no splits */
  int o0, i0;
  using PrefetchedSegment = MomentumUpdate::PrefetchedSegment;
  __device__ PrefetchedSegment prefetch_segment(int o, int i) const {
    return d_partial ? PrefetchedSegment{} : update.prefetch_segment(o, i);
  }
  __device__ void store_segment(int o, int i, const Floats &gradient,
                                const PrefetchedSegment &prefetched) const {
    if (d_partial)
      ::store_segment(d_partial + (o - o0) * GradientTile::COLUMNS + i - i0, gradient, SEGMENT,
                      true);
    else
      update.store_segment(o, i, gradient, prefetched);
  }
};

/* One layer of a launch, computed by the blocks from first_block on. */
struct Share {
  LayerUpdate layer;
  bool vector;
  int first_block, tiles, tiles_across; /* the layer has tiles x splits blocks */
  int splits, split_rows;               /* number of ranges of rows; rows per range */
  float *d_partial;                     /* (tile, split, ROWS, COLUMNS), if splits > 1 */
  unsigned *d_done;                     /* (tile): number of splits done; 0 between launches */
};

struct Shares {
  Share share[MAX_UPDATES];
  int count;
};

using Shape = GradientTile;
constexpr int TILE_FLOATS = Shape::ROWS * Shape::COLUMNS;
constexpr int MAX_SPLIT_TILES = 1024; /* limit of tiles x splits of a layer */
constexpr int WANTED_BLOCKS = 264;    /* blocks per layer: two per multiprocessor of a big GPU */
constexpr int MIN_SPLIT_ROWS = 256, MAX_SPLITS = 8;

/* The block that finishes the last split of a tile adds up the splits in order and updates W, b. */
__device__ void add_splits(const Share &share, const MomentumUpdate &update, int tile) {
  __shared__ bool last;
  __threadfence(); /* the split must be visible before it is counted */
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&share.d_done[tile], 1) == share.splits - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  const float *first = share.d_partial + (size_t)tile * share.splits * TILE_FLOATS;
  for (int e = 4 * threadIdx.x; e < TILE_FLOATS; e += 4 * Shape::THREADS) {
    const int o = tile / share.tiles_across * Shape::ROWS + e / Shape::COLUMNS;
    const int i = tile % share.tiles_across * Shape::COLUMNS + e % Shape::COLUMNS;
    if (o >= update.out || i > update.in) continue;
    float partial[MAX_SPLITS][4], sum[4] = {};
    unrolled (p, MAX_SPLITS) /* all loads are in flight; loads beyond `splits` are ignored */
      load_vector(first + (size_t)min(p, share.splits - 1) * TILE_FLOATS + e, partial[p]);
    MomentumUpdate::Prefetched prefetched[4];
    unrolled (n, 4) prefetched[n] = update.prefetch(o, min(i + n, update.in));
    unrolled (p, MAX_SPLITS)
      unrolled (n, 4) sum[n] += p < share.splits ? partial[p][n] : 0.0f;
    unrolled (n, 4)
      if (i + n <= update.in) update(o, i + n, sum[n], prefetched[n]);
  }
  if (threadIdx.x == 0) share.d_done[tile] = 0;
}

/* Computes the gradient of a tile or of one split of it, and updates. All threads call it. */
template <class Gradient, class Input>
__device__ void update_tile(Gradient dz, Input x, const MomentumUpdate &update, const Share &share,
                            int block, int rows, unsigned char *shared) {
  const int tile = block % share.tiles, split = block / share.tiles;
  const int row = tile / share.tiles_across, column = tile % share.tiles_across;
  const bool alone = share.splits == 1;
  const PartialOrUpdate epilogue = {
      update,
      alone ? nullptr : share.d_partial + ((size_t)tile * share.splits + split) * TILE_FLOATS,
      row * Shape::ROWS, column * Shape::COLUMNS};
  const int from = split * share.split_rows;
  large_tile<Shape>(dz, x, update.out, update.in + 1, from, min(from + share.split_rows, rows),
                    epilogue, row, column, shared);
  if (!alone) add_splits(share, update, tile);
}

template <int TERMS, bool VECTOR>
__device__ void update_layer(const Share &share, const BatchView &batch,
                             const MomentumUpdate &update, int block, unsigned char *shared) {
  using Floats = Matrix<ACROSS, VECTOR, TERMS>;
  const LayerUpdate &layer = share.layer;
  Floats dz = {layer.d_dz, batch.rows, layer.out, false};
  Floats x = {layer.d_x, batch.rows, layer.in, true};
  if (layer.d_x)
    update_tile(dz, x, update, share, block, batch.rows, shared);
  else
    update_tile(dz, Pixels<ACROSS>{batch, layer.in, true, 0, 0}, update, share, block, batch.rows,
                shared);
}

/* Updates every layer of a launch, or stores its gradient. Block: one tile of a layer's W (out, in
   + 1), over all rows of the batch or one split of them. Each value of dZ serves COLUMNS
   multiply-adds, each value of X serves ROWS. Per weight the block then reads and writes 8 bytes,
   or only writes a gradient of 4 bytes. */
template <int TERMS>
__global__ void __launch_bounds__(Shape::THREADS, 2)
    update_kernel(__grid_constant__ const Shares shares, BatchView batch) {
  using Widest = Matrix<ACROSS, true, TERMS>;
  __shared__ alignas(16) unsigned char shared[LARGE_TILE_BYTES<Shape, Widest, Widest>];
  if (rows_of_all_ranks(batch) == 0) {
    pdl_wait(); /* the next kernel relies on this wait */
    return;
  }
  int n = 0;
  while (n + 1 < shares.count && (int)blockIdx.x >= shares.share[n + 1].first_block) n++;
  const Share &share = shares.share[n];
  const LayerUpdate &layer = share.layer;
  const bool stores = layer.d_gw;
  float *d_w = stores ? layer.d_gw : layer.d_w;
  float *d_b = stores ? layer.d_gb : layer.d_b;
  const StepState *state = batch.d_state;
  const MomentumUpdate update = {{d_w, d_b, layer.d_vw, layer.d_vb, stores},
                                 {state->rule.momentum, state->rule.weight_decay},
                                 layer.out,
                                 layer.in,
                                 state->learning_rate};
  const int block = blockIdx.x - share.first_block;
  if (share.vector)
    update_layer<TERMS, true>(share, batch, update, block, shared);
  else
    update_layer<TERMS, false>(share, batch, update, block, shared);
}

/* Sets `share` to a division of a layer among blocks. Returns false if an argument is invalid. */
bool share_out(const LayerUpdate &layer, int rows, Share &share) {
  if (!layer.d_dz || !valid_update(layer)) return false;
  share.layer = layer;
  share.vector = layer.out % 4 == 0 && (layer.in % 4 == 0 || !layer.d_x);
  share.tiles_across = ceil_div(layer.in + 1, Shape::COLUMNS);
  share.tiles = ceil_div(layer.out, Shape::ROWS) * share.tiles_across;
  const int most = min(rows / MIN_SPLIT_ROWS, MAX_SPLITS);
  const int splits = max(min(WANTED_BLOCKS / share.tiles, most), 1);
  const int slabs = ceil_div(rows, Shape::DEPTH), each = ceil_div(slabs, splits);
  share.splits = ceil_div(slabs, each);
  share.split_rows = each * Shape::DEPTH;
  return true;
}

} // namespace

size_t update_work_bytes(void) {
  return (size_t)MAX_UPDATES * MAX_SPLIT_TILES * (TILE_FLOATS * sizeof(float) + sizeof(unsigned));
}

cudaError_t launch_updates(BatchView batch, const LayerUpdate *layers, int count, int terms,
                           void *d_work, cudaStream_t stream) {
  REQUIRE(valid_batch(batch) && layers && count >= 1 && count <= MAX_UPDATES && d_work &&
          valid_terms(terms));
  Shares shares = {};
  shares.count = count;
  int blocks = 0;
  float *d_partial = static_cast<float *>(d_work);
  unsigned *d_done =
      reinterpret_cast<unsigned *>(d_partial + (size_t)MAX_UPDATES * MAX_SPLIT_TILES * TILE_FLOATS);
  for (int n = 0; n < count; n++) {
    Share &share = shares.share[n];
    REQUIRE(share_out(layers[n], batch.rows, share));
    share.first_block = blocks;
    share.d_partial = d_partial + (size_t)n * MAX_SPLIT_TILES * TILE_FLOATS;
    share.d_done = d_done + n * MAX_SPLIT_TILES;
    blocks += share.tiles * share.splits;
  }
  return launch_pdl(terms == 3 ? update_kernel<3> : update_kernel<2>, blocks, Shape::THREADS,
                    stream, shares, batch);
}
