/* Products of matrices for the emulator, by the last lane of a warp that arrives. */
#include "ptx.h"

constexpr int WARP = 32;

/* The product of fragments, (16, K) and (K, 8), of `width` values in each register, K being 8
   `width`; value(register, i) is its value i. Lane 4 g + t has rows g and g + 8 of the left, column
   g of the right. */
template <int WIDTH, class Sum, class Exact, class Value>
static void multiply(EmulatedValue *brought, const Value &value) {
  constexpr int K = 8 * WIDTH;
  EmulatedFragment<Sum> of[WARP];
  decltype(value(0u, 0)) a[16][K], b[K][8];
  for (int lane = 0; lane < WARP; lane++) {
    of[lane] = emulated_value<EmulatedFragment<Sum>>(brought[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < WIDTH; i++) {
      for (int part = 0; part < 4; part++)
        a[g + part % 2 * 8][WIDTH * t + i + part / 2 * K / 2] = value(of[lane].a[part], i);
      for (int part = 0; part < 2; part++)
        b[WIDTH * t + i + part * K / 2][g] = value(of[lane].b[part], i);
    }
  }
  for (int row = 0; row < 16; row++) {
    Exact sum[8] = {};
    for (int k = 0; k < K; k++)
      for (int column = 0; column < 8; column++)
        sum[column] += (Exact)a[row][k] * (Exact)b[k][column];
    for (int column = 0; column < 8; column++) {
      Sum &d = of[row % 8 * 4 + column / 2].d[row / 8 * 2 + column % 2];
      d = (Sum)((Exact)d + sum[column]);
    }
  }
  for (int lane = 0; lane < WARP; lane++) memcpy(brought[lane].bytes, &of[lane], sizeof *of);
}

static void multiply_bf16(EmulatedValue *brought) {
  multiply<2, float, double>(
      brought, [](uint32_t packed, int i) { return __uint_as_float(packed >> 16 * i << 16); });
}

static void multiply_bytes(EmulatedValue *brought) {
  multiply<4, int, int>(brought, [](uint32_t packed, int i) { return packed >> 8 * i & 0xff; });
}

template <class Sum>
static void multiply_fragments(Sum (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                               void (*how)(EmulatedValue *)) {
  EmulatedFragment<Sum> mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
  const EmulatedValue *all = emulator_meet(Meeting::MMA, &mine, sizeof mine, how);
  mine = emulated_value<EmulatedFragment<Sum>>(all[emulated->lane]);
  memcpy(d, mine.d, sizeof mine.d);
}

void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply_fragments(d, a, b0, b1, multiply_bf16);
}

void mma_m16n8k32(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply_fragments(d, a, b0, b1, multiply_bytes);
}
