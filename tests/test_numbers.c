/* Numbers at their limits, in the CPU engine and in the whole program: learning rates that are 0,
   huge or no number, steps of one row and of more than there are, one class only, black pictures,
   any number of threads. Each ends as expected, or with one sentence. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/checkpoint.h"
#include "engine/engine.h"
#include "support/test.h"
#include "support/program.h"
#include "base/random.h"

/* ---- the engine --------------------------------------------------------------------------- */

enum { INPUTS = 5, FIRST = 6, ROWS = 24, CLASSES = 3 };

typedef enum { MIXED, ONE_CLASS, BLACK } Rows;

/* A store of rows of one kind. */
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

/* The mean loss of the last of some epochs. */
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

/* network.floats values: the caller frees them. */
static float *parameters_of(Engine *engine) {
  Error error;
  float *values = malloc(engine->config.network.floats * sizeof *values);
  assert_non_null(values);
  assert_true(engine->call->read(engine, values, NULL, &error));
  return values;
}

TESTS_WITH(program_open, program_close);

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

/* The loss shows it: sums that look well would hide it. */
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

/* A step of more rows than there are is one of all of them. */
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

/* Black pictures tell nothing: what is learnt is how often each class comes, here as often as any,
   and the first layer's weights stay as they were. */
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

/* ---- the program -------------------------------------------------------------------------- */

TEST(rates_that_are_none_are_refused) {
  static const char *const rates[] = {"1e30", "nan", "-nan", "inf", "-1", "100.001", "1e999"};
  for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
    char expected[128], key[64];
    RUN(TINY, "--lr", rates[i]);
    assert_int_equal(program.status, 2);
    snprintf(expected, sizeof expected,
             "mlp-train: --lr must be a number from 0 to 100, not '%s'\n", rates[i]);
    program_said(expected);
    FILE *file = fopen("rate.conf", "w");
    assert_non_null(file);
    snprintf(key, sizeof key, "[training]\nlr = %s\n", rates[i]);
    fputs(key, file);
    assert_int_equal(fclose(file), 0);
    RUN(TINY, "--config", "rate.conf");
    program_failed(1, "rate.conf:2: ");
    program_said("must be a number from 0 to 100, not ");
  }
}

TEST(a_rate_of_0_trains_nothing) {
  RUN_WELL(TINY, "--lr", "0", "--momentum", "0", "--epochs", "1", "--save", "one.safetensors");
  RUN_WELL(TINY, "--lr", "0", "--momentum", "0", "--epochs", "4", "--save", "four.safetensors");
  Checkpoint one = program_checkpoint("one.safetensors"),
             four = program_checkpoint("four.safetensors");
  assert_memory_equal(one.parameters, four.parameters, one.network.floats * sizeof *one.parameters);
  assert_true(one.test_accuracy == four.test_accuracy);
  assert_int_equal(four.best_epoch, 1);
  checkpoint_free(&one);
  checkpoint_free(&four);
}

/* 300 rows in a step make one step an epoch, which multiplies each weight by -99. */
#define DIVERGES                                                                                   \
  "--batch", "300", "--lr", "100", "--lr-decay", "1", "--weight-decay", "1", "--momentum", "0"

TEST(a_loss_that_is_no_number_leaves_the_last_good_network) {
  for (int resident = 0; resident < 2; resident++) {
    const char *how = resident ? "yes" : "no";
    RUN(TINY, DIVERGES, "--epochs", "1000", "--resident", how, "--save", "saved.safetensors");
    program_failed(1, "try a lower --lr; saved.safetensors holds the network of epoch ");
    const int epochs = program_lines("^epoch ");
    assert_in_range(epochs, 2, 100);
    assert_int_equal(program_lines("^epoch .*nan|^epoch .*inf"), 0);
    assert_int_equal(program_lines("^total "), 0);
    Checkpoint saved =
        program_checkpoint("saved.safetensors"); /* which refuses what is not a finite number */
    char expected[128];
    assert_in_range(saved.epoch, 1, epochs);
    assert_int_equal(saved.best_epoch, saved.epoch);
    snprintf(expected, sizeof expected, "holds the network of epoch %d\n", saved.epoch);
    program_said(expected);
    snprintf(expected, sizeof expected, "epoch %d: try", epochs + 1);
    program_said(expected); /* the one in which it happened */
    checkpoint_free(&saved);
    RUN(TINY, DIVERGES, "--epochs", "1000", "--resident", how);
    program_failed(1, "try a lower --lr\n");
  }
}

/* The file that a run goes on from is what is left of it, unless it was to be kept elsewhere. */
TEST(a_resumed_run_that_diverges_names_its_file) {
  RUN_WELL(TINY, "--epochs", "2", "--save", "two.safetensors");
  RUN("--resume", "two.safetensors", "--epochs", "9", "--lr", "100", "--weight-decay", "1");
  program_failed(1, "--lr; two.safetensors holds the network of epoch 2\n");
  program_said(" of epoch 3: try a lower --lr");
  RUN("--resume", "two.safetensors", "--epochs", "9", "--lr", "100", "--weight-decay", "1",
      "--save", "elsewhere.safetensors");
  program_failed(1, "try a lower --lr\n");
  assert_int_equal(access("elsewhere.safetensors", F_OK), -1);
}

TEST(any_batch_uses_every_row) {
  static const char *const batches[] = {"1", "299", "300", "301", "65536"};
  for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
    RUN_WELL(TINY, "--epochs", "1", "--batch", batches[i], "--save", "resident.safetensors");
    RUN_WELL(TINY, "--epochs", "1", "--batch", batches[i], "--resident", "no", "--save",
             "streamed.safetensors");
    program_same_networks("resident.safetensors", "streamed.safetensors");
    RUN_WELL(TINY, "--epochs", "3", "--batch", batches[i], "--log", "rows.csv");
    char *log = program_read("rows.csv", NULL), *line = log;
    int epochs = 0;
    for (line = strtok(line, "\n"); line; line = strtok(NULL, "\n"))
      epochs += *line >= '1' && *line <= '3' && strstr(line, ",300,50") != NULL;
    assert_int_equal(epochs, 3);
    free(log);
  }
  RUN_WELL(TINY, "--epochs", "3", "--batch", "300", "--save", "all.safetensors");
  RUN_WELL(TINY, "--epochs", "3", "--batch", "65536", "--save", "more.safetensors");
  program_same_networks("all.safetensors", "more.safetensors");
}

/* Rows of one label whose four pixels are `pixel`. */
static void write_equals(const char *path, int rows, int label, int pixel) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int row = 0; row < rows; row++)
    fprintf(file, "%d,%d,%d,%d,%d\n", label, pixel, pixel, pixel, pixel);
  assert_int_equal(fclose(file), 0);
}

TEST(equal_rows_are_learnt) {
  for (int pixel = 0; pixel <= 255; pixel += 255) {
    write_equals("equal.csv", 100, 1, pixel);
    RUN_WELL(TINY, "--train", "equal.csv", "--test", "equal.csv", "--epochs", "30", "--confusion",
             "confusion.png", "--mistakes", "mistakes.png");
    assert_int_equal(program_lines("^epoch 30/30  0\\.0.* 100\\.0%  [^%]*$"), 1);
    assert_int_equal(program_lines("nan|inf"), 0);
  }
}

TEST(threads_change_no_bit) {
  static const char *const threads[] = {"2", "3", "7"}, *const variants[][5] = {
                                                            {"--augment",
                                                             "shift,rotate,scale,elastic"},
                                                            {"--resident", "no"},
                                                            {"--batch", "1"}};
  program_write_digits("digits.csv", DIGITS_TRAIN, 150, true);
  for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
    const char *const *more = variants[v];
#define RUN_THREADS(number, file)                                                                  \
  RUN_WELL(TINY, "--train", "digits.csv", "--test", "digits.csv", "--classes", "10", "--hidden",   \
           "19,5", "--epochs", "3", "--threads", number, "--save", file, more[0], more[1])
    RUN_THREADS("1", "one.safetensors");
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
      RUN_THREADS(threads[i], "many.safetensors");
      program_same_networks("one.safetensors", "many.safetensors");
    }
  }
}
