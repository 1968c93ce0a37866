/* Pairwise: squared Euclidean distances of n vectors of d floats. Each pair i < j counts once, in
   the order of PyTorch's pdist: the upper triangle row by row. Each term (a[k] - b[k])^2 is three
   operations in two instructions, so at best 75% of the FMA ceiling. The last rung's product takes
   one instruction per term: at best 150%. The predicted number is loads per term. */
#include <cuda_pipeline.h>

#include <cmath>

#include "lab/matmul_tile.cuh"

namespace {

constexpr int BLOCK = 256;       /* threads of a block, in all kernels */
constexpr double UNIT = 0x1p-24; /* half the spacing of float32 just above 1 */

/* The most vectors, and the most elements of each: pair_of() is right, and errors are small. */
constexpr int64_t MOST = 65536;

__host__ __device__ int64_t pairs_of(int64_t n) {
  return n * (n - 1) / 2;
}

/* The distance of pair (i, j) of n vectors is output row_start(i, n) + j. */
__host__ __device__ int64_t row_start(int64_t i, int64_t n) {
  return i * (2 * n - i - 1) / 2 - i - 1;
}

/* ---- reference ----------------------------------------------------------------------------------

   Relative errors, to first order in u = 2^-24: the difference has an error of u; squaring doubles
   it. The sum of d positive terms rounds each term at most d times. Together this is (d + 2) u of
   the result. The exact bound is gamma(d + 2) with gamma(m) = m u / (1 - m u) (Higham 2002, lemma
   3.1). It holds for sums in any order. Nothing cancels; equal vectors have distance 0. */

/* Sets sums[i] to the sum of term(a[k], b[k]) over k, for pair i of a range, and the allowed error
   to gamma(d + 2) times this sum. */
template <class Term> void sum_pairs(const LabRange *r, double *sums, Term term) {
  const int64_t n = r->size.dim[0], d = r->size.dim[1];
  const float *x = (const float *)r->h_in[0];
  const double roundings = (double)(d + 2) * UNIT;
  int64_t i = 0, skipped = r->first;
  for (; i < n - 1 && skipped >= n - 1 - i; i++) skipped -= n - 1 - i;
  for (int64_t pair = 0, j = i + 1 + skipped; pair < r->count; pair++) {
    double sum = 0.0;
    for (int64_t k = 0; k < d; k++) sum += term((double)x[i * d + k], (double)x[j * d + k]);
    sums[pair] = sum;
    r->allowed[pair] = sum * roundings / (1.0 - roundings);
    if (++j == n) i++, j = i + 1;
  }
}

void reference(const LabRange *r) {
  sum_pairs(r, r->expected, [](double a, double b) { return (a - b) * (a - b); });
}

/* The error of |a|^2 + |b|^2 - 2 a.b is at most gamma(d + 2) times the sum of (|a[k]| + |b[k]|)^2.
   For near vectors far from the origin, this is far more than the distance. */
void allowed_product(const LabRange *r) {
  sum_pairs(r, r->allowed, [](double a, double b) {
    const double both = fabs(a) + fabs(b);
    return both * both;
  });
}

/* Makes random vectors. If there are three or more, the last vector equals the first. */
void fill(LabSize size, int, void *h_values, int64_t count, uint64_t seed) {
  const int64_t n = size.dim[0], d = size.dim[1];
  float *x = (float *)h_values;
  lab_fill(LAB_FLOAT32, x, count, seed);
  for (int64_t k = 0; n > 2 && k < d; k++) x[(n - 1) * d + k] = x[k];
}

/* ---- the triangle's index ----------------------------------------------------------------------

   Which pair is number k? Count rows from the end: row r has r + 1 pairs, and r (r + 1) / 2 pairs
   come after it. If `left` pairs come after ours, sqrt(2 left) is at least r and below r + 2, and
   about half a row away from both ends (r = 0 is exact). So while r is below 2^22, rounding cannot
   leave this range: the integer part in float32 is r or r + 1. One integer comparison decides. */

struct Pair {
  int i, j;
};

__host__ __device__ Pair pair_of(int64_t k, int n) {
  const int64_t left = pairs_of(n) - 1 - k;
  int64_t r = (int64_t)sqrtf(2.0f * (float)left);
  if (r * (r + 1) / 2 > left) r--;
  return {(int)(n - 2 - r), (int)(n - 1 - (left - r * (r + 1) / 2))};
}

/* ---- 1. one thread per pair ---------------------------------------------------------------------
   Grid: one thread per pair, BLOCK per block. Neighbouring lanes mostly have the same i and
   neighbouring j. A term takes two 4-byte loads. a[k] is the same for the warp. The lanes' b[k] are
   d floats apart, so a request touches 32 sectors and uses 4 bytes of each. */
__global__ void __launch_bounds__(BLOCK)
    thread_a_pair(const float *__restrict__ d_x, float *__restrict__ d_out, int n, int d) {
  const int64_t k = lab_thread(BLOCK);
  if (k >= pairs_of(n)) return;
  const Pair pair = pair_of(k, n);
  const float *a = d_x + (size_t)pair.i * d, *b = d_x + (size_t)pair.j * d;
  float sum = 0.0f;
  for (int e = 0; e < d; e++) {
    const float x = a[e] - b[e];
    sum += x * x;
  }
  d_out[k] = sum;
}

cudaError_t launch_pairs(const LabCall *call) {
  const int64_t n = call->size.dim[0];
  return lab_map(call, thread_a_pair, lab_blocks(pairs_of(n), BLOCK), BLOCK, call->size.dim[1]);
}

/* ---- what the tiled rungs share -----------------------------------------------------------------
   Block: TILE x TILE pairs. Warp: 32 x 64 pairs. Thread: 8 x 8 pairs, with sums in registers. For
   each k four 16-byte loads fetch the operands of 64 terms. Vectors are permuted: of each 32,
   position 4 q + e holds vector q + 8 e, so that eight threads store a whole sector. Lanes are laid
   out in pairs that share addresses, because shared memory then serves half a warp at once. */
constexpr int TILE = 128, SIDE = 8;

__host__ __device__ int vector_at(int position) {
  return position / 32 * 32 + position % 32 / 4 + position % 4 * 8;
}

/* The positions of a thread's first quads. The second quads follow 16 rows and 32 columns later. */
using Owner = Corner;

__device__ Owner owner() {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int down = lane / 16 * 2 + lane % 2, across = lane / 2 % 8;
  return {warp / 2 * 32 + 4 * down, warp % 2 * 64 + 4 * across};
}

/* The two ways to compute a distance. add() adds a term, finish() makes the sum a distance. */
struct Differences {
  static constexpr bool NORMS = false;
  static __device__ float add(float sum, float a, float b) {
    const float difference = a - b;
    return fmaf(difference, difference, sum);
  }
  static __device__ float finish(float sum, const float *, int, int) {
    return sum;
  }
};

struct Products {
  static constexpr bool NORMS = true;
  static __device__ float add(float sum, float a, float b) {
    return fmaf(a, b, sum);
  }
  /* Rounding may make the distance of two near vectors negative. */
  static __device__ float finish(float sum, const float *d_norms, int i, int j) {
    const float distance = fmaf(-2.0f, sum, d_norms[i] + d_norms[j]);
    return distance < 0.0f ? 0.0f : distance;
  }
};

/* Adds the terms of one k. a and b have element k of all vectors of the tile's rows and columns. */
template <class Way>
__device__ void add_terms(float (&sum)[SIDE][SIDE], const float *a, const float *b, Owner mine) {
  float row[SIDE], column[SIDE];
  load_fragment(row, a + mine.row, 16);
  load_fragment(column, b + mine.column, 32);
  unrolled (r, SIDE)
    unrolled (c, SIDE) sum[r][c] = Way::add(sum[r][c], row[r], column[c]);
}

/* Stores distances by streaming stores, because they must not push vectors out of the cache. */
template <class Way>
__device__ void store_tile(const float (&sum)[SIDE][SIDE], const float *d_norms, float *d_out,
                           int n, Pair tile, Owner mine) {
  unrolled (r, SIDE) {
    const int i = tile.i * TILE + vector_at(mine.row + 16 * (r / 4) + r % 4);
    float *out = d_out + row_start(i, n);
    unrolled (c, SIDE) {
      const int j = tile.j * TILE + vector_at(mine.column + 32 * (c / 4) + c % 4);
      if (i < j && j < n) __stcs(out + j, Way::finish(sum[r][c], d_norms, i, j));
    }
  }
}

/* ---- 2. transposed once, copied asynchronously --------------------------------------------------
   A first kernel writes the vectors transposed and permuted, padded with zeros to whole tiles and
   slabs. Then 16-byte asynchronous copies fill two buffers alternately with slabs; each slab takes
   one barrier. A slab has COPIED elements k, because 300 = 25 x 12. The last slab's padding is
   unused. */
constexpr int COPIED = 12, UNROLLED = 4;
constexpr int QUADS = 2 * TILE / 4, LINES = BLOCK / QUADS; /* a line has QUADS quads; LINES lines
                                                              are copied at a time */
static_assert(COPIED % LINES == 0 && COPIED % UNROLLED == 0, "whole lines, whole steps per slab");

struct Transposed {
  int64_t pitch, depth; /* how many vectors and elements there are with padding */
};

Transposed transposed(LabSize size) {
  return {round_up(size.dim[0], TILE), round_up(size.dim[1], COPIED)};
}

/* Writes d_t (depth, pitch), the vectors transposed. Block: 32 vectors x 32 elements, through
   shared memory. A warp reads lines of 32 elements and writes lines of 32 vectors. */
__global__ void __launch_bounds__(BLOCK)
    transpose(const float *__restrict__ d_x, float *__restrict__ d_t, int n, int d, int pitch,
              int depth) {
  __shared__ float tile[32][33]; /* vector, k */
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int i0 = blockIdx.x * 32, k0 = blockIdx.y * 32;
  for (int line = warp; line < 32; line += 8) {
    const bool exists = i0 + line < n && k0 + lane < d;
    tile[line][lane] = exists ? d_x[(size_t)(i0 + line) * d + k0 + lane] : 0.0f;
  }
  __syncthreads();
  for (int line = warp; line < 32 && k0 + line < depth; line += 8)
    d_t[(size_t)(k0 + line) * pitch + i0 + lane] = tile[vector_at(lane)][line];
}

using Slabs = float[2][COPIED][2 * TILE]; /* (buffer, k, the tile's rows, then its columns) */

/* Computes the distances. Block: one tile of the upper triangle of tiles, with the diagonal. Tile
   (i, j), i <= j, has the index of pair (i, j + 1) of tiles + 1 vectors. */
template <class Way>
__global__ void __launch_bounds__(BLOCK, 2)
    asynchronous_tiles(const float *__restrict__ d_t, const float *__restrict__ d_norms,
                       float *__restrict__ d_out, int n, int d, int pitch, int tiles) {
  __shared__ __align__(16) Slabs slab;
  const Pair pair = pair_of(blockIdx.x, tiles + 1), tile = {pair.i, pair.j - 1};
  const Owner mine = owner();
  float sum[SIDE][SIDE] = {};
  const int line = threadIdx.x / QUADS, at = 4 * (threadIdx.x % QUADS);
  const float *source =
      d_t + (size_t)line * pitch + (at < TILE ? tile.i * TILE + at : tile.j * TILE + at - TILE);
  /* Fetches the next slab. */
  const auto fetch = [&](int buffer) {
#pragma unroll
    for (int k = 0; k < COPIED; k += LINES, source += (size_t)LINES * pitch)
      __pipeline_memcpy_async(&slab[buffer][k + line][at], source, 16);
    __pipeline_commit();
  };

  fetch(0);
  for (int k0 = 0, buffer = 0; k0 < d; k0 += COPIED, buffer ^= 1) {
    __pipeline_wait_prior(0);
    __syncthreads(); /* this slab has arrived for all threads; all have read the previous slab */
    if (k0 + COPIED < d) fetch(buffer ^ 1);
    const int depth = min(COPIED, d - k0);
#pragma unroll 1
    for (int k = 0; k < depth; k += UNROLLED)
      unrolled (step, UNROLLED)
        add_terms<Way>(sum, slab[buffer][k + step], slab[buffer][k + step] + TILE, mine);
  }
  store_tile<Way>(sum, d_norms, d_out, n, tile, mine);
}

/* ---- 3. norms and a product ---------------------------------------------------------------------
   |a - b|^2 = |a|^2 + |b|^2 - 2 a.b takes one instruction per term instead of two. The rest is as
   in the previous rung. The price is a larger error (allowed_product). This kernel computes the
   norms, with one warp per vector. */
__global__ void __launch_bounds__(BLOCK)
    norms(const float *__restrict__ d_x, float *__restrict__ d_norms, int n, int d) {
  const int i = blockIdx.x * (BLOCK / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (i >= n) return; /* a whole warp returns */
  float sum = 0.0f;
  for (int k = lane; k < d; k += 32) {
    const float x = d_x[(size_t)i * d + k];
    sum = fmaf(x, x, sum);
  }
  sum = lab_shuffle<32>(sum, LabSum());
  if (lane == 0) d_norms[i] = sum;
}

/* Returns the bytes of d_work in rungs 2 and 3: transposed vectors, then norms if Way has them. */
template <class Way> size_t asynchronous_bytes(const LabCall *call) {
  const Transposed t = transposed(call->size);
  return sizeof(float) * (t.pitch * t.depth + (Way::NORMS ? call->size.dim[0] : 0));
}

template <class Way> cudaError_t launch_asynchronous(const LabCall *call) {
  const Transposed t = transposed(call->size);
  const int64_t n = call->size.dim[0], d = call->size.dim[1];
  float *d_t = (float *)call->d_work, *d_norms = d_t + t.pitch * t.depth;
  const LabCall helper = lab_helper(call);
  if (Way::NORMS)
    TRY(lab_launch(&helper, norms, lab_grid(call, BLOCK / 32), BLOCK, 0, call->d_in[0], d_norms, n,
                   d));
  TRY(lab_launch(&helper, transpose, dim3(lab_blocks(t.pitch, 32), lab_blocks(t.depth, 32)), BLOCK,
                 0, call->d_in[0], d_t, n, d, t.pitch, t.depth));
  return lab_launch(call, asynchronous_tiles<Way>, pairs_of(t.pitch / TILE + 1), BLOCK, 0, d_t,
                    d_norms, call->d_out, n, d, t.pitch, t.pitch / TILE);
}

const char *refuse(int, LabSize size) {
  if (size.dim[0] < 2) return "one vector makes no pair";
  if (size.dim[0] > MOST) return "more than 65536 vectors make more than 2^31 pairs";
  if (size.dim[1] > MOST) return "sums of more than 65536 terms are too inexact in float32";
  return nullptr;
}

const LabProblem problems[] = {
    {LAB_FLOATS,
     /* Each term is three operations. */
     [](LabSize size) { return 3.0 * (double)pairs_of(size.dim[0]) * (double)size.dim[1]; },
     reference, fill}};

/* Predicted for tiled rungs: a thread's four loads for 64 terms, without copies of slabs. */
const LabRung rungs[] = {
    {"multiply", "One thread per pair: threads wait for the two loads of each term", launch_pairs,
     lab_value<2>},
    {"asynchronous",
     "8 x 8 pairs per thread, and the next slab is copied meanwhile: little but arithmetic is left",
     launch_asynchronous<Differences>, lab_value<4, SIDE * SIDE>,
     .capability = 80, /* older GPUs would copy through registers, which is not the rung's lesson */
     .work = asynchronous_bytes<Differences>},
    {"product",
     "Norms and a matrix product: half of the instructions, but cancellation costs accuracy",
     launch_asynchronous<Products>, lab_value<4, SIDE * SIDE>, .work = asynchronous_bytes<Products>,
     .allowed = allowed_product}};

} // namespace

const LabTopic lab_pairwise = {
    "pairwise",
    "Squared distances of all pairs of vectors",
    "vectors x elements",
    LAB_GFLOP_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(16384, 300), lab_size(4096, 300), lab_size(65536, 16)},
    .tested = lab_size(300, 70),
    .refuse = refuse,
    .count =
        [](int, LabSize size, int array) {
          return array >= 0 ? size.dim[0] * size.dim[1] : pairs_of(size.dim[0]);
        },
    .predicted_name = "loads per term",
    .counted = LAB_COUNTS_LOADS,
    .metric = "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    .metric_name = "FMA pipe, % of peak"};
