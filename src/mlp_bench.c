/* mlp-bench: times every level of fusion on this machine and says what limits the speed of each.
   See --help. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "bench/bench.h"
#include "cli/option_kinds.h"
#include "cli/options.h"
#include "data/idx.h"

typedef struct {
  BenchPlan plan;
  const char *json, *plot, *from;
  bool markdown;
} Arguments;

static void *field_of(const OptionRow *row, void *options) {
  return (char *)options + row->field;
}

static bool set_numbers(const OptionRow *row, const char *value, void *options, Error *error) {
  BenchNumbers *numbers = field_of(row, options);
  numbers->count = 0;
  for (const char *at = value;; at++) {
    char *end;
    errno = 0;
    const double number = (double)strtol(at, &end, 10);
    if (*at < '0' || *at > '9' || errno || number < row->low || number > row->high ||
        numbers->count == BENCH_NUMBERS || (*end && *end != ','))
      return error_set(
          error,
          "--%s must be at most %d whole numbers from %g to %.0f, separated by commas, not '%s'",
          row->name, BENCH_NUMBERS, row->low, row->high, value);
    numbers->of[numbers->count++] = (int)number;
    if (!*end) return true;
    at = end;
  }
}

/* Reads networks, separated by colons. Each network is written as in mlp-train's --hidden. */
static bool set_shapes(const OptionRow *row, const char *value, void *options, Error *error) {
  BenchShapes *shapes = field_of(row, options);
  shapes->count = 0;
  for (const char *at = value; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
    const ShortText one = text_format("%.*s", (int)strcspn(at, ":"), at);
    OptionRow sizes = *row;
    sizes.field = 0;
    if (shapes->count == BENCH_SHAPES)
      return error_set(error, "--%s takes at most %d networks", row->name, BENCH_SHAPES);
    if (!option_sizes.set(&sizes, one.text, &shapes->of[shapes->count++], error)) return false;
  }
  return true;
}

static const OptionKind numbers = {.set = set_numbers}, shapes = {.set = set_shapes};

#define ROW(...) OPTION_ROW(Arguments, __VA_ARGS__)
#define FILE_ROW(word, what, value, member, role, text)                                            \
  ROW(word, what, value, option_word, member, text, .file = (role))
static const OptionRow rows[] = {
    FILE_ROW("train", "FILE", "data/mnist_train.csv", plan.train, FILE_INPUT, "rows to train on"),
    FILE_ROW("test", "FILE", "data/mnist_test.csv", plan.test, FILE_INPUT,
             "rows for the test accuracy"),
    ROW("hidden", "LISTS", "300,100", shapes, plan.shapes,
        "hidden layers of each network, as 300,100:128:512,512"),
    ROW("batches", "LIST", "64,256,1024,4096", numbers, plan.batches,
        "rows per step, separated by commas", .low = 1, .high = 65536),
    ROW("networks", "LIST", "1", numbers, plan.networks,
        "networks to train at once, as mlp-train --seeds does", .low = 1, .high = 1024),
    ROW("epochs", "N", "9", option_whole, plan.epochs,
        "timed epochs of each; 3 are enough if they take 2 s", .low = 1, .high = BENCH_EPOCHS),
    ROW("json", "FILE", NULL, option_word, json,
        "write the measurements as JSON objects, one per line", .file = FILE_OUTPUT, .lines = true),
    ROW("markdown", NULL, NULL, option_yes_no, markdown, "print the tables as Markdown"),
    FILE_ROW("plot", "FILE", NULL, plot, FILE_OUTPUT,
             "draw the epochs of the first network and batch as a PNG"),
    FILE_ROW("from", "FILE", NULL, from, FILE_INPUT,
             "measure nothing: read the measurements from such a JSON file"),
    OPTION_HELP,
    OPTION_VERSION};

static const OptionTable table = {
    "mlp-bench",
    "Usage: mlp-bench [OPTION]...\n"
    "Times training epochs of each network at each batch: on a GPU at every level of\n"
    "fusion and through cuBLAS, else on the CPU. Measures the limits of the GPU, and\n"
    "each part of a whole run of mlp-train. Defaults are in [brackets].\n",
    "", rows, LENGTH(rows), idx_labels_exist};

static bool bench(const Arguments *a, Error *error) {
  Record record = {.lines = NULL};
  const bool good = (a->from ? bench_read(&record, a->from, error)
                             : record_create(&record, a->json, error) &&
                                   bench_measure(&record, &a->plan, error)) &&
                    (bench_print(&record, stdout, a->markdown), standard_output_flush(error)) &&
                    (!a->plot || bench_plot(&record, a->plot, error));
  return record_close(&record, good, error);
}

int main(int count, char **given) {
  standard_output_open();
  interrupt_catch(true);
  Arguments arguments = {.json = NULL};
  Error error;
  OptionsResult result = option_table_read(&table, count, given, &arguments, &error);
  if (result == OPTIONS_RUN && !bench(&arguments, &error)) result = OPTIONS_FAILURE;
  return option_table_end(&table, result, given[0], &error);
}
