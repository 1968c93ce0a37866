/* A picture of pictures: each with a box around every digit that was found in it, and beside it the
   digits as the network saw them, with its answers. */
#pragma once

#include "data/photograph.h"
#include "model/class_names.h"

typedef struct {
  const double *probabilities; /* (classes) */
  int best;                    /* the likeliest class, the first of equals */
  bool sure;
} SeenAnswer;

enum { SEEN_MOST = 24, SEEN_TALLEST = 16384 }; /* pictures that are shown; pixels, about */

typedef struct Seen Seen;

/* side: of a digit; names: of the classes, which must stay. NULL: no memory. */
Seen *seen_open(int side, const char *names);
void seen_close(Seen *seen); /* NULL is allowed */

/* Draws the picture with the digits of the photograph and the answers to them, (count), if there is
   room for it. Fails without memory. */
bool seen_add(Seen *seen, const char *name, const Image *image, const Photograph *photograph,
              const SeenAnswer *answers, Error *error);

/* Replaces the file `path` by a PNG of all pictures added. Fails without memory, or if the file
   cannot be written. */
bool seen_save(const Seen *seen, const char *path, Error *error);
