/* Not a program for users: makes the table and the picture of scripts/scaling.sh from its lines.

     mlp-scaling LINES.json TABLES.md PICTURE.png

   A line is a JSON object: what was timed (who, network, precision, batch, ranks) and the median
   milliseconds of an epoch (ms) over `rows` rows, or the reason why there are none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/chart.h"
#include "measure/table.h"

enum { COUNTS = 8 };

typedef struct {
  Record lines;
  Lines points;
  int ranks[COUNTS], counts; /* numbers of ranks that there are, ascending */
  const char *title;
} Scaling;

/* ---- reading -------------------------------------------------------------------------------- */

static void note_ranks(Scaling *s, int ranks) {
  int at = 0;
  while (at < s->counts && s->ranks[at] < ranks) at++;
  if ((at < s->counts && s->ranks[at] == ranks) || s->counts == COUNTS) return;
  memmove(&s->ranks[at + 1], &s->ranks[at], (size_t)(s->counts - at) * sizeof *s->ranks);
  s->ranks[at] = ranks;
  s->counts++;
}

static bool read_scaling(Scaling *s, const char *path, Error *error) {
  size_t i;
  const json_t *line;
  if (!record_read(&s->lines, path, "scripts/scaling.sh", NULL, error)) return false;
  s->points = lines_open(&s->lines);
  s->title = "";
  json_array_foreach(s->lines.lines, i, line) {
    if (*text_of(line, "machine")) s->title = text_of(line, "machine");
    if (!(number_of(line, "ms") > 0 && number_of(line, "ranks") > 0)) continue;
    lines_add(&s->points, line);
    note_ranks(s, (int)number_of(line, "ranks"));
  }
  return s->points.count > 0 || error_set(error, "%s holds no measurement", path);
}

/* ---- what follows --------------------------------------------------------------------------- */

static bool same_case(const json_t *a, const json_t *b) {
  static const char *const keys[] = {"who", "network", "precision"};
  for (int i = 0; i < 3; i++)
    if (!text_is(a, keys[i], text_of(b, keys[i]))) return false;
  return true;
}

/* Milliseconds of this case at another batch and number of ranks, NAN: not measured. */
static double ms_of(const Scaling *s, const json_t *p, double batch, double ranks) {
  for (int i = 0; i < s->points.count; i++) {
    const json_t *q = s->points.of[i];
    if (same_case(p, q) && number_of(q, "batch") == batch && number_of(q, "ranks") == ranks)
      return number_of(q, "ms");
  }
  return NAN;
}

/* How many times as fast as one rank. */
static double speedup(const Scaling *s, const json_t *p, double ranks) {
  const double batch = number_of(p, "batch");
  return ms_of(s, p, batch, 1) / ms_of(s, p, batch, ranks);
}

/* Rows a second and rank, in parts of what one rank does with as many rows a step. */
static double efficiency(const Scaling *s, const json_t *p, double ranks) {
  const double batch = number_of(p, "batch");
  return ms_of(s, p, batch, 1) / ms_of(s, p, batch * ranks, ranks) / ranks;
}

/* Amdahl (1967): t(n) = t(1) (s + (1 - s) / n). The share s that fits the measured times best, by
   least squares of t(n) / t(1) - 1 / n = s (1 - 1 / n); NAN without two of them. */
static double serial_share(const Scaling *s, const json_t *p) {
  double products = 0, squares = 0;
  for (int c = 0; c < s->counts; c++) {
    const double n = s->ranks[c], left = 1 - 1 / n, times = speedup(s, p, n);
    if (n < 2 || !isfinite(times)) continue;
    products += left * (1 / times - 1 / n);
    squares += left * left;
  }
  return squares > 0 ? products / squares : NAN;
}

/* ---- tables --------------------------------------------------------------------------------- */

typedef TableCell Cell(const TableColumn *column, const json_t *p, const void *scaling);

static TableCell ms_cell(const TableColumn *column, const json_t *p, const void *scaling) {
  return table_number(ms_of(scaling, p, number_of(p, "batch"), column->at));
}

static TableCell speedup_cell(const TableColumn *column, const json_t *p, const void *scaling) {
  return table_number(speedup(scaling, p, column->at));
}

static TableCell share_cell(const TableColumn *column, const json_t *p, const void *scaling) {
  const double share = serial_share(scaling, p);
  (void)column;
  return isfinite(share) ? table_cell("%.1f%%", 100 * share) : table_cell("-");
}

static TableCell rows_cell(const TableColumn *column, const json_t *p, const void *scaling) {
  const double n = column->at,
               per_ms = number_of(p, "rows") / ms_of(scaling, p, number_of(p, "batch") * n, n);
  return isfinite(per_ms) ? table_cell("%.2fM", per_ms / 1e3) : table_cell("-");
}

static TableCell efficiency_cell(const TableColumn *column, const json_t *p, const void *scaling) {
  return table_number(efficiency(scaling, p, column->at));
}

/* A row for each case that one rank has run, with columns for the numbers of ranks: first `each`,
   then, from two ranks on, `beside`, and `last` unless it is NULL. */
static void print_table(const Scaling *s, const Lines *rows, const char *batch, Cell *each,
                        Cell *beside, const char *of_ranks, Cell *last, FILE *file) {
  TableColumn columns[5 + 2 * COUNTS] = {{"who", 12, true, .key = "who"},
                                         {"network", 12, true, .key = "network"},
                                         {"precision", 12, true, .key = "precision"},
                                         {batch, 10, .key = "batch", .digits = WHOLE}};
  TableCell titles[2 * COUNTS];
  const Table table = {file, true, s, NULL};
  int count = 4;
  for (int half = 0; half < 2; half++)
    for (int c = half; c < s->counts; c++) {
      const int n = s->ranks[c];
      TableCell *title = &titles[count - 4];
      *title =
          half ? table_cell("%s %d", of_ranks, n) : table_cell("%d rank%s", n, n > 1 ? "s" : "");
      columns[count++] =
          (TableColumn){title->text, 10, .cell = half ? beside : each, .at = (double)n};
    }
  if (last) columns[count++] = (TableColumn){"serial share", 12, .cell = last};
  table_print(&table, columns, count, rows);
}

static bool print_tables(const Scaling *s, const char *path, Error *error) {
  Lines strong = lines_open(&s->lines), weak = lines_open(&s->lines);
  FILE *file;
  for (int i = 0; i < s->points.count; i++) {
    const json_t *p = s->points.of[i];
    bool any = false;
    for (int c = 1; c < s->counts; c++) any |= isfinite(efficiency(s, p, s->ranks[c]));
    if (number_of(p, "ranks") != 1) continue;
    lines_add(&strong, p);
    if (any) lines_add(&weak, p);
  }
  bool good = file_create(path, &file, error);
  if (good) {
    fprintf(file, "# Scaling\n\n%s\n", s->title);
    table_heading(file, true, "Strong scaling: the same batch, ms per epoch");
    print_table(s, &strong, "batch", ms_cell, speedup_cell, "times on", share_cell, file);
    table_heading(file, true, "Weak scaling: the same rows per rank and step, rows per second");
    print_table(s, &weak, "rows", rows_cell, efficiency_cell, "part on", NULL, file);
    good = file_close(path, file, true, error);
  }
  free(strong.of);
  free(weak.of);
  return good;
}

/* ---- the picture ---------------------------------------------------------------------------- */

typedef double Measure(const Scaling *s, const json_t *p, double ranks);

static bool is_of(const json_t *p, const char *network) {
  return number_of(p, "ranks") == 1 && text_is(p, "who", "mlp-train") &&
         text_is(p, "network", network);
}

/* p NULL: the ideal. A case that was measured on one rank alone has no curve. */
static void add_curve(CurveSet *set, const Scaling *s, const json_t *p, Measure *measure) {
  const TableCell name = p ? table_cell("%.0f %s", number_of(p, "batch"), text_of(p, "precision"))
                           : table_cell("ideal");
  bool any = false;
  for (int c = 0; c < s->counts; c++)
    any |= s->ranks[c] > 1 && (!p || isfinite(measure(s, p, s->ranks[c])));
  for (int c = 0; any && c < s->counts; c++) {
    const double n = s->ranks[c];
    curves_add(set, name.text, n,
               !p       ? (measure == speedup ? n : 1)
               : n == 1 ? 1
                        : measure(s, p, n));
  }
}

/* The ideal, then the batches and precisions of a network; nothing without several ranks. */
static void add_panel(Curves *all, const Scaling *s, const char *network, bool strong) {
  if (all->count == LINE_CHART_PANELS) return;
  CurveSet *set = &all->sets[all->count];
  Measure *measure = strong ? speedup : efficiency;
  set->count = 0;
  add_curve(set, s, NULL, measure);
  for (int i = 0; i < s->points.count; i++)
    if (is_of(s->points.of[i], network)) add_curve(set, s, s->points.of[i], measure);
  if (set->count < 2) return;
  set->title = table_cell("%s scaling, %s", strong ? "Strong" : "Weak", network);
  set->label = table_cell("ranks");
  all->panels[all->count++] = (CurvePanel){
      .x = {.from_zero = true},
      .y = {strong ? "times as fast as one rank" : "rows per second and rank, parts of one's",
            false, true},
      .mark = NAN};
}

static bool draw(const Scaling *s, const char *path, Error *error) {
  static Curves all;
  for (int i = 0; i < s->points.count; i++) {
    const char *network = text_of(s->points.of[i], "network");
    bool drawn = !is_of(s->points.of[i], network);
    for (int k = 0; k < i; k++) drawn |= is_of(s->points.of[k], network);
    for (int weak = 0; weak < 2 && !drawn; weak++) add_panel(&all, s, network, !weak);
  }
  if (all.count == 0) return error_set(error, "nothing was measured on several ranks");
  return curves_draw(&all, "Scaling", s->title, path, error);
}

int main(int argc, char **argv) {
  Scaling scaling = {.counts = 0};
  Error error;
  if (argc != 4) {
    fputs("usage: mlp-scaling LINES.json TABLES.md PICTURE.png\n", stderr);
    return 2;
  }
  bool good = read_scaling(&scaling, argv[1], &error) && print_tables(&scaling, argv[2], &error) &&
              draw(&scaling, argv[3], &error);
  free(scaling.points.of);
  good = record_close(&scaling.lines, good, &error);
  if (good) return 0;
  fprintf(stderr, "mlp-scaling: %s\n", error.text);
  return 1;
}
