/* A picture with a box around every digit that was found in it, and beside it the digits as the
   network saw them, with its answers. */
#pragma once

#include "data/photograph.h"
#include "model/class_names.h"

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
