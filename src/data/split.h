/* Chooses the rows of a file that are held out of training to judge the network: a random share of
   each class.

   The rows of a class count from 0 in file order. Interval j of them holds rows ceil(j / share) to
   ceil((j + 1) / share) - 1, and one row of each interval is held out, drawn by (seed, class, j):
   stratified sampling with one draw per stratum (Cochran, "Sampling Techniques", 1977, section
   8.3). So n rows of a class have n * share held-out rows, give or take one. The choice depends
   only on seed, share and labels, so each pass over the file repeats it. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* The state of one class. */
typedef struct {
  uint64_t seen;     /* rows seen so far */
  uint64_t interval; /* the interval of the last of them, from 1; 0 if none was seen */
  uint64_t end;      /* the first row after the interval */
  uint64_t drawn;    /* the held-out row of the interval */
} SplitClass;

typedef struct {
  double share; /* above 0, below 1 */
  uint64_t seed;
  bool held_out; /* takes the held-out rows; if false, takes all others */
  int classes;
  SplitClass *each; /* (classes), owned */
} Split;

/* Starts a pass over the file. Fails without memory. */
bool split_open(Split *split, double share, uint64_t seed, bool held_out, int classes,
                Error *error);
void split_close(Split *split); /* *split may be all zeros */

/* Returns true if the split takes the next row of the file, which has this label. */
bool split_takes(Split *split, int label);

/* Returns an upper bound of how many of at most `rows` rows are taken. */
uint64_t split_most(const Split *split, uint64_t rows);
