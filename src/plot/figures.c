#include "plot/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/sizes.h"
#include "base/stats.h"
#include "base/text.h"
#include "plot/line_chart.h"
#include "plot/page.h"

/* ---- curves ------------------------------------------------------------------------------- */

enum { LOSS, ACCURACY, MEASURES };
enum { TRAINING, TEST, KINDS };

/* On a linear axis, a loss that fell this much would be a line along the bottom. */
static const double STEEP = 20;

/* Makes a panel of curves, with a line at the best epoch, 0: none; false if nothing of them is
   finite. */
static bool make_panel(int measure, const Curve *curves, int count, int best, CurvePanel *panel) {
  Axis y = {.label = measure == LOSS ? "cross-entropy" : "percent"};
  axis_clear(&y);
  for (int k = 0; k < count; k++)
    for (int i = 0; i < curves[k].count; i++) axis_include(&y, curves[k].y[i]);
  if (measure == LOSS && y.low > 0 && y.high > STEEP * y.low) {
    y.logarithmic = true;
    y.label = "cross-entropy, logarithmic scale";
  }
  const Axis x = {.label = "epoch", .mark = best, .mark_label = best ? "best epoch" : NULL};
  *panel = (CurvePanel){measure == LOSS ? "Loss" : "Accuracy", x, y, curves, count};
  return y.low <= y.high;
}

/* Writes the title; percent: test accuracies. Returns the epoch of the best one, the first of equal
   ones; 0: none is known. */
static int title_curves(const EpochResult *results, const double *percent, int count, char *text) {
  const int last = count - 1;
  int best = last;
  for (int i = last; i >= 0; i--)
    if (percent[i] >= percent[best] || isnan(percent[best])) best = i;
  const bool known = !isnan(percent[best]);
  if (!known)
    snprintf(text, WORDS, "%d epochs", count);
  else
    snprintf(text, WORDS, "%s accuracy %.2f%% after epoch %d",
             results->judged_by == JUDGED_BY_VALIDATION ? "Validation" : "Test", percent[last],
             results[last].epoch);
  if (known && percent[best] != percent[last])
    text_append(text, WORDS, ", best %.2f%% after epoch %d", percent[best], results[best].epoch);
  return known ? results[best].epoch : 0;
}

/* Sets column `column` of the numbers to draw, of which the first are the epochs: the mean of all
   runs, then each run with a gap behind it. */
static void set_column(const EpochResult *results, int runs, int count, int column, double *y) {
  for (int i = 0; i < count; i++) {
    double sum = 0;
    for (int run = 0; run < runs; run++) {
      const EpochResult *r = &results[run * count + i];
      const double row[] = {r->epoch, r->train_loss, r->test_loss, 100 * r->train_accuracy,
                            100 * r->test_accuracy};
      double *of_run = y + count + run * (count + 1);
      sum += of_run[i] = row[column];
      of_run[count] = NAN;
    }
    y[i] = sum / runs;
  }
}

bool plot_curves(const EpochResult *results, int runs, int count, const char *path, Error *error) {
  enum { COLUMNS = 1 + MEASURES * KINDS };
  if (count < 1)
    return error_set(error, "no epoch was trained: there is nothing to draw in %s", path);
  const EpochResult *last = &results[count - 1];
  const char *judge = last->judged_by == JUDGED_BY_VALIDATION ? "validation" : "test";
  const int kinds = last->judged_by == JUDGED_BY_NONE ? TEST : KINDS, each = runs * (count + 1);
  Curve curves[MEASURES][2 * KINDS];
  CurvePanel panels[MEASURES];
  char title[WORDS], subtitle[WORDS] = "";
  double *numbers = make_array(numbers, COLUMNS * (count + each)), *y = numbers;
  if (!numbers) return error_set(error, "no memory to draw %d epochs", count);
  for (int c = 0; c < COLUMNS; c++, y += count + each) set_column(results, runs, count, c, y);
  const int best = title_curves(results, y - count - each, count, title);
  int drawn = 0;
  for (int m = 0; m < MEASURES; m++) {
    for (int k = 0; k < kinds; k++) {
      y = numbers + (1 + m * KINDS + k) * (count + each);
      curves[m][k] = (Curve){k == TRAINING ? "training" : judge, numbers, y, count};
      curves[m][kinds + k] = (Curve){NULL, numbers + count, y + count, each};
    }
    drawn += make_panel(m, curves[m], runs > 1 ? 2 * kinds : kinds, best, &panels[drawn]);
  }
  if (runs > 1) snprintf(subtitle, WORDS, "mean of %d runs, and each; ", runs);
  text_append(subtitle, WORDS, "%" PRIu64 " training rows, each judged as it is trained on",
              last->train_rows);
  if (last->judged_by != JUDGED_BY_NONE)
    text_append(subtitle, WORDS, "; %" PRIu64 " %s rows, judged after each epoch", last->test_rows,
                judge);
  const LineChart chart = {title, subtitle, panels, drawn};
  const bool good =
      drawn ? line_chart_draw(&chart, path, error)
            : error_set(error, "no epoch has a finite loss or accuracy to draw in %s", path);
  free(numbers);
  return good;
}

bool plot_rates(const RateTest *c, const char *path, Error *error) {
  double *shown = make_array(shown, 2 * c->count);
  if (!shown) return error_set(error, "no memory to draw %d learning rates", c->count);
  const double most = 1.2 * c->loss[0];
  for (int i = 0; i < c->count; i++) {
    shown[i] = c->loss[i] <= most ? c->loss[i] : NAN;
    shown[c->count + i] = c->smooth[i] <= most ? c->smooth[i] : NAN;
  }
  const Curve curves[] = {{"loss", c->rate, shown, c->count},
                          {"mean of five rates", c->rate, shown + c->count, c->count}};
  char title[WORDS];
  snprintf(title, sizeof title, "From a learning rate of %.2g on the loss falls no further",
           c->best);
  const CurvePanel panel = {
      NULL,
      {.label = "learning rate", .logarithmic = true, .mark = c->best, .mark_label = "that rate"},
      {.label = "training loss, cross-entropy"},
      curves,
      2};
  const LineChart chart = {title, "The rate grows from step to step within one epoch", &panel, 1};
  const bool good = line_chart_draw(&chart, path, error);
  free(shown);
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

/* Returns a number near `ideal` that leaves few places of the last row empty. */
static int even_columns(int count, int ideal) {
  int best = ideal;
  for (int columns = ideal - ideal / 4; columns <= ideal + ideal / 3; columns++)
    if (columns - 1 - (count - 1) % columns < best - 1 - (count - 1) % best) best = columns;
  return min_int(best, count);
}

/* Sets *scale to the size of a weight that is drawn white, or black if it is negative; few are
   larger. 0: all weights are 0. Returns false if there is no memory. */
static bool weights_scale(const float *weights, int count, double *scale) {
  double *sizes = make_array(sizes, count);
  if (!sizes) return false;
  int finite = 0;
  for (int i = 0; i < count; i++)
    if (isfinite(weights[i])) sizes[finite++] = fabs((double)weights[i]);
  *scale = 0;
  if (finite) {
    const Stats sorted = stats_of(sizes, finite);
    *scale = sizes[(int)(INSIDE * (finite - 1))];
    if (*scale == 0) *scale = sorted.high;
  }
  free(sizes);
  return true;
}

static uint8_t grey_of(float weight, double scale) {
  const double part = scale > 0 && !isnan(weight) ? (double)weight / scale : 0;
  return (uint8_t)lround(128 + 127 * fmin(fmax(part, -1), 1));
}

bool plot_weights(const Network *network, const float *parameters, const char *path, Error *error) {
  const float *weight = parameters + network->weight[0];
  const int inputs = network->size[0], all = network->size[1],
            count = min_int(all, FIGURES_MAX_FILTERS);
  const int wide = filter_width(inputs), high = inputs / wide;
  const int zoom = max_int(MIN_ZOOM, min_int((int)sqrt(FILTERS_AREA / count / inputs),
                                             FILTER_SIDE / max_int(wide, high)));
  Grid grid = {MARGIN, HEAD, wide * zoom + FILTER_GAP, high * zoom + FILTER_GAP, 0};
  grid.columns = even_columns(count, (int)ceil(sqrt(ASPECT * count * grid.height / grid.width)));
  uint8_t greys[NETWORK_MAX_INPUTS];
  double scale;
  if (!weights_scale(weight, count * inputs, &scale))
    return error_set(error, "no memory to draw the weights of %d filters", count);
  char title[WORDS], subtitle[WORDS] = "grey: 0, as all weights are", of[32] = "";
  if (count < all) snprintf(of, sizeof of, "the first %d of ", count);
  snprintf(title, sizeof title, "First layer: %s%d filter%s of %d x %d weights", of, all,
           all == 1 ? "" : "s", wide, high);
  if (scale > 0)
    snprintf(subtitle, sizeof subtitle,
             "black: -%.3g or less, grey: 0, white: %.3g or more (%g%% of them are between)", scale,
             scale, 100 * INSIDE);
  Canvas page;
  if (!page_open(&page, title, subtitle, 2 * MARGIN + grid.columns * grid.width,
                 grid_end(&grid, count) + MARGIN, error))
    return false;
  for (int f = 0; f < count; f++) {
    for (int i = 0; i < inputs; i++) greys[i] = grey_of(*weight++, scale);
    canvas_greys(&page, cell_x(&grid, f), cell_y(&grid, f), greys, wide, high, zoom);
  }
  return page_save(&page, path, error);
}

/* ---- mistakes ----------------------------------------------------------------------------- */

enum { MISTAKE_COLUMNS = 8, MISTAKE_LINES = 3 };

static void draw_mistake(Canvas *page, const Grid *grid, int i, const Mistake *mistake, int side,
                         const char *names) {
  char truth[WORDS], prediction[WORDS], row[48];
  const double percent = 100 * mistake->probability;
  const bool almost = percent >= 99.995 && percent < 100; /* none is rounded to certainty */
  snprintf(truth, sizeof truth, "truth %s", class_name(names, mistake->truth).text);
  snprintf(prediction, sizeof prediction,
           almost ? "prediction %s: >99.99%%" : "prediction %s: %.2f%%",
           class_name(names, mistake->prediction).text, percent);
  snprintf(row, sizeof row, "row %" PRIu64, mistake->row);
  page_tile(page, grid, i, mistake->pixels, side,
            (const Key[MISTAKE_LINES]){{INK, truth}, {page_series[1], prediction}, {PALE, row}},
            MISTAKE_LINES);
}

bool plot_mistakes(const Mistake *mistakes, int count, int side, const char *names,
                   const char *path, Error *error) {
  const Grid grid =
      tile_grid(MARGIN, HEAD, names ? 240 : 190, MISTAKE_COLUMNS, side, MISTAKE_LINES);
  char title[WORDS] = "No mistakes";
  const char *subtitle = count ? "with the prediction's probability, and the row of the file from 1"
                               : "every prediction was right";
  if (count == 1) snprintf(title, sizeof title, "The most confident mistake");
  if (count > 1) snprintf(title, sizeof title, "The %d most confident mistakes", count);
  Canvas page;
  if (!page_open(&page, title, subtitle, 2 * MARGIN + min_int(count, MISTAKE_COLUMNS) * grid.width,
                 grid_end(&grid, count) + MARGIN, error))
    return false;
  for (int i = 0; i < count; i++) draw_mistake(&page, &grid, i, &mistakes[i], side, names);
  return page_save(&page, path, error);
}

/* ---- confusion ---------------------------------------------------------------------------- */

enum { CELL = 64, FEW_CLASSES = 12, SMALL_CELL = 46, MIN_CELL = 2, PLAIN_SIDE = 960 };
enum { LEFT = 110, TOP = 172, FOOT = 78, CELL_GAP = 5 };

/* Returns the colour of a cell. The cube root lets a confusion of a row in a thousand show. */
static Colour shade(bool right, double share) {
  const Colour full = page_series[right ? 0 : 1];
  Colour colour = 0;
  for (int k = 0; k < 3; k++)
    colour = colour << 8 | (Colour)lround(255 + cbrt(share) * (colour_part(full, k) - 255));
  return colour;
}

static void draw_cells(Canvas *page, const Metrics *metrics, const Grid *grid, bool numbers) {
  const int classes = metrics->classes, side = grid->width - numbers; /* a line between them */
  uint64_t rows = 0;
  for (int i = 0; i < classes * classes; i++) {
    const int truth = i / classes, first = truth * classes, x = cell_x(grid, i),
              y = cell_y(grid, i);
    const uint64_t count = metrics->counts[i];
    if (i == first) rows = 0;
    for (int c = first; i == first && c < first + classes; c++) rows += metrics->counts[c];
    const Colour colour = shade(truth == i - first, count ? (double)count / (double)rows : 0);
    char text[32];
    canvas_rectangle(page, x, y, side, side, colour);
    if (!numbers) continue;
    snprintf(text, sizeof text, "%" PRIu64, count);
    page_text_within(page, CENTRED, x + side / 2.0, y + (side + SMALL) / 2.0, SMALL,
                     side - 2 * CELL_GAP, count ? page_ink_on(colour) : FAINT, text);
  }
}

/* Writes the names of the classes at the left of the cells and below them. */
static void draw_names(Canvas *page, const Metrics *metrics, const Grid *grid) {
  const double side = grid->width, below = TOP + metrics->classes * side + 24;
  for (int c = 0; c < metrics->classes; c++) {
    const ClassName name = class_name(metrics->names, c);
    page_text_within(page, ENDS, LEFT - 14, TOP + c * side + (side + SMALL) / 2, SMALL,
                     LEFT - 14 - MARGIN, PALE, name.text);
    page_text_within(page, CENTRED, LEFT + (c + 0.5) * side, below, SMALL, side - 2 * CELL_GAP,
                     PALE, name.text);
  }
}

bool plot_confusion(const Metrics *metrics, const char *path, Error *error) {
  const int classes = metrics->classes;
  const bool numbers = classes <= FIGURES_MAX_NUMBERS, named = numbers && metrics->names;
  const int cell = !numbers                 ? max_int(MIN_CELL, PLAIN_SIDE / classes)
                   : classes <= FEW_CLASSES ? CELL
                                            : SMALL_CELL;
  const int side = classes * cell, width = max_int(LEFT + side + MARGIN, LEAST_WIDTH);
  const double low = named ? 0.1 : -0.5, high = named ? 0.9 : classes - 0.5; /* no numbers */
  const Grid grid = {LEFT, TOP, cell, cell, classes};
  const Axis prediction = {.label = "prediction",
                           .from = LEFT,
                           .to = LEFT + side,
                           .near = TOP + side,
                           .far = TOP + side,
                           .low = low,
                           .high = high},
             truth = {.label = "truth",
                      .upright = true,
                      .from = TOP,
                      .to = TOP + side,
                      .near = LEFT,
                      .far = LEFT,
                      .low = low,
                      .high = high};
  const Key keys[] = {{shade(true, 1), "right"},
                      {shade(false, 1), "wrong: all"},
                      {shade(false, 0.1), "10%"},
                      {shade(false, 0.01), "1%"},
                      {shade(false, 0.001), "0.1% of the truth's rows"}};
  char title[WORDS] = "Confusion matrix of no rows", subtitle[WORDS];
  if (metrics->rows)
    snprintf(title, sizeof title, "Confusion matrix, accuracy %.2f%%",
             100 * (double)metrics->correct / (double)metrics->rows);
  snprintf(subtitle, sizeof subtitle, "%" PRIu64 " of %" PRIu64 " rows right", metrics->correct,
           metrics->rows);
  Canvas page;
  if (!page_open(&page, title, subtitle, width, TOP + side + FOOT, error)) return false;
  page_legend(&page, width - MARGIN, HEAD + SMALL, keys, LENGTH(keys));
  page_axis(&page, &prediction);
  page_axis(&page, &truth);
  if (named) draw_names(&page, metrics, &grid);
  canvas_rectangle(&page, LEFT - 1, TOP - 1, side + 2 - numbers, side + 2 - numbers, GRID);
  draw_cells(&page, metrics, &grid, numbers);
  return page_save(&page, path, error);
}
