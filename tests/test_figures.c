/* Compares the pictures that mlp-train draws with stored hashes of their pixels. After a change on
   purpose, run `FIGURES=. build/test_figures`, look at the files, and write the new hashes here. */
#include <zlib.h>

#include "base/random.h"
#include "base/sizes.h"
#include "plot/page.h"
#include "plot/figures.h"
#include "support/folder.h"

/* Includes stb's reader of PNG files. The pragma silences gcc 14's warnings about stb's code. */
#pragma GCC diagnostic push
#ifndef __clang__ /* clang lacks this warning */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

/* Draws picture number `kind` of a figure and writes it to the path. */
typedef bool Draw(int kind, const char *path);

/* ---- the canvas ---------------------------------------------------------------------------- */

/* Draws rectangles, lines and images. Some begin between pixels; some reach beyond the picture. */
static bool draw_shapes(int kind, const char *path) {
  static const uint8_t greys[] = {0, 50, 100, 150, 200, 250};
  Canvas c;
  (void)kind;
  OK(canvas_open(&c, 300, 200, &error));
  canvas_rectangle(&c, 20, 10, 30, 20, 0xd55e00);
  canvas_rectangle(&c, 60.6, 10.4, 0.8, 21.2, 0);
  canvas_rectangle(&c, 70.6, 10.4, 0.9, 21.2, 0);
  canvas_rectangle(&c, -5, -5, 10, 10, 0x0072b2);
  canvas_rectangle(&c, 290, 190, 100, 100, 0x0072b2);
  canvas_rectangle(&c, 400, 300, 5, 5, 0);
  canvas_greys(&c, 90, 10, greys, 3, 2, 10);
  canvas_greys(&c, 285, 2, greys, 3, 2, 10);
  for (int i = 0; i < 16; i++)
    canvas_line(&c, 80, 110, 80 + 60 * cos(0.4 * i), 110 + 60 * sin(0.4 * i), 0.5 + 0.5 * i,
                0x5a5a5a);
  canvas_line(&c, 160, 60, 250, 60, 2, 0);
  canvas_line(&c, 160, 70.5, 250, 71, 1, 0x0969da);
  canvas_line(&c, 200, 110, 200, 110, 25, 0xcc79a7); /* a dot */
  canvas_line(&c, -1000, 210, 2000, 120, 3, 0xe69f00);
  canvas_line(&c, (double)NAN, 2, 4, 2, 3, 0);
  const bool good = canvas_save(&c, path, &error);
  canvas_close(&c);
  return good;
}

/* Draws all letters, texts underlined from end to end, other bytes, and text beyond the edges. */
static bool draw_letters(int kind, const char *path) {
  Canvas c;
  (void)kind;
  OK(canvas_open(&c, 900, 330, &error));
  for (int i = 0; i < 95; i++) {
    const int row = i / 24;
    canvas_text(&c, 20 + i % 24 * 36, 50 + row * 50, 28, (char[]){(char)(' ' + i), '\0'}, 0);
  }
  const char *const texts[] = {"Quick MNIST 64: 111 and 808, (98.29%)", "\xb5 and \n are none"};
  for (int i = 0; i < 4; i++) {
    const double height = i < 2 ? 14 : 9, x = 20 + i % 2 * 500, y = i < 2 ? 250 : 280;
    canvas_text(&c, x, y, height, texts[i % 2], 0x0969da);
    canvas_rectangle(&c, x, y + 6, canvas_text_width(height, texts[i % 2]), 1, 0xd1242f);
  }
  canvas_text(&c, -30, 325, 40, "beyond every side, and so far that nobody reads it", 0x6e7781);
  canvas_text(&c, 30, 500, 12, "below", 0);
  const bool good = canvas_save(&c, path, &error);
  canvas_close(&c);
  return good;
}

/* ---- charts ------------------------------------------------------------------------------- */

static bool draw_dots(int kind, const char *path) {
  DotChart chart = {.title = "Dots", .subtitle = "subtitle"};
  (void)kind;
  dot_chart_add(&chart, "hundred", 100, OURS);
  dot_chart_add(&chart, "a longer label than others", 10, LIBRARY);
  dot_chart_add(&chart, "one", 0.04, OTHER);
  return dot_chart_draw(&chart, path, &error);
}

/* ---- the figures of a run ----------------------------------------------------------------- */

/* Kind 0 draws a run with validation rows, one infinite loss and one very small loss. Kind 1 draws
   three runs without validation rows. */
static bool draw_curves(int kind, const char *path) {
  enum { COUNT = 5, RUNS = 3 };
  EpochResult results[RUNS * COUNT];
  for (int i = 0; i < RUNS * COUNT; i++) {
    const int run = i / COUNT;
    const double part = 1.0 / (i % COUNT + 1) + 0.1 * run;
    results[i] = (EpochResult){.epoch = i % COUNT + 1,
                               .epochs = COUNT,
                               .train_loss = 0.2 + 0.3 * part,
                               .train_accuracy = 0.97 - 0.1 * part,
                               .test_loss = kind ? NAN : 0.7 + 0.1 * part,
                               .test_accuracy = kind ? NAN : 0.8 - 0.1 * part,
                               .train_rows = 60000,
                               .test_rows = 10000,
                               .judged_by = kind ? JUDGED_BY_NONE : JUDGED_BY_VALIDATION};
  }
  if (kind == 0) {
    results[1].train_loss = INFINITY;
    results[4].test_loss = 0.01;
    results[1].test_accuracy = results[2].test_accuracy = 0.9; /* epoch 2 must count as the best */
  }
  return plot_curves(results, kind ? RUNS : 1, COUNT, path, &error);
}

/* Kind 0 draws three weights that are infinite or NaN. Kind 1 has more filters than fit. Kind 2
   has small weights and square filters. */
static bool draw_weights(int kind, const char *path) {
  static const int shape[][2] = {{12, 7}, {9, FIGURES_MAX_FILTERS + 1}, {4, 3}};
  Network network;
  OK(network_init(&network, shape[kind][0], &shape[kind][1], 1, 10, &error));
  float *parameters = allocate(network.floats, sizeof *parameters),
        *weights = parameters + network.weight[0];
  const int count = shape[kind][0] * shape[kind][1];
  for (int i = 0; i < count; i++)
    weights[i] = (float)(random_words(3, 0, (uint64_t)i).word[0] % 2001) / 1000 - 1;
  for (int i = 0; kind == 2 && i < count; i++) weights[i] /= 10;
  if (kind == 0) weights[2] = INFINITY, weights[4] = -INFINITY, weights[6] = NAN;
  return plot_weights(&network, parameters, path, &error);
}

static const char four[] =
    "T-shirt\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nBag\nHat";

/* Draws eleven wrong predictions (kind 0), five with class names (kind 1) or none (kind 2). */
static bool draw_mistakes(int kind, const char *path) {
  enum { SIDE = 12, MOST = 11 };
  static const int counts[] = {MOST, 5, 0};
  Mistake mistakes[MOST];
  for (int m = 0; m < MOST; m++) {
    mistakes[m] = (Mistake){kind ? 2 : m,
                            kind ? m % 2 : 10 - m,
                            1 - m / 100.0,
                            kind ? UINT64_MAX : (uint64_t)m * 1000 + 1,
                            {0}};
    for (int i = 0; i < SIDE * SIDE; i++) mistakes[m].pixels[i] = (uint8_t)(i * 7 + m * 31);
  }
  return plot_mistakes(mistakes, counts[kind], SIDE, kind ? four : NULL, path, &error);
}

/* Kind 0 draws named classes, one of them without rows. Kind 1 draws large counts. Kind 2 draws so
   many classes that their counts do not fit. */
static bool draw_confusion(int kind, const char *path) {
  static const int classes[] = {4, FIGURES_MAX_NUMBERS, FIGURES_MAX_NUMBERS + 1};
  static const uint64_t counts[] = {1000, 0, 0, 0, 0, 5, 0, 5, 100, 1, 900};
  const int count = classes[kind];
  Metrics metrics;
  OK(metrics_open(&metrics, count, &error));
  metrics.names = kind ? NULL : four;
  for (int i = 0; i < count * count; i++) {
    const int truth = i / count, prediction = i % count;
    const uint64_t large = truth == prediction                 ? 88888888888
                           : (truth + 5) % count == prediction ? 9999999999
                                                               : 0;
    metrics.counts[i] = kind ? large : i < (int)LENGTH(counts) ? counts[i] : 0;
    metrics.rows += metrics.counts[i];
    if (truth == prediction) metrics.correct += metrics.counts[i];
  }
  const bool good = plot_confusion(&metrics, path, &error);
  metrics_close(&metrics);
  return good;
}

/* Draws a picture at half its size, with two digits. The program is unsure of the second digit. */
static bool draw_seen(int kind, const char *path) {
  enum { SIDE = 28, WIDE = 420, HIGH = 210 };
  static uint8_t level[WIDE * HIGH];
  (void)kind;
  for (int i = 0; i < WIDE * HIGH; i++) level[i] = (uint8_t)(200 + i % WIDE / 8);
  const Image image = {.width = WIDE, .height = HIGH, .level = level, .shrunk = 2};
  Photograph two = {.count = 2, .box = {{100, 80, 300, 200}, {400, 100, 480, 260}}};
  for (int i = 0; i < 2 * SIDE * SIDE; i++) two.pixels[i] = (uint8_t)(i * 3);
  static const SeenAnswer answers[] = {{{[7] = 0.75}, 7, true}, {{[8] = 0.25}, 8, false}};
  return plot_seen("it.png", &image, &two, answers, SIDE, NULL, path, &error);
}

static unsigned long hash_of(const char *path) {
  int size[2], channels;
  uint8_t *pixels = stbi_load(path, &size[0], &size[1], &channels, 3);
  assert_non_null(pixels);
  assert_int_equal(channels, 3);
  const uLong hash =
      crc32(crc32(0, (const Bytef *)size, sizeof size), pixels, (uInt)(3 * size[0] * size[1]));
  stbi_image_free(pixels);
  return hash;
}

IN_FOLDER(pictures) {
  static const struct {
    const char *name;
    Draw *draw;
    unsigned long hashes[4]; /* one hash per kind */
  } figures[] = {{"shapes", draw_shapes, {0xb6137f43}},
                 {"letters", draw_letters, {0x302276b6}},
                 {"dots", draw_dots, {0xdb535e05}},
                 {"curves", draw_curves, {0x75655765, 0x2ec0d0f5}},
                 {"weights", draw_weights, {0xfe109aaf, 0xc0dae149, 0x4e80e67f}},
                 {"mistakes", draw_mistakes, {0x6886c950, 0x2937e8ca, 0x5e450691}},
                 {"confusion", draw_confusion, {0x67f7d427, 0x591841da, 0x041b0bf3}},
                 {"seen", draw_seen, {0x9c1043b5}}};
  const char *kept = getenv("FIGURES");
  int wrong = 0;
  foreach (figure, figures)
    for (int kind = 0; figure->hashes[kind]; kind++) {
      const char *path = text_printf("%s/%s-%d.png", kept ? kept : ".", figure->name, kind);
      OK(figure->draw(kind, path));
      const unsigned long hash = hash_of(path);
      if (hash == figure->hashes[kind]) continue;
      print_message("%s has the hash 0x%08lx\n", path, hash);
      wrong++;
    }
  if (wrong) fail_msg("%d pictures are not as they were", wrong);
}

/* ---- what cannot be drawn ----------------------------------------------------------------- */

TEST(curves_without_numbers) {
  EpochResult result = {
      .epoch = 1, .train_loss = NAN, .train_accuracy = NAN, .test_loss = NAN, .test_accuracy = NAN};
  FAILS(plot_curves(&result, 1, 1, "x.png", &error),
        "no epoch has a finite loss or accuracy to draw in x.png");
  FAILS(plot_curves(&result, 1, 0, "x.png", &error),
        "no epoch was trained: there is nothing to draw in x.png");
}

TEST(dots_without_a_logarithm) {
  foreach (value, VALUES(double, 0, -1, (double)NAN, (double)INFINITY)) {
    DotChart chart = {.title = "title", .subtitle = ""};
    dot_chart_add(&chart, "a row", *value, OURS);
    FAILS(dot_chart_draw(&chart, "x.png", &error), "'a row'");
  }
}
