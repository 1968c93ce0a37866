#include "plot/dot_chart.h"

#include <math.h>

enum { DOT = 15, PITCH = 36, TOP = 112, FOOT = 74, GUTTER = 16, NUMBER = 110 };

void dot_chart_add(DotChart *chart, const char *label, double ms, Colour colour) {
  if (chart->count < DOT_CHART_MAX)
    chart->rows[chart->count++] = (DotChartRow){text_format("%s", label), ms, colour};
}

/* The axis starts below the smallest value; its end leaves room for the largest value's number. */
static Axis axis_of(const DotChart *chart) {
  double widest = 0;
  Axis axis = {.logarithmic = true,
               .label = "ms, logarithmic scale",
               .to = CHART_WIDTH - MARGIN - NUMBER,
               .near = TOP + chart->count * PITCH,
               .far = TOP};
  axis_clear(&axis);
  for (int i = 0; i < chart->count; i++) {
    axis_include(&axis, chart->rows[i].ms);
    widest = fmax(widest, canvas_text_width(TEXT, chart->rows[i].label.text));
  }
  axis.from = MARGIN + (int)widest + GUTTER;
  axis.low -= 0.2;
  axis.high = fmax(axis.high, axis.low + 0.5);
  return axis;
}

static void draw_row(Canvas *p, const Axis *axis, const DotChartRow *row, double middle) {
  const double x = axis_place(axis, row->ms), baseline = middle + TEXT / 2.0;
  page_text(p, ENDS, axis->from - GUTTER, baseline, TEXT, INK, row->label.text);
  canvas_rectangle(p, axis->from, middle, x - axis->from, 1, FAINT);
  canvas_line(p, x, middle + 0.5, x, middle + 0.5, DOT, row->colour);
  page_text(p, STARTS, x + DOT / 2.0 + 8, baseline, TEXT, INK,
            text_format("%s ms", text_of_number(row->ms).text).text);
}

bool dot_chart_draw(const DotChart *chart, const char *path, Error *error) {
  Canvas page;
  for (const DotChartRow *row = chart->rows; row < chart->rows + chart->count; row++)
    if (!(row->ms > 0) || isinf(row->ms))
      return error_set(error, "the row '%s' is %g: a logarithmic axis needs a number above 0",
                       row->label.text, row->ms);
  const Axis axis = axis_of(chart);
  if (!page_open(&page, chart->title, chart->subtitle, CHART_WIDTH, axis.near + FOOT, error))
    return false;
  page_axis(&page, &axis);
  for (int i = 0; i < chart->count; i++)
    draw_row(&page, &axis, &chart->rows[i], TOP + i * PITCH + 0.5 * PITCH);
  return page_save(&page, path, error);
}
