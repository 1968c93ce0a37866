/* The double-buffered loader: while the device copies and trains on one staging buffer, the next
   rows are parsed into the other. */
#pragma once

#include "data/dataset.h"
#include "engine/engine.h"

/* Rows of a staging buffer: 6 MB of MNIST's pixels. Small, so that the first rows train early;
   large, so that copying it takes much longer than a launch. */
enum { LOADER_ROWS = 8192 };

/* LOADER_ROWS rounded down to whole steps; one step if that is longer. */
static inline uint64_t loader_staging_rows(int batch) {
  return (uint64_t)(batch < LOADER_ROWS ? LOADER_ROWS / batch * batch : batch);
}

/* Called once a staging buffer, in file order, after its upload was queued; the rows are at dataset
   rows [first_row, first_row + rows). Returns false to stop, with *error set. */
typedef bool LoaderUse(void *context, uint64_t first_row, uint64_t rows, Error *error);

typedef struct {
  uint64_t first_row; /* where the rows go in the dataset */
  bool ring; /* streaming: staging buffer s always goes to first_row + s * staging_rows, in turns */
  LoaderUse *use; /* NULL: upload only */
  void *context;
} LoaderPlan;

/* Feeds every remaining row of `reader` to `engine`; *rows is how many. Every staging buffer but
   the last is full, so steps of config.training.batch rows never straddle two staging buffers.
   Fails when the reader or the engine does, when the dataset is too small, or widths differ. */
bool loader_feed(Engine *engine, DatasetReader *reader, const LoaderPlan *plan, uint64_t *rows,
                 Error *error);
