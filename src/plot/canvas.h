/* A canvas of RGB pixels: rectangles, images, lines and text, saved as a PNG.

   Coordinates are pixels from the top left corner, (0, 0) to (width, height), and may be
   fractions; what lies outside is not drawn. Edges of lines and letters are smoothed. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdint.h>

#include "base/error.h"

enum { PICTURE_MAX_SIDE = 16384 };

typedef struct {
  uint8_t red, green, blue;
} Colour;

typedef struct {
  int width, height;
  uint8_t *pixels;   /* (height, width, 3) */
  uint8_t *coverage; /* (height, width): scratch of what is being drawn, 0 between calls */
} Picture;

/* Both sides from 1 to PICTURE_MAX_SIDE. Fails also when there is no memory. */
bool picture_open(Picture *picture, int width, int height, Colour background, Error *error);
void picture_close(Picture *picture); /* one of zeros is allowed */

void picture_rectangle(Picture *picture, int x, int y, int width, int height, Colour colour);

/* An image of greys, `pixels` (height, width), 0 is black: each of its pixels becomes a square of
   `zoom` pixels, the first at (x, y). */
void picture_greys(Picture *picture, int x, int y, const uint8_t *pixels, int width, int height,
                   int zoom);

/* With round ends. */
void picture_line(Picture *picture, double x0, double y0, double x1, double y1, double thickness,
                  Colour colour);

/* Printable ASCII; any other byte is drawn as '?'. `height` is that of a capital letter, which
   stands on y = `baseline`; letters like g reach 0.3 height below. Returns the x behind the
   text. */
double picture_text(Picture *picture, double x, double baseline, double height, const char *text,
                    Colour colour);
double picture_text_width(double height, const char *text);

/* Replaces the file `path` by a PNG. */
bool picture_save(const Picture *picture, const char *path, Error *error);

#endif
