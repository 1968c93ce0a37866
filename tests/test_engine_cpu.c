/* Tests promises of the CPU engine only. test_engine_results.c tests every engine. */
#include <float.h>

#include "support/engine_tests.h"

/* Trains `epochs` shuffled epochs with the augmentation of `config`. */
static Outcome run(const Case *c, EngineConfig config, const Data *data, uint64_t epochs) {
  Engine *engine = open_config(config, CPU);
  send_all(engine, data, c->rows);
  for (uint64_t epoch = 1; epoch <= epochs; epoch++) {
    TrainRange range = epoch_of(c, epoch);
    range.augment = config.training.augment;
    train(engine, range);
  }
  return close_with_outcome(engine);
}

static EngineConfig usual_config(const Case *c) {
  return config_of(c, FUSION_AUTO, c->rows, whole_batches(c, c->rows));
}

ENGINE_TEST(threads_and_runs_do_not_matter) {
  static const int threads[] = {1, 2, 3, 7, 40};
  const Case c = {"threads", 196, {90, 33}, 2, 10, 64, 330, USUAL(0), 1};
  const Data data = make_data(&c);
  EngineConfig config = usual_config(&c);
  for (int kind = 0; kind < OPTIMIZERS; kind++) {
    config.training.rule = (OptimizerRule){(Optimizer)kind, 0.9f, 1e-3f, 0.9f, 0.999f, 1e-8f};
    config.training.augment = kind == OPTIMIZER_NESTEROV ? AUGMENT_USUAL : (AugmentStrengths){{0}};
    config.training.threads = 1;
    const Outcome first = run(&c, config, &data, 3);
    foreach (count, threads) {
      config.training.threads = *count;
      const Outcome other = run(&c, config, &data, 3);
      assert_same_bits(&first, &other);
      assert_memory_equal(&first.sums, &other.sums, sizeof first.sums);
    }
  }
}

/* Sets the biases of a network without hidden layers to the logits; its weights are 0. Checks the
   loss and whether the row is correct. A step at rate 1 must subtract the gradient, softmax -
   one-hot, from the weights of the white pixel. If softmax's maximum started at 0, negative logits
   would underflow. Among equal logits, the first is the prediction. */
ENGINE_TEST(losses_of_logits) {
  const double tail = log(1 + exp(-1) + exp(-2)), p = exp(-tail), q = 1 / (2 + exp(-2)),
               two = log(2);
  const struct {
    float logits[3];
    int classes;
    uint16_t label;
    double loss, off; /* off: allowed error of the loss and the weights */
    uint64_t correct;
    double weights[3];
  } rows[] = {
      {{1e4f, -1e4f, 0}, 3, 1, 2e4, 0, 0, {-1, 1, 0}},
      {{-1e4f - 2, -1e4f, -1e4f - 1}, 3, 1, tail, 1e-6, 1, {-p * exp(-2), 1 - p, -p * exp(-1)}},
      {{-1e4f - 2, -1e4f, -1e4f - 1}, 3, 0, 2 + tail, 1e-6, 0, {1 - p * exp(-2), -p, -p * exp(-1)}},
      {{1, 3, 3}, 3, 1, -log(q), 1e-6, 1, {-q * exp(-2), 1 - q, -q}},
      {{1, 3, 3}, 3, 2, -log(q), 1e-6, 0, {-q * exp(-2), -q, 1 - q}},
      {{-2, -2}, 2, 0, two, 1e-6, 1, {0.5, -0.5}},
  };
  foreach (of, rows) {
    const Case c = {"logits", 1, {0}, 0, of->classes, 1, 1, USUAL(0), 0};
    uint16_t label = of->label;
    const Data data = {(uint8_t[]){255}, &label, 1};
    Engine *engine = open_loaded(&c, CPU, &data);
    const Network *n = &engine->config.network;
    float *parameters = allocate(n->floats, sizeof *parameters);
    memcpy(parameters + n->bias[0], of->logits, (size_t)of->classes * sizeof *of->logits);
    OK(engine->call->write(engine, parameters, 1, &error));
    train(engine, (TrainRange){.rows = 1, .steps = 1, .learning_rate = 1});
    OK(engine->call->read(engine, parameters, 1, &error));
    const EngineSums sums = collect(engine);
    assert_close(sums.loss, of->loss, of->off);
    assert_int_equal(sums.correct, of->correct);
    for (int i = 0; i < of->classes; i++)
      assert_close(parameters[n->weight[0] + (size_t)i], of->weights[i], of->off);
  }
}

/* If training fails because of an extreme rate, the loss must not be finite. */
ENGINE_TEST(rates_beyond_all_numbers_show_in_the_loss) {
  foreach (rate, VALUES(float, 1e30f, FLT_MAX, INFINITY, NAN))
    for (int batch = 1; batch <= 8; batch += 7) {
      const Case c = {"limits", 5, {6, 4}, 2, 3, batch, 24, *rate, 0.9f, 0, 0, 1, false, false, 7};
      const Data data = make_data(&c);
      assert_true(!isfinite(run(&c, usual_config(&c), &data, 3).sums.loss));
    }
}

static const Case tiny = {"tiny", 10, {0}, 0, 2, 4, 9, USUAL(0), 3};

/* Only the engine's threads flush numbers below 1e-38 to 0. The caller's thread does not. */
ENGINE_TEST(denormals_are_the_callers_own) {
  const Data data = make_data(&tiny);
  run(&tiny, usual_config(&tiny), &data, 1);
  volatile float small = 1e-30f;
  assert_true(small * 1e-10f != 0);
}
