/* Pairwise: squared Euclidean distances of n vectors of d floats, with which t-SNE (van der Maaten
   and Hinton 2008) and nearest-neighbour searches begin. Each pair i < j counts once, in the order
   of PyTorch's pdist: the upper triangle row by row. A term (a[k] - b[k])^2 is three operations but
   two instructions, so a kernel that starts nothing else reaches 75% of the FMA ceiling. The last
   rung replaces the differences by a product, one instruction per term: at best 150%. */
#include <cuda_pipeline.h>

#include <cmath>

#include "lab/cublas.cuh"
#include "lab/matmul_tile.cuh"

namespace {

constexpr int BLOCK = 256;       /* threads per block in most kernels */
constexpr double UNIT = 0x1p-24; /* half the spacing of float32 just above 1 */

/* The most vectors, and the most elements of each. Up to here pair_of() is exact and sums of d
   terms are accurate. */
constexpr int64_t MOST = 65536;

__host__ __device__ int64_t pairs_of(int64_t n) {
  return n * (n - 1) / 2;
}

/* The distance of pair (i, j) of n vectors is output row_start(i, n) + j. */
__host__ __device__ int64_t row_start(int64_t i, int64_t n) {
  return i * (2 * n - i - 1) / 2 - i - 1;
}

/* ---- reference ----------------------------------------------------------------------------------

   Relative errors, to first order in u = 2^-24: the difference has an error of u, so its square has
   2 u. A sum of d positive terms rounds each term at most d times, in any order. Together this is
   (d + 2) u of the result, or exactly gamma(d + 2) with gamma(m) = m u / (1 - m u) (Higham 2002,
   lemma 3.1). Nothing cancels, and equal vectors have distance 0. */

/* Sets sums[i] to the sum of term(a[k], b[k]) over k, for pair i of a range, and the allowed error
   to gamma(d + MORE) times this sum. Walks along the rows, so that it also checks pair_of(). */
template <int MORE, class Term> void sum_pairs(const LabRange *r, double *sums, Term term) {
  const int64_t n = r->size.dim[0], d = r->size.dim[1];
  const float *x = (const float *)r->h_in[0];
  const double roundings = (double)(d + MORE) * UNIT;
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

double squared_difference(double a, double b) {
  return (a - b) * (a - b);
}

void reference(const LabRange *r) {
  sum_pairs<2>(r, r->expected, squared_difference);
}

/* CUDA's guides have stated 4 to 9 ulp for powf. An ulp is at most 2 u, so the square gets 18 u. */
void allowed_power(const LabRange *r) {
  sum_pairs<20>(r, r->expected, squared_difference);
}

/* The error of |a|^2 + |b|^2 - 2 a.b is at most gamma(d + 2) times the sum of (|a[k]| + |b[k]|)^2.
   For vectors that are near each other but far from the origin, this is far more than their
   distance. */
void allowed_product(const LabRange *r) {
  sum_pairs<2>(r, r->allowed, [](double a, double b) {
    const double both = fabs(a) + fabs(b);
    return both * both;
  });
}

/* Makes random vectors. If there are three or more, the last vector equals the first: differences
   must find 0, which a product hardly ever does. */
void fill(LabSize size, int, void *h_values, int64_t count, uint64_t seed) {
  const int64_t n = size.dim[0], d = size.dim[1];
  float *x = (float *)h_values;
  lab_fill(LAB_FLOAT32, x, count, seed);
  for (int64_t k = 0; n > 2 && k < d; k++) x[(n - 1) * d + k] = x[k];
}

/* ---- the triangle's index -----------------------------------------------------------------------

   Which pair is number k? Count rows from the end: row r has r + 1 pairs, and r (r + 1) / 2 pairs
   come after it. If `left` pairs come after ours, sqrt(2 left) is at least r and below r + 2, and
   about half a row away from both ends (r = 0 is exact). While r is below 2^22, rounding to float32
   cannot leave this range, so the integer part is r or r + 1, and one comparison of integers
   decides. A float32 root alone would be wrong from n = 2,049 on. */

struct Pair {
  int i, j;
};

__host__ __device__ Pair pair_of(int64_t k, int n) {
  const int64_t left = pairs_of(n) - 1 - k;
  int64_t r = (int64_t)sqrtf(2.0f * (float)left);
  if (r * (r + 1) / 2 > left) r--;
  return {(int)(n - 2 - r), (int)(n - 1 - (left - r * (r + 1) / 2))};
}

/* The same for a triangle of tiles, which includes the diagonal: tile (i, j), i <= j, has the
   number of pair (i, j + 1) of tiles + 1 vectors. */
__device__ Pair tile_of(int64_t k, int tiles) {
  const Pair pair = pair_of(k, tiles + 1);
  return {pair.i, pair.j - 1};
}

unsigned tiles_of_triangle(int64_t tiles) {
  return (unsigned)pairs_of(tiles + 1);
}

/* ---- 1. and 2. one thread per pair --------------------------------------------------------------
   Grid: one thread per pair, BLOCK per block. Neighbouring lanes mostly have the same i and
   neighbouring j. A term takes two 4-byte loads: a[e] is the same for the warp, but the lanes' b[e]
   are d floats apart, so a request touches 32 sectors and uses 4 bytes of each. `two` is an
   argument, because the compiler would replace powf(x, 2) by x * x. */
template <bool POWER>
__global__ void __launch_bounds__(BLOCK)
    thread_a_pair(const float *__restrict__ d_x, float *__restrict__ d_out, int n, int d,
                  float two) {
  const int64_t k = lab_thread(BLOCK);
  if (k >= pairs_of(n)) return;
  const Pair pair = pair_of(k, n);
  const float *a = d_x + (size_t)pair.i * d, *b = d_x + (size_t)pair.j * d;
  float sum = 0.0f;
  for (int e = 0; e < d; e++) {
    const float x = a[e] - b[e];
    sum += POWER ? powf(x, two) : x * x;
  }
  d_out[k] = sum;
}

template <bool POWER> cudaError_t launch_pairs(const LabCall *call) {
  return lab_map(call, thread_a_pair<POWER>, lab_blocks(pairs_of(call->size.dim[0]), BLOCK), BLOCK,
                 call->size.dim[1], 2.0f);
}

/* ---- 3. subsets in shared memory ----------------------------------------------------------------
   Grid: the tiles of SUBSET x SUBSET pairs with i <= j. Block: one tile; it copies SUBSET elements
   of its 2 SUBSET vectors at a time. A warp reads SUBSET neighbouring elements of a vector (one
   request of 128 bytes), and writes them into a column: so they are transposed, and the odd pitch
   spreads a column over all banks. Then each thread has one pair: a[k][y] is one word for the warp,
   b[k][x] are 32 neighbouring words. Each word that was loaded from memory serves 32 pairs, but a
   term still takes two loads from shared memory, at one per cycle: four times as long as its two
   instructions take on four schedulers. */
constexpr int SUBSET = 32, SUBSET_PITCH = SUBSET + 1;
using SubsetLine = float[SUBSET_PITCH]; /* element k of SUBSET vectors */

/* Returns element k of vector i, or 0 beyond the vectors: 0 adds nothing to the distance. */
__device__ float element(const float *d_x, int n, int d, int i, int k) {
  return i < n && k < d ? d_x[(size_t)i * d + k] : 0.0f;
}

__global__ void __launch_bounds__(SUBSET *SUBSET)
    subsets(const float *__restrict__ d_x, float *__restrict__ d_out, int n, int d, int tiles) {
  __shared__ SubsetLine a[SUBSET], b[SUBSET];
  const Pair tile = tile_of(blockIdx.x, tiles);
  const int x = threadIdx.x % SUBSET, y = threadIdx.x / SUBSET;
  float sum = 0.0f;
  for (int k0 = 0; k0 < d; k0 += SUBSET) {
    a[x][y] = element(d_x, n, d, tile.i * SUBSET + y, k0 + x);
    b[x][y] = element(d_x, n, d, tile.j * SUBSET + y, k0 + x);
    __syncthreads();
    unrolled (k, SUBSET) {
      const float difference = a[k][y] - b[k][x];
      sum += difference * difference;
    }
    __syncthreads();
  }
  const int i = tile.i * SUBSET + y, j = tile.j * SUBSET + x;
  if (i < j && j < n) d_out[row_start(i, n) + j] = sum;
}

cudaError_t launch_subsets(const LabCall *call) {
  const unsigned tiles = lab_grid(call, SUBSET);
  return lab_map(call, subsets, tiles_of_triangle(tiles), SUBSET * SUBSET, call->size.dim[1],
                 tiles);
}

/* ---- 4. dynamic shared memory -------------------------------------------------------------------
   As rung 3, but the launcher chooses how many elements of its vectors a block copies at a time:
   all of them if they fit. Rung 3 must know the size of its arrays when it is compiled, and may
   have 48 KB; here the size is an argument of the launch, and may be all that a multiprocessor has.
   Two barriers for the whole of a vector replace two for each 32 elements. */
__global__ void __launch_bounds__(SUBSET *SUBSET)
    whole_vectors(const float *__restrict__ d_x, float *__restrict__ d_out, int n, int d, int tiles,
                  int depth) {
  extern __shared__ SubsetLine lines[]; /* `depth` lines of the tile's rows, then of its columns */
  SubsetLine *const a = lines, *const b = lines + depth;
  const Pair tile = tile_of(blockIdx.x, tiles);
  const int x = threadIdx.x % SUBSET, y = threadIdx.x / SUBSET;
  float sum = 0.0f;
  for (int k0 = 0; k0 < d; k0 += depth) {
    const int here = min(depth, d - k0);
    for (int k = x; k < here; k += SUBSET) {
      a[k][y] = element(d_x, n, d, tile.i * SUBSET + y, k0 + k);
      b[k][y] = element(d_x, n, d, tile.j * SUBSET + y, k0 + k);
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < here; k++) {
      const float difference = a[k][y] - b[k][x];
      sum += difference * difference;
    }
    __syncthreads();
  }
  const int i = tile.i * SUBSET + y, j = tile.j * SUBSET + x;
  if (i < j && j < n) d_out[row_start(i, n) + j] = sum;
}

/* Leaves room for as many blocks as the multiprocessor has threads for. The system reserves 1024
   bytes of each block's shared memory. */
cudaError_t launch_whole_vectors(const LabCall *call) {
  constexpr int RESERVED = 1024, LINES = 2 * sizeof(SubsetLine);
  const int blocks = lab_resident(call->gpu->capability, SUBSET * SUBSET, 2);
  const int room = ((int)call->gpu->shared_bytes + RESERVED) / blocks - RESERVED;
  const int depth = (int)std::min<int64_t>(call->size.dim[1], room / LINES);
  const unsigned tiles = lab_grid(call, SUBSET);
  return lab_launch(call, whole_vectors, tiles_of_triangle(tiles), SUBSET * SUBSET,
                    (size_t)depth * LINES, call->d_in[0], call->d_out, call->size.dim[0],
                    call->size.dim[1], tiles, depth);
}

/* ---- what rungs 5 to 7 share --------------------------------------------------------------------
   Block: TILE x TILE pairs. Warp: 32 x 64 pairs. Thread: 8 x 8 pairs, with sums in registers. For
   each k four 16-byte loads fetch the operands of 64 terms. Vectors are permuted: of each 32,
   position 4 q + e holds vector q + 8 e, so that eight threads store a whole sector. Lanes are laid
   out in pairs that share addresses, because shared memory then serves half a warp at once. */
constexpr int TILE = 128, SIDE = 8;

__host__ __device__ int vector_at(int position) {
  return position / 32 * 32 + position % 32 / 4 + position % 4 * 8;
}

/* Returns the positions of a thread's first rows and columns. The second four rows follow 16
   positions later, the second four columns 32 positions later. */
__device__ Corner owner() {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int down = lane / 16 * 2 + lane % 2, across = lane / 2 % 8;
  return {warp / 2 * 32 + 4 * down, warp % 2 * 64 + 4 * across};
}

/* Two ways to compute a distance. add() adds a term, finish() makes the sum a distance. */
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
__device__ void add_terms(float (&sum)[SIDE][SIDE], const float *a, const float *b, Corner mine) {
  float row[SIDE], column[SIDE];
  load_fragment(row, a + mine.row, 16);
  load_fragment(column, b + mine.column, 32);
  unrolled (r, SIDE)
    unrolled (c, SIDE) sum[r][c] = Way::add(sum[r][c], row[r], column[c]);
}

/* Stores distances by streaming stores, because they must not push vectors out of the cache. The
   output's row starts are computed one from another: eight of them, computed ahead of the loop over
   k, would not fit into the registers that 64 sums leave. */
template <class Way>
__device__ void store_pairs(const float (&sum)[SIDE][SIDE], const float *d_norms, float *d_out,
                            int n, Pair tile, Corner mine) {
  const int i0 = tile.i * TILE + vector_at(mine.row), j0 = tile.j * TILE + vector_at(mine.column);
  float *out = d_out + row_start(i0, n) + j0;
  unrolled (r, SIDE) {
    const int i = i0 + r / 4 * 4 + r % 4 * 8; /* as in vector_at() */
    unrolled (c, SIDE) {
      const int right = c / 4 * 32 + c % 4 * 8, j = j0 + right;
      if (i < j && j < n) __stcs(out + right, Way::finish(sum[r][c], d_norms, i, j));
    }
    const int down = r % 4 < 3 ? 8 : 4 - 24;
    out += (int64_t)down * (n - i - 1) - down * (down + 1) / 2;
  }
}

/* ---- 5. tiles in registers ----------------------------------------------------------------------
   A block copies and transposes SLAB elements of its 2 TILE vectors at a time. Lanes are 8 along
   the elements and 4 along the vectors: so a warp reads whole sectors, and the pitch of four more
   than 128 words puts its 32 words into 32 banks. All threads wait while a slab is fetched. */
constexpr int SLAB = 8, PITCH = TILE + 4;

__global__ void __launch_bounds__(BLOCK, 2)
    register_tiles(const float *__restrict__ d_x, float *__restrict__ d_out, int n, int d,
                   int tiles) {
  __shared__ __align__(16) float a[SLAB][PITCH], b[SLAB][PITCH]; /* k, position */
  const Pair tile = tile_of(blockIdx.x, tiles);
  const Corner mine = owner();
  const int warp = threadIdx.x / 32, line = threadIdx.x % 32 / 8, k = threadIdx.x % 8;
  float sum[SIDE][SIDE] = {};
  for (int k0 = 0; k0 < d; k0 += SLAB) {
    unrolled_by (group, TILE, 32) {
      const int position = group + 4 * warp + line, vector = vector_at(position);
      a[k][position] = element(d_x, n, d, tile.i * TILE + vector, k0 + k);
      b[k][position] = element(d_x, n, d, tile.j * TILE + vector, k0 + k);
    }
    __syncthreads();
    unrolled (e, SLAB) add_terms<Differences>(sum, a[e], b[e], mine);
    __syncthreads();
  }
  store_pairs<Differences>(sum, nullptr, d_out, n, tile, mine);
}

cudaError_t launch_register_tiles(const LabCall *call) {
  const unsigned tiles = lab_grid(call, TILE);
  return lab_map(call, register_tiles, tiles_of_triangle(tiles), BLOCK, call->size.dim[1], tiles);
}

/* ---- 6. transposed once, copied asynchronously --------------------------------------------------
   A first kernel writes the vectors transposed and permuted, padded with zeros to whole tiles and
   slabs. Then no block transposes again: 16-byte asynchronous copies, which need no registers, fill
   one of two buffers while the other is worked on, and each slab takes one barrier. A slab has
   COPIED elements k, because 300 = 25 x 12. */
constexpr int COPIED = 12, UNROLLED = 4;
constexpr int QUADS = 2 * TILE / 4;  /* 16-byte words of a line: the tile's rows and columns */
constexpr int LINES = BLOCK / QUADS; /* lines that the block copies at a time */
static_assert(COPIED % LINES == 0 && COPIED % UNROLLED == 0, "whole lines, whole steps per slab");

struct Transposed {
  int64_t pitch, depth; /* vectors and elements, with the padding */
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
  for (int line = warp; line < 32; line += 8)
    tile[line][lane] = element(d_x, n, d, i0 + line, k0 + lane);
  __syncthreads();
  for (int line = warp; line < 32 && k0 + line < depth; line += 8)
    d_t[(size_t)(k0 + line) * pitch + i0 + lane] = tile[vector_at(lane)][line];
}

using Slabs = float[2][COPIED][2 * TILE]; /* buffer, k, positions of rows and then of columns */

template <class Way>
__global__ void __launch_bounds__(BLOCK, 2)
    asynchronous_tiles(const float *__restrict__ d_t, const float *__restrict__ d_norms,
                       float *__restrict__ d_out, int n, int d, int pitch, int tiles) {
  __shared__ __align__(16) Slabs slab;
  const Pair tile = tile_of(blockIdx.x, tiles);
  const Corner mine = owner();
  float sum[SIDE][SIDE] = {};
  const int line = threadIdx.x / QUADS, at = 4 * (threadIdx.x % QUADS);
  const float *source =
      d_t + (size_t)line * pitch + (at < TILE ? tile.i * TILE + at : tile.j * TILE + at - TILE);
  const auto fetch_next = [&](int buffer) {
#pragma unroll
    for (int k = 0; k < COPIED; k += LINES, source += (size_t)LINES * pitch)
      __pipeline_memcpy_async(&slab[buffer][k + line][at], source, 16);
    __pipeline_commit();
  };

  fetch_next(0);
  for (int k0 = 0, buffer = 0; k0 < d; k0 += COPIED, buffer ^= 1) {
    __pipeline_wait_prior(0);
    __syncthreads(); /* this slab has arrived for all threads; all have read the previous slab */
    if (k0 + COPIED < d) fetch_next(buffer ^ 1);
    const int depth = min(COPIED, d - k0);
#pragma unroll 1
    for (int k = 0; k < depth; k += UNROLLED)
      unrolled (step, UNROLLED)
        add_terms<Way>(sum, slab[buffer][k + step], slab[buffer][k + step] + TILE, mine);
  }
  store_pairs<Way>(sum, d_norms, d_out, n, tile, mine);
}

/* ---- 7. norms and a product ---------------------------------------------------------------------
   |a - b|^2 = |a|^2 + |b|^2 - 2 a.b takes one instruction per term instead of two; the rest is as
   in rung 6. The price is accuracy (allowed_product). This kernel computes the norms, with one warp
   per vector. */
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

cudaError_t launch_norms(const LabCall *call, float *d_norms) {
  const LabCall helper = lab_helper(call);
  return lab_launch(&helper, norms, lab_grid(call, BLOCK / 32), BLOCK, 0, call->d_in[0], d_norms,
                    call->size.dim[0], call->size.dim[1]);
}

/* Returns the bytes of d_work in rungs 6 and 7: transposed vectors, then norms if Way has them. */
template <class Way> size_t asynchronous_bytes(const LabCall *call) {
  const Transposed t = transposed(call->size);
  return sizeof(float) * (size_t)(t.pitch * t.depth + (Way::NORMS ? call->size.dim[0] : 0));
}

template <class Way> cudaError_t launch_asynchronous(const LabCall *call) {
  const Transposed t = transposed(call->size);
  const int64_t n = call->size.dim[0], d = call->size.dim[1];
  float *d_t = (float *)call->d_work, *d_norms = d_t + t.pitch * t.depth;
  const LabCall helper = lab_helper(call);
  if (Way::NORMS) TRY(launch_norms(call, d_norms));
  TRY(lab_launch(&helper, transpose, dim3(lab_blocks(t.pitch, 32), lab_blocks(t.depth, 32)), BLOCK,
                 0, call->d_in[0], d_t, n, d, t.pitch, t.depth));
  return lab_launch(call, asynchronous_tiles<Way>, tiles_of_triangle(t.pitch / TILE), BLOCK, 0, d_t,
                    d_norms, call->d_out, n, d, t.pitch, t.pitch / TILE);
}

/* ---- the library: products by cuBLAS ------------------------------------------------------------
   A gemm knows no triangle. So panels of PANEL rows are multiplied by all vectors from the panel's
   first on: this computes half a panel too much per row, and needs little memory. Then a kernel of
   ours adds the norms and packs the rows. Grid: a row of blocks per row of the panel. */
constexpr int PANEL = 2048;

__global__ void __launch_bounds__(BLOCK)
    pack(const float *__restrict__ d_panel, const float *__restrict__ d_norms,
         float *__restrict__ d_out, int n, int first) {
  const int i = first + blockIdx.y, j = first + blockIdx.x * BLOCK + threadIdx.x;
  if (j <= i || j >= n) return;
  const float product = d_panel[(size_t)blockIdx.y * (n - first) + (j - first)]; /* -2 a.b */
  const float distance = (d_norms[i] + d_norms[j]) + product;
  d_out[row_start(i, n) + j] = distance < 0.0f ? 0.0f : distance;
}

size_t cublas_bytes(const LabCall *call) {
  const int64_t n = call->size.dim[0];
  return sizeof(float) * (size_t)(n + std::min<int64_t>(n, PANEL) * n);
}

cudaError_t launch_cublas(const LabCall *call) {
  const int n = (int)call->size.dim[0], d = (int)call->size.dim[1];
  float *d_norms = (float *)call->d_work, *d_panel = d_norms + n;
  const LabCall helper = lab_helper(call);
  TRY(launch_norms(call, d_norms));
  for (int first = 0; first < n; first += PANEL) {
    const int rows = std::min(n - first, PANEL), columns = n - first;
    const float factor = -2.0f, none = 0.0f, *x = (const float *)call->d_in[0] + (size_t)first * d;
    /* cuBLAS is column-major: its (columns, rows) is our (rows, columns). */
    TRY(lab_cublas(call, [=](cublasHandle_t handle) {
      return cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, columns, rows, d, &factor, x, d, x, d,
                         &none, d_panel, columns);
    }));
    TRY(lab_launch(&helper, pack, dim3(lab_blocks(columns, BLOCK), rows), BLOCK, 0, d_panel,
                   d_norms, call->d_out, n, first));
  }
  return cudaSuccess;
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

constexpr char EDGES[] =
    "copies to shared memory, results, and the terms that a tile computes beyond "
    "the triangle's edge are counted, too";

/* Predicts how often a thread accesses memory per term, without the copies to shared memory. */
const LabRung rungs[] = {
    {"powf", "One thread per pair, squares by powf: dozens of instructions replace one product",
     launch_pairs<true>, lab_value<2>, .allowed = allowed_power,
     .differs = "each pair's result is counted, too"},
    {"multiply", "Squares by a product: now threads wait for the two loads of each term",
     launch_pairs<false>, lab_value<2>, .differs = "each pair's result is counted, too"},
    {"shared",
     "A block has a tile of pairs, 32 vectors each way, and transposes them in shared memory: each "
     "word that it loads serves 32 pairs",
     launch_subsets, lab_value<2>, .differs = EDGES},
    {"shared-dynamic",
     "Dynamic shared memory: the launch chooses the size, so whole vectors fit and two barriers "
     "are enough",
     launch_whole_vectors, lab_value<2>, .differs = EDGES},
    {"registers",
     "8 x 8 pairs per thread: 16 words from shared memory, in four loads, serve 64 terms",
     launch_register_tiles, lab_value<4, SIDE * SIDE>, .differs = EDGES},
    {"asynchronous",
     "Vectors are transposed once, and the next slab is copied meanwhile: little but arithmetic is "
     "left",
     launch_asynchronous<Differences>, lab_value<4, SIDE * SIDE>,
     .capability = 80, /* older GPUs would copy through registers, which is not the rung's lesson */
     .work = asynchronous_bytes<Differences>, .differs = EDGES},
    {"product",
     "Norms and a matrix product: half of the instructions, but cancellation costs accuracy",
     launch_asynchronous<Products>, lab_value<4, SIDE * SIDE>, .work = asynchronous_bytes<Products>,
     .allowed = allowed_product, .differs = EDGES},
    {"cublas",
     "cublasSgemm on panels of the triangle, then a kernel that adds norms and packs rows",
     launch_cublas, .kind = LAB_LIBRARY, .work = cublas_bytes, .allowed = allowed_product}};

} // namespace

const LabTopic lab_pairwise = {
    "pairwise",
    "Pairwise distances: all pairs of vectors, each pair once",
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
    .predicted_name = "memory accesses of a thread per term",
    .counted = LAB_COUNTS_ACCESSES,
    .metric = "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    .metric_name = "FMA pipe, % of peak"};
