/* The charts of a topic: curves where rungs have points, else dots; and its roofline (Williams,
   Waterman, Patterson 2009). */
#include "lab/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/chart.h"
#include "plot/dot_chart.h"
#include "plot/line_chart.h"

static TableCell subtitle(const LabLadder *l) {
  return table_cell("%s; %s: %s", text_of(l->machine, "gpu"), text_of(l->topic, "dims"), l->size);
}

static bool was_timed(const json_t *row) {
  return isfinite(number_of(row, "ms"));
}

/* Returns the bytes or operations of the ladder, whichever the topic's rates count. */
static double amount_of(const LabLadder *l) {
  return number_of(l->table, text_is(l->topic, "unit", "GB/s") ? "bytes" : "operations");
}

/* ---- sweeps --------------------------------------------------------------------------------- */

static bool has_sweep(const LabLadder *l) {
  for (int i = 0; i < l->rows.count; i++)
    if (isfinite(number_of(l->rows.of[i], "point")) && was_timed(l->rows.of[i])) return true;
  return false;
}

/* Part `index` of the topic's point_name; its last part if there are fewer. */
static TableCell name_of_points(const json_t *topic, int index) {
  const char *name = text_of(topic, "point_name"), *part = *name ? name : "point";
  for (const char *next; index > 0 && (next = strstr(part, "; ")); index--) part = next + 2;
  return table_cell("%.*s", (int)strcspn(part, ";"), part);
}

/* Adds the rows of a rung, first to end - 1, that were timed. Curves that end at the same point
   share a panel. */
static void add_curve(Curves *all, const LabLadder *l, int first, int end) {
  const double last = number_of(l->rows.of[end - 1], "point");
  for (int i = first; i < end; i++) {
    const json_t *row = l->rows.of[i];
    if (!isfinite(last) || !was_timed(row)) continue;
    const bool is_dot = end - first == 1 && all->count > 0; /* beside the curves of the first */
    CurveSet *set = is_dot ? &all->sets[0] : curves_set(all, "", last);
    if (set)
      curves_add(set, text_of(row, "rung"), number_of(row, "point"),
                 amount_of(l) / (number_of(row, "ms") / 1e3) / 1e9);
  }
}

/* Points that grow by factors are drawn so. */
static bool grows_by_factors(const CurveSet *set) {
  const double *x = set->x[0];
  const int count = set->curves[0].count;
  return x[0] > 0 && count > 2 && x[count - 1] >= 8 * x[0] && x[2] - x[1] > x[1] - x[0];
}

/* Curves far below the ceiling, or far apart, would lie on the axis. */
static bool is_far_apart(const CurveSet *set, double ceiling) {
  double low = INFINITY, high = ceiling;
  for (int c = 0; c < set->count; c++)
    for (int i = 0; i < set->curves[c].count; i++) {
      low = fmin(low, set->y[c][i]);
      high = fmax(high, set->y[c][i]);
    }
  return high > 20 * low;
}

static bool plot_sweeps(const LabLadder *l, const char *path, Error *error) {
  const LabCeiling *ceiling = &l->ceiling;
  Curves *all = calloc(1, sizeof *all);
  if (!all) return error_set(error, "no memory for a chart");
  for (int first = 0, end; first < l->rows.count; first = end) {
    const char *rung = text_of(l->rows.of[first], "rung");
    for (end = first + 1; end < l->rows.count && text_is(l->rows.of[end], "rung", rung);) end++;
    add_curve(all, l, first, end);
  }
  const TableCell mark = table_cell("%s: %.0f %s", ceiling->name, ceiling->value, ceiling->unit),
                  below = subtitle(l);
  for (int i = 0; i < all->count; i++) {
    CurveSet *set = &all->sets[i];
    set->label = name_of_points(l->topic, i);
    set->panel = (CurvePanel){
        .x = {.logarithmic = grows_by_factors(set)},
        .y = {ceiling->unit, is_far_apart(set, ceiling->value), true, ceiling->value, mark.text}};
  }
  const bool good = curves_draw(all, text_of(l->topic, "title"), below.text, path, error);
  free(all);
  return good;
}

/* ---- ladders -------------------------------------------------------------------------------- */

/* Adds the rows of a ladder that were timed. *least_ms: the ceiling's time, where all ladders have
   the same, 0 else; NAN before the first. */
static void add_dots(DotChart *dots, const LabLadder *l, double *least_ms) {
  const double ms = 1e3 * amount_of(l) / (l->ceiling.value * 1e9);
  *least_ms = isfinite(ms) && (isnan(*least_ms) || *least_ms == ms) ? ms : 0;
  for (int i = 0; i < l->rows.count; i++) {
    const json_t *row = l->rows.of[i];
    const TableCell label =
        table_cell("%s%s%s", l->problem, *l->problem ? ": " : "", text_of(row, "rung"));
    if (was_timed(row))
      dot_chart_add(dots, label.text, number_of(row, "ms"),
                    text_is(row, "kind", "rung")      ? OURS
                    : text_is(row, "kind", "library") ? LIBRARY
                                                      : OTHER);
  }
}

/* Small times are drawn in microseconds: the chart's numbers have two decimals. */
static bool plot_dots(const DotChart *in_ms, double mark, const LabLadder *l, const char *path,
                      Error *error) {
  DotChart dots = *in_ms;
  double least = INFINITY;
  if (dots.count == 0)
    return error_set(error, "no rung of %s was timed: there is nothing to draw in %s",
                     text_of(l->topic, "topic"), path);
  for (int i = 0; i < dots.count; i++) least = fmin(least, dots.rows[i].value);
  const bool small = least < 0.1;
  for (int i = 0; small && i < dots.count; i++) dots.rows[i].value *= 1e3;
  dots.unit = small ? "us" : "ms";
  dots.mark = small ? 1e3 * mark : mark;
  const TableCell below = subtitle(l), label = table_cell("%s: %s %s", l->ceiling.name,
                                                          table_number(dots.mark).text, dots.unit);
  dots.title = text_of(l->topic, "title");
  dots.subtitle = below.text;
  dots.mark_label = label.text;
  return dot_chart_draw(&dots, path, error);
}

bool lab_plot(const Record *record, const char *topic, const char *only, const char *path,
              Error *error) {
  const char *problems[LAB_PROBLEMS];
  const int count = lab_problems(record, topic, problems);
  double least_ms = NAN;
  DotChart dots = {.count = 0};
  LabLadder first = {.size = NULL}; /* its words are the record's */
  bool is_drawn = false, good = true;
  for (int i = 0; i < count && !is_drawn; i++) {
    if (only && strcmp(problems[i], only) != 0) continue;
    LabLadder l = lab_ladder_open(record, topic, problems[i]);
    is_drawn = !first.size && has_sweep(&l);
    if (is_drawn) good = plot_sweeps(&l, path, error);
    if (!first.size && l.rows.count > 0) first = l;
    if (l.rows.count > 0) add_dots(&dots, &l, &least_ms);
    lab_ladder_close(&l);
  }
  if (is_drawn) return good;
  if (!first.size)
    return error_set(error, "%s was not run: there is nothing to draw in %s", topic, path);
  return plot_dots(&dots, least_ms, &first, path, error);
}

/* ---- the roofline --------------------------------------------------------------------------- */

/* Points with a gap behind each, so that nothing joins them. */
typedef struct {
  double x[2 * LAB_ROWS * LAB_PROBLEMS], y[2 * LAB_ROWS * LAB_PROBLEMS];
  int count;
} Points;

static void add_point(Points *to, double x, double y) {
  to->x[to->count] = to->x[to->count + 1] = x;
  to->y[to->count++] = y;
  to->y[to->count++] = NAN;
}

bool lab_roofline(const Record *record, const char *topic, bool must, const char *path,
                  Error *error) {
  enum { ROOF, RUNGS, LIBRARIES, KINDS };
  const char *problems[LAB_PROBLEMS];
  const int count = lab_problems(record, topic, problems);
  Points *points = calloc(KINDS, sizeof *points);
  double least = INFINITY, most = 0, copy = NAN, fma = NAN;
  LabLadder l = {.size = NULL};
  if (!points) return error_set(error, "no memory for a chart");
  for (int i = 0; i < count; i++) {
    l = lab_ladder_open(record, topic, problems[i]);
    const double operations = number_of(l.table, "operations"),
                 intensity = operations / number_of(l.table, "bytes");
    copy = number_of(l.machine, "copy_gb_per_s");
    fma = number_of(l.machine, "fma_gflop_per_s");
    for (int r = 0; operations > 0 && r < l.rows.count; r++) {
      const json_t *row = l.rows.of[r];
      if (!was_timed(row)) continue;
      add_point(&points[text_is(row, "kind", "library") ? LIBRARIES : RUNGS], intensity,
                operations / (number_of(row, "ms") * 1e6));
      least = fmin(least, intensity);
      most = fmax(most, intensity);
    }
    lab_ladder_close(&l); /* its words are the record's */
  }
  const double ridge = fma / copy, from = fmin(least, ridge) / 4, to = 4 * fmax(most, ridge);
  const double x[] = {from, ridge, to}, y[] = {copy * from, fma, fma};
  const TableCell roof = table_cell("%.0f GB/s, then %.0f GFLOP/s by FMA", copy, fma),
                  below = table_cell("%s; rungs of all problems, by the bytes that each must move",
                                     text_of(l.machine, "gpu"));
  const Curve curves[KINDS] = {
      {roof.text, x, y, 3},
      {"rung", points[RUNGS].x, points[RUNGS].y, points[RUNGS].count},
      {"library", points[LIBRARIES].x, points[LIBRARIES].y, points[LIBRARIES].count}};
  const CurvePanel panel = {NULL,
                            {.label = "operations per byte", .logarithmic = true},
                            {.label = "GFLOP/s", .logarithmic = true},
                            curves,
                            points[LIBRARIES].count ? KINDS : LIBRARIES};
  const LineChart chart = {text_of(l.topic, "title"), below.text, &panel, 1};
  const bool good = most > 0 ? line_chart_draw(&chart, path, error)
                             : !must || error_set(error,
                                                  "no rung of %s computes and was timed: there is "
                                                  "no roofline for %s",
                                                  topic, path);
  free(points);
  return good;
}
