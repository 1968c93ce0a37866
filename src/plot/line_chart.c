#include "plot/line_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

CurvePanel *line_chart_panel(LineChart *chart, const char *key) {
  CurvePanel *panel = chart->panels, *behind = panel + chart->count;
  while (panel < behind && strcmp(panel->key.text, key) != 0) panel++;
  if (panel < behind) return panel;
  if (chart->count == LINE_CHART_PANELS) return NULL;
  chart->count++;
  *panel = (CurvePanel){.key = text_format("%s", key)};
  axis_clear(&panel->y);
  return panel;
}

int line_chart_curve(CurvePanel *panel, const char *name) {
  int c = 0;
  while (c < panel->count && strcmp(panel->curves[c].text, name) != 0) c++;
  if (c == panel->count && c < LINE_CHART_MAX)
    panel->curves[panel->count++] = text_format("%s", name);
  return c;
}

/* The array's room is the power of two that its count has reached. */
void line_chart_add(LineChart *chart, CurvePanel *panel, int curve, double x, double y) {
  const size_t count = chart->point_count;
  if (curve == LINE_CHART_MAX) return;
  if ((count & (count - 1)) == 0) {
    CurvePoint *more = realloc(chart->points, (count ? 2 * count : 1) * sizeof *more);
    chart->no_memory |= !more;
    if (!more) return;
    chart->points = more;
  }
  chart->points[chart->point_count++] = (CurvePoint){panel, curve, x, y};
  axis_include(&panel->y, y);
}

const CurvePoint *line_chart_next(const LineChart *chart, const CurvePoint *p,
                                  const CurvePanel *panel, int curve) {
  for (p = p ? p + 1 : chart->points; p < chart->points + chart->point_count; p++)
    if (p->panel == panel && p->curve == curve) return p;
  return NULL;
}

bool line_chart_far_apart(const CurvePanel *panel, double beside) {
  static const double FAR = 20;
  return panel->y.low > 0 && fmax(panel->y.high, beside) > FAR * panel->y.low;
}

void line_chart_close(LineChart *chart) {
  free(chart->points);
  *chart = (LineChart){0};
}
