/* --pixel-max auto: the largest pixel of the training rows, which are read once for it. */

#include "commands/commands.h"

enum { ROWS = 4096, MOST = 255 };

bool pixel_range_find(Options *o, Report *report, Error *error) {
  if (o->training.pixels.max != OPTIONS_AUTO) return true;
  DatasetReader *reader = dataset_open(
      &(DatasetConfig){.path = o->train,
                       .classes = o->training.classes,
                       .threads = o->training.threads ? o->training.threads : ranks_cores(NULL),
                       .label = o->label_column,
                       .left_out = o->ignore_columns,
                       .ahead = (size_t)2 * ROWS},
      error);
  if (!reader) return false;
  if (dataset_source(reader)->once) {
    dataset_close(reader);
    return error_set(error, "--pixel-max auto reads --train twice, but it can be read only once: "
                            "give --pixel-max a number");
  }
  const size_t inputs = (size_t)dataset_inputs(reader);
  uint8_t *pixels = make_array(pixels, ROWS * inputs);
  uint16_t *labels = make_array(labels, ROWS);
  bool good = (pixels && labels) || error_set(error, "out of memory reading %s", o->train);
  const DataSummary *seen = dataset_summary(reader);
  for (size_t filled = 1; good && filled > 0 && seen->greatest < MOST;)
    good = dataset_read(reader, pixels, inputs, labels, ROWS, &filled, error);
  const int largest = seen->greatest > 0 ? seen->greatest : MOST;
  free(pixels);
  free(labels);
  dataset_close(reader);
  o->training.pixels.max = (float)largest;
  if (good && largest < MOST)
    report_note(report, "pixels   0 to %d: --pixel-max %d", largest, largest);
  return good;
}
