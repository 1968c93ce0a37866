/* The ladder of the histogram. A value x in [0, 1) belongs to bin floor(x bins), where the product
   is rounded to float32. Other values belong to no bin. Inputs are uniform, sorted or skewed.
   In a skewed input 15 of 16 values are the same. docs/lab/histogram.md explains wavefronts. */
#include "lab/lab.cuh"

#include <cfloat>
#include <cmath>
#include <vector>

#include <cub/device/device_histogram.cuh>

namespace {

constexpr int MOST_BINS = 65536;
constexpr int LANES = 32; /* lanes of a warp; more copies of the bins than lanes would not help */

/* Returns the bin of x. Values outside [0, 1) get an extra bin, number `bins`. */
__host__ __device__ int bin_of(float x, int bins) {
  return x >= 0.0f && x < 1.0f ? (int)(x * (float)bins) : bins;
}

const char *refuse_all(int, LabSize size) {
  if (size.dim[0] > UINT32_MAX) return "a bin counts in 32 bits";
  return size.dim[1] > MOST_BINS ? "there are at most 65536 bins" : nullptr;
}

/* Counts all values. The harness calls it once, for all bins. The counts are exact integers. Each
   part of the values has its own counts, so that the cores can count at once. */
void reference(const LabRange *range) {
  const int bins = (int)range->count;
  lab_exactly(range, [](int64_t) { return 0.0; });
  constexpr int64_t EACH = 1 << 22;
  const float *x = (const float *)range->h_in[0];
  const int64_t count = range->size.dim[0], places = bins + 1;
  std::vector<uint32_t> counts(ceil_div(count, EACH) * places);
  lab_parallel(count, EACH, [&](int64_t first, int64_t end) {
    uint32_t *part = &counts[first / EACH * places];
    for (int64_t i = first; i < end; i++) part[bin_of(x[i], bins)]++;
  });
  for (size_t i = 0; i < counts.size(); i++)
    if ((int64_t)(i % places) < bins) range->expected[i % places] += counts[i];
}

enum Kind { UNIFORM, SKEWED, SORTED };

/* Makes an input. Its first values are the borders of [0, 1) and values outside this range. */
template <Kind kind> void fill(LabSize, int, void *h_values, int64_t count, uint64_t seed) {
  const float hard[] = {0.0f,    -0.0f,    FLT_TRUE_MIN, 0x1.fffffep-1f, 1.0f, -FLT_TRUE_MIN, -0.5f,
                        FLT_MAX, -FLT_MAX, INFINITY,     -INFINITY,      NAN,  0.99999f,      0.5f,
                        0.5f,    0.5f};
  constexpr int HARD = sizeof hard / sizeof *hard;
  lab_draw(h_values, count, seed, kind, [&](int64_t i, uint32_t random) {
    if (i < HARD) return hard[(i + seed) % HARD];
    if (kind == SORTED) return (float)(((uint64_t)i << 24) / (uint64_t)count) * 0x1p-24f;
    return kind == SKEWED && random % 16 ? 0.7f : random_unit(random);
  });
}

constexpr int THREADS = 1024; /* two blocks fill a multiprocessor of 2048 threads */
constexpr int RESIDENT = lab_resident(LAB_CAPABILITY, THREADS, 2);
constexpr int RESERVED = 1024; /* bytes of shared memory that the system takes per block */

int resident(const GpuLimits *gpu) {
  return lab_resident(gpu->capability, THREADS, 2);
}

/* Returns the most shared memory per block with which a multiprocessor holds resident() blocks. */
int shared_room(const GpuLimits *gpu) {
  return ((int)gpu->shared_bytes + RESERVED) / resident(gpu) - RESERVED;
}

/* Returns the bytes of `copies` copies of all bins and the extra bin, which saves a branch. */
int bytes_of(int bins, int copies) {
  return (bins + 1) * copies * 4;
}

const char *refuse_shared(const LabCall *call) {
  return bytes_of((int)call->size.dim[1], 1) > (int)call->gpu->shared_bytes
             ? "its bins do not fit into shared memory"
             : nullptr;
}

/* Sets the counts to 0 and launches a kernel that adds to them. */
template <class Kernel, class... More>
cudaError_t launch_counting(const LabCall *call, Kernel kernel, unsigned blocks, int shared,
                            More... more) {
  const LabSize &size = call->size;
  TRY(cudaMemsetAsync(call->d_out, 0, (size_t)size.dim[1] * 4, call->stream));
  return lab_launch(call, kernel, blocks, THREADS, shared, call->d_in[0], size.dim[0], call->d_out,
                    size.dim[1], more...);
}

/* Counts directly in d_counts. Grid: one thread per value. Every atomic goes to the L2 cache. */
__global__ void __launch_bounds__(THREADS)
    global_atomics(const float *d_values, int64_t count, uint32_t *d_counts, int bins) {
  const int64_t i = lab_thread(THREADS);
  if (i >= count) return;
  const int bin = bin_of(d_values[i], bins);
  if (bin < bins) atomicAdd(d_counts + bin, 1u);
}

/* ---- 2. coarse bins ----------------------------------------------------------------------------
   A coarse bin is a range of 2^shift neighbouring bins. The values are first sorted by coarse bin,
   by one pass of a radix sort. Then each coarse bin has a block to itself, which counts its values
   in shared memory. No two blocks share a bin, so their counts side by side are the result, and
   there may be far more bins than fit into a block's shared memory. The price is bytes: values are
   read for the counts of coarse bins, read and written by the sort, and read again, 16 bytes each
   instead of 4. */
constexpr int COARSE = THREADS;                     /* coarse bins; one thread has each */
constexpr int MOST_PER_COARSE = MOST_BINS / COARSE; /* bins of a coarse bin */

/* Returns the smallest shift with which 2^shift bins per coarse bin are enough. */
int coarse_shift(int64_t bins) {
  int shift = 0;
  while (ceil_div(bins, (int64_t)1 << shift) > COARSE) shift++;
  return shift;
}

/* Grid: as many blocks as fit at once; a block has every gridDim.x-th group of THREADS values. If
   SCATTERS is false, it counts its values of each coarse bin into its line of d_lines (blocks,
   COARSE). If SCATTERS is true, this line has the places where the block's values of each coarse
   bin begin, and the block puts its values there. */
template <bool SCATTERS>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    sort_coarse(const float *d_values, int64_t count, uint32_t *d_lines, float *d_sorted, int bins,
                int shift) {
  __shared__ uint32_t next[COARSE];
  uint32_t *const line = d_lines + (int64_t)blockIdx.x * COARSE + threadIdx.x;
  next[threadIdx.x] = SCATTERS ? *line : 0;
  __syncthreads();
  for (int64_t i = lab_thread(THREADS); i < count; i += (int64_t)gridDim.x * THREADS) {
    const float x = d_values[i];
    const int bin = bin_of(x, bins);
    if (bin == bins) continue;
    const uint32_t place = atomicAdd(next + (bin >> shift), 1u);
    if (SCATTERS) d_sorted[place] = x;
  }
  __syncthreads();
  if (!SCATTERS) *line = next[threadIdx.x];
}

/* Makes places of the counts. Block: one for all. Thread: a coarse bin, in all lines. A value's
   place is after all values of smaller coarse bins, and after those that smaller blocks have of its
   own coarse bin. d_starts (COARSE + 1) gets the place of each coarse bin's first value. */
__global__ void __launch_bounds__(COARSE)
    place_coarse(uint32_t *d_lines, int lines, uint32_t *d_starts) {
  __shared__ uint32_t end[COARSE];
  const int t = threadIdx.x;
  uint32_t mine = 0;
#pragma unroll 8
  for (int i = 0; i < lines; i++) mine += d_lines[(int64_t)i * COARSE + t];
  end[t] = mine;
  for (int step = 1; step < COARSE; step *= 2) { /* prefix sums (Hillis and Steele 1986) */
    __syncthreads();
    const uint32_t before = t >= step ? end[t - step] : 0;
    __syncthreads();
    end[t] += before;
  }
  uint32_t place = end[t] - mine;
  d_starts[t] = place;
  if (t == COARSE - 1) d_starts[COARSE] = end[t];
  constexpr int TOGETHER = 8; /* loads in flight; a load never passes the store before it */
  for (int first = 0; first < lines; first += TOGETHER) {
    uint32_t *const line = d_lines + (int64_t)first * COARSE + t, here[TOGETHER];
    unrolled (i, TOGETHER) here[i] = first + i < lines ? line[i * COARSE] : 0;
    unrolled (i, TOGETHER) {
      if (first + i < lines) line[i * COARSE] = place;
      place += here[i];
    }
  }
}

/* Grid: one block per coarse bin. Writes the counts of the coarse bin's bins. */
__global__ void __launch_bounds__(THREADS)
    count_coarse(const float *d_sorted, const uint32_t *d_starts, uint32_t *d_counts, int bins,
                 int shift) {
  __shared__ uint32_t counters[MOST_PER_COARSE];
  const int t = threadIdx.x, first = blockIdx.x << shift;
  const int64_t end = d_starts[blockIdx.x + 1];
  if (t < MOST_PER_COARSE) counters[t] = 0;
  __syncthreads();
#pragma unroll 4
  for (int64_t i = (int64_t)d_starts[blockIdx.x] + t; i < end; i += THREADS)
    atomicAdd(counters + (bin_of(d_sorted[i], bins) - first), 1u);
  __syncthreads();
  if (t < 1 << shift && first + t < bins) d_counts[first + t] = counters[t];
}

unsigned coarse_blocks(const LabCall *call) {
  return lab_resident_grid(call, THREADS, resident(call->gpu));
}

/* d_work has the sorted values, then the lines, then the starts. */
size_t coarse_work(const LabCall *call) {
  return 4 * ((size_t)call->size.dim[0] + (size_t)COARSE * coarse_blocks(call) + COARSE + 1);
}

cudaError_t launch_coarse_bins(const LabCall *call) {
  const int64_t count = call->size.dim[0], bins = call->size.dim[1];
  const unsigned blocks = coarse_blocks(call);
  const int shift = coarse_shift(bins);
  float *d_sorted = (float *)call->d_work;
  uint32_t *d_lines = (uint32_t *)(d_sorted + count), *d_starts = d_lines + (size_t)COARSE * blocks;
  TRY(lab_launch(call, sort_coarse<false>, blocks, THREADS, 0, call->d_in[0], count, d_lines,
                 d_sorted, bins, shift));
  TRY(lab_launch(call, place_coarse, 1, COARSE, 0, d_lines, blocks, d_starts));
  TRY(lab_launch(call, sort_coarse<true>, blocks, THREADS, 0, call->d_in[0], count, d_lines,
                 d_sorted, bins, shift));
  return lab_launch(call, count_coarse, lab_blocks(bins, (int64_t)1 << shift), THREADS, 0, d_sorted,
                    d_starts, call->d_out, bins, shift);
}

/* ---- 3. to 5. all bins in shared memory
   ---------------------------------------------------------- Counts in shared memory, then adds the
   counts to d_counts. Grid: as many blocks as fit at once. A lane counts in copy number (lane mod
   copies) of the bins. At the end each thread sums a bin over all copies. Neighbouring lanes start
   at different copies, which are in different banks. */
template <class Loads>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    shared_bins(const float *d_values, int64_t count, uint32_t *d_counts, int bins, int copies) {
  extern __shared__ uint32_t counters[]; /* (bins + 1, copies) */
  for (int i = threadIdx.x; i < (bins + 1) * copies; i += THREADS) counters[i] = 0;
  __syncthreads();
  uint32_t *own = counters + (threadIdx.x & (copies - 1)); /* `copies` is a power of two */
  Loads::each(d_values, count, [=](float x) { atomicAdd(own + bin_of(x, bins) * copies, 1u); });
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += THREADS) {
    uint32_t sum = 0;
    for (int n = 0; n < copies; n++)
      sum += counters[bin * copies + ((threadIdx.x + n) & (copies - 1))];
    if (sum > 0) atomicAdd(d_counts + bin, sum);
  }
}

/* Uses as many copies (a power of two, at most MOST) as leave shared memory for a second block. */
template <class Loads, int MOST> cudaError_t launch_shared_bins(const LabCall *call) {
  const int bins = (int)call->size.dim[1], room = shared_room(call->gpu);
  int copies = MOST;
  while (copies > 1 && bytes_of(bins, copies) > room) copies /= 2;
  const int shared = bytes_of(bins, copies), together = shared <= room ? resident(call->gpu) : 1;
  return launch_counting(call, shared_bins<Loads>,
                         lab_resident_grid(call, Loads::VALUES * THREADS, together), shared,
                         copies);
}

/* Loads one 4-byte value at a time. Rung shared-bins has one copy of the bins. Rung lane-copies has
   up to 32, so each lane has its own bank. */
struct OneByOne {
  static constexpr int VALUES = 1; /* values per load */
  template <class Use> static __device__ void each(const float *d_values, int64_t count, Use use) {
    for (int64_t i = lab_thread(THREADS); i < count; i += (int64_t)gridDim.x * THREADS)
      use(d_values[i]);
  }
};

/* 16-byte loads that a thread has in flight. Two loads by each of 2048 threads are 64 KB. */
constexpr int LOADS = 2;

/* The 4 * LOADS values of a thread. Values beyond the input are -1, which belongs to no bin. */
struct Values {
  float x[4 * LOADS];

  __device__ void fetch(const float *d_values, int64_t quads, int64_t base) {
    const auto *d_quads = reinterpret_cast<const LabWord<4> *>(d_values) + base + threadIdx.x;
    const int left = (int)min((int64_t)THREADS * LOADS, quads - base) - (int)threadIdx.x;
    unrolled (n, LOADS) {
      const auto quad = n * THREADS < left ? d_quads[n * THREADS] : LabWord<4>{-1, -1, -1, -1};
      unrolled (i, 4) x[4 * n + i] = quad.value[i];
    }
  }
};

/* Rung wide-loads has several 16-byte loads in flight. Block 0 counts the last count % 4 values. */
struct WideLoads {
  static constexpr int VALUES = 4 * LOADS;
  template <class Use> static __device__ void each(const float *d_values, int64_t count, Use use) {
    const int64_t quads = count / 4, stride = (int64_t)gridDim.x * THREADS * LOADS;
    int64_t base = (int64_t)blockIdx.x * THREADS * LOADS;
    Values values, following;
    values.fetch(d_values, quads, base);
#pragma unroll 1
    for (; base < quads; base += stride) {
      following.fetch(d_values, quads, base + stride);
#pragma unroll
      for (float x : values.x) use(x);
      values = following;
    }
    if (blockIdx.x == 0 && threadIdx.x < count % 4) use(d_values[4 * quads + threadIdx.x]);
  }
};

cudaError_t run_cub(const LabCall *call, void *d_work, size_t *bytes) {
  return cub::DeviceHistogram::HistogramEven(d_work, *bytes, (const float *)call->d_in[0],
                                             (uint32_t *)call->d_out, (int)call->size.dim[1] + 1,
                                             0.0f, 1.0f, call->size.dim[0], call->stream);
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
    {"coarse-bins",
     "Values are sorted by ranges of bins first, so each block has bins of its own and counts them "
     "in "
     "shared memory: there may be any number of bins, but each value is moved four times",
     launch_coarse_bins, .work = coarse_work},
    {"shared-bins",
     "All bins fit into shared memory, so a block counts in its own copy and adds to the result "
     "once",
     launch_shared_bins<OneByOne, 1>, .refuse = refuse_shared},
    {"lane-copies",
     "Each lane has its own copy of the bins in its own bank, so lanes never collide: no gain yet, "
     "because threads with one 4-byte load wait for memory",
     launch_shared_bins<OneByOne, LANES>, .refuse = refuse_shared},
    {"wide-loads", "16-byte loads, several in flight, keep memory busy while lanes count",
     launch_shared_bins<WideLoads, LANES>, .refuse = refuse_shared},
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
    .counted = LAB_COUNTS_ATOMICS,
    .metric = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    .metric_name = "wavefronts of atomics in shared memory"};
