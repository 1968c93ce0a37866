/* The functions of kernels/ptx.cuh, for the emulator. This file replaces kernels/ptx.cuh. */
#ifndef PTX_CUH
#define PTX_CUH

#include <cuda_bf16.h>

/* These functions store and load mail, messages between blocks (kernels/epoch/tiles_mail.cu). */
inline void store_b128(void *to, uint4 packet) {
  emulator_store_mail(to, &packet, sizeof packet);
}
inline void store_b64(void *to, uint32_t x, uint32_t y) {
  const uint2 half = {x, y};
  emulator_store_mail(to, &half, sizeof half);
}
inline uint4 load_b128(const void *at) {
  uint4 packet;
  emulator_load_mail(at, &packet);
  return packet;
}

inline uint32_t shared_address(const void *p) {
  return emulator_shared_address(p);
}
#define sqrt_approximate sqrtf

template <auto BARRIER> void wait(int threads) {
  __syncwarp();
  emulator_arrive((int)BARRIER, threads, true);
}
template <auto BARRIER> void arrive(int threads) {
  __syncwarp();
  emulator_arrive((int)BARRIER, threads, false);
}

#define copy_16_bytes(to, from, bytes) emulator_copy(emulator_shared_at(to), from, bytes, 16)
#define copy_4_bytes(to, from, bytes) emulator_copy(emulator_shared_at(to), from, bytes, 4)
#define close_copies() emulator_close_copies()
template <int GROUPS> void await_groups() {
  emulator_await_copies(GROUPS);
}

/* Rounds to the nearest bf16, ties to even. */
inline uint32_t emulator_bf16(float value) {
  const uint32_t bits = __float_as_uint(value);
  return std::isnan(value) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline uint32_t pack_bf16(float first, float second) {
  return emulator_bf16(first) | emulator_bf16(second) << 16;
}

/* Rounds to the nearest fp16, ties to even. */
inline uint32_t emulator_fp16(float value) {
  const uint32_t bits = __float_as_uint(fabsf(value)), sign = std::signbit(value) ? 0x8000 : 0;
  if (!(fabsf(value) < 65520.0f)) return sign | (std::isnan(value) ? 0x7fff : 0x7c00);
  if (fabsf(value) < 0x1p-14f) return sign | (uint32_t)nearbyintf(fabsf(value) * 0x1p24f);
  return sign | (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
}
inline uint32_t pack_fp16(float first, float second) {
  return emulator_fp16(first) | emulator_fp16(second) << 16;
}
/* Shifting an fp16's bits left by 13 gives a float of 2^-112 times its value, even if subnormal. */
inline float emulator_of_fp16(uint32_t half) {
  const uint32_t bits = (half & 0x7fff) << 13, huge = 0x7c00 << 13; /* larger bits are NaNs */
  const float magnitude =
      bits < huge ? __uint_as_float(bits) * 0x1p112f : __uint_as_float(bits | 0x7f800000);
  return half & 0x8000 ? -magnitude : magnitude;
}
inline float2 unpack_fp16(uint32_t packed) {
  return {emulator_of_fp16(packed & 0xffff), emulator_of_fp16(packed >> 16)};
}

namespace emulated {

template <class Sum> struct Fragment {
  uint32_t a[4], b[2];
  Sum d[4];
};

/* Multiplies a (16, K) matrix by a (K, 8) matrix. Lane 4 g + t holds values of rows g and g + 8 of
   the left matrix, and values of column g of the right matrix. */
template <int WIDTH, class Sum, class Exact, Exact (*value)(uint32_t, int)>
void multiply(void **lanes, unsigned) {
  constexpr int K = 8 * WIDTH;
  Exact a[16][K], b[K][8];
  Fragment<Sum> **of = reinterpret_cast<Fragment<Sum> **>(lanes);
  for (int lane = 0; lane < 32; lane++) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < WIDTH; i++) {
      for (int part = 0; part < 4; part++)
        a[g + part % 2 * 8][WIDTH * t + i + part / 2 * K / 2] = value(of[lane]->a[part], i);
      for (int part = 0; part < 2; part++)
        b[WIDTH * t + i + part * K / 2][g] = value(of[lane]->b[part], i);
    }
  }
  for (int row = 0; row < 16; row++) {
    Exact sum[8] = {};
    for (int k = 0; k < K; k++)
      for (int column = 0; column < 8; column++) sum[column] += a[row][k] * b[k][column];
    for (int column = 0; column < 8; column++) {
      Sum &d = of[row % 8 * 4 + column / 2]->d[row / 8 * 2 + column % 2];
      d = (Sum)((Exact)d + sum[column]);
    }
  }
}

inline double bf16_of(uint32_t packed, int i) {
  return (double)__uint_as_float(packed >> 16 * i << 16);
}
inline double fp16_of(uint32_t packed, int i) {
  return (double)emulator_of_fp16(packed >> 16 * i & 0xffff);
}
inline int byte_of(uint32_t packed, int i) {
  return (int)(packed >> 8 * i & 0xff);
}

template <class Sum>
EMULATOR_INLINE void multiplied(Sum (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                void (*how)(void **, unsigned)) {
  Fragment<Sum> mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
  emulator_meet(0xffffffffu, &mine, how, false);
  for (int i = 0; i < 4; i++) d[i] = mine.d[i];
}

struct Rows {
  const uint16_t *row;
  uint32_t out[4];
};

template <bool TRANSPOSED> void load_matrices(void **lanes, unsigned) {
  for (int lane = 0; lane < 32; lane++)
    for (int m = 0; m < 4; m++) {
      const int g = lane / 4, t = lane % 4;
      uint32_t &out = static_cast<Rows *>(lanes[lane])->out[m];
      out = 0;
      for (int i = 0; i < 2; i++) {
        int r = g, c = 2 * t + i;
        if (TRANSPOSED) std::swap(r, c);
        out |= (uint32_t) static_cast<Rows *>(lanes[8 * m + r])->row[c] << 16 * i;
      }
    }
}

template <bool TRANSPOSED>
__attribute__((noinline)) void ldmatrix(uint32_t (&out)[4], const void *row) {
  emulator_access(row, 16, false, __builtin_return_address(0));
  Rows mine = {static_cast<const uint16_t *>(row), {}};
  emulator_meet(0xffffffffu, &mine, load_matrices<TRANSPOSED>, false);
  for (int i = 0; i < 4; i++) out[i] = mine.out[i];
}

inline void transpose(void **lanes, unsigned) {
  uint16_t matrix[8][8];
  for (int lane = 0; lane < 32; lane++) memcpy(&matrix[lane / 4][2 * (lane % 4)], lanes[lane], 4);
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 2; i++)
      static_cast<uint16_t *>(lanes[lane])[i] = matrix[2 * (lane % 4) + i][lane / 4];
}

/* Returns a pointer to the row. `row` is a pointer or a 32-bit address in shared memory. */
inline const void *at_of(const void *row) {
  return row;
}
inline const void *at_of(uint32_t row) {
  return emulator_shared_at(row);
}

} // namespace emulated

EMULATOR_INLINE void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::multiplied(d, a, b0, b1, emulated::multiply<2, float, double, emulated::bf16_of>);
}
EMULATOR_INLINE void mma_m16n8k16_fp16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1) {
  emulated::multiplied(d, a, b0, b1, emulated::multiply<2, float, double, emulated::fp16_of>);
}
EMULATOR_INLINE void mma_m16n8k32(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::multiplied(d, a, b0, b1, emulated::multiply<4, int, int, emulated::byte_of>);
}
EMULATOR_INLINE uint32_t transpose_8x8(uint32_t matrix) {
  emulator_meet(0xffffffffu, &matrix, emulated::transpose, false);
  return matrix;
}
template <class Row> EMULATOR_INLINE void ldmatrix_x4(uint32_t (&out)[4], Row row) {
  emulated::ldmatrix<false>(out, emulated::at_of(row));
}
template <class Row> EMULATOR_INLINE void ldmatrix_x4_trans(uint32_t (&out)[4], Row row) {
  emulated::ldmatrix<true>(out, emulated::at_of(row));
}

#endif
