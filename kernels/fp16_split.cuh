/* Arithmetic of about 22 bits on fp16 tensor cores. A number is a high and a low fp16 term. A byte
   with a zero byte above it is an exact, subnormal fp16, so a pixel needs one term. */
#pragma once

#include "ptx.cuh"

/* Returns the high terms of two numbers, and sets `low` to SCALE times their low terms. */
template <int SCALE = 1> __device__ inline uint32_t split(float a, float b, uint32_t &low) {
  const uint32_t high = pack_fp16(a, b);
  const float2 h = unpack_fp16(high);
  low = pack_fp16((a - h.x) * SCALE, (b - h.y) * SCALE);
  return high;
}
/* Sets `high` to the high terms of four numbers, and `low` to SCALE times their low terms. */
template <int SCALE = 1> __device__ inline void split(const float *x, void *high, void *low) {
  uint2 h, l;
  h.x = split<SCALE>(x[0], x[1], l.x), h.y = split<SCALE>(x[2], x[3], l.y);
  *(uint2 *)high = h, *(uint2 *)low = l;
}
/* Returns a number's high term in the lower half, SCALE times its low term in the upper half. */
template <int SCALE = 1> __device__ inline uint32_t split(float a) {
  return pack_fp16(a, (a - unpack_fp16(pack_fp16(a, 0)).x) * SCALE);
}

/* Widens two of four bytes to 16 bits each. `which` is BYTES_01, BYTES_23, BYTES_02 or BYTES_13. */
__device__ inline uint32_t halves(uint32_t bytes, int which) {
  return __byte_perm(bytes, 0, which);
}
constexpr int BYTES_01 = 0x4140, BYTES_23 = 0x4342, BYTES_02 = 0x4240, BYTES_13 = 0x4341;
