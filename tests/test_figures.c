/* The pictures of a run, read from the list of what they draw. */
#include <stdio.h>

#include "base/random.h"
#include "plot/figures.h"
#include "plot/page.h"
#include "support/marks.h"

static Error error;
static const char path[] = "plot.png";

static void must(bool good) {
  if (!good) fail_msg("%s", error.text);
}

static void assert_at(double got, double wanted) {
  if (fabs(got - wanted) > 1e-6) fail_msg("%g is not %g", got, wanted);
}

/* ---- curves ------------------------------------------------------------------------------- */

enum { MOST = 1000 };

static EpochResult results[MOST];

static void make_results(int count, JudgedBy judge) {
  for (int i = 0; i < count; i++) {
    const double part = 1.0 / (i + 1);
    results[i] = (EpochResult){.epoch = i + 1,
                               .epochs = count,
                               .train_loss = 0.2 + 0.3 * part,
                               .train_accuracy = 0.97 - 0.1 * part,
                               .test_loss = 0.7 + 0.1 * part,
                               .test_accuracy = 0.8 - 0.1 * part,
                               .train_rows = 60000,
                               .test_rows = 10000,
                               .judged_by = judge};
  }
}

/* Dot i of a curve of a panel; every one of few points has a dot. */
static const Mark *dot(int curve, int panel, int count, int i) {
  i += panel * count;
  for (const Mark *m = drawn.mark; m < drawn.end; m++)
    if (m->kind == IS_LINE && same_colour(m->colour, page_series[curve]) && m->x == m->x1 &&
        i-- == 0)
      return m;
  fail_msg("curve %d of panel %d has too few dots", curve, panel);
  return NULL;
}

static double number_of(int curve, int panel, int i, bool logarithmic) {
  const EpochResult *r = &results[i];
  if (panel) return curve ? r->test_accuracy : r->train_accuracy;
  const double loss = curve ? r->test_loss : r->train_loss;
  return logarithmic ? log10(loss) : loss;
}

/* Both curves of a panel lie on the same axes: pixels grow as the numbers do. */
static void assert_curves(int count, bool logarithmic) {
  for (int panel = 0; panel < 2; panel++) {
    const bool logs = logarithmic && !panel;
    const Mark *first = dot(0, panel, count, 0), *last = dot(0, panel, count, count - 1);
    const double low = number_of(0, panel, 0, logs),
                 unit =
                     (dot(1, panel, count, 0)->y - first->y) / (number_of(1, panel, 0, logs) - low);
    assert_true(unit < 0);
    for (int i = 0; i < 2 * count; i++) {
      const Mark *m = dot(i / count, panel, count, i % count);
      assert_at(m->y, first->y + unit * (number_of(i / count, panel, i % count, logs) - low));
      assert_at(m->x, first->x + (count > 1 ? i % count * (last->x - first->x) / (count - 1) : 0));
    }
  }
}

TEST(curves) {
  static const int counts[] = {1, 2, 10, 64};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    make_results(counts[i], JUDGED_BY_TEST);
    must(plot_curves(results, counts[i], path, &error));
    assert_curves(counts[i], false);
  }
  assert_true(text_mark("Test accuracy 79.84% after epoch 64"));
  assert_true(text_mark("60000 training rows") && text_mark("Loss") && text_mark("Accuracy"));
  make_results(MOST, JUDGED_BY_TEST);
  must(plot_curves(results, MOST, path, &error));
  assert_int_equal(count_marks(IS_LINE, page_series[1]), 2 * (1 + MOST - 1 + 1));
}

TEST(the_best_epoch) {
  make_results(10, JUDGED_BY_VALIDATION);
  results[3].test_accuracy = results[5].test_accuracy = 0.9;
  must(plot_curves(results, 10, path, &error));
  assert_true(text_mark("Validation accuracy 79.00% after epoch 10, best 90.00% after epoch 4"));
}

TEST(steep_loss) {
  make_results(40, JUDGED_BY_TEST);
  for (int i = 0; i < 40; i++) results[i].train_loss = pow(10, -i / 10.0);
  must(plot_curves(results, 40, path, &error));
  assert_curves(40, true);
  assert_true(text_mark("cross-entropy, logarithmic scale"));
  results[39].train_loss = 0; /* has no logarithm */
  must(plot_curves(results, 40, path, &error));
  assert_curves(40, false);
  assert_null(text_mark("cross-entropy, logarithmic scale"));
}

TEST(gaps) {
  make_results(10, JUDGED_BY_TEST);
  for (int i = 3; i < 7; i++) results[i].train_loss = results[i].test_loss = i % 2 ? NAN : INFINITY;
  must(plot_curves(results, 10, path, &error));
  for (int k = 0; k < 2; k++) /* dots, lines and legends of two panels */
    assert_int_equal(count_marks(IS_LINE, page_series[k]), (6 + 4 + 1) + (10 + 9 + 1));
}

TEST(nothing_to_draw) {
  make_results(3, JUDGED_BY_TEST);
  for (int i = 0; i < 3; i++) results[i].train_loss = results[i].test_loss = NAN;
  must(plot_curves(results, 3, path, &error));
  assert_true(text_mark("Accuracy") && !text_mark("Loss"));
  for (int i = 0; i < 3; i++) results[i].train_accuracy = results[i].test_accuracy = NAN;
  assert_false(plot_curves(results, 3, path, &error));
  assert_non_null(strstr(error.text, "finite"));
  assert_non_null(strstr(error.text, path));
  assert_false(plot_curves(results, 0, path, &error));
  assert_non_null(strstr(error.text, "trained"));
  assert_non_null(strstr(error.text, path));
}

/* Without rows to judge by there is one curve, and one name in the legend. */
TEST(judges) {
  make_results(9, JUDGED_BY_VALIDATION);
  must(plot_curves(results, 9, path, &error));
  assert_true(text_mark("validation") && text_mark("training") && !text_mark("test"));
  make_results(9, JUDGED_BY_NONE);
  for (int i = 0; i < 9; i++) results[i].test_loss = results[i].test_accuracy = NAN;
  must(plot_curves(results, 9, path, &error));
  assert_true(text_mark("training") && !text_mark("validation") && !text_mark("test"));
  assert_true(text_mark("9 epochs") && mark_of(IS_LINE, page_series[0], 0));
  assert_null(mark_of(IS_LINE, page_series[1], 0));
}

/* What is far above the first loss is left out; a line marks the rate. */
TEST(rates) {
  static const double rate[] = {0.01, 0.1, 1, 10}, loss[] = {2, 1, 0.5, 90},
                      smooth[] = {2, 1, 1, 9};
  must(plot_rates(&(RateCurve){rate, loss, smooth, 4, 0.1}, path, &error));
  assert_int_equal(count_marks(IS_LINE, page_series[0]), 3 + 2 + 1);
  assert_int_equal(count_marks(IS_LINE, page_series[1]), 3 + 2 + 1);
  assert_at(mark_of(IS_LINE, page_series[2], 0)->x, mark_of(IS_LINE, page_series[0], 1)->x1);
  assert_true(text_mark("From a learning rate of 0.1 on"));
}

/* ---- weights ------------------------------------------------------------------------------ */

static float *weights; /* of the first layer, zeros */

static Network make_network(int inputs, int filters, float **parameters) {
  Network network;
  must(network_init(&network, inputs, &filters, 1, 10, &error));
  *parameters = calloc(network.floats, sizeof **parameters);
  assert_non_null(*parameters);
  weights = *parameters + network.weight[0];
  return network;
}

static const Mark *image(int index) {
  return mark_of(IS_IMAGE, (Colour){0, 0, 0}, index);
}

static int images(void) {
  return count_marks(IS_IMAGE, (Colour){0, 0, 0});
}

TEST(one_scale_for_all_weights) {
  enum { INPUTS = 12, FILTERS = 7, ALL = INPUTS * FILTERS };
  float *parameters;
  const Network network = make_network(INPUTS, FILTERS, &parameters);
  for (uint32_t i = 0; i < ALL; i++)
    weights[i] = (float)random_permute(i, ALL, 5) - 41; /* -41 to 42, each once */
  must(plot_weights(&network, parameters, path, &error));
  assert_int_equal(images(), FILTERS);
  int grey[ALL];
  for (int i = 0; i < ALL; i++) grey[i] = image(i / INPUTS)->pixels[i % INPUTS];
  for (int i = 0; i < ALL; i++) {
    const float w = weights[i];
    assert_true(w != 0 || grey[i] == 128);
    for (int k = 0; k < ALL; k++) {
      assert_true(w >= weights[k] || grey[i] < grey[k] || weights[k] >= 41);
      if (w == -weights[k] && fabsf(w) < 41) assert_int_equal(grey[i] + grey[k], 256);
    }
    if (w >= 41) assert_int_equal(grey[i], 255);
    if (w <= -41) assert_int_equal(grey[i], 1);
  }
  free(parameters);
}

/* All weights are that grey, but for one. */
static void assert_greys(int rest, int filter, int weight, int grey) {
  for (int f = 0; f < 10; f++) {
    const Mark *m = image(f);
    for (int i = 0; i < 784; i++)
      assert_int_equal(m->pixels[i], f == filter && i == weight ? grey : rest);
  }
}

TEST(the_scale) {
  float *parameters;
  const Network network = make_network(784, 10, &parameters);
  must(plot_weights(&network, parameters, path, &error)); /* zeros */
  assert_greys(128, 0, 0, 128);
  assert_true(text_mark("grey: 0, as all weights are"));
  weights[7 * 784 + 300] = 0.5F; /* alone */
  must(plot_weights(&network, parameters, path, &error));
  assert_greys(128, 7, 300, 255);

  for (int i = 0; i < 7840; i++) weights[i] = i % 2 ? 0.1F : -0.05F;
  weights[1] = 100; /* a few beyond all others do not make these grey */
  weights[2] = INFINITY, weights[4] = -INFINITY, weights[6] = NAN;
  for (int i = 0; i < 784; i++) weights[784 * 5 + i] = INFINITY;
  must(plot_weights(&network, parameters, path, &error));
  const uint8_t *first = image(0)->pixels, *last = image(9)->pixels;
  assert_true(first[1] == 255 && first[2] == 255 && first[4] == 1 && first[6] == 128);
  assert_int_equal(last[1], 255);
  assert_in_range(last[2], 63, 66);
  free(parameters);
}

/* Filters of all shapes lie beside each other on a page that can be drawn. */
TEST(filter_shapes) {
  static const struct {
    int inputs, width;
  } shapes[] = {{1, 1}, {2, 1}, {12, 3}, {13, 1}, {15, 3}, {784, 28}, {4093, 1}, {4096, 64}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int filters = 1; filters <= 4 * FIGURES_MAX_FILTERS; filters *= 4) {
      float *parameters;
      const Network network = make_network(shapes[i].inputs, filters, &parameters);
      must(plot_weights(&network, parameters, path, &error));
      const int count = filters < FIGURES_MAX_FILTERS ? filters : FIGURES_MAX_FILTERS;
      assert_int_equal(images(), count);
      const Mark *before = NULL;
      for (const Mark *m = drawn.mark; m < drawn.end; m++) {
        if (m->kind != IS_IMAGE) continue;
        assert_int_equal(m->width, shapes[i].width);
        assert_int_equal(m->width * m->height, shapes[i].inputs);
        assert_true(m->size >= 2);
        if (before && m->y == before->y) assert_true(m->x > before->x1);
        if (before && m->y != before->y) assert_true(m->y > before->y1 && m->x == MARGIN);
        before = m;
      }
      free(parameters);
    }
}

TEST(many_filters) {
  float *parameters;
  const Network network = make_network(9, FIGURES_MAX_FILTERS + 1, &parameters);
  for (int f = 0; f <= FIGURES_MAX_FILTERS; f++) weights[9 * f + f % 9] = 1;
  must(plot_weights(&network, parameters, path, &error));
  assert_int_equal(images(), FIGURES_MAX_FILTERS);
  assert_true(text_mark("First layer: the first 1024 of 1025 filters of 3 x 3 weights"));
  int f = 0;
  for (const Mark *m = drawn.mark; m < drawn.end; m++)
    if (m->kind == IS_IMAGE) {
      for (int i = 0; i < 9; i++) assert_int_equal(m->pixels[i], i == f % 9 ? 255 : 128);
      f++;
    }
  free(parameters);
}

/* ---- mistakes ----------------------------------------------------------------------------- */

enum { SIDE = 12, MISTAKES = 64 };

/* Under each digit are three lines: truth, prediction, row; they do not reach the next one's. */
static void assert_mistakes(const Mistake *mistakes, int count) {
  must(plot_mistakes(mistakes, count, SIDE, path, &error));
  assert_int_equal(images(), count);
  for (int i = 0; i < count; i++) {
    const Mark *m = image(i), *next = i + 1 < count ? image(i + 1) : NULL;
    assert_memory_equal(m->pixels, mistakes[i].pixels, SIDE * SIDE);
    assert_in_range(m->x1 - m->x, 100, 200);
    for (int line = 1; line <= 3; line++) {
      assert_true(m[line].kind == IS_TEXT && m[line].x == m->x);
      assert_true(m[line].y > m[line - 1].y1 - (line == 1 ? 0 : 1));
      if (next && next->y == m->y) assert_true(m[line].x1 + 8 < next->x);
      if (next && next->y != m->y) assert_true(m[line].y1 < next->y);
    }
  }
}

TEST(mistakes) {
  static uint8_t pixels[MISTAKES][SIDE * SIDE];
  Mistake mistakes[MISTAKES];
  for (int m = 0; m < MISTAKES; m++) {
    for (int i = 0; i < SIDE * SIDE; i++) pixels[m][i] = (uint8_t)(i * 7 + m * 31);
    mistakes[m] = (Mistake){pixels[m], m % 10, 9 - m % 10, 1 - m / 100.0, (uint64_t)m * 1000 + 1};
  }
  assert_mistakes(mistakes, MISTAKES);
  assert_true(text_mark("The 64 most confident mistakes"));
  assert_true(image(7)->y == image(0)->y && image(8)->y > image(0)->y); /* eight in a row */
  assert_mistakes(mistakes, 9);
  assert_mistakes(mistakes, 1);
  assert_true(text_mark("truth 0") && text_mark("prediction 9: 100.00%") && text_mark("row 1"));
  for (int m = 0; m < MISTAKES; m++) { /* long captions */
    mistakes[m].truth = 1023, mistakes[m].prediction = 1022;
    mistakes[m].probability = 0.99999999, mistakes[m].row = UINT64_MAX;
  }
  assert_mistakes(mistakes, MISTAKES);
  assert_true(text_mark("prediction 1022: >99.99%"));
  must(plot_mistakes(NULL, 0, SIDE, path, &error));
  assert_true(text_mark("No mistakes") && drawn.width > 200 && drawn.height > 80);
  static const uint8_t large[64 * 64];
  for (int side = 1; side <= 64; side *= 8) {
    must(plot_mistakes(&(Mistake){large, 1, 2, 0.5, 3}, 1, side, path, &error));
    assert_in_range(image(0)->x1 - image(0)->x, 100, 200);
  }
}

/* ---- confusion ---------------------------------------------------------------------------- */

static Metrics make_scores(int classes) {
  Metrics metrics;
  must(metrics_open(&metrics, classes, &error));
  return metrics;
}

static void count(Metrics *metrics, int truth, int prediction, uint64_t rows) {
  metrics->counts[truth * metrics->classes + prediction] += rows;
  metrics->rows += rows;
  metrics->correct += truth == prediction ? rows : 0;
}

/* The rectangles after the frame are the cells, row by row; a cell's number follows it. */
static const Mark *cell(const Metrics *metrics, int truth, int prediction) {
  const Mark *frame = mark_of(IS_RECTANGLE, GRID, 0);
  const int index = truth * metrics->classes + prediction;
  return frame + 1 + (metrics->classes <= FIGURES_MAX_NUMBERS ? 2 : 1) * index;
}

static int kind_of(Colour c) {
  if (same_colour(c, PAPER)) return 'w';
  return c.blue > c.red + 10 ? 'b' : c.red > c.blue + 10 ? 'r' : '?';
}

/* Draws the matrix; each number lies within its cell, and the cells within the frame. */
static void draw_confusion(const Metrics *metrics) {
  must(plot_confusion(metrics, path, &error));
  const Mark *frame = mark_of(IS_RECTANGLE, GRID, 0);
  for (int i = 0; i < metrics->classes * metrics->classes; i++) {
    const Mark *m = cell(metrics, i / metrics->classes, i % metrics->classes), *number = m + 1;
    assert_int_equal(m->kind, IS_RECTANGLE);
    assert_true(m->x > frame->x && m->y > frame->y && m->x1 < frame->x1 && m->y1 < frame->y1);
    if (metrics->classes > FIGURES_MAX_NUMBERS) continue;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)metrics->counts[i]);
    assert_string_equal(number->text, text);
    assert_true(number->x > m->x && number->x1 < m->x1 && number->y > m->y && number->y1 < m->y1);
  }
}

TEST(confusion) {
  static const char wanted[4][5] = {"bwww", "wbwr", "rrbw", "wwww"};
  Metrics metrics = make_scores(4);
  count(&metrics, 0, 0, 1000);
  count(&metrics, 1, 1, 5);
  count(&metrics, 1, 3, 5); /* half of its row, though few */
  count(&metrics, 2, 2, 900);
  count(&metrics, 2, 0, 100);
  count(&metrics, 2, 1, 1); /* class 3 has no row */
  draw_confusion(&metrics);
  for (int i = 0; i < 16; i++)
    assert_int_equal(kind_of(cell(&metrics, i / 4, i % 4)->colour), wanted[i / 4][i % 4]);
#define SHADE(truth, prediction) cell(&metrics, truth, prediction)->colour
  /* the larger share of the row is the darker */
  assert_true(SHADE(0, 0).red < SHADE(2, 2).red && SHADE(2, 2).red < SHADE(1, 1).red);
  assert_true(SHADE(1, 3).blue < SHADE(2, 0).blue && SHADE(2, 0).blue < SHADE(2, 1).blue);
#undef SHADE
  assert_true(same_colour(cell(&metrics, 0, 0)[1].colour, PAPER)); /* white on dark cells */
  assert_true(same_colour(cell(&metrics, 2, 1)[1].colour, INK));
  assert_true(same_colour(cell(&metrics, 3, 3)[1].colour, FAINT));
  assert_true(text_mark("Confusion matrix, accuracy 94.73%") &&
              text_mark("1905 of 2011 rows right"));
  assert_true(text_mark("truth") && text_mark("prediction") && text_mark("of the truth's rows"));
  metrics_close(&metrics);
}

TEST(large_counts) {
  for (int classes = 2; classes <= FIGURES_MAX_NUMBERS; classes += FIGURES_MAX_NUMBERS - 2) {
    Metrics metrics = make_scores(classes);
    for (int c = 0; c < classes; c++) count(&metrics, c, c, c % 2 ? 88888888888 : 1);
    draw_confusion(&metrics);
    metrics_close(&metrics);
  }
}

TEST(many_classes) {
  static const int sizes[] = {FIGURES_MAX_NUMBERS + 1, 100, NETWORK_MAX_CLASSES};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    const int classes = sizes[s];
    Metrics metrics = make_scores(classes);
    for (int c = 0; c < classes; c++) {
      count(&metrics, c, c, 90);
      count(&metrics, c, (c + 5) % classes, 10);
    }
    draw_confusion(&metrics);
    const Mark *first = cell(&metrics, 0, 0), *last = cell(&metrics, classes - 1, classes - 1);
    assert_true(first->x1 - first->x >= 2 && last->x1 - first->x > 800);
    for (int i = 0; i < classes * classes; i++) {
      const int truth = i / classes, prediction = i % classes;
      const int kind = kind_of(first[i].colour);
      assert_int_equal(kind, prediction == truth                   ? 'b'
                             : prediction == (truth + 5) % classes ? 'r'
                                                                   : 'w');
    }
    double end = 0; /* of the labels above, which do not touch */
    for (const Mark *m = drawn.mark; m < drawn.end; m++)
      if (m->kind == IS_TEXT && m->y1 == first->y - 8) {
        assert_true(m->x > end);
        end = m->x1;
      }
    metrics_close(&metrics);
  }
}

TEST(no_rows) {
  Metrics metrics = make_scores(10);
  draw_confusion(&metrics);
  for (int i = 0; i < 100; i++)
    assert_int_equal(kind_of(cell(&metrics, i / 10, i % 10)->colour), 'w');
  metrics_close(&metrics);
}

/* ---- files -------------------------------------------------------------------------------- */

TEST(unwritable) {
  static const char bad[] = "/no-such-folder/plot.png";
  float *parameters;
  const Network network = make_network(4, 2, &parameters);
  Metrics metrics = make_scores(2);
  make_results(2, JUDGED_BY_TEST);
  for (int i = 0; i < 4; i++) {
    error.text[0] = '\0';
    assert_false(i == 0   ? plot_curves(results, 2, bad, &error)
                 : i == 1 ? plot_weights(&network, parameters, bad, &error)
                 : i == 2 ? plot_mistakes(NULL, 0, 28, bad, &error)
                          : plot_confusion(&metrics, bad, &error));
    assert_non_null(strstr(error.text, bad));
  }
  metrics_close(&metrics);
  free(parameters);
}
