/* Line charts: panels one below the other, each with a few curves over axes of its own, linear or
   logarithmic, drawn on a picture. */
#ifndef CURVES_H
#define CURVES_H

#include "plot/canvas.h"

enum { CURVES_MAX = 8, CURVES_PANELS = 8 };
enum { CURVES_WIDTH = 1200, CURVES_PANEL = 480 }; /* pixels; a panel's height, its title included */

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
  int count;   /* of curves, 1 to CURVES_MAX: colours follow this order */
  double mark; /* where a horizontal line goes, NAN: none */
  const char *mark_label;
} CurvePanel;

typedef struct {
  const char *title, *subtitle;
  const CurvePanel *panels;
  int count; /* 1 to CURVES_PANELS */
} Curves;

/* Where a panel's numbers go: pixels of the four sides of its axes, and the numbers there;
   logarithms to base 10 where the axis is logarithmic. */
typedef struct {
  int left, right, top, bottom;
  double x_low, x_high, y_low, y_high;
} CurveFrame;

/* The frame of panel `panel`; the chart must be one that curves_draw draws. */
CurveFrame curves_frame(const Curves *curves, int panel);

/* The colour of curve `index`. */
Colour curves_colour(int index);

/* Opens `picture`, CURVES_WIDTH pixels wide. Fails on a panel without a single point. */
bool curves_draw(const Curves *curves, Picture *picture, Error *error);

#endif
