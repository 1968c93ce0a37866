#include "data/photograph.h"

#include <math.h>
#include <string.h>

/* The ink of a picture. Ink stands out from its background, even if the light is uneven. */
typedef struct {
  int width, height;
  int scale;         /* widest stroke of a pen in pixels; a wider area is background, not ink */
  int noise;         /* the greatest contrast that a pixel of the background may have */
  uint8_t *contrast; /* (height, width): how far each pixel stands out from the background */
  int32_t *labels;   /* (height, width): 1 + index of the pixel's piece; 0 for background */
  Region *pieces;    /* connected areas of ink; part_of is -1 for a piece that is ignored */
  int count;         /* number of pieces */
} Ink;

/* ---- ground and contrast ------------------------------------------------------------------ */

static void invert(uint8_t *grid, int count) {
  for (int i = 0; i < count; i++) grid[i] = (uint8_t)(255 - grid[i]);
}

/* Returns the level of the pixel that is nearest to (x, y). */
static int level_at(const Image *image, int x, int y) {
  x = min_int(max_int(x, 0), image->width - 1), y = min_int(max_int(y, 0), image->height - 1);
  return image->level[y * image->width + x];
}

/* Sets ink->contrast. First decides whether the ink is light. Ink differs much from its
   surroundings but covers few pixels, so the differences have a positive skewness if the ink is
   light. Shadows have little effect: at their edges, differences have both signs. The contrast of
   dark ink is 255 times the fraction of the background's light that the ink takes away. The
   contrast of light ink, such as chalk, is the light that the ink adds. */
static bool find_contrast(const Image *image, Ink *ink) {
  const int count = ink->width * ink->height;
  uint8_t *ground = make_array(ground, count);
  const int far = ink->scale / 2;
  int64_t skewness = 0;
  bool good = ground;
  for (int i = 0; i < count; i++) {
    const int x = i % ink->width, y = i / ink->width;
    const int64_t difference = 4 * image->level[i] - level_at(image, x - far, y) -
                               level_at(image, x + far, y) - level_at(image, x, y - far) -
                               level_at(image, x, y + far);
    skewness += difference * difference * difference;
  }
  const bool light = skewness > 0;
  if (good) {
    memcpy(ground, image->level, (size_t)ink->width * (size_t)ink->height);
    if (light) invert(ground, count);
  }
  /* A closing fills every dark place that is too small for a square of side `scale`. It does not
     change larger places or straight edges (Serra, "Image analysis and mathematical morphology",
     1982). */
  for (int twice = 0; good && twice < 2; twice++) {
    good = grid_dilate(ground, ink->width, ink->height, far);
    invert(ground, count);
  }
  for (int i = 0; good && i < count; i++) {
    const int level = light ? 255 - image->level[i] : image->level[i], lost = ground[i] - level;
    const int contrast =
        lost <= 0 || light ? max_int(lost, 0) : (255 * lost + ground[i] / 2) / ground[i];
    ink->contrast[i] = (uint8_t)contrast;
  }
  free(ground);
  return good;
}

/* Returns the value that would stand at index `rank` if all counted values were sorted. */
static int value_of_rank(const int histogram[256], int rank) {
  int value = 0;
  for (int below = histogram[0]; below <= rank; below += histogram[value]) value++;
  return value;
}

/* Measures the noise of the background and subtracts the median contrast from every contrast. Most
   pixels are background, so the median is a contrast of background. Returns the strongest contrast,
   ignoring the strongest 10,000th of the pixels. */
static int find_noise(Ink *ink) {
  enum { DEVIATIONS = 4 }; /* 4 median deviations are 2.7 standard deviations of normal noise */
  int values[256] = {0}, deviations[256] = {0};
  const int count = ink->width * ink->height;
  for (int i = 0; i < count; i++) values[ink->contrast[i]]++;
  const int median = value_of_rank(values, count / 2);
  for (int value = 0; value < 256; value++) deviations[abs(value - median)] += values[value];
  ink->noise = DEVIATIONS * value_of_rank(deviations, count / 2);
  for (int i = 0; i < count; i++) ink->contrast[i] = (uint8_t)max_int(0, ink->contrast[i] - median);
  return max_int(0, value_of_rank(values, count - 1 - count / 10000) - median);
}

/* A pixel is ink only if it has at least this fraction of the picture's strongest contrast. */
static const double INK_SHARE = 0.3;

/* Finds dark ink on a light background or light ink on a dark background, and divides it into
   pieces. Finds no pieces if nothing stands out. Returns false if memory runs out. */
static bool find_ink(const Image *image, Ink *ink) {
  enum { LEAST_CONTRAST = 20 }; /* the strongest contrast must be at least 20 of 255 */
  enum { SMALL = 48 }; /* pixels; a stroke up to this width may fill half of a picture's side */
  const int side = min_int(image->width, image->height), count = image->width * image->height;
  *ink = (Ink){.width = image->width,
               .height = image->height,
               .scale = max_int(3, max_int(side / 3, min_int(side / 2, SMALL))),
               .contrast = make_array(ink->contrast, count),
               .labels = make_array(ink->labels, count)};
  uint8_t *mask = make_array(mask, count);
  bool good = mask && ink->contrast && ink->labels && find_contrast(image, ink);
  const int strongest = good ? find_noise(ink) : 0;
  const double least = fmax(ink->noise + 1, INK_SHARE * strongest);
  if (strongest >= max_int(LEAST_CONTRAST, 2 * ink->noise)) {
    for (int i = 0; i < count; i++) mask[i] = ink->contrast[i] >= least;
    ink->pieces = grid_regions(mask, ink->width, ink->height, ink->labels, &ink->count);
    good = ink->pieces;
  }
  free(mask);
  return good;
}

static void free_ink(Ink *ink) {
  free(ink->contrast);
  free(ink->labels);
  free(ink->pieces);
}

/* ---- crops and frames ----------------------------------------------------------------------- */

/* Returns the level that separates two classes best: it maximises the variance between the classes
   (Otsu, "A threshold selection method from gray-level histograms", 1979). */
static int separating_level(const int histogram[256]) {
  double count = 0, total = 0, below = 0, sum_below = 0, best = -1;
  int level = 0;
  for (int i = 0; i < 256; i++) count += histogram[i], total += (double)i * histogram[i];
  for (int i = 0; i < 255; i++) {
    below += histogram[i];
    sum_below += (double)i * histogram[i];
    if (below == 0 || below == count) continue;
    const double apart = sum_below / below - (total - sum_below) / (count - below);
    const double between = below * (count - below) * apart * apart;
    if (between <= best) continue;
    best = between;
    level = i;
  }
  return level;
}

/* Returns how far a frame along the picture's border reaches, or 0 if there is none. The picture
   consists of rings of pixels, one inside the other. In the frame and in the margin outside of it,
   every ring is all above `level` or all not, except for up to two rings of a soft edge. The frame
   ends where a ring of the other kind follows. */
static int width_of_frame(const Image *image, int level) {
  enum { SOFT = 2 };
  const int width = image->width, height = image->height, most = min_int(width, height) / 8;
  int end = 0, soft = 0;
  bool was_light = level_at(image, 0, 0) > level;
  for (int ring = 0; ring < most && soft <= SOFT; ring++) {
    int light = 0;
    for (int x = ring; x < width - ring; x++)
      light += (level_at(image, x, ring) > level) + (level_at(image, x, height - 1 - ring) > level);
    for (int y = ring + 1; y < height - 1 - ring; y++)
      light += (level_at(image, ring, y) > level) + (level_at(image, width - 1 - ring, y) > level);
    const bool is_even = light == 0 || light == 2 * (width + height - 4 * ring - 2);
    if (is_even && (light > 0) != was_light) end = ring;
    if (is_even) was_light = light > 0;
    soft = is_even ? 0 : soft + 1;
  }
  return end;
}

/* Returns true if one connected piece of the pixels above `level` (if `light`) or of the others
   reaches all four sides of the picture. The edge of ink is soft, so the piece may end a little
   before a side, but not before all of them, as the inside of a frame does. */
static bool reaches_all_sides(const Image *image, int level, bool light) {
  const int width = image->width, height = image->height, count = width * height;
  const int soft = 1 + max_int(width, height) / 16; /* width of the soft edge in pixels */
  uint8_t *mask = make_array(mask, count);
  int32_t *labels = make_array(labels, count);
  int found = 0;
  bool reaches = false;
  for (int i = 0; mask && i < count; i++) mask[i] = (image->level[i] > level) == light;
  Region *pieces = mask && labels ? grid_regions(mask, width, height, labels, &found) : NULL;
  for (int i = 0; pieces && i < found; i++) {
    const Box b = pieces[i].box;
    const int gap[] = {b.left, b.top, width - b.right, height - b.bottom};
    int touched = 0, farthest = 0;
    foreach (side, gap) {
      touched += *side == 0;
      farthest = max_int(farthest, *side);
    }
    reaches = reaches || (touched > 0 && farthest <= soft);
  }
  free(pieces);
  free(labels);
  free(mask);
  return reaches;
}

/* Returns how many pixels of ground to add around a picture that is cropped to the ink of one
   digit, minus the width of a frame along its border, or 0 for other pictures. Sets *ground to the
   ground's level. In a crop one piece of ink reaches all four sides, but most corners show the
   ground; if only two do, as beside a slanting 1, the ground does not reach all sides. The ink may
   cover most of a crop, so find_contrast would take it for the ground. */
static int margin_wanted(const Image *image, int *ground) {
  enum { LEAST_APART = 64 }; /* least difference between the levels of ink and ground */
  const int count = image->width * image->height, right = image->width - 1;
  const int corner[] = {0, right, count - 1 - right, count - 1};
  int histogram[256] = {0}, kind[2][256] = {{0}}, pixels[2] = {0}, light_corners = 0;
  for (int i = 0; i < count; i++) histogram[image->level[i]]++;
  const int level = separating_level(histogram);
  for (int i = 0; i < 256; i++) {
    kind[i > level][i] = histogram[i];
    pixels[i > level] += histogram[i];
  }
  if (pixels[0] == 0 || pixels[1] == 0) return 0;
  /* The pixels that are least like the other class, as many of the rest may be soft edges of ink.
   */
  const int dark = value_of_rank(kind[0], pixels[0] / 10),
            light = value_of_rank(kind[1], pixels[1] - 1 - pixels[1] / 10);
  if (light - dark < LEAST_APART) return 0;
  foreach (at, corner) light_corners += image->level[*at] > level;
  const bool dark_ink = light_corners >= 2 && reaches_all_sides(image, level, false);
  const bool light_ink = light_corners <= 2 && reaches_all_sides(image, level, true);
  if (dark_ink == light_ink) return -width_of_frame(image, level);
  *ground = dark_ink ? light : dark;
  return max_int(image->width, image->height) / 2 + 1;
}

/* Returns the picture with `margin` more pixels of ground on each side, or with -margin fewer
   pixels. If `margin` is not 0, the caller frees its levels, which are NULL if memory runs out. */
static Image with_margin(const Image *image, int margin, int ground) {
  Image other = *image;
  if (margin == 0) return other;
  other.width += 2 * margin;
  other.height += 2 * margin;
  other.level = malloc((size_t)other.width * (size_t)other.height);
  if (!other.level) return other;
  memset(other.level, ground, (size_t)other.width * (size_t)other.height);
  const int cut = max_int(0, -margin), added = max_int(0, margin);
  for (int y = cut; y < image->height - cut; y++)
    memcpy(other.level + (y + margin) * other.width + added, image->level + y * image->width + cut,
           (size_t)(image->width - 2 * cut));
  return other;
}

/* ---- from pieces to digits ---------------------------------------------------------------- */

static bool at_border(const Ink *ink, const Region *r) {
  return r->box.left == 0 || r->box.top == 0 || r->box.right == ink->width ||
         r->box.bottom == ink->height;
}

static bool is_inside(Box a, Box b) {
  return a.left > b.left && a.top > b.top && a.right < b.right && a.bottom < b.bottom;
}

/* Returns true if the piece's ink covers nearly all of each side of its box, as the ink of a frame
   does. Of the sides of a 0, an 8 or a 4 it covers less. Ink within 1 / EDGE of the box's extent
   counts as being at a side, so that a frame may be drawn by hand. */
static bool has_four_sides(const Ink *ink, const Region *piece) {
  enum { EDGE = 16 };
  static const double COVERED = 0.8;
  const Box b = piece->box;
  const int own = (int)(piece - ink->pieces) + 1, edge = 1 + box_extent(b) / EDGE;
  int left = 0, right = 0, top = 0, bottom = 0; /* rows and columns with ink at that side */
#define IS_OWN(X, Y) (ink->labels[(Y)*ink->width + (X)] == own)
  for (int y = b.top; y < b.bottom; y++) {
    bool at_left = false, at_right = false;
    for (int i = 0; i < edge && i < box_width(b); i++) {
      at_left = at_left || IS_OWN(b.left + i, y);
      at_right = at_right || IS_OWN(b.right - 1 - i, y);
    }
    left += at_left, right += at_right;
  }
  for (int x = b.left; x < b.right; x++) {
    bool at_top = false, at_bottom = false;
    for (int i = 0; i < edge && i < box_height(b); i++) {
      at_top = at_top || IS_OWN(x, b.top + i);
      at_bottom = at_bottom || IS_OWN(x, b.bottom - 1 - i);
    }
    top += at_top, bottom += at_bottom;
  }
#undef IS_OWN
  return min_int(left, right) >= COVERED * box_height(b) &&
         min_int(top, bottom) >= COVERED * box_width(b);
}

/* Leaves out frames around digits: pieces with four sides and with another piece inside, which is
   at least a quarter as high. */
static void leave_out_frames(Ink *ink) {
  enum { SMALLEST = 4 };
  for (int i = 0; i < ink->count; i++) {
    Region *frame = &ink->pieces[i];
    bool surrounds = false;
    /* A thinner piece cannot cover four sides. This spares most pieces the search. */
    if (frame->pixels < box_width(frame->box) + box_height(frame->box)) continue;
    for (int j = 0; j < ink->count && !surrounds; j++)
      surrounds = is_inside(ink->pieces[j].box, frame->box) &&
                  SMALLEST * box_height(ink->pieces[j].box) >= box_height(frame->box);
    if (surrounds && has_four_sides(ink, frame)) frame->part_of = -1;
  }
}

/* Returns the piece with the most ink. All other pieces are compared with it. Pieces at the border
   count only if nothing but specks is inside. Such a speck is a few pixels of noise or of an edge.
   Frames do not count. */
static const Region *find_largest(const Ink *ink) {
  enum { SPECK = 8 };                      /* pixels; the piece at the border has 8 times as many */
  const Region *largest[2] = {NULL, NULL}; /* largest piece inside; largest at the border */
  for (int i = 0; i < ink->count; i++) {
    const Region **most = &largest[at_border(ink, &ink->pieces[i])];
    if (ink->pieces[i].part_of < 0) continue;
    if (!*most || ink->pieces[i].pixels > (*most)->pixels) *most = &ink->pieces[i];
  }
  const Region *inside = largest[0], *outside = largest[1];
  const bool is_speck =
      inside && outside && inside->pixels <= SPECK && SPECK * inside->pixels <= outside->pixels;
  return inside && !is_speck ? inside : outside;
}

/* Returns true if two pieces belong to one digit, as do the top bar of a 5 and the rest of the 5:
   one of the two is small, and their boxes overlap or nearly overlap. */
static bool belong(Box a, Box b) {
  enum { GAP = 12 }; /* the gap is at most 1 / GAP of the higher piece's height */
  const int higher = max_int(box_height(a), box_height(b)), near = higher / GAP;
  const bool small = 3 * min_int(box_extent(a), box_extent(b)) < 2 * higher;
  return small && a.left <= b.right + near && b.left <= a.right + near &&
         a.top <= b.bottom + near && b.top <= a.bottom + near;
}

enum { MOST_PIECES = 8 * PHOTOGRAPH_MOST };

/* Joins pieces into digits until nothing changes. Returns the number of pieces that remain. */
static int join_pieces(Region **pieces, int count) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < count; i++)
      for (int j = i + 1; j < count; j++) {
        Region *a = pieces[i], *b = pieces[j];
        if (!belong(a->box, b->box)) continue;
        a->box = box_around(a->box, b->box);
        b->part_of = a->part_of;
        pieces[j--] = pieces[--count];
        changed = true;
      }
  }
  return count;
}

/* Returns the index of the digit that a piece belongs to, or -1 if the piece is ignored. */
static int digit_of(const Ink *ink, int piece) {
  while (piece >= 0 && ink->pieces[piece].part_of != piece) piece = ink->pieces[piece].part_of;
  return piece;
}

/* Finds the digits among the pieces. Returns the number of digits, or more than PHOTOGRAPH_MOST if
   there are too many pieces. A digit has at least 2/5 of the largest digit's extent and 1/4 of its
   height, and is at most 3 times as wide as high. */
static int find_digits(Ink *ink, Region *digits[MOST_PIECES]) {
  enum { LEAST = 12 }; /* a piece with less than 1 / LEAST of the largest piece's extent is dust */
  leave_out_frames(ink);
  const Region *largest = find_largest(ink);
  int kept = 0, count = 0;
  if (!largest) return 0;
  const int extent = box_extent(largest->box);
  for (int i = 0; i < ink->count; i++) {
    Region *piece = &ink->pieces[i];
    const int its = box_extent(piece->box);
    if (piece->part_of < 0) continue;
    if ((at_border(ink, piece) && !at_border(ink, largest)) || LEAST * its < extent)
      piece->part_of = -1;
    else if (kept == MOST_PIECES)
      return kept;
    else
      digits[kept++] = piece;
  }
  kept = join_pieces(digits, kept);
  largest = &ink->pieces[digit_of(ink, (int)(largest - ink->pieces))];
  for (int i = 0; i < kept; i++) {
    const Box box = digits[i]->box;
    if (digits[i] == largest ||
        (5 * box_extent(box) >= 2 * box_extent(largest->box) &&
         4 * box_height(box) >= box_height(largest->box) && box_width(box) <= 3 * box_height(box)))
      digits[count++] = digits[i];
  }
  return count;
}

/* ---- reading order ------------------------------------------------------------------------ */

/* A digit with its centre and its line. The line meets the picture's left side at y = start. */
typedef struct {
  Region *digit;
  double x, y, height, start;
  int line;
} Written;

static int by_left(const void *a, const void *b) {
  const Box *x = &((const Written *)a)->digit->box, *y = &((const Written *)b)->digit->box;
  return x->left != y->left ? x->left - y->left : x->top - y->top;
}

static int by_line(const void *a, const void *b) {
  const Written *x = a, *y = b;
  if (x->line == y->line) return by_left(a, b);
  return x->start != y->start ? (x->start > y->start) - (x->start < y->start) : x->line - y->line;
}

/* Adds each digit, from left to right, to the line whose last digit is about level with it: the
   centres of the two differ by at most half of the taller digit's height. If there is no such line,
   starts a new line. Returns the mean slope of the lines. */
static double find_lines(Written *w, int count, double slope) {
  int last[PHOTOGRAPH_MOST], lines = 0;
  double across = 0, down = 0;
  for (int i = 0; i < count; i++) {
    double nearest = 1;
    w[i].line = lines;
    for (int l = 0; l < lines; l++) {
      const Written *other = &w[last[l]];
      const double dy = w[i].y - other->y - slope * (w[i].x - other->x),
                   off = 2 * fabs(dy) / fmax(w[i].height, other->height);
      if (off > nearest) continue;
      nearest = off;
      w[i].line = l;
    }
    const int line = w[i].line;
    if (line == lines)
      lines++, w[i].start = w[i].y - slope * w[i].x;
    else {
      across += w[i].x - w[last[line]].x;
      down += w[i].y - w[last[line]].y;
      w[i].start = w[last[line]].start;
    }
    last[line] = i;
  }
  return across > 0 ? down / across : 0;
}

/* Sorts digits by lines, and from left to right in each line. Sets rows[i] to the line of digit i.
   Returns the slope of the lines, or 0 if the slope is too steep or nearly level, or if there are
   too few digits. */
static double put_in_order(Region **digits, int count, int *rows) {
  enum { LEAST_TELLING = 3 };
  static const double STEEPEST = 0.21, LEVEL = 0.03; /* slopes of about 12 and 2 degrees */
  Written w[PHOTOGRAPH_MOST];
  for (int i = 0; i < count; i++) {
    const Box b = digits[i]->box;
    w[i] = (Written){
        digits[i], (b.left + b.right) / 2.0, (b.top + b.bottom) / 2.0, box_height(b), 0, 0};
  }
  qsort(w, (size_t)count, sizeof *w, by_left);
  double slope = find_lines(w, count, 0);
  if (fabs(slope) > STEEPEST) slope = 0;
  find_lines(w, count, slope);
  qsort(w, (size_t)count, sizeof *w, by_line);
  for (int i = 0, row = 0; i < count; i++) {
    if (i > 0 && w[i].line != w[i - 1].line) row++;
    rows[i] = row;
    digits[i] = w[i].digit;
  }
  return count < LEAST_TELLING || fabs(slope) < LEVEL ? 0 : slope;
}

/* ---- from a digit's ink to a row of MNIST ------------------------------------------------- */

/* Sets *first and *end so that the lines *first to *end - 1 hold the digit. A line is a row or a
   column of pixels; sums[i] is the ink of line i. The lines left out at both ends are noise: each
   has less than 2% of the ink of the fullest line. */
static void trim(const double *sums, int lines, int *first, int *end) {
  double fullest = 0;
  for (int i = 0; i < lines; i++) fullest = fmax(fullest, sums[i]);
  for (*first = 0; sums[*first] < 0.02 * fullest;) ++*first;
  for (*end = lines; sums[*end - 1] < 0.02 * fullest;) --*end;
}

/* Returns the mean of `level` over x0 <= x < x1 and y0 <= y < y1. A pixel is a square of side 1. */
static double mean_ink(const double *level, int width, double x0, double x1, double y0, double y1) {
  double sum = 0;
  for (int y = (int)y0; y < y1; y++) {
    double line = 0;
    for (int x = (int)x0; x < x1; x++)
      line += (fmin(x + 1, x1) - fmax(x, x0)) * level[y * width + x];
    sum += (fmin(y + 1, y1) - fmax(y, y0)) * line;
  }
  return sum / ((x1 - x0) * (y1 - y0));
}

/* Sizes and centres the ink in `box` as MNIST's digits are. `level` is `width` pixels wide. The
   strongest pixel becomes 255. Scaling makes thin lines grey, but MNIST has no pale digits. */
static bool normalise(const double *level, int width, Box box, int side, uint8_t *pixels) {
  enum { MNIST_BOX = 20, MNIST_SIDE = 28 }; /* pixels: side of a digit, side of a picture */
  const double factor = round(side * MNIST_BOX / (double)MNIST_SIDE) / box_extent(box);
  const int across = max_int(1, (int)round(box_width(box) * factor)),
            down = max_int(1, (int)round(box_height(box) * factor));
  const double dx = (double)box_width(box) / across, dy = (double)box_height(box) / down;
  double strongest = 0, *digit = make_array(digit, across * down);
  if (!digit) return false;
  for (int i = 0; i < across * down; i++) {
    const int row = i / across;
    const double x = box.left + i % across * dx, y = box.top + row * dy;
    digit[i] = mean_ink(level, width, x, fmin(x + dx, box.right), y, fmin(y + dy, box.bottom));
    strongest = fmax(strongest, digit[i]);
  }
  for (int i = 0; i < across * down; i++) digit[i] *= 255 / strongest;
  grid_centre(digit, across, down, side, pixels);
  free(digit);
  return true;
}

/* Cuts out a digit's ink and the pale pixels that may be its soft edge. Turns the digit so that a
   line of digits with this slope becomes level. Then sizes and centres the digit. */
static bool read_digit(const Ink *ink, const Region *digit, double slope, int side,
                       uint8_t *pixels) {
  enum { EDGE = 8, LEAST_EDGE = 2 }; /* edge width in pixels: scale / EDGE, at least LEAST_EDGE */
  enum { LEAST_TURNED = 8 };         /* pixels; turning a smaller digit would lose ink */
  const int own = (int)(digit - ink->pieces), edge = max_int(LEAST_EDGE, ink->scale / EDGE);
  if (box_extent(digit->box) < LEAST_TURNED) slope = 0;
  const double cosine = 1 / sqrt(1 + slope * slope), sine = slope * cosine;
  const Box b = {max_int(0, digit->box.left - edge), max_int(0, digit->box.top - edge),
                 min_int(ink->width, digit->box.right + edge),
                 min_int(ink->height, digit->box.bottom + edge)};
  const double w = box_width(b), h = box_height(b);
  const int width = (int)ceil(w * cosine + h * fabs(sine)),
            height = (int)ceil(w * fabs(sine) + h * cosine);
  double *level = make_array(level, width * height + width + height);
  if (!level) return false;
  double *columns = level + width * height, *rows = columns + width;
  for (int i = 0; i < width * height; i++) {
    const int row = i / width;
    const double right = i % width + 0.5 - width / 2.0, down = row + 0.5 - height / 2.0;
    const int x = b.left + (int)floor(w / 2 + cosine * right - sine * down),
              y = b.top + (int)floor(h / 2 + sine * right + cosine * down);
    if (x < b.left || x >= b.right || y < b.top || y >= b.bottom) continue;
    const int at = y * ink->width + x;
    if (ink->labels[at] && digit_of(ink, ink->labels[at] - 1) != own) continue;
    level[i] = max_int(0, ink->contrast[at] - ink->noise);
    columns[i % width] += level[i];
    rows[row] += level[i];
  }
  Box box;
  trim(columns, width, &box.left, &box.right);
  trim(rows, height, &box.top, &box.bottom);
  const bool good = normalise(level, width, box, side, pixels);
  free(level);
  return good;
}

/* ---- the whole picture -------------------------------------------------------------------- */

/* Returns a box of the picture with a margin in pixels of the file. */
static Box in_file(const Image *image, Box box, int margin) {
  const int k = image->shrunk, left = max_int(0, box.left - margin),
            top = max_int(0, box.top - margin), right = min_int(image->width, box.right - margin),
            bottom = min_int(image->height, box.bottom - margin);
  Box box_in_file = {left * k, top * k, right * k, bottom * k};
  if (right == image->width) box_in_file.right = image->file_width;
  if (bottom == image->height) box_in_file.bottom = image->file_height;
  return box_in_file;
}

bool photograph_find(const Image *image, const char *name, int side, Photograph *photograph,
                     Error *error) {
  Ink ink = {0};
  Region *digits[MOST_PIECES];
  int ground = 0;
  const int size = side * side, margin = margin_wanted(image, &ground);
  Image seen = with_margin(image, margin, ground);
  bool good = seen.level && find_ink(&seen, &ink);
  const int count = good ? find_digits(&ink, digits) : 0;
  photograph->count = count;
  if (count > 0 && count <= PHOTOGRAPH_MOST) {
    const double slope = put_in_order(digits, count, photograph->row);
    for (int i = 0; good && i < count; i++) {
      photograph->box[i] = in_file(image, digits[i]->box, margin);
      good = read_digit(&ink, digits[i], slope, side, photograph->pixels + i * size);
    }
  }
  if (!good)
    error_set(error, "no memory to look for digits in %s", name);
  else if (count == 0)
    good =
        error_set(error, "%s shows no digit: nothing in it stands out from its background", name);
  else if (count > PHOTOGRAPH_MOST)
    good = error_set(error, "%s shows too much: at most %d digits can be found in a picture", name,
                     PHOTOGRAPH_MOST);
  free_ink(&ink);
  if (seen.level != image->level) free(seen.level);
  return good;
}
