/* What a figure draws, as a list of marks instead of pixels: stands in for canvas.c in the one file
   of a test program that includes this. A text is as wide as 0.6 of its height a letter. Saving
   asserts that the page has a title, that no mark comes near its edges, and that no two texts
   overlap. */
#pragma once

#include "plot/canvas.h"
#include "support/test.h"

enum { IS_TEXT, IS_LINE, IS_RECTANGLE, IS_IMAGE };

typedef struct {
  int kind;
  double x, y, x1, y1; /* text: its box, y1 is the baseline; line: its ends; others: the corners */
  Colour colour;
  char *text;
  uint8_t *pixels; /* of an image: (height, width) */
  int width, height;
} Mark;

enum { MARKS_MOST = 1 << 21 };
static struct {
  int width, height;               /* of the page that was drawn last */
  Mark mark[MARKS_MOST + 1], *end; /* the marks, and behind the last one */
} drawn = {.end = drawn.mark};

/* Half a pixel may be rounded. */
#define assert_at(got, wanted) assert_close(got, wanted, 0.51)

#define EACH_MARK(m) for (const Mark *m = drawn.mark; m < drawn.end; m++)

/* The first text that begins so; NULL: there is none. */
static inline const Mark *text_mark(const char *text) {
  EACH_MARK(m) {
    if (m->kind == IS_TEXT && strncmp(m->text, text, strlen(text)) == 0) return m;
  }
  return NULL;
}

/* Texts begin with all of these. */
#define assert_says(...)                                                                           \
  do {                                                                                             \
    const char *const words[] = {__VA_ARGS__};                                                     \
    foreach (word, words)                                                                          \
      if (!text_mark(*word)) fail_msg("nothing says %s", *word);                                   \
  } while (0)

/* The middle of a text. */
static inline double middle_of(const char *text) {
  assert_says(text);
  return (text_mark(text)->x + text_mark(text)->x1) / 2;
}

/* The y at the middle of a text's letters. */
static inline double row_of(const char *text) {
  assert_says(text);
  return (text_mark(text)->y + text_mark(text)->y1) / 2;
}

/* The marks of that kind and colour, in their order; `index` of them or NULL. */
static inline const Mark *mark_of(int kind, Colour colour, int index) {
  EACH_MARK(m) {
    if (m->kind == kind && m->colour == colour && index-- == 0) return m;
  }
  return NULL;
}

static inline int count_marks(int kind, Colour colour) {
  int count = 0;
  EACH_MARK(m) {
    count += m->kind == kind && m->colour == colour;
  }
  return count;
}

/* ---- in place of canvas.c ------------------------------------------------------------------- */

static Mark *add_mark(int kind, double x, double y, double x1, double y1, Colour colour) {
  assert_true(drawn.end < drawn.mark + MARKS_MOST);
  *drawn.end = (Mark){kind, x, y, x1, y1, .colour = colour};
  return drawn.end++;
}

bool canvas_open(Canvas *picture, int width, int height, Error *unused) {
  (void)unused;
  *picture = (Canvas){.width = drawn.width = width, .height = drawn.height = height};
  for (; drawn.end > drawn.mark; drawn.end--) {
    free(drawn.end[-1].text);
    free(drawn.end[-1].pixels);
  }
  return true;
}

void canvas_close(Canvas *picture) {
  *picture = (Canvas){0};
}

void canvas_rectangle(Canvas *p, double x, double y, double width, double height, Colour colour) {
  (void)p;
  add_mark(IS_RECTANGLE, x, y, x + width, y + height, colour);
}

void canvas_greys(Canvas *p, int x, int y, const uint8_t *pixels, int width, int height, int zoom) {
  (void)p;
  const size_t size = (size_t)width * (size_t)height;
  Mark *mark = add_mark(IS_IMAGE, x, y, x + width * zoom, y + height * zoom, 0);
  mark->width = width;
  mark->height = height;
  mark->pixels = memcpy(malloc(size), pixels, size);
}

void canvas_line(Canvas *p, double x0, double y0, double x1, double y1, double thickness,
                 Colour colour) {
  (void)p, (void)thickness;
  add_mark(IS_LINE, x0, y0, x1, y1, colour);
}

void canvas_paste(Canvas *p, int y, const Canvas *part) {
  (void)p;
  assert_true(y + part->height <= drawn.height);
}

double canvas_text_width(double height, const char *text) {
  return 0.6 * height * (double)strlen(text);
}

void canvas_text(Canvas *p, double x, double baseline, double height, const char *text,
                 Colour colour) {
  (void)p;
  const double end = x + canvas_text_width(height, text);
  if (*text) add_mark(IS_TEXT, x, baseline - height, end, baseline, colour)->text = strdup(text);
}

bool canvas_save(const Canvas *p, const char *path, Error *cause) {
  (void)path, (void)cause;
  enum { EDGE = 10 };
  assert_true(drawn.end > drawn.mark && drawn.mark[0].kind == IS_TEXT && drawn.mark[0].y < 50);
  EACH_MARK(m) {
    if (fmin(m->x, m->x1) < EDGE || fmax(m->x, m->x1) > p->width - EDGE ||
        fmin(m->y, m->y1) < EDGE || fmax(m->y, m->y1) > p->height - EDGE)
      fail_msg("a mark from (%g, %g) to (%g, %g): %s", m->x, m->y, m->x1, m->y1,
               m->text ? m->text : "");
    for (const Mark *t = drawn.mark; m->text && t < m; t++)
      if (t->text && t->x < m->x1 && m->x < t->x1 && t->y < m->y1 && m->y < t->y1)
        fail_msg("%s lies on %s", m->text, t->text);
  }
  return true;
}
