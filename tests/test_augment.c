/* Tests the arithmetic of augmentation (augment.h). test_kernels.c tests the CUDA kernel;
   test_augment_engine.c tests training on augmented rows. */
#include "base/augment.h"
#include "support/network_reference.h"
#include "support/test.h"

enum { MOST_PIXELS = AUGMENT_MOST_SIDE * AUGMENT_MOST_SIDE, SIDE = 28, DRAWS = 4000 };
enum { CONTROLS = AUGMENT_POINTS * AUGMENT_POINTS };

static const AugmentMap no_map = {1, 0, 0, 1, {0, 0}};
static const AugmentPoint no_control[CONTROLS];
static const AugmentStrengths none;

static const int sides[] = {1, 5, 28, 31, 64};

static int at(const uint8_t *pixels, int side, double x, double y) {
  return x < 0 || y < 0 || x >= side || y >= side ? 0 : pixels[(int)y * side + (int)x];
}

/* Returns pixel (x, y) of the augmented copy, interpolated at its source (u, v). */
static int mapped(const AugmentMap *m, const uint8_t *pixels, int side, int x, int y) {
  const double centre = (side - 1) / 2.0, right = x - centre - (double)m->shift.x,
               down = y - centre - (double)m->shift.y;
  const double u = centre + (double)m->xx * right + (double)m->xy * down, left = floor(u);
  const double v = centre + (double)m->yx * right + (double)m->yy * down, top = floor(v);
  double sum = 0;
  for (int i = 0; i < 4; i++) {
    const int across = i % 2, down_by = i / 2;
    const double column = left + across, row = top + down_by;
    sum += (1 - fabs(u - column)) * (1 - fabs(v - row)) * at(pixels, side, column, row);
  }
  return (int)floor(sum + 0.5);
}

/* If all strengths are 0, no pixel changes. The maps shift by whole pixels, by parts of a pixel or
   out of the picture, turn by 90 degrees, or change the size. */
TEST(test_maps) {
  foreach (each_side, sides) {
    const int side = *each_side;
    uint8_t pixels[MOST_PIXELS], copy[MOST_PIXELS];
    reference_fill_pixels(pixels, (size_t)(side * side), 1); /* noise, so that pixels differ */
    augment_row(none, 5, 6, pixels, copy, side);
    assert_memory_equal(copy, pixels, (size_t)(side * side));
    foreach (map,
             VALUES(AugmentMap, {1, 0, 0, 1, {0, 0}}, {1, 0, 0, 1, {2, -3}}, {1, 0, 0, 1, {-1, 1}},
                    {1, 0, 0, 1, {-100, 0}}, {0, 1, -1, 0, {0, 0}}, {2, 0, 0, 2, {0, 0}},
                    {1, 0, 0, 1, {-0.25f, -0.5f}}, {0.5f, 0, 0, 1, {0, 1}})) {
      augment_picture(map, no_control, pixels, copy, side);
      EACH_PIXEL(x, y, side, side) {
        assert_int_equal(copy[y * side + x], mapped(map, pixels, side, x, y));
      }
    }
  }
}

static double b_spline(double distance) {
  const double d = fabs(distance);
  if (d >= 2) return 0;
  return d < 1 ? 2.0 / 3 - d * d + d * d * d / 2 : (2 - d) * (2 - d) * (2 - d) / 6;
}

TEST(test_splines) {
  foreach (side, sides)
    for (int pixel = 0; pixel < *side; pixel++) {
      const AugmentSpline spline = augment_spline(pixel, *side);
      const double place = (pixel + 0.5) * AUGMENT_CELLS / *side;
      assert_true(spline.first >= 0 && spline.first + 3 < AUGMENT_POINTS);
      for (int w = 0; w < 4; w++)
        assert_close(spline.weight[w], b_spline(place - (spline.first + w - 1)), 1e-6);
    }
}

/* Returns how far the control points move pixel (x, y). */
static AugmentPoint moved_at(const AugmentPoint *control, int x, int y) {
  const AugmentSpline down = augment_spline(y, SIDE), across = augment_spline(x, SIDE);
  AugmentPoint line[AUGMENT_POINTS];
  for (int p = 0; p < AUGMENT_POINTS; p++)
    line[p] = augment_blend(&down, control + p, AUGMENT_POINTS);
  return augment_blend(&across, line, 1);
}

/* Each control point moves only the pixels around it. Its displacement decides how far they go. */
TEST(test_displacements) {
  AugmentPoint control[CONTROLS];
  for (int p = 0; p < CONTROLS; p++) {
    const int column = p % AUGMENT_POINTS, row = p / AUGMENT_POINTS;
    control[p] = (AugmentPoint){(float)column, 10 * (float)row};
  }
  EACH_PIXEL(x, y, SIDE, SIDE) {
    const AugmentPoint moved = moved_at(control, x, y);
    /* splines reproduce linear functions exactly; control point p is at cell coordinate p - 1 */
    assert_close(moved.x, (x + 0.5) * AUGMENT_CELLS / SIDE + 1, 1e-5);
    assert_close(moved.y, 10 * ((y + 0.5) * AUGMENT_CELLS / SIDE + 1), 1e-4);
  }
  uint8_t pixels[SIDE * SIDE], copy[SIDE * SIDE];
  reference_fill_pixels(pixels, sizeof pixels, 5);
  for (int p = 0; p < CONTROLS; p++) control[p] = (AugmentPoint){3, -2};
  augment_picture(&no_map, control, pixels, copy, SIDE);
  EACH_PIXEL(x, y, SIDE, SIDE) {
    assert_true(abs(copy[y * SIDE + x] - at(pixels, SIDE, x + 3, y - 2)) <= 1);
  }
}

static AugmentStrengths only(int kind, float strength) {
  AugmentStrengths strengths = {0};
  strengths.most[kind] = strength;
  return strengths;
}

/* Random values stay within their limits, and the largest of 4000 values is within 1% of its limit.
   A kind of change gets the same values whether or not other kinds are used. */
TEST(test_each_kind_draws_its_own) {
  const AugmentStrengths strong = {{2.5f, 30, 0.3f, 0.4f, 5}};
  /* limits of shift x, shift y, angle, width, height, lean, elastic x, elastic y; `strong` gives
     lengths for side 28, which double for side 56 */
  const double limits[] = {2 * 2.5, 2 * 2.5, 30 * acos(-1) / 180, 0.3, 0.3, 0.4, 2 * 5, 2 * 5};
  enum { LIMITS = LENGTH(limits) };
  double most[LIMITS] = {0};
  int alike = 0; /* number of rows in which x equals y by chance */
  for (uint32_t row = 0; row < DRAWS; row++) {
    AugmentMap alone[AUGMENT_ELASTIC]; /* one map per kind */
    for (int k = 0; k < AUGMENT_ELASTIC; k++)
      alone[k] = augment_map(only(k, strong.most[k]), 9, row, 56);
    const AugmentMap shift = alone[AUGMENT_SHIFT], rotate = alone[AUGMENT_ROTATE];
    const AugmentMap scale = alone[AUGMENT_SCALE], shear = alone[AUGMENT_SHEAR];
    const AugmentMap all = augment_map(strong, 9, row, 56);
    const AugmentPoint control = augment_control(strong, 9, row, 56, (int)row % CONTROLS);
    assert_true(shift.xx == 1 && shift.xy == 0 && shift.yx == 0 && shift.yy == 1);
    assert_close(hypot((double)rotate.xx, (double)rotate.xy), 1, 1e-6);
    assert_true(rotate.xx == rotate.yy && rotate.xy == -rotate.yx);
    assert_true(scale.xy == 0 && scale.yx == 0 && shear.xx == 1 && shear.yy == 1 && shear.yx == 0);
    assert_true(all.shift.x == shift.shift.x && all.shift.y == shift.shift.y);
    assert_close(all.xx, rotate.xx * scale.xx, 1e-6);
    assert_close(all.xy, rotate.xy * scale.xx + shear.xy, 1e-6);
    assert_close(all.yx, rotate.yx * scale.yy, 1e-6);
    alike += shift.shift.x == shift.shift.y || scale.xx == scale.yy || control.x == control.y;
    const float drawn[LIMITS] = {shift.shift.x,    shift.shift.y,    atan2f(rotate.xy, rotate.xx),
                                 1 / scale.xx - 1, 1 / scale.yy - 1, shear.xy,
                                 control.x,        control.y};
    for (int i = 0; i < LIMITS; i++) most[i] = fmax(most[i], fabs((double)drawn[i]));
  }
  assert_true(alike < DRAWS / 100);
  for (int i = 0; i < LIMITS; i++)
    assert_true(most[i] <= limits[i] * (1 + 1e-6) && most[i] > 0.99 * limits[i]);
}

TEST(test_key_and_row_draw) {
  uint8_t pixels[784], copy[784], again[784];
  reference_fill_pixels(pixels, sizeof pixels, 2);
  for (int k = 0; k < AUGMENT_KINDS; k++) {
    const AugmentStrengths kind = only(k, AUGMENT_USUAL.most[k]);
    augment_row(kind, 3, 7, pixels, copy, 28);
    assert_memory_not_equal(copy, pixels, sizeof copy);
    for (uint32_t other = 0; other < 3; other++) { /* 0: the same; 1: other key; 2: other row */
      augment_row(kind, 3 + (other == 1), 7 + (other == 2), pixels, again, 28);
      assert_int_equal(memcmp(again, copy, sizeof copy) == 0, other == 0);
    }
  }
}
