/* The ladder of the reduction: a sum, a dot product, a minimum or a maximum. The first five rungs
   follow Mark Harris, "Optimizing parallel reduction in CUDA", 2007: one kernel with five ways to
   add up a block's values. It is launched once per level. The last rung needs only one launch.
   docs/lab/reduce.md explains the predicted wavefronts. */
#include "lab/cublas.cuh"

#include <cmath>
#include <vector>

#include <cub/device/device_reduce.cuh>

namespace {

enum { FLOAT32, INT32, DOT, MINIMUM, MAXIMUM, PROBLEMS };

/* Returns the result of no values, which changes nothing. */
template <int PROBLEM> constexpr float result_of_nothing() {
  if (PROBLEM == MINIMUM) return INFINITY;
  return PROBLEM == MAXIMUM ? -INFINITY : 0;
}

/* The operation of a problem. Every rung works with any operation that may be done in any order. A
   sum of int32 is computed in uint32, because its overflow is defined; the bits are the same. */
template <int PROBLEM> struct Operation {
  using T = std::conditional_t<PROBLEM == INT32, uint32_t, float>;
  static constexpr bool PRODUCTS = PROBLEM == DOT;
  static constexpr T NOTHING = (T)result_of_nothing<PROBLEM>();

  template <class Any> __host__ __device__ Any operator()(Any a, Any b) const {
    if constexpr (PROBLEM == MINIMUM) return fmin(a, b);
    if constexpr (PROBLEM == MAXIMUM) return fmax(a, b);
    return a + b;
  }
  /* Value i of the input or, for a dot product, product i. After the first level y is NULL, because
     the products are added already. */
  static __device__ T value(const T *x, const T *y, int64_t i) {
    return PRODUCTS && y ? x[i] * y[i] : x[i];
  }
};

/* A sequence of d float additions may have an error of d 2^-24 sum|x|. With 2^28 values, such a
   bound would not show that the values of a warp are missing. So the inputs are integers, and all
   partial sums stay below 2^24. Then every order is exact, also that of the parts here, which the
   cores add up at once, and a lost or doubled value shows. */
template <int PROBLEM> void reference(const LabRange *range) {
  using Op = Operation<PROBLEM>;
  using Wide = std::conditional_t<PROBLEM == INT32, uint32_t, double>;
  const auto *x = (const typename Op::T *)range->h_in[0],
             *y = (const typename Op::T *)range->h_in[1];
  constexpr int64_t EACH = 1 << 20;
  const int64_t count = range->size.dim[0];
  std::vector<Wide> parts(ceil_div(count, EACH), Op::NOTHING);
  lab_parallel(count, EACH, [&](int64_t first, int64_t end) {
    Wide part = Op::NOTHING;
    for (int64_t i = first; i < end; i++)
      part = Op()(part, Op::PRODUCTS ? (Wide)x[i] * (Wide)y[i] : (Wide)x[i]);
    parts[first / EACH] = part;
  });
  Wide all = Op::NOTHING;
  for (const Wide part : parts) all = Op()(all, part);
  lab_exactly(range, [=](int64_t) { return (double)all; });
}

/* Makes inputs. For sums of floats: integers from 1 to 16 with random signs. The sum of m such
   integers has a standard deviation of 9.7 sqrt(m), the sum of m products one of 93 sqrt(m). The
   first values are huge: their partial sums reach 2^23. For int32: all bits are random, so sums
   overflow. A minimum has only positive and a maximum only negative values, so that a 0 from beyond
   the input would show. */
template <int PROBLEM> void fill(LabSize, int array, void *h_values, int64_t count, uint64_t seed) {
  constexpr float LARGE[] = {0x1p22f, -0x1p22f, 0x1p22f, -0x1p22f, -0.0f, 0.0f, 16.0f, 16.0f};
  lab_draw(h_values, count, seed, 1 + array, [=](int64_t i, uint32_t random) {
    if constexpr (PROBLEM == INT32) {
      return random;
    } else {
      const float magnitude = (float)(1 + (random & 15));
      if (PROBLEM == MINIMUM || PROBLEM == MAXIMUM) {
        const float value = ldexpf(1.0f + random_unit(random), (int)(random & 63) - 31);
        return PROBLEM == MINIMUM ? value : -value;
      }
      if (i < 8) return array == 0 ? LARGE[i] : 1.0f;
      return random >> 31 ? -magnitude : magnitude;
    }
  });
}

/* ---- five ways to add up a block ----------------------------------------------------------------
   Each rung is a struct. fetch() returns a thread's value, and add_up() adds up the block's values.
   All threads call add_up(), and thread 0 gets the sum. v is shared memory for THREADS values. */

constexpr int THREADS = 256; /* threads per block in the first five rungs */

/* Adds up a block as a binary tree in shared memory: Add::to() with step = 1, 2, 4, ... */
template <class Add> struct Tree {
  static constexpr int VALUES = THREADS; /* values per block */
  template <class Op, class T> static __device__ T fetch(const T *x, const T *y, int64_t count) {
    const int64_t i = lab_thread(THREADS);
    return i < count ? Op::value(x, y, i) : Op::NOTHING;
  }
  template <class Op, class T> static __device__ T add_up(T mine, T *v) {
    const int t = threadIdx.x;
    v[t] = mine;
    for (int step = 1; step < THREADS; step *= 2) {
      __syncthreads();
      Add::to(v, t, step, Op());
    }
    return v[t];
  }
};

/* Rung 1. Every 2nd thread adds the value to its right. Then every 4th thread adds the value 2
   places to its right, and so on. The threads that still work are spread over all warps. */
struct InterleavedDivergent : Tree<InterleavedDivergent> {
  template <class T, class Op> static __device__ void to(T *v, int t, int step, Op add) {
    if (t % (2 * step) == 0) v[t] = add(v[t], v[t + step]);
  }
  /* A step: each working warp reads twice, writes once. 8 warps work in 5 steps, then 4, 2, 1. */
  static constexpr int WAVEFRONTS = 8 + 3 * (5 * 8 + 4 + 2 + 1) + 1;
};

/* Rung 2. The first threads do the additions of rung 1, so each warp works or rests as a whole. But
   lanes access words that are 2, 4, 8, ... apart, so several lanes access the same bank. */
struct InterleavedConflicts : Tree<InterleavedConflicts> {
  template <class T, class Op> static __device__ void to(T *v, int t, int step, Op add) {
    const int at = 2 * step * t;
    if (at < THREADS) v[at] = add(v[at], v[at + step]);
  }
  /* The eight steps have conflicts: 2-way, 4-way, three times 8-way, 4-way, 2-way, none. */
  static constexpr int WAVEFRONTS = 8 + 2 * (4 * 2) + 3 * (2 * 4 + 3 * 8 + 4 + 2 + 1) + 1;
};

/* Rung 3. Thread t adds the value half a block away, then a quarter of a block, and so on. */
struct Sequential : Tree<Sequential> {
  template <class T, class Op> static __device__ void to(T *v, int t, int step, Op add) {
    const int half = THREADS / 2 / step;
    if (t < half) v[t] = add(v[t], v[t + half]);
  }
  static constexpr int WAVEFRONTS = 8 + 3 * (4 + 2 + 6 * 1) + 1;
};

/* Rung 4. Every thread adds two values as it loads them, so half as many blocks are enough. */
struct AddOnLoad : Sequential {
  static constexpr int VALUES = 2 * THREADS;
  template <class Op, class T> static __device__ T fetch(const T *x, const T *y, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * 2 * THREADS + threadIdx.x, j = i + THREADS;
    const T first = i < count ? Op::value(x, y, i) : Op::NOTHING;
    const T second = j < count ? Op::value(x, y, j) : Op::NOTHING;
    return Op()(first, second);
  }
};

/* Rung 5. Shuffles add up each warp. Shared memory has one value per warp; one barrier is left. */
struct WarpShuffle : AddOnLoad {
  template <class Op, class T> static __device__ T add_up(T mine, T *v) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    T sum = lab_shuffle<32>(mine, Op());
    if (lane == 0) v[warp] = sum;
    __syncthreads();
    if (warp == 0) sum = lab_shuffle<32>(lane < warps ? v[lane] : Op::NOTHING, Op());
    return sum;
  }
  static constexpr int WAVEFRONTS = THREADS / 32 + 1;
};

/* Computes one level: one sum for each Rung::VALUES neighbours. Grid: one block per sum. */
template <class Rung, class Op, class T = typename Op::T>
__global__ void __launch_bounds__(THREADS) level(const T *x, const T *y, T *d_out, int64_t count) {
  __shared__ T v[THREADS];
  const T sum = Rung::template add_up<Op>(Rung::template fetch<Op>(x, y, count), v);
  if (threadIdx.x == 0) d_out[blockIdx.x] = sum;
}

/* Returns the bytes of d_work: two arrays for the sums of alternate levels. The first is larger. */
template <class Rung> size_t work_of_levels(const LabCall *call) {
  const size_t first = lab_grid(call, Rung::VALUES);
  return (first + lab_blocks((int64_t)first, Rung::VALUES)) * 4;
}

template <class Rung> cudaError_t launch_levels(const LabCall *call) {
  return lab_by_problem<PROBLEMS>(call, [=](auto problem) {
    using Op = Operation<problem>;
    using T = typename Op::T;
    int64_t count = call->size.dim[0];
    const T *d_in = (const T *)call->d_in[0], *d_y = (const T *)call->d_in[1];
    T *d_next = (T *)call->d_work, *d_after = d_next + lab_blocks(count, Rung::VALUES);
    do {
      const unsigned blocks = lab_blocks(count, Rung::VALUES);
      T *d_sums = blocks == 1 ? (T *)call->d_out : d_next;
      TRY(lab_launch(call, level<Rung, Op>, blocks, THREADS, 0, d_in, d_y, d_sums, count));
      d_next = d_after, d_after = d_sums;
      d_in = d_sums, d_y = nullptr, count = blocks;
    } while (count > 1);
    return cudaSuccess;
  });
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

/* Four neighbouring values of the input or, for a dot product, four products. */
template <class Op, class T = typename Op::T> struct Quad {
  LabWord<4, T> x, y;

  __device__ void load(const T *d_x, const T *d_y, int64_t i) {
    x = ((const LabWord<4, T> *)d_x)[i];
    if (Op::PRODUCTS) y = ((const LabWord<4, T> *)d_y)[i];
  }
  __device__ T combined() const {
    T value[4];
    unrolled (i, 4) value[i] = Op::value(x.value, y.value, i);
    return Op()(Op()(value[0], value[1]), Op()(value[2], value[3]));
  }
};

/* Rung 6 sums everything in one launch. Grid: as many blocks as can run at once. Block: every
   gridDim.x-th tile. Thread: LOADS quads of a tile, with all loads in flight. The first threads of
   the grid add the values after the last whole tile. The block that ends last adds up the sums of
   the blocks in a fixed order, so the result never changes. Each value is read once. */
template <class Op, class T = typename Op::T>
__global__ void __launch_bounds__(ONE_PASS_THREADS,
                                  lab_resident(LAB_CAPABILITY, ONE_PASS_THREADS, ONE_PASS_BLOCKS))
    one_pass(const T *x, const T *y, T *d_sums, T *d_out, int64_t count) {
  __shared__ T v[32];
  __shared__ bool is_last;
  const int64_t quads = count / 4, tiles = quads / TILE;
  T sum = Op::NOTHING;
#pragma unroll 1 /* the loads within a tile are unrolled already */
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t mine = tile * TILE + threadIdx.x;
    Quad<Op> quad[LOADS];
    unrolled (n, LOADS) quad[n].load(x, y, mine + n * ONE_PASS_THREADS);
    unrolled (n, LOADS) sum = Op()(sum, quad[n].combined());
  }
  const int64_t me = lab_thread(ONE_PASS_THREADS);
#pragma unroll 1
  for (int64_t i = tiles * TILE + me; i < quads; i += (int64_t)gridDim.x * ONE_PASS_THREADS) {
    Quad<Op> quad;
    quad.load(x, y, i);
    sum = Op()(sum, quad.combined());
  }
  if (me < count % 4) sum = Op()(sum, Op::value(x, y, 4 * quads + me));

  sum = WarpShuffle::add_up<Op>(sum, v);
  if (threadIdx.x == 0) {
    d_sums[blockIdx.x] = sum;
    __threadfence(); /* a block that sees the new count must also see this sum */
    is_last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1; /* wraps to 0 */
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  sum = Op::NOTHING;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += ONE_PASS_THREADS)
    sum = Op()(sum, __ldcg(d_sums + b));
  sum = WarpShuffle::add_up<Op>(sum, v);
  if (threadIdx.x == 0) *d_out = sum;
}

unsigned one_pass_blocks(const LabCall *call) {
  const int resident = lab_resident(call->gpu->capability, ONE_PASS_THREADS, ONE_PASS_BLOCKS);
  return std::max(lab_resident_grid(call, 4 * TILE, resident), 1u); /* an empty grid is an error */
}

cudaError_t launch_one_pass(const LabCall *call) {
  return lab_by_problem<PROBLEMS>(call, [=](auto problem) {
    return lab_launch(call, one_pass<Operation<problem>>, one_pass_blocks(call), ONE_PASS_THREADS,
                      0, call->d_in[0], call->d_in[1], call->d_work, call->d_out,
                      call->size.dim[0]);
  });
}

double wavefronts_of_one_pass(const LabCall *call) {
  const double warps = ONE_PASS_THREADS / 32, adding_up = warps + 1, flag = 1 + warps;
  const double all = one_pass_blocks(call) * (adding_up + flag) + adding_up;
  return all * 32.0 / (double)call->size.dim[0];
}

/* The libraries: CUB for all problems but the dot product, for which most programs call cuBLAS. */
cudaError_t run_cub(const LabCall *call, void *d_work, size_t *bytes) {
  return lab_by_problem<PROBLEMS>(call, [=](auto problem) {
    using T = typename Operation<problem>::T;
    const T *d_x = (const T *)call->d_in[0];
    T *d_out = (T *)call->d_out;
    const int64_t count = call->size.dim[0];
    if constexpr (problem == MINIMUM)
      return cub::DeviceReduce::Min(d_work, *bytes, d_x, d_out, count, call->stream);
    else if constexpr (problem == MAXIMUM)
      return cub::DeviceReduce::Max(d_work, *bytes, d_x, d_out, count, call->stream);
    else
      return cub::DeviceReduce::Sum(d_work, *bytes, d_x, d_out, count, call->stream);
  });
}

cudaError_t launch_cublas_dot(const LabCall *call) {
  return lab_cublas(call, [=](cublasHandle_t handle) {
    const float *x = (const float *)call->d_in[0], *y = (const float *)call->d_in[1];
    const cublasStatus_t status = cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cublasSdot(handle, (int)call->size.dim[0], x, 1, y, 1, (float *)call->d_out);
  });
}

/* n values take n - 1 operations, and a dot product n products before. */
template <int PROBLEM> constexpr LabProblem problem(const char *name) {
  constexpr LabType TYPE = PROBLEM == INT32 ? LAB_UINT32 : LAB_FLOAT32;
  return {name,
          {TYPE, PROBLEM == DOT ? TYPE : LAB_NOTHING},
          TYPE,
          [](LabSize size) { return (PROBLEM == DOT ? 2.0 : 1.0) * (double)size.dim[0] - 1.0; },
          reference<PROBLEM>,
          fill<PROBLEM>};
}

const LabProblem problems[PROBLEMS] = {problem<FLOAT32>("sum"), problem<INT32>("sum-int32"),
                                       problem<DOT>("dot"), problem<MINIMUM>("minimum"),
                                       problem<MAXIMUM>("maximum")};

template <class Rung>
constexpr LabRung level_rung(const char *name, const char *lesson, const char *differs = nullptr) {
  return {name,
          lesson,
          launch_levels<Rung>,
          wavefronts_of_levels<Rung>,
          .work = work_of_levels<Rung>,
          .differs = differs};
}

const LabRung rungs[] = {
    level_rung<InterleavedDivergent>("interleaved-divergent",
                                     "Every warp keeps running, with fewer and fewer active lanes"),
    level_rung<InterleavedConflicts>("interleaved-conflicts",
                                     "The first threads work and whole warps rest, but lanes of a "
                                     "warp meet in the same bank: worse than divergence",
                                     LAB_JOINED),
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
    {"cub", "cub::DeviceReduce::Sum, Min or Max", lab_cub<run_cub>, .kind = LAB_LIBRARY,
     .problems = (1 << PROBLEMS) - 1 - (1 << DOT), .work = lab_cub_work<run_cub>},
    {"cublas-dot", "cublasSdot", launch_cublas_dot, .kind = LAB_LIBRARY, .problems = 1 << DOT,
     .refuse = [](const LabCall *call) {
       return call->size.dim[0] > INT32_MAX ? "it counts in 32 bits" : nullptr;
     }}};

} // namespace

const LabTopic lab_reduce = {
    "reduce",
    "One number from many: a sum, a dot product, a minimum, a maximum",
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
