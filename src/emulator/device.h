/* CUDA C++ for the emulator. clang's front end (__CUDA__) also reads it, to check a student's file.
   scripts/seal_exercise.sh refuses all names with two leading underscores that this file lacks. */
#pragma once

#ifndef EMULATOR_ARCH /* compute capability times 10 */
#define EMULATOR_ARCH 80
#endif

#ifdef __CUDA__
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#include <__clang_cuda_math_forward_declares.h>
#else
#define __CUDA_ARCH__ (EMULATOR_ARCH * 10)
#define __host__
#define __device__
#define __global__
/* Thread-local storage holds the __shared__ variables and nothing else. Blocks run one after
   another and use the same copy. */
#define EMULATOR_JOIN_(a, b) a##b
#define EMULATOR_JOIN(a, b) EMULATOR_JOIN_(a, b)
#define EMULATOR_SHARED static thread_local __attribute__((used))
#define __shared__                                                                                 \
  EMULATOR_SHARED char EMULATOR_JOIN(emulator_gap, __COUNTER__)[64];                               \
  EMULATOR_SHARED
#define EMULATOR_DYNAMIC(T, name) static T *const name = (T *)emulator_dynamic_shared;
#define __constant__
#define __launch_bounds__(...) /* launches.awk replaces this name in kernels */
#endif
#define __CUDACC__ 1
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__
#define __grid_constant__
/* Inlines functions that call the emulator, so that a call's address gives the kernel's line. */
#define EMULATOR_INLINE __device__ inline __attribute__((always_inline))

#include <limits.h>
#include <math.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <tuple>

#include "emulator/runtime.h"

struct uint3 {
  unsigned x, y, z;
};
/* These are declared constant, so that the compiler does not report reads of them as accesses. */
extern const __device__ uint3 threadIdx asm("emulator_thread"), blockIdx asm("emulator_block");
extern const __device__ dim3 blockDim asm("emulator_block_size"), gridDim asm("emulator_grid_size");
constexpr int warpSize = 32;

#ifdef __CUDA__
/* Declarations that only clang's front end needs: launches, and the C library's functions. */
extern "C" cudaError_t cudaConfigureCall(dim3, dim3, size_t = 0, cudaStream_t = nullptr);
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void * = nullptr);
extern "C" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
__device__ float acosf(float), asinf(float), atanf(float), cbrtf(float), ceilf(float), cosf(float),
    coshf(float), erff(float), erfcf(float), expf(float), exp2f(float), expm1f(float), fabsf(float),
    floorf(float), logf(float), log10f(float), log1pf(float), log2f(float), nearbyintf(float),
    rintf(float), roundf(float), sinf(float), sinhf(float), sqrtf(float), tanf(float), tanhf(float),
    truncf(float);
__device__ float atan2f(float, float), copysignf(float, float), fdimf(float, float),
    fmaxf(float, float), fminf(float, float), fmodf(float, float), hypotf(float, float),
    powf(float, float);
__device__ float fmaf(float, float, float);
extern "C" {
__device__ int printf(const char *format, ...);
__device__ void *memcpy(void *, const void *, size_t), *memset(void *, int, size_t);
__device__ void *memmove(void *, const void *, size_t);
__device__ void __assert_fail(const char *, const char *, unsigned, const char *);
}
#endif

namespace emulated {
template <class T> struct Two { T x, y; };
template <class T> struct Four { T x, y, z, w; };
} // namespace emulated

#define EMULATOR_VECTOR(name, Parts)                                                               \
  struct alignas(sizeof(Parts)) name : Parts {                                                     \
    typedef uint32_t Words __attribute__((vector_size(sizeof(Parts)), may_alias));                 \
    name() = default;                                                                              \
    template <class... More>                                                                       \
    __host__ __device__ constexpr name(decltype(x) first, More... more)                            \
        : Parts{first, static_cast<decltype(x)>(more)...} {                                        \
    }                                                                                              \
    __host__ __device__ name(const name &from) {                                                   \
      *(Words *)this = *(const Words *)&from;                                                      \
    }                                                                                              \
    __host__ __device__ name &operator=(const name &from) {                                        \
      *(Words *)this = *(const Words *)&from;                                                      \
      return *this;                                                                                \
    }                                                                                              \
  };                                                                                               \
  template <class... Given> __host__ __device__ name make_##name(Given... given) {                 \
    static_assert(sizeof...(given) * 4 == sizeof(name), "a value for each part");                  \
    return name(given...);                                                                         \
  }
EMULATOR_VECTOR(float2, emulated::Two<float>)
EMULATOR_VECTOR(int2, emulated::Two<int>)
EMULATOR_VECTOR(uint2, emulated::Two<uint32_t>)
EMULATOR_VECTOR(float4, emulated::Four<float>)
EMULATOR_VECTOR(int4, emulated::Four<int>)
EMULATOR_VECTOR(uint4, emulated::Four<uint32_t>)
struct float3 {
  float x, y, z;
};
__host__ __device__ inline float3 make_float3(float x, float y, float z) {
  return {x, y, z};
}

namespace emulated {

template <class... Given> struct Pending {
  dim3 blocks, threads;
  size_t shared;
  cudaStream_t stream;
  std::tuple<Given...> given;
};

inline auto grid(dim3 blocks, dim3 threads, size_t shared = 0, cudaStream_t stream = nullptr) {
  return [=](auto... given) {
    return Pending<decltype(given)...>{blocks, threads, shared, stream, {given...}};
  };
}

template <class... Taken, class... Given>
EMULATOR_INLINE cudaError_t operator->*(void (*kernel)(Taken...),
                                        const Pending<Given...> &pending) {
  static_assert((... && !std::is_reference<Taken>::value),
                "a __global__ function cannot have a parameter with reference type");
  const auto call = [kernel, all = pending.given] {
    std::apply([&](const Given &...given) { kernel(Taken(given)...); }, all);
  };
  return emulator_run(
      pending.blocks, pending.threads, pending.shared,
      [](void *context) { (*static_cast<decltype(call) *>(context))(); }, &call, sizeof call,
      (const void *)kernel, pending.stream);
}

template <class T> struct Shuffled {
  T value, result;
  int from;
};

template <class T> __device__ void shuffle(void **lanes, unsigned mask) {
  for (int i = 0; i < 32; i++) {
    if (!(mask >> i & 1)) continue;
    Shuffled<T> *to = static_cast<Shuffled<T> *>(lanes[i]);
    if (mask >> to->from & 1)
      to->result = static_cast<Shuffled<T> *>(lanes[to->from])->value;
    else
      emulator_absent(to->from, mask), to->result = to->value;
  }
}

EMULATOR_INLINE unsigned thread() { /* returns the thread's number in its block */
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
EMULATOR_INLINE int lane() {
  return (int)(thread() % 32);
}

template <class T> EMULATOR_INLINE T shuffled(unsigned mask, T value, int from) {
  Shuffled<T> mine = {value, value, from};
  emulator_meet(mask, &mine, shuffle<T>, false);
  return mine.result;
}

/* Reduces the lanes' values with Join::of(), and gives the result to all lanes. */
template <class T, class Join> __device__ void reduce(void **lanes, unsigned mask) {
  T all = *static_cast<T *>(lanes[__builtin_ctz(mask)]);
  for (unsigned rest = mask & (mask - 1); rest; rest &= rest - 1)
    all = Join::of(all, *static_cast<T *>(lanes[__builtin_ctz(rest)]));
  for (unsigned rest = mask; rest; rest &= rest - 1)
    *static_cast<T *>(lanes[__builtin_ctz(rest)]) = all;
}

template <class T> __device__ void match(void **lanes, unsigned mask) {
  Shuffled<T> **of = reinterpret_cast<Shuffled<T> **>(lanes);
  for (int i = 0; i < 32; i++)
    for (int k = 0; k < 32 && mask >> i & 1; k++)
      if (mask >> k & 1) of[i]->from |= (of[i]->value == of[k]->value) << k;
}

template <class T, class F>
__device__ __attribute__((noinline, no_sanitize("thread"))) T atomically(T *at, F change) {
  emulator_atomic(at, sizeof *at, __builtin_return_address(0));
  const T old = *at;
  *at = change(old);
  return old;
}

} // namespace emulated

/* Returns the value of lane `source`. If `source` is outside the lane's group of `width` lanes,
   returns the lane's own value. */
#define EMULATOR_SHUFFLE(name, source)                                                             \
  template <class T> EMULATOR_INLINE T name(unsigned mask, T value, int by, int width = 32) {      \
    const int me = emulated::lane(), first = me / width * width, from = source;                    \
    return emulated::shuffled(mask, value, from < first + width ? from : me);                      \
  }
EMULATOR_SHUFFLE(__shfl_sync, first + (by & (width - 1)))
EMULATOR_SHUFFLE(__shfl_xor_sync, me ^ by)
EMULATOR_SHUFFLE(__shfl_down_sync, me + by)
EMULATOR_SHUFFLE(__shfl_up_sync, me - by < first ? me : me - by)
EMULATOR_INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
  emulator_meet(mask, nullptr, nullptr, true);
}
#if EMULATOR_ARCH >= 80
#define EMULATOR_SINCE_80
#else
#define EMULATOR_SINCE_80                                                                          \
  __attribute__((unavailable("it needs compute capability 8.0, and this GPU has 7.5")))
#endif
#define EMULATOR_REDUCE(name, joined)                                                              \
  template <class T> EMULATOR_SINCE_80 EMULATOR_INLINE T name(unsigned mask, T value) {            \
    struct Join {                                                                                  \
      __device__ static T of(T a, T b) {                                                           \
        return joined;                                                                             \
      }                                                                                            \
    };                                                                                             \
    emulator_meet(mask, &value, emulated::reduce<T, Join>, false);                                 \
    return value;                                                                                  \
  }
EMULATOR_REDUCE(__reduce_add_sync, a + b)
EMULATOR_REDUCE(__reduce_min_sync, b < a ? b : a)
EMULATOR_REDUCE(__reduce_max_sync, a < b ? b : a)
EMULATOR_REDUCE(__reduce_and_sync, a &b)
EMULATOR_REDUCE(__reduce_or_sync, a | b)
EMULATOR_REDUCE(__reduce_xor_sync, a ^ b)
template <class T> EMULATOR_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  emulated::Shuffled<T> mine = {value, value, 0};
  emulator_meet(mask, &mine, emulated::match<T>, false);
  return (unsigned)mine.from;
}
EMULATOR_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  struct Join {
    __device__ static unsigned of(unsigned a, unsigned b) {
      return a | b;
    }
  };
  unsigned votes = (unsigned)(predicate != 0) << emulated::lane();
  emulator_meet(mask, &votes, emulated::reduce<unsigned, Join>, false);
  return votes;
}
#define __any_sync(mask, predicate) (__ballot_sync(mask, predicate) != 0)
EMULATOR_INLINE int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}
#define __activemask() emulator_active()

#define EMULATOR_TEXT_(line) #line
#define EMULATOR_TEXT(line) EMULATOR_TEXT_(line)
#define EMULATOR_HERE __FILE__ ":" EMULATOR_TEXT(__LINE__)
#define __syncthreads() ((void)emulator_barrier(0, EMULATOR_HERE))
#define __syncthreads_count(predicate) emulator_barrier((predicate) != 0, EMULATOR_HERE)
#define __syncthreads_or(predicate) (emulator_barrier((predicate) != 0, EMULATOR_HERE) != 0)
#define __syncthreads_and(predicate) (emulator_barrier((predicate) == 0, EMULATOR_HERE) == 0)

#define EMULATOR_ATOMIC(name, expression)                                                          \
  template <class T, class V> EMULATOR_INLINE T name(T *at, V value_) {                            \
    const T value = (T)value_;                                                                     \
    if (std::is_floating_point<T>::value) emulator_unordered();                                    \
    return emulated::atomically(at, [=](T old) -> T { return expression; });                       \
  }
EMULATOR_ATOMIC(atomicAdd, old + value)
EMULATOR_ATOMIC(atomicSub, old - value)
EMULATOR_ATOMIC(atomicExch, ((void)old, value))
EMULATOR_ATOMIC(atomicMin, value < old ? value : old)
EMULATOR_ATOMIC(atomicMax, value > old ? value : old)
EMULATOR_ATOMIC(atomicAnd, old &value)
EMULATOR_ATOMIC(atomicOr, old | value)
EMULATOR_ATOMIC(atomicXor, old ^ value)
EMULATOR_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
EMULATOR_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
template <class T> EMULATOR_INLINE T atomicCAS(T *at, T compare, T value) {
  return emulated::atomically(at, [=](T old) -> T { return old == compare ? value : old; });
}
#define __threadfence() emulator_fence()
#define __threadfence_block() emulator_fence()
#define __threadfence_system() emulator_fence()
#define __trap() emulator_trap()
#define __nanosleep(nanoseconds) ((void)(nanoseconds))
#define clock64() ((long long)emulator_clock())
#define clock() ((int)emulator_clock())

#define __ldg(at) (*(at))
#define __ldcg(at) (*(at))
#define __ldcs(at) (*(at))
#define __ldca(at) (*(at))
#define __ldcv(at) (*(at))
#define __ldlu(at) (*(at))
#define __stcs(at, value) ((void)(*(at) = (value)))
#define __stwt(at, value) ((void)(*(at) = (value)))
#define __stcg(at, value) ((void)(*(at) = (value)))

template <class To, class From> __device__ To emulator_bits(From from) {
  To to;
  static_assert(sizeof to == sizeof from, "");
  memcpy(&to, &from, sizeof to);
  return to;
}
#define __uint_as_float(bits) emulator_bits<float, uint32_t>(bits)
#define __float_as_uint(value) emulator_bits<uint32_t, float>(value)
#define __int_as_float(bits) emulator_bits<float, int>(bits)
#define __float_as_int(value) emulator_bits<int, float>(value)
#define __double_as_longlong(value) emulator_bits<long long, double>(value)
#define __longlong_as_double(bits) emulator_bits<double, long long>(bits)
#define __ffs __builtin_ffs
#define __ffsll __builtin_ffsll
#define __popc __builtin_popcount
#define __popcll __builtin_popcountll
__device__ inline int __clz(int bits) {
  return bits ? __builtin_clz((unsigned)bits) : 32;
}
__device__ inline int __clzll(long long bits) {
  return bits ? __builtin_clzll((unsigned long long)bits) : 64;
}
__device__ inline unsigned __brev(unsigned bits) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; i++) reversed |= (bits >> i & 1) << (31 - i);
  return reversed;
}
__device__ inline int __mul24(int x, int y) { /* of the low 24 bits, with their sign */
  return (int)((unsigned)((int)((unsigned)x << 8) >> 8) * (unsigned)((int)((unsigned)y << 8) >> 8));
}
__device__ inline unsigned __umul24(unsigned x, unsigned y) {
  return (x & 0xffffff) * (y & 0xffffff);
}
__device__ inline int __mulhi(int x, int y) {
  return (int)((long long)x * y >> 32);
}
__device__ inline unsigned __sad(int x, int y, unsigned sum) {
  return (x < y ? (unsigned)y - (unsigned)x : (unsigned)x - (unsigned)y) + sum;
}
__device__ inline unsigned __usad(unsigned x, unsigned y, unsigned sum) {
  return (x < y ? y - x : x - y) + sum;
}
__device__ inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
__device__ inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
/* Conversions: _rn rounds to the nearest number, _rz towards 0, _ru up and _rd down. */
#define __float2int_rn(x) ((int)rintf(x))
#define __float2int_rz(x) ((int)(float)(x))
#define __float2int_ru(x) ((int)ceilf(x))
#define __float2int_rd(x) ((int)floorf(x))
#define __float2uint_rn(x) ((unsigned)rintf(x))
#define __float2uint_rz(x) ((unsigned)(float)(x))
#define __float2uint_ru(x) ((unsigned)ceilf(x))
#define __float2uint_rd(x) ((unsigned)floorf(x))
#define __float2ll_rn(x) ((long long)rintf(x))
#define __double2int_rn(x) ((int)rint(x))
#define __double2int_rz(x) ((int)(double)(x))
#define __double2float_rn(x) ((float)(double)(x))
#define __int2float_rn(x) ((float)(int)(x))
#define __uint2float_rn(x) ((float)(unsigned)(x))
#define __ll2float_rn(x) ((float)(long long)(x))
#define __int2double_rn(x) ((double)(int)(x))
#define __uint2double_rn(x) ((double)(unsigned)(x))
/* Fast functions of a GPU. Here they are as exact as the others. */
#define __expf expf
#define __exp10f(x) powf(10.0f, x)
#define exp10f(x) powf(10.0f, x)
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __saturatef(x) fminf(fmaxf(x, 0.0f), 1.0f)
__device__ inline void emulator_sincosf(float x, float *sine, float *cosine) {
  *sine = sinf(x), *cosine = cosf(x);
}
#define sincosf emulator_sincosf
#define __sincosf emulator_sincosf
#define __fmaf_rn fmaf
#define __fdividef(x, y) ((float)(x) / (float)(y))
#define __frcp_rn(x) (1.0f / (float)(x))
#define __fadd_rn(x, y) ((float)(x) + (float)(y))
#define __fmul_rn(x, y) ((float)(x) * (float)(y))
#define __fsub_rn(x, y) ((float)(x) - (float)(y))
#define __fdiv_rn(x, y) ((float)(x) / (float)(y))
#define __fsqrt_rn(x) sqrtf(x)
#define __frsqrt_rn(x) (1.0f / sqrtf(x))
#define __dadd_rn(x, y) ((double)(x) + (double)(y))
#define __dsub_rn(x, y) ((double)(x) - (double)(y))
#define __dmul_rn(x, y) ((double)(x) * (double)(y))
#define __ddiv_rn(x, y) ((double)(x) / (double)(y))
#define __fma_rn fma
#define rsqrtf(x) (1.0f / sqrtf(x))
#define normcdff(x) (0.5f * erfcf(-0.70710678f * (float)(x)))
__device__ inline uint32_t __umulhi(uint32_t x, uint32_t y) {
  return (uint32_t)((uint64_t)x * y >> 32);
}
__device__ inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
  const uint64_t both = (uint64_t)y << 32 | x;
  uint32_t bytes = 0;
  for (int i = 0; i < 4; i++)
    bytes |= (uint32_t)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return bytes;
}

__device__ inline size_t __cvta_generic_to_shared(const void *at) {
  return emulator_shared_address(at);
}
template <class A, class B> __host__ __device__ constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B> __host__ __device__ constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}

enum {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributeNonPortableClusterSizeAllowed
};
enum {
  cudaLaunchAttributeClusterDimension,
  cudaLaunchAttributeCooperative,
  cudaLaunchAttributeProgrammaticStreamSerialization
};
struct cudaFuncAttributes {
  int ptxVersion;
};
struct cudaLaunchAttribute {
  int id;
  struct {
    dim3 clusterDim;
    int cooperative, programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
};
template <class Kernel> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, Kernel) {
  attributes->ptxVersion = __CUDA_ARCH__ / 10;
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel *kernel, int attribute, size_t value) {
  return attribute == cudaFuncAttributeMaxDynamicSharedMemorySize
             ? emulator_allow((const void *)kernel, value)
             : cudaSuccess;
}
/* The emulator has no clusters. */
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, Kernel, const cudaLaunchConfig_t *) {
  *clusters = 0;
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                    cudaMemcpyKind = cudaMemcpyHostToDevice,
                                    cudaStream_t = nullptr) {
  memcpy((char *)&symbol + offset, from, bytes);
  return cudaSuccess;
}
template <class... Taken, class... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Taken...),
                               Given... given) {
  constexpr unsigned MOST_AT_ONCE = 1 << 16; /* maximum blocks of a cooperative launch */
  for (unsigned i = 0; i < config->numAttrs; i++)
    if (config->attrs[i].id == cudaLaunchAttributeCooperative && config->gridDim.x > MOST_AT_ONCE)
      return cudaErrorCooperativeLaunchTooLarge;
  return kernel->*emulated::grid(config->gridDim, config->blockDim, config->dynamicSmemBytes,
                                 config->stream)(given...);
}

#ifndef __CUDA__
#include "emulator/ptx.h"
#endif
