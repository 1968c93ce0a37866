/* A chart of values as dots over a logarithmic axis, a row for each. Bars would say nothing: an
   axis of logarithms has no zero for them to begin at. */
#pragma once

#include "plot/canvas.h"

enum { DOT_CHART_MAX = 100 };

typedef struct {
  char label[112];
  double value; /* above 0 */
  Colour colour;
} DotChartRow;

typedef struct {
  const char *title, *subtitle;
  const char *unit; /* of the values, written behind each and under the axis */
  double mark;      /* where a vertical line goes, 0: none */
  const char *mark_label;
  int count;
  DotChartRow rows[DOT_CHART_MAX]; /* top to bottom */
} DotChart;

/* Adds a row; those beyond DOT_CHART_MAX are left out. */
void dot_chart_add(DotChart *chart, const char *label, double value, Colour colour);

/* Replaces the file `path` by the chart as a PNG. Fails on a value that is not above 0, without
   memory, or if the file cannot be written. */
bool dot_chart_draw(const DotChart *chart, const char *path, Error *error);
