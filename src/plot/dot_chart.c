#include "plot/dot_chart.h"

#include <math.h>

enum { DOT = 15, PITCH = 36, TOP = 112, FOOT = 74, GUTTER = 16, NUMBER = 110 };
static const double SMALL_MS = 0.1; /* numbers have two decimals */

void dot_chart_add(DotChart *chart, const char *label, double ms, Colour colour) {
  if (chart->count < DOT_CHART_MAX)
    chart->rows[chart->count++] = (DotChartRow){text_format("%s", label), ms, colour};
}

/* The axis starts below the smallest value; its end leaves room for the largest value's number.
   scale: what a ms is in the unit. */
static Axis axis_of(const DotChart *chart, double scale) {
  double widest = 0;
  Axis axis = {.logarithmic = true,
               .mark = scale * chart->mark,
               .to = CHART_WIDTH - MARGIN - NUMBER,
               .near = TOP + chart->count * PITCH,
               .far = TOP};
  axis_clear(&axis);
  axis_include(&axis, axis.mark);
  for (int i = 0; i < chart->count; i++) {
    axis_include(&axis, scale * chart->rows[i].ms);
    widest = fmax(widest, canvas_text_width(TEXT, chart->rows[i].label.text));
  }
  axis.from = MARGIN + (int)widest + GUTTER;
  axis.low -= 0.2;
  axis.high = fmax(axis.high, axis.low + 0.5);
  return axis;
}

static void draw_row(Canvas *p, const Axis *axis, const DotChartRow *row, double value,
                     const char *unit, double middle) {
  const double x = axis_place(axis, value), baseline = middle + TEXT / 2.0;
  const ShortText text = text_format("%s %s", text_of_number(value).text, unit);
  page_text(p, ENDS, axis->from - GUTTER, baseline, TEXT, INK, row->label.text);
  canvas_rectangle(p, axis->from, middle, x - axis->from, 1, FAINT);
  canvas_line(p, x, middle + 0.5, x, middle + 0.5, DOT, row->colour);
  page_text(p, STARTS, x + DOT / 2.0 + 8, baseline, TEXT, INK, text.text);
}

bool dot_chart_draw(const DotChart *chart, const char *path, Error *error) {
  double least = INFINITY;
  Canvas page;
  for (const DotChartRow *row = chart->rows; row < chart->rows + chart->count; row++) {
    if (!(row->ms > 0) || isinf(row->ms))
      return error_set(error, "the row '%s' is %g: a logarithmic axis needs a number above 0",
                       row->label.text, row->ms);
    least = fmin(least, row->ms);
  }
  const double scale = least < SMALL_MS ? 1e3 : 1;
  const char *unit = least < SMALL_MS ? "us" : "ms";
  Axis axis = axis_of(chart, scale);
  const ShortText label = text_format("%s, logarithmic scale", unit),
                  mark = text_format("%s: %s %s", chart->mark_label, text_of_number(axis.mark).text,
                                     unit);
  axis.label = label.text;
  axis.mark_label = mark.text;
  if (!page_open(&page, chart->title, chart->subtitle, CHART_WIDTH, axis.near + FOOT, error))
    return false;
  page_axis(&page, &axis);
  for (int i = 0; i < chart->count; i++) /* over the mark, so that a dot on it is seen */
    draw_row(&page, &axis, &chart->rows[i], scale * chart->rows[i].ms, unit,
             TOP + i * PITCH + 0.5 * PITCH);
  return page_save(&page, path, error);
}
