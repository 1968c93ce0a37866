/* mlp-bench: times every level of fusion on this GPU and says what bounds it; see --help. */
#include <errno.h>
#include <signal.h>

#include "base/interrupt.h"
#include "bench/bench.h"
#include "cli/option_kinds.h"

enum { MAX_BATCH = 65536, RUN_EPOCHS = 10, WIDE_EPOCHS = 5 };

typedef struct {
  BenchPlan plan;
  const char *json, *markdown, *plot, *from, *sources;
} Arguments;

/* ---- the command line ----------------------------------------------------------------------- */

static bool set_batches(const OptionRow *row, const char *value, void *options, Error *error) {
  BenchPlan *plan = &((Arguments *)options)->plan;
  const char *at = value;
  for (plan->batch_count = 0;; at++) {
    char *end;
    errno = 0;
    const long batch = strtol(at, &end, 10);
    if (plan->batch_count == BENCH_BATCHES)
      return error_set(error, "--%s takes at most %d numbers", row->name, BENCH_BATCHES);
    if (*at < '0' || *at > '9' || errno || batch < 1 || batch > MAX_BATCH)
      return error_set(error, "--%s must be whole numbers from 1 to %d, not '%s'", row->name,
                       MAX_BATCH, at);
    plan->batches[plan->batch_count++] = (int)batch;
    if (!*end) return true;
    if (*end != ',')
      return error_set(error, "--%s must be numbers separated by commas, not '%s'", row->name,
                       value);
    at = end;
  }
}

static bool set_quick(const OptionRow *row, const char *value, void *options, Error *error) {
  BenchPlan *plan = &((Arguments *)options)->plan;
  (void)row, (void)value, (void)error;
  plan->epochs = plan->run_epochs = 2;
  plan->wide_epochs = 0;
  plan->batch_count = 1;
  plan->batches[0] = 64;
  return true;
}

static const OptionKind batches = {.set = set_batches}, quick = {.set = set_quick};

#define ROW(...) OPTION_ROW(Arguments, __VA_ARGS__)
#define FILE_OR_WORD(word, what, value, member, role, text)                                        \
  ROW(word, what, value, option_word, member, text, .file = (role))
#define OUTPUT(word, member, text) FILE_OR_WORD(word, "FILE", NULL, member, FILE_OUTPUT, text)
static const OptionRow rows[] = {
    FILE_OR_WORD("train", "FILE", "data/mnist_train.csv", plan.train, FILE_INPUT,
                 "rows to train on"),
    FILE_OR_WORD("test", "FILE", "data/mnist_test.csv", plan.test, FILE_INPUT,
                 "rows for the test accuracy"),
    ROW("epochs", "N", "9", option_whole, plan.epochs, "timed epochs of each level", .low = 1,
        .high = BENCH_EPOCHS),
    ROW("batches", "LIST", "64,256,1024,4096", batches, plan.batches,
        "rows per step, separated by commas"),
    ROW("quick", NULL, NULL, quick, plan, "time 2 epochs at batch 64 only, to see that all works"),
    OUTPUT("json", json, "write the measurements as JSON objects, one per line"),
    OUTPUT("markdown", markdown, "write the tables as Markdown"),
    OUTPUT("plot", plot, "draw the epochs at the smallest batch as a PNG"),
    FILE_OR_WORD("from", "FILE", NULL, from, FILE_INPUT,
                 "measure nothing: read the measurements from such a JSON file, or those of "
                 "scripts/scaling.sh"),
    FILE_OR_WORD("sources", "HEX", NULL, sources, FILE_NONE,
                 "digest of the sources, for the record"),
    OPTION_HELP,
    OPTION_VERSION};

static const OptionTable table = {
    "mlp-bench",
    "Usage: mlp-bench [OPTION]...\n"
    "Times a training epoch of 784-300-100-10 at every level of fusion and through\n"
    "cuBLAS, and of wide networks at level step, the limits of this GPU, each\n"
    "kernel of a step, and each part of a whole run of mlp-train. Defaults are in\n"
    "[brackets].\n",
    "", rows, LENGTH(rows)};

static OptionsResult parse(int count, char **given, Arguments *a, Error *error) {
  *a = (Arguments){.plan = {.run_epochs = RUN_EPOCHS, .wide_epochs = WIDE_EPOCHS}};
  const OptionsResult result = option_table_read(&table, count, given, a, error);
  if (result != OPTIONS_RUN) return result;
  if (a->from || bench_measure) return OPTIONS_RUN;
  error_set(error, "this program was built without CUDA: --from shows a recorded run");
  return OPTIONS_FAILURE;
}

/* ---- what is asked for ---------------------------------------------------------------------- */

static bool write_markdown(const Record *record, const char *path, Error *error) {
  FILE *file;
  if (!file_create(path, &file, error)) return false;
  if (file) bench_print(record, file, true);
  return file_close(path, file, true, error);
}

static bool bench(const Arguments *a, const char *command, Error *error) {
  Record record = {.sources = a->sources};
  const bool good = (a->from ? bench_read(&record, a->from, error)
                             : record_create(&record, a->json, error) &&
                                   bench_measure(&record, &a->plan, command, error)) &&
                    (bench_print(&record, stdout, false), standard_output_flush(error)) &&
                    write_markdown(&record, a->markdown, error) &&
                    (!a->plot || bench_plot(&record, a->plot, error));
  return record_close(&record, good, error);
}

int main(int count, char **given) {
  standard_output_open();
  interrupt_catch(true);
  Arguments arguments;
  Error error;
  char command[512];
  text_command_line(command, sizeof command, count, given);
  OptionsResult result = parse(count, given, &arguments, &error);
  if (result == OPTIONS_RUN && !bench(&arguments, command, &error)) {
    if (error.unread) return 128 + SIGPIPE;
    result = OPTIONS_FAILURE;
  }
  return option_table_end(&table, result, given[0], &error);
}
