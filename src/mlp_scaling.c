/* Not a program for users: makes the table and the picture of scripts/scaling.sh from its lines.

     mlp-scaling LINES.json TABLES.md PICTURE.png

   A line is a JSON object: what was timed (who, network, precision, batch, ranks) and the median
   milliseconds of an epoch (ms) over `rows` rows, or the reason why there are none. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "plot/line_chart.h"

enum { MOST = 512, COUNTS = 8, WORD = 48 };

typedef struct {
  char who[WORD], network[WORD], precision[WORD];
  int batch, ranks;
  double ms, rows;
} Point;

typedef struct {
  Point points[MOST];
  int count;
  int ranks[COUNTS], counts; /* numbers of ranks that there are, ascending */
  char title[256];
} Record;

/* ---- reading -------------------------------------------------------------------------------- */

static void copy_word(char *to, const json_t *line, const char *key) {
  const char *text = json_string_value(json_object_get(line, key));
  snprintf(to, WORD, "%s", text ? text : "");
}

static void note_ranks(Record *r, int ranks) {
  int at = 0;
  while (at < r->counts && r->ranks[at] < ranks) at++;
  if ((at < r->counts && r->ranks[at] == ranks) || r->counts == COUNTS) return;
  memmove(&r->ranks[at + 1], &r->ranks[at], (size_t)(r->counts - at) * sizeof *r->ranks);
  r->ranks[at] = ranks;
  r->counts++;
}

static void read_line(Record *r, const char *text) {
  json_t *line = json_loads(text, 0, NULL);
  const json_t *machine = json_object_get(line, "machine");
  Point p = {.batch = (int)json_integer_value(json_object_get(line, "batch")),
             .ranks = (int)json_integer_value(json_object_get(line, "ranks")),
             .ms = json_number_value(json_object_get(line, "ms")),
             .rows = json_number_value(json_object_get(line, "rows"))};
  copy_word(p.who, line, "who");
  copy_word(p.network, line, "network");
  copy_word(p.precision, line, "precision");
  if (machine) snprintf(r->title, sizeof r->title, "%s", json_string_value(machine));
  if (p.ms > 0 && p.ranks > 0 && r->count < MOST) {
    r->points[r->count++] = p;
    note_ranks(r, p.ranks);
  }
  json_decref(line);
}

static bool read_record(Record *r, const char *path, Error *error) {
  char text[4096];
  FILE *file = fopen(path, "r");
  if (!file) return error_set(error, "cannot open %s", path);
  while (fgets(text, sizeof text, file)) read_line(r, text);
  fclose(file);
  return r->count > 0 || error_set(error, "%s holds no measurement", path);
}

/* ---- what follows --------------------------------------------------------------------------- */

static bool same_case(const Point *a, const Point *b) {
  return strcmp(a->who, b->who) == 0 && strcmp(a->network, b->network) == 0 &&
         strcmp(a->precision, b->precision) == 0;
}

/* Milliseconds of this case at another batch and number of ranks, NAN: not measured. */
static double ms_of(const Record *r, const Point *p, int batch, int ranks) {
  for (int i = 0; i < r->count; i++) {
    const Point *q = &r->points[i];
    if (same_case(p, q) && q->batch == batch && q->ranks == ranks) return q->ms;
  }
  return NAN;
}

/* How many times as fast as one rank. */
static double speedup(const Record *r, const Point *p, int ranks) {
  return ms_of(r, p, p->batch, 1) / ms_of(r, p, p->batch, ranks);
}

/* Rows a second and rank, in parts of what one rank does with as many rows a step. */
static double efficiency(const Record *r, const Point *p, int ranks) {
  return ms_of(r, p, p->batch, 1) / ms_of(r, p, p->batch * ranks, ranks) / ranks;
}

/* Amdahl (1967): t(n) = t(1) (s + (1 - s) / n). The share s that fits the measured times best, by
   least squares of t(n) / t(1) - 1 / n = s (1 - 1 / n); NAN without two of them. */
static double serial_share(const Record *r, const Point *p) {
  double products = 0, squares = 0;
  for (int c = 0; c < r->counts; c++) {
    const double n = r->ranks[c], left = 1 - 1 / n, times = speedup(r, p, r->ranks[c]);
    if (n < 2 || !isfinite(times)) continue;
    products += left * (1 / times - 1 / n);
    squares += left * left;
  }
  return squares > 0 ? products / squares : NAN;
}

/* Whether the point is the first of its row of a table: that of one rank. */
static bool starts_row(const Point *p) {
  return p->ranks == 1;
}

/* ---- tables --------------------------------------------------------------------------------- */

enum { FIXED = 4 };

static void begin(Table *table, TableColumn *columns, TableCell *titles, const Record *r,
                  const char *rows, const char *of_ranks, const char *last, FILE *file) {
  static const char *const fixed[] = {"who", "network", "precision"};
  int count = 0;
  for (int c = 0; c < 3; c++) columns[count++] = (TableColumn){fixed[c], 12, true};
  columns[count++] = (TableColumn){rows, 10, false};
  for (int half = 0; half < 2; half++)
    for (int c = half; c < r->counts; c++) {
      titles[count] = half ? table_cell("%s %d", of_ranks, r->ranks[c])
                           : table_cell("%d rank%s", r->ranks[c], r->ranks[c] > 1 ? "s" : "");
      columns[count] = (TableColumn){titles[count].text, 10, false};
      count++;
    }
  if (last) columns[count++] = (TableColumn){last, 12, false};
  *table = (Table){file, true, columns, count};
  table_begin(table);
}

static int begin_row(TableCell *cells, const Point *p) {
  cells[0] = table_cell("%s", p->who);
  cells[1] = table_cell("%s", p->network);
  cells[2] = table_cell("%s", p->precision);
  cells[3] = table_cell("%d", p->batch);
  return FIXED;
}

static void print_strong(const Record *r, FILE *file) {
  TableColumn columns[FIXED + 2 * COUNTS + 1];
  TableCell titles[FIXED + 2 * COUNTS + 1], cells[FIXED + 2 * COUNTS + 1];
  Table table;
  table_heading(file, true, "Strong scaling: the same batch, ms per epoch");
  begin(&table, columns, titles, r, "batch", "times on", "serial share", file);
  for (int i = 0; i < r->count; i++) {
    const Point *p = &r->points[i];
    if (!starts_row(p)) continue;
    int at = begin_row(cells, p);
    for (int c = 0; c < r->counts; c++)
      cells[at++] = table_number(ms_of(r, p, p->batch, r->ranks[c]));
    for (int c = 1; c < r->counts; c++) cells[at++] = table_number(speedup(r, p, r->ranks[c]));
    const double share = serial_share(r, p);
    cells[at] = isfinite(share) ? table_cell("%.1f%%", 100 * share) : table_cell("-");
    table_row(&table, cells);
  }
}

static void print_weak(const Record *r, FILE *file) {
  TableColumn columns[FIXED + 2 * COUNTS];
  TableCell titles[FIXED + 2 * COUNTS], cells[FIXED + 2 * COUNTS];
  Table table;
  table_heading(file, true, "Weak scaling: the same rows per rank and step, rows per second");
  begin(&table, columns, titles, r, "rows", "part on", NULL, file);
  for (int i = 0; i < r->count; i++) {
    const Point *p = &r->points[i];
    bool any = false;
    for (int c = 1; c < r->counts; c++) any |= isfinite(efficiency(r, p, r->ranks[c]));
    if (!starts_row(p) || !any) continue;
    int at = begin_row(cells, p);
    for (int c = 0; c < r->counts; c++) {
      const int n = r->ranks[c];
      const double per_ms = p->rows / ms_of(r, p, p->batch * n, n);
      cells[at++] = isfinite(per_ms) ? table_cell("%.2fM", per_ms / 1e3) : table_cell("-");
    }
    for (int c = 1; c < r->counts; c++) cells[at++] = table_number(efficiency(r, p, r->ranks[c]));
    table_row(&table, cells);
  }
}

static bool print_tables(const Record *r, const char *path, Error *error) {
  FILE *file = fopen(path, "w");
  if (!file) return error_set(error, "cannot write %s", path);
  fprintf(file, "# Scaling\n\n%s\n", r->title);
  print_strong(r, file);
  print_weak(r, file);
  const bool good = !ferror(file);
  return (fclose(file) == 0 && good) || error_set(error, "cannot write %s", path);
}

/* ---- the picture ---------------------------------------------------------------------------- */

typedef double Measure(const Record *r, const Point *p, int ranks);

typedef struct {
  double x[COUNTS], y[LINE_CHART_MAX][COUNTS];
  char names[LINE_CHART_MAX][2 * WORD];
  Curve curves[LINE_CHART_MAX];
  int count;
} Curves;

static void add_curve(Curves *all, const Record *r, const Point *p, Measure *measure) {
  double *y = all->y[all->count];
  bool any = false;
  for (int c = 0; c < r->counts; c++) {
    const int n = r->ranks[c];
    y[c] = !p ? (measure == speedup ? n : 1) : n == 1 ? 1 : measure(r, p, n);
    any |= n > 1 && isfinite(y[c]);
  }
  if (!any) return;
  if (p)
    snprintf(all->names[all->count], sizeof *all->names, "%d %s", p->batch, p->precision);
  else
    snprintf(all->names[all->count], sizeof *all->names, "ideal");
  all->curves[all->count] = (Curve){all->names[all->count], all->x, y, r->counts};
  all->count++;
}

/* Whether it is to be drawn: ours, of one rank; of others the tables tell. */
static bool is_drawn(const Point *p) {
  return starts_row(p) && strcmp(p->who, "mlp-train") == 0;
}

/* The ideal, then the batches and precisions of a network. */
static void make_curves(Curves *all, const Record *r, const char *network, Measure *measure) {
  all->count = 0;
  for (int c = 0; c < r->counts; c++) all->x[c] = r->ranks[c];
  add_curve(all, r, NULL, measure);
  for (int i = 0; i < r->count && all->count < LINE_CHART_MAX; i++) {
    const Point *p = &r->points[i];
    if (is_drawn(p) && strcmp(p->network, network) == 0) add_curve(all, r, p, measure);
  }
}

/* Whether a point before has the same network. */
static bool seen_before(const Record *r, int point) {
  for (int i = 0; i < point; i++)
    if (is_drawn(&r->points[i]) && strcmp(r->points[i].network, r->points[point].network) == 0)
      return true;
  return false;
}

typedef struct {
  Curves curves[LINE_CHART_PANELS];
  char titles[LINE_CHART_PANELS][2 * WORD];
  CurvePanel panels[LINE_CHART_PANELS];
  int count;
} Panels;

/* Not where nothing was measured on several ranks. */
static void add_panel(Panels *all, const Record *r, const char *network, bool strong) {
  if (all->count == LINE_CHART_PANELS) return;
  Curves *curves = &all->curves[all->count];
  char *title = all->titles[all->count];
  make_curves(curves, r, network, strong ? speedup : efficiency);
  if (curves->count < 2) return;
  snprintf(title, sizeof *all->titles, "%s scaling, %s", strong ? "Strong" : "Weak", network);
  all->panels[all->count++] = (CurvePanel){
      .title = title,
      .x = {"ranks", false, true},
      .y = {strong ? "times as fast as one rank" : "rows per second and rank, parts of one's",
            false, true},
      .curves = curves->curves,
      .count = curves->count,
      .mark = NAN};
}

static bool draw(const Record *r, const char *path, Error *error) {
  static Panels all;
  for (int i = 0; i < r->count; i++) {
    if (!is_drawn(&r->points[i]) || seen_before(r, i)) continue;
    add_panel(&all, r, r->points[i].network, true);
    add_panel(&all, r, r->points[i].network, false);
  }
  if (all.count == 0) return error_set(error, "nothing was measured on several ranks");
  const LineChart chart = {"Scaling", r->title, all.panels, all.count};
  return line_chart_draw(&chart, path, error);
}

int main(int argc, char **argv) {
  static Record record;
  Error error;
  if (argc != 4) {
    fputs("usage: mlp-scaling LINES.json TABLES.md PICTURE.png\n", stderr);
    return 2;
  }
  if (read_record(&record, argv[1], &error) && print_tables(&record, argv[2], &error) &&
      draw(&record, argv[3], &error))
    return 0;
  fprintf(stderr, "mlp-scaling: %s\n", error.text);
  return 1;
}
