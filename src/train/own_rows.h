/* The rows of a streamed file that one of several ranks trains on in an epoch. */
#ifndef OWN_ROWS_H
#define OWN_ROWS_H

#include "base/error.h"
#include "data/row_set.h"

/* The way of an epoch through a file: window after window of so many rows, each in an order of its
   own, step after step. */
typedef struct {
  uint64_t rows, window, batch;
  uint64_t order_key; /* of the epoch: a window's is random_order_key of this and its number */
} StreamedEpoch;

/* *set = those of rank `rank` of `ranks`: its share of every step, as an engine has it. set->bits
   is the caller's to free. False where there is no memory. */
bool own_rows(const StreamedEpoch *epoch, int rank, int ranks, RowSet *set, Error *error);

#endif
