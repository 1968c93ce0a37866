/* Draws the chart of a topic: curves if its rungs have points, else dots. */
#include "lab/harness.h"

#include <math.h>
#include <string.h>

#include "plot/dot_chart.h"
#include "plot/line_chart.h"

static ShortText subtitle(const LabLadder *l) {
  return text_format("%s; %s: %s", text_of(record_first(l->record, "machine"), "device"),
                     text_of(l->topic, "dims"), text_of(l->table, "size"));
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
  bool any = false;
  foreach_line (row, &l->rows) any |= isfinite(number_of(*row, "point")) && was_timed(*row);
  return any;
}

/* Returns part `index` of the topic's point_name, or its last part if there are fewer. */
static ShortText name_of_points(const json_t *topic, int index) {
  const char *name = text_of(topic, "point_name"), *part = *name ? name : "point";
  for (const char *next; index > 0 && (next = strstr(part, "; ")); index--) part = next + 2;
  return text_format("%.*s", (int)strcspn(part, ";"), part);
}

/* Adds a row, if it was timed, to its rung's curve. Curves that end alike share a panel. */
static void add_row(LineChart *chart, const LabLadder *l, const json_t *row) {
  double last = NAN;
  int count = 0;
  foreach_line (other, &l->rows) {
    if (!line_same(*other, row, "rung")) continue;
    last = number_of(*other, "point");
    count++;
  }
  if (!isfinite(last) || !was_timed(row)) return;
  const bool is_dot = count == 1 && chart->count > 0; /* beside the curves of the first */
  CurvePanel *panel =
      is_dot ? chart->panels : line_chart_panel(chart, text_format("%.0f", last).text);
  if (panel)
    line_chart_add(chart, panel, line_chart_curve(panel, text_of(row, "rung")),
                   number_of(row, "point"), number_of(row, "rate"));
}

/* Returns true if the points grow by factors, so that their axis must be logarithmic. */
static bool grows_by_factors(const LineChart *chart, const CurvePanel *panel) {
  double x[3] = {0}, last = 0;
  int count = 0;
  for (const CurvePoint *p = NULL; (p = line_chart_next(chart, p, panel, 0)); count++) {
    if (count < 3) x[count] = p->x;
    last = p->x;
  }
  return x[0] > 0 && count > 2 && last >= 8 * x[0] && x[2] - x[1] > x[1] - x[0];
}

static bool plot_sweeps(const LabLadder *l, const char *path, Error *error) {
  const double most = number_of(l->ceiling, "value");
  const char *unit = text_of(l->topic, "unit");
  const ShortText mark = text_format("%s: %.0f %s", text_of(l->ceiling, "name"), most, unit),
                  below = subtitle(l);
  ShortText names[LINE_CHART_PANELS];
  LineChart chart = {.title = text_of(l->topic, "title"), .subtitle = below.text};
  foreach_line (row, &l->rows) add_row(&chart, l, *row);
  for (int i = 0; i < chart.count; i++) {
    CurvePanel *panel = &chart.panels[i];
    names[i] = name_of_points(l->topic, i);
    panel->x = (Axis){.label = names[i].text, .logarithmic = grows_by_factors(&chart, panel)};
    panel->y = (Axis){.label = unit,
                      .logarithmic = line_chart_far_apart(panel, most),
                      .from_zero = true,
                      .mark = most,
                      .mark_label = mark.text};
  }
  return line_chart_draw(&chart, path, error);
}

/* ---- ladders -------------------------------------------------------------------------------- */

/* Adds the rows of a ladder that were timed. The mark is the ceiling's time, where all ladders have
   the same, 0 else; NAN before the first. */
static void add_dots(DotChart *dots, const LabLadder *l) {
  const double ms = amount_of(l) / (number_of(l->ceiling, "value") * 1e6);
  dots->mark = isfinite(ms) && (isnan(dots->mark) || dots->mark == ms) ? ms : 0;
  foreach_line (row, &l->rows) {
    const ShortText label =
        text_format("%s%s%s", l->problem, *l->problem ? ": " : "", text_of(*row, "rung"));
    if (was_timed(*row))
      dot_chart_add(dots, label.text, number_of(*row, "ms"),
                    text_is(*row, "kind", "rung")      ? OURS
                    : text_is(*row, "kind", "library") ? LIBRARY
                                                       : OTHER);
  }
}

bool lab_plot(const Record *record, const char *topic, const char *only, const char *path,
              Error *error) {
  const char *problems[LAB_PROBLEMS];
  const int count = lab_problems(record, topic, problems);
  DotChart dots = {.mark = NAN};
  LabLadder first = {.table = NULL}; /* its words are the record's */
  for (int i = 0; i < count; i++) {
    if (only ? strcmp(problems[i], only) != 0 : first.table && number_of(first.topic, "alike") > 0)
      continue;
    LabLadder l = lab_ladder_open(record, topic, problems[i]);
    const bool is_first = !first.table && l.rows.count > 0, is_swept = is_first && has_sweep(&l),
               good = is_swept && plot_sweeps(&l, path, error);
    if (is_first) first = l;
    if (l.rows.count > 0) add_dots(&dots, &l);
    lab_ladder_close(&l);
    if (is_swept) return good;
  }
  if (dots.count == 0)
    return error_set(error, "no rung of %s was timed: there is nothing to draw in %s", topic, path);
  const ShortText below = subtitle(&first);
  dots.title = text_of(first.topic, "title");
  dots.subtitle = below.text;
  dots.mark_label = text_of(first.ceiling, "name");
  return dot_chart_draw(&dots, path, error);
}
