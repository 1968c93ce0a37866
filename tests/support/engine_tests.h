/* Shared by the tests of engines: the levels of fusion, networks, rows to train on, and functions
   that use an engine only through engine.h. An error in these fails the running cmocka test.

   If the environment variable TEST_QUICK is set, only small networks are tested. */
#pragma once

#include "base/random.h"
#include "base/sizes.h"
#include "support/cuda.h"
#include "support/network_reference.h"

/* ---- levels --------------------------------------------------------------------------------- */

/* levels[] has a row for each tested level of fusion and precision. STEP and EPOCH are row indices.
   A function that takes such an index also takes CPU, which selects the CPU engine. */
enum { CPU = -1, STEP = 2, EPOCH, QUICK_LEVELS, LEVELS = 7 };
typedef struct {
  Fusion fusion;
  Precision precision;
  const char *name;
  bool selective; /* the level may refuse networks; tests skip refused networks */
} TestedLevel;

static const TestedLevel cpu_and_levels[] = {
    {FUSION_LAYER, PRECISION_FP32, "cpu", false},
    {FUSION_NONE, PRECISION_FP32, "none", false},
    {FUSION_LAYER, PRECISION_FP32, "layer", false},
    {FUSION_STEP, PRECISION_FP32, "step", false},
    {FUSION_EPOCH, PRECISION_FP32, "epoch", true},
    {FUSION_EXERCISE, PRECISION_FP32, "exercise", false},
    {FUSION_LAYER, PRECISION_TF32, "layer, tf32", false},
    {FUSION_STEP, PRECISION_TF32, "step, tf32", false},
};
static const TestedLevel *const levels = cpu_and_levels + 1;

/* Returns the number of rows of levels[] to test. Quick tests leave out the last rows, whose
   kernels are similar to others or have their own tests. */
static inline int tested_levels(void) {
  return quick() ? QUICK_LEVELS : LEVELS;
}

/* ---- open engines --------------------------------------------------------------------------- */

enum { MOST_ENGINES = 16 };
static Engine *engines[MOST_ENGINES];

/* Returns the element of engines[] that holds the engine. If `engine` is NULL: a free element. */
static inline Engine **place_of(const Engine *engine) {
  foreach (place, engines)
    if (*place == engine) return (Engine **)place;
  fail_msg("more than %d engines are open", MOST_ENGINES);
  return NULL;
}

static inline void close_engine(Engine *engine) {
  *place_of(engine) = NULL;
  engine->call->close(engine);
}

/* A fixture that closes the engines that a test has opened with open_config() and not closed. It
   also frees the test's memory. */
static inline FIXTURE(close_engines) {
  foreach (place, engines)
    if (*place) close_engine(*place);
  free_kept();
  return 0;
}

/* Defines a test. Engines that the test leaves open are closed afterwards. */
#define ENGINE_TEST(name) TEST_WITH(name, NULL, close_engines)

/* ---- networks and rows ---------------------------------------------------------------------- */

typedef struct {
  const char *name;
  int inputs, hidden[3], hidden_count, classes;
  int batch;
  uint64_t rows;
  float learning_rate, momentum, weight_decay;
  uint64_t steps; /* number of steps to train */
  uint64_t seed;  /* seed of the initial parameters */
  bool flips;     /* true if rounding may change the sign of a ReLU's input: see assert_near
                     in test_engine_results.c */
  bool quick;
  int lit; /* from -1 to 7; the larger it is, the fewer pixels make_data sets to 0 */
} Case;

/* Usual values of the fields of Case, from learning_rate to quick; n is the number of steps. */
#define USUAL(n) 0.05f, 0.9f, 1e-3f, n, 3, false, false

enum { CASES = 11, MNIST = 0, SHORT = 3 };

/* If a case's `flips` is false, its seed was chosen so that every input of a ReLU, in all steps of
   the reference, is at least 2e-5 away from 0. */
static const Case cases[CASES] = {
    {"mnist", 784, {300, 100}, 2, 10, 64, 1000, 0.05f, 0.9f, 0.0f, 50, 1, true, false, 0},
    {"mnist, plain SGD", 784, {300, 100}, 2, 10, 64, 1000, 0.1f, 0.0f, 0.0f, 50, 1, true, false, 0},
    {"mnist, 3 steps", 784, {300, 100}, 2, 10, 64, 100, 0.05f, 0.9f, 0.0f, 3, 41, false, false, 0},
    {"short last batch", 50, {61, 7}, 2, 10, 7, 60, 0.05f, 0.9f, 0.001f, 50, 55, false, true, 0},
    {"no hidden layer", 784, {0}, 0, 10, 64, 500, 0.05f, 0.9f, 0.0f, 50, 1, false, false, 0},
    {"one hidden layer", 17, {33}, 1, 10, 13, 100, 0.05f, 0.9f, 0.01f, 50, 5, false, true, 0},
    {"3 hidden", 31, {20, 11, 15}, 3, 10, 16, 100, 0.05f, 0.9f, 0.0f, 50, 38, false, true, 0},
    {"2 classes", 63, {13, 9}, 2, 2, 32, 150, 0.05f, 0.9f, 0.0f, 50, 37, false, false, 0},
    {"1000 classes", 63, {21, 10}, 2, 1000, 33, 150, 0.05f, 0.9f, 0.0f, 50, 43, false, false, 0},
    {"batch above rows", 50, {21, 11}, 2, 10, 100, 33, 0.05f, 0.9f, 0.0f, 50, 50, false, true, 0},
    {"batch of 1", 50, {33, 20}, 2, 10, 1, 40, 0.01f, 0.5f, 0.0f, 50, 33, false, true, 0},
};

/* Returns a network that every level supports. A GPU takes longer to train a step of it, even a
   step of few rows, than the host takes to queue the step. */
static inline const Case *busy_case(int level) {
  return &cases[quick() || level == CPU ? SHORT : MNIST];
}

/* Rows that a network can learn, because the label decides which pixels are more often bright. If
   the case's `lit` is 0, a sixth of the pixels is not 0, as in MNIST. */
typedef struct {
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
  size_t inputs;
} Data;

static inline Data make_data(const Case *c) {
  const size_t inputs = (size_t)c->inputs;
  Data d = {allocate(c->rows, inputs), allocate(c->rows, sizeof(uint16_t)), inputs};
  reference_fill_labels(d.labels, c->rows, c->classes, 1);
  reference_fill_pixels(d.pixels, c->rows * inputs, 2);
  for (uint64_t r = 0; r < c->rows; r++)
    for (size_t i = 0; i < inputs; i++) {
      const int chance = (int)(random_words(3, r, i).word[0] % 8);
      const bool bright = i % (size_t)c->classes == d.labels[r];
      if (chance > c->lit + (bright ? 4 : 0)) d.pixels[r * inputs + i] = 0;
    }
  return d;
}

/* whole_batches returns `rows`, rounded up to a multiple of the batch size. steps_of returns the
   number of steps for `rows` rows. */
static inline uint64_t whole_batches(const Case *c, uint64_t rows) {
  return round_up(rows, (uint64_t)c->batch);
}

static inline uint64_t steps_of(const Case *c, uint64_t rows) {
  return whole_batches(c, rows) / (uint64_t)c->batch;
}

/* Returns epoch number `epoch`, with all rows and all steps. */
static inline TrainRange epoch_of(const Case *c, uint64_t epoch) {
  return (TrainRange){.rows = c->rows,
                      .shuffled = epoch > 0,
                      .key = random_order_key(3, epoch),
                      .steps = steps_of(c, c->rows),
                      .learning_rate = c->learning_rate,
                      .dropout_key = 77 + epoch};
}

/* Calls `use` for each epoch, with the epoch's steps. The last epoch may have fewer steps. */
static inline void for_steps(const Case *c, void (*use)(void *context, TrainRange range),
                             void *context) {
  const uint64_t steps = quick() ? c->steps / 2 : c->steps;
  for (uint64_t epoch = 0, done = 0; done < steps; epoch++) {
    TrainRange range = epoch_of(c, epoch);
    if (range.steps > steps - done) range.steps = steps - done;
    range.updates = done;
    done += range.steps;
    use(context, range);
  }
}

/* ---- driving an engine ---------------------------------------------------------------------- */

static inline EngineConfig config_of(const Case *c, Fusion fusion, uint64_t dataset_rows,
                                     uint64_t staging_rows) {
  EngineConfig config = {.training = {.batch = c->batch,
                                      .seed = c->seed,
                                      .rule.momentum = c->momentum,
                                      .rule.weight_decay = c->weight_decay,
                                      .fusion = fusion,
                                      .threads = 2},
                         .dataset_rows = dataset_rows,
                         .staging_rows = staging_rows};
  OK(network_init(&config.network, c->inputs, c->hidden, c->hidden_count, c->classes, &error));
  return config;
}

/* Opens an engine of the level. Returns NULL if a selective level refuses the network, and checks
   that `error` then gives a reason. */
static inline Engine *open_config(EngineConfig config, int level) {
  config.training.fusion = levels[level].fusion;
  config.training.precision = levels[level].precision;
  error.text[0] = '\0';
  Engine *engine = (level == CPU ? engine_cpu_open : engine_cuda_open)(&config, &error);
  if (engine) return *place_of(NULL) = engine;
  if (!levels[level].selective) fail_msg("level %s: %s", levels[level].name, error.text);
  assert_true(strlen(error.text) > 0);
  print_message("left out: %s\n", error.text);
  return NULL;
}

static inline Engine *open_level(const Case *c, int level, uint64_t dataset_rows,
                                 uint64_t staging_rows) {
  return open_config(config_of(c, FUSION_AUTO, dataset_rows, staging_rows), level);
}

/* Uploads rows [from, from + rows) of *d to the engine's dataset, from row first_row on. */
static inline void send_rows(Engine *engine, int buffer, const Data *d, uint64_t from,
                             uint64_t rows, uint64_t first_row) {
  StagingBuffer s;
  OK(engine->call->staging(engine, buffer, &s, &error));
  for (uint64_t r = 0; r < rows; r++)
    memcpy(s.pixels + r * s.stride, d->pixels + (from + r) * d->inputs, d->inputs);
  memcpy(s.labels, d->labels + from, rows * sizeof *s.labels);
  OK(engine->call->upload(engine, buffer, first_row, rows, &error));
}

static inline void send_all(Engine *engine, const Data *d, uint64_t rows) {
  const uint64_t most = engine->config.staging_rows;
  int buffer = 0;
  for (uint64_t from = 0; from < rows; from += most, buffer = !buffer)
    send_rows(engine, buffer, d, from, min_size(rows - from, most), from);
}

/* Opens an engine and sends all rows of the case to its dataset. */
static inline Engine *open_loaded(const Case *c, int level, const Data *d) {
  Engine *engine = open_level(c, level, c->rows, (uint64_t)c->batch);
  send_all(engine, d, c->rows);
  return engine;
}

typedef void Check(int level, const Case *c, const Data *data);

/* Runs the check for a level and a case, unless the level refuses the case. */
static inline void check_level(Check *check, int level, const Case *c) {
  Engine *engine = open_level(c, level, c->rows, (uint64_t)c->batch);
  if (!engine) return;
  const Data data = make_data(c);
  close_engine(engine);
  check(level, c, &data);
}

/* Defines two tests that call one check: one for the CPU engine, and one for the first `count`
   levels on a GPU. The macro is followed by the check's body, which may use `level`. */
#define EACH_LEVEL(name, count)                                                                    \
  static void name(int level);                                                                     \
  ENGINE_TEST(name##_of_the_cpu) {                                                                 \
    name(CPU);                                                                                     \
  }                                                                                                \
  ENGINE_TEST(name##_of_cuda) {                                                                    \
    needs_gpu();                                                                                   \
    for (int l = 0; l < (count); l++) name(l);                                                     \
  }                                                                                                \
  static void name(int level)

/* Like EACH_LEVEL, but the check also gets the Case `of`, an expression that may use `level`. */
#define CONTRACT(name, count, of)                                                                  \
  static Check check_##name;                                                                       \
  EACH_LEVEL(name, count) {                                                                        \
    check_level(check_##name, level, of);                                                          \
  }                                                                                                \
  static void check_##name(int level, const Case *c, const Data *data)

static inline void train(Engine *engine, TrainRange range) {
  OK(engine->call->train(engine, &range, &error));
}

static inline EngineSums collect(Engine *engine) {
  EngineSums sums;
  OK(engine->call->collect(engine, &sums, &error));
  return sums;
}

/* The results of training. */
typedef struct {
  float *parameters;     /* the parameters; the optimizer's arrays follow in the same block */
  float *momentum;       /* the first of the optimizer's arrays */
  size_t floats, states; /* values in each array; number of the optimizer's arrays */
  EngineSums sums;
} Outcome;

static inline Outcome outcome_of(Engine *engine) {
  Outcome o = {.floats = engine->config.network.floats,
               .states = training_states(&engine->config.training)};
  o.parameters = allocate((1 + o.states) * o.floats, sizeof(float));
  o.momentum = o.parameters + o.floats;
  o.sums = collect(engine);
  OK(engine->call->read(engine, o.parameters, 1 + o.states, &error));
  return o;
}

static inline Outcome close_with_outcome(Engine *engine) {
  const Outcome o = outcome_of(engine);
  close_engine(engine);
  return o;
}

/* Two callbacks for for_steps. train_whole trains the range in one call. train_in_parts makes
   several calls; call number n trains n * `aligned` steps (see engine.h). */
static inline void train_whole(void *engine, TrainRange range) {
  train(engine, range);
}

static inline void train_in_parts(void *engine, TrainRange range) {
  Engine *e = engine;
  const uint64_t aligned = e->aligned > 1 ? e->aligned : 1, end = range.first_step + range.steps;
  for (uint64_t most = aligned; range.first_step < end; most += aligned) {
    const uint64_t left = end - range.first_step;
    range.steps = min_size(left, most);
    train(e, range);
    range.first_step += range.steps;
    range.updates += range.steps;
  }
}

/* Checks that the parameters and the optimizer's arrays have the same bits. */
static inline void assert_same_bits(const Outcome *a, const Outcome *b) {
  assert_int_equal(a->floats, b->floats);
  assert_memory_equal(a->parameters, b->parameters, (1 + a->states) * a->floats * sizeof(float));
}

/* Checks that both outcomes have the same bits and equal counts. The relative difference of the
   losses may be up to `off`, because float64 values may have been added in another order. */
static inline void assert_same_outcome(const Outcome *a, const Outcome *b, double off) {
  assert_same_bits(a, b);
  assert_int_equal(a->sums.rows, b->sums.rows);
  assert_int_equal(a->sums.correct, b->sums.correct);
  assert_close(a->sums.loss, b->sums.loss, off * a->sums.loss);
}

/* ---- the reference -------------------------------------------------------------------------- */

/* Returns a copy of the values in float64. */
static inline double *doubles_of(const float *values, size_t count) {
  double *doubles = allocate(count, sizeof *doubles);
  reference_to_double(values, count, doubles);
  return doubles;
}

/* A run of a case by the float64 reference. */
typedef struct {
  EngineConfig config;
  const Data *data;
  double *start, *parameters, *momentum; /* start holds the initial parameters */
  EngineSums sums;
} Reference;

static inline void reference_one(void *context, TrainRange range) {
  Reference *r = context;
  reference_train(&r->config, r->parameters, r->momentum, r->data->pixels, r->data->inputs,
                  r->data->labels, &range, &r->sums);
}

static inline Reference run_reference(const Case *c, EngineConfig config, const Data *d) {
  Reference r = {.config = config, .data = d};
  const size_t floats = config.network.floats, states = training_states(&config.training);
  float *initial = allocate(floats, sizeof *initial);
  network_initialise(&r.config.network, r.config.training.seed, initial);
  r.start = doubles_of(initial, floats);
  r.parameters = doubles_of(initial, floats);
  r.momentum = allocate(states * floats, sizeof(double));
  if (config.training.ema > 0)
    reference_to_double(initial, floats, r.momentum + (states - 1) * floats);
  for_steps(c, reference_one, &r);
  return r;
}

/* Returns ||out - expected|| / ||expected - start||: the error divided by the distance that
   training moved the values. A `start` of NULL stands for zeros. Returns 0 if there is no error,
   even if training moved nothing: an optimizer may leave an array at 0. */
static inline double way_error(const float *out, const double *expected, const double *start,
                               size_t count) {
  double difference = 0, way = 0;
  for (size_t i = 0; i < count; i++) {
    const double from = start ? start[i] : 0;
    difference += ((double)out[i] - expected[i]) * ((double)out[i] - expected[i]);
    way += (expected[i] - from) * (expected[i] - from);
  }
  if (difference == 0) return 0;
  return isfinite(difference) ? sqrt(difference / way) : INFINITY;
}
