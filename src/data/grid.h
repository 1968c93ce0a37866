/* Filters for pictures. A picture is a grid (height, width) of fewer than 8 million bytes. The time
   of a filter is proportional to the number of bytes. The time of grid_dilate also grows with the
   logarithm of the radius. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/sizes.h"

/* Replaces each value by the largest value in the square of side 2 radius + 1 around it. Outside
   the grid, all values count as 0. Returns false if memory runs out. */
bool grid_dilate(uint8_t *grid, int width, int height, int radius);

/* Copies a digit (height, width) with values 0 to 255 to a page (side, side) that is all zeros. The
   digit's centre of mass goes as near as possible to pixel side / 2, which is 14 of MNIST's 28. */
void grid_centre(const double *digit, int width, int height, int side, uint8_t *page);

/* A rectangle of pixels: left <= x < right, top <= y < bottom. */
typedef struct {
  int left, top, right, bottom;
} Box;

static inline int box_width(Box b) {
  return b.right - b.left;
}

static inline int box_height(Box b) {
  return b.bottom - b.top;
}

static inline int box_extent(Box b) {
  return max_int(box_width(b), box_height(b));
}

static inline Box box_around(Box a, Box b) {
  return (Box){min_int(a.left, b.left), min_int(a.top, b.top), max_int(a.right, b.right),
               max_int(a.bottom, b.bottom)};
}

typedef struct {
  Box box;
  int pixels;
  int part_of; /* at first the region's own index; the caller may change it */
} Region;

/* Finds the regions of connected pixels that are not 0, in the order of their first pixels. Pixels
   that touch at sides or corners are connected. Sets labels (height, width) to 1 + the region's
   index, or to 0 where `grid` is 0. Returns *count regions, which the caller frees, or NULL if
   memory runs out. */
Region *grid_regions(const uint8_t *grid, int width, int height, int32_t *labels, int *count);
