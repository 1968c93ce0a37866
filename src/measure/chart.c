#include "measure/chart.h"

#include <string.h>

CurveSet *curves_set(Curves *curves, const char *title, double end) {
  CurveSet *set = curves->sets, *behind = set + curves->count;
  while (set < behind && (strcmp(set->title.text, title) != 0 || set->end != end)) set++;
  if (set < behind) return set;
  if (curves->count == LINE_CHART_PANELS) return NULL;
  curves->count++;
  set->title = table_cell("%s", title);
  set->end = end;
  return set;
}

void curves_add(CurveSet *set, const char *name, double x, double y) {
  int c = 0;
  while (c < set->count && strcmp(set->names[c].text, name) != 0) c++;
  if (c == LINE_CHART_MAX) return;
  Curve *curve = &set->curves[c];
  if (c == set->count) {
    set->names[c] = table_cell("%s", name);
    *curve = (Curve){set->names[c].text, set->x[c], set->y[c], 0};
    set->count++;
  }
  if (curve->count == CURVE_POINTS) return;
  set->x[c][curve->count] = x;
  set->y[c][curve->count++] = y;
}

bool curves_draw(const Curves *curves, const char *title, const char *subtitle, const char *path,
                 Error *error) {
  CurvePanel panels[LINE_CHART_PANELS];
  for (int i = 0; i < curves->count; i++) {
    const CurveSet *set = &curves->sets[i];
    panels[i] = set->panel;
    panels[i].title = set->title.text;
    panels[i].x.label = set->label.text;
    panels[i].curves = set->curves;
    panels[i].count = set->count;
  }
  const LineChart chart = {title, subtitle, panels, curves->count};
  return line_chart_draw(&chart, path, error);
}
