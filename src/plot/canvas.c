#include "plot/canvas.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/output.h"

/* Replaces stb's own deflate, which crashes if memory runs out. Returns NULL if memory runs out. */
static unsigned char *pack(unsigned char *bytes, int size, int *packed, int level) {
  uLongf length = compressBound((uLong)size);
  unsigned char *out = malloc(length);
  if (!out || compress2(out, &length, bytes, (uLong)size, level) != Z_OK) return free(out), NULL;
  *packed = (int)length;
  return out;
}

#define STBIW_ZLIB_COMPRESS pack
#ifndef __clang_analyzer__ /* hides stb's code from clang's analyzer */
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#endif
#include <stb/stb_image_write.h>

bool canvas_open(Canvas *picture, int width, int height, Error *error) {
  *picture = (Canvas){.width = width, .height = height};
  picture->pixels = calloc(3 * (size_t)width, (size_t)height);
  picture->coverage = calloc((size_t)width, (size_t)height);
  if (!picture->pixels || !picture->coverage) {
    canvas_close(picture);
    return error_set(error, "no memory for a picture of %d x %d pixels", width, height);
  }
  canvas_rectangle(picture, 0, 0, width, height, 0xffffff);
  return true;
}

void canvas_close(Canvas *picture) {
  free(picture->pixels);
  free(picture->coverage);
  *picture = (Canvas){0};
}

/* ---- painting ----------------------------------------------------------------------------- */

/* A rectangle of pixels: x0 <= x < x1, y0 <= y < y1. */
typedef struct {
  int x0, y0, x1, y1;
} Box;

/* Loops over the pixels of a Box. */
#define foreach_pixel(x, y, box)                                                                   \
  for (int y = (box).y0; y < (box).y1; y++)   /* NOLINT(bugprone-macro-parentheses) */             \
    for (int x = (box).x0; x < (box).x1; x++) /* NOLINT(bugprone-macro-parentheses) */

static int clamp(double value, int high) {
  if (!(value > 0)) return 0;
  return value < high ? (int)value : high;
}

static Box box_around(const Canvas *p, double x0, double y0, double x1, double y1, double margin) {
  return (Box){
      clamp(floor(fmin(x0, x1) - margin), p->width), clamp(floor(fmin(y0, y1) - margin), p->height),
      clamp(ceil(fmax(x0, x1) + margin), p->width), clamp(ceil(fmax(y0, y1) + margin), p->height)};
}

/* Mixes the colour into a pixel. The colour covers coverage / 255 of the pixel. */
static void blend(const Canvas *p, int x, int y, Colour colour, int coverage) {
  uint8_t *pixel = p->pixels + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
  for (int k = 0; k < 3; k++)
    pixel[k] =
        (uint8_t)((pixel[k] * (255 - coverage) + colour_part(colour, k) * coverage + 127) / 255);
}

void canvas_rectangle(Canvas *p, double x, double y, double width, double height, Colour colour) {
  const Box box = box_around(p, round(x), round(y), round(x + width), round(y + height), 0);
  foreach_pixel (column, row, box) blend(p, column, row, colour, 255);
}

void canvas_greys(Canvas *p, int x, int y, const uint8_t *pixels, int width, int height,
                  double zoom) {
  const Box box = box_around(p, x, y, x + floor(width * zoom), y + floor(height * zoom), 0);
  foreach_pixel (column, row, box) {
    const int right = (int)((column - x + 0.5) / zoom), down = (int)((row - y + 0.5) / zoom);
    blend(p, column, row, 0x10101u * pixels[down * width + right], 255);
  }
}

/* Rounds a coordinate to 1/64 pixel, so that every compiler and C library draws the same pixels. */
static double snap(double place) {
  return round(64 * place) / 64;
}

/* Adds a line to the coverage. Where lines overlap, keeps the larger coverage. A sum would paint
   the joints of a letter twice. */
static void cover_line(Canvas *p, double x0, double y0, double x1, double y1, double thickness) {
  const Box box = box_around(p, x0, y0, x1, y1, thickness / 2 + 1);
  x0 = snap(x0), y0 = snap(y0);
  const double dx = snap(x1) - x0, dy = snap(y1) - y0, square = dx * dx + dy * dy;
  foreach_pixel (x, y, box) {
    const double right = x + 0.5 - x0, down = y + 0.5 - y0;
    const double along = square > 0 ? fmin(fmax((right * dx + down * dy) / square, 0), 1) : 0;
    const double off_x = right - along * dx, off_y = down - along * dy;
    const double inside = thickness / 2 + 0.5 - sqrt(off_x * off_x + off_y * off_y);
    const int part = clamp(255 * inside + 0.5, 255);
    uint8_t *coverage = &p->coverage[y * p->width + x];
    if (part > *coverage) *coverage = (uint8_t)part;
  }
}

/* Paints the covered pixels of the box, then sets their coverage to 0. */
static void paint(Canvas *p, Box box, Colour colour) {
  foreach_pixel (x, y, box) {
    uint8_t *coverage = &p->coverage[y * p->width + x];
    blend(p, x, y, colour, *coverage);
    *coverage = 0;
  }
}

void canvas_line(Canvas *picture, double x0, double y0, double x1, double y1, double thickness,
                 Colour colour) {
  cover_line(picture, x0, y0, x1, y1, thickness);
  paint(picture, box_around(picture, x0, y0, x1, y1, thickness / 2 + 1), colour);
}

/* ---- text --------------------------------------------------------------------------------- */

/* The letters ' ' to '~' as strokes of a pen, separated by spaces. A stroke is a list of points. A
   point is two digits in base 36: x from the left, then y from the top. Capitals reach from y = 0
   to y = e (14). Small letters start at y = 4, and tails end at y = i (18). A stroke is a quadratic
   B-spline from its first to its last point, with the other points as control points. So a point
   given twice is a corner, and two points are a straight line. */
/* clang-format off */
static const char *const letters[] = {
    /* sp ! " #        */ "", "101a 1e1e", "1014 4044", "2e30 6e70 0585 0989",
    /* $ %             */ "82700007878e1e0c 4g40", "0ea0 204046060020 68888e4e4868",
    /* & ' ( ) *       */ "8e15106065070e6e88", "1014", "30040c3g", "00343c0g", "3137 0266 0662",
    /* + , - . / 0     */ "444c 0888", "1d0g", "0868", "0e0e", "0g60", "40808e0e0040",
    /* 1 2 3           */ "1340 404e 1e7e", "030080860e0e8e", "0210707737 37878e1e0c",
    /* 4 5 6           */ "6e60 600a 0a8a", "8010 1007 0715858e1e0c", "70010e8e85150a",
    /* 7 8 9 :         */ "0080 803e", "407077171040 47878e0e0747", "1e8d8000097984", "0606 0e0e",
    /* ; < = > ?       */ "1616 1d0g", "7408 087c", "0686 0a8a", "0478 780c", "03007075363a 3e3e",
    /* @ A             */ "54747a3a3454 747aaaa0000e8e", "0e50 50ae 2989",
    /* B C D           */ "000e 003070773707 0737878e3e0e", "8380000e8e8b", "000e 0030808e3e0e",
    /* E F G           */ "000e 0070 0767 0e7e", "000e 0070 0767", "8380000e8e88 8848",
    /* H I J K L       */ "000e 808e 0787", "000e", "60686e0e0a", "000e 8009 368e", "000e 0e7e",
    /* M N O           */ "0e00 0059 59a0 a0ae", "0e00 008e 8e80", "50a0ae0e0050",
    /* P Q R           */ "000e 003080883808", "50a0ae0e0050 6aaf", "000e 003080883808 488e",
    /* S T U V         */ "82700007878e1e0c", "0080 404e", "00080e8e8880", "005e 5ea0",
    /* W X Y Z         */ "003e 3e60 609e 9ec0", "008e 800e", "0047 8047 474e", "0080 800e 0e8e",
    /* [ \ ] ^ _ `     */ "3000 000g 0g3g", "006g", "0030 303g 3g0g", "0430 3064", "0g8g", "0032",
    /* a b c           */ "747e 44747e0e0444", "000e 44747e0e0444", "7674040e7e7c",
    /* d e f           */ "707e 44747e0e0444", "0979 7974040e6e7c", "5020252e 0454",
    /* g h i           */ "747d7i0i0g 44747e0e0444", "000e 080474797e", "040e 0000",
    /* j k l           */ "3030 343d3i0i", "000e 740a 387e", "000a0e2e",
    /* m n o           */ "040e 070454585e 5754a4a8ae", "040e 080474797e", "44848e0e0444",
    /* p q r           */ "040i 44747e0e0444", "747i 44747e0e0444", "040e 080454",
    /* s t u v         */ "76640409797e1e0c", "202a2e5e 0454", "747e 04090e7e7a", "044e 4e84",
    /* w x y z         */ "043e 3e54 547e 7ea4", "047e 740e", "044e 842i", "0474 740e 0e7e",
    /* { | } ~         */ "40202808 08282g4g", "000g", "00202848 48282g0g", "09266b88",
};
/* clang-format on */

static const double CAPITAL = 14; /* the height of a capital in the units of `letters` */
static const double GAP = 4.5, SPACE = 3, THICKNESS = 1.9, DIGIT = 8;
enum { CURVE_PARTS = 6 }; /* number of straight lines that draw a curve */

static const char *letter_of(char c) {
  return letters[c >= ' ' && c <= '~' ? c - ' ' : '?' - ' '];
}

static double base36(char digit) {
  return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* Returns a letter's width. Digits are equally wide, so that numbers line up. */
static double width_of(char c) {
  double width = c >= '0' && c <= '9' ? DIGIT : 0;
  if (c == ' ') width = SPACE;
  for (const char *s = letter_of(c); *s; s += *s == ' ' ? 1 : 2)
    if (*s != ' ') width = fmax(width, base36(*s));
  return width;
}

/* Reads two digits, a point's x and y. Returns the point as x + iy. */
static double complex point_of(const char *digits) {
  return base36(digits[0]) + I * base36(digits[1]);
}

/* Adds a stroke (see `letters`), given by `digits` digits, to the coverage. */
static void cover_stroke(Canvas *p, const char *stroke, size_t digits, double complex origin,
                         double unit) {
  double complex a = point_of(stroke), from = origin + unit * a;
  for (size_t i = 2; i == 2 || i + 2 < digits; i += 2) {
    const double complex b = point_of(stroke + i);
    double complex c = i + 2 < digits ? point_of(stroke + i + 2) : b;
    if (i + 4 < digits) c = (b + c) / 2;
    for (int part = 1; part <= CURVE_PARTS; part++) {
      const double t = (double)part / CURVE_PARTS, s = 1 - t;
      const double complex to = origin + unit * (s * s * a + 2 * s * t * b + t * t * c);
      cover_line(p, creal(from), cimag(from), creal(to), cimag(to), THICKNESS * unit);
      from = to;
    }
    a = c;
  }
}

void canvas_text(Canvas *picture, double x, double baseline, double height, const char *text,
                 Colour colour) {
  const double unit = height / CAPITAL, start = x;
  for (; *text; text++) {
    for (const char *s = letter_of(*text); *s; s += *s == ' ') {
      const size_t digits = strcspn(s, " ");
      cover_stroke(picture, s, digits, x + I * (baseline - height), unit);
      s += digits;
    }
    x += unit * (width_of(*text) + GAP);
  }
  paint(picture,
        box_around(picture, start, baseline - height, x, baseline + 4 * unit, 2 * unit + 1),
        colour);
}

double canvas_text_width(double height, const char *text) {
  double units = 0;
  for (; *text; text++) units += width_of(*text) + (text[1] ? GAP : 0);
  return height / CAPITAL * units;
}

/* ---- files -------------------------------------------------------------------------------- */

static void write_bytes(void *file, void *bytes, int size) {
  fwrite(bytes, 1, (size_t)size, file);
}

bool canvas_save(const Canvas *p, const char *path, Error *error) {
  AtomicFile output;
  if (!atomic_file_open(&output, path, error)) return false;
  const bool good = stbi_write_png_to_func(write_bytes, output.file, p->width, p->height, 3,
                                           p->pixels, 3 * p->width) ||
                    error_set(error, "no memory to write %s", path);
  return atomic_file_close(&output, good, error);
}
