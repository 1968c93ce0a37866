/* The kernel of the topic math (math.cu), in a header because it is compiled twice: by math.cu as
   it stands, and by math_fast.cu with -use_fast_math. Everything here is local to the file that
   includes it, so that the two compilations never meet. */
#ifndef LAB_MATH_CUH
#define LAB_MATH_CUH

#include "lab/lab.cuh"

/* The rung that math_fast.cu adds to the ladder. */
cudaError_t lab_math_fast(const LabCall *call);

namespace {

enum { EXP, LOG, SIN, SQRT, DIVISION, FUNCTIONS }; /* the topic's problems */

/* Applications per element: arithmetic must take longer than the 8 to 12 bytes that an element
   moves. */
constexpr int REPEATS = 256;

constexpr int MATH_THREADS = 256;

/* The functions as CUDA C++ has them for float: IEEE division and square root, a few ulp otherwise;
   or what -use_fast_math makes of the very same lines. */
struct Float {
  static __device__ float apply(int function, float x, float y) {
    switch (function) {
    case EXP:
      return expf(x);
    case LOG:
      return logf(x);
    case SIN:
      return sinf(x);
    case SQRT:
      return sqrtf(x);
    default:
      return x / y;
    }
  }
};

/* out = f(x), or x / y. Grid: one thread per element. The function is applied REPEATS times to the
   same arguments. `zero` is 0, which only the caller knows: for the compiler the arguments of each
   application depend on the result before it, so none can be left out or moved. The price is one
   logical instruction per application; 64 warps per SM hide that the applications wait for each
   other. */
template <class Source, int FUNCTION>
__global__ void __launch_bounds__(MATH_THREADS)
    math_kernel(const float *d_x, const float *d_y, float *d_out, int64_t count, unsigned zero) {
  const int64_t i = (int64_t)blockIdx.x * MATH_THREADS + threadIdx.x;
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
  constexpr void (*kernels[FUNCTIONS])(const float *, const float *, float *, int64_t, unsigned) = {
      math_kernel<Source, EXP>, math_kernel<Source, LOG>, math_kernel<Source, SIN>,
      math_kernel<Source, SQRT>, math_kernel<Source, DIVISION>};
  const int64_t count = call->size.dim[0];
  return lab_launch(call, kernels[call->problem], lab_blocks(count, MATH_THREADS), MATH_THREADS, 0,
                    call->d_in[0], call->d_in[1], call->d_out, count, 0u);
}

} // namespace

#endif
