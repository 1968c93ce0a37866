/* The chart of a topic: curves where rungs have points, else dots. */
#include "lab/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/chart.h"

static TableCell subtitle(const LabLadder *l) {
  return table_cell("%s; %s: %s", text_of(l->machine, "gpu"), text_of(l->topic, "dims"), l->size);
}

static bool was_timed(const json_t *row) {
  return isfinite(number_of(row, "ms"));
}

static bool is_timed_sweep(const json_t *row) {
  return isfinite(number_of(row, "point")) && was_timed(row);
}

/* Returns the bytes or operations of the ladder, whichever the topic's rates count. */
static double amount_of(const LabLadder *l) {
  return number_of(l->table, text_is(l->topic, "unit", "GB/s") ? "bytes" : "operations");
}

/* ---- sweeps --------------------------------------------------------------------------------- */

/* Part `index` of the topic's point_name; its last part if there are fewer. */
static TableCell name_of_points(const json_t *topic, int index) {
  const char *name = text_of(topic, "point_name"), *part = *name ? name : "point";
  for (const char *next; index > 0 && (next = strstr(part, "; ")); index--) part = next + 2;
  return table_cell("%.*s", (int)strcspn(part, ";"), part);
}

/* The last point of the row's rung; *count is how many it has. */
static double last_point(const LabLadder *l, const json_t *row, int *count) {
  double last = NAN;
  *count = 0;
  for (int i = 0; i < l->rows.count; i++) {
    if (!text_is(l->rows.of[i], "rung", text_of(row, "rung"))) continue;
    last = number_of(l->rows.of[i], "point");
    ++*count;
  }
  return last;
}

/* Returns the panel that the row's curve belongs to: those that end at the same point share an
   axis. NULL: there are too many. */
static CurveSet *set_of(Curves *all, double ends[LINE_CHART_PANELS], const LabLadder *l,
                        const json_t *row) {
  int points;
  const double end = last_point(l, row, &points);
  if (points == 1 && all->count > 0) return &all->sets[0]; /* a dot beside its curves */
  for (int i = 0; i < all->count; i++)
    if (ends[i] == end) return &all->sets[i];
  if (all->count == LINE_CHART_PANELS) return NULL;
  ends[all->count] = end;
  all->sets[all->count].label = name_of_points(l->topic, all->count);
  return &all->sets[all->count++];
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
  const LabCeiling ceiling = lab_ceiling(l->machine, l->topic);
  double ends[LINE_CHART_PANELS] = {0};
  Curves *all = calloc(1, sizeof *all);
  if (!all) return error_set(error, "no memory for a chart");
  for (int i = 0; i < l->rows.count; i++) {
    const json_t *row = l->rows.of[i];
    CurveSet *set = is_timed_sweep(row) ? set_of(all, ends, l, row) : NULL;
    if (set)
      curves_add(set, text_of(row, "rung"), number_of(row, "point"),
                 amount_of(l) / (number_of(row, "ms") / 1e3) / 1e9);
  }
  const TableCell mark = table_cell("%s: %.0f %s", ceiling.name, ceiling.value, ceiling.unit),
                  below = subtitle(l);
  for (int i = 0; i < all->count; i++)
    all->panels[i] =
        (CurvePanel){.x = {.logarithmic = grows_by_factors(&all->sets[i])},
                     .y = {ceiling.unit, is_far_apart(&all->sets[i], ceiling.value), true},
                     .mark = ceiling.value,
                     .mark_label = mark.text};
  const bool good = curves_draw(all, text_of(l->topic, "title"), below.text, path, error);
  free(all);
  return good;
}

/* ---- ladders -------------------------------------------------------------------------------- */

static void add_dots(Dots *dots, const LabLadder *l) {
  for (int i = 0; i < l->rows.count; i++) {
    const json_t *row = l->rows.of[i];
    if (was_timed(row))
      dots_add(dots,
               table_cell("%s%s%s", l->problem, *l->problem ? ": " : "", text_of(row, "rung")),
               number_of(row, "ms"),
               text_is(row, "kind", "rung")      ? OURS
               : text_is(row, "kind", "library") ? LIBRARY
                                                 : OTHER);
  }
}

/* The ceiling's time, where all ladders have the same: 0 else. */
static double least_ms(const LabLadder *ladders, int count) {
  double least = 0;
  for (int i = 0; i < count; i++) {
    const LabLadder *l = &ladders[i];
    const double ms = 1e3 * amount_of(l) / (lab_ceiling(l->machine, l->topic).value * 1e9);
    if (!isfinite(ms) || (least > 0 && ms != least)) return 0;
    least = ms;
  }
  return least;
}

/* Small times in microseconds: the chart's numbers have two decimals. */
static const char *choose_unit(Dots *dots, double *mark) {
  double least = INFINITY;
  for (int i = 0; i < dots->count; i++) least = fmin(least, dots->dots[i].value);
  if (least >= 0.1) return "ms";
  for (int i = 0; i < dots->count; i++) dots->dots[i].value *= 1e3;
  *mark *= 1e3;
  return "us";
}

static bool plot_dots(const LabLadder *ladders, int count, const char *path, Error *error) {
  const json_t *topic = ladders->topic;
  Dots dots = {.count = 0};
  for (int i = 0; i < count; i++) add_dots(&dots, &ladders[i]);
  if (dots.count == 0)
    return error_set(error, "no rung of %s was timed: there is nothing to draw in %s",
                     text_of(topic, "topic"), path);
  double least = least_ms(ladders, count);
  const char *unit = choose_unit(&dots, &least);
  const TableCell below = subtitle(ladders),
                  mark = table_cell("%s: %s %s", lab_ceiling(ladders->machine, topic).name,
                                    table_number(least).text, unit);
  return dots_draw(&dots,
                   (DotChart){.title = text_of(topic, "title"),
                              .subtitle = below.text,
                              .unit = unit,
                              .mark = least,
                              .mark_label = mark.text},
                   path, error);
}

bool lab_plot(const Record *record, const char *topic, const char *only, const char *path,
              Error *error) {
  const char *problems[LAB_PROBLEMS];
  LabLadder ladders[LAB_PROBLEMS];
  const int all = lab_problems(record, topic, problems);
  int count = 0;
  for (int i = 0; i < all; i++) {
    if (only && strcmp(problems[i], only) != 0) continue;
    ladders[count] = lab_ladder_open(record, topic, problems[i]);
    if (ladders[count].rows.count > 0)
      count++;
    else
      lab_ladder_close(&ladders[count]);
  }
  bool sweeps = false, good;
  for (int i = 0; count > 0 && i < ladders->rows.count; i++)
    sweeps |= is_timed_sweep(ladders->rows.of[i]);
  if (count == 0)
    good = error_set(error, "%s was not run: there is nothing to draw in %s", topic, path);
  else
    good = sweeps ? plot_sweeps(ladders, path, error) : plot_dots(ladders, count, path, error);
  for (int i = 0; i < count; i++) lab_ladder_close(&ladders[i]);
  return good;
}
