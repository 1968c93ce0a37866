/* The canvas: what it paints, its text, its files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "plot/canvas.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/stb_png.h"

static const Colour WHITE = {255, 255, 255}, BLACK = {0, 0, 0}, BLUE = {9, 105, 218};

static Error error;

static Canvas open_picture(int width, int height) {
  Canvas picture;
  if (!canvas_open(&picture, width, height, WHITE, &error)) fail_msg("%s", error.text);
  return picture;
}

static const uint8_t *pixel(const Canvas *p, int x, int y) {
  assert_in_range(x, 0, p->width - 1);
  assert_in_range(y, 0, p->height - 1);
  return p->pixels + 3 * (y * p->width + x);
}

static bool has_colour(const Canvas *p, int x, int y, Colour colour) {
  return memcmp(pixel(p, x, y), &colour, 3) == 0;
}

/* Pixels that are not white. */
static int count_drawn(const Canvas *p) {
  int count = 0;
  for (int y = 0; y < p->height; y++)
    for (int x = 0; x < p->width; x++) count += !has_colour(p, x, y, WHITE);
  return count;
}

/* What a drawing leaves behind would show in the next one. */
static void assert_no_coverage(const Canvas *p) {
  for (int i = 0; i < p->width * p->height; i++) assert_int_equal(p->coverage[i], 0);
}

TEST(test_sizes) {
  static const int bad[][2] = {{0, 5}, {5, 0}, {-1, 5}, {CANVAS_MAX_SIDE + 1, 1}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Canvas picture;
    assert_false(canvas_open(&picture, bad[i][0], bad[i][1], WHITE, &error));
    assert_non_null(strstr(error.text, "each side"));
    canvas_close(&picture);
  }
  Canvas picture = open_picture(3, 2);
  assert_int_equal(count_drawn(&picture), 0);
  canvas_close(&picture);
  assert_null(picture.pixels);
}

TEST(test_rectangles) {
  Canvas p = open_picture(10, 8);
  canvas_rectangle(&p, 2, 3, 4, 2, BLUE);
  assert_int_equal(count_drawn(&p), 8);
  for (int y = 3; y < 5; y++)
    for (int x = 2; x < 6; x++) assert_true(has_colour(&p, x, y, BLUE));
  canvas_rectangle(&p, -5, -5, 6, 6, BLACK); /* its last pixel is inside */
  assert_int_equal(count_drawn(&p), 9);
  assert_true(has_colour(&p, 0, 0, BLACK));
  canvas_rectangle(&p, 9, 7, 100, 100, BLACK);
  assert_int_equal(count_drawn(&p), 10);
  canvas_rectangle(&p, 20, 20, 5, 5, BLACK);
  canvas_rectangle(&p, 3, 3, 0, 5, BLACK);
  canvas_rectangle(&p, -9, 0, 5, 5, BLACK);
  assert_int_equal(count_drawn(&p), 10);
  canvas_close(&p);
}

TEST(test_greys) {
  static const uint8_t greys[] = {0, 50, 100, 150, 200, 250}; /* 2 rows of 3 */
  Canvas p = open_picture(12, 9);
  canvas_greys(&p, 2, 1, greys, 3, 2, 3);
  for (int y = 0; y < p.height; y++)
    for (int x = 0; x < p.width; x++) {
      const bool inside = x >= 2 && x < 11 && y >= 1 && y < 7;
      const uint8_t grey = inside ? greys[(y - 1) / 3 * 3 + (x - 2) / 3] : 255;
      assert_true(has_colour(&p, x, y, (Colour){grey, grey, grey}));
    }
  canvas_close(&p);

  p = open_picture(4, 4);
  canvas_greys(&p, -3, -2, greys, 3, 2, 2); /* its last pixels are inside */
  for (int y = 0; y < 2; y++) {
    assert_true(has_colour(&p, 0, y, (Colour){200, 200, 200}));
    assert_true(has_colour(&p, 1, y, (Colour){250, 250, 250}));
  }
  assert_int_equal(count_drawn(&p), 6);
  canvas_close(&p);
}

TEST(test_lines) {
  Canvas p = open_picture(20, 12);
  canvas_line(&p, 4, 5, 14, 5, 2, BLACK); /* covers rows 4 and 5 */
  for (int x = 4; x < 14; x++) {
    assert_true(has_colour(&p, x, 4, BLACK) && has_colour(&p, x, 5, BLACK));
    assert_true(has_colour(&p, x, 2, WHITE) && has_colour(&p, x, 7, WHITE));
  }
  assert_true(has_colour(&p, 1, 5, WHITE) && has_colour(&p, 17, 5, WHITE));
  assert_no_coverage(&p);
  canvas_close(&p);

  p = open_picture(20, 12);
  canvas_line(&p, 0, 5.5, 20, 6, 1, BLUE); /* leaves the middle of a row: between blue and white */
  int pale = 0;
  for (int x = 0; x < 20; x++) {
    const uint8_t *c = pixel(&p, x, 6);
    pale += c[0] > 20 && c[0] < 235 && c[1] >= 105 && c[2] >= 218;
  }
  assert_true(pale > 10);
  canvas_close(&p);

  p = open_picture(5, 5);
  canvas_line(&p, -100, -100, 200, 200, 3, BLACK); /* through and far beyond */
  canvas_line(&p, -50, 2, -20, 2, 3, BLUE);
  canvas_line(&p, (double)NAN, 2, 4, 2, 3, WHITE); /* draws something or nothing, but stays in */
  assert_true(has_colour(&p, 2, 2, BLACK));
  assert_no_coverage(&p);
  canvas_close(&p);
}

/* ---- text --------------------------------------------------------------------------------- */

enum { LETTER_WIDTH = 40, LETTER_HEIGHT = 44 };

static Canvas draw_letter(char letter) {
  const char text[2] = {letter, '\0'};
  Canvas p = open_picture(LETTER_WIDTH, LETTER_HEIGHT);
  canvas_text(&p, 6, 32, 28, text, BLACK);
  return p;
}

TEST(test_letters_differ) {
  Canvas all[95];
  for (int i = 0; i < 95; i++) all[i] = draw_letter((char)(' ' + i));
  assert_int_equal(count_drawn(&all[0]), 0);
  for (int i = 0; i < 95; i++)
    for (int k = 0; k < i; k++)
      if (memcmp(all[i].pixels, all[k].pixels, (size_t)3 * LETTER_WIDTH * LETTER_HEIGHT) == 0)
        fail_msg("'%c' and '%c' look the same", ' ' + i, ' ' + k);
  for (int i = 0; i < 95; i++) canvas_close(&all[i]);
}

/* Rows of pixels of each letter's top and bottom: a letter in the wrong place of the table shows.
 */
TEST(test_letters_stand_on_their_lines) {
  static const struct {
    const char *letters;
    int top, bottom; /* units of a fourteenth of a capital */
  } kinds[] = {{"ABCDEFGHIJKLMNOPRSTUVWXYZ0123456789bdhklfi", 0, 14},
               {"acemnorsuvwxz", 4, 14},
               {"gpqy", 4, 18},
               {"()[]{}|/", 0, 16},
               {"'\"", 0, 4},
               {"-", 8, 8},
               {"_", 16, 16},
               {".", 14, 14}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (const char *c = kinds[k].letters; *c; c++) {
      Canvas p = draw_letter(*c);
      int top = LETTER_HEIGHT, bottom = 0;
      for (int y = 0; y < LETTER_HEIGHT; y++)
        for (int x = 0; x < LETTER_WIDTH; x++)
          if (pixel(&p, x, y)[0] < 128) top = y < top ? y : top, bottom = y > bottom ? y : bottom;
      /* a unit is 2 pixels, the pen 4 wide; curves may stop a little short of their corners */
      if (abs(top - (4 + 2 * kinds[k].top - 2)) > 2 ||
          abs(bottom - (4 + 2 * kinds[k].bottom + 1)) > 2)
        fail_msg("'%c' reaches from row %d to %d", *c, top, bottom);
      canvas_close(&p);
    }
}

TEST(test_widths) {
  Canvas p = open_picture(300, 40);
  const double end = canvas_text(&p, 10, 30, 14, "MNIST 64", BLACK);
  const double width = canvas_text_width(14, "MNIST 64");
  assert_true(end > 10 + width && end < 10 + width + 6); /* and the gap before what follows */
  assert_true(fabs(canvas_text_width(28, "MNIST 64") - 2 * width) < 1e-9);
  for (int y = 0; y < p.height; y++) /* nothing before the text but the pen's half, nor behind it */
    for (int x = 0; x < p.width; x++)
      if (x < 8 || x > 12 + width) assert_true(has_colour(&p, x, y, WHITE));
  assert_true(fabs(canvas_text_width(14, "111") - canvas_text_width(14, "808")) < 1e-9);
  assert_true(canvas_text_width(14, "") == 0);
  assert_no_coverage(&p);
  canvas_close(&p);
}

TEST(test_strange_text) {
  Canvas mark = draw_letter('?'), high = draw_letter('\xb5'), low = draw_letter('\n');
  const size_t bytes = (size_t)3 * LETTER_WIDTH * LETTER_HEIGHT;
  assert_memory_equal(mark.pixels, high.pixels, bytes);
  assert_memory_equal(mark.pixels, low.pixels, bytes);
  canvas_text(&mark, -30, 5, 40, "outside on every side, far beyond", BLACK);
  canvas_text(&mark, 30, 500, 12, "below", BLACK);
  assert_no_coverage(&mark);
  canvas_close(&mark);
  canvas_close(&high);
  canvas_close(&low);
}

/* ---- files -------------------------------------------------------------------------------- */

static void assert_saved(const Canvas *p, const char *path) {
  int width, height, channels;
  assert_true(canvas_save(p, path, &error));
  uint8_t *read = stbi_load(path, &width, &height, &channels, 0);
  assert_non_null(read);
  assert_true(width == p->width && height == p->height && channels == 3);
  assert_memory_equal(read, p->pixels, (size_t)(3 * width * height));
  stbi_image_free(read);
}

TEST_WITH(test_saving, folder_open, folder_close) {
  const char *path = folder_path("picture.png");
  Canvas p = open_picture(61, 17);
  canvas_rectangle(&p, 5, 5, 20, 6, BLUE);
  canvas_text(&p, 3, 15, 10, "PNG", BLACK);
  assert_saved(&p, path);
  canvas_line(&p, 0, 0, 60, 16, 2, BLACK);
  assert_saved(&p, path); /* replaces the first */
  path = folder_path("no-such-folder/picture.png");
  assert_false(canvas_save(&p, path, &error));
  assert_non_null(strstr(error.text, path));
  assert_non_null(strstr(error.text, "its folder does not exist"));
  canvas_close(&p);
}

/* Pixels that compress badly, in several ways: the file takes the most memory then. */
TEST_WITH(test_noise, folder_open, folder_close) {
  static const int sides[][2] = {{1, 1}, {1, 900}, {900, 1}, {400, 300}};
  for (int kinds = 1; kinds <= 256; kinds *= 4)
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++) {
      Canvas p = open_picture(sides[s][0], sides[s][1]);
      const int bytes = 3 * p.width * p.height;
      for (int i = 0; i < bytes; i++)
        p.pixels[i] = (uint8_t)(random_words(1, 0, (uint64_t)i).word[0] % (unsigned)kinds);
      assert_saved(&p, folder_path("noise.png"));
      canvas_close(&p);
    }
}

TEST(test_full_disk) {
  FILE *full = fopen("/dev/full", "w");
  if (!full) {
    print_message("there is no /dev/full\n");
    skip();
  }
  fclose(full);
  for (int side = 4; side <= 400; side += 396) { /* the small one fails as late as in fclose */
    Canvas p = open_picture(side, side);
    for (int i = 0; i < side; i++) canvas_line(&p, i, 0, side - i, side, 1, BLUE);
    assert_false(canvas_save(&p, "/dev/full", &error));
    assert_non_null(strstr(error.text, "/dev/full"));
    assert_non_null(strstr(error.text, "No space"));
    canvas_close(&p);
  }
}
