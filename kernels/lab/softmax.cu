/* Softmax of every row: out[c] = exp(z[c] - m) / sum of exp(z - m), where m is the row's largest
   value. A row of only -INFINITY has no softmax. Online softmax: Milakov and Gimelshein 2018. */
#include "lab/lab.cuh"

#include <float.h>
#include <math.h>

namespace {

constexpr int MAX_WIDTH = 32768; /* 1024 threads with 32 values each */
constexpr int THREADS = 256;     /* threads per block of the rung `shuffle`, for every width */

constexpr double UNIT = 0x1p-24; /* half the spacing of float32 just above 1 */

/* Bounds the error of p = exp(d) / sum, where d = z - m <= 0, in units of p UNIT. Rounding d adds
   |d|, at most -ln p. The numerator adds 14: two exponentials of 2 ulp, four products or quotients.
   The terms of the sum add 17, and on average |d|, at most ln width. Each addition in the longest
   chain adds 1: width / PER_ROW in a thread, or 33 in a thread that holds its values in registers,
   and ten in exchanges. 6 * 0x1p-149 is for results below the smallest normal float. */
template <int PER_ROW> void allow(const LabRange *r) {
  const double width = (double)r->size.dim[1], additions = fmin(width, width / PER_ROW + 43.0);
  for (int64_t i = 0; i < r->count; i++) {
    const double p = r->expected[i], digits = p > 0.0 ? -log(p) : 0.0;
    const double errors = 14.0 + 17.0 + digits + log(width) + additions;
    r->allowed[i] = p * errors * UNIT + 6 * 0x1p-149;
  }
}

void reference(const LabRange *r) {
  const int64_t width = r->size.dim[1], end = r->first + r->count;
  for (int64_t row = r->first / width; row * width < end; row++) {
    const float *z = (const float *)r->h_in[0] + row * width;
    double largest = -INFINITY, sum = 0.0;
    for (int64_t c = 0; c < width; c++) largest = fmax(largest, z[c]);
    for (int64_t c = 0; c < width; c++) sum += exp(z[c] - largest);
    for (int64_t c = 0; c < width; c++) {
      const int64_t i = row * width + c;
      if (i >= r->first && i < end) r->expected[i - r->first] = exp(z[c] - largest) / sum;
    }
  }
  allow<THREADS>(r);
}

/* Three of eight rows are hard: huge values and ties; equal values; a single finite value. */
void fill(LabSize size, int, void *h_values, int64_t count, uint64_t seed) {
  constexpr float HARD[] = {1e4f, -1e30f, -INFINITY, 1e4f, -1e4f, 9999.5f, -3e38f, 9990.0f};
  float *z = (float *)h_values;
  lab_fill(LAB_FLOAT32, h_values, count, seed);
  const int64_t width = size.dim[1];
  for (int64_t row = 0; row * width < count; row++, z += width)
    for (int64_t c = 0; c < width; c++) {
      if (row % 8 == 0 && c < 8) z[c] = HARD[c];
      if (row % 8 == 1) z[c] = -1e30f;
      if (row % 8 == 3) z[c] = c == width - 1 ? -77.0f : -INFINITY;
    }
}

/* Combines a value over LANES threads: by shuffles, then across warps with one barrier. */
template <int LANES, class T, class Combine> __device__ T shuffle(T value, Combine combine) {
  value = lab_shuffle < LANES < 32 ? LANES : 32 > (value, combine);
  if constexpr (LANES > 32) {
    __shared__ T part[LANES / 32]; /* each type Combine has its own array */
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) part[warp] = value;
    __syncthreads();
    value = lab_shuffle<LANES / 32>(part[lane % (LANES / 32)], combine);
  }
  return value;
}

constexpr int SERIAL = 128; /* rows per block of the rung `serial`: few, to reach every SM */

/* Reads each row three times. If ROWS is 1, all threads of a block share a row: lanes read
   neighbours, and later passes hit the first-level cache. Otherwise each thread has a row. */
template <int ROWS>
__global__ void __launch_bounds__(ROWS == 1 ? THREADS : ROWS)
    passes_kernel(const float *d_in, float *d_out, int width, int64_t rows) {
  constexpr int LANES = ROWS == 1 ? THREADS : 1; /* threads per row */
  const int64_t row = ROWS == 1 ? blockIdx.x : lab_thread(ROWS);
  if (ROWS > 1 && row >= rows) return;
  const float *in = d_in + row * width;
  float *out = d_out + row * width, largest = -INFINITY, sum = 0.0f;
  const int first = threadIdx.x % LANES;

  for (int c = first; c < width; c += LANES) largest = fmaxf(largest, in[c]);
  largest = shuffle<LANES>(largest, LabLargest());
  for (int c = first; c < width; c += LANES) sum += expf(in[c] - largest);
  const float inverse = 1.0f / shuffle<LANES>(sum, LabSum());
  for (int c = first; c < width; c += LANES) out[c] = expf(in[c] - largest) * inverse;
}

template <int ROWS> cudaError_t launch_passes(const LabCall *call) {
  return lab_launch(call, passes_kernel<ROWS>, lab_grid(call, ROWS), ROWS == 1 ? THREADS : ROWS, 0,
                    call->d_in[0], call->d_out, call->size.dim[1], call->size.dim[0]);
}

/* Divides a row into `words` aligned 16-byte words, from value `head` on, and `edges` single values
   around them. Each thread below `edges` has one single value. */
struct Cut {
  unsigned head, words, edges;
  __device__ Cut(const float *row, unsigned width) {
    const unsigned place = (unsigned)(reinterpret_cast<uintptr_t>(row) / sizeof(float));
    head = min(width, -place % 4);
    words = (width - head) / 4;
    edges = width - 4 * words;
  }
  __device__ unsigned edge(unsigned thread) const {
    return thread < head ? thread : 4 * words + thread;
  }
};

/* A row has LANES threads, each with up to WORDS words of 16 bytes. */
template <int LANES_, int WORDS_> struct Shape {
  static constexpr int LANES = LANES_, WORDS = WORDS_;
  static constexpr int ROWS = LANES == 32 ? 4 : 1; /* rows per block; an SM holds 16 such blocks */
  static constexpr int BLOCK = LANES * ROWS;
  /* Blocks per SM. An SM holds 1024, 1280 or 2048 threads of 64, 48 or 32 registers each. */
  static constexpr int BLOCKS = (WORDS == 8 ? 1024 : WORDS == 4 ? 1280 : 2048) / BLOCK;
};

/* Calls launch with the smallest shape for `width` values. WORDS grows to 8 before LANES grows. */
template <int LANES = 32, int WORDS = 1, class Launch>
cudaError_t with_shape(int64_t width, Launch launch) {
  constexpr int lanes = WORDS < 8 ? LANES : 2 * LANES, words = WORDS < 8 ? 2 * WORDS : 8;
  if constexpr (LANES < 1024)
    if (width / 4 > LANES * WORDS) return with_shape<lanes, words>(width, launch);
  return launch(Shape<LANES, WORDS>());
}

/* The values of a row that one thread has. Values beyond the row are -INFINITY. */
template <class S> struct RowPart {
  LabWord<4> word[S::WORDS];
  float edge;

  __device__ void load(const float *in, const Cut &cut, unsigned lane) {
    const auto *words = reinterpret_cast<const LabWord<4> *>(in + cut.head);
    const LabWord<4> nothing = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    unrolled (w, S::WORDS) {
      const unsigned i = lane + S::LANES * w;
      word[w] = i < cut.words ? words[i] : nothing;
    }
    edge = lane < cut.edges ? in[cut.edge(lane)] : -INFINITY;
  }
  __device__ void store(float *out, const Cut &cut, unsigned lane) const {
    auto *words = reinterpret_cast<LabWord<4> *>(out + cut.head);
    unrolled (w, S::WORDS) {
      const unsigned i = lane + S::LANES * w;
      if (i < cut.words) words[i] = word[w];
    }
    if (lane < cut.edges) out[cut.edge(lane)] = edge;
  }
  template <class Use> __device__ void each(Use use) {
#pragma unroll
    for (LabWord<4> &w : word)
#pragma unroll
      for (float &value : w.value) use(value);
    use(edge);
  }
};

/* Softmax by two reductions over the row, one after the other. */
struct Twice {
  template <class S> static __device__ void softmax(RowPart<S> &values) {
    float largest = -INFINITY, sum = 0.0f;
    values.each([&](float &z) { largest = fmaxf(largest, z); });
    largest = shuffle<S::LANES>(largest, LabLargest());
    values.each([&](float &z) { sum += z = expf(z - largest); });
    const float inverse = 1.0f / shuffle<S::LANES>(sum, LabSum());
    values.each([&](float &z) { z *= inverse; });
  }
};

/* The largest of some values, and the sum of exp(z - largest) over them. Without values the pair is
   (-FLT_MAX, 0), so that merging two such pairs never computes inf - inf. */
struct Pair {
  float largest, sum;
};

/* Tells lab_shuffle() to combine two Pairs by merging them. */
struct Merge {};
template <int LANES> __device__ Pair lab_shuffle(Pair pair, Merge) {
  const float largest = ::lab_shuffle<LANES>(pair.largest, LabLargest());
  return {largest, ::lab_shuffle<LANES>(pair.sum * expf(pair.largest - largest), LabSum())};
}

/* Softmax by one reduction. A thread subtracts its OWN largest value; a last factor corrects it. */
struct Once {
  template <class S> static __device__ void softmax(RowPart<S> &values) {
    Pair mine = {-FLT_MAX, 0.0f};
    values.each([&](float &z) { mine.largest = fmaxf(mine.largest, z); });
    values.each([&](float &z) { mine.sum += z = expf(z - mine.largest); });
    const Pair all = shuffle<S::LANES>(mine, Merge());
    const float factor = expf(mine.largest - all.largest) / all.sum;
    values.each([&](float &z) { z *= factor; });
  }
};

/* Grid: S::ROWS rows per block, S::LANES threads per row. Reads and writes each value only once. */
template <class S, class Method>
__global__ void __launch_bounds__(S::BLOCK, lab_resident(LAB_CAPABILITY, S::BLOCK, S::BLOCKS))
    registers_kernel(const float *d_in, float *d_out, int64_t rows, int width) {
  const unsigned lane = threadIdx.x % S::LANES;
  const int64_t row = (int64_t)blockIdx.x * S::ROWS + threadIdx.x / S::LANES;
  if (row >= rows) return; /* whole warps return, and only from shapes without a barrier */
  const Cut cut(d_in + row * width, width);
  RowPart<S> values;
  values.load(d_in + row * width, cut, lane);
  Method::softmax(values);
  values.store(d_out + row * width, cut, lane);
}

template <class Method> cudaError_t launch_registers(const LabCall *call) {
  return with_shape(call->size.dim[1], [&](auto shape) {
    using S = decltype(shape);
    return lab_map(call, registers_kernel<S, Method>, lab_grid(call, S::ROWS), S::BLOCK,
                   call->size.dim[1]);
  });
}

/* Predicts requested 32-byte sectors, relative to reading and writing each sector once. Three reads
   and one write make 2. Lanes that are a row apart multiply this by up to 8. */
double apart_sectors(const LabCall *call) {
  return 2.0 * (double)std::min<int64_t>(call->size.dim[1], 8);
}

const LabRung rungs[] = {
    {"serial",
     "One thread per row: lanes lie a row apart and touch eight times the sectors, in each of "
     "three passes",
     launch_passes<SERIAL>, apart_sectors, .allowed = allow<1>},
    {"shuffle",
     "One block per row: lanes read neighbours and exchange registers, with one barrier per "
     "reduction",
     launch_passes<1>, lab_value<2>},
    {"unrolled",
     "With loops unrolled to the width, the row stays in registers and is read once; a warp is "
     "enough for a narrow row",
     launch_registers<Twice>, lab_value<1>},
    {"online",
     "The largest value and the sum are reduced as a pair that can be rescaled: one reduction, one "
     "barrier",
     launch_registers<Once>, lab_value<1>}};

const LabProblem problems[] = {
    {LAB_FLOATS,
     /* Per value: a comparison, a subtraction, an exponential, an addition, a product. */
     lab_each<5>, reference, fill}};

const char *refuse(int, LabSize size) {
  if (size.dim[1] > MAX_WIDTH) return "rows are at most 32768 values wide";
  return size.dim[0] > INT32_MAX ? "a grid has fewer than 2^31 blocks, one row each" : nullptr;
}

} // namespace

const LabTopic lab_softmax = {"softmax",
                              "Softmax of every row: bytes, reductions and waits",
                              "rows x width",
                              LAB_GB_PER_S,
                              LAB_LADDER,
                              .sizes = {lab_size(1 << 17, 1 << 10), lab_size(1 << 20, 128),
                                        lab_size(1 << 18, 512), lab_size(1 << 16, 2048),
                                        lab_size(1 << 15, 4096), lab_size(1 << 14, 8192),
                                        lab_size(1 << 13, 16384), lab_size(1 << 12, 32768)},
                              .tested = lab_size(40, MAX_WIDTH),
                              .refuse = refuse,
                              .predicted_name = "sectors, x least",
                              .counted = LAB_COUNTS_BYTES,
                              .metric = "l1tex__t_sectors.sum",
                              .metric_name = "32-byte sectors through the first-level cache"};
