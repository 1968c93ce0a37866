/* A chart of horizontal bars over a logarithmic axis, drawn on a picture. */
#ifndef CHART_H
#define CHART_H

#include "plot/canvas.h"

typedef struct {
  const char *label;
  double value; /* above 0 */
  Colour colour;
} ChartBar;

typedef struct {
  const char *title, *subtitle;
  const char *unit; /* of the values, written behind each and under the axis */
  const ChartBar *bars;
  int count;   /* from 1 to CHART_MAX_BARS, top to bottom */
  double mark; /* where a vertical line goes, 0: none */
  const char *mark_label;
} Chart;

enum { CHART_MAX_BARS = 100, CHART_WIDTH = 1200 };

/* Opens `picture`, CHART_WIDTH pixels wide and as high as the bars need. */
bool chart_draw(const Chart *chart, Picture *picture, Error *error);

#endif
