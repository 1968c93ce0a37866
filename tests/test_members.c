/* Tests the members of a CUDA engine. Members are networks that train at the same time on the
   engine's rows. Each member must have the same result as when it trains alone. */
#include "support/engine_tests.h"

enum { MEMBERS = 3, LAYER = 1 };

static Engine *keep_engine(Engine *engine) {
  if (!engine) fail_msg("%s", error.text);
  return *place_of(NULL) = engine;
}

static EngineConfig usual_of(const Case *c) {
  return config_of(c, FUSION_AUTO, c->rows, (uint64_t)c->batch);
}

/* Opens an engine with the case's rows. Skips the test if the GPU cannot train MEMBERS networks. */
static Engine *open_first(const Case *c, const Data *d) {
  const EngineConfig config = usual_of(c);
  needs_gpu();
  Engine *first = keep_engine(engine_cuda_open(&config, &error));
  if (first->call->members(first) < MEMBERS)
    skip_because("it needs a GPU of compute capability 9.0");
  send_all(first, d, c->rows);
  return first;
}

/* Gives the engine initial parameters, except for the first weight, which becomes `weight`. */
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

/* Trains all members, then closes them. Member m has (first + m + 1) times the rate of *c. */
static void train_members(const Case *c, Engine **member, int count, int first, Outcome *outcomes) {
  bool good = true;
#pragma omp parallel for num_threads(count) schedule(static, 1) reduction(&& : good)
  for (int m = 0; m < count; m++)
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
      TrainRange range = epoch_of(c, epoch);
      range.learning_rate *= (float)(first + m + 1);
      good = member[m]->call->train(member[m], &range, NULL) && good;
    }
  assert_true(good);
  for (int m = 0; m < count; m++) outcomes[m] = close_with_outcome(member[m]);
}

static void check_members(const Case *c) {
  const Data d = make_data(c);
  Engine *first = open_first(c, &d), *members[MEMBERS];
  Outcome together[MEMBERS], alone;
  for (int m = 0; m < MEMBERS; m++) members[m] = open_member(first, 0.01f);
  train_members(c, members, MEMBERS, 0, together);
  for (int m = 0; m < MEMBERS; m++) {
    assert_int_equal(together[m].sums.rows, 2 * c->rows);
    members[0] = open_member(open_first(c, &d), 0.01f);
    train_members(c, members, 1, m, &alone);
    assert_same_outcome(&together[m], &alone, 0);
  }
}

static const Case *usual_case(void) {
  return &cases[quick() ? SHORT : MNIST];
}

ENGINE_TEST(test_members_in_clusters) {
  check_members(usual_case());
}

/* Tests a network that takes one cluster and a network that takes two. */
ENGINE_TEST(test_members_by_tiles) {
  Case c = *usual_case();
  c.hidden_count = 1;
  c.hidden[0] = 128;
  check_members(&c);
  close_engines(NULL);
  c.hidden[0] = 129;
  check_members(&c);
}

/* Only level epoch trains several networks at the same time. */
ENGINE_TEST(test_level_step_has_no_members) {
  EngineConfig config = usual_of(usual_case());
  config.training.fusion = FUSION_STEP;
  needs_gpu();
  Engine *engine = keep_engine(engine_cuda_open(&config, &error));
  assert_int_equal(engine->call->members(engine), 0);
}

/* If a network's numbers are too large for fp16, level layer repeats the work of this network. The
   result has level layer's bits. The other networks keep their bits. */
ENGINE_TEST(test_members_overflow) {
  const Case *c = &cases[SHORT];
  const Data d = make_data(c);
  Engine *first = open_first(c, &d), *members[2], *layer = open_loaded(c, LAYER, &d);
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
