/* Tests training on augmented rows. An engine must give the same results as with rows that this
   file augments by augment.h. test_augment.c tests augment.h. */
#include "base/augment.h"
#include "support/engine_tests.h"
#include "support/folder.h"

enum { SIDE = 6, INPUTS = SIDE * SIDE, CLASSES = 10, BATCH = 7, ROWS = 60, KEY = 11 };

static const Case usual = {"augmented", INPUTS, {46, 11}, 2, CLASSES, BATCH, ROWS, 0.05f,
                           0.9f,        0,      0,        4, false,   true,  0};
static const AugmentStrengths nothing; /* rows stay as they are */

static Data random_data(uint64_t seed) {
  Data data = {allocate(ROWS, INPUTS), allocate(ROWS, sizeof *data.labels), INPUTS};
  reference_fill_pixels(data.pixels, (size_t)ROWS * INPUTS, seed);
  reference_fill_labels(data.labels, ROWS, CLASSES, seed + 1);
  return data;
}

/* Returns a copy of the data in which row first_row + i is augmented by (strengths, key, i). */
static Data by_hand(const Data *data, AugmentStrengths strengths, uint64_t key,
                    uint64_t first_row) {
  Data copy = {allocate(ROWS, INPUTS), data->labels, INPUTS};
  memcpy(copy.pixels, data->pixels, (size_t)ROWS * INPUTS);
  for (uint64_t r = first_row; r < ROWS; r++)
    augment_row(strengths, key, (uint32_t)(r - first_row), data->pixels + r * INPUTS,
                copy.pixels + r * INPUTS, SIDE);
  return copy;
}

static EngineConfig augmented_config(uint64_t dataset_rows) {
  EngineConfig config = config_of(&usual, FUSION_AUTO, dataset_rows, ROWS + BATCH);
  config.training.augment = AUGMENT_USUAL;
  return config;
}

static void send(Engine *engine, const Data *data) {
  send_rows(engine, 0, data, 0, ROWS, 0);
}

/* Opens an engine with the data. Returns NULL if the level cannot train the network on this GPU. */
static Engine *open_on(int level, const Data *data) {
  Engine *engine = open_config(augmented_config(ROWS), level);
  if (engine) send(engine, data);
  return engine;
}

/* Returns a range that covers all steps of a window of rows. */
static TrainRange window(uint64_t first_row, uint64_t rows, AugmentStrengths strengths,
                         uint64_t key) {
  return (TrainRange){.first_row = first_row,
                      .rows = rows,
                      .shuffled = true,
                      .key = key + 1,
                      .steps = steps_of(&usual, rows),
                      .learning_rate = usual.learning_rate,
                      .augment = strengths,
                      .augment_key = key};
}

/* Checks that the relative difference between two engines' weights is below `limit`. If `limit` is
   0, there must be no difference. */
static void assert_near(Engine *a, Engine *b, double limit) {
  const Outcome of_a = close_with_outcome(a), of_b = close_with_outcome(b);
  const size_t count = 2 * of_a.floats;
  const double error_of =
      reference_relative_error(of_a.parameters, doubles_of(of_b.parameters, count), count);
  if (limit == 0) assert_same_bits(&of_a, &of_b);
  if (error_of > limit) fail_msg("error of the weights %.3g, allowed %.3g", error_of, limit);
}

EACH_LEVEL(test_parts, EPOCH + 1) {
  Data data = random_data(30);
  Engine *whole = open_on(level, &data), *parts = open_on(level, &data);
  for (uint64_t epoch = 0; whole && epoch < 3; epoch++) {
    train(whole, window(0, ROWS, AUGMENT_USUAL, epoch));
    train_in_parts(parts, window(0, ROWS, AUGMENT_USUAL, epoch));
  }
  if (whole) assert_near(whole, parts, 0);
}

/* Trains on windows with different keys and strengths; some rows are not augmented. Then replaces
   the data of the same rows and trains with the same key. */
EACH_LEVEL(test_rows, EPOCH + 1) {
  const Data sent[] = {random_data(31), random_data(33)};
  const AugmentStrengths all = AUGMENT_USUAL;
  const struct {
    uint64_t first_row, rows;
    AugmentStrengths strengths;
    uint64_t key;
    int data;
  } turns[] = {
      {0, ROWS, all, 1, 0},       {0, ROWS, all, 2, 0},   {0, ROWS, {{0, 10}}, 2, 0},
      {0, ROWS, {{0, 15}}, 2, 0}, {0, ROWS, {{0}}, 2, 0}, {8, 20, all, 2, 0},
      {28, 20, all, 2, 0},        {0, ROWS, {{0}}, 1, 0}, {28, 20, all, 2, 0},
      {28, 25, all, 2, 0},        {0, ROWS, {{1}}, 1, 0}, {0, ROWS, {{0, 0, 0, 0, 3.5f}}, 1, 0},
      {0, ROWS, all, KEY, 0},     {0, ROWS, all, KEY, 1}};
  Engine *engine = open_on(level, sent), *plain = open_on(level, sent);
  foreach (t, turns) {
    if (!engine) return;
    if (t->data) send(engine, &sent[t->data]);
    TrainRange range = window(t->first_row, t->rows, t->strengths, t->key);
    Data copy = by_hand(&sent[t->data], range.augment, range.augment_key, range.first_row);
    train(engine, range);
    send(plain, &copy);
    range.augment = nothing;
    train(plain, range);
  }
  /* On the CPU, the engine augments rows to the same bits as this file. On a GPU a few pixels
     differ by 1, which changes a gradient by 1e-5. If a wrong row were augmented, the gradient
     would change by over 0.1. */
  assert_near(engine, plain, level == CPU ? 0 : 1e-3);
}

/* Evaluation uses the original rows. Training at rate 0 changes no weight, so the results before
   and after it are equal. */
EACH_LEVEL(test_evaluation, EPOCH + 1) {
  Data data = random_data(34);
  Engine *engine = open_on(level, &data);
  if (!engine) return;
  float before[ROWS * CLASSES], after[ROWS * CLASSES];
  TrainRange range = window(0, ROWS, AUGMENT_USUAL, KEY);
  range.learning_rate = 0;
  OK(engine_evaluate(engine, 0, ROWS, &error));
  const EngineSums original = collect(engine);
  OK(engine->call->predict(engine, 0, ROWS, before, &error));
  train(engine, range);
  const EngineSums drawn = collect(engine);
  OK(engine_evaluate(engine, 0, ROWS, &error));
  const EngineSums evaluated = collect(engine);
  OK(engine->call->predict(engine, 0, ROWS, after, &error));
  assert_true(fabs(drawn.loss / original.loss - 1) > 1e-3);
  assert_true(evaluated.loss == original.loss && evaluated.correct == original.correct);
  assert_memory_equal(after, before, sizeof before);
}

/* Augmentation is refused if pictures are not square. The engine still works after the refusal. */
EACH_LEVEL(test_not_square, EPOCH + 1) {
  Case c = usual;
  c.inputs++;
  EngineConfig config = config_of(&c, FUSION_AUTO, ROWS, ROWS + BATCH);
  config.training.augment = AUGMENT_USUAL;
  Engine *engine = open_config(config, level);
  if (!engine) return;
  const TrainRange range = window(0, ROWS, AUGMENT_USUAL, KEY),
                   plain = window(0, ROWS, nothing, KEY);
  const Data data = make_data(&c);
  send(engine, &data);
  FAILS(engine->call->train(engine, &range, &error), "37 pixels are not square");
  train(engine, plain);
  assert_int_equal(collect(engine).rows, ROWS);
}
