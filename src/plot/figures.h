/* Draws a run and its results, each figure as a PNG file that replaces an older one.

   Every function returns false with *error set if memory runs out or the file cannot be written. */
#pragma once

#include "model/metrics.h"
#include "model/network.h"
#include "data/photograph.h"
#include "model/class_names.h"

/* Draws loss and accuracy of results (runs, count) over the epochs, for training and test rows.
   Curves are means over the runs; several runs also get a thin curve each. A line marks the best
   epoch. A value that is not finite leaves a gap. Fails if no value is finite. */
bool plot_curves(const EpochResult *results, int runs, int count, const char *path, Error *error);

enum { FIGURES_MAX_FILTERS = 1024 };

/* Draws, for each output of the first layer, its weights as an image of the inputs, all in one
   scale where grey is 0. If the inputs are not a square, the image's width is the divisor of their
   number nearest to a square's side. Draws only the first FIGURES_MAX_FILTERS outputs. */
bool plot_weights(const Network *network, const float *parameters, const char *path, Error *error);

typedef struct {
  const uint8_t *pixels; /* (side, side) */
  int truth, prediction;
  double probability; /* the probability of the prediction */
  uint64_t row;       /* row of the file, from 1 */
} Mistake;

/* Draws wrong predictions in the given order, the most confident first. names: class names. With no
   wrong prediction, the picture says so. */
bool plot_mistakes(const Mistake *mistakes, int count, int side, const char *names,
                   const char *path, Error *error);

enum { FIGURES_MAX_NUMBERS = 30 };

/* Draws the confusion matrix, truth down, predictions across. Colour shows the share of the truth's
   rows. Up to FIGURES_MAX_NUMBERS classes, cells also show counts. */
bool plot_confusion(const Metrics *metrics, const char *path, Error *error);

/* ---- what the network saw ----------------------------------------------------------------- */

/* A picture with a box around every digit found in it. Beside it are the digits as the network saw
   them, with its answers. */

typedef struct {
  const double *probabilities; /* (classes) */
  int best;                    /* the likeliest class; among equals, the first */
  bool sure;
} SeenAnswer;

/* Replaces the file `path` by a PNG of the picture `name`, with the photograph's digits, (side,
   side) each, and the answers to them, (count). names: class names. Fails if memory runs out or the
   file cannot be written. */
bool plot_seen(const char *name, const Image *image, const Photograph *photograph,
               const SeenAnswer *answers, int side, const char *names, const char *path,
               Error *error);
