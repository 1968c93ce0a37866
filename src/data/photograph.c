#include "data/photograph.h"

#include <math.h>
#include <string.h>

#include "data/ink.h"

typedef struct {
  const Ink *ink;
  int32_t *labels; /* (height, width): 1 + index of the piece, 0 elsewhere */
  Region *pieces;  /* of ink, later whole digits; part_of -1: of none */
  int count;
} Pieces;

/* ---- pieces of ink ------------------------------------------------------------------------ */

/* Ink has at least this share of the strongest contrast nearby. So a pale digit is found beside a
   black one that is not next to it, and a faint rule or stain beside ink is not (after Bernsen,
   "Dynamic thresholding of grey-level images", 1986). */
static const double INK_SHARE = 0.4;

/* Ink has at least this share of the strongest contrast in the picture: paler pixels are the
   ground's grain. */
static const double PALEST_SHARE = 0.25;

/* Sets the mask to 1 where there is ink, to 0 elsewhere. */
static bool find_ink_pixels(const Ink *ink, uint8_t *mask) {
  enum { GRAIN = 64 }; /* scales to the radius of a mean: no pixel decides for all around it */
  const int grain = ink->scale / GRAIN;
  const int count = ink->width * ink->height;
  if (!grid_mean(ink->contrast, ink->width, ink->height, grain, mask)) return false;
  int strongest = 0;
  for (int i = 0; i < count; i++) strongest = max_int(strongest, mask[i]);
  const double least = fmax(ink->noise + 1, PALEST_SHARE * strongest);
  if (!grid_dilate(mask, ink->width, ink->height, ink->scale)) return false;
  for (int i = 0; i < count; i++)
    mask[i] = ink->contrast[i] >= least && ink->contrast[i] >= INK_SHARE * mask[i];
  return true;
}

static bool find_pieces(const Ink *ink, Pieces *p) {
  const int count = ink->width * ink->height;
  uint8_t *mask = make_array(mask, count);
  *p = (Pieces){.ink = ink, .labels = make_array(p->labels, count)};
  if (mask && p->labels && find_ink_pixels(ink, mask))
    p->pieces = grid_regions(mask, ink->width, ink->height, p->labels, &p->count);
  free(mask);
  return p->pieces != NULL;
}

/* True if the piece, not yet joined to others, lies at the border of the picture. */
static bool at_border(const Region *r) {
  return r->left + r->top + r->right + r->bottom > 0;
}

/* ---- which of them are digits ------------------------------------------------------------- */

/* Finds the piece with the most ink, with which others are compared. A piece at the border is
   taken only if those inside are dust beside it. */
static const Region *find_largest(const Pieces *p) {
  enum { DUST = 8 };                       /* dust has less than this part of the extent */
  const Region *largest[2] = {NULL, NULL}; /* inside, at the border */
  for (int i = 0; i < p->count; i++) {
    const Region **most = &largest[at_border(&p->pieces[i])];
    if (!*most || p->pieces[i].pixels > (*most)->pixels) *most = &p->pieces[i];
  }
  if (!largest[0] || !largest[1]) return largest[0] ? largest[0] : largest[1];
  return DUST * box_extent(largest[0]->box) >= box_extent(largest[1]->box) ? largest[0]
                                                                           : largest[1];
}

/* Drops the pieces that cannot be part of a digit. */
static void sort_out(Pieces *p, const Region *largest) {
  enum { LEAST = 12 };    /* pieces to the extent of the largest: less is dust */
  enum { THINNEST = 40 }; /* strokes' widths to an extent: more is the rest of an edge */
  for (int i = 0; i < p->count; i++) {
    Region *piece = &p->pieces[i];
    const bool cut_off = at_border(piece) && !at_border(largest);
    const int extent = box_extent(piece->box);
    const bool thin =
        piece != largest && (int64_t)piece->pixels * THINNEST < (int64_t)extent * extent;
    if (cut_off || thin || LEAST * extent < box_extent(largest->box)) piece->part_of = -1;
  }
}

/* Returns the length that two intervals share; below 0: how far they are apart. */
static int shared(int first_a, int end_a, int first_b, int end_b) {
  return min_int(end_a, end_b) - max_int(first_a, first_b);
}

/* Returns true if two intervals share half of the shorter one. */
static bool share_half(int length, int a, int b) {
  return 2 * length >= min_int(a, b);
}

/* Gaps between pieces of one digit, as parts of the height of the higher piece. A rule that was
   removed leaves a narrow gap; a roof or a foot may stand a wide one off. */
enum { WIDE_GAP = 5, NARROW_GAP = 12 };

/* Returns true if two pieces are one digit. Two pieces beside each other are, if one is a part and
   their boxes overlap or nearly do. Two pieces above each other are, if the gap is narrow, or wide
   and one of them is low: less than half as high as the other. A part, such as the roof of a 5,
   extends less than two thirds of the height of the higher one. */
static bool belong(const Region *a, const Region *b) {
  const int across = shared(a->box.left, a->box.right, b->box.left, b->box.right);
  const int down = shared(a->box.top, a->box.bottom, b->box.top, b->box.bottom);
  const int higher = max_int(box_height(a->box), box_height(b->box));
  const bool low = 2 * min_int(box_height(a->box), box_height(b->box)) < higher,
             part = 3 * min_int(box_extent(a->box), box_extent(b->box)) < 2 * higher;
  const bool level = share_half(down, box_height(a->box), box_height(b->box));
  if (share_half(across, box_width(a->box), box_width(b->box)))
    return level || -down * (low ? WIDE_GAP : NARROW_GAP) <= higher;
  const bool overlap = across > 0 && down > 0, near = level && -across * NARROW_GAP <= higher;
  return part && (overlap || near);
}

/* Joins pieces to digits until nothing changes. The first piece of a digit holds its box. */
static void join_pieces(Region **kept, int count, Pieces *p) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < count; i++)
      for (int j = i + 1; j < count; j++) {
        Region *a = kept[i], *b = kept[j];
        if (a->part_of != a - p->pieces || b->part_of != b - p->pieces || !belong(a, b)) continue;
        a->box = box_around(a->box, b->box);
        a->pixels += b->pixels;
        b->part_of = a->part_of;
        changed = true;
      }
  }
}

static int digit_of(const Pieces *p, int piece) {
  int digit = p->pieces[piece].part_of;
  while (digit >= 0 && p->pieces[digit].part_of != digit) digit = p->pieces[digit].part_of;
  return digit;
}

/* Returns true if a whole piece is a digit: at least two fifths of the largest in extent and a
   fourth in height (else it is dust), and not so wide that it is a stroke across the page. */
static bool is_digit(const Region *piece, const Region *largest) {
  enum { LEAST_HEIGHT = 4, MOST_WIDTH = 3 }; /* pieces to the largest; heights to a width */
  const int height = box_height(piece->box);
  const bool large = 5 * box_extent(piece->box) >= 2 * box_extent(largest->box) &&
                     LEAST_HEIGHT * height >= box_height(largest->box);
  return piece == largest || (large && box_width(piece->box) <= MOST_WIDTH * height);
}

/* Returns true if a digit has a shape that no digit has: wider than digits are, as two that touch,
   or too thin for its length, as an edge. */
static bool is_doubtful(const Region *digit) {
  enum { THINNEST = 25 }; /* strokes' widths to an extent */
  const int64_t extent = box_extent(digit->box);
  return 4 * box_width(digit->box) > 5 * box_height(digit->box) ||
         (int64_t)digit->pixels * THINNEST < extent * extent;
}

/* ---- reading order ------------------------------------------------------------------------ */

enum { STEEPEST = 20 }; /* degrees that a page may be turned */

/* A digit with its place in lines. Tops are sheared: as they are if the page were not turned. */
typedef struct {
  Region *piece;
  double top, height;
} Written;

static int by_top(const void *a, const void *b) {
  const Written *x = a, *y = b;
  return x->top != y->top ? (x->top > y->top) - (x->top < y->top)
                          : x->piece->box.left - y->piece->box.left;
}

static int by_left(const void *a, const void *b) {
  const Box *x = &((const Written *)a)->piece->box, *y = &((const Written *)b)->piece->box;
  return x->left != y->left ? (x->left > y->left) - (x->left < y->left) : x->top - y->top;
}

/* Returns how many pairs of digits lie beside each other along a slope: 1 for a pair at the same
   height, less the more they differ, 0 from half their height. */
static double pairs_along(double slope, Region *const *digits, int count) {
  double pairs = 0;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < i; j++) {
      const Box a = digits[i]->box, b = digits[j]->box;
      const double across = (a.left + a.right - b.left - b.right) / 2.0,
                   down = (a.top + a.bottom - b.top - b.bottom) / 2.0,
                   off = 4 * (down - slope * across) / (box_height(a) + box_height(b));
      pairs += fmax(0, 1 - off * off);
    }
  return pairs;
}

/* Returns the page's tilt in radians, positive where lines fall to the right: where the profile of
   the digits' centres is sharpest (Postl, "Detection of linear oblique structures and skew scan in
   digitized documents", 1986). The smallest tilt of those that are nearly as sharp. */
static double find_tilt(Region *const *digits, int count) {
  enum { STEPS = 2 }; /* of a degree */
  static const double BETTER = 1.02;
  double tilt = 0, sharpest = pairs_along(0, digits, count);
  for (int step = 1; step <= STEEPEST * STEPS; step++)
    for (int sign = -1; sign <= 1; sign += 2) {
      const double degrees = (double)(sign * step) / STEPS,
                   radians = degrees * 3.14159265358979 / 180;
      const double pairs = pairs_along(tan(radians), digits, count);
      if (pairs <= BETTER * sharpest) continue;
      sharpest = pairs;
      tilt = radians;
    }
  return tilt;
}

/* Sorts digits by lines along the tilt, from left to right in each. A line begins with the topmost
   digit that is left and takes every digit that shares half of the height with it. rows: the
   number of each digit's line. */
static void put_in_order(Region **digits, int count, double tilt, int *rows) {
  Written line[PHOTOGRAPH_MOST];
  for (int i = 0; i < count; i++) {
    const Box box = digits[i]->box;
    const double across = (box.left + box.right) / 2.0;
    line[i] = (Written){digits[i], box.top - tan(tilt) * across, box_height(box)};
  }
  qsort(line, (size_t)count, sizeof *line, by_top);
  for (int first = 0, end, row = 0; first < count; first = end, row++) {
    const Written top = line[first];
    end = first + 1;
    for (int i = end; i < count; i++) {
      const Written next = line[i];
      const double down = fmin(top.top + top.height, next.top + next.height) - next.top;
      if (2 * down < fmin(top.height, next.height)) continue;
      memmove(&line[end + 1], &line[end], (size_t)(i - end) * sizeof *line);
      line[end++] = next;
    }
    qsort(line + first, (size_t)(end - first), sizeof *line, by_left);
    for (int i = first; i < end; i++) rows[i] = row;
  }
  for (int i = 0; i < count; i++) digits[i] = line[i].piece;
}

/* ---- the ink of a digit ------------------------------------------------------------------- */

/* Gives soft edges to their pieces: a pixel next to a piece that is not ink by itself becomes its
   own as long as contrast falls, up to `steps` pixels away. */
static bool grow(Pieces *p, int steps) {
  const Ink *ink = p->ink;
  const int w = ink->width, h = ink->height;
  int *queue = make_array(queue, w * h), end = 0;
  if (!queue) return false;
  for (int i = 0; i < w * h; i++)
    if (p->labels[i]) queue[end++] = i;
  for (int step = 0, next = 0; step < steps; step++)
    for (const int last = end; next < last; next++) {
      const int x = queue[next] % w, y = queue[next] / w;
      for (int k = 0; k < 9; k++) {
        const int nx = x + k % 3 - 1, ny = y + k / 3 - 1;
        if (nx < 0 || nx >= w || ny < 0 || ny >= h) continue;
        const int i = ny * w + nx;
        if (p->labels[i] || ink->contrast[i] <= ink->noise ||
            ink->contrast[i] > ink->contrast[queue[next]])
          continue;
        p->labels[i] = p->labels[queue[next]];
        queue[end++] = i;
      }
    }
  free(queue);
  return true;
}

/* Levels of ink (height, width), 0 to 1. */
typedef struct {
  int width, height;
  float *level;
} Crop;

/* Cuts out the digit's own ink: 0 for the contrast of noise, 1 for a contrast that only one in FULL
   of its pixels exceeds. */
static bool find_levels(const Pieces *p, int digit, Box box, Crop *crop) {
  enum { FULL = 50 };
  uint32_t histogram[256] = {0}, count = 0;
  const Ink *ink = p->ink;
  *crop = (Crop){.width = box_width(box), .height = box_height(box)};
  const int pixels = crop->width * crop->height;
  crop->level = make_array(crop->level, pixels);
  for (int c = 0; crop->level && c < pixels; c++) {
    const int i = (box.top + c / crop->width) * ink->width + box.left + c % crop->width;
    const bool own = p->labels[i] && digit_of(p, p->labels[i] - 1) == digit;
    const int above = own ? max_int(0, ink->contrast[i] - ink->noise) : 0;
    crop->level[c] = (float)above;
    if (above) histogram[above]++, count++;
  }
  int full = 255;
  for (uint32_t seen = histogram[255]; full > 1 && FULL * seen < count;) seen += histogram[--full];
  for (int i = 0; crop->level && i < pixels; i++)
    crop->level[i] = fminf(1, crop->level[i] / (float)full);
  return crop->level != NULL;
}

/* A row or column with less than this share of the ink of the fullest one is noise at an edge. */
static const float NOISE_PART = 0.02f;

/* Finds the lines from the first to the last that are not noise, given the ink of each. */
static void trim(const float *sums, int lines, int *first, int *end) {
  float fullest = 0;
  for (int i = 0; i < lines; i++) fullest = fmaxf(fullest, sums[i]);
  for (*first = 0; sums[*first] < NOISE_PART * fullest;) ++*first;
  for (*end = lines; sums[*end - 1] < NOISE_PART * fullest;) --*end;
}

/* Finds the extent of the ink within the crop. */
static bool find_box(const Crop *crop, Box *box) {
  const int width = crop->width, height = crop->height;
  float *columns = make_array(columns, width + height);
  if (!columns) return false;
  float *rows = columns + width;
  for (int i = 0; i < width * height; i++) {
    columns[i % width] += crop->level[i];
    rows[i / width] += crop->level[i];
  }
  trim(columns, width, &box->left, &box->right);
  trim(rows, height, &box->top, &box->bottom);
  free(columns);
  return true;
}

/* ---- from there to a row of MNIST --------------------------------------------------------- */

/* Returns the mean over x0 <= x < x1, y0 <= y < y1; pixels are squares of side 1, outside is 0. */
static double mean_ink(const Crop *crop, double x0, double x1, double y0, double y1) {
  double sum = 0;
  for (int y = (int)fmax(0, y0); y < y1 && y < crop->height; y++) {
    double line = 0;
    for (int x = (int)fmax(0, x0); x < x1 && x < crop->width; x++)
      line += (fmin(x + 1, x1) - fmax(x, x0)) * (double)crop->level[y * crop->width + x];
    sum += (fmin(y + 1, y1) - fmax(y, y0)) * line;
  }
  return sum / ((x1 - x0) * (y1 - y0));
}

/* Turns the crop of a page that is tilted by `radians`, so that its lines are level. */
static bool make_level(Crop *crop, double radians) {
  const double sine = sin(radians), cosine = cos(radians);
  const int width = (int)ceil(crop->width * cosine + crop->height * fabs(sine)),
            height = (int)ceil(crop->width * fabs(sine) + crop->height * cosine);
  float *level = make_array(level, width * height);
  for (int i = 0; level && i < width * height; i++) {
    const int row = i / width;
    const double x = i % width + (1 - width) / 2.0, y = row + (1 - height) / 2.0;
    const double left = (crop->width - 1) / 2.0 + cosine * x - sine * y,
                 top = (crop->height - 1) / 2.0 + sine * x + cosine * y;
    level[i] = (float)mean_ink(crop, left, left + 1, top, top + 1);
  }
  free(crop->level);
  *crop = (Crop){width, height, level};
  return level != NULL;
}

/* Scales the box of ink to digit (height, width). The strongest pixel becomes 255: scaling has made
   a thin pen's lines grey, and MNIST has no pale digits. */
static void scale(const Crop *crop, Box box, int width, int height, double *digit) {
  const double dx = (double)box_width(box) / width, dy = (double)box_height(box) / height;
  double strongest = 0;
  for (int i = 0; i < width * height; i++) {
    const int x = i % width, y = i / width;
    digit[i] = mean_ink(crop, box.left + x * dx, box.left + (x + 1) * dx, box.top + y * dy,
                        box.top + (y + 1) * dy);
    strongest = fmax(strongest, digit[i]);
  }
  for (int i = 0; i < width * height; i++) digit[i] *= 255 / strongest;
}

/* Sizes and centres the digit as MNIST's are. */
static bool normalise(const Crop *crop, Box box, int side, uint8_t *pixels) {
  enum { MNIST_BOX = 20, MNIST_SIDE = 28 }; /* of a digit's longer extent, of its page */
  const double longest = round(side * MNIST_BOX / (double)MNIST_SIDE),
               factor = longest / box_extent(box);
  const int width = max_int(1, (int)round(box_width(box) * factor));
  const int height = max_int(1, (int)round(box_height(box) * factor));
  double *digit = make_array(digit, width * height);
  if (!digit) return false;
  scale(crop, box, width, height, digit);
  grid_centre(digit, width, height, side, pixels);
  free(digit);
  return true;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static PhotographBox in_file(const Image *image, Box box) {
  const int k = image->shrunk, left = box.left * k, top = box.top * k;
  const int right = box.right == image->width ? image->file_width : box.right * k;
  const int bottom = box.bottom == image->height ? image->file_height : box.bottom * k;
  return (PhotographBox){left, top, right - left, bottom - top};
}

/* Cuts a digit out and sizes it. tilt: of the page, in radians. */
static bool read_digit(const Image *image, const Pieces *p, const Region *digit, int steps,
                       double tilt, int side, uint8_t *pixels, PhotographBox *found) {
  const Box grown = {max_int(0, digit->box.left - steps), max_int(0, digit->box.top - steps),
                     min_int(image->width, digit->box.right + steps),
                     min_int(image->height, digit->box.bottom + steps)};
  Crop crop;
  Box box;
  bool good = find_levels(p, (int)(digit - p->pieces), grown, &crop) && find_box(&crop, &box);
  if (good)
    *found = in_file(image, (Box){grown.left + box.left, grown.top + box.top,
                                  grown.left + box.right, grown.top + box.bottom});
  good = good && make_level(&crop, tilt) && find_box(&crop, &box) &&
         normalise(&crop, box, side, pixels);
  free(crop.level);
  return good;
}

enum { MOST_PIECES = 8 * PHOTOGRAPH_MOST };

/* Finds the digits among the pieces. Returns how many; more than PHOTOGRAPH_MOST also where there
   are too many pieces. */
static int find_digits(Pieces *p, Region *digits[MOST_PIECES]) {
  const Region *largest = find_largest(p);
  int kept = 0, count = 0;
  sort_out(p, largest);
  for (int i = 0; i < p->count; i++) {
    if (p->pieces[i].part_of < 0) continue;
    if (kept == MOST_PIECES) return kept;
    digits[kept++] = &p->pieces[i];
  }
  join_pieces(digits, kept, p);
  largest = &p->pieces[digit_of(p, (int)(largest - p->pieces))];
  for (int i = 0; i < kept; i++)
    if (digits[i]->part_of == digits[i] - p->pieces && is_digit(digits[i], largest))
      digits[count++] = digits[i];
  return count;
}

static bool read_digits(const Image *image, Pieces *p, int side, Photograph *photograph) {
  enum { SOFT_EDGE = 4, LEAST_EDGE = 2 }; /* edges to a scale, at most; pixels, at least */
  enum { LEAST_TELLING = 3 };             /* digits that tell the page's tilt */
  Region *digits[MOST_PIECES];
  const int size = side * side, steps = max_int(LEAST_EDGE, p->ink->scale / SOFT_EDGE);
  const int count = photograph->count = find_digits(p, digits);
  if (count < 1 || count > PHOTOGRAPH_MOST) return false;
  double tilt = find_tilt(digits, count);
  put_in_order(digits, count, tilt, photograph->row);
  if (count < LEAST_TELLING) tilt = 0;
  photograph->pixels = make_array(photograph->pixels, count * size);
  bool good = photograph->pixels && grow(p, steps);
  for (int i = 0; good && i < count; i++) {
    photograph->doubtful[i] = is_doubtful(digits[i]);
    good = read_digit(image, p, digits[i], steps, tilt, side, photograph->pixels + i * size,
                      &photograph->box[i]);
  }
  return good;
}

bool photograph_find(const Image *image, const char *name, int side, Photograph *photograph,
                     Error *error) {
  Ink ink;
  bool none, good = false;
  photograph->count = 0;
  photograph->pixels = NULL;
  if (ink_find(image, &ink, &none)) {
    Pieces pieces;
    const bool found = find_pieces(&ink, &pieces);
    none = found && pieces.count == 0;
    good = found && !none && read_digits(image, &pieces, side, photograph);
    free(pieces.labels);
    free(pieces.pieces);
    ink_free(&ink);
  }
  if (good) return true;
  photograph_free(photograph);
  if (none)
    return error_set(error, "%s shows no digit: nothing in it stands out from its ground", name);
  if (photograph->count > PHOTOGRAPH_MOST)
    return error_set(error, "%s shows too much: up to %d digits can be told apart in a picture",
                     name, PHOTOGRAPH_MOST);
  return error_set(error, "no memory to look for digits in %s", name);
}

void photograph_free(Photograph *photograph) {
  free(photograph->pixels);
  photograph->pixels = NULL;
}
