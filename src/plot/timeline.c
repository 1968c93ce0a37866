#include "plot/timeline.h"

#include <math.h>
#include <stdio.h>

static const Colour PAPER = {255, 255, 255}, INK = {31, 35, 40}, PALE = {89, 99, 110},
                    GRID = {225, 228, 232}, BAND = {246, 248, 250}, END = {209, 36, 47};

enum { MARGIN = 28, LEFT = 262, LANE_NAMES = 186, HEAD = 140, FOOT = 62 };
enum { LANE = 32, SLICE = 26, ROW_GAP = 22 };
enum {
  BREAK = 270,
  HEAD_PART = 4 /* what precedes a break is so much shorter than what follows */
};
enum { TITLE = 20, NAME = 16, TEXT = 13, SMALL = 12, LABEL = 10, LEAST_LABEL = 7 };

enum { RIGHT = TIMELINE_WIDTH - MARGIN - 64 };

static double pixels_of(const Timeline *chart, double value) {
  return value / chart->span * (RIGHT - LEFT);
}

static bool is_broken(const Timeline *chart, const TimelineRow *row) {
  return row->length > chart->span;
}

/* A stretch of a row: it shows from `start` on at pixel `left` what fits before pixel `right`. */
typedef struct {
  double start;
  int left, right;
} Part;

/* The whole row, or what stands before a break; then the second part is what stands after it. */
static int parts_of(const Timeline *chart, const TimelineRow *row, Part part[2]) {
  part[0] = (Part){0, LEFT, LEFT + (int)lround(pixels_of(chart, row->length))};
  if (!is_broken(chart, row)) return 1;
  const int room = RIGHT - LEFT - BREAK, head = room / (1 + HEAD_PART), tail = room - head;
  part[0].right = LEFT + head;
  part[1] = (Part){row->length - tail * chart->span / (RIGHT - LEFT), RIGHT - tail, RIGHT};
  return 2;
}

static int height_of(const TimelineRow *row) {
  return row->lanes * LANE;
}

/* 1, 2 or 5 times a power of ten: some ten of them in the span. */
static double tick_of(double span) {
  const double power = pow(10, floor(log10(span / 8))), times = span / 8 / power;
  return power * (times > 5 ? 10 : times > 2 ? 5 : times > 1 ? 2 : 1);
}

static void draw_axis(Canvas *p, const Timeline *chart, int bottom) {
  const double tick = tick_of(chart->span);
  char text[64];
  for (int i = 0; i * tick <= chart->span; i++) {
    const int x = LEFT + (int)lround(pixels_of(chart, i * tick));
    canvas_rectangle(p, x, HEAD - 10, 1, bottom - HEAD + 16, GRID);
    snprintf(text, sizeof text, "%g", i * tick);
    canvas_text(p, x - canvas_text_width(SMALL, text) / 2, bottom + 26, SMALL, text, PALE);
  }
  canvas_text(p, RIGHT + 16, bottom + 26, SMALL, chart->unit, PALE);
}

/* Dark letters on pale colours, white ones on dark. */
static Colour ink_on(Colour c) {
  return 3 * c.red + 6 * c.green + c.blue > 1500 ? INK : PAPER;
}

/* In letters of LABEL to LEAST_LABEL pixels; false: it fits in none. */
static bool draw_label(Canvas *p, const char *label, Colour on, int x, int width, int middle) {
  double height = LABEL;
  while (height >= LEAST_LABEL && canvas_text_width(height, label) > width - 4) height -= 1;
  if (height < LEAST_LABEL) return false;
  canvas_text(p, x + (width - canvas_text_width(height, label)) / 2, middle + height / 2, height,
              label, ink_on(on));
  return true;
}

/* A pixel is left between neighbours. */
static void draw_slice(Canvas *p, const Timeline *chart, const TimelineSlice *slice,
                       const Part *part, int top) {
  const double from = fmax(part->left + pixels_of(chart, slice->start - part->start), part->left);
  const double to = fmin(part->left + pixels_of(chart, slice->end - part->start), part->right);
  const int x = (int)lround(from), middle = top + LANE / 2;
  int width = (int)lround(to) - x - 1;
  if (to <= from) return;
  if (width < 1) width = 1;
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
    canvas_line(p, x + side * TOOTH, y, x + (1 - side) * TOOTH, fmin(y + TOOTH, bottom), 2, END);
}

/* What is left out between two parts. */
static void draw_break(Canvas *p, const Timeline *chart, const TimelineRow *row, const Part part[2],
                       int top) {
  const int bottom = top + height_of(row), middle = (top + bottom) / 2, left = part[0].right;
  const double out = part[1].start - (left - LEFT) * chart->span / (RIGHT - LEFT);
  char text[64];
  draw_zigzag(p, left + 4, top, bottom);
  draw_zigzag(p, part[1].left - 12, top, bottom);
  snprintf(text, sizeof text, "break: %.0f %s are left out,", out, chart->unit);
  canvas_text_within(p, left + 22, middle - 4, SMALL, BREAK - 44, text, END);
  snprintf(text, sizeof text, "%.1f times this axis", out / chart->span);
  canvas_text_within(p, left + 22, middle + 18, SMALL, BREAK - 44, text, END);
}

static void draw_row(Canvas *p, const Timeline *chart, const TimelineRow *row, int top) {
  Part part[2];
  const int parts = parts_of(chart, row, part), end = part[parts - 1].right;
  char text[64];
  canvas_text(p, MARGIN, top + 18, NAME, row->name, INK);
  for (int i = 0; i < 2 && row->below[i]; i++)
    canvas_text_within(p, MARGIN, top + 38 + 19 * i, SMALL, LANE_NAMES - MARGIN, row->below[i],
                       PALE);
  for (int i = 0; i < parts; i++) draw_part(p, chart, row, &part[i], top);
  if (parts > 1) draw_break(p, chart, row, part, top);
  canvas_rectangle(p, end, top, 2, height_of(row), END);
  snprintf(text, sizeof text, "%.3g %s", row->length, chart->unit);
  canvas_text(p, end + 9, top + height_of(row) / 2.0 + TEXT / 2.0, TEXT, text, END);
  for (int i = 0; i < row->lanes; i++) {
    const TimelineLane *lane = &row->lane[i];
    const double width = canvas_text_width(SMALL, lane->name), middle = top + i * LANE + LANE / 2.0;
    canvas_text(p, LEFT - 12 - width, middle + SMALL / 2.0, SMALL, lane->name, PALE);
    if (lane->note)
      canvas_text_within(p, LEFT + 8, middle + LABEL / 2.0, LABEL, part[0].right - LEFT - 16,
                         lane->note, PALE);
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

bool timeline_draw(const Timeline *chart, Canvas *picture, Error *error) {
  if (!check(chart, error)) return false;
  int bottom = HEAD;
  for (int i = 0; i < chart->rows; i++) bottom += height_of(&chart->row[i]) + ROW_GAP;
  if (!canvas_open(picture, TIMELINE_WIDTH, bottom + FOOT - ROW_GAP, PAPER, error)) return false;
  canvas_text_within(picture, MARGIN, 44, TITLE, TIMELINE_WIDTH - 2 * MARGIN, chart->title, INK);
  canvas_text_within(picture, MARGIN, 74, TEXT, TIMELINE_WIDTH - 2 * MARGIN, chart->subtitle, PALE);
  draw_keys(picture, chart);
  draw_axis(picture, chart, bottom - ROW_GAP);
  for (int i = 0, top = HEAD; i < chart->rows; i++) {
    draw_row(picture, chart, &chart->row[i], top);
    top += height_of(&chart->row[i]) + ROW_GAP;
  }
  return true;
}
