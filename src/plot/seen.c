#include "plot/seen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "base/text.h"
#include "plot/canvas.h"

static const Colour PAPER = {255, 255, 255}, INK = {31, 35, 40}, PALE = {110, 119, 129},
                    SURE = {0, 114, 178}, UNSURE = {213, 94, 0};

enum { MARGIN = 28, HEAD = 104, GAP = 12 };
enum { TITLE = 20, TEXT = 13, SMALL = 12 }; /* heights of capitals */
enum { VIEW = 420 };                        /* pixels of a picture's longer side, at most */
enum { DIGIT = 84, COLUMNS = 6 };           /* pixels of a digit, at least; digits in a row */
enum { CAPTION = 44 };                      /* height of what is written below */
enum { NAME = 64 };                         /* bytes of a name, the end included */

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

/* The mean of the levels that pixel (x, y) of the view stands for. */
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
      (double)max_int(p->width, p->height) / VIEW; /* levels to a pixel of the view */
  Row row = {.width = max_int(1, (int)(p->width / step)),
             .height = max_int(1, (int)(p->height / step)),
             .count = p->count};
  const size_t view = (size_t)row.width * (size_t)row.height;
  const size_t size = (size_t)seen->side * (size_t)seen->side;
  row.view = malloc(view + (size_t)p->count * size);
  row.digits = malloc(((size_t)p->count + 1) * sizeof *row.digits);
  if (!row.view || !row.digits) {
    free(row.view);
    free(row.digits);
    return error_set(error, "no memory to show %s", p->name);
  }
  text_printable(row.name, sizeof row.name, p->name);
  for (int y = 0; y < row.height; y++)
    for (int x = 0; x < row.width; x++)
      row.view[(size_t)y * (size_t)row.width + (size_t)x] = view_level(p, step, x, y);
  for (int i = 0; i < p->count; i++) {
    const SeenDigit *d = &p->digits[i];
    uint8_t *pixels = row.view + view + (size_t)i * size;
    memcpy(pixels, d->pixels, size);
    row.digits[i] = *d;
    row.digits[i].pixels = pixels;
    row.digits[i].left = (int)(d->left / step);
    row.digits[i].top = (int)(d->top / step);
    row.digits[i].width = (int)(d->width / step);
    row.digits[i].height = (int)(d->height / step);
  }
  seen->rows[seen->count++] = row;
  return true;
}

/* ---- drawing ------------------------------------------------------------------------------ */

static int cell_of(const Seen *seen) {
  return max_int(seen->side * seen->zoom, (int)ceil(canvas_text_width(SMALL, "100.0% unsure"))) +
         GAP;
}

static int row_height(const Seen *seen, const Row *row) {
  const int lines = (row->count + COLUMNS - 1) / COLUMNS;
  const int digits = lines * (seen->side * seen->zoom + CAPTION);
  return max_int(row->height + CAPTION, digits) + GAP;
}

static void draw_box(Canvas *p, int x, int y, const SeenDigit *d, int number, int count) {
  const Colour colour = d->sure ? SURE : UNSURE;
  const double left = x + d->left - 2, top = y + d->top - 2;
  const double right = x + d->left + d->width + 2, bottom = y + d->top + d->height + 2;
  char text[16];
  canvas_line(p, left, top, right, top, 2, colour);
  canvas_line(p, right, top, right, bottom, 2, colour);
  canvas_line(p, right, bottom, left, bottom, 2, colour);
  canvas_line(p, left, bottom, left, top, 2, colour);
  snprintf(text, sizeof text, "%d", number);
  if (count > 1) canvas_text(p, left, top - 5, SMALL, text, colour);
}

static void draw_digit(Canvas *p, const Seen *seen, int x, int y, const SeenDigit *d, int number,
                       int count) {
  const int side = seen->side * seen->zoom;
  char text[48];
  canvas_greys(p, x, y, d->pixels, seen->side, seen->side, seen->zoom);
  if (count > 1)
    snprintf(text, sizeof text, "%d: %d", number, d->answer);
  else
    snprintf(text, sizeof text, "%d", d->answer);
  canvas_text(p, x, y + side + SMALL + 5, SMALL, text, INK);
  snprintf(text, sizeof text, "%.1f%%%s", 100 * d->probability, d->sure ? "" : " unsure");
  canvas_text(p, x, y + side + 2 * SMALL + 12, SMALL, text, d->sure ? SURE : UNSURE);
}

static void draw_row(Canvas *p, const Seen *seen, const Row *row, int y) {
  const int digits = MARGIN + VIEW + 2 * GAP, side = seen->side * seen->zoom;
  canvas_greys(p, MARGIN, y, row->view, row->width, row->height, 1);
  canvas_text_within(p, MARGIN, y + row->height + SMALL + 5, SMALL, VIEW + GAP, row->name, PALE);
  for (int i = 0; i < row->count; i++) {
    draw_box(p, MARGIN, y, &row->digits[i], i + 1, row->count);
    draw_digit(p, seen, digits + i % COLUMNS * cell_of(seen), y + i / COLUMNS * (side + CAPTION),
               &row->digits[i], i + 1, row->count);
  }
}

bool seen_save(const Seen *seen, const char *path, Error *error) {
  const int shown = min_int(seen->count, SEEN_MOST);
  int height = HEAD + MARGIN, columns = 1;
  for (int i = 0; i < shown; i++) {
    height += row_height(seen, &seen->rows[i]);
    columns = max_int(columns, min_int(seen->rows[i].count, COLUMNS));
  }
  static const char title[] = "What the network saw";
  char subtitle[96];
  if (shown < seen->count)
    snprintf(subtitle, sizeof subtitle, "the first %d of %d pictures", shown, seen->count);
  else
    snprintf(subtitle, sizeof subtitle, "%d picture%s with digits", shown, shown == 1 ? "" : "s");
  Canvas p;
  const int width = 2 * MARGIN + VIEW + 2 * GAP + columns * cell_of(seen);
  if (!canvas_open(&p, width, min_int(height, CANVAS_MAX_SIDE), PAPER, error)) return false;
  canvas_text(&p, MARGIN, 44, TITLE, title, INK);
  canvas_text(&p, MARGIN, 74, TEXT, subtitle, PALE);
  for (int i = 0, y = HEAD; i < shown; y += row_height(seen, &seen->rows[i]), i++)
    draw_row(&p, seen, &seen->rows[i], y);
  const bool saved = canvas_save(&p, path, error);
  canvas_close(&p);
  return saved;
}
