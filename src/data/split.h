/* The rows of a file that are held out of training, to judge the network by: a share of each class,
   drawn at random.

   The rows of a class count from 0 in file order. Interval j of them holds rows ceil(j / share) to
   ceil((j + 1) / share) - 1, and one row of each interval is held out, drawn by (seed, class, j):
   stratified sampling with one draw per stratum (Cochran, "Sampling Techniques", 1977,
   section 8.3). So of n rows of a class n * share are held out, at most one more or less, and the
   choice depends on seed, share and labels alone: a pass over the file needs no memory of the one
   before. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* The state of one class. */
typedef struct {
  uint64_t seen;     /* rows */
  uint64_t interval; /* that the last of them was in, from 1; 0: none was seen */
  uint64_t end;      /* the first row behind it */
  uint64_t drawn;    /* its row that is held out */
} SplitClass;

typedef struct {
  double share; /* above 0, below 1 */
  uint64_t seed;
  bool held_out; /* takes the rows that are held out, else all others */
  int classes;
  SplitClass *each; /* (classes), owned */
} Split;

/* Starts a pass over the file. Fails without memory. */
bool split_open(Split *split, double share, uint64_t seed, bool held_out, int classes,
                Error *error);
void split_close(Split *split); /* one of zeros is allowed */

/* Returns true if the next row of the file, which has this label, is taken. */
bool split_takes(Split *split, int label);

/* Returns an upper bound of how many rows are taken, of at most `rows`. */
uint64_t split_most(const Split *split, uint64_t rows);
