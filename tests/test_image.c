/* Pictures read as MNIST's rows: what is ink, and where it goes. Formats, and what is refused, are
   in test_image_formats.c, photographs in test_photographs.c. */
#include <stb/stb_image_write.h>

#include "base/random.h"
#include "data/ink.h"
#include "data/photograph.h"
#include "support/pictures.h"

static Error error;

/* ---- where the ink goes ------------------------------------------------------------------- */

TESTS_WITH(pictures_open, folder_close);

/* A bar of 4 x 20 is as MNIST would have it: nothing is changed but its place. 14 lies nearest to
   the middle of 20 rows that begin at 5, and of 4 columns that begin at 13. */
TEST(test_place) {
  static const struct {
    int scale, left, top, width, height;
  } cases[] = {{1, 5, 3, 30, 40}, {3, 20, 1, 100, 70}, {7, 0, 300, 900, 500}};
  uint8_t expected[PIXELS] = {0}, pixels[PIXELS];
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
  uint8_t pixels[PIXELS];
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
    uint8_t pixels[PIXELS];
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

/* A digit that fills its box is read the same, wherever it stands and however large it is. */
TEST(test_place_and_size_do_not_matter) {
  for (uint64_t row = 0; row < 20; row++) {
    uint8_t expected[PIXELS], pixels[PIXELS];
    Grey g = digit(row, 1, false);
    through_png(&g, expected);
    g = new_grey(300, 200, 0);
    draw_digit(&g, row, 3, 190 - 9 * (int)row, 5 * (int)row, false);
    through_png(&g, pixels);
    assert_true(difference(pixels, expected) < 0.1);
  }
}

/* A digit as MNIST has it comes back as it was, enlarged or not, but for a rounding and for
   the few strongest pixels, which decide what full ink is. */
TEST(test_comes_back) {
  for (uint64_t row = 0; row < 50; row++) {
    uint8_t expected[PIXELS], pixels[PIXELS];
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
  free(g.level);
  foreach (each, sides) {
    const int side = *each, count = side * side;
    uint8_t pixels[64 * 64 + 1];
    pixels[count] = 77;
    assert_true(read_picture(picture, side, pixels, &error));
    int lit = 0;
    for (int p = 0; p < count; p++) lit += pixels[p] > 0;
    assert_in_range(lit, 1, side > 3 ? count / 2 : count);
    assert_int_equal(pixels[count], 77);
  }
}

/* ---- what is ink -------------------------------------------------------------------------- */

typedef struct {
  int paper[3], ink[3];
} Colours;

/* 0 to 255 becomes paper to ink. */
static void write_coloured(const Grey *g, Colours c) {
  const size_t count = (size_t)g->width * (size_t)g->height;
  uint8_t *rgb = malloc(3 * count);
  assert_non_null(rgb);
  for (size_t i = 0; i < 3 * count; i++) {
    const int k = (int)(i % 3);
    rgb[i] = (uint8_t)(c.paper[k] + (c.ink[k] - c.paper[k]) * g->level[i / 3] / 255);
  }
  assert_true(stbi_write_png(picture, g->width, g->height, 3, rgb, 0));
  free(rgb);
}

/* Dark on light, light on dark, strong or pale: the same to a rounding. */
TEST(test_colours_do_not_matter) {
  static const Colours cases[] = {
      {{255, 255, 255}, {0, 0, 0}},    {{250, 240, 200}, {20, 30, 120}},
      {{10, 10, 80}, {250, 240, 60}},  {{255, 255, 255}, {255, 0, 0}},
      {{200, 200, 200}, {90, 90, 90}}, {{30, 30, 30}, {160, 150, 140}},
  };
  foreach (colours, cases)
    for (uint64_t row = 0; row < 10; row++) {
      uint8_t expected[PIXELS], pixels[PIXELS];
      Grey g = digit(row, 3, false);
      write_coloured(&g, *colours);
      read_digit(pixels);
      through_png(&g, expected);
      const double d = difference(pixels, expected);
      if (!(d < 1)) fail_msg("ink %d, digit %d: %g", colours->ink[0], (int)row, d);
    }
}

/* A broad pen in a picture that has nothing else: a frame, a fourth of its width thick. */
TEST(test_thick_digit) {
  uint8_t dark[PIXELS], light[PIXELS];
  Grey g = new_grey(60, 60, 255), inverted = new_grey(60, 60, 0);
  draw_bar(&g, 12, 6, 36, 48, 0);
  draw_bar(&g, 21, 15, 18, 30, 255);
  draw_bar(&inverted, 12, 6, 36, 48, 255);
  draw_bar(&inverted, 21, 15, 18, 30, 0);
  through_png(&g, dark);
  through_png(&inverted, light);
  assert_memory_equal(dark, light, PIXELS);
  assert_int_equal(dark[14 * SIDE + 14], 0);
  assert_int_equal(dark[14 * SIDE + 8], 255);
  assert_int_equal(dark[5 * SIDE + 14], 255);
}

/* A speck beside the digit's upper end, and a little above it. */
TEST(test_dust) {
  uint8_t expected[PIXELS], pixels[PIXELS];
  Grey g = new_grey(200, 200, 0);
  draw_bar(&g, 90, 30, 28, 140, 255);
  write_png(&g);
  read_digit(expected);
  draw_bar(&g, 150, 26, 6, 5, 255);
  through_png(&g, pixels);
  assert_memory_equal(pixels, expected, PIXELS);
}

/* The least mean difference if `a` may be moved by a pixel. */
static double difference_when_moved(const uint8_t *a, const uint8_t *b) {
  double least = 255;
  for (int move = 0; move < 9; move++) {
    uint8_t moved[PIXELS] = {0};
    const int by = (move / 3 - 1) * SIDE + move % 3 - 1;
    for (int i = 0; i < PIXELS; i++)
      if (i + by >= 0 && i + by < PIXELS) moved[i + by] = a[i];
    const double d = difference(moved, b);
    if (d < least) least = d;
  }
  return least;
}

/* A photograph: grey ink on paper that is not white, shaded from corner to corner, with noise,
   grain in every line and a speck of dust in the corner. */
static Grey photograph(uint64_t row) {
  Grey g = new_grey(400, 400, 0);
  draw_digit(&g, row, 10, 60, 60, false);
  for (int y = 0; y < 400; y++)
    for (int x = 0; x < 400; x++) {
      const int grain = random_words(6, row, (uint64_t)(y * 400 + x)).word[0] % 50 == 0 ? 32 : 0;
      const int paper = 170 + (x + y) / 80 + noise(12, y * 400 + x) - grain;
      *pixel_at(&g, x, y) = (uint8_t)(paper - *pixel_at(&g, x, y) * 100 / 255);
    }
  draw_bar(&g, 390, 1, 2, 2, 60);
  return g;
}

TEST(test_photograph) {
  enum { DIGITS = 10 };
  double sum = 0;
  for (uint64_t row = 0; row < DIGITS; row++) {
    uint8_t expected[PIXELS], pixels[PIXELS];
    Grey g = digit(row, 10, false);
    through_png(&g, expected);
    g = photograph(row);
    through_png(&g, pixels);
    sum += difference_when_moved(pixels, expected);
  }
  if (!(sum / DIGITS < 8)) fail_msg("mean difference %g", sum / DIGITS);
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
  free(g.level);
}
