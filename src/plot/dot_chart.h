/* A chart of times as dots over a logarithmic axis, a row for each. Bars would say nothing: an
   axis of logarithms has no zero for them to begin at. */
#pragma once

#include "plot/page.h"

enum { DOT_CHART_MAX = 100 };

typedef struct {
  ShortText label;
  double ms; /* above 0 */
  Colour colour;
} DotChartRow;

typedef struct {
  const char *title, *subtitle;
  int count;
  DotChartRow rows[DOT_CHART_MAX]; /* top to bottom */
} DotChart;

/* Colours of what is compared: ours, the library it stands beside, everything else. */
static const Colour OURS = 0x0969da, LIBRARY = 0x8250df, OTHER = 0xafb8c1;

/* Adds a row; those beyond DOT_CHART_MAX are left out. */
void dot_chart_add(DotChart *chart, const char *label, double ms, Colour colour);

/* Replaces the file `path` by the chart as a PNG. Fails on a time that is not above 0, without
   memory, or if the file cannot be written. */
bool dot_chart_draw(const DotChart *chart, const char *path, Error *error);
