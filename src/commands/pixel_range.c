/* --pixel-max auto: the largest pixel of the training rows, which are read once for it. Without it,
   a word where the pixels are far below 255. */
#include <stdlib.h>

#include <omp.h>

#include "commands/commands.h"
#include "data/dataset.h"

enum { ROWS = 4096, MOST = 255 };
enum { FEW = 64, DIM = 64 }; /* rows that show if pixels are at most so bright */

/* Of `rows` rows, or a few more. 0: they are black. */
static bool find_largest(DatasetReader *reader, uint64_t rows, uint8_t *pixels, uint16_t *labels,
                         int *largest, Error *error) {
  const size_t inputs = (size_t)dataset_inputs(reader);
  const size_t block = rows < ROWS ? (size_t)rows : ROWS;
  uint64_t seen = 0;
  size_t filled;
  *largest = 0;
  do {
    if (!dataset_read(reader, pixels, inputs, labels, block, &filled, error)) return false;
    for (size_t i = 0; i < filled * inputs; i++)
      if (pixels[i] > *largest) *largest = pixels[i];
    seen += filled;
  } while (filled > 0 && *largest < MOST && seen < rows);
  return true;
}

static bool read_largest(const Options *o, uint64_t rows, int *largest, Error *error) {
  const int threads = rows < ROWS           ? 1
                      : o->training.threads ? o->training.threads
                                            : omp_get_num_procs();
  DatasetReader *reader = dataset_open(&(DatasetConfig){.path = o->train,
                                                        .classes = o->classes,
                                                        .threads = threads,
                                                        .label = o->label_column,
                                                        .ahead = (size_t)2 * ROWS},
                                       error);
  if (!reader) return false;
  if (dataset_source(reader)->once) {
    dataset_close(reader);
    return error_set(error, "--pixel-max auto reads --train twice, but it can be read only once: "
                            "give --pixel-max a number");
  }
  uint8_t *pixels = malloc(ROWS * (size_t)dataset_inputs(reader));
  uint16_t *labels = malloc(ROWS * sizeof *labels);
  const bool good = pixels && labels ? find_largest(reader, rows, pixels, labels, largest, error)
                                     : error_set(error, "out of memory reading %s", o->train);
  free(pixels);
  free(labels);
  dataset_close(reader);
  return good;
}

/* What is wrong with the file is left to its next reader. */
static bool look_if_dim(const Options *o, Report *report, Error *error) {
  static const uint64_t looks[] = {FEW, UINT64_MAX};
  Error ignored;
  int largest = 0;
  if (!source_can_repeat(o->train)) return true;
  for (int i = 0; i < 2; i++)
    if (!read_largest(o, looks[i], &largest, &ignored) || largest == 0 || largest > DIM)
      return true;
  return report_note(report, error, "pixels   the largest is %d: --pixel-max auto", largest);
}

bool pixel_range_find(Options *options, Report *report, Error *error) {
  int largest = 0;
  if (options->training.pixels.max == MOST) return look_if_dim(options, report, error);
  if (options->training.pixels.max != OPTIONS_AUTO) return true;
  if (!read_largest(options, UINT64_MAX, &largest, error)) return false;
  if (largest == 0) largest = MOST;
  options->training.pixels.max = (float)largest;
  if (largest == MOST) return true;
  return report_note(report, error, "pixels   0 to %d: --pixel-max %d", largest, largest);
}
