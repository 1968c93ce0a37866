#include "plot/timeline.h"

#include <math.h>
#include <stdio.h>

#include "base/sizes.h"
#include "plot/page.h"

static const Colour BAND = {246, 248, 250};

enum { LEFT = 262, RIGHT = CHART_WIDTH - MARGIN - 64, LANE_NAMES = 186, TOP = 140, FOOT = 62 };
enum { LANE = 32, SLICE = 26, ROW_GAP = 22 };
enum {
  BREAK = 270,
  TAIL = 4
}; /* pixels; what follows a break is so much longer than what precedes */
enum { NAME = 16, LABEL = 10, LEAST_LABEL = 7, NUMBERS = 8 };

static double pixels_of(const Timeline *chart, double value) {
  return value / chart->span * (RIGHT - LEFT);
}

/* A stretch of a row: what begins at `start`, from pixel `left` to pixel `right`. */
typedef struct {
  double start;
  int left, right;
} Part;

/* Sets the parts before and after a break, or the one part that is the whole row; returns how many.
 */
static int parts_of(const Timeline *chart, const TimelineRow *row, Part part[2]) {
  part[0] = (Part){0, LEFT, LEFT + (int)lround(pixels_of(chart, row->length))};
  if (row->length <= chart->span) return 1;
  const int room = RIGHT - LEFT - BREAK, head = room / (1 + TAIL), tail = room - head;
  part[0].right = LEFT + head;
  part[1] = (Part){row->length - tail * chart->span / (RIGHT - LEFT), RIGHT - tail, RIGHT};
  return 2;
}

static int height_of(const TimelineRow *row) {
  return row->lanes * LANE;
}

static void draw_axis(Canvas *p, const Timeline *chart, int bottom) {
  const Axis axis = {.from = LEFT, .to = RIGHT, .high = chart->span};
  Tick ticks[AXIS_TICKS];
  const int count = axis_ticks(&axis, NUMBERS, ANY_NUMBERS, ticks);
  for (int i = 0; i < count; i++) {
    const int x = (int)lround(ticks[i].at);
    canvas_rectangle(p, x, TOP - 10, 1, bottom - TOP + 16, GRID);
    page_text(p, CENTRED, x, bottom + 26, SMALL, PALE, ticks[i].text);
  }
  page_text(p, STARTS, RIGHT + 16, bottom + 26, SMALL, PALE, chart->unit);
}

/* Letters are dark on pale colours and white on dark ones. */
static Colour ink_on(Colour c) {
  return 3 * c.red + 6 * c.green + c.blue > 1500 ? INK : PAPER;
}

/* Writes a label in letters of LABEL to LEAST_LABEL pixels; false if it fits in none. */
static bool draw_label(Canvas *p, const char *label, Colour on, int x, int width, int middle) {
  double height = LABEL;
  while (height >= LEAST_LABEL && canvas_text_width(height, label) > width - 4) height -= 1;
  if (height < LEAST_LABEL) return false;
  page_text(p, STARTS, x + (width - canvas_text_width(height, label)) / 2, middle + height / 2,
            height, ink_on(on), label);
  return true;
}

/* Leaves a pixel between neighbours. */
static void draw_slice(Canvas *p, const Timeline *chart, const TimelineSlice *slice,
                       const Part *part, int top) {
  const double from = fmax(part->left + pixels_of(chart, slice->start - part->start), part->left);
  const double to = fmin(part->left + pixels_of(chart, slice->end - part->start), part->right);
  const int x = (int)lround(from), middle = top + LANE / 2;
  const int width = max_int((int)lround(to) - x - 1, 1);
  if (to <= from) return;
  canvas_rectangle(p, x, top + (LANE - SLICE) / 2, width, SLICE, slice->colour);
  if (!draw_label(p, slice->label, slice->colour, x, width, middle))
    draw_label(p, slice->brief, slice->colour, x, width, middle);
}

static void draw_part(Canvas *p, const Timeline *chart, const TimelineRow *row, const Part *part,
                      int top) {
  canvas_rectangle(p, part->left, top, part->right - part->left, height_of(row), BAND);
  for (int i = 0; i < row->lanes; i++)
    for (int k = 0; k < row->lane[i].count; k++)
      draw_slice(p, chart, &row->lane[i].slices[k], part, top + i * LANE);
}

static void draw_zigzag(Canvas *p, int x, int top, int bottom) {
  enum { TOOTH = 8 };
  for (int y = top, side = 0; y < bottom; y += TOOTH, side = 1 - side)
    canvas_line(p, x + side * TOOTH, y, x + (1 - side) * TOOTH, fmin(y + TOOTH, bottom), 2, MARK);
}

/* Says what is left out between two parts. */
static void draw_break(Canvas *p, const Timeline *chart, const TimelineRow *row, const Part part[2],
                       int top) {
  const int bottom = top + height_of(row), middle = (top + bottom) / 2, left = part[0].right;
  const double out = part[1].start - (left - LEFT) * chart->span / (RIGHT - LEFT);
  char text[64];
  draw_zigzag(p, left + 4, top, bottom);
  draw_zigzag(p, part[1].left - 12, top, bottom);
  snprintf(text, sizeof text, "break: %.0f %s are left out,", out, chart->unit);
  page_text_within(p, left + 22, middle - 4, SMALL, BREAK - 44, MARK, text);
  snprintf(text, sizeof text, "%.1f times this axis", out / chart->span);
  page_text_within(p, left + 22, middle + 18, SMALL, BREAK - 44, MARK, text);
}

static void draw_row(Canvas *p, const Timeline *chart, const TimelineRow *row, int top) {
  Part part[2];
  const int parts = parts_of(chart, row, part), end = part[parts - 1].right;
  char text[64];
  page_text(p, STARTS, MARGIN, top + 18, NAME, INK, row->name);
  for (int i = 0; i < 2 && row->below[i]; i++)
    page_text_within(p, MARGIN, top + 38 + 19 * i, SMALL, LANE_NAMES - MARGIN, PALE, row->below[i]);
  for (int i = 0; i < parts; i++) draw_part(p, chart, row, &part[i], top);
  if (parts > 1) draw_break(p, chart, row, part, top);
  canvas_rectangle(p, end, top, 2, height_of(row), MARK);
  snprintf(text, sizeof text, "%.3g %s", row->length, chart->unit);
  page_text(p, STARTS, end + 9, top + height_of(row) / 2.0 + TEXT / 2.0, TEXT, MARK, text);
  for (int i = 0; i < row->lanes; i++) {
    const TimelineLane *lane = &row->lane[i];
    const double middle = top + i * LANE + LANE / 2.0;
    page_text(p, ENDS, LEFT - 12, middle + SMALL / 2.0, SMALL, PALE, lane->name);
    if (lane->note)
      page_text_within(p, LEFT + 8, middle + LABEL / 2.0, LABEL, part[0].right - LEFT - 16, PALE,
                       lane->note);
  }
}

static void draw_keys(Canvas *p, const Timeline *chart) {
  double x = MARGIN;
  for (int i = 0; i < chart->keys; i++) {
    const TimelineKey *key = &chart->key[i];
    canvas_rectangle(p, (int)x, 92, 18, 14, key->colour);
    x = canvas_text(p, x + 26, 105, SMALL, key->meaning, INK) + 28;
  }
}

static bool check(const Timeline *chart, Error *error) {
  if (chart->rows < 1 || chart->rows > TIMELINE_ROWS || chart->keys < 0 ||
      chart->keys > TIMELINE_KEYS || !(chart->span > 0) || isinf(chart->span))
    return error_set(error, "a timeline of %d rows, %d keys and a span of %g", chart->rows,
                     chart->keys, chart->span);
  for (int i = 0; i < chart->rows; i++)
    if (chart->row[i].lanes < 1 || chart->row[i].lanes > TIMELINE_LANES ||
        !(chart->row[i].length > 0) || isinf(chart->row[i].length))
      return error_set(error, "the row '%s' of a timeline has %d lanes and a length of %g",
                       chart->row[i].name, chart->row[i].lanes, chart->row[i].length);
  return true;
}

bool timeline_draw(const Timeline *chart, const char *path, Error *error) {
  Canvas page;
  if (!check(chart, error)) return false;
  int bottom = TOP - ROW_GAP;
  for (int i = 0; i < chart->rows; i++) bottom += height_of(&chart->row[i]) + ROW_GAP;
  if (!page_open(&page, chart->title, chart->subtitle, CHART_WIDTH, bottom + FOOT, error))
    return false;
  draw_keys(&page, chart);
  draw_axis(&page, chart, bottom);
  for (int i = 0, top = TOP; i < chart->rows; i++) {
    draw_row(&page, chart, &chart->row[i], top);
    top += height_of(&chart->row[i]) + ROW_GAP;
  }
  return page_save(&page, path, error);
}
