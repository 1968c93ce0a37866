/* The ladder of the histogram: many values, few counters, and every thread wants the same ones.

   Value x in [0, 1) is counted in bin floor(x bins), the product rounded to float32. A value
   outside [0, 1), or a NaN, is counted in no bin. n values read 4 n bytes, and that is the floor:
   2^28 values, 1 GiB, in 0.36 ms at 3000 GB/s. In that time a multiprocessor has ten cycles for
   each 32 values.

   Three kinds of input: uniform; skewed, 15 of 16 values the same; sorted. The column counts
   wavefronts of shared memory, which docs/lab/histogram.md explains. */
#include "lab/lab.cuh"

#include <cfloat>
#include <cmath>

#include <cub/device/device_histogram.cuh>

namespace {

constexpr int MOST_BINS = 65536;
constexpr int LANES = 32; /* of a warp: more copies than these help nobody */

/* The bin of x, or `bins`, one bin too many, for a value that is counted in none. For x below 1 the
   product stays below bins: (1 - 2^-24) bins is exact, or more than half a unit in the last place
   below it. */
__host__ __device__ int bin_of(float x, int bins) {
  return x >= 0.0f && x < 1.0f ? (int)(x * (float)bins) : bins;
}

const char *refuse_all(int, LabSize size) {
  if (size.dim[0] > UINT32_MAX) return "a bin counts in 32 bits";
  return size.dim[1] > MOST_BINS ? "there are at most 65536 bins" : nullptr;
}

/* Called once, for all bins. Counts are integers: exact. */
void reference(const LabRange *range) {
  const int bins = (int)range->count;
  lab_exactly(range, [](int64_t) { return 0.0; });
  for (int64_t i = 0; i < range->size.dim[0]; i++) {
    const int bin = bin_of(((const float *)range->h_in[0])[i], bins);
    if (bin < bins) range->expected[bin] += 1.0;
  }
}

enum Kind { UNIFORM, SKEWED, SORTED };

/* Value i of `count`, made from 32 random bits. */
float value_of(Kind kind, int64_t i, int64_t count, uint32_t random) {
  if (kind == SORTED) return (float)(((uint64_t)i << 24) / (uint64_t)count) * 0x1p-24f;
  return kind == SKEWED && random % 16 ? 0.7f : random_unit(random);
}

/* The first values are the borders of [0, 1) and values outside it. */
template <Kind kind> void fill(LabSize, int, void *h_values, int64_t count, uint64_t seed) {
  const float hard[] = {0.0f,    -0.0f,    FLT_TRUE_MIN, 0x1.fffffep-1f, 1.0f, -FLT_TRUE_MIN, -0.5f,
                        FLT_MAX, -FLT_MAX, INFINITY,     -INFINITY,      NAN,  0.99999f,      0.5f,
                        0.5f,    0.5f};
  constexpr int HARD = sizeof hard / sizeof *hard;
  lab_draw(h_values, count, seed, kind, [&](int64_t i, uint32_t random) {
    return i < HARD ? hard[(i + seed) % HARD] : value_of(kind, i, count, random);
  });
}

/* ---- shared memory --------------------------------------------------------------------------- */

constexpr int THREADS = 1024; /* two blocks make the 2048 threads of a large multiprocessor */
constexpr int RESIDENT = lab_resident(LAB_CAPABILITY, THREADS, 2);
constexpr int RESERVED = 1024; /* bytes of a block's shared memory that the system takes */

int resident(const GpuLimits *gpu) {
  return lab_resident(gpu->capability, THREADS, 2);
}

/* Returns the shared memory that a block may use if the multiprocessor is to hold as many blocks as
   it has threads for. It has RESERVED bytes more than one block can ask for. */
int shared_room(const GpuLimits *gpu) {
  return ((int)gpu->shared_bytes + RESERVED) / resident(gpu) - RESERVED;
}

/* Bytes of `copies` copies of the bins and of the one bin too many, which costs less than a branch
   around the atomic. */
int bytes_of(int bins, int copies) {
  return (bins + 1) * copies * 4;
}

/* Returns the copies, up to MOST (a power of two), that leave room for a second block. */
template <int MOST> int copies_of(const GpuLimits *gpu, int bins) {
  int copies = MOST;
  while (copies > 1 && bytes_of(bins, copies) > shared_room(gpu)) copies /= 2;
  return copies;
}

const char *refuse_shared(const LabCall *call) {
  return bytes_of((int)call->size.dim[1], 1) > (int)call->gpu->shared_bytes
             ? "its bins do not fit into shared memory"
             : nullptr;
}

/* Launches a kernel that adds to counts, which start at 0. */
template <class Kernel, class... More>
cudaError_t launch_counting(const LabCall *call, Kernel kernel, unsigned blocks, int shared,
                            More... more) {
  const LabSize &size = call->size;
  TRY(cudaMemsetAsync(call->d_out, 0, (size_t)size.dim[1] * 4, call->stream));
  return lab_launch(call, kernel, blocks, THREADS, shared, call->d_in[0], size.dim[0], call->d_out,
                    size.dim[1], more...);
}

/* ---- rung 1 ---------------------------------------------------------------------------------- */

/* Counts into the result. Grid: one thread per value. Every atomic goes to the L2 cache: 256 bins
   are 8 of its lines, and the parts of the cache that own those do all the work. */
__global__ void __launch_bounds__(THREADS)
    global_atomics(const float *d_values, int64_t count, uint32_t *d_counts, int bins) {
  const int64_t i = lab_thread(THREADS);
  if (i >= count) return;
  const int bin = bin_of(d_values[i], bins);
  if (bin < bins) atomicAdd(d_counts + bin, 1u);
}

/* ---- rungs 2 and 3 --------------------------------------------------------------------------- */

__device__ void clear(uint32_t *counters, int words) {
  for (int i = threadIdx.x; i < words; i += THREADS) counters[i] = 0;
}

/* Counts in shared memory, then adds the block's counts to the result. Grid: as many blocks as fit
   at once, so that few bins are added in the end. Lane: copy (lane mod copies); it starts to add at
   another copy than its neighbours, which would all read the same bank. Loads says which thread
   takes which values. */
template <class Loads>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    shared_bins(const float *d_values, int64_t count, uint32_t *d_counts, int bins, int copies) {
  extern __shared__ uint32_t counters[]; /* (bins + 1, copies) */
  clear(counters, (bins + 1) * copies);
  __syncthreads();
  uint32_t *own = counters + (threadIdx.x & (copies - 1)); /* copies are a power of two */
  Loads::each(d_values, count, [=](float x) { atomicAdd(own + bin_of(x, bins) * copies, 1u); });
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += THREADS) {
    uint32_t sum = 0;
    for (int n = 0; n < copies; n++)
      sum += counters[bin * copies + ((threadIdx.x + n) & (copies - 1))];
    if (sum > 0) atomicAdd(d_counts + bin, sum);
  }
}

template <class Loads, int MOST> cudaError_t launch_shared_bins(const LabCall *call) {
  const int bins = (int)call->size.dim[1], copies = copies_of<MOST>(call->gpu, bins);
  const int shared = bytes_of(bins, copies);
  const int together = shared <= shared_room(call->gpu) ? resident(call->gpu) : 1;
  return launch_counting(call, shared_bins<Loads>,
                         lab_resident_grid(call, Loads::VALUES * THREADS, together), shared,
                         copies);
}

/* Thread: every t-th value, t being the threads of the grid. Rung 2 has one copy of the bins, rung
   3 up to 32 side by side: then each lane has a bank of its own, whatever the values are. */
struct OneByOne {
  static constexpr int VALUES = 1; /* of a thread at a time */
  template <class Use> static __device__ void each(const float *d_values, int64_t count, Use use) {
    for (int64_t i = lab_thread(THREADS); i < count; i += (int64_t)gridDim.x * THREADS)
      use(d_values[i]);
  }
};

/* ---- rung 4 ---------------------------------------------------------------------------------- */

/* RANGE: bins, few enough that each thread can have counters for all of them to itself. KEYS: bytes
   that a lane fetches before it counts the first of them. TILE: values sorted at once, enough that
   each of 1024 ranges gets some 64. SLICES: blocks that count a range if all values lie in it;
   COUNTING_BLOCKS: blocks if there are few ranges. */
constexpr int RANGE = 64, COUNTERS = 256 /* threads */, OWN_BYTES = (RANGE + 1) * COUNTERS * 4;
constexpr int KEYS = 4, TILE = 65536, SLICES = 32, COUNTING_BLOCKS = 512;
static_assert(MOST_BINS / RANGE <= THREADS, "one thread per range adds up where the ranges start");

/* The shapes of rung 4, and the layout of d_work. */
struct Sorted {
  int64_t tiles;
  int ranges, slices;
  size_t starts_at, parts_at, bytes; /* keys come first */

  explicit Sorted(LabSize size) {
    tiles = lab_blocks(size.dim[0], TILE);
    ranges = (int)lab_blocks(size.dim[1], RANGE);
    const int wanted = std::max(COUNTING_BLOCKS / ranges, SLICES);
    slices = (int)std::min<int64_t>(tiles, wanted);
    starts_at = (size_t)tiles * TILE;                                /* uint8 (tiles, TILE) */
    parts_at = starts_at + (size_t)tiles * (size_t)(ranges + 1) * 4; /* uint32 (tiles, ranges+1) */
    bytes = parts_at + (size_t)slices * (size_t)size.dim[1] * 4;     /* uint32 (slices, bins) */
  }
};

/* The sum of `mine` over all threads up to and including this one. */
__device__ uint32_t running_sum(uint32_t mine) {
  __shared__ uint32_t warps[THREADS / 32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t sum = mine;
  for (int step = 1; step < 32; step *= 2) {
    const uint32_t before = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; w++) sum += warps[w];
  return sum;
}

/* Sorts a tile by ranges and stores, for each value, its bin's place in the range, one byte. Grid:
   one block per tile. Block: counts the tile's values of each range, adds up where each range
   starts, then puts every value's byte into the next place of its range. Reads 4 bytes per value,
   twice (the second time mostly from the L2 cache), writes 1. */
__global__ void __launch_bounds__(THREADS, RESIDENT)
    sort_tiles(const float *d_values, int64_t count, int bins, uint8_t *d_keys,
               uint32_t *d_starts) {
  extern __shared__ __align__(16) uint32_t counters[]; /* TILE bytes, then a word for each range */
  uint8_t *keys = reinterpret_cast<uint8_t *>(counters);
  uint32_t *next = counters + TILE / 4;
  const int ranges = ceil_div(bins, RANGE);
  const int64_t first = (int64_t)blockIdx.x * TILE;
  const int size = (int)min((int64_t)TILE, count - first);

  /* Calls use(bin, the count of its range so far) for each value; the count rises by 1. */
  const auto each = [&](auto use) {
#pragma unroll 4
    for (int i = threadIdx.x; i < size; i += THREADS) {
      const int bin = bin_of(d_values[first + i], bins);
      if (bin < bins) use(bin, atomicAdd(next + bin / RANGE, 1u));
    }
    __syncthreads();
  };

  clear(next, ranges);
  __syncthreads();
  each([](int, uint32_t) {});
  const int range = threadIdx.x;
  const uint32_t mine = range < ranges ? next[range] : 0, end = running_sum(mine);
  if (range < ranges) {
    next[range] = end - mine;
    d_starts[(int64_t)blockIdx.x * (ranges + 1) + range] = end - mine;
    if (range == ranges - 1) {
      d_starts[(int64_t)blockIdx.x * (ranges + 1) + ranges] = end;
      for (uint32_t i = end; i % 16 > 0; i++) keys[i] = 0; /* words are copied whole */
    }
  }
  __syncthreads();
  each([=](int bin, uint32_t place) { keys[place] = (uint8_t)(bin % RANGE); });
  const int words = (int)ceil_div(next[ranges - 1], 16); /* the last range has been filled up */
  for (int i = threadIdx.x; i < words; i += THREADS)
    reinterpret_cast<uint4 *>(d_keys + first)[i] = reinterpret_cast<uint4 *>(keys)[i];
}

/* Counts the values of one range in one slice of the tiles, without atomics. Grid: (ranges,
   slices). Warp: every w-th tile, w being the warps of all slices. Lane: every 32nd byte of the
   range in the tile, counted in a column of counters that belongs to this thread alone, in a bank
   of its own, with one counter too many, for bytes that do not exist. In the end a warp adds up a
   row. Reads 1 byte per value and 8 per tile, writes RANGE counts. */
__global__ void __launch_bounds__(COUNTERS)
    count_ranges(const uint8_t *d_keys, const uint32_t *d_starts, int64_t tiles, int bins,
                 uint32_t *d_parts) {
  extern __shared__ uint32_t counters[]; /* (RANGE + 1, COUNTERS) */
  uint32_t *own = counters + threadIdx.x;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = COUNTERS / 32;
  for (int b = 0; b <= RANGE; b++) own[b * COUNTERS] = 0;
  for (int64_t tile = (int64_t)blockIdx.y * warps + warp; tile < tiles;
       tile += (int64_t)gridDim.y * warps) {
    const uint32_t *d_range = d_starts + tile * (gridDim.x + 1) + blockIdx.x;
    const uint32_t end = d_range[1];
    for (uint32_t i = d_range[0] + lane; i < end; i += 32 * KEYS) {
      int key[KEYS];
      unrolled (n, KEYS) key[n] = i + 32 * n < end ? d_keys[tile * TILE + i + 32 * n] : RANGE;
      unrolled (n, KEYS) own[key[n] * COUNTERS]++;
    }
  }
  __syncthreads();
  for (int b = warp; b < RANGE; b += warps) {
    uint32_t sum = 0;
    for (int t = lane; t < COUNTERS; t += 32) sum += counters[b * COUNTERS + t];
    sum = lab_shuffle<32>(sum, LabSum());
    const int bin = blockIdx.x * RANGE + b;
    if (lane == 0 && bin < bins) d_parts[(int64_t)blockIdx.y * bins + bin] = sum;
  }
}

/* Adds up the parts of every bin. Grid: one thread per bin. */
__global__ void __launch_bounds__(THREADS)
    add_slices(const uint32_t *d_parts, int slices, uint32_t *d_counts, int bins) {
  const int bin = blockIdx.x * THREADS + threadIdx.x;
  if (bin >= bins) return;
  uint32_t sum = 0;
  for (int s = 0; s < slices; s++) sum += d_parts[(int64_t)s * bins + bin];
  d_counts[bin] = sum;
}

cudaError_t launch_sorted_ranges(const LabCall *call) {
  const Sorted sorted(call->size);
  const int64_t count = call->size.dim[0];
  const int bins = (int)call->size.dim[1];
  uint8_t *d_keys = (uint8_t *)call->d_work;
  uint32_t *d_starts = (uint32_t *)(d_keys + sorted.starts_at);
  uint32_t *d_parts = (uint32_t *)(d_keys + sorted.parts_at);
  TRY(lab_launch(call, sort_tiles, sorted.tiles, THREADS, (size_t)(TILE + sorted.ranges * 4),
                 call->d_in[0], count, bins, d_keys, d_starts));
  TRY(lab_launch(call, count_ranges, dim3(sorted.ranges, sorted.slices), COUNTERS, OWN_BYTES,
                 d_keys, d_starts, sorted.tiles, bins, d_parts));
  return lab_launch(call, add_slices, lab_blocks(bins, THREADS), THREADS, 0, d_parts, sorted.slices,
                    call->d_out, bins);
}

const char *refuse_sorted_ranges(const LabCall *call) {
  return TILE + Sorted(call->size).ranges * 4 > (int)call->gpu->shared_bytes - THREADS / 32 * 4
             ? "a sorted tile does not fit into shared memory"
             : nullptr;
}

/* ---- rung 5 ---------------------------------------------------------------------------------- */

/* 16-byte loads of a thread in flight. With 2048 threads, two make 64 KB. Where half-width counters
   leave room for only one block of 1024 threads, four do. */
constexpr int LOADS = 2, LOADS_OF_HALVES = 4;

/* 4 LOADS_ values of this thread; -1, which is counted in no bin, where there are none left. */
template <int LOADS_> struct Values {
  float x[4 * LOADS_];

  __device__ void fetch(const float *d_values, int64_t quads, int64_t base) {
    const auto *d_quads = reinterpret_cast<const LabWord<4> *>(d_values) + base + threadIdx.x;
    const int left = (int)min((int64_t)THREADS * LOADS_, quads - base) - (int)threadIdx.x;
    unrolled (n, LOADS_) {
      const auto quad = n * THREADS < left ? d_quads[n * THREADS] : LabWord<4>{-1, -1, -1, -1};
      unrolled (i, 4) x[4 * n + i] = quad.value[i];
    }
  }
};

/* Calls count_values(values), which may contain a barrier, until all values of the grid are done;
   those of the next call are in flight meanwhile. The up to three values after the last quad go to
   block 0. */
template <int LOADS_, class CountValues>
__device__ void for_all_values(const float *d_values, int64_t count, CountValues count_values) {
  const int64_t quads = count / 4, stride = (int64_t)gridDim.x * THREADS * LOADS_;
  int64_t base = (int64_t)blockIdx.x * THREADS * LOADS_;
  Values<LOADS_> values, following;
  values.fetch(d_values, quads, base);
#pragma unroll 1
  for (; base < quads; base += stride) {
    following.fetch(d_values, quads, base + stride);
    count_values(values);
    values = following;
  }
  if (blockIdx.x > 0 || count % 4 == 0) return; /* values are all -1 by now */
  if (threadIdx.x < count % 4) values.x[0] = d_values[4 * quads + threadIdx.x];
  count_values(values);
}

/* Rung 3 with 16-byte loads, several of them in flight while the values before them are counted.
   With one load of 4 bytes per thread, 8 KB are in flight to a multiprocessor, less than latency
   times bandwidth, some 20 KB. */
struct WideLoads {
  static constexpr int VALUES = 4 * LOADS;
  template <class Use> static __device__ void each(const float *d_values, int64_t count, Use use) {
    for_all_values<LOADS>(d_values, count, [=](const Values<LOADS> &values) {
#pragma unroll
      for (float x : values.x) use(x);
    });
  }
};

constexpr uint32_t HALF_FULL = 0x8000;
static_assert(HALF_FULL + 4 * LOADS_OF_HALVES * THREADS < 0x10000, "no counter overflows");

/* Adds `times` to the 16 bits of a bin, two bins to a word. The thread that brings a counter to
   half of what it can hold moves that half to the result. */
__device__ void add_to_half(uint32_t *counters, uint32_t *d_counts, int bin, uint32_t times) {
  const int shift = 16 * (bin % 2);
  const uint32_t before = atomicAdd(counters + bin / 2, times << shift) >> shift & 0xffff;
  if (before < HALF_FULL && before + times >= HALF_FULL) {
    atomicSub(counters + bin / 2, HALF_FULL << shift);
    atomicAdd(d_counts + bin, HALF_FULL);
  }
}

/* Rung 5 for bins that only fit with counters of 16 bits: 65536 of them in 128 KB. A block adds at
   most 16384 between two barriers, so a counter below 32768 cannot overflow before the half is
   moved away. Atomics that return the old value serve equal bins one by one; therefore a thread
   adds a run of equal bins at once. Grid: one block per multiprocessor, each with all the bins. */
__global__ void __launch_bounds__(THREADS)
    half_width(const float *d_values, int64_t count, uint32_t *d_counts, int bins) {
  extern __shared__ uint32_t counters[]; /* bins / 2, rounded up */
  clear(counters, ceil_div(bins, 2));
  __syncthreads();
  for_all_values<LOADS_OF_HALVES>(d_values, count, [=](const Values<LOADS_OF_HALVES> &values) {
    constexpr int COUNT = 4 * LOADS_OF_HALVES;
    int bin = bin_of(values.x[0], bins);
    uint32_t times = 1;
#pragma unroll
    for (int n = 1; n <= COUNT; n++) {
      const int following = n < COUNT ? bin_of(values.x[n], bins) : bins;
      const bool ends = n == COUNT || following != bin;
      if (ends && bin < bins) add_to_half(counters, d_counts, bin, times);
      times = ends ? 1 : times + 1;
      bin = following;
    }
    __syncthreads();
  });
  for (int bin = threadIdx.x; bin < bins; bin += THREADS) {
    const uint32_t sum = counters[bin / 2] >> 16 * (bin % 2) & 0xffff;
    if (sum > 0) atomicAdd(d_counts + bin, sum);
  }
}

bool needs_halves(const LabCall *call) {
  return bytes_of((int)call->size.dim[1], 1) > shared_room(call->gpu);
}

cudaError_t launch_wide_loads(const LabCall *call) {
  return needs_halves(call)
             ? launch_counting(call, half_width,
                               lab_resident_grid(call, 4 * LOADS_OF_HALVES * THREADS, 1),
                               ceil_div((int)call->size.dim[1], 2) * 4)
             : launch_shared_bins<WideLoads, LANES>(call);
}

const char *refuse_wide_loads(const LabCall *call) {
  return ceil_div(call->size.dim[1], 2) * 4 > (int)call->gpu->shared_bytes
             ? "half-width bins do not fit into shared memory"
             : nullptr;
}

cudaError_t run_cub(const LabCall *call, void *d_work, size_t *bytes) {
  return cub::DeviceHistogram::HistogramEven(d_work, *bytes, (const float *)call->d_in[0],
                                             (uint32_t *)call->d_out, (int)call->size.dim[1] + 1,
                                             0.0f, 1.0f, call->size.dim[0], call->stream);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* The passes of one atomic: in the fullest bank, how many different words are wanted (`merging`),
   or how many lanes want one. words[lane] < 0: the lane wants none. */
int passes_of(const int (&words)[32], bool merging) {
  int passes[32] = {}, fullest = 0;
  for (int lane = 0; lane < 32; lane++) {
    bool waits = words[lane] >= 0;
    for (int other = 0; merging && other < lane; other++)
      waits = waits && words[other] != words[lane];
    if (waits) fullest = std::max(fullest, ++passes[words[lane] % 32]);
  }
  return fullest;
}

/* Passes for 32 values: the mean over warps drawn from the problem's kind of input. A lane takes
   `run` values one after the other and adds equal ones at once. */
double mean_passes(const LabCall *call, int copies, int run, bool halves) {
  constexpr int WARPS = 1000;
  const int64_t count = call->size.dim[0];
  const int bins = (int)call->size.dim[1];
  double passes = 0.0;
  for (int warp = 0; warp < WARPS; warp++) {
    const int64_t base = count / WARPS * warp;
    const auto bin_at = [&](int lane, int n) {
      const int64_t i = (base + lane * run + n) % count;
      const uint32_t random = random_words(1, (uint64_t)call->problem, (uint64_t)i).word[0];
      return bin_of(value_of((Kind)call->problem, i, count, random), bins);
    };
    for (int n = 0; n < run; n++) {
      int words[32];
      for (int lane = 0; lane < 32; lane++) {
        const int bin = bin_at(lane, n);
        words[lane] = halves ? bin / 2 : bin * copies + lane % copies;
        if (n + 1 < run && bin_at(lane, n + 1) == bin) words[lane] = -1; /* the run goes on */
      }
      passes += passes_of(words, !halves);
    }
  }
  return passes / (WARPS * run);
}

template <int MOST> double passes_of_copies(const LabCall *call) {
  return mean_passes(call, copies_of<MOST>(call->gpu, (int)call->size.dim[1]), 1, false);
}

double passes_of_wide_loads(const LabCall *call) {
  return needs_halves(call) ? mean_passes(call, 1, 4 * LOADS_OF_HALVES, true)
                            : passes_of_copies<LANES>(call);
}

template <Kind kind> constexpr LabProblem problem_of(const char *name) {
  return {name,      {LAB_FLOAT32}, LAB_UINT32, [](LabSize size) { return (double)size.dim[0]; },
          reference, fill<kind>};
}

const LabProblem problems[] = {problem_of<UNIFORM>("uniform"), problem_of<SKEWED>("skewed"),
                               problem_of<SORTED>("sorted")};

const LabRung rungs[] = {
    {"global-atomics", "All threads count in the same few lines of the L2 cache",
     [](const LabCall *call) {
       return launch_counting(call, global_atomics, lab_grid(call, THREADS), 0);
     }},
    {"shared-bins", "A block counts in shared memory, and adds to the result once",
     launch_shared_bins<OneByOne, 1>, passes_of_copies<1>, .refuse = refuse_shared},
    {"lane-copies",
     "Lanes have copies of the bins in banks of their own, and no warp waits for itself: no "
     "gain yet, as one 4-byte load per thread keeps all of them waiting for memory",
     launch_shared_bins<OneByOne, LANES>, passes_of_copies<LANES>, .refuse = refuse_shared},
    {"sorted-ranges",
     "Tiles are sorted by coarse bin, then threads count a coarse bin without atomics: it "
     "pays where bins are many",
     launch_sorted_ranges, .refuse = refuse_sorted_ranges,
     .work = [](const LabCall *call) { return Sorted(call->size).bytes; }},
    {"wide-loads",
     "16-byte loads, several in flight, keep memory busy while lanes count; many bins fit "
     "with counters of 16 bits",
     launch_wide_loads, passes_of_wide_loads, .refuse = refuse_wide_loads},
    {"cub", "cub::DeviceHistogram::HistogramEven", lab_cub<run_cub>, .kind = LAB_LIBRARY,
     .work = lab_cub_work<run_cub>}};

} // namespace

const LabTopic lab_histogram = {
    "histogram",
    "How many values fall into each bin",
    "values x bins",
    LAB_GB_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(1 << 28, 256), lab_size(1 << 28, 4096), lab_size(1 << 28, 65536)},
    .tested = lab_size(1000000, MOST_BINS),
    .refuse = refuse_all,
    .count = [](int, LabSize size, int array) { return size.dim[array < 0 ? 1 : 0]; },
    .predicted_name = "atomic wavefronts / 32 values",
    .counted = LAB_COUNTS_ATOMICS,
    .metric = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    .metric_name = "wavefronts of atomics in shared memory"};
