#include "plot/dot_chart.h"

#include <math.h>
#include <stdio.h>

#include "plot/page.h"

static const Colour LEADER = {201, 207, 213};

enum { DOT = 15, PITCH = 36, TOP = 112, FOOT = 74, GUTTER = 16, NUMBERS = 12 };

static int x_of(const Axis *axis, double value) {
  return (int)lround(axis_place(axis, value));
}

/* The axis starts below the smallest value; its end leaves room for the largest value's number. */
static Axis axis_of(const DotChart *chart) {
  double low = chart->rows[0].value, high = low, widest = 0;
  for (int i = 0; i < chart->count; i++) {
    low = fmin(low, chart->rows[i].value);
    high = fmax(high, chart->rows[i].value);
    widest = fmax(widest, canvas_text_width(TEXT, chart->rows[i].label));
  }
  if (chart->mark > 0) low = fmin(low, chart->mark);
  low = log10(low / 1.6);
  return (Axis){.from = MARGIN + (int)widest + GUTTER,
                .to = CHART_WIDTH - MARGIN - 110,
                .low = low,
                .high = fmax(log10(high), low + 0.5),
                .logarithmic = true};
}

static void draw_axis(Canvas *p, const Axis *axis, const char *unit, int bottom) {
  Tick ticks[AXIS_TICKS];
  const int count = axis_ticks(axis, NUMBERS, ANY_NUMBERS, ticks);
  for (int i = 0; i < count; i++) {
    const int x = (int)lround(ticks[i].at);
    canvas_rectangle(p, x, TOP, 1, bottom - TOP + 6, GRID);
    page_text(p, CENTRED, x, bottom + 24, SMALL, PALE, ticks[i].text);
  }
  char text[128];
  snprintf(text, sizeof text, "%s, logarithmic scale", unit);
  page_text(p, ENDS, axis->to, bottom + 54, SMALL, PALE, text);
}

static void draw_mark(Canvas *p, const DotChart *chart, int x, int bottom) {
  canvas_rectangle(p, x - 1, TOP - 8, 2, bottom - TOP + 8, MARK);
  const double width = canvas_text_width(SMALL, chart->mark_label);
  page_text(p, STARTS, fmin(x + 8, CHART_WIDTH - MARGIN - width), TOP - 12, SMALL, MARK,
            chart->mark_label);
}

/* The number has three digits where that makes sense: "6.12", "44.3", "1347". */
static void draw_row(Canvas *p, const Axis *axis, const DotChartRow *row, const char *unit,
                     int middle) {
  const int x = x_of(axis, row->value), baseline = middle + TEXT / 2;
  char text[96];
  snprintf(text, sizeof text, "%.*f %s",
           row->value < 9.995   ? 2
           : row->value < 99.95 ? 1
                                : 0,
           row->value, unit);
  page_text(p, ENDS, axis->from - GUTTER, baseline, TEXT, INK, row->label);
  canvas_rectangle(p, axis->from, middle, x - axis->from, 1, LEADER);
  canvas_line(p, x, middle + 0.5, x, middle + 0.5, DOT, row->colour);
  page_text(p, STARTS, x + DOT / 2.0 + 8, baseline, TEXT, INK, text);
}

bool dot_chart_draw(const DotChart *chart, const char *path, Error *error) {
  if (chart->count < 1 || chart->count > DOT_CHART_MAX)
    return error_set(error, "a chart of %d rows: there must be 1 to %d", chart->count,
                     DOT_CHART_MAX);
  for (int i = 0; i < chart->count; i++)
    if (!(chart->rows[i].value > 0) || isinf(chart->rows[i].value))
      return error_set(error, "the row '%s' is %g: a logarithmic axis needs a number above 0",
                       chart->rows[i].label, chart->rows[i].value);
  const Axis axis = axis_of(chart);
  const int bottom = TOP + chart->count * PITCH;
  Canvas page;
  if (!page_open(&page, chart->title, chart->subtitle, CHART_WIDTH, bottom + FOOT, error))
    return false;
  draw_axis(&page, &axis, chart->unit, bottom);
  if (chart->mark > 0) draw_mark(&page, chart, x_of(&axis, chart->mark), bottom);
  for (int i = 0; i < chart->count; i++) /* over the mark, so that a dot on it is seen */
    draw_row(&page, &axis, &chart->rows[i], chart->unit, TOP + i * PITCH + PITCH / 2);
  return page_save(&page, path, error);
}
