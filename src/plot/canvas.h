/* Draws rectangles, images, lines and text on a white canvas of RGB pixels, and saves it as a PNG.

   Coordinates are pixels from the top left corner, (0, 0) to (width, height), and may be fractions.
   What lies outside of the canvas is not drawn. Edges of lines and letters are smoothed. */
#pragma once

#include <stdint.h>

#include "base/error.h"

typedef uint32_t Colour; /* 0xRRGGBB */

/* Returns a colour's red (part 0), green (part 1) or blue (part 2), from 0 to 255. */
static inline int colour_part(Colour colour, int part) {
  return (int)(colour >> (16 - 8 * part) & 255);
}

typedef struct {
  int width, height;
  uint8_t *pixels;   /* (height, width, 3) */
  uint8_t *coverage; /* (height, width): scratch memory, all 0 between calls */
} Canvas;

bool canvas_open(Canvas *picture, int width, int height, Error *error);
void canvas_close(Canvas *picture); /* *picture may be all zeros */

/* Fills a rectangle whose edges are rounded to whole pixels. */
void canvas_rectangle(Canvas *picture, double x, double y, double width, double height,
                      Colour colour);

/* Draws an image of grey `pixels` (height, width), where 0 is black. Each pixel becomes a square of
   side `zoom`; if `zoom` is below 1, some pixels are left out. The image's top left corner is at
   (x, y). */
void canvas_greys(Canvas *picture, int x, int y, const uint8_t *pixels, int width, int height,
                  double zoom);

/* Draws a line with round ends. */
void canvas_line(Canvas *picture, double x0, double y0, double x1, double y1, double thickness,
                 Colour colour);

/* Draws printable ASCII, and '?' for any other byte. A capital letter is `height` high and stands
   on y = `baseline`. Letters like g reach 0.3 * height below the baseline. */
void canvas_text(Canvas *picture, double x, double baseline, double height, const char *text,
                 Colour colour);
double canvas_text_width(double height, const char *text);

/* Saves the picture as the PNG file `path`, which replaces an older file. */
bool canvas_save(const Canvas *picture, const char *path, Error *error);
