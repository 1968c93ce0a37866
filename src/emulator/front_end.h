/* CUDA for clang's front end, which checks a student's file without any toolkit: what is declared
   here is what the emulator knows. scripts/seal_exercise.sh refuses every other name that begins
   with two underscores. */
#pragma once

#include <__clang_cuda_math_forward_declares.h>

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__ __restrict
#define __grid_constant__
#define __CUDACC__ 1

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
      : x(x_), y(y_), z(z_) {
  }
};
extern const __device__ uint3 threadIdx, blockIdx;
extern const __device__ dim3 blockDim, gridDim;
constexpr int warpSize = 32;

#define FRONT_VECTOR(name, T, bytes, names, ...)                                                   \
  struct __align__(bytes) name {                                                                   \
    T names;                                                                                       \
  };                                                                                               \
  template <class... Given> __host__ __device__ inline name make_##name(Given... given) {          \
    return {static_cast<T>(given)...};                                                             \
  }
#define FRONT_TWO x, y
#define FRONT_THREE x, y, z
#define FRONT_FOUR x, y, z, w
FRONT_VECTOR(float2, float, 8, FRONT_TWO)
FRONT_VECTOR(int2, int, 8, FRONT_TWO)
FRONT_VECTOR(uint2, unsigned, 8, FRONT_TWO)
FRONT_VECTOR(float3, float, 4, FRONT_THREE)
FRONT_VECTOR(int3, int, 4, FRONT_THREE)
FRONT_VECTOR(float4, float, 16, FRONT_FOUR)
FRONT_VECTOR(int4, int, 16, FRONT_FOUR)
FRONT_VECTOR(uint4, unsigned, 16, FRONT_FOUR)
FRONT_VECTOR(uchar4, unsigned char, 4, FRONT_FOUR)

/* ---- a warp, a block ------------------------------------------------------------------------- */

#define FRONT_SHUFFLE(name, by)                                                                    \
  template <class T> __device__ T name(unsigned mask, T value, by, int width = 32);
FRONT_SHUFFLE(__shfl_sync, int lane)
FRONT_SHUFFLE(__shfl_xor_sync, int mask_of_lanes)
FRONT_SHUFFLE(__shfl_up_sync, unsigned lanes)
FRONT_SHUFFLE(__shfl_down_sync, unsigned lanes)
__device__ void __syncwarp(unsigned mask = ~0u);
__device__ unsigned __activemask();
__device__ unsigned __ballot_sync(unsigned mask, int predicate);
__device__ int __any_sync(unsigned mask, int predicate);
__device__ int __all_sync(unsigned mask, int predicate);
template <class T> __device__ unsigned __match_any_sync(unsigned mask, T value);
#define FRONT_REDUCE(T)                                                                            \
  __device__ T __reduce_add_sync(unsigned, T), __reduce_min_sync(unsigned, T),                     \
      __reduce_max_sync(unsigned, T);
FRONT_REDUCE(int)
FRONT_REDUCE(unsigned)
__device__ unsigned __reduce_and_sync(unsigned, unsigned), __reduce_or_sync(unsigned, unsigned),
    __reduce_xor_sync(unsigned, unsigned);
__device__ void __syncthreads();
__device__ int __syncthreads_count(int predicate);
__device__ int __syncthreads_or(int predicate);
__device__ int __syncthreads_and(int predicate);

/* ---- a thread -------------------------------------------------------------------------------- */

#define FRONT_ATOMIC(name) template <class T, class V> __device__ T name(T *at, V value);
FRONT_ATOMIC(atomicAdd)
FRONT_ATOMIC(atomicSub)
FRONT_ATOMIC(atomicExch)
FRONT_ATOMIC(atomicMin)
FRONT_ATOMIC(atomicMax)
FRONT_ATOMIC(atomicAnd)
FRONT_ATOMIC(atomicOr)
FRONT_ATOMIC(atomicXor)
FRONT_ATOMIC(atomicInc)
FRONT_ATOMIC(atomicDec)
template <class T> __device__ T atomicCAS(T *at, T compare, T value);
__device__ void __threadfence();
__device__ void __threadfence_block();
__device__ void __trap();
__device__ void __nanosleep(unsigned nanoseconds);
__device__ long long clock64();
__device__ int clock();
template <class T> __device__ T __ldg(const T *at);
template <class T> __device__ T __ldcg(const T *at);
template <class T> __device__ T __ldcs(const T *at);
template <class T> __device__ void __stcs(T *at, T value);
template <class T> __device__ void __stcg(T *at, T value);
__device__ float __uint_as_float(unsigned), __int_as_float(int);
__device__ unsigned __float_as_uint(float);
__device__ int __float_as_int(float), __popc(unsigned), __clz(int), __ffs(int);
__device__ float __expf(float), __logf(float), __frcp_rn(float), rsqrtf(float);
__device__ float __fmaf_rn(float, float, float), __fdividef(float, float);
__device__ float __fadd_rn(float, float), __fmul_rn(float, float);
__device__ unsigned __umulhi(unsigned, unsigned), __byte_perm(unsigned, unsigned, unsigned);

__device__ float acosf(float), asinf(float), atanf(float), cbrtf(float), ceilf(float), cosf(float),
    coshf(float), erff(float), erfcf(float), expf(float), exp2f(float), expm1f(float), fabsf(float),
    floorf(float), logf(float), log10f(float), log1pf(float), log2f(float), nearbyintf(float),
    rintf(float), roundf(float), sinf(float), sinhf(float), sqrtf(float), tanf(float), tanhf(float),
    truncf(float);
__device__ float atan2f(float, float), copysignf(float, float), fdimf(float, float),
    fmaxf(float, float), fminf(float, float), fmodf(float, float), hypotf(float, float),
    powf(float, float);
__device__ float fmaf(float, float, float);

template <class A, class B> __host__ __device__ constexpr auto min(A a, B b) -> decltype(a + b) {
  return b < a ? b : a;
}
template <class A, class B> __host__ __device__ constexpr auto max(A a, B b) -> decltype(a + b) {
  return a < b ? b : a;
}
extern "C" {
__device__ int printf(const char *format, ...);
__device__ void *memcpy(void *, const void *, size_t), *memset(void *, int, size_t);
__device__ void *memmove(void *, const void *, size_t);
__device__ void __assert_fail(const char *, const char *, unsigned, const char *);
}

/* ---- what the host calls --------------------------------------------------------------------- */

extern "C" cudaError_t cudaConfigureCall(dim3, dim3, size_t = 0, cudaStream_t = nullptr);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void * = nullptr);
extern "C" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
enum { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum { cudaLaunchAttributeClusterDimension, cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaFuncAttributes {
  int ptxVersion;
};
struct cudaLaunchAttribute {
  int id;
  struct {
    dim3 clusterDim;
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
};
template <class K> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, K);
template <class K> cudaError_t cudaFuncSetAttribute(K *, int, size_t);
template <class... T, class... G>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *, void (*)(T...), G...);
template <class K> cudaError_t cudaOccupancyMaxActiveClusters(int *, K, const cudaLaunchConfig_t *);
