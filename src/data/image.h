/* A picture file as levels of grey, upright, and no larger than it takes to find digits in it. */
#ifndef IMAGE_H
#define IMAGE_H

#include <stdint.h>

#include "base/error.h"

enum {
  IMAGE_MAX_SIDE = 16384,
  IMAGE_MAX_PIXELS = 64000000,
  IMAGE_MAX_SCANNED = 1000000000, /* pixels times scans of a JPEG: 15 scans of the largest */
  IMAGE_MAX_MEMORY = 400000000,   /* bytes while it is read: the largest PNG takes 384 MB in RGB */
  IMAGE_MOST = 1280,              /* of a side of what is kept: more than this is shrunk */
};

typedef struct {
  int width, height;
  uint8_t *level;              /* (height, width): brightness, 0 black to 255 white */
  int shrunk;                  /* each level is the mean of so many pixels squared; 1: of one */
  int file_width, file_height; /* of the file's pixels, upright */
} Image;

/* Reads a PNG, JPEG, BMP, GIF (its first picture) or binary PGM or PPM (of levels to 255), in
   colour or grey. What is transparent is white, and a JPEG is turned as its Exif orientation says.
   The caller frees what image_free takes. Fails at a file that cannot be read, is not such a
   picture or larger than the limits above; of formats that are known and not read, the error names
   the command that converts. */
bool image_read(const char *path, Image *image, Error *error);
void image_free(Image *image); /* one of zeros is allowed */

#endif
