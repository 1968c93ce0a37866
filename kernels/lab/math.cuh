/* The kernel of the topic math. It is compiled twice: in math.cu, and in math_fast.cu with
   -use_fast_math. So everything here is local to the file that includes it. */
#pragma once

#include "lab/lab.cuh"

#include <cmath>

/* Launches the rung that math_fast.cu adds to the ladder. */
cudaError_t lab_math_fast(const LabCall *call);

namespace {

enum { EXP, LOG, SIN, SQRT, DIVISION, FUNCTIONS }; /* the topic's problems */

/* Calls per element: so many that arithmetic takes longer than moving the element's bytes. */
constexpr int REPEATS = 256;

constexpr int MATH_THREADS = 256;

/* The functions of CUDA C++; -use_fast_math replaces them by faster, less exact ones. */
template <class T> __host__ __device__ inline T standard(int function, T x, T y) {
  if (function == EXP) return std::exp(x);
  if (function == LOG) return std::log(x);
  if (function == SIN) return std::sin(x);
  return function == SQRT ? std::sqrt(x) : x / y;
}

struct Float {
  static __device__ float apply(int function, float x, float y) {
    return standard(function, x, y);
  }
};

/* Computes out = f(x), or x / y, REPEATS times. Grid: one thread per element. `zero` is 0, but the
   compiler does not know this. It keeps all calls, as each may depend on the previous result. */
template <class Source, int FUNCTION>
__global__ void __launch_bounds__(MATH_THREADS)
    math_kernel(const float *d_x, const float *d_y, float *d_out, int64_t count, unsigned zero) {
  const int64_t i = lab_thread(MATH_THREADS);
  if (i >= count) return;
  float x = d_x[i], y = FUNCTION == DIVISION ? d_y[i] : 0.0f;
  float result = Source::apply(FUNCTION, x, y);
#pragma unroll 4
  for (int r = 1; r < REPEATS; r++) {
    const unsigned nothing = __float_as_uint(result) & zero;
    x = __uint_as_float(__float_as_uint(x) ^ nothing);
    y = __uint_as_float(__float_as_uint(y) ^ nothing);
    result = Source::apply(FUNCTION, x, y);
  }
  d_out[i] = result;
}

template <class Source> cudaError_t launch_math(const LabCall *call) {
  return lab_by_problem<FUNCTIONS>(call, [=](auto function) {
    return lab_zip(call, math_kernel<Source, function>, lab_grid(call, MATH_THREADS), MATH_THREADS,
                   0u);
  });
}

} // namespace
