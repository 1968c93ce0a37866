/* The options of training, on the CPU and at every level of fusion that has them:
   against the float64 reference, and the same bits however the steps are divided among calls. */
#include "support/engine_tests.h"

typedef struct {
  const char *name;
  Optimizer optimizer;
  float rule[4]; /* rate, beta1, beta2, epsilon */
  float smoothing, dropout[2], ema;
  PixelScale pixels;
} Variant;

/* Adam divides by the root of a gradient's mean square. Where that is a few roundings, they would
   be as large as the step: hence an epsilon above them. */
#define BY(kind, ...) .optimizer = OPTIMIZER_##kind, .rule = {__VA_ARGS__}
#define ADAM 0.001f, 0.9f, 0.999f, 1e-4f
static const Variant variants[] = {
    {"nesterov", BY(NESTEROV, 0.05f)},
    {"adam", BY(ADAM, ADAM)},
    {"adam without a first moment", BY(ADAM, 0.01f, 0, 0.5f, 1e-3f)},
    {"adamw", BY(ADAMW, ADAM)},
    {"adamw without a mean square", BY(ADAMW, 0.001f, 0.5f, 0, 1e-3f)},
    {"label smoothing", BY(SGD, 0.05f), .smoothing = 0.2f},
    {"dropout", BY(SGD, 0.05f), .dropout = {0.5f, 0.25f}},
    {"dropout of the first layer", BY(SGD, 0.05f), .dropout = {0.9f, 0}},
    {"dropout, others", BY(NESTEROV, 0.05f), .smoothing = 0.1f, .dropout = {0.2f, 0.2f}},
    {"average", BY(SGD, 0.05f), .ema = 0.9f},
    {"average of adam", BY(ADAM, ADAM), .ema = 0.75f},
    {"pixels of 0 to 99", BY(SGD, 0.02f), .pixels = {99, 0, 1}},
    {"normalised pixels", BY(SGD, 0.02f), .pixels = {255, 0.1307f, 0.3081f}},
    {"normalised, dropout", BY(SGD, 0.02f), .dropout = {0.2f, 0.2f}, .pixels = {200, -0.5f, 2}},
};

/* Steps of 48 rows, the last of an epoch of 20. The last layer of the second network is too wide to
   be one kernel; the third has large tiles, in which dropout is. */
static const Case networks[] = {
    {"10 classes", 100, {70, 33}, 2, 10, 48, 260, 0, 0.9f, 0.01f, 50, 3, true, true, 0},
    {"one hidden layer", 100, {130}, 1, 16, 48, 260, 0, 0.9f, 0.01f, 50, 3, true, true, 0},
    {"20 classes", 64, {50}, 1, 20, 48, 260, 0, 0.9f, 0.01f, 50, 3, true, true, 0},
    {"1024 rows", 64, {261, 257}, 2, 10, 1024, 1500, 0, 0.9f, 0.01f, 3, 3, true, false, 0},
};
static Case network; /* the one that is tested now */

static EngineConfig config_for(const Variant *v, Fusion fusion) {
  EngineConfig config =
      config_of(&network, fusion, network.rows, whole_batches(&network, network.rows));
  config.training.rule.kind = v->optimizer;
  config.training.rule.beta1 = v->rule[1];
  config.training.rule.beta2 = v->rule[2];
  config.training.rule.epsilon = v->rule[3];
  config.training.label_smoothing = v->smoothing;
  config.training.ema = v->ema;
  config.training.pixels = v->pixels;
  config.training.dropout.count = network.hidden_count;
  for (int l = 0; l < network.hidden_count; l++) config.training.dropout.share[l] = v->dropout[l];
  return config;
}

/* *evaluated: what the network makes of all rows then. */
static Outcome train_variant(int level, const Variant *v, const Data *data,
                             void (*way)(void *engine, TrainRange range), EngineSums *evaluated) {
  Engine *engine = open_config(config_for(v, FUSION_AUTO), level);
  if (!engine) return (Outcome){0};
  send_all(engine, data, network.rows);
  for_steps(&network, way, engine);
  const Outcome o = outcome_of(engine);
  OK(engine_evaluate(engine, 0, network.rows, &error));
  *evaluated = collect(engine);
  close_engine(engine);
  return o;
}

/* Measured was at most 2e-6 of the way on the CPU, and less than this on an H200; a ReLU that opens
   on one side only adds some 1e-4. A correction left out, a rate twice applied or a decay of the
   biases is 1e-2 and more. */
static const double limit = 1e-3;

/* The reference's results; and the same bits in parts. */
static void try_variant(int level, const Variant *v) {
  const Data data = make_data(&network);
  EngineSums evaluated, of_parts, evaluation = {0};
  const Outcome o = train_variant(level, v, &data, train_whole, &evaluated);
  if (!o.floats) return; /* the level refuses it */
  const Outcome parts = train_variant(level, v, &data, train_in_parts, &of_parts);
  const Reference r = run_reference(&network, config_for(v, FUSION_LAYER), &data);
  const double of_parameters = way_error(o.parameters, r.parameters, r.start, o.floats);
  reference_evaluate(&r.config, r.parameters, data.pixels, data.inputs, data.labels, 0,
                     network.rows, &evaluation);
  const double of_loss =
      fmax(fabs(o.sums.loss / r.sums.loss - 1), fabs(evaluated.loss / evaluation.loss - 1));
  double of_state = 0;
  for (size_t at = 0; at < o.states * o.floats; at += o.floats)
    of_state = fmax(of_state, way_error(o.momentum + at, r.momentum + at, NULL, o.floats));
  if (!(of_parameters < limit && of_state < 2 * limit && of_loss < limit / 10))
    fail_msg("%s, %s, level %d: parameters %.2g, state %.2g, loss %.2g", network.name, v->name,
             level, of_parameters, of_state, of_loss);
  assert_int_equal(o.sums.rows, r.sums.rows);
  assert_same_bits(&o, &parts);
  assert_true(evaluated.loss == of_parts.loss);
  assert_int_equal(o.sums.correct, parts.sums.correct);
}

static void for_each(int level) {
  foreach (v, variants)
    foreach (of, networks) {
      network = *of;
      network.learning_rate = v->rule[0];
      if (network.quick || (!quick() && v->dropout[0] != 0)) try_variant(level, v);
    }
}

ENGINE_TEST(test_on_the_cpu) {
  for_each(CPU);
}

ENGINE_TEST(test_on_a_gpu) {
  needs_gpu();
  for (int level = 0; level <= EPOCH; level++)
    if (!quick() || level != STEP) for_each(level);
}
