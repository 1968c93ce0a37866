/* The results of the CPU engine: against the float64 reference, the same bits whatever the threads,
   each row once per epoch, losses and predictions. What else engine.h promises is in
   test_engine_cpu_interface.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "exercise/reference.h"
#include "support/test.h"
#include "support/engine_cpu_tests.h"

/* After 50 steps. A sum of n float32 products errs by some sqrt(n) roundings of 6e-8, for n of
   784 about 1e-6 of a gradient; with momentum 0.9 and learning rate 0.05 half of it gets into
   the weights each step, and 50 of them, of either sign, add to a few 1e-6 of the way that the
   weights have gone, which is less than a tenth of their norm. Seen: 2e-7 of the weights, 4e-7
   of the momentum. What may be added on another machine: a ReLU whose input is within a rounding
   of 0 opens on one side only. One of 300 units for one of 16 rows is 1 / sqrt(300 x 16) of
   a gradient, 1e-2; ten times less of the momentum, and some 1e-5 of the weights. */
static const double weights_bound = 3e-5, momentum_bound = 2e-3, loss_bound = 1e-5;

/* ---- against the reference --------------------------------------------------------------- */

/* The engine and the reference start from the engine's initial weights; `steps` steps of shuffled
 * epochs. */
static void compare(const Rows *data, const EngineConfig *config, uint64_t steps) {
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
    train_steps(engine, &range);
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
             data->classes, config->training.batch, parameters, momentum, loss);
  assert_int_equal(trained.rows, sums.rows);
  assert_true(llabs((long long)trained.correct - (long long)sums.correct) <= 1);

  Error error;
  EngineSums tested = {0};
  reference_evaluate(config, expected, data->pixels, (size_t)data->inputs, data->labels, 1,
                     data->rows - 1, &tested);
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
TEST(fifty_steps) {
  Rows data = make_rows(784, 10, 75, 0.19);
  const EngineConfig config = make_config(&data, (const int[]){300, 100}, 2, 16);
  compare(&data, &config, 50);
  free_rows(&data);
}

TEST(shapes_that_divide_nothing) {
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
    Rows data = make_rows(cases[i].inputs, cases[i].classes, cases[i].rows, cases[i].lit);
    const EngineConfig config = make_config(&data, cases[i].hidden, cases[i].count, cases[i].batch);
    compare(&data, &config, 20);
    free_rows(&data);
  }
}

/* Rows that are all black, which the kernels leave out, change nothing about the bounds. */
TEST(black_rows) {
  Rows data = make_rows(50, 3, 40, 0.3);
  memset(data.pixels + 50 * 8, 0, 50 * 20);
  const EngineConfig config = make_config(&data, (const int[]){20}, 1, 8);
  compare(&data, &config, 20);
  free_rows(&data);
}

TEST(learns) {
  Rows data = make_rows(64, 10, 2000, 0.1);
  EngineConfig config = make_config(&data, (const int[]){32}, 1, 64);
  config.training.rule.weight_decay = 0;
  EngineSums sums;
  free(run(&config, &data, 1, &sums));
  const double first = sums.loss / (double)sums.rows;
  free(run(&config, &data, 10, &sums));
  assert_int_equal(sums.rows, 10 * 2000);
  assert_true(sums.loss / (double)sums.rows < first / 4);
  assert_true((double)sums.correct > 0.9 * (double)sums.rows);
  free_rows(&data);
}

/* ---- the same bits ----------------------------------------------------------------------- */

/* *state: of adam, not of sgd. */
static void check_threads_and_runs(Optimizer optimizer) {
  static const int threads[] = {1, 1, 2, 3, 7, 40};
  Rows data = make_rows(200, 10, 330, 0.3);
  EngineConfig config = make_config(&data, (const int[]){90, 33}, 2, 64);
  config.training.rule.kind = optimizer;
  config.training.rule.beta1 = 0.9f, config.training.rule.beta2 = 0.999f,
  config.training.rule.epsilon = 1e-8f;
  const size_t bytes =
      (1 + training_states(&config.training)) * config.network.floats * sizeof(float);
  float *first = NULL;
  EngineSums first_sums;
  for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
    EngineSums sums;
    config.training.threads = threads[t];
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
  free_rows(&data);
}

TEST(threads_and_runs_do_not_matter) {
  check_threads_and_runs(OPTIMIZER_SGD);
}

TEST(threads_and_runs_do_not_matter_to_adam) {
  check_threads_and_runs(OPTIMIZER_ADAM);
}

/* The seed decides, and nothing else. */
TEST(seeds_matter) {
  Rows data = make_rows(20, 3, 10, 0.5);
  EngineConfig config = make_config(&data, (const int[]){5}, 1, 4);
  float *a = run(&config, &data, 0, NULL), *expected = malloc(config.network.floats * sizeof *a);
  assert_non_null(expected);
  network_initialise(&config.network, config.training.seed, expected);
  assert_memory_equal(a, expected, config.network.floats * sizeof *a);
  for (size_t i = 0; i < config.network.floats; i++) assert_true(a[config.network.floats + i] == 0);
  config.training.seed++;
  float *b = run(&config, &data, 0, NULL);
  assert_memory_not_equal(a, b, config.network.floats * sizeof *a);
  free(a), free(b), free(expected);
  free_rows(&data);
}

/* ---- ranges ------------------------------------------------------------------------------ */

/* Whatever the order, every row is trained on once: with a learning rate of 0 the weights stay,
   so the sums of a training epoch are those of an evaluation, whichever row is marked. */
TEST(every_row_is_used_once) {
  enum { ROWS = 37 };
  Rows data = make_rows(16, 4, ROWS, 0.5);
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
      train_steps(engine,
                  &(TrainRange){.rows = ROWS, .shuffled = epoch > 0, .key = epoch, .steps = 8});
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
  free_rows(&data);
}

TEST(shuffled_is_permuted) {
  Rows data = make_rows(70, 6, 101, 0.4), permuted = make_rows(70, 6, 101, 0.4);
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
  train_steps(a, &range);
  range.shuffled = false;
  train_steps(b, &range);
  float *wa = weights_of(a), *wb = weights_of(b);
  assert_memory_equal(wa, wb, bytes);
  free(wb);
  range.shuffled = true; /* and not otherwise */
  train_steps(b, &range);
  wb = weights_of(b);
  assert_memory_not_equal(wa, wb, bytes);
  free(wa), free(wb);
  a->call->close(a), b->call->close(b);
  free_rows(&data), free_rows(&permuted);
}

TEST(two_calls_are_one) {
  Rows data = make_rows(70, 6, 101, 0.4);
  const EngineConfig config = make_config(&data, (const int[]){30}, 1, 8);
  TrainRange range = {.rows = 101, .shuffled = true, .key = 5, .steps = 13, .learning_rate = 0.1f};
  Engine *a = open_engine(&config, &data), *b = open_engine(&config, &data);
  train_steps(a, &range);
  range.steps = 4;
  train_steps(b, &range);
  range.first_step = 4, range.steps = 0;
  train_steps(b, &range);
  range.steps = 9;
  train_steps(b, &range);
  const EngineSums sa = collect(a), sb = collect(b);
  assert_memory_equal(&sa, &sb, sizeof sa);
  assert_int_equal(sb.rows, 101);
  float *wa = weights_of(a), *wb = weights_of(b);
  assert_memory_equal(wa, wb, 2 * config.network.floats * sizeof *wa);
  free(wa), free(wb);
  a->call->close(a), b->call->close(b);
  free_rows(&data);
}

/* ---- the loss ---------------------------------------------------------------------------- */

/* A network without hidden layers whose logits on a white row are given. */
static EngineSums loss_of(const float *logits, int classes, uint16_t label, float *weights) {
  Rows data = make_rows(1, classes, 1, 1);
  data.pixels[0] = 255;
  data.labels[0] = label;
  const EngineConfig config = make_config(&data, NULL, 0, 1);
  Engine *engine = open_engine(&config, &data);
  float *parameters = calloc(config.network.floats, sizeof *parameters);
  Error error;
  assert_non_null(parameters);
  memcpy(parameters + config.network.bias[0], logits, (size_t)classes * sizeof *logits);
  assert_true(engine->call->write(engine, parameters, NULL, &error));
  train_steps(engine, &(TrainRange){.rows = 1, .steps = 1, .learning_rate = 1});
  assert_true(engine->call->read(engine, parameters, NULL, &error));
  if (weights)
    memcpy(weights, parameters + config.network.weight[0], (size_t)classes * sizeof *weights);
  const EngineSums sums = collect(engine);
  engine->call->close(engine);
  free(parameters);
  free_rows(&data);
  return sums;
}

TEST(extreme_logits) {
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

TEST(the_first_of_equals_is_predicted) {
  assert_int_equal(loss_of((const float[]){1, 3, 3}, 3, 1, NULL).correct, 1);
  assert_int_equal(loss_of((const float[]){1, 3, 3}, 3, 2, NULL).correct, 0);
  assert_int_equal(loss_of((const float[]){-2, -2}, 2, 0, NULL).correct, 1);
  assert_int_equal(loss_of((const float[]){-2, -2}, 2, 1, NULL).correct, 0);
}

/* ---- prediction -------------------------------------------------------------------------- */

/* Sums the results of logits (rows, classes) by the engine's own arithmetic. */
static EngineSums expected_sums(const float *logits, const uint16_t *labels, uint64_t rows,
                                int classes) {
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

/* The logits are bit for bit those that evaluate uses, in more blocks than one, whichever row is
   the first; the sums know nothing of it. */
TEST(predicts_what_it_evaluates) {
  enum { ROWS = 700, CLASSES = 11, FIRST = 13 };
  Rows data = make_rows(70, CLASSES, ROWS, 0.4);
  EngineConfig config = make_config(&data, (const int[]){30, 21}, 2, 8);
  config.training.threads = 3;
  Engine *engine = open_engine(&config, &data);
  train_steps(engine, &(TrainRange){.rows = ROWS, .steps = 88, .learning_rate = 0.05f});
  collect(engine);
  static float logits[ROWS][CLASSES], from_first[ROWS - FIRST + 1][CLASSES];
  Error error;
  assert_true(engine->call->evaluate(engine, 0, ROWS, &error));
  assert_true(engine->call->predict(engine, 0, ROWS, logits[0], &error));
  const EngineSums expected = expected_sums(logits[0], data.labels, ROWS, CLASSES),
                   sums = collect(engine);
  assert_memory_equal(&sums, &expected, sizeof sums);
  assert_true(expected.correct > ROWS / 5); /* it has learned something */

  from_first[ROWS - FIRST][0] = 77;
  assert_true(engine->call->predict(engine, FIRST, ROWS - FIRST, from_first[0], &error));
  assert_memory_equal(from_first, logits[FIRST], sizeof(float[ROWS - FIRST][CLASSES]));
  assert_true(from_first[ROWS - FIRST][0] == 77); /* nothing behind the last row is written */
  assert_true(engine->call->predict(engine, ROWS, 0, NULL, &error));
  assert_int_equal(collect(engine).rows, 0);
  engine->call->close(engine);
  free_rows(&data);
}
