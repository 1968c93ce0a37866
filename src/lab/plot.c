#include "lab/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "plot/dot_chart.h"
#include "plot/line_chart.h"

static const Colour OURS = {9, 105, 218}, LIBRARY = {130, 80, 223}, PART = {175, 184, 193};

/* The ladders among the tables: not the extra sizes, nothing without rows. */
static bool is_ladder(const LabTable *table) {
  return !table->extra && table->count > 0;
}

static bool is_sweep(const LabRow *row) {
  return row->rung->points && isfinite(row->seconds.median);
}

static TableCell subtitle(const LabMachine *machine, const LabTable *table) {
  return table_cell("%s; %s: %s", machine->gpu, table->topic->dims,
                    lab_size_text(table->topic, table->size).text);
}

/* ---- sweeps --------------------------------------------------------------------------------- */

enum { MAX_POINTS = 128 };

typedef struct {
  Curve curves[LINE_CHART_MAX];
  double x[LINE_CHART_MAX][MAX_POINTS], y[LINE_CHART_MAX][MAX_POINTS];
  char label[64];
  int count;
  int64_t end; /* the last point of all the curves */
} Sweep;

typedef struct {
  Sweep sweeps[LINE_CHART_PANELS];
  CurvePanel panels[LINE_CHART_PANELS];
  int count;
} Sweeps;

static int64_t end_of(const LabRung *rung) {
  return rung->points[rung->point_count - 1];
}

/* Part `index` of the topic's point_name; its last part if there are fewer. */
static void name_points(const LabTopic *topic, int index, char *label, size_t size) {
  const char *part = topic->point_name ? topic->point_name : "point";
  for (const char *next; index > 0 && (next = strstr(part, "; ")); index--) part = next + 2;
  snprintf(label, size, "%.*s", (int)strcspn(part, ";"), part);
}

/* The sweep that the rung's curve belongs to: those that end at the same point share an axis. NULL:
   there are too many. */
static Sweep *sweep_of(Sweeps *all, const LabTopic *topic, const LabRung *rung) {
  if (rung->point_count == 1 && all->count > 0)
    return &all->sweeps[0]; /* a dot beside its curves */
  for (int i = 0; i < all->count; i++)
    if (all->sweeps[i].end == end_of(rung)) return &all->sweeps[i];
  if (all->count == LINE_CHART_PANELS) return NULL;
  Sweep *sweep = &all->sweeps[all->count];
  sweep->end = end_of(rung);
  name_points(topic, all->count++, sweep->label, sizeof sweep->label);
  return sweep;
}

/* The row goes on the curve of its rung. */
static void add_point(Sweeps *all, const LabTable *table, const LabRow *row, double scale) {
  Sweep *sweep = sweep_of(all, table->topic, row->rung);
  if (!sweep) return;
  int c = 0;
  while (c < sweep->count && strcmp(sweep->curves[c].name, row->rung->name) != 0) c++;
  if (c == LINE_CHART_MAX) return;
  Curve *curve = &sweep->curves[c];
  if (c == sweep->count) {
    *curve = (Curve){.name = row->rung->name, .x = sweep->x[c], .y = sweep->y[c]};
    sweep->count++;
  }
  if (curve->count == MAX_POINTS) return;
  sweep->x[c][curve->count] = (double)row->point;
  sweep->y[c][curve->count++] = lab_rate(table, row) / scale;
}

/* Points that grow by factors are drawn so. */
static bool grows_by_factors(const Sweep *sweep) {
  const Curve *curve = &sweep->curves[0];
  return curve->x[0] > 0 && curve->count > 2 && curve->x[curve->count - 1] >= 8 * curve->x[0] &&
         curve->x[2] - curve->x[1] > curve->x[1] - curve->x[0];
}

/* Curves far below the ceiling, or far apart, would lie on the axis. */
static bool is_far_apart(const Sweep *sweep, double ceiling) {
  double low = INFINITY, high = ceiling;
  for (int c = 0; c < sweep->count; c++)
    for (int i = 0; i < sweep->curves[c].count; i++) {
      low = fmin(low, sweep->y[c][i]);
      high = fmax(high, sweep->y[c][i]);
    }
  return high > 20 * low;
}

static bool plot_sweeps(const LabMachine *machine, const LabTable *table, const char *path,
                        Error *error) {
  const LabCeiling ceiling = lab_ceiling(machine, table->topic);
  Sweeps *all = calloc(1, sizeof *all);
  if (!all) return error_set(error, "no memory for a chart");
  for (int i = 0; i < table->count; i++)
    if (is_sweep(&table->rows[i])) add_point(all, table, &table->rows[i], ceiling.scale);
  const TableCell mark = table_cell("%s: %.0f %s", ceiling.name, ceiling.value, ceiling.unit);
  for (int i = 0; i < all->count; i++)
    all->panels[i] =
        (CurvePanel){.x = {all->sweeps[i].label, grows_by_factors(&all->sweeps[i]), false},
                     .y = {ceiling.unit, is_far_apart(&all->sweeps[i], ceiling.value), true},
                     .curves = all->sweeps[i].curves,
                     .count = all->sweeps[i].count,
                     .mark = ceiling.value,
                     .mark_label = mark.text};
  const TableCell below = subtitle(machine, table);
  const LineChart chart = {table->topic->title, below.text, all->panels, all->count};
  const bool good = line_chart_draw(&chart, path, error);
  free(all);
  return good;
}

/* ---- ladders -------------------------------------------------------------------------------- */

typedef struct {
  DotChartRow dots[DOT_CHART_MAX];
  TableCell labels[DOT_CHART_MAX];
  int count;
} Dots;

static void add_dots(Dots *dots, const LabTable *table) {
  const char *problem = table->topic->problems[table->problem].name;
  for (int i = 0; i < table->count && dots->count < DOT_CHART_MAX; i++) {
    const LabRow *row = &table->rows[i];
    if (!isfinite(row->seconds.median)) continue;
    TableCell *label = &dots->labels[dots->count];
    *label = table_cell("%s%s%s", problem, *problem ? ": " : "", row->rung->name);
    dots->dots[dots->count++] = (DotChartRow){label->text, 1e3 * row->seconds.median,
                                              row->rung->kind == LAB_RUNG      ? OURS
                                              : row->rung->kind == LAB_LIBRARY ? LIBRARY
                                                                               : PART};
  }
}

/* The ceiling's time, where all ladders have the same: 0 else. */
static double least_ms(const LabMachine *machine, const LabTable *tables, int count) {
  double least = 0;
  for (int i = 0; i < count; i++) {
    if (!is_ladder(&tables[i])) continue;
    const LabRow second = {.seconds = {1, 1, 1}};
    const LabCeiling ceiling = lab_ceiling(machine, tables[i].topic);
    const double ms = 1e3 * lab_rate(&tables[i], &second) / (ceiling.value * ceiling.scale);
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

static bool plot_dots(const LabMachine *machine, const LabTable *tables, int count,
                      const LabTable *first, const char *path, Error *error) {
  Dots dots = {.count = 0};
  for (int i = 0; i < count; i++)
    if (is_ladder(&tables[i])) add_dots(&dots, &tables[i]);
  if (dots.count == 0)
    return error_set(error, "no rung of %s was timed: there is nothing to draw in %s",
                     first->topic->name, path);
  const TableCell below = subtitle(machine, first);
  double least = least_ms(machine, tables, count);
  const char *unit = choose_unit(&dots, &least);
  const TableCell mark = table_cell("%s: %s %s", lab_ceiling(machine, first->topic).name,
                                    table_number(least).text, unit);
  const DotChart chart = {.title = first->topic->title,
                          .subtitle = below.text,
                          .unit = unit,
                          .rows = dots.dots,
                          .count = dots.count,
                          .mark = least,
                          .mark_label = mark.text};
  return dot_chart_draw(&chart, path, error);
}

bool lab_plot(const LabMachine *machine, const LabTable *tables, int count, const char *path,
              Error *error) {
  const LabTable *first = tables;
  while (first < tables + count && !is_ladder(first)) first++;
  if (first == tables + count)
    return error_set(error, "%s was not run: there is nothing to draw in %s", tables->topic->name,
                     path);
  for (int i = 0; i < first->count; i++)
    if (is_sweep(&first->rows[i])) return plot_sweeps(machine, first, path, error);
  return plot_dots(machine, tables, count, first, path, error);
}
