/* Tests the reports of mlp-bench. On a GPU, compares the cuBLAS level with the CPU engine. */
#include "bench/bench.h"
#include "support/engine_tests.h"
#include "support/folder.h"
#include "support/network_reference.h"

static Record record;
static const char path[] = "lines.json";

TESTS_WITH(folder_enter, folder_close);

static char *tables(bool markdown) {
  return PRINTED(file, bench_print(&record, file, markdown));
}

/* In the report of a case, the slowest program comes first. A tf32 epoch of another program is
   compared with mlp-train's tf32 and fp32 epochs. An fp32 epoch is compared only with fp32. */
TEST(test_reports) {
  static const char *const wanted[] = {"tests/support/bench.txt", "tests/support/bench.md"};
  assert_in(tables(false), "An epoch");
  FAILS(bench_plot(&record, path, &error), "no epoch was measured");
  folder_write_json(path, "{'case':'ceiling','name':'copy','value':2958.5}\n");
  FAILS(bench_read(&record, path, &error),
        "lines.json is not a record of mlp-bench: it has no epochs");
  OK(record_close(&record, true, &error));
  OK(bench_read(&record, folder_before("tests/support/bench.json"), &error));
  for (int markdown = 0; markdown < 2; markdown++)
    assert_string_equal(tables(markdown), folder_read(folder_before(wanted[markdown])));
  OK(bench_plot(&record, path, &error));
  assert_png(path, 1200, 112 + 4 * 36 + 74); /* only batch 64 has bars */
  assert_false(bench_plot(&record, "/no/such/folder/x.png", &error));
  OK(record_close(&record, true, &error));
}

#ifdef HAVE_CUDA

enum { ROWS = 330, FROM = 7 };

/* Trains two epochs in several calls each: one epoch in file order, one shuffled. */
ENGINE_TEST(test_cublas_level) {
  static const Case c = {"cublas", 50,   {33, 20}, 2, 10,    32,    ROWS, 0.05f,
                         0.9f,     0.0f, 0,        3, false, false, 0};
  needs_gpu();
#ifdef WITHOUT_CUBLAS
  skip_because(WITHOUT_CUBLAS);
#endif
  const Data data = {allocate(ROWS, 50), allocate(ROWS, sizeof(uint16_t)), 50};
  reference_fill_pixels(data.pixels, ROWS * data.inputs, 0);
  reference_fill_labels(data.labels, ROWS, c.classes, 2);
  EngineConfig config = config_of(&c, FUSION_AUTO, ROWS, 6 * 32);
  config.training.threads = 2;
  Engine *engine[2] = {engine_cpu_open(&config, &error), bench_cublas_open(&config, &error)};
  EngineSums tested[2];
  Outcome trained[2];
  for (int i = 0; i < 2; i++) {
    if (!engine[i]) fail_msg("%s", error.text);
    send_all(engine[i], &data, ROWS);
    for (uint64_t epoch = 0; epoch < 2; epoch++) train_in_parts(engine[i], epoch_of(&c, epoch));
    trained[i] = outcome_of(engine[i]);
    assert_int_equal(trained[i].sums.rows, 2 * ROWS);
    OK(engine_evaluate(engine[i], FROM, ROWS - FROM, &error));
    tested[i] = collect(engine[i]);
    assert_int_equal(tested[i].rows, ROWS - FROM);
  }
  assert_close(trained[1].sums.loss / trained[0].sums.loss, 1, 1e-4);
  assert_close(tested[1].loss / tested[0].loss, 1, 1e-4);
  for (size_t i = 0; i < trained[0].floats; i++) {
    assert_close(trained[1].parameters[i], trained[0].parameters[i], 1e-4);
    assert_close(trained[1].momentum[i], trained[0].momentum[i], 1e-3);
  }
  OK(engine[1]->call->write(engine[1], trained[0].parameters, 1 + trained[0].states, &error));
  const Outcome written = outcome_of(engine[1]);
  assert_same_bits(&trained[0], &written);
  for (int i = 0; i < 2; i++) engine[i]->call->close(engine[i]);
}

/* Loads the data, trains one step and closes the engine. After one step from a momentum of 0, the
   momentum is the gradient. */
static Outcome after_a_step(Engine *engine, const Case *c, const Data *data) {
  TrainRange range = epoch_of(c, 0);
  range.steps = 1;
  send_all(engine, data, c->rows);
  train(engine, range);
  return close_with_outcome(engine);
}

/* Every level's gradients of a whole network, and its weights after a step, must be near those of
   cuBLAS. In these cases no rounding flips a ReLU. A gradient goes through at most eight products,
   with sums of up to 1000 terms: bound() allows each an error of 2e-6, so two engines may differ by
   3e-5. The weights differ by the learning rate times that, and by the rounding of each. A product
   in tf32 is off by 2e-4. */
ENGINE_TEST(test_levels_are_as_cublas_after_a_step) {
  int compared[EPOCH + 1] = {0};
  needs_gpu();
#ifdef WITHOUT_CUBLAS
  skip_because(WITHOUT_CUBLAS);
#endif
  foreach (c, cases) {
    if (c->flips) continue;
    const Data data = make_data(c);
    EngineConfig config = config_of(c, FUSION_AUTO, c->rows, whole_batches(c, c->rows));
    config.training.rule.weight_decay = 0; /* the engine with cuBLAS has none */
    Engine *cublas = bench_cublas_open(&config, &error);
    if (!cublas) fail_msg("%s", error.text);
    *place_of(NULL) = cublas;
    const Outcome wanted = after_a_step(cublas, c, &data);
    const double *gradient = doubles_of(wanted.momentum, wanted.floats);
    const double *weights = doubles_of(wanted.parameters, wanted.floats);
    for (int level = 0; level <= EPOCH; level++) {
      Engine *engine = open_config(config, level);
      if (!engine) continue;
      const Outcome o = after_a_step(engine, c, &data);
      const double gradient_off = way_error(o.momentum, gradient, NULL, o.floats);
      const double weights_off = way_error(o.parameters, weights, NULL, o.floats);
      if (!(gradient_off <= 4e-5 && weights_off <= 4e-6))
        fail_msg("%s, %s: the gradient differs from cuBLAS's by %.3g, the weights by %.3g", c->name,
                 levels[level].name, gradient_off, weights_off);
      compared[level]++;
    }
    free_kept();
  }
  for (int level = 0; level <= STEP; level++) assert_true(compared[level] > 0);
  print_message("level epoch was compared with cuBLAS in %d cases\n", compared[EPOCH]);
}

#endif
