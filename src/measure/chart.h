/* Curves that are collected, then drawn; the colours of all charts of measurements. */
#pragma once

#include "measure/table.h"
#include "plot/line_chart.h"

/* Colours of what is compared: ours, the library it stands beside, everything else. */
static const Colour OURS = 0x0969da, LIBRARY = 0x8250df, OTHER = 0xafb8c1;

enum { CURVE_POINTS = 128 };

typedef struct {
  CurvePanel panel; /* its axes and marks are the caller's */
  Curve curves[LINE_CHART_MAX];
  TableCell names[LINE_CHART_MAX];
  double x[LINE_CHART_MAX][CURVE_POINTS], y[LINE_CHART_MAX][CURVE_POINTS];
  TableCell title, label; /* of the panel; of its x axis */
  double end;             /* what tells it from another of the same title */
  int count;
} CurveSet;

/* Panels one below the other. Large: not for a stack. */
typedef struct {
  CurveSet sets[LINE_CHART_PANELS];
  int count;
} Curves;

/* Finds the panel, or adds one without curves. NULL: there are too many. */
CurveSet *curves_set(Curves *curves, const char *title, double end);
/* Adds a point to the curve of that name. What is beyond the most that a chart can hold is left
 * out. */
void curves_add(CurveSet *set, const char *name, double x, double y);
/* Draws the panels as a PNG. */
bool curves_draw(const Curves *curves, const char *title, const char *subtitle, const char *path,
                 Error *error);
