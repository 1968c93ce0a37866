/* Tests how pictures become rows of MNIST: what ink is, where it is placed, all file formats
   (written here by hand or by stb), and refused files. test_photographs.c tests photographs. */
#define _GNU_SOURCE /* memmem */
#include <sys/resource.h>

#include "base/random.h"
#include "data/image.h"
#include "support/pictures.h"
#include "support/process.h"

static uint8_t expected[PIXELS], pixels[PIXELS];

TESTS_WITH(folder_enter, folder_close);

/* Returns a picture of digit `row` of digits.h, `scale` times as large in both directions. */
static Grey digit(uint64_t row, int scale) {
  const Grey g = new_grey(scale * SIDE, scale * SIDE, 0);
  uint8_t ink[PIXELS];
  digits_draw(1, DIGITS_TEST, row, ink);
  EACH_PIXEL(x, y, g.width, g.height) {
    const uint8_t level = ink[y / scale * SIDE + x / scale];
    *pixel_at(&g, x, y) = 255 - level;
  }
  return g;
}

/* Reads the digit in the file `picture`, which must show exactly one digit. */
static void read_digit(uint8_t *row) {
  OK(read_picture(picture, SIDE, row, &error));
}

static void write_png(const Grey *g) {
  assert_true(stbi_write_png(picture, g->width, g->height, 1, g->level, 0));
}

static void through_png(const Grey *g, uint8_t *row) {
  write_png(g);
  read_digit(row);
}

/* Returns the mean difference between `pixels` and `expected`, in levels of grey. */
static double difference(void) {
  int sum = 0;
  for (int i = 0; i < PIXELS; i++) sum += abs(pixels[i] - expected[i]);
  return (double)sum / PIXELS;
}

/* A bar of 4 x 20, times `scale`, becomes a bar of 4 x 20. The pixel nearest to its centre goes to
   (14, 14), so the bar's rows begin at 5 and its columns at 13. */
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

/* Writes a JPEG. Each pixel of *g becomes a block of 8 x 8 pixels, because a JPEG keeps the mean of
   such a block. `orientation` is the number that cameras store; if it is 0, none is stored. */
static void write_jpeg(const Grey *g, int orientation) {
  uint8_t exif[] = "\xff\xe1\0\42Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\0\0\0\0\0\0\0";
  Grey large = new_grey(8 * g->width, 8 * g->height, 0);
  EACH_PIXEL(x, y, large.width, large.height) {
    *pixel_at(&large, x, y) = *pixel_at(g, x / 8, y / 8);
  }
  assert_true(stbi_write_jpg(picture, large.width, large.height, 1, large.level, 100));
  if (!orientation) return;
  const Content jpeg = read_content(picture);
  FILE *file = folder_create(picture);
  exif[29] = (uint8_t)orientation;
  fwrite(jpeg.bytes, 1, 2, file);
  fwrite(exif, 1, 36, file);
  fwrite(jpeg.bytes + 2, 1, jpeg.size - 2, file);
  close_file(file);
}

static void write_pnm(const Grey *g, int channels) {
  FILE *file = folder_create(picture);
  fprintf(file, "P%c\n# a digit\n%d %d\n255\n", channels == 3 ? '6' : '5', g->width, g->height);
  for (int i = 0; i < g->width * g->height; i++)
    for (int k = 0; k < channels; k++) fputc(g->level[i], file);
  close_file(file);
}

/* Writes black ink on transparent pixels. The colours of transparent pixels must not show. */
static void write_transparent_png(const Grey *g, int unused) {
  (void)unused;
  const size_t count = (size_t)g->width * (size_t)g->height;
  uint8_t *rgba = allocate(4, count);
  for (size_t i = 0; i < count; i++) {
    const bool gone = g->level[i] == 255;
    memset(rgba + 4 * i, gone ? (int)(i % 200) : 0, 3);
    rgba[4 * i + 3] = 255 - g->level[i];
  }
  assert_true(stbi_write_png(picture, g->width, g->height, 4, rgba, 0));
}

/* Writes the picture in colour. `kind` selects one of three pairs of colours for ink and paper. */
static void write_coloured(const Grey *g, int kind) {
  static const int paper[][3] = {{250, 240, 200}, {10, 10, 80}, {200, 200, 200}},
                   ink[][3] = {{20, 30, 120}, {250, 240, 60}, {90, 90, 90}};
  const size_t count = 3 * (size_t)g->width * (size_t)g->height;
  uint8_t *rgb = allocate(count, 1);
  for (size_t i = 0; i < count; i++) {
    const int from = ink[kind][i % 3], to = paper[kind][i % 3];
    rgb[i] = (uint8_t)(from + (to - from) * g->level[i / 3] / 255);
  }
  assert_true(stbi_write_png(picture, g->width, g->height, 3, rgb, 0));
}

static void write_bmp(const Grey *g, int channels) {
  const size_t count = (size_t)channels * (size_t)g->width * (size_t)g->height;
  uint8_t *values = allocate(count, 1);
  for (size_t i = 0; i < count; i++) values[i] = g->level[i / (size_t)channels];
  assert_true(stbi_write_bmp(picture, g->width, g->height, channels, values));
}

/* Writes a BMP of 8 bits per pixel by hand, whose lines are padded to four bytes. Its first line is
   the picture's top if `top_down`, otherwise the bottom. Leaves out the last `cut` bytes. */
static void write_grey_bmp(const Grey *g, int top_down, size_t cut) {
  enum { HEAD = 54, COLOURS = 256 };
  const int line = (g->width + 3) / 4 * 4, height = top_down ? -g->height : g->height;
  const size_t start = HEAD + 4 * COLOURS, size = start + (size_t)line * (size_t)g->height;
  const int32_t fields[] = {(int32_t)size, 0, (int32_t)start, 40, g->width, height, 8 << 16 | 1};
  uint8_t *bytes = allocate(size, 1);
  memcpy(bytes, "BM", 2);
  memcpy(bytes + 2, fields, sizeof fields);
  for (int i = 0; i < COLOURS; i++) memset(bytes + HEAD + 4 * i, i, 3);
  for (int y = 0; y < g->height; y++)
    memcpy(bytes + start + line * (top_down ? y : g->height - 1 - y), g->level + y * g->width,
           (size_t)g->width);
  folder_write_bytes(picture, (const char *)bytes, size - cut);
}

static void write_bmp_by_hand(const Grey *g, int top_down) {
  write_grey_bmp(g, top_down, 0);
}

/* All formats and all pairs of colours give the same digit as a grey PNG. */
TEST(test_formats) {
  static const struct {
    void (*write)(const Grey *, int);
    int with, scale;
    double most; /* largest allowed mean difference */
  } formats[] = {
      {write_pnm, 1, 3, 0},        {write_pnm, 3, 3, 0},      {write_transparent_png, 0, 3, 0},
      {write_coloured, 0, 3, 1},   {write_coloured, 1, 3, 1}, {write_coloured, 2, 3, 1},
      {write_jpeg, 0, 1, 1},       {write_bmp, 1, 3, 0},      {write_bmp_by_hand, 0, 3, 0},
      {write_bmp_by_hand, 1, 3, 0}};
  for (uint64_t row = 0; row < 10; row++) {
    Grey png = digit(row, 3);
    through_png(&png, expected);
    foreach (format, formats) {
      Grey g = digit(row, format->scale);
      format->write(&g, format->with);
      read_digit(pixels);
      const double d = difference();
      if (!(d == 0 || d < format->most)) fail_msg("format %td: %g", format - formats, d);
    }
  }
}

/* A picture that is stored in any of the eight orientations is read upright. */
TEST(test_orientations) {
  enum { W = 12, H = 20 };
  Grey g = new_grey(W, H, 0);
  for (int i = 0; i < W * H; i++) g.level[i] = (uint8_t)(i * 37 % 251);
  for (int orientation = 1; orientation <= 8; orientation++) {
    /* where the first stored row and column lie in the upright picture (CIPA DC-008, 4.6.4) */
    const bool across = orientation >= 5;
    const bool from_right = strchr("\2\3\6\7", orientation),
               from_bottom = strchr("\3\4\7\10", orientation);
    Grey stored = new_grey(across ? H : W, across ? W : H, 0);
    EACH_PIXEL(x, y, W, H) {
      const int u = from_right ? W - 1 - x : x, v = from_bottom ? H - 1 - y : y;
      *pixel_at(&stored, across ? v : u, across ? u : v) = *pixel_at(&g, x, y);
    }
    write_jpeg(&stored, orientation);
    Image image;
    OK(image_read(picture, &image, &error));
    assert_int_equal(image.width, 8 * W); /* each level became 8 x 8 pixels */
    assert_int_equal(image.height, 8 * H);
    for (int i = 0; i < W * H; i++)
      if (abs(image.level[(i / W * 8 + 4) * 8 * W + i % W * 8 + 4] - g.level[i]) > 1)
        fail_msg("orientation %d, level %d", orientation, i);
    image_free(&image);
  }
}

/* Tests little-endian data; test_orientations tests big-endian data. Truncated data must give the
   stored orientation or 1 (upright). */
TEST(test_exif) {
  static const char little[] = "\xff\xd8\xff\xe0\0\4ab\xff\xe1\0\56Exif\0\0II*\0\10\0\0\0\2\0"
                               "\17\1\2\0\1\0\0\0a\0\0\0\22\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0";
  enum { LENGTH = sizeof little - 1 };
  assert_int_equal(exif_orientation((const uint8_t *)little, LENGTH), 6);
  for (size_t length = 0; length < LENGTH; length++) {
    /* the copy has length + 1 bytes, so that a sanitizer sees reads beyond them */
    const uint8_t *copy = memcpy(allocate(length + 1, 1), little, length);
    const int orientation = exif_orientation(copy, length);
    assert_true(orientation == 1 || orientation == 6);
  }
}

static void assert_refused(const char *file, const char *message) {
  const bool good = read_picture(file, SIDE, pixels, &error);
  assert_in(error.text, file);
  FAILS(good, message);
}

/* Refuses other formats, pictures without pixels, and pictures that are too large. The header gives
   the size, so no memory is allocated. stb after version 2.27 refuses some of them itself. */
TEST(test_heads_that_are_refused) {
#define BYTES(text) (text), sizeof(text) - 1
  static const char too_large[] = "up to 16384 a side and 64000000 in all";
  static const struct {
    const char *bytes;
    size_t length;
    const char *message;
  } cases[] = {
      {BYTES("II*\0\10\0\0\0"), "is a TIFF picture: convert it to PNG for --classify"},
      {BYTES(""), "is empty"},
      {BYTES("who knows"), "unknown image type; convert other formats to PNG"},
      {BYTES("P5\n16385 1\n255\n"), too_large},
      {BYTES("P5\n1 16385\n255\n"), too_large},
      {BYTES("P5\n8001 8000\n255\n"), too_large},
      /* a PNG that ends before its pixels */
      {BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x40\0\0\0\x40\1\10\0\0\0\0\1\2\3\4\0\0\0\1IDAT"),
       "16384 x 16385"},
      {BYTES("P5\n16384 3906\n255\n"), "it ends too early"}, /* the size is just within the limit */
      {BYTES("BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\4\0\0\0\0\0\0\x80\1\0\x18\0\0\0\0\0"
             "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
       "has no pixels"}, /* a height of -2^31 */
      {BYTES("P5\n4 0\n255\n    "), ""},
      {BYTES("P6\n4 -1\n255\n    "), ""},
      {BYTES("P5\n4 4294967296\n255\n    "), ""}, /* overflows to 0 */
  };
  foreach (row, cases) {
    folder_write_bytes(picture, row->bytes, row->length);
    assert_refused(picture, row->message);
  }
}

/* stb reads the pixels that a BMP lacks as zeros. The bytes after its last pixel may be missing. */
TEST(test_bmp_that_ends_too_early) {
  Grey g = digit(0, 3), narrow = new_grey(g.width - 1, g.height, 255);
  assert_int_equal(g.width % 4, 0);
  for (int y = 0; y < g.height; y++)
    memcpy(narrow.level + y * narrow.width, g.level + y * g.width, (size_t)narrow.width);
  for (int top_down = 0; top_down < 2; top_down++) {
    write_grey_bmp(&g, top_down, 1);
    assert_refused(picture, "cannot be read as a BMP: it ends too early");
    write_grey_bmp(&g, top_down, (size_t)(g.width * g.height / 2));
    assert_refused(picture, "cannot be read as a BMP: it ends too early");
    write_grey_bmp(&narrow, top_down, 1); /* without the padding of the last line */
    read_digit(pixels);
  }
}

/* stb gives no reason if it finds zeros where a PNG should go on. */
TEST(test_png_without_its_end) {
  Grey g = digit(0, 3);
  write_png(&g);
  const Content png = read_content(picture);
  folder_write_bytes(picture, png.bytes, png.size - 12);
  assert_refused(picture, "BMP or PGM: it ends too early; convert");
}

/* Refuses pictures for which stb 2.27 would read or write beyond its arrays. */
TEST(test_what_stb_does_not_check) {
  char bytes[2000] = "P5\n9 9\n65535\n"; /* two bytes per pixel */
  folder_write_bytes(picture, bytes, sizeof bytes);
  assert_refused(picture, "its levels go above 255");
  Grey g = new_grey(4, 4, 100);
  write_jpeg(&g, 0);
  const Content jpeg = read_content(picture);
  uint8_t *tables = memmem(jpeg.bytes, jpeg.size, "\xff\xc4", 2);
  assert_non_null(tables);
  memcpy(tables + 4, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\377\2", 17); /* a table of 257 codes */
  folder_write_bytes(picture, jpeg.bytes, jpeg.size);
  assert_refused(picture, "a Huffman table of it is too large");
  const char two_tables[45] =
      "\xff\xd8\xff\xc4\0\105\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\7\1\0\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\377\2\0\0"; /* the last two bytes are 0, too */
  folder_write_bytes(picture, two_tables, sizeof two_tables);
  assert_refused(picture, "a Huffman table of it is too large"); /* the second table is too large */
  tables[1] = 0xe4;                                              /* now there are no tables */
  folder_write_bytes(picture, jpeg.bytes, jpeg.size);
  assert_refused(picture, "shows no digit");
}

static void assert_no_digit(const Grey *g) {
  write_png(g);
  assert_refused(picture, "shows no digit");
}

TEST(test_nothing_there) {
  static const int sizes[][2] = {{1, 1}, {1, 7}, {9, 1}, {60, 60}};
  Grey g;
  foreach (size, sizes)
    for (int level = 0; level < 256; level += 51) {
      g = new_grey((*size)[0], (*size)[1], (uint8_t)level);
      assert_no_digit(&g);
    }
  g = new_grey(60, 60, 200); /* a contrast of only 15 levels counts as dirt, not ink */
  draw_bar(&g, 10, 28, 30, 5, 185);
  assert_no_digit(&g);
  for (int i = 0; i < 3600; i++) /* paper noise as in a photograph */
    g.level[i] = (uint8_t)(180 + i % 60 / 3 + (int)(random_words(5, 0, (uint64_t)i).word[0] % 9));
  assert_no_digit(&g);
}

/* ---- crops, specks and frames --------------------------------------------------------------- */

/* Returns the part of a picture that its ink touches on all four sides. Ink is darker than 128. */
static Grey crop(const Grey *g) {
  int left = g->width, top = g->height, right = 0, bottom = 0;
  EACH_PIXEL(x, y, g->width, g->height)
  if (*pixel_at(g, x, y) < 128) {
    left = min_int(left, x), right = max_int(right, x + 1);
    top = min_int(top, y), bottom = max_int(bottom, y + 1);
  }
  const Grey part = new_grey(right - left, bottom - top, 0);
  EACH_PIXEL(x, y, part.width, part.height)
  *pixel_at(&part, x, y) = *pixel_at(g, left + x, top + y);
  return part;
}

static void turn_dark(const Grey *g) {
  for (int i = 0; i < g->width * g->height; i++) g->level[i] = 255 - g->level[i];
}

/* A digit that is cropped to its ink looks as on a page, whether its ink is dark or light. Without
   its soft edges it is enlarged a little, by which these digits differ by up to 20 levels in the
   mean. Ink that is taken for the ground differs by more than 30. */
TEST(a_crop_is_the_digit_on_a_page) {
  for (uint64_t row = 0; row < 40; row++) {
    const Grey whole = digit(row, 1 + (int)(row % 3)), part = crop(&whole);
    through_png(&whole, expected);
    if (row % 2) turn_dark(&part);
    through_png(&part, pixels);
    if (difference() > 21) fail_msg("digit %d: %g", (int)row, difference());
  }
}

/* A digit at the border of its picture is read, even if a speck of ink is inside. */
TEST(a_speck_is_not_a_digit) {
  Grey g = new_grey(60, 60, 255);
  draw_bar(&g, 20, 0, 8, 50, 0);
  through_png(&g, expected);
  draw_bar(&g, 45, 40, 2, 2, 0);
  through_png(&g, pixels);
  assert_memory_equal(pixels, expected, PIXELS);
}

/* A frame around a digit is left out, also one along the picture's border. */
TEST(a_frame_is_not_a_digit) {
  for (uint64_t row = 0; row < 20; row++) {
    Grey g = new_grey(200, 200, 255);
    const Grey d = digit(row, 4);
    EACH_PIXEL(x, y, d.width, d.height)
    *pixel_at(&g, 44 + x, 44 + y) = *pixel_at(&d, x, y);
    through_png(&g, expected);
    const int at = row % 3 ? 10 : 0, length = 200 - 2 * at;
    draw_bar(&g, at, at, length, 3, 20);
    draw_bar(&g, at, 197 - at, length, 3, 20);
    draw_bar(&g, at, at, 3, length, 20);
    draw_bar(&g, 197 - at, at, 3, length, 20);
    through_png(&g, pixels);
    if (difference() > 0) fail_msg("digit %d: %g", (int)row, difference());
  }
}

/* ---- pictures that would take long or much memory ------------------------------------------- */

static int read_here(void *seconds, Error *why) {
  const rlim_t limit = *(rlim_t *)seconds;
  setrlimit(RLIMIT_CPU, &(struct rlimit){limit, limit});
  return read_picture(picture, SIDE, pixels, why);
}

/* Reads the picture in a process of its own. The process must fail with the error `wanted`; if
   `wanted` is "", it may also succeed. It may take `megabytes` of memory and 20 seconds of
   CPU time. Other processes do not change that, unlike the time on a clock. */
static void expect(const char *wanted, long megabytes) {
  rlim_t seconds = 20;
  const Ended ended = process_do(read_here, &seconds);
  const char *text = ended.error.text;
  assert_in(text, wanted);
  assert_in_range(ended.status, 0, !*wanted);
  if (!SANITIZED && ended.kilobytes > megabytes * 1024)
    fail_msg("%ld kB for: %s", ended.kilobytes, text);
}

enum { BASELINE = 0xc0, PROGRESSIVE = 0xc2 };

/* Writes a JPEG up to its first scan. The picture has one component. Its two Huffman tables have
   one code of one bit each. The DC code means no difference. The AC code of a progressive picture
   means a run of 2^14 or more empty blocks. */
static FILE *begin_jpeg(int kind, int side) {
  FILE *file = folder_create(picture);
  fwrite("\xff\xd8\xff\xdb\0\103\0", 1, 7, file);
  for (int i = 0; i < 64; i++) fputc(1, file);
  fprintf(file, "\xff%c%c\13\10%c%c%c%c\1\1\21%c", kind, 0, side >> 8, side, side >> 8, side, 0);
  for (int table = 0; table < 2; table++) {
    const bool runs = table == 1 && kind == PROGRESSIVE;
    fprintf(file, "\xff\xc4%c\24%c\1", 0, table << 4);
    for (int i = 1; i < 16; i++) fputc(0, file);
    fputc(runs ? 0xe0 : 0, file);
  }
  return file;
}

/* Writes a scan with only one byte of data. The reader uses zeros for missing data. */
static void put_scan(FILE *file, int first, int last, int high, int low) {
  fprintf(file, "\xff\xda%c\10\1\1%c%c%c%c%c", 0, 0, first, last, high << 4 | low, 0);
}

static const char no_digit[] = "shows no digit: nothing in it stands out from its background";

/* Refuses JPEGs with too many scans. A file of 346 KB could take an hour to read completely. */
TEST(test_scans) {
  static const struct {
    int kind, side, scans;
    const char *wanted;
    long megabytes;
  } cases[] = {
      {PROGRESSIVE, 8000, 31400,
       "is a JPEG of 31400 scans of 8000 x 8000 pixels: up to 300000000 pixels in all scans "
       "together can be read",
       32},
      {BASELINE, 4000, 63, "is a JPEG of 63 scans of 4000 x 4000 pixels", 32},
      {PROGRESSIVE, 500, 100, no_digit, 64}}; /* allowed; encoders write about 10 scans */
  foreach (row, cases) {
    FILE *file = begin_jpeg(row->kind, row->side);
    for (int i = 0; i < row->scans; i++) /* a first scan, then scans that change nothing */
      if (row->kind == BASELINE)
        put_scan(file, 0, 63, 0, 0);
      else
        put_scan(file, i ? 1 : 0, i ? 63 : 0, i ? 1 : 0, i ? 0 : 1);
    fwrite("\xff\xd9", 1, 2, file);
    close_file(file);
    expect(row->wanted, row->megabytes);
  }
}

/* Scan markers in a skipped segment (such as a camera's small picture) and after the picture's end
   are not counted. Markers right after a segment are counted, since stb reads them as scans. */
TEST(test_scans_that_are_none) {
  for (int kind = 0; kind < 2; kind++) {
    FILE *file = begin_jpeg(BASELINE, 1000);
    fwrite("\xff\xe1\xff\xf0", 1, 4, file); /* 65520 bytes, including the length */
    for (int i = 0; i < 65518 / 2; i++) fwrite("\xff\xda", 1, 2, file);
    for (int i = 0; i <= 1000 * kind; i++) put_scan(file, 0, 63, 0, 0);
    fwrite("\xff\xd9", 1, 2, file);
    for (int i = 0; i < 20000; i++) put_scan(file, 0, 63, 0, 0);
    close_file(file);
    expect(kind ? "is a JPEG of 1001 scans of 1000 x 1000 pixels" : no_digit, 64);
  }
}

/* Refuses a small PNG whose pixels would take 512 MB. */
TEST(test_memory) {
  write_png_parts("\0\0\x1f\x40\0\0\x1f\x40\20\6\0\0", "\x78\xda\3\0\0\0\0\1", 8);
  expect("takes more than 400 MB of memory to read: too much for a picture", 32);
}

/* Reads the pictures in which finding digits takes longest: a million dots, lines in both
   directions, nested rings, noise. Each must end within the time limit of expect(). */
TEST(test_many_things) {
  enum { WIDE = 1280 };
  for (int kind = 0; kind < 4; kind++) {
    FILE *file = folder_create(picture);
    fprintf(file, "P5\n%d %d\n255\n", WIDE, WIDE);
    uint32_t random = 1;
    EACH_PIXEL(x, y, WIDE, WIDE) {
      random = random * 1664525 + 1013904223;
      const int from_middle = max_int(abs(x - WIDE / 2), abs(y - WIDE / 2));
      const unsigned cell = (unsigned)(y / 8 * WIDE + x / 8) * 2654435761u >> 20;
      const bool ink = kind == 0   ? x % 8 == (int)(cell % 7) && y % 8 == (int)(cell / 7 % 7)
                       : kind == 1 ? x % 7 == 0 || y % 9 == 0
                       : kind == 2 ? from_middle % 8 < 2
                                   : random >> 28 == 0;
      fputc(ink ? 0 : 255, file);
    }
    close_file(file);
    expect(kind == 0 ? "shows too much: at most 100 digits" : "", 128);
  }
}
