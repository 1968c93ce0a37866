#include "plot/canvas.h"

#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "base/sizes.h"

/* ---- memory for stb ----------------------------------------------------------------------- */

/* stb goes on writing when it gets no memory. So it gets all it can need at once, and its pieces
   are cut from that and freed with it. */
static _Thread_local struct {
  uint8_t *next;
  size_t left;
} arena;

static void *take(const void *old, size_t old_size, size_t size) {
  size = round_up(size, alignof(max_align_t));
  if (size > arena.left) abort(); /* arena_size is wrong */
  void *bytes = arena.next;
  arena.next += size;
  arena.left -= size;
  if (old) memcpy(bytes, old, old_size);
  return bytes;
}

/* Returns the memory for `bytes` bytes of filtered pixels: the pixels; their deflated form, at most
   4/3 as much (31 bits for three bytes), in a buffer that doubles, so that all its sizes together
   are at most four times that; the file; and the heads of 16384 chains, which grow to 2, 5, 11 and
   23 pointers. */
static size_t arena_size(size_t bytes) {
  enum { CHAINS = 16384, CHAIN = 1 + 2 + 5 + 11 + 23, BLOCKS = 4, EXTRA = 1 << 16 };
  return 8 * bytes + CHAINS * (CHAIN * sizeof(void *) + BLOCKS * (size_t)32) + EXTRA;
}

#define STBIW_MALLOC(size) take(NULL, 0, size)
#define STBIW_REALLOC_SIZED(old, old_size, size) take(old, old_size, size)
#define STBIW_FREE(bytes) ((void)(bytes))
#ifndef __clang_analyzer__ /* which would judge stb's code, too */
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#endif
#include <stb/stb_image_write.h>

bool canvas_open(Canvas *picture, int width, int height, Colour background, Error *error) {
  *picture = (Canvas){.width = width, .height = height};
  if (width < 1 || height < 1 || width > CANVAS_MAX_SIDE || height > CANVAS_MAX_SIDE)
    return error_set(error, "a picture of %d x %d pixels: each side must be 1 to %d", width, height,
                     CANVAS_MAX_SIDE);
  const size_t count = (size_t)width * (size_t)height;
  picture->pixels = malloc(3 * count);
  picture->coverage = calloc(count, 1);
  if (!picture->pixels || !picture->coverage) {
    canvas_close(picture);
    return error_set(error, "no memory for a picture of %d x %d pixels", width, height);
  }
  canvas_rectangle(picture, 0, 0, width, height, background);
  return true;
}

void canvas_close(Canvas *picture) {
  free(picture->pixels);
  free(picture->coverage);
  *picture = (Canvas){0};
}

/* ---- painting ----------------------------------------------------------------------------- */

/* The pixels x0 <= x < x1, y0 <= y < y1. */
typedef struct {
  int x0, y0, x1, y1;
} Box;

static int clamp(double value, int high) {
  if (!(value > 0)) return 0;
  return value < high ? (int)value : high;
}

static Box box_around(const Canvas *p, double x0, double y0, double x1, double y1, double margin) {
  return (Box){
      clamp(floor(fmin(x0, x1) - margin), p->width), clamp(floor(fmin(y0, y1) - margin), p->height),
      clamp(ceil(fmax(x0, x1) + margin), p->width), clamp(ceil(fmax(y0, y1) + margin), p->height)};
}

static void blend(uint8_t *value, uint8_t colour, int coverage) {
  *value = (uint8_t)((*value * (255 - coverage) + colour * coverage + 127) / 255);
}

void canvas_rectangle(Canvas *picture, int x, int y, int width, int height, Colour colour) {
  const Box box = box_around(picture, x, y, (double)x + width, (double)y + height, 0);
  for (int row = box.y0; row < box.y1; row++)
    for (int column = box.x0; column < box.x1; column++)
      memcpy(&picture->pixels[3 * ((size_t)row * (size_t)picture->width + (size_t)column)], &colour,
             3);
}

void canvas_greys(Canvas *picture, int x, int y, const uint8_t *pixels, int width, int height,
                  int zoom) {
  for (int row = 0; row < height; row++)
    for (int column = 0; column < width; column++) {
      const uint8_t grey = pixels[(size_t)row * (size_t)width + (size_t)column];
      canvas_rectangle(picture, x + column * zoom, y + row * zoom, zoom, zoom,
                       (Colour){grey, grey, grey});
    }
}

/* Returns the distance from (x, y) to the segment from (x0, y0) to (x1, y1). */
static double distance(double x, double y, double x0, double y0, double x1, double y1) {
  const double dx = x1 - x0, dy = y1 - y0, square = dx * dx + dy * dy;
  double along = square > 0 ? ((x - x0) * dx + (y - y0) * dy) / square : 0;
  along = fmin(fmax(along, 0), 1);
  return hypot(x - x0 - along * dx, y - y0 - along * dy);
}

/* Adds a line to the coverage, which takes the larger value where lines cross, so that the joints
   of a letter are not painted twice. Returns the pixels that it may have touched. */
static Box cover_line(Canvas *p, double x0, double y0, double x1, double y1, double thickness) {
  const Box box = box_around(p, x0, y0, x1, y1, thickness / 2 + 1);
  for (int y = box.y0; y < box.y1; y++)
    for (int x = box.x0; x < box.x1; x++) {
      const double inside = thickness / 2 + 0.5 - distance(x + 0.5, y + 0.5, x0, y0, x1, y1);
      const int part = clamp(255 * inside + 0.5, 255);
      uint8_t *coverage = &p->coverage[(size_t)y * (size_t)p->width + (size_t)x];
      if (part > *coverage) *coverage = (uint8_t)part;
    }
  return box;
}

/* Paints the coverage in the box and clears it. */
static void paint(Canvas *p, Box box, Colour colour) {
  for (int y = box.y0; y < box.y1; y++)
    for (int x = box.x0; x < box.x1; x++) {
      const size_t i = (size_t)y * (size_t)p->width + (size_t)x;
      const int coverage = p->coverage[i];
      if (!coverage) continue;
      blend(&p->pixels[3 * i], colour.red, coverage);
      blend(&p->pixels[3 * i + 1], colour.green, coverage);
      blend(&p->pixels[3 * i + 2], colour.blue, coverage);
      p->coverage[i] = 0;
    }
}

void canvas_line(Canvas *picture, double x0, double y0, double x1, double y1, double thickness,
                 Colour colour) {
  paint(picture, cover_line(picture, x0, y0, x1, y1, thickness), colour);
}

/* ---- text --------------------------------------------------------------------------------- */

/* The letters ' ' to '~' as strokes of a pen, separated by spaces. A stroke is a list of points,
   a point two digits in base 36: x from the left, y downwards, capitals from 0 to e = 14, small
   letters from 4, tails down to i = 18. A stroke starts at its first point and ends at its last;
   those between pull it as the control points of a quadratic B-spline, so a point given twice is
   a corner and two points are a straight line. */
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

static const double CAPITAL = 14; /* units of the table */
static const double GAP = 4.5, SPACE = 3, THICKNESS = 1.9, DIGIT = 8;
enum { CURVE_PARTS = 6 }; /* straight pieces of a curve between two points */

static const char *letter_of(char c) {
  return letters[c >= ' ' && c <= '~' ? c - ' ' : '?' - ' '];
}

static int base36(char digit) {
  return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* Digits are equally wide, so that numbers line up. */
static double width_of(char c) {
  double width = c == ' ' ? SPACE : c >= '0' && c <= '9' ? DIGIT : 0;
  for (const char *s = letter_of(c); *s; s += *s == ' ' ? 1 : 2)
    if (*s != ' ') width = fmax(width, base36(*s));
  return width;
}

typedef struct {
  double x, y;
} Point;

static Point middle(Point a, Point b) {
  return (Point){(a.x + b.x) / 2, (a.y + b.y) / 2};
}

/* Adds the quadratic curve from a to c, pulled by b. */
static void cover_curve(Canvas *p, Point a, Point b, Point c, double thickness) {
  Point from = a;
  for (int i = 1; i <= CURVE_PARTS; i++) {
    const double t = (double)i / CURVE_PARTS, s = 1 - t;
    const Point to = {s * s * a.x + 2 * s * t * b.x + t * t * c.x,
                      s * s * a.y + 2 * s * t * b.y + t * t * c.y};
    cover_line(p, from.x, from.y, to.x, to.y, thickness);
    from = to;
  }
}

/* Returns point i of a stroke, in pixels; (0, 0) of the table is at `origin`. */
static Point point_of(const char *stroke, int i, Point origin, double unit) {
  return (Point){origin.x + unit * base36(stroke[2 * i]),
                 origin.y + unit * base36(stroke[2 * i + 1])};
}

static void cover_stroke(Canvas *p, const char *stroke, int points, Point origin, double unit) {
  Point from = point_of(stroke, 0, origin, unit);
  const Point last = point_of(stroke, points - 1, origin, unit);
  if (points == 2) cover_line(p, from.x, from.y, last.x, last.y, THICKNESS * unit);
  for (int i = 1; i < points - 1; i++) {
    const Point pull = point_of(stroke, i, origin, unit);
    const Point to = i == points - 2 ? last : middle(pull, point_of(stroke, i + 1, origin, unit));
    cover_curve(p, from, pull, to, THICKNESS * unit);
    from = to;
  }
}

double canvas_text(Canvas *picture, double x, double baseline, double height, const char *text,
                   Colour colour) {
  const double unit = height / CAPITAL, top = baseline - height, start = x;
  for (const char *c = text; *c; c++) {
    for (const char *s = letter_of(*c); *s; s += *s == ' ') {
      const int length = (int)strcspn(s, " ");
      cover_stroke(picture, s, length / 2, (Point){x, top}, unit);
      s += length;
    }
    x += unit * (width_of(*c) + GAP);
  }
  paint(picture, box_around(picture, start, top, x, baseline + 4 * unit, 2 * unit + 1), colour);
  return x;
}

double canvas_text_width(double height, const char *text) {
  double units = 0;
  for (const char *c = text; *c; c++) units += width_of(*c) + (c[1] ? GAP : 0);
  return height / CAPITAL * units;
}

/* ---- files -------------------------------------------------------------------------------- */

/* A stbi_write_func: stb calls it once, with the whole file. */
static void write_bytes(void *file, void *bytes, int size) {
  (void)fwrite(bytes, 1, (size_t)size, file); /* canvas_save asks ferror */
}

bool canvas_save(const Canvas *picture, const char *path, Error *error) {
  AtomicFile output;
  const int row = 3 * picture->width;
  if (!atomic_file_open(&output, path, error)) return false;
  arena.left = arena_size((size_t)(row + 1) * (size_t)picture->height + (size_t)row);
  uint8_t *memory = arena.next = malloc(arena.left);
  bool good = memory && stbi_write_png_to_func(write_bytes, output.file, picture->width,
                                               picture->height, 3, picture->pixels, row);
  if (!good) error_set(error, "no memory to write %s", path);
  if (good && ferror(output.file)) good = atomic_file_failed(&output, error);
  free(memory);
  return atomic_file_close(&output, good, error);
}
