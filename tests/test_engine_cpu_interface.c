/* The CPU engine keeps the promises of engine.h: two staging buffers, sums, weights that are read
   and written, what is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/engine_cpu_tests.h"

/* ---- buffers, sums, weights ---------------------------------------------------------------- */

/* Three rounds through two buffers into a dataset of two buffers' rows: each batch is seen once. */
TEST(ring) {
  Rows data = make_rows(33, 4, 48, 0.5);
  EngineConfig config = make_config(&data, (const int[]){12}, 1, 4);
  float *expected, *weights;
  Engine *whole = open_engine(&config, &data);
  train_steps(whole, &(TrainRange){.rows = 48, .steps = 12, .learning_rate = 0.1f});
  config.dataset_rows = 16, config.staging_rows = 8;
  Error error;
  Engine *engine = engine_cpu_open(&config, &error);
  assert_non_null(engine);
  for (int turn = 0; turn < 6; turn++) {
    const int buffer = turn % 2;
    upload(engine, &data, buffer, 8 * (uint64_t)turn, 8 * (uint64_t)buffer, 8);
    train_steps(engine, &(TrainRange){.first_row = 8 * (uint64_t)buffer,
                                      .rows = 8,
                                      .steps = 2,
                                      .learning_rate = 0.1f});
  }
  expected = weights_of(whole), weights = weights_of(engine);
  assert_memory_equal(weights, expected, 2 * config.network.floats * sizeof *weights);
  const EngineSums a = collect(whole), b = collect(engine);
  assert_memory_equal(&a, &b, sizeof a);
  free(expected), free(weights);
  whole->call->close(whole), engine->call->close(engine);
  free_rows(&data);
}

TEST(collect_resets) {
  Rows data = make_rows(10, 2, 9, 0.5);
  const EngineConfig config = make_config(&data, NULL, 0, 4);
  Engine *engine = open_engine(&config, &data);
  Error error;
  assert_true(engine->call->evaluate(engine, 2, 5, &error));
  EngineSums sums = collect(engine);
  assert_true(sums.rows == 5 && sums.loss > 0);
  sums = collect(engine);
  assert_true(sums.rows == 0 && sums.loss == 0 && sums.correct == 0);
  engine->call->close(engine);
  free_rows(&data);
}

/* Weights that were written are read again, bit for bit, and training goes on from there. */
TEST(weights_round_trip) {
  Rows data = make_rows(35, 7, 50, 0.5);
  const EngineConfig config = make_config(&data, (const int[]){18, 21}, 2, 8);
  const size_t floats = config.network.floats;
  const TrainRange range = {.rows = 50, .steps = 7, .learning_rate = 0.1f};
  Error error;
  Engine *a = open_engine(&config, &data), *b = open_engine(&config, &data);
  train_steps(a, &range);
  float *saved = weights_of(a);
  train_steps(a, &range);
  float *expected = weights_of(a);

  assert_true(b->call->write(b, saved, saved + floats, &error));
  float *read = weights_of(b);
  assert_memory_equal(read, saved, 2 * floats * sizeof *read);
  free(read);
  train_steps(b, &range);
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
  free_rows(&data);
}

/* Numbers below 1e-38 are flushed in the engine's threads, and nowhere else. */
TEST(denormals_are_the_callers_own) {
  Rows data = make_rows(10, 2, 9, 0.5);
  const EngineConfig config = make_config(&data, NULL, 0, 4);
  free(run(&config, &data, 1, NULL));
  volatile float small = 1e-30f;
  assert_true(small * 1e-10f != 0);
  free_rows(&data);
}

/* ---- what is refused --------------------------------------------------------------------- */

TEST(misuse) {
  Rows data = make_rows(10, 2, 9, 0.5);
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
  free_rows(&data);
}

TEST(opening_fails_cleanly) {
  Rows data = make_rows(10, 2, 9, 0.5);
  const EngineConfig good = make_config(&data, (const int[]){5}, 1, 4);
  EngineConfig bad[6];
  for (int i = 0; i < 6; i++) bad[i] = good;
  bad[0].training.batch = 0, bad[1].training.threads = 0, bad[2].dataset_rows = 0,
  bad[3].staging_rows = 0;
  bad[4].dataset_rows = UINT64_MAX, bad[5].staging_rows = UINT64_MAX / 2;
  for (int i = 0; i < 6; i++) {
    Error error = {.text = ""};
    assert_null(engine_cpu_open(&bad[i], &error));
    assert_non_null(strstr(error.text, i < 4 ? "at least 1" : "out of memory"));
  }
  free_rows(&data);
}

TEST(describes_itself) {
  Rows data = make_rows(10, 2, 9, 0.5);
  const EngineConfig config = make_config(&data, NULL, 0, 4);
  Engine *engine = open_engine(&config, &data);
  assert_int_equal(engine->config.training.fusion, FUSION_LAYER);
  assert_memory_equal(engine->device, "CPU, 2 threads", 14);
  assert_true(strlen(engine->reason) > 0 && engine->memory > 1 << 24);
  engine->call->close(engine);
  free_rows(&data);
}
