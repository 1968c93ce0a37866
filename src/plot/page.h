/* A page is a canvas with a title, on which a figure is drawn. All pages share the palette, sizes
   of letters, margins, legends and axes below. */
#pragma once

#include "base/text.h"
#include "plot/canvas.h"

/* ---- palette -------------------------------------------------------------------------------- */

static const Colour PAPER = 0xffffff, INK = 0x1f2328, PALE = 0x6e7781, FAINT = 0xbec4cb,
                    GRID = 0xe1e4e8, MARK = 0xd1242f;

/* The colours of the first series, the second (or of right and wrong) and the third. Colour-blind
   people can tell them apart (Okabe and Ito, 2008). */
static const Colour page_series[] = {0x0072b2, 0xd55e00, 0x009e73};

/* ---- type and margins ----------------------------------------------------------------------- */

enum { TITLE = 20, TEXT = 13, SMALL = 12 }; /* heights of capitals, in pixels */
enum { MARGIN = 28, HEAD = 104 };           /* margin on every side; height of the title's area */
enum { CHART_WIDTH = 1200, LEAST_WIDTH = 760 }; /* page width of a chart; minimum page width */

/* Opens a page with a title and a subtitle, which get smaller letters if they would not fit. The
   page is `width` pixels wide, but at least LEAST_WIDTH. */
bool page_open(Canvas *page, const char *title, const char *subtitle, int width, int height,
               Error *error);

/* Saves the page as the PNG file `path`, which replaces an older file. Always closes the page. */
bool page_save(Canvas *page, const char *path, Error *error);

typedef enum { STARTS, CENTRED, ENDS } TextPlace;

/* Writes a text. `place` says whether it starts at x, is centred on x, or ends at x. */
void page_text(Canvas *page, TextPlace place, double x, double baseline, double height,
               Colour colour, const char *text);

/* Writes a text as page_text does, with smaller letters if it would be wider than `width`. */
void page_text_within(Canvas *page, TextPlace place, double x, double baseline, double height,
                      double width, Colour colour, const char *text);

/* A colour and the word for its meaning. */
typedef struct {
  Colour colour;
  const char *text;
} Key;

/* Draws a legend: `count` colours and their meanings, in one row that ends at x = `right`. */
void page_legend(Canvas *page, double right, double baseline, const Key *keys, int count);

/* ---- axes ----------------------------------------------------------------------------------- */

/* An axis. axis_clear and axis_include set low, high and fractions; callers set the rest. */
typedef struct {
  const char *label;      /* what the numbers measure, and their unit */
  bool logarithmic;       /* true: the scale is logarithmic, and all values are above 0 */
  double mark;            /* the value at which a horizontal axis has a vertical line */
  const char *mark_label; /* the label of the line at `mark`; NULL means no line */

  bool upright;
  int from, to;     /* ends of the axis in pixels: left and right, or bottom and top */
  int near, far;    /* ends of the grid lines in pixels; numbers stand at `near` */
  double low, high; /* values at the axis's ends; if `logarithmic`, their log10 */
  bool fractions;   /* true if some values are not integers */
} Axis;

/* Makes the axis empty, with `low` above `high`. */
void axis_clear(Axis *axis);

/* Extends the axis to a value. Returns false if the axis cannot show the value, such as 0 on a
   logarithmic axis. */
bool axis_include(Axis *axis, double value);

/* Returns a value's place in pixels, or INFINITY or NAN if the axis cannot show the value. */
double axis_place(const Axis *axis, double value);

/* Draws the label, the mark, and grid lines at round numbers (integers unless `fractions`). */
void page_axis(Canvas *page, const Axis *axis);

/* ---- cells ---------------------------------------------------------------------------------- */

/* A grid of equal cells, for filters, digits or counts. */
typedef struct {
  int left, top;
  int width, height; /* distances from a cell to the next cell, in pixels */
  int columns;
} Grid;

static inline int cell_x(const Grid *grid, int i) {
  return grid->left + i % grid->columns * grid->width;
}

static inline int cell_y(const Grid *grid, int i) {
  return grid->top + i / grid->columns * grid->height;
}

/* Returns the y coordinate of the lower end of a grid of `count` cells. */
static inline int grid_end(const Grid *grid, int count) {
  return cell_y(grid, count + grid->columns - 1);
}

/* Returns a grid for enlarged images (side, side), each with `lines` lines of text below it. A cell
   is `width` pixels wide. */
Grid tile_grid(int left, int top, int width, int columns, int side, int lines);

/* Draws `pixels` (side, side) as image i of the grid, with `count` lines of text. */
void page_tile(Canvas *page, const Grid *grid, int i, const uint8_t *pixels, int side,
               const Key *lines, int count);

/* ---- a chart of dots ---------------------------------------------------------------------- */

/* A chart that shows times as dots on a logarithmic axis, with one row per time. It has no bars,
   because a logarithmic axis has no zero where bars could begin. */

enum { DOT_CHART_MAX = 100 };

typedef struct {
  ShortText label;
  double ms; /* above 0 */
  Colour colour;
} DotChartRow;

typedef struct {
  const char *title, *subtitle;
  int count;
  DotChartRow rows[DOT_CHART_MAX]; /* from top to bottom */
} DotChart;

/* The colours of our program, of the library that it is compared with, and of everything else. */
static const Colour OURS = 0x0969da, LIBRARY = 0x8250df, OTHER = 0xafb8c1;

/* Adds a row, unless the chart has DOT_CHART_MAX rows. */
void dot_chart_add(DotChart *chart, const char *label, double ms, Colour colour);

/* Saves the chart as the PNG file `path`, which replaces an older file. Fails if a time is not
   above 0, if memory runs out, or if the file cannot be written. */
bool dot_chart_draw(const DotChart *chart, const char *path, Error *error);
