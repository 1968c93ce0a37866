#include "data/grid.h"

#include <math.h>
#include <string.h>

/* ---- the largest value -------------------------------------------------------------------- */

/* Replaces each of `count` values, which lie `step` bytes apart, by the maximum of the 2 radius + 1
   values around it. First computes maxima of windows, whose length doubles until two windows cover
   2 radius + 1 values. scratch: (count + 2 radius). */
static void dilate_line(uint8_t *line, int count, int step, int radius, uint8_t *scratch) {
  const int end = count + 2 * radius, window = 2 * radius + 1;
  int length = 1; /* length of a window; scratch[i] is the maximum of the window that starts at i */
  memset(scratch, 0, (size_t)end);
  for (int i = 0; i < count; i++) scratch[radius + i] = line[i * step];
  for (; 2 * length <= window; length *= 2)
    for (int i = 0; i + length < end; i++)
      scratch[i] = scratch[i] > scratch[i + length] ? scratch[i] : scratch[i + length];
  for (int i = 0; i < count; i++)
    line[i * step] = (uint8_t)max_int(scratch[i], scratch[i + window - length]);
}

bool grid_dilate(uint8_t *grid, int width, int height, int radius) {
  uint8_t *scratch = make_array(scratch, max_int(width, height) + 2 * radius);
  if (!scratch) return false;
  for (int y = 0; y < height; y++) dilate_line(grid + y * width, width, 1, radius, scratch);
  for (int x = 0; x < width; x++) dilate_line(grid + x, height, width, radius, scratch);
  free(scratch);
  return true;
}

/* ---- the centre of mass ------------------------------------------------------------------- */

void grid_centre(const double *digit, int width, int height, int side, uint8_t *page) {
  const int middle = side / 2;
  double mass = 0, moment_x = 0, moment_y = 0;
  for (int i = 0; i < width * height; i++) {
    const int x = i % width, y = i / width;
    mass += digit[i];
    moment_x += digit[i] * x;
    moment_y += digit[i] * y;
  }
  const int left = (int)lround(middle - moment_x / mass),
            top = (int)lround(middle - moment_y / mass);
  page = memset(page, 0, (size_t)(side * side));
  page += min_int(max_int(top, 0), side - height) * side + min_int(max_int(left, 0), side - width);
  for (int i = 0; i < width * height; i++)
    page[i / width * side + i % width] = (uint8_t)(digit[i] + 0.5);
}

/* ---- regions ------------------------------------------------------------------------------ */

/* Labels a pixel and all pixels connected with it. stack (width * height) is scratch memory. */
static void fill(const uint8_t *grid, int width, int height, int pixel, int32_t *labels,
                 int32_t label, int *stack) {
  int waiting = 0;
  labels[stack[waiting++] = pixel] = label;
  while (waiting > 0) {
    const int at = stack[--waiting], x = at % width, y = at / width;
    for (int ny = max_int(0, y - 1); ny <= min_int(height - 1, y + 1); ny++)
      for (int nx = max_int(0, x - 1); nx <= min_int(width - 1, x + 1); nx++) {
        const int neighbour = ny * width + nx;
        if (!grid[neighbour] || labels[neighbour]) continue;
        labels[stack[waiting++] = neighbour] = label;
      }
  }
}

Region *grid_regions(const uint8_t *grid, int width, int height, int32_t *labels, int *count) {
  const int pixels = width * height;
  int *stack = make_array(stack, pixels);
  if (!stack) return NULL;
  *count = 0;
  memset(labels, 0, (size_t)pixels * sizeof *labels);
  for (int i = 0; i < pixels; i++)
    if (grid[i] && !labels[i]) fill(grid, width, height, i, labels, ++*count, stack);
  free(stack);
  Region *regions = make_array(regions, *count + 1);
  for (int i = 0; regions && i < *count; i++)
    regions[i] = (Region){.box = {width, height, 0, 0}, .part_of = i};
  for (int i = 0; regions && i < pixels; i++) {
    if (!labels[i]) continue;
    const int x = i % width, y = i / width;
    Region *r = &regions[labels[i] - 1];
    r->box = box_around(r->box, (Box){x, y, x + 1, y + 1});
    r->pixels++;
  }
  return regions;
}
