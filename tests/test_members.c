/* Members of a CUDA engine: networks that train at once on its rows, each as it would alone. */
#include "support/engine_tests.h"

enum { MEMBERS = 3, LAYER = 1 };

static Engine *keep_engine(Engine *engine) {
  if (!engine) fail_msg("%s", error.text);
  return *place_of(NULL) = engine;
}

static EngineConfig usual_of(const Case *c) {
  return config_of(c, FUSION_AUTO, c->rows, (uint64_t)c->batch);
}

/* An engine with the case's rows that may have members, or a skipped test. */
static Engine *open_first(const Case *c, const Data *d, EngineConfig config, Fusion fusion) {
  config.training.fusion = fusion;
  needs_gpu();
  Engine *first = keep_engine(engine_cuda_open(&config, &error));
  const bool not_epoch = first->config.training.fusion != FUSION_EPOCH; /* clusters are for it */
  if ((fusion == FUSION_AUTO && not_epoch) || first->call->members(first, 2 * MEMBERS) == 0)
    skip_because("it needs a GPU of compute capability 9.0");
  send_all(first, d, c->rows);
  return first;
}

/* Gives it parameters, of which the first weight is that. */
static Engine *begin(Engine *engine, float weight) {
  const Network *n = &engine->config.network;
  float *parameters = allocate(n->floats, sizeof *parameters);
  network_initialise(n, 1, parameters);
  parameters[n->weight[0]] = weight;
  OK(engine->call->write(engine, parameters, 1, &error));
  return engine;
}

static Engine *open_member(Engine *first, float weight) {
  return begin(keep_engine(first->call->member(first, &error)), weight);
}

/* Trains them at once, member m at m + 1 times the case's rate, and closes them. */
static void train_members(const Case *c, Engine **member, int count, int first, Outcome *outcomes) {
  bool good = true;
#pragma omp parallel for num_threads(count) schedule(static, 1) reduction(&& : good)
  for (int m = 0; m < count; m++) {
    const EngineOperations *call = member[m]->call;
    good = call->attend(member[m], true, NULL);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
      TrainRange range = epoch_of(c, epoch);
      range.learning_rate *= (float)(first + m + 1);
      good = good && call->train(member[m], &range, NULL);
    }
    good = call->attend(member[m], false, NULL) && good;
  }
  assert_true(good);
  for (int m = 0; m < count; m++) outcomes[m] = close_with_outcome(member[m]);
}

static void check_members(const Case *c, Fusion fusion) {
  const Data d = make_data(c);
  Engine *first = open_first(c, &d, usual_of(c), fusion), *members[MEMBERS];
  Outcome together[MEMBERS], alone;
  for (int m = 0; m < MEMBERS; m++) members[m] = open_member(first, 0.01f);
  train_members(c, members, MEMBERS, 0, together);
  for (int m = 0; m < MEMBERS; m++) {
    assert_int_equal(together[m].sums.rows, 2 * c->rows);
    members[0] = open_member(open_first(c, &d, usual_of(c), fusion), 0.01f);
    train_members(c, members, 1, m, &alone);
    assert_same_outcome(&together[m], &alone, 0);
  }
}

static const Case *usual_case(void) {
  return &cases[quick() ? SHORT : MNIST];
}

ENGINE_TEST(test_members_in_clusters) {
  check_members(usual_case(), FUSION_AUTO);
}

/* One of a cluster, and one of two clusters. */
ENGINE_TEST(test_members_by_tiles) {
  Case c = *usual_case();
  c.hidden_count = 1;
  c.hidden[0] = 128;
  check_members(&c, FUSION_AUTO);
  close_engines(NULL);
  c.hidden[0] = 129;
  check_members(&c, FUSION_AUTO);
}

ENGINE_TEST(test_members_that_share_launches) {
  check_members(usual_case(), FUSION_STEP);
}

/* Level step adds in another order. All kernels that are shared take part: the softmax of many
   classes, a rule with a second moment, an average, an update over more rows than a slab of 64. An
   array of another network is off by 1. */
ENGINE_TEST(test_members_are_near_to_level_step) {
  Case many = cases[MANY_CLASSES];
  const Case *c = &many;
  many.batch = 75;
  const Data d = make_data(c);
  EngineConfig config = usual_of(c);
  Outcome outcomes[MEMBERS];
  Engine *members[MEMBERS], *first;
  config.training.rule =
      (OptimizerRule){OPTIMIZER_ADAMW, 0, 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-3f};
  config.training.ema = 0.9f;
  config.training.label_smoothing = 0.1f;
  first = open_first(c, &d, config, FUSION_STEP);
  for (int m = 0; m < MEMBERS; m++) members[m] = open_member(first, 0.01f);
  train_members(c, members, MEMBERS, 0, outcomes);
  for (int m = 0; m < MEMBERS; m++) {
    Engine *alone = begin(open_first(c, &d, config, FUSION_STEP), 0.01f);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
      TrainRange range = epoch_of(c, epoch);
      range.learning_rate *= (float)(m + 1);
      train(alone, range);
    }
    const Outcome o = close_with_outcome(alone);
    const size_t floats = (1 + o.states) * o.floats;
    const double off =
        way_error(outcomes[m].parameters, doubles_of(o.parameters, floats), NULL, floats);
    if (!(off < 1e-3)) fail_msg("member %d is off by %.1e", m, off);
    assert_close(outcomes[m].sums.loss, o.sums.loss, 1e-4 * o.sums.loss);
  }
}

/* A member that is too large for fp16 is trained by level layer, and has its bits; others' stay. */
ENGINE_TEST(test_members_overflow) {
  const Case *c = &cases[SHORT];
  const Data d = make_data(c);
  Engine *first = open_first(c, &d, usual_of(c), FUSION_AUTO), *members[2],
         *layer = open_loaded(c, LAYER, &d);
  Outcome outcomes[2], alone;
  members[0] = open_member(first, 0.01f);
  train_members(c, members, 1, 0, &alone);
  for (int m = 0; m < 2; m++) members[m] = open_member(first, m ? 300 : 0.01f);
  float *parameters = allocate(outcomes[0].floats = alone.floats, sizeof *parameters);
  OK(members[1]->call->read(members[1], parameters, 1, &error));
  OK(layer->call->write(layer, parameters, 1, &error));
  for (uint64_t epoch = 0; epoch < 2; epoch++) {
    TrainRange range = epoch_of(c, epoch);
    range.learning_rate *= 2;
    train(layer, range);
  }
  train_members(c, members, 2, 0, outcomes);
  assert_same_outcome(&outcomes[0], &alone, 0);
  const Outcome expected = close_with_outcome(layer);
  assert_same_outcome(&outcomes[1], &expected, 1e-12);
}
