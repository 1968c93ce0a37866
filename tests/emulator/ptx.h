/* The functions of kernels/ptx.cuh for the emulator, in place of that file. */
#ifndef PTX_CUH
#define PTX_CUH

#include "device.h"

#include <cuda_bf16.h>

/* Mail: emulator.cpp. */
void store_b128(void *to, float x, float y, float z, uint32_t w);
void load_b128(const void *at, float &x, float &y, float &z, uint32_t &w);

template <int ID> void bar_sync(int threads) {
  emulator_arrive(ID, threads, true);
}

template <int ID> void bar_arrive(int threads) {
  emulator_arrive(ID, threads, false);
}

/* To the nearest bf16, to even where two are. */
inline uint32_t emulated_bf16(float value) {
  const uint32_t bits = __float_as_uint(value);
  return std::isnan(value) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

inline uint32_t pack_bf16(float first, float second) {
  return emulated_bf16(first) | emulated_bf16(second) << 16;
}

/* A lane's part of the operands of a matrix product. */
template <class Sum> struct EmulatedFragment {
  uint32_t a[4], b[2];
  Sum d[4];
};

/* Products are exact; sums are rounded once. */
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

void mma_m16n8k32(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

/* Value i of matrix m: rows of 8, lane 8 m + r tells where row r lies. */
inline void emulated_ldmatrix(uint32_t (&out)[4], const __nv_bfloat16 *row, bool transposed) {
  const EmulatedValue *rows = emulator_meet(Meeting::LDMATRIX, &row, sizeof row);
  const int g = emulated->lane / 4, t = emulated->lane % 4;
  for (int m = 0; m < 4; m++) {
    out[m] = 0;
    for (int i = 0; i < 2; i++) {
      const int r = transposed ? 2 * t + i : g, c = transposed ? g : 2 * t + i;
      const auto *values = emulated_value<const __nv_bfloat16 *>(rows[8 * m + r]);
      out[m] |= (uint32_t)values[c].bits << 16 * i;
    }
  }
}

inline void ldmatrix_x4(uint32_t (&out)[4], const __nv_bfloat16 *row) {
  emulated_ldmatrix(out, row, false);
}

inline void ldmatrix_x4_trans(uint32_t (&out)[4], const __nv_bfloat16 *row) {
  emulated_ldmatrix(out, row, true);
}

#endif
