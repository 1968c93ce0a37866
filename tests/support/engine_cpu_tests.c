#include "support/test.h"
#include "support/engine_cpu_tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/sizes.h"
#include "exercise/reference.h"

Rows make_rows(int inputs, int classes, uint64_t rows, double lit) {
  Rows data = {.inputs = inputs, .classes = classes, .rows = rows};
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

void free_rows(Rows *data) {
  free(data->pixels);
  free(data->labels);
}

EngineConfig make_config(const Rows *data, const int *hidden, int count, int batch) {
  EngineConfig config = {.training = {.batch = batch,
                                      .seed = 3,
                                      .rule.momentum = 0.9f,
                                      .rule.weight_decay = 1e-3f,
                                      .threads = 2},
                         .dataset_rows = data->rows};
  Error error;
  assert_true(network_init(&config.network, data->inputs, hidden, count, data->classes, &error));
  config.staging_rows = round_up(data->rows, (size_t)batch);
  return config;
}

void upload(Engine *engine, const Rows *data, int buffer, uint64_t from, uint64_t to,
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

Engine *open_engine(const EngineConfig *config, const Rows *data) {
  Error error;
  Engine *engine = engine_cpu_open(config, &error);
  if (!engine) fail_msg("%s", error.text);
  upload(engine, data, 0, 0, 0, data->rows);
  return engine;
}

void train_steps(Engine *engine, const TrainRange *range) {
  Error error;
  if (!engine->call->train(engine, range, &error)) fail_msg("%s", error.text);
}

EngineSums collect(Engine *engine) {
  EngineSums sums;
  Error error;
  assert_true(engine->call->collect(engine, &sums, &error));
  return sums;
}

float *weights_of(Engine *engine) {
  const size_t floats = engine->config.network.floats;
  const size_t count = (1 + training_states(&engine->config.training)) * floats;
  float *values = malloc(count * sizeof *values);
  Error error;
  assert_non_null(values);
  memset(values, 0xff, count * sizeof *values);
  assert_true(engine->call->read(engine, values, values + floats, &error));
  return values;
}

uint64_t steps_of(const EngineConfig *config, uint64_t rows) {
  return ceil_div(rows, (size_t)config->training.batch);
}

float *run(const EngineConfig *config, const Rows *data, uint64_t epochs, EngineSums *sums) {
  Engine *engine = open_engine(config, data);
  for (uint64_t epoch = 0; epoch < epochs; epoch++)
    train_steps(engine, &(TrainRange){.rows = data->rows,
                                      .shuffled = true,
                                      .key = random_order_key(1, epoch),
                                      .steps = steps_of(config, data->rows),
                                      .learning_rate = 0.05f});
  if (sums) *sums = collect(engine);
  float *weights = weights_of(engine);
  engine->call->close(engine);
  return weights;
}
