/* A GPU that really fails: a limit on its memory, and an address that is none, after which it
   serves this process no more; so that test is the last. test_faults.c tries every call, on a GPU
   that is not there. */

#include "support/cuda_only.h"
#include "support/engine_tests.h"
#include "engine/cuda/cuda_state.h"

enum { ROWS = 200, INPUTS = 50, BATCH = 16 };
static const Case usual = {"faults", INPUTS, {61, 7}, 2, 10,    BATCH, ROWS, 0.01f,
                           0.9f,     0,      0,       0, false, true,  0};

static void send(Engine *engine) {
  const Data data = make_data(&usual);
  send_all(engine, &data, ROWS);
}

/* Trains an epoch; false if any of it failed. */
static bool try_epoch(Engine *engine) {
  const TrainRange range = epoch_of(&usual, 1);
  EngineSums sums;
  if (!engine->call->train(engine, &range, &error) || !engine->call->collect(engine, &sums, &error))
    return false;
  assert_int_equal(sums.rows, ROWS);
  return true;
}

/* The engine trains an epoch; it is closed. */
static void assert_works(Engine *engine) {
  OK(engine != NULL);
  send(engine);
  OK(try_epoch(engine));
  engine->call->close(engine);
}

static void assert_failed(bool done, const char *said) {
  FAILS(done, said);
  assert_true(error.of_gpu);
}

/* A limit is met to the byte, and is not too tight for what was measured without one. */
ENGINE_TEST(test_device_memory) {
  needs_gpu();
  for (Fusion fusion = FUSION_NONE; fusion <= FUSION_EPOCH; fusion++) {
    EngineConfig config = config_of(&usual, fusion, ROWS, ROWS);
    Engine *engine = engine_cuda_open(&config, &error);
    if (!engine && fusion == FUSION_EPOCH) continue;
    OK(engine != NULL);
    const uint64_t taken = ((CudaEngine *)engine)->taken;
    engine->call->close(engine);
    assert_true(taken > ROWS * INPUTS);
    config.training.device_memory = taken - 1;
    assert_failed(engine_cuda_open(&config, &error) != NULL, "--device-memory leaves less than");
    config.training.device_memory = taken;
    assert_works(engine_cuda_open(&config, &error));
  }
}

/* Every call reports the failure from then on; the CPU still works. */
ENGINE_TEST(test_failure_that_sticks) {
  needs_gpu();
  const EngineConfig config = config_of(&usual, FUSION_LAYER, ROWS, ROWS);
  Engine *engine = engine_cuda_open(&config, &error);
  OK(engine != NULL);
  send(engine);
  OK(try_epoch(engine));
  uint8_t **d_pixels = &((CudaEngine *)engine)->d_pixels, *const before = *d_pixels;
  *d_pixels += (size_t)1 << 46; /* nobody's */
  const TrainRange range = {.rows = ROWS, .steps = 1, .learning_rate = 0.01f};
  EngineSums sums;
  const bool queued = engine->call->train(engine, &range, &error);
  *d_pixels = before;
  assert_false(queued && engine->call->collect(engine, &sums, &error));
  assert_failed(try_epoch(engine), "it serves this process no more");
  float parameters[4096];
  assert_true(config.network.floats <= LENGTH(parameters));
  assert_failed(engine->call->read(engine, parameters, 1, &error), "no more");
  engine->call->close(engine);
  assert_failed(engine_cuda_available(&error), "no more");
  assert_failed(engine_cuda_open(&config, &error) != NULL, "no more");
  assert_works(engine_cpu_open(&config, &error));
}
