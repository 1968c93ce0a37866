/* Training on augmented rows: both engines against rows augmented here by
   augment.h, which test_augment.c checks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/augment.h"
#include "exercise/reference.h"
#include "support/test.h"
#include "support/cuda.h"

static Error error;

enum { SIDE = 6, INPUTS = SIDE * SIDE, CLASSES = 10, BATCH = 7, ROWS = 60, KEY = 11 };

typedef struct {
  uint8_t pixels[ROWS * INPUTS];
  uint16_t labels[ROWS];
} Data;

static Data make_data(uint64_t seed) {
  Data data;
  reference_fill_pixels(data.pixels, sizeof data.pixels, seed);
  reference_fill_labels(data.labels, ROWS, CLASSES, seed + 1);
  return data;
}

/* Row r of the window that starts at first_row becomes what (strengths, key, r) makes of it. */
static Data by_hand(const Data *data, AugmentStrengths strengths, uint64_t key,
                    uint64_t first_row) {
  Data copy = *data;
  for (uint64_t r = first_row; r < ROWS; r++)
    augment_row(strengths, key, (uint32_t)(r - first_row), data->pixels + r * INPUTS,
                copy.pixels + r * INPUTS, SIDE);
  return copy;
}

/* How an engine is opened; fusion FUSION_AUTO: the CPU's. */
typedef struct {
  Fusion fusion;
  int threads;
} Kind;

static const AugmentStrengths nothing; /* is augmented */
static const Kind cpu = {FUSION_AUTO, 2};

static EngineConfig config_of(Kind kind, int inputs, uint64_t dataset_rows) {
  EngineConfig config = {.training = {.batch = BATCH,
                                      .seed = 4,
                                      .rule.momentum = 0.9f,
                                      .fusion = kind.fusion,
                                      .augment = AUGMENT_USUAL,
                                      .threads = kind.threads},
                         .dataset_rows = dataset_rows,
                         .staging_rows = ROWS + BATCH};
  /* level epoch takes ten classes from 46 neurons on */
  OK(network_init(&config.network, inputs, (const int[]){46, 11}, 2, CLASSES, &error));
  return config;
}

static void send(Engine *engine, const Data *data) {
  StagingBuffer staging;
  OK(engine->call->staging(engine, 0, &staging, &error));
  for (size_t r = 0; r < ROWS; r++)
    memcpy(staging.pixels + r * staging.stride, data->pixels + r * INPUTS, INPUTS);
  memcpy(staging.labels, data->labels, sizeof data->labels);
  OK(engine->call->upload(engine, 0, 0, ROWS, &error));
}

/* NULL: this level does not run the network on this GPU. */
static Engine *open_on(Kind kind, const Data *data) {
  const EngineConfig config = config_of(kind, INPUTS, ROWS);
  Engine *engine =
      kind.fusion ? engine_cuda_open(&config, &error) : engine_cpu_open(&config, &error);
  if (!engine && kind.fusion != FUSION_EPOCH) fail_msg("%s", error.text);
  if (engine) send(engine, data);
  return engine;
}

/* All the steps of a window. */
static TrainRange window(uint64_t first_row, uint64_t rows, AugmentStrengths strengths,
                         uint64_t key) {
  return (TrainRange){.first_row = first_row,
                      .rows = rows,
                      .shuffled = true,
                      .key = key + 1,
                      .steps = (rows + BATCH - 1) / BATCH,
                      .learning_rate = 0.05f,
                      .augment = strengths,
                      .augment_key = key};
}

static void train(Engine *engine, TrainRange range) {
  OK(engine->call->train(engine, &range, &error));
}

/* Trains the range in calls of one step each, or of as many as keep the bits. */
static void train_in_parts(Engine *engine, TrainRange range) {
  const uint64_t steps = range.steps, most = engine->aligned > 1 ? engine->aligned : 1;
  for (range.first_step = 0; range.first_step < steps; range.first_step += range.steps) {
    const uint64_t left = steps - range.first_step;
    range.steps = left < most ? left : most;
    train(engine, range);
  }
}

static EngineSums collect(Engine *engine) {
  EngineSums sums;
  OK(engine->call->collect(engine, &sums, &error));
  return sums;
}

/* Parameters and momentum, (2 * floats); closes the engine. */
static float *close_with_weights(Engine *engine) {
  const size_t floats = engine->config.network.floats;
  float *weights = malloc(2 * floats * sizeof *weights);
  assert_non_null(weights);
  OK(engine->call->read(engine, weights, weights + floats, &error));
  engine->call->close(engine);
  return weights;
}

static size_t weight_count(void) {
  return 2 * config_of(cpu, INPUTS, ROWS).network.floats;
}

static void assert_same_weights(Engine *a, Engine *b) {
  float *of_a = close_with_weights(a), *of_b = close_with_weights(b);
  assert_memory_equal(of_a, of_b, weight_count() * sizeof *of_a);
  free(of_a);
  free(of_b);
}

static void assert_near(Engine *a, Engine *b, double limit) {
  const size_t count = weight_count();
  float *of_a = close_with_weights(a), *of_b = close_with_weights(b);
  double *expected = malloc(count * sizeof *expected);
  assert_non_null(expected);
  reference_to_double(of_b, count, expected);
  const double error_of = reference_relative_error(of_a, expected, count);
  if (!(error_of < limit)) fail_msg("error of the weights %.3g, allowed %.3g", error_of, limit);
  free(of_a);
  free(of_b);
  free(expected);
}

/* The rows that an engine augments and those that we do are the same bits on the CPU. On a GPU
   few bytes differ by one, which is 1e-5 of a gradient; another row's augmentation is 0.1 of it and
   more. */
static void assert_alike(Kind kind, Engine *a, Engine *b) {
  if (kind.fusion)
    assert_near(a, b, 1e-3);
  else
    assert_same_weights(a, b);
}

static void check_parts(Kind kind) {
  const Data data = make_data(30);
  Engine *whole = open_on(kind, &data), *parts = open_on(kind, &data);
  if (!whole) return;
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    train(whole, window(0, ROWS, AUGMENT_USUAL, epoch));
    train_in_parts(parts, window(0, ROWS, AUGMENT_USUAL, epoch));
  }
  assert_same_weights(whole, parts);
}

/* Windows, keys and strengths that change, and rows that are not augmented between those that are.
 */
static void check_rows(Kind kind) {
  const Data data = make_data(31);
  const AugmentStrengths all = AUGMENT_USUAL;
  const struct {
    uint64_t first_row, rows;
    AugmentStrengths strengths;
    uint64_t key;
  } turns[] = {{0, ROWS, all, 1},       {0, ROWS, all, 2},   {0, ROWS, {{0, 10}}, 2},
               {0, ROWS, {{0, 15}}, 2}, {0, ROWS, {{0}}, 2}, {8, 20, all, 2},
               {28, 20, all, 2},        {0, ROWS, {{0}}, 1}, {28, 20, all, 2},
               {28, 25, all, 2},        {0, ROWS, {{1}}, 1}, {0, ROWS, {{0, 0, 0, 0, 3.5f}}, 1}};
  Engine *engine = open_on(kind, &data), *plain = open_on(kind, &data);
  if (!engine) return;
  for (size_t t = 0; t < sizeof turns / sizeof *turns; t++) {
    TrainRange range = window(turns[t].first_row, turns[t].rows, turns[t].strengths, turns[t].key);
    const Data copy = by_hand(&data, range.augment, range.augment_key, range.first_row);
    train(engine, range);
    send(plain, &copy);
    range.augment = nothing;
    train(plain, range);
  }
  assert_alike(kind, engine, plain);
}

/* Streaming: the same dataset row, the same key, other data. */
static void check_upload(Kind kind) {
  const Data first = make_data(32), second = make_data(33);
  Engine *engine = open_on(kind, &first), *plain = open_on(kind, &first);
  if (!engine) return;
  const Data copies[] = {by_hand(&first, AUGMENT_USUAL, KEY, 0),
                         by_hand(&second, AUGMENT_USUAL, KEY, 0)};
  train(engine, window(0, ROWS, AUGMENT_USUAL, KEY));
  send(engine, &second);
  train(engine, window(0, ROWS, AUGMENT_USUAL, KEY));
  for (int turn = 0; turn < 2; turn++) {
    send(plain, &copies[turn]);
    train(plain, window(0, ROWS, nothing, KEY));
  }
  assert_alike(kind, engine, plain);
}

/* Nothing is learned, so the originals must be evaluated as before; what trains is not them. */
static void check_evaluation(Kind kind) {
  const Data data = make_data(34);
  Engine *engine = open_on(kind, &data);
  if (!engine) return;
  float before[ROWS * CLASSES], after[ROWS * CLASSES];
  TrainRange range = window(0, ROWS, AUGMENT_USUAL, KEY);
  range.learning_rate = 0;
  OK(engine->call->evaluate(engine, 0, ROWS, &error));
  const EngineSums original = collect(engine);
  OK(engine->call->predict(engine, 0, ROWS, before, &error));
  train(engine, range);
  const EngineSums augmented = collect(engine);
  OK(engine->call->evaluate(engine, 0, ROWS, &error));
  const EngineSums evaluated = collect(engine);
  OK(engine->call->predict(engine, 0, ROWS, after, &error));
  assert_true(fabs(augmented.loss / original.loss - 1) > 1e-3);
  assert_true(evaluated.loss == original.loss && evaluated.correct == original.correct);
  assert_memory_equal(after, before, sizeof before);
  engine->call->close(engine);
}

/* Refused with a sentence; the engine can still be used. */
static void check_not_square(Kind kind) {
  const EngineConfig config = config_of(kind, INPUTS + 1, ROWS);
  Engine *engine =
      kind.fusion ? engine_cuda_open(&config, &error) : engine_cpu_open(&config, &error);
  if (!engine) return;
  const TrainRange range = window(0, ROWS, AUGMENT_USUAL, KEY),
                   plain = window(0, ROWS, nothing, KEY);
  StagingBuffer staging;
  OK(engine->call->staging(engine, 0, &staging, &error));
  memset(staging.pixels, 1, ROWS * staging.stride);
  memset(staging.labels, 0, ROWS * sizeof *staging.labels);
  OK(engine->call->upload(engine, 0, 0, ROWS, &error));
  error.text[0] = '\0';
  assert_false(engine->call->train(engine, &range, &error));
  assert_non_null(strstr(error.text, "37 pixels are not square"));
  train(engine, plain);
  assert_int_equal(collect(engine).rows, ROWS);
  engine->call->close(engine);
}

static void check_engine(Kind kind) {
  check_parts(kind);
  check_rows(kind);
  check_upload(kind);
  check_evaluation(kind);
  check_not_square(kind);
}

TEST(test_cpu_engine) {
  check_engine(cpu);
}

TEST(test_threads) {
  const Data data = make_data(35);
  for (int threads = 1; threads <= 5; threads += 2) {
    Engine *two = open_on(cpu, &data), *others = open_on((Kind){FUSION_AUTO, threads}, &data);
    train(two, window(3, ROWS - 3, AUGMENT_USUAL, KEY));
    train(others, window(3, ROWS - 3, AUGMENT_USUAL, KEY));
    assert_same_weights(two, others);
  }
}

/* A dataset that can be had once and not twice. */
TEST(test_no_memory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  print_message("a sanitizer takes address space as it likes\n");
  skip();
#endif
  enum { DATASET = 20000000 }; /* 960 MB of addresses, hardly any of them touched */
  const EngineConfig config = config_of(cpu, INPUTS, DATASET);
  Engine *engine = engine_cpu_open(&config, &error);
  if (!engine) fail_msg("%s", error.text);
  unsigned long long pages = 0; /* of addresses in use */
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%llu", &pages), 1);
  assert_int_equal(fclose(file), 0);
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  const rlim_t used = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
  const struct rlimit less = {used + ((rlim_t)500 << 20), before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
  const TrainRange range = window(0, ROWS, AUGMENT_USUAL, KEY);
  const bool first = engine->call->train(engine, &range, &error);
  const bool second = engine->call->train(engine, &range, &error);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  assert_false(first || second);
  assert_non_null(strstr(error.text, "MB of memory"));
  train(engine, window(0, ROWS, nothing, KEY));
  engine->call->close(engine);
}

TEST(test_cuda_engine) {
  needs_gpu();
  static const Fusion levels[] = {FUSION_NONE, FUSION_LAYER, FUSION_STEP, FUSION_EPOCH};
  for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) check_engine((Kind){levels[l], 1});
}

/* The same augmented rows at level epoch and at level step: what rounding makes of them, unless an
   input of a ReLU is near 0, which none is. */
TEST(test_levels_alike) {
  needs_gpu();
  const Data data = make_data(36);
  Engine *epoch = open_on((Kind){FUSION_EPOCH, 1}, &data);
  Engine *step = open_on((Kind){FUSION_STEP, 1}, &data);
  if (!epoch) {
    print_message("%s\n", error.text);
    step->call->close(step);
    skip();
  }
  for (uint64_t turn = 0; turn < 3; turn++) {
    train(epoch, window(0, ROWS, AUGMENT_USUAL, turn));
    train(step, window(0, ROWS, AUGMENT_USUAL, turn));
  }
  train(epoch, window(8, 20, AUGMENT_USUAL, 3));
  train(step, window(8, 20, AUGMENT_USUAL, 3));
  assert_near(epoch, step, 2e-5);
}
