/* Pairwise: squared Euclidean distances of n vectors of d floats, each pair i < j once.

   The output is the upper triangle row by row, the order of PyTorch's pdist: (0, 1), (0, 2), ...,
   (0, n - 1), (1, 2), ... Each element k of a pair gives one term, (a[k] - b[k])^2: three
   operations, in two instructions. So a kernel that issues nothing else shows 75% of the FMA
   ceiling, which counts two operations per instruction. The product of the last rung needs one
   instruction per term and is counted by the work it replaces: 150%.

   Arithmetic decides, if only operands reach it. The column counts loads per term. */
#include <cuda_pipeline.h>

#include "lab/cublas.cuh"
#include "lab/matmul_tile.cuh"
#include "lab/pairwise_reference.cuh"

namespace {

/* ---- 1. one thread per pair ---------------------------------------------------------------------
   Grid: all pairs, PAIR_BLOCK per block. Lane: one pair, mostly with its neighbour's i and the next
   j. Two 4-byte loads per term: a[k] is the same for the warp, b[k] lies d floats from the
   neighbour's, so a request touches 32 sectors and uses 4 bytes of each. */
constexpr int PAIR_BLOCK = 256;

__global__ void __launch_bounds__(PAIR_BLOCK)
    thread_a_pair(const float *__restrict__ d_x, float *__restrict__ d_out, int n, int d) {
  const int64_t k = lab_thread(PAIR_BLOCK);
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
  return lab_map(call, thread_a_pair, lab_blocks(pairs_of(n), PAIR_BLOCK), PAIR_BLOCK,
                 call->size.dim[1]);
}

/* Blocks of a triangle of tiles, the diagonal among them. */
unsigned triangle(int64_t tiles) {
  return (unsigned)pairs_of(tiles + 1);
}

/* ---- what the tiled rungs share -----------------------------------------------------------------
   Block: TILE x TILE pairs. Warp: 32 x 64 of them, four warps down, two across. Thread: 8 x 8, sums
   in registers; for each k it loads 8 elements of its rows and 8 of its columns with four 16-byte
   loads and does 64 terms with them: a 16th of a load per term.

   Vectors are permuted: within each 32, position 4 q + e holds vector q + 8 e. The four that a
   16-byte load brings are therefore 8 apart, and when eight threads of a warp store their e-th,
   they store eight neighbours, a whole sector; without it each would fill a quarter of one.

   Lanes are laid out in twos (lane % 2, lane / 16 go down; lane / 2 % 8 across) because a 16-byte
   request is served by half warps if neighbouring lanes share addresses, else by quarters. */
constexpr int TILE = 128, TILE_BLOCK = 256, SIDE = 8;

__host__ __device__ int vector_at(int position) {
  return position / 32 * 32 + position % 32 / 4 + position % 4 * 8;
}

/* The positions of a thread's first quads; the second are 16 rows, 32 columns on. */
using Owner = Corner;

__device__ Owner owner() {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int down = lane / 16 * 2 + lane % 2, across = lane / 2 % 8;
  return {warp / 2 * 32 + 4 * down, warp % 2 * 64 + 4 * across};
}

/* The two ways to compute a distance: what a term adds, and what becomes of the sum. */
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

/* Adds the terms of one k. a, b: its elements of the tile's rows and columns. */
template <class Way>
__device__ void add_terms(float (&sum)[SIDE][SIDE], const float *a, const float *b, Owner mine) {
  float row[SIDE], column[SIDE];
  load_fragment(row, a + mine.row, 16);
  load_fragment(column, b + mine.column, 32);
  unrolled (r, SIDE)
    unrolled (c, SIDE) sum[r][c] = Way::add(sum[r][c], row[r], column[c]);
}

/* Streaming stores: values that are never read again must not push the vectors out of the cache. */
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
   slabs: 40 MB, about 20 us. After that 16-byte asynchronous copies bring a slab to shared memory
   with no test, no register and no transposition. Two buffers: while one is worked on, the other is
   filled, and a slab has one barrier. COPIED elements per slab, since 300 = 25 x 12; of the last
   one, only those that exist (by fours) are worked on. */
constexpr int COPIED = 12, UNROLLED = 4;
constexpr int QUADS = 2 * TILE / 4,
              LINES = TILE_BLOCK / QUADS; /* of a line; at a time by a block */
static_assert(COPIED % LINES == 0 && COPIED % UNROLLED == 0, "whole lines, whole steps per slab");

struct Transposed {
  int64_t pitch, depth; /* vectors and elements of each, padded */
};

Transposed transposed(LabSize size) {
  return {round_up(size.dim[0], TILE), round_up(size.dim[1], COPIED)};
}

/* d_t: (depth, pitch). Block: 32 vectors x 32 elements through shared memory. Warp: one line of 32,
   read along the elements, written along the vectors. */
__global__ void __launch_bounds__(256)
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

using Slabs = float[2][COPIED][2 * TILE]; /* buffer, k, rows and columns */

/* The sums of a tile. Nobody may still use the slabs. */
template <class Way>
__device__ void sum_tile(float (&sum)[SIDE][SIDE], Slabs &slab, const float *d_t, int d, int pitch,
                         Pair tile, Owner mine) {
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
    __syncthreads(); /* this slab has arrived for all threads, and the one before is done with */
    if (k0 + COPIED < d) fetch(buffer ^ 1);
    const int depth = min(COPIED, d - k0);
#pragma unroll 1
    for (int k = 0; k < depth; k += UNROLLED)
      unrolled (step, UNROLLED)
        add_terms<Way>(sum, slab[buffer][k + step], slab[buffer][k + step] + TILE, mine);
  }
}

template <class Way>
__global__ void __launch_bounds__(TILE_BLOCK, 2)
    asynchronous_tiles(const float *__restrict__ d_t, const float *__restrict__ d_norms,
                       float *__restrict__ d_out, int n, int d, int pitch, int tiles) {
  __shared__ __align__(16) Slabs slab;
  const Pair tile = tile_of(blockIdx.x, tiles);
  const Owner mine = owner();
  float sum[SIDE][SIDE] = {};
  sum_tile<Way>(sum, slab, d_t, d, pitch, tile, mine);
  store_tile<Way>(sum, d_norms, d_out, n, tile, mine);
}

/* ---- 3. norms and a product ---------------------------------------------------------------------
   |a - b|^2 = |a|^2 + |b|^2 - 2 a.b: one instruction per term instead of two; the rest is the rung
   before. allowed_product tells what it costs. Norms: one warp per vector, 32 lanes along it. */
constexpr int NORM_BLOCK = 256;

__global__ void __launch_bounds__(NORM_BLOCK)
    norms(const float *__restrict__ d_x, float *__restrict__ d_norms, int n, int d) {
  const int i = blockIdx.x * (NORM_BLOCK / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (i >= n) return; /* a whole warp */
  float sum = 0.0f;
  for (int k = lane; k < d; k += 32) {
    const float x = d_x[(size_t)i * d + k];
    sum = fmaf(x, x, sum);
  }
  sum = lab_shuffle<32>(sum, LabSum());
  if (lane == 0) d_norms[i] = sum;
}

cudaError_t launch_norms(const LabCall *helper, float *d_norms) {
  return lab_launch(helper, norms, lab_grid(helper, NORM_BLOCK / 32), NORM_BLOCK, 0,
                    helper->d_in[0], d_norms, helper->size.dim[0], helper->size.dim[1]);
}

/* d_work of rungs 2 and 3: the transposed vectors, then their norms, if Way has them. */
template <class Way> size_t asynchronous_bytes(const LabCall *call) {
  const Transposed t = transposed(call->size);
  return sizeof(float) * (t.pitch * t.depth + (Way::NORMS ? call->size.dim[0] : 0));
}

cudaError_t launch_transpose(const LabCall *helper, Transposed t) {
  return lab_launch(helper, transpose, dim3(lab_blocks(t.pitch, 32), lab_blocks(t.depth, 32)), 256,
                    0, helper->d_in[0], helper->d_work, helper->size.dim[0], helper->size.dim[1],
                    t.pitch, t.depth);
}

template <class Way> cudaError_t launch_asynchronous(const LabCall *call) {
  const Transposed t = transposed(call->size);
  const int64_t n = call->size.dim[0], d = call->size.dim[1];
  float *d_t = (float *)call->d_work, *d_norms = d_t + t.pitch * t.depth;
  const LabCall helper = lab_helper(call);
  if (Way::NORMS) TRY(launch_norms(&helper, d_norms));
  TRY(launch_transpose(&helper, t));
  return lab_launch(call, asynchronous_tiles<Way>, triangle(t.pitch / TILE), TILE_BLOCK, 0, d_t,
                    d_norms, call->d_out, n, d, t.pitch, t.pitch / TILE);
}

/* ---- the library: cuBLAS, norms, packing --------------------------------------------------------
   SGEMM knows no triangle: panels of PANEL rows, each against all vectors from its first on, waste
   half a panel of arithmetic each and need little memory. A kernel of ours then adds the norms and
   packs the rows: one thread per pair, one row of blocks per row. */
constexpr int PANEL = 2048;

__global__ void __launch_bounds__(256)
    pack(const float *__restrict__ d_panel, const float *__restrict__ d_norms,
         float *__restrict__ d_out, int n, int first) {
  const int i = first + blockIdx.y, j = first + blockIdx.x * 256 + threadIdx.x;
  if (j <= i || j >= n) return;
  const float product = d_panel[(size_t)blockIdx.y * (n - first) + (j - first)]; /* -2 a.b */
  const float distance = (d_norms[i] + d_norms[j]) + product;
  d_out[row_start(i, n) + j] = distance < 0.0f ? 0.0f : distance;
}

size_t library_bytes(const LabCall *call) {
  const int64_t n = call->size.dim[0];
  return sizeof(float) * (n + std::min<int64_t>(n, PANEL) * n);
}

cudaError_t launch_library(const LabCall *call) {
  const int n = (int)call->size.dim[0], d = (int)call->size.dim[1];
  const float *d_x = (const float *)call->d_in[0];
  float *d_norms = (float *)call->d_work, *d_panel = d_norms + n;
  const LabCall helper = lab_helper(call);
  TRY(launch_norms(&helper, d_norms));
  for (int first = 0; first < n; first += PANEL) {
    const int rows = std::min(n - first, PANEL), columns = n - first;
    const float factor = -2.0f, none = 0.0f, *x = d_x + (size_t)first * d;
    /* cuBLAS counts column-major: its (columns, rows) is our (rows, columns). */
    TRY(lab_cublas(call, [=](cublasHandle_t handle) {
      return cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, columns, rows, d, &factor, x, d, x, d,
                         &none, d_panel, columns);
    }));
    TRY(lab_launch(&helper, pack, dim3(lab_blocks(columns, 256), rows), 256, 0, d_panel, d_norms,
                   call->d_out, n, first));
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
     /* Three for each term. */
     [](LabSize size) { return 3.0 * (double)pairs_of(size.dim[0]) * (double)size.dim[1]; },
     reference, fill}};

/* Predicted of the tiled rungs: four loads of the thread for its 64 terms; copying the slabs to
   shared memory is not counted. */
const LabRung rungs[] = {
    {"multiply", "One thread per pair: the two loads per term are what is waited for", launch_pairs,
     lab_value<2>},
    {"asynchronous",
     "8 x 8 pairs per thread, slabs copied while the last is worked on: little but arithmetic",
     launch_asynchronous<Differences>, lab_value<4, SIDE * SIDE>,
     .capability = 80, /* `product` copies with registers below that, which is not its lesson */
     .work = asynchronous_bytes<Differences>},
    {"product", "Norms and a product: half the instructions, paid for with cancellation",
     launch_asynchronous<Products>, lab_value<4, SIDE * SIDE>, .work = asynchronous_bytes<Products>,
     .allowed = allowed_product},
    {"cublas", "SGEMM by panels of the triangle, then norms and packing in a second pass",
     launch_library, .kind = LAB_LIBRARY, .work = library_bytes, .allowed = allowed_product}};

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
