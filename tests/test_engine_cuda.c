/* The results of the CUDA engine, at every level of fusion: against the float64 reference and the
   CPU engine, the same bits each time, each row once per epoch. What else engine.h promises is in
   test_engine_interface.c. */
#include "support/test.h"
#include "support/engine_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exercise/reference.h"
#ifdef HAVE_CUDA
#include "kernels.h"
#endif

static Error error;

/* ---- against the reference ------------------------------------------------------------------ */

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
   through 400 neurons - one in twelve runs had a flip, and the worst of 48 was off by 6e-4. What is
   left of it in the last gradient, which is the momentum of plain SGD, is more: flips forced upon
   the reference itself, of inputs 1e-6 and 4e-7 from 0, at steps 1 and 22, made 0.038 and 0.013. */
static void assert_near(int level, const Case *c, const Outcome *o, const double *parameters,
                        const double *momentum, const double *start, EngineSums sums) {
  const char *who = levels[level].name;
  const bool tf32 = levels[level].precision == PRECISION_TF32;
  const double limit = c->flips ? 1e-2 : tf32 ? 2e-3 : 2e-5;
  const double rows_off = fabs((double)o->sums.correct - (double)sums.correct);
  assert_at_most("parameters", who, c->name, way_error(o->parameters, parameters, start, o->floats),
                 limit);
  assert_at_most("momentum", who, c->name,
                 reference_relative_error(o->momentum, momentum, o->floats),
                 c->flips ? 5e-2 : 2 * limit);
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

TEST(test_same_as_reference_and_cpu) {
  needs_gpu();
  for (int i = 0; i < CASES; i++) {
    const Case *c = &cases[i];
    if (quick() && !c->quick) continue;
    Data data = make_data(c, c->rows);
    Reference r = run_reference(c, &data);
    Outcome on_cpu = train_on(open_level(c, CPU, c->rows, (uint64_t)c->batch), c, &data);
    compare_levels(c, &data, &r, &on_cpu);
    free_outcome(&on_cpu);
    free_reference(&r);
    free_data(&data);
  }
}

/* ---- the same bits -------------------------------------------------------------------------- */

static void train_whole(void *engine, TrainRange range) {
  train(engine, range);
}

/* The range in three calls: one step, or what ranges are to be aligned to, two of them, the rest.
 */
static void train_in_parts(void *engine, TrainRange range) {
  Engine *e = engine;
  const uint64_t aligned = e->aligned > 1 ? e->aligned : 1;
  const uint64_t parts[] = {aligned, 2 * aligned, UINT64_MAX};
  const uint64_t last = range.first_step + range.steps;
  for (int p = 0; p < 3 && range.first_step < last; p++) {
    const uint64_t left = last - range.first_step;
    range.steps = parts[p] < left ? parts[p] : left;
    train(e, range);
    range.first_step += range.steps;
  }
}

static void check_same_bits(const Case *c, const Data *data, int level) {
  static void (*const ways[])(void *, TrainRange) = {train_whole, train_whole, train_in_parts};
  Outcome o[3];
  for (int w = 0; w < 3; w++) {
    Engine *engine = open_level(c, level, c->rows, whole_batches(c, c->rows));
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

TEST(test_same_bits) {
  needs_gpu();
  for (int i = 0; i < CASES; i++) {
    Case c = cases[i];
    if (quick() && i != SHORT) continue;
    if (quick()) c.steps = 12; /* an epoch with a short last batch, and some of the next */
    Data data = make_data(&c, c.rows);
    for (int level = 0; level < tested_levels(); level++) check_same_bits(&c, &data, level);
    free_data(&data);
  }
}

/* More steps than level epoch takes in a launch, and ranges that end in the middle of one. */
TEST(test_same_bits_of_long_ranges) {
  needs_gpu();
  const Case c = {.name = "1500 steps",
                  .inputs = 50,
                  .hidden = {33, 20},
                  .hidden_count = 2,
                  .classes = 6,
                  .batch = 2,
                  .rows = 2999,
                  .learning_rate = 0.01f,
                  .momentum = 0.5f,
                  .steps = 1600,
                  .seed = 33};
  Data data = make_data(&c, c.rows);
  for (int level = 0; level < tested_levels(); level++) check_same_bits(&c, &data, level);
  free_data(&data);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Row r has one pixel, number r: only its step changes column r of the weights. Its label's
   weight grows by learning rate / rows of the step * (1 - p) once a time that the row is used,
   where p, at the start, is near 1/10. */
TEST(test_every_row_is_used_once_per_epoch) {
  needs_gpu();
  enum { ROWS = 300, BATCH = 64, LAST = ROWS % BATCH };
  const Case c = {.name = "a pixel a row",
                  .inputs = ROWS,
                  .classes = 10,
                  .batch = BATCH,
                  .rows = ROWS,
                  .learning_rate = 0.5f,
                  .seed = 1};
  Data data = make_data(&c, c.rows);
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
TEST(test_evaluation) {
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
  Data data = make_data(&c, most);
  for (int i = 0; i < (quick() ? 1 : 3); i++) {
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
      const EngineConfig config = config_of(&c, FUSION_NONE, rows, rows);
      reference_evaluate(&config, parameters, data.pixels, data.inputs, data.labels, FIRST,
                         counts[i], &sums);
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

/* The sums that evaluate should find for rows of logits, in float64. */
static EngineSums expected_sums(const float *logits, const uint16_t *labels, uint64_t rows,
                                int classes) {
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

/* Logits are those that evaluate uses, in more than one piece; prediction waits for what is
   queued before it, and the sums know nothing of it. */
TEST(test_prediction) {
  needs_gpu();
  enum { FIRST = 20, CLASSES = 10 };
  const Case c = {.name = "prediction",
                  .inputs = 20,
                  .hidden = {16, 12},
                  .hidden_count = 2,
                  .classes = CLASSES,
                  .batch = 16,
                  .rows = quick() ? 100 : 20513,
                  .learning_rate = 0.05f,
                  .momentum = 0.9f,
                  .seed = 54};
  const uint64_t count = c.rows - FIRST;
  Data data = make_data(&c, c.rows);
  float *queued = allocate(count * CLASSES, sizeof *queued);
  float *again = allocate(count * CLASSES, sizeof *again);
  for (int level = 0; level < tested_levels(); level++) {
    Engine *engine = open_level(&c, level, c.rows, 4096);
    if (!engine) continue;
    send_all(engine, &data, c.rows);
    train(engine, epoch_of(&c, 1));
    OK(engine->call->predict(engine, FIRST, count, queued, &error));
    assert_int_equal(collect(engine).rows, c.rows); /* the training's */
    OK(engine->call->evaluate(engine, FIRST, count, &error));
    OK(engine->call->predict(engine, FIRST, count, again, &error));
    assert_memory_equal(queued, again, count * CLASSES * sizeof *again);
    const EngineSums sums = collect(engine);
    const EngineSums expected = expected_sums(again, data.labels + FIRST, count, CLASSES);
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

/* ---- wide layers ---------------------------------------------------------------------------- */

/* All of it once more with the kernels for wide layers, which take these small networks only when
   told to. */
TEST(test_wide_layers) {
  needs_gpu();
#ifdef HAVE_CUDA
  if (!wide_by()) skip();
#endif
  assert_int_equal(setenv("MLP_TEST_WIDE", "always", 1), 0);
  Engine *engine = open_level(&cases[MNIST], 2, cases[MNIST].rows, cases[MNIST].rows);
  assert_true(engine->wide);
  engine->call->close(engine);
  test_same_as_reference_and_cpu(state);
  test_same_bits(state);
  test_every_row_is_used_once_per_epoch(state);
  test_evaluation(state);
  test_prediction(state);
  unsetenv("MLP_TEST_WIDE");
}
