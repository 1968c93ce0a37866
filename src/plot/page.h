/* Every figure is drawn on a page, which sets palette, type, margins, legend and axes. A figure
   puts marks on its page: text, lines, rectangles and images. canvas.h turns them into pixels. */
#pragma once

#include "base/text.h"
#include "plot/canvas.h"

/* ---- palette -------------------------------------------------------------------------------- */

static const Colour PAPER = 0xffffff, INK = 0x1f2328, PALE = 0x6e7781, FAINT = 0xbec4cb,
                    GRID = 0xe1e4e8, MARK = 0xd1242f;

/* The colours of two series, and of right and wrong. People who cannot see red or green can tell
   them apart, after Okabe and Ito (2008). */
static const Colour page_series[] = {0x0072b2, 0xd55e00};

/* ---- type and margins ----------------------------------------------------------------------- */

enum { TITLE = 20, TEXT = 13, SMALL = 12 }; /* heights of capitals, in pixels */
enum { MARGIN = 28, HEAD = 104 };           /* around the page; above the figure, for its title */
enum { CHART_WIDTH = 1200, LEAST_WIDTH = 760 }; /* pixels of a page: with a chart; of any */

/* Opens a page of at least LEAST_WIDTH x height pixels. Title and subtitle get smaller letters if
   they would not fit. */
bool page_open(Canvas *page, const char *title, const char *subtitle, int width, int height,
               Error *error);

/* Replaces the file `path` by the page as a PNG. Closes the page even if it fails. */
bool page_save(Canvas *page, const char *path, Error *error);

typedef enum { STARTS, CENTRED, ENDS } TextPlace;

/* Writes a text that starts at x, is centred on x, or ends at x. */
void page_text(Canvas *page, TextPlace place, double x, double baseline, double height,
               Colour colour, const char *text);

/* Does the same, with letters shrunk so that the text is at most `width` wide. */
void page_text_within(Canvas *page, TextPlace place, double x, double baseline, double height,
                      double width, Colour colour, const char *text);

/* A colour and the word for its meaning. */
typedef struct {
  Colour colour;
  const char *text;
} Key;

/* Writes what the colours mean, in a row that ends at x = `right`. */
void page_legend(Canvas *page, double right, double baseline, const Key *keys, int count);

/* ---- axes ----------------------------------------------------------------------------------- */

/* The figure sets the first fields; the code that draws the axis sets the rest. */
typedef struct {
  const char *label;      /* what the numbers are, with their unit */
  bool logarithmic;       /* logarithmic scale; all numbers are above 0 */
  double mark;            /* where a line rises from a horizontal axis */
  const char *mark_label; /* NULL if there is no mark */

  bool upright;
  int from, to;     /* pixels of the ends: left and right, or bottom and top */
  int near, far;    /* pixels of the numbers, and where the grid lines end */
  double low, high; /* numbers at the ends; base-10 logarithms if logarithmic */
  bool fractions;   /* some numbers are not integers */
} Axis;

/* Empties the axis: low is then above high. */
void axis_clear(Axis *axis);

/* Extends the axis to a value. Returns false if the value cannot be placed, as 0 on a logarithmic
   axis. */
bool axis_include(Axis *axis, double value);

/* Returns the pixel of a value, not rounded. It is not finite if the value cannot be placed. */
double axis_place(const Axis *axis, double value);

/* Draws label, mark, and lines at round numbers, which are integers if all values are. */
void page_axis(Canvas *page, const Axis *axis);

/* ---- cells ---------------------------------------------------------------------------------- */

/* A grid of equal cells, for filters, digits or counts. */
typedef struct {
  int left, top;
  int width, height; /* distance between cells, in pixels */
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

/* Returns a grid of images with side `side`, enlarged. Below each are `lines` lines of text,
   `width` pixels wide. */
Grid tile_grid(int left, int top, int width, int columns, int side, int lines);

/* Draws image i of the grid, `pixels` (side, side), and its lines. */
void page_tile(Canvas *page, const Grid *grid, int i, const uint8_t *pixels, int side,
               const Key *lines, int count);

/* ---- a chart of dots ---------------------------------------------------------------------- */

/* A chart of times as dots over a logarithmic axis, with one row per time. It has no bars, because
   a logarithmic axis has no zero where bars could begin. */

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

/* Colours of what is compared: our program, the library beside it, everything else. */
static const Colour OURS = 0x0969da, LIBRARY = 0x8250df, OTHER = 0xafb8c1;

/* Adds a row. Rows beyond DOT_CHART_MAX are left out. */
void dot_chart_add(DotChart *chart, const char *label, double ms, Colour colour);

/* Replaces the file `path` by the chart as a PNG. Fails if a time is not above 0, memory runs out,
   or the file cannot be written. */
bool dot_chart_draw(const DotChart *chart, const char *path, Error *error);
