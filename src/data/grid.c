#include "data/grid.h"

#include <math.h>
#include <string.h>

/* ---- the largest value -------------------------------------------------------------------- */

/* Doubles the length of the windows until two of them cover the whole one. line: the first of
   `count` values, `step` apart; scratch: (count + 2 radius), of which the ends are 0. */
static void dilate_line(uint8_t *line, int count, int step, int radius, uint8_t *scratch) {
  const int end = count + 2 * radius, window = 2 * radius + 1;
  int length = 1; /* of the window from each place on, whose largest value is there */
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

/* ---- the mean ----------------------------------------------------------------------------- */

bool grid_mean(const uint8_t *grid, int width, int height, int radius, uint8_t *mean) {
  const int line = width + 1;
  int *sums = make_array(sums, line * (height + 1)); /* above and left of (y, x) */
  if (!sums) return false;
  for (int y = 0; y < height; y++) {
    int sum = 0, *above = sums + y * line, *here = above + line;
    for (int x = 0; x < width; x++) here[x + 1] = above[x + 1] + (sum += grid[y * width + x]);
  }
  for (int y = 0; y < height; y++) {
    const int top = max_int(0, y - radius), bottom = min_int(height, y + radius + 1);
    const int *above = sums + top * line, *below = sums + bottom * line;
    for (int x = 0; x < width; x++) {
      const int left = max_int(0, x - radius), right = min_int(width, x + radius + 1);
      const int count = (right - left) * (bottom - top);
      const int sum = below[right] - below[left] - above[right] + above[left];
      mean[y * width + x] = (uint8_t)((sum + count / 2) / count);
    }
  }
  free(sums);
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

/* Returns the label that stands for all labels joined with it, and halves the way there. */
static int32_t root_of(int32_t *parent, int32_t label) {
  while (parent[label] != label) label = parent[label] = parent[parent[label]];
  return label;
}

static int32_t join(int32_t *parent, int32_t a, int32_t b) {
  a = root_of(parent, a), b = root_of(parent, b);
  if (a < b) return parent[b] = a;
  return parent[a] = b;
}

/* Gives a pixel the label of its neighbours above and left, joined, or a new one, *next. */
static void label_pixel(int32_t *labels, int width, int pixel, int32_t *parent, int32_t *next) {
  static const int neighbours[][2] = {{-1, -1}, {0, -1}, {1, -1}, {-1, 0}};
  int32_t *label = &labels[pixel];
  for (int i = 0; i < 4; i++) {
    const int nx = pixel % width + neighbours[i][0], ny = pixel / width + neighbours[i][1];
    if (nx < 0 || nx >= width || ny < 0) continue;
    const int32_t other = labels[ny * width + nx];
    if (other) *label = *label ? join(parent, *label, other) : other;
  }
  if (*label) return;
  *label = (*next)++;
  parent[*label] = *label;
}

Region *grid_regions(const uint8_t *grid, int width, int height, int32_t *labels, int *count) {
  const int pixels = width * height;
  /* At most one pixel of a square of 2 x 2 begins a region. */
  const int most = (width + 1) / 2 * ((height + 1) / 2) + 1;
  int32_t *parent = make_array(parent, most), next = 1;
  if (!parent) return NULL;
  memset(labels, 0, (size_t)pixels * sizeof *labels);
  for (int i = 0; i < pixels; i++)
    if (grid[i]) label_pixel(labels, width, i, parent, &next);
  /* Roots come before what is joined to them: they become numbers, others take their root's. */
  *count = 0;
  for (int32_t label = 1; label < next; label++)
    parent[label] = parent[label] == label ? -++*count : parent[parent[label]];
  Region *regions = make_array(regions, *count + 1);
  for (int i = 0; regions && i < *count; i++)
    regions[i] = (Region){.box = {width, height, 0, 0}, .part_of = i};
  for (int i = 0; regions && i < pixels; i++) {
    if (!labels[i]) continue;
    const int x = i % width, y = i / width;
    Region *r = &regions[(labels[i] = -parent[labels[i]]) - 1];
    r->box = box_around(r->box, (Box){x, y, x + 1, y + 1});
    r->pixels++;
    r->left += x == 0, r->right += x == width - 1;
    r->top += y == 0, r->bottom += y == height - 1;
  }
  free(parent);
  return regions;
}
