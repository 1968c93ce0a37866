/* Times a whole run, then training epochs for every network, batch and level of fusion. */
#define _GNU_SOURCE /* mkstemps, environ */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stats.h"
#include "base/sizes.h"
#include "base/text.h"
#include "bench/bench.h"
#include "cli/option_kinds.h"
#include "cli/options.h"
#include "data/dataset.h"
#include "engine/loader.h"

enum { CLASSES = 10, LEAST_EPOCHS = 3, RUN_EPOCHS = 10, MOST_AT_ONCE = 64 };
static const double ENOUGH = 2; /* timing ends after these seconds if LEAST_EPOCHS are done */

/* Levels that engine.h does not have: cuBLAS, and the engine that runs on the CPU. */
enum { CUBLAS = FUSION_EXERCISE + 1, CPU };

typedef struct {
  const char *name, *precision;
  int level; /* a Fusion, or CUBLAS or CPU */
} Level;

/* With a GPU, every level except CPU is timed. Without a GPU, only CPU is timed. */
static const Level levels[] = {
    {"none", "fp32", FUSION_NONE},   {"layer", "fp32", FUSION_LAYER}, {"step", "fp32", FUSION_STEP},
    {"epoch", "fp32", FUSION_EPOCH}, {"layer", "tf32", FUSION_LAYER}, {"step", "tf32", FUSION_STEP},
    {"cublas", "fp32", CUBLAS},      {"cublas", "tf32", CUBLAS},      {"cpu", "fp32", CPU}};

typedef struct {
  Record *record;
  const BenchPlan *plan;
  int inputs;
  uint64_t train_rows, test_rows;
  bool on_gpu;
} Bench;

static DatasetReader *open_rows(const char *path, Error *error) {
  const DatasetConfig config = {.path = path, .classes = CLASSES, .threads = omp_get_num_procs()};
  return dataset_open(&config, error);
}

/* Counts the rows of a file and the pixels of a row. */
static bool count_rows(const char *path, uint64_t *rows, int *inputs, Error *error) {
  DatasetReader *reader = open_rows(path, error);
  if (!reader) return false;
  *inputs = dataset_inputs(reader);
  uint8_t *pixels = make_array(pixels, LOADER_ROWS * *inputs);
  uint16_t labels[LOADER_ROWS];
  size_t filled = LOADER_ROWS;
  bool good = pixels || error_set(error, "no memory for the rows of %s", path);
  for (; good && filled == LOADER_ROWS; *rows += filled)
    good = dataset_read(reader, pixels, (size_t)*inputs, labels, LOADER_ROWS, &filled, error);
  free(pixels);
  dataset_close(reader);
  return good;
}

/* Copies a file's rows to the engine's dataset, to rows `start`, start + 1, ... */
static bool load(Engine *engine, const char *path, uint64_t start, Error *error) {
  Loader loader = {.engine = engine, .reader = open_rows(path, error), .start = start};
  bool good = loader.reader;
  while (good && (good = loader_next(&loader, error)) && loader.rows > 0) continue;
  dataset_close(loader.reader);
  return good;
}

static ShortText hidden_text(const HiddenSizes *hidden) {
  return option_sizes.get(&(OptionRow){.field = 0}, hidden);
}

/* Opens an engine at a level and loads the training rows, then the test rows. */
static Engine *open_level(const Bench *b, const Level *level, const HiddenSizes *hidden, int batch,
                          int threads, Error *error) {
  const Precision precision =
      strcmp(level->precision, "tf32") == 0 ? PRECISION_TF32 : PRECISION_FP32;
  EngineConfig config = {
      .training = {.batch = batch,
                   .seed = 1,
                   .rule = {.kind = OPTIMIZER_SGD, .momentum = 0.9f},
                   .precision = precision,
                   .fusion = level->level < CUBLAS ? (Fusion)level->level : FUSION_AUTO,
                   .threads = threads},
      .dataset_rows = b->train_rows + b->test_rows,
      .staging_rows = loader_staging_rows(batch)};
  if (!network_init(&config.network, b->inputs, hidden->size, hidden->count, CLASSES, error))
    return NULL;
  Engine *(*open)(const EngineConfig *, Error *) = engine_cuda_open;
  if (level->level == CPU) open = engine_cpu_open;
  if (level->level == CUBLAS) open = bench_cublas_open;
  Engine *engine = open(&config, error);
  if (engine &&
      (engine->config.training.precision == precision ||
       error_set(error, "this GPU has no %s", level->precision)) &&
      load(engine, b->plan->train, 0, error) && load(engine, b->plan->test, b->train_rows, error))
    return engine; /* cppcheck-suppress returnDanglingLifetime ; an engine copies its config */
  engine_close(engine);
  return NULL;
}

/* Trains one epoch. Its number `epoch` sets the order of rows. Fails if the loss is not finite. */
static bool train(Engine *engine, const Bench *b, uint64_t epoch, double *seconds, Error *error) {
  const int batch = engine->config.training.batch;
  const uint64_t steps = ceil_div(b->train_rows, (uint64_t)batch);
  const double scale =
      fmin(1, 0.5 * sqrt(batch / 64.0)); /* scripts/compare_peers.py has the same rate */
  const TrainRange range = {.rows = b->train_rows,
                            .shuffled = true,
                            .key = random_order_key(1, epoch),
                            .steps = steps,
                            .updates = epoch * steps,
                            .learning_rate = 0.1f * (float)scale};
  EngineSums sums;
  const double start = seconds_now();
  if (!engine->call->train(engine, &range, error) || !engine->call->collect(engine, &sums, error))
    return false;
  *seconds = seconds_now() - start;
  return isfinite(sums.loss) || error_set(error, "the loss is not a finite number");
}

static json_t *line_of(const HiddenSizes *hidden, int batch, int networks, const char *level,
                       const char *precision) {
  return json_pack("{ss ss si si ss ss}", "case", "epoch", "hidden", hidden_text(hidden).text,
                   "batch", batch, "networks", networks, "fusion", level, "precision", precision);
}

/* Times epochs after one untimed epoch, and adds the results to the line. */
static bool time_level(Engine *engine, const Bench *b, int level, json_t *line, Error *error) {
  double seconds[1 + BENCH_EPOCHS], sum = 0;
  EngineSums sums;
  uint64_t before = 0;
  const int batch = engine->config.training.batch;
  const double steps = ceil((double)b->train_rows / batch);
  int count = 0;
  do {
    before = launch_count ? launch_count() : 0;
    if (!train(engine, b, (uint64_t)count, &seconds[count], error)) return false;
    if (count > 0) sum += seconds[count];
  } while (count++ < b->plan->epochs && (count <= LEAST_EPOCHS || sum < ENOUGH));
  const double launches = launch_count ? (double)(launch_count() - before) : (double)NAN;
  const Stats times = stats_of(seconds + 1, count - 1);
  if (!engine_evaluate(engine, b->train_rows, b->test_rows, error) ||
      !engine->call->collect(engine, &sums, error))
    return false;
  record_number(line, "epochs", count - 1);
  record_number(line, "ms_per_epoch", 1e3 * times.median);
  record_number(line, "min_ms", 1e3 * times.low);
  record_number(line, "max_ms", 1e3 * times.high);
  record_number(line, "us_per_step", 1e6 * times.median / steps);
  if (level != CPU) record_number(line, "launches_per_step", launches / steps);
  record_number(line, "test_accuracy", (double)sums.correct / (double)sums.rows);
  return true;
}

/* Adds a line for every level. If a level cannot run, its line has the reason instead of times. */
static bool add_levels(const Bench *b, const HiddenSizes *hidden, int batch, Error *error) {
  const Level any = {"auto", "fp32", FUSION_AUTO};
  Engine *engine = b->on_gpu ? open_level(b, &any, hidden, batch, 1, NULL) : NULL;
  const int chosen = engine ? (int)engine->config.training.fusion : -1;
  engine_close(engine);
  for (const Level *level = levels; level < levels + LENGTH(levels); level++) {
    Error reason;
    if ((level->level == CPU) == b->on_gpu) continue;
    json_t *line = line_of(hidden, batch, 1, level->name, level->precision);
    if (level->level == chosen) record_number(line, "chosen", 1);
    if (isatty(STDERR_FILENO))
      fprintf(stderr, "mlp-bench: %s, batch %d, %s, %s\n", text_of(line, "hidden"), batch,
              level->name, level->precision);
    engine = open_level(b, level, hidden, batch, omp_get_num_procs(), &reason);
    if (!engine || !time_level(engine, b, level->level, line, &reason))
      record_text(line, "reason", reason.text);
    engine_close(engine);
    record_add(b->record, line);
    if (!record_good(b->record, error)) return false;
  }
  return true;
}

/* ---- several networks at once ---------------------------------------------------------------- */

/* Engines that train several networks at once. On a GPU all use the dataset of engine `rows`. */
typedef struct {
  Engine *rows, *engine[MOST_AT_ONCE]; /* engine[0] may be the same engine as `rows` */
  int count;
} Team;

static void close_team(Team *team) {
  for (int i = 0; i < team->count; i++)
    if (team->engine[i] != team->rows) engine_close(team->engine[i]);
  engine_close(team->rows);
}

/* Opens as many engines as mlp-train --seeds would. On a GPU they are members of team->rows (see
   `members` in engine.h). Without a GPU there is at most one engine per core. */
static bool open_team(const Bench *b, const Level *level, const HiddenSizes *hidden, int batch,
                      int networks, Team *team, Error *error) {
  const int cores = omp_get_num_procs(), threads = max_int(1, cores / networks);
  omp_set_max_active_levels(2); /* each CPU engine of a team starts threads of its own */
  *team = (Team){.rows = open_level(b, level, hidden, batch, b->on_gpu ? cores : threads, error)};
  if (!team->rows) return false;
  const int members = b->on_gpu ? team->rows->call->members(team->rows) : cores,
            most = min_int(min_int(members, networks), MOST_AT_ONCE);
  if (!b->on_gpu || most == 0) team->engine[team->count++] = team->rows;
  for (Engine *engine = team->rows; engine && team->count < most;) {
    engine = b->on_gpu ? team->rows->call->member(team->rows, NULL)
                       : open_level(b, level, hidden, batch, threads, NULL);
    if (engine) team->engine[team->count++] = engine;
  }
  return team->count > 0 || error_set(error, "no memory for a second network");
}

/* Trains every network for some epochs. An engine that has finished a network takes the next one.
   Returns the time in seconds, or a negative number if training failed. */
static double train_team(const Bench *b, const Team *team, int networks, int epochs, Error *error) {
  bool good = true;
  const double start = seconds_now();
#pragma omp parallel for num_threads(team->count) schedule(dynamic) reduction(&& : good)
  for (int i = 0; i < networks; i++) {
    double own;
    Error reason;
    for (int k = i * epochs; good && k < (i + 1) * epochs; k++)
      good = train(team->engine[omp_get_thread_num()], b, (uint64_t)k, &own, &reason);
    if (good) continue;
#pragma omp critical
    *error = reason;
  }
  return good ? seconds_now() - start : -1;
}

/* Adds the mean time of an epoch to the line. The first epoch of each network is not timed. */
static bool time_networks(const Bench *b, const Level *level, const HiddenSizes *hidden, int batch,
                          int networks, json_t *line, Error *error) {
  Team team;
  double seconds = 0;
  int epochs = 0;
  bool good = open_team(b, level, hidden, batch, networks, &team, error) &&
              train_team(b, &team, networks, 1, error) >= 0;
  while (good && epochs < b->plan->epochs && seconds < ENOUGH) {
    epochs = min_int(b->plan->epochs, max_int(LEAST_EPOCHS, 4 * epochs));
    good = (seconds = train_team(b, &team, networks, epochs, error)) >= 0;
  }
  close_team(&team);
  if (!good) return false;
  record_number(line, "epochs", epochs);
  record_number(line, "ms_per_epoch", 1e3 * seconds / (epochs * networks));
  return true;
}

static void add_networks(const Bench *b, const HiddenSizes *hidden, int batch, int networks) {
  const Level any = {"auto", "fp32", FUSION_AUTO}, cpu = {"cpu", "fp32", CPU},
              *level = b->on_gpu ? &any : &cpu;
  json_t *line = line_of(hidden, batch, networks, level->name, level->precision);
  Error reason;
  if (!time_networks(b, level, hidden, batch, networks, line, &reason))
    record_text(line, "reason", reason.text);
  record_add(b->record, line);
}

/* ---- a whole run ----------------------------------------------------------------------------- */

/* Runs mlp-train, which lies beside this program, on the CSV files. Adds the lines of mlp-train's
   log to `log`, and sets *seconds to the time that mlp-train took. */
static bool run_train(const Bench *b, const HiddenSizes *hidden, int batch, Record *log,
                      double *seconds, Error *error) {
  char program[PATH_MAX], path[] = "/tmp/mlp-bench-XXXXXX.jsonl";
  int status = 0;
  pid_t process;
  if (!text_beside_program(program, sizeof program, "mlp-train"))
    return error_set(error, "cannot find mlp-train, which lies beside this program");
  const int file = mkstemps(path, (int)strlen(".jsonl"));
  if (file < 0) return error_set(error, "cannot create %s: %s", path, strerror(errno));
  close(file);
  const char *const given[] = {program,    "--quiet",
                               "--device", b->on_gpu ? "cuda" : "cpu",
                               "--hidden", hidden_text(hidden).text,
                               "--batch",  text_format("%d", batch).text,
                               "--epochs", text_format("%d", RUN_EPOCHS).text,
                               "--train",  b->plan->train,
                               "--test",   b->plan->test,
                               "--log",    path,
                               NULL};
  const double start = seconds_now();
  posix_spawn_file_actions_t actions; /* mlp-train's tables are not shown */
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const int failed = posix_spawn(&process, program, &actions, NULL, (char *const *)given, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (!failed) waitpid(process, &status, 0);
  *seconds = seconds_now() - start;
  if (failed) error_set(error, "cannot run %s: %s", program, strerror(failed));
  if (!failed && status != 0) error_set(error, "mlp-train failed: the reason is above");
  const bool good = !failed && status == 0 && record_read(log, path, "mlp-train", NULL, error);
  unlink(path);
  return good;
}

/* Adds a line for each part of a whole run: its time and its share of the total, from which
   Amdahl's bound (1967) follows. If the run failed, adds the reason instead. */
static void add_run(const Bench *b, const HiddenSizes *hidden, int batch) {
  enum { BEGIN, FIRST, OTHERS, EVALUATION, PARTS };
  static const char *const names[PARTS] = {"start, first rows, closing files, end",
                                           "epoch 1, while rows are read and copied",
                                           "the other epochs", "evaluation"};
  const ShortText of = text_format("a run of %d epochs from CSV files", RUN_EPOCHS);
  Record log = {.lines = NULL};
  Error reason;
  double total = 0, seconds[PARTS] = {0};
  const bool good = run_train(b, hidden, batch, &log, &total, &reason);
  foreach_of (line, &log, "", "kind", "epoch") {
    seconds[number_of(line, "epoch") > 1 ? OTHERS : FIRST] += number_of(line, "train_seconds");
    seconds[EVALUATION] += number_of(line, "test_seconds");
  }
  seconds[BEGIN] = total - seconds[FIRST] - seconds[OTHERS] - seconds[EVALUATION];
  for (int i = 0; good && i < PARTS; i++)
    record_add(b->record,
               json_pack("{ss ss ss sf ss sf}", "case", "part", "of", of.text, "name", names[i],
                         "value", 1e3 * seconds[i], "unit", "ms", "share", seconds[i] / total));
  if (!good)
    record_add(b->record, json_pack("{ss ss ss}", "case", "part", "name", "a run", "reason",
                                    text_shown(reason.text).text));
  record_close(&log, true, &reason);
}

static bool add_machine(const Bench *b, Error *error) {
  const char *slash = strrchr(b->plan->train, '/');
  const ShortText what =
      text_format("epochs of %llu rows of %s, shuffled anew every epoch",
                  (unsigned long long)b->train_rows, slash ? slash + 1 : b->plan->train);
  if (b->on_gpu && bench_gpu) return bench_gpu(b->record, what.text, error);
  char model[128] = "a CPU", word[128];
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && fgets(word, sizeof word, file))
    if (sscanf(word, "model name : %127[^\n]", model) == 1) break;
  if (file) fclose(file);
  record_add_machine(b->record, model, NULL, what.text);
  return true;
}

/* count_rows has read the files, so they are in the page cache, and the time of the whole run does
   not include the disk. */
static bool measure(const Bench *b, Error *error) {
  const BenchPlan *plan = b->plan;
  const HiddenSizes *first = plan->shapes.of;
  const int batch = plan->batches.of[0];
  if (!add_machine(b, error)) return false;
  add_run(b, first, batch);
  for (int s = 0; s < plan->shapes.count; s++)
    for (int i = 0; i < plan->batches.count; i++) {
      for (int k = 0; k < plan->networks.count; k++)
        if (plan->networks.of[k] > 1)
          add_networks(b, &plan->shapes.of[s], plan->batches.of[i], plan->networks.of[k]);
        else if (!add_levels(b, &plan->shapes.of[s], plan->batches.of[i], error))
          return false;
    }
  return record_good(b->record, error);
}

bool bench_measure(Record *record, const BenchPlan *plan, Error *error) {
  Bench b = {.record = record, .plan = plan, .on_gpu = bench_gpu && engine_cuda_available(NULL)};
  int inputs;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); /* lets kernels of several networks overlap */
  return count_rows(plan->train, &b.train_rows, &b.inputs, error) &&
         count_rows(plan->test, &b.test_rows, &inputs, error) &&
         (inputs == b.inputs ||
          error_set(error, "%s has %d pixels per row, but the training file has %d", plan->test,
                    inputs, b.inputs)) &&
         measure(&b, error);
}
