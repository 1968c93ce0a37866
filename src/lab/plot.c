/* Draws a topic's sweeps: the rate of a rung over the point at which it ran. */
#include "lab/harness.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "plot/page.h"

enum { PANELS = 8, PANEL = 400, PANEL_TOP = 92, PANEL_HEAD = 66, PANEL_FOOT = 70, KEYS = 6 };
enum { PANEL_LEFT = 110, PANEL_RIGHT = CHART_WIDTH - 40 };
static const double LINE = 2.6, DOT = 7;

/* The rungs of a panel have names that agree up to their last '-': offset-4, offset-8. */
static int family(const char *rung) {
  const char *end = strrchr(rung, '-');
  return end ? (int)(end - rung) : (int)strlen(rung);
}

static bool same_family(const char *a, const char *b) {
  return family(a) == family(b) && strncmp(a, b, (size_t)family(a)) == 0;
}

static bool is_drawn(const json_t *row) {
  return isfinite(number_of(row, "point")) && isfinite(number_of(row, "rate"));
}

/* Sets `first` to the first row of each panel. Returns the number of panels. */
static int find_panels(const json_t *rows, const json_t *first[PANELS]) {
  int count = 0;
  foreach_in (row, rows) {
    bool known = !is_drawn(row) || count == PANELS;
    for (int i = 0; i < count; i++)
      known |= same_family(text_of(row, "rung"), text_of(first[i], "rung"));
    if (!known) first[count++] = row;
  }
  return count;
}

/* Returns the part of the topic's point_name that names what panel i sweeps. */
static ShortText point_name(const json_t *topic, int i) {
  const char *at = text_of(topic, "point_name");
  for (const char *next; i > 0 && (next = strstr(at, "; ")); i--) at = next + 2;
  return text_format("%.*s", (int)strcspn(at, ";"), at);
}

/* Returns the axis of the points. It is logarithmic if they are above 0 and far from each other. */
static Axis axis_of_points(const json_t *rows, const json_t *first, const char *label, int bottom) {
  static const double FAR = 20;
  Axis x = {.label = label, .from = PANEL_LEFT, .to = PANEL_RIGHT, .near = bottom};
  double low = INFINITY, high = 0;
  foreach_in (row, rows) {
    if (!is_drawn(row) || !same_family(text_of(row, "rung"), text_of(first, "rung"))) continue;
    low = fmin(low, number_of(row, "point"));
    high = fmax(high, number_of(row, "point"));
  }
  x.logarithmic = low > 0 && high > FAR * low;
  axis_clear(&x);
  axis_include(&x, low);
  axis_include(&x, high);
  const double air = fmax(0.02 * (x.high - x.low), 1e-3);
  x.low -= air;
  x.high += air;
  return x;
}

/* Draws the rows of the panel whose first row is `first`. A rung's rows are a curve. Sets the keys
   of the curves, at most KEYS, and returns how many there are. */
static int draw_curves(Canvas *page, const json_t *rows, const json_t *first, const Axis *x_axis,
                       const Axis *y_axis, Key keys[KEYS]) {
  const json_t *last = NULL;
  double last_x = NAN, last_y = NAN;
  int count = 0;
  foreach_in (row, rows) {
    const char *rung = text_of(row, "rung");
    if (!is_drawn(row) || !same_family(rung, text_of(first, "rung"))) continue;
    const bool follows = last && text_is(last, "rung", rung);
    if (!follows && count == KEYS) break;
    const Colour colour = page_series[(follows ? count - 1 : count) % (int)LENGTH(page_series)];
    if (!follows) keys[count++] = (Key){colour, rung};
    const double x = axis_place(x_axis, number_of(row, "point")),
                 y = axis_place(y_axis, number_of(row, "rate"));
    if (follows) canvas_line(page, last_x, last_y, x, y, LINE, colour);
    canvas_line(page, x, y, x, y, DOT, colour);
    last = row;
    last_x = x;
    last_y = y;
  }
  return count;
}

static void draw_panel(Canvas *page, const json_t *rows, const json_t *first, const char *label,
                       const char *unit, int top) {
  Axis y = {.upright = true,
            .label = unit,
            .from = top + PANEL - PANEL_FOOT,
            .to = top + PANEL_HEAD,
            .near = PANEL_LEFT,
            .far = PANEL_RIGHT};
  Axis x = axis_of_points(rows, first, label, y.from);
  Key keys[KEYS];
  x.far = y.to;
  axis_clear(&y);
  axis_include(&y, 0);
  foreach_in (row, rows)
    if (is_drawn(row) && same_family(text_of(row, "rung"), text_of(first, "rung")))
      axis_include(&y, 1.05 * number_of(row, "rate"));
  page_axis(page, &x);
  page_axis(page, &y);
  const int count = draw_curves(page, rows, first, &x, &y, keys);
  page_legend(page, PANEL_RIGHT, y.to - 24, keys, count);
}

bool lab_plot(const Record *record, const char *topic, const char *problem, const char *path,
              Error *error) {
  const json_t *line = lab_topic_line(record, topic),
               *table = record_find(record, "table", "topic", topic, "problem", problem),
               *rows = json_object_get(table, "rows"), *first[PANELS];
  const int panels = find_panels(rows, first);
  Canvas page;
  if (panels == 0) return error_set(error, "%s has no timed sweep to draw in %s", topic, path);
  const ShortText subtitle =
      text_format("%s %s on %s", text_of(table, "size"), text_of(line, "dims"),
                  text_of(record_first(record, "machine"), "device"));
  if (!page_open(&page, text_of(line, "title"), subtitle.text, CHART_WIDTH,
                 PANEL_TOP + panels * PANEL, error))
    return false;
  for (int i = 0; i < panels; i++)
    draw_panel(&page, rows, first[i], point_name(line, i).text, text_of(line, "unit"),
               PANEL_TOP + i * PANEL);
  return page_save(&page, path, error);
}
