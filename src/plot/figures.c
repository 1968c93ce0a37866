#include "plot/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sizes.h"
#include "plot/line_chart.h"
#include "plot/page.h"

enum { GAP = 8 };

/* ---- curves ------------------------------------------------------------------------------- */

enum { LOSS, ACCURACY, MEASURES };
enum { TRAINING, TEST, KINDS };
enum { COLUMNS = 1 + MEASURES * KINDS }; /* of the numbers to draw, the epochs first */

/* On a linear axis, a loss that fell this much would be a line along the bottom. */
static const double STEEP = 20;

/* Makes a panel of curves over the same x; false if nothing of them is finite. */
static bool make_panel(int measure, const Curve *curves, int kinds, CurvePanel *panel) {
  double low = INFINITY, high = -INFINITY;
  for (int k = 0; k < KINDS; k++)
    for (int i = 0; i < curves[k].count; i++) {
      const double value = curves[k].y[i];
      if (!isfinite(value)) continue;
      low = fmin(low, value);
      high = fmax(high, value);
    }
  const bool logarithmic = measure == LOSS && low > 0 && high > STEEP * low;
  *panel = (CurvePanel){.title = measure == LOSS ? "Loss" : "Accuracy",
                        .x = {.label = "epoch"},
                        .y = {.label = measure == ACCURACY ? "percent"
                                       : logarithmic       ? "cross-entropy, logarithmic scale"
                                                           : "cross-entropy",
                              .logarithmic = logarithmic},
                        .curves = curves,
                        .count = kinds,
                        .mark = NAN};
  return low <= high;
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

/* numbers (COLUMNS, count): to be filled and drawn. */
static bool draw_curves(double *numbers, const EpochResult *results, int count, const char *path,
                        Error *error) {
  const EpochResult *last = &results[count - 1];
  const char *judge = last->judged_by == JUDGED_BY_VALIDATION ? "validation" : "test";
  for (int i = 0; i < count; i++) {
    const EpochResult *r = &results[i];
    const double row[COLUMNS] = {r->epoch, r->train_loss, r->test_loss, 100 * r->train_accuracy,
                                 100 * r->test_accuracy};
    for (int c = 0; c < COLUMNS; c++) numbers[c * count + i] = row[c];
  }
  Curve curves[MEASURES][KINDS];
  CurvePanel panels[MEASURES];
  int drawn = 0;
  for (int m = 0; m < MEASURES; m++) {
    for (int k = 0; k < KINDS; k++)
      curves[m][k] = (Curve){k == TRAINING ? "training" : judge, numbers,
                             numbers + (1 + m * KINDS + k) * count, count};
    drawn +=
        make_panel(m, curves[m], last->judged_by == JUDGED_BY_NONE ? TEST : KINDS, &panels[drawn]);
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
  return line_chart_draw(&(LineChart){title, subtitle, panels, drawn}, path, error);
}

bool plot_curves(const EpochResult *results, int count, const char *path, Error *error) {
  if (count < 1)
    return error_set(error, "no epoch was trained: there is nothing to draw in %s", path);
  double *numbers = malloc(COLUMNS * (size_t)count * sizeof *numbers);
  const bool good = numbers ? draw_curves(numbers, results, count, path, error)
                            : error_set(error, "no memory to draw %d epochs", count);
  free(numbers);
  return good;
}

/* Copies what is not above `most` and lowers *low to the lowest value. */
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
  const LineChart chart = {title, "The rate grows from step to step within one epoch", &panel, 1};
  const bool good = line_chart_draw(&chart, path, error);
  free(loss);
  return good;
}

/* ---- weights ------------------------------------------------------------------------------ */

enum { FILTER_GAP = 4, MIN_ZOOM = 2, FILTER_SIDE = 224 }; /* pixels; of a filter, at most */
static const double FILTERS_AREA = 1.4e6;                 /* pixels of all the filters, about */
static const double ASPECT = 1.5;   /* width of the grid over its height, about */
static const double INSIDE = 0.995; /* part of the weights that the scale tells apart */

/* Returns the divisor that is nearest to the square root. */
static int filter_width(int inputs) {
  const double side = sqrt(inputs);
  int best = 1;
  for (int width = 2; width <= inputs; width++)
    if (inputs % width == 0 && fabs(width - side) < fabs(best - side)) best = width;
  return best;
}

static int rows_of(int count, int columns) {
  return (count + columns - 1) / columns;
}

/* Returns a number near `ideal` that leaves few places of the last row empty. */
static int even_columns(int count, int ideal) {
  int best = ideal;
  for (int columns = ideal - ideal / 4; columns <= ideal + ideal / 3; columns++)
    if (rows_of(count, columns) * columns < rows_of(count, best) * best) best = columns;
  return best < count ? best : count;
}

/* The layout of the filters of a first layer. */
typedef struct {
  Grid grid;
  int count;              /* of filters that are drawn */
  int inputs, wide, high; /* of a filter, in weights */
  int zoom;
} Filters;

static Filters layout_filters(const Network *network) {
  Filters f = {.inputs = network->size[0],
               .count = min_int(network->size[1], FIGURES_MAX_FILTERS),
               .grid = {.left = MARGIN, .top = HEAD}};
  f.wide = filter_width(f.inputs);
  f.high = f.inputs / f.wide;
  const int fitting = (int)sqrt(FILTERS_AREA / f.count / f.inputs);
  f.zoom = max_int(MIN_ZOOM, min_int(fitting, FILTER_SIDE / max_int(f.wide, f.high)));
  f.grid.width = f.wide * f.zoom + FILTER_GAP;
  f.grid.height = f.high * f.zoom + FILTER_GAP;
  f.grid.columns =
      even_columns(f.count, (int)ceil(sqrt(ASPECT * f.count * f.grid.height / f.grid.width)));
  return f;
}

static int by_size(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Sets *scale to the size of a weight that is drawn white, or black if it is negative; few are
   larger. 0: all weights are 0. Returns false if there is no memory. */
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

static void draw_filter(Canvas *p, const Filters *f, const float *weights, int index,
                        double scale) {
  uint8_t greys[NETWORK_MAX_INPUTS];
  for (int i = 0; i < f->inputs; i++)
    greys[i] = grey_of(weights[(size_t)index * (size_t)f->inputs + (size_t)i], scale);
  canvas_greys(p, cell_x(&f->grid, index), cell_y(&f->grid, index), greys, f->wide, f->high,
               f->zoom);
}

bool plot_weights(const Network *network, const float *parameters, const char *path, Error *error) {
  const float *weights = parameters + network->weight[0];
  const Filters f = layout_filters(network);
  const int all = network->size[1];
  double scale;
  if (!weights_scale(weights, (size_t)f.count * (size_t)f.inputs, &scale))
    return error_set(error, "no memory to draw the weights of %d filters", f.count);
  char title[WORDS], subtitle[WORDS] = "grey: 0, as all weights are", of[32] = "";
  if (f.count < all) snprintf(of, sizeof of, "the first %d of ", f.count);
  snprintf(title, sizeof title, "First layer: %s%d filter%s of %d x %d weights", of, all,
           all == 1 ? "" : "s", f.wide, f.high);
  if (scale > 0)
    snprintf(subtitle, sizeof subtitle,
             "black: -%.3g or less, grey: 0, white: %.3g or more (%g%% of them are between)", scale,
             scale, 100 * INSIDE);
  Canvas page;
  const int width = page_width(f.grid.columns * f.grid.width - FILTER_GAP, title, subtitle);
  const int bottom = HEAD + rows_of(f.count, f.grid.columns) * f.grid.height - FILTER_GAP;
  if (!page_open(&page, title, subtitle, width, bottom + MARGIN, error)) return false;
  for (int i = 0; i < f.count; i++) draw_filter(&page, &f, weights, i, scale);
  return page_save(&page, path, error);
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

static int mistake_zoom(int side) {
  return max_int(1, MISTAKE_SIDE / side);
}

static Grid layout_mistakes(const Mistake *mistakes, int count, int side) {
  const int shown = side * mistake_zoom(side);
  int width = shown;
  for (int i = 0; i < count; i++) {
    const Caption caption = caption_of(&mistakes[i]);
    for (int l = 0; l < MISTAKE_LINES; l++)
      width = max_int(width, page_text_width(SMALL, caption.text[l]));
  }
  return (Grid){.left = MARGIN,
                .top = HEAD,
                .width = width + 3 * GAP,
                .height = shown + MISTAKE_LINES * LINE_HEIGHT + 3 * GAP,
                .columns = max_int(min_int(count, MISTAKE_COLUMNS), 1)};
}

static void draw_mistake(Canvas *p, const Mistake *mistake, int side, int x, int y) {
  const Colour colours[MISTAKE_LINES] = {INK, page_series[1], PALE};
  const Caption caption = caption_of(mistake);
  canvas_greys(p, x, y, mistake->pixels, side, side, mistake_zoom(side));
  for (int l = 0; l < MISTAKE_LINES; l++)
    page_text(p, STARTS, x, y + side * mistake_zoom(side) + (l + 1) * LINE_HEIGHT, SMALL,
              colours[l], caption.text[l]);
}

bool plot_mistakes(const Mistake *mistakes, int count, int side, const char *path, Error *error) {
  const Grid grid = layout_mistakes(mistakes, count, side);
  char title[WORDS] = "No mistakes";
  const char *subtitle = count ? "with the prediction's probability, and the row of the file from 1"
                               : "every prediction was right";
  if (count == 1) snprintf(title, sizeof title, "The most confident mistake");
  if (count > 1) snprintf(title, sizeof title, "The %d most confident mistakes", count);
  const int width = page_width(count ? grid.columns * grid.width - 3 * GAP : 0, title, subtitle);
  const int bottom = HEAD + rows_of(count, grid.columns) * grid.height;
  Canvas page;
  if (!page_open(&page, title, subtitle, width, bottom + MARGIN, error)) return false;
  for (int i = 0; i < count; i++)
    draw_mistake(&page, &mistakes[i], side, cell_x(&grid, i), cell_y(&grid, i));
  return page_save(&page, path, error);
}

/* ---- confusion ---------------------------------------------------------------------------- */

enum { WIDE_CELL = 64, FEW_CLASSES = 12, CELL = 46, MIN_CELL = 2, PLAIN_SIDE = 960 };
enum { LEGEND_WIDTH = 510, LEGEND_HEIGHT = 96, SWATCH = 54, SWATCH_HEIGHT = 20 };

static bool has_numbers(const Metrics *metrics) {
  return metrics->classes <= FIGURES_MAX_NUMBERS;
}

static int widest_label(const Metrics *metrics) {
  char text[16];
  snprintf(text, sizeof text, "%d", metrics->classes - 1);
  return page_text_width(SMALL, text);
}

static int cell_side(const Metrics *metrics) {
  if (!has_numbers(metrics)) return max_int(MIN_CELL, PLAIN_SIDE / metrics->classes);
  int side = metrics->classes <= FEW_CLASSES ? WIDE_CELL : CELL;
  for (int i = 0; i < metrics->classes * metrics->classes; i++) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, metrics->counts[i]);
    side = max_int(side, page_text_width(SMALL, text) + 2 * GAP);
  }
  return side;
}

static Grid layout_confusion(const Metrics *metrics) {
  const int side = cell_side(metrics);
  return (Grid){.left = MARGIN + page_text_width(TEXT, "truth") + 3 * GAP + widest_label(metrics),
                .top = HEAD + TEXT + SMALL + 3 * GAP,
                .width = side,
                .height = side,
                .columns = metrics->classes};
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
  page_text(p, CENTRED, x + side / 2.0, y + (side + SMALL) / 2.0, SMALL,
            count == 0      ? FAINT
            : is_dark(cell) ? PAPER
                            : INK,
            text);
}

static void draw_matrix_row(Canvas *p, const Metrics *metrics, const Grid *grid, int truth) {
  const int classes = metrics->classes, first = truth * classes;
  const int side = grid->width - has_numbers(metrics); /* a line between cells with numbers */
  uint64_t rows = 0;
  for (int c = 0; c < classes; c++) rows += metrics->counts[first + c];
  for (int c = 0; c < classes; c++) {
    const uint64_t count = metrics->counts[first + c];
    const double share = count ? (double)count / (double)rows : 0;
    const Colour cell = shade(truth == c ? page_series[0] : page_series[1], share);
    const int x = cell_x(grid, first + c), y = cell_y(grid, first + c);
    canvas_rectangle(p, x, y, side, side, cell);
    if (has_numbers(metrics)) draw_count(p, x, y, side, count, cell);
  }
}

/* Returns the classes from one label to the next. */
static int label_step(const Metrics *metrics, const Grid *grid) {
  static const int steps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
  size_t i = 0;
  while (steps[i] * grid->width < widest_label(metrics) + 2 * GAP && steps[i] < 500) i++;
  return steps[i];
}

static void draw_labels(Canvas *p, const Metrics *metrics, const Grid *grid) {
  const int step = label_step(metrics, grid), side = metrics->classes * grid->width;
  for (int c = 0; c < metrics->classes; c += step) {
    char text[16];
    snprintf(text, sizeof text, "%d", c);
    const double middle = (c + 0.5) * grid->width;
    page_text(p, CENTRED, grid->left + middle, grid->top - GAP, SMALL, PALE, text);
    page_text(p, ENDS, grid->left - GAP, grid->top + middle + SMALL / 2.0, SMALL, PALE, text);
  }
  page_text(p, CENTRED, grid->left + side / 2.0, grid->top - 3 * GAP - SMALL, TEXT, INK,
            "prediction");
  page_text(p, STARTS, MARGIN, grid->top + (side + TEXT) / 2.0, TEXT, INK, "truth");
}

/* Draws what the colours mean, below the matrix. */
static void draw_legend(Canvas *p, const Metrics *metrics, const Grid *grid) {
  static const struct {
    double share;
    const char *text;
  } steps[] = {{0.001, "0.1%"}, {0.01, "1%"}, {0.1, "10%"}, {0.5, "50%"}, {1, "100%"}};
  enum { STEPS = sizeof steps / sizeof *steps };
  const char *const names[] = {"right", "wrong"};
  const int top = grid->top + metrics->classes * grid->height + 3 * GAP;
  const int left = grid->left + page_text_width(SMALL, "wrong") + GAP;
  const int baseline = top + 2 * SWATCH_HEIGHT + SMALL + GAP;
  for (int kind = 0; kind < 2; kind++) {
    const int y = top + kind * SWATCH_HEIGHT;
    page_text(p, STARTS, grid->left, y + (SWATCH_HEIGHT + SMALL) / 2.0, SMALL, PALE, names[kind]);
    for (int i = 0; i < STEPS; i++)
      canvas_rectangle(p, left + i * SWATCH, y, SWATCH - 1, SWATCH_HEIGHT - 1,
                       shade(page_series[kind], steps[i].share));
  }
  for (int i = 0; i < STEPS; i++)
    page_text(p, CENTRED, left + (i + 0.5) * SWATCH, baseline, SMALL, PALE, steps[i].text);
  page_text(p, STARTS, left + STEPS * SWATCH + GAP, baseline, SMALL, PALE, "of the truth's rows");
}

bool plot_confusion(const Metrics *metrics, const char *path, Error *error) {
  const Grid grid = layout_confusion(metrics);
  const int side = metrics->classes * grid.width, frame = side + 2 - has_numbers(metrics);
  char title[WORDS] = "Confusion matrix of no rows", subtitle[WORDS];
  if (metrics->rows)
    snprintf(title, sizeof title, "Confusion matrix, accuracy %.2f%%",
             100 * (double)metrics->correct / (double)metrics->rows);
  snprintf(subtitle, sizeof subtitle, "%" PRIu64 " of %" PRIu64 " rows right", metrics->correct,
           metrics->rows);
  const int content = grid.left + max_int(side, LEGEND_WIDTH) - MARGIN;
  Canvas page;
  if (!page_open(&page, title, subtitle, page_width(content, title, subtitle),
                 grid.top + side + LEGEND_HEIGHT + MARGIN, error))
    return false;
  canvas_rectangle(&page, grid.left - 1, grid.top - 1, frame, frame, GRID);
  for (int truth = 0; truth < metrics->classes; truth++)
    draw_matrix_row(&page, metrics, &grid, truth);
  draw_labels(&page, metrics, &grid);
  draw_legend(&page, metrics, &grid);
  return page_save(&page, path, error);
}
