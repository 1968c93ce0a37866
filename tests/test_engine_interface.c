/* Tests that the CPU engine, and the CUDA engine at every level of fusion, keep the promises of
   engine.h. Tests staging buffers while the device works, sums, reading and writing of parameters,
   refusals, and the state after a real GPU fails. test_faults.c makes calls to a stand-in GPU fail.
   test_engine_results.c tests what engines compute. */
#include "support/engine_tests.h"

#include <time.h>

#ifdef HAVE_CUDA
#include "engine/cuda/cuda_state.h"
#endif

/* ---- the double buffer ---------------------------------------------------------------------- */

typedef enum { IN_TURN, SLOW_HOST, WAITING, RESIDENT, PACES } Pace;

/* The total of all sums that were collected from an engine. */
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

/* Sends windows of rows. Windows go in turn to the first and the second half of the dataset; with
   RESIDENT, each window has a place of its own. The engine trains on a window many times, so that
   the host gets far ahead of the device. Then the engine evaluates the window. */
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

/* ---- weights, refusals -------------------------------------------------------------------- */

/* Parameters start as network_initialise sets them, and momentum starts as 0. Training at rate 0
   changes neither. Reading and writing parameters does not change how training goes on. A range's
   order of rows is right even if the previous range has the same first row and key but more rows.
   Parameters can also be written without the momentum. */
CONTRACT(test_read_and_write, tested_levels(), busy_case(level)) {
  Engine *first = open_loaded(c, level, data), *second = open_loaded(c, level, data);
  TrainRange half = epoch_of(c, 1), still = half;
  half.rows = c->rows / 2;
  half.steps = steps_of(c, half.rows);
  still.learning_rate = 0;
  const Outcome before = outcome_of(first);
  float *initial = allocate(before.floats, sizeof *initial);
  network_initialise(&first->config.network, c->seed, initial);
  assert_memory_equal(before.parameters, initial, before.floats * sizeof(float));
  for (size_t i = 0; i < before.floats; i++) assert_true(before.momentum[i] == 0);
  train(first, still);
  assert_memory_equal(outcome_of(first).parameters, initial, before.floats * sizeof(float));

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

/* Requests for rows outside of the dataset are refused. The engine works after a refusal. */
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
  train(engine, (TrainRange){.rows = c->rows}); /* a range without steps */
  train(engine, epoch_of(c, 0));
  assert_int_equal(close_with_outcome(engine).sums.rows, ROWS);
}

ENGINE_TEST(test_auto_says_which_and_why) {
  needs_gpu();
  foreach (c, cases) {
    const EngineConfig config = config_of(c, FUSION_AUTO, c->rows, (uint64_t)c->batch);
    Engine *engine = engine_cuda_open(&config, &error);
    OK(engine != NULL);
    assert_int_not_equal(engine->config.training.fusion, FUSION_AUTO);
    assert_true(*engine->reason && *engine->device && engine->memory > 0);
    engine->call->close(engine);
  }
}

#ifdef HAVE_CUDA
/* ---- a GPU that fails ----------------------------------------------------------------------- */

enum { MOST = 60 };
static EngineConfig small_config(Fusion fusion) {
  return config_of(&cases[SHORT], fusion, MOST, MOST);
}

/* Trains an epoch. Returns false if any call failed. */
static bool try_epoch(Engine *engine) {
  const TrainRange range = epoch_of(&cases[SHORT], 1);
  EngineSums sums;
  return engine->call->train(engine, &range, &error) &&
         engine->call->collect(engine, &sums, &error) && sums.rows == MOST;
}

/* Checks that the engine can train an epoch, and closes the engine. */
static void assert_works(Engine *engine) {
  OK(engine != NULL);
  const Data data = make_data(&cases[SHORT]);
  send_all(engine, &data, MOST);
  OK(try_epoch(engine));
  engine->call->close(engine);
}

static void assert_failed(bool done, const char *said) {
  FAILS(done, said);
  assert_true(error.of_gpu);
}

/* A memory limit is exact to the byte. An engine takes some bytes if there is no limit. It opens if
   the limit is this number, and fails to open if the limit is one byte less. A network with 1.8 TB
   of activations is refused, since no GPU has so much memory. The next engine still opens. */
ENGINE_TEST(test_device_memory) {
  needs_gpu();
  for (Fusion fusion = FUSION_NONE; fusion <= FUSION_EPOCH; fusion++) {
    EngineConfig config = small_config(fusion);
    Engine *engine = engine_cuda_open(&config, &error);
    if (!engine && fusion == FUSION_EPOCH) continue;
    OK(engine != NULL);
    const uint64_t taken = ((CudaEngine *)engine)->memory.taken;
    engine->call->close(engine);
    config.training.device_memory = taken - 1;
    assert_failed(engine_cuda_open(&config, &error) != NULL, "--device-memory leaves less than");
    config.training.device_memory = taken;
    assert_works(engine_cuda_open(&config, &error));
  }
  if (quick()) return; /* a sanitizer would report the failed allocation */
  enum { WIDE = NETWORK_MAX_HIDDEN, BATCH = 1000000 };
  const int hidden[] = {WIDE, WIDE, WIDE, WIDE, WIDE, WIDE, WIDE};
  EngineConfig config = config_of(&cases[SHORT], FUSION_LAYER, BATCH, BATCH);
  OK(network_init(&config.network, 1, hidden, LENGTH(hidden), 10, &error));
  config.training.batch = BATCH;
  assert_null(engine_cuda_open(&config, &error));
  config = small_config(FUSION_LAYER);
  assert_works(engine_cuda_open(&config, &error));
}

/* After a kernel used an invalid address, every call to a CUDA engine reports the failure. The CPU
   engine still works. This process can no longer use the GPU, so this test is the last. */
ENGINE_TEST(test_failure_that_sticks) {
  needs_gpu();
  if (quick()) skip_because("compute-sanitizer would report the fault");
  const EngineConfig config = small_config(FUSION_LAYER);
  Engine *engine = engine_cuda_open(&config, &error);
  OK(engine != NULL);
  const Data data = make_data(&cases[SHORT]);
  send_all(engine, &data, MOST);
  OK(try_epoch(engine));
  uint8_t **d_pixels = &((CudaEngine *)engine)->d_pixels, *const before = *d_pixels;
  *d_pixels += (size_t)1 << 46; /* an address without memory */
  const bool worked = try_epoch(engine);
  *d_pixels = before;
  assert_false(worked);
  assert_failed(try_epoch(engine), "the GPU can no longer be used");
  engine->call->close(engine);
  assert_failed(engine_cuda_available(&error), "no longer");
  assert_failed(engine_cuda_open(&config, &error) != NULL, "no longer");
  assert_works(engine_cpu_open(&config, &error));
}
#endif
