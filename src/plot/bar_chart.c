#include "plot/bar_chart.h"

#include <math.h>
#include <stdio.h>

static const Colour PAPER = {255, 255, 255}, INK = {31, 35, 40}, PALE = {110, 119, 129},
                    GRID = {225, 228, 232}, MARK = {209, 36, 47};

enum { MARGIN = 28, BAR = 24, PITCH = 36, HEAD = 112, FOOT = 74, GUTTER = 16 };
enum { TITLE = 20, TEXT = 13, SMALL = 12 }; /* heights of capitals */

typedef struct {
  int left, right, top, bottom; /* of the area of the bars, in pixels */
  double low, high;             /* of the axis, logarithms to base 10 */
} Frame;

static int x_of(const Frame *f, double value) {
  return f->left + (int)lround((log10(value) - f->low) / (f->high - f->low) * (f->right - f->left));
}

/* Three digits where that makes sense: "6.12", "44.3", "1347". */
static void format_value(double value, char *text, size_t size) {
  snprintf(text, size, "%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
}

static double widest_label(const BarChart *chart) {
  double widest = 0;
  for (int i = 0; i < chart->count; i++)
    widest = fmax(widest, canvas_text_width(TEXT, chart->bars[i].label));
  return widest;
}

/* The axis starts below the smallest value, so that every bar has a length; its end leaves room
   for the largest value's number. */
static Frame frame_of(const BarChart *chart) {
  double low = chart->bars[0].value, high = low;
  for (int i = 1; i < chart->count; i++) {
    low = fmin(low, chart->bars[i].value);
    high = fmax(high, chart->bars[i].value);
  }
  if (chart->mark > 0) low = fmin(low, chart->mark);
  Frame f = {.left = MARGIN + (int)widest_label(chart) + GUTTER,
             .right = BAR_CHART_WIDTH - MARGIN - 110,
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
static void draw_axis(Canvas *p, const BarChart *chart, const Frame *f) {
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

static void draw_mark(Canvas *p, const BarChart *chart, const Frame *f) {
  if (chart->mark <= 0) return;
  const int x = x_of(f, chart->mark);
  canvas_rectangle(p, x - 1, f->top - 8, 2, f->bottom - f->top + 8, MARK);
  canvas_text(p, x + 8, f->top - 8, SMALL, chart->mark_label, MARK);
}

static void draw_bar(Canvas *p, const BarChart *chart, const Frame *f, int i) {
  const BarChartBar *bar = &chart->bars[i];
  const int top = f->top + i * PITCH + (PITCH - BAR) / 2, baseline = top + (BAR + TEXT) / 2;
  const int end = x_of(f, bar->value);
  char number[32], text[96];
  format_value(bar->value, number, sizeof number);
  snprintf(text, sizeof text, "%s %s", number, chart->unit);
  canvas_text(p, f->left - GUTTER - canvas_text_width(TEXT, bar->label), baseline, TEXT, bar->label,
              INK);
  canvas_rectangle(p, f->left, top, end - f->left, BAR, bar->colour);
  canvas_text(p, end + 8, baseline, TEXT, text, INK);
}

bool bar_chart_draw(const BarChart *chart, Canvas *picture, Error *error) {
  if (chart->count < 1 || chart->count > CHART_MAX_BARS)
    return error_set(error, "a chart of %d bars: there must be 1 to %d", chart->count,
                     CHART_MAX_BARS);
  for (int i = 0; i < chart->count; i++)
    if (!(chart->bars[i].value > 0) || isinf(chart->bars[i].value))
      return error_set(error, "the bar '%s' is %g: a logarithmic axis needs a number above 0",
                       chart->bars[i].label, chart->bars[i].value);
  const Frame frame = frame_of(chart);
  if (!canvas_open(picture, BAR_CHART_WIDTH, frame.bottom + FOOT, PAPER, error)) return false;
  canvas_text(picture, MARGIN, 44, TITLE, chart->title, INK);
  canvas_text(picture, MARGIN, 74, TEXT, chart->subtitle, PALE);
  draw_axis(picture, chart, &frame);
  for (int i = 0; i < chart->count; i++) draw_bar(picture, chart, &frame, i);
  draw_mark(picture, chart, &frame);
  return true;
}
