/* The CUDA engine through engine.h alone, at every level of fusion, against the float64 reference
   and the CPU engine.

   TEST_QUICK in the environment keeps the small networks only, for compute-sanitizer. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine.h"
#include "support/cuda.h"
#include "base/random.h"
#include "exercise/reference.h"

/* A line a level and precision. */
static const struct {
  Fusion fusion;
  Precision precision;
  const char *name;
  bool choosy; /* may refuse a network: then there is nothing to test */
} levels[] = {
    {FUSION_NONE, PRECISION_FP32, "none", false},
    {FUSION_LAYER, PRECISION_FP32, "layer", false},
    {FUSION_STEP, PRECISION_FP32, "step", false},
    {FUSION_EPOCH, PRECISION_FP32, "epoch", true},
    {FUSION_EXERCISE, PRECISION_FP32, "exercise", false},
    {FUSION_LAYER, PRECISION_TF32, "layer, tf32", false},
    {FUSION_STEP, PRECISION_TF32, "step, tf32", false},
};
enum { LEVELS = sizeof levels / sizeof *levels, QUICK_LEVELS = 4 };

static bool quick;
static Error error;

/* Quick: those whose kernels wait for each other; the others' are alike or tested by themselves. */
static int tested_levels(void) {
  return quick ? QUICK_LEVELS : LEVELS;
}

static void *allocate(size_t count, size_t size) {
  void *memory = calloc(count, size);
  assert_non_null(memory);
  return memory;
}

/* ---- what is trained on --------------------------------------------------------------------- */

typedef struct {
  const char *name;
  int inputs, hidden[3], hidden_count, classes;
  int batch;
  uint64_t rows;
  float learning_rate, momentum, weight_decay;
  uint64_t steps; /* to be trained */
  uint64_t seed;  /* of the initial parameters */
  bool flips;     /* see assert_near_reference */
  bool quick;
} Case;

/* The seeds of the cases without `flips` keep every input of a ReLU, in all the steps, 2e-5 away
   from 0 in the reference. */
static const Case cases[] = {
    {"mnist", 784, {300, 100}, 2, 10, 64, 1000, 0.05f, 0.9f, 0.0f, 50, 1, true, false},
    {"mnist, plain SGD", 784, {300, 100}, 2, 10, 64, 1000, 0.1f, 0.0f, 0.0f, 50, 1, true, false},
    {"mnist, 3 steps", 784, {300, 100}, 2, 10, 64, 100, 0.05f, 0.9f, 0.0f, 3, 41, false, false},
    {"short last batch", 50, {61, 7}, 2, 10, 7, 60, 0.05f, 0.9f, 0.001f, 50, 55, false, true},
    {"no hidden layer", 784, {0}, 0, 10, 64, 500, 0.05f, 0.9f, 0.0f, 50, 1, false, false},
    {"one hidden layer", 17, {33}, 1, 10, 13, 100, 0.05f, 0.9f, 0.01f, 50, 5, false, true},
    {"3 hidden layers", 31, {20, 11, 15}, 3, 10, 16, 100, 0.05f, 0.9f, 0.0f, 50, 38, false, true},
    {"2 classes", 63, {13, 9}, 2, 2, 32, 150, 0.05f, 0.9f, 0.0f, 50, 37, false, false},
    {"1000 classes", 63, {21, 10}, 2, 1000, 33, 150, 0.05f, 0.9f, 0.0f, 50, 43, false, false},
    {"batch above rows", 50, {21, 11}, 2, 10, 100, 33, 0.05f, 0.9f, 0.0f, 50, 50, false, true},
    {"batch of 1", 50, {33, 20}, 2, 10, 1, 40, 0.01f, 0.5f, 0.0f, 50, 33, false, true},
};
enum { CASES = sizeof cases / sizeof *cases, MNIST = 0, SHORT = 3 };

static Network network_of(const Case *c) {
  Network network;
  OK(network_init(&network, c->inputs, c->hidden, c->hidden_count, c->classes, &error));
  return network;
}

/* Rows without gaps that can be learned from, a sixth of the pixels not 0, as in MNIST: a row is
   brighter where its label says. */
typedef struct {
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
  size_t inputs;
} Data;

static Data make_data(int inputs, int classes, uint64_t rows) {
  Data d = {allocate(rows, (size_t)inputs), allocate(rows, sizeof(uint16_t)), (size_t)inputs};
  reference_fill_labels(d.labels, rows, classes, 1);
  reference_fill_pixels(d.pixels, rows * d.inputs, 2);
  for (uint64_t r = 0; r < rows; r++)
    for (size_t i = 0; i < d.inputs; i++) {
      const uint32_t chance = random_words(3, r, i).word[0] % 8;
      if (chance > (i % (size_t)classes == d.labels[r] ? 4 : 0)) d.pixels[r * d.inputs + i] = 0;
    }
  return d;
}

static void free_data(Data *d) {
  free(d->pixels);
  free(d->labels);
}

/* The smallest buffer that holds `rows`. */
static uint64_t slot_for(const Case *c, uint64_t rows) {
  const uint64_t batch = (uint64_t)c->batch;
  return (rows + batch - 1) / batch * batch;
}

/* Epoch `epoch` over all the rows. */
static TrainRange epoch_of(const Case *c, uint64_t epoch) {
  return (TrainRange){.rows = c->rows,
                      .shuffled = epoch > 0,
                      .key = random_order_key(3, epoch),
                      .steps = slot_for(c, c->rows) / (uint64_t)c->batch,
                      .learning_rate = c->learning_rate};
}

/* ---- driving an engine ---------------------------------------------------------------------- */

static EngineConfig config_of(const Case *c, Fusion fusion, uint64_t dataset_rows,
                              uint64_t staging_rows) {
  return (EngineConfig){.network = network_of(c),
                        .batch = c->batch,
                        .seed = c->seed,
                        .momentum = c->momentum,
                        .weight_decay = c->weight_decay,
                        .fusion = fusion,
                        .threads = 2,
                        .dataset_rows = dataset_rows,
                        .staging_rows = staging_rows};
}

/* NULL where a choosy level refuses the network, with a reason. */
static Engine *open_level(const Case *c, int level, uint64_t dataset_rows, uint64_t staging_rows) {
  EngineConfig config = config_of(c, levels[level].fusion, dataset_rows, staging_rows);
  config.precision = levels[level].precision;
  error.text[0] = '\0';
  Engine *engine = engine_cuda_open(&config, &error);
  if (!engine && !levels[level].choosy)
    fail_msg("level %s, %s: %s", levels[level].name, c->name, error.text);
  if (!engine) assert_true(strlen(error.text) > 0);
  return engine;
}

/* Rows [from, from + rows) of the data go to dataset row first_row. */
static void send(Engine *engine, int buffer, const Data *d, uint64_t from, uint64_t rows,
                 uint64_t first_row) {
  StagingBuffer s;
  OK(engine->call->staging(engine, buffer, &s, &error));
  for (uint64_t r = 0; r < rows; r++)
    memcpy(s.pixels + r * s.stride, d->pixels + (from + r) * d->inputs, d->inputs);
  memcpy(s.labels, d->labels + from, rows * sizeof *s.labels);
  OK(engine->call->upload(engine, buffer, first_row, rows, &error));
}

static void send_all(Engine *engine, const Data *d, uint64_t rows) {
  const uint64_t most = engine->config.staging_rows;
  int buffer = 0;
  for (uint64_t from = 0; from < rows; from += most, buffer = !buffer)
    send(engine, buffer, d, from, rows - from < most ? rows - from : most, from);
}

static void train(Engine *engine, TrainRange range) {
  OK(engine->call->train(engine, &range, &error));
}

/* What training left behind. */
typedef struct {
  float *parameters, *momentum;
  size_t floats;
  EngineSums sums;
} Outcome;

static Outcome outcome_of(Engine *engine) {
  Outcome o = {.floats = engine->config.network.floats};
  o.parameters = allocate(o.floats, sizeof(float));
  o.momentum = allocate(o.floats, sizeof(float));
  OK(engine->call->collect(engine, &o.sums, &error));
  OK(engine->call->read(engine, o.parameters, o.momentum, &error));
  return o;
}

static Outcome close_with_outcome(Engine *engine) {
  const Outcome o = outcome_of(engine);
  engine->call->close(engine);
  return o;
}

static void free_outcome(Outcome *o) {
  free(o->parameters);
  free(o->momentum);
}

static void assert_same_bits(const Outcome *a, const Outcome *b) {
  assert_int_equal(a->floats, b->floats);
  assert_memory_equal(a->parameters, b->parameters, a->floats * sizeof(float));
  assert_memory_equal(a->momentum, b->momentum, a->floats * sizeof(float));
}

/* ---- against the reference ------------------------------------------------------------------ */

/* Calls `use` with the ranges of the case's steps, an epoch each but for the last. */
static void for_steps(const Case *c, void (*use)(void *context, TrainRange range), void *context) {
  uint64_t left = quick ? c->steps / 2 : c->steps;
  for (uint64_t epoch = 0; left > 0; epoch++) {
    TrainRange range = epoch_of(c, epoch);
    if (range.steps > left) range.steps = left;
    left -= range.steps;
    use(context, range);
  }
}

static void train_one(void *engine, TrainRange range) {
  train(engine, range);
}

static Outcome train_on(Engine *engine, const Case *c, const Data *d) {
  send_all(engine, d, c->rows);
  for_steps(c, train_one, engine);
  return close_with_outcome(engine);
}

typedef struct {
  EngineConfig config;
  const Data *data;
  double *start, *parameters, *momentum; /* start: before the first step */
  EngineSums sums;
} Reference;

static void reference_one(void *context, TrainRange range) {
  Reference *r = context;
  reference_train(&r->config, r->parameters, r->momentum, r->data->pixels, r->data->inputs,
                  r->data->labels, &range, &r->sums);
}

static Reference run_reference(const Case *c, const Data *d) {
  Reference r = {.config = config_of(c, FUSION_NONE, c->rows, c->rows), .data = d};
  const size_t floats = r.config.network.floats;
  float *initial = allocate(floats, sizeof *initial);
  r.start = allocate(floats, sizeof(double));
  r.parameters = allocate(floats, sizeof(double));
  r.momentum = allocate(floats, sizeof(double));
  network_initialise(&r.config.network, r.config.seed, initial);
  reference_to_double(initial, floats, r.start);
  reference_to_double(initial, floats, r.parameters);
  free(initial);
  for_steps(c, reference_one, &r);
  return r;
}

static void free_reference(Reference *r) {
  free(r->start);
  free(r->parameters);
  free(r->momentum);
}

/* ||out - ref|| / ||ref - start||: the error in parts of the way that training went. */
static double way_error(const float *out, const double *ref, const double *start, size_t count) {
  double difference = 0, way = 0;
  for (size_t i = 0; i < count; i++) {
    difference += ((double)out[i] - ref[i]) * ((double)out[i] - ref[i]);
    way += (ref[i] - start[i]) * (ref[i] - start[i]);
  }
  return isfinite(difference) ? sqrt(difference / way) : INFINITY;
}

static void assert_at_most(const char *what, const char *who, const char *name, double error_of,
                           double limit) {
  if (!(error_of <= limit))
    fail_msg("%s, %s: error of the %s %.3g, allowed %.3g", name, who, what, error_of, limit);
}

/* What 50 steps of float32 may add up to. Products are exact to some 1e-6; each step adds errors of
   that size to the weights, and every later step sees them. Measured was at most 5e-6 of the way
   that the weights went; 2e-5 leaves a factor of 4. tf32 is 8e-5 to 3e-2; a gradient left out, a
   row too many or a mean over the wrong count is 1e-3 and more.

   Only a ReLU can make more of a rounding: where its input is nearer to 0 than the roundings, one
   side lets a row's gradient through and the other does not, a flip of that neuron's gradient of
   that row. Where they cannot be ruled out - a million inputs of ReLUs in 50 steps of 64 rows
   through 400 neurons - one in twelve runs had a flip, and the worst of 48 was off by 6e-4. */
static void assert_near(int level, const Case *c, const Outcome *o, const double *parameters,
                        const double *momentum, const double *start, EngineSums sums) {
  const char *who = levels[level].name;
  const bool tf32 = levels[level].precision == PRECISION_TF32;
  const double limit = c->flips ? 1e-2 : tf32 ? 2e-3 : 2e-5;
  const double rows_off = fabs((double)o->sums.correct - (double)sums.correct);
  assert_at_most("parameters", who, c->name, way_error(o->parameters, parameters, start, o->floats),
                 limit);
  assert_at_most("momentum", who, c->name,
                 reference_relative_error(o->momentum, momentum, o->floats), 2 * limit);
  assert_at_most("loss", who, c->name, fabs(o->sums.loss - sums.loss) / sums.loss, limit / 10);
  assert_at_most("correct count", who, c->name, rows_off,
                 c->flips ? 0.01 * (double)sums.rows
                          : 1); /* 1: two logits may be as good as equal */
  assert_int_equal(o->sums.rows, sums.rows);
}

static void compare_levels(const Case *c, const Data *data, const Reference *r,
                           const Outcome *on_cpu) {
  double *cpu_parameters = allocate(on_cpu->floats, sizeof(double));
  double *cpu_momentum = allocate(on_cpu->floats, sizeof(double));
  reference_to_double(on_cpu->parameters, on_cpu->floats, cpu_parameters);
  reference_to_double(on_cpu->momentum, on_cpu->floats, cpu_momentum);
  for (int level = 0; level < tested_levels(); level++) {
    Engine *engine = open_level(c, level, c->rows, (uint64_t)c->batch);
    if (!engine) continue;
    Outcome o = train_on(engine, c, data);
    assert_near(level, c, &o, r->parameters, r->momentum, r->start, r->sums);
    assert_near(level, c, &o, cpu_parameters, cpu_momentum, r->start, on_cpu->sums);
    free_outcome(&o);
  }
  free(cpu_parameters);
  free(cpu_momentum);
}

static void test_same_as_reference_and_cpu(void **state) {
  (void)state;
  needs_gpu();
  for (int i = 0; i < CASES; i++) {
    const Case *c = &cases[i];
    if (quick && !c->quick) continue;
    Data data = make_data(c->inputs, c->classes, c->rows);
    Reference r = run_reference(c, &data);
    const EngineConfig config = config_of(c, FUSION_AUTO, c->rows, (uint64_t)c->batch);
    Engine *cpu = engine_cpu_open(&config, &error);
    OK(cpu != NULL);
    Outcome on_cpu = train_on(cpu, c, &data);
    compare_levels(c, &data, &r, &on_cpu);
    free_outcome(&on_cpu);
    free_reference(&r);
    free_data(&data);
  }
}

/* ---- the same bits -------------------------------------------------------------------------- */

/* The range in three calls: 1 step, 2 steps, the rest. */
static void train_in_parts(void *engine, TrainRange range) {
  static const uint64_t parts[] = {1, 2, UINT64_MAX};
  const uint64_t last = range.first_step + range.steps;
  for (int p = 0; p < 3 && range.first_step < last; p++) {
    const uint64_t left = last - range.first_step;
    range.steps = parts[p] < left ? parts[p] : left;
    train(engine, range);
    range.first_step += range.steps;
  }
}

static void check_same_bits(const Case *c, const Data *data, int level) {
  static void (*const ways[])(void *, TrainRange) = {train_one, train_one, train_in_parts};
  Outcome o[3];
  for (int w = 0; w < 3; w++) {
    Engine *engine = open_level(c, level, c->rows, slot_for(c, c->rows));
    if (!engine) return;
    send_all(engine, data, c->rows);
    for_steps(c, ways[w], engine);
    o[w] = close_with_outcome(engine);
  }
  for (int w = 1; w < 3; w++) {
    assert_same_bits(&o[0], &o[w]);
    assert_int_equal(o[0].sums.correct, o[w].sums.correct);
    assert_int_equal(o[0].sums.rows, o[w].sums.rows);
    /* a call's losses are added up before they join the sum: float64 in another order */
    assert_true(fabs(o[0].sums.loss - o[w].sums.loss) <= 1e-12 * o[0].sums.loss);
  }
  assert_true(o[0].sums.loss == o[1].sums.loss);
  for (int w = 0; w < 3; w++) free_outcome(&o[w]);
}

static void test_same_bits(void **state) {
  (void)state;
  needs_gpu();
  for (int i = 0; i < CASES; i++) {
    const Case *c = &cases[i];
    if (quick && i != SHORT) continue;
    Data data = make_data(c->inputs, c->classes, c->rows);
    for (int level = 0; level < tested_levels(); level++) check_same_bits(c, &data, level);
    free_data(&data);
  }
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Row r has one pixel, number r: only its step changes column r of the weights. Its label's
   weight grows by learning rate / rows of the step * (1 - p) once a time that the row is used,
   where p, at the start, is near 1/10. */
static void test_every_row_is_used_once_an_epoch(void **state) {
  (void)state;
  needs_gpu();
  enum { ROWS = 300, BATCH = 64, LAST = ROWS % BATCH };
  const Case c = {.name = "a pixel a row",
                  .inputs = ROWS,
                  .classes = 10,
                  .batch = BATCH,
                  .rows = ROWS,
                  .learning_rate = 0.5f,
                  .seed = 1};
  Data data = make_data(c.inputs, c.classes, c.rows);
  memset(data.pixels, 0, (size_t)ROWS * ROWS);
  for (size_t r = 0; r < ROWS; r++) data.pixels[r * ROWS + r] = 255;
  for (int level = 0; level < tested_levels(); level++) {
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
      Engine *engine = open_level(&c, level, ROWS, 2 * BATCH);
      if (!engine) continue;
      const Network n = engine->config.network;
      Outcome before = outcome_of(engine);
      send_all(engine, &data, ROWS);
      train(engine, epoch_of(&c, epoch));
      Outcome after = close_with_outcome(engine);
      assert_int_equal(after.sums.rows, ROWS);
      for (size_t r = 0; r < ROWS; r++) {
        const size_t weight = n.weight[0] + (size_t)data.labels[r] * ROWS + r;
        const float change = after.parameters[weight] - before.parameters[weight];
        assert_true(change >= 0.8f * c.learning_rate / BATCH);
        assert_true(change <= c.learning_rate / LAST);
      }
      free_outcome(&before);
      free_outcome(&after);
    }
  }
  free_data(&data);
}

/* Rows 20 to the end of the dataset, in more than one piece for an engine that takes some thousand
   rows at once. The two largest logits of a row are never nearer than 1e-4 here, so that even the
   correct count is exact; the loss is a mean of values exact to some 2^-24. */
static void test_evaluation(void **state) {
  (void)state;
  needs_gpu();
  enum { FIRST = 20 };
  const Case c = {.name = "evaluation",
                  .inputs = 20,
                  .hidden = {16, 12},
                  .hidden_count = 2,
                  .classes = 10,
                  .batch = 16,
                  .seed = 54};
  static const uint64_t counts[] = {1, 10001, 20493};
  const uint64_t most = FIRST + counts[2];
  Data data = make_data(c.inputs, c.classes, most);
  for (int i = 0; i < (quick ? 1 : 3); i++) {
    for (int level = 0; level < tested_levels(); level++) {
      const uint64_t rows = FIRST + counts[i];
      Engine *engine = open_level(&c, level, rows, 4096);
      if (!engine) continue;
      send_all(engine, &data, rows);
      Outcome before = outcome_of(engine);
      OK(engine->call->evaluate(engine, FIRST, counts[i], &error));
      Outcome after = close_with_outcome(engine);
      double *parameters = allocate(after.floats, sizeof *parameters);
      reference_to_double(after.parameters, after.floats, parameters);
      EngineSums sums = {0};
      const Network n = network_of(&c);
      reference_evaluate(&n, parameters, data.pixels, data.inputs, data.labels, FIRST, counts[i],
                         &sums);
      assert_same_bits(&before, &after);
      assert_int_equal(after.sums.rows, counts[i]);
      assert_int_equal(after.sums.correct, sums.correct);
      assert_true(fabs(after.sums.loss - sums.loss) <= 1e-6 * sums.loss);
      free(parameters);
      free_outcome(&before);
      free_outcome(&after);
    }
  }
  free_data(&data);
}

/* Rows of logits, judged as evaluate judges them, in float64. */
static EngineSums judge(const float *logits, const uint16_t *labels, uint64_t rows, int classes) {
  EngineSums sums = {.rows = rows};
  for (uint64_t r = 0; r < rows; r++, logits += classes) {
    double sum = 0;
    int best = 0;
    for (int k = 1; k < classes; k++)
      if (logits[k] > logits[best]) best = k;
    for (int k = 0; k < classes; k++) sum += exp((double)logits[k] - (double)logits[best]);
    sums.loss += log(sum) + (double)logits[best] - (double)logits[labels[r]];
    sums.correct += best == labels[r];
  }
  return sums;
}

/* Logits are those that evaluate judges, in more than one piece; prediction waits for what is
   queued before it, and the sums know nothing of it. */
static void test_prediction(void **state) {
  (void)state;
  needs_gpu();
  enum { FIRST = 20, CLASSES = 10 };
  const Case c = {.name = "prediction",
                  .inputs = 20,
                  .hidden = {16, 12},
                  .hidden_count = 2,
                  .classes = CLASSES,
                  .batch = 16,
                  .rows = quick ? 100 : 20513,
                  .learning_rate = 0.05f,
                  .momentum = 0.9f,
                  .seed = 54};
  const uint64_t count = c.rows - FIRST;
  Data data = make_data(c.inputs, c.classes, c.rows);
  float *queued = allocate(count * CLASSES, sizeof *queued);
  float *again = allocate(count * CLASSES, sizeof *again);
  for (int level = 0; level < tested_levels(); level++) {
    Engine *engine = open_level(&c, level, c.rows, 4096);
    if (!engine) continue;
    send_all(engine, &data, c.rows);
    train(engine, epoch_of(&c, 1));
    OK(engine->call->predict(engine, FIRST, count, queued, &error));
    EngineSums sums;
    OK(engine->call->collect(engine, &sums, &error));
    assert_int_equal(sums.rows, c.rows); /* the training's */
    OK(engine->call->evaluate(engine, FIRST, count, &error));
    OK(engine->call->predict(engine, FIRST, count, again, &error));
    assert_memory_equal(queued, again, count * CLASSES * sizeof *again);
    OK(engine->call->collect(engine, &sums, &error));
    const EngineSums expected = judge(again, data.labels + FIRST, count, CLASSES);
    assert_int_equal(sums.rows, expected.rows);
    assert_int_equal(sums.correct, expected.correct);
    assert_true(fabs(sums.loss - expected.loss) <= 1e-6 * expected.loss);
    OK(engine->call->predict(engine, c.rows, 0, NULL, &error));
    engine->call->close(engine);
  }
  free(queued);
  free(again);
  free_data(&data);
}

/* ---- the double buffer ---------------------------------------------------------------------- */

typedef enum { IN_TURN, SLOW_HOST, WAITING, RESIDENT, PACES } Pace;

static void keep_pace(Engine *engine, Pace pace, EngineSums *sums) {
  if (pace == SLOW_HOST) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  if (pace != WAITING) return;
  EngineSums some;
  OK(engine->call->collect(engine, &some, &error));
  sums->loss += some.loss;
  sums->correct += some.correct;
  sums->rows += some.rows;
}

static void add_rest(Outcome *o, const EngineSums *sums) {
  o->sums.loss += sums->loss;
  o->sums.correct += sums->correct;
  o->sums.rows += sums->rows;
}

/* A network that every level serves, trained for long on few rows: the device falls behind. */
static const Case *busy_case(void) {
  return &cases[quick ? SHORT : MNIST];
}

/* The data streams through two buffers of the dataset in turn; RESIDENT, each window has a place of
   its own. A window is trained on again and again, until the host is far ahead of the device,
   then evaluated. */
static Outcome stream(Engine *engine, const Case *c, const Data *data, Pace pace) {
  const uint64_t window = engine->config.staging_rows;
  EngineSums sums = {0};
  uint64_t turn = 0;
  for (uint64_t from = 0; from < c->rows; from += window, turn++) {
    const uint64_t rows = c->rows - from < window ? c->rows - from : window;
    const uint64_t first_row = pace == RESIDENT ? from : turn % 2 * window;
    const TrainRange range = {.first_row = first_row,
                              .rows = rows,
                              .shuffled = turn > 2,
                              .key = 5,
                              .steps = slot_for(c, rows) / (uint64_t)c->batch,
                              .learning_rate = 0.001f};
    keep_pace(engine, pace, &sums);
    send(engine, (int)(turn % 2), data, from, rows, first_row);
    for (int again = 0; again < (quick ? 2 : 40); again++) train(engine, range);
    keep_pace(engine, pace, &sums);
    OK(engine->call->evaluate(engine, first_row, rows, &error));
  }
  Outcome o = close_with_outcome(engine);
  add_rest(&o, &sums);
  return o;
}

static void test_streaming(void **state) {
  (void)state;
  needs_gpu();
  const Case *c = busy_case();
  const uint64_t window = 2 * (uint64_t)c->batch;
  Data data = make_data(c->inputs, c->classes, c->rows);
  for (int level = 0; level < tested_levels(); level++) {
    Outcome o[PACES];
    bool refused = false;
    for (int pace = 0; pace < PACES && !refused; pace++) {
      Engine *engine = open_level(c, level, pace == RESIDENT ? c->rows : 2 * window, window);
      refused = !engine;
      if (engine) o[pace] = stream(engine, c, &data, (Pace)pace);
    }
    if (refused) continue;
    for (int pace = 1; pace < PACES; pace++) {
      assert_same_bits(&o[0], &o[pace]);
      assert_int_equal(o[0].sums.rows, o[pace].sums.rows);
      assert_int_equal(o[0].sums.correct, o[pace].sums.correct);
      assert_true(fabs(o[0].sums.loss - o[pace].sums.loss) <= 1e-12 * o[0].sums.loss);
    }
    for (int pace = 0; pace < PACES; pace++) free_outcome(&o[pace]);
  }
  free_data(&data);
}

/* Rows are replaced while steps on them are still queued, from either buffer, in whole and in part:
   the copy must wait for exactly those. */
static Outcome replace_rows(Engine *engine, const Case *c, const Data *data, Pace pace) {
  enum { UPLOADS = 8 };
  const uint64_t rows = c->rows / 2, half = rows / 2;
  const struct {
    int buffer;
    uint64_t first_row, rows;
  } uploads[UPLOADS] = {
      {0, 0, rows}, {1, 0, rows},           {0, 0, rows}, {0, 0, rows},
      {0, 0, half}, {1, half, rows - half}, {0, 0, rows}, {1, half, half / 2},
  };
  EngineSums sums = {0};
  for (int u = 0; u < UPLOADS; u++) {
    send(engine, uploads[u].buffer, data, (uint64_t)u, uploads[u].rows, uploads[u].first_row);
    for (uint64_t again = 0; again < (quick ? 2 : 40); again++)
      train(engine, (TrainRange){.rows = rows,
                                 .shuffled = true,
                                 .key = again,
                                 .steps = slot_for(c, rows) / (uint64_t)c->batch,
                                 .learning_rate = 0.001f});
    keep_pace(engine, pace, &sums);
  }
  Outcome o = close_with_outcome(engine);
  add_rest(&o, &sums);
  return o;
}

static void test_upload_over_rows_in_use_waits(void **state) {
  (void)state;
  needs_gpu();
  const Case *c = busy_case();
  Data data = make_data(c->inputs, c->classes, c->rows);
  const uint64_t staging_rows = slot_for(c, c->rows / 2);
  for (int level = 0; level < tested_levels(); level++) {
    Engine *hasty = open_level(c, level, c->rows, staging_rows);
    if (!hasty) continue;
    Outcome at_once = replace_rows(hasty, c, &data, IN_TURN);
    Outcome waiting = replace_rows(open_level(c, level, c->rows, staging_rows), c, &data, WAITING);
    assert_same_bits(&at_once, &waiting);
    assert_int_equal(at_once.sums.rows, waiting.sums.rows);
    assert_int_equal(at_once.sums.correct, waiting.sums.correct);
    free_outcome(&at_once);
    free_outcome(&waiting);
  }
  free_data(&data);
}

/* ---- the rest of the seam ------------------------------------------------------------------- */

static void test_collect_starts_anew(void **state) {
  (void)state;
  needs_gpu();
  const Case *c = &cases[SHORT];
  Data data = make_data(c->inputs, c->classes, c->rows);
  for (int level = 0; level < tested_levels(); level++) {
    Engine *engine = open_level(c, level, c->rows, 70);
    if (!engine) continue;
    EngineSums sums;
    OK(engine->call->collect(engine, &sums, &error));
    assert_int_equal(sums.rows, 0);
    send_all(engine, &data, c->rows);
    train(engine, epoch_of(c, 1));
    OK(engine->call->evaluate(engine, 0, 5, &error));
    OK(engine->call->collect(engine, &sums, &error));
    assert_int_equal(sums.rows, c->rows + 5);
    OK(engine->call->evaluate(engine, 3, 17, &error));
    OK(engine->call->collect(engine, &sums, &error));
    assert_int_equal(sums.rows, 17);
    assert_true(sums.loss > 0);
    train(engine, (TrainRange){.rows = c->rows}); /* no steps */
    OK(engine->call->evaluate(engine, 0, 0, &error));
    OK(engine->call->collect(engine, &sums, &error));
    assert_int_equal(sums.rows, 0);
    assert_int_equal(sums.correct, 0);
    assert_true(sums.loss == 0);
    engine->call->close(engine);
  }
  free_data(&data);
}

/* What is read can be written, and training goes on from there as if nothing had happened. */
static void test_read_and_write(void **state) {
  (void)state;
  needs_gpu();
  const Case *c = busy_case();
  Data data = make_data(c->inputs, c->classes, c->rows);
  for (int level = 0; level < tested_levels(); level++) {
    Engine *first = open_level(c, level, c->rows, (uint64_t)c->batch);
    if (!first) continue;
    Engine *second = open_level(c, level, c->rows, (uint64_t)c->batch);
    send_all(first, &data, c->rows);
    send_all(second, &data, c->rows);
    train(first, epoch_of(c, 0));
    Outcome saved = outcome_of(first);
    train(first, epoch_of(c, 1));
    OK(second->call->write(second, saved.parameters, NULL, &error));
    OK(second->call->write(second, NULL, saved.momentum, &error));
    OK(second->call->read(second, NULL, NULL, &error));
    Outcome written = outcome_of(second);
    assert_same_bits(&saved, &written);
    train(second, epoch_of(c, 1));
    Outcome through = close_with_outcome(first), resumed = close_with_outcome(second);
    assert_same_bits(&through, &resumed);
    free_outcome(&saved);
    free_outcome(&written);
    free_outcome(&through);
    free_outcome(&resumed);
  }
  free_data(&data);
}

/* Parameters begin as network_initialise says, momentum at 0; no learning rate, no change. */
/* The order of rows is that of the range at hand, though first row and key are as before. */
static void test_order_of_other_rows(void **state) {
  (void)state;
  needs_gpu();
  const Case *c = &cases[SHORT];
  Data data = make_data(c->inputs, c->classes, c->rows);
  TrainRange all = epoch_of(c, 1), half = all;
  half.rows = c->rows / 2;
  half.steps = (half.rows + (uint64_t)c->batch - 1) / (uint64_t)c->batch;
  for (int level = 0; level < tested_levels(); level++) {
    Engine *both = open_level(c, level, c->rows, (uint64_t)c->batch);
    if (!both) continue;
    Engine *second = open_level(c, level, c->rows, (uint64_t)c->batch);
    send_all(both, &data, c->rows);
    send_all(second, &data, c->rows);
    train(both, all);
    Outcome between = outcome_of(both);
    OK(second->call->write(second, between.parameters, between.momentum, &error));
    train(both, half);
    train(second, half);
    Outcome x = close_with_outcome(both), y = close_with_outcome(second);
    assert_same_bits(&x, &y);
    free_outcome(&between);
    free_outcome(&x);
    free_outcome(&y);
  }
  free_data(&data);
}

static void test_learning_rate_0(void **state) {
  (void)state;
  needs_gpu();
  const Case *c = busy_case();
  Data data = make_data(c->inputs, c->classes, c->rows);
  for (int level = 0; level < tested_levels(); level++) {
    Engine *engine = open_level(c, level, c->rows, (uint64_t)c->batch);
    if (!engine) continue;
    Outcome before = outcome_of(engine);
    float *initial = allocate(before.floats, sizeof *initial);
    const Network n = network_of(c);
    network_initialise(&n, c->seed, initial);
    assert_memory_equal(before.parameters, initial, before.floats * sizeof(float));
    for (size_t i = 0; i < before.floats; i++) assert_true(before.momentum[i] == 0);
    send_all(engine, &data, c->rows);
    TrainRange range = epoch_of(c, 1);
    range.learning_rate = 0;
    train(engine, range);
    Outcome after = close_with_outcome(engine);
    assert_memory_equal(after.parameters, initial, after.floats * sizeof(float));
    free(initial);
    free_outcome(&before);
    free_outcome(&after);
  }
  free_data(&data);
}

static void refused(bool done, const char *call, int line) {
  if (done) fail_msg("line %d: %s was not refused", line, call);
  assert_true(strlen(error.text) > 10);
  error.text[0] = '\0';
}
#define REFUSED(call) refused(call, #call, __LINE__)

/* Nothing outside the dataset is accepted, and the engine goes on working. */
static void test_refusals(void **state) {
  (void)state;
  needs_gpu();
  const Case *c = &cases[SHORT];
  const uint64_t batch = (uint64_t)c->batch, staging_rows = 4 * batch;
  Data data = make_data(c->inputs, c->classes, c->rows);
  for (int level = 0; level < tested_levels(); level++) {
    Engine *engine = open_level(c, level, c->rows, staging_rows);
    if (!engine) continue;
    const EngineOperations *call = engine->call;
    const TrainRange good = epoch_of(c, 0);
    TrainRange bad[] = {good, good, good, good};
    bad[0].rows = c->rows + 1;
    bad[1].first_row = 1;
    bad[2].steps = good.steps + 1;
    bad[3].rows = 0;
    error.text[0] = '\0';
    REFUSED(call->upload(engine, 0, c->rows - 4, 5, &error));
    REFUSED(call->upload(engine, 1, 0, staging_rows + 1, &error));
    REFUSED(call->evaluate(engine, c->rows - 4, 5, &error));
    REFUSED(call->predict(engine, c->rows - 4, 5, (float[50]){0}, &error));
    for (int b = 0; b < 4; b++) REFUSED(call->train(engine, &bad[b], &error));
    send_all(engine, &data, c->rows);
    train(engine, good);
    Outcome o = close_with_outcome(engine);
    assert_int_equal(o.sums.rows, c->rows);
    free_outcome(&o);
  }
  free_data(&data);
}

static void test_auto_says_which_and_why(void **state) {
  (void)state;
  needs_gpu();
  for (int i = 0; i < CASES; i++) {
    const EngineConfig config =
        config_of(&cases[i], FUSION_AUTO, cases[i].rows, (uint64_t)cases[i].batch);
    Engine *engine = engine_cuda_open(&config, &error);
    OK(engine != NULL);
    assert_int_not_equal(engine->config.fusion, FUSION_AUTO);
    assert_true(strlen(engine->reason) > 0);
    assert_true(strlen(engine->device) > 0);
    assert_true(engine->memory > 0);
    engine->call->close(engine);
  }
}

/* tf32 is a permission: what cannot use it runs at fp32 and says so. */
static void test_precision_in_use(void **state) {
  (void)state;
  needs_gpu();
  static const struct {
    Fusion fusion;
    Precision asked, used;
    const char *reason;
  } ways[] = {{FUSION_STEP, PRECISION_TF32, PRECISION_TF32, ", at tf32"},
              {FUSION_LAYER, PRECISION_TF32, PRECISION_TF32, ", at tf32"},
              {FUSION_NONE, PRECISION_TF32, PRECISION_FP32, ", at fp32"},
              {FUSION_STEP, PRECISION_FP32, PRECISION_FP32, ""}};
  const Case *c = &cases[SHORT];
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    EngineConfig config = config_of(c, ways[i].fusion, c->rows, (uint64_t)c->batch);
    config.precision = ways[i].asked;
    Engine *engine = engine_cuda_open(&config, &error);
    OK(engine != NULL);
    assert_int_equal(engine->config.precision, ways[i].used);
    const char *comma = strchr(engine->reason, ',');
    assert_string_equal(comma ? comma : "", ways[i].reason);
    engine->call->close(engine);
  }
}

/* Bytes of the device's memory that are free, 0 if unknown. */
static size_t free_memory(void) {
  size_t available = 0;
#ifdef HAVE_CUDA
  size_t total;
  assert_int_equal(cudaMemGetInfo(&available, &total), cudaSuccess);
#endif
  return available;
}

/* Activations of 1.8 TB. What was had before memory ran out is given back, and the failure is
   told once: the next engine knows nothing of it. */
static void test_a_network_too_big_leaks_nothing(void **state) {
  (void)state;
  needs_gpu();
  if (quick) {
    print_message("under a sanitizer a failed allocation counts as a fault\n");
    skip();
  }
  enum { WIDE = NETWORK_MAX_HIDDEN, BATCH = 1000000, TIMES = 8 };
  const int hidden[] = {WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE};
  const Case *small = &cases[SHORT];
  Data data = make_data(small->inputs, small->classes, small->rows);
  for (int level = 0; level < tested_levels(); level++) {
    EngineConfig config = config_of(small, levels[level].fusion, BATCH, BATCH);
    OK(network_init(&config.network, 1, hidden, 7, 10, &error));
    config.batch = BATCH;
    size_t before = 0;
    for (int time = 0; time <= TIMES; time++) {
      error.text[0] = '\0';
      assert_null(engine_cuda_open(&config, &error));
      assert_true(strlen(error.text) > 10);
      if (time == 0) before = free_memory(); /* what the driver keeps for itself it has by now */
    }
    assert_true(free_memory() + (4 << 20) >= before);
    Engine *engine = open_level(small, level, small->rows, (uint64_t)small->batch);
    if (!engine) continue;
    Outcome o = train_on(engine, small, &data);
    assert_true(o.sums.rows > 0);
    free_outcome(&o);
  }
  free_data(&data);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_as_reference_and_cpu),
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_every_row_is_used_once_an_epoch),
      cmocka_unit_test(test_evaluation),
      cmocka_unit_test(test_prediction),
      cmocka_unit_test(test_streaming),
      cmocka_unit_test(test_upload_over_rows_in_use_waits),
      cmocka_unit_test(test_collect_starts_anew),
      cmocka_unit_test(test_read_and_write),
      cmocka_unit_test(test_learning_rate_0),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_auto_says_which_and_why),
      cmocka_unit_test(test_precision_in_use),
      cmocka_unit_test(test_order_of_other_rows),
      cmocka_unit_test(test_a_network_too_big_leaks_nothing),
  };
  quick = getenv("TEST_QUICK") != NULL;
  if (getenv("TEST_FILTER")) cmocka_set_test_filter(getenv("TEST_FILTER"));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
