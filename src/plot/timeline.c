#include "plot/timeline.h"

#include <math.h>
#include <stdio.h>

static const Colour BAND = 0xf6f8fa;

enum { LEFT = 262, RIGHT = CHART_WIDTH - MARGIN - 64, LANE_NAMES = 186, TOP = 140, FOOT = 62 };
enum { LANE = 32, SLICE = 26, ROW_GAP = 22 };
enum { BREAK = 270, TAIL = 4 }; /* pixels; what follows a break is so much longer */
enum { NAME = 16, LABEL = 10, LEAST_LABEL = 7 };

/* A row as it is drawn: `left` and `right` are the pixels of a part of it that begins at `start`.
 */
typedef struct {
  Canvas *page;
  const Timeline *chart;
  const TimelineRow *row;
  int top, bottom;
  double scale; /* pixels of a unit */
  double start, left, right;
} Part;

/* Writes a label in letters of LABEL to LEAST_LABEL pixels; false if it fits in none. */
static bool draw_label(Canvas *p, const char *label, Colour on, double x, double width,
                       double middle) {
  if (canvas_text_width(LEAST_LABEL, label) > width - 4) return false;
  page_text_within(p, CENTRED, x + width / 2, middle + LABEL / 2.0, LABEL, width - 4,
                   page_ink_on(on), label);
  return true;
}

/* Leaves a pixel between neighbours. */
static void draw_slice(const Part *p, const TimelineSlice *slice, int top) {
  const double from = round(fmax(p->left + p->scale * (slice->start - p->start), p->left));
  const double to = fmin(p->left + p->scale * (slice->end - p->start), p->right);
  const double width = fmax(round(to) - from - 1, 1);
  if (to <= from) return;
  canvas_rectangle(p->page, from, top + 0.5 * (LANE - SLICE), width, SLICE, slice->colour);
  if (!draw_label(p->page, slice->label, slice->colour, from, width, top + 0.5 * LANE))
    draw_label(p->page, slice->brief, slice->colour, from, width, top + 0.5 * LANE);
}

static void draw_part(const Part *p) {
  canvas_rectangle(p->page, p->left, p->top, p->right - p->left, p->bottom - p->top, BAND);
  for (int i = 0; i < p->row->lanes; i++)
    for (int k = 0; k < p->row->lane[i].count; k++)
      draw_slice(p, &p->row->lane[i].slices[k], p->top + i * LANE);
}

static void draw_zigzag(const Part *p, double x) {
  enum { TOOTH = 8 };
  for (int y = p->top, side = 0; y < p->bottom; y += TOOTH, side = TOOTH - side)
    canvas_line(p->page, x + side, y, x + TOOTH - side, y + TOOTH, 2, MARK);
}

/* Draws a break behind the part, and says what is left out; then the row's last part. */
static void draw_break(Part *p) {
  const double left = p->right, tail = (left - LEFT) * TAIL, axis = p->chart->span;
  const double start = p->row->length - tail / p->scale, out = start - (left - LEFT) / p->scale;
  const double middle = (p->top + p->bottom) / 2.0;
  char text[2][64];
  draw_zigzag(p, left + 4);
  draw_zigzag(p, RIGHT - tail - 12);
  snprintf(text[0], sizeof text[0], "break: %.0f %s are left out,", out, p->chart->unit);
  snprintf(text[1], sizeof text[1], "%.1f times this axis", out / axis);
  for (int i = 0; i < 2; i++)
    page_text_within(p->page, STARTS, left + 22, middle - 4 + 22 * i, SMALL, BREAK - 44, MARK,
                     text[i]);
  p->start = start;
  p->left = RIGHT - tail;
  p->right = RIGHT;
  draw_part(p);
}

/* Writes the row's names, and what stands where a lane has no slices. */
static void draw_words(const Part *p) {
  page_text(p->page, STARTS, MARGIN, p->top + 18, NAME, INK, p->row->name);
  for (int i = 0; i < 2 && p->row->below[i]; i++)
    page_text_within(p->page, STARTS, MARGIN, p->top + 38 + 19 * i, SMALL, LANE_NAMES - MARGIN,
                     PALE, p->row->below[i]);
  for (int i = 0; i < p->row->lanes; i++) {
    const TimelineLane *lane = &p->row->lane[i];
    const double middle = p->top + i * LANE + LANE / 2.0;
    page_text(p->page, ENDS, LEFT - 12, middle + SMALL / 2.0, SMALL, PALE, lane->name);
    if (lane->note)
      page_text_within(p->page, STARTS, LEFT + 8, middle + LABEL / 2.0, LABEL, p->right - LEFT - 16,
                       PALE, lane->note);
  }
}

static void draw_row(Part *p) {
  const bool breaks = p->row->length > p->chart->span;
  char text[64];
  p->left = LEFT;
  p->right = breaks ? floor(LEFT + (RIGHT - LEFT - BREAK) / (1.0 + TAIL))
                    : round(LEFT + p->scale * p->row->length);
  draw_part(p);
  draw_words(p);
  if (breaks) draw_break(p);
  canvas_rectangle(p->page, p->right, p->top, 2, p->bottom - p->top, MARK);
  snprintf(text, sizeof text, "%.3g %s", p->row->length, p->chart->unit);
  page_text(p->page, STARTS, p->right + 9, (p->top + p->bottom + TEXT) / 2.0, TEXT, MARK, text);
}

bool timeline_draw(const Timeline *chart, const char *path, Error *error) {
  Canvas page;
  Axis axis = {.label = chart->unit,
               .from = LEFT,
               .to = RIGHT,
               .near = TOP - ROW_GAP,
               .far = TOP - 10,
               .high = chart->span,
               .fractions = true};
  for (int i = 0; i < chart->rows; i++) axis.near += chart->row[i].lanes * LANE + ROW_GAP;
  if (!page_open(&page, chart->title, chart->subtitle, CHART_WIDTH, axis.near + FOOT, error))
    return false;
  page_legend(&page, RIGHT, 105, chart->key, chart->keys);
  page_axis(&page, &axis);
  for (int i = 0, top = TOP; i < chart->rows; i++) {
    const int bottom = top + chart->row[i].lanes * LANE;
    draw_row(&(Part){.page = &page,
                     .chart = chart,
                     .row = &chart->row[i],
                     .top = top,
                     .bottom = bottom,
                     .scale = (RIGHT - LEFT) / chart->span});
    top = bottom + ROW_GAP;
  }
  return page_save(&page, path, error);
}
