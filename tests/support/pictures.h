/* Draws grey pictures with digits, for the tests of image.c and photograph.c. Pictures are written
   to x.img, in the working folder of folder.h. */
#pragma once

#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
#include <zlib.h>

#include "data/digits.h"
#include "data/photograph.h"
#include "support/folder.h"

enum { SIDE = DIGITS_SIDE, PIXELS = DIGITS_PIXELS };

static const char picture[] = "x.img";

/* A picture: (height, width) levels of grey. */
typedef struct {
  int width, height;
  uint8_t *level;
} Grey;

static inline Grey new_grey(int width, int height, uint8_t level) {
  const size_t count = (size_t)width * (size_t)height;
  return (Grey){width, height, memset(allocate(count, 1), level, count)};
}

static inline uint8_t *pixel_at(const Grey *g, int x, int y) {
  return &g->level[y * g->width + x];
}

static inline void draw_bar(const Grey *g, int left, int top, int width, int height,
                            uint8_t level) {
  for (int y = top; y < top + height; y++) memset(pixel_at(g, left, y), level, (size_t)width);
}

static inline void put_number(FILE *file, uLong number) {
  for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(number >> shift & 255), file);
}

static inline void put_chunk(FILE *file, const char *name, const void *data, size_t length) {
  put_number(file, length);
  fwrite(name, 1, 4, file);
  fwrite(data, 1, length, file);
  put_number(file, crc32(crc32(0, (const Bytef *)name, 4), data, (uInt)length));
}

/* Writes a PNG file. `head` is its 13-byte header; `data` is its compressed data. */
static inline void write_png_parts(const void *head, const void *data, size_t length) {
  FILE *file = folder_create(picture);
  fwrite("\x89PNG\r\n\x1a\n", 1, 8, file);
  put_chunk(file, "IHDR", head, 13);
  put_chunk(file, "IDAT", data, length);
  put_chunk(file, "IEND", "", 0);
  close_file(file);
}

/* Reads the picture's only digit as (side, side) pixels, like a row of MNIST. Returns false and
   sets `why` if the picture cannot be read or does not show exactly one digit. */
static inline bool read_picture(const char *path, int side, uint8_t *pixels, Error *why) {
  Image image;
  Photograph photograph;
  if (!image_read(path, &image, why)) return false;
  bool good = photograph_find(&image, path, side, &photograph, why);
  image_free(&image);
  if (!good) return false;
  const size_t size = (size_t)side * (size_t)side;
  if (photograph.count == 1)
    memcpy(pixels, photograph.pixels, size);
  else
    good = error_set(why, "%s shows %d digits", path, photograph.count);
  return good;
}
