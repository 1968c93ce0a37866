#include "plot/line_chart.h"

#include <math.h>

#include "base/sizes.h"

enum { TOP = 92, LEFT = 110, RIGHT = CHART_WIDTH - 40 };
enum { PANEL = 480, PANEL_HEAD = 66, PANEL_FOOT = 70 }; /* heights; a title is in the head */
enum { MANY_POINTS = 64 };                              /* more are drawn without dots */
static const double LINE = 2.6, THIN = 0.8, DOT = 7;

/* Leaves some air around the values; no axis is shorter than its numbers can tell apart. */
static void widen(Axis *axis, double air) {
  if (axis->from_zero) axis_include(axis, 0);
  const double low = axis->low, high = axis->high, length = high - low;
  double more = air * length;
  if (length <= 1e-9 * fmax(fabs(low), fabs(high)))
    more = axis->logarithmic ? 0.15 : low != 0 ? 0.1 * fabs(low) : 1;
  if (!axis->from_zero || low != 0) axis->low -= more;
  if (!axis->from_zero || high != 0 || low == 0) axis->high += more;
}

/* Places the axes of a panel around the points that are drawn; the x axis reaches over gaps.
   Returns false if there is no point. */
static bool set_axes(CurvePanel *panel, int top) {
  Axis *x = &panel->x, *y = &panel->y;
  y->upright = true;
  y->near = x->from = LEFT;
  y->far = x->to = RIGHT;
  y->to = x->far = top + PANEL_HEAD;
  y->from = x->near = top + PANEL - PANEL_FOOT;
  axis_clear(x);
  axis_clear(y);
  for (const Curve *c = panel->curves; c < panel->curves + panel->count; c++)
    for (int i = 0; i < c->count; i++)
      if (axis_include(x, c->x[i])) axis_include(y, c->y[i]);
  if (y->low > y->high) return false;
  if (y->mark_label) axis_include(y, y->mark);
  widen(x, 0.015);
  widen(y, 0.05);
  return true;
}

static void draw_curve(Canvas *page, const CurvePanel *panel, const Curve *curve, Colour colour) {
  double last_x = NAN, last_y = NAN;
  for (int i = 0; i < curve->count; i++) {
    const double x = axis_place(&panel->x, curve->x[i]), y = axis_place(&panel->y, curve->y[i]);
    const bool drawn = isfinite(x + y), follows = isfinite(last_x + last_y);
    if (drawn && follows)
      canvas_line(page, last_x, last_y, x, y, curve->name ? LINE : THIN, colour);
    if (drawn && curve->name && (curve->count <= MANY_POINTS || !follows))
      canvas_line(page, x, y, x, y, DOT, colour);
    last_x = x;
    last_y = y;
  }
}

static void draw_panel(Canvas *page, const CurvePanel *panel) {
  Key keys[LINE_CHART_MAX];
  if (panel->title) page_text(page, STARTS, MARGIN, panel->y.to - 44, TEXT + 1, INK, panel->title);
  page_axis(page, &panel->x);
  page_axis(page, &panel->y);
  int thick = 0;
  while (thick < panel->count && panel->curves[thick].name) thick++;
  for (int c = panel->count - 1; c >= 0; c--) { /* the first curve lies over the others */
    keys[c] = (Key){page_series[c % max_int(1, thick)], panel->curves[c].name};
    draw_curve(page, panel, &panel->curves[c], keys[c].colour);
  }
  page_legend(page, RIGHT, panel->y.to - 44, keys, thick);
}

bool line_chart_draw(const LineChart *chart, const char *path, Error *error) {
  CurvePanel panels[LINE_CHART_PANELS];
  Canvas page;
  for (int i = 0; i < chart->count; i++) {
    panels[i] = chart->panels[i];
    if (!set_axes(&panels[i], TOP + i * PANEL))
      return error_set(error, "the chart '%s' has no point to draw", chart->title);
  }
  if (!page_open(&page, chart->title, chart->subtitle, CHART_WIDTH, TOP + chart->count * PANEL,
                 error))
    return false;
  for (int i = 0; i < chart->count; i++) draw_panel(&page, &panels[i]);
  return page_save(&page, path, error);
}
