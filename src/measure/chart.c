#include "measure/chart.h"

#include <string.h>

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

bool curves_draw(Curves *curves, const char *title, const char *subtitle, const char *path,
                 Error *error) {
  for (int i = 0; i < curves->count; i++) {
    CurvePanel *panel = &curves->panels[i];
    panel->title = curves->sets[i].title.text;
    panel->x.label = curves->sets[i].label.text;
    panel->curves = curves->sets[i].curves;
    panel->count = curves->sets[i].count;
  }
  const LineChart chart = {title, subtitle, curves->panels, curves->count};
  return line_chart_draw(&chart, path, error);
}
