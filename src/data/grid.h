/* Filters over grids of bytes, (height, width), for pictures of less than 8 million pixels. All
   take time proportional to the grid (grid_dilate: and to the logarithm of the radius) and return
   false without memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Replaces each value by the largest within `radius` rows and columns. Outside there is nothing. */
bool grid_dilate(uint8_t *grid, int width, int height, int radius);

/* The mean within `radius` rows and columns, by sums over rectangles (Crow, "Summed-area tables for
   texture mapping", 1984). `mean` may be `grid`. */
bool grid_mean(const uint8_t *grid, int width, int height, int radius, uint8_t *mean);

/* Numbers the connected regions of the pixels that are not 0, from 1, in the order of their first
   pixels; neighbours touch at sides or corners (Rosenfeld and Pfaltz, "Sequential operations in
   digital picture processing", 1966). labels: (height, width), 0 elsewhere. *count: of regions. */
bool grid_label(const uint8_t *grid, int width, int height, int32_t *labels, int *count);
