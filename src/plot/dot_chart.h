/* A chart of values as dots over a logarithmic axis, a row for each, drawn on a picture. Not bars:
   an axis of logarithms has no zero for them to begin at, so their lengths would say nothing. */
#ifndef DOT_CHART_H
#define DOT_CHART_H

#include "plot/canvas.h"

typedef struct {
  const char *label;
  double value; /* above 0 */
  Colour colour;
} DotChartRow;

typedef struct {
  const char *title, *subtitle;
  const char *unit; /* of the values, written behind each and under the axis */
  const DotChartRow *rows;
  int count;   /* from 1 to DOT_CHART_MAX, top to bottom */
  double mark; /* where a vertical line goes, 0: none */
  const char *mark_label;
} DotChart;

enum { DOT_CHART_MAX = 100, DOT_CHART_WIDTH = 1200 };

/* Opens `picture`, DOT_CHART_WIDTH pixels wide and as high as the rows need. */
bool dot_chart_draw(const DotChart *chart, Canvas *picture, Error *error);

#endif
