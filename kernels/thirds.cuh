/* float32 on bf16 tensor cores.

   bf16 keeps 8 bits of a significand, so three of them hold float32's 24: x = hi + mid + lo
   exactly (Henry, Tang, Heinecke, "Leveraging the bfloat16 artificial intelligence datatype",
   2019). A pixel is an integer 0 to 255, exact in one bf16. Three products hi p, mid p, lo p with
   float32 accumulation are therefore a float32 product. */
#ifndef THIRDS_CUH
#define THIRDS_CUH

#include <cuda_bf16.h>
#include <stdint.h>

struct Thirds {
  uint32_t hi, mid, lo; /* two bf16 each, the first value in the lower half */
};

__device__ inline uint32_t pack_bf16(float first, float second) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
}

__device__ inline float first_of(uint32_t packed) {
  return __uint_as_float(packed << 16);
}

__device__ inline float second_of(uint32_t packed) {
  return __uint_as_float(packed & 0xffff0000u);
}

__device__ inline Thirds split(float first, float second) {
  Thirds t;
  t.hi = pack_bf16(first, second);
  const float rest1 = first - first_of(t.hi), rest2 = second - second_of(t.hi);
  t.mid = pack_bf16(rest1, rest2);
  t.lo = pack_bf16(rest1 - first_of(t.mid), rest2 - second_of(t.mid));
  return t;
}

/* Four pixels of `word` as bf16: 2^23 + pixel is a float32 whose last byte is the pixel. */
__device__ inline uint2 pixels_to_bf16(uint32_t word) {
  float f[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    f[i] = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7440 + i)) - 8388608.0f;
  return {pack_bf16(f[0], f[1]), pack_bf16(f[2], f[3])};
}

/* d (16 x 8) += a (16 x 16) b (16 x 8). Lane 4 g + t holds of d rows g, g + 8 and columns 2 t,
   2 t + 1: d[0], d[1] and d[2], d[3]. */
__device__ inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 bf16 matrices; lane l names row l % 8 of matrix l / 8. */
__device__ inline void load_matrices(uint32_t (&out)[4], const __nv_bfloat16 *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"((uint32_t)__cvta_generic_to_shared(row))
               : "memory");
}

__device__ inline void load_transposed(uint32_t (&out)[4], const __nv_bfloat16 *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"((uint32_t)__cvta_generic_to_shared(row))
               : "memory");
}

#endif
