/* The page that every figure is drawn on: its palette, its type, its margins and its axes. A figure
   is marks on a page: text, lines, rectangles and images, which canvas.h turns into pixels. */
#ifndef PAGE_H
#define PAGE_H

#include "plot/canvas.h"

/* ---- palette -------------------------------------------------------------------------------- */

static const Colour PAPER = {255, 255, 255}, INK = {31, 35, 40}, PALE = {110, 119, 129},
                    FAINT = {190, 196, 203}, GRID = {225, 228, 232}, MARK = {209, 36, 47};

/* Colours of series in their order, distinct also for those who see no red or no green: after Okabe
   and Ito (2008). The first two stand for right and wrong, too. */
enum { PAGE_SERIES = 8 };
extern const Colour page_series[PAGE_SERIES];

/* ---- type and margins ----------------------------------------------------------------------- */

enum { TITLE = 20, TEXT = 13, SMALL = 12 }; /* heights of capitals, in pixels */
enum { MARGIN = 28, HEAD = 104 };           /* around the page; above the figure, for its title */
enum { CHART_WIDTH = 1200 };                /* pixels of a page with a chart */
enum { WORDS = 160 };                       /* bytes of a line of text */

/* Opens a page of width x height pixels with a title and a subtitle, in smaller letters if they
   would not fit. */
bool page_open(Canvas *page, const char *title, const char *subtitle, int width, int height,
               Error *error);

/* The width of a page with room for `content` pixels, the title and the subtitle. */
int page_width(int content, const char *title, const char *subtitle);

/* Replaces the file `path` by the page as a PNG, and closes the page, also on failure. */
bool page_save(Canvas *page, const char *path, Error *error);

typedef enum { STARTS, CENTRED, ENDS } TextPlace;

/* Writes a text that starts at, is centred on, or ends at x. */
void page_text(Canvas *page, TextPlace place, double x, double baseline, double height,
               Colour colour, const char *text);

/* Writes a text that starts at x, in letters as much smaller as makes it no wider than `width`. */
void page_text_within(Canvas *page, double x, double baseline, double height, double width,
                      Colour colour, const char *text);

/* The pixels that a text needs, rounded up. */
int page_text_width(double height, const char *text);

/* ---- axes ----------------------------------------------------------------------------------- */

/* Pixels `from` to `to`, and the numbers there: logarithms to base 10 if it is logarithmic. */
typedef struct {
  int from, to;
  double low, high;
  bool logarithmic;
} Axis;

/* Returns the pixel of a value, not rounded. */
double axis_place(const Axis *axis, double value);

enum { AXIS_TICKS = 64 };
typedef struct {
  double at; /* pixel, not rounded */
  char text[32];
} Tick;

/* The kind of all values at an axis, which decides which numbers stand there. */
typedef enum { ANY_NUMBERS, WHOLE_NUMBERS, POWERS_OF_TWO } AxisNumbers;

/* Sets up to AXIS_TICKS ticks at round numbers, about `wanted` of them, and returns their count. */
int axis_ticks(const Axis *axis, int wanted, AxisNumbers numbers, Tick *ticks);

/* ---- cells ---------------------------------------------------------------------------------- */

/* A grid of equal cells: of filters, of digits, of counts. */
typedef struct {
  int left, top;
  int width, height; /* from one cell to the next, in pixels */
  int columns;
} Grid;

static inline int cell_x(const Grid *grid, int i) {
  return grid->left + i % grid->columns * grid->width;
}

static inline int cell_y(const Grid *grid, int i) {
  return grid->top + i / grid->columns * grid->height;
}

#endif
