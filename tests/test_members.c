/* Members of a CUDA engine: networks that train at once on its rows, each as it would alone. */
#include "support/engine_tests.h"

enum { MEMBERS = 3, LAYER = 1 };

static Engine *keep_engine(Engine *engine) {
  if (!engine) fail_msg("%s", error.text);
  return *place_of(NULL) = engine;
}

/* An engine with the case's rows that may have members, or a skipped test. */
static Engine *open_first(const Case *c, const Data *d, Fusion fusion) {
  const EngineConfig config = config_of(c, fusion, c->rows, (uint64_t)c->batch);
  needs_gpu();
  Engine *first = keep_engine(engine_cuda_open(&config, &error));
  if (first->call->members(first, 2 * MEMBERS) == 0)
    skip_because("it needs a GPU of compute capability 9.0");
  send_all(first, d, c->rows);
  return first;
}

/* A member whose first weight is that. */
static Engine *open_member(Engine *first, float weight) {
  const Network *n = &first->config.network;
  float *parameters = allocate(n->floats, sizeof *parameters);
  Engine *member = keep_engine(first->call->member(first, &error));
  network_initialise(n, 1, parameters);
  parameters[n->weight[0]] = weight;
  OK(member->call->write(member, parameters, 1, &error));
  return member;
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

static void check_members(Fusion fusion) {
  const Case *c = &cases[quick() ? SHORT : MNIST];
  const Data d = make_data(c);
  Engine *first = open_first(c, &d, fusion), *members[MEMBERS];
  Outcome together[MEMBERS], alone;
  for (int m = 0; m < MEMBERS; m++) members[m] = open_member(first, 0.01f);
  train_members(c, members, MEMBERS, 0, together);
  for (int m = 0; m < MEMBERS; m++) {
    assert_int_equal(together[m].sums.rows, 2 * c->rows);
    members[0] = open_member(first, 0.01f);
    train_members(c, members, 1, m, &alone);
    assert_same_outcome(&together[m], &alone, 0);
  }
}

ENGINE_TEST(test_members_in_clusters) {
  check_members(FUSION_AUTO);
}

ENGINE_TEST(test_members_that_share_launches) {
  check_members(FUSION_STEP);
}

/* A member that is too large for fp16 is trained by level layer, and has its bits; others' stay. */
ENGINE_TEST(test_members_overflow) {
  const Case *c = &cases[SHORT];
  const Data d = make_data(c);
  Engine *first = open_first(c, &d, FUSION_AUTO), *members[2], *layer = open_loaded(c, LAYER, &d);
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
