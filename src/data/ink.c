#include "data/ink.h"

#include <math.h>
#include <string.h>

/* Contrast, of 255, that ink must have: 20 levels on white paper. */
enum { LEAST_CONTRAST = 20 };

/* The ground's noise reaches so many times the median deviation from its median: 2.7 standard
   deviations of a normal distribution. */
enum { NOISE_DEVIATIONS = 4 };

static int pixels_of(const Ink *ink) {
  return ink->width * ink->height;
}

/* ---- ground ------------------------------------------------------------------------------- */

static void invert(uint8_t *grid, int count) {
  for (int i = 0; i < count; i++) grid[i] = (uint8_t)(255 - grid[i]);
}

/* Copies the picture with its outermost pixels repeated `margin` times around it: padded is
   (height + 2 margin, width + 2 margin). */
static void pad(const uint8_t *level, const Ink *ink, int margin, uint8_t *padded) {
  const int width = ink->width + 2 * margin;
  for (int y = 0; y < ink->height + 2 * margin; y++) {
    const uint8_t *row = level + min_int(max_int(y - margin, 0), ink->height - 1) * ink->width;
    uint8_t *to = padded + y * width;
    memset(to, row[0], (size_t)margin);
    memcpy(to + margin, row, (size_t)ink->width);
    memset(to + margin + ink->width, row[ink->width - 1], (size_t)margin);
  }
}

/* Overwrites `level` by the ground as it would be without dark ink. A closing fills every dark
   place that a square of `scale` pixels does not fit into and leaves larger ones, and straight
   edges, as they are (Serra, "Image analysis and mathematical morphology", 1982). The mean before
   it keeps the brightest grain from deciding; the margin lets edges go on beyond the picture. */
static bool find_ground(uint8_t *level, const Ink *ink) {
  enum { GRAIN = 128 }; /* its radius to `scale`: more would wash out the edges of shadows */
  const int radius = ink->scale / 2, width = ink->width + 2 * radius,
            height = ink->height + 2 * radius;
  const int count = width * height;
  uint8_t *ground = make_array(ground, count);
  if (!ground) return false;
  bool good = grid_mean(level, ink->width, ink->height, ink->scale / GRAIN, level);
  pad(level, ink, radius, ground);
  good = good && grid_dilate(ground, width, height, radius);
  invert(ground, count);
  good = good && grid_dilate(ground, width, height, radius);
  for (int i = 0; good && i < pixels_of(ink); i++)
    level[i] = 255 - ground[(i / ink->width + radius) * width + i % ink->width + radius];
  free(ground);
  return good;
}

/* Ink is the smaller part of its surroundings and differs more from their mean, so the skewness of
   the differences tells whether it is light. Edges of shadows differ to both sides. A pixel stands
   out by the share of the light that dark ink takes, or by what chalk adds to a board's black. */
static bool find_contrast(const Image *image, Ink *ink) {
  const int count = pixels_of(ink);
  uint8_t *ground = make_array(ground, count);
  int64_t skewness = 0;
  bool good = ground && grid_mean(image->level, ink->width, ink->height, ink->scale, ground);
  for (int i = 0; good && i < count; i++) {
    const int64_t difference = image->level[i] - ground[i];
    skewness += difference * difference * difference;
  }
  const bool light = skewness > 0;
  if (good) {
    memcpy(ground, image->level, (size_t)count);
    if (light) invert(ground, count);
    good = find_ground(ground, ink);
  }
  for (int i = 0; good && i < count; i++) {
    const int level = light ? 255 - image->level[i] : image->level[i], lost = ground[i] - level;
    ink->contrast[i] =
        lost <= 0 ? 0 : (uint8_t)(light ? lost : (255 * lost + ground[i] / 2) / ground[i]);
  }
  free(ground);
  return good;
}

/* ---- noise -------------------------------------------------------------------------------- */

/* Returns the smallest value that more than `rank` of the counted values do not exceed. */
static int value_of_rank(const int histogram[256], int rank) {
  int value = 0;
  for (int below = histogram[0]; below <= rank; below += histogram[value]) value++;
  return value;
}

/* Counts the pixels of each contrast. */
static void count_values(const Ink *ink, int values[256]) {
  memset(values, 0, 256 * sizeof *values);
  for (int i = 0; i < pixels_of(ink); i++) values[ink->contrast[i]]++;
}

/* Measures the noise of the ground and subtracts the ground's median from all contrast. Most of a
   picture is ground. */
static void find_noise(Ink *ink) {
  int values[256], deviations[256] = {0};
  const int count = pixels_of(ink);
  count_values(ink, values);
  const int median = value_of_rank(values, count / 2);
  for (int value = 0; value < 256; value++) deviations[abs(value - median)] += values[value];
  ink->noise = NOISE_DEVIATIONS * value_of_rank(deviations, count / 2);
  for (int i = 0; i < count; i++) ink->contrast[i] = (uint8_t)max_int(0, ink->contrast[i] - median);
}

/* Returns the strongest contrast; one pixel in ten thousand is ignored as an outlier. */
static int strongest(const Ink *ink) {
  int values[256];
  const int count = pixels_of(ink);
  count_values(ink, values);
  return value_of_rank(values, count - 1 - count / 10000);
}

/* ---- ruled and squared paper -------------------------------------------------------------- */

/* Lines along one direction of the picture, `a`; `b` is across. */
typedef struct {
  int count_a, count_b;
  int step_a, step_b; /* from one pixel to the next */
  int length;         /* of a line, at least */
  int thickest;       /* of one, at most */
  int tolerance;      /* pixels that it may stray from straight */
  int floor;          /* contrast of what is seen at all */
  uint8_t *contrast;
  uint8_t *run;     /* of a pixel across the line, in pixels; 0: none, or too thick */
  uint8_t *line;    /* 1: of a line */
  uint8_t *support; /* (count_a / STRIDE, count_b): BESIDE a run, OVER where only something thicker
                       is, else 0 */
} Lines;

/* Least length of a line as a share of the picture's side, and its length to its thickness. A
   stroke of a pen is not so long and so thin. */
static const double LINE_LENGTH = 0.45;
enum { LINE_THINNESS = 40, LEAST_THINNESS = 25, MIN_THICKNESS = 3 };

/* Support for a line at a pixel, and the least share of the most that a whole line can have: a line
   may be written over or crossed by others, but not everywhere. */
enum { OVER = 1, BESIDE = 2 };
enum { STRIDE = 4 }; /* one pixel in so many along a line tells */
static const double LINE_SHARE = 0.7;

/* Slope of the steepest line: 22 degrees. */
static const double STEEPEST = 0.4;

static int at(const Lines *l, int a, int b) {
  return a * l->step_a + b * l->step_b;
}

static void find_runs(Lines *l) {
  for (int a = 0; a < l->count_a; a++)
    for (int b = 0, end; b < l->count_b; b = end + 1) {
      for (end = b; end < l->count_b && l->contrast[at(l, a, end)] > l->floor;) end++;
      if (end == b) continue;
      const bool thin = end - b <= l->thickest;
      for (int i = b; thin && i < end; i++) l->run[at(l, a, i)] = (uint8_t)(end - b);
      if (a % STRIDE) continue;
      const int first = max_int(0, b - l->tolerance),
                last = min_int(l->count_b, end + l->tolerance);
      uint8_t *support = l->support + a / STRIDE * l->count_b;
      for (int i = first; i < last; i++)
        if (support[i] < BESIDE) support[i] = thin ? BESIDE : OVER;
    }
}

/* Marks the runs near b where the straight line passes. */
static void mark(const Lines *l, int a, int b) {
  const int first = max_int(0, b - l->tolerance), last = min_int(l->count_b, b + l->tolerance + 1);
  for (int i = first; i < last; i++)
    if (l->run[at(l, a, i)]) l->line[at(l, a, i)] = 1;
}

static int support_at(const Lines *l, int i, int b) {
  return b >= 0 && b < l->count_b ? l->support[i * l->count_b + b] : 0;
}

/* Follows one straight line, offset[a] from `start`, with a window of l->length. */
static void follow(const Lines *l, int start, const int *offset) {
  const int window = l->length / STRIDE;
  int inside = 0, marked = 0; /* marked: up to there */
  for (int i = 0; i * STRIDE < l->count_a; i++) {
    const int first = i - window, end = min_int(l->count_a, (i + 1) * STRIDE);
    inside += support_at(l, i, start + offset[i * STRIDE]);
    if (first >= 0) inside -= support_at(l, first, start + offset[first * STRIDE]);
    if (inside < LINE_SHARE * BESIDE * window) continue;
    for (marked = max_int(marked, (first + 1) * STRIDE); marked < end; marked++)
      mark(l, marked, start + offset[marked]);
  }
}

/* Adds up the support of every line of a slope, from that which starts at `lowest` (Hough, "Machine
   analysis of bubble chamber pictures", 1959). */
static void vote(const Lines *l, const int *offset, int lowest, uint16_t *votes) {
  for (int i = 0; i * STRIDE < l->count_a; i++) {
    const uint8_t *support = l->support + i * l->count_b;
    const int first = -offset[i * STRIDE] - lowest;
    for (int b = 0; b < l->count_b; b++) votes[first + b] += support[b];
  }
}

/* Tries every slope; two neighbours part by the tolerance over a line's length. Only lines with
   the votes of a window are followed. */
static bool find_lines(const Lines *l) {
  const int most = l->count_b + (int)(STEEPEST * l->count_a) + 1;
  int *offset = make_array(offset, l->count_a);
  uint16_t *votes = make_array(votes, most);
  const double step = 2.0 * l->tolerance / l->length;
  const int steps = (int)(STEEPEST / step), whole = BESIDE * (l->length / STRIDE); /* of votes */
  for (int slope = -steps; offset && votes && slope <= steps; slope++) {
    for (int a = 0; a < l->count_a; a++) offset[a] = (int)floor(slope * step * a);
    const int last = offset[l->count_a - 1], lowest = min_int(0, -last);
    memset(votes, 0, (size_t)most * sizeof *votes);
    vote(l, offset, lowest, votes);
    for (int start = lowest; start < l->count_b + max_int(0, -last); start++)
      if (votes[start - lowest] >= LINE_SHARE * whole) follow(l, start, offset);
  }
  const bool good = offset && votes;
  free(offset);
  free(votes);
  return good;
}

/* Returns the median of the values on lines. */
static int median_on_lines(const Lines *l, const uint8_t *values) {
  int histogram[256] = {0}, count = 0;
  for (int i = 0; i < l->count_a * l->count_b; i++)
    if (l->line[i]) histogram[values[i]]++, count++;
  return count ? value_of_rank(histogram, count / 2) : 0;
}

/* Erases a line where it is neither thicker nor stronger than lines; elsewhere it is written
   over. */
static void erase_lines(const Lines *l) {
  const int thick = 2 * median_on_lines(l, l->run);
  const int strong = median_on_lines(l, l->contrast) * 8 / 5 + l->floor / 2;
  for (int a = 0; a < l->count_a; a++)
    for (int b = 0; b < l->count_b; b++) {
      const int run = l->run[at(l, a, b)];
      bool is_line = false;
      for (int i = 0; i < run; i++) is_line = is_line || l->line[at(l, a, b + i)];
      for (int i = 0; is_line && run <= thick && i < run; i++)
        if (l->contrast[at(l, a, b + i)] <= strong) l->contrast[at(l, a, b + i)] = 0;
      if (run > 0) b += run - 1;
    }
}

static bool remove_lines(Ink *ink, bool down) {
  const int count = pixels_of(ink), width = ink->width;
  Lines l = {.count_a = down ? ink->height : ink->width,
             .count_b = down ? ink->width : ink->height,
             .step_a = down ? width : 1,
             .step_b = down ? 1 : width,
             .floor = max_int(ink->noise, LEAST_CONTRAST / 2),
             .contrast = ink->contrast};
  l.length = (int)(LINE_LENGTH * l.count_a);
  l.thickest = min_int(
      255, max_int(l.length / LINE_THINNESS, min_int(MIN_THICKNESS, l.length / LEAST_THINNESS)));
  l.tolerance = max_int(1, l.length / 150);
  if (l.thickest < 1) return true; /* too small a picture to tell */
  l.run = make_array(l.run, 3 * count);
  if (!l.run) return false;
  l.line = l.run + count;
  l.support = l.line + count;
  find_runs(&l);
  const bool found = find_lines(&l);
  if (found) erase_lines(&l);
  free(l.run);
  return found;
}

/* ---- the desk beside the paper ------------------------------------------------------------ */

/* Removes the regions that lie along half of a side of the picture: they are not digits. */
static bool remove_edges(Ink *ink, int floor) {
  const int w = ink->width, h = ink->height, count = w * h;
  uint8_t *seen = make_array(seen, count);
  int32_t *labels = make_array(labels, count);
  int found;
  for (int i = 0; seen && i < count; i++) seen[i] = ink->contrast[i] > floor;
  Region *regions = seen && labels ? grid_regions(seen, w, h, labels, &found) : NULL;
  for (int i = 0; regions && i < count; i++) {
    if (!labels[i]) continue;
    const Region *r = &regions[labels[i] - 1];
    if (2 * max_int(r->top, r->bottom) > w || 2 * max_int(r->left, r->right) > h)
      ink->contrast[i] = 0;
  }
  const bool good = regions != NULL;
  free(regions);
  free(labels);
  free(seen);
  return good;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static bool is_none(const Ink *ink) {
  const int full = strongest(ink);
  return full < LEAST_CONTRAST || full < 2 * ink->noise;
}

/* The scale: a third of the shorter side, or half in a picture so small that a digit fills it. */
static int scale_of(int side) {
  enum { SMALL = 48 };
  return max_int(3, max_int(side / 3, min_int(side / 2, SMALL)));
}

bool ink_find(const Image *image, Ink *ink, bool *none) {
  const int side = min_int(image->width, image->height);
  *ink = (Ink){.width = image->width, .height = image->height, .scale = scale_of(side)};
  ink->contrast = make_array(ink->contrast, pixels_of(ink));
  *none = false;
  bool good = ink->contrast && find_contrast(image, ink);
  if (good) {
    find_noise(ink);
    *none = is_none(ink);
  }
  good = good && !*none && remove_lines(ink, false) && remove_lines(ink, true) &&
         remove_edges(ink, max_int(ink->noise, strongest(ink) / 4));
  if (good) *none = is_none(ink);
  if (!good || *none) ink_free(ink);
  return ink->contrast != NULL;
}

void ink_free(Ink *ink) {
  free(ink->contrast);
  *ink = (Ink){0};
}
