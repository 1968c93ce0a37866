#include "plot/line_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

CurvePanel *line_chart_panel(LineChart *chart, const char *title) {
  CurvePanel *panel = &chart->panels[chart->count++];
  *panel = (CurvePanel){.title = title};
  axis_clear(&panel->y);
  return panel;
}

int line_chart_curve(CurvePanel *panel, const char *name) {
  int c = 0;
  while (c < panel->count && strcmp(panel->curves[c], name) != 0) c++;
  if (c == panel->count) panel->curves[panel->count++] = name;
  return c;
}

/* The array's room is the power of two that its count has reached. */
void line_chart_add(LineChart *chart, CurvePanel *panel, int curve, double x, double y) {
  const size_t count = chart->point_count;
  if ((count & (count - 1)) == 0) {
    CurvePoint *more = realloc(chart->points, (count ? 2 * count : 1) * sizeof *more);
    chart->no_memory |= !more;
    if (!more) return;
    chart->points = more;
  }
  chart->points[chart->point_count++] = (CurvePoint){panel, curve, x, y};
  axis_include(&panel->y, y);
}

bool line_chart_far_apart(const CurvePanel *panel) {
  static const double FAR = 20;
  return panel->y.low > 0 && panel->y.high > FAR * panel->y.low;
}

/* ---- drawing ------------------------------------------------------------------------------ */

enum { TOP = 92, LEFT = 110, RIGHT = CHART_WIDTH - 40 };
enum { PANEL = 480, PANEL_HEAD = 66, PANEL_FOOT = 70 }; /* heights; a title is in the head */
enum { MANY_POINTS = 256 };                             /* more are drawn without dots */
static const double LINE = 2.6, THIN = 0.8, DOT = 7;

/* Leaves some air around the values; no axis is shorter than its numbers can tell apart. */
static void widen(Axis *axis, double air) {
  const double low = axis->low, high = axis->high, length = high - low;
  double more = air * length;
  if (length <= 1e-9 * fmax(fabs(low), fabs(high)))
    more = axis->logarithmic ? 0.15 : low != 0 ? 0.1 * fabs(low) : 1;
  axis->low -= more;
  axis->high += more;
}

/* Places the axes of a panel around the points that are drawn; the x axis reaches over gaps.
   Returns false if there is no point. */
static bool set_axes(const LineChart *chart, CurvePanel *panel, int top) {
  Axis *x = &panel->x, *y = &panel->y;
  y->upright = true;
  y->near = x->from = LEFT;
  y->far = x->to = RIGHT;
  y->to = x->far = top + PANEL_HEAD;
  y->from = x->near = top + PANEL - PANEL_FOOT;
  axis_clear(x);
  axis_clear(y);
  for (const CurvePoint *p = chart->points; p < chart->points + chart->point_count; p++)
    if (p->panel == panel && axis_include(x, p->x)) axis_include(y, p->y);
  if (y->low > y->high) return false;
  widen(x, 0.015);
  widen(y, 0.05);
  return true;
}

static void draw_curve(Canvas *page, const LineChart *chart, const CurvePanel *panel, int curve) {
  const bool is_thin = curve < 0, dotted = !is_thin && chart->point_count <= MANY_POINTS;
  const Colour colour = page_series[is_thin ? ~curve : curve];
  double last_x = NAN, last_y = NAN;
  for (const CurvePoint *p = chart->points; p < chart->points + chart->point_count; p++) {
    if (p->panel != panel || p->curve != curve) continue;
    const double x = axis_place(&panel->x, p->x), y = axis_place(&panel->y, p->y);
    const bool drawn = isfinite(x + y), follows = isfinite(last_x + last_y);
    if (drawn && follows) canvas_line(page, last_x, last_y, x, y, is_thin ? THIN : LINE, colour);
    if (drawn && (dotted || (!is_thin && !follows))) canvas_line(page, x, y, x, y, DOT, colour);
    last_x = x;
    last_y = y;
  }
}

/* The first curve lies over the others, and all lie over thin ones. */
static void draw_panel(Canvas *page, const LineChart *chart, const CurvePanel *panel) {
  const int count = panel->count;
  Key keys[LINE_CHART_MAX];
  if (panel->title) page_text(page, STARTS, MARGIN, panel->y.to - 44, TEXT + 1, INK, panel->title);
  page_axis(page, &panel->x);
  page_axis(page, &panel->y);
  for (int c = 0; c < count; c++) keys[c] = (Key){page_series[c], panel->curves[c]};
  for (int c = -count; c < 0; c++) draw_curve(page, chart, panel, c);
  for (int c = count - 1; c >= 0; c--) draw_curve(page, chart, panel, c);
  page_legend(page, RIGHT, panel->y.to - 44, keys, count);
}

static bool draw(LineChart *chart, const char *path, Error *error) {
  const CurvePanel *shown[LINE_CHART_PANELS];
  int count = 0;
  Canvas page;
  if (chart->no_memory)
    return error_set(error, "no memory for the points of the chart '%s'", chart->title);
  for (CurvePanel *panel = chart->panels; panel < chart->panels + chart->count; panel++)
    if (set_axes(chart, panel, TOP + count * PANEL)) shown[count++] = panel;
  if (count == 0) return error_set(error, "nothing that %s would show is a finite number", path);
  if (!page_open(&page, chart->title, chart->subtitle, CHART_WIDTH, TOP + count * PANEL, error))
    return false;
  for (int i = 0; i < count; i++) draw_panel(&page, chart, shown[i]);
  return page_save(&page, path, error);
}

bool line_chart_draw(LineChart *chart, const char *path, Error *error) {
  const bool good = draw(chart, path, error);
  free(chart->points);
  *chart = (LineChart){0};
  return good;
}
