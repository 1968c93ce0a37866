/* Times training epochs at every level of fusion and through cuBLAS, and a whole run. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/stats.h"
#include "bench/bench.h"
#include "data/dataset.h"
#include "engine/cuda/gpu_limits.h"
#include "engine/loader.h"
#include "measure/cuda/launch_count.h"

enum { CLASSES = 10 };

/* Networks that are timed: the one of all levels, and wide ones. */
typedef struct {
  const char *name; /* its hidden layers, as --hidden has them; NULL: the one of all levels */
  int hidden[5], layers;
} BenchNetwork;

static const BenchNetwork usual = {NULL, {300, 100}, 2};
static const BenchNetwork wide[] = {{"1000,500", {1000, 500}, 2},
                                    {"2500,2000,1500,1000,500", {2500, 2000, 1500, 1000, 500}, 5}};
static const int wide_batches[] = {128, 1024, 4096};

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

static bool read_rows(const BenchPlan *plan, Rows *rows, Error *error) {
  const double start = seconds_now();
  if (!append_file(rows, plan->train, &rows->train_rows, error) ||
      !append_file(rows, plan->test, &rows->test_rows, error))
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
                       json_t *line, Error *error) {
  double seconds[BENCH_EPOCHS], launches = 0, warm_up;
  const int batch = engine->config.training.batch;
  const double steps = ceil((double)rows->train_rows / batch);
  if (!fill_dataset(engine, rows, error) ||
      !time_epoch(engine, rows, 0, &warm_up, &launches, error))
    return false;
  for (int i = 0; i < epochs; i++)
    if (!time_epoch(engine, rows, (uint64_t)i + 1, &seconds[i], &launches, error)) return false;
  const Stats times = stats_of(seconds, epochs);
  const Network *network = &engine->config.network;
  double accuracy;
  if (!test_accuracy(engine, rows, &accuracy, error)) return false;
  record_number(line, "epochs", epochs);
  record_number(line, "ms_per_epoch", 1e3 * times.median);
  record_number(line, "min_ms", 1e3 * times.low);
  record_number(line, "max_ms", 1e3 * times.high);
  record_number(line, "us_per_step", 1e6 * times.median / steps);
  record_number(line, "launches_per_step", launches / steps);
  if (!engine->wide)
    record_number(line, "bytes_per_step",
                  bench_bytes(level->level, network, batch, bench_mail(network, batch)));
  record_number(line, "test_accuracy", accuracy);
  return true;
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
static bool add_level(Record *record, const Level *level, const Rows *rows,
                      const BenchNetwork *network, int batch, int epochs, Fusion chosen,
                      Error *error) {
  json_t *line = record_line(network->name ? "wide" : "epoch");
  const char *name = network->name ? network->name : "";
  Error reason;
  record_text(line, "fusion", level->name);
  record_text(line, "name", network->name);
  record_number(line, "batch", batch);
  record_text(line, "precision", level->precision);
  if (level->level == (int)chosen) record_number(line, "chosen", 1);
  fprintf(stderr, "mlp-bench: %s%sbatch %d, %s, %s\n", name, *name ? ", " : "", batch, level->name,
          level->precision);
  Engine *engine = open_level(level, rows, network, batch, &reason);
  if (!engine || !time_level(engine, level, rows, epochs, line, &reason))
    record_text(line, "reason", reason.text);
  if (engine) engine->call->close(engine);
  return record_add(record, line, true, error);
}

static bool add_floors(Record *record, const Network *network, const Rows *rows, int batch,
                       Error *error) {
  static const char *const rates[][2] = {{"fp32", BENCH_SGEMM_FP32}, {"tf32", BENCH_SGEMM_TF32}};
  for (int i = 0; i < 2; i++) {
    const BenchRates at = {.flops_per_second = 1e12 * bench_value(record, "ceiling", rates[i][1]),
                           .bytes_per_second = 1e9 * bench_value(record, "ceiling", BENCH_COPY),
                           .barrier_seconds = 1e-6 * bench_value(record, "ceiling", BENCH_BARRIER)};
    const double ms = 1e3 * bench_floor_seconds(&at, network, batch, rows->train_rows);
    json_t *line = record_line("floor");
    record_number(line, "batch", batch);
    record_text(line, "precision", rates[i][0]);
    record_number(line, "value", ms);
    record_text(line, "unit", "ms");
    if (!isfinite(ms))
      json_decref(line);
    else if (!record_add(record, line, true, error))
      return false;
  }
  return true;
}

/* A line that says why a part is missing. */
static bool add_reason(Record *record, const char *kind, const Error *reason, Error *error) {
  json_t *line = record_line(kind);
  record_text(line, "reason", reason->text);
  return record_add(record, line, true, error);
}

static bool measure_batch(Record *record, const BenchPlan *plan, const Rows *rows, int batch,
                          Error *error) {
  EngineConfig config;
  Error reason;
  if (!config_of(rows, &usual, batch, FUSION_AUTO, &config, error) ||
      !add_floors(record, &config.network, rows, batch, error))
    return false;
  if (!bench_kernels(record, &config.network, batch, &reason) &&
      !add_reason(record, "kernel", &reason, error))
    return false;
  const Fusion chosen = choice_of_auto(rows, batch);
  for (int i = 0; i < LEVELS; i++)
    if (!add_level(record, &levels[i], rows, &usual, batch, plan->epochs, chosen, error))
      return false;
  return true;
}

/* Wide networks, at the level that auto takes for them. */
static bool measure_wide(Record *record, const BenchPlan *plan, const Rows *rows, Error *error) {
  static const Level steps[] = {{"step", "fp32", FUSION_STEP}, {"step", "tf32", FUSION_STEP}};
  for (size_t n = 0; plan->wide_epochs > 0 && n < sizeof wide / sizeof *wide; n++)
    for (size_t b = 0; b < sizeof wide_batches / sizeof *wide_batches; b++)
      for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!add_level(record, &steps[i], rows, &wide[n], wide_batches[b], plan->wide_epochs,
                       FUSION_STEP, error))
          return false;
  return true;
}

/* ---- a whole run ---------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  double seconds;
} Part;

static bool add_run(Record *record, const BenchRun *run, const Rows *rows, Error *error) {
  const double bytes = (double)(rows->train_rows + rows->test_rows) * (rows->inputs + 2);
  const double rate = 1e9 * bench_value(record, "ceiling", BENCH_PINNED);
  const double known =
      run->open + run->first_epoch + run->test_file + run->epochs + run->evaluation + run->close;
  char epochs[64], evaluations[64];
  snprintf(epochs, sizeof epochs, "epochs 2 to %d", run->count);
  snprintf(evaluations, sizeof evaluations, "evaluation, %d times", run->count);
  const Part parts[] = {{"start: context, memory, first rows parsed", run->open},
                        {"epoch 1: the other rows parsed and copied", run->first_epoch},
                        {"the rest of the test file", run->test_file},
                        {epochs, run->epochs},
                        {evaluations, run->evaluation},
                        {"closing files, freeing memory", run->close},
                        {"start and end of the process", run->total - known}};
  const Part alone[] = {{"alone: creating a context", run->context},
                        {"alone: parsing both files", rows->seconds},
                        {"alone: copying the rows, at the pinned rate", bytes / rate}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!bench_add(record, "run", parts[i].name, 1e3 * parts[i].seconds, "ms", NAN,
                   parts[i].seconds / run->total, error))
      return false;
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
    if (!bench_add(record, "alone", alone[i].name, 1e3 * alone[i].seconds, "ms", NAN, NAN, error))
      return false;
  return true;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* The run's processes come before this one uses the GPU, and after the files are in the page
   cache: their first reading would time the disk. */
static bool measure_all(Record *record, const BenchPlan *plan, const char *command, Rows *rows,
                        Error *error) {
  BenchRun run;
  Error run_reason, reason;
  char what[96];
  if (!read_rows(plan, rows, error)) return false;
  const bool has_run = bench_run(plan->train, plan->test, plan->run_epochs, &run, &run_reason);
  const char *slash = strrchr(plan->train, '/');
  snprintf(what, sizeof what, "%d-%d-%d-%d on %s", rows->inputs, usual.hidden[0], usual.hidden[1],
           CLASSES, slash ? slash + 1 : plan->train);
  if (!bench_machine(record, what, command, error)) return false;
  if (!bench_ceilings(record, &reason) && !add_reason(record, "ceiling", &reason, error))
    return false;
  if (!(has_run ? add_run(record, &run, rows, error)
                : add_reason(record, "run", &run_reason, error)))
    return false;
  for (int i = 0; i < plan->batch_count; i++)
    if (!measure_batch(record, plan, rows, plan->batches[i], error)) return false;
  return measure_wide(record, plan, rows, error);
}

bool bench_measure(Record *record, const BenchPlan *plan, const char *command, Error *error) {
  Rows rows = {0};
  const bool good = measure_all(record, plan, command, &rows, error);
  free(rows.pixels);
  free(rows.labels);
  return good;
}
