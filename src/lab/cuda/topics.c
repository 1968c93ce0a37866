#include <string.h>

#include "lab/harness.h"

const LabTopic *const lab_topics[] = {&lab_vector,   &lab_reduce,        &lab_softmax,
                                      &lab_matmul,   &lab_transpose,     &lab_histogram,
                                      &lab_pairwise, &lab_copy_patterns, &lab_divergence,
                                      &lab_constant,
#ifndef ON_EMULATOR /* which has neither special function units, nor a link to the host, nor times \
                     */
                                      &lab_math,     &lab_transfers,
#endif
                                      NULL};

/* ---- inputs --------------------------------------------------------------------------------- */

enum { FIELD = 21, LARGE_EVERY = 61 };

/* Three uniform numbers of 21 bits have variance 1 when they reach from -1 to 1 each. */
static float sum_of_three(uint64_t bits) {
  int32_t sum = -3 * (1 << (FIELD - 1));
  for (int i = 0; i < 3; i++) sum += (int32_t)(bits >> i * FIELD & ((1u << FIELD) - 1));
  return (float)sum * 0x1p-20f;
}

/* Rounds a float32 that is not NaN to its upper half: to the nearest, ties to even. */
static uint16_t bfloat16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void lab_fill(LabType type, void *h_values, int64_t count, uint64_t seed) {
#pragma omp parallel for
  for (int64_t pair = 0; pair < (count + 1) / 2; pair++) {
    const RandomWords words = random_words(seed, 0, (uint64_t)pair);
    for (int k = 0; k < 2 && 2 * pair + k < count; k++) {
      const int64_t i = 2 * pair + k;
      const uint64_t bits = (uint64_t)words.word[2 * k + 1] << 32 | words.word[2 * k];
      const float value = sum_of_three(bits) * (i % LARGE_EVERY == 0 ? 100.0f : 1.0f);
      if (type == LAB_BFLOAT16)
        ((uint16_t *)h_values)[i] = bfloat16_of(value);
      else
        ((float *)h_values)[i] = value;
    }
  }
}
