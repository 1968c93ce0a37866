/* Line charts: panels one below the other, each with a few curves over axes of its own, linear or
   logarithmic. A chart begins as zeros with titles, grows by points, and ends when it is drawn. */
#pragma once

#include "plot/page.h"

enum { LINE_CHART_MAX = PAGE_SERIES, LINE_CHART_PANELS = 8 };

typedef struct {
  const char *title; /* NULL: none */
  Axis x, y;         /* what the caller says of them; y also spans the points so far */
  const char *curves[LINE_CHART_MAX]; /* names in the legend: colours follow this order */
  int count;                          /* of curves */
} CurvePanel;

typedef struct {
  const CurvePanel *panel;
  int curve;
  double x, y;
} CurvePoint;

typedef struct {
  const char *title, *subtitle;
  CurvePanel panels[LINE_CHART_PANELS];
  int count;
  CurvePoint *points; /* of all panels and curves; those of a curve in their order */
  size_t point_count;
  bool no_memory; /* for some point */
} LineChart;

/* Adds a panel, one of at most LINE_CHART_PANELS. */
CurvePanel *line_chart_panel(LineChart *chart, const char *title);

/* Finds the curve, or adds one of at most LINE_CHART_MAX. */
int line_chart_curve(CurvePanel *panel, const char *name);

/* Adds a point to a curve, or to a thin one behind all others if it is given as ~curve. A point
   that is not finite leaves a gap, which the x axis covers. */
void line_chart_add(LineChart *chart, CurvePanel *panel, int curve, double x, double y);

/* True if the points are so far apart on the y axis that many would lie along the bottom of a
   linear one. */
bool line_chart_far_apart(const CurvePanel *panel);

/* Replaces the file `path` by the chart as a PNG, and closes the chart, also on failure. Leaves out
   panels without a point. Fails if there are no others, without memory, or if the file cannot be
   written. */
bool line_chart_draw(LineChart *chart, const char *path, Error *error);
