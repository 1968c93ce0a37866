/* Learns what a run must know of the training rows before it begins, by reading them once more. It
   reads to the end for --pixel-max auto and for labels that are words, else a few rows. */
#include <string.h>

#include "commands/commands.h"

enum { FEW = 64, ROWS = 4096, MOST = 255 };

/* Makes the words the names of the classes. */
static bool name_classes(const LabelWords *words, Options *o, char **names, Report *report,
                         Error *error) {
  const size_t size = sizeof words->word;
  char *text = calloc(size, 1);
  if (!text) return error_set(error, "out of memory for the names of classes");
  for (int w = 0; w < words->count; w++)
    text_append(text, size, "%s%s", w ? "\n" : "", words->word[w]);
  *names = o->class_names = text;
  o->training.classes = words->count;
  report_note(report, "names    the labels are words, in sorted order: %s is 0, %s is %d",
              text_shown(words->word[0]).text, text_shown(words->word[words->count - 1]).text,
              words->count - 1);
  return class_names_settle(text, words->count, o->train, error);
}

/* words: NULL if the classes have names. */
static bool look(Options *o, LabelWords *words, char **names, Report *report, Error *error) {
  const bool finds_range = o->training.pixels.max == OPTIONS_AUTO;
  DatasetReader *reader = dataset_open(&(DatasetConfig){.path = o->train,
                                                        .classes = o->training.classes,
                                                        .threads = 1,
                                                        .label = o->label_column,
                                                        .left_out = o->ignore_columns,
                                                        .names = o->class_names,
                                                        .words = words,
                                                        .ahead = FEW},
                                       finds_range ? error : NULL);
  if (!reader) return !finds_range; /* the next reader says why */
  const size_t inputs = (size_t)dataset_inputs(reader);
  uint8_t *pixels = make_array(pixels, ROWS * inputs);
  uint16_t *labels = make_array(labels, ROWS);
  bool good = (pixels && labels) || error_set(error, "out of memory reading %s", o->train);
  const DataSummary *seen = dataset_summary(reader);
  size_t filled = 1, block = finds_range ? ROWS : FEW;
  while (
      good && filled > 0 &&
      ((finds_range && seen->greatest < MOST) || seen->rows == 0 || (words && words->count > 0))) {
    good = dataset_read(reader, pixels, inputs, labels, block, &filled, error);
    block = ROWS;
  }
  const int largest = seen->greatest > 0 ? seen->greatest : MOST;
  free(pixels);
  free(labels);
  dataset_close(reader);
  if (!good) return !finds_range;
  if (words && words->count > 1 && !name_classes(words, o, names, report, error)) return false;
  if (!finds_range) return true;
  o->training.pixels.max = (float)largest;
  if (largest < MOST) report_note(report, "pixels   0 to %d: --pixel-max %d", largest, largest);
  return true;
}

bool first_look(Options *o, char **names, Report *report, Error *error) {
  const bool finds_range = o->training.pixels.max == OPTIONS_AUTO;
  if (!source_can_repeat(o->train))
    return !finds_range ||
           error_set(error, "--pixel-max auto reads --train twice, but it can be read only once: "
                            "give --pixel-max a number");
  if (!finds_range && o->class_names) return true;
  LabelWords *words = calloc(1, sizeof *words);
  const bool good = words ? look(o, o->class_names ? NULL : words, names, report, error)
                          : error_set(error, "out of memory reading %s", o->train);
  free(words);
  return good;
}
