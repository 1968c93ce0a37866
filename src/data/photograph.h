/* Finds the digits in a picture, orders them, and sizes and centres them as MNIST's are. */
#pragma once

#include "data/grid.h"
#include "data/image.h"

enum { PHOTOGRAPH_MOST = 100 }; /* digits in a picture */

typedef struct {
  int count;                /* number of digits, at least 1 */
  Box box[PHOTOGRAPH_MOST]; /* of a digit's ink, in pixels of the file, upright */
  int row[PHOTOGRAPH_MOST]; /* the line that the digit is in, from 0 at the top */
  uint8_t *pixels;          /* (count, side, side): from 0, ground, to 255, ink */
} Photograph;

/* Finds the digits of a picture, dark on light or light on dark, even with uneven light, shadows or
   the desk in view. Digits that touch count as one. They come line by line from the top, and from
   left to right in a line; the page may be tilted by 10 degrees either way. Each is sized and
   placed as MNIST's are (LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to
   document recognition", 1998): the ink's longer extent is 20/28 of the side, its centre of mass in
   the middle. side: at least 2. name: the picture's, for errors. Fails if nothing in the picture
   stands out, or more than PHOTOGRAPH_MOST things do. The caller frees *photograph by
   photograph_free. */
bool photograph_find(const Image *image, const char *name, int side, Photograph *photograph,
                     Error *error);
void photograph_free(Photograph *photograph); /* *photograph may be all zeros */
