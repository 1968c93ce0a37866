/* Finds the number of --pixel-max auto by reading the training rows once before the run begins. */
#include "commands/commands.h"

enum { ROWS = 4096, MOST = 255 };

bool first_look(Options *o, Report *report, Error *error) {
  if (!isnan(o->training.pixels.max)) return true;
  if (!source_can_repeat(o->train))
    return error_set(error, "--pixel-max auto reads --train twice, but it can be read only once: "
                            "give --pixel-max a number");
  DatasetReader *reader = dataset_open(&(DatasetConfig){.path = o->train,
                                                        .classes = o->training.classes,
                                                        .threads = 1,
                                                        .label = o->label_column,
                                                        .names = o->class_names,
                                                        .ahead = ROWS},
                                       error);
  if (!reader) return false;
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
  if (!good) return false;
  o->training.pixels.max = (float)largest;
  if (largest < MOST) report_note(report, "pixels   0 to %d: --pixel-max %d", largest, largest);
  return true;
}
