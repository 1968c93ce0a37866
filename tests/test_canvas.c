/* The canvas: what it paints, its text, its files. */
#include "base/random.h"
#include "plot/canvas.h"
#include "support/folder.h"

/* stb's reader of PNG files, whole. What gcc 14 says of it once it is inlined is not ours. */
#pragma GCC diagnostic push
#ifndef __clang__ /* knows no such warning */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

enum { WHITE = 0xffffff, BLACK = 0, BLUE = 0x0969da };

static Canvas p;

static void open_canvas(int width, int height) {
  canvas_close(&p);
  OK(canvas_open(&p, width, height, &error));
}

static Colour colour_at(int x, int y) {
  const uint8_t *c = canvas_pixel(&p, x, y);
  return (Colour)(c[0] << 16 | c[1] << 8 | c[2]);
}

/* The pixels x0 <= x < x1, y0 <= y < y1 that have another colour. */
static int others(int x0, int y0, int x1, int y1, Colour colour) {
  int count = 0;
  for (int y = y0; y < y1; y++)
    for (int x = x0; x < x1; x++) count += colour_at(x, y) != colour;
  return count;
}

/* Returns the pixels that are not white. Coverage that a drawing leaves shows in the next one. */
static int drawn(void) {
  for (int i = 0; i < p.width * p.height; i++) assert_int_equal(p.coverage[i], 0);
  return others(0, 0, p.width, p.height, WHITE);
}

TEST(rectangles) {
  static const struct {
    double x, y, width, height;
    Colour colour;
    int drawn;
  } cases[] = {
      {2, 3, 4, 2, BLUE, 8},           {-5, -5, 6, 6, BLACK, 9}, /* its last pixel is inside */
      {9, 7, 100, 100, BLACK, 10},     {20, 20, 5, 5, BLACK, 10},       {3, 3, 0, 5, BLACK, 10},
      {-9, 0, 5, 5, BLACK, 10},        {6.6, 0.4, 0.8, 1.2, BLACK, 10}, /* to whole pixels */
      {6.6, 0.4, 0.9, 1.2, BLACK, 12},
  };
  open_canvas(10, 8);
  assert_int_equal(drawn(), 0);
  foreach (row, cases) {
    canvas_rectangle(&p, row->x, row->y, row->width, row->height, row->colour);
    assert_int_equal(drawn(), row->drawn);
  }
  assert_int_equal(others(2, 3, 6, 5, BLUE) + others(0, 0, 1, 1, BLACK), 0);
  assert_int_equal(others(7, 0, 8, 2, BLACK), 0);
}

TEST(greys) {
  static const uint8_t greys[] = {0, 50, 100, 150, 200, 250}; /* 2 rows of 3 */
  open_canvas(12, 9);
  canvas_greys(&p, 2, 1, greys, 3, 2, 3);
  assert_int_equal(drawn(), 54);
  for (int i = 0; i < 6; i++) {
    const int x = 2 + i % 3 * 3, y = 1 + i / 3 * 3;
    assert_int_equal(others(x, y, x + 3, y + 3, 0x10101u * greys[i]), 0);
  }
  open_canvas(4, 4);
  canvas_greys(&p, -3, -2, greys, 3, 2, 2); /* its last pixels are inside */
  assert_int_equal(others(0, 0, 1, 2, 0xc8c8c8) + others(1, 0, 3, 2, 0xfafafa), 0);
  assert_int_equal(drawn(), 6);
}

TEST(pasting) {
  open_canvas(9, 2);
  canvas_rectangle(&p, 1, 0, 9, 1, BLUE);
  Canvas part = p;
  p = (Canvas){0};
  open_canvas(5, 4);
  canvas_paste(&p, 1, &part);
  assert_int_equal(others(1, 1, 5, 2, BLUE), 0);
  assert_int_equal(drawn(), 4);
  canvas_close(&part);
}

TEST(lines) {
  open_canvas(20, 12);
  canvas_line(&p, 4, 5, 14, 5, 2, BLACK); /* covers rows 4 and 5 */
  assert_int_equal(others(4, 4, 14, 6, BLACK), 0);
  assert_int_equal(others(4, 0, 14, 3, WHITE) + others(4, 7, 14, 12, WHITE), 0);
  assert_true(colour_at(1, 5) == WHITE && colour_at(17, 5) == WHITE && drawn());

  open_canvas(20, 12);
  canvas_line(&p, 0, 5.5, 20, 6, 1, BLUE); /* leaves the middle of a row: between blue and white */
  int pale = 0;
  for (int x = 0; x < 20; x++) {
    const uint8_t *c = canvas_pixel(&p, x, 6);
    pale += c[0] > 20 && c[0] < 235 && c[1] >= 105 && c[2] >= 218;
  }
  assert_true(pale > 10);

  open_canvas(5, 5);
  canvas_line(&p, -100, -100, 200, 200, 3, BLACK); /* through and far beyond */
  canvas_line(&p, -50, 2, -20, 2, 3, BLUE);
  canvas_line(&p, (double)NAN, 2, 4, 2, 3, WHITE); /* draws something or nothing, but stays in */
  assert_true(colour_at(2, 2) == BLACK && drawn());
}

/* ---- text --------------------------------------------------------------------------------- */

enum { LETTER_WIDTH = 40, LETTER_HEIGHT = 44, LETTER_BYTES = (1 + 3 * 40) * LETTER_HEIGHT };

static void draw_letter(char letter) {
  open_canvas(LETTER_WIDTH, LETTER_HEIGHT);
  canvas_text(&p, 6, 32, 28, (char[]){letter, '\0'}, BLACK);
}

TEST(letters_differ) {
  static uint8_t all[95][LETTER_BYTES];
  for (int i = 0; i < 95; i++) {
    draw_letter((char)(' ' + i));
    assert_int_equal(drawn() > 0, i > 0);
    memcpy(all[i], p.rows, LETTER_BYTES);
    for (int k = 0; k < i; k++)
      if (memcmp(all[i], all[k], LETTER_BYTES) == 0)
        fail_msg("'%c' and '%c' look the same", ' ' + i, ' ' + k);
  }
}

/* Rows of pixels of each letter's top and bottom: a letter in a wrong place of the table shows. */
TEST(letters_stand_on_their_lines) {
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
  foreach (kind, kinds)
    for (const char *c = kind->letters; *c; c++) {
      draw_letter(*c);
      int top = LETTER_HEIGHT, bottom = 0;
      for (int i = 0; i < LETTER_WIDTH * LETTER_HEIGHT; i++) {
        const int y = i / LETTER_WIDTH;
        if (*canvas_pixel(&p, i % LETTER_WIDTH, y) >= 128) continue;
        if (y < top) top = y;
        bottom = y;
      }
      /* a unit is 2 pixels, the pen 4 wide; curves may stop a little short of their corners */
      if (abs(top - (4 + 2 * kind->top - 2)) > 2 || abs(bottom - (4 + 2 * kind->bottom + 1)) > 2)
        fail_msg("'%c' reaches from row %d to %d", *c, top, bottom);
    }
}

TEST(widths) {
  open_canvas(300, 40);
  const double width = canvas_text_width(14, "MNIST 64");
  canvas_text(&p, 10, 30, 14, "MNIST 64", BLACK);
  assert_close(canvas_text_width(28, "MNIST 64"), 2 * width, 1e-9);
  /* nothing before the text but the pen's half, nor behind it */
  assert_true(drawn() && !others(0, 0, 8, 40, WHITE));
  assert_int_equal(others((int)(13 + width), 0, 300, 40, WHITE), 0);
  assert_close(canvas_text_width(14, "111"), canvas_text_width(14, "808"), 1e-9);
  assert_true(canvas_text_width(14, "") == 0);
}

TEST(strange_text) {
  uint8_t mark[LETTER_BYTES];
  draw_letter('?');
  memcpy(mark, p.rows, LETTER_BYTES);
  draw_letter('\xb5');
  assert_memory_equal(mark, p.rows, LETTER_BYTES);
  draw_letter('\n');
  assert_memory_equal(mark, p.rows, LETTER_BYTES);
  canvas_text(&p, -30, 5, 40, "outside on every side, far beyond", BLACK);
  canvas_text(&p, 30, 500, 12, "below", BLACK);
  assert_true(drawn());
}

static void assert_saved(const char *path) {
  int width, height, channels;
  OK(canvas_save(&p, path, &error));
  uint8_t *read = stbi_load(path, &width, &height, &channels, 0);
  assert_non_null(read);
  assert_true(width == p.width && height == p.height && channels == 3);
  for (int y = 0; y < height; y++)
    assert_memory_equal(read + 3 * y * width, canvas_pixel(&p, 0, y), (size_t)(3 * width));
  stbi_image_free(read);
}

/* Also pixels that compress badly. tests/scenarios/run_files.sh has a disk that is full. */
IN_FOLDER(saving) {
  static const int sides[][2] = {{1, 1}, {1, 900}, {900, 1}, {61, 17}, {400, 300}};
  foreach (side, sides) {
    open_canvas((*side)[0], (*side)[1]);
    canvas_text(&p, 3, 15, 10, "PNG", BLUE);
    assert_saved("picture.png");
    for (int i = 0; i < p.width * p.height; i++)
      *canvas_pixel(&p, i % p.width, i / p.width) =
          (uint8_t)random_words(1, 0, (uint64_t)i).word[0];
    assert_saved("picture.png"); /* replaces the first */
  }
  FAILS(canvas_save(&p, "no-such-folder/picture.png", &error), "its folder does not exist");
}
