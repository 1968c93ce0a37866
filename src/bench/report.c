#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "plot/dot_chart.h"

/* ---- finding lines -------------------------------------------------------------------------- */

static bool is(const BenchLine *line, const char *kind) {
  return strcmp(line->kind, kind) == 0;
}

static const BenchLine *first_of(const BenchLog *log, const char *kind) {
  for (int i = 0; i < log->count; i++)
    if (is(&log->lines[i], kind)) return &log->lines[i];
  return NULL;
}

static bool was_measured(const BenchLine *line, const char *kind) {
  return is(line, kind) && isfinite(line->ms_per_epoch) && line->ms_per_epoch > 0;
}

static bool is_level(const BenchLine *line) {
  return *line->fusion && strcmp(line->fusion, "cublas") != 0;
}

/* What this line's time is compared with: our fastest level that is at least as accurate, NAN if
   there is none. */
static double best_for(const BenchLog *log, const BenchLine *epoch) {
  double best = NAN;
  for (int i = 0; i < log->count; i++) {
    const BenchLine *line = &log->lines[i];
    if (was_measured(line, epoch->kind) && is_level(line) && line->batch == epoch->batch &&
        strcmp(line->name, epoch->name) == 0 &&
        (strcmp(line->precision, "fp32") == 0 || strcmp(line->precision, epoch->precision) == 0))
      best = fmin(best, line->ms_per_epoch); /* of a number and NAN, the number */
  }
  return best;
}

static double floor_for(const BenchLog *log, const BenchLine *line) {
  for (int i = 0; i < log->count; i++)
    if (is(&log->lines[i], "floor") && log->lines[i].batch == line->batch &&
        strcmp(log->lines[i].precision, line->precision) == 0)
      return log->lines[i].value;
  return NAN;
}

static TableCell name_of(const BenchLine *line) {
  if (*line->peer) return table_cell("%s", line->peer);
  if (!is_level(line)) return table_cell("cuBLAS and small kernels, in graphs");
  return table_cell("mlp-train, fusion %s%s", line->fusion, line->chosen > 0 ? " (auto)" : "");
}

static TableCell accuracy_of(const BenchLine *line) {
  return isfinite(line->test_accuracy) ? table_cell("%.2f%%", 100 * line->test_accuracy)
                                       : table_cell("-");
}

/* By network and batch, slowest first. */
static int compare_epochs(const void *a, const void *b) {
  const BenchLine *x = *(const BenchLine *const *)a, *y = *(const BenchLine *const *)b;
  const int networks = strcmp(x->name, y->name);
  if (networks) return networks;
  if (x->batch != y->batch) return x->batch < y->batch ? -1 : 1;
  return (x->ms_per_epoch < y->ms_per_epoch) - (x->ms_per_epoch > y->ms_per_epoch);
}

/* The measured epochs of a kind, `epoch` or `wide`, in that order; the caller frees the list. NULL
 * without memory. */
static const BenchLine **sorted_epochs(const BenchLog *log, const char *kind, int *count) {
  const BenchLine **list = malloc(((size_t)log->count + 1) * sizeof *list);
  *count = 0;
  for (int i = 0; list && i < log->count; i++)
    if (was_measured(&log->lines[i], kind)) list[(*count)++] = &log->lines[i];
  if (list) qsort(list, (size_t)*count, sizeof *list, compare_epochs);
  return list;
}

/* ---- sections ------------------------------------------------------------------------------- */

static void put_machine(const BenchLog *log, FILE *file, bool markdown) {
  const BenchLine *m = first_of(log, "machine"), *peers = first_of(log, "peers");
  const char *quote = markdown ? "`" : "", *item = markdown ? "- " : "";
  if (!m) return;
  fprintf(file, markdown ? "# Training epochs on %s\n\n" : "Training epochs on %s\n\n", m->gpu);
  fprintf(file, "%s%s, driver %s; %g CPU cores; %s\n", item, m->gpu, m->driver, m->cores, m->date);
  fprintf(file, "%s%s, momentum 0.9, shuffled anew every epoch\n", item, m->name);
  fprintf(file, "%scommand %s%s%s\n", item, quote, m->command, quote);
  if (peers) fprintf(file, "%speers %s: %s%s%s\n", item, peers->name, quote, peers->command, quote);
  if (*m->sources) fprintf(file, "%ssources %s%s%s\n", item, quote, m->sources, quote);
}

static void put_epochs(const BenchLog *log, FILE *file, bool markdown) {
  static const TableColumn columns[] = {{"batch", 5, false},    {"who", 42, true},
                                        {"precision", 9, true}, {"ms/epoch", 8, false},
                                        {"min", 6, false},      {"max", 6, false},
                                        {"us/step", 7, false},  {"launches/step", 13, false},
                                        {"MB/step", 7, false},  {"x floor", 7, false},
                                        {"x best", 6, false},   {"test acc.", 9, false}};
  const Table table = {file, markdown, columns, sizeof columns / sizeof *columns};
  int count;
  const BenchLine **epochs = sorted_epochs(log, "epoch", &count);
  table_heading(file, markdown, "An epoch");
  fputs(
      "Medians after a warm-up, wall clock until the GPU has finished. launches: by the host.\n"
      "MB: the least that the step's kernels read and write, counted from shapes. x floor: how\n"
      "many times the floor below. x best: how many times the fastest level of mlp-train that is\n"
      "at least as accurate.\n\n",
      file);
  table_begin(&table);
  for (int i = 0; epochs && i < count; i++) {
    const BenchLine *e = epochs[i];
    const TableCell cells[] = {table_cell("%g", e->batch),
                               name_of(e),
                               table_cell("%s", e->precision),
                               table_number(e->ms_per_epoch),
                               table_number(e->min_ms),
                               table_number(e->max_ms),
                               table_number(e->us_per_step),
                               table_number(e->launches_per_step),
                               table_number(e->bytes_per_step / 1e6),
                               table_number(e->ms_per_epoch / floor_for(log, e)),
                               table_number(e->ms_per_epoch / best_for(log, e)),
                               accuracy_of(e)};
    if (!markdown && i && e->batch != epochs[i - 1]->batch) putc('\n', file);
    table_row(&table, cells);
  }
  free(epochs);
}

static void put_wide(const BenchLog *log, FILE *file, bool markdown) {
  static const TableColumn columns[] = {
      {"hidden layers", 23, true}, {"batch", 5, false},    {"who", 42, true},
      {"precision", 9, true},      {"ms/epoch", 8, false}, {"min", 6, false},
      {"max", 6, false},           {"x best", 6, false},   {"test acc.", 9, false}};
  const Table table = {file, markdown, columns, sizeof columns / sizeof *columns};
  int count;
  const BenchLine **epochs = sorted_epochs(log, "wide", &count);
  if (epochs && count > 0) {
    table_heading(file, markdown, "Wide networks");
    fprintf(file, "Medians of %g epochs after a warm-up, as above.\n\n", epochs[0]->epochs);
    table_begin(&table);
  }
  for (int i = 0; epochs && i < count; i++) {
    const BenchLine *e = epochs[i];
    const TableCell cells[] = {table_cell("%s", e->name),
                               table_cell("%g", e->batch),
                               name_of(e),
                               table_cell("%s", e->precision),
                               table_number(e->ms_per_epoch),
                               table_number(e->min_ms),
                               table_number(e->max_ms),
                               table_number(e->ms_per_epoch / best_for(log, e)),
                               accuracy_of(e)};
    if (!markdown && i && e->batch != epochs[i - 1]->batch) putc('\n', file);
    table_row(&table, cells);
  }
  free(epochs);
}

static void put_reasons(const BenchLog *log, FILE *file, bool markdown) {
  bool any = false;
  for (int i = 0; i < log->count; i++) {
    const BenchLine *line = &log->lines[i];
    if (!*line->reason) continue;
    if (!any) table_heading(file, markdown, "Not measured");
    any = true;
    fprintf(file, "%s%s", markdown ? "- " : "",
            is(line, "epoch") || is(line, "wide") ? name_of(line).text
            : *line->name                         ? line->name
                                                  : line->kind);
    if (is(line, "wide")) fprintf(file, ", hidden layers %s", line->name);
    if (isfinite(line->batch)) fprintf(file, ", batch %g", line->batch);
    if (*line->precision) fprintf(file, ", %s", line->precision);
    fprintf(file, ": %s\n", line->reason);
  }
}

static void put_ceilings(const BenchLog *log, FILE *file, bool markdown) {
  static const TableColumn columns[] = {
      {"ceiling, measured in this run", 30, true}, {"value", 7, false}, {"unit", 7, true}};
  const Table table = {file, markdown, columns, 3};
  if (!first_of(log, "ceiling")) return;
  table_heading(file, markdown, "What the GPU can do");
  table_begin(&table);
  for (int i = 0; i < log->count; i++) {
    const BenchLine *c = &log->lines[i];
    if (!is(c, "ceiling") || *c->reason) continue;
    const TableCell cells[] = {table_cell("%s", c->name), table_number(c->value),
                               table_cell("%s", c->unit)};
    table_row(&table, cells);
  }
}

static void put_floors(const BenchLog *log, FILE *file, bool markdown) {
  static const TableColumn columns[] = {
      {"batch", 5, false}, {"precision", 9, true}, {"floor, ms/epoch", 15, false}};
  const Table table = {file, markdown, columns, 3};
  if (!first_of(log, "floor")) return;
  table_heading(file, markdown, "The floor of an epoch");
  fputs(
      "steps x 2 grid barriers + the longer of rows x operations per row / SGEMM rate and rows x\n"
      "(pixels + label) / copy rate. Operations per row: 4 per weight of the first layer, 6 per\n"
      "weight of the others. Two barriers: a step needs two exchanges between all\n"
      "multiprocessors: outputs of the first layer to the owners of rows, their gradients to the\n"
      "owners of columns.\n\n",
      file);
  table_begin(&table);
  for (int i = 0; i < log->count; i++) {
    const BenchLine *f = &log->lines[i];
    if (!is(f, "floor")) continue;
    const TableCell cells[] = {table_cell("%g", f->batch), table_cell("%s", f->precision),
                               table_number(f->value)};
    table_row(&table, cells);
  }
}

enum { MAX_BATCHES = 8 };

/* The batches at which kernels were timed, in the order of the lines. */
static int kernel_batches(const BenchLog *log, double batches[MAX_BATCHES]) {
  int count = 0;
  for (int i = 0; i < log->count; i++) {
    const BenchLine *line = &log->lines[i];
    int k = 0;
    while (k < count && batches[k] != line->batch) k++;
    if (is(line, "kernel") && !*line->reason && k == count && count < MAX_BATCHES)
      batches[count++] = line->batch;
  }
  return count;
}

static TableCell kernel_cell(const BenchLog *log, const char *name, double batch) {
  for (int i = 0; i < log->count; i++) {
    const BenchLine *k = &log->lines[i];
    if (is(k, "kernel") && !*k->reason && k->batch == batch && strcmp(k->name, name) == 0)
      return table_cell("%s us %3.0f%% x%.2f", table_number(k->value).text, 100 * k->share,
                        k->bound);
  }
  return table_cell("-");
}

/* A row a kernel, a column a batch. */
static void put_kernels(const BenchLog *log, FILE *file, bool markdown) {
  double batches[MAX_BATCHES];
  char titles[MAX_BATCHES][24];
  TableColumn columns[1 + MAX_BATCHES] = {{"kernel", 31, true}};
  const int count = kernel_batches(log, batches);
  if (count == 0) return;
  for (int b = 0; b < count; b++) {
    snprintf(titles[b], sizeof titles[b], "batch %g", batches[b]);
    columns[1 + b] = (TableColumn){titles[b], 18, false};
  }
  const Table table = {file, markdown, columns, 1 + count};
  table_heading(file, markdown, "The kernels of a step at level layer");
  fputs(
      "As nodes of a graph, one after the other: time, share of the step, and how much faster the\n"
      "step would be if the kernel took no time at all (Amdahl's bound). Where the kernels for\n"
      "wide layers are faster, a step has those instead.\n\n",
      file);
  table_begin(&table);
  for (int i = 0; i < log->count; i++) {
    const BenchLine *k = &log->lines[i];
    if (!is(k, "kernel") || *k->reason || k->batch != batches[0]) continue;
    TableCell cells[1 + MAX_BATCHES] = {table_cell("%s", k->name)};
    for (int b = 0; b < count; b++) cells[1 + b] = kernel_cell(log, k->name, batches[b]);
    table_row(&table, cells);
  }
}

static void put_run(const BenchLog *log, FILE *file, bool markdown) {
  static const TableColumn columns[] = {
      {"part", 44, true}, {"ms", 7, false}, {"share", 6, false}, {"bound", 6, false}};
  const Table table = {file, markdown, columns, 4};
  if (!first_of(log, "run")) return;
  table_heading(file, markdown, "A whole run of mlp-train, from the CSV files, batch 64");
  fputs("bound: how much faster the run would be if the part took no time at all. Below the sum:\n"
        "the same work on its own; in a run, the files are parsed while the GPU starts.\n\n",
        file);
  table_begin(&table);
  double sum = 0;
  for (int i = 0; i < log->count; i++) {
    const BenchLine *r = &log->lines[i];
    if (!is(r, "run") || *r->reason) continue;
    sum += r->value;
    const TableCell cells[] = {table_cell("%s", r->name), table_cell("%.1f", r->value),
                               table_cell("%.1f%%", 100 * r->share), table_cell("x%.2f", r->bound)};
    table_row(&table, cells);
  }
  const TableCell total[] = {table_cell("the whole process"), table_cell("%.1f", sum),
                             table_cell("100%%"), table_cell("-")};
  table_row(&table, total);
  for (int i = 0; i < log->count; i++) {
    const BenchLine *r = &log->lines[i];
    if (!is(r, "alone") || *r->reason) continue;
    const TableCell cells[] = {table_cell("%s", r->name), table_cell("%.1f", r->value),
                               table_cell("-"), table_cell("-")};
    table_row(&table, cells);
  }
}

void bench_print(const BenchLog *log, FILE *file, bool markdown) {
  put_machine(log, file, markdown);
  put_epochs(log, file, markdown);
  put_wide(log, file, markdown);
  put_reasons(log, file, markdown);
  put_floors(log, file, markdown);
  put_ceilings(log, file, markdown);
  put_kernels(log, file, markdown);
  put_run(log, file, markdown);
}

/* ---- the picture ---------------------------------------------------------------------------- */

static const Colour OURS = {9, 105, 218}, CUBLAS = {130, 80, 223}, PEER = {175, 184, 193};

/* The dots of one batch. */
typedef struct {
  DotChartRow dots[DOT_CHART_MAX];
  TableCell labels[DOT_CHART_MAX];
  int count;
} Dots;

static void add_dot(Dots *dots, const BenchLine *line) {
  TableCell *label = &dots->labels[dots->count];
  *label = table_cell("%.90s, %s", name_of(line).text, line->precision);
  dots->dots[dots->count++] = (DotChartRow){label->text, line->ms_per_epoch,
                                            *line->peer      ? PEER
                                            : is_level(line) ? OURS
                                                             : CUBLAS};
}

/* `line`: one of the dots, of ours if there is one, to tell the GPU and the epochs. */
static bool draw(const BenchLog *log, const Dots *dots, const BenchLine *line, const char *path,
                 Error *error) {
  const BenchLine *machine = first_of(log, "machine");
  BenchLine fp32 = *line;
  snprintf(fp32.precision, sizeof fp32.precision, "fp32");
  const double floor_ms = floor_for(log, &fp32);
  const TableCell title = table_cell("%s, batch %g: time of one training epoch",
                                     machine ? machine->name : "", line->batch);
  const TableCell subtitle =
      table_cell("%s, median of %g epochs after a warm-up", line->gpu, line->epochs);
  const TableCell mark = table_cell("floor at fp32: %s ms", table_number(floor_ms).text);
  const DotChart chart = {.title = title.text,
                          .subtitle = subtitle.text,
                          .unit = "ms",
                          .rows = dots->dots,
                          .count = dots->count,
                          .mark = isfinite(floor_ms) ? floor_ms : 0,
                          .mark_label = mark.text};
  return dot_chart_draw(&chart, path, error);
}

/* The first `count` epochs that are of the same batch. */
static bool plot_batch(const BenchLog *log, const BenchLine *const *epochs, int count,
                       const char *path, Error *error) {
  const BenchLine *line = epochs[0];
  Dots dots = {.count = 0};
  for (int i = 0; i < count && epochs[i]->batch == line->batch; i++) {
    if (dots.count < DOT_CHART_MAX) add_dot(&dots, epochs[i]);
    if (is_level(epochs[i])) line = epochs[i];
  }
  return draw(log, &dots, line, path, error);
}

bool bench_plot(const BenchLog *log, const char *path, Error *error) {
  int count;
  const BenchLine **epochs = sorted_epochs(log, "epoch", &count);
  if (!epochs) return error_set(error, "no memory for a chart");
  const bool good =
      count > 0 ? plot_batch(log, epochs, count, path, error)
                : error_set(error, "no epoch was measured: there is nothing to draw in %s", path);
  free(epochs);
  return good;
}
