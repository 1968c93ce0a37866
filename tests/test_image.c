/* Pictures read as MNIST's rows: the formats, what is ink, where it goes, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>

#include "data/digits.h"
#include "data/image.h"
#include "support/folder.h"
#include "base/random.h"

enum { SIDE = DIGITS_SIDE, PIXELS = DIGITS_PIXELS };

static const char *path;
static Error error;

static int open_folder(void **state) {
  folder_open(state);
  path = folder_path("x");
  return 0;
}

/* ---- pictures and files ------------------------------------------------------------------- */

/* (height, width) levels of grey. */
typedef struct {
  int width, height;
  uint8_t *level;
} Grey;

static Grey new_grey(int width, int height, uint8_t level) {
  Grey g = {width, height, malloc((size_t)width * (size_t)height)};
  assert_non_null(g.level);
  memset(g.level, level, (size_t)width * (size_t)height);
  return g;
}

static uint8_t *at(const Grey *g, int x, int y) {
  return &g->level[y * g->width + x];
}

/* Ink `row` of digits.h, each pixel `scale` squared, its corner at (left, top). */
static void draw_digit(const Grey *g, uint64_t row, int scale, int left, int top, bool dark) {
  uint8_t digit[PIXELS];
  digits_draw(1, DIGITS_TEST, row, digit);
  for (int y = 0; y < SIDE * scale; y++)
    for (int x = 0; x < SIDE * scale; x++) {
      const uint8_t ink = digit[y / scale * SIDE + x / scale];
      *at(g, left + x, top + y) = dark ? 255 - ink : ink;
    }
}

static Grey digit(uint64_t row, int scale, bool dark) {
  const Grey g = new_grey(scale * SIDE, scale * SIDE, 0);
  draw_digit(&g, row, scale, 0, 0, dark);
  return g;
}

static void write_bytes(const void *bytes, size_t length) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

static void write_png(const Grey *g) {
  assert_true(stbi_write_png(path, g->width, g->height, 1, g->level, 0));
}

/* The picture that `path` holds. */
static void read_digit(uint8_t *pixels) {
  error.text[0] = '\0';
  if (!image_read_digit(path, SIDE, pixels, &error)) fail_msg("%s", error.text);
}

/* Writes it as a PNG, reads it and frees it. */
static void through_png(Grey *g, uint8_t *pixels) {
  write_png(g);
  free(g->level);
  read_digit(pixels);
}

/* The mean difference of two rows, in levels. */
static double difference(const uint8_t *a, const uint8_t *b) {
  int sum = 0;
  for (int i = 0; i < PIXELS; i++) sum += abs(a[i] - b[i]);
  return (double)sum / PIXELS;
}

/* ---- where the ink goes ------------------------------------------------------------------- */

/* A bar of 4 x 20 is as MNIST would have it: nothing is changed but its place. 14 lies nearest to
   the middle of 20 rows that begin at 5, and of 4 columns that begin at 13. */
static void test_place(void **state) {
  (void)state;
  static const struct {
    int scale, left, top, width, height;
  } cases[] = {{1, 0, 0, 4, 20}, {1, 5, 3, 30, 40}, {3, 20, 1, 100, 70}, {7, 0, 300, 900, 500}};
  uint8_t expected[PIXELS] = {0}, pixels[PIXELS];
  for (int y = 5; y < 25; y++) memset(expected + y * SIDE + 13, 255, 4);
  for (size_t i = 1; i < sizeof cases / sizeof *cases; i++) {
    Grey g = new_grey(cases[i].width, cases[i].height, 10);
    for (int y = 0; y < 20 * cases[i].scale; y++)
      memset(at(&g, cases[i].left, cases[i].top + y), 200, (size_t)(4 * cases[i].scale));
    through_png(&g, pixels);
    assert_memory_equal(pixels, expected, PIXELS);
  }
}

/* The longer extent is 20, in whichever direction, and the aspect stays; the centre of mass of an
   L lies far from the centre of its box. */
static void test_scale(void **state) {
  (void)state;
  uint8_t pixels[PIXELS];
  Grey g = new_grey(200, 150, 255);
  for (int y = 20; y < 120; y++) memset(at(&g, 30, y), 0, y < 100 ? 10 : 50);
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
static void test_edges(void **state) {
  (void)state;
  for (int turn = 0; turn < 4; turn++) {
    uint8_t pixels[PIXELS];
    Grey g = new_grey(40, 40, 0);
    for (int y = 0; y < 40; y++)
      for (int x = 0; x < 40; x++) {
        const int along = turn & 1 ? x : y, across = turn & 1 ? y : x;
        const bool thick = turn & 2 ? along < 6 : along >= 34;
        if (thick || across == 20) *at(&g, x, y) = 255;
      }
    for (int i = 0; i < 40; i++)
      *at(&g, 0, i) = *at(&g, 39, i) = *at(&g, i, 0) = *at(&g, i, 39) = 0;
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

/* Of a digit that fills its box there is one reading, wherever it stands and however large. */
static void test_place_and_size_do_not_matter(void **state) {
  (void)state;
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

/* What is as MNIST would have it comes back as it was, but for a rounding, enlarged or not. */
static void test_comes_back(void **state) {
  (void)state;
  for (uint64_t row = 0; row < 50; row++) {
    uint8_t expected[PIXELS], pixels[PIXELS];
    Grey g = digit(row, 3, true);
    through_png(&g, expected);
    for (int scale = 1; scale < 5; scale += 2) {
      g = new_grey(SIDE * scale, SIDE * scale, 0);
      for (int y = 0; y < SIDE * scale; y++)
        for (int x = 0; x < SIDE * scale; x++)
          *at(&g, x, y) = expected[y / scale * SIDE + x / scale];
      through_png(&g, pixels);
      const double d = difference(pixels, expected);
      if (!(d < 0.5)) fail_msg("digit %d enlarged by %d: %g", (int)row, scale, d);
    }
  }
}

static void test_other_sides(void **state) {
  (void)state;
  static const int sides[] = {2, 3, 20, 29, 64};
  Grey g = digit(3, 3, true);
  write_png(&g);
  free(g.level);
  for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
    const int side = sides[i], count = side * side;
    uint8_t pixels[64 * 64 + 1];
    pixels[count] = 77;
    assert_true(image_read_digit(path, side, pixels, &error));
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
  assert_true(stbi_write_png(path, g->width, g->height, 3, rgb, 0));
  free(rgb);
}

/* Dark on light, light on dark, strong or pale: the same to a rounding. */
static void test_colours_do_not_matter(void **state) {
  (void)state;
  static const Colours cases[] = {
      {{255, 255, 255}, {0, 0, 0}},    {{250, 240, 200}, {20, 30, 120}},
      {{10, 10, 80}, {250, 240, 60}},  {{255, 255, 255}, {255, 0, 0}},
      {{200, 200, 200}, {90, 90, 90}}, {{30, 30, 30}, {160, 150, 140}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint64_t row = 0; row < 10; row++) {
      uint8_t expected[PIXELS], pixels[PIXELS];
      Grey g = digit(row, 3, false);
      write_coloured(&g, cases[i]);
      read_digit(pixels);
      through_png(&g, expected);
      const double d = difference(pixels, expected);
      if (!(d < 1)) fail_msg("colours %zu, digit %d: %g", i, (int)row, d);
    }
}

/* Ink in a picture with nothing around it: more than half of it may be ink. */
static void test_thick_digit(void **state) {
  (void)state;
  uint8_t dark[PIXELS], light[PIXELS];
  Grey g = new_grey(50, 50, 255);
  for (int y = 2; y < 48; y++) memset(at(&g, 2, y), y > 20 && y < 30 ? 255 : 0, 46);
  for (int y = 21; y < 30; y++) memset(at(&g, 40, y), 0, 8);
  Grey inverted = new_grey(50, 50, 0);
  for (int i = 0; i < 2500; i++) inverted.level[i] = 255 - g.level[i];
  through_png(&g, dark);
  through_png(&inverted, light);
  assert_memory_equal(dark, light, PIXELS);
  assert_int_equal(dark[14 * SIDE + 5], 0);
  assert_int_equal(dark[7 * SIDE + 14], 255);
}

/* The ground is what most of the border is, upper and lower edge and all. */
static void test_ink_at_the_border(void **state) {
  (void)state;
  uint8_t pixels[PIXELS];
  Grey g = new_grey(80, 20, 255);
  for (int y = 0; y < 20; y++) {
    memset(at(&g, 0, y), 0, 8);
    memset(at(&g, 72, y), 0, 8);
  }
  through_png(&g, pixels);
  assert_int_equal(pixels[14 * SIDE + 5], 255);
  assert_int_equal(pixels[14 * SIDE + 14], 0);
}

/* A speck beside the digit's upper end, and a little above it. */
static void test_dust(void **state) {
  (void)state;
  uint8_t expected[PIXELS], pixels[PIXELS];
  Grey g = new_grey(200, 200, 0);
  for (int y = 30; y < 170; y++) memset(at(&g, 90, y), 255, 28);
  write_png(&g);
  read_digit(expected);
  for (int y = 26; y < 31; y++) memset(at(&g, 150, y), 255, 6);
  through_png(&g, pixels);
  assert_memory_equal(pixels, expected, PIXELS);
}

/* So many lines of equal ink that each alone would be dust. */
static void test_not_all_is_dust(void **state) {
  (void)state;
  uint8_t pixels[PIXELS];
  Grey g = new_grey(602, 60, 255);
  for (int y = 1; y < 59; y++)
    for (int x = 1; x < 602; x += 2) *at(&g, x, y) = 0;
  through_png(&g, pixels);
  assert_true(pixels[14 * SIDE + 14] > 0);
}

static int noise(int amplitude, int index) {
  const uint32_t *word = random_words(5, 0, (uint64_t)index).word;
  int sum = 0; /* of four uniform ones: nearly normal */
  for (int i = 0; i < 4; i++) sum += (int)(word[i] % (unsigned)(2 * amplitude + 1)) - amplitude;
  return sum / 2;
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
      *at(&g, x, y) = (uint8_t)(paper - *at(&g, x, y) * 100 / 255);
    }
  for (int y = 1; y < 3; y++) memset(at(&g, 390, y), 60, 2);
  return g;
}

static void test_photograph(void **state) {
  (void)state;
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

/* ---- formats ------------------------------------------------------------------------------ */

/* Codes of 8 bits, cleared before they would have to be longer: a GIF without compression. Grey
   in 128 levels, the last bit is lost. */
static void write_gif(const Grey *g) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  const int w = g->width, h = g->height;
  const uint8_t head[] = {
      'G',  'I', 'F', '8', '9', 'a', (uint8_t)w, (uint8_t)(w >> 8), (uint8_t)h, (uint8_t)(h >> 8),
      0xf6, 0,   0};
  fwrite(head, 1, sizeof head, file);
  for (int i = 0; i < 128; i++)
    for (int k = 0; k < 3; k++) fputc(i * 255 / 127, file);
  const uint8_t image[] = {
      ',', 0, 0, 0, 0, (uint8_t)w, (uint8_t)(w >> 8), (uint8_t)h, (uint8_t)(h >> 8), 0, 7};
  fwrite(image, 1, sizeof image, file);
  for (int i = 0; i < w * h; i += 100) {
    const int count = w * h - i < 100 ? w * h - i : 100;
    fputc(count + 1, file);
    fputc(0x80, file); /* clear */
    for (int k = 0; k < count; k++) fputc(g->level[i + k] / 2, file);
  }
  fwrite("\1\x81\0;", 1, 4, file); /* end of the codes, of the blocks, of the file */
  assert_int_equal(fclose(file), 0);
}

/* Bits on their way into a JPEG. */
typedef struct {
  FILE *file;
  unsigned bits, count; /* not yet written */
} Bits;

static void put_bits(Bits *b, unsigned bits, unsigned count) {
  for (b->bits = b->bits << count | bits, b->count += count; b->count >= 8; b->count -= 8) {
    const int byte = (int)(b->bits >> (b->count - 8) & 255);
    fputc(byte, b->file);
    if (byte == 255) fputc(0, b->file);
  }
}

/* Every level becomes a block of 8 x 8, its mean the only coefficient: nothing is lost. A block is
   the mean's difference to the one before, as a count of bits (a code of 4) and those bits, then
   the end (a code of 1). */
static void write_jpeg(const Grey *g) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  const int w = 8 * g->width, h = 8 * g->height;
  static const char codes[] = "\xff\xc4\0\37\0" /* the lengths: 12 codes of 4 bits */
                              "\0\0\0\14\0\0\0\0\0\0\0\0\0\0\0\0\0\1\2\3\4\5\6\7\10\11\12\13"
                              "\xff\xc4\0\24\20" /* the end: a code of one bit */
                              "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                              "\xff\xda\0\10\1\1\0\0\77"; /* its last byte is 0 */
  const uint8_t size[] = {8, (uint8_t)(h >> 8), (uint8_t)h, (uint8_t)(w >> 8), (uint8_t)w};
  fwrite("\xff\xd8\xff\xdb\0\x43\0", 1, 7, file);
  for (int i = 0; i < 64; i++) fputc(8, file); /* what coefficients are divided by */
  fwrite("\xff\xc0\0\13", 1, 4, file);
  fwrite(size, 1, sizeof size, file);
  fwrite("\1\1\21\0", 1, 4, file);
  fwrite(codes, 1, sizeof codes, file);
  Bits bits = {.file = file};
  for (int i = 0, before = 128; i < g->width * g->height; before = g->level[i++]) {
    const int step = g->level[i] - before;
    unsigned length = 0;
    while (abs(step) >> length) length++;
    put_bits(&bits, length, 4);
    put_bits(&bits, (unsigned)(step < 0 ? step - 1 : step) & ((1u << length) - 1), length);
    put_bits(&bits, 0, 1);
  }
  put_bits(&bits, 127, 7);
  fwrite("\xff\xd9", 1, 2, file);
  assert_int_equal(fclose(file), 0);
}

static void write_pnm(const Grey *g, bool colour) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fprintf(file, "P%c\n# a digit\n%d %d\n255\n", colour ? '6' : '5', g->width, g->height);
  for (int i = 0; i < g->width * g->height; i++)
    for (int k = 0; k < (colour ? 3 : 1); k++) fputc(g->level[i], file);
  assert_int_equal(fclose(file), 0);
}

/* Black ink, what is white is transparent: in colours that must not be seen. */
static void write_transparent_png(const Grey *g) {
  const size_t count = (size_t)g->width * (size_t)g->height;
  uint8_t *rgba = malloc(4 * count);
  assert_non_null(rgba);
  for (size_t i = 0; i < count; i++) {
    const bool gone = g->level[i] == 255;
    memset(rgba + 4 * i, gone ? (int)(i % 200) : 0, 3);
    rgba[4 * i + 3] = 255 - g->level[i];
  }
  assert_true(stbi_write_png(path, g->width, g->height, 4, rgba, 0));
  free(rgba);
}

static void test_formats(void **state) {
  (void)state;
  for (uint64_t row = 0; row < 10; row++) {
    uint8_t expected[PIXELS], pixels[PIXELS];
    Grey g = digit(row, 3, true);
    const int w = g.width, h = g.height;
    write_png(&g);
    read_digit(expected);
    write_pnm(&g, false);
    read_digit(pixels);
    assert_memory_equal(pixels, expected, PIXELS);
    write_pnm(&g, true);
    read_digit(pixels);
    assert_memory_equal(pixels, expected, PIXELS);
    assert_true(stbi_write_bmp(path, w, h, 1, g.level));
    read_digit(pixels);
    assert_memory_equal(pixels, expected, PIXELS);
    write_transparent_png(&g);
    read_digit(pixels);
    assert_memory_equal(pixels, expected, PIXELS);
    write_gif(&g);
    read_digit(pixels);
    assert_true(difference(pixels, expected) < 1);
    free(g.level);
    g = digit(row, 1, true);
    write_jpeg(&g);
    read_digit(pixels);
    assert_true(difference(pixels, expected) < 0.1);
    free(g.level);
  }
}

/* As from a shell's <(...). */
static void test_a_pipe_is_read(void **state) {
  (void)state;
  uint8_t expected[PIXELS], pixels[PIXELS], bytes[1 << 14];
  Grey g = digit(1, 1, true);
  through_png(&g, expected);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t length = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], bytes, length), length);
  close(ends[1]);
  char name[32];
  snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
  assert_true(image_read_digit(name, SIDE, pixels, &error));
  close(ends[0]);
  assert_memory_equal(pixels, expected, PIXELS);
}

/* ---- refused ------------------------------------------------------------------------------ */

static void assert_refused(const char *file, const char *expected) {
  uint8_t pixels[PIXELS];
  error.text[0] = '\0';
  assert_false(image_read_digit(file, SIDE, pixels, &error));
  if (!strstr(error.text, expected) || !strstr(error.text, file))
    fail_msg("\"%s\" does not say \"%s\" of %s", error.text, expected, file);
}

static void test_no_pictures(void **state) {
  (void)state;
  Grey g = digit(1, 3, true);
  write_png(&g);
  free(g.level);
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(truncate(path, status.st_size / 2), 0);
  assert_refused(path, "cannot be read as a PNG, JPEG, BMP, GIF or PGM");
  assert_int_equal(truncate(path, 0), 0);
  assert_refused(path, "cannot be read as");
  write_bytes("label,pixel0\n1,2\n", 17);
  assert_refused(path, "cannot be read as");
  remove(path);
  assert_refused(path, "cannot open");
  assert_refused(folder, "cannot read");
}

/* Refused by what the header says, before anything is allocated for it. */
static void test_too_large(void **state) {
  (void)state;
  static const char *const heads[] = {"P5\n16385 1\n255\n", "P5\n1 16385\n255\n",
                                      "P5\n8001 8000\n255\n", "P5\n2000000 2000000\n255\n"};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    write_bytes(heads[i], strlen(heads[i]));
    assert_refused(path, "up to 16384 a side and 64000000 in all");
  }
  /* a PNG of 16384 x 16385 */
  write_bytes("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x40\0\0\0\x40\1\10\0\0\0\0\1\2\3\4", 33);
  assert_refused(path, "16384 x 16385");
  write_bytes("P5\n16384 3906\n255\n", 18); /* just not too large: its pixels are missing */
  assert_refused(path, "it ends too early");
}

static void test_no_pixels(void **state) {
  (void)state;
  static const char *const heads[] = {"P5\n4 0\n255\n    ", "P5\n0 4\n255\n    ",
                                      "P6\n4 -1\n255\n    ",
                                      "P5\n4 4294967296\n255\n    "}; /* 0, by overflow */
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    write_bytes(heads[i], strlen(heads[i]));
    assert_refused(path, "has no pixels");
  }
}

/* What stb, version 2.27, would read or write behind its arrays for. */
static void test_what_stb_does_not_check(void **state) {
  (void)state;
  char bytes[2000] = "P5\n9 9\n65535\n"; /* two bytes a pixel */
  write_bytes(bytes, sizeof bytes);
  assert_refused(path, "its levels go above 255");
  Grey g = digit(1, 1, true);
  write_jpeg(&g);
  free(g.level);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  const size_t length = fread(bytes, 1, sizeof bytes, file);
  for (size_t i = 0; i + 8 < length; i++)
    if (memcmp(bytes + i, "\xff\xc4\0\24\20", 5) == 0) { /* the second table */
      assert_int_equal(fseek(file, (long)i + 2, SEEK_SET), 0);
      fwrite("\7\0\20\0\0\0\0\0\0\0\0\377\2", 1, 13, file); /* of 257 codes */
    }
  assert_int_equal(fclose(file), 0);
  assert_refused(path, "a Huffman table of it is too large");
  for (size_t i = 0; i + 1 < length; i++)
    if (memcmp(bytes + i, "\xff\xc4", 2) == 0) bytes[i + 1] = '\xe4'; /* no tables at all */
  write_bytes(bytes, length);
  assert_refused(path, "shows no digit");
}

static void put_chunk(FILE *file, const char *name, const uint8_t *bytes, int length) {
  for (int shift = 24; shift >= 0; shift -= 8) fputc(length >> shift & 255, file);
  fwrite(name, 1, 4, file);
  fwrite(bytes, 1, (size_t)length, file);
  fwrite("\1\2\3\4", 1, 4, file); /* nobody checks the sum */
}

/* A PNG of 8 x 8 pixels that unpacks to `size` bytes. */
static void write_unpacking_png(int size) {
  uint8_t *bytes = calloc((size_t)size, 1);
  assert_non_null(bytes);
  bytes[9 * 4 + 4] = 255; /* a dot of ink */
  int length;
  uint8_t *packed = stbi_zlib_compress(bytes, size, &length, 8);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fwrite("\x89PNG\r\n\x1a\n", 1, 8, file);
  put_chunk(file, "IHDR", (const uint8_t *)"\0\0\0\10\0\0\0\10\10\0\0\0", 13);
  put_chunk(file, "IDAT", packed, length);
  put_chunk(file, "IEND", bytes, 0);
  assert_int_equal(fclose(file), 0);
  free(packed);
  free(bytes);
}

static void test_a_bomb_is_not_unpacked(void **state) {
  (void)state;
  uint8_t pixels[PIXELS];
  write_unpacking_png(8 * 9);
  read_digit(pixels);
  write_unpacking_png(3 << 20);
  assert_refused(path, "cannot be read as a PNG");
}

static void test_nothing_there(void **state) {
  (void)state;
  static const int sizes[][2] = {{1, 1}, {1, 7}, {9, 1}, {60, 60}};
  for (size_t i = 0; i < 4; i++)
    for (int level = 0; level < 256; level += 51) {
      Grey g = new_grey(sizes[i][0], sizes[i][1], (uint8_t)level);
      write_png(&g);
      free(g.level);
      assert_refused(path, "shows no digit");
    }
  Grey g = new_grey(60, 60, 200); /* 15 levels are dirt, not ink */
  memset(at(&g, 10, 30), 185, 30);
  write_png(&g);
  assert_refused(path, "shows no digit");
  memset(at(&g, 10, 30), 184, 30);
  write_png(&g);
  uint8_t pixels[PIXELS];
  read_digit(pixels);
  for (int i = 0; i < 3600; i++) g.level[i] = (uint8_t)(180 + i % 60 / 3 + noise(6, i));
  write_png(&g); /* paper, photographed */
  assert_refused(path, "shows no digit");
  free(g.level);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_place),
      cmocka_unit_test(test_scale),
      cmocka_unit_test(test_edges),
      cmocka_unit_test(test_place_and_size_do_not_matter),
      cmocka_unit_test(test_comes_back),
      cmocka_unit_test(test_other_sides),
      cmocka_unit_test(test_colours_do_not_matter),
      cmocka_unit_test(test_thick_digit),
      cmocka_unit_test(test_ink_at_the_border),
      cmocka_unit_test(test_dust),
      cmocka_unit_test(test_not_all_is_dust),
      cmocka_unit_test(test_photograph),
      cmocka_unit_test(test_formats),
      cmocka_unit_test(test_a_pipe_is_read),
      cmocka_unit_test(test_no_pictures),
      cmocka_unit_test(test_too_large),
      cmocka_unit_test(test_no_pixels),
      cmocka_unit_test(test_a_bomb_is_not_unpacked),
      cmocka_unit_test(test_what_stb_does_not_check),
      cmocka_unit_test(test_nothing_there),
  };
  return cmocka_run_group_tests_name("image", tests, open_folder, folder_close);
}
