/* The ladder of the sum. The first five rungs follow Mark Harris, "Optimizing parallel reduction in
   CUDA", 2007: one kernel with five ways to add up a block's values. It is launched once per level.
   The last rung needs only one launch. docs/lab/reduce.md explains the predicted wavefronts. */
#include "lab/lab.cuh"

#include <numeric>

#include <cub/device/device_reduce.cuh>

namespace {

/* A sequence of d float additions may have an error of d 2^-24 sum|x|. With 2^28 values, such a
   bound would not show that the values of a warp are missing. So the inputs are integers, and all
   partial sums stay below 2^24. Then every order is exact, and a lost or doubled value shows. */
void reference(const LabRange *range) {
  const float *x = (const float *)range->h_in[0];
  const double all = std::accumulate(x, x + range->size.dim[0], 0.0);
  lab_exactly(range, [=](int64_t) { return all; });
}

/* Makes integers from 1 to 16 with random signs. The sum of m such integers has a standard
   deviation of 9.7 sqrt(m). The first values are huge: their partial sums reach 2^23. */
void fill_integers(LabSize, int, void *h_values, int64_t count, uint64_t seed) {
  const float huge[] = {0x1p22f, -0x1p22f, 0x1p22f, -0x1p22f, -0.0f, 0.0f, 16.0f, 16.0f};
  lab_draw(h_values, count, seed, 1, [&](int64_t i, uint32_t random) {
    const float magnitude = (float)(1 + (random & 15));
    return i < 8 ? huge[i] : random >> 31 ? -magnitude : magnitude;
  });
}

/* ---- five ways to add up a block ----------------------------------------------------------------
   Each rung is a struct. fetch() returns a thread's value, and add_up() adds up the block's values.
   All threads call add_up(), and thread 0 gets the sum. v is shared memory for THREADS values. */

constexpr int THREADS = 256; /* threads per block in the first five rungs */

/* Adds up a block as a binary tree in shared memory: Add::to() with step = 1, 2, 4, ... */
template <class Add> struct Tree {
  static constexpr int VALUES = THREADS; /* values per block */
  static __device__ float fetch(const float *x, int64_t count) {
    const int64_t i = lab_thread(THREADS);
    return i < count ? x[i] : 0;
  }
  static __device__ float add_up(float mine, float *v) {
    const int t = threadIdx.x;
    v[t] = mine;
    for (int step = 1; step < THREADS; step *= 2) {
      __syncthreads();
      Add::to(v, t, step);
    }
    return v[t];
  }
};

/* Rung 1. Every 2nd thread adds the value to its right. Then every 4th thread adds the value 2
   places to its right, and so on. The threads that still work are spread over all warps. */
struct InterleavedDivergent : Tree<InterleavedDivergent> {
  static __device__ void to(float *v, int t, int step) {
    if (t % (2 * step) == 0) v[t] += v[t + step];
  }
  /* A step: each working warp reads twice, writes once. 8 warps work in 5 steps, then 4, 2, 1. */
  static constexpr int WAVEFRONTS = 8 + 3 * (5 * 8 + 4 + 2 + 1) + 1;
};

/* Rung 2. The first threads do the additions of rung 1, so each warp works or rests as a whole. But
   lanes access words that are 2, 4, 8, ... apart, so several lanes access the same bank. */
struct InterleavedConflicts : Tree<InterleavedConflicts> {
  static __device__ void to(float *v, int t, int step) {
    const int at = 2 * step * t;
    if (at < THREADS) v[at] += v[at + step];
  }
  /* The eight steps have conflicts: 2-way, 4-way, three times 8-way, 4-way, 2-way, none. */
  static constexpr int WAVEFRONTS = 8 + 2 * (4 * 2) + 3 * (2 * 4 + 3 * 8 + 4 + 2 + 1) + 1;
};

/* Rung 3. Thread t adds the value half a block away, then a quarter of a block, and so on. */
struct Sequential : Tree<Sequential> {
  static __device__ void to(float *v, int t, int step) {
    const int half = THREADS / 2 / step;
    if (t < half) v[t] += v[t + half];
  }
  static constexpr int WAVEFRONTS = 8 + 3 * (4 + 2 + 6 * 1) + 1;
};

/* Rung 4. Every thread adds two values as it loads them, so half as many blocks are enough. */
struct AddOnLoad : Sequential {
  static constexpr int VALUES = 2 * THREADS;
  static __device__ float fetch(const float *x, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * 2 * THREADS + threadIdx.x, j = i + THREADS;
    return (i < count ? x[i] : 0) + (j < count ? x[j] : 0);
  }
};

/* Rung 5. Shuffles add up each warp. Shared memory has one value per warp; one barrier is left. */
struct WarpShuffle : AddOnLoad {
  static __device__ float add_up(float mine, float *v) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float sum = lab_shuffle<32>(mine, LabSum());
    if (lane == 0) v[warp] = sum;
    __syncthreads();
    if (warp == 0) sum = lab_shuffle<32>(lane < warps ? v[lane] : 0, LabSum());
    return sum;
  }
  static constexpr int WAVEFRONTS = THREADS / 32 + 1;
};

/* Computes one level: one sum for each Rung::VALUES neighbours. Grid: one block per sum. */
template <class Rung>
__global__ void __launch_bounds__(THREADS) level(const float *x, float *d_out, int64_t count) {
  __shared__ float v[THREADS];
  const float sum = Rung::add_up(Rung::fetch(x, count), v);
  if (threadIdx.x == 0) d_out[blockIdx.x] = sum;
}

/* Returns the bytes of d_work: two arrays for the sums of alternate levels. The first is larger. */
template <class Rung> size_t work_of_levels(const LabCall *call) {
  const size_t first = lab_grid(call, Rung::VALUES);
  return (first + lab_blocks((int64_t)first, Rung::VALUES)) * 4;
}

template <class Rung> cudaError_t launch_levels(const LabCall *call) {
  int64_t count = call->size.dim[0];
  const float *d_in = (const float *)call->d_in[0];
  float *d_next = (float *)call->d_work, *d_after = d_next + lab_blocks(count, Rung::VALUES);
  do {
    const unsigned blocks = lab_blocks(count, Rung::VALUES);
    float *d_sums = blocks == 1 ? (float *)call->d_out : d_next;
    TRY(lab_launch(call, level<Rung>, blocks, THREADS, 0, d_in, d_sums, count));
    d_next = d_after, d_after = d_sums;
    d_in = d_sums, count = blocks;
  } while (count > 1);
  return cudaSuccess;
}

/* Returns the wavefronts of all blocks of all levels, per 32 values of the input. */
template <class Rung> double wavefronts_of_levels(const LabCall *call) {
  double blocks = 0.0;
  int64_t count = call->size.dim[0];
  do {
    count = lab_blocks(count, Rung::VALUES);
    blocks += (double)count;
  } while (count > 1);
  return blocks * Rung::WAVEFRONTS * 32.0 / (double)call->size.dim[0];
}

/* ---- everything in one launch ---------------------------------------------------------------- */

/* A multiprocessor's 2048 threads load 64 bytes each. The 128 KB in flight are several times
   latency x bandwidth. */
constexpr int ONE_PASS_THREADS = 512, ONE_PASS_BLOCKS = 4 /* per multiprocessor */, LOADS = 4;
constexpr int TILE = ONE_PASS_THREADS * LOADS; /* in quads */

/* How many blocks have written their sum; 0 between launches. Launches must not overlap. */
__device__ unsigned blocks_done;

__device__ float sum_of(LabWord<4> quad) {
  return (quad.value[0] + quad.value[1]) + (quad.value[2] + quad.value[3]);
}

/* Rung 6 sums everything in one launch. Grid: as many blocks as can run at once. Block: every
   gridDim.x-th tile. Thread: LOADS quads of a tile, with all loads in flight. The first threads of
   the grid add the values after the last whole tile. The block that ends last adds up the sums of
   the blocks in a fixed order, so the result never changes. Each value is read once. */
__global__ void __launch_bounds__(ONE_PASS_THREADS,
                                  lab_resident(LAB_CAPABILITY, ONE_PASS_THREADS, ONE_PASS_BLOCKS))
    one_pass(const float *x, float *d_sums, float *d_out, int64_t count) {
  __shared__ float v[32];
  __shared__ bool is_last;
  const int64_t quads = count / 4, tiles = quads / TILE;
  float sum = 0;
#pragma unroll 1 /* the loads within a tile are unrolled already */
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t mine = tile * TILE + threadIdx.x;
    LabWord<4> quad[LOADS];
    unrolled (n, LOADS) quad[n] = ((const LabWord<4> *)x)[mine + n * ONE_PASS_THREADS];
    unrolled (n, LOADS) sum += sum_of(quad[n]);
  }
  const int64_t me = lab_thread(ONE_PASS_THREADS);
#pragma unroll 1
  for (int64_t i = tiles * TILE + me; i < quads; i += (int64_t)gridDim.x * ONE_PASS_THREADS)
    sum += sum_of(((const LabWord<4> *)x)[i]);
  if (me < count % 4) sum += x[4 * quads + me];

  sum = WarpShuffle::add_up(sum, v);
  if (threadIdx.x == 0) {
    d_sums[blockIdx.x] = sum;
    __threadfence(); /* a block that sees the new count must also see this sum */
    is_last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1; /* wraps to 0 */
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  sum = 0;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += ONE_PASS_THREADS) sum += __ldcg(d_sums + b);
  sum = WarpShuffle::add_up(sum, v);
  if (threadIdx.x == 0) *d_out = sum;
}

unsigned one_pass_blocks(const LabCall *call) {
  const int resident = lab_resident(call->gpu->capability, ONE_PASS_THREADS, ONE_PASS_BLOCKS);
  return std::max(lab_resident_grid(call, 4 * TILE, resident), 1u); /* an empty grid is an error */
}

cudaError_t launch_one_pass(const LabCall *call) {
  return lab_launch(call, one_pass, one_pass_blocks(call), ONE_PASS_THREADS, 0, call->d_in[0],
                    call->d_work, call->d_out, call->size.dim[0]);
}

double wavefronts_of_one_pass(const LabCall *call) {
  const double warps = ONE_PASS_THREADS / 32, adding_up = warps + 1, flag = 1 + warps;
  const double all = one_pass_blocks(call) * (adding_up + flag) + adding_up;
  return all * 32.0 / (double)call->size.dim[0];
}

cudaError_t run_cub(const LabCall *call, void *d_work, size_t *bytes) {
  return cub::DeviceReduce::Sum(d_work, *bytes, (const float *)call->d_in[0], (float *)call->d_out,
                                call->size.dim[0], call->stream);
}

const LabProblem problems[] = {
    {LAB_FLOATS, [](LabSize size) { return (double)size.dim[0] - 1.0; }, reference, fill_integers}};

template <class Rung> constexpr LabRung level_rung(const char *name, const char *lesson) {
  return {name, lesson, launch_levels<Rung>, wavefronts_of_levels<Rung>,
          .work = work_of_levels<Rung>};
}

const LabRung rungs[] = {
    level_rung<InterleavedDivergent>("interleaved-divergent",
                                     "Every warp keeps running, with fewer and fewer active lanes"),
    level_rung<InterleavedConflicts>("interleaved-conflicts",
                                     "The first threads work and whole warps rest, but lanes of a "
                                     "warp meet in the same bank: worse than divergence"),
    level_rung<Sequential>("sequential",
                           "Neighbouring lanes take neighbouring words: no conflicts; barriers and "
                           "the start of blocks still cost time"),
    level_rung<AddOnLoad>("add-on-load",
                          "The first addition happens in registers: half as many blocks"),
    level_rung<WarpShuffle>("warp-shuffle",
                            "Lanes exchange registers: one of eight barriers is left"),
    {"one-pass",
     "As many blocks as fit stride through all of the input with 16-byte loads, and the last block "
     "adds their sums",
     launch_one_pass, wavefronts_of_one_pass,
     .work = [](const LabCall *call) { return (size_t)one_pass_blocks(call) * 4; }},
    {"cub", "cub::DeviceReduce::Sum", lab_cub<run_cub>, .kind = LAB_LIBRARY,
     .work = lab_cub_work<run_cub>}};

} // namespace

const LabTopic lab_reduce = {
    "reduce",
    "One number from many: a sum",
    "values",
    LAB_GB_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(1 << 28), lab_size(1 << 20), lab_size(1 << 24)},
    .tested = lab_size(1000000),
    .count = [](int, LabSize size, int array) { return array < 0 ? 1 : size.dim[0]; },
    .predicted_name = "shared wavefronts / 32 values",
    .counted = LAB_COUNTS_TURNS,
    .metric = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    .metric_name = "wavefronts of shared memory"};
