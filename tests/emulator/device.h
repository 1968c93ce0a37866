/* CUDA C++ for the emulator: qualifiers, indices, functions of warps and blocks, and the calls of
   the runtime that launch a kernel. Kernels' sources are included after it. */
#ifndef EMULATOR_DEVICE_H
#define EMULATOR_DEVICE_H

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cuda_runtime_api.h"

/* ---- what the language has ------------------------------------------------------------------ */

#define __CUDA_ARCH__ 800 /* no instruction that only later ones have */
#define __device__
#define __host__
#define __global__
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
/* `extern __shared__ __align__(16) unsigned char shared_memory[]` becomes the declaration of a
   function, which gives the array of the block that runs. */
#define __shared__
#define __align__(bytes)
#define shared_memory (*emulated_shared())

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
  }
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

/* The indices of the thread that runs. */
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

struct EmulatedThread {
  int lane;              /* of its warp */
  unsigned char *shared; /* of its block */
};

extern EmulatedThread *emulated; /* the thread that runs */

namespace epoch {
inline unsigned char (*emulated_shared())[] {
  return reinterpret_cast<unsigned char(*)[]>(emulated->shared);
}
} // namespace epoch

/* ---- a warp --------------------------------------------------------------------------------- */

enum class Meeting { SYNCWARP, SHUFFLE, VOTE, LDMATRIX, MMA };

constexpr size_t EMULATED_VALUE = 48; /* bytes that a lane may bring */

struct EmulatedValue {
  alignas(16) unsigned char bytes[EMULATED_VALUE];
};

/* Waits for the other lanes; what each has brought, until this lane meets them again. `combine`,
   unless NULL, is called once between. */
const EmulatedValue *emulator_meet(Meeting meeting, const void *value, size_t bytes,
                                   void (*combine)(EmulatedValue *) = nullptr);

template <class T> T emulated_value(const EmulatedValue &value) {
  static_assert(sizeof(T) <= EMULATED_VALUE, "a lane brings less");
  T result;
  memcpy(&result, value.bytes, sizeof result);
  return result;
}

inline void __syncwarp(unsigned = 0xffffffffu) {
  emulator_meet(Meeting::SYNCWARP, nullptr, 0);
}

template <class T> T __shfl_sync(unsigned, T value, int lane) {
  return emulated_value<T>(emulator_meet(Meeting::SHUFFLE, &value, sizeof value)[lane % 32]);
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return __shfl_sync(mask, value, emulated->lane ^ lanes);
}

template <class T> T __shfl_down_sync(unsigned mask, T value, int lanes) {
  const int from = emulated->lane + lanes;
  return __shfl_sync(mask, value, from < 32 ? from : emulated->lane);
}

template <class T> T __shfl_up_sync(unsigned mask, T value, int lanes) {
  const int from = emulated->lane - lanes;
  return __shfl_sync(mask, value, from >= 0 ? from : emulated->lane);
}

inline unsigned __ballot_sync(unsigned, bool vote) {
  const EmulatedValue *all = emulator_meet(Meeting::VOTE, &vote, sizeof vote);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; lane++) votes |= (unsigned)emulated_value<bool>(all[lane]) << lane;
  return votes;
}

inline bool __any_sync(unsigned mask, bool vote) {
  return __ballot_sync(mask, vote) != 0;
}

inline bool __all_sync(unsigned mask, bool vote) {
  return __ballot_sync(mask, vote) == 0xffffffffu;
}

/* ---- a block -------------------------------------------------------------------------------- */

/* Arrives at barrier `id` of `threads` threads, and waits for the others or goes on. */
void emulator_arrive(int id, int threads, bool waits);

inline void __syncthreads() {
  emulator_arrive(0, (int)blockDim.x, true);
}

/* ---- a thread ------------------------------------------------------------------------------- */

[[noreturn]] void emulator_fail(const char *what);

[[noreturn]] inline void __trap() {
  emulator_fail("__trap()");
}

inline void __nanosleep(unsigned) {
}
inline void __threadfence() {
}

inline float __uint_as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Bytes of y x, chosen by the nibbles of `selector`. */
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
  const uint64_t both = (uint64_t)y << 32 | x;
  uint32_t bytes = 0;
  for (int i = 0; i < 4; i++)
    bytes |= (uint32_t)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return bytes;
}

inline int __ffs(unsigned bits) {
  return __builtin_ffs((int)bits);
}

inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}

inline float __frcp_rn(float x) {
  return 1.0f / x;
}

template <class T> T __ldg(const T *at) {
  return *at;
}

inline int min(int a, int b) {
  return b < a ? b : a;
}
inline int max(int a, int b) {
  return a < b ? b : a;
}
inline uint32_t min(uint32_t a, uint32_t b) {
  return b < a ? b : a;
}
inline uint32_t max(uint32_t a, uint32_t b) {
  return a < b ? b : a;
}
inline long long min(long long a, long long b) {
  return b < a ? b : a;
}
inline long long max(long long a, long long b) {
  return a < b ? b : a;
}

/* ---- the runtime ---------------------------------------------------------------------------- */

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

inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

inline cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}

inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *) {
  attributes->ptxVersion = __CUDA_ARCH__ / 10;
  return cudaSuccess;
}

template <class Kernel> cudaError_t cudaFuncSetAttribute(Kernel *, int, size_t) {
  return cudaSuccess;
}

/* How a kernel is called, whose type a launch does not tell. */
struct EmulatedKernel {
  const void *kernel;
  void (*call)(const void *kernel, void **arguments);
};

template <class... Parameters, size_t... I>
void emulated_call(void (*kernel)(Parameters...), void **arguments, std::index_sequence<I...>) {
  kernel(*static_cast<Parameters *>(arguments[I])...);
}

template <class... Parameters> EmulatedKernel emulated_kernel(void (*kernel)(Parameters...)) {
  return {reinterpret_cast<const void *>(kernel), [](const void *address, void **arguments) {
            emulated_call(reinterpret_cast<void (*)(Parameters...)>(const_cast<void *>(address)),
                          arguments, std::index_sequence_for<Parameters...>());
          }};
}

/* All blocks at once, to the end. */
cudaError_t emulator_launch(EmulatedKernel kernel, dim3 blocks, dim3 threads, void **arguments,
                            size_t shared);

/* The kernels that are launched by their addresses. */
extern const EmulatedKernel emulated_kernels[];
extern const int emulated_kernels_count;

inline cudaError_t cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **arguments,
                                    size_t shared, cudaStream_t) {
  for (int i = 0; i < emulated_kernels_count; i++)
    if (kernel == emulated_kernels[i].kernel)
      return emulator_launch(emulated_kernels[i], blocks, threads, arguments, shared);
  return cudaErrorInvalidValue;
}

inline cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 blocks, dim3 threads,
                                               void **arguments, size_t shared,
                                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, blocks, threads, arguments, shared, stream);
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                               Arguments... given) {
  void *arguments[] = {&given...};
  return emulator_launch(emulated_kernel(kernel), config->gridDim, config->blockDim, arguments,
                         config->dynamicSmemBytes);
}

#endif
