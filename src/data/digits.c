#include "data/digits.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/random.h"

/* ---- skeletons --------------------------------------------------------------------------- */

typedef enum {
  END,  /* no more points */
  DOWN, /* the pen comes down: a stroke starts */
  TO,   /* the stroke curves through here */
  TURN, /* the curve ends here and another starts: a corner */
} Pen;

/* x to the right, y down, both about 0 to 100. */
typedef struct {
  uint8_t pen, x, y;
} Point;

enum { MAX_POINTS = 14 };

typedef struct {
  int label;
  Point point[MAX_POINTS]; /* zeros, END, after the last */
} Skeleton;

/* Ordered by label. */
/* clang-format off */
static const Skeleton skeletons[] = {
  /* an oval from the top, left first; one that overshoots; one that starts at the right */
  {0, {{DOWN, 60, 4}, {TO, 34, 8}, {TO, 16, 46}, {TO, 30, 90}, {TO, 66, 91}, {TO, 84, 46},
       {TO, 64, 6}, {TO, 46, 3}}},
  {0, {{DOWN, 66, 10}, {TO, 44, 3}, {TO, 18, 34}, {TO, 24, 86}, {TO, 62, 92}, {TO, 84, 42},
       {TO, 58, 5}, {TO, 34, 14}}},
  {0, {{DOWN, 74, 22}, {TO, 48, 2}, {TO, 16, 36}, {TO, 26, 88}, {TO, 66, 92}, {TO, 86, 48},
       {TO, 66, 10}}},
  /* a bar; a bar with a flag; with a flag and a foot */
  {1, {{DOWN, 50, 0}, {TO, 50, 50}, {TO, 50, 100}}},
  {1, {{DOWN, 54, 0}, {TO, 50, 34}, {TO, 49, 68}, {TO, 48, 100}}},
  {1, {{DOWN, 32, 24}, {TO, 44, 14}, {TURN, 54, 2}, {TO, 52, 50}, {TO, 52, 100}}},
  {1, {{DOWN, 32, 22}, {TURN, 52, 3}, {TO, 51, 50}, {TO, 50, 98}, {DOWN, 26, 98}, {TO, 50, 97},
       {TO, 76, 97}}},
  /* sharp foot; looped foot; waved foot; a small hook at the top */
  {2, {{DOWN, 20, 22}, {TO, 34, 5}, {TO, 58, 3}, {TO, 74, 20}, {TO, 66, 46}, {TO, 42, 74},
       {TURN, 16, 97}, {TO, 50, 95}, {TO, 86, 96}}},
  {2, {{DOWN, 18, 20}, {TO, 36, 4}, {TO, 60, 6}, {TO, 72, 26}, {TO, 60, 56}, {TO, 38, 84},
       {TO, 20, 94}, {TO, 13, 84}, {TO, 25, 75}, {TO, 44, 84}, {TO, 66, 96}, {TO, 92, 90}}},
  {2, {{DOWN, 24, 26}, {TO, 32, 8}, {TO, 54, 2}, {TO, 72, 14}, {TO, 70, 40}, {TO, 48, 70},
       {TURN, 18, 92}, {TO, 34, 86}, {TO, 58, 96}, {TO, 84, 92}}},
  {2, {{DOWN, 22, 14}, {TO, 46, 3}, {TO, 70, 12}, {TO, 68, 36}, {TO, 44, 64}, {TO, 20, 88},
       {TO, 24, 98}, {TO, 54, 95}, {TO, 88, 98}}},
  /* two bows with a pointed waist; with a looped waist; a flat top */
  {3, {{DOWN, 22, 14}, {TO, 44, 2}, {TO, 68, 10}, {TO, 70, 32}, {TURN, 42, 46}, {TO, 68, 52},
       {TO, 80, 72}, {TO, 64, 94}, {TO, 38, 98}, {TO, 17, 86}}},
  {3, {{DOWN, 24, 10}, {TO, 50, 2}, {TO, 72, 16}, {TO, 62, 38}, {TO, 42, 48}, {TO, 44, 50},
       {TO, 66, 53}, {TO, 76, 74}, {TO, 58, 95}, {TO, 34, 98}, {TO, 16, 90}}},
  {3, {{DOWN, 22, 5}, {TO, 46, 4}, {TURN, 76, 4}, {TO, 60, 22}, {TURN, 42, 40}, {TO, 66, 44},
       {TO, 80, 66}, {TO, 66, 92}, {TO, 38, 98}, {TO, 16, 88}}},
  {3, {{DOWN, 26, 20}, {TO, 40, 4}, {TO, 64, 6}, {TO, 70, 26}, {TO, 56, 42}, {TO, 36, 46},
       {TO, 34, 41}, {TO, 46, 41}, {TO, 70, 54}, {TO, 74, 78}, {TO, 50, 98}, {TO, 22, 92}}},
  /* open at the top, two strokes; the same, rounded; closed to a point; in one go */
  {4, {{DOWN, 28, 4}, {TO, 24, 28}, {TURN, 18, 56}, {TO, 48, 57}, {TO, 84, 53}, {DOWN, 72, 6},
       {TO, 68, 50}, {TO, 64, 99}}},
  {4, {{DOWN, 24, 2}, {TO, 16, 30}, {TO, 22, 50}, {TO, 46, 54}, {TO, 70, 44}, {DOWN, 76, 2},
       {TO, 70, 48}, {TO, 68, 98}}},
  {4, {{DOWN, 62, 2}, {TO, 40, 32}, {TURN, 12, 66}, {TO, 48, 66}, {TO, 90, 64}, {DOWN, 62, 2},
       {TO, 62, 50}, {TO, 60, 99}}},
  {4, {{DOWN, 30, 6}, {TO, 18, 32}, {TO, 24, 50}, {TO, 48, 50}, {TURN, 76, 8}, {TO, 68, 40},
       {TO, 62, 98}}},
  /* the roof last, as a stroke of its own; the roof first; soft as an S */
  {5, {{DOWN, 34, 6}, {TO, 30, 24}, {TURN, 26, 44}, {TO, 48, 36}, {TO, 72, 48}, {TO, 76, 72},
       {TO, 56, 94}, {TO, 32, 98}, {TO, 14, 88}, {DOWN, 33, 6}, {TO, 56, 6}, {TO, 84, 2}}},
  {5, {{DOWN, 80, 3}, {TO, 56, 4}, {TURN, 34, 6}, {TO, 30, 24}, {TURN, 24, 42}, {TO, 50, 36},
       {TO, 74, 52}, {TO, 72, 80}, {TO, 46, 98}, {TO, 16, 90}}},
  {5, {{DOWN, 82, 4}, {TO, 58, 3}, {TO, 38, 12}, {TO, 32, 32}, {TO, 48, 44}, {TO, 66, 56},
       {TO, 70, 76}, {TO, 52, 95}, {TO, 26, 96}, {TO, 12, 86}}},
  {5, {{DOWN, 26, 8}, {TO, 25, 28}, {TURN, 25, 46}, {TO, 52, 44}, {TO, 74, 60}, {TO, 68, 86},
       {TO, 40, 98}, {TO, 14, 94}, {DOWN, 26, 8}, {TO, 52, 10}, {TO, 76, 7}}},
  /* a long neck; a curled one; a small loop low down; an open belly */
  {6, {{DOWN, 66, 2}, {TO, 42, 22}, {TO, 24, 52}, {TO, 22, 80}, {TO, 42, 98}, {TO, 68, 90},
       {TO, 76, 68}, {TO, 58, 54}, {TO, 36, 62}, {TO, 24, 78}}},
  {6, {{DOWN, 74, 12}, {TO, 56, 3}, {TO, 34, 18}, {TO, 20, 48}, {TO, 22, 82}, {TO, 46, 98},
       {TO, 72, 86}, {TO, 78, 62}, {TO, 58, 48}, {TO, 34, 56}, {TO, 22, 72}}},
  {6, {{DOWN, 46, 1}, {TO, 34, 30}, {TO, 26, 62}, {TO, 30, 90}, {TO, 52, 98}, {TO, 70, 84},
       {TO, 64, 68}, {TO, 46, 70}, {TO, 34, 88}}},
  {6, {{DOWN, 58, 2}, {TO, 34, 26}, {TO, 20, 58}, {TO, 26, 88}, {TO, 50, 98}, {TO, 74, 86},
       {TO, 76, 66}, {TO, 60, 58}, {TO, 46, 66}}},
  /* plain; curved; with a bar; with a hanging start */
  {7, {{DOWN, 18, 8}, {TO, 48, 8}, {TURN, 80, 5}, {TO, 60, 48}, {TO, 42, 99}}},
  {7, {{DOWN, 16, 12}, {TO, 42, 6}, {TO, 68, 5}, {TO, 76, 16}, {TO, 62, 48}, {TO, 50, 74},
       {TO, 46, 99}}},
  {7, {{DOWN, 18, 10}, {TO, 48, 8}, {TURN, 82, 6}, {TO, 62, 46}, {TO, 44, 98}, {DOWN, 34, 52},
       {TO, 56, 50}, {TO, 80, 47}}},
  {7, {{DOWN, 18, 26}, {TURN, 22, 6}, {TO, 50, 9}, {TURN, 80, 6}, {TO, 66, 40}, {TO, 58, 70},
       {TO, 54, 99}}},
  /* an S and back up; two rings; from the right; with an open top */
  {8, {{DOWN, 68, 14}, {TO, 48, 2}, {TO, 28, 14}, {TO, 32, 36}, {TO, 52, 50}, {TO, 72, 70},
       {TO, 66, 92}, {TO, 44, 98}, {TO, 24, 86}, {TO, 30, 64}, {TO, 52, 46}, {TO, 70, 28},
       {TO, 68, 12}}},
  {8, {{DOWN, 50, 44}, {TO, 30, 34}, {TO, 30, 12}, {TO, 50, 2}, {TO, 70, 12}, {TO, 70, 34},
       {TO, 50, 46}, {TO, 28, 62}, {TO, 26, 86}, {TO, 50, 98}, {TO, 74, 86}, {TO, 72, 62},
       {TO, 50, 45}}},
  {8, {{DOWN, 76, 8}, {TO, 50, 3}, {TO, 30, 18}, {TO, 40, 38}, {TO, 58, 52}, {TO, 66, 76},
       {TO, 50, 97}, {TO, 32, 84}, {TO, 38, 60}, {TO, 58, 38}, {TO, 78, 14}}},
  {8, {{DOWN, 56, 3}, {TO, 36, 12}, {TO, 34, 34}, {TO, 56, 46}, {TO, 70, 66}, {TO, 64, 92},
       {TO, 42, 97}, {TO, 28, 82}, {TO, 38, 60}, {TO, 58, 44}, {TO, 70, 22}, {TO, 56, 4}}},
  /* a straight leg; a bent one; a curled one; a small head */
  {9, {{DOWN, 72, 18}, {TO, 54, 3}, {TO, 30, 12}, {TO, 22, 34}, {TO, 38, 48}, {TO, 60, 40},
       {TURN, 73, 16}, {TO, 70, 56}, {TO, 64, 99}}},
  {9, {{DOWN, 70, 14}, {TO, 48, 3}, {TO, 26, 16}, {TO, 22, 38}, {TO, 40, 50}, {TO, 62, 40},
       {TO, 72, 16}, {TO, 72, 46}, {TO, 62, 76}, {TO, 42, 99}}},
  {9, {{DOWN, 72, 20}, {TO, 56, 3}, {TO, 30, 10}, {TO, 20, 34}, {TO, 36, 52}, {TO, 62, 44},
       {TO, 76, 20}, {TO, 76, 52}, {TO, 68, 84}, {TO, 46, 98}, {TO, 24, 88}}},
  {9, {{DOWN, 62, 8}, {TO, 42, 4}, {TO, 30, 20}, {TO, 38, 38}, {TO, 56, 34}, {TO, 66, 10},
       {TO, 64, 50}, {TO, 60, 99}}},
};
/* clang-format on */

enum { SKELETONS = sizeof skeletons / sizeof skeletons[0] };

/* ---- random numbers ---------------------------------------------------------------------- */

/* A digit's own series of numbers. */
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

/* Mean 0, standard deviation `deviation`, never beyond 3.5 of it: a sum of four uniforms is
   close to normal and needs no logarithm. */
static float dice_normal(Dice *dice, float deviation) {
  const RandomWords words = random_words(dice->seed, dice->stream, dice->counter++);
  float sum = -2.0f;
  for (int i = 0; i < 4; i++) sum += random_unit(words.word[i]);
  return sum * 1.7320508f * deviation;
}

/* ---- from skeleton to line segments ------------------------------------------------------- */

/* One bit of the pen's path. */
typedef struct {
  float x0, y0, x1, y1, radius;
} Segment;

enum { SPAN_SEGMENTS = 6, MAX_SEGMENTS = MAX_POINTS * SPAN_SEGMENTS };

typedef struct {
  int count;
  Segment segment[MAX_SEGMENTS];
} Drawing;

typedef struct {
  float x, y;
} Place;

/* How one writer bends the page: u and v, about -1 to 1, are moved by quadratic polynomials,
   then stretched, slanted and turned. */
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

static Place hand_place(const Hand *hand, float x, float y) {
  const float u = x / 50.0f - 1.0f, v = y / 50.0f - 1.0f;
  const float *a = hand->bend_x, *b = hand->bend_y;
  const float bent_u = u + a[0] * u * v + a[1] * v * v + a[2] * u * u;
  const float bent_v = v + b[0] * u * v + b[1] * u * u + b[2] * v * v;
  const float wide = hand->width * bent_u - hand->slant * bent_v;
  return (Place){hand->cosine * wide - hand->sine * bent_v,
                 hand->sine * wide + hand->cosine * bent_v};
}

/* At t from 0 to 1 the cubic from b to c with the slopes that a and d give it (Catmull and Rom,
   "A class of local interpolating splines", 1974). */
static float curve(float a, float b, float c, float d, float t) {
  const float linear = c - a, square = 2.0f * a - 5.0f * b + 4.0f * c - d,
              cube = 3.0f * (b - c) + d - a;
  return b + 0.5f * t * (linear + t * (square + t * cube));
}

/* Appends the curve from place[from] to the next. The whole curve goes from `first` to `last`:
   at its ends the neighbour that gives the slope is the end itself. */
static void add_span(Drawing *drawing, const Place *place, int first, int from, int last) {
  const Place a = place[from > first ? from - 1 : from], b = place[from], c = place[from + 1],
              d = place[from + 2 <= last ? from + 2 : from + 1];
  Place start = b;
  for (int i = 1; i <= SPAN_SEGMENTS; i++) {
    const float t = (float)i / (float)SPAN_SEGMENTS;
    const Place end = {curve(a.x, b.x, c.x, d.x, t), curve(a.y, b.y, c.y, d.y, t)};
    drawing->segment[drawing->count++] = (Segment){start.x, start.y, end.x, end.y, 0};
    start = end;
  }
}

static void add_strokes(Drawing *drawing, const Point *point, const Place *place, int points) {
  for (int first = 0, last; first < points; first = last) {
    last = first + 1;
    while (last < points && point[last].pen == TO) last++;
    const int end = last < points && point[last].pen == TURN ? last : last - 1;
    for (int from = first; from < end; from++) add_span(drawing, place, first, from, end);
  }
}

/* ---- size, place, ink --------------------------------------------------------------------- */

/* The pen: its radius in pixels, and the part of it that it gains from the first to the middle
   of the path, and again to the last. */
typedef struct {
  float radius, taper;
} Nib;

enum { EDGE = 1 }; /* pixels from ink to paper */

/* Moves the drawing to the middle of the box and scales it so that its ink is `size` pixels the
   longer way. */
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

typedef struct {
  uint8_t pixel[DIGITS_BOX][DIGITS_BOX];
} Box;

static int clamp_pixel(float place) {
  return place < 0 ? 0 : place >= (float)DIGITS_BOX ? DIGITS_BOX - 1 : (int)place;
}

/* A pixel is as dark as its centre is near to the path: black within the pen's radius, less half
   the edge, white beyond it, more half the edge. */
static void ink(const Segment *s, Box *box) {
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
      const uint8_t value = (uint8_t)(255.0f * dark + 0.5f);
      if (value > box->pixel[y][x]) box->pixel[y][x] = value;
    }
}

/* The offset that brings a centre of mass, moment / mass, nearest to 14 and leaves the box on the
   page: MNIST's centres of mass lie in the middle of pixel 14. */
static int offset(int moment, int mass) {
  const int nearest = (2 * 14 * mass - 2 * moment + mass) / (2 * mass),
            most = DIGITS_SIDE - DIGITS_BOX;
  return nearest < 0 ? 0 : nearest > most ? most : nearest;
}

/* Copies the box to the page so that the centre of mass is in the middle. */
static void centre(const Box *box, uint8_t *page) {
  int mass = 0, moment_x = 0, moment_y = 0;
  for (int y = 0; y < DIGITS_BOX; y++)
    for (int x = 0; x < DIGITS_BOX; x++) {
      mass += box->pixel[y][x];
      moment_x += box->pixel[y][x] * x;
      moment_y += box->pixel[y][x] * y;
    }
  memset(page, 0, DIGITS_PIXELS);
  page += offset(moment_y, mass) * DIGITS_SIDE + offset(moment_x, mass);
  for (int y = 0; y < DIGITS_BOX; y++) memcpy(page + y * DIGITS_SIDE, box->pixel[y], DIGITS_BOX);
}

int digits_draw(uint64_t seed, DigitsSeries series, uint64_t row, uint8_t pixels[DIGITS_PIXELS]) {
  Dice dice = {seed, 0x646967697473u /* "digits" */ << 1 | (uint64_t)series, row << 16};
  const int label = dice_below(&dice, 10);
  int first = 0, ways = 0;
  while (skeletons[first].label < label) first++;
  while (first + ways < SKELETONS && skeletons[first + ways].label == label) ways++;
  const Point *point = skeletons[first + dice_below(&dice, ways)].point;

  const Hand hand = hand_random(&dice);
  Place place[MAX_POINTS];
  int points = 0;
  for (; points < MAX_POINTS && point[points].pen != END; points++) {
    const float x = (float)point[points].x + dice_normal(&dice, 4.5f);
    const float y = (float)point[points].y + dice_normal(&dice, 4.5f);
    place[points] = hand_place(&hand, x, y);
  }

  Drawing drawing = {0};
  add_strokes(&drawing, point, place, points);
  const Nib nib = {fmaxf(0.6f, 1.35f + dice_normal(&dice, 0.35f)), dice_normal(&dice, 0.1f)};
  fit(&drawing, nib, dice_between(&dice, 0.95f, 1) * DIGITS_BOX);
  Box box = {0};
  for (int i = 0; i < drawing.count; i++) ink(&drawing.segment[i], &box);
  centre(&box, pixels);
  return label;
}
