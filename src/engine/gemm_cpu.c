/* GCC fuses a * b + c only on request, and keeps arrays in registers only in unrolled loops. */
#ifdef __clang__
#pragma STDC FP_CONTRACT ON
#define UNROLL
#else
#pragma GCC optimize("fp-contract=fast")
#define UNROLL _Pragma("GCC unroll 4")
#endif

/* Without this pragma, GCC unrolls a loop over a tile's row into scalar operations. */
#define IN_VECTORS _Pragma("omp simd")

#include "engine/gemm_cpu.h"

#include "activation.h"

typedef float Four __attribute__((vector_size(GEMM_PANEL * sizeof(float))));

#if defined(__x86_64__)

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define LANES 16
#define VECTORS 4
#include "engine/gemm_cpu_tile.h"

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define VECTORS 2
#include "engine/gemm_cpu_tile.h"

#endif

/* For all machines: SSE2 on x86-64, NEON on AArch64. */
#define NAME(x) x##_basic
#define TARGET
#define LANES 4
#define VECTORS 4
#include "engine/gemm_cpu_tile.h"

const GemmKernels *gemm_kernels(int i) {
#if defined(__x86_64__)
  static const GemmKernels avx512 = {"AVX-512", 64, forward_avx512, backward_avx512, update_avx512};
  static const GemmKernels avx2 = {"AVX2", 16, forward_avx2, backward_avx2, update_avx2};
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && i-- == 0)
    return &avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && i-- == 0) return &avx2;
#endif
  static const GemmKernels basic = {"128-bit vectors", 16, forward_basic, backward_basic,
                                    update_basic};
  return i == 0 ? &basic : NULL;
}
