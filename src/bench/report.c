/* Shows a record of mlp-bench, or of scripts/scaling.sh, as tables and as a chart. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/table.h"
#include "plot/dot_chart.h"
#include "plot/line_chart.h"

/* ---- reading -------------------------------------------------------------------------------- */

/* Keys whose values must be of one type; others are passed over. */
static const char texts[] =
    " case fusion peer precision hidden optimizer name of unit reason device "
    "driver date command sources ",
                  numbers[] = " batch networks epochs ms_per_epoch min_ms max_ms us_per_step "
                              "launches_per_step bytes_per_step test_accuracy chosen value share "
                              "cores ";

static bool check_line(const Record *record, json_t *line, Error *error) {
  (void)record;
  const char *key;
  json_t *value;
  json_object_foreach(line, key, value) {
    const ShortText word = text_format(" %s ", key);
    if ((strstr(texts, word.text) && !json_is_string(value) && !json_is_null(value)) ||
        (strstr(numbers, word.text) && json_is_string(value)))
      return error_set(error, "its \"%s\" is of the wrong type", key);
  }
  return *text_of(line, "case") || *text_of(line, "who") || *text_of(line, "machine") ||
         error_set(error, "it has no \"case\"");
}

bool bench_read(Record *record, const char *path, Error *error) {
  double ranks;
  if (!record_read(record, path, "mlp-bench", check_line, error)) return false;
  const Lines points = lines_of(record, "");
  const bool good = points.count == 0 || lines_values(&points, "ranks", 0, &ranks, 1) > 0;
  free(points.of);
  return good || error_set(error, "%s holds no measurement", path);
}

/* ---- comparing lines ------------------------------------------------------------------------ */

/* What makes two epochs comparable. */
static const char *const same_case[] = {"hidden", "optimizer", "batch", "networks", NULL};

static bool is_same_case(const json_t *a, const json_t *b) {
  bool same = true;
  for (const char *const *key = same_case; *key; key++) same = same && line_same(a, b, *key);
  return same;
}

static bool is_level(const json_t *line) {
  return *text_of(line, "fusion") && !text_is(line, "fusion", "cublas");
}

/* Returns the time that a line's is compared with: that of our fastest level that is at least as
   accurate; NAN if there is none. */
static double best_for(const Record *record, const json_t *epoch) {
  double best = NAN;
  foreach_of (line, record, "epoch", NULL)
    if (is_level(line) && is_same_case(line, epoch) &&
        (text_is(line, "precision", "fp32") || line_same(line, epoch, "precision")))
      best = fmin(best, number_of(line, "ms_per_epoch")); /* of a number and NAN, the number */
  return best;
}

/* Orders by network, optimizer, number of networks and batch, slowest first. */
static int compare_epochs(const void *a, const void *b) {
  const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
  const int hidden = strcmp(text_of(x, "hidden"), text_of(y, "hidden")),
            optimizer = strcmp(text_of(x, "optimizer"), text_of(y, "optimizer"));
  const double batches = number_of(x, "batch") - number_of(y, "batch"),
               networks = number_of(x, "networks") - number_of(y, "networks"),
               ms = number_of(y, "ms_per_epoch") - number_of(x, "ms_per_epoch");
  const double order = hidden               ? hidden
                       : optimizer          ? optimizer
                       : fabs(networks) > 0 ? networks
                       : fabs(batches) > 0  ? batches
                                            : ms;
  return (order > 0) - (order < 0);
}

/* Returns the measured epochs in that order. */
static Lines sorted_epochs(const Record *record) {
  Lines timed = lines_open(record);
  foreach_of (line, record, "epoch", NULL)
    if (number_of(line, "ms_per_epoch") > 0) lines_add(&timed, line);
  if (timed.of) qsort(timed.of, (size_t)timed.count, sizeof *timed.of, compare_epochs);
  return timed;
}

/* ---- columns -------------------------------------------------------------------------------- */

static ShortText name_of(const json_t *line) {
  if (*text_of(line, "peer")) return text_format("%s", text_of(line, "peer"));
  if (!is_level(line)) return text_format("cuBLAS and small kernels, in graphs");
  if (number_of(line, "networks") > 1) return text_format("mlp-train --seeds");
  if (text_is(line, "fusion", "cpu")) return text_format("mlp-train on the CPU");
  return text_format("mlp-train, fusion %s%s", text_of(line, "fusion"),
                     number_of(line, "chosen") > 0 ? " (auto)" : "");
}

static ShortText who(const TableCell *at) {
  return name_of(at->row);
}

static ShortText times_best(const TableCell *at) {
  return text_of_number(number_of(at->row, "ms_per_epoch") / best_for(at->record, at->row));
}

/* Amdahl's bound (1967): how many times faster the whole gets if the part takes no time. */
static ShortText bound(const TableCell *at) {
  return text_format("x%.2f", 1 / (1 - number_of(at->row, "share")));
}

/* The tables, as bits; in the order of their sections. */
enum { EPOCH = 1, PART = 2, CEILING = 4, STRONG = 8, WEAK = 16, RANKS = STRONG | WEAK };

/* Walks over the lines of the same case as p, and reasons why there are none. */
#define foreach_case(Q, RECORD, P)                                                                 \
  foreach_of (Q, RECORD, "", "who", text_of(P, "who"), "network", text_of(P, "network"),           \
              "precision", text_of(P, "precision"))

/* Returns true if q has the batch of p or, in weak scaling, as many rows for each rank. */
static bool continues(const json_t *q, const json_t *p, bool weak) {
  return number_of(q, "batch") == number_of(p, "batch") * (weak ? number_of(q, "ranks") : 1);
}

/* Milliseconds of the case on so many ranks; NAN: not measured. */
static double ms_on(const Record *record, const json_t *p, double ranks, bool weak) {
  double ms = NAN;
  foreach_case (q, record, p)
    if (continues(q, p, weak) && number_of(q, "ranks") == ranks && isnan(ms))
      ms = number_of(q, "ms");
  return ms;
}

/* Returns how many times as fast as one rank; in weak scaling, the part of one rank's rows a second
   that each of them trains on. */
static double faster_on(const Record *record, const json_t *p, double ranks, bool weak) {
  return ms_on(record, p, 1, weak) / ms_on(record, p, ranks, weak) / (weak ? ranks : 1);
}

/* column->at: ranks. */
static ShortText epoch_on(const TableCell *at) {
  const bool weak = at->column->in == WEAK;
  const double ms = ms_on(at->record, at->row, at->column->at, weak);
  return weak && isfinite(ms) ? text_format("%.2fM", number_of(at->row, "rows") / ms / 1e3)
                              : text_of_number(ms);
}

static ShortText times_on(const TableCell *at) {
  const bool weak = at->column->in == WEAK;
  return text_of_number(faster_on(at->record, at->row, at->column->at, weak));
}

/* Amdahl (1967): t(n) = t(1) (s + (1 - s) / n). Shows the share s that fits the measured times
   best, by least squares of t(n) / t(1) - 1 / n = s (1 - 1 / n), if there are two of them. */
static ShortText serial_share(const TableCell *at) {
  double products = 0, squares = 0;
  foreach_case (q, at->record, at->row) {
    const double n = number_of(q, "ranks"), left = 1 - 1 / n,
                 part = number_of(q, "ms") / number_of(at->row, "ms");
    if (!continues(q, at->row, false) || isnan(part)) continue;
    products += left * (part - 1 / n);
    squares += left * left;
  }
  return squares > 0 ? text_format("%.1f%%", 100 * products / squares) : text_format("-");
}

static const TableColumn columns[] = {
    {"hidden layers", 0, true, .key = "hidden", .in = EPOCH},
    {"optimizer", 0, true, .key = "optimizer", .in = EPOCH},
    {"networks", 0, .key = "networks", .format = "%.0f", .in = EPOCH},
    {"batch", 0, .key = "batch", .format = "%.0f", .in = EPOCH},
    {"who", 0, true, .cell = who, .in = EPOCH},
    {"precision", 0, true, .key = "precision", .in = EPOCH},
    {"ms/epoch", 0, .key = "ms_per_epoch", .in = EPOCH},
    {"min", 6, .key = "min_ms", .in = EPOCH},
    {"max", 6, .key = "max_ms", .in = EPOCH},
    {"us/step", 0, .key = "us_per_step", .in = EPOCH},
    {"launches/step", 0, .key = "launches_per_step", .in = EPOCH},
    {"MB/step", 0, .key = "bytes_per_step", .per = 1e6, .in = EPOCH},
    {"x best", 0, .cell = times_best, .in = EPOCH},
    {"test acc.", 0, .key = "test_accuracy", .format = "%.2f%%", .per = 0.01, .in = EPOCH},
    {"of", 0, true, .key = "of", .in = PART},
    {"part", 0, true, .key = "name", .in = PART},
    {"ceiling", 0, true, .key = "name", .in = CEILING},
    {"value", 0, .key = "value", .in = PART | CEILING},
    {"unit", 0, true, .key = "unit", .in = PART | CEILING},
    {"share", 0, .key = "share", .format = "%.1f%%", .per = 0.01, .in = PART},
    {"bound", 0, .cell = bound, .in = PART},
    {"who", 0, true, .key = "who", .in = RANKS},
    {"network", 0, true, .key = "network", .in = RANKS},
    {"precision", 0, true, .key = "precision", .in = RANKS},
    {"batch", 0, .key = "batch", .format = "%.0f", .in = STRONG},
    {"rows", 0, .key = "batch", .format = "%.0f", .in = WEAK},
    {"1 rank", 0, .cell = epoch_on, .at = 1, .in = RANKS},
    {"%g ranks", 0, .cell = epoch_on, .at = 1, .each = "ranks", .in = RANKS},
    {"times on %g", 0, .cell = times_on, .at = 1, .each = "ranks", .in = STRONG},
    {"part on %g", 0, .cell = times_on, .at = 1, .each = "ranks", .in = WEAK},
    {"serial share", 0, .cell = serial_share, .in = STRONG}};

/* ---- sections ------------------------------------------------------------------------------- */

static const struct {
  const char *kind, *heading, *note;
} sections[] = {
    {"epoch", "An epoch",
     "Medians after a warm-up, wall clock until the GPU has finished; of several networks, the "
     "time "
     "of\none. launches: by the host. MB: the least that the step's kernels read and write, "
     "counted "
     "from\nshapes. x best: how many times the fastest level of mlp-train that is at least as "
     "accurate.\n\n"},
    {"part", "Parts",
     "bound: how much faster the whole would be if the part took no time at all (Amdahl). A "
     "step's\n"
     "kernels are nodes of a graph, one after the other.\n\n"},
    {"ceiling", "What the GPU can do", ""},
    {"", "Strong scaling: the same batch, ms per epoch", ""},
    {"", "Weak scaling: the same rows per rank and step, rows per second", ""}};
enum { SECTIONS = LENGTH(sections), OF_RANKS = 3 /* from here on: of scripts/scaling.sh */ };

/* Returns true if one rank has run the case and, unless `any`, several have, too. */
static bool is_on_ranks(const Record *record, const json_t *p, bool weak, bool any) {
  foreach_case (q, record, p)
    any |= continues(q, p, weak) && number_of(q, "ranks") > 1 && isfinite(number_of(q, "ms"));
  return any && number_of(p, "ranks") == 1;
}

static void put_section(const Record *record, int section, FILE *file, bool markdown) {
  const unsigned which = 1u << section;
  Lines all = which == EPOCH ? sorted_epochs(record) : lines_of(record, sections[section].kind),
        rows = lines_open(record);
  foreach_line (line, &all)
    if (!(which & RANKS) || is_on_ranks(record, *line, which == WEAK, which == STRONG))
      lines_add(&rows, *line);
  const Table table = {file, markdown, record, which == EPOCH ? same_case : NULL, which, &all};
  if (rows.count > 0 || which == EPOCH || which & RANKS) {
    table_heading(file, markdown, sections[section].heading);
    fputs(sections[section].note, file);
    table_print(&table, columns, LENGTH(columns), &rows);
  }
  free(all.of);
  free(rows.of);
}

static void put_reasons(const Record *record, FILE *file, bool markdown) {
  static const char *const keys[][2] = {{"hidden", "hidden layers "},
                                        {"networks", "networks "},
                                        {"batch", "batch "},
                                        {"precision", ""}};
  bool any = false;
  size_t i;
  const json_t *line;
  json_array_foreach(record->lines, i, line) {
    if (!*text_of(line, "reason") || !*text_of(line, "case")) continue;
    if (!any) table_heading(file, markdown, "Not measured");
    any = true;
    fprintf(file, "%s%s", markdown ? "- " : "",
            line_is(line, "epoch") ? name_of(line).text : text_of(line, "name"));
    for (int k = 0; k < 4; k++) {
      const double number = number_of(line, keys[k][0]);
      const char *text = text_of(line, keys[k][0]);
      if (*text || isfinite(number))
        fprintf(file, ", %s%s", keys[k][1], *text ? text : text_format("%g", number).text);
    }
    fprintf(file, ": %s\n", text_of(line, "reason"));
  }
}

void bench_print(const Record *record, FILE *file, bool markdown) {
  const json_t *ranks = record_first(record, "");
  record_print_machine(record, "Training epochs", file, markdown);
  if (ranks) fprintf(file, "%sScaling\n\n%s\n", markdown ? "# " : "", text_of(ranks, "machine"));
  for (int i = ranks ? OF_RANKS : 0; i < (ranks ? SECTIONS : OF_RANKS); i++) {
    put_section(record, i, file, markdown);
    if (i == 0) put_reasons(record, file, markdown);
  }
}

/* ---- pictures ------------------------------------------------------------------------------- */

/* Adds a batch and precision to the panel of its network, which begins with the ideal. */
static void add_curve(LineChart *chart, const Record *record, const Lines *lines, const json_t *p,
                      bool weak) {
  enum { COUNTS = 8 };
  const ShortText title = text_format("%s scaling, %s", weak ? "Weak" : "Strong",
                                      text_of(p, "network")),
                  name = text_format("%.0f %s", number_of(p, "batch"), text_of(p, "precision"));
  CurvePanel *panel = line_chart_panel(chart, title.text);
  double ranks[COUNTS];
  const int counts = lines_values(lines, "ranks", 0, ranks, COUNTS);
  if (!panel) return;
  const bool begins = panel->count == 0;
  const int ideal = line_chart_curve(panel, "ideal"), curve = line_chart_curve(panel, name.text);
  for (int c = 0; c < counts; c++) {
    if (begins) line_chart_add(chart, panel, ideal, ranks[c], weak ? 1 : ranks[c]);
    line_chart_add(chart, panel, curve, ranks[c], faster_on(record, p, ranks[c], weak));
  }
  panel->title = panel->key.text;
  panel->x = (Axis){.label = "ranks", .from_zero = true};
  panel->y.from_zero = true;
  panel->y.label = weak ? "rows per second and rank, parts of one's" : "times as fast as one rank";
}

static bool plot_ranks(const Record *record, const char *path, Error *error) {
  LineChart chart = {.title = "Scaling", .subtitle = text_of(record_first(record, ""), "machine")};
  const Lines all = lines_of(record, "");
  foreach_line (p, &all)
    for (int weak = 0; weak < 2; weak++)
      if (text_is(*p, "who", "mlp-train") && is_on_ranks(record, *p, weak, false))
        add_curve(&chart, record, &all, *p, weak);
  free(all.of);
  if (chart.count == 0) return error_set(error, "nothing was measured on several ranks");
  return line_chart_draw(&chart, path, error);
}

bool bench_plot(const Record *record, const char *path, Error *error) {
  if (record_first(record, "")) return plot_ranks(record, path, error);
  const json_t *first = record_first(record, "epoch"), *machine = record_first(record, "machine");
  const Lines all = sorted_epochs(record);
  DotChart dots = {.mark = 0};
  double epochs = 0;
  foreach_line (e, &all) {
    const ShortText label = text_format("%.90s, %s", name_of(*e).text, text_of(*e, "precision"));
    if (!is_same_case(*e, first)) continue;
    dot_chart_add(&dots, label.text, number_of(*e, "ms_per_epoch"),
                  *text_of(*e, "peer") ? OTHER
                  : is_level(*e)       ? OURS
                                       : LIBRARY);
    epochs = fmax(epochs, number_of(*e, "epochs"));
  }
  free(all.of);
  if (dots.count == 0)
    return error_set(error, "no epoch was measured: there is nothing to draw in %s", path);
  const ShortText title = text_format("One training epoch, hidden layers %s, batch %g",
                                      text_of(first, "hidden"), number_of(first, "batch")),
                  below = text_format("%s, %s, median of %g epochs after a warm-up",
                                      text_of(machine, "device"), text_of(machine, "name"), epochs);
  dots.title = title.text;
  dots.subtitle = below.text;
  return dot_chart_draw(&dots, path, error);
}
