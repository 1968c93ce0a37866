/* Grey pictures with drawn digits, for the tests of image.c and photograph.c, and the file that
   holds them, in the working folder, which is that of folder.h. For tests only. */
#pragma once

#include "data/digits.h"
#include "engine/engine_cpu.h"
#include "support/folder.h"

enum { SIDE = DIGITS_SIDE, PIXELS = DIGITS_PIXELS };

static const char picture[] = "x.img";

/* (height, width) levels of grey. */
typedef struct {
  int width, height;
  uint8_t *level;
} Grey;

Grey new_grey(int width, int height, uint8_t level);
uint8_t *pixel_at(const Grey *g, int x, int y);
void draw_bar(const Grey *g, int left, int top, int width, int height, uint8_t level);

/* Ink `row` of digits.h, each pixel `scale` squared, its corner at (left, top). */
void draw_digit(const Grey *g, uint64_t row, int scale, int left, int top, bool dark);

/* A picture of that digit alone. */
Grey digit(uint64_t row, int scale, bool dark);

void write_png(const Grey *g);

/* Writes a PNG in which levels 0 to 255 are paper to ink. */
typedef struct {
  int paper[3], ink[3];
} Colours;
void write_coloured(const char *path, const Grey *g, Colours c);

/* Writes a PNG by hand: the 13 bytes of its header, and its packed data. */
void write_png_parts(const void *head, const void *data, size_t length);

/* Reads the one digit in the picture as a row of MNIST: (side, side) pixels. Returns false with
 *why set if the picture cannot be read or shows none or several. */
bool read_picture(const char *path, int side, uint8_t *pixels, Error *why);

/* Reads the digit of the picture in the file, which must have one. */
void read_digit(uint8_t *pixels);

/* Writes it as a PNG and reads it. */
void through_png(const Grey *g, uint8_t *pixels);

/* The mean difference of two rows, in levels. */
double difference(const uint8_t *a, const uint8_t *b);

/* Opens an engine on the CPU, to train or to predict in. */
Engine *open_digits_engine(const Network *network, uint64_t dataset_rows, uint64_t staging_rows);
/* Draws `rows` digits into the engine's dataset. */
void upload_digits(Engine *engine, DigitsSeries series, uint64_t rows);
/* Trains on that many drawn digits, an epoch by each learning rate. */
void train_on_digits(Engine *engine, uint64_t rows, const float *rates, int epochs);
