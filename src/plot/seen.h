/* A picture of pictures: each with a box around every digit that was found in it, and beside it the
   digits as the network saw them, with its answers. */
#pragma once

#include <stdint.h>

#include "base/error.h"

typedef struct {
  const uint8_t *pixels;        /* (side, side), 0 ground to 255 ink */
  int left, top, width, height; /* of its box, in levels of the picture */
  int answer;
  double probability;
  bool sure;
} SeenDigit;

typedef struct {
  const char *name;
  const uint8_t *level; /* (height, width), 0 black to 255 white */
  int width, height;
  const SeenDigit *digits; /* (count) */
  int count;
} SeenPicture;

enum { SEEN_MOST = 24, SEEN_TALLEST = 16384 }; /* pictures that are shown; pixels, about */

typedef struct Seen Seen;

Seen *seen_open(int side);   /* NULL: no memory */
void seen_close(Seen *seen); /* NULL is allowed */

/* Draws the picture, if there is room for it. Fails without memory. */
bool seen_add(Seen *seen, const SeenPicture *picture, Error *error);

/* Replaces the file `path` by a PNG of all pictures added. Fails without memory, or if the file
   cannot be written. */
bool seen_save(const Seen *seen, const char *path, Error *error);
