/* Reads a picture file as levels of grey, turns it upright, and shrinks it if it is large. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
  IMAGE_MAX_SIDE = 16384,
  IMAGE_MAX_PIXELS = 64000000,
  IMAGE_MAX_SCANNED = 300000000, /* pixels * scans of a JPEG; a pixel of a scan takes up to 22 ns */
  IMAGE_MAX_MEMORY = 400000000,  /* bytes in use while reading; the largest RGB PNG needs 384 MB */
  IMAGE_MOST = 1280, /* maximum side of the result in pixels; larger pictures are shrunk */
};

typedef struct {
  int width, height;
  uint8_t *level;              /* (height, width): brightness, from 0 (black) to 255 (white) */
  int shrunk;                  /* each level is the mean of shrunk * shrunk pixels of the file */
  int file_width, file_height; /* size in pixels of the upright picture before it was shrunk */
} Image;

/* Reads a PNG, a JPEG, a BMP, or a binary PGM or PPM with levels up to 255, in colour or grey.
   Transparent pixels become white. A JPEG is turned as its Exif orientation says. The caller frees
   *image with image_free. Fails if the file cannot be read, is in another format or exceeds a limit
   above. */
bool image_read(const char *path, Image *image, Error *error);
void image_free(Image *image); /* *image may be all zeros */

/* Returns the orientation of a JPEG of `length` bytes, from 1 to 8. Returns 1 (upright) if the
   bytes are not a JPEG or have no orientation. The first stored row belongs at the top for 1 and 2,
   at the bottom for 3 and 4, at the left for 5 and 8, and at the right for 6 and 7 (CIPA DC-008,
   "Exif Version 2.3", 2010, section 4.6.4; TIFF 6.0, 1992). Never reads outside of `bytes`. */
int exif_orientation(const uint8_t *bytes, size_t length);
