#include <string.h>

#include "base/random.h"
#include "lab/harness.h"

const LabTopic *const lab_topics[] = {
    &lab_vector,   &lab_reduce,        &lab_softmax,    &lab_matmul, &lab_transpose, &lab_histogram,
    &lab_pairwise, &lab_copy_patterns, &lab_divergence, &lab_math,   &lab_constant,  &lab_transfers,
    NULL};

/* ---- inputs --------------------------------------------------------------------------------- */

enum { FIELD = 21, LARGE_EVERY = 61 };

/* Three uniform numbers of 21 bits have variance 1 when they reach from -1 to 1 each. */
static float sum_of_three(uint64_t bits) {
  int32_t sum = -3 * (1 << (FIELD - 1));
  for (int i = 0; i < 3; i++) sum += (int32_t)(bits >> i * FIELD & ((1u << FIELD) - 1));
  return (float)sum * 0x1p-20f;
}

/* To the nearest, ties to even: the upper half of a float32 that is no NaN. */
static uint16_t bfloat16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Numbers 2 pair and 2 pair + 1: both halves of 128 random bits. */
static void fill_pair(LabType type, void *h_values, int64_t count, int64_t pair, uint64_t seed) {
  const RandomWords words = random_words(seed, 0, (uint64_t)pair);
  for (int half = 0; half < 2; half++) {
    const int64_t i = 2 * pair + half;
    const uint64_t bits = (uint64_t)words.word[2 * half + 1] << 32 | words.word[2 * half];
    const float value = sum_of_three(bits) * (i % LARGE_EVERY == 0 ? 100.0f : 1.0f);
    if (i == count) return;
    if (type == LAB_BFLOAT16)
      ((uint16_t *)h_values)[i] = bfloat16_of(value);
    else
      ((float *)h_values)[i] = value;
  }
}

void lab_fill(LabType type, void *h_values, int64_t count, uint64_t seed) {
  if (type == LAB_FLOAT32 || type == LAB_BFLOAT16) {
#pragma omp parallel for
    for (int64_t pair = 0; pair < (count + 1) / 2; pair++)
      fill_pair(type, h_values, count, pair, seed);
    return;
  }
  uint32_t *values = h_values;
#pragma omp parallel for
  for (int64_t four = 0; four < (count + 3) / 4; four++) {
    const RandomWords words = random_words(seed, 0, (uint64_t)four);
    const int64_t left = count - 4 * four;
    memcpy(values + 4 * four, words.word, sizeof *values * (size_t)(left < 4 ? left : 4));
  }
}
