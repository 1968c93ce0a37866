/* --pixel-max auto: the largest pixel of the training rows, which are read once for it. */
#include <stdlib.h>

#include <omp.h>

#include "commands/commands.h"
#include "data/dataset.h"

enum { ROWS = 4096, MOST = 255 };

/* 0: all rows are black. */
static bool find_largest(DatasetReader *reader, uint8_t *pixels, uint16_t *labels, int *largest,
                         Error *error) {
  const size_t inputs = (size_t)dataset_inputs(reader);
  size_t filled;
  *largest = 0;
  do {
    if (!dataset_read(reader, pixels, inputs, labels, ROWS, &filled, error)) return false;
    for (size_t i = 0; i < filled * inputs; i++)
      if (pixels[i] > *largest) *largest = pixels[i];
  } while (filled > 0 && *largest < MOST);
  return true;
}

static bool read_largest(const Options *o, int *largest, Error *error) {
  const int threads = o->training.threads ? o->training.threads : omp_get_num_procs();
  DatasetReader *reader =
      dataset_open(o->train, o->label_column, o->classes, threads, (size_t)2 * ROWS, error);
  if (!reader) return false;
  if (dataset_is_once(reader)) {
    dataset_close(reader);
    return error_set(error, "--pixel-max auto reads --train twice, but it can be read only once: "
                            "give --pixel-max a number");
  }
  uint8_t *pixels = malloc(ROWS * (size_t)dataset_inputs(reader));
  uint16_t *labels = malloc(ROWS * sizeof *labels);
  const bool good = pixels && labels ? find_largest(reader, pixels, labels, largest, error)
                                     : error_set(error, "out of memory reading %s", o->train);
  free(pixels);
  free(labels);
  dataset_close(reader);
  return good;
}

bool pixel_range_find(Options *options, Report *report, Error *error) {
  int largest = 0;
  if (options->training.pixels.max != OPTIONS_AUTO) return true;
  if (!read_largest(options, &largest, error)) return false;
  if (largest == 0) largest = MOST;
  options->training.pixels.max = (float)largest;
  if (largest == MOST) return true;
  return report_note(report, error, "pixels   0 to %d: --pixel-max %d", largest, largest);
}
