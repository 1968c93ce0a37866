/* The CPU engine with numbers at their limits: learning rates that are 0, huge or not a number,
   steps of one row and of more than there are, one class only, black pictures.
   tests/scenarios/numbers.sh runs the whole program. */
#include <float.h>
#include <math.h>

#include "engine/engine.h"
#include "support/test.h"
#include "base/random.h"

enum { INPUTS = 5, FIRST = 6, ROWS = 24, CLASSES = 3 };

typedef enum { MIXED, ONE_CLASS, BLACK } Rows;

/* Returns an engine that holds ROWS rows of one kind. */
static Engine *open_engine(Rows kind, int batch) {
  Error error;
  StagingBuffer staging;
  EngineConfig config = {
      .training = {.batch = batch, .seed = 1, .rule.momentum = 0.9f, .threads = 2},
      .dataset_rows = ROWS,
      .staging_rows = (uint64_t)(batch > ROWS ? batch : ROWS)};
  assert_true(network_init(&config.network, INPUTS, (const int[]){FIRST, 4}, 2, CLASSES, &error));
  Engine *engine = engine_cpu_open(&config, &error);
  if (!engine) fail_msg("%s", error.text);
  assert_true(engine->call->staging(engine, 0, &staging, &error));
  for (uint64_t row = 0; row < ROWS; row++) {
    const RandomWords words = random_words(1, 2, row);
    for (size_t i = 0; i < INPUTS; i++)
      staging.pixels[row * staging.stride + i] =
          (uint8_t)(kind == BLACK ? 0 : words.word[i % 4] >> (i / 4 * 8) & 0xff);
    staging.labels[row] = kind == ONE_CLASS ? 1 : (uint16_t)(row % CLASSES);
  }
  assert_true(engine->call->upload(engine, 0, 0, ROWS, &error));
  return engine;
}

/* Trains some epochs. Returns the mean loss of the last. */
static double train(Engine *engine, int epochs, float learning_rate) {
  const uint64_t batch = (uint64_t)engine->config.training.batch;
  Error error;
  EngineSums sums = {0};
  for (int epoch = 0; epoch < epochs; epoch++) {
    const TrainRange range = {.rows = ROWS,
                              .shuffled = true,
                              .key = (uint64_t)epoch,
                              .steps = (ROWS + batch - 1) / batch,
                              .learning_rate = learning_rate};
    assert_true(engine->call->train(engine, &range, &error));
    assert_true(engine->call->collect(engine, &sums, &error));
    assert_int_equal(sums.rows, ROWS);
    assert_in_range(sums.correct, 0, ROWS);
  }
  return sums.loss / ROWS;
}

/* Returns network.floats values, which the caller frees. */
static float *parameters_of(Engine *engine) {
  Error error;
  float *values = malloc(engine->config.network.floats * sizeof *values);
  assert_non_null(values);
  assert_true(engine->call->read(engine, values, 1, &error));
  return values;
}

TEST(a_rate_of_0_changes_no_weight) {
  Engine *engine = open_engine(MIXED, 4);
  float *before = parameters_of(engine);
  const double first = train(engine, 1, 0), last = train(engine, 3, 0);
  float *after = parameters_of(engine);
  assert_memory_equal(before, after, engine->config.network.floats * sizeof *after);
  assert_true(fabs(first - last) < 1e-12); /* the order of the rows is another */
  free(before);
  free(after);
  engine->call->close(engine);
}

/* The loss must not be finite, or the failure would stay hidden. */
TEST(rates_beyond_all_numbers_show_in_the_loss) {
  static const float rates[] = {1e30f, FLT_MAX, INFINITY, NAN};
  for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
    for (int batch = 1; batch <= 8; batch += 7) {
      Engine *engine = open_engine(MIXED, batch);
      assert_true(!isfinite(train(engine, 3, rates[i])));
      engine->call->close(engine);
    }
}

TEST(steps_of_one_row_learn) {
  Engine *engine = open_engine(MIXED, 1);
  const double first = train(engine, 1, 0.01f), last = train(engine, 200, 0.01f);
  assert_true(last < 0.7 * first);
  engine->call->close(engine);
}

/* A step of more rows than there are is a step of all rows. */
TEST(steps_of_more_rows_than_there_are) {
  Engine *all = open_engine(MIXED, ROWS), *more = open_engine(MIXED, 1000);
  const double a = train(all, 5, 0.1f), b = train(more, 5, 0.1f);
  float *expected = parameters_of(all), *got = parameters_of(more);
  assert_true(a == b);
  assert_memory_equal(got, expected, all->config.network.floats * sizeof *got);
  free(expected);
  free(got);
  all->call->close(all);
  more->call->close(more);
}

TEST(one_class_is_learnt_and_no_more) {
  Engine *engine = open_engine(ONE_CLASS, 4);
  const double last = train(engine, 500, 0.5f);
  assert_true(last >= 0 && last < 1e-3);
  engine->call->close(engine);
}

/* Black pictures teach how often each class comes, here each as often as the others. The first
   layer's weights stay as they were. */
TEST(black_pictures_teach_the_biases_alone) {
  Engine *engine = open_engine(BLACK, ROWS);
  const size_t weights = INPUTS * FIRST, at = engine->config.network.weight[0];
  float *before = parameters_of(engine);
  const double last = train(engine, 500, 0.1f);
  float *after = parameters_of(engine);
  assert_true(fabs(last - log(CLASSES)) < 1e-4);
  assert_memory_equal(before + at, after + at, weights * sizeof *after);
  free(before);
  free(after);
  engine->call->close(engine);
}
