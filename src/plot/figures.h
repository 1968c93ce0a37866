/* Pictures of a run and of what came out of it, each a PNG file that replaces what was there.

   Every function returns false with *error set if memory ends or the file cannot be written. */
#pragma once

#include "model/metrics.h"
#include "model/network.h"
#include "data/photograph.h"
#include "model/class_names.h"

/* Draws loss and accuracy of results (runs, count) over the epochs, for training and test rows.
   Curves are means over the runs; several runs also get a thin curve each. A line marks the best
   epoch. A value that is not finite is a gap. Fails if none is finite. */
bool plot_curves(const EpochResult *results, int runs, int count, const char *path, Error *error);

enum { FIGURES_MAX_FILTERS = 1024 };

/* Draws the weights of each value of the first layer as an image of its inputs: grey is 0, one
   scale for all. If the inputs are not a square, an image is as wide as their divisor nearest to a
   square's side. Of more than FIGURES_MAX_FILTERS values the first are drawn. */
bool plot_weights(const Network *network, const float *parameters, const char *path, Error *error);

typedef struct {
  const uint8_t *pixels; /* (side, side) */
  int truth, prediction;
  double probability; /* of the prediction */
  uint64_t row;       /* from 1, as in the file */
} Mistake;

/* Draws wrong predictions in the order given, the most confident first; names: of the classes.
   Without any, the picture says so. */
bool plot_mistakes(const Mistake *mistakes, int count, int side, const char *names,
                   const char *path, Error *error);

enum { FIGURES_MAX_NUMBERS = 30 };

/* Draws the confusion matrix, truth down, predictions across: the colour tells the share of the
   truth's rows. Up to FIGURES_MAX_NUMBERS classes have their counts written. */
bool plot_confusion(const Metrics *metrics, const char *path, Error *error);

/* ---- what the network saw ----------------------------------------------------------------- */

/* A picture with a box around every digit that was found in it, and beside it the digits as the
   network saw them, with its answers. */

typedef struct {
  const double *probabilities; /* (classes) */
  int best;                    /* the likeliest class, the first of equals */
  bool sure;
} SeenAnswer;

/* Replaces the file `path` by a PNG of the picture called `name`, with the digits of the
   photograph, (side, side) each, and the answers to them, (count). names: of the classes. Fails
   without memory, or if the file cannot be written. */
bool plot_seen(const char *name, const Image *image, const Photograph *photograph,
               const SeenAnswer *answers, int side, const char *names, const char *path,
               Error *error);
