/* Pictures of a run and of what came out of it, each a PNG file that replaces what was there.

   Every function returns false with *error set when there is no memory or the file cannot be
   written. */
#ifndef FIGURES_H
#define FIGURES_H

#include <stdint.h>

#include "base/error.h"
#include "model/metrics.h"
#include "model/network.h"

/* Loss and accuracy over the epochs, in training and on test rows. What is not finite is a gap.
   Fails if nothing is finite. */
bool plot_curves(const EpochResult *results, int count, const char *path, Error *error);

/* A learning-rate range test: the loss at each rate, (count) each; the rates grow. */
typedef struct {
  const double *rate, *loss, *smooth;
  int count;
  double best; /* the rate that a line marks */
} RateCurve;

/* Losses far above the first one are left out. */
bool plot_rates(const RateCurve *curve, const char *path, Error *error);

enum { FIGURES_MAX_FILTERS = 1024 };

/* The weights of each value of the first layer as an image of its inputs: grey is 0, one scale for
   all. Inputs that are not a square are as wide as their divisor that is nearest to a square's
   side. Of more than FIGURES_MAX_FILTERS values, the first. */
bool plot_weights(const Network *network, const float *parameters, const char *path, Error *error);

typedef struct {
  const uint8_t *pixels; /* (side, side) */
  int truth, prediction;
  double probability; /* of the prediction */
  uint64_t row;       /* from 1, as in the file */
} Mistake;

/* Wrong predictions in the order given, the most confident first; none is a picture that says so.
 */
bool plot_mistakes(const Mistake *mistakes, int count, int side, const char *path, Error *error);

enum { FIGURES_MAX_NUMBERS = 30 };

/* The confusion matrix, truth down, predictions across: the colour tells the share of the truth's
   rows. Of up to FIGURES_MAX_NUMBERS classes with the counts. */
bool plot_confusion(const Metrics *metrics, const char *path, Error *error);

/* Where cell i of a picture is: (left + i % columns * width, top + i / columns * height) is the
   top left corner of a filter, of a mistake's digit, or of a count. */
typedef struct {
  int left, top;
  int width, height; /* from one cell to the next, in pixels */
  int columns;
  int zoom; /* of an image */
} PlotGrid;

PlotGrid plot_weights_grid(const Network *network);
PlotGrid plot_mistakes_grid(const Mistake *mistakes, int count, int side);
PlotGrid plot_confusion_grid(const Metrics *metrics);

#endif
