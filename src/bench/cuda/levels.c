/* Times training epochs at every level of fusion and through cuBLAS, and a whole run. */
#include <omp.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "engine/cuda/cuda_state.h"
#include "engine/cuda/gpu_limits.h"
#include "engine/loader.h"
#include "measure/cuda/ceilings.h"

enum { CLASSES = 10 };

/* Wide networks are timed at level step only. */
const BenchNetwork bench_usual = {NULL, {300, 100}, 2};
static const BenchNetwork wide[] = {{"1000,500", {1000, 500}, 2},
                                    {"2500,2000,1500,1000,500", {2500, 2000, 1500, 1000, 500}, 5}};
static const int wide_batches[] = {128, 1024, 4096};

/* ---- rows ----------------------------------------------------------------------------------- */

/* Appends the rows of a file; *added is how many. */
static bool append_file(BenchRows *rows, const char *path, uint64_t *added, Error *error) {
  const DatasetConfig config = {.path = path, .classes = CLASSES, .threads = omp_get_num_procs()};
  DatasetReader *reader = dataset_open(&config, error);
  if (!reader) return false;
  const uint64_t before = rows->train_rows, room = dataset_max_rows(reader, UINT32_MAX);
  const size_t inputs = (size_t)dataset_inputs(reader);
  uint8_t *pixels = realloc(rows->pixels, (before + room) * inputs);
  if (pixels) rows->pixels = pixels;
  uint16_t *labels = realloc(rows->labels, (before + room) * sizeof *labels);
  if (labels) rows->labels = labels;
  const bool good =
      (before == 0 || (int)inputs == rows->inputs ||
       error_set(error, "%s has %zu pixels per row, but the training file has %d", path, inputs,
                 rows->inputs)) &&
      ((pixels && labels) || error_set(error, "no memory for the rows of %s", path)) &&
      dataset_read(reader, pixels + before * inputs, inputs, labels + before, room, added, error);
  rows->inputs = (int)inputs;
  dataset_close(reader);
  return good;
}

/* Row r of the dataset, to row `at` of a staging buffer. */
static void place_row(const BenchRows *rows, uint64_t r, StagingBuffer to, uint64_t at) {
  const size_t inputs = (size_t)rows->inputs;
  uint8_t *pixels = to.pixels + at * to.stride;
  if (rows->pixels) {
    memcpy(pixels, rows->pixels + r * inputs, inputs);
    memset(pixels + inputs, 0, to.stride - inputs);
    to.labels[at] = rows->labels[r];
    return;
  }
  for (size_t i = 0; i < to.stride; i += sizeof(RandomWords)) {
    const RandomWords words = random_words(1, 2, r * to.stride + i);
    memcpy(pixels + i, &words, sizeof words);
  }
  to.labels[at] = (uint16_t)(random_words(1, 3, r).word[0] % CLASSES);
}

bool bench_fill(Engine *engine, const BenchRows *rows, Error *error) {
  const uint64_t all = engine->config.dataset_rows, most = engine->config.staging_rows;
  int index = 0;
  for (uint64_t first = 0; first < all; first += most, index = 1 - index) {
    const uint64_t count = min_size(all - first, most);
    StagingBuffer to;
    if (!engine->call->staging(engine, index, &to, error)) return false;
    for (uint64_t r = 0; r < count; r++) place_row(rows, first + r, to, r);
    if (!engine->call->upload(engine, index, first, count, error)) return false;
  }
  return true;
}

/* ---- the ladder ----------------------------------------------------------------------------- */

const BenchLevel bench_levels[] = {
    {"none", "fp32", FUSION_NONE},    {"layer", "fp32", FUSION_LAYER},
    {"step", "fp32", FUSION_STEP},    {"epoch", "fp32", FUSION_EPOCH},
    {"layer", "tf32", FUSION_LAYER},  {"step", "tf32", FUSION_STEP},
    {"cublas", "fp32", BENCH_CUBLAS}, {"cublas", "tf32", BENCH_CUBLAS},
};

static bool config_of(const BenchRows *rows, const BenchNetwork *network, int batch, int fusion,
                      EngineConfig *config, Error *error) {
  *config = (EngineConfig){
      .training = {.batch = batch, .seed = 1, .rule.momentum = 0.9f, .fusion = (Fusion)fusion},
      .dataset_rows = rows->train_rows + rows->test_rows,
      .staging_rows = loader_staging_rows(batch)};
  return network_init(&config->network, rows->inputs, network->hidden, network->layers, CLASSES,
                      error);
}

/* Below compute capability 8.0 tf32 would be fp32, timed twice. */
Engine *bench_open(const BenchLevel *level, const BenchRows *rows, const BenchNetwork *network,
                   int batch, Error *error) {
  const bool tf32 = strcmp(level->precision, "tf32") == 0;
  EngineConfig config;
  Engine *engine;
  GpuLimits gpu;
  if ((tf32 && (!gpu_limits_read(&gpu, error) ||
                (gpu.capability < 80 && !error_set(error, "tf32 needs compute capability 8.0")))) ||
      !config_of(rows, network, batch, level->level, &config, error))
    return NULL;
  if (tf32) config.training.precision = PRECISION_TF32;
  engine = level->level == BENCH_CUBLAS ? bench_cublas_open(&config, error)
                                        : engine_cuda_open(&config, error);
  if (!engine || bench_fill(engine, rows, error)) return engine;
  engine->call->close(engine);
  return NULL;
}

bool bench_train(Engine *engine, const BenchRows *rows, uint64_t epoch, uint64_t steps, float rate,
                 double *seconds, Error *error) {
  const TrainRange range = {.rows = rows->train_rows,
                            .shuffled = true,
                            .key = random_order_key(1, epoch),
                            .steps = steps,
                            .learning_rate = rate};
  EngineSums sums;
  const double start = seconds_now();
  if (!engine->call->train(engine, &range, error) || !engine->call->collect(engine, &sums, error))
    return false;
  *seconds = seconds_now() - start;
  return isfinite(sums.loss) || error_set(error, "the loss is not a finite number");
}

/* Epochs, each shuffled by its own key; the first is not counted. */
static bool time_level(Engine *engine, const BenchLevel *level, const BenchRows *rows, int epochs,
                       json_t *line, Error *error) {
  double seconds[1 + BENCH_EPOCHS];
  EngineSums sums;
  uint64_t before = 0;
  const double mail = (double)((const CudaEngine *)engine)->plan.step_mail; /* of level epoch */
  const int batch = engine->config.training.batch;
  const uint64_t steps = ceil_div(rows->train_rows, (uint64_t)batch);
  /* Larger batches allow a larger step, up to a point: with momentum 0.9 none of these diverges.
     scripts/compare_peers.py has the same rule. */
  const float rate = (float)fmin(0.1, 0.05 * sqrt(batch / 64.0));
  for (int i = 0; i <= epochs; i++) {
    before = launch_count();
    if (!bench_train(engine, rows, (uint64_t)i, steps, rate, &seconds[i], error)) return false;
  }
  const double launches = (double)(launch_count() - before);
  const Stats times = stats_of(seconds + 1, epochs);
  if (!engine_evaluate(engine, rows->train_rows, rows->test_rows, error) ||
      !engine->call->collect(engine, &sums, error))
    return false;
  record_number(line, "epochs", epochs);
  record_number(line, "ms_per_epoch", 1e3 * times.median);
  record_number(line, "min_ms", 1e3 * times.low);
  record_number(line, "max_ms", 1e3 * times.high);
  record_number(line, "us_per_step", 1e6 * times.median / (double)steps);
  record_number(line, "launches_per_step", launches / (double)steps);
  if (!engine->wide)
    record_number(line, "bytes_per_step",
                  bench_bytes(level->level, &engine->config.network, batch, mail));
  record_number(line, "test_accuracy", (double)sums.correct / (double)sums.rows);
  return true;
}

/* Adds every level, or the one that auto takes for wide networks. A level that does not run is a
   line with its reason. */
static bool add_levels(Record *record, const BenchRows *rows, const BenchNetwork *network,
                       int batch, int epochs, Fusion chosen, Error *error) {
  const char *name = network->name;
  foreach (level, bench_levels) {
    Error reason;
    if (name && level->level != FUSION_STEP) continue;
    json_t *line =
        json_pack("{ss ss ss* si ss}", "case", name ? "wide" : "epoch", "fusion", level->name,
                  "name", name, "batch", batch, "precision", level->precision);
    if (level->level == (int)chosen) record_number(line, "chosen", 1);
    fprintf(stderr, "mlp-bench: %s%sbatch %d, %s, %s\n", text_of(line, "name"), name ? ", " : "",
            batch, level->name, level->precision);
    Engine *engine = bench_open(level, rows, network, batch, &reason);
    if (!engine || !time_level(engine, level, rows, epochs, line, &reason))
      record_text(line, "reason", reason.text);
    if (engine) engine->call->close(engine);
    record_add(record, line, true);
    if (!record_good(record, error)) return false;
  }
  return true;
}

static double ceiling_of(const Record *record, Ceiling which) {
  return number_of(record_find(record, "ceiling", "name", ceilings[which].name), "value");
}

static void add_floors(Record *record, const Network *network, const BenchRows *rows, int batch) {
  for (int tf32 = 0; tf32 < 2; tf32++) {
    const Ceiling sgemm = tf32 ? CEILING_SGEMM_TF32 : CEILING_SGEMM_FP32;
    const BenchRates at = {.flops_per_second = 1e12 * ceiling_of(record, sgemm),
                           .bytes_per_second = 1e9 * ceiling_of(record, CEILING_COPY),
                           .barrier_seconds = 1e-6 * ceiling_of(record, CEILING_BARRIER)};
    const double ms = 1e3 * bench_floor_seconds(&at, network, batch, rows->train_rows);
    if (isfinite(ms))
      bench_add(record, "floor", NULL, tf32 ? "tf32" : "fp32", ms, "ms", batch, NAN);
  }
}

/* Adds a line that says why a part is missing, if it is. */
static void add_reason(Record *record, const char *kind, bool is_there, const Error *reason) {
  if (is_there) return;
  json_t *line = record_line(kind);
  record_text(line, "reason", reason->text);
  record_add(record, line, true);
}

static bool measure_batch(Record *record, const BenchPlan *plan, const BenchRows *rows, int batch,
                          Error *error) {
  EngineConfig config;
  Error reason;
  if (!config_of(rows, &bench_usual, batch, FUSION_AUTO, &config, error)) return false;
  add_floors(record, &config.network, rows, batch);
  add_reason(record, "kernel", bench_kernels(record, &config, &reason), &reason);
  const BenchLevel any = {"auto", "fp32", FUSION_AUTO};
  Engine *engine = bench_open(&any, rows, &bench_usual, batch, NULL);
  const Fusion chosen = engine ? engine->config.training.fusion : FUSION_AUTO;
  if (engine) engine->call->close(engine);
  return add_levels(record, rows, &bench_usual, batch, plan->epochs, chosen, error);
}

static bool measure_wide(Record *record, const BenchPlan *plan, const BenchRows *rows,
                         Error *error) {
  if (plan->wide_epochs == 0) return true;
  foreach (network, wide)
    foreach (batch, wide_batches)
      if (!add_levels(record, rows, network, *batch, plan->wide_epochs, FUSION_STEP, error))
        return false;
  return true;
}

/* ---- a whole run ---------------------------------------------------------------------------- */

static void add_run(Record *record, const BenchRun *run, const BenchRows *rows) {
  enum { PARTS = 7 }; /* of the run; the others are not */
  const double bytes = (double)(rows->train_rows + rows->test_rows) * (rows->inputs + 2);
  const double rate = 1e9 * ceiling_of(record, CEILING_PINNED);
  const double known =
      run->open + run->first_epoch + run->test_file + run->epochs + run->evaluation + run->close;
  const ShortText epochs = text_format("epochs 2 to %d", run->count),
                  evaluations = text_format("evaluation, %d times", run->count);
  const struct {
    const char *name;
    double seconds;
  } parts[] = {{"start: context, memory, first rows parsed", run->open},
               {"epoch 1: the other rows parsed and copied", run->first_epoch},
               {"the rest of the test file", run->test_file},
               {epochs.text, run->epochs},
               {evaluations.text, run->evaluation},
               {"closing files, freeing memory", run->close},
               {"start and end of the process", run->total - known},
               {"alone: creating a context", run->context},
               {"alone: parsing both files", rows->seconds},
               {"alone: copying the rows, at the pinned rate", bytes / rate}};
  foreach (part, parts) {
    const bool alone = part >= parts + PARTS;
    bench_add(record, alone ? "alone" : "run", part->name, NULL, 1e3 * part->seconds, "ms", NAN,
              alone ? (double)NAN : part->seconds / run->total);
  }
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* The run's processes come before this one uses the GPU, and after the files are in the page
   cache: their first reading would time the disk. */
static bool measure_all(Record *record, const BenchPlan *plan, const char *command, BenchRows *rows,
                        Error *error) {
  BenchRun run;
  Error run_reason, reason;
  const double start = seconds_now();
  if (!append_file(rows, plan->train, &rows->train_rows, error) ||
      !append_file(rows, plan->test, &rows->test_rows, error))
    return false;
  rows->seconds = seconds_now() - start;
  const bool has_run = bench_run(plan->train, plan->test, plan->run_epochs, &run, &run_reason);
  const char *slash = strrchr(plan->train, '/');
  const ShortText what =
      text_format("%d-%d-%d-%d on %s", rows->inputs, bench_usual.hidden[0], bench_usual.hidden[1],
                  CLASSES, slash ? slash + 1 : plan->train);
  if (!bench_machine(record, what.text, command, error)) return false;
  add_reason(record, "ceiling", bench_ceilings(record, &reason), &reason);
  add_reason(record, "run", has_run, &run_reason);
  if (has_run) add_run(record, &run, rows);
  for (int i = 0; i < plan->batch_count; i++)
    if (!measure_batch(record, plan, rows, plan->batches[i], error)) return false;
  return measure_wide(record, plan, rows, error);
}

bool bench_measure(Record *record, const BenchPlan *plan, const char *command, Error *error) {
  BenchRows rows = {0};
  const bool good = measure_all(record, plan, command, &rows, error);
  free(rows.pixels);
  free(rows.labels);
  return good;
}
