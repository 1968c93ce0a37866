/* Loads rows through two buffers, so that the next rows are parsed while the device trains. */
#pragma once

#include "data/dataset.h"
#include "engine/engine.h"

/* Rows of a staging buffer; 8192 rows of MNIST take 6 MB. With fewer rows, training would start
   earlier, but its launches would be too short. */
enum { LOADER_ROWS = 8192 };

/* Returns LOADER_ROWS rounded down to a multiple of `batch` or, if `batch` is larger, `batch`. */
static inline uint64_t loader_staging_rows(int batch) {
  return (uint64_t)(batch < LOADER_ROWS ? LOADER_ROWS / batch * batch : batch);
}

/* A pass over a reader's rows, one buffer at a time. The caller sets the first four fields. */
typedef struct {
  Engine *engine;
  DatasetReader *reader;
  uint64_t start; /* the dataset row to which the reader's first row goes */
  bool ring;      /* streaming: buffer s always goes to dataset row start + s * staging_rows */
  uint64_t first_row, rows; /* the window: dataset rows [first_row, first_row + rows) */
  uint64_t done;            /* rows of all windows so far */
  int index;                /* the next staging buffer, 0 or 1 */
} Loader;

/* Reads the next rows and queues their upload. rows == 0 afterwards means that no rows are left.
   Every window but the last fills a staging buffer, so a step never straddles two windows. Fails if
   the reader or the engine fails, if the dataset is too small, or if a row has the wrong number of
   pixels. */
bool loader_next(Loader *loader, Error *error);
