/* The double-buffered loader: the next rows are parsed while the device trains on the last ones. */
#pragma once

#include "data/dataset.h"
#include "engine/engine.h"

/* Rows of a staging buffer, 6 MB of MNIST: few, to train early, but worth a launch. */
enum { LOADER_ROWS = 8192 };

/* LOADER_ROWS rounded down to whole steps; one step if that is longer. */
static inline uint64_t loader_staging_rows(int batch) {
  return (uint64_t)(batch < LOADER_ROWS ? LOADER_ROWS / batch * batch : batch);
}

/* A pass over a reader's rows, a staging buffer at a time. The caller sets the first four. */
typedef struct {
  Engine *engine;
  DatasetReader *reader;
  uint64_t start; /* where the rows go in the dataset */
  bool ring; /* streaming: staging buffer s always goes to start + s * staging_rows, in turns */
  uint64_t first_row, rows; /* the window: dataset rows [first_row, first_row + rows) */
  uint64_t done;            /* rows of all windows so far */
  int index;                /* of the next staging buffer */
} Loader;

/* Reads the next rows and queues their upload; rows 0 means that none are left. Every window but
   the last is a full staging buffer, so steps never straddle two windows. Fails if reader or engine
   do, if the dataset is too small, or if widths differ. */
bool loader_next(Loader *loader, Error *error);
