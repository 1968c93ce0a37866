#include "plot/dot_chart.h"

#include <math.h>
#include <stdio.h>

#include "plot/page.h"

enum { DOT = 15, PITCH = 36, TOP = 112, FOOT = 74, GUTTER = 16, NUMBER = 110 };

void dot_chart_add(DotChart *chart, const char *label, double value, Colour colour) {
  if (chart->count == DOT_CHART_MAX) return;
  DotChartRow *row = &chart->rows[chart->count++];
  *row = (DotChartRow){.value = value, .colour = colour};
  snprintf(row->label, sizeof row->label, "%s", label);
}

/* The axis starts below the smallest value; its end leaves room for the largest value's number. */
static Axis axis_of(const DotChart *chart, const char *label) {
  double widest = 0;
  Axis axis = {.label = label,
               .logarithmic = true,
               .mark = chart->mark,
               .mark_label = chart->mark_label,
               .to = CHART_WIDTH - MARGIN - NUMBER,
               .near = TOP + chart->count * PITCH,
               .far = TOP};
  axis_clear(&axis);
  axis_include(&axis, chart->mark);
  for (int i = 0; i < chart->count; i++) {
    axis_include(&axis, chart->rows[i].value);
    widest = fmax(widest, canvas_text_width(TEXT, chart->rows[i].label));
  }
  axis.from = MARGIN + (int)widest + GUTTER;
  axis.low -= 0.2;
  axis.high = fmax(axis.high, axis.low + 0.5);
  return axis;
}

/* The number has three digits where that makes sense: "6.12", "44.3", "1347". */
static void draw_row(Canvas *p, const Axis *axis, const DotChartRow *row, const char *unit,
                     double middle) {
  const double x = axis_place(axis, row->value), baseline = middle + TEXT / 2.0;
  const int decimals = row->value < 9.995 ? 2 : row->value < 99.95;
  char text[96];
  snprintf(text, sizeof text, "%.*f %s", decimals, row->value, unit);
  page_text(p, ENDS, axis->from - GUTTER, baseline, TEXT, INK, row->label);
  canvas_rectangle(p, axis->from, middle, x - axis->from, 1, FAINT);
  canvas_line(p, x, middle + 0.5, x, middle + 0.5, DOT, row->colour);
  page_text(p, STARTS, x + DOT / 2.0 + 8, baseline, TEXT, INK, text);
}

bool dot_chart_draw(const DotChart *chart, const char *path, Error *error) {
  char label[WORDS];
  Canvas page;
  for (const DotChartRow *row = chart->rows; row < chart->rows + chart->count; row++)
    if (!(row->value > 0) || isinf(row->value))
      return error_set(error, "the row '%s' is %g: a logarithmic axis needs a number above 0",
                       row->label, row->value);
  snprintf(label, sizeof label, "%s, logarithmic scale", chart->unit);
  const Axis axis = axis_of(chart, label);
  if (!page_open(&page, chart->title, chart->subtitle, CHART_WIDTH, axis.near + FOOT, error))
    return false;
  page_axis(&page, &axis);
  for (int i = 0; i < chart->count; i++) /* over the mark, so that a dot on it is seen */
    draw_row(&page, &axis, &chart->rows[i], chart->unit, TOP + i * PITCH + 0.5 * PITCH);
  return page_save(&page, path, error);
}
