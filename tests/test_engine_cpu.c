/* The CPU engine against the float64 reference, and what engine.h promises. */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "base/random.h"
#include "exercise/reference.h"

/* After 50 steps. A sum of n float32 products errs by some sqrt(n) roundings of 6e-8, for n of
   784 about 1e-6 of a gradient; with momentum 0.9 and learning rate 0.05 half of it gets into
   the weights each step, and 50 of them, of either sign, add to a few 1e-6 of the way that the
   weights have gone, which is less than a tenth of their norm. Seen: 2e-7 of the weights, 4e-7
   of the momentum. What may be added on another machine: a ReLU whose input is within a rounding
   of 0 opens on one side only. One of 300 units for one of 16 rows is 1 / sqrt(300 x 16) of
   a gradient, 1e-2; ten times less of the momentum, and some 1e-5 of the weights. */
static const double weights_bound = 3e-5, momentum_bound = 2e-3, loss_bound = 1e-5;

/* ---- a dataset of rows, an engine on it ---------------------------------------------------- */

typedef struct {
  int inputs, classes;
  uint64_t rows;
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
} Data;

/* Rows of which about `lit` of the pixels are not black. Labels follow a few pixels, so that there
   is something to learn. */
static Data make_data(int inputs, int classes, uint64_t rows, double lit) {
  Data data = {.inputs = inputs, .classes = classes, .rows = rows};
  const size_t count = (size_t)inputs * rows;
  uint8_t *mask = malloc(count);
  data.pixels = malloc(count);
  data.labels = malloc(rows * sizeof *data.labels);
  assert_true(mask && data.pixels && data.labels);
  reference_fill_pixels(data.pixels, count, 11);
  reference_fill_pixels(mask, count, 12);
  reference_fill_labels(data.labels, rows, classes, 13);
  for (size_t i = 0; i < count; i++)
    if (mask[i] >= 256 * lit) data.pixels[i] = 0;
  for (uint64_t r = 0; r < rows; r++)
    data.pixels[r * (uint64_t)inputs + data.labels[r] % (uint64_t)inputs] = 255;
  free(mask);
  return data;
}

static void free_data(Data *data) {
  free(data->pixels);
  free(data->labels);
}

static EngineConfig make_config(const Data *data, const int *hidden, int count, int batch) {
  EngineConfig config = {.batch = batch,
                         .seed = 3,
                         .momentum = 0.9f,
                         .weight_decay = 1e-3f,
                         .threads = 2,
                         .dataset_rows = data->rows};
  Error error;
  assert_true(network_init(&config.network, data->inputs, hidden, count, data->classes, &error));
  config.staging_rows = (data->rows + (uint64_t)batch - 1) / (uint64_t)batch * (uint64_t)batch;
  return config;
}

/* Puts rows [from, from + rows) of the data into buffer `buffer`, and that to dataset row `to`. */
static void upload(Engine *engine, const Data *data, int buffer, uint64_t from, uint64_t to,
                   uint64_t rows) {
  StagingBuffer s;
  Error error;
  assert_true(engine->call->staging(engine, buffer, &s, &error));
  assert_int_equal(s.stride, (data->inputs + 15) / 16 * 16);
  memset(s.pixels, 0xff, s.stride * rows); /* what follows a row's pixels must not matter */
  for (uint64_t r = 0; r < rows; r++) {
    memcpy(s.pixels + r * s.stride, data->pixels + (from + r) * (uint64_t)data->inputs,
           (size_t)data->inputs);
    s.labels[r] = data->labels[from + r];
  }
  assert_true(engine->call->upload(engine, buffer, to, rows, &error));
  memset(s.pixels, 0xaa, s.stride * rows); /* free to be filled again */
}

static Engine *open_engine(const EngineConfig *config, const Data *data) {
  Error error;
  Engine *engine = engine_cpu_open(config, &error);
  if (!engine) fail_msg("%s", error.text);
  upload(engine, data, 0, 0, 0, data->rows);
  return engine;
}

static void train(Engine *engine, const TrainRange *range) {
  Error error;
  if (!engine->call->train(engine, range, &error)) fail_msg("%s", error.text);
}

static EngineSums collect(Engine *engine) {
  EngineSums sums;
  Error error;
  assert_true(engine->call->collect(engine, &sums, &error));
  return sums;
}

/* Parameters, then momentum: 2 * floats values. */
static float *weights_of(Engine *engine) {
  const size_t floats = engine->config.network.floats;
  float *values = malloc(2 * floats * sizeof *values);
  Error error;
  assert_non_null(values);
  memset(values, 0xff, 2 * floats * sizeof *values);
  assert_true(engine->call->read(engine, values, values + floats, &error));
  return values;
}

static uint64_t steps_of(const EngineConfig *config, uint64_t rows) {
  return (rows + (uint64_t)config->batch - 1) / (uint64_t)config->batch;
}

/* Some epochs on all the data; returns the weights. */
static float *run(const EngineConfig *config, const Data *data, uint64_t epochs, EngineSums *sums) {
  Engine *engine = open_engine(config, data);
  for (uint64_t epoch = 0; epoch < epochs; epoch++)
    train(engine, &(TrainRange){.rows = data->rows,
                                .shuffled = true,
                                .key = random_order_key(1, epoch),
                                .steps = steps_of(config, data->rows),
                                .learning_rate = 0.05f});
  if (sums) *sums = collect(engine);
  float *weights = weights_of(engine);
  engine->call->close(engine);
  return weights;
}

/* ---- against the reference --------------------------------------------------------------- */

/* Both start from the engine's initial weights; `steps` steps of shuffled epochs. */
static void compare(const Data *data, const EngineConfig *config, uint64_t steps) {
  Engine *engine = open_engine(config, data);
  const size_t floats = config->network.floats;
  float *initial = weights_of(engine);
  double *expected = malloc(2 * floats * sizeof *expected);
  assert_non_null(expected);
  reference_to_double(initial, 2 * floats, expected);
  EngineSums sums = {0};
  const uint64_t a_epoch = steps_of(config, data->rows);
  for (uint64_t done = 0; done < steps; done += a_epoch) {
    const TrainRange range = {.rows = data->rows,
                              .shuffled = true,
                              .key = random_order_key(1, done),
                              .steps = steps - done < a_epoch ? steps - done : a_epoch,
                              .learning_rate = 0.05f};
    train(engine, &range);
    reference_train(config, expected, expected + floats, data->pixels, (size_t)data->inputs,
                    data->labels, &range, &sums);
  }
  const EngineSums trained = collect(engine);
  float *weights = weights_of(engine);
  const double parameters = reference_relative_error(weights, expected, floats);
  const double momentum = reference_relative_error(weights + floats, expected + floats, floats);
  const double loss = fabs(trained.loss / sums.loss - 1);
  if (!(parameters < weights_bound && momentum < momentum_bound && loss < loss_bound))
    fail_msg("%d inputs, %d classes, batch %d: parameters %g, momentum %g, loss %g", data->inputs,
             data->classes, config->batch, parameters, momentum, loss);
  assert_int_equal(trained.rows, sums.rows);
  assert_true(llabs((long long)trained.correct - (long long)sums.correct) <= 1);

  Error error;
  EngineSums tested = {0};
  reference_evaluate(&config->network, expected, data->pixels, (size_t)data->inputs, data->labels,
                     1, data->rows - 1, &tested);
  assert_true(engine->call->evaluate(engine, 1, data->rows - 1, &error));
  const EngineSums evaluated = collect(engine);
  assert_int_equal(evaluated.rows, tested.rows);
  if (tested.rows) assert_true(fabs(evaluated.loss / tested.loss - 1) < loss_bound);
  assert_true(llabs((long long)evaluated.correct - (long long)tested.correct) <= 1);
  engine->call->close(engine);
  free(weights);
  free(expected);
  free(initial);
}

/* The default network on rows as black as MNIST's, the last batch short. */
static void fifty_steps(void **state) {
  (void)state;
  Data data = make_data(784, 10, 75, 0.19);
  const EngineConfig config = make_config(&data, (const int[]){300, 100}, 2, 16);
  compare(&data, &config, 50);
  free_data(&data);
}

static void shapes_that_divide_nothing(void **state) {
  (void)state;
  static const struct {
    int inputs, hidden[3], count, classes, batch;
    uint64_t rows;
    double lit;
  } cases[] = {
      {1, {1}, 1, 2, 1, 1, 1},           {1, {0}, 0, 2, 3, 7, 1},
      {63, {65}, 1, 10, 17, 50, 0.3},    {65, {63, 1, 33}, 3, 5, 5, 23, 1},
      {784, {0}, 0, 10, 64, 100, 0.2},   {30, {40}, 1, 1000, 20, 90, 0.5},
      {17, {200}, 1, 3, 1, 40, 0.5},     {100, {31, 29}, 2, 1024, 48, 60, 0.01},
      {20, {24}, 1, 4, 1000, 33, 0.5},   {12, {16, 16}, 2, 16, 16, 32, 0.5},
      {40, {100}, 1, 10, 300, 700, 0.1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Data data = make_data(cases[i].inputs, cases[i].classes, cases[i].rows, cases[i].lit);
    const EngineConfig config = make_config(&data, cases[i].hidden, cases[i].count, cases[i].batch);
    compare(&data, &config, 20);
    free_data(&data);
  }
}

/* What the kernels leave out, rows that are all black, is no error either. */
static void black_rows(void **state) {
  (void)state;
  Data data = make_data(50, 3, 40, 0.3);
  memset(data.pixels + 50 * 8, 0, 50 * 20);
  const EngineConfig config = make_config(&data, (const int[]){20}, 1, 8);
  compare(&data, &config, 20);
  free_data(&data);
}

static void learns(void **state) {
  (void)state;
  Data data = make_data(64, 10, 2000, 0.1);
  EngineConfig config = make_config(&data, (const int[]){32}, 1, 64);
  config.weight_decay = 0;
  EngineSums sums;
  free(run(&config, &data, 1, &sums));
  const double first = sums.loss / (double)sums.rows;
  free(run(&config, &data, 10, &sums));
  assert_int_equal(sums.rows, 10 * 2000);
  assert_true(sums.loss / (double)sums.rows < first / 4);
  assert_true((double)sums.correct > 0.9 * (double)sums.rows);
  free_data(&data);
}

/* ---- the same bits ----------------------------------------------------------------------- */

static void threads_and_runs_do_not_matter(void **state) {
  (void)state;
  static const int threads[] = {1, 1, 2, 3, 7, 40};
  Data data = make_data(200, 10, 330, 0.3);
  EngineConfig config = make_config(&data, (const int[]){90, 33}, 2, 64);
  const size_t bytes = 2 * config.network.floats * sizeof(float);
  float *first = NULL;
  EngineSums first_sums;
  for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
    EngineSums sums;
    config.threads = threads[t];
    float *weights = run(&config, &data, 3, &sums);
    if (first) {
      assert_memory_equal(weights, first, bytes);
      assert_memory_equal(&sums, &first_sums, sizeof sums);
      free(weights);
    } else {
      first = weights;
      first_sums = sums;
    }
  }
  free(first);
  free_data(&data);
}

/* The seed decides, and nothing else. */
static void seeds_matter(void **state) {
  (void)state;
  Data data = make_data(20, 3, 10, 0.5);
  EngineConfig config = make_config(&data, (const int[]){5}, 1, 4);
  float *a = run(&config, &data, 0, NULL), *expected = malloc(config.network.floats * sizeof *a);
  assert_non_null(expected);
  network_initialise(&config.network, config.seed, expected);
  assert_memory_equal(a, expected, config.network.floats * sizeof *a);
  for (size_t i = 0; i < config.network.floats; i++) assert_true(a[config.network.floats + i] == 0);
  config.seed++;
  float *b = run(&config, &data, 0, NULL);
  assert_memory_not_equal(a, b, config.network.floats * sizeof *a);
  free(a), free(b), free(expected);
  free_data(&data);
}

/* ---- ranges ------------------------------------------------------------------------------ */

/* Whatever the order, every row is trained on once: with a learning rate of 0 the weights stay,
   so the sums of a training epoch are those of an evaluation, whichever row is marked. */
static void every_row_is_used_once(void **state) {
  (void)state;
  enum { ROWS = 37 };
  Data data = make_data(16, 4, ROWS, 0.5);
  const EngineConfig config = make_config(&data, (const int[]){8}, 1, 5);
  Error error;
  uint8_t original[ROWS * 16];
  memcpy(original, data.pixels, sizeof original);
  for (uint64_t marked = 0; marked < ROWS; marked++) {
    memset(data.pixels, 0, ROWS * 16);
    memcpy(data.pixels + marked * 16, original + marked * 16, 16);
    Engine *engine = open_engine(&config, &data);
    float *before = weights_of(engine);
    assert_true(engine->call->evaluate(engine, 0, ROWS, &error));
    const EngineSums expected = collect(engine);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
      train(engine, &(TrainRange){.rows = ROWS, .shuffled = epoch > 0, .key = epoch, .steps = 8});
      const EngineSums sums = collect(engine);
      assert_int_equal(sums.rows, ROWS);
      assert_int_equal(sums.correct, expected.correct);
      assert_true(fabs(sums.loss - expected.loss) < 1e-12 * expected.loss);
    }
    float *after = weights_of(engine);
    assert_memory_equal(before, after, config.network.floats * sizeof *after);
    free(before), free(after);
    engine->call->close(engine);
  }
  free_data(&data);
}

static void shuffled_is_permuted(void **state) {
  (void)state;
  Data data = make_data(70, 6, 101, 0.4), permuted = make_data(70, 6, 101, 0.4);
  const EngineConfig config = make_config(&data, (const int[]){30}, 1, 8);
  const size_t bytes = 2 * config.network.floats * sizeof(float);
  for (uint32_t p = 0; p < 90; p++) { /* a window of 90 rows from row 7 */
    const uint32_t row = 7 + random_permute(p, 90, 77);
    memcpy(permuted.pixels + (7 + p) * 70, data.pixels + row * 70, 70);
    permuted.labels[7 + p] = data.labels[row];
  }
  TrainRange range = {
      .first_row = 7, .rows = 90, .shuffled = true, .key = 77, .steps = 12, .learning_rate = 0.1f};
  Engine *a = open_engine(&config, &data), *b = open_engine(&config, &permuted);
  train(a, &range);
  range.shuffled = false;
  train(b, &range);
  float *wa = weights_of(a), *wb = weights_of(b);
  assert_memory_equal(wa, wb, bytes);
  free(wb);
  range.shuffled = true; /* and not otherwise */
  train(b, &range);
  wb = weights_of(b);
  assert_memory_not_equal(wa, wb, bytes);
  free(wa), free(wb);
  a->call->close(a), b->call->close(b);
  free_data(&data), free_data(&permuted);
}

static void two_calls_are_one(void **state) {
  (void)state;
  Data data = make_data(70, 6, 101, 0.4);
  const EngineConfig config = make_config(&data, (const int[]){30}, 1, 8);
  TrainRange range = {.rows = 101, .shuffled = true, .key = 5, .steps = 13, .learning_rate = 0.1f};
  Engine *a = open_engine(&config, &data), *b = open_engine(&config, &data);
  train(a, &range);
  range.steps = 4;
  train(b, &range);
  range.first_step = 4, range.steps = 0;
  train(b, &range);
  range.steps = 9;
  train(b, &range);
  const EngineSums sa = collect(a), sb = collect(b);
  assert_memory_equal(&sa, &sb, sizeof sa);
  assert_int_equal(sb.rows, 101);
  float *wa = weights_of(a), *wb = weights_of(b);
  assert_memory_equal(wa, wb, 2 * config.network.floats * sizeof *wa);
  free(wa), free(wb);
  a->call->close(a), b->call->close(b);
  free_data(&data);
}

/* ---- the loss ---------------------------------------------------------------------------- */

/* A network without hidden layers whose logits on a white row are what we ask for. */
static EngineSums loss_of(const float *logits, int classes, uint16_t label, float *weights) {
  Data data = make_data(1, classes, 1, 1);
  data.pixels[0] = 255;
  data.labels[0] = label;
  const EngineConfig config = make_config(&data, NULL, 0, 1);
  Engine *engine = open_engine(&config, &data);
  float *parameters = calloc(config.network.floats, sizeof *parameters);
  Error error;
  assert_non_null(parameters);
  memcpy(parameters + config.network.bias[0], logits, (size_t)classes * sizeof *logits);
  assert_true(engine->call->write(engine, parameters, NULL, &error));
  train(engine, &(TrainRange){.rows = 1, .steps = 1, .learning_rate = 1});
  assert_true(engine->call->read(engine, parameters, NULL, &error));
  if (weights)
    memcpy(weights, parameters + config.network.weight[0], (size_t)classes * sizeof *weights);
  const EngineSums sums = collect(engine);
  engine->call->close(engine);
  free(parameters);
  free_data(&data);
  return sums;
}

static void extreme_logits(void **state) {
  (void)state;
  float w[3];
  const double tail = log(1 + exp(-1) + exp(-2));
  EngineSums sums = loss_of((const float[]){1e4f, -1e4f, 0}, 3, 1, w);
  assert_true(sums.loss == 2e4 && sums.correct == 0);
  assert_true(w[0] == -1 && w[1] == 1 && w[2] == 0); /* less the gradient: softmax - one-hot */
  sums = loss_of((const float[]){1e4f, -1e4f, 0}, 3, 0, w);
  assert_true(sums.loss == 0 && sums.correct == 1);
  assert_true(w[0] == 0 && w[1] == 0 && w[2] == 0);
  /* all negative: a running maximum that starts at 0 would underflow */
  sums = loss_of((const float[]){-1e4f - 2, -1e4f, -1e4f - 1}, 3, 1, w);
  assert_true(fabs(sums.loss - tail) < 1e-6 && sums.correct == 1);
  assert_true(fabs((double)w[1] - (1 - exp(-tail))) < 1e-6);
  sums = loss_of((const float[]){-1e4f - 2, -1e4f, -1e4f - 1}, 3, 0, NULL);
  assert_true(fabs(sums.loss - 2 - tail) < 1e-6 && sums.correct == 0);
}

static void the_first_of_equals_is_the_answer(void **state) {
  (void)state;
  assert_int_equal(loss_of((const float[]){1, 3, 3}, 3, 1, NULL).correct, 1);
  assert_int_equal(loss_of((const float[]){1, 3, 3}, 3, 2, NULL).correct, 0);
  assert_int_equal(loss_of((const float[]){-2, -2}, 2, 0, NULL).correct, 1);
  assert_int_equal(loss_of((const float[]){-2, -2}, 2, 1, NULL).correct, 0);
}

/* ---- prediction -------------------------------------------------------------------------- */

/* What the engine's own arithmetic makes of logits (rows, classes). */
static EngineSums judge(const float *logits, const uint16_t *labels, uint64_t rows, int classes) {
  EngineSums sums = {.rows = rows};
  for (uint64_t r = 0; r < rows; r++, logits += classes) {
    int best = 0;
    for (int c = 1; c < classes; c++)
      if (logits[c] > logits[best]) best = c;
    double sum = 0;
    for (int c = 0; c < classes; c++) sum += (double)expf(logits[c] - logits[best]);
    sums.loss += log(sum) + (double)logits[best] - (double)logits[labels[r]];
    sums.correct += best == labels[r];
  }
  return sums;
}

/* The logits are bit for bit those that evaluate judges, in more blocks than one, whichever row is
   the first; the sums know nothing of it. */
static void predicts_what_it_evaluates(void **state) {
  (void)state;
  enum { ROWS = 700, CLASSES = 11, FIRST = 13 };
  Data data = make_data(70, CLASSES, ROWS, 0.4);
  EngineConfig config = make_config(&data, (const int[]){30, 21}, 2, 8);
  config.threads = 3;
  Engine *engine = open_engine(&config, &data);
  train(engine, &(TrainRange){.rows = ROWS, .steps = 88, .learning_rate = 0.05f});
  collect(engine);
  static float logits[ROWS][CLASSES], from_first[ROWS - FIRST + 1][CLASSES];
  Error error;
  assert_true(engine->call->evaluate(engine, 0, ROWS, &error));
  assert_true(engine->call->predict(engine, 0, ROWS, logits[0], &error));
  const EngineSums expected = judge(logits[0], data.labels, ROWS, CLASSES), sums = collect(engine);
  assert_memory_equal(&sums, &expected, sizeof sums);
  assert_true(expected.correct > ROWS / 5); /* it has learned something */

  from_first[ROWS - FIRST][0] = 77;
  assert_true(engine->call->predict(engine, FIRST, ROWS - FIRST, from_first[0], &error));
  assert_memory_equal(from_first, logits[FIRST], sizeof(float[ROWS - FIRST][CLASSES]));
  assert_true(from_first[ROWS - FIRST][0] == 77); /* nothing behind the last row is written */
  assert_true(engine->call->predict(engine, ROWS, 0, NULL, &error));
  assert_int_equal(collect(engine).rows, 0);
  engine->call->close(engine);
  free_data(&data);
}

/* ---- buffers, sums, weights ---------------------------------------------------------------- */

/* Three rounds through two buffers into a dataset of two buffers' rows: each batch is seen once. */
static void ring(void **state) {
  (void)state;
  Data data = make_data(33, 4, 48, 0.5);
  EngineConfig config = make_config(&data, (const int[]){12}, 1, 4);
  float *expected, *weights;
  Engine *whole = open_engine(&config, &data);
  train(whole, &(TrainRange){.rows = 48, .steps = 12, .learning_rate = 0.1f});
  config.dataset_rows = 16, config.staging_rows = 8;
  Error error;
  Engine *engine = engine_cpu_open(&config, &error);
  assert_non_null(engine);
  for (int turn = 0; turn < 6; turn++) {
    const int buffer = turn % 2;
    upload(engine, &data, buffer, 8 * (uint64_t)turn, 8 * (uint64_t)buffer, 8);
    train(engine,
          &(TrainRange){
              .first_row = 8 * (uint64_t)buffer, .rows = 8, .steps = 2, .learning_rate = 0.1f});
  }
  expected = weights_of(whole), weights = weights_of(engine);
  assert_memory_equal(weights, expected, 2 * config.network.floats * sizeof *weights);
  const EngineSums a = collect(whole), b = collect(engine);
  assert_memory_equal(&a, &b, sizeof a);
  free(expected), free(weights);
  whole->call->close(whole), engine->call->close(engine);
  free_data(&data);
}

static void collect_resets(void **state) {
  (void)state;
  Data data = make_data(10, 2, 9, 0.5);
  const EngineConfig config = make_config(&data, NULL, 0, 4);
  Engine *engine = open_engine(&config, &data);
  Error error;
  assert_true(engine->call->evaluate(engine, 2, 5, &error));
  EngineSums sums = collect(engine);
  assert_true(sums.rows == 5 && sums.loss > 0);
  sums = collect(engine);
  assert_true(sums.rows == 0 && sums.loss == 0 && sums.correct == 0);
  engine->call->close(engine);
  free_data(&data);
}

/* What was written is read again, bit for bit, and training goes on from there. */
static void weights_round_trip(void **state) {
  (void)state;
  Data data = make_data(35, 7, 50, 0.5);
  const EngineConfig config = make_config(&data, (const int[]){18, 21}, 2, 8);
  const size_t floats = config.network.floats;
  const TrainRange range = {.rows = 50, .steps = 7, .learning_rate = 0.1f};
  Error error;
  Engine *a = open_engine(&config, &data), *b = open_engine(&config, &data);
  train(a, &range);
  float *saved = weights_of(a);
  train(a, &range);
  float *expected = weights_of(a);

  assert_true(b->call->write(b, saved, saved + floats, &error));
  float *read = weights_of(b);
  assert_memory_equal(read, saved, 2 * floats * sizeof *read);
  free(read);
  train(b, &range);
  read = weights_of(b);
  assert_memory_equal(read, expected, 2 * floats * sizeof *read);

  assert_true(b->call->write(b, NULL, saved + floats, &error)); /* one without the other */
  free(read);
  read = weights_of(b);
  assert_memory_equal(read, expected, floats * sizeof *read);
  assert_memory_equal(read + floats, saved + floats, floats * sizeof *read);
  assert_true(b->call->read(b, NULL, NULL, &error));
  free(read), free(expected), free(saved);
  a->call->close(a), b->call->close(b);
  free_data(&data);
}

/* Numbers below 1e-38 are flushed in the engine's threads, and nowhere else. */
static void denormals_are_the_callers_own(void **state) {
  (void)state;
  Data data = make_data(10, 2, 9, 0.5);
  const EngineConfig config = make_config(&data, NULL, 0, 4);
  free(run(&config, &data, 1, NULL));
  volatile float small = 1e-30f;
  assert_true(small * 1e-10f != 0);
  free_data(&data);
}

/* ---- what is refused --------------------------------------------------------------------- */

static void misuse(void **state) {
  (void)state;
  Data data = make_data(10, 2, 9, 0.5);
  EngineConfig config = make_config(&data, NULL, 0, 4);
  config.staging_rows = 9;
  Engine *engine = open_engine(&config, &data);
  Error error = {.text = ""};
  static const TrainRange ranges[] = {
      {.first_row = 0, .rows = 10, .steps = 1},
      {.first_row = 1, .rows = 9, .steps = 1},
      {.first_row = 10, .rows = 0},
      {.first_row = UINT64_MAX, .rows = 2},
      {.rows = 9, .steps = 4},
      {.rows = 9, .first_step = 3, .steps = 1},
      {.rows = 9, .first_step = UINT64_MAX, .steps = 2},
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    assert_false(engine->call->train(engine, &ranges[i], &error));
  assert_non_null(strstr(error.text, "no steps"));
  assert_false(engine->call->evaluate(engine, 5, 5, &error));
  assert_non_null(strstr(error.text, "dataset of 9 rows"));
  error.text[0] = '\0';
  assert_false(engine->call->predict(engine, 8, 2, (float[4]){0}, &error));
  assert_non_null(strstr(error.text, "dataset of 9 rows"));
  assert_false(engine->call->upload(engine, 0, 8, 2, &error));
  assert_int_equal(collect(engine).rows, 0);
  engine->call->close(engine);

  config.staging_rows = 4; /* smaller than the dataset */
  engine = engine_cpu_open(&config, &error);
  assert_non_null(engine);
  assert_false(engine->call->upload(engine, 0, 0, 5, &error));
  assert_non_null(strstr(error.text, "a staging buffer has no 5 rows, only 4"));
  engine->call->close(engine);
  free_data(&data);
}

static void opening_fails_cleanly(void **state) {
  (void)state;
  Data data = make_data(10, 2, 9, 0.5);
  const EngineConfig good = make_config(&data, (const int[]){5}, 1, 4);
  EngineConfig bad[6];
  for (int i = 0; i < 6; i++) bad[i] = good;
  bad[0].batch = 0, bad[1].threads = 0, bad[2].dataset_rows = 0, bad[3].staging_rows = 0;
  bad[4].dataset_rows = UINT64_MAX, bad[5].staging_rows = UINT64_MAX / 2;
  for (int i = 0; i < 6; i++) {
    Error error = {.text = ""};
    assert_null(engine_cpu_open(&bad[i], &error));
    assert_non_null(strstr(error.text, i < 4 ? "at least 1" : "out of memory"));
  }
  free_data(&data);
}

static void describes_itself(void **state) {
  (void)state;
  Data data = make_data(10, 2, 9, 0.5);
  const EngineConfig config = make_config(&data, NULL, 0, 4);
  Engine *engine = open_engine(&config, &data);
  assert_int_equal(engine->config.fusion, FUSION_LAYER);
  assert_memory_equal(engine->device, "CPU, 2 threads", 14);
  assert_true(strlen(engine->reason) > 0 && engine->memory > 1 << 24);
  engine->call->close(engine);
  free_data(&data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fifty_steps),
      cmocka_unit_test(shapes_that_divide_nothing),
      cmocka_unit_test(black_rows),
      cmocka_unit_test(learns),
      cmocka_unit_test(threads_and_runs_do_not_matter),
      cmocka_unit_test(seeds_matter),
      cmocka_unit_test(every_row_is_used_once),
      cmocka_unit_test(shuffled_is_permuted),
      cmocka_unit_test(two_calls_are_one),
      cmocka_unit_test(extreme_logits),
      cmocka_unit_test(the_first_of_equals_is_the_answer),
      cmocka_unit_test(predicts_what_it_evaluates),
      cmocka_unit_test(ring),
      cmocka_unit_test(collect_resets),
      cmocka_unit_test(weights_round_trip),
      cmocka_unit_test(denormals_are_the_callers_own),
      cmocka_unit_test(misuse),
      cmocka_unit_test(opening_fails_cleanly),
      cmocka_unit_test(describes_itself),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
