#include "plot/line_chart.h"

#include <math.h>

#include "plot/page.h"

static const Colour PALE_GRID = {232, 235, 239}, AXIS = {140, 149, 159};

enum { TOP = 92, LEFT = 110, RIGHT = CHART_WIDTH - 40 };
enum {
  PANEL = 480,
  PANEL_HEAD = 66,
  PANEL_FOOT = 70
};                                      /* heights; a panel's title is in its head */
enum { X_NUMBERS = 12, Y_NUMBERS = 8 }; /* at an axis, about */
enum { MANY_POINTS = 64 };              /* more are drawn without dots */
static const double LINE = 2.6, DOT = 7;

/* ---- the frame ------------------------------------------------------------------------------ */

/* Low above high: there is nothing. */
typedef struct {
  double low, high;
} Span;

static double on_axis(const CurveAxis *axis, double value) {
  return axis->logarithmic ? log10(value) : value;
}

static bool has_x(const CurvePanel *panel, const Curve *curve, int i) {
  return isfinite(on_axis(&panel->x, curve->x[i]));
}

static bool is_drawn(const CurvePanel *panel, const Curve *curve, int i) {
  return has_x(panel, curve, i) && isfinite(on_axis(&panel->y, curve->y[i]));
}

static bool has_mark(const CurvePanel *panel) {
  return isfinite(on_axis(&panel->y, panel->mark));
}

static void include(Span *span, double number) {
  span->low = fmin(span->low, number);
  span->high = fmax(span->high, number);
}

/* Returns the span of the points that are drawn. The x axis reaches over gaps. */
static Span span_of(const CurvePanel *panel, bool of_x) {
  Span span = {INFINITY, -INFINITY};
  for (const Curve *c = panel->curves; c < panel->curves + panel->count; c++)
    for (int i = 0; i < c->count; i++) {
      if (of_x && has_x(panel, c, i)) include(&span, on_axis(&panel->x, c->x[i]));
      if (!of_x && is_drawn(panel, c, i)) include(&span, on_axis(&panel->y, c->y[i]));
    }
  return span;
}

/* Leaves some air around the curves; no axis is shorter than its numbers can tell apart. */
static Span widen(Span span, const CurveAxis *axis, double air) {
  const bool from_zero = axis->from_zero && !axis->logarithmic;
  if (from_zero) include(&span, 0);
  if (span.high - span.low < 1e-9 * fmax(fabs(span.low), fabs(span.high)) ||
      span.high == span.low) {
    const double half = axis->logarithmic ? 0.15 : span.low != 0 ? 0.1 * fabs(span.low) : 1;
    return (Span){from_zero && span.low >= 0 ? 0 : span.low - half, span.high + half};
  }
  const double wider = air * (span.high - span.low);
  if (!(axis->from_zero && span.low == 0)) span.low -= wider;
  if (!(axis->from_zero && span.high == 0)) span.high += wider;
  return span;
}

typedef struct {
  Canvas *page;
  const CurvePanel *panel;
  Axis x, y;
} Frame;

static Frame frame_of(Canvas *page, const CurvePanel *panel, int top) {
  Span y = span_of(panel, false);
  if (has_mark(panel)) include(&y, on_axis(&panel->y, panel->mark));
  const Span x = widen(span_of(panel, true), &panel->x, 0.015);
  y = widen(y, &panel->y, 0.05);
  return (Frame){page,
                 panel,
                 {LEFT, RIGHT, x.low, x.high, panel->x.logarithmic},
                 {top + PANEL - PANEL_FOOT, top + PANEL_HEAD, y.low, y.high, panel->y.logarithmic}};
}

/* ---- axes ----------------------------------------------------------------------------------- */

static AxisNumbers x_numbers(const CurvePanel *panel) {
  bool whole = true, powers = true;
  for (const Curve *c = panel->curves; c < panel->curves + panel->count; c++)
    for (int i = 0; i < c->count; i++) {
      int exponent;
      if (!isfinite(c->x[i])) continue;
      whole &= c->x[i] == floor(c->x[i]);
      powers &= frexp(c->x[i], &exponent) == 0.5;
    }
  if (panel->x.logarithmic) return powers ? POWERS_OF_TWO : ANY_NUMBERS;
  return whole ? WHOLE_NUMBERS : ANY_NUMBERS;
}

static void draw_axes(const Frame *f) {
  const int top = f->y.to, bottom = f->y.from, width = RIGHT - LEFT, height = bottom - top;
  Tick ticks[AXIS_TICKS];
  int count = axis_ticks(&f->x, X_NUMBERS, x_numbers(f->panel), ticks);
  for (const Tick *t = ticks; t < ticks + count; t++) {
    canvas_rectangle(f->page, (int)lround(t->at), top, 1, height + 6, PALE_GRID);
    page_text(f->page, CENTRED, t->at, bottom + 24, SMALL, PALE, t->text);
  }
  count = axis_ticks(&f->y, Y_NUMBERS, ANY_NUMBERS, ticks);
  for (const Tick *t = ticks; t < ticks + count; t++) {
    canvas_rectangle(f->page, LEFT - 6, (int)lround(t->at), width + 6, 1, PALE_GRID);
    page_text(f->page, ENDS, LEFT - 14, t->at + SMALL / 2.0, SMALL, PALE, t->text);
  }
  canvas_rectangle(f->page, LEFT, bottom, width, 1, AXIS);
  canvas_rectangle(f->page, LEFT, top, 1, height, AXIS);
  page_text(f->page, ENDS, RIGHT, bottom + 50, SMALL, PALE, f->panel->x.label);
  page_text(f->page, STARTS, MARGIN, top - 18, SMALL, PALE, f->panel->y.label);
}

/* ---- curves --------------------------------------------------------------------------------- */

static void draw_curve(const Frame *f, const Curve *curve, Colour colour) {
  double last_x = NAN, last_y = NAN;
  for (int i = 0; i < curve->count; i++) {
    const bool drawn = is_drawn(f->panel, curve, i);
    const double x = drawn ? axis_place(&f->x, curve->x[i]) : (double)NAN;
    const double y = drawn ? axis_place(&f->y, curve->y[i]) : (double)NAN;
    if (drawn && isfinite(last_x)) canvas_line(f->page, last_x, last_y, x, y, LINE, colour);
    if (drawn && (curve->count <= MANY_POINTS || !isfinite(last_x)))
      canvas_line(f->page, x, y, x, y, DOT, colour);
    last_x = x;
    last_y = y;
  }
}

/* Draws a row that ends at the panel's right side, above its axes. */
static void draw_legend(const Frame *f) {
  enum { SWATCH = 26, GAP = 8, APART = 26 };
  const double baseline = f->y.to - 18, middle = baseline - TEXT / 2.0;
  double x = RIGHT;
  for (int c = f->panel->count - 1; c >= 0; c--) {
    page_text(f->page, ENDS, x, baseline, TEXT, INK, f->panel->curves[c].name);
    x -= canvas_text_width(TEXT, f->panel->curves[c].name) + GAP;
    canvas_line(f->page, x - SWATCH, middle, x, middle, LINE + 1, page_series[c]);
    x -= SWATCH + APART;
  }
}

static void draw_mark(const Frame *f) {
  const int y = (int)lround(axis_place(&f->y, f->panel->mark));
  canvas_rectangle(f->page, LEFT, y - 1, RIGHT - LEFT, 2, MARK);
  page_text(f->page, ENDS, RIGHT - 8, y - 8, SMALL, MARK, f->panel->mark_label);
}

static void draw_panel(Canvas *page, const CurvePanel *panel, int top) {
  const Frame f = frame_of(page, panel, top);
  if (panel->title && *panel->title)
    page_text(page, STARTS, MARGIN, f.y.to - 44, TEXT + 1, INK, panel->title);
  draw_axes(&f);
  if (has_mark(panel)) draw_mark(&f);
  for (int c = 0; c < panel->count; c++) draw_curve(&f, &panel->curves[c], page_series[c]);
  draw_legend(&f);
}

static bool check(const LineChart *chart, Error *error) {
  if (chart->count < 1 || chart->count > LINE_CHART_PANELS)
    return error_set(error, "a chart of %d panels: there must be 1 to %d", chart->count,
                     LINE_CHART_PANELS);
  for (const CurvePanel *panel = chart->panels; panel < chart->panels + chart->count; panel++) {
    if (panel->count < 1 || panel->count > LINE_CHART_MAX)
      return error_set(error, "a chart of %d curves: there must be 1 to %d", panel->count,
                       LINE_CHART_MAX);
    const Span y = span_of(panel, false);
    if (y.low > y.high)
      return error_set(error, "the chart '%s' has no point to draw", chart->title);
  }
  return true;
}

bool line_chart_draw(const LineChart *chart, const char *path, Error *error) {
  Canvas page;
  if (!check(chart, error) || !page_open(&page, chart->title, chart->subtitle, CHART_WIDTH,
                                         TOP + chart->count * PANEL, error))
    return false;
  for (int i = 0; i < chart->count; i++) draw_panel(&page, &chart->panels[i], TOP + i * PANEL);
  return page_save(&page, path, error);
}
