/* A chart of horizontal bars over a logarithmic axis, drawn on a picture. */
#ifndef BAR_CHART_H
#define BAR_CHART_H

#include "plot/canvas.h"

typedef struct {
  const char *label;
  double value; /* above 0 */
  Colour colour;
} BarChartBar;

typedef struct {
  const char *title, *subtitle;
  const char *unit; /* of the values, written behind each and under the axis */
  const BarChartBar *bars;
  int count;   /* from 1 to CHART_MAX_BARS, top to bottom */
  double mark; /* where a vertical line goes, 0: none */
  const char *mark_label;
} BarChart;

enum { CHART_MAX_BARS = 100, BAR_CHART_WIDTH = 1200 };

/* Opens `picture`, BAR_CHART_WIDTH pixels wide and as high as the bars need. */
bool bar_chart_draw(const BarChart *chart, Canvas *picture, Error *error);

#endif
