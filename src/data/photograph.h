/* Finds the digits in a picture, puts them in reading order, and makes each a row of pixels. */
#pragma once

#include "data/grid.h"
#include "data/image.h"

enum { PHOTOGRAPH_MOST = 100, PHOTOGRAPH_SIDE = 64 }; /* maximum digits; maximum side in pixels */

typedef struct {
  int count;                /* number of digits, at least 1 */
  Box box[PHOTOGRAPH_MOST]; /* box around each digit's ink, in pixels of the upright picture */
  int row[PHOTOGRAPH_MOST]; /* the line of text with each digit, counted from 0 at the top */
  /* (count, side, side): 0 is background, 255 is ink */
  uint8_t pixels[PHOTOGRAPH_MOST * PHOTOGRAPH_SIDE * PHOTOGRAPH_SIDE];
} Photograph;

/* Finds the digits of a picture, dark on light or light on dark, even with uneven light, shadows or
   the desk in view. Digits that touch count as one digit. Digits are ordered by line from the top,
   and from left to right in a line; the page may be tilted by 10 degrees either way. Each digit is
   sized and placed as MNIST's are (LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied
   to document recognition", 1998). The longer side of its ink is 20/28 of `side`, and its centre
   of mass is in the middle. `side` is 2 to PHOTOGRAPH_SIDE. `name` is the picture's name in errors.
   Fails if nothing in the picture stands out, or if it shows more than PHOTOGRAPH_MOST digits. */
bool photograph_find(const Image *image, const char *name, int side, Photograph *photograph,
                     Error *error);
