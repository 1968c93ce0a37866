#include "plot/dot_chart.h"

#include <math.h>
#include <stdio.h>

static const Colour PAPER = {255, 255, 255}, INK = {31, 35, 40}, PALE = {110, 119, 129},
                    GRID = {225, 228, 232}, LEADER = {201, 207, 213}, MARK = {209, 36, 47};

enum { MARGIN = 28, DOT = 15, PITCH = 36, HEAD = 112, FOOT = 74, GUTTER = 16 };
enum { TITLE = 20, TEXT = 13, SMALL = 12 }; /* heights of capitals */

typedef struct {
  int left, right, top, bottom; /* of the area of the dots, in pixels */
  double low, high;             /* of the axis, logarithms to base 10 */
} Frame;

static int x_of(const Frame *f, double value) {
  return f->left + (int)lround((log10(value) - f->low) / (f->high - f->low) * (f->right - f->left));
}

/* Three digits where that makes sense: "6.12", "44.3", "1347". */
static void format_value(double value, char *text, size_t size) {
  snprintf(text, size, "%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
}

static double widest_label(const DotChart *chart) {
  double widest = 0;
  for (int i = 0; i < chart->count; i++)
    widest = fmax(widest, canvas_text_width(TEXT, chart->rows[i].label));
  return widest;
}

/* The axis starts below the smallest value; its end leaves room for the largest value's number. */
static Frame frame_of(const DotChart *chart) {
  double low = chart->rows[0].value, high = low;
  for (int i = 1; i < chart->count; i++) {
    low = fmin(low, chart->rows[i].value);
    high = fmax(high, chart->rows[i].value);
  }
  if (chart->mark > 0) low = fmin(low, chart->mark);
  Frame f = {.left = MARGIN + (int)widest_label(chart) + GUTTER,
             .right = DOT_CHART_WIDTH - MARGIN - 110,
             .top = HEAD,
             .bottom = HEAD + chart->count * PITCH};
  f.low = log10(low / 1.6);
  f.high = fmax(log10(high), f.low + 0.5);
  return f;
}

static void draw_tick(Canvas *p, const Frame *f, double value) {
  const double logarithm = log10(value);
  if (logarithm < f->low || logarithm > f->high) return;
  const int x = x_of(f, value);
  char text[32];
  snprintf(text, sizeof text, "%g", value);
  canvas_rectangle(p, x, f->top, 1, f->bottom - f->top + 6, GRID);
  canvas_text(p, x - canvas_text_width(SMALL, text) / 2, f->bottom + 24, SMALL, text, PALE);
}

/* Lines at 1, 2 and 5 times the powers of ten; at the powers alone where there are many. */
static void draw_axis(Canvas *p, const DotChart *chart, const Frame *f) {
  const bool many = f->high - f->low > 4;
  for (int power = (int)floor(f->low); power <= (int)ceil(f->high); power++) {
    draw_tick(p, f, pow(10, power));
    if (many) continue;
    draw_tick(p, f, 2 * pow(10, power));
    draw_tick(p, f, 5 * pow(10, power));
  }
  char text[128];
  snprintf(text, sizeof text, "%s, logarithmic scale", chart->unit);
  canvas_text(p, f->right - canvas_text_width(SMALL, text), f->bottom + 54, SMALL, text, PALE);
}

static void draw_mark(Canvas *p, const DotChart *chart, const Frame *f) {
  if (chart->mark <= 0) return;
  const int x = x_of(f, chart->mark);
  canvas_rectangle(p, x - 1, f->top - 8, 2, f->bottom - f->top + 8, MARK);
  const double width = canvas_text_width(SMALL, chart->mark_label);
  const double left = fmin(x + 8, DOT_CHART_WIDTH - MARGIN - width);
  canvas_text(p, left, f->top - 12, SMALL, chart->mark_label, MARK);
}

static void draw_row(Canvas *p, const DotChart *chart, const Frame *f, int i) {
  const DotChartRow *row = &chart->rows[i];
  const int middle = f->top + i * PITCH + PITCH / 2, baseline = middle + TEXT / 2;
  const int x = x_of(f, row->value);
  char number[32], text[96];
  format_value(row->value, number, sizeof number);
  snprintf(text, sizeof text, "%s %s", number, chart->unit);
  canvas_text(p, f->left - GUTTER - canvas_text_width(TEXT, row->label), baseline, TEXT, row->label,
              INK);
  canvas_rectangle(p, f->left, middle, x - f->left, 1, LEADER);
  canvas_line(p, x, middle + 0.5, x, middle + 0.5, DOT, row->colour);
  canvas_text(p, x + DOT / 2.0 + 8, baseline, TEXT, text, INK);
}

bool dot_chart_draw(const DotChart *chart, Canvas *picture, Error *error) {
  if (chart->count < 1 || chart->count > DOT_CHART_MAX)
    return error_set(error, "a chart of %d rows: there must be 1 to %d", chart->count,
                     DOT_CHART_MAX);
  for (int i = 0; i < chart->count; i++)
    if (!(chart->rows[i].value > 0) || isinf(chart->rows[i].value))
      return error_set(error, "the row '%s' is %g: a logarithmic axis needs a number above 0",
                       chart->rows[i].label, chart->rows[i].value);
  const Frame frame = frame_of(chart);
  if (!canvas_open(picture, DOT_CHART_WIDTH, frame.bottom + FOOT, PAPER, error)) return false;
  canvas_text_within(picture, MARGIN, 44, TITLE, DOT_CHART_WIDTH - 2 * MARGIN, chart->title, INK);
  canvas_text_within(picture, MARGIN, 74, TEXT, DOT_CHART_WIDTH - 2 * MARGIN, chart->subtitle,
                     PALE);
  draw_axis(picture, chart, &frame);
  draw_mark(picture, chart, &frame); /* a dot on it must be seen */
  for (int i = 0; i < chart->count; i++) draw_row(picture, chart, &frame, i);
  return true;
}
