#include "support/pictures.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
#include <zlib.h>

#include "base/random.h"
#include "data/photograph.h"

Grey new_grey(int width, int height, uint8_t level) {
  const size_t count = (size_t)width * (size_t)height;
  return (Grey){width, height, memset(allocate(count, 1), level, count)};
}

uint8_t *pixel_at(const Grey *g, int x, int y) {
  return &g->level[y * g->width + x];
}

void draw_bar(const Grey *g, int left, int top, int width, int height, uint8_t level) {
  for (int y = top; y < top + height; y++) memset(pixel_at(g, left, y), level, (size_t)width);
}

void draw_digit(const Grey *g, uint64_t row, int scale, int left, int top, bool dark) {
  uint8_t digit[PIXELS];
  digits_draw(1, DIGITS_TEST, row, digit);
  EACH_PIXEL(x, y, SIDE * scale, SIDE * scale) {
    const uint8_t ink = digit[y / scale * SIDE + x / scale];
    *pixel_at(g, left + x, top + y) = dark ? 255 - ink : ink;
  }
}

Grey digit(uint64_t row, int scale, bool dark) {
  const Grey g = new_grey(scale * SIDE, scale * SIDE, 0);
  draw_digit(&g, row, scale, 0, 0, dark);
  return g;
}

void write_png(const Grey *g) {
  assert_true(stbi_write_png(picture, g->width, g->height, 1, g->level, 0));
}

void write_coloured(const char *path, const Grey *g, Colours c) {
  const size_t count = (size_t)g->width * (size_t)g->height;
  uint8_t *rgb = allocate(3, count);
  for (size_t i = 0; i < 3 * count; i++) {
    const int k = (int)(i % 3);
    rgb[i] = (uint8_t)(c.paper[k] + (c.ink[k] - c.paper[k]) * g->level[i / 3] / 255);
  }
  assert_true(stbi_write_png(path, g->width, g->height, 3, rgb, 0));
}

static void put_number(FILE *file, uLong number) {
  for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(number >> shift & 255), file);
}

static void put_chunk(FILE *file, const char *name, const void *data, size_t length) {
  put_number(file, length);
  fwrite(name, 1, 4, file);
  fwrite(data, 1, length, file);
  put_number(file, crc32(crc32(0, (const Bytef *)name, 4), data, (uInt)length));
}

void write_png_parts(const void *head, const void *data, size_t length) {
  FILE *file = folder_create(picture);
  fwrite("\x89PNG\r\n\x1a\n", 1, 8, file);
  put_chunk(file, "IHDR", head, 13);
  put_chunk(file, "IDAT", data, length);
  put_chunk(file, "IEND", "", 0);
  close_file(file);
}

bool read_picture(const char *path, int side, uint8_t *pixels, Error *why) {
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
  photograph_free(&photograph);
  return good;
}

void read_digit(uint8_t *pixels) {
  if (!read_picture(picture, SIDE, pixels, &error)) fail_msg("%s", error.text);
}

void through_png(const Grey *g, uint8_t *pixels) {
  write_png(g);
  read_digit(pixels);
}

double difference(const uint8_t *a, const uint8_t *b) {
  int sum = 0;
  for (int i = 0; i < PIXELS; i++) sum += abs(a[i] - b[i]);
  return (double)sum / PIXELS;
}

enum { BATCH = 32 };

Engine *open_digits_engine(const Network *network, uint64_t dataset_rows, uint64_t staging_rows) {
  const EngineConfig config = {
      .network = *network,
      .training = {.batch = BATCH, .seed = 1, .rule.momentum = 0.9f, .threads = 2},
      .dataset_rows = dataset_rows,
      .staging_rows = staging_rows};
  Engine *engine = engine_cpu_open(&config, &error);
  OK(engine != NULL);
  return engine;
}

void upload_digits(Engine *engine, DigitsSeries series, uint64_t rows) {
  StagingBuffer staging;
  OK(engine->call->staging(engine, 0, &staging, &error));
  for (uint64_t r = 0; r < rows; r++)
    staging.labels[r] = (uint16_t)digits_draw(1, series, r, staging.pixels + r * staging.stride);
  OK(engine->call->upload(engine, 0, 0, rows, &error));
}

void train_on_digits(Engine *engine, uint64_t rows, const float *rates, int epochs) {
  upload_digits(engine, DIGITS_TRAIN, rows);
  for (int epoch = 0; epoch < epochs; epoch++) {
    const TrainRange range = {.rows = rows,
                              .shuffled = true,
                              .key = random_order_key(1, (uint64_t)epoch),
                              .steps = rows / BATCH,
                              .learning_rate = rates[epoch]};
    OK(engine->call->train(engine, &range, &error));
  }
}
