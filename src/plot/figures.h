/* Draws figures of a run and its results. Each figure is a PNG file that replaces an older file.

   Every function returns false with *error set if memory runs out or the file cannot be written. */
#pragma once

#include "model/metrics.h"
#include "model/network.h"
#include "data/photograph.h"
#include "model/class_names.h"

/* Draws loss and accuracy over the epochs, for training and test rows. `results` is (runs, count).
   Curves are means over the runs. If there are several runs, each also gets a thin curve. A line
   marks the best epoch. A value that is not finite leaves a gap. Fails if no value is finite. */
bool plot_curves(const EpochResult *results, int runs, int count, const char *path, Error *error);

enum { FIGURES_MAX_FILTERS = 1024 };

/* Draws the first layer's weights: one image per output, with one pixel per input. All images use
   one scale, where 0 is grey. If the number of inputs is not a square, images are rectangles with
   sides as equal as possible. Draws at most FIGURES_MAX_FILTERS images. */
bool plot_weights(const Network *network, const float *parameters, const char *path, Error *error);

typedef struct {
  int truth, prediction;
  double probability;                 /* the probability of the prediction */
  uint64_t row;                       /* number of the row in the file, counted from 1 */
  uint8_t pixels[NETWORK_MAX_INPUTS]; /* (side, side) */
} Mistake;

/* Draws `count` wrong predictions in the given order, which starts with the most confident one. If
   `count` is 0, the picture says that no prediction was wrong. `names` are the class names. */
bool plot_mistakes(const Mistake *mistakes, int count, int side, const char *names,
                   const char *path, Error *error);

enum { FIGURES_MAX_NUMBERS = 30 };

/* Draws the confusion matrix, with a line per true class and a column per predicted class. A cell's
   colour shows the share of the true class's rows that have this prediction. With at most
   FIGURES_MAX_NUMBERS classes, cells also show counts. */
bool plot_confusion(const Metrics *metrics, const char *path, Error *error);

/* ---- what the network saw ----------------------------------------------------------------- */

typedef struct {
  double probabilities[NETWORK_MAX_CLASSES];
  int best; /* the likeliest class, or the first of equally likely classes */
  bool sure;
} SeenAnswer;

/* Draws the picture `name` with a box around every digit in it. Beside the picture it draws each
   digit (side, side) as the network saw it, with the network's answer. `names` are class names. */
bool plot_seen(const char *name, const Image *image, const Photograph *photograph,
               const SeenAnswer *answers, int side, const char *names, const char *path,
               Error *error);
