/* Pictures read as MNIST's rows: what is ink, and where it goes. Formats, and what is refused, are
   in test_image_formats.c, photographs in test_photographs.c. */
#include "data/ink.h"
#include "support/pictures.h"

static uint8_t expected[PIXELS], pixels[PIXELS];

/* ---- where the ink goes ------------------------------------------------------------------- */

TESTS_WITH(folder_enter, folder_close);

/* A bar of 4 x 20 is as MNIST would have it: nothing is changed but its place. 14 lies nearest to
   the middle of 20 rows that begin at 5, and of 4 columns that begin at 13. */
TEST(test_place) {
  static const struct {
    int scale, left, top, width, height;
  } cases[] = {{1, 5, 3, 30, 40}, {3, 20, 1, 100, 70}, {7, 0, 300, 900, 500}};
  memset(expected, 0, PIXELS);
  draw_bar(&(Grey){SIDE, SIDE, expected}, 13, 5, 4, 20, 255);
  foreach (row, cases) {
    Grey g = new_grey(row->width, row->height, 10);
    draw_bar(&g, row->left, row->top, 4 * row->scale, 20 * row->scale, 200);
    through_png(&g, pixels);
    assert_memory_equal(pixels, expected, PIXELS);
  }
}

/* The longer extent is 20, in whichever direction, and the aspect stays; the centre of mass of an
   L lies far from the centre of its box. */
TEST(test_scale) {
  Grey g = new_grey(200, 150, 255);
  draw_bar(&g, 30, 20, 10, 80, 0);
  draw_bar(&g, 30, 100, 50, 20, 0);
  through_png(&g, pixels);
  int left = SIDE, right = -1, top = SIDE, bottom = -1;
  double mass = 0, x_moment = 0, y_moment = 0;
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++) {
      const int ink = pixels[y * SIDE + x];
      mass += ink, x_moment += x * ink, y_moment += y * ink;
      if (ink && x < left) left = x;
      if (ink && x > right) right = x;
      if (ink && y < top) top = y;
      if (ink && y > bottom) bottom = y;
    }
  assert_int_equal(bottom - top + 1, 20);
  assert_int_equal(right - left + 1, 10);
  assert_true(x_moment / mass > 13.49 && x_moment / mass < 14.51);
  assert_true(y_moment / mass > 13.49 && y_moment / mass < 14.51);
}

/* A centre of mass far from the middle of its box draws the box to the edge, and not beyond. */
TEST(test_edges) {
  for (int turn = 0; turn < 4; turn++) {
    Grey g = new_grey(40, 40, 0);
    for (int y = 0; y < 40; y++)
      for (int x = 0; x < 40; x++) {
        const int along = turn & 1 ? x : y, across = turn & 1 ? y : x;
        const bool thick = turn & 2 ? along < 6 : along >= 34;
        if (thick || across == 20) *pixel_at(&g, x, y) = 255;
      }
    for (int i = 0; i < 40; i++)
      *pixel_at(&g, 0, i) = *pixel_at(&g, 39, i) = *pixel_at(&g, i, 0) = *pixel_at(&g, i, 39) = 0;
    through_png(&g, pixels);
    int lines = 0, first = SIDE;
    for (int i = 0; i < SIDE; i++) {
      bool lit = false;
      for (int k = 0; k < SIDE; k++) lit |= pixels[turn & 1 ? k * SIDE + i : i * SIDE + k] > 0;
      if (lit && lines++ == 0) first = i;
    }
    assert_int_equal(lines, 20);
    assert_int_equal(first, turn & 2 ? SIDE - 20 : 0);
  }
}

/* A digit as MNIST has it comes back as it was, enlarged or not, but for a rounding and for
   the few strongest pixels, which decide what full ink is. */
TEST(test_comes_back) {
  for (uint64_t row = 0; row < 50; row++) {
    Grey g = digit(row, 3, true);
    through_png(&g, expected);
    for (int scale = 1; scale < 5; scale += 2) {
      g = new_grey(SIDE * scale, SIDE * scale, 0);
      for (int y = 0; y < SIDE * scale; y++)
        for (int x = 0; x < SIDE * scale; x++)
          *pixel_at(&g, x, y) = expected[y / scale * SIDE + x / scale];
      through_png(&g, pixels);
      const double d = difference(pixels, expected);
      if (!(d < 2)) fail_msg("digit %d enlarged by %d: %g", (int)row, scale, d);
    }
  }
}

TEST(test_other_sides) {
  static const int sides[] = {2, 3, 20, 29, 64};
  Grey g = digit(3, 3, true);
  write_png(&g);
  foreach (each, sides) {
    const int side = *each, count = side * side;
    uint8_t row[64 * 64 + 1];
    row[count] = 77;
    assert_true(read_picture(picture, side, row, &error));
    int lit = 0;
    for (int p = 0; p < count; p++) lit += row[p] > 0;
    assert_in_range(lit, 1, side > 3 ? count / 2 : count);
    assert_int_equal(row[count], 77);
  }
}

/* ---- what is ink -------------------------------------------------------------------------- */

/* Dark on light, light on dark, strong or pale: the same to a rounding. */
TEST(test_colours_do_not_matter) {
  static const Colours cases[] = {
      {{255, 255, 255}, {0, 0, 0}},    {{250, 240, 200}, {20, 30, 120}},
      {{10, 10, 80}, {250, 240, 60}},  {{255, 255, 255}, {255, 0, 0}},
      {{200, 200, 200}, {90, 90, 90}}, {{30, 30, 30}, {160, 150, 140}},
  };
  foreach (colours, cases)
    for (uint64_t row = 0; row < 10; row++) {
      Grey g = digit(row, 3, false);
      write_coloured(picture, &g, *colours);
      read_digit(pixels);
      through_png(&g, expected);
      const double d = difference(pixels, expected);
      if (!(d < 1)) fail_msg("ink %d, digit %d: %g", colours->ink[0], (int)row, d);
    }
}

/* A broad pen in a picture that has nothing else: a frame, a fourth of its width thick. */
TEST(test_thick_digit) {
  for (int dark = 0; dark < 2; dark++) {
    const uint8_t paper = dark ? 255 : 0, ink = 255 - paper;
    Grey g = new_grey(60, 60, paper);
    draw_bar(&g, 12, 6, 36, 48, ink);
    draw_bar(&g, 21, 15, 18, 30, paper);
    through_png(&g, dark ? pixels : expected);
  }
  assert_memory_equal(pixels, expected, PIXELS);
  assert_int_equal(pixels[14 * SIDE + 14], 0);
  assert_int_equal(pixels[14 * SIDE + 8], 255);
  assert_int_equal(pixels[5 * SIDE + 14], 255);
}

/* A speck beside the digit's upper end, and a little above it. */
TEST(test_dust) {
  Grey g = new_grey(200, 200, 0);
  draw_bar(&g, 90, 30, 28, 140, 255);
  write_png(&g);
  read_digit(expected);
  draw_bar(&g, 150, 26, 6, 5, 255);
  through_png(&g, pixels);
  assert_memory_equal(pixels, expected, PIXELS);
}

/* Two rules with one pixel between them are both erased, every row of them, and a pen's stroke that
   begins behind the next pixel is left. */
TEST(test_rules_close_to_each_other) {
  enum { WIDTH = 400, HEIGHT = 300, RULE = 100, STROKE = 200 };
  Grey g = new_grey(WIDTH, HEIGHT, 255);
  draw_bar(&g, 0, RULE, WIDTH, 2, 0);
  draw_bar(&g, 0, RULE + 3, WIDTH, 2, 0);
  draw_bar(&g, STROKE, RULE + 6, 20, 100, 0);
  Ink ink;
  bool none;
  const Image image = {WIDTH, HEIGHT, g.level, 1, WIDTH, HEIGHT};
  assert_true(ink_find(&image, &ink, &none));
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++) {
      const bool stroke = y >= RULE + 6 && y < RULE + 106 && x >= STROKE && x < STROKE + 20;
      if ((ink.contrast[y * WIDTH + x] > 0) != stroke) fail_msg("x %d, y %d", x, y);
    }
  ink_free(&ink);
}
