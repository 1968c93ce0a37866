/* Makes distorted copies of square pictures: pictures that the same writers could have drawn. The
   arithmetic is the same on the host and on the device.

   For each pixel of the copy, the code computes where the pixel lies in the original (backward
   mapping). It applies an affine map about the picture's centre and adds a displacement. The
   displacements are a smooth field, the elastic distortion of Simard, Steinkraus and Platt ("Best
   practices for convolutional neural networks applied to visual document analysis", 2003). The
   original is interpolated bilinearly and is 0 outside its borders. The copy of a row depends only
   on (key, row, strengths).

   Simard et al. blur a field of uniform noise with a Gaussian (standard deviation: 4 pixels) and
   multiply it by 34. Here noise is drawn at 6 x 6 control points, a third of the side apart, and
   cubic B-splines blend it. A cubic B-spline is almost a Gaussian. Its standard deviation is the
   points' distance / sqrt(3): 5.4 pixels if the side is 28. Ciresan et al. (below) used 5 to 6
   pixels, which trained a little better than 4 (docs/accuracy.md). Simard's displacements have a
   standard deviation of 34 / sqrt(3) / sqrt(4 pi 4^2) = 1.38 pixels. Ours have strength / sqrt(3) x
   0.48 (the root of the sum of the squared weights): 0.97 pixels for a strength of 3.5. */
#pragma once

#include <math.h>

#include "base/random.h"

/* The kinds of distortion and the units of their strengths. Lengths are in pixels of a 28 x 28
   picture. For other pictures, they are scaled in proportion to the side. */
enum {
  AUGMENT_SHIFT,   /* pixels by which the picture moves, in x and in y */
  AUGMENT_ROTATE,  /* degrees */
  AUGMENT_SCALE,   /* relative change of a side; x and y are drawn separately */
  AUGMENT_SHEAR,   /* pixels to the side per pixel upwards, like the slant of italics */
  AUGMENT_ELASTIC, /* pixels by which a control point moves, in x and in y */
  AUGMENT_KINDS
};

/* The greatest distortion of each kind. Each distortion is drawn uniformly from -most to most, so a
   `most` of 0 turns the kind off. */
typedef struct {
  float most[AUGMENT_KINDS];
} AugmentStrengths;

/* The strength of each kind if --augment gives none. Angle and scale follow Ciresan, Meier,
   Gambardella, Schmidhuber, "Deep, big, simple neural nets for handwritten digit recognition",
   2010. That paper rotates ones and sevens by up to 7.5 degrees and other digits by up to 15.
   MNIST's digits are centred already, so they need little shift. */
static const AugmentStrengths AUGMENT_USUAL = {{1.0f, 10.0f, 0.15f, 0.2f, 3.5f}};

/* The strongest distortions that make sense: a shift of half a picture, half a turn, a side that
   shrinks by nine tenths, and more slant than letters ever have. */
static const AugmentStrengths AUGMENT_GREATEST = {{14.0f, 180.0f, 0.9f, 2.0f, 14.0f}};

enum {
  AUGMENT_MOST_SIDE = 64, /* the side of the largest picture, which has NETWORK_MAX_INPUTS pixels */
  AUGMENT_CELLS = 3,      /* gaps between control points along a side of a picture */
  AUGMENT_POINTS = AUGMENT_CELLS + 3, /* control points per side; a pixel uses the nearest 4 */
};

/* A place in a picture, or a displacement between two places, in pixels. */
typedef struct {
  float x, y;
} AugmentPoint;

/* Maps place p in the copy to place (x, y) in the original. With (u, v) = p - shift,
   x = xx u + xy v and y = yx u + yy v. Both places are relative to the picture's centre. */
typedef struct {
  float xx, xy, yx, yy;
  AugmentPoint shift;
} AugmentMap;

/* The weights of control points first to first + 3 in a cubic B-spline. */
typedef struct {
  int first;
  float weight[4];
} AugmentSpline;

/* Returns the side of a picture of `inputs` pixels, or 0 if it is not square. */
HOST_DEVICE int augment_side(int inputs) {
  int side = 0;
  while (side * side < inputs) side++;
  return side * side == inputs ? side : 0;
}

/* ---- strengths ---------------------------------------------------------------------------- */

HOST_DEVICE int augment_same(AugmentStrengths a, AugmentStrengths b) {
  int same = 1;
  for (int k = 0; k < AUGMENT_KINDS; k++) same &= a.most[k] == b.most[k];
  return same;
}

/* Returns true if a kind of distortion has a strength above 0. */
HOST_DEVICE int augment_any(AugmentStrengths strengths) {
  const AugmentStrengths none = {{0}};
  return !augment_same(strengths, none);
}

/* ---- random numbers: counters 0 and 1 draw the map, 2 + p draws control point p ----------- */

/* Turns a random word into a number that is uniform between -most and most. */
HOST_DEVICE float augment_between(float most, uint32_t word) {
  return most * (2.0f * random_unit(word) - 1.0f);
}

HOST_DEVICE AugmentMap augment_map(AugmentStrengths strengths, uint64_t key, uint32_t row,
                                   int side) {
  const RandomWords moved = random_words(key, row, 0), turned = random_words(key, row, 1);
  const float radian = 3.14159265f / 180.0f; /* radians per degree */
  const float shift = strengths.most[AUGMENT_SHIFT] / 28.0f * (float)side;
  const float scale = strengths.most[AUGMENT_SCALE];
  const float angle = augment_between(strengths.most[AUGMENT_ROTATE] * radian, turned.word[0]);
  const float shear = augment_between(strengths.most[AUGMENT_SHEAR], turned.word[1]);
  const float width = 1.0f + augment_between(scale, moved.word[2]);
  const float height = 1.0f + augment_between(scale, moved.word[3]);
  const float cosine = cosf(angle), sine = sinf(angle);
  const AugmentMap map = {
      cosine / width,
      sine / width + shear,
      -sine / height,
      cosine / height,
      {augment_between(shift, moved.word[0]), augment_between(shift, moved.word[1])}};
  return map;
}

/* Returns the displacement of control point `point`. The AUGMENT_POINTS x AUGMENT_POINTS points are
   numbered row by row. */
HOST_DEVICE AugmentPoint augment_control(AugmentStrengths strengths, uint64_t key, uint32_t row,
                                         int side, int point) {
  AugmentPoint control = {0.0f, 0.0f};
  if (strengths.most[AUGMENT_ELASTIC] != 0.0f) {
    const RandomWords w = random_words(key, row, 2 + (uint64_t)point);
    const float most = strengths.most[AUGMENT_ELASTIC] / 28.0f * (float)side;
    control.x = augment_between(most, w.word[0]);
    control.y = augment_between(most, w.word[1]);
  }
  return control;
}

/* ---- a pixel -------------------------------------------------------------------------------- */

/* Returns the weights that the four control points nearest to pixel `at` have along one axis. */
HOST_DEVICE AugmentSpline augment_spline(int at, int side) {
  const float place = ((float)at + 0.5f) * ((float)AUGMENT_CELLS / (float)side);
  const int first = (int)place;
  const float t = place - (float)first, u = 1.0f - t;
  const float sixth = 1.0f / 6.0f;
  const AugmentSpline spline = {first,
                                {sixth * u * u * u, sixth * (4.0f - 3.0f * t * t * (1.0f + u)),
                                 sixth * (4.0f - 3.0f * u * u * (1.0f + t)), sixth * t * t * t}};
  return spline;
}

/* Returns the weighted sum of the spline's four points, which are `step` elements apart. */
HOST_DEVICE AugmentPoint augment_blend(const AugmentSpline *spline, const AugmentPoint *points,
                                       int step) {
  AugmentPoint sum = {0.0f, 0.0f};
  for (int i = 0; i < 4; i++) {
    const AugmentPoint point = points[(spline->first + i) * step];
    sum.x += spline->weight[i] * point.x;
    sum.y += spline->weight[i] * point.y;
  }
  return sum;
}

HOST_DEVICE float augment_read(const uint8_t *pixels, int side, int x, int y) {
  return x >= 0 && x < side && y >= 0 && y < side ? (float)pixels[y * side + x] : 0.0f;
}

/* Returns floorf(value) as an int. floorf itself is slow without SSE 4.1. */
HOST_DEVICE int augment_floor(float value) {
  const int towards_0 = (int)value;
  return towards_0 - ((float)towards_0 > value);
}

/* Returns pixel (x, y) of the distorted copy. `displaced` is that pixel's elastic displacement. */
HOST_DEVICE uint8_t augment_pixel(const AugmentMap *map, AugmentPoint displaced,
                                  const uint8_t *pixels, int side, int x, int y) {
  const float centre = 0.5f * (float)(side - 1);
  const float right = (float)x - centre - map->shift.x, down = (float)y - centre - map->shift.y;
  const float from_x = centre + (map->xx * right + map->xy * down) + displaced.x;
  const float from_y = centre + (map->yx * right + map->yy * down) + displaced.y;
  const int column = augment_floor(from_x), line = augment_floor(from_y);
  const float part_x = from_x - (float)column, part_y = from_y - (float)line;
  const float above = (1.0f - part_x) * augment_read(pixels, side, column, line) +
                      part_x * augment_read(pixels, side, column + 1, line);
  const float below = (1.0f - part_x) * augment_read(pixels, side, column, line + 1) +
                      part_x * augment_read(pixels, side, column + 1, line + 1);
  return (uint8_t)((1.0f - part_y) * above + part_y * below + 0.5f);
}

/* ---- a whole picture ------------------------------------------------------------------------ */

/* Sets copy (side, side) from pixels (side, side). The two must not overlap. */
HOST_DEVICE void augment_picture(const AugmentMap *map,
                                 const AugmentPoint control[AUGMENT_POINTS * AUGMENT_POINTS],
                                 const uint8_t *pixels, uint8_t *copy, int side) {
  AugmentSpline spline[AUGMENT_MOST_SIDE];
  for (int at = 0; at < side; at++) spline[at] = augment_spline(at, side);
  for (int y = 0; y < side; y++) {
    AugmentPoint line[AUGMENT_POINTS]; /* [p]: column p of control points, blended for row y */
    for (int p = 0; p < AUGMENT_POINTS; p++)
      line[p] = augment_blend(&spline[y], control + p, AUGMENT_POINTS);
    for (int x = 0; x < side; x++)
      copy[y * side + x] =
          augment_pixel(map, augment_blend(&spline[x], line, 1), pixels, side, x, y);
  }
}

/* Draws the distortion of row `row` under `key` and sets `copy` to the distorted picture. */
HOST_DEVICE void augment_row(AugmentStrengths strengths, uint64_t key, uint32_t row,
                             const uint8_t *pixels, uint8_t *copy, int side) {
  AugmentPoint control[AUGMENT_POINTS * AUGMENT_POINTS];
  const AugmentMap map = augment_map(strengths, key, row, side);
  for (int p = 0; p < AUGMENT_POINTS * AUGMENT_POINTS; p++)
    control[p] = augment_control(strengths, key, row, side, p);
  augment_picture(&map, control, pixels, copy, side);
}
