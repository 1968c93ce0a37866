#include "data/image.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stb may still allocate for the picture that it reads: a file of a few bytes can ask for
   gigabytes. An array's size stands before it. */
typedef union {
  size_t size;
  max_align_t aligned;
} Array;

enum { LEAST_MEMORY = 1 << 20 };
static _Thread_local size_t memory_left = LEAST_MEMORY;
static _Thread_local bool memory_refused;

static void free_array(void *array) {
  if (!array) return;
  memory_left += ((Array *)array - 1)->size;
  free((Array *)array - 1);
}

/* A new array is 0: version 2.27 of stb reads tables that a JPEG uses and does not have. */
static void *resize_array(void *array, size_t size) {
  Array *old = array ? (Array *)array - 1 : NULL;
  const size_t old_size = old ? old->size : 0;
  memory_refused = memory_refused || size > memory_left + old_size;
  if (size > memory_left + old_size) return NULL;
  Array *resized = old ? realloc(old, sizeof *old + size) : calloc(1, sizeof *old + size);
  if (!resized) return NULL;
  memory_left = memory_left + old_size - size;
  resized->size = size;
  return resized + 1;
}

#define STBI_MALLOC(size) resize_array(NULL, size)
#define STBI_REALLOC(array, size) resize_array(array, size)
#define STBI_FREE(array) free_array(array)
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_ONLY_GIF
#define STBI_ONLY_PNM
#define STBI_NO_STDIO
#ifndef __clang_analyzer__ /* which would judge stb's code, too */
#define STB_IMAGE_IMPLEMENTATION
#define STBIDEF static __attribute__((unused))
#endif
/* Version 2.27 declares the one and defines the other, of which compilers complain; later ones have
   the first alone, which is not used. */
#define stbi_set_unpremultiply_on_load_thread stbi__unpremultiply_on_load_thread
#include <stb/stb_image.h>

/* Of a file: more than IMAGE_MAX_PIXELS take in any of the formats, without compression too. */
enum { MAX_BYTES = 1 << 28 };

/* Levels of 256 that ink must differ from the ground. */
enum { LEAST_CONTRAST = 16 };

/* The ground's noise reaches so many times the median deviation from its median: 2.7 standard
   deviations of a normal distribution. */
enum { NOISE_DEVIATIONS = 4 };

/* Noise: a row or column with less than this part of the ink of the fullest is empty. Dust: ink
   with an empty line between it and the digit, if it is less than this part of all. */
static const double NOISE_PART = 0.02, DUST_PART = 0.01;

typedef struct {
  int width, height;
  uint8_t *level; /* (height, width): brightness, later ink; stb's, freed by free_array */
} Grey;

/* ---- the file ----------------------------------------------------------------------------- */

/* All bytes of a file, which may be a pipe: malloc'ed, or NULL. */
static uint8_t *read_file(const char *path, int *length, Error *error) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    error_set(error, "cannot open %s: %s", path, strerror(errno));
    return NULL;
  }
  size_t capacity = 1 << 16, used = 0;
  uint8_t *bytes = malloc(capacity);
  while (bytes && (used += fread(bytes + used, 1, capacity - used, file)) == capacity &&
         capacity < MAX_BYTES) {
    uint8_t *more = realloc(bytes, capacity *= 2);
    if (!more) free(bytes);
    bytes = more;
  }
  *length = (int)used;
  if (!bytes)
    error_set(error, "no memory to read %s", path);
  else if (ferror(file))
    error_set(error, "cannot read %s: %s", path, strerror(errno));
  else if (used == MAX_BYTES)
    error_set(error, "%s has %d bytes or more: too many for a picture", path, MAX_BYTES);
  const bool good = bytes && !ferror(file) && used < MAX_BYTES;
  fclose(file);
  if (good) return bytes;
  free(bytes);
  return NULL;
}

/* A PGM or PPM that ends too early, which version 2.27 of stb does not see. */
static bool is_cut(const uint8_t *bytes, int length, const Grey *grey, int channels) {
  if (bytes[0] != 'P') return false;
  const int head = snprintf(NULL, 0, "P5 %d %d 1 ", grey->width, grey->height); /* at least */
  return length < head + (int64_t)grey->width * grey->height * channels;
}

/* A JPEG with a Huffman table of more than 256 codes, behind which version 2.27 of stb writes. It
   takes any 0xff 0xc4 for the start of tables, so we do; behind the end it reads zeros. */
static bool has_vast_table(const uint8_t *bytes, int length) {
  if (length < 1 || bytes[0] != 0xff) return false; /* no JPEG */
  for (int at = 0; at + 4 < length; at++) {
    if (bytes[at] != 0xff || bytes[at + 1] != 0xc4) continue;
    int left = bytes[at + 2] * 256 + bytes[at + 3] - 2, table = at + 4;
    while (left > 0 && table < length && (bytes[table] & 0xef) < 4) { /* else stb refuses it */
      int codes = 0;
      for (int i = 1; i <= 16 && table + i < length; i++) codes += bytes[table + i];
      if (codes > 256) return true;
      table += 17 + codes;
      left -= 17 + codes;
    }
  }
  return false;
}

/* Scans of a JPEG as stb finds them: it skips other segments by their length, and a scan's data up
   to the next marker, for which a byte of 0 and restarts are none. */
static int count_scans(const uint8_t *bytes, int length) {
  enum { RESTART = 0xd0, RESTARTS = 8, END = 0xd9, SCAN = 0xda };
  int scans = 0, at = 2;
  if (length < at || bytes[0] != 0xff) return 0; /* no JPEG */
  while (at + 3 < length) {
    const int marker = bytes[at + 1];
    if (bytes[at] != 0xff || marker == 0 || marker == 0xff ||
        (marker >= RESTART && marker < RESTART + RESTARTS)) {
      at++;
      continue;
    }
    if (marker == END) break;
    scans += marker == SCAN;
    at += 2 + bytes[at + 2] * 256 + bytes[at + 3];
  }
  return scans;
}

/* That a picture of this header is one that may be read. */
static bool check_header(const char *path, const uint8_t *bytes, int length, const Grey *grey,
                         int channels, Error *error) {
  const int width = grey->width, height = grey->height;
  if (width < 1 || height < 1) /* version 2.27 of stb lets a PGM say so */
    return error_set(error, "%s has no pixels: %d x %d", path, width, height);
  if (width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE ||
      (int64_t)width * height > IMAGE_MAX_PIXELS)
    return error_set(error,
                     "%s is too large, %d x %d pixels: up to %d a side and %d in all can be read",
                     path, width, height, IMAGE_MAX_SIDE, IMAGE_MAX_PIXELS);
  const int scans = count_scans(bytes, length);
  if ((int64_t)width * height * scans > IMAGE_MAX_SCANNED)
    return error_set(error,
                     "%s is a JPEG of %d scans of %d x %d pixels: up to %d pixels in all scans "
                     "together can be read",
                     path, scans, width, height, IMAGE_MAX_SCANNED);
  if (bytes[0] == 'P' && stbi_is_16_bit_from_memory(bytes, length)) /* it reads too far then */
    return error_set(error, "%s cannot be read as a PGM or PPM: its levels go above 255", path);
  if (is_cut(bytes, length, grey, channels))
    return error_set(error, "%s cannot be read as a PGM or PPM: it ends too early", path);
  return true;
}

/* Bytes that stb may need for a picture: an interlaced PNG of 4 channels of 16 bits has all of it
   twice and half of it once more; blocks of a JPEG reach over the edge; a PNG's parts are joined in
   an array that grows by doubling. */
static size_t memory_for(const Grey *grey, int length) {
  const size_t memory = LEAST_MEMORY +
                        24 * ((size_t)grey->width + 64) * ((size_t)grey->height + 64) +
                        2 * (size_t)length;
  return memory < IMAGE_MAX_MEMORY ? memory : IMAGE_MAX_MEMORY;
}

/* Size first, pixels then: so that nobody's header makes us allocate what it likes. */
static uint8_t *decode(const char *path, const uint8_t *bytes, int length, Grey *grey,
                       Error *error) {
  int channels, *width = &grey->width, *height = &grey->height;
  uint8_t *pixels = NULL;
  size_t memory = memory_left = LEAST_MEMORY;
  errno = 0;
  memory_refused = false;
  if (has_vast_table(bytes, length)) {
    error_set(error, "%s cannot be read as a JPEG: a Huffman table of it is too large", path);
    return NULL;
  }
  if (stbi_info_from_memory(bytes, length, width, height, &channels)) {
    if (!check_header(path, bytes, length, grey, channels, error)) return NULL;
    memory_left = memory = memory_for(grey, length);
    pixels = stbi_load_from_memory(bytes, length, width, height, &channels, STBI_grey_alpha);
  }
  if (pixels) return pixels;
  if (memory_refused)
    error_set(error, "%s takes more than %zu MB of memory to read: too much for a picture", path,
              memory / 1000000);
  else if (errno == ENOMEM) /* stb may have tried another format since */
    error_set(error, "no memory to read %s", path);
  else
    error_set(error, "%s cannot be read as a PNG, JPEG, BMP, GIF or PGM: %s", path,
              stbi_failure_reason());
  return NULL;
}

static bool read_grey(const char *path, Grey *grey, Error *error) {
  int length;
  uint8_t *bytes = read_file(path, &length, error);
  if (!bytes) return false;
  grey->level = decode(path, bytes, length, grey, error);
  free(bytes);
  if (!grey->level) return false;
  const size_t count = (size_t)grey->width * (size_t)grey->height;
  for (size_t i = 0; i < count; i++) { /* (brightness, alpha) over white */
    const int alpha = grey->level[2 * i + 1];
    grey->level[i] = (uint8_t)((grey->level[2 * i] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
  return true;
}

/* ---- ink ---------------------------------------------------------------------------------- */

/* The smallest level that more than `rank` of the counted pixels do not exceed. */
static int level_of_rank(const uint64_t histogram[256], uint64_t rank) {
  int level = 0;
  for (uint64_t below = histogram[0]; below <= rank; below += histogram[level]) level++;
  return level;
}

/* Of the picture's outermost pixels, and how many they are. */
static uint64_t count_border(const Grey *grey, uint64_t histogram[256]) {
  uint64_t count = 0;
  for (int y = 0; y < grey->height; y++) {
    const bool edge = y == 0 || y == grey->height - 1;
    const int step = edge || grey->width == 1 ? 1 : grey->width - 1;
    for (int x = 0; x < grey->width; x += step, count++)
      histogram[grey->level[(size_t)y * (size_t)grey->width + (size_t)x]]++;
  }
  return count;
}

/* What the levels of a picture mean. */
typedef struct {
  int ground, noise; /* level of the ground, and how far from it nothing is ink */
  int contrast;      /* of full ink to the ground: below 0 if ink is the darker */
} Levels;

/* The ground is the border's median. Ink is what is farther away, the darkest or the lightest
   level; one pixel in ten thousand may be anything. */
static Levels find_levels(const Grey *grey) {
  uint64_t border[256] = {0}, deviation[256] = {0}, all[256] = {0};
  const uint64_t edge = count_border(grey, border);
  const uint64_t count = (uint64_t)grey->width * (uint64_t)grey->height;
  Levels levels = {.ground = level_of_rank(border, edge / 2)};
  for (int level = 0; level < 256; level++) deviation[abs(level - levels.ground)] += border[level];
  levels.noise = NOISE_DEVIATIONS * level_of_rank(deviation, edge / 2);
  for (uint64_t i = 0; i < count; i++) all[grey->level[i]]++;
  const int darkest = level_of_rank(all, count / 10000) - levels.ground;
  const int lightest = level_of_rank(all, count - 1 - count / 10000) - levels.ground;
  levels.contrast = -darkest >= lightest ? darkest : lightest;
  return levels;
}

/* From brightness to ink, 0 to 255. False if there is none. */
static bool find_ink(Grey *grey) {
  const Levels levels = find_levels(grey);
  const int full = abs(levels.contrast), sign = levels.contrast < 0 ? -1 : 1;
  if (full < LEAST_CONTRAST || full < 2 * levels.noise) return false;
  uint8_t ink[256];
  for (int level = 0; level < 256; level++) {
    const int above = sign * (level - levels.ground) - levels.noise, range = full - levels.noise;
    ink[level] = (uint8_t)(above <= 0       ? 0
                           : above >= range ? 255
                                            : (255 * above + range / 2) / range);
  }
  const size_t count = (size_t)grey->width * (size_t)grey->height;
  for (size_t i = 0; i < count; i++) grey->level[i] = ink[grey->level[i]];
  return true;
}

/* ---- where it is -------------------------------------------------------------------------- */

/* first <= x or y < end. */
typedef struct {
  int first, end;
} Extent;

/* The first line of the digit from `line` on, in steps of 1 or -1. */
static int find_edge(const uint64_t *sums, int lines, int line, int step, double noise,
                     double dust) {
  for (;;) {
    while ((double)sums[line] < noise) line += step;
    double ink = 0;
    int next = line;
    for (; next >= 0 && next < lines && (double)sums[next] >= noise; next += step)
      ink += (double)sums[next];
    if (ink >= dust) return line;
    line = next;
  }
}

/* Of the digit, given the ink of each line. */
static Extent find_extent(const uint64_t *sums, int lines) {
  double fullest = 0, all = 0;
  for (int i = 0; i < lines; i++) {
    fullest = fmax(fullest, (double)sums[i]);
    all += (double)sums[i];
  }
  const double noise = NOISE_PART * fullest;
  const double dust = fmin(DUST_PART * all, fullest); /* so that not all is dust */
  return (Extent){find_edge(sums, lines, 0, 1, noise, dust),
                  find_edge(sums, lines, lines - 1, -1, noise, dust) + 1};
}

/* Columns first, then rows, which no longer see the dust at the sides. */
static bool find_box(const Grey *ink, Extent *across, Extent *down, Error *error) {
  uint64_t *columns = calloc((size_t)ink->width + (size_t)ink->height, sizeof *columns);
  if (!columns) return error_set(error, "no memory for a picture");
  uint64_t *rows = columns + ink->width;
  for (int y = 0; y < ink->height; y++)
    for (int x = 0; x < ink->width; x++)
      columns[x] += ink->level[(size_t)y * (size_t)ink->width + (size_t)x];
  *across = find_extent(columns, ink->width);
  for (int y = 0; y < ink->height; y++)
    for (int x = across->first; x < across->end; x++)
      rows[y] += ink->level[(size_t)y * (size_t)ink->width + (size_t)x];
  *down = find_extent(rows, ink->height);
  free(columns);
  return true;
}

/* ---- from there to a row of MNIST --------------------------------------------------------- */

/* The mean over x0 <= x < x1, y0 <= y < y1, where pixels are squares. */
static double mean_ink(const Grey *ink, double x0, double x1, double y0, double y1) {
  double sum = 0;
  for (int y = (int)y0; y < y1 && y < ink->height; y++) {
    double line = 0;
    for (int x = (int)x0; x < x1 && x < ink->width; x++)
      line +=
          (fmin(x + 1, x1) - fmax(x, x0)) * ink->level[(size_t)y * (size_t)ink->width + (size_t)x];
    sum += (fmin(y + 1, y1) - fmax(y, y0)) * line;
  }
  return sum / ((x1 - x0) * (y1 - y0));
}

/* The offset that brings a centre of mass nearest to the middle and leaves the box on the page.
   MNIST's centres lie in pixel 14, not between 13 and 14. */
static int offset(double centre, int box, int side) {
  const int middle = side / 2, most = side - box, nearest = (int)lround(middle - centre);
  return nearest < 0 ? 0 : nearest > most ? most : nearest;
}

/* Scales the box of ink to (height, width) at the top left corner of the page, the strongest to
   255: a thin pen's lines are grey by now, and MNIST has no pale digits. */
static void scale(const Grey *ink, Extent across, Extent down, int width, int height, int side,
                  double *page) {
  const double dx = (double)(across.end - across.first) / width;
  const double dy = (double)(down.end - down.first) / height;
  double strongest = 0;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      double *value = &page[y * side + x];
      *value = mean_ink(ink, across.first + x * dx, across.first + (x + 1) * dx,
                        down.first + y * dy, down.first + (y + 1) * dy);
      strongest = fmax(strongest, *value);
    }
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) page[y * side + x] *= 255 / strongest;
}

/* Copies what scale left in the corner to where its centre of mass is in the middle. */
static void centre(const double *page, int width, int height, int side, uint8_t *pixels) {
  double mass = 0, moment_x = 0, moment_y = 0;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      mass += page[y * side + x];
      moment_x += page[y * side + x] * x;
      moment_y += page[y * side + x] * y;
    }
  const int left = offset(moment_x / mass, width, side);
  const int top = offset(moment_y / mass, height, side);
  memset(pixels, 0, (size_t)side * (size_t)side);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      pixels[(top + y) * side + left + x] = (uint8_t)(page[y * side + x] + 0.5);
}

static bool place(const Grey *ink, int side, uint8_t *pixels, Error *error) {
  Extent across = {0}, down = {0};
  if (!find_box(ink, &across, &down, error)) return false;
  const int width = across.end - across.first, height = down.end - down.first;
  const double box = round(side * 20 / 28.0), factor = box / (width > height ? width : height);
  const int box_width = (int)fmax(1, round(width * factor));
  const int box_height = (int)fmax(1, round(height * factor));
  double *page = malloc((size_t)side * (size_t)side * sizeof *page);
  if (!page) return error_set(error, "no memory for a picture");
  scale(ink, across, down, box_width, box_height, side, page);
  centre(page, box_width, box_height, side, pixels);
  free(page);
  return true;
}

bool image_read_digit(const char *path, int side, uint8_t *pixels, Error *error) {
  Grey grey;
  if (!read_grey(path, &grey, error)) return false;
  const bool good =
      find_ink(&grey)
          ? place(&grey, side, pixels, error)
          : error_set(error, "%s shows no digit: nothing in it stands out from its border", path);
  free_array(grey.level);
  return good;
}
