#include "plot/page.h"

#include <math.h>

#include "base/sizes.h"

bool page_open(Canvas *page, const char *title, const char *subtitle, int width, int height,
               Error *error) {
  width = max_int(width, LEAST_WIDTH);
  if (!canvas_open(page, width, height, error)) return false;
  page_text_within(page, STARTS, MARGIN, 44, TITLE, width - 2 * MARGIN, INK, title);
  page_text_within(page, STARTS, MARGIN, 74, TEXT, width - 2 * MARGIN, PALE, subtitle);
  return true;
}

bool page_save(Canvas *page, const char *path, Error *error) {
  const bool saved = canvas_save(page, path, error);
  canvas_close(page);
  return saved;
}

/* ---- text ----------------------------------------------------------------------------------- */

void page_text_within(Canvas *page, TextPlace place, double x, double baseline, double height,
                      double width, Colour colour, const char *text) {
  const double wanted = canvas_text_width(height, text), taken = fmin(wanted, width);
  canvas_text(page, x - place * taken / 2, baseline,
              wanted > width ? height * width / wanted : height, text, colour);
}

void page_text(Canvas *page, TextPlace place, double x, double baseline, double height,
               Colour colour, const char *text) {
  page_text_within(page, place, x, baseline, height, INFINITY, colour, text);
}

void page_legend(Canvas *page, double right, double baseline, const Key *keys, int count) {
  enum { SWATCH = 18, GAP = 8, APART = 26 };
  while (count-- > 0) {
    page_text(page, ENDS, right, baseline, SMALL, INK, keys[count].text);
    right -= canvas_text_width(SMALL, keys[count].text) + GAP + SWATCH;
    canvas_rectangle(page, right, baseline - TEXT, SWATCH, TEXT + 1, keys[count].colour);
    right -= APART;
  }
}

/* ---- axes ----------------------------------------------------------------------------------- */

enum { APART_UPRIGHT = 43, APART = 60, APART_LONG = 85 }; /* rough pixels from number to number */

static double number_of(const Axis *axis, double value) {
  return axis->logarithmic ? log10(value) : value;
}

static double place(const Axis *axis, double number) {
  return axis->from + (number - axis->low) / (axis->high - axis->low) * (axis->to - axis->from);
}

void axis_clear(Axis *axis) {
  axis->low = INFINITY;
  axis->high = -INFINITY;
  axis->fractions = false;
}

bool axis_include(Axis *axis, double value) {
  const double number = number_of(axis, value);
  if (!isfinite(number)) return false;
  axis->low = fmin(axis->low, number);
  axis->high = fmax(axis->high, number);
  axis->fractions |= value != floor(value);
  return true;
}

double axis_place(const Axis *axis, double value) {
  return place(axis, number_of(axis, value));
}

/* Draws a grid line and writes its value, if the axis reaches the value. */
static void draw_tick(Canvas *page, const Axis *a, double number, double value, bool fixed,
                      int digits) {
  enum { BEYOND = 6 };
  const double at = round(place(a, number));
  const ShortText text = text_format(fixed ? "%.*f" : "%.*g", digits, value);
  if (number < a->low || number > a->high) return;
  if (a->upright) {
    canvas_rectangle(page, a->near - BEYOND, at, a->far - a->near + BEYOND, 1, GRID);
    page_text(page, ENDS, a->near - 14, at + SMALL / 2.0, SMALL, PALE, text.text);
  } else {
    canvas_rectangle(page, at, a->far, 1, a->near - a->far + BEYOND, GRID);
    const double most = page->width - MARGIN - canvas_text_width(SMALL, text.text) / 2;
    page_text(page, CENTRED, fmin(at, most), a->near + 24, SMALL, PALE, text.text);
  }
}

/* Draws ticks at powers of ten. A short axis also has ticks in between, such as 20 and 50. */
static void draw_powers(Canvas *page, const Axis *axis, int wanted) {
  const double length = axis->high - axis->low;
  const int step = max_int(1, (int)ceil(length / wanted));
  for (int power = (int)floor(axis->low); power <= axis->high; power++)
    for (int digit = 1; digit < 10; digit++) {
      const double value = digit * pow(10, power), most = digit == 2 || digit == 5 ? 4 : 0.7;
      if (digit == 1 ? power % step == 0 : length < most)
        draw_tick(page, axis, log10(value), value, false, 10);
    }
}

/* Draws ticks at multiples of 1, 2 or 5 times a power of ten. Prints enough decimals to tell the
   numbers apart. */
static void draw_steps(Canvas *page, const Axis *axis, int wanted) {
  static const double steps[] = {1, 2, 5};
  const double least = (axis->high - axis->low) / wanted * (1 - 1e-9);
  const double power = pow(10, floor(log10(least))), part = least / power;
  double step = 10 * power;
  for (int i = 2; i >= 0; i--)
    if (part <= steps[i]) step = power * steps[i];
  if (!axis->fractions) step = fmax(step, 1);
  const int decimals = max_int(0, (int)-floor(log10(step) + 1e-9));
  for (double n = ceil(axis->low / step); n * step <= axis->high; n++)
    draw_tick(page, axis, n * step, n == 0 ? 0 : n * step, true, decimals);
}

static void draw_mark(Canvas *page, const Axis *a) {
  const double at = round(axis_place(a, a->mark));
  const bool fits = at + 8 + canvas_text_width(SMALL, a->mark_label) < page->width - MARGIN;
  canvas_rectangle(page, at - 1, a->far - 8, 2, a->near - a->far + 8, MARK);
  if (fits)
    page_text(page, STARTS, at + 8, a->far - 12, SMALL, MARK, a->mark_label);
  else
    page_text(page, ENDS, at - 8, a->far - 12, SMALL, MARK, a->mark_label);
}

void page_axis(Canvas *page, const Axis *axis) {
  int apart = axis->fractions ? APART_LONG : APART;
  if (axis->upright) apart = APART_UPRIGHT;
  const int size = max_int(axis->to - axis->from, axis->from - axis->to), wanted = size / apart;
  if (axis->logarithmic)
    draw_powers(page, axis, wanted);
  else
    draw_steps(page, axis, wanted);
  if (axis->upright) {
    canvas_rectangle(page, axis->near, min_int(axis->from, axis->to), 1, size, FAINT);
    page_text(page, STARTS, MARGIN, min_int(axis->from, axis->to) - 18, SMALL, PALE, axis->label);
  } else {
    canvas_rectangle(page, axis->from, axis->near, size, 1, FAINT);
    page_text(page, ENDS, axis->to, axis->near + 50, SMALL, PALE, axis->label);
  }
  if (axis->mark_label && isfinite(axis_place(axis, axis->mark))) draw_mark(page, axis);
}

/* ---- cells ---------------------------------------------------------------------------------- */

enum { TILE = 112, LINE_HEIGHT = 20, TILE_GAP = 24 };

static int tile_zoom(int side) {
  return (TILE + side - 1) / side;
}

Grid tile_grid(int left, int top, int width, int columns, int side, int lines) {
  return (Grid){left, top, width, side * tile_zoom(side) + lines * LINE_HEIGHT + TILE_GAP, columns};
}

void page_tile(Canvas *page, const Grid *grid, int i, const uint8_t *pixels, int side,
               const Key *lines, int count) {
  const int x = cell_x(grid, i), y = cell_y(grid, i), zoom = tile_zoom(side);
  canvas_greys(page, x, y, pixels, side, side, zoom);
  for (int l = 0; l < count; l++)
    page_text_within(page, STARTS, x, y + side * zoom + (l + 1) * LINE_HEIGHT, SMALL,
                     grid->width - TILE_GAP, lines[l].colour, lines[l].text);
}

/* ---- a chart of dots ---------------------------------------------------------------------- */

enum { DOT = 15, PITCH = 36, TOP = 112, FOOT = 74, GUTTER = 16, NUMBER = 110 };

void dot_chart_add(DotChart *chart, const char *label, double ms, Colour colour) {
  if (chart->count < DOT_CHART_MAX)
    chart->rows[chart->count++] = (DotChartRow){text_format("%s", label), ms, colour};
}

/* Returns an axis that starts below the smallest value. It ends early enough to leave room on the
   right for the text of the largest value. */
static Axis axis_of(const DotChart *chart) {
  double widest = 0;
  Axis axis = {.logarithmic = true,
               .label = "ms, logarithmic scale",
               .to = CHART_WIDTH - MARGIN - NUMBER,
               .near = TOP + chart->count * PITCH,
               .far = TOP};
  axis_clear(&axis);
  for (int i = 0; i < chart->count; i++) {
    axis_include(&axis, chart->rows[i].ms);
    widest = fmax(widest, canvas_text_width(TEXT, chart->rows[i].label.text));
  }
  axis.from = MARGIN + (int)widest + GUTTER;
  axis.low -= 0.2;
  axis.high = fmax(axis.high, axis.low + 0.5);
  return axis;
}

static void draw_row(Canvas *p, const Axis *axis, const DotChartRow *row, double middle) {
  const double x = axis_place(axis, row->ms), baseline = middle + TEXT / 2.0;
  page_text(p, ENDS, axis->from - GUTTER, baseline, TEXT, INK, row->label.text);
  canvas_rectangle(p, axis->from, middle, x - axis->from, 1, FAINT);
  canvas_line(p, x, middle + 0.5, x, middle + 0.5, DOT, row->colour);
  page_text(p, STARTS, x + DOT / 2.0 + 8, baseline, TEXT, INK,
            text_format("%s ms", text_of_number(row->ms).text).text);
}

bool dot_chart_draw(const DotChart *chart, const char *path, Error *error) {
  Canvas page;
  for (const DotChartRow *row = chart->rows; row < chart->rows + chart->count; row++)
    if (!(row->ms > 0) || isinf(row->ms))
      return error_set(error, "the row '%s' is %g: a logarithmic axis needs a number above 0",
                       row->label.text, row->ms);
  const Axis axis = axis_of(chart);
  if (!page_open(&page, chart->title, chart->subtitle, CHART_WIDTH, axis.near + FOOT, error))
    return false;
  page_axis(&page, &axis);
  for (int i = 0; i < chart->count; i++)
    draw_row(&page, &axis, &chart->rows[i], TOP + i * PITCH + 0.5 * PITCH);
  return page_save(&page, path, error);
}
