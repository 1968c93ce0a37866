#include "plot/seen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "base/text.h"
#include "plot/page.h"

enum { GAP = 12 };
enum { VIEW = 420 };              /* pixels of a picture's longer side, at most */
enum { DIGIT = 84, COLUMNS = 6 }; /* pixels of a digit, at least; digits in a row */
enum { CAPTION = 44 };            /* height of what is written below */
enum { NAME = 64 };               /* bytes of a name, the end included */

typedef struct {
  char name[NAME];
  int width, height; /* of the view */
  uint8_t *view;     /* (height, width), then the digits' pixels (count, side, side) */
  SeenDigit *digits; /* boxes in pixels of the view */
  int count;
} Row;

struct Seen {
  int side, zoom;
  int count; /* all that were added */
  Row rows[SEEN_MOST];
};

Seen *seen_open(int side) {
  Seen *seen = calloc(1, sizeof *seen);
  if (!seen) return NULL;
  seen->side = side;
  seen->zoom = max_int(1, (DIGIT + side - 1) / side);
  return seen;
}

void seen_close(Seen *seen) {
  for (int i = 0; seen && i < min_int(seen->count, SEEN_MOST); i++) {
    free(seen->rows[i].view);
    free(seen->rows[i].digits);
  }
  free(seen);
}

/* ---- a picture's view --------------------------------------------------------------------- */

/* Returns the mean of the levels that pixel (x, y) of the view stands for. */
static uint8_t view_level(const SeenPicture *p, double step, int x, int y) {
  const int left = min_int((int)(x * step), p->width - 1),
            top = min_int((int)(y * step), p->height - 1);
  const int right = min_int(max_int((int)((x + 1) * step), left + 1), p->width);
  const int bottom = min_int(max_int((int)((y + 1) * step), top + 1), p->height);
  unsigned sum = 0;
  for (int row = top; row < bottom; row++)
    for (int column = left; column < right; column++)
      sum += p->level[(size_t)row * (size_t)p->width + (size_t)column];
  return (uint8_t)(sum / (unsigned)((right - left) * (bottom - top)));
}

bool seen_add(Seen *seen, const SeenPicture *p, Error *error) {
  if (seen->count >= SEEN_MOST) {
    seen->count++;
    return true;
  }
  const double step =
      (double)max_int(p->width, p->height) / VIEW; /* levels per pixel of the view */
  Row row = {.width = max_int(1, (int)(p->width / step)),
             .height = max_int(1, (int)(p->height / step)),
             .count = p->count};
  const size_t size = (size_t)seen->side * (size_t)seen->side;
  row.view = malloc((size_t)row.width * (size_t)row.height + (size_t)p->count * size);
  row.digits = malloc(((size_t)p->count + 1) * sizeof *row.digits);
  if (!row.view || !row.digits) {
    free(row.view);
    free(row.digits);
    return error_set(error, "no memory to show %s", p->name);
  }
  text_printable(row.name, sizeof row.name, p->name);
  uint8_t *next = row.view;
  for (int y = 0; y < row.height; y++)
    for (int x = 0; x < row.width; x++) *next++ = view_level(p, step, x, y);
  for (int i = 0; i < p->count; i++) {
    const SeenDigit *d = &p->digits[i];
    row.digits[i] = (SeenDigit){.pixels = memcpy(next, d->pixels, size),
                                .left = (int)(d->left / step),
                                .top = (int)(d->top / step),
                                .width = (int)(d->width / step),
                                .height = (int)(d->height / step),
                                .answer = d->answer,
                                .probability = d->probability,
                                .sure = d->sure};
    next += size;
  }
  seen->rows[seen->count++] = row;
  return true;
}

/* ---- drawing ------------------------------------------------------------------------------ */

static Grid grid_of(const Seen *seen, int top) {
  const int side = seen->side * seen->zoom;
  return (Grid){.left = MARGIN + VIEW + 2 * GAP,
                .top = top,
                .width = max_int(side, page_text_width(SMALL, "100.0% unsure")) + GAP,
                .height = side + CAPTION,
                .columns = COLUMNS};
}

static int row_height(const Seen *seen, const Row *row) {
  const int lines = (row->count + COLUMNS - 1) / COLUMNS;
  return max_int(row->height + CAPTION, lines * grid_of(seen, 0).height) + GAP;
}

static Colour colour_of(const SeenDigit *d) {
  return page_series[d->sure ? 0 : 1];
}

/* `number`: of the digit in the picture, "" if it is alone. */
static void draw_box(Canvas *p, int x, int y, const SeenDigit *d, const char *number) {
  const double left = x + d->left - 2, top = y + d->top - 2;
  const double right = x + d->left + d->width + 2, bottom = y + d->top + d->height + 2;
  const double corner[][2] = {
      {left, top}, {right, top}, {right, bottom}, {left, bottom}, {left, top}};
  for (int i = 0; i < 4; i++)
    canvas_line(p, corner[i][0], corner[i][1], corner[i + 1][0], corner[i + 1][1], 2, colour_of(d));
  page_text(p, STARTS, left, top - 5, SMALL, colour_of(d), number);
}

static void draw_digit(Canvas *p, const Seen *seen, int x, int y, const SeenDigit *d,
                       const char *number) {
  const int below = y + seen->side * seen->zoom;
  char text[48];
  canvas_greys(p, x, y, d->pixels, seen->side, seen->side, seen->zoom);
  snprintf(text, sizeof text, "%s%s%d", number, *number ? ": " : "", d->answer);
  page_text(p, STARTS, x, below + SMALL + 5, SMALL, INK, text);
  snprintf(text, sizeof text, "%.1f%%%s", 100 * d->probability, d->sure ? "" : " unsure");
  page_text(p, STARTS, x, below + 2 * SMALL + 12, SMALL, colour_of(d), text);
}

static void draw_row(Canvas *p, const Seen *seen, const Row *row, int y) {
  const Grid grid = grid_of(seen, y);
  canvas_greys(p, MARGIN, y, row->view, row->width, row->height, 1);
  page_text_within(p, MARGIN, y + row->height + SMALL + 5, SMALL, VIEW + GAP, PALE, row->name);
  for (int i = 0; i < row->count; i++) {
    char number[16] = "";
    if (row->count > 1) snprintf(number, sizeof number, "%d", i + 1);
    draw_box(p, MARGIN, y, &row->digits[i], number);
    draw_digit(p, seen, cell_x(&grid, i), cell_y(&grid, i), &row->digits[i], number);
  }
}

bool seen_save(const Seen *seen, const char *path, Error *error) {
  const int shown = min_int(seen->count, SEEN_MOST);
  int height = HEAD + MARGIN, columns = 1;
  for (int i = 0; i < shown; i++) {
    height += row_height(seen, &seen->rows[i]);
    columns = max_int(columns, min_int(seen->rows[i].count, COLUMNS));
  }
  char subtitle[WORDS];
  if (shown < seen->count)
    snprintf(subtitle, sizeof subtitle, "the first %d of %d pictures", shown, seen->count);
  else
    snprintf(subtitle, sizeof subtitle, "%d picture%s with digits", shown, shown == 1 ? "" : "s");
  const Grid grid = grid_of(seen, HEAD);
  Canvas page;
  if (!page_open(&page, "What the network saw", subtitle, grid.left + columns * grid.width + MARGIN,
                 min_int(height, CANVAS_MAX_SIDE), error))
    return false;
  for (int i = 0, y = HEAD; i < shown; y += row_height(seen, &seen->rows[i]), i++)
    draw_row(&page, seen, &seen->rows[i], y);
  return page_save(&page, path, error);
}
