/* Not a program for users: makes the table and the picture of scripts/scaling.sh from its lines. A
   line is a JSON object: what was timed (who, network, precision, batch, ranks) and the median
   milliseconds of an epoch (ms) over `rows` rows, or the reason why there are none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "cli/option_kinds.h"
#include "measure/table.h"
#include "plot/line_chart.h"

enum { COUNTS = 8 };

typedef struct {
  const char *heading, *batch, *beside, *axis; /* batch, beside: titles of columns */
  bool weak;
} Kind;

static const Kind kinds[] = {{"Strong scaling: the same batch, ms per epoch", "batch", "times on",
                              "times as fast as one rank", false},
                             {"Weak scaling: the same rows per rank and step, rows per second",
                              "rows", "part on", "rows per second and rank, parts of one's", true}};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct {
  const Kind *kind; /* that is shown */
  Record lines;
  Lines points;
  double ranks[COUNTS]; /* numbers of ranks that there are, ascending */
  int counts;
  const char *title;
} Scaling;

/* ---- reading -------------------------------------------------------------------------------- */

/* Returns the least number of ranks above `last`; not finite: there is none. */
static double next_ranks(const Scaling *s, double last) {
  double next = HUGE_VAL;
  foreach_line (p, &s->points)
    if (number_of(*p, "ranks") > last) next = fmin(next, number_of(*p, "ranks"));
  return next;
}

static bool read_scaling(Scaling *s, const char *path, Error *error) {
  if (!record_read(&s->lines, path, "scripts/scaling.sh", NULL, error)) return false;
  s->points = lines_of(&s->lines, "");
  for (double ranks = 0; s->counts < COUNTS && isfinite(ranks = next_ranks(s, ranks));)
    s->ranks[s->counts++] = ranks;
  if (s->counts == 0) return error_set(error, "%s holds no measurement", path);
  s->title = text_of(s->points.of[0], "machine");
  return true;
}

/* ---- what follows --------------------------------------------------------------------------- */

/* Milliseconds of this case on so many ranks, with the same batch or, in weak scaling, as many rows
   for each rank; NAN: not measured. */
static double ms_on(const Scaling *s, const json_t *p, double ranks) {
  const double batch = number_of(p, "batch") * (s->kind->weak ? ranks : 1);
  foreach_line (q, &s->points)
    if (line_same(*q, p, "who") && line_same(*q, p, "network") && line_same(*q, p, "precision") &&
        number_of(*q, "batch") == batch && number_of(*q, "ranks") == ranks)
      return number_of(*q, "ms");
  return NAN;
}

/* How many times as fast as one rank; in weak scaling, the part of one rank's rows a second that
   each of them trains on. */
static double times(const Scaling *s, const json_t *p, double ranks) {
  return ms_on(s, p, 1) / ms_on(s, p, ranks) / (s->kind->weak ? ranks : 1);
}

/* Amdahl (1967): t(n) = t(1) (s + (1 - s) / n). Shows the share s that fits the measured times
   best, by least squares of t(n) / t(1) - 1 / n = s (1 - 1 / n), if there are two of them. */
static Words serial_share(const TableColumn *column, const json_t *p, const void *scaling) {
  const Scaling *s = scaling;
  double products = 0, squares = 0;
  (void)column;
  for (int c = 0; c < s->counts; c++) {
    const double n = s->ranks[c], left = 1 - 1 / n, faster = times(s, p, n);
    if (n < 2 || !isfinite(faster)) continue;
    products += left * (1 / faster - 1 / n);
    squares += left * left;
  }
  return squares > 0 ? words_of("%.1f%%", 100 * products / squares) : words_of("-");
}

/* True if one rank has run the case and, unless `any`, several have, too. */
static bool is_shown(const Scaling *s, const json_t *p, bool any) {
  for (int c = 1; c < s->counts; c++) any |= isfinite(times(s, p, s->ranks[c]));
  return any && number_of(p, "ranks") == 1;
}

/* ---- tables --------------------------------------------------------------------------------- */

/* column->at: ranks; below 0 of the column beside. */
static Words measured(const TableColumn *column, const json_t *p, const void *scaling) {
  const Scaling *s = scaling;
  if (column->at < 0) return words_of_number(times(s, p, -column->at));
  const double ms = ms_on(s, p, column->at);
  return s->kind->weak && isfinite(ms) ? words_of("%.2fM", number_of(p, "rows") / ms / 1e3)
                                       : words_of_number(ms);
}

/* A row for each case that one rank has run; of weak scaling, if more have run it, too. */
static void print_table(const Scaling *s, FILE *file) {
  const Kind *kind = s->kind;
  const Table table = {.file = file, .markdown = true, .context = s};
  TableColumn columns[5 + 2 * COUNTS] = {{"who", 12, true, .key = "who"},
                                         {"network", 12, true, .key = "network"},
                                         {"precision", 12, true, .key = "precision"},
                                         {kind->batch, 10, .key = "batch", .format = "%.0f"}};
  Words titles[5 + 2 * COUNTS];
  Lines rows = lines_open(&s->lines);
  int count = 4;
  for (int beside = 0; beside < 2; beside++)
    for (int c = beside; c < s->counts; c++, count++) {
      const double n = s->ranks[c];
      titles[count] =
          beside ? words_of("%s %g", kind->beside, n) : words_of("%g rank%s", n, n > 1 ? "s" : "");
      columns[count] =
          (TableColumn){titles[count].text, 10, .cell = measured, .at = beside ? -n : n};
    }
  if (!kind->weak) columns[count++] = (TableColumn){"serial share", 12, .cell = serial_share};
  foreach_line (p, &s->points)
    if (is_shown(s, *p, !kind->weak)) lines_add(&rows, *p);
  table_heading(file, true, kind->heading);
  table_print(&table, columns, count, &rows);
  free(rows.of);
}

static bool print_tables(Scaling *s, const char *path, Error *error) {
  FILE *file;
  if (!file_create(path, &file, error)) return false;
  fprintf(file, "# Scaling\n\n%s\n", s->title);
  for (s->kind = kinds; s->kind < kinds + KINDS; s->kind++) print_table(s, file);
  return file_close(path, file, true, error);
}

/* ---- the picture ---------------------------------------------------------------------------- */

/* Adds a batch and precision to the panel of its network, which begins with the ideal. */
static void add_curve(LineChart *chart, const Scaling *s, const json_t *p) {
  const Kind *kind = s->kind;
  const Words title = words_of("%.*s, %s", (int)strcspn(kind->heading, ":"), kind->heading,
                               text_of(p, "network")),
              name = words_of("%.0f %s", number_of(p, "batch"), text_of(p, "precision"));
  CurvePanel *panel = line_chart_panel(chart, title.text);
  if (!panel) return;
  if (panel->count == 0)
    for (int c = 0; c < s->counts; c++)
      line_chart_add(chart, panel, line_chart_curve(panel, "ideal"), s->ranks[c],
                     kind->weak ? 1 : s->ranks[c]);
  for (int c = 0; c < s->counts; c++)
    line_chart_add(chart, panel, line_chart_curve(panel, name.text), s->ranks[c],
                   times(s, p, s->ranks[c]));
  panel->title = panel->key.text;
  panel->x = (Axis){.label = "ranks", .from_zero = true};
  panel->y = (Axis){.label = kind->axis, .from_zero = true};
}

static bool draw(Scaling *s, const char *path, Error *error) {
  LineChart chart = {.title = "Scaling", .subtitle = s->title};
  foreach_line (p, &s->points)
    for (s->kind = kinds; s->kind < kinds + KINDS; s->kind++)
      if (text_is(*p, "who", "mlp-train") && is_shown(s, *p, false)) add_curve(&chart, s, *p);
  if (chart.count == 0) return error_set(error, "nothing was measured on several ranks");
  return line_chart_draw(&chart, path, error);
}

/* ---- the command line ----------------------------------------------------------------------- */

typedef struct {
  const char *from, *markdown, *plot;
} Arguments;

#define ROW(word, member, role, text)                                                              \
  OPTION_ROW(Arguments, word, "FILE", NULL, option_word, member, text, .file = (role))
static const OptionRow rows[] = {
    ROW("from", from, FILE_INPUT, "read these measurements, one JSON object per line"),
    ROW("markdown", markdown, FILE_OUTPUT, "write the tables as Markdown"),
    ROW("plot", plot, FILE_OUTPUT, "draw the curves as a PNG"), OPTION_HELP, OPTION_VERSION};

static const OptionTable table = {
    "mlp-scaling",
    "Usage: mlp-scaling --from FILE --markdown FILE --plot FILE\n"
    "Makes tables and curves of what scripts/scaling.sh has measured.\n\n",
    "", rows, sizeof rows / sizeof *rows};

int main(int argc, char **argv) {
  standard_output_open();
  Scaling scaling = {.counts = 0};
  Arguments arguments = {0};
  Error error;
  OptionsResult result = option_table_read(&table, argc, argv, &arguments, &error);
  if (result == OPTIONS_RUN && !(arguments.from && arguments.markdown && arguments.plot)) {
    error_set(&error, "--from, --markdown and --plot are needed, all three");
    result = OPTIONS_USAGE;
  }
  const bool good = result != OPTIONS_RUN || (read_scaling(&scaling, arguments.from, &error) &&
                                              print_tables(&scaling, arguments.markdown, &error) &&
                                              draw(&scaling, arguments.plot, &error));
  free(scaling.points.of);
  if (!record_close(&scaling.lines, good, &error)) result = OPTIONS_FAILURE;
  return option_table_end(&table, result, argv[0], &error);
}
