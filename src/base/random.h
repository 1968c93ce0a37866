/* Counter-based random numbers, which are the same on the host and on the device. A value is a pure
   function of (seed, counter), so threads need no state and an epoch's order needs no array.

   Generator: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
   as 1, 2, 3", 2011). Permutation: a balanced Feistel network (Luby and Rackoff 1988) over
   the next even power of two, cycle-walked into 0 .. n-1 (Black and Rogaway 2002). */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

#include "base/host_device.h"

typedef struct {
  uint32_t word[4];
} RandomWords;

/* Returns 128 random bits for counter `counter` of stream `stream` under `seed`. */
HOST_DEVICE RandomWords random_words(uint64_t seed, uint64_t stream, uint64_t counter) {
  RandomWords w = {
      {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
  uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t product0 = (uint64_t)0xD2511F53u * w.word[0];
    const uint64_t product1 = (uint64_t)0xCD9E8D57u * w.word[2];
    const RandomWords next = {{(uint32_t)(product1 >> 32) ^ w.word[1] ^ key0, (uint32_t)product1,
                               (uint32_t)(product0 >> 32) ^ w.word[3] ^ key1, (uint32_t)product0}};
    w = next;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return w;
}

/* Returns the upper 24 bits of a word as a number uniform in [0, 1), exact in float32. */
HOST_DEVICE float random_unit(uint32_t word) {
  return (float)(word >> 8) * 0x1p-24f;
}

/* Returns the random words for the dropout of neurons 4 * group to 4 * group + 3 of a hidden layer.
   `position` is the row's place in the epoch's order. The words do not depend on the thread or on
   how rows are divided into steps. */
HOST_DEVICE RandomWords random_dropout(uint64_t key, uint32_t layer, uint32_t position,
                                       uint32_t group) {
  return random_words(key, 0x64726f7000000000u /* "drop" in ASCII */ | layer,
                      (uint64_t)position << 32 | group);
}

/* Returns true if dropout at rate `share` drops the neuron whose random word is `word`. */
HOST_DEVICE int random_drops(uint32_t word, float share) {
  return random_unit(word) < share;
}

/* Returns the key with which random_permute makes the order of rows in an epoch. */
HOST_DEVICE uint64_t random_order_key(uint64_t seed, uint64_t epoch) {
  const RandomWords w = random_words(seed, 0x6f72646572u /* "order" in ASCII */, epoch);
  return (uint64_t)w.word[1] << 32 | w.word[0];
}

/* Returns the place of i in the permutation of 0 .. n-1 that `key` selects. Needs i < n, n > 0. */
HOST_DEVICE uint32_t random_permute(uint32_t i, uint32_t n, uint64_t key) {
  int half = 1; /* bits in each half of a number; needs 4^half >= n */
  while (half < 16 && (uint64_t)1 << (2 * half) < n) half++;
  const uint32_t mask = (1u << half) - 1;
  do { /* at most 4 passes on average: the Feistel network permutes at most 4 n values */
    uint32_t left = i >> half, right = i & mask;
    for (uint32_t round = 0; round < 6; round++) {
      uint32_t f = right + (uint32_t)(round & 1 ? key >> 32 : key) + round * 0x9E3779B9u;
      f = (f ^ f >> 16) * 0x7FEB352Du; /* a 32-bit mixer in the manner of MurmurHash3 */
      f = (f ^ f >> 15) * 0x846CA68Bu;
      f ^= f >> 16;
      const uint32_t swapped = left ^ (f & mask);
      left = right;
      right = swapped;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}

#endif
