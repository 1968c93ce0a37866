/* The page that every figure is drawn on: its palette, its type, its margins, its legend and its
   axes. A figure is marks on a page: text, lines, rectangles and images, which canvas.h turns into
   pixels. */
#pragma once

#include "base/text.h"
#include "plot/canvas.h"

/* ---- palette -------------------------------------------------------------------------------- */

static const Colour PAPER = 0xffffff, INK = 0x1f2328, PALE = 0x6e7781, FAINT = 0xbec4cb,
                    GRID = 0xe1e4e8, MARK = 0xd1242f;

/* The colours of two series, also of right and wrong: distinct for those who see no red or no
   green, after Okabe and Ito (2008). */
static const Colour page_series[] = {0x0072b2, 0xd55e00};

/* Letters are dark on pale colours and white on dark ones. */
Colour page_ink_on(Colour colour);

/* ---- type and margins ----------------------------------------------------------------------- */

enum { TITLE = 20, TEXT = 13, SMALL = 12 }; /* heights of capitals, in pixels */
enum { MARGIN = 28, HEAD = 104 };           /* around the page; above the figure, for its title */
enum { CHART_WIDTH = 1200, LEAST_WIDTH = 760 }; /* pixels of a page: with a chart; of any */

/* Opens a page of at least LEAST_WIDTH x height pixels with a title and a subtitle, in smaller
   letters if they would not fit. */
bool page_open(Canvas *page, const char *title, const char *subtitle, int width, int height,
               Error *error);

/* Replaces the file `path` by the page as a PNG, and closes the page, also on failure. */
bool page_save(Canvas *page, const char *path, Error *error);

typedef enum { STARTS, CENTRED, ENDS } TextPlace;

/* Writes a text that starts at, is centred on, or ends at x. */
void page_text(Canvas *page, TextPlace place, double x, double baseline, double height,
               Colour colour, const char *text);

/* The same in letters as much smaller as makes the text no wider than `width`. */
void page_text_within(Canvas *page, TextPlace place, double x, double baseline, double height,
                      double width, Colour colour, const char *text);

/* A colour and the word for what has it. */
typedef struct {
  Colour colour;
  const char *text;
} Key;

/* Writes what the colours mean, in a row that ends at x = right. */
void page_legend(Canvas *page, double right, double baseline, const Key *keys, int count);

/* ---- axes ----------------------------------------------------------------------------------- */

/* A figure names the axis; what draws it sets the place and what is there. */
typedef struct {
  const char *label;      /* what the numbers are, with their unit */
  bool logarithmic;       /* all numbers above 0 */
  double mark;            /* where a line goes up from an axis that lies */
  const char *mark_label; /* NULL: there is no mark */

  bool upright;
  int from, to;     /* pixels of its ends: left and right, or bottom and top */
  int near, far;    /* pixels where its numbers are, and where the lines across end */
  double low, high; /* the numbers at its ends: logarithms to base 10 if it is logarithmic */
  bool fractions;   /* not all are integers */
} Axis;

/* Makes the axis one of no values: low is above high. */
void axis_clear(Axis *axis);

/* Makes the axis reach to a value. False if the value has no place, as 0 among logarithms. */
bool axis_include(Axis *axis, double value);

/* Returns the pixel of a value, not rounded; it is not finite if the value has no place. */
double axis_place(const Axis *axis, double value);

/* Draws label, mark, and lines at round numbers, which are whole if all values are. */
void page_axis(Canvas *page, const Axis *axis);

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

/* Returns the y below the grid of `count` cells. */
static inline int grid_end(const Grid *grid, int count) {
  return cell_y(grid, count + grid->columns - 1);
}

/* Returns a grid of images of `side` pixels, made larger, with so many lines of text below each,
   which has `width` pixels. */
Grid tile_grid(int left, int top, int width, int columns, int side, int lines);

/* Draws image i of them, `pixels` (side, side), and its lines. */
void page_tile(Canvas *page, const Grid *grid, int i, const uint8_t *pixels, int side,
               const Key *lines, int count);

/* ---- a chart of dots ---------------------------------------------------------------------- */

/* A chart of times as dots over a logarithmic axis, a row for each. Bars would say nothing: an
   axis of logarithms has no zero for them to begin at. */

enum { DOT_CHART_MAX = 100 };

typedef struct {
  ShortText label;
  double ms; /* above 0 */
  Colour colour;
} DotChartRow;

typedef struct {
  const char *title, *subtitle;
  int count;
  DotChartRow rows[DOT_CHART_MAX]; /* top to bottom */
} DotChart;

/* Colours of what is compared: ours, the library it stands beside, everything else. */
static const Colour OURS = 0x0969da, LIBRARY = 0x8250df, OTHER = 0xafb8c1;

/* Adds a row; those beyond DOT_CHART_MAX are left out. */
void dot_chart_add(DotChart *chart, const char *label, double ms, Colour colour);

/* Replaces the file `path` by the chart as a PNG. Fails on a time that is not above 0, without
   memory, or if the file cannot be written. */
bool dot_chart_draw(const DotChart *chart, const char *path, Error *error);
