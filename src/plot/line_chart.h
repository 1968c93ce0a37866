/* Line charts: panels one below the other, each with a few curves over axes of its own, linear or
   logarithmic, drawn on a picture. */
#ifndef LINE_CHART_H
#define LINE_CHART_H

#include "plot/canvas.h"

enum { LINE_CHART_MAX = 8, LINE_CHART_PANELS = 8 };
enum {
  LINE_CHART_WIDTH = 1200,
  LINE_CHART_PANEL = 480
}; /* pixels; a panel's height, its title included */

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

/* Where a panel's numbers go: pixels of the four sides of its axes, and the numbers there;
   logarithms to base 10 where the axis is logarithmic. */
typedef struct {
  int left, right, top, bottom;
  double x_low, x_high, y_low, y_high;
} CurveFrame;

/* The frame of panel `panel`; the chart must be one that line_chart_draw draws. */
CurveFrame line_chart_frame(const LineChart *curves, int panel);

/* The colour of curve `index`. */
Colour line_chart_colour(int index);

/* Opens `picture`, LINE_CHART_WIDTH pixels wide. Fails on a panel without a single point. */
bool line_chart_draw(const LineChart *curves, Canvas *picture, Error *error);

#endif
