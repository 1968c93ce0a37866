/* Every engine keeps the promises of engine.h, the CPU's and that of every level of fusion: two
   staging buffers while the device works, sums, parameters that are read and written, refusals.
   What engines compute is in test_engine_results.c. */
#include "support/engine_tests.h"

#include <time.h>

#ifdef HAVE_CUDA
#include "engine/cuda/gpu_limits.h"
#endif

/* ---- the double buffer ---------------------------------------------------------------------- */

typedef enum { IN_TURN, SLOW_HOST, WAITING, RESIDENT, PACES } Pace;

/* The sums that were collected while an engine trained, until its end. */
static EngineSums collected;

static void add(EngineSums some) {
  collected.loss += some.loss;
  collected.correct += some.correct;
  collected.rows += some.rows;
}

static void pace_host(Engine *engine, Pace pace) {
  if (pace == SLOW_HOST) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  if (pace == WAITING) add(collect(engine));
}

static Outcome end(Engine *engine) {
  Outcome o = close_with_outcome(engine);
  add(o.sums);
  o.sums = collected;
  collected = (EngineSums){0};
  return o;
}

/* The data streams through two buffers of the dataset in turn; RESIDENT, each window has a place of
   its own. A window is trained on again and again, until the host is far ahead of the device,
   then evaluated. */
CONTRACT(test_streaming, tested_levels(), busy_case(level)) {
  const uint64_t window = 2 * (uint64_t)c->batch;
  Outcome o[PACES];
  for (Pace pace = IN_TURN; pace < PACES; pace++) {
    Engine *engine = open_level(c, level, pace == RESIDENT ? c->rows : 2 * window, window);
    uint64_t turn = 0;
    for (uint64_t from = 0; from < c->rows; from += window, turn++) {
      const uint64_t rows = min_size(c->rows - from, window);
      const uint64_t first_row = pace == RESIDENT ? from : turn % 2 * window;
      const TrainRange range = {.first_row = first_row,
                                .rows = rows,
                                .shuffled = turn > 2,
                                .key = 5,
                                .steps = steps_of(c, rows),
                                .learning_rate = 0.001f};
      pace_host(engine, pace);
      send_rows(engine, (int)(turn % 2), data, from, rows, first_row);
      for (int again = 0; again < (quick() ? 2 : 40); again++) train(engine, range);
      pace_host(engine, pace);
      OK(engine_evaluate(engine, first_row, rows, &error));
    }
    o[pace] = end(engine);
    assert_same_outcome(&o[0], &o[pace], level == CPU && pace != WAITING ? 0 : 1e-12);
  }
}

/* Rows are replaced while steps on them are still queued, from either buffer, in whole and in part:
   the copy must wait for exactly those. */
static Outcome replace_rows(int level, const Case *c, const Data *data, Pace pace) {
  enum { UPLOADS = 8 };
  const uint64_t rows = c->rows / 2, half = rows / 2;
  const struct {
    int buffer;
    uint64_t first_row, rows;
  } uploads[UPLOADS] = {
      {0, 0, rows}, {1, 0, rows},           {0, 0, rows}, {0, 0, rows},
      {0, 0, half}, {1, half, rows - half}, {0, 0, rows}, {1, half, half / 2},
  };
  Engine *engine = open_level(c, level, c->rows, whole_batches(c, rows));
  for (int u = 0; u < UPLOADS; u++) {
    send_rows(engine, uploads[u].buffer, data, (uint64_t)u, uploads[u].rows, uploads[u].first_row);
    for (uint64_t again = 0; again < (quick() ? 2 : 40); again++)
      train(engine, (TrainRange){.rows = rows,
                                 .shuffled = true,
                                 .key = again,
                                 .steps = steps_of(c, rows),
                                 .learning_rate = 0.001f});
    pace_host(engine, pace);
  }
  return end(engine);
}

CONTRACT(test_upload_over_rows_in_use_waits, tested_levels(), busy_case(level)) {
  const Outcome at_once = replace_rows(level, c, data, IN_TURN);
  const Outcome waiting = replace_rows(level, c, data, WAITING);
  assert_same_outcome(&at_once, &waiting, 1e-9);
}

/* ---- sums, weights, refusals ---------------------------------------------------------------- */

CONTRACT(test_collect_starts_anew, tested_levels(), &cases[SHORT]) {
  Engine *engine = open_level(c, level, c->rows, 70);
  assert_int_equal(collect(engine).rows, 0);
  send_all(engine, data, c->rows);
  train(engine, epoch_of(c, 1));
  OK(engine_evaluate(engine, 0, 5, &error));
  assert_int_equal(collect(engine).rows, c->rows + 5);
  OK(engine_evaluate(engine, 3, 17, &error));
  EngineSums sums = collect(engine);
  assert_int_equal(sums.rows, 17);
  assert_true(sums.loss > 0);
  train(engine, (TrainRange){.rows = c->rows}); /* no steps */
  OK(engine_evaluate(engine, 0, 0, &error));
  sums = collect(engine);
  assert_int_equal(sums.rows, 0);
  assert_int_equal(sums.correct, 0);
  assert_true(sums.loss == 0);
}

/* Weights that are read can be written, and training goes on from there as if nothing had happened,
   in the order of the range at hand, though its first row and key be as before. Parameters are
   written alone, too. */
CONTRACT(test_read_and_write, tested_levels(), busy_case(level)) {
  Engine *first = open_loaded(c, level, data), *second = open_loaded(c, level, data);
  TrainRange half = epoch_of(c, 1);
  half.rows = c->rows / 2;
  half.steps = steps_of(c, half.rows);
  train(first, epoch_of(c, 1));
  Outcome saved = outcome_of(first);
  OK(second->call->write(second, saved.parameters, 1 + saved.states, &error));
  OK(second->call->read(second, NULL, 0, &error));
  Outcome written = outcome_of(second);
  assert_same_bits(&saved, &written);
  foreach (engine, VALUES(Engine *, first, second)) {
    train(*engine, half);
    train(*engine, epoch_of(c, 2));
  }
  Outcome through = close_with_outcome(first), resumed = outcome_of(second);
  assert_same_bits(&through, &resumed);
  OK(second->call->write(second, saved.parameters, 1, &error));
  Outcome mixed = close_with_outcome(second);
  assert_memory_equal(mixed.parameters, saved.parameters, mixed.floats * sizeof(float));
  assert_memory_equal(mixed.momentum, resumed.momentum, mixed.floats * sizeof(float));
}

/* Parameters begin as network_initialise says, momentum at 0; no learning rate, no change. */
CONTRACT(test_learning_rate_0, tested_levels(), busy_case(level)) {
  Engine *engine = open_loaded(c, level, data);
  Outcome before = outcome_of(engine);
  float *initial = allocate(before.floats, sizeof *initial);
  network_initialise(&engine->config.network, c->seed, initial);
  assert_memory_equal(before.parameters, initial, before.floats * sizeof(float));
  for (size_t i = 0; i < before.floats; i++) assert_true(before.momentum[i] == 0);
  TrainRange range = epoch_of(c, 1);
  range.learning_rate = 0;
  train(engine, range);
  Outcome after = close_with_outcome(engine);
  assert_memory_equal(after.parameters, initial, after.floats * sizeof(float));
}

/* Nothing outside the dataset is accepted, and the engine goes on working. */
CONTRACT(test_refusals, tested_levels(), &cases[SHORT]) {
  enum { ROWS = 60, STEPS = 9, STAGED = 28 };
  static const char outside[] = "dataset of 60 rows", no_steps[] = "no steps";
  static const struct {
    TrainRange range;
    const char *said;
  } bad[] = {
      {{.rows = ROWS + 1, .steps = STEPS}, outside},
      {{.first_row = 1, .rows = ROWS, .steps = STEPS}, outside},
      {{.first_row = ROWS + 1}, outside},
      {{.first_row = UINT64_MAX, .rows = 2}, outside},
      {{.rows = ROWS, .steps = STEPS + 1}, no_steps},
      {{.rows = ROWS, .first_step = STEPS, .steps = 1}, no_steps},
      {{.rows = ROWS, .first_step = UINT64_MAX, .steps = 2}, no_steps},
      {{.steps = STEPS}, no_steps},
  };
  Engine *engine = open_level(c, level, c->rows, STAGED);
  const EngineOperations *call = engine->call;
  FAILS(call->upload(engine, 0, ROWS - 4, 5, &error), outside);
  FAILS(call->upload(engine, 1, 0, STAGED + 1, &error), "has no 29 rows, only 28");
  FAILS(engine_evaluate(engine, ROWS - 4, 5, &error), outside);
  FAILS(call->predict(engine, ROWS - 4, 5, (float[50]){0}, &error), outside);
  foreach (b, bad) FAILS(call->train(engine, &b->range, &error), b->said);
  send_all(engine, data, c->rows);
  train(engine, epoch_of(c, 0));
  assert_int_equal(close_with_outcome(engine).sums.rows, ROWS);
}

ENGINE_TEST(test_auto_says_which_and_why) {
  needs_gpu();
  for (int i = 0; i < CASES; i++) {
    const EngineConfig config =
        config_of(&cases[i], FUSION_AUTO, cases[i].rows, (uint64_t)cases[i].batch);
    Engine *engine = engine_cuda_open(&config, &error);
    OK(engine != NULL);
    assert_int_not_equal(engine->config.training.fusion, FUSION_AUTO);
    assert_true(strlen(engine->reason) > 0);
    assert_true(strlen(engine->device) > 0);
    assert_true(engine->memory > 0);
    engine->call->close(engine);
  }
}

/* test_gpu_limits.c has the choice for every GPU; here it is in use. */
ENGINE_TEST(test_precision_in_use) {
  needs_gpu();
#ifdef HAVE_CUDA
  GpuLimits gpu;
  OK(gpu_limits_read(&gpu, &error));
  for (int level = 0; level < LEVELS; level++) {
    const Engine *engine = open_level(&cases[SHORT], level, 100, 70);
    const bool tf32 = levels[level].precision == PRECISION_TF32 && gpu.capability >= 80;
    if (engine)
      assert_int_equal(engine->config.training.precision, tf32 ? PRECISION_TF32 : PRECISION_FP32);
  }
#endif
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
ENGINE_TEST(test_a_network_too_big_leaks_nothing) {
  needs_gpu();
  if (quick()) skip_because("under a sanitizer a failed allocation counts as a fault");
  enum { WIDE = NETWORK_MAX_HIDDEN, BATCH = 1000000, TIMES = 8 };
  const int hidden[] = {WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE};
  const Case *small = &cases[SHORT];
  Data data = make_data(small);
  for (int level = 0; level < tested_levels(); level++) {
    EngineConfig config = config_of(small, levels[level].fusion, BATCH, BATCH);
    OK(network_init(&config.network, 1, hidden, 7, 10, &error));
    config.training.batch = BATCH;
    size_t before = 0;
    for (int time = 0; time <= TIMES; time++) {
      error.text[0] = '\0';
      assert_null(engine_cuda_open(&config, &error));
      assert_true(strlen(error.text) > 10);
      if (time == 0) before = free_memory(); /* what the driver takes for itself it has by now */
    }
    assert_true(free_memory() + (4 << 20) >= before);
    Engine *engine = open_level(small, level, small->rows, (uint64_t)small->batch);
    if (!engine) continue;
    Outcome o = train_on(engine, small, &data);
    assert_true(o.sums.rows > 0);
  }
}
