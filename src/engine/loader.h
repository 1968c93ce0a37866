/* Loads rows through two buffers, so that the next rows are parsed while the device trains. */
#pragma once

#include "data/dataset.h"
#include "engine/engine.h"

/* A staging buffer has about this many rows. 8192 rows of MNIST take 6 MB. With smaller buffers,
   training would start earlier, but each launch would train too few rows. */
enum { LOADER_ROWS = 8192 };

/* Returns the largest multiple of `batch` up to LOADER_ROWS, but at least `batch`. */
static inline uint64_t loader_staging_rows(int batch) {
  return (uint64_t)(batch < LOADER_ROWS ? LOADER_ROWS / batch * batch : batch);
}

/* A pass over a reader's rows, one buffer at a time. The caller sets the first four fields. */
typedef struct {
  Engine *engine;
  DatasetReader *reader;
  uint64_t start; /* the dataset row to which the reader's first row goes */
  bool ring;      /* true means that buffer s always goes to dataset row start + s * staging_rows */
  uint64_t first_row, rows; /* the latest window: dataset rows [first_row, first_row + rows) */
  uint64_t done;            /* number of rows read so far */
  int index;                /* staging buffer to fill next, 0 or 1 */
} Loader;

/* Reads the next window (up to staging_rows rows) and queues its upload. Sets loader->rows to 0 if
   no rows are left. Only the last window is shorter, so no step needs rows of two windows. Fails if
   the reader or the engine fails, if the dataset is too small, or if a row has the wrong number of
   pixels. */
bool loader_next(Loader *loader, Error *error);
