/* Softmax of every row: out[c] = exp(z[c] - m) / sum of exp(z - m), where m is the row's largest
   value. A row of only -INFINITY has no softmax. Online softmax: Milakov and Gimelshein 2018.
   In the problem `logits` z is the input. In the problem `neighbours` z is computed from vectors.
 */
#include "lab/lab.cuh"

#include <float.h>
#include <math.h>

namespace {

constexpr int MAX_WIDTH = 32768; /* 1024 threads with 32 values each */
constexpr int THREADS = 256;     /* threads per block of rungs 2 to 5, for every width */

enum { LOGITS = 1, NEIGHBOURS = 2 }; /* problems, as bits */

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

/* Computes the range's softmax of z(row, c), and calls with_row(row, first, count, m) for each part
   of a row: outputs [first, first + count) of the range. */
template <class Z, class WithRow> void softmax_of(const LabRange *r, Z z, WithRow with_row) {
  const int64_t width = r->size.dim[1], end = r->first + r->count;
  for (int64_t row = r->first / width; row * width < end; row++) {
    const int64_t from = std::max(row * width, r->first), to = std::min((row + 1) * width, end);
    double largest = -INFINITY, sum = 0.0;
    for (int64_t c = 0; c < width; c++) largest = fmax(largest, z(row, c));
    for (int64_t c = 0; c < width; c++) sum += exp(z(row, c) - largest);
    for (int64_t i = from; i < to; i++)
      r->expected[i - r->first] = exp(z(row, i % width) - largest) / sum;
    with_row(from - r->first, to - from, largest);
  }
}

void reference(const LabRange *r) {
  const float *z = (const float *)r->h_in[0];
  const int64_t width = r->size.dim[1];
  softmax_of(
      r, [=](int64_t row, int64_t c) { return (double)z[row * width + c]; },
      [](int64_t, int64_t, double) {});
  allow<THREADS>(r);
}

/* Three of eight rows are hard: huge values and ties; equal values; a single finite value. */
void fill(LabSize size, int, void *h_values, int64_t count, uint64_t seed) {
  constexpr float HARD[] = {1e4f, -1e30f, -INFINITY, 1e4f, -1e4f, 9999.5f, -3e38f, 9990.0f};
  float *z = (float *)h_values;
  lab_fill(LAB_FLOAT32, h_values, count, seed);
  const int64_t width = size.dim[1];
  lab_parallel(count, 1 << 16, [=](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; i++) {
      const int64_t row = i / width, c = i % width;
      if (row % 8 == 0 && c < 8) z[i] = HARD[c];
      if (row % 8 == 1) z[i] = -1e30f;
      if (row % 8 == 3) z[i] = c == width - 1 ? -77.0f : -INFINITY;
    }
  });
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

/* ---- 1. to 5. three passes ----------------------------------------------------------------------
   These rungs read each row three times: for the largest value, for the sum and for the result. A
   Walk says which values of a row a thread has: each() calls of(z) for each of them, and stores the
   results in `out` unless that is NULL. A Reduce combines the threads' values. */

struct WholeRow { /* one thread has the row: lanes read values that are a row apart */
  template <class Of>
  static __device__ void each(const float *in, float *out, int width, const Of &of) {
    for (int c = 0; c < width; c++) {
      const float result = of(in[c]);
      if (out) out[c] = result;
    }
  }
};

struct Segments { /* a thread has neighbouring values: lanes are a segment apart */
  template <class Of>
  static __device__ void each(const float *in, float *out, int width, const Of &of) {
    const int length = ceil_div(width, THREADS), first = min((int)threadIdx.x * length, width);
    const int here = min(length, width - first);
    WholeRow::each(in + first, out ? out + first : nullptr, here, of);
  }
};

struct Neighbours { /* lanes have neighbouring values */
  template <class Of>
  static __device__ void each(const float *in, float *out, int width, const Of &of) {
    for (int c = threadIdx.x; c < width; c += THREADS) {
      const float result = of(in[c]);
      if (out) out[c] = result;
    }
  }
};

struct Words { /* lanes have neighbouring words of 16 bytes */
  template <class Of>
  static __device__ void each(const float *in, float *out, int width, const Of &of) {
    const Cut cut(in, width);
    const auto *words = reinterpret_cast<const LabWord<4> *>(in + cut.head);
    for (unsigned i = threadIdx.x; i < cut.words; i += THREADS) {
      LabWord<4> word = words[i];
#pragma unroll
      for (float &value : word.value) value = of(value);
      if (out) reinterpret_cast<LabWord<4> *>(out + cut.head)[i] = word;
    }
    if (threadIdx.x >= cut.edges) return;
    const unsigned c = cut.edge(threadIdx.x);
    const float result = of(in[c]);
    if (out) out[c] = result;
  }
};

struct Alone {
  template <class Combine> static __device__ float all(float value, Combine) {
    return value;
  }
};

struct Tree { /* eight steps in shared memory, with a barrier before each */
  template <class Combine> static __device__ float all(float value, Combine combine) {
    __shared__ float part[THREADS]; /* each type Combine has its own array */
    const int t = threadIdx.x;
    part[t] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
      __syncthreads();
      if (t < half) part[t] = combine(part[t], part[t + half]);
    }
    __syncthreads();
    return part[0];
  }
};

struct Shuffle { /* one barrier */
  template <class Combine> static __device__ float all(float value, Combine combine) {
    return shuffle<THREADS>(value, combine);
  }
};

constexpr int SERIAL = 128; /* rows per block of the rung `serial`: few, to reach every SM */

/* Grid: ROWS rows per block. If ROWS is 1, all threads of a block share a row, and the later passes
   hit the first-level cache. Otherwise each thread has a row. */
template <class Walk, class Reduce, int ROWS>
__global__ void __launch_bounds__(ROWS == 1 ? THREADS : ROWS)
    passes_kernel(const float *d_in, float *d_out, int width, int64_t rows) {
  const int64_t row = ROWS == 1 ? blockIdx.x : lab_thread(ROWS);
  if (ROWS > 1 && row >= rows) return;
  const float *in = d_in + row * width;
  float *out = d_out + row * width, largest = -INFINITY, sum = 0.0f;

  Walk::each(in, nullptr, width, [&](float z) { return largest = fmaxf(largest, z); });
  largest = Reduce::all(largest, LabLargest());
  Walk::each(in, nullptr, width, [&](float z) { return sum += expf(z - largest); });
  const float inverse = 1.0f / Reduce::all(sum, LabSum());
  Walk::each(in, out, width, [&](float z) { return expf(z - largest) * inverse; });
}

template <class Walk, class Reduce, int ROWS = 1> cudaError_t launch_passes(const LabCall *call) {
  return lab_launch(call, passes_kernel<Walk, Reduce, ROWS>, lab_grid(call, ROWS),
                    ROWS == 1 ? THREADS : ROWS, 0, call->d_in[0], call->d_out, call->size.dim[1],
                    call->size.dim[0]);
}

/* ---- 6. and 7. the row in registers ------------------------------------------------------------
 */

/* A row has LANES threads, each with up to WORDS words of 16 bytes. */
template <int LANES_, int WORDS_> struct Shape {
  static constexpr int LANES = LANES_, WORDS = WORDS_;
  static constexpr int ROWS = LANES == 32 ? 4 : 1; /* rows per block; an SM holds 16 such blocks */
  static constexpr int BLOCK = LANES * ROWS;
  /* Blocks per SM. An SM holds 1024, 1280 or 2048 threads of 64, 48 or 32 registers each. */
  static constexpr int AT_MOST_4_WORDS = WORDS == 4 ? 1280 : 2048;
  static constexpr int BLOCKS = (WORDS == 8 ? 1024 : AT_MOST_4_WORDS) / BLOCK;
};

/* Calls launch with the smallest shape for `width` values. WORDS grows to 8 before LANES grows. */
template <int LANES = 32, int WORDS = 1, class Launch>
cudaError_t with_shape(int64_t width, Launch launch) {
  constexpr int lanes = WORDS < 8 ? LANES : 2 * LANES;
  constexpr int words = WORDS < 8 ? 2 * WORDS : 8;
  if constexpr (LANES < 1024)
    if (width / 4 > LANES * WORDS) return with_shape<lanes, words>(width, launch);
  return launch(Shape<LANES, WORDS>());
}

/* The values of a row that one thread has. Values beyond the row are -INFINITY. */
template <class S> struct RowPart {
  using Shape = S;
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
  template <class Values> static __device__ void softmax(Values &values) {
    constexpr int LANES = Values::Shape::LANES;
    float largest = -INFINITY, sum = 0.0f;
    values.each([&](float &z) { largest = fmaxf(largest, z); });
    largest = shuffle<LANES>(largest, LabLargest());
    values.each([&](float &z) { sum += z = expf(z - largest); });
    const float inverse = 1.0f / shuffle<LANES>(sum, LabSum());
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
  template <class Values> static __device__ void softmax(Values &values) {
    Pair mine = {-FLT_MAX, 0.0f};
    values.each([&](float &z) { mine.largest = fmaxf(mine.largest, z); });
    values.each([&](float &z) { mine.sum += z = expf(z - mine.largest); });
    const Pair all = shuffle<Values::Shape::LANES>(mine, Merge());
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

/* ---- 8. and 9. the problem `neighbours` ---------------------------------------------------------
   t-SNE (van der Maaten and Hinton 2008) begins with p(c | row): how likely vector `row` would
   choose vector c as its neighbour. It is the softmax over all c but `row` of z[c] = -|x[row] -
   x[c]|^2 / 2 (variance 1). The input has as many vectors as there are rows or columns. Vectors
   have four elements, which one load fetches: so memory is the limit, not arithmetic as in
   pairwise.cu. */
constexpr int DEPTH = 4;
using Vector = LabWord<DEPTH>;

int64_t vectors_of(LabSize size) {
  return std::max(size.dim[0], size.dim[1]);
}

template <class T> __host__ __device__ T closeness(const Vector &a, const Vector &b) {
  T sum = 0;
  for (int k = 0; k < DEPTH; k++) {
    const T difference = (T)a.value[k] - (T)b.value[k];
    sum += difference * difference;
  }
  return sum / -2;
}

/* A z has a relative error of DEPTH + 2 units (as in pairwise.cu), which changes p by that error
   times |z[c]| + sum of p |z|. Both are at most -m, plus what allow() says of |d|. */
void reference_neighbours(const LabRange *r) {
  const Vector *x = (const Vector *)r->h_in[0];
  const double width = (double)r->size.dim[1];
  softmax_of(
      r,
      [=](int64_t row, int64_t c) {
        return row == c ? -INFINITY : closeness<double>(x[row], x[c]);
      },
      [=](int64_t first, int64_t count, double largest) {
        LabRange part = *r;
        part.count = count, part.expected += first, part.allowed += first;
        allow<THREADS>(&part);
        for (int64_t i = 0; i < count; i++) {
          const double p = part.expected[i], digits = p > 0.0 ? -log(p) : 0.0;
          part.allowed[i] += p * (DEPTH + 2) * UNIT * (-2 * largest + digits + log(width));
        }
      });
}

/* Makes vectors of variance 1. The second vector is so far away that exp(z) would be 0 for all of
   its neighbours without the row's largest value. The third equals the first. */
void fill_vectors(LabSize, int, void *h_values, int64_t count, uint64_t seed) {
  float *x = (float *)h_values;
  lab_fill(LAB_FLOAT32, x, count, seed);
  for (int64_t i = 0; i < count; i += 61) x[i] /= 100; /* lab_fill() makes these large */
  for (int64_t k = 0; k < DEPTH; k++) x[DEPTH + k] = 12.0f + x[k];
  for (int64_t k = 0; count > 3 * DEPTH && k < DEPTH; k++) x[2 * DEPTH + k] = x[k];
}

/* Rung 8 writes z to memory first. Grid: one block per row. */
__global__ void __launch_bounds__(THREADS)
    distances_kernel(const Vector *__restrict__ d_x, float *__restrict__ d_z, int width) {
  const int64_t row = blockIdx.x;
  const Vector mine = d_x[row];
  for (int c = threadIdx.x; c < width; c += THREADS)
    d_z[row * width + c] = c == row ? -INFINITY : closeness<float>(mine, d_x[c]);
}

cudaError_t launch_materialised(const LabCall *call) {
  LabCall helper = lab_helper(call), softmax = *call;
  softmax.d_in[0] = call->d_work;
  TRY(lab_launch(&helper, distances_kernel, lab_grid(call, 1), THREADS, 0, call->d_in[0],
                 call->d_work, call->size.dim[1]));
  return launch_registers<Once>(&softmax);
}

/* Rung 9 keeps z in registers. Neighbouring lanes have neighbouring columns, so a load of vectors
   is 512 contiguous bytes and a store of results 128. */
template <class S> struct Measured {
  using Shape = S;
  static constexpr int VALUES = 4 * S::WORDS;
  float z[VALUES];

  __device__ Measured(const Vector *d_x, int64_t row, int width, int lane) {
    const Vector mine = d_x[row];
    unrolled (i, VALUES) {
      const int c = lane + S::LANES * i;
      z[i] = c < width && c != row ? closeness<float>(mine, d_x[c]) : -INFINITY;
    }
  }
  template <class Use> __device__ void each(Use use) {
#pragma unroll
    for (float &value : z) use(value);
  }
};

template <class S>
__global__ void __launch_bounds__(S::BLOCK, lab_resident(LAB_CAPABILITY, S::BLOCK, S::BLOCKS))
    fused_kernel(const Vector *__restrict__ d_x, float *__restrict__ d_out, int64_t rows,
                 int width) {
  const int lane = threadIdx.x % S::LANES;
  const int64_t row = (int64_t)blockIdx.x * S::ROWS + threadIdx.x / S::LANES;
  if (row >= rows) return; /* whole warps return, and only from shapes without a barrier */
  Measured<S> values(d_x, row, width, lane);
  Once::softmax(values);
  unrolled (i, Measured<S>::VALUES) {
    const int c = lane + S::LANES * i;
    if (c < width) d_out[row * width + c] = values.z[i];
  }
}

cudaError_t launch_fused(const LabCall *call) {
  return with_shape(round_up(call->size.dim[1], 4), [&](auto shape) {
    using S = decltype(shape);
    return lab_launch(call, fused_kernel<S>, lab_grid(call, S::ROWS), S::BLOCK, 0, call->d_in[0],
                      call->d_out, call->size.dim[0], call->size.dim[1]);
  });
}

/* Predicts requested 32-byte sectors, relative to reading and writing each sector once. Three reads
   and one write make 2. Lanes that are `apart` values apart multiply this by up to 8. */
double apart_sectors(int64_t apart) {
  return 2.0 * (double)std::min<int64_t>(apart, 8);
}

const LabRung rungs[] = {
    {"serial",
     "One thread per row: lanes lie a row apart and touch eight times the sectors, in each of "
     "three passes",
     launch_passes<WholeRow, Alone, SERIAL>,
     [](const LabCall *call) { return apart_sectors(call->size.dim[1]); }, .problems = LOGITS,
     .allowed = allow<1>},
    {"tree",
     "One block per row: each thread has a segment of the row, so lanes are still apart, and a "
     "tree "
     "in shared memory joins the segments, with a barrier before each of eight steps",
     launch_passes<Segments, Tree>,
     [](const LabCall *call) { return apart_sectors(ceil_div(call->size.dim[1], THREADS)); },
     .problems = LOGITS},
    {"coalesced", "Neighbouring lanes read neighbouring values: four sectors serve a warp's load",
     launch_passes<Neighbours, Tree>, lab_value<2>, .problems = LOGITS},
    {"shuffle", "Lanes exchange registers: one barrier per reduction is left",
     launch_passes<Neighbours, Shuffle>, lab_value<2>, .problems = LOGITS},
    {"words", "Words of 16 bytes: a quarter of the loads, and four times the bytes of each",
     launch_passes<Words, Shuffle>, lab_value<2>, .problems = LOGITS},
    {"unrolled",
     "With loops unrolled to the width, the row stays in registers and is read once; a warp is "
     "enough for a narrow row",
     launch_registers<Twice>, lab_value<1>, .problems = LOGITS},
    {"online",
     "The largest value and the sum are reduced as a pair that can be rescaled: one reduction, one "
     "barrier",
     launch_registers<Once>, lab_value<1>, .problems = LOGITS},
    {"materialised",
     "One kernel writes the distances, another reads them for the softmax: the matrix crosses "
     "memory three times",
     launch_materialised, .problems = NEIGHBOURS,
     .work =
         [](const LabCall *call) { return (size_t)(call->size.dim[0] * call->size.dim[1]) * 4; }},
    {"fused",
     "Each thread computes its distances and keeps them in registers: only the result is written",
     launch_fused, .problems = NEIGHBOURS}};

const LabProblem problems[] = {
    {"logits",
     {LAB_FLOAT32},
     LAB_FLOAT32,
     /* Per value: a comparison, a subtraction, an exponential, an addition, a product. */
     lab_each<5>,
     reference,
     fill},
    {"neighbours",
     {LAB_FLOAT32},
     LAB_FLOAT32,
     lab_each<5 + 3 * DEPTH>,
     reference_neighbours,
     fill_vectors}};

const char *refuse(int problem, LabSize size) {
  if (size.dim[1] > MAX_WIDTH) return "rows are at most 32768 values wide";
  if (1 << problem == NEIGHBOURS && size.dim[1] < 2) return "one vector has no neighbours";
  return size.dim[0] > INT32_MAX ? "a grid has fewer than 2^31 blocks, one row each" : nullptr;
}

} // namespace

const LabTopic lab_softmax = {
    "softmax",
    "Softmax of every row: bytes, reductions and waits",
    "rows x width",
    LAB_GB_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(1 << 17, 1 << 10), lab_size(1 << 20, 128), lab_size(1 << 18, 512),
              lab_size(1 << 16, 2048), lab_size(1 << 15, 4096), lab_size(1 << 14, 8192),
              lab_size(1 << 13, 16384), lab_size(1 << 12, 32768)},
    .tested = lab_size(40, MAX_WIDTH),
    .refuse = refuse,
    .count =
        [](int problem, LabSize size, int array) {
          return 1 << problem == NEIGHBOURS && array == 0 ? vectors_of(size) * DEPTH
                                                          : size.dim[0] * size.dim[1];
        },
    .predicted_name = "sectors, x least",
    .counted = LAB_COUNTS_BYTES,
    .metric = "l1tex__t_sectors.sum",
    .metric_name = "32-byte sectors through the first-level cache"};
