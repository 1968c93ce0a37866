/* Line charts: panels one below the other, each with a few curves over axes of its own, linear or
   logarithmic. */
#pragma once

#include "plot/page.h"

enum { LINE_CHART_MAX = PAGE_SERIES, LINE_CHART_PANELS = 8 };

typedef struct {
  const char *name; /* in the legend; NULL: a thin one, behind all others, in their colours */
  const double *x, *y;
  int count; /* of points; one that is not finite leaves a gap, which the x axis covers */
} Curve;

typedef struct {
  const char *title; /* "" or NULL: none */
  Axis x, y;
  const Curve *curves;
  int count; /* of curves, 1 to LINE_CHART_MAX: colours follow this order */
} CurvePanel;

typedef struct {
  const char *title, *subtitle;
  const CurvePanel *panels;
  int count; /* 1 to LINE_CHART_PANELS */
} LineChart;

/* Replaces the file `path` by the chart as a PNG. Fails on a panel without a single point, without
   memory, or if the file cannot be written. */
bool line_chart_draw(const LineChart *chart, const char *path, Error *error);
