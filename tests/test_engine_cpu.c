/* The results of the CPU engine: against the float64 reference, the same bits whatever the threads,
   each row once per epoch, losses and predictions; and what it alone refuses or says. What every
   engine promises is in test_engine_interface.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "exercise/reference.h"
#include "support/test.h"
#include "support/engine_tests.h"

static Error error;

/* What a Case says from its learning rate to its seed and its marks, but for its steps. */
#define STEPS(n) 0.05f, 0.9f, 1e-3f, n, 3, false, false

/* After 50 steps. A sum of n float32 products errs by some sqrt(n) roundings of 6e-8, for n of
   784 about 1e-6 of a gradient; with momentum 0.9 and learning rate 0.05 half of it gets into
   the weights each step, and 50 of them, of either sign, add to a few 1e-6 of the way that the
   weights have gone, which is less than a tenth of their norm. Seen: 2e-7 of the weights, 4e-7
   of the momentum. What may be added on another machine: a ReLU whose input is within a rounding
   of 0 opens on one side only. One of 300 units for one of 16 rows is 1 / sqrt(300 x 16) of
   a gradient, 1e-2; ten times less of the momentum, and some 1e-5 of the weights. */
static const double weights_bound = 3e-5, momentum_bound = 2e-3, loss_bound = 1e-5;

/* ---- against the reference --------------------------------------------------------------- */

static void assert_one_off(uint64_t a, uint64_t b) {
  assert_true(llabs((long long)a - (long long)b) <= 1);
}

static void compare(const Case *c, const Data *data) {
  Reference r = run_reference(c, data);
  Engine *engine = open_loaded(c, CPU, data);
  train_case(engine, c);
  Outcome o = outcome_of(engine);
  const double parameters = reference_relative_error(o.parameters, r.parameters, o.floats);
  const double momentum = reference_relative_error(o.momentum, r.momentum, o.floats);
  const double loss = fabs(o.sums.loss / r.sums.loss - 1);
  if (!(parameters < weights_bound && momentum < momentum_bound && loss < loss_bound))
    fail_msg("%d inputs, %d classes, batch %d: parameters %g, momentum %g, loss %g", c->inputs,
             c->classes, c->batch, parameters, momentum, loss);
  assert_int_equal(o.sums.rows, r.sums.rows);
  assert_one_off(o.sums.correct, r.sums.correct);

  EngineSums tested = {0};
  reference_evaluate(&r.config, r.parameters, data->pixels, data->inputs, data->labels, 1,
                     c->rows - 1, &tested);
  OK(engine->call->evaluate(engine, 1, c->rows - 1, &error));
  const EngineSums evaluated = collect(engine);
  assert_int_equal(evaluated.rows, tested.rows);
  if (tested.rows) assert_true(fabs(evaluated.loss / tested.loss - 1) < loss_bound);
  assert_one_off(evaluated.correct, tested.correct);
  engine->call->close(engine);
  free_outcome(&o);
  free_reference(&r);
}

/* The default network on rows as black as MNIST's, the last batch short; then shapes that divide
   nothing. */
TEST(same_as_reference) {
  static const Case shapes[] = {
      {"default", 784, {300, 100}, 2, 10, 16, 75, STEPS(50), 0},
      {"1 input", 1, {1}, 1, 2, 1, 1, STEPS(20), 7},
      {"1 input, no hidden layer", 1, {0}, 0, 2, 3, 7, STEPS(20), 7},
      {"63 inputs", 63, {65}, 1, 10, 17, 50, STEPS(20), 1},
      {"a layer of 1", 65, {63, 1, 33}, 3, 5, 5, 23, STEPS(20), 7},
      {"no hidden layer", 784, {0}, 0, 10, 64, 100, STEPS(20), 1},
      {"1000 classes", 30, {40}, 1, 1000, 20, 90, STEPS(20), 3},
      {"batch of 1", 17, {200}, 1, 3, 1, 40, STEPS(20), 3},
      {"nearly black", 100, {31, 29}, 2, 1024, 48, 60, STEPS(20), -1},
      {"batch above rows", 20, {24}, 1, 4, 1000, 33, STEPS(20), 3},
      {"whole vectors", 12, {16, 16}, 2, 16, 16, 32, STEPS(20), 3},
      {"long batch", 40, {100}, 1, 10, 300, 700, STEPS(20), 0},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    Data data = make_data(&shapes[i], shapes[i].rows);
    compare(&shapes[i], &data);
    free_data(&data);
  }
}

/* Rows that are all black, which the kernels leave out, change nothing about the bounds. */
TEST(black_rows) {
  const Case c = {"black rows", 50, {20}, 1, 3, 8, 40, STEPS(20), 2};
  Data data = make_data(&c, c.rows);
  memset(data.pixels + 50 * 8, 0, 50 * 20);
  compare(&c, &data);
  free_data(&data);
}

/* Trains `epochs` shuffled epochs of the configuration. */
static Outcome run(const Case *c, EngineConfig config, const Data *data, uint64_t epochs) {
  Engine *engine = open_config(config, CPU);
  send_all(engine, data, c->rows);
  for (uint64_t epoch = 1; epoch <= epochs; epoch++) train(engine, epoch_of(c, epoch));
  return close_with_outcome(engine);
}

static EngineConfig usual_config(const Case *c) {
  return config_of(c, FUSION_AUTO, c->rows, whole_batches(c, c->rows));
}

TEST(learns) {
  const Case c = {"learns", 64, {32}, 1, 10, 64, 2000, .learning_rate = 0.05f, .momentum = 0.9f};
  Data data = make_data(&c, c.rows);
  for (uint64_t r = 0; r < c.rows; r++) data.pixels[r * data.inputs + data.labels[r]] = 255;
  Outcome first = run(&c, usual_config(&c), &data, 1), last = run(&c, usual_config(&c), &data, 10);
  const EngineSums sums = last.sums;
  assert_int_equal(sums.rows, 10 * c.rows);
  assert_true(sums.loss / 10 < first.sums.loss / 4);
  assert_true((double)sums.correct > 0.9 * (double)sums.rows);
  free_outcome(&first);
  free_outcome(&last);
  free_data(&data);
}

/* ---- the same bits ----------------------------------------------------------------------- */

TEST(threads_and_runs_do_not_matter) {
  static const int threads[] = {1, 1, 2, 3, 7, 40};
  static const Optimizer optimizers[] = {OPTIMIZER_SGD, OPTIMIZER_ADAM};
  const Case c = {"threads", 200, {90, 33}, 2, 10, 64, 330, STEPS(0), 1};
  Data data = make_data(&c, c.rows);
  EngineConfig config = usual_config(&c);
  config.training.rule.beta1 = 0.9f;
  config.training.rule.beta2 = 0.999f;
  config.training.rule.epsilon = 1e-8f;
  for (size_t k = 0; k < 2; k++) {
    config.training.rule.kind = optimizers[k];
    config.training.threads = threads[0];
    Outcome first = run(&c, config, &data, 3);
    for (size_t t = 1; t < sizeof threads / sizeof *threads; t++) {
      config.training.threads = threads[t];
      Outcome other = run(&c, config, &data, 3);
      assert_same_bits(&first, &other);
      assert_memory_equal(&first.sums, &other.sums, sizeof first.sums);
      free_outcome(&other);
    }
    free_outcome(&first);
  }
  free_data(&data);
}

TEST(seeds_matter) {
  Case c = {"seeds", 20, {5}, 1, 3, 4, 10, STEPS(0), 3};
  Data data = make_data(&c, c.rows);
  Outcome a = run(&c, usual_config(&c), &data, 0);
  c.seed++;
  Outcome b = run(&c, usual_config(&c), &data, 0);
  assert_memory_not_equal(a.parameters, b.parameters, a.floats * sizeof(float));
  free_outcome(&a);
  free_outcome(&b);
  free_data(&data);
}

/* ---- ranges ------------------------------------------------------------------------------ */

/* Whatever the order, every row is trained on once: with a learning rate of 0 the weights stay,
   so the sums of a training epoch are those of an evaluation, whichever row is marked. */
TEST(every_row_is_used_once) {
  enum { ROWS = 37 };
  const Case c = {"a marked row", 16, {8}, 1, 4, 5, ROWS, STEPS(0), 3};
  Data data = make_data(&c, ROWS);
  uint8_t original[ROWS * 16];
  memcpy(original, data.pixels, sizeof original);
  for (uint64_t marked = 0; marked < ROWS; marked++) {
    memset(data.pixels, 0, ROWS * 16);
    memcpy(data.pixels + marked * 16, original + marked * 16, 16);
    Engine *engine = open_loaded(&c, CPU, &data);
    Outcome before = outcome_of(engine);
    OK(engine->call->evaluate(engine, 0, ROWS, &error));
    const EngineSums expected = collect(engine);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
      train(engine, (TrainRange){.rows = ROWS, .shuffled = epoch > 0, .key = epoch, .steps = 8});
      const EngineSums sums = collect(engine);
      assert_int_equal(sums.rows, ROWS);
      assert_int_equal(sums.correct, expected.correct);
      assert_true(fabs(sums.loss - expected.loss) < 1e-12 * expected.loss);
    }
    Outcome after = close_with_outcome(engine);
    assert_memory_equal(before.parameters, after.parameters, after.floats * sizeof(float));
    free_outcome(&before);
    free_outcome(&after);
  }
  free_data(&data);
}

static const Case ranged = {"ranges", 70, {30}, 1, 6, 8, 101, STEPS(0), 2};

TEST(shuffled_is_permuted) {
  Data data = make_data(&ranged, ranged.rows), permuted = make_data(&ranged, ranged.rows);
  for (uint32_t p = 0; p < 90; p++) { /* a window of 90 rows from row 7 */
    const uint32_t row = 7 + random_permute(p, 90, 77);
    memcpy(permuted.pixels + (7 + p) * 70, data.pixels + row * 70, 70);
    permuted.labels[7 + p] = data.labels[row];
  }
  TrainRange range = {
      .first_row = 7, .rows = 90, .shuffled = true, .key = 77, .steps = 12, .learning_rate = 0.1f};
  Engine *a = open_loaded(&ranged, CPU, &data), *b = open_loaded(&ranged, CPU, &permuted);
  train(a, range);
  range.shuffled = false;
  train(b, range);
  Outcome of_a = close_with_outcome(a), of_b = outcome_of(b);
  assert_same_bits(&of_a, &of_b);
  range.shuffled = true; /* and not otherwise */
  train(b, range);
  Outcome otherwise = close_with_outcome(b);
  assert_memory_not_equal(of_a.parameters, otherwise.parameters, of_a.floats * sizeof(float));
  free_outcome(&of_a);
  free_outcome(&of_b);
  free_outcome(&otherwise);
  free_data(&data);
  free_data(&permuted);
}

TEST(two_calls_are_one) {
  Data data = make_data(&ranged, ranged.rows);
  TrainRange range = {.rows = 101, .shuffled = true, .key = 5, .steps = 13, .learning_rate = 0.1f};
  Engine *a = open_loaded(&ranged, CPU, &data), *b = open_loaded(&ranged, CPU, &data);
  train(a, range);
  range.steps = 4;
  train(b, range);
  range.first_step = 4, range.steps = 0;
  train(b, range);
  range.steps = 9;
  train(b, range);
  Outcome of_a = close_with_outcome(a), of_b = close_with_outcome(b);
  assert_same_bits(&of_a, &of_b);
  assert_memory_equal(&of_a.sums, &of_b.sums, sizeof of_a.sums);
  assert_int_equal(of_b.sums.rows, 101);
  free_outcome(&of_a);
  free_outcome(&of_b);
  free_data(&data);
}

/* What follows a row's pixels in a staging buffer does not matter, and the buffer is free again as
   soon as upload returns. */
TEST(only_pixels_are_uploaded) {
  const Case c = {"gaps", 33, {12}, 1, 4, 4, 48, STEPS(0), 3};
  Data data = make_data(&c, c.rows);
  Outcome o[2];
  for (int filled = 0; filled < 2; filled++) {
    Engine *engine = open_level(&c, CPU, c.rows, c.rows);
    StagingBuffer s;
    OK(engine->call->staging(engine, 0, &s, &error));
    assert_int_equal(s.stride, 48);
    memset(s.pixels, filled ? 0xff : 0, s.stride * c.rows);
    send_all(engine, &data, c.rows);
    if (filled) memset(s.pixels, 0xaa, s.stride * c.rows);
    train(engine, epoch_of(&c, 1));
    o[filled] = close_with_outcome(engine);
  }
  assert_same_bits(&o[0], &o[1]);
  free_outcome(&o[0]);
  free_outcome(&o[1]);
  free_data(&data);
}

/* ---- the loss ---------------------------------------------------------------------------- */

/* A network without hidden layers whose logits on a white row are given. */
static EngineSums loss_of(const float *logits, int classes, uint16_t label, float *weights) {
  const Case c = {"logits", 1, {0}, 0, classes, 1, 1, STEPS(0), 0};
  const Data data = {(uint8_t[]){255}, &label, 1};
  Engine *engine = open_loaded(&c, CPU, &data);
  const Network *n = &engine->config.network;
  float *parameters = allocate(n->floats, sizeof *parameters);
  memcpy(parameters + n->bias[0], logits, (size_t)classes * sizeof *logits);
  OK(engine->call->write(engine, parameters, NULL, &error));
  train(engine, (TrainRange){.rows = 1, .steps = 1, .learning_rate = 1});
  OK(engine->call->read(engine, parameters, NULL, &error));
  if (weights) memcpy(weights, parameters + n->weight[0], (size_t)classes * sizeof *weights);
  const EngineSums sums = collect(engine);
  engine->call->close(engine);
  free(parameters);
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
  const Case c = {"prediction", 70, {30, 21}, 2, CLASSES, 8, ROWS, STEPS(0), 2};
  Data data = make_data(&c, ROWS);
  EngineConfig config = usual_config(&c);
  config.training.threads = 3;
  Engine *engine = open_config(config, CPU);
  send_all(engine, &data, ROWS);
  train(engine, epoch_of(&c, 0));
  collect(engine);
  static float logits[ROWS][CLASSES], from_first[ROWS - FIRST + 1][CLASSES];
  OK(engine->call->evaluate(engine, 0, ROWS, &error));
  OK(engine->call->predict(engine, 0, ROWS, logits[0], &error));
  const EngineSums expected = expected_sums(logits[0], data.labels, ROWS, CLASSES),
                   sums = collect(engine);
  assert_memory_equal(&sums, &expected, sizeof sums);
  assert_true(expected.correct > ROWS / 5); /* it has learned something */

  from_first[ROWS - FIRST][0] = 77;
  OK(engine->call->predict(engine, FIRST, ROWS - FIRST, from_first[0], &error));
  assert_memory_equal(from_first, logits[FIRST], sizeof(float[ROWS - FIRST][CLASSES]));
  assert_true(from_first[ROWS - FIRST][0] == 77); /* nothing behind the last row is written */
  OK(engine->call->predict(engine, ROWS, 0, NULL, &error));
  assert_int_equal(collect(engine).rows, 0);
  engine->call->close(engine);
  free_data(&data);
}

/* ---- what is refused, what is said --------------------------------------------------------- */

static const Case tiny = {"tiny", 10, {0}, 0, 2, 4, 9, STEPS(0), 3};

/* Numbers below 1e-38 are flushed in the engine's threads, and nowhere else. */
TEST(denormals_are_the_callers_own) {
  Data data = make_data(&tiny, tiny.rows);
  Outcome o = run(&tiny, usual_config(&tiny), &data, 1);
  volatile float small = 1e-30f;
  assert_true(small * 1e-10f != 0);
  free_outcome(&o);
  free_data(&data);
}

static void refused(bool done, const char *said) {
  assert_false(done);
  if (!strstr(error.text, said)) fail_msg("'%s' says nothing of '%s'", error.text, said);
  error.text[0] = '\0';
}

TEST(misuse) {
  static const char outside[] = "dataset of 9 rows", no_steps[] = "no steps";
  static const struct {
    TrainRange range;
    const char *said;
  } bad[] = {
      {{.first_row = 0, .rows = 10, .steps = 1}, outside},
      {{.first_row = 1, .rows = 9, .steps = 1}, outside},
      {{.first_row = 10, .rows = 0}, outside},
      {{.first_row = UINT64_MAX, .rows = 2}, outside},
      {{.rows = 9, .steps = 4}, no_steps},
      {{.rows = 9, .first_step = 3, .steps = 1}, no_steps},
      {{.rows = 9, .first_step = UINT64_MAX, .steps = 2}, no_steps},
  };
  Engine *engine = open_level(&tiny, CPU, 9, 4);
  const EngineOperations *call = engine->call;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused(call->train(engine, &bad[i].range, &error), bad[i].said);
  refused(call->evaluate(engine, 5, 5, &error), outside);
  refused(call->predict(engine, 8, 2, (float[4]){0}, &error), outside);
  refused(call->upload(engine, 0, 8, 2, &error), outside);
  refused(call->upload(engine, 0, 0, 5, &error), "a staging buffer has no 5 rows, only 4");
  assert_int_equal(collect(engine).rows, 0);
  engine->call->close(engine);
}

TEST(opening_fails_cleanly) {
  const Case c = {"bad", 10, {5}, 1, 2, 4, 9, STEPS(0), 0};
  EngineConfig bad[6];
  for (int i = 0; i < 6; i++) bad[i] = usual_config(&c);
  bad[0].training.batch = 0, bad[1].training.threads = 0, bad[2].dataset_rows = 0,
  bad[3].staging_rows = 0;
  bad[4].dataset_rows = UINT64_MAX, bad[5].staging_rows = UINT64_MAX / 2;
  for (int i = 0; i < 6; i++)
    refused(engine_cpu_open(&bad[i], &error), i < 4 ? "at least 1" : "out of memory");
}

TEST(describes_itself) {
  Engine *engine = open_level(&tiny, CPU, 9, 12);
  assert_int_equal(engine->config.training.fusion, FUSION_LAYER);
  assert_memory_equal(engine->device, "CPU, 2 threads", 14);
  assert_true(strlen(engine->reason) > 0 && engine->memory > 1 << 24);
  engine->call->close(engine);
}
