/* --pixel-max auto: the largest pixel of the training rows, which are read once for it. Without it,
   a word where the pixels are far below 255. */

#include "commands/commands.h"

enum { ROWS = 4096, MOST = 255 };
enum { FEW = 64, DIM = 64 }; /* rows that show if pixels are at most so bright */

/* Sets *largest to the largest pixel of `rows` rows, or of a few more. 0: they are black. */
static bool read_largest(const Options *o, uint64_t rows, int *largest, Error *error) {
  DatasetReader *reader =
      dataset_open(&(DatasetConfig){.path = o->train,
                                    .classes = o->training.classes,
                                    .threads = rows < ROWS           ? 1
                                               : o->training.threads ? o->training.threads
                                                                     : ranks_cores(NULL),
                                    .label = o->label_column,
                                    .ahead = (size_t)2 * ROWS},
                   error);
  if (!reader) return false;
  if (dataset_source(reader)->once) {
    dataset_close(reader);
    return error_set(error, "--pixel-max auto reads --train twice, but it can be read only once: "
                            "give --pixel-max a number");
  }
  const size_t inputs = (size_t)dataset_inputs(reader), block = rows < ROWS ? (size_t)rows : ROWS;
  uint8_t *pixels = make_array(pixels, ROWS * inputs);
  uint16_t *labels = make_array(labels, ROWS);
  bool good = (pixels && labels) || error_set(error, "out of memory reading %s", o->train);
  size_t filled = 1;
  *largest = 0;
  for (uint64_t seen = 0; good && filled > 0 && *largest < MOST && seen < rows; seen += filled) {
    good = dataset_read(reader, pixels, inputs, labels, block, &filled, error);
    for (size_t i = 0; good && i < filled * inputs; i++)
      if (pixels[i] > *largest) *largest = pixels[i];
  }
  free(pixels);
  free(labels);
  dataset_close(reader);
  return good;
}

/* The next reader of the file says what is wrong with it. */
static void look_if_dim(const Options *o, Report *report) {
  static const uint64_t looks[] = {FEW, UINT64_MAX};
  int largest = 0;
  if (!source_can_repeat(o->train)) return;
  for (int i = 0; i < 2; i++)
    if (!read_largest(o, looks[i], &largest, NULL) || largest == 0 || largest > DIM) return;
  report_note(report, "pixels   the largest is %d: --pixel-max auto", largest);
}

bool pixel_range_find(Options *options, Report *report, Error *error) {
  int largest = 0;
  if (options->training.pixels.max == MOST) look_if_dim(options, report);
  if (options->training.pixels.max != OPTIONS_AUTO) return true;
  if (!read_largest(options, UINT64_MAX, &largest, error)) return false;
  if (largest == 0) largest = MOST;
  options->training.pixels.max = (float)largest;
  if (largest < MOST) report_note(report, "pixels   0 to %d: --pixel-max %d", largest, largest);
  return true;
}
