/* Small pictures that would take long or much memory to read, and how little of it they get. */
#include "support/pictures.h"
#include "support/process.h"

static int read_here(void *seconds, Error *why) {
  uint8_t pixels[SIDE * SIDE];
  alarm(*(unsigned *)seconds);
  return read_picture(picture, SIDE, pixels, why);
}

/* Reads the picture in a process of its own, which must fail with this error ("": it may or not),
   within so many megabytes; no reading may take more than some seconds. */
static void expect(const char *wanted, long megabytes) {
  unsigned seconds = 20;
  const Ended ended = process_do(read_here, &seconds);
  const char *text = ended.error.text;
  assert_in(text, wanted);
  assert_in_range(ended.status, 0, !*wanted);
  if (!SANITIZED && ended.kilobytes > megabytes * 1024)
    fail_msg("%ld kB for: %s", ended.kilobytes, text);
}

/* ---- JPEGs ---------------------------------------------------------------------------------- */

enum { BASELINE = 0xc0, PROGRESSIVE = 0xc2 };

/* Everything before the first scan: a picture of one component whose tables have two codes of one
   bit, for nothing and, of AC coefficients in a progressive picture, for a run of 2^14 blocks and
   more that hold nothing. */
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

/* A byte of data follows; the reader takes zeros for what lacks. */
static void put_scan(FILE *file, int first, int last, int high, int low) {
  fprintf(file, "\xff\xda%c\10\1\1%c%c%c%c%c", 0, 0, first, last, high << 4 | low, 0);
}

/* ---- PNGs ----------------------------------------------------------------------------------- */

/* So many zeros packed as a piece of a deflate stream; returns its length. */
static size_t pack_zeros(uint8_t *packed, size_t size, size_t zeros) {
  uint8_t *bytes = allocate(zeros, 1);
  z_stream stream = {
      .next_in = bytes, .avail_in = (uInt)zeros, .next_out = packed, .avail_out = (uInt)size};
  assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&stream, Z_FULL_FLUSH), Z_OK);
  assert_int_equal(stream.avail_in, 0);
  deflateEnd(&stream);
  return stream.total_out;
}

/* Zeros as red, green, blue and alpha, a thousandth of their size: one piece many times. */
static void write_zeros(int side, int bits) {
  const size_t zeros = (size_t)side * ((size_t)side * 4 * (size_t)bits / 8 + 1);
  enum { PIECE = 1 << 20, PACKED = 1 << 12 };
  uint8_t last[PACKED], *data = allocate(zeros / PIECE + 2, PACKED);
  size_t length = 2;
  memcpy(data, "\x78\xda", length);
  const size_t piece = pack_zeros(last, PACKED, PIECE);
  for (size_t i = 0; i < zeros / PIECE; i++, length += piece) memcpy(data + length, last, piece);
  length += pack_zeros(data + length, PACKED, zeros % PIECE + 1);
  memcpy(data + length, "\3\0\0\0\0\0", 6); /* the end, and a sum that nobody checks */
  const uint8_t high = (uint8_t)(side >> 8), low = (uint8_t)side;
  const uint8_t head[13] = {[2] = high, low, [6] = high, low, (uint8_t)bits, 6};
  write_png_parts(head, data, length + 6);
}

static const char no_digit[] = "shows no digit: nothing in it stands out from its ground";

TESTS_WITH(folder_enter, folder_close);

/* 346 KB, and an hour for who reads all of it. */
TEST(test_scans) {
  static const struct {
    int kind, side, scans;
    const char *wanted;
    long megabytes;
  } cases[] = {
      {PROGRESSIVE, 8000, 31400,
       "is a JPEG of 31400 scans of 8000 x 8000 pixels: up to 1000000000 pixels in all scans "
       "together can be read",
       32},
      {PROGRESSIVE, 8000, 16, "is a JPEG of 16 scans of 8000 x 8000 pixels", 32},
      {BASELINE, 4000, 63, "is a JPEG of 63 scans of 4000 x 4000 pixels", 32},
      {PROGRESSIVE, 500, 100, no_digit, 64}, /* ten times what encoders write */
      {BASELINE, 500, 4, no_digit, 64}};
  foreach (row, cases) {
    FILE *file = begin_jpeg(row->kind, row->side);
    for (int i = 0; i < row->scans; i++) /* the first, then others that refine nothing */
      if (row->kind == BASELINE)
        put_scan(file, 0, 63, 0, 0);
      else
        put_scan(file, i ? 1 : 0, i ? 63 : 0, i ? 1 : 0, i ? 0 : 1);
    fwrite("\xff\xd9", 1, 2, file);
    close_file(file);
    expect(row->wanted, row->megabytes);
  }
}

/* Marks of scans in a segment that is skipped, such as a camera's small picture, and behind the
   picture; not those behind a segment, which stb finds as well. */
TEST(test_scans_that_are_none) {
  for (int kind = 0; kind < 2; kind++) {
    FILE *file = begin_jpeg(BASELINE, 1000);
    fwrite("\xff\xe1\xff\xf0", 1, 4, file); /* 65520 bytes with the length */
    for (int i = 0; i < 65518 / 2; i++) fwrite("\xff\xda", 1, 2, file);
    for (int i = 0; i <= 1000 * kind; i++) put_scan(file, 0, 63, 0, 0);
    fwrite("\xff\xd9", 1, 2, file);
    for (int i = 0; i < 20000; i++) put_scan(file, 0, 63, 0, 0);
    close_file(file);
    expect(kind ? "is a JPEG of 1001 scans of 1000 x 1000 pixels" : no_digit, 64);
  }
}

/* 498 KB, and 1 GB for who unpacks all of it. */
TEST(test_memory) {
  static const char too_much[] = "takes more than 400 MB of memory to read: too much for a picture";
  write_zeros(8000, 16);
  expect(too_much, 32);
  write_zeros(8000, 8);
  expect(too_much, 32 + 256);
  write_zeros(1000, 16);
  expect(no_digit, 64);
}

/* Pictures in which it takes longest to find digits: a million dots, lines in both directions,
   nested rings, noise. Each ends within the seconds of expect(). */
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
    expect(kind == 0 ? "shows too much: up to 100 digits" : "", 128);
  }
}
