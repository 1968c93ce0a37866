/* The pictures of a run: each file is decoded again and searched for what it must show. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "plot/figures.h"
#include "plot/line_chart.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/stb_png.h"

static Error error;
static const char *path;

static int open_folder(void **state) {
  folder_open(state);
  path = folder_path("plot.png");
  return 0;
}

/* ---- the decoded picture ------------------------------------------------------------------ */

typedef struct {
  int width, height;
  uint8_t *pixels;
} Image;

static Colour colour_at(const Image *image, int x, int y) {
  if (x < 0 || x >= image->width || y < 0 || y >= image->height)
    fail_msg("(%d, %d) is outside of the picture", x, y);
  Colour colour;
  memcpy(&colour, image->pixels + 3 * ((size_t)y * (size_t)image->width + (size_t)x), 3);
  return colour;
}

static bool same(Colour a, Colour b) {
  return memcmp(&a, &b, 3) == 0;
}

static bool is_white(Colour c) {
  return c.red == 255 && c.green == 255 && c.blue == 255;
}

/* Pixels of a rectangle that are not white. */
static int count_drawn(const Image *image, int x, int y, int width, int height) {
  int count = 0;
  for (int row = y; row < y + height; row++)
    for (int column = x; column < x + width; column++)
      count += !is_white(colour_at(image, column, row));
  return count;
}

/* The file that was drawn: it has a title, and nothing is cut at its edges. */
static Image read_picture(bool drawn) {
  if (!drawn) fail_msg("%s", error.text);
  Image image;
  int channels;
  image.pixels = stbi_load(path, &image.width, &image.height, &channels, 3);
  assert_non_null(image.pixels);
  enum { EDGE = 10 };
  const int w = image.width, h = image.height;
  assert_true(count_drawn(&image, 20, 20, 150, 30) > 200);
  assert_int_equal(count_drawn(&image, 0, 0, EDGE, h), 0);
  assert_int_equal(count_drawn(&image, w - EDGE, 0, EDGE, h), 0);
  assert_int_equal(count_drawn(&image, 0, 0, w, EDGE), 0);
  assert_int_equal(count_drawn(&image, 0, h - EDGE, w, EDGE), 0);
  return image;
}

static void close_image(Image *image) {
  stbi_image_free(image->pixels);
}

/* ---- curves ------------------------------------------------------------------------------- */

enum { MOST = 1000 };

static EpochResult results[MOST];

static void make_results(int count) {
  for (int i = 0; i < count; i++) {
    const double part = 1.0 / (i + 1);
    results[i] = (EpochResult){.epoch = i + 1,
                               .epochs = count,
                               .train_loss = 0.2 + 0.3 * part,
                               .train_accuracy = 0.97 - 0.1 * part,
                               .test_loss = 0.7 + 0.1 * part,
                               .test_accuracy = 0.8 - 0.1 * part,
                               .train_rows = 60000,
                               .test_rows = 10000};
  }
}

/* The numbers as they must come to the axes: where these put them, the picture must have them. */
typedef struct {
  double epochs[MOST], y[2][2][MOST]; /* loss, accuracy; training, test */
  Curve curves[2][2];
  CurvePanel panels[2];
  LineChart chart;
} Expected;

static Expected expected;

static const LineChart *expect(int count, bool logarithmic) {
  Expected *e = &expected;
  *e = (Expected){.chart = {.panels = e->panels, .count = 2}};
  for (int i = 0; i < count; i++) {
    e->epochs[i] = results[i].epoch;
    e->y[0][0][i] = results[i].train_loss;
    e->y[0][1][i] = results[i].test_loss;
    e->y[1][0][i] = 100 * results[i].train_accuracy;
    e->y[1][1][i] = 100 * results[i].test_accuracy;
  }
  for (int m = 0; m < 2; m++) {
    for (int k = 0; k < 2; k++) e->curves[m][k] = (Curve){"", e->epochs, e->y[m][k], count};
    e->panels[m] = (CurvePanel){.curves = e->curves[m], .count = 2, .mark = NAN};
  }
  e->panels[0].y.logarithmic = logarithmic;
  return &e->chart;
}

/* Columns and rows of that colour within the axes. */
typedef struct {
  int left, right, top, bottom;
} Extent;

static Extent extent_of(const Image *image, const CurveFrame *f, int curve) {
  Extent e = {image->width, -1, image->height, -1};
  for (int y = f->top; y < f->bottom; y++)
    for (int x = f->left + 1; x < f->right; x++) {
      if (!same(colour_at(image, x, y), line_chart_colour(curve))) continue;
      e.left = x < e.left ? x : e.left;
      e.right = x > e.right ? x : e.right;
      e.top = y < e.top ? y : e.top;
      e.bottom = y > e.bottom ? y : e.bottom;
    }
  return e;
}

static void assert_near(int got, double wanted) {
  if (fabs(got - wanted) > 4) fail_msg("pixel %d is not near %g", got, wanted);
}

static double row_of(const CurveFrame *f, double y) {
  return f->bottom - (y - f->y_low) / (f->y_high - f->y_low) * (f->bottom - f->top);
}

static double column_of(const CurveFrame *f, double x) {
  return f->left + (x - f->x_low) / (f->x_high - f->x_low) * (f->right - f->left);
}

/* Each curve reaches from the first epoch to the last, and from its lowest to its highest. */
static void assert_curves(const Image *image, const LineChart *chart, int count) {
  for (int m = 0; m < 2; m++)
    for (int k = 0; k < 2; k++) {
      const CurveFrame f = line_chart_frame(chart, m);
      const Extent e = extent_of(image, &f, k);
      const double *y = chart->panels[m].curves[k].y;
      double low = INFINITY, high = -INFINITY;
      for (int i = 0; i < count; i++) low = fmin(low, y[i]), high = fmax(high, y[i]);
      if (chart->panels[m].y.logarithmic) low = log10(low), high = log10(high);
      assert_near(e.left, column_of(&f, 1));
      assert_near(e.right, column_of(&f, count));
      assert_near(e.top, row_of(&f, high));
      assert_near(e.bottom, row_of(&f, low));
    }
}

TESTS_WITH(open_folder, folder_close);

TEST(test_curves) {
  static const int counts[] = {1, 2, 10, MOST};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    make_results(counts[i]);
    Image image = read_picture(plot_curves(results, counts[i], path, &error));
    assert_int_equal(image.width, LINE_CHART_WIDTH);
    assert_in_range(image.height, 2 * LINE_CHART_PANEL, 3 * LINE_CHART_PANEL);
    assert_curves(&image, expect(counts[i], false), counts[i]);
    close_image(&image);
  }
}

TEST(test_steep_loss) {
  make_results(40);
  for (int i = 0; i < 40; i++) results[i].train_loss = pow(10, -i / 10.0);
  Image image = read_picture(plot_curves(results, 40, path, &error));
  assert_curves(&image, expect(40, true), 40);
  close_image(&image);
  results[39].train_loss = 0; /* has no logarithm */
  image = read_picture(plot_curves(results, 40, path, &error));
  assert_curves(&image, expect(40, false), 40);
  close_image(&image);
}

TEST(test_gaps) {
  make_results(10);
  for (int i = 3; i < 7; i++) results[i].train_loss = results[i].test_loss = i % 2 ? NAN : INFINITY;
  Image image = read_picture(plot_curves(results, 10, path, &error));
  const LineChart *chart = expect(10, false);
  const CurveFrame f = line_chart_frame(chart, 0), whole = line_chart_frame(chart, 1);
  for (int k = 0; k < 2; k++)
    for (int y = f.top; y < f.bottom; y++)
      for (int x = (int)column_of(&f, 3) + 5; x < (int)column_of(&f, 8) - 5; x++)
        assert_false(same(colour_at(&image, x, y), line_chart_colour(k)));
  assert_near(extent_of(&image, &f, 0).right, column_of(&f, 10));
  const int middle = (int)lround(column_of(&whole, 5.5));
  int found = 0;
  for (int y = whole.top; y < whole.bottom; y++)
    found += same(colour_at(&image, middle, y), line_chart_colour(1));
  assert_true(found > 0);
  close_image(&image);
}

TEST(test_nothing_to_draw) {
  make_results(3);
  for (int i = 0; i < 3; i++) results[i].train_loss = results[i].test_loss = NAN;
  Image image = read_picture(plot_curves(results, 3, path, &error)); /* the accuracy alone */
  assert_in_range(image.height, LINE_CHART_PANEL, 3 * LINE_CHART_PANEL / 2);
  close_image(&image);
  for (int i = 0; i < 3; i++) results[i].train_accuracy = results[i].test_accuracy = NAN;
  assert_false(plot_curves(results, 3, path, &error));
  assert_non_null(strstr(error.text, "finite"));
  assert_non_null(strstr(error.text, path));
  assert_false(plot_curves(results, 0, path, &error));
  assert_non_null(strstr(error.text, "trained"));
  assert_non_null(strstr(error.text, path));
}

static int pixels_of(const Image *image, Colour colour) {
  int count = 0;
  for (int y = 0; y < image->height; y++)
    for (int x = 0; x < image->width; x++) count += same(colour_at(image, x, y), colour);
  return count;
}

/* Without rows to judge by there is one curve, and one name in the legend. */
TEST(test_judges) {
  make_results(9);
  for (int i = 0; i < 9; i++) results[i].judged_by = JUDGED_BY_VALIDATION;
  Image image = read_picture(plot_curves(results, 9, path, &error));
  assert_true(pixels_of(&image, line_chart_colour(1)) > 100);
  close_image(&image);
  for (int i = 0; i < 9; i++) {
    results[i].judged_by = JUDGED_BY_NONE;
    results[i].test_loss = results[i].test_accuracy = NAN;
  }
  image = read_picture(plot_curves(results, 9, path, &error));
  assert_true(pixels_of(&image, line_chart_colour(0)) > 100);
  assert_int_equal(pixels_of(&image, line_chart_colour(1)), 0);
  close_image(&image);
}

/* ---- weights ------------------------------------------------------------------------------ */

static Network make_network(int inputs, int filters) {
  Network network;
  if (!network_init(&network, inputs, &filters, 1, 10, &error)) fail_msg("%s", error.text);
  return network;
}

static int top_left(int start, int pitch, int place, int offset, int zoom) {
  return start + place * pitch + offset * zoom;
}

/* The grey of weight `i` of a filter: all of its square, asserted. */
static int grey_of(const Image *image, const PlotGrid *g, int width, int filter, int i) {
  const int x = top_left(g->left, g->width, filter % g->columns, i % width, g->zoom);
  const int y = top_left(g->top, g->height, filter / g->columns, i / width, g->zoom);
  const Colour c = colour_at(image, x, y);
  assert_true(c.red == c.green && c.green == c.blue);
  for (int dy = 0; dy < g->zoom; dy++)
    for (int dx = 0; dx < g->zoom; dx++) assert_true(same(c, colour_at(image, x + dx, y + dy)));
  return c.red;
}

TEST(test_weights) {
  enum { WIDTH = 3, INPUTS = 12, FILTERS = 7 };
  const Network network = make_network(INPUTS, FILTERS);
  float *parameters = calloc(network.floats, sizeof *parameters);
  assert_non_null(parameters);
  float *w = parameters + network.weight[0];
  for (uint32_t i = 0; i < INPUTS * FILTERS; i++)
    w[i] = (float)random_permute(i, INPUTS * FILTERS, 5) - 41; /* -41 to 42, each once */
  Image image = read_picture(plot_weights(&network, parameters, path, &error));
  const PlotGrid grid = plot_weights_grid(&network);
  int grey[INPUTS * FILTERS];
  for (int i = 0; i < INPUTS * FILTERS; i++)
    grey[i] = grey_of(&image, &grid, WIDTH, i / INPUTS, i % INPUTS);
  for (int i = 0; i < INPUTS * FILTERS; i++) { /* one scale for all, zero in its middle */
    assert_true(w[i] != 0 || grey[i] == 128);
    for (int k = 0; k < INPUTS * FILTERS; k++) {
      assert_true(w[i] >= w[k] || grey[i] < grey[k] || w[k] >= 41);
      if (w[i] == -w[k] && fabsf(w[i]) < 41) assert_int_equal(grey[i] + grey[k], 256);
    }
    if (w[i] >= 41) assert_int_equal(grey[i], 255);
    if (w[i] <= -41) assert_int_equal(grey[i], 1);
  }
  close_image(&image);
  free(parameters);
}

TEST(test_scale) {
  const Network network = make_network(784, 10);
  float *parameters = calloc(network.floats, sizeof *parameters);
  assert_non_null(parameters);
  const PlotGrid grid = plot_weights_grid(&network);
  float *w = parameters + network.weight[0];
  Image image = read_picture(plot_weights(&network, parameters, path, &error)); /* zeros */
  for (int f = 0; f < 10; f++)
    for (int i = 0; i < 784; i++) assert_int_equal(grey_of(&image, &grid, 28, f, i), 128);
  close_image(&image);

  w[7 * 784 + 300] = 0.5F; /* alone */
  image = read_picture(plot_weights(&network, parameters, path, &error));
  for (int f = 0; f < 10; f++)
    for (int i = 0; i < 784; i++)
      assert_int_equal(grey_of(&image, &grid, 28, f, i), f == 7 && i == 300 ? 255 : 128);
  close_image(&image);

  for (int i = 0; i < 7840; i++) w[i] = i % 2 ? 0.1F : -0.05F;
  w[1] = 100; /* a few beyond all others do not make these grey */
  w[2] = INFINITY, w[4] = -INFINITY, w[6] = NAN;
  for (int i = 0; i < 784; i++) w[784 * 5 + i] = INFINITY;
  image = read_picture(plot_weights(&network, parameters, path, &error));
  assert_int_equal(grey_of(&image, &grid, 28, 0, 1), 255);
  assert_int_equal(grey_of(&image, &grid, 28, 0, 2), 255);
  assert_int_equal(grey_of(&image, &grid, 28, 0, 4), 1);
  assert_int_equal(grey_of(&image, &grid, 28, 0, 6), 128);
  assert_int_equal(grey_of(&image, &grid, 28, 9, 1), 255);
  assert_in_range(grey_of(&image, &grid, 28, 9, 2), 63, 66);
  close_image(&image);
  free(parameters);
}

TEST(test_filter_shapes) {
  static const struct {
    int inputs, width;
  } shapes[] = {{1, 1}, {2, 1}, {12, 3}, {13, 1}, {15, 3}, {784, 28}, {4093, 1}, {4096, 64}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int filters = 1; filters <= NETWORK_MAX_HIDDEN; filters *= 4) {
      const Network network = make_network(shapes[i].inputs, filters);
      const PlotGrid g = plot_weights_grid(&network);
      const int drawn = filters < FIGURES_MAX_FILTERS ? filters : FIGURES_MAX_FILTERS;
      const int rows = (drawn + g.columns - 1) / g.columns, width = shapes[i].width;
      assert_true(g.zoom >= 2);
      assert_int_equal((g.width - width * g.zoom), g.height - shapes[i].inputs / width * g.zoom);
      assert_in_range(g.columns, 1, drawn);
      assert_true(g.left + g.columns * g.width < CANVAS_MAX_SIDE - 100);
      assert_true(g.top + rows * g.height < CANVAS_MAX_SIDE - 100);
    }
}

TEST(test_many_filters) {
  const Network network = make_network(9, FIGURES_MAX_FILTERS + 1);
  float *parameters = calloc(network.floats, sizeof *parameters);
  assert_non_null(parameters);
  for (int f = 0; f <= FIGURES_MAX_FILTERS; f++)
    parameters[network.weight[0] + (size_t)(9 * f + f % 9)] = 1;
  Image image = read_picture(plot_weights(&network, parameters, path, &error));
  const PlotGrid grid = plot_weights_grid(&network);
  for (int f = 0; f < FIGURES_MAX_FILTERS; f++)
    for (int i = 0; i < 9; i++)
      assert_int_equal(grey_of(&image, &grid, 3, f, i), i == f % 9 ? 255 : 128);
  const int rows = (FIGURES_MAX_FILTERS + grid.columns - 1) / grid.columns;
  const int below = grid.top + rows * grid.height; /* nothing of the one too many */
  assert_int_equal(count_drawn(&image, 0, below, image.width, image.height - below), 0);
  close_image(&image);
  free(parameters);
}

/* ---- mistakes ----------------------------------------------------------------------------- */

enum { SIDE = 12, MISTAKES = 64 };

static void assert_mistakes(const Mistake *mistakes, int count) {
  Image image = read_picture(plot_mistakes(mistakes, count, SIDE, path, &error));
  const PlotGrid g = plot_mistakes_grid(mistakes, count, SIDE);
  assert_true(g.zoom * SIDE > 100);
  for (int m = 0; m < count; m++) {
    const int x = g.left + m % g.columns * g.width, y = g.top + m / g.columns * g.height;
    for (int i = 0; i < SIDE * SIDE; i++)
      assert_int_equal(grey_of(&image, &g, SIDE, m, i), mistakes[m].pixels[i]);
    const int below = y + SIDE * g.zoom + 3;
    for (int line = 0; line < 3; line++) /* under the digit: truth, prediction, row */
      assert_true(count_drawn(&image, x, below + 20 * line, 60, 20) > 50);
    if (m % g.columns + 1 < g.columns) /* that reach not as far as the next one's */
      assert_int_equal(count_drawn(&image, x + g.width - 10, below, 8, y + g.height - below), 0);
  }
  close_image(&image);
}

TEST(test_mistakes) {
  uint8_t pixels[MISTAKES][SIDE * SIDE];
  Mistake mistakes[MISTAKES];
  for (int m = 0; m < MISTAKES; m++) {
    for (int i = 0; i < SIDE * SIDE; i++) pixels[m][i] = (uint8_t)(i * 7 + m * 31);
    mistakes[m] = (Mistake){pixels[m], m % 10, 9 - m % 10, 1 - m / 100.0, (uint64_t)m * 1000 + 1};
  }
  assert_mistakes(mistakes, MISTAKES);
  assert_mistakes(mistakes, 9);
  assert_mistakes(mistakes, 1);
  for (int m = 0; m < MISTAKES; m++) { /* long captions */
    mistakes[m].truth = 1023, mistakes[m].prediction = 1022;
    mistakes[m].probability = 0.99999999, mistakes[m].row = UINT64_MAX;
  }
  assert_mistakes(mistakes, MISTAKES);
}

TEST(test_no_mistakes) {
  Image image = read_picture(plot_mistakes(NULL, 0, SIDE, path, &error));
  assert_true(image.width > 200 && image.height > 80);
  close_image(&image);
}

TEST(test_sides) {
  uint8_t pixels[64 * 64] = {0};
  const Mistake mistake = {pixels, 1, 2, 0.5, 3};
  for (int side = 1; side <= 64; side = 8 * side) {
    Image image = read_picture(plot_mistakes(&mistake, 1, side, path, &error));
    const PlotGrid g = plot_mistakes_grid(&mistake, 1, side);
    assert_in_range(side * g.zoom, 100, 200);
    assert_int_equal(count_drawn(&image, g.left, g.top, side * g.zoom, side * g.zoom),
                     side * g.zoom * side * g.zoom);
    close_image(&image);
  }
}

/* ---- confusion ---------------------------------------------------------------------------- */

static Metrics make_scores(int classes) {
  Metrics metrics;
  if (!metrics_open(&metrics, classes, &error)) fail_msg("%s", error.text);
  return metrics;
}

static void count(Metrics *metrics, int truth, int prediction, uint64_t rows) {
  metrics->counts[truth * metrics->classes + prediction] += rows;
  metrics->rows += rows;
  metrics->correct += truth == prediction ? rows : 0;
}

/* Of a cell: the corner is behind no number. */
static Colour cell(const Image *image, const PlotGrid *g, int truth, int prediction) {
  return colour_at(image, g->left + prediction * g->width, g->top + truth * g->height);
}

/* What a cell's number takes of it, in pixels. */
static int ink(const Image *image, const PlotGrid *g, int truth, int prediction) {
  const int x = g->left + prediction * g->width, y = g->top + truth * g->height;
  int pixels = 0;
  for (int dy = 0; dy < g->height - 1; dy++)
    for (int dx = 0; dx < g->width - 1; dx++)
      pixels += !same(colour_at(image, x + dx, y + dy), cell(image, g, truth, prediction));
  return pixels;
}

static bool is_blue(Colour c) {
  return c.blue > c.red + 10;
}

static bool is_red(Colour c) {
  return c.red > c.blue + 10;
}

static char kind_of(Colour c) {
  if (is_white(c)) return 'w';
  return is_blue(c) ? 'b' : 'r';
}

TEST(test_confusion) {
  Metrics metrics = make_scores(4);
  count(&metrics, 0, 0, 1000);
  count(&metrics, 1, 1, 5);
  count(&metrics, 1, 3, 5); /* half of its row, though few */
  count(&metrics, 2, 2, 900);
  count(&metrics, 2, 0, 100);
  count(&metrics, 2, 1, 1); /* class 3 has no row */
  Image image = read_picture(plot_confusion(&metrics, path, &error));
  const PlotGrid g = plot_confusion_grid(&metrics);
  static const char wanted[4][5] = {"bwww", "wbwr", "rrbw", "wwww"};
  for (int truth = 0; truth < 4; truth++)
    for (int prediction = 0; prediction < 4; prediction++) {
      const char got = kind_of(cell(&image, &g, truth, prediction));
      if (got != wanted[truth][prediction]) fail_msg("cell %d, %d is %c", truth, prediction, got);
      assert_true(ink(&image, &g, truth, prediction) > 20);
    }
  /* the larger share of the row is the darker */
  assert_true(cell(&image, &g, 0, 0).red < cell(&image, &g, 2, 2).red);
  assert_true(cell(&image, &g, 2, 2).red < cell(&image, &g, 1, 1).red);
  assert_true(cell(&image, &g, 1, 3).blue < cell(&image, &g, 2, 0).blue);
  assert_true(cell(&image, &g, 2, 0).blue < cell(&image, &g, 2, 1).blue);
  assert_true(ink(&image, &g, 0, 0) > 2 * ink(&image, &g, 1, 1)); /* "1000", "5" */
  assert_true(colour_at(&image, g.left, g.top).red < 50); /* white digits on it, dark on pale */
  close_image(&image);
  metrics_close(&metrics);
}

/* All numbers stay in their cells: between them is the line's colour. */
TEST(test_large_counts) {
  for (int classes = 2; classes <= FIGURES_MAX_NUMBERS; classes += FIGURES_MAX_NUMBERS - 2) {
    Metrics metrics = make_scores(classes);
    for (int c = 0; c < classes; c++) count(&metrics, c, c, c % 2 ? 88888888888 : 1);
    Image image = read_picture(plot_confusion(&metrics, path, &error));
    const PlotGrid g = plot_confusion_grid(&metrics);
    const Colour line = colour_at(&image, g.left - 1, g.top - 1);
    assert_false(is_white(line));
    for (int c = 0; c < classes; c++)
      for (int d = 0; d < g.height; d++) {
        const int x = g.left + c * g.width - 1, y = g.top + c * g.height + d;
        assert_true(same(line, colour_at(&image, x, y)));
        assert_true(same(line, colour_at(&image, x + g.width, y)));
      }
    close_image(&image);
    metrics_close(&metrics);
  }
}

TEST(test_many_classes) {
  static const int sizes[] = {FIGURES_MAX_NUMBERS + 1, 100, NETWORK_MAX_CLASSES};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    const int classes = sizes[s];
    Metrics metrics = make_scores(classes);
    for (int c = 0; c < classes; c++) {
      count(&metrics, c, c, 90);
      count(&metrics, c, (c + 5) % classes, 10);
    }
    Image image = read_picture(plot_confusion(&metrics, path, &error));
    const PlotGrid g = plot_confusion_grid(&metrics);
    assert_true(g.width >= 2 && classes * g.width > 800);
    for (int truth = 0; truth < classes; truth++)
      for (int prediction = 0; prediction < classes; prediction++) {
        const Colour c = cell(&image, &g, truth, prediction);
        if (prediction == truth)
          assert_true(is_blue(c));
        else if (prediction == (truth + 5) % classes)
          assert_true(is_red(c));
        else
          assert_true(is_white(c));
      }
    assert_true(s == 0 || ink(&image, &g, 3, 3) == 0);
    close_image(&image);
    metrics_close(&metrics);
  }
}

TEST(test_no_rows) {
  Metrics metrics = make_scores(10);
  Image image = read_picture(plot_confusion(&metrics, path, &error));
  const PlotGrid g = plot_confusion_grid(&metrics);
  for (int i = 0; i < 100; i++) assert_true(is_white(cell(&image, &g, i / 10, i % 10)));
  close_image(&image);
  metrics_close(&metrics);
}

/* ---- files -------------------------------------------------------------------------------- */

TEST(test_unwritable) {
  char bad[4200];
  snprintf(bad, sizeof bad, "%s/no-such-folder/plot.png", folder);
  make_results(2);
  const Network network = make_network(4, 2);
  float *parameters = calloc(network.floats, sizeof *parameters);
  assert_non_null(parameters);
  Metrics metrics = make_scores(2);
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
