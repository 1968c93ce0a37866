/* Shows a record of mlp-bench, or of scripts/scaling.sh, as tables and as a chart. */
#include "bench/bench.h"

#include <string.h>

#include "measure/table.h"
#include "plot/dot_chart.h"
#include "plot/line_chart.h"

/* ---- reading -------------------------------------------------------------------------------- */

/* Keys whose values must be of one type; others are passed over. */
static const char texts[] = " case fusion peer precision name unit reason gpu driver date command "
                            "sources ",
                  numbers[] = " batch epochs ms_per_epoch min_ms max_ms us_per_step "
                              "launches_per_step bytes_per_step test_accuracy chosen value share "
                              "bound cores ";

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

static bool is_level(const json_t *line) {
  return *text_of(line, "fusion") && !text_is(line, "fusion", "cublas");
}

/* Returns the time that a line's is compared with: that of our fastest level that is at least as
   accurate; NAN if there is none. */
static double best_for(const Record *record, const json_t *epoch) {
  double best = NAN;
  foreach_of (line, record, text_of(epoch, "case"), "name", text_of(epoch, "name"))
    if (is_level(line) && line_same(line, epoch, "batch") && line_same(line, epoch, "networks") &&
        (text_is(line, "precision", "fp32") || line_same(line, epoch, "precision")))
      best = fmin(best, number_of(line, "ms_per_epoch")); /* of a number and NAN, the number */
  return best;
}

static double floor_for(const Record *record, const json_t *line, const char *precision) {
  foreach_of (floor, record, "floor", "precision", precision)
    if (line_same(floor, line, "batch")) return number_of(floor, "value");
  return NAN;
}

/* By network, batch and how many networks, slowest first. */
static int compare_epochs(const void *a, const void *b) {
  const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
  const double batches = number_of(x, "batch") - number_of(y, "batch"),
               networks = number_of(x, "networks") - number_of(y, "networks"),
               ms = number_of(y, "ms_per_epoch") - number_of(x, "ms_per_epoch");
  const int names = strcmp(text_of(x, "name"), text_of(y, "name"));
  const double order = names ? names : batches != 0 ? batches : fabs(networks) > 0 ? networks : ms;
  return (order > 0) - (order < 0);
}

/* The measured epochs of a kind, `epoch`, `wide` or `many`, in that order. */
static Lines sorted_epochs(const Record *record, const char *kind) {
  Lines all = lines_of(record, kind);
  Lines timed = {all.of, 0};
  foreach_line (e, &all)
    if (number_of(*e, "ms_per_epoch") > 0) lines_add(&timed, *e);
  if (timed.of) qsort(timed.of, (size_t)timed.count, sizeof *timed.of, compare_epochs);
  return timed;
}

/* ---- columns -------------------------------------------------------------------------------- */

static ShortText name_of(const json_t *line) {
  if (*text_of(line, "peer")) return text_format("%s", text_of(line, "peer"));
  if (!is_level(line)) return text_format("cuBLAS and small kernels, in graphs");
  return text_format("mlp-train, fusion %s%s", text_of(line, "fusion"),
                     number_of(line, "chosen") > 0 ? " (auto)" : "");
}

static ShortText who(const TableCell *at) {
  return name_of(at->row);
}

static ShortText times_best(const TableCell *at) {
  return text_of_number(number_of(at->row, "ms_per_epoch") / best_for(at->record, at->row));
}

static ShortText times_floor(const TableCell *at) {
  const double floor = floor_for(at->record, at->row, text_of(at->row, "precision"));
  return text_of_number(number_of(at->row, "ms_per_epoch") / floor);
}

/* Shows the kernel of the row at the column's batch. */
static ShortText kernel_cell(const TableCell *at) {
  foreach_of (line, at->record, "kernel", "name", text_of(at->row, "name"))
    if (number_of(line, "batch") == at->column->at)
      return text_format("%s us %3.0f%% x%.2f", text_of_number(number_of(line, "value")).text,
                         100 * number_of(line, "share"), number_of(line, "bound"));
  return text_format("-");
}

/* The tables, as bits; in the order of their sections. */
enum {
  EPOCH = 1,
  WIDE = 2,
  MANY = 4,
  FLOOR = 8,
  CEILING = 16,
  KERNEL = 32,
  RUN = 64,
  STRONG = 128,
  WEAK = 256,
  TIMES = EPOCH | WIDE | MANY,
  RANKS = STRONG | WEAK
};

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
    {"hidden layers", 23, true, .key = "name", .in = WIDE},
    {"who", 12, true, .key = "who", .in = RANKS},
    {"network", 12, true, .key = "network", .in = RANKS},
    {"precision", 12, true, .key = "precision", .in = RANKS},
    {"batch", 10, .key = "batch", .format = "%.0f", .in = STRONG},
    {"rows", 10, .key = "batch", .format = "%.0f", .in = WEAK},
    {"1 rank", 10, .cell = epoch_on, .at = 1, .in = RANKS},
    {"%g ranks", 10, .cell = epoch_on, .at = 1, .each = "ranks", .in = RANKS},
    {"times on %g", 10, .cell = times_on, .at = 1, .each = "ranks", .in = STRONG},
    {"part on %g", 10, .cell = times_on, .at = 1, .each = "ranks", .in = WEAK},
    {"serial share", 12, .cell = serial_share, .in = STRONG},
    {"networks", 8, .key = "networks", .format = "%.0f", .in = MANY},
    {"batch", 5, .key = "batch", .format = "%.0f", .in = TIMES | FLOOR},
    {"who", 42, true, .cell = who, .in = TIMES},
    {"precision", 9, true, .key = "precision", .in = TIMES | FLOOR},
    {"ms/epoch", 8, .key = "ms_per_epoch", .in = TIMES},
    {"min", 6, .key = "min_ms", .in = TIMES},
    {"max", 6, .key = "max_ms", .in = TIMES},
    {"us/step", 7, .key = "us_per_step", .in = EPOCH},
    {"launches/step", 13, .key = "launches_per_step", .in = EPOCH},
    {"MB/step", 7, .key = "bytes_per_step", .per = 1e6, .in = EPOCH},
    {"x floor", 7, .cell = times_floor, .in = EPOCH},
    {"x best", 6, .cell = times_best, .in = TIMES},
    {"test acc.", 9, .key = "test_accuracy", .format = "%.2f%%", .per = 0.01, .in = EPOCH | WIDE},
    {"floor, ms/epoch", 15, .key = "value", .in = FLOOR},
    {"ceiling, measured in this run", 30, true, .key = "name", .in = CEILING},
    {"value", 7, .key = "value", .in = CEILING},
    {"unit", 7, true, .key = "unit", .in = CEILING},
    {"kernel", 31, true, .key = "name", .in = KERNEL},
    {"batch %g", 18, .cell = kernel_cell, .each = "batch", .in = KERNEL},
    {"part", 44, true, .key = "name", .in = RUN},
    {"ms", 7, .key = "value", .format = "%.1f", .in = RUN},
    {"share", 6, .key = "share", .format = "%.1f%%", .per = 0.01, .in = RUN},
    {"bound", 6, .key = "bound", .format = "x%.2f", .in = RUN}};

/* ---- sections ------------------------------------------------------------------------------- */

typedef struct {
  const char *kind, *group;   /* group: what epochs are sorted by; NULL: its lines are no epochs */
  const char *heading, *note; /* note NULL: how many epochs */
} Section;

/* Behind those of epochs stands what was not measured. */
static const Section sections[] = {
    {"epoch", "batch", "An epoch",
     "Medians after a warm-up, wall clock until the GPU has finished. launches: by the host.\n"
     "MB: the least that the step's kernels read and write, counted from shapes. x floor: how\n"
     "many times the floor below. x best: how many times the fastest level of mlp-train that is\n"
     "at least as accurate.\n\n"},
    {"wide", "batch", "Wide networks", NULL},
    {"many", "networks", "Networks at once", "ms/epoch: of one network. Medians.\n\n"},
    {"floor", NULL, "The floor of an epoch",
     "steps x 2 grid barriers + the longer of rows x operations per row / SGEMM rate and rows x\n"
     "(pixels + label) / copy rate. Operations per row: 4 per weight of the first layer, 6 per\n"
     "weight of the others. Two barriers: a step needs two exchanges between all\n"
     "multiprocessors: outputs of the first layer to the owners of rows, their gradients to the\n"
     "owners of columns.\n\n"},
    {"ceiling", NULL, "What the GPU can do", ""},
    {"kernel", NULL, "The kernels of a step at level layer",
     "As nodes of a graph, one after the other: time, share of the step, and how much faster "
     "the\nstep would be if the kernel took no time at all (Amdahl's bound). Where the kernels "
     "for\nwide layers are faster, a step has those instead.\n\n"},
    {"run", NULL, "A whole run of mlp-train, from the CSV files, batch 64",
     "bound: how much faster the run would be if the part took no time at all. Below the sum:\n"
     "the same work on its own; in a run, the files are parsed while the GPU starts.\n\n"},
    {"", NULL, "Strong scaling: the same batch, ms per epoch", ""},
    {"", NULL, "Weak scaling: the same rows per rank and step, rows per second", ""}};
enum { SECTIONS = LENGTH(sections), OF_EPOCHS = 3 /* the first ones */ };
enum { OF_RANKS = SECTIONS - 2 /* from here on: of a record of scripts/scaling.sh */ };

/* Returns true if one rank has run the case and, unless `any`, several have, too. */
static bool is_on_ranks(const Record *record, const json_t *p, bool weak, bool any) {
  foreach_case (q, record, p)
    any |= continues(q, p, weak) && number_of(q, "ranks") > 1 && isfinite(number_of(q, "ms"));
  return any && number_of(p, "ranks") == 1;
}

/* Chooses from all lines of a section those that are its rows: of kernels those at the first batch,
   of ranks those on one. Adds to those of a run their sum, which is the caller's, and the same work
   alone. */
static Lines rows_of(const Record *record, int section, const Lines *all, json_t *total) {
  Lines rows = lines_open(record);
  double sum = 0;
  foreach_line (line, all) {
    const unsigned which = 1u << section;
    if (which == KERNEL ? line_same(*line, *all->of, "batch")
        : which & RANKS ? is_on_ranks(record, *line, which == WEAK, which == STRONG)
                        : true)
      lines_add(&rows, *line);
    sum += number_of(*line, "value");
  }
  if (1u << section != RUN || rows.count == 0) return rows;
  const Lines alone = lines_of(record, "alone");
  record_text(total, "name", "the whole process");
  record_number(total, "value", sum);
  record_text(total, "share", "100%");
  lines_add(&rows, total);
  foreach_line (part, &alone) lines_add(&rows, *part);
  free(alone.of);
  return rows;
}

static void put_section(const Record *record, int section, FILE *file, bool markdown) {
  const Section *s = &sections[section];
  json_t *total = record_line("run");
  const Lines all = s->group ? sorted_epochs(record, s->kind) : lines_of(record, s->kind),
              rows = rows_of(record, section, &all, total);
  const Table table = {file, markdown, record, s->group, 1u << section, &all};
  if (rows.count > 0 || section == 0 || section >= OF_RANKS) {
    table_heading(file, markdown, s->heading);
    if (s->note)
      fputs(s->note, file);
    else
      fprintf(file, "Medians of %g epochs after a warm-up, as above.\n\n",
              number_of(rows.of[0], "epochs"));
    table_print(&table, columns, LENGTH(columns), &rows);
  }
  free(all.of);
  free(rows.of);
  json_decref(total);
}

static void put_machine(const Record *record, FILE *file, bool markdown) {
  const json_t *m = record_first(record, "machine"), *peers = record_first(record, "peers");
  const char *quote = markdown ? "`" : "", *item = markdown ? "- " : "", *gpu = text_of(m, "gpu");
  if (*text_of(record_first(record, ""), "machine"))
    fprintf(file, "%sScaling\n\n%s\n", markdown ? "# " : "",
            text_of(record_first(record, ""), "machine"));
  if (!m) return;
  fprintf(file, "%sTraining epochs on %s\n\n", markdown ? "# " : "", gpu);
  fprintf(file, "%s%s, driver %s; %g CPU cores; %s\n", item, gpu, text_of(m, "driver"),
          number_of(m, "cores"), text_of(m, "date"));
  fprintf(file, "%s%s, momentum 0.9, shuffled anew every epoch\n", item, text_of(m, "name"));
  fprintf(file, "%scommand %s%s%s\n", item, quote, text_of(m, "command"), quote);
  if (peers)
    fprintf(file, "%speers %s: %s%s%s\n", item, text_of(peers, "name"), quote,
            text_of(peers, "command"), quote);
  if (*text_of(m, "sources"))
    fprintf(file, "%ssources %s%s%s\n", item, quote, text_of(m, "sources"), quote);
}

static void put_reasons(const Record *record, FILE *file, bool markdown) {
  bool any = false;
  size_t i;
  const json_t *line;
  json_array_foreach(record->lines, i, line) {
    const char *name = text_of(line, "name");
    if (!*text_of(line, "reason")) continue;
    if (!any) table_heading(file, markdown, "Not measured");
    any = true;
    fprintf(file, "%s%s", markdown ? "- " : "",
            *text_of(line, "peer") || *text_of(line, "fusion") ? name_of(line).text
            : *name                                            ? name
                                                               : text_of(line, "case"));
    if (line_is(line, "wide")) fprintf(file, ", hidden layers %s", name);
    if (line_is(line, "many")) fprintf(file, ", %g networks", number_of(line, "networks"));
    if (isfinite(number_of(line, "batch"))) fprintf(file, ", batch %g", number_of(line, "batch"));
    if (*text_of(line, "precision")) fprintf(file, ", %s", text_of(line, "precision"));
    fprintf(file, ": %s\n", text_of(line, "reason"));
  }
}

void bench_print(const Record *record, FILE *file, bool markdown) {
  const bool of_ranks = record_first(record, "");
  put_machine(record, file, markdown);
  for (int i = of_ranks ? OF_RANKS : 0; i < (of_ranks ? SECTIONS : OF_RANKS); i++) {
    if (i == OF_EPOCHS) put_reasons(record, file, markdown);
    put_section(record, i, file, markdown);
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
  const Lines all = sorted_epochs(record, "epoch");
  if (all.count == 0) {
    free(all.of);
    return error_set(error, "no epoch was measured: there is nothing to draw in %s", path);
  }
  const json_t *line = all.of[0], *machine = record_first(record, "machine");
  DotChart dots = {.mark_label = "floor at fp32"};
  foreach_line (e, &all) {
    if (!line_same(*e, *all.of, "batch")) break;
    const ShortText label = text_format("%.90s, %s", name_of(*e).text, text_of(*e, "precision"));
    dot_chart_add(&dots, label.text, number_of(*e, "ms_per_epoch"),
                  *text_of(*e, "peer") ? OTHER
                  : is_level(*e)       ? OURS
                                       : LIBRARY);
    if (is_level(*e)) line = *e; /* ours, if there is one, tells the GPU and the epochs */
  }
  free(all.of);
  const double floor = floor_for(record, line, "fp32");
  const ShortText title = text_format("%s, batch %g: time of one training epoch",
                                      text_of(machine, "name"), number_of(line, "batch")),
                  below = text_format("%s, median of %g epochs after a warm-up",
                                      text_of(line, "gpu"), number_of(line, "epochs"));
  dots.title = title.text;
  dots.subtitle = below.text;
  dots.mark = isfinite(floor) ? floor : 0;
  return dot_chart_draw(&dots, path, error);
}
