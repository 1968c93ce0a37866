/* A digit in a picture file, made into what MNIST's makers would have made of it. */
#ifndef IMAGE_H
#define IMAGE_H

#include <stdint.h>

#include "base/error.h"

enum {
  IMAGE_MAX_SIDE = 16384,
  IMAGE_MAX_PIXELS = 64000000,
  IMAGE_MAX_SCANNED = 1000000000, /* pixels times scans of a JPEG: 15 scans of the largest */
  IMAGE_MAX_MEMORY = 400000000,   /* bytes while it is read: the largest PNG takes 384 MB in RGB */
};

/* Reads a PNG, JPEG, BMP, GIF (its first picture) or binary PGM or PPM (of levels to 255) of any
   size, in colour or grey, with a digit on a plain ground: dark on light or light on dark. What is
   transparent is white. Writes pixels (side, side), 0 for the ground to 255 for ink, as MNIST has
   them (LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition",
   1998): the ink's longer extent is 20/28 of the side, its centre of mass in the middle. side: at
   least 2. Fails at a file that cannot be read, is not such a picture or larger than the limits
   above, and at a picture in which nothing stands out from its border. */
bool image_read_digit(const char *path, int side, uint8_t *pixels, Error *error);

#endif
