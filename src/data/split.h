/* Holds out a random share of each class's rows. They validate the network and do not train it.

   The rows of a class are numbered from 0 in file order. Interval j is the rows ceil(j / share) to
   ceil((j + 1) / share) - 1. One row of each interval is held out; (seed, class, j) decide which.
   This is stratified sampling with one draw per stratum (Cochran, "Sampling Techniques", 1977,
   section 8.3). If a class has n rows, n * share of them are held out, give or take one. Every pass
   over the file holds out the same rows: the choice depends only on seed, share and labels. */
#pragma once

#include <stdint.h>

#include "data/summary.h"

/* The state of one class during a pass over the file. */
typedef struct {
  uint64_t seen;     /* number of the class's rows so far */
  uint64_t interval; /* the number of intervals that have begun */
  uint64_t end;      /* the first row after the latest interval */
  uint64_t drawn;    /* the held-out row of the latest interval */
} SplitClass;

/* A pass over the file. At its start, `each` must be all zeros. */
typedef struct {
  double share; /* above 0, below 1 */
  uint64_t seed;
  bool held_out; /* true: the pass uses the held-out rows; false: all other rows */
  int classes;
  SplitClass each[DATASET_MAX_CLASSES];
} Split;

/* Returns true if this pass uses the next row of the file. `label` is the row's label. */
bool split_takes(Split *split, int label);

/* Returns an upper bound of the number of rows in a pass, if the file has at most `rows` rows. */
uint64_t split_most(const Split *split, uint64_t rows);
