/* Prints a record of mlp-bench as tables, and draws it as a chart. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plot/page.h"

bool bench_read(Record *record, const char *path, Error *error) {
  return record_read(record, path, "mlp-bench", NULL, error) &&
         (record_first(record, "epoch") ||
          error_set(error, "%s is not a record of mlp-bench: it has no epochs", path)) &&
         record_make_printable(record, error);
}

/* Two epochs can be compared if they agree in these fields. */
static const char *const same_case[] = {"hidden", "networks", "batch", NULL};

static bool is_same_case(const json_t *a, const json_t *b) {
  bool same = true;
  for (const char *const *key = same_case; *key; key++) same = same && line_same(a, b, *key);
  return same;
}

static bool is_level(const json_t *line) {
  return *text_of(line, "fusion") && !text_is(line, "fusion", "cublas");
}

/* Returns the ms per epoch of mlp-train's fastest level that computes in fp32 or in the precision
   of `epoch`. Returns NAN if no such level was measured. */
static double best_for(const Record *record, const json_t *epoch) {
  double best = NAN;
  foreach_of (line, record, "epoch", NULL)
    if (is_level(line) && is_same_case(line, epoch) &&
        (text_is(line, "precision", "fp32") || line_same(line, epoch, "precision")))
      best = fmin(best, number_of(line, "ms_per_epoch")); /* fmin ignores NAN */
  return best;
}

/* Compares epochs for qsort by the fields that same_case lists. If all are equal, the slower epoch
   comes first. */
static int compare_epochs(const void *a, const void *b) {
  const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
  double order = 0;
  for (const char *const *key = same_case; *key && order == 0; key++)
    order = *text_of(x, *key) ? (double)strcmp(text_of(x, *key), text_of(y, *key))
                              : number_of(x, *key) - number_of(y, *key);
  if (order == 0) order = number_of(y, "ms_per_epoch") - number_of(x, "ms_per_epoch");
  return (order > 0) - (order < 0);
}

static Lines sorted_epochs(const Record *record) {
  const Lines timed = lines_of(record, "epoch");
  if (timed.count) qsort(timed.of, (size_t)timed.count, sizeof *timed.of, compare_epochs);
  return timed;
}

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

/* Returns Amdahl's bound (1967): the speedup of the whole if the part took no time. */
static ShortText bound(const TableCell *at) {
  return text_format("x%.2f", 1 / (1 - number_of(at->row, "share")));
}

/* TableColumn.in has a bit for each table that shows the column. Bit i stands for sections[i]. */
enum { EPOCH = 1, PART = 2, CEILING = 4 };

static const TableColumn columns[] = {
    {"hidden layers", true, .key = "hidden", .in = EPOCH},
    {"networks", .key = "networks", .format = "%.0f", .in = EPOCH},
    {"batch", .key = "batch", .format = "%.0f", .in = EPOCH},
    {"who", true, .cell = who, .in = EPOCH},
    {"precision", true, .key = "precision", .in = EPOCH},
    {"ms/epoch", .key = "ms_per_epoch", .in = EPOCH},
    {"min", .key = "min_ms", .in = EPOCH},
    {"max", .key = "max_ms", .in = EPOCH},
    {"us/step", .key = "us_per_step", .in = EPOCH},
    {"launches/step", .key = "launches_per_step", .in = EPOCH},
    {"x best", .cell = times_best, .in = EPOCH},
    {"test acc.", .key = "test_accuracy", .format = "%.2f%%", .per = 0.01, .in = EPOCH},
    {"of", true, .key = "of", .in = PART},
    {"part", true, .key = "name", .in = PART},
    {"ceiling", true, .key = "name", .in = CEILING},
    {"value", .key = "value", .in = PART | CEILING},
    {"unit", true, .key = "unit", .in = PART | CEILING},
    {"share", .key = "share", .format = "%.1f%%", .per = 0.01, .in = PART},
    {"bound", .cell = bound, .in = PART}};

static const struct {
  const char *kind, *heading, *note;
} sections[] = {
    {"epoch", "An epoch",
     "Medians after a warm-up, wall clock until the GPU has finished; of several networks, the "
     "time\nof one. launches: by the host. x best: how many times the fastest level of mlp-train "
     "that is\nat least as accurate.\n\n"},
    {"part", "Parts",
     "bound: how much faster the whole would be if the part took no time at all (Amdahl).\n\n"},
    {"ceiling", "What the GPU can do", ""}};

static void put_section(const Record *record, int section, FILE *file, bool markdown) {
  const unsigned which = 1u << section;
  const Lines rows =
      which == EPOCH ? sorted_epochs(record) : lines_of(record, sections[section].kind);
  const Table table = {file, markdown, record, which == EPOCH ? same_case : NULL, which};
  if (rows.count > 0 || which == EPOCH) {
    table_heading(file, markdown, sections[section].heading);
    fputs(sections[section].note, file);
    table_print(&table, columns, LENGTH(columns), &rows);
  }
  free(rows.of);
}

static void put_reasons(const Record *record, FILE *file, bool markdown) {
  bool any = false;
  foreach_in (line, record->lines) {
    if (!*text_of(line, "reason")) continue;
    if (!any) table_heading(file, markdown, "Not measured");
    any = true;
    if (markdown) fputs("- ", file);
    fputs(text_is(line, "case", "epoch") ? name_of(line).text : text_of(line, "name"), file);
    if (*text_of(line, "hidden"))
      fprintf(file, ", hidden layers %s, networks %g, batch %g, %s", text_of(line, "hidden"),
              number_of(line, "networks"), number_of(line, "batch"), text_of(line, "precision"));
    fprintf(file, ": %s\n", text_of(line, "reason"));
  }
}

void bench_print(const Record *record, FILE *file, bool markdown) {
  record_print_machine(record, "Training epochs", file, markdown);
  for (int i = 0; i < (int)LENGTH(sections); i++) {
    put_section(record, i, file, markdown);
    if (i == 0) put_reasons(record, file, markdown);
  }
}

bool bench_plot(const Record *record, const char *path, Error *error) {
  const json_t *first = record_first(record, "epoch"), *machine = record_first(record, "machine");
  const Lines all = sorted_epochs(record);
  DotChart dots = {.count = 0};
  double epochs = 0;
  foreach_line (e, &all) {
    const ShortText label = text_format("%.90s, %s", name_of(*e).text, text_of(*e, "precision"));
    if (!is_same_case(*e, first)) continue;
    const Colour library = is_level(*e) ? OURS : LIBRARY;
    dot_chart_add(&dots, label.text, number_of(*e, "ms_per_epoch"),
                  *text_of(*e, "peer") ? OTHER : library);
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
