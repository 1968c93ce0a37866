#include "data/digits.h"

#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "data/grid.h"

/* ---- skeletons --------------------------------------------------------------------------- */

enum { MAX_POINTS = 14, MAX_WAYS = 4 };

/* Ways to write each digit, as paths like SVG's. x grows to the right and y down, both from about 0
   to 100. M starts a stroke at the point. S curves the stroke through the point. C makes the point
   a corner, where one curve ends and another starts. */
/* clang-format off */
static const char *const skeletons[10][MAX_WAYS] = {
  { /* ways to write 0: from the top, leftwards; from the top, past its start; from the right */
    "M60 4 S34 8 S16 46 S30 90 S66 91 S84 46 S64 6 S46 3",
    "M66 10 S44 3 S18 34 S24 86 S62 92 S84 42 S58 5 S34 14",
    "M74 22 S48 2 S16 36 S26 88 S66 92 S86 48 S66 10",
  },
  { /* ways to write 1: a bar; a bent bar; a bar with a flag; a bar with a flag and a foot */
    "M50 0 S50 50 S50 100",
    "M54 0 S50 34 S49 68 S48 100",
    "M32 24 S44 14 C54 2 S52 50 S52 100",
    "M32 22 C52 3 S51 50 S50 98 M26 98 S50 97 S76 97",
  },
  { /* ways to write 2: a sharp foot; a looped foot; a waved foot; a small hook at the top */
    "M20 22 S34 5 S58 3 S74 20 S66 46 S42 74 C16 97 S50 95 S86 96",
    "M18 20 S36 4 S60 6 S72 26 S60 56 S38 84 S20 94 S13 84 S25 75 S44 84 S66 96 S92 90",
    "M24 26 S32 8 S54 2 S72 14 S70 40 S48 70 C18 92 S34 86 S58 96 S84 92",
    "M22 14 S46 3 S70 12 S68 36 S44 64 S20 88 S24 98 S54 95 S88 98",
  },
  { /* ways to write 3: a pointed waist; a narrow waist; a flat top; a looped waist */
    "M22 14 S44 2 S68 10 S70 32 C42 46 S68 52 S80 72 S64 94 S38 98 S17 86",
    "M24 10 S50 2 S72 16 S62 38 S42 48 S44 50 S66 53 S76 74 S58 95 S34 98 S16 90",
    "M22 5 S46 4 C76 4 S60 22 C42 40 S66 44 S80 66 S66 92 S38 98 S16 88",
    "M26 20 S40 4 S64 6 S70 26 S56 42 S36 46 S34 41 S46 41 S70 54 S74 78 S50 98 S22 92",
  },
  { /* ways to write 4: open at the top; open and rounded; closed to a point; in one stroke */
    "M28 4 S24 28 C18 56 S48 57 S84 53 M72 6 S68 50 S64 99",
    "M24 2 S16 30 S22 50 S46 54 S70 44 M76 2 S70 48 S68 98",
    "M62 2 S40 32 C12 66 S48 66 S90 64 M62 2 S62 50 S60 99",
    "M30 6 S18 32 S24 50 S48 50 C76 8 S68 40 S62 98",
  },
  { /* ways to write 5: the top bar last; the top bar first; like an S; the top bar last, low arc */
    "M34 6 S30 24 C26 44 S48 36 S72 48 S76 72 S56 94 S32 98 S14 88 M33 6 S56 6 S84 2",
    "M80 3 S56 4 C34 6 S30 24 C24 42 S50 36 S74 52 S72 80 S46 98 S16 90",
    "M82 4 S58 3 S38 12 S32 32 S48 44 S66 56 S70 76 S52 95 S26 96 S12 86",
    "M26 8 S25 28 C25 46 S52 44 S74 60 S68 86 S40 98 S14 94 M26 8 S52 10 S76 7",
  },
  { /* ways to write 6: a long neck; a curled neck; a small loop low down; an open belly */
    "M66 2 S42 22 S24 52 S22 80 S42 98 S68 90 S76 68 S58 54 S36 62 S24 78",
    "M74 12 S56 3 S34 18 S20 48 S22 82 S46 98 S72 86 S78 62 S58 48 S34 56 S22 72",
    "M46 1 S34 30 S26 62 S30 90 S52 98 S70 84 S64 68 S46 70 S34 88",
    "M58 2 S34 26 S20 58 S26 88 S50 98 S74 86 S76 66 S60 58 S46 66",
  },
  { /* ways to write 7: plain; curved; with a bar; with a hanging start */
    "M18 8 S48 8 C80 5 S60 48 S42 99",
    "M16 12 S42 6 S68 5 S76 16 S62 48 S50 74 S46 99",
    "M18 10 S48 8 C82 6 S62 46 S44 98 M34 52 S56 50 S80 47",
    "M18 26 C22 6 S50 9 C80 6 S66 40 S58 70 S54 99",
  },
  { /* ways to write 8: an S and back up; two rings; a start at the right; an open top */
    "M68 14 S48 2 S28 14 S32 36 S52 50 S72 70 S66 92 S44 98 S24 86 S30 64 S52 46 S70 28 S68 12",
    "M50 44 S30 34 S30 12 S50 2 S70 12 S70 34 S50 46 S28 62 S26 86 S50 98 S74 86 S72 62 S50 45",
    "M76 8 S50 3 S30 18 S40 38 S58 52 S66 76 S50 97 S32 84 S38 60 S58 38 S78 14",
    "M56 3 S36 12 S34 34 S56 46 S70 66 S64 92 S42 97 S28 82 S38 60 S58 44 S70 22 S56 4",
  },
  { /* ways to write 9: a straight leg; a bent leg; a curled leg; a small head */
    "M72 18 S54 3 S30 12 S22 34 S38 48 S60 40 C73 16 S70 56 S64 99",
    "M70 14 S48 3 S26 16 S22 38 S40 50 S62 40 S72 16 S72 46 S62 76 S42 99",
    "M72 20 S56 3 S30 10 S20 34 S36 52 S62 44 S76 20 S76 52 S68 84 S46 98 S24 88",
    "M62 8 S42 4 S30 20 S38 38 S56 34 S66 10 S64 50 S60 99",
  },
};
/* clang-format on */

/* ---- random numbers ---------------------------------------------------------------------- */

/* A sequence of random numbers. Each digit has its own. */
typedef struct {
  uint64_t seed, stream, counter;
} Dice;

static uint32_t dice_word(Dice *dice) {
  return random_words(dice->seed, dice->stream, dice->counter++).word[0];
}

static int dice_below(Dice *dice, int n) {
  return (int)((uint64_t)dice_word(dice) * (uint64_t)n >> 32);
}

static float dice_between(Dice *dice, float low, float high) {
  return low + (high - low) * random_unit(dice_word(dice));
}

/* Returns a number with mean 0 and standard deviation `deviation`, at most 3.5 deviations from 0.
   It is a sum of four uniform numbers, which is close to normal and needs no logarithm. */
static float dice_normal(Dice *dice, float deviation) {
  const RandomWords words = random_words(dice->seed, dice->stream, dice->counter++);
  float sum = -2.0f;
  for (int i = 0; i < 4; i++) sum += random_unit(words.word[i]);
  return sum * 1.7320508f * deviation;
}

/* ---- from skeleton to line segments ------------------------------------------------------- */

typedef struct {
  float x0, y0, x1, y1, radius;
} Segment;

enum { SPAN_SEGMENTS = 6, MAX_SEGMENTS = MAX_POINTS * SPAN_SEGMENTS };

typedef struct {
  int count;
  Segment segment[MAX_SEGMENTS];
} Drawing;

/* A point of a path after the random changes of read_path. */
typedef struct {
  char pen; /* 'M', 'S' or 'C', as in `skeletons` */
  float x, y;
} Place;

/* How one writer distorts a digit. Quadratic polynomials bend the coordinates (u, v) of its points,
   which are from about -1 to 1. Then the digit is stretched, slanted and turned. */
typedef struct {
  float bend_x[3], bend_y[3];
  float width, slant, cosine, sine;
} Hand;

static Hand hand_random(Dice *dice) {
  Hand hand;
  for (int i = 0; i < 3; i++) {
    hand.bend_x[i] = dice_normal(dice, 0.11f);
    hand.bend_y[i] = dice_normal(dice, 0.11f);
  }
  hand.width = dice_between(dice, 0.55f, 1.15f);
  hand.slant = 0.15f + dice_normal(dice, 0.25f);
  const float half = dice_normal(dice, 0.08f); /* tan(angle / 2) */
  hand.cosine = (1.0f - half * half) / (1.0f + half * half);
  hand.sine = 2.0f * half / (1.0f + half * half);
  return hand;
}

static Place hand_place(const Hand *hand, char pen, float x, float y) {
  const float u = x / 50.0f - 1.0f, v = y / 50.0f - 1.0f;
  const float *a = hand->bend_x, *b = hand->bend_y;
  const float bent_u = u + a[0] * u * v + a[1] * v * v + a[2] * u * u;
  const float bent_v = v + b[0] * u * v + b[1] * u * u + b[2] * v * v;
  const float wide = hand->width * bent_u - hand->slant * bent_v;
  return (Place){pen, hand->cosine * wide - hand->sine * bent_v,
                 hand->sine * wide + hand->cosine * bent_v};
}

/* Reads a path's points, moves each at random and applies `hand` to it. Returns the point count. */
static int read_path(const char *path, Dice *dice, const Hand *hand, Place place[MAX_POINTS]) {
  int count = 0, x, y, length;
  for (char pen; count < MAX_POINTS && sscanf(path, " %c%d %d%n", &pen, &x, &y, &length) == 3;
       path += length) {
    const float right = (float)x + dice_normal(dice, 4.5f);
    const float down = (float)y + dice_normal(dice, 4.5f);
    place[count++] = hand_place(hand, pen, right, down);
  }
  return count;
}

/* Returns the value at t, from 0 to 1, of a cubic from b to c. The neighbours a and d give its
   slopes (Catmull and Rom, "A class of local interpolating splines", 1974). */
static float curve(float a, float b, float c, float d, float t) {
  const float linear = c - a, square = 2.0f * a - 5.0f * b + 4.0f * c - d,
              cube = 3.0f * (b - c) + d - a;
  return b + 0.5f * t * (linear + t * (square + t * cube));
}

/* Appends the span of a curve between place[from] and the next place. The curve goes from
   place[first] to place[last]. At either end of the curve, the end point also serves as its own
   missing neighbour. */
static void add_span(Drawing *drawing, const Place *place, int first, int from, int last) {
  const Place a = place[from - (from > first)], b = place[from], c = place[from + 1],
              d = place[from + 1 + (from + 2 <= last)];
  Place start = b;
  for (int i = 1; i <= SPAN_SEGMENTS; i++) {
    const float t = (float)i / (float)SPAN_SEGMENTS;
    const Place end = {'S', curve(a.x, b.x, c.x, d.x, t), curve(a.y, b.y, c.y, d.y, t)};
    drawing->segment[drawing->count++] = (Segment){start.x, start.y, end.x, end.y, 0};
    start = end;
  }
}

static void add_strokes(Drawing *drawing, const Place *place, int points) {
  for (int first = 0, last; first < points; first = last) {
    last = first + 1;
    while (last < points && place[last].pen == 'S') last++;
    const int end = last < points && place[last].pen == 'C' ? last : last - 1;
    for (int from = first; from < end; from++) add_span(drawing, place, first, from, end);
  }
}

/* ---- size, place, ink --------------------------------------------------------------------- */

/* The pen. Its radius in pixels grows from radius * (1 - taper) at the path's start to
   radius * (1 + taper) at its end. */
typedef struct {
  float radius, taper;
} Nib;

enum { EDGE = 1 }; /* width in pixels of the edge between ink and paper */

/* Centres the drawing in the box and scales it: the longer side of its ink gets `size` pixels. */
static void fit(Drawing *drawing, Nib nib, float size) {
  Segment *s = drawing->segment;
  float left = s[0].x0, right = left, top = s[0].y0, bottom = top;
  for (int i = 0; i < drawing->count; i++) {
    left = fminf(left, fminf(s[i].x0, s[i].x1));
    right = fmaxf(right, fmaxf(s[i].x0, s[i].x1));
    top = fminf(top, fminf(s[i].y0, s[i].y1));
    bottom = fmaxf(bottom, fmaxf(s[i].y0, s[i].y1));
  }
  const float reach = nib.radius * (1.0f + fabsf(nib.taper)) + 0.5f * EDGE;
  const float scale = (size - 2.0f * reach) / fmaxf(right - left, bottom - top);
  const float x = 0.5f * (DIGITS_BOX - scale * (left + right));
  const float y = 0.5f * (DIGITS_BOX - scale * (top + bottom));
  for (int i = 0; i < drawing->count; i++) {
    const float along = 2.0f * (float)i / (float)drawing->count - 1.0f;
    s[i] = (Segment){scale * s[i].x0 + x, scale * s[i].y0 + y, scale * s[i].x1 + x,
                     scale * s[i].y1 + y, nib.radius * (1.0f + nib.taper * along)};
  }
}

static int clamp_pixel(float place) {
  if (place < 0) return 0;
  return place >= (float)DIGITS_BOX ? DIGITS_BOX - 1 : (int)place;
}

/* Darkens pixels near the segment. A pixel is black if its centre is nearer than the radius minus
   half the edge, white beyond the radius plus half the edge, and grey in between. */
static void ink(const Segment *s, double *box) {
  const float reach = s->radius + 0.5f * EDGE, dx = s->x1 - s->x0, dy = s->y1 - s->y0;
  const float square = dx * dx + dy * dy;
  const int left = clamp_pixel(fminf(s->x0, s->x1) - reach),
            right = clamp_pixel(fmaxf(s->x0, s->x1) + reach),
            top = clamp_pixel(fminf(s->y0, s->y1) - reach),
            bottom = clamp_pixel(fmaxf(s->y0, s->y1) + reach);
  for (int y = top; y <= bottom; y++)
    for (int x = left; x <= right; x++) {
      const float px = (float)x + 0.5f - s->x0, py = (float)y + 0.5f - s->y0;
      const float t = square > 0 ? fminf(1, fmaxf(0, (px * dx + py * dy) / square)) : 0;
      const float ax = px - t * dx, ay = py - t * dy;
      const float dark = fminf(1, fmaxf(0, (reach - sqrtf(ax * ax + ay * ay)) / EDGE));
      double *pixel = &box[y * DIGITS_BOX + x];
      *pixel = fmax(*pixel, (uint8_t)(255.0f * dark + 0.5f));
    }
}

/* Draws a skeleton as a random writer would write it. */
static void draw_path(Dice *dice, const char *path, uint8_t *pixels) {
  const Hand hand = hand_random(dice);
  Place place[MAX_POINTS];
  Drawing drawing = {0};
  add_strokes(&drawing, place, read_path(path, dice, &hand, place));
  const Nib nib = {fmaxf(0.6f, 1.35f + dice_normal(dice, 0.35f)), dice_normal(dice, 0.1f)};
  fit(&drawing, nib, dice_between(dice, 0.95f, 1) * DIGITS_BOX);
  double box[DIGITS_BOX * DIGITS_BOX] = {0};
  for (int i = 0; i < drawing.count; i++) ink(&drawing.segment[i], box);
  grid_centre(box, DIGITS_BOX, DIGITS_BOX, DIGITS_SIDE, pixels);
}

int digits_draw(uint64_t seed, DigitsSeries series, uint64_t row, uint8_t pixels[DIGITS_PIXELS]) {
  Dice dice = {seed, 0x646967697473u /* "digits" */ << 1 | (uint64_t)series, row << 16};
  const int label = dice_below(&dice, 10);
  int ways = 0;
  while (ways < MAX_WAYS && skeletons[label][ways]) ways++;
  draw_path(&dice, skeletons[label][dice_below(&dice, ways)], pixels);
  return label;
}
