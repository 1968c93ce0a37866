/* What a figure draws, as a list of marks instead of pixels: stands in for canvas.c in the one file
   of a test program that includes this. A text is as wide as 0.6 of its height a letter. Saving
   asserts that the page has a title and that no mark comes near its edges. */
#ifndef MARKS_H
#define MARKS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plot/canvas.h"
#include "support/test.h"

enum { IS_TEXT, IS_LINE, IS_RECTANGLE, IS_IMAGE };

typedef struct {
  int kind;
  double x, y, x1, y1; /* text: its box, y1 is the baseline; line: its ends; others: the corners */
  double size;         /* of a line: thickness; of an image: zoom */
  Colour colour;
  char *text;
  uint8_t *pixels; /* of an image: (height, width) */
  int width, height;
} Mark;

static struct {
  int width, height; /* of the page that was drawn last */
  Mark *mark, *end;  /* the marks, and behind the last one */
  int room;
} drawn;

static void add_mark(Mark mark) {
  const int count = (int)(drawn.end - drawn.mark);
  if (count == drawn.room) {
    drawn.room = 2 * count + 64;
    drawn.mark = realloc(drawn.mark, (size_t)drawn.room * sizeof *drawn.mark);
    assert_non_null(drawn.mark);
    drawn.end = drawn.mark + count;
  }
  *drawn.end++ = mark;
}

static inline bool same_colour(Colour a, Colour b) {
  return memcmp(&a, &b, sizeof a) == 0;
}

/* The first text that begins so; NULL: there is none. */
static inline const Mark *text_mark(const char *text) {
  for (const Mark *m = drawn.mark; m < drawn.end; m++)
    if (m->kind == IS_TEXT && strncmp(m->text, text, strlen(text)) == 0) return m;
  return NULL;
}

/* The marks of that kind and colour, in their order; `index` of them or NULL. */
static inline const Mark *mark_of(int kind, Colour colour, int index) {
  for (const Mark *m = drawn.mark; m < drawn.end; m++)
    if (m->kind == kind && same_colour(m->colour, colour) && index-- == 0) return m;
  return NULL;
}

static inline int count_marks(int kind, Colour colour) {
  int count = 0;
  while (mark_of(kind, colour, count)) count++;
  return count;
}

/* ---- in place of canvas.c ------------------------------------------------------------------- */

bool canvas_open(Canvas *picture, int width, int height, Colour background, Error *error) {
  (void)error;
  *picture = (Canvas){.width = width, .height = height};
  assert_true(background.red == 255 && width <= CANVAS_MAX_SIDE && height <= CANVAS_MAX_SIDE);
  for (const Mark *m = drawn.mark; m < drawn.end; m++) {
    free(m->text);
    free(m->pixels);
  }
  drawn.width = width;
  drawn.height = height;
  drawn.end = drawn.mark;
  return true;
}

void canvas_close(Canvas *picture) {
  *picture = (Canvas){0};
}

void canvas_rectangle(Canvas *p, int x, int y, int width, int height, Colour colour) {
  (void)p;
  add_mark((Mark){IS_RECTANGLE, x, y, x + width, y + height, .colour = colour});
}

void canvas_greys(Canvas *p, int x, int y, const uint8_t *pixels, int width, int height, int zoom) {
  (void)p;
  Mark mark = {IS_IMAGE, x, y, x + width * zoom, y + height * zoom, .size = zoom};
  mark.width = width;
  mark.height = height;
  mark.pixels = malloc((size_t)width * (size_t)height);
  assert_non_null(mark.pixels);
  memcpy(mark.pixels, pixels, (size_t)width * (size_t)height);
  add_mark(mark);
}

void canvas_line(Canvas *p, double x0, double y0, double x1, double y1, double thickness,
                 Colour colour) {
  (void)p;
  add_mark((Mark){IS_LINE, x0, y0, x1, y1, .size = thickness, .colour = colour});
}

double canvas_text_width(double height, const char *text) {
  return 0.6 * height * (double)strlen(text);
}

double canvas_text(Canvas *p, double x, double baseline, double height, const char *text,
                   Colour colour) {
  (void)p;
  const double end = x + canvas_text_width(height, text);
  if (*text)
    add_mark((Mark){IS_TEXT, x, baseline - height, end, baseline, .colour = colour,
                    .text = strdup(text)});
  return end;
}

bool canvas_save(const Canvas *picture, const char *path, Error *error) {
  enum { EDGE = 10 };
  assert_true(drawn.end > drawn.mark && drawn.mark[0].kind == IS_TEXT && drawn.mark[0].y < 50);
  for (const Mark *m = drawn.mark; m < drawn.end; m++)
    if (fmin(m->x, m->x1) < EDGE || fmax(m->x, m->x1) > picture->width - EDGE ||
        fmin(m->y, m->y1) < EDGE || fmax(m->y, m->y1) > picture->height - EDGE)
      fail_msg("a mark from (%g, %g) to (%g, %g): %s", m->x, m->y, m->x1, m->y1,
               m->text ? m->text : "");
  return !strstr(path, "no-such-folder") || error_set(error, "cannot write %s", path);
}

#endif
