/* Filters over grids of bytes, (height, width), for pictures below 8 million pixels. Time is
   proportional to the grid; grid_dilate's also grows with the logarithm of the radius. They return
   false if memory runs out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/sizes.h"

/* Replaces each value by the largest within `radius` rows and columns. Outside values are 0. */
bool grid_dilate(uint8_t *grid, int width, int height, int radius);

/* Copies digit (height, width), values 0 to 255, to a zeroed page (side, side). Its centre of mass
   goes as near as possible to the middle: pixel 14 of MNIST's 28, not between 13 and 14. */
void grid_centre(const double *digit, int width, int height, int side, uint8_t *page);

/* first <= x or y < end. */
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

/* Connected pixels. */
typedef struct {
  Box box;
  int pixels;
  int part_of; /* set by the caller; at first the region's own index */
} Region;

/* Finds the connected regions of the pixels that are not 0, in the order of their first pixels.
   Neighbours touch at sides or corners. labels: (height, width), 1 + the index of the region, 0
   elsewhere. Returns the regions, (*count), which the caller frees; NULL without memory. */
Region *grid_regions(const uint8_t *grid, int width, int height, int32_t *labels, int *count);
