#include "plot/figures.h"

#include <inttypes.h>
#include <math.h>

#include "base/sizes.h"
#include "plot/page.h"

/* ---- curves ------------------------------------------------------------------------------- */

enum { PANEL = 480, PANEL_TOP = 92, PANEL_HEAD = 66, PANEL_FOOT = 70 }; /* heights in pixels */
enum { PANEL_LEFT = 110, PANEL_RIGHT = CHART_WIDTH - 40 };
enum { MANY_EPOCHS = 64 }; /* curves of more epochs are drawn without dots */
static const double LINE = 2.6, THIN = 0.8, DOT = 7;

typedef enum { LOSS, ACCURACY, MEASURES } Measure;
typedef enum { TRAINING, TEST, KINDS } Kind;

/* The data of the curves. `results` is (runs, count), where `count` is the number of epochs. */
typedef struct {
  const EpochResult *results;
  int runs, count;
  int kinds; /* 2 for training and test rows, 1 for training rows only */
  const char *names[KINDS];
  int best; /* the best epoch, counted from 1; 0 if unknown */
} Curves;

/* Returns a run's value after epoch i, which counts from 0. Run -1 is the mean over all runs. */
static double value_of(const Curves *c, int run, int i, Measure measure, Kind kind) {
  const int first = run < 0 ? 0 : run;
  const int end = run < 0 ? c->runs : run + 1;
  double sum = 0;
  for (int at = first; at < end; at++) {
    const EpochResult *r = &c->results[at * c->count + i];
    const double loss[] = {r->train_loss, r->test_loss},
                 accuracy[] = {r->train_accuracy, r->test_accuracy};
    sum += measure == LOSS ? loss[kind != TRAINING] : 100 * accuracy[kind != TRAINING];
  }
  return sum / (end - first);
}

/* Extends the axis, so that there is space around the values even if all are equal. */
static void widen(Axis *axis, double air) {
  const double low = axis->low, high = axis->high;
  double more = air * (high - low);
  if (high - low <= 1e-9 * fmax(fabs(low), fabs(high))) {
    more = low != 0 ? 0.1 * fabs(low) : 1;
    if (axis->logarithmic) more = 0.15;
  }
  axis->low -= more;
  axis->high += more;
}

/* Draws a run's curve. Run -1 is the mean of all runs. A value that is not finite leaves a gap. */
static void draw_curve(Canvas *page, const Curves *c, const Axis *x_axis, const Axis *y_axis,
                       int run, Measure measure, Kind kind) {
  const double line = run < 0 ? LINE : THIN;
  double last_x = NAN, last_y = NAN;
  for (int i = 0; i < c->count; i++) {
    const double x = axis_place(x_axis, c->results[i].epoch),
                 y = axis_place(y_axis, value_of(c, run, i, measure, kind));
    const bool follows = isfinite(last_y);
    if (isfinite(y) && follows) canvas_line(page, last_x, last_y, x, y, line, page_series[kind]);
    if (isfinite(y) && run < 0 && (c->count <= MANY_EPOCHS || !follows))
      canvas_line(page, x, y, x, y, DOT, page_series[kind]);
    last_x = x;
    last_y = y;
  }
}

/* Sets the axis to span all finite values. Returns false if no value is finite. */
static bool span(const Curves *c, Measure measure, Axis *axis) {
  axis_clear(axis);
  for (int run = c->runs > 1 ? 0 : -1; run < (c->runs > 1 ? c->runs : 0); run++)
    for (int i = 0; i < c->kinds * c->count; i++)
      axis_include(axis, value_of(c, run, i % c->count, measure, (Kind)(i / c->count)));
  return axis->low <= axis->high;
}

/* Draws the panel of loss or accuracy. Returns false if the measure has no finite value. */
static bool draw_panel(Canvas *page, const Curves *c, Measure measure, int top) {
  static const double FAR = 20; /* logarithmic axis if highest loss / lowest loss is above FAR */
  Axis y = {.upright = true,
            .from = top + PANEL - PANEL_FOOT,
            .to = top + PANEL_HEAD,
            .near = PANEL_LEFT,
            .far = PANEL_RIGHT},
       x = {.label = "epoch",
            .mark = c->best,
            .mark_label = c->best ? "best epoch" : NULL,
            .from = PANEL_LEFT,
            .to = PANEL_RIGHT,
            .near = y.from,
            .far = y.to};
  Key keys[KINDS];
  if (!span(c, measure, &y)) return false;
  y.logarithmic = measure == LOSS && y.low > 0 && y.high > FAR * y.low;
  y.label = y.logarithmic ? "cross-entropy, logarithmic scale" : "cross-entropy";
  if (measure == ACCURACY) y.label = "percent";
  if (y.logarithmic) span(c, measure, &y);
  axis_clear(&x);
  axis_include(&x, c->results[0].epoch);
  axis_include(&x, c->results[c->count - 1].epoch);
  widen(&x, 0.015);
  widen(&y, 0.05);
  page_text(page, STARTS, MARGIN, y.to - 44, TEXT + 1, INK, measure == LOSS ? "Loss" : "Accuracy");
  page_axis(page, &x);
  page_axis(page, &y);
  for (int i = 0; c->runs > 1 && i < c->kinds * c->runs; i++)
    draw_curve(page, c, &x, &y, i / c->kinds, measure, (Kind)(i % c->kinds));
  for (int kind = c->kinds - 1; kind >= 0; kind--) {
    draw_curve(page, c, &x, &y, -1, measure, (Kind)kind);
    keys[kind] = (Key){page_series[kind], c->names[kind]};
  }
  page_legend(page, PANEL_RIGHT, y.to - 44, keys, c->kinds);
  return true;
}

/* Returns the title. Sets c->best to the first epoch with the best test accuracy. */
static ShortText title_curves(Curves *c) {
  const EpochResult *last = &c->results[c->count - 1];
  const double at_last = value_of(c, -1, c->count - 1, ACCURACY, TEST);
  double most = NAN;
  for (int i = 0; i < c->count; i++) {
    const double percent = value_of(c, -1, i, ACCURACY, TEST);
    if (isnan(percent) || percent <= most) continue;
    most = percent;
    c->best = c->results[i].epoch;
  }
  if (isnan(most)) return text_format("%d epochs", c->count);
  ShortText title = text_format("%s accuracy %.2f%% after epoch %d",
                                last->judged_by == JUDGED_BY_VALIDATION ? "Validation" : "Test",
                                at_last, last->epoch);
  if (most != at_last) text_append(title.text, ", best %.2f%% after epoch %d", most, c->best);
  return title;
}

bool plot_curves(const EpochResult *results, int runs, int count, const char *path, Error *error) {
  if (count < 1)
    return error_set(error, "no epoch was trained: there is nothing to draw in %s", path);
  const EpochResult *last = &results[count - 1];
  const char *judge = last->judged_by == JUDGED_BY_VALIDATION ? "validation" : "test";
  Curves c = {results, runs, count, KINDS, {"training", judge}, 0};
  if (last->judged_by == JUDGED_BY_NONE) c.kinds = 1;
  ShortText subtitle =
      runs > 1 ? text_format("mean of %d runs, and each; ", runs) : (ShortText){""};
  text_append(subtitle.text, "%" PRIu64 " training rows, each judged as it is trained on",
              last->train_rows);
  if (c.kinds == KINDS)
    text_append(subtitle.text, "; %" PRIu64 " %s rows, judged after each epoch", last->test_rows,
                judge);
  const ShortText title = title_curves(&c);
  Axis any = {.logarithmic = false};
  int panels = 0;
  Canvas page;
  for (Measure m = LOSS; m < MEASURES; m++) panels += span(&c, m, &any);
  if (panels == 0)
    return error_set(error, "no epoch has a finite loss or accuracy to draw in %s", path);
  if (!page_open(&page, title.text, subtitle.text, CHART_WIDTH, PANEL_TOP + panels * PANEL, error))
    return false;
  int top = PANEL_TOP;
  for (Measure m = LOSS; m < MEASURES; m++)
    if (draw_panel(&page, &c, m, top)) top += PANEL;
  return page_save(&page, path, error);
}

/* ---- weights ------------------------------------------------------------------------------ */

enum { FILTER_GAP = 4, MIN_ZOOM = 2, FILTER_SIDE = 224 }; /* pixels; FILTER_SIDE is a maximum */
static const double FILTERS_AREA = 1.4e6; /* approximate area of all filters, in pixels */
static const double ASPECT = 1.5;         /* approximate ratio of the grid's width to its height */

/* Returns the divisor of `inputs` that is nearest to sqrt(inputs). */
static int filter_width(int inputs) {
  const double side = sqrt(inputs);
  int best = 1;
  for (int width = 2; width <= inputs; width++)
    if (inputs % width == 0 && fabs(width - side) < fabs(best - side)) best = width;
  return best;
}

/* Returns the weight that is drawn white: three times the root mean square of the finite weights.
   The negative of this weight is drawn black. */
static double weights_scale(const float *weights, int count) {
  double squares = 0;
  int finite = 0;
  for (int i = 0; i < count; i++)
    if (isfinite(weights[i])) squares += (double)weights[i] * (double)weights[i], finite++;
  return finite ? 3 * sqrt(squares / finite) : 0;
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
  grid.columns = min_int(count, (int)ceil(sqrt(ASPECT * count * grid.height / grid.width)));
  uint8_t greys[NETWORK_MAX_INPUTS];
  const double scale = weights_scale(weight, count * inputs);
  const ShortText of = count < all ? text_format("the first %d of ", count) : (ShortText){""};
  const ShortText title = text_format("First layer: %s%d filter%s of %d x %d weights", of.text, all,
                                      all == 1 ? "" : "s", wide, high);
  const ShortText subtitle =
      text_format(scale > 0 ? "black: -%.3g or less, grey: 0, white: %.3g or more"
                            : "grey: 0, as all weights are",
                  scale, scale);
  Canvas page;
  if (!page_open(&page, title.text, subtitle.text, 2 * MARGIN + grid.columns * grid.width,
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
  const double percent = 100 * mistake->probability;
  const ShortText truth = text_format("truth %s", class_name(names, mistake->truth).text),
                  prediction = text_format("prediction %s: %.2f%%",
                                           class_name(names, mistake->prediction).text, percent),
                  row = text_format("row %" PRIu64, mistake->row);
  const Key lines[MISTAKE_LINES] = {
      {INK, truth.text}, {page_series[1], prediction.text}, {PALE, row.text}};
  page_tile(page, grid, i, mistake->pixels, side, lines, MISTAKE_LINES);
}

bool plot_mistakes(const Mistake *mistakes, int count, int side, const char *names,
                   const char *path, Error *error) {
  const Grid grid =
      tile_grid(MARGIN, HEAD, names ? 240 : 190, MISTAKE_COLUMNS, side, MISTAKE_LINES);
  const char *subtitle = count ? "with the prediction's probability, and the row of the file from 1"
                               : "every prediction was right";
  static const char *const few[] = {"No mistakes", "The most confident mistake"};
  const ShortText title = count < 2 ? text_format("%s", few[count])
                                    : text_format("The %d most confident mistakes", count);
  Canvas page;
  if (!page_open(&page, title.text, subtitle,
                 2 * MARGIN + min_int(count, MISTAKE_COLUMNS) * grid.width,
                 grid_end(&grid, count) + MARGIN, error))
    return false;
  for (int i = 0; i < count; i++) draw_mistake(&page, &grid, i, &mistakes[i], side, names);
  return page_save(&page, path, error);
}

/* ---- confusion ---------------------------------------------------------------------------- */

enum { CELL = 56, MIN_CELL = 2, PLAIN_SIDE = 960 };
enum { LEFT = 110, TOP = 172, FOOT = 78, CELL_GAP = 5 };

/* Returns a cell's colour. The share's cube root makes even one row in a thousand visible. */
static Colour shade(bool right, double share) {
  const Colour full = page_series[right ? 0 : 1];
  Colour colour = 0;
  for (int k = 0; k < 3; k++)
    colour = colour << 8 | (Colour)lround(255 + cbrt(share) * (colour_part(full, k) - 255));
  return colour;
}

/* Returns the colour of letters: dark letters on pale colours, white letters on dark colours. */
static Colour ink_on(Colour c) {
  return 3 * colour_part(c, 0) + 6 * colour_part(c, 1) + colour_part(c, 2) > 1500 ? INK : PAPER;
}

static void draw_cells(Canvas *page, const Metrics *metrics, const Grid *grid, bool numbers) {
  /* Cells with numbers are 1 pixel smaller, so that lines show between them. */
  const int classes = metrics->classes, side = grid->width - numbers;
  uint64_t rows = 0;
  for (int i = 0; i < classes * classes; i++) {
    const int truth = i / classes, first = truth * classes, x = cell_x(grid, i),
              y = cell_y(grid, i);
    const uint64_t count = metrics->counts[i];
    if (i == first) rows = 0;
    for (int c = first; i == first && c < first + classes; c++) rows += metrics->counts[c];
    const Colour colour = shade(truth == i - first, count ? (double)count / (double)rows : 0);
    canvas_rectangle(page, x, y, side, side, colour);
    if (numbers)
      page_text_within(page, CENTRED, x + side / 2.0, y + (side + SMALL) / 2.0, SMALL,
                       side - 2 * CELL_GAP, count ? ink_on(colour) : FAINT,
                       text_format("%" PRIu64, count).text);
  }
}

/* Writes the names or numbers of the classes to the left of the cells and below the cells. */
static void draw_names(Canvas *page, const Metrics *metrics, const Grid *grid) {
  const double side = grid->width, below = TOP + metrics->classes * side + 24;
  for (int c = 0; c < metrics->classes; c++) {
    const ShortText name = class_name(metrics->names, c);
    page_text_within(page, ENDS, LEFT - 14, TOP + c * side + (side + SMALL) / 2, SMALL,
                     LEFT - 14 - MARGIN, PALE, name.text);
    page_text_within(page, CENTRED, LEFT + (c + 0.5) * side, below, SMALL, side - 2 * CELL_GAP,
                     PALE, name.text);
  }
}

bool plot_confusion(const Metrics *metrics, const char *path, Error *error) {
  const int classes = metrics->classes;
  const bool numbers = classes <= FIGURES_MAX_NUMBERS;
  const int cell = numbers ? CELL : max_int(MIN_CELL, PLAIN_SIDE / classes);
  const int side = classes * cell, width = max_int(LEFT + side + MARGIN, LEAST_WIDTH);
  const Grid grid = {LEFT, TOP, cell, cell, classes};
  const Key keys[] = {{shade(true, 1), "right"},
                      {shade(false, 1), "wrong: all"},
                      {shade(false, 0.1), "10%"},
                      {shade(false, 0.01), "1%"},
                      {shade(false, 0.001), "0.1% of the truth's rows"}};
  const ShortText title = text_format(metrics->rows ? "Confusion matrix, accuracy %.2f%%"
                                                    : "Confusion matrix of no rows",
                                      100 * (double)metrics->correct / (double)metrics->rows),
                  subtitle = text_format("%" PRIu64 " of %" PRIu64 " rows right", metrics->correct,
                                         metrics->rows);
  Canvas page;
  if (!page_open(&page, title.text, subtitle.text, width, TOP + side + FOOT, error)) return false;
  page_legend(&page, width - MARGIN, HEAD + SMALL, keys, LENGTH(keys));
  page_text(&page, STARTS, MARGIN, TOP - 18, SMALL, PALE, "truth");
  page_text(&page, ENDS, LEFT + side, TOP + side + 50, SMALL, PALE, "prediction");
  if (numbers) draw_names(&page, metrics, &grid);
  canvas_rectangle(&page, LEFT - 1, TOP - 1, side + 2 - numbers, side + 2 - numbers, GRID);
  draw_cells(&page, metrics, &grid, numbers);
  return page_save(&page, path, error);
}

/* ---- what the network saw ----------------------------------------------------------------- */

enum { GAP = 24, VIEW = 420, DIGIT = 146 }; /* pixels; VIEW is the picture's longer side */
enum { SEEN_COLUMNS = 6, SEEN_LEFT = MARGIN + VIEW + GAP };

bool plot_seen(const char *name, const Image *image, const Photograph *p, const SeenAnswer *answers,
               int side, const char *names, const char *path, Error *error) {
  const double zoom = (double)VIEW / max_int(image->width, image->height),
               scale = zoom / image->shrunk;
  const Grid grid = tile_grid(SEEN_LEFT, HEAD, DIGIT, SEEN_COLUMNS, side, 2);
  Canvas page;
  if (!page_open(&page, "What the network saw", text_shown(name).text,
                 SEEN_LEFT + min_int(p->count, SEEN_COLUMNS) * DIGIT,
                 max_int(HEAD + (int)(image->height * zoom), grid_end(&grid, p->count)) + MARGIN,
                 error))
    return false;
  canvas_greys(&page, MARGIN, HEAD, image->level, image->width, image->height, zoom);
  for (int i = 0; i < p->count; i++) {
    const Box box = p->box[i];
    const SeenAnswer *a = &answers[i];
    const double left = MARGIN + box.left * scale - 2, top = HEAD + box.top * scale - 2,
                 right = left + box_width(box) * scale + 4,
                 bottom = top + box_height(box) * scale + 4;
    const Colour colour = page_series[a->sure ? 0 : 1];
    const ShortText number = text_format("%d", i + 1),
                    answer = text_format("%d: %s", i + 1, class_name(names, a->best).text),
                    percent = text_format("%.1f%%%s", 100 * a->probabilities[a->best],
                                          a->sure ? "" : " unsure");
    canvas_line(&page, left, top, right, top, 2, colour);
    canvas_line(&page, left, bottom, right, bottom, 2, colour);
    canvas_line(&page, left, top, left, bottom, 2, colour);
    canvas_line(&page, right, top, right, bottom, 2, colour);
    page_text(&page, STARTS, left, top - 5, SMALL, colour, number.text);
    page_tile(&page, &grid, i, p->pixels + i * side * side, side,
              (const Key[]){{INK, answer.text}, {colour, percent.text}}, 2);
  }
  return page_save(&page, path, error);
}
