#include "data/split.h"

#include <math.h>

#include "base/random.h"

static const uint64_t STREAM = 0x73706c6974ull << 16; /* "split"; split_takes adds the label */

/* Returns the first row of interval j. Subtracts 1e-6 because 9 / 0.009 is above 1000. */
static uint64_t begin_of(const Split *split, uint64_t j) {
  return (uint64_t)ceil((double)j / split->share - 1e-6);
}

bool split_takes(Split *split, int label) {
  SplitClass *c = &split->each[label];
  if (c->seen == c->end) {
    const uint64_t j = c->interval++, begin = begin_of(split, j);
    const RandomWords w = random_words(split->seed, STREAM + (uint64_t)label, j);
    c->end = begin_of(split, j + 1);
    c->drawn = begin + (uint64_t)w.word[0] * (c->end - begin) / ((uint64_t)1 << 32);
  }
  return (c->seen++ == c->drawn) == split->held_out;
}

uint64_t split_most(const Split *split, uint64_t rows) {
  const double share = split->held_out ? split->share : 1 - split->share;
  const uint64_t most = (uint64_t)ceil((double)rows * share) + (uint64_t)split->classes;
  return most < rows ? most : rows;
}
