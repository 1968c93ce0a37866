#include "plot/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sizes.h"
#include "plot/line_chart.h"

static const Colour PAPER = {255, 255, 255}, INK = {31, 35, 40}, PALE = {110, 119, 129},
                    FAINT = {190, 196, 203}, GRID = {225, 228, 232};
static const Colour RIGHT = {0, 114, 178}, WRONG = {213, 94, 0};

enum { MARGIN = 28, HEAD = 104, GAP = 8 };
enum { TITLE = 20, TEXT = 13, SMALL = 12 }; /* heights of capitals */
enum { WORDS = 160 };                       /* bytes of a line of text */

static int text_width(double height, const char *text) {
  return (int)ceil(canvas_text_width(height, text));
}

static void text_left_of(Canvas *p, double x, double baseline, double height, const char *text,
                         Colour colour) {
  canvas_text(p, x - canvas_text_width(height, text), baseline, height, text, colour);
}

static void text_around(Canvas *p, double x, double baseline, double height, const char *text,
                        Colour colour) {
  canvas_text(p, x - canvas_text_width(height, text) / 2, baseline, height, text, colour);
}

/* Opens a picture with room for `width` x `height` pixels from (MARGIN, HEAD) on. */
static bool open_page(Canvas *p, const char *title, const char *subtitle, int width, int height,
                      Error *error) {
  const int text = max_int(text_width(TITLE, title), text_width(TEXT, subtitle));
  if (!canvas_open(p, 2 * MARGIN + max_int(width, text), HEAD + height + MARGIN, PAPER, error))
    return false;
  canvas_text(p, MARGIN, 44, TITLE, title, INK);
  canvas_text(p, MARGIN, 74, TEXT, subtitle, PALE);
  return true;
}

static bool save(Canvas *p, const char *path, Error *error) {
  const bool saved = canvas_save(p, path, error);
  canvas_close(p);
  return saved;
}

/* ---- curves ------------------------------------------------------------------------------- */

enum { LOSS, ACCURACY, MEASURES };
enum { TRAINING, TEST, KINDS };

/* (count) each. */
typedef struct {
  double *epochs, *y[MEASURES][KINDS];
} Series;

/* All in one array, which is series->epochs. */
static bool series_open(Series *series, const EpochResult *results, int count) {
  double *next = malloc((1 + MEASURES * KINDS) * (size_t)count * sizeof *next);
  series->epochs = next;
  if (!next) return false;
  for (int m = 0; m < MEASURES; m++)
    for (int k = 0; k < KINDS; k++) series->y[m][k] = next += count;
  for (int i = 0; i < count; i++) {
    series->epochs[i] = results[i].epoch;
    series->y[LOSS][TRAINING][i] = results[i].train_loss;
    series->y[LOSS][TEST][i] = results[i].test_loss;
    series->y[ACCURACY][TRAINING][i] = 100 * results[i].train_accuracy;
    series->y[ACCURACY][TEST][i] = 100 * results[i].test_accuracy;
  }
  return true;
}

typedef struct {
  double low, high; /* low above high: there is nothing finite */
} Range;

static Range range_of(const Series *series, int measure, int count) {
  Range range = {INFINITY, -INFINITY};
  for (int k = 0; k < KINDS; k++)
    for (int i = 0; i < count; i++) {
      const double value = series->y[measure][k][i];
      if (!isfinite(value)) continue;
      range.low = fmin(range.low, value);
      range.high = fmax(range.high, value);
    }
  return range;
}

/* On a linear axis, a loss that fell this much would be a line along the bottom. */
static const double STEEP = 20;

static CurvePanel panel_of(int measure, Range range, const Curve *curves, int kinds) {
  const bool logarithmic = measure == LOSS && range.low > 0 && range.high > STEEP * range.low;
  return (CurvePanel){.title = measure == LOSS ? "Loss" : "Accuracy",
                      .x = {.label = "epoch"},
                      .y = {.label = measure == ACCURACY ? "percent"
                                     : logarithmic       ? "cross-entropy, logarithmic scale"
                                                         : "cross-entropy",
                            .logarithmic = logarithmic},
                      .curves = curves,
                      .count = kinds,
                      .mark = NAN};
}

static void title_curves(const EpochResult *results, int count, char *text, size_t size) {
  const EpochResult *last = &results[count - 1], *best = last;
  for (int i = count - 1; i >= 0; i--) /* the first of equal ones */
    if (results[i].test_accuracy >= best->test_accuracy || isnan(best->test_accuracy))
      best = &results[i];
  const char *judge = last->judged_by == JUDGED_BY_VALIDATION ? "Validation" : "Test";
  if (isnan(best->test_accuracy))
    snprintf(text, size, "%d epochs", count);
  else if (best->test_accuracy == last->test_accuracy)
    snprintf(text, size, "%s accuracy %.2f%% after epoch %d", judge, 100 * last->test_accuracy,
             last->epoch);
  else
    snprintf(text, size, "%s accuracy %.2f%% after epoch %d, best %.2f%% after epoch %d", judge,
             100 * last->test_accuracy, last->epoch, 100 * best->test_accuracy, best->epoch);
}

static bool draw_curves(const Series *series, const EpochResult *results, int count,
                        const char *path, Error *error) {
  Curve curves[MEASURES][KINDS];
  CurvePanel panels[MEASURES];
  const EpochResult *last = &results[count - 1];
  const char *judge = last->judged_by == JUDGED_BY_VALIDATION ? "validation" : "test";
  int drawn = 0;
  for (int m = 0; m < MEASURES; m++) {
    for (int k = 0; k < KINDS; k++)
      curves[m][k] =
          (Curve){k == TRAINING ? "training" : judge, series->epochs, series->y[m][k], count};
    const Range range = range_of(series, m, count);
    if (range.low <= range.high)
      panels[drawn++] =
          panel_of(m, range, curves[m], last->judged_by == JUDGED_BY_NONE ? TEST : KINDS);
  }
  if (drawn == 0)
    return error_set(error, "no epoch has a finite loss or accuracy to draw in %s", path);
  char title[WORDS], subtitle[WORDS];
  title_curves(results, count, title, sizeof title);
  const int used =
      snprintf(subtitle, sizeof subtitle,
               "%" PRIu64 " training rows, each judged as it is trained on", last->train_rows);
  if (last->judged_by != JUDGED_BY_NONE)
    snprintf(subtitle + used, sizeof subtitle - (size_t)used,
             "; %" PRIu64 " %s rows, judged after each epoch", last->test_rows, judge);
  const LineChart chart = {.title = title, .subtitle = subtitle, .panels = panels, .count = drawn};
  Canvas picture;
  return line_chart_draw(&chart, &picture, error) && save(&picture, path, error);
}

bool plot_curves(const EpochResult *results, int count, const char *path, Error *error) {
  if (count < 1)
    return error_set(error, "no epoch was trained: there is nothing to draw in %s", path);
  Series series;
  const bool good = series_open(&series, results, count)
                        ? draw_curves(&series, results, count, path, error)
                        : error_set(error, "no memory to draw %d epochs", count);
  free(series.epochs);
  return good;
}

/* Copies what is not above `most`; *low: the lowest. */
static void cut(const double *from, int count, double most, double *to, double *low) {
  for (int i = 0; i < count; i++) {
    to[i] = from[i] <= most ? from[i] : NAN;
    *low = fmin(*low, from[i]);
  }
}

bool plot_rates(const RateCurve *c, const char *path, Error *error) {
  double *loss = malloc(2 * (size_t)c->count * sizeof *loss);
  if (!loss) return error_set(error, "no memory to draw %d learning rates", c->count);
  const double most = 1.2 * c->loss[0];
  double *smooth = loss + c->count;
  double low = INFINITY;
  cut(c->loss, c->count, most, loss, &low);
  cut(c->smooth, c->count, most, smooth, &low);
  const double mark[] = {c->best, c->best}, ends[] = {low, most};
  const Curve curves[] = {{"loss", c->rate, loss, c->count},
                          {"mean of five rates", c->rate, smooth, c->count},
                          {"that rate", mark, ends, 2}};
  const CurvePanel panel = {.x = {.label = "learning rate", .logarithmic = true},
                            .y = {.label = "training loss, cross-entropy"},
                            .curves = curves,
                            .count = sizeof curves / sizeof *curves,
                            .mark = NAN};
  char title[WORDS];
  snprintf(title, sizeof title, "From a learning rate of %.2g on the loss falls no further",
           c->best);
  const LineChart chart = {.title = title,
                           .subtitle = "The rate grows from step to step within one epoch",
                           .panels = &panel,
                           .count = 1};
  Canvas picture;
  const bool good = line_chart_draw(&chart, &picture, error) && save(&picture, path, error);
  free(loss);
  return good;
}

/* ---- weights ------------------------------------------------------------------------------ */

enum { FILTER_GAP = 4, MIN_ZOOM = 2, FILTER_SIDE = 224 }; /* pixels; of a filter, at most */
static const double FILTERS_AREA = 1.4e6;                 /* pixels of all the filters, about */
static const double ASPECT = 1.5;   /* width of the grid over its height, about */
static const double INSIDE = 0.995; /* part of the weights that the scale tells apart */

/* The divisor nearest to the square root. */
static int filter_width(int inputs) {
  const double side = sqrt(inputs);
  int best = 1;
  for (int width = 2; width <= inputs; width++)
    if (inputs % width == 0 && fabs(width - side) < fabs(best - side)) best = width;
  return best;
}

static int filter_count(const Network *network) {
  return network->size[1] < FIGURES_MAX_FILTERS ? network->size[1] : FIGURES_MAX_FILTERS;
}

static int rows_of(int count, int columns) {
  return (count + columns - 1) / columns;
}

/* Near `ideal`, such that few places of the last row stay empty. */
static int even_columns(int count, int ideal) {
  int best = ideal;
  for (int columns = ideal - ideal / 4; columns <= ideal + ideal / 3; columns++)
    if (rows_of(count, columns) * columns < rows_of(count, best) * best) best = columns;
  return best < count ? best : count;
}

PlotGrid plot_weights_grid(const Network *network) {
  const int inputs = network->size[0], width = filter_width(inputs), count = filter_count(network);
  const int height = inputs / width, fitting = (int)sqrt(FILTERS_AREA / count / inputs),
            largest = FILTER_SIDE / max_int(width, height);
  PlotGrid grid = {.left = MARGIN,
                   .top = HEAD,
                   .zoom = max_int(MIN_ZOOM, fitting < largest ? fitting : largest)};
  grid.width = width * grid.zoom + FILTER_GAP;
  grid.height = height * grid.zoom + FILTER_GAP;
  grid.columns = even_columns(count, (int)ceil(sqrt(ASPECT * count * grid.height / grid.width)));
  return grid;
}

static int by_size(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* The size of a weight that is drawn white, or negative, black: few are beyond. 0: all weights are
   0. Returns false when there is no memory. */
static bool weights_scale(const float *weights, size_t count, double *scale) {
  float *sizes = malloc(count * sizeof *sizes);
  if (!sizes) return false;
  size_t finite = 0;
  for (size_t i = 0; i < count; i++)
    if (isfinite(weights[i])) sizes[finite++] = fabsf(weights[i]);
  qsort(sizes, finite, sizeof *sizes, by_size);
  *scale = finite ? (double)sizes[(size_t)(INSIDE * (double)(finite - 1))] : 0;
  if (*scale == 0 && finite) *scale = (double)sizes[finite - 1];
  free(sizes);
  return true;
}

static uint8_t grey_of(float weight, double scale) {
  const double part = scale > 0 && !isnan(weight) ? (double)weight / scale : 0;
  return (uint8_t)lround(128 + 127 * fmin(fmax(part, -1), 1));
}

static void draw_filter(Canvas *p, const Network *network, const float *weights, int index,
                        double scale) {
  const PlotGrid grid = plot_weights_grid(network);
  const int inputs = network->size[0], width = filter_width(inputs);
  uint8_t greys[NETWORK_MAX_INPUTS];
  for (int i = 0; i < inputs; i++)
    greys[i] = grey_of(weights[(size_t)index * (size_t)inputs + (size_t)i], scale);
  canvas_greys(p, grid.left + index % grid.columns * grid.width,
               grid.top + index / grid.columns * grid.height, greys, width, inputs / width,
               grid.zoom);
}

static void title_weights(const Network *network, double scale, char *title, char *subtitle) {
  const int inputs = network->size[0], width = filter_width(inputs), count = filter_count(network);
  char of[32] = "";
  if (count < network->size[1]) snprintf(of, sizeof of, "the first %d of ", count);
  snprintf(title, WORDS, "First layer: %s%d filter%s of %d x %d weights", of, network->size[1],
           network->size[1] == 1 ? "" : "s", width, inputs / width);
  if (scale > 0)
    snprintf(subtitle, WORDS,
             "black: -%.3g or less, grey: 0, white: %.3g or more (%g%% of them "
             "are between)",
             scale, scale, 100 * INSIDE);
  else
    snprintf(subtitle, WORDS, "grey: 0, as all weights are");
}

bool plot_weights(const Network *network, const float *parameters, const char *path, Error *error) {
  const float *weights = parameters + network->weight[0];
  const int count = filter_count(network);
  double scale;
  if (!weights_scale(weights, (size_t)count * (size_t)network->size[0], &scale))
    return error_set(error, "no memory to draw the weights of %d filters", count);
  char title[WORDS], subtitle[WORDS];
  title_weights(network, scale, title, subtitle);
  const PlotGrid grid = plot_weights_grid(network);
  Canvas p;
  if (!open_page(&p, title, subtitle, grid.columns * grid.width - FILTER_GAP,
                 rows_of(count, grid.columns) * grid.height - FILTER_GAP, error))
    return false;
  for (int i = 0; i < count; i++) draw_filter(&p, network, weights, i, scale);
  return save(&p, path, error);
}

/* ---- mistakes ----------------------------------------------------------------------------- */

enum { MISTAKE_COLUMNS = 8, MISTAKE_SIDE = 140, MISTAKE_LINES = 3, LINE_HEIGHT = 20 };

typedef struct {
  char text[MISTAKE_LINES][48];
} Caption;

/* No probability is rounded to certainty. */
static Caption caption_of(const Mistake *mistake) {
  Caption caption;
  const double percent = 100 * mistake->probability;
  snprintf(caption.text[0], sizeof caption.text[0], "truth %d", mistake->truth);
  if (percent >= 99.995 && percent < 100)
    snprintf(caption.text[1], sizeof caption.text[1], "prediction %d: >99.99%%",
             mistake->prediction);
  else
    snprintf(caption.text[1], sizeof caption.text[1], "prediction %d: %.2f%%", mistake->prediction,
             percent);
  snprintf(caption.text[2], sizeof caption.text[2], "row %" PRIu64, mistake->row);
  return caption;
}

PlotGrid plot_mistakes_grid(const Mistake *mistakes, int count, int side) {
  const int zoom = max_int(1, MISTAKE_SIDE / side);
  int width = side * zoom;
  for (int i = 0; i < count; i++) {
    const Caption caption = caption_of(&mistakes[i]);
    for (int l = 0; l < MISTAKE_LINES; l++)
      width = max_int(width, text_width(SMALL, caption.text[l]));
  }
  return (PlotGrid){.left = MARGIN,
                    .top = HEAD,
                    .width = width + 3 * GAP,
                    .height = side * zoom + MISTAKE_LINES * LINE_HEIGHT + 3 * GAP,
                    .columns = count < MISTAKE_COLUMNS ? max_int(count, 1) : MISTAKE_COLUMNS,
                    .zoom = zoom};
}

static void draw_mistake(Canvas *p, const Mistake *mistake, int side, const PlotGrid *grid,
                         int index) {
  static const Colour *const colours[MISTAKE_LINES] = {&INK, &WRONG, &PALE};
  const int x = grid->left + index % grid->columns * grid->width;
  const int y = grid->top + index / grid->columns * grid->height;
  canvas_greys(p, x, y, mistake->pixels, side, side, grid->zoom);
  const Caption caption = caption_of(mistake);
  for (int l = 0; l < MISTAKE_LINES; l++)
    canvas_text(p, x, y + side * grid->zoom + (l + 1) * LINE_HEIGHT, SMALL, caption.text[l],
                *colours[l]);
}

bool plot_mistakes(const Mistake *mistakes, int count, int side, const char *path, Error *error) {
  const PlotGrid grid = plot_mistakes_grid(mistakes, count, side);
  char title[WORDS];
  snprintf(title, sizeof title,
           count == 1 ? "The most confident mistake" : "The %d most confident mistakes", count);
  Canvas p;
  if (!open_page(&p, count ? title : "No mistakes",
                 count ? "with the prediction's probability, and the row of the file from 1"
                       : "every prediction was right",
                 count ? grid.columns * grid.width - 3 * GAP : 0,
                 rows_of(count, grid.columns) * grid.height, error))
    return false;
  for (int i = 0; i < count; i++) draw_mistake(&p, &mistakes[i], side, &grid, i);
  return save(&p, path, error);
}

/* ---- confusion ---------------------------------------------------------------------------- */

enum { WIDE_CELL = 64, FEW_CLASSES = 12, CELL = 46, MIN_CELL = 2, PLAIN_SIDE = 960 };
enum { LEGEND_WIDTH = 510, LEGEND_HEIGHT = 96, SWATCH = 54, SWATCH_HEIGHT = 20 };

static bool has_numbers(const Metrics *metrics) {
  return metrics->classes <= FIGURES_MAX_NUMBERS;
}

/* Pixels between cells. */
static int cell_line(const Metrics *metrics) {
  return has_numbers(metrics) ? 1 : 0;
}

static uint64_t count_of(const Metrics *metrics, int truth, int prediction) {
  return metrics->counts[(size_t)truth * (size_t)metrics->classes + (size_t)prediction];
}

static int widest_label(const Metrics *metrics) {
  char text[16];
  snprintf(text, sizeof text, "%d", metrics->classes - 1);
  return text_width(SMALL, text);
}

static int cell_side(const Metrics *metrics) {
  if (!has_numbers(metrics)) return max_int(MIN_CELL, PLAIN_SIDE / metrics->classes);
  int side = metrics->classes <= FEW_CLASSES ? WIDE_CELL : CELL;
  for (int i = 0; i < metrics->classes * metrics->classes; i++) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, metrics->counts[i]);
    side = max_int(side, text_width(SMALL, text) + 2 * GAP);
  }
  return side;
}

PlotGrid plot_confusion_grid(const Metrics *metrics) {
  const int side = cell_side(metrics);
  return (PlotGrid){.left = MARGIN + text_width(TEXT, "truth") + 3 * GAP + widest_label(metrics),
                    .top = HEAD + TEXT + SMALL + 3 * GAP,
                    .width = side,
                    .height = side,
                    .columns = metrics->classes,
                    .zoom = 1};
}

/* The cube root lets a confusion of a row in a thousand show. */
static Colour shade(Colour full, double share) {
  const double part = cbrt(share);
  return (Colour){(uint8_t)lround(PAPER.red + part * (full.red - PAPER.red)),
                  (uint8_t)lround(PAPER.green + part * (full.green - PAPER.green)),
                  (uint8_t)lround(PAPER.blue + part * (full.blue - PAPER.blue))};
}

static bool is_dark(Colour c) {
  return 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue < 150;
}

static void draw_count(Canvas *p, int x, int y, int side, uint64_t count, Colour cell) {
  char text[32];
  snprintf(text, sizeof text, "%" PRIu64, count);
  text_around(p, x + side / 2.0, y + (side + SMALL) / 2.0, SMALL, text,
              count == 0      ? FAINT
              : is_dark(cell) ? PAPER
                              : INK);
}

static void draw_matrix_row(Canvas *p, const Metrics *metrics, const PlotGrid *grid, int truth) {
  uint64_t rows = 0;
  for (int prediction = 0; prediction < metrics->classes; prediction++)
    rows += count_of(metrics, truth, prediction);
  const int line = cell_line(metrics);
  const int y = grid->top + truth * grid->height;
  for (int prediction = 0; prediction < metrics->classes; prediction++) {
    const uint64_t count = count_of(metrics, truth, prediction);
    const Colour cell =
        shade(truth == prediction ? RIGHT : WRONG, count ? (double)count / (double)rows : 0);
    const int x = grid->left + prediction * grid->width;
    canvas_rectangle(p, x, y, grid->width - line, grid->height - line, cell);
    if (has_numbers(metrics)) draw_count(p, x, y, grid->width - line, count, cell);
  }
}

/* From one class with a label to the next. */
static int label_step(const Metrics *metrics, const PlotGrid *grid) {
  static const int steps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
  size_t i = 0;
  while (steps[i] * grid->width < widest_label(metrics) + 2 * GAP && steps[i] < 500) i++;
  return steps[i];
}

static void draw_labels(Canvas *p, const Metrics *metrics, const PlotGrid *grid) {
  const int step = label_step(metrics, grid), side = metrics->classes * grid->width;
  for (int c = 0; c < metrics->classes; c += step) {
    char text[16];
    snprintf(text, sizeof text, "%d", c);
    const double middle = (c + 0.5) * grid->width;
    text_around(p, grid->left + middle, grid->top - GAP, SMALL, text, PALE);
    text_left_of(p, grid->left - GAP, grid->top + middle + SMALL / 2.0, SMALL, text, PALE);
  }
  text_around(p, grid->left + side / 2.0, grid->top - 3 * GAP - SMALL, TEXT, "prediction", INK);
  canvas_text(p, MARGIN, grid->top + (side + TEXT) / 2.0, TEXT, "truth", INK);
}

/* What the colours mean, below the matrix. */
static void draw_legend(Canvas *p, const Metrics *metrics, const PlotGrid *grid) {
  static const struct {
    double share;
    const char *text;
  } steps[] = {{0.001, "0.1%"}, {0.01, "1%"}, {0.1, "10%"}, {0.5, "50%"}, {1, "100%"}};
  enum { STEPS = sizeof steps / sizeof *steps };
  const int top = grid->top + metrics->classes * grid->height + 3 * GAP;
  const int left = grid->left + text_width(SMALL, "wrong") + GAP;
  canvas_text(p, grid->left, top + (SWATCH_HEIGHT + SMALL) / 2.0, SMALL, "right", PALE);
  canvas_text(p, grid->left, top + (3 * SWATCH_HEIGHT + SMALL) / 2.0, SMALL, "wrong", PALE);
  for (int i = 0; i < STEPS; i++) {
    const int x = left + i * SWATCH;
    canvas_rectangle(p, x, top, SWATCH - 1, SWATCH_HEIGHT - 1, shade(RIGHT, steps[i].share));
    canvas_rectangle(p, x, top + SWATCH_HEIGHT, SWATCH - 1, SWATCH_HEIGHT - 1,
                     shade(WRONG, steps[i].share));
    text_around(p, x + SWATCH / 2.0, top + 2 * SWATCH_HEIGHT + SMALL + GAP, SMALL, steps[i].text,
                PALE);
  }
  canvas_text(p, left + STEPS * SWATCH + GAP, top + 2 * SWATCH_HEIGHT + SMALL + GAP, SMALL,
              "of the truth's rows", PALE);
}

bool plot_confusion(const Metrics *metrics, const char *path, Error *error) {
  const PlotGrid grid = plot_confusion_grid(metrics);
  const int side = metrics->classes * grid.width;
  char title[WORDS], subtitle[WORDS];
  if (metrics->rows)
    snprintf(title, sizeof title, "Confusion matrix, accuracy %.2f%%",
             100 * (double)metrics->correct / (double)metrics->rows);
  else
    snprintf(title, sizeof title, "Confusion matrix of no rows");
  snprintf(subtitle, sizeof subtitle, "%" PRIu64 " of %" PRIu64 " rows right", metrics->correct,
           metrics->rows);
  Canvas p;
  if (!open_page(&p, title, subtitle, grid.left + max_int(side, LEGEND_WIDTH) - MARGIN,
                 grid.top + side + LEGEND_HEIGHT - HEAD, error))
    return false;
  const int frame = side + 2 - cell_line(metrics);
  canvas_rectangle(&p, grid.left - 1, grid.top - 1, frame, frame, GRID);
  for (int truth = 0; truth < metrics->classes; truth++) draw_matrix_row(&p, metrics, &grid, truth);
  draw_labels(&p, metrics, &grid);
  draw_legend(&p, metrics, &grid);
  return save(&p, path, error);
}
