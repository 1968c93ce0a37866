/* Device code that the topics of the lab share. */
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda_try.h"
#include "lab/lab.h"
#include "base/random.h"
#include "base/sizes.h"
#include "unrolled.cuh"

/* A topic's tables set only the fields that the topic uses. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* Sets a table and its length: LAB_ROWS(rung, rungs) sets .rungs and .rung_count. */
#define LAB_ROWS(row, array) .row##s = array, .row##_count = sizeof(array) / sizeof *(array)

#define LAB_LADDER LAB_ROWS(problem, problems), LAB_ROWS(rung, rungs)

/* The first fields of a topic's only LabProblem: no name, one float32 input, a float32 output. */
#define LAB_FLOATS "", {LAB_FLOAT32}, LAB_FLOAT32

constexpr LabSize lab_size(int64_t first, int64_t second = 1, int64_t third = 1) {
  return {{first, second, third}};
}

/* Launches `kernel` on call->stream. Records it in call->record if that is still empty. */
template <class... Taken, class... Given>
cudaError_t lab_launch(const LabCall *call, void (*kernel)(Taken...), dim3 grid, dim3 block,
                       size_t shared, Given... given) {
  LabRecord *r = call->record;
  if (r && !r->kernel) {
    r->kernel = (const void *)kernel;
    r->threads = block.x * block.y * block.z;
    r->shared = shared;
  }
  if (shared > 48 * 1024) { /* above 48 KB a kernel needs this attribute */
    TRY(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)shared));
  }
  kernel<<<grid, block, shared, call->stream>>>(static_cast<Taken>(given)...);
  return cudaGetLastError();
}

/* Launches kernel(first input, output, outermost dimension, more...). */
template <class Kernel, class... More>
cudaError_t lab_map(const LabCall *call, Kernel kernel, dim3 grid, dim3 block, More... more) {
  return lab_launch(call, kernel, grid, block, 0, call->d_in[0], call->d_out, call->size.dim[0],
                    more...);
}

/* Launches kernel(first input, second input, output, outermost dimension, more...). */
template <class Kernel, class... More>
cudaError_t lab_zip(const LabCall *call, Kernel kernel, int64_t blocks, int block, More... more) {
  return lab_launch(call, kernel, blocks, block, 0, call->d_in[0], call->d_in[1], call->d_out,
                    call->size.dim[0], more...);
}

/* Returns a call for launches of kernels that only prepare or end the work. lab_launch does not
   record them, so the table shows the registers of the rung's own kernel. */
static inline LabCall lab_helper(const LabCall *call) {
  LabCall helper = *call;
  helper.record = nullptr;
  return helper;
}

/* Returns how many blocks cover `count` elements if each block has `each` elements. */
static inline unsigned lab_blocks(int64_t count, int64_t each) {
  return (unsigned)ceil_div(count, each);
}

/* Returns how many blocks cover the outermost dimension if each block has `each` elements. */
static inline unsigned lab_grid(const LabCall *call, int64_t each) {
  return lab_blocks(call->size.dim[0], each);
}

/* Returns lab_grid(), but at most `resident` blocks per multiprocessor. */
static inline unsigned lab_resident_grid(const LabCall *call, int64_t each, int64_t resident) {
  return (unsigned)std::min<int64_t>(lab_grid(call, each), resident * call->gpu->multiprocessors);
}

/* Returns the thread's number in a one-dimensional grid whose blocks have `block` threads. */
__device__ inline int64_t lab_thread(int block) {
  return (int64_t)blockIdx.x * block + threadIdx.x;
}

/* Combines the values of LANES (a power of two) neighbouring lanes. All lanes get the result. */
template <int LANES, class T, class Combine> __device__ T lab_shuffle(T value, Combine combine) {
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

struct LabSum {
  template <class T> __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct LabLargest {
  __device__ float operator()(float a, float b) const {
    return fmaxf(a, b);
  }
};

/* Calls launch() with call->problem, which is below COUNT, as a compile-time constant. */
template <int COUNT, class Launch> cudaError_t lab_by_problem(const LabCall *call, Launch launch) {
  if constexpr (COUNT > 1)
    if (call->problem < COUNT - 1) return lab_by_problem<COUNT - 1>(call, launch);
  return launch(std::integral_constant<int, COUNT - 1>());
}

/* The first row and column of a tile. A tile is a block's part of a matrix. */
template <class Int> struct LabCorner { Int row, column; };

/* Tiles of HIGH x WIDE are numbered row by row. lab_corner() returns the corner of this block's
   tile; lab_tiles() returns how many tiles there are. */
template <int HIGH, int WIDE, class Int> __device__ LabCorner<Int> lab_corner(const Int &columns) {
  const unsigned across = (unsigned)ceil_div(columns, WIDE);
  return {(Int)(blockIdx.x / across) * HIGH, (Int)(blockIdx.x % across) * WIDE};
}
template <int HIGH, int WIDE> unsigned lab_tiles(int64_t rows, int64_t columns) {
  return lab_blocks(rows, HIGH) * lab_blocks(columns, WIDE);
}

/* WIDTH neighbouring values of 4 bytes each, which one instruction loads or stores. */
template <int WIDTH, class T = float> struct alignas(4 * WIDTH) LabWord { T value[WIDTH]; };

/* Returns how many blocks a multiprocessor holds at once, at most `wanted`. It holds 1024
   threads on compute capability 7.5, 2048 on 8.0, 9.x, 10.x, else 1536 (CUDA Programming Guide). */
__host__ __device__ constexpr int lab_resident(int capability, int threads, int wanted) {
  const bool large = capability == 80 || capability / 10 == 9 || capability / 10 == 10;
  const int newer = large ? 2048 : 1536;
  const int most = (capability < 80 ? 1024 : newer) / threads;
  return wanted < most ? wanted : most;
}

/* The compute capability that the code is compiled for, as in GpuLimits. Host code ignores it. */
#ifdef __CUDA_ARCH__
constexpr int LAB_CAPABILITY = __CUDA_ARCH__ / 10;
#else
constexpr int LAB_CAPABILITY = 90;
#endif

/* For LabProblem.bytes or .operations: returns EACH times the product of the dimensions. */
template <int64_t EACH> double lab_each(LabSize size) {
  return (double)EACH * (double)(size.dim[0] * size.dim[1] * size.dim[2]);
}

/* A LabProblem.reference: output i must be exactly of(i). */
template <class Of> void lab_exactly(const LabRange *range, Of of) {
  for (int64_t i = 0; i < range->count; i++) {
    range->expected[i] = of(range->first + i);
    range->allowed[i] = 0.0;
  }
}

/* A LabProblem.reference: output i must be exactly OF(input i). */
template <float (*OF)(float)> void lab_exactly(const LabRange *range) {
  const float *x = (const float *)range->h_in[0];
  lab_exactly(range, [=](int64_t i) { return OF(x[i]); });
}

/* Calls part(first, end) as lab_in_parts does. */
template <class Part> void lab_parallel(int64_t count, int64_t each, Part part) {
  lab_in_parts(
      count, each,
      [](const void *context, int64_t first, int64_t end) { (*(const Part *)context)(first, end); },
      &part);
}

/* Fills an array. Value i becomes of(i, random), where `random` has 32 random bits. of() returns a
   float or a uint32_t. */
template <class Of>
void lab_draw(void *h_values, int64_t count, uint64_t seed, uint64_t stream, Of of) {
  using Value = decltype(of(0, 0u));
  static_assert(sizeof(Value) == 4, "arrays of random values have elements of 4 bytes");
  constexpr int64_t EACH = 1 << 16; /* a multiple of four, because four values share their words */
  lab_parallel(count, EACH, [=](int64_t first, int64_t end) {
    RandomWords words;
    for (int64_t i = first; i < end; i++) {
      if (i % 4 == 0) words = random_words(seed, stream, (uint64_t)i);
      ((Value *)h_values)[i] = of(i, words.word[i % 4]);
    }
  });
}

/* RUN runs an algorithm of CUB, or only sets *bytes if d_work is NULL. lab_cub<RUN> is a
   LabRung.launch, lab_cub_work<RUN> a LabRung.work. */
using LabCub = cudaError_t(const LabCall *call, void *d_work, size_t *bytes);

template <LabCub RUN> cudaError_t lab_cub(const LabCall *call) {
  size_t bytes = SIZE_MAX; /* d_work is large enough; asking CUB for its size would cost time */
  return RUN(call, call->d_work, &bytes);
}

template <LabCub RUN> size_t lab_cub_work(const LabCall *call) {
  size_t bytes = 0;
  return RUN(call, nullptr, &bytes) == cudaSuccess ? bytes : 0;
}

/* For LabRung.predicted: returns VALUE / PER for every size. */
template <int VALUE, int PER = 1> double lab_value(const LabCall *) {
  return (double)VALUE / PER;
}

/* For LabTopic.refuse, if kernels have one thread per element and THREADS threads per block. */
template <int THREADS> const char *lab_refuse_grid(int, LabSize size) {
  return size.dim[0] > (int64_t)INT32_MAX * THREADS ? "that is more blocks than a grid has"
                                                    : nullptr;
}
