#include "plot/line_chart.h"

#include <math.h>
#include <stdio.h>

static const Colour PAPER = {255, 255, 255}, INK = {31, 35, 40}, PALE = {110, 119, 129},
                    GRID = {232, 235, 239}, AXIS = {140, 149, 159}, MARK = {209, 36, 47};

/* Distinct also for those who see no red or no green: after Okabe and Ito (2008). */
static const Colour PALETTE[LINE_CHART_MAX] = {{0, 114, 178},   {213, 94, 0},   {0, 158, 115},
                                               {204, 121, 167}, {86, 180, 233}, {230, 159, 0},
                                               {90, 90, 90},    {140, 86, 75}};

enum { MARGIN = 28, HEAD = 92, LEFT = 110, RIGHT = 40 };
enum { TITLE = 20, TEXT = 13, SMALL = 12 }; /* heights of capitals */
enum { PANEL_HEAD = 66, PANEL_FOOT = 70 };
enum { X_NUMBERS = 12, Y_NUMBERS = 8 }; /* at an axis, about */
enum { MANY_POINTS = 64 };              /* more are drawn without dots */
static const double LINE = 2.6, DOT = 7;

Colour line_chart_colour(int index) {
  return PALETTE[index % LINE_CHART_MAX];
}

/* ---- the frame ------------------------------------------------------------------------------ */

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

/* Of the points that are drawn, low above high if there is none. The x axis reaches over gaps. */
static Span span_of(const CurvePanel *panel, bool of_x) {
  Span span = {INFINITY, -INFINITY};
  for (int c = 0; c < panel->count; c++)
    for (int i = 0; i < panel->curves[c].count; i++) {
      const Curve *curve = &panel->curves[c];
      if (of_x ? !has_x(panel, curve, i) : !is_drawn(panel, curve, i)) continue;
      const double at = of_x ? on_axis(&panel->x, curve->x[i]) : on_axis(&panel->y, curve->y[i]);
      span.low = fmin(span.low, at);
      span.high = fmax(span.high, at);
    }
  return span;
}

/* The smallest of 1, 2, 5 times a power of ten that is at least `least`. */
static double round_step(double least) {
  const double power = pow(10, floor(log10(least)));
  for (int i = 0; i < 3; i++) {
    const double step = power * (double[]){1, 2, 5}[i];
    if (step >= least * (1 - 1e-9)) return step;
  }
  return 10 * power;
}

/* Some air around the curves; no axis is shorter than its numbers can tell apart. */
static Span widen(Span span, const CurveAxis *axis, bool of_x) {
  if (axis->from_zero && !axis->logarithmic) {
    span.low = fmin(span.low, 0);
    span.high = fmax(span.high, 0);
  }
  if (span.high - span.low < 1e-9 * fmax(fabs(span.low), fabs(span.high)) ||
      span.high == span.low) {
    const double half = axis->logarithmic ? 0.15 : span.low != 0 ? 0.1 * fabs(span.low) : 1;
    return (Span){axis->from_zero && !axis->logarithmic && span.low >= 0 ? 0 : span.low - half,
                  span.high + half};
  }
  const double air = (of_x ? 0.015 : 0.05) * (span.high - span.low);
  if (!(axis->from_zero && span.low == 0)) span.low -= air;
  if (!(axis->from_zero && span.high == 0)) span.high += air;
  return span;
}

CurveFrame line_chart_frame(const LineChart *curves, int panel) {
  const CurvePanel *p = &curves->panels[panel];
  const int top = HEAD + panel * LINE_CHART_PANEL;
  Span y = span_of(p, false);
  if (isfinite(p->mark) && isfinite(on_axis(&p->y, p->mark))) {
    y.low = fmin(y.low, on_axis(&p->y, p->mark));
    y.high = fmax(y.high, on_axis(&p->y, p->mark));
  }
  const Span x = widen(span_of(p, true), &p->x, true);
  y = widen(y, &p->y, false);
  return (CurveFrame){LEFT,
                      LINE_CHART_WIDTH - RIGHT,
                      top + PANEL_HEAD,
                      top + LINE_CHART_PANEL - PANEL_FOOT,
                      x.low,
                      x.high,
                      y.low,
                      y.high};
}

static double x_of(const CurveFrame *f, double at) {
  return f->left + (at - f->x_low) / (f->x_high - f->x_low) * (f->right - f->left);
}

static double y_of(const CurveFrame *f, double at) {
  return f->bottom - (at - f->y_low) / (f->y_high - f->y_low) * (f->bottom - f->top);
}

/* ---- axes ----------------------------------------------------------------------------------- */

static void draw_x_number(Canvas *p, const CurveFrame *f, double at, const char *text) {
  if (at < f->x_low || at > f->x_high) return;
  const double x = x_of(f, at);
  canvas_rectangle(p, (int)lround(x), f->top, 1, f->bottom - f->top + 6, GRID);
  canvas_text(p, x - canvas_text_width(SMALL, text) / 2, f->bottom + 24, SMALL, text, PALE);
}

static void draw_y_number(Canvas *p, const CurveFrame *f, double at, const char *text) {
  if (at < f->y_low || at > f->y_high) return;
  const double y = y_of(f, at);
  canvas_rectangle(p, f->left - 6, (int)lround(y), f->right - f->left + 6, 1, GRID);
  canvas_text(p, f->left - 14 - canvas_text_width(SMALL, text), y + SMALL / 2.0, SMALL, text, PALE);
}

typedef void DrawNumber(Canvas *p, const CurveFrame *f, double at, const char *text);

/* Between powers of ten go 2 and 5 where there is room. */
static void draw_decades(Canvas *p, const CurveFrame *f, Span span, int numbers, DrawNumber *draw) {
  const double decades = span.high - span.low;
  const int step = (int)fmax(1, ceil(decades / numbers));
  for (int power = (int)floor(span.low); power <= (int)ceil(span.high); power++)
    for (int digit = 1; digit <= 9; digit++) {
      const bool wanted = digit == 1   ? power % step == 0
                          : digit == 2 ? decades < 4
                          : digit == 5 ? decades < 4
                                       : decades < 0.7;
      char text[32];
      const double value = digit * pow(10, power);
      snprintf(text, sizeof text, "%g", value);
      if (wanted) draw(p, f, log10(value), text);
    }
}

/* As many decimals as tell one step from the next. */
static void draw_steps(Canvas *p, const CurveFrame *f, Span span, int numbers, bool whole,
                       DrawNumber *draw) {
  double step = round_step((span.high - span.low) / numbers);
  if (whole) step = fmax(step, 1);
  const int decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
  for (double n = ceil(span.low / step); n * step <= span.high; n++) {
    char text[32];
    snprintf(text, sizeof text, "%.*f", decimals, n == 0 ? 0 : n * step);
    draw(p, f, n * step, text);
  }
}

/* All x of the panel are whole numbers; or powers of two. */
static bool all_x(const CurvePanel *panel, bool powers_of_two) {
  for (int c = 0; c < panel->count; c++)
    for (int i = 0; i < panel->curves[c].count; i++) {
      const double x = panel->curves[c].x[i];
      int exponent;
      if (isfinite(x) && (powers_of_two ? frexp(x, &exponent) != 0.5 : x != floor(x))) return false;
    }
  return true;
}

static void draw_powers_of_two(Canvas *p, const CurveFrame *f) {
  const int first = (int)ceil(f->x_low / log10(2)), last = (int)floor(f->x_high / log10(2));
  const int step = 1 + (last - first) / 16;
  for (int power = first; power <= last; power += step) {
    char text[32];
    snprintf(text, sizeof text, "%.10g", ldexp(1, power));
    draw_x_number(p, f, power * log10(2), text);
  }
}

static void draw_axes(Canvas *p, const CurvePanel *panel, const CurveFrame *f) {
  const Span x = {f->x_low, f->x_high}, y = {f->y_low, f->y_high};
  if (panel->x.logarithmic && all_x(panel, true))
    draw_powers_of_two(p, f);
  else if (panel->x.logarithmic)
    draw_decades(p, f, x, X_NUMBERS, draw_x_number);
  else
    draw_steps(p, f, x, X_NUMBERS, all_x(panel, false), draw_x_number);
  if (panel->y.logarithmic)
    draw_decades(p, f, y, Y_NUMBERS, draw_y_number);
  else
    draw_steps(p, f, y, Y_NUMBERS, false, draw_y_number);
  canvas_rectangle(p, f->left, f->bottom, f->right - f->left, 1, AXIS);
  canvas_rectangle(p, f->left, f->top, 1, f->bottom - f->top, AXIS);
  canvas_text(p, f->right - canvas_text_width(SMALL, panel->x.label), f->bottom + 50, SMALL,
              panel->x.label, PALE);
  canvas_text(p, MARGIN, f->top - 18, SMALL, panel->y.label, PALE);
}

/* ---- curves --------------------------------------------------------------------------------- */

static void draw_curve(Canvas *p, const CurvePanel *panel, const CurveFrame *f, int index) {
  const Curve *curve = &panel->curves[index];
  const Colour colour = line_chart_colour(index);
  double last_x = NAN, last_y = NAN;
  for (int i = 0; i < curve->count; i++) {
    const bool drawn = is_drawn(panel, curve, i);
    const double x = drawn ? x_of(f, on_axis(&panel->x, curve->x[i])) : (double)NAN;
    const double y = drawn ? y_of(f, on_axis(&panel->y, curve->y[i])) : (double)NAN;
    if (drawn && isfinite(last_x)) canvas_line(p, last_x, last_y, x, y, LINE, colour);
    if (drawn && (curve->count <= MANY_POINTS || !isfinite(last_x)))
      canvas_line(p, x, y, x, y, DOT, colour);
    last_x = x;
    last_y = y;
  }
}

/* In a row that ends at the panel's right side, above its axes. */
static void draw_legend(Canvas *p, const CurvePanel *panel, const CurveFrame *f) {
  enum { SWATCH = 26, GAP = 8, APART = 26 };
  double x = f->right;
  for (int c = panel->count - 1; c >= 0; c--) {
    const double baseline = f->top - 18;
    x -= canvas_text_width(TEXT, panel->curves[c].name);
    canvas_text(p, x, baseline, TEXT, panel->curves[c].name, INK);
    x -= GAP;
    canvas_line(p, x - SWATCH, baseline - TEXT / 2.0, x, baseline - TEXT / 2.0, LINE + 1,
                line_chart_colour(c));
    x -= SWATCH + APART;
  }
}

static void draw_mark(Canvas *p, const CurvePanel *panel, const CurveFrame *f) {
  const double at = on_axis(&panel->y, panel->mark);
  if (!isfinite(panel->mark) || !isfinite(at)) return;
  const int y = (int)lround(y_of(f, at));
  canvas_rectangle(p, f->left, y - 1, f->right - f->left, 2, MARK);
  canvas_text(p, f->right - 8 - canvas_text_width(SMALL, panel->mark_label), y - 8, SMALL,
              panel->mark_label, MARK);
}

static void draw_panel(Canvas *p, const LineChart *curves, int index) {
  const CurvePanel *panel = &curves->panels[index];
  const CurveFrame frame = line_chart_frame(curves, index);
  if (panel->title && *panel->title)
    canvas_text(p, MARGIN, frame.top - 44, TEXT + 1, panel->title, INK);
  draw_axes(p, panel, &frame);
  draw_mark(p, panel, &frame);
  for (int c = 0; c < panel->count; c++) draw_curve(p, panel, &frame, c);
  draw_legend(p, panel, &frame);
}

bool line_chart_draw(const LineChart *curves, Canvas *picture, Error *error) {
  if (curves->count < 1 || curves->count > LINE_CHART_PANELS)
    return error_set(error, "a chart of %d panels: there must be 1 to %d", curves->count,
                     LINE_CHART_PANELS);
  for (int i = 0; i < curves->count; i++) {
    const CurvePanel *panel = &curves->panels[i];
    if (panel->count < 1 || panel->count > LINE_CHART_MAX)
      return error_set(error, "a chart of %d curves: there must be 1 to %d", panel->count,
                       LINE_CHART_MAX);
    const Span y = span_of(panel, false);
    if (y.low > y.high)
      return error_set(error, "the chart '%s' has no point to draw", curves->title);
  }
  if (!canvas_open(picture, LINE_CHART_WIDTH, HEAD + curves->count * LINE_CHART_PANEL, PAPER,
                   error))
    return false;
  canvas_text_within(picture, MARGIN, 44, TITLE, LINE_CHART_WIDTH - 2 * MARGIN, curves->title, INK);
  canvas_text_within(picture, MARGIN, 74, TEXT, LINE_CHART_WIDTH - 2 * MARGIN, curves->subtitle,
                     PALE);
  for (int i = 0; i < curves->count; i++) draw_panel(picture, curves, i);
  return true;
}
