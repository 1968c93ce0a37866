/* mlp-bench: times every level of fusion on this GPU and says what bounds it; see --help. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/output.h"
#include "base/random.h"
#include "base/stats.h"
#include "base/interrupt.h"
#include "base/nearest.h"
#include "base/text.h"
#include "bench/bench.h"
#include "bench/trace.h"
#include "data/dataset.h"
#include "engine/cuda/gpu_limits.h"
#include "engine/loader.h"
#include "measure/launch_count.h"

static const char help[] =
    "Usage: mlp-bench [OPTION]...\n"
    "Times a training epoch of 784-300-100-10 at every level of fusion and through\n"
    "cuBLAS, and of wide networks at level step, the limits of this GPU, each\n"
    "kernel of a step, and each part of a whole run of mlp-train. Defaults are in\n"
    "[brackets].\n"
    "\n"
    "  --train FILE     rows to train on [data/mnist_train.csv]\n"
    "  --test FILE      rows for the test accuracy [data/mnist_test.csv]\n"
    "  --epochs N       timed epochs of each level [9]\n"
    "  --batches LIST   rows per step, separated by commas [64,256,1024,4096]\n"
    "  --quick          time 2 epochs at batch 64 only, to see that all works\n"
    "  --json FILE      write the measurements as JSON objects, one per line\n"
    "  --markdown FILE  write the tables as Markdown\n"
    "  --plot FILE      draw the epochs at the smallest batch as a PNG\n"
    "  --trace FILE     time nothing: record a few steps of every level on random\n"
    "                   rows as a trace for ui.perfetto.dev, needs CUPTI\n"
    "  --timeline FILE  likewise: draw one step of every level as a PNG\n"
    "  --from FILE      measure nothing: read the measurements from such a JSON file,\n"
    "                   with --timeline the trace\n"
    "  --sources HEX    digest of the sources, for the record\n"
    "  --help           print this help and exit\n";

enum {
  MAX_BATCHES = 8,
  MAX_BATCH = 65536,
  MAX_EPOCHS = 1000,
  CLASSES = 10,
  RUN_EPOCHS = 10,
  WIDE_EPOCHS = 5
};

/* Networks that are timed: the one of all levels, and wide ones. */
typedef struct {
  const char *name; /* its hidden layers, as --hidden has them; "": the one of all levels */
  int hidden[5], layers;
} BenchNetwork;

static const BenchNetwork usual = {"", {300, 100}, 2};
static const BenchNetwork wide[] = {{"1000,500", {1000, 500}, 2},
                                    {"2500,2000,1500,1000,500", {2500, 2000, 1500, 1000, 500}, 5}};
static const int wide_batches[] = {128, 1024, 4096};

typedef struct {
  const char *train, *test, *json, *markdown, *plot, *trace, *timeline, *from, *sources;
  int epochs, run_epochs, wide_epochs;
  int batches[MAX_BATCHES], batch_count;
  bool help;
} Arguments;

/* ---- the command line ----------------------------------------------------------------------- */

static bool parse_number(const char *option, const char *text, long high, int *value,
                         const char **end, Error *error) {
  char *stop;
  errno = 0;
  const long number = strtol(text, &stop, 10);
  *end = stop;
  *value = (int)number;
  if (*text >= '0' && *text <= '9' && !errno && number >= 1 && number <= high) return true;
  return error_set(error, "--%s must be whole numbers from 1 to %ld, not '%s'", option, high, text);
}

static bool parse_epochs(const char *text, int *epochs, Error *error) {
  const char *end;
  if (!parse_number("epochs", text, MAX_EPOCHS, epochs, &end, error)) return false;
  return !*end || error_set(error, "--epochs must be a whole number, not '%s'", text);
}

static bool parse_batches(const char *text, Arguments *a, Error *error) {
  const char *at = text;
  for (a->batch_count = 0;; at++) {
    if (a->batch_count == MAX_BATCHES)
      return error_set(error, "--batches takes at most %d numbers", MAX_BATCHES);
    if (!parse_number("batches", at, MAX_BATCH, &a->batches[a->batch_count++], &at, error))
      return false;
    if (!*at) return true;
    if (*at != ',')
      return error_set(error, "--batches must be numbers separated by commas, not '%s'", text);
  }
}

static bool parse_arguments(int count, char **given, Arguments *a, Error *error) {
  static const struct option known[] = {
      {"train", required_argument, NULL, 't'},    {"test", required_argument, NULL, 'T'},
      {"epochs", required_argument, NULL, 'e'},   {"batches", required_argument, NULL, 'b'},
      {"quick", no_argument, NULL, 'q'},          {"json", required_argument, NULL, 'j'},
      {"markdown", required_argument, NULL, 'm'}, {"plot", required_argument, NULL, 'p'},
      {"trace", required_argument, NULL, 'r'},    {"timeline", required_argument, NULL, 'l'},
      {"from", required_argument, NULL, 'f'},     {"sources", required_argument, NULL, 's'},
      {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
  *a = (Arguments){.train = "data/mnist_train.csv",
                   .test = "data/mnist_test.csv",
                   .sources = "",
                   .epochs = 9,
                   .run_epochs = RUN_EPOCHS,
                   .wide_epochs = WIDE_EPOCHS,
                   .batches = {64, 256, 1024, 4096},
                   .batch_count = 4};
  opterr = 0;
  for (;;) {
    const char *word = given[optind];
    const int option = getopt_long(count, given, "+:", known, NULL);
    if (option == -1) break;
    bool good = true;
    switch (option) { /* clang-format off */
    case 't': a->train = optarg; break;
    case 'T': a->test = optarg; break;
    case 'j': a->json = optarg; break;
    case 'm': a->markdown = optarg; break;
    case 'p': a->plot = optarg; break;
    case 'r': a->trace = optarg; break;
    case 'l': a->timeline = optarg; break;
    case 'f': a->from = optarg; break;
    case 's': a->sources = optarg; break;
    case 'h': a->help = true; break;
    case 'e': good = parse_epochs(optarg, &a->epochs, error); break;
    case 'b': good = parse_batches(optarg, a, error); break;
    case 'q':
      a->epochs = a->run_epochs = 2;
      a->wide_epochs = 0;
      a->batch_count = 1;
      a->batches[0] = 64;
      break;
    case ':': good = error_set(error, "%s needs an argument", word); break;
    default:
      error_set(error, "unknown option '%s'", word);
      good = nearest_append_option(word, known, error);
    } /* clang-format on */
    if (!good) return false;
  }
  if (optind < count) return error_set(error, "unexpected argument '%s'", given[optind]);
  if ((a->trace || a->timeline) && (a->json || a->markdown || a->plot))
    return error_set(error, "--trace and --timeline time nothing, so there is nothing for --json, "
                            "--markdown or --plot: run mlp-bench twice");
  if (a->trace && a->from) return error_set(error, "--trace records: it has no use for --from");
  const NamedFile files[] = {{"--train", a->train, false},      {"--test", a->test, false},
                             {"--from", a->from, false},        {"--json", a->json, true},
                             {"--markdown", a->markdown, true}, {"--plot", a->plot, true},
                             {"--trace", a->trace, true},       {"--timeline", a->timeline, true}};
  return same_file_check(files, (int)(sizeof files / sizeof *files), error);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Both files in memory, the test file's rows behind the training file's. */
typedef struct {
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
  int inputs;
  uint64_t train_rows, test_rows;
  double seconds; /* that reading both took */
} Rows;

/* Appends the rows of a file; *added is how many. */
static bool append_file(Rows *rows, const char *path, uint64_t *added, Error *error) {
  DatasetReader *reader = dataset_open(path, CLASSES, omp_get_num_procs(), 0, error);
  if (!reader) return false;
  const uint64_t before = rows->train_rows;
  const size_t room = before + dataset_max_rows(reader, UINT32_MAX),
               inputs = (size_t)dataset_inputs(reader);
  bool good = before == 0 || dataset_inputs(reader) == rows->inputs ||
              error_set(error, "%s has %zu pixels per row, but the training file has %d", path,
                        inputs, rows->inputs);
  rows->inputs = (int)inputs;
  uint8_t *pixels = good ? realloc(rows->pixels, room * inputs) : NULL;
  if (pixels) rows->pixels = pixels;
  uint16_t *labels = good ? realloc(rows->labels, room * sizeof *labels) : NULL;
  if (labels) rows->labels = labels;
  if (good && (!pixels || !labels)) good = error_set(error, "no memory for the rows of %s", path);
  size_t filled = 0;
  good = good && dataset_read(reader, rows->pixels + before * inputs, inputs, rows->labels + before,
                              room - before, &filled, error);
  dataset_close(reader);
  *added = filled;
  return good;
}

static bool read_rows(const Arguments *a, Rows *rows, Error *error) {
  const double start = seconds_now();
  if (!append_file(rows, a->train, &rows->train_rows, error) ||
      !append_file(rows, a->test, &rows->test_rows, error))
    return false;
  rows->seconds = seconds_now() - start;
  return true;
}

/* Copies all rows into the engine's dataset. */
static bool fill_dataset(Engine *engine, const Rows *rows, Error *error) {
  const uint64_t all = rows->train_rows + rows->test_rows, most = engine->config.staging_rows;
  const size_t inputs = (size_t)rows->inputs;
  int index = 0;
  for (uint64_t first = 0; first < all; first += most, index = 1 - index) {
    const uint64_t count = all - first < most ? all - first : most;
    StagingBuffer to;
    if (!engine->call->staging(engine, index, &to, error)) return false;
    for (uint64_t r = 0; r < count; r++) {
      memcpy(to.pixels + r * to.stride, rows->pixels + (first + r) * inputs, inputs);
      memset(to.pixels + r * to.stride + inputs, 0, to.stride - inputs);
      to.labels[r] = rows->labels[first + r];
    }
    if (!engine->call->upload(engine, index, first, count, error)) return false;
  }
  return true;
}

/* ---- the ladder ----------------------------------------------------------------------------- */

typedef struct {
  const char *name, *precision;
  int level; /* a Fusion, or BENCH_CUBLAS */
} Level;

static const Level levels[] = {
    {"none", "fp32", FUSION_NONE},    {"layer", "fp32", FUSION_LAYER},
    {"step", "fp32", FUSION_STEP},    {"epoch", "fp32", FUSION_EPOCH},
    {"layer", "tf32", FUSION_LAYER},  {"step", "tf32", FUSION_STEP},
    {"cublas", "fp32", BENCH_CUBLAS}, {"cublas", "tf32", BENCH_CUBLAS},
};
enum { LEVELS = sizeof levels / sizeof *levels };

/* Larger batches allow a larger step, up to a point: with momentum 0.9 none of these diverges.
   scripts/compare_peers.py has the same rule. */
static float learning_rate(int batch) {
  return (float)fmin(0.1, 0.05 * sqrt(batch / 64.0));
}

static bool config_of(const Rows *rows, const BenchNetwork *network, int batch, int fusion,
                      EngineConfig *config, Error *error) {
  *config = (EngineConfig){
      .training = {.batch = batch, .seed = 1, .rule.momentum = 0.9f, .fusion = (Fusion)fusion},
      .dataset_rows = rows->train_rows + rows->test_rows,
      .staging_rows = loader_staging_rows(batch)};
  return network_init(&config->network, rows->inputs, network->hidden, network->layers, CLASSES,
                      error);
}

/* Below compute capability 8.0 tf32 would be fp32, timed twice. */
static bool has_tf32(Error *error) {
  GpuLimits gpu;
  return gpu_limits_read(&gpu, error) &&
         (gpu.capability >= 80 || error_set(error, "tf32 needs compute capability 8.0"));
}

static Engine *open_level(const Level *level, const Rows *rows, const BenchNetwork *network,
                          int batch, Error *error) {
  const bool tf32 = strcmp(level->precision, "tf32") == 0;
  EngineConfig config;
  if (tf32 && !has_tf32(error)) return NULL;
  if (!config_of(rows, network, batch, level->level, &config, error)) return NULL;
  if (level->level == BENCH_CUBLAS) return bench_cublas_open(&config, tf32, error);
  if (tf32) config.training.precision = PRECISION_TF32;
  return engine_cuda_open(&config, error);
}

/* One epoch, shuffled by its own key; sets its seconds and the launches that it took. */
static bool time_epoch(Engine *engine, const Rows *rows, uint64_t epoch, double *seconds,
                       double *launches, Error *error) {
  const uint64_t batch = (uint64_t)engine->config.training.batch;
  const TrainRange range = {.rows = rows->train_rows,
                            .shuffled = true,
                            .key = random_order_key(1, epoch),
                            .steps = ceil_div(rows->train_rows, batch),
                            .learning_rate = learning_rate(engine->config.training.batch)};
  EngineSums sums;
  const uint64_t before = launch_count();
  const double start = seconds_now();
  if (!engine->call->train(engine, &range, error) || !engine->call->collect(engine, &sums, error))
    return false;
  *seconds = seconds_now() - start;
  *launches = (double)(launch_count() - before);
  return isfinite(sums.loss) || error_set(error, "the loss is not a finite number");
}

static bool test_accuracy(Engine *engine, const Rows *rows, double *accuracy, Error *error) {
  EngineSums sums;
  if (!engine->call->evaluate(engine, rows->train_rows, rows->test_rows, error) ||
      !engine->call->collect(engine, &sums, error))
    return false;
  *accuracy = (double)sums.correct / (double)sums.rows;
  return true;
}

static bool time_level(Engine *engine, const Level *level, const Rows *rows, int epochs,
                       BenchLine *line, Error *error) {
  double seconds[MAX_EPOCHS], launches = 0, warm_up;
  const int batch = engine->config.training.batch;
  const double steps = ceil((double)rows->train_rows / batch);
  if (!fill_dataset(engine, rows, error) ||
      !time_epoch(engine, rows, 0, &warm_up, &launches, error))
    return false;
  for (int i = 0; i < epochs; i++)
    if (!time_epoch(engine, rows, (uint64_t)i + 1, &seconds[i], &launches, error)) return false;
  const Stats times = stats_of(seconds, epochs);
  const Network *network = &engine->config.network;
  line->epochs = epochs;
  line->ms_per_epoch = 1e3 * times.median;
  line->min_ms = 1e3 * times.low;
  line->max_ms = 1e3 * times.high;
  line->us_per_step = 1e6 * times.median / steps;
  line->launches_per_step = launches / steps;
  if (!engine->wide)
    line->bytes_per_step = bench_bytes(level->level, network, batch, bench_mail(network, batch));
  return test_accuracy(engine, rows, &line->test_accuracy, error);
}

/* The level that --fusion auto takes at this batch, FUSION_AUTO if none opens. */
static Fusion choice_of_auto(const Rows *rows, int batch) {
  const Level any = {"auto", "fp32", FUSION_AUTO};
  Engine *engine = open_level(&any, rows, &usual, batch, NULL);
  if (!engine) return FUSION_AUTO;
  const Fusion fusion = engine->config.training.fusion;
  engine->call->close(engine);
  return fusion;
}

/* A level that does not run is a line with its reason. */
static bool add_level(BenchLog *log, const Level *level, const Rows *rows,
                      const BenchNetwork *network, int batch, int epochs, Fusion chosen,
                      Error *error) {
  BenchLine line = bench_line(network == &usual ? "epoch" : "wide");
  Error reason;
  snprintf(line.name, sizeof line.name, "%s", network->name);
  snprintf(line.fusion, sizeof line.fusion, "%s", level->name);
  snprintf(line.precision, sizeof line.precision, "%s", level->precision);
  line.batch = batch;
  if (level->level == (int)chosen) line.chosen = 1;
  fprintf(stderr, "mlp-bench: %s%sbatch %d, %s, %s\n", network->name, *network->name ? ", " : "",
          batch, level->name, level->precision);
  Engine *engine = open_level(level, rows, network, batch, &reason);
  if (!engine || !time_level(engine, level, rows, epochs, &line, &reason)) {
    line.ms_per_epoch = NAN;
    snprintf(line.reason, sizeof line.reason, "%s", reason.text);
  }
  if (engine) engine->call->close(engine);
  return bench_add(log, &line, error);
}

static bool add_floors(BenchLog *log, const Network *network, const Rows *rows, int batch,
                       Error *error) {
  static const char *const rates[][2] = {{"fp32", BENCH_SGEMM_FP32}, {"tf32", BENCH_SGEMM_TF32}};
  for (int i = 0; i < 2; i++) {
    const BenchRates at = {.flops_per_second = 1e12 * bench_value(log, "ceiling", rates[i][1]),
                           .bytes_per_second = 1e9 * bench_value(log, "ceiling", BENCH_COPY),
                           .barrier_seconds = 1e-6 * bench_value(log, "ceiling", BENCH_BARRIER)};
    BenchLine line = bench_line("floor");
    snprintf(line.precision, sizeof line.precision, "%s", rates[i][0]);
    snprintf(line.unit, sizeof line.unit, "ms");
    line.batch = batch;
    line.value = 1e3 * bench_floor_seconds(&at, network, batch, rows->train_rows);
    if (isfinite(line.value) && !bench_add(log, &line, error)) return false;
  }
  return true;
}

/* A line that says why a part is missing. */
static bool add_reason(BenchLog *log, const char *kind, const Error *reason, Error *error) {
  BenchLine line = bench_line(kind);
  snprintf(line.reason, sizeof line.reason, "%s", reason->text);
  return bench_add(log, &line, error);
}

static bool measure_batch(BenchLog *log, const Arguments *a, const Rows *rows, int batch,
                          Error *error) {
  EngineConfig config;
  Error reason;
  if (!config_of(rows, &usual, batch, FUSION_AUTO, &config, error) ||
      !add_floors(log, &config.network, rows, batch, error))
    return false;
  if (!bench_kernels(log, &config.network, batch, &reason) &&
      !add_reason(log, "kernel", &reason, error))
    return false;
  const Fusion chosen = choice_of_auto(rows, batch);
  for (int i = 0; i < LEVELS; i++)
    if (!add_level(log, &levels[i], rows, &usual, batch, a->epochs, chosen, error)) return false;
  return true;
}

/* Wide networks, at the level that auto takes for them. */
static bool measure_wide(BenchLog *log, const Arguments *a, const Rows *rows, Error *error) {
  static const Level steps[] = {{"step", "fp32", FUSION_STEP}, {"step", "tf32", FUSION_STEP}};
  for (size_t n = 0; a->wide_epochs > 0 && n < sizeof wide / sizeof *wide; n++)
    for (size_t b = 0; b < sizeof wide_batches / sizeof *wide_batches; b++)
      for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!add_level(log, &steps[i], rows, &wide[n], wide_batches[b], a->wide_epochs, FUSION_STEP,
                       error))
          return false;
  return true;
}

/* ---- a whole run ---------------------------------------------------------------------------- */

static bool add_run(BenchLog *log, const BenchRun *run, const Rows *rows, Error *error) {
  const double bytes = (double)(rows->train_rows + rows->test_rows) * (rows->inputs + 2);
  const double rate = 1e9 * bench_value(log, "ceiling", BENCH_PINNED);
  const double known =
      run->open + run->first_epoch + run->test_file + run->epochs + run->evaluation + run->close;
  char epochs[64], evaluations[64];
  snprintf(epochs, sizeof epochs, "epochs 2 to %d", run->count);
  snprintf(evaluations, sizeof evaluations, "evaluation, %d times", run->count);
  const struct {
    const char *name;
    double seconds;
  } parts[] = {{"start: context, memory, first rows parsed", run->open},
               {"epoch 1: the other rows parsed and copied", run->first_epoch},
               {"the rest of the test file", run->test_file},
               {epochs, run->epochs},
               {evaluations, run->evaluation},
               {"closing files, freeing memory", run->close},
               {"start and end of the process", run->total - known}};
  const struct {
    const char *name;
    double seconds;
  } alone[] = {{"alone: creating a context", run->context},
               {"alone: parsing both files", rows->seconds},
               {"alone: copying the rows, at the pinned rate", bytes / rate}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    BenchLine line = bench_line("run");
    snprintf(line.name, sizeof line.name, "%s", parts[i].name);
    snprintf(line.unit, sizeof line.unit, "ms");
    line.value = 1e3 * parts[i].seconds;
    line.share = parts[i].seconds / run->total;
    line.bound = 1 / (1 - line.share);
    if (!bench_add(log, &line, error)) return false;
  }
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
    if (!bench_add_value(log, "alone", alone[i].name, 1e3 * alone[i].seconds, "ms", error))
      return false;
  return true;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* The run's processes come before this one uses the GPU, and after the files are in the page
   cache: their first reading would time the disk. */
static bool measure_all(BenchLog *log, const Arguments *a, const char *command, Rows *rows,
                        Error *error) {
  BenchRun run;
  Error run_reason, reason;
  char what[96];
  if (!read_rows(a, rows, error)) return false;
  const bool has_run = bench_run(a->train, a->test, a->run_epochs, &run, &run_reason);
  const char *slash = strrchr(a->train, '/');
  snprintf(what, sizeof what, "%d-%d-%d-%d on %s", rows->inputs, usual.hidden[0], usual.hidden[1],
           CLASSES, slash ? slash + 1 : a->train);
  if (!bench_machine(log, what, command, error)) return false;
  if (!bench_ceilings(log, &reason) && !add_reason(log, "ceiling", &reason, error)) return false;
  if (!(has_run ? add_run(log, &run, rows, error) : add_reason(log, "run", &run_reason, error)))
    return false;
  for (int i = 0; i < a->batch_count; i++)
    if (!measure_batch(log, a, rows, a->batches[i], error)) return false;
  return measure_wide(log, a, rows, error);
}

static bool measure(BenchLog *log, const Arguments *a, const char *command, Error *error) {
  Rows rows = {0};
  snprintf(log->sources, sizeof log->sources, "%s", a->sources);
  if (a->json && !(log->json = fopen(a->json, "w")))
    return error_set(error, "cannot create %s: %s", a->json, strerror(errno));
  bool good = measure_all(log, a, command, &rows, error);
  if (log->json && fclose(log->json) != 0 && good)
    good = error_set(error, "cannot write %s: %s", a->json, strerror(errno));
  log->json = NULL;
  free(rows.pixels);
  free(rows.labels);
  return good;
}

static bool write_markdown(const BenchLog *log, const char *path, Error *error) {
  FILE *file = fopen(path, "w");
  if (!file) return error_set(error, "cannot create %s: %s", path, strerror(errno));
  bench_print(log, file, true);
  const bool written = !ferror(file);
  if (fclose(file) == 0 && written) return true;
  return error_set(error, "cannot write %s: %s", path, strerror(errno));
}

static bool bench(const Arguments *a, const char *command, Error *error) {
  BenchLog log = {0};
  const bool good =
      (a->from ? bench_read(&log, a->from, error) : measure(&log, a, command, error)) &&
      (bench_print(&log, stdout, false), standard_output_flush(error)) &&
      (!a->markdown || write_markdown(&log, a->markdown, error)) &&
      (!a->plot || bench_plot(&log, a->plot, error));
  bench_close(&log);
  return good;
}

static bool record_steps(Trace *trace, const Arguments *a, const char *command, Error *error) {
  snprintf(trace->sources, sizeof trace->sources, "%s", a->sources);
  return trace_record(trace, command, error);
}

/* Steps as they ran: recorded, or as a trace has them. */
static bool show_steps(const Arguments *a, const char *command, Error *error) {
  Trace trace = {0};
  const bool good =
      (!a->trace || atomic_file_probe(a->trace, error)) &&
      (!a->timeline || atomic_file_probe(a->timeline, error)) &&
      (a->from ? trace_load(&trace, a->from, error) : record_steps(&trace, a, command, error)) &&
      (trace_print(&trace, stdout), standard_output_flush(error)) &&
      (!a->trace || trace_save(&trace, a->trace, error)) &&
      (!a->timeline || trace_draw(&trace, a->timeline, error));
  trace_close(&trace);
  return good;
}

int main(int count, char **given) {
  standard_output_open();
  interrupt_catch(true);
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write */
  Arguments arguments;
  Error error;
  char command[512];
  text_command_line(command, sizeof command, count, given);
  if (!parse_arguments(count, given, &arguments, &error)) {
    fprintf(stderr, "mlp-bench: %s\nTry '%s --help'.\n", error.text, given[0]);
    return 2;
  }
  bool good = true;
  if (arguments.help)
    fputs(help, stdout);
  else
    good =
        (arguments.trace || arguments.timeline ? show_steps : bench)(&arguments, command, &error);
  if (good && standard_output_flush(&error)) return 0;
  if (error.unread) return 128 + SIGPIPE;
  fprintf(stderr, "mlp-bench: %s\n", error.text);
  return 1;
}
