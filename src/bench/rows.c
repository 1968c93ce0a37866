#include "bench/bench.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"

enum { CLASSES = 10 };

/* Appends the rows of a file; *added is how many. */
static bool append_file(BenchRows *rows, const char *path, uint64_t *added, Error *error) {
  const DatasetConfig config = {.path = path, .classes = CLASSES, .threads = omp_get_num_procs()};
  DatasetReader *reader = dataset_open(&config, error);
  if (!reader) return false;
  const uint64_t before = rows->train_rows, room = dataset_max_rows(reader, UINT32_MAX);
  const size_t inputs = (size_t)dataset_inputs(reader);
  uint8_t *pixels = realloc(rows->pixels, (before + room) * inputs);
  if (pixels) rows->pixels = pixels;
  uint16_t *labels = realloc(rows->labels, (before + room) * sizeof *labels);
  if (labels) rows->labels = labels;
  const bool good =
      (before == 0 || (int)inputs == rows->inputs ||
       error_set(error, "%s has %zu pixels per row, but the training file has %d", path, inputs,
                 rows->inputs)) &&
      ((pixels && labels) || error_set(error, "no memory for the rows of %s", path)) &&
      dataset_read(reader, pixels + before * inputs, inputs, labels + before, room, added, error);
  rows->inputs = (int)inputs;
  dataset_close(reader);
  return good;
}

bool bench_rows_read(BenchRows *rows, const char *train, const char *test, Error *error) {
  return append_file(rows, train, &rows->train_rows, error) &&
         append_file(rows, test, &rows->test_rows, error);
}

void bench_rows_free(BenchRows *rows) {
  free(rows->pixels);
  free(rows->labels);
}

/* Copies row r of the dataset to row `at` of a staging buffer. */
static void place_row(const BenchRows *rows, uint64_t r, StagingBuffer to, uint64_t at) {
  const size_t inputs = (size_t)rows->inputs;
  uint8_t *pixels = to.pixels + at * to.stride;
  memcpy(pixels, rows->pixels + r * inputs, inputs);
  memset(pixels + inputs, 0, to.stride - inputs);
  to.labels[at] = rows->labels[r];
}

bool bench_fill(Engine *engine, const BenchRows *rows, Error *error) {
  const uint64_t all = engine->config.dataset_rows, most = engine->config.staging_rows;
  int index = 0;
  for (uint64_t first = 0; first < all; first += most, index = 1 - index) {
    const uint64_t count = min_size(all - first, most);
    StagingBuffer to;
    if (!engine->call->staging(engine, index, &to, error)) return false;
    for (uint64_t r = 0; r < count; r++) place_row(rows, first + r, to, r);
    if (!engine->call->upload(engine, index, first, count, error)) return false;
  }
  return true;
}
