/* Line charts: panels one below the other, each with a few curves over axes of its own, linear or
   logarithmic. */
#ifndef LINE_CHART_H
#define LINE_CHART_H

#include "base/error.h"

enum { LINE_CHART_MAX = 8, LINE_CHART_PANELS = 8 };

typedef struct {
  const char *name; /* in the legend */
  const double *x, *y;
  int count; /* of points; one that is not finite leaves a gap, which the x axis covers */
} Curve;

typedef struct {
  const char *label; /* what the numbers are, with their unit */
  bool logarithmic;  /* all numbers above 0 */
  bool from_zero;    /* a linear axis starts there */
} CurveAxis;

typedef struct {
  const char *title; /* "" or NULL: none */
  CurveAxis x, y;
  const Curve *curves;
  int count;   /* of curves, 1 to LINE_CHART_MAX: colours follow this order */
  double mark; /* where a horizontal line goes, NAN: none */
  const char *mark_label;
} CurvePanel;

typedef struct {
  const char *title, *subtitle;
  const CurvePanel *panels;
  int count; /* 1 to LINE_CHART_PANELS */
} LineChart;

/* Replaces the file `path` by the chart as a PNG. Fails on a panel without a single point, without
   memory, or if the file cannot be written. */
bool line_chart_draw(const LineChart *chart, const char *path, Error *error);

#endif
