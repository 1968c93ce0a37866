/* Vectors: one operation per element, from clear to multiply. Memory limits them all, and memory
   moves sectors of 32 bytes. So the speed depends on which bytes the 32 lanes of a warp access in
   ONE instruction. */
#include <cmath>

#include "lab/lab.cuh"

namespace {

constexpr double UNIT = 0x1p-24 * (1 + 0x1p-20); /* 2^-24 for float32; the factor for double */

constexpr float FACTOR = 1.7f;
/* All four bytes of the float are 0x3f, so that cudaMemset, which sets bytes, can write it. */
constexpr float FILLING = 0x1.7e7e7ep-1f;
constexpr int FILLING_BYTE = 0x3f;

enum { FILL, SCALE, SAXPY, EXPONENTIATE, CLEAR, RELU, ADD_NUMBER, ADD, MULTIPLY, PROBLEMS };
constexpr int INPUT_COUNTS[PROBLEMS] = {0, 1, 2, 1, 0, 1, 1, 2, 2};
template <int PROBLEM> constexpr int INPUTS = INPUT_COUNTS[PROBLEM];

/* Returns the result for one element, in float on the GPU and in double for the reference. */
template <int PROBLEM, class T> __host__ __device__ T result_of(T x, T y) {
  if (PROBLEM == FILL) return FILLING;
  if (PROBLEM == EXPONENTIATE) return std::exp(x);
  if (PROBLEM == SCALE) return FACTOR * x;
  if (PROBLEM == CLEAR) return 0;
  if (PROBLEM == RELU) return x < 0 ? 0 : x; /* unlike fmax(x, 0), this keeps a NaN, so it shows */
  if (PROBLEM == ADD_NUMBER) return x + FACTOR;
  if (PROBLEM == ADD) return x + y;
  if (PROBLEM == MULTIPLY) return x * y;
  return FACTOR * x + y;
}

/* These problems round nothing. */
constexpr bool is_exact(int problem) {
  return problem == FILL || problem == CLEAR || problem == RELU;
}

template <int PROBLEM> void reference(const LabRange *r) {
  for (int64_t i = 0; i < r->count; i++) {
    const double x = INPUTS<PROBLEM> > 0 ? ((const float *)r->h_in[0])[r->first + i] : 0.0;
    const double y = INPUTS<PROBLEM> > 1 ? ((const float *)r->h_in[1])[r->first + i] : 0.0;
    r->expected[i] = result_of<PROBLEM>(x, y);
    r->allowed[i] = is_exact(PROBLEM) ? 0.0 : UNIT * fabs(r->expected[i]);
    if (PROBLEM == SAXPY) r->allowed[i] += UNIT * fabs(FACTOR * x); /* the product rounds, too */
    /* The CUDA guide allows 2 ulp. An ulp is at most 2 UNIT |expected|, and at least 2^-149. */
    if (PROBLEM == EXPONENTIATE) r->allowed[i] = 5 * UNIT * fabs(r->expected[i]) + 0x1p-147;
  }
}

constexpr int BLOCK = 256;

/* Computes word i of the result (WIDTH neighbours), with one load per input and one store. */
template <int PROBLEM, int WIDTH>
__device__ void do_word(const float *__restrict__ x, const float *__restrict__ y,
                        float *__restrict__ out, int64_t i) {
  constexpr int inputs = INPUTS<PROBLEM>;
  LabWord<WIDTH> a = {}, b = {}, result;
  if (inputs > 0) a = reinterpret_cast<const LabWord<WIDTH> *>(x)[i];
  if (inputs > 1) b = reinterpret_cast<const LabWord<WIDTH> *>(y)[i];
  unrolled (k, WIDTH) result.value[k] = result_of<PROBLEM>(a.value[k], b.value[k]);
  reinterpret_cast<LabWord<WIDTH> *>(out)[i] = result;
}

/* ---- 1. one thread per element ------------------------------------------------------------------
   Grid: one thread per element, BLOCK threads per block. Lanes have neighbouring elements, so a
   warp's request is 128 contiguous bytes: 4 whole sectors. But 2^28 elements need 2^20 blocks. */
template <int PROBLEM>
__global__ void __launch_bounds__(BLOCK)
    element(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ out,
            int64_t count) {
  const int64_t i = lab_thread(BLOCK);
  if (i < count) do_word<PROBLEM, 1>(x, y, out, i);
}

cudaError_t launch_element(const LabCall *call) {
  return lab_by_problem<PROBLEMS>(call, [=](auto problem) {
    return lab_zip(call, element<problem>, lab_grid(call, BLOCK), BLOCK);
  });
}

/* ---- 2. without a check of the bounds -----------------------------------------------------------
   The last block of rung 1 may have threads beyond the last element, and only the check keeps them
   from writing there. What they would overwrite belongs to somebody else, and nothing reports it:
   memory is allocated in large pieces, so the address is usually valid. That is why this rung
   refuses lengths that leave such threads. */
template <int PROBLEM>
__global__ void __launch_bounds__(BLOCK)
    unchecked(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ out) {
  do_word<PROBLEM, 1>(x, y, out, lab_thread(BLOCK));
}

cudaError_t launch_unchecked(const LabCall *call) {
  return lab_by_problem<PROBLEMS>(call, [=](auto problem) {
    return lab_launch(call, unchecked<problem>, lab_grid(call, BLOCK), BLOCK, 0, call->d_in[0],
                      call->d_in[1], call->d_out);
  });
}

const char *refuse_unchecked(const LabCall *call) {
  return call->size.dim[0] % BLOCK
             ? "threads of its last block would write past the end of the array"
             : nullptr;
}

/* ---- 3. and 4. one contiguous segment per thread ------------------------------------------------
   Thread: SEGMENT contiguous elements, as a CPU would divide a loop among its cores. Lanes are 128
   bytes apart, so each request touches 32 sectors and uses 4 bytes of each. Rung 4 loads TOGETHER
   elements before it stores the first. */
constexpr int SEGMENT = 32; /* elements per thread; they fill a cache line */
constexpr int TOGETHER = 8; /* elements that rung 4 loads at once; they fill a sector */

template <int PROBLEM, int UNROLL>
__global__ void __launch_bounds__(BLOCK)
    segment(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ out,
            int64_t count) {
  const int64_t first = (lab_thread(BLOCK)) * SEGMENT;
  const int mine = (int)min((int64_t)SEGMENT, count - first); /* 0 or less beyond the end */
#pragma unroll UNROLL
  for (int i = 0; i < mine; i++) do_word<PROBLEM, 1>(x, y, out, first + i);
}

template <int UNROLL> cudaError_t launch_segment(const LabCall *call) {
  return lab_by_problem<PROBLEMS>(call, [=](auto problem) {
    return lab_zip(call, segment<problem, UNROLL>, lab_grid(call, BLOCK * SEGMENT), BLOCK);
  });
}

/* ---- 5. to 7. grid-stride, and back -------------------------------------------------------------
   Thread: every n-th element, where n is the number of threads of the grid. So in every step
   neighbouring lanes have neighbouring elements. The grid fits the GPU, not the data. Rung 6 uses
   words of 16 bytes (arrays are aligned, see lab.h); each element after the last word has its own
   thread. Rung 7 has one thread per word, so its loop runs once (docs/lab/vector.md). */

/* Four times the 8 blocks that fit on a multiprocessor. When a block ends, another starts. */
constexpr int32_t BLOCKS_AN_SM = 32, AS_MANY_AS_NEEDED = INT32_MAX;

template <int PROBLEM, int WIDTH>
__global__ void __launch_bounds__(BLOCK)
    grid_stride(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ out,
                int64_t count) {
  const int64_t thread = lab_thread(BLOCK);
  const int64_t threads = (int64_t)gridDim.x * BLOCK, words = count / WIDTH;
  for (int64_t i = thread; i < words; i += threads) do_word<PROBLEM, WIDTH>(x, y, out, i);
  if (thread < count % WIDTH) do_word<PROBLEM, 1>(x, y, out, words * WIDTH + thread);
}

template <int WIDTH, int32_t BLOCKS> cudaError_t launch_grid_stride(const LabCall *call) {
  return lab_by_problem<PROBLEMS>(call, [=](auto problem) {
    return lab_zip(call, grid_stride<problem, WIDTH>,
                   lab_resident_grid(call, (int64_t)BLOCK * WIDTH, BLOCKS), BLOCK);
  });
}

cudaError_t launch_memset(const LabCall *call) {
  const int byte = call->problem == CLEAR ? 0 : FILLING_BYTE;
  return cudaMemsetAsync(call->d_out, byte, sizeof(float) * (size_t)call->size.dim[0],
                         call->stream);
}

template <int PROBLEM> constexpr auto type_of_input(int n) {
  return INPUTS<PROBLEM> > n ? LAB_FLOAT32 : LAB_NOTHING;
}

template <int PROBLEM, int OPERATIONS> constexpr LabProblem problem(const char *name) {
  return {name,
          {type_of_input<PROBLEM>(0), type_of_input<PROBLEM>(1)},
          LAB_FLOAT32,
          lab_each<OPERATIONS>,
          reference<PROBLEM>};
}

const LabProblem problems[PROBLEMS] = {problem<FILL, 0>("fill"),
                                       problem<SCALE, 1>("scale"),
                                       problem<SAXPY, 2>("saxpy"),
                                       problem<EXPONENTIATE, 1>("exponentiate"),
                                       problem<CLEAR, 0>("clear"),
                                       problem<RELU, 1>("relu"),
                                       problem<ADD_NUMBER, 1>("add-number"),
                                       problem<ADD, 1>("add"),
                                       problem<MULTIPLY, 1>("multiply")};

/* Each rung predicts how many sectors of 32 bytes a request of a warp touches. */
const LabRung rungs[] = {
    {"element",
     "One thread per element: neighbouring lanes take neighbouring elements, a request is four "
     "whole sectors; with 1 KB to write per block (fill), starting blocks takes longer",
     launch_element, lab_value<4>},
    {"unchecked",
     "The same without the check of the bounds, which costs nothing that memory would notice, but "
     "must be there for lengths that blocks do not divide",
     launch_unchecked, lab_value<4>, .refuse = refuse_unchecked},
    {"segment",
     "One contiguous segment per thread, the habit of the CPU, spreads each request over 32 "
     "sectors",
     launch_segment<1>, lab_value<32>},
    {"segment-unrolled",
     "Unrolling puts more loads in flight, but the pattern stays and so does most of the loss",
     launch_segment<TOGETHER>, lab_value<32>},
    {"grid-stride",
     "Several elements per thread, a whole grid apart: one grid size serves every length, and "
     "lanes are side by side again",
     launch_grid_stride<1, BLOCKS_AN_SM>, lab_value<4>},
    {"grid-stride-16", "Words of 16 bytes: a quarter of the requests, each of 16 whole sectors",
     launch_grid_stride<4, BLOCKS_AN_SM>, lab_value<16>},
    {"word",
     "One word of 16 bytes per thread and no loop: a quarter of the first rung's blocks, which "
     "walk through memory in order",
     launch_grid_stride<4, AS_MANY_AS_NEEDED>, lab_value<16>},
    {"memset", "cudaMemsetAsync, with a number whose four bytes are the same", launch_memset,
     .kind = LAB_LIBRARY, .problems = 1 << FILL | 1 << CLEAR}};

} // namespace

const LabTopic lab_vector = {
    "vector",
    "Vectors: how the lanes of a warp should access memory",
    "elements",
    LAB_GB_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(1 << 28), lab_size(1 << 20), lab_size(1 << 24)},
    .tested = lab_size(100000),
    .predicted_name = "sectors per request",
    .counted = LAB_COUNTS_SECTORS,
    .metric = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    .metric_name = "sectors per store"};
