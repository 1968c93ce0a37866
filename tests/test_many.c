/* Networks in clusters (kernels/many/) against the float64 reference: alone, at once in streams of
   their own, and in parts. The emulator has no clusters. */
#include "support/kernel_tests.h"

TESTS_WITH(kernels_open, kernels_close);

enum { NETWORKS = 3, MANY = 11 };

typedef struct {
  int inputs, hidden[2], classes, batch;
  uint32_t rows;
  uint64_t steps;
} Kind;

static const Kind kinds[] = {
    {784, {300, 100}, 10, 64, 1000, 8}, /* half of the rows */
    {784, {300, 100}, 10, 64, 200, 4},  {64, {61, 7}, 3, 7, 60, 9},
    {784, {320, 100}, 10, 63, 126, 2},  {144, {16, 33}, 10, 1, 5, 5},
    {784, {15, 8}, 2, 64, 10, 1},
};

/* The networks of a test: what they are trained on, and where their results are. */
typedef struct {
  EngineConfig config;
  TrainRange range[MANY];
  UpdateRule rule[MANY];
  uint8_t *pixels;
  uint16_t *labels;
  ManyJob job;        /* what the jobs of all have in common */
  float *start[MANY]; /* parameters, then momenta */
} Team;

static void needs_many(void) {
  if (!many_clusters()) skip_because("it needs a GPU of compute capability 9.0 and code for it");
}

static Team make_team(const Kind *k) {
  Team n = {.config.training.batch = k->batch};
  OK(network_init(&n.config.network, k->inputs, k->hidden, 2, k->classes, &error));
  const size_t stride = round_up((size_t)k->inputs, 16), floats = n.config.network.floats;
  n.pixels = memset(host(k->rows * stride), 0, k->rows * stride);
  n.labels = host(k->rows * sizeof *n.labels);
  for (uint32_t r = 0; r < k->rows; r++)
    reference_fill_pixels(n.pixels + r * stride, (size_t)k->inputs, r);
  reference_fill_labels(n.labels, k->rows, k->classes, 2);
  n.job = (ManyJob){.shape = {k->inputs, k->hidden[0], k->hidden[1], k->classes, k->batch},
                    .d_pixels = to_device(n.pixels, k->rows * stride),
                    .d_labels = to_device(n.labels, k->rows * sizeof *n.labels),
                    .stride = stride};
  memcpy(n.job.layout.weight, n.config.network.weight, sizeof n.job.layout.weight);
  memcpy(n.job.layout.bias, n.config.network.bias, sizeof n.job.layout.bias);
  for (int i = 0; i < MANY; i++) {
    n.range[i] = (TrainRange){.rows = k->rows,
                              .shuffled = i > 0,
                              .key = random_order_key(3, (uint64_t)i),
                              .steps = k->steps,
                              .learning_rate = 0.01f * (float)(1 + i % 3)};
    n.rule[i] = (UpdateRule){i % 2 ? 0.9f : 0.5f, i % 3 ? 0.01f : 0};
    double *momenta = host_doubles(floats);
    float *start = n.start[i] = host(2 * floats * sizeof(float));
    network_initialise(&n.config.network, (uint64_t)i, start);
    reference_fill(momenta, floats, -0.01, 0.01, (uint64_t)i);
    for (size_t p = 0; p < floats; p++) /* padding, and biases, have none */
      start[floats + p] = start[p] != 0 ? (float)momenta[p] : 0;
  }
  return n;
}

/* The results of a network. */
typedef struct {
  const float *arrays, *loss; /* as Team.start; (rows) */
  const uint8_t *correct;
  ResultSums sums;
} Trained;

/* Network i, before its training; *d_sums becomes where its results are added up. */
static ManyJob on_device(const Team *n, int i, ResultSums **d_sums) {
  const TrainRange *range = &n->range[i];
  const size_t floats = n->config.network.floats;
  const ResultSums none = {0};
  ManyJob job = n->job;
  uint32_t *d_order = poisoned(range->rows * sizeof *d_order);
  *d_sums = to_device(&none, sizeof none);
  LAUNCH(order, d_order, 0, (uint32_t)range->rows, range->shuffled, range->key);
  job.d_order = d_order;
  job.learning_rate = range->learning_rate;
  job.rule = n->rule[i];
  job.d_parameters = to_device(n->start[i], 2 * floats * sizeof(float));
  job.d_momentum = job.d_parameters + floats;
  job.results = (RowResults){poisoned_floats(range->rows), poisoned(range->rows)};
  job.d_overflowed = &(*d_sums)->overflowed;
  job.d_work = poisoned(many_work_bytes((uint32_t)range->steps));
  return job;
}

/* Trains networks first to first + count - 1 at once, in launches of `piece` steps. */
static void train(const Team *n, int first, int count, uint64_t piece, Trained *trained) {
  const size_t floats = n->config.network.floats;
  const uint64_t rows = n->range[first].rows, steps = n->range[first].steps,
                 batch = (uint64_t)n->job.shape.batch;
  ManyJob jobs[MANY];
  ResultSums *d_sums[MANY];
  cudaStream_t streams[MANY];
  for (int i = 0; i < count; i++) {
    jobs[i] = on_device(n, first + i, &d_sums[i]);
    CUDA_OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  for (uint64_t step = 0; step < steps; step += piece)
    for (int i = 0; i < count; i++) {
      jobs[i].position = (uint32_t)(step * batch);
      jobs[i].end = (uint32_t)min_size(min_size(step + piece, steps) * batch, rows);
      CUDA_OK(launch_many(&jobs[i], streams[i]));
      CUDA_OK(launch_sum(d_sums[i], jobs[i].results, jobs[i].position, jobs[i].end, (RowShare){0},
                         streams[i]));
    }
  for (int i = 0; i < count; i++) {
    CUDA_OK(cudaStreamSynchronize(streams[i]));
    CUDA_OK(cudaStreamDestroy(streams[i]));
    trained[i] = (Trained){fetch_floats(jobs[i].d_parameters, 2 * floats),
                           fetch_floats(jobs[i].results.d_loss, jobs[i].end),
                           fetch(jobs[i].results.d_correct, jobs[i].end),
                           *(ResultSums *)fetch(d_sums[i], sizeof(ResultSums))};
  }
}

static void assert_trained(Team *n, int i, const Trained *got) {
  const Network *network = &n->config.network;
  const size_t floats = network->floats;
  double *expected = host_doubles(2 * floats);
  reference_to_double(n->start[i], 2 * floats, expected);
  EngineSums sums = {0};
  n->config.training.rule.momentum = n->rule[i].momentum;
  n->config.training.rule.weight_decay = n->rule[i].weight_decay;
  reference_train(&n->config, expected, expected + floats, n->pixels, n->job.stride, n->labels,
                  &n->range[i], &sums);
  for (int l = 0; l < 3; l++)
    for (int moments = 0; moments < 2; moments++) {
      const size_t at = (size_t)moments * floats + network->weight[l],
                   weights = area(network->size[l], network->size[l + 1]),
                   bias = (size_t)moments * floats + network->bias[l],
                   biases = (size_t)network->size[l + 1];
      const double limit = moments ? 1e-5 : 4e-6,
                   w = reference_relative_error(got->arrays + at, expected + at, weights),
                   b = reference_relative_error(got->arrays + bias, expected + bias, biases);
      if (!(w <= limit && b <= limit))
        fail_msg("%s, network %d, layer %d, %s: errors %.1e and %.1e", network_text(network).text,
                 i, l, moments ? "momentum" : "parameters", w, b);
    }
  assert_close(got->sums.loss, sums.loss, 1e-5 * sums.loss);
  assert_int_equal(got->sums.correct, sums.correct);
  assert_int_equal(got->sums.rows, sums.rows);
  assert_int_equal(got->sums.overflowed, 0);
}

static void assert_same_network(const Team *n, int i, const Trained *a, const Trained *b) {
  const uint64_t all = n->range[i].steps * (uint64_t)n->job.shape.batch;
  const size_t rows = min_size(all, n->range[i].rows);
  assert_memory_equal(a->arrays, b->arrays, 2 * n->config.network.floats * sizeof(float));
  assert_memory_equal(a->loss, b->loss, rows * sizeof(float));
  assert_memory_equal(a->correct, b->correct, rows);
}

/* The first kind has more networks than the GPU has clusters: some wait. */
KERNEL_TEST(test_networks) {
  needs_many();
  foreach (kind, kinds) {
    const int count = kind == kinds ? MANY : NETWORKS;
    if (quick() && (int)kind->rows * kind->inputs > 100000) continue;
    Team n = make_team(kind);
    Trained together[MANY], other[MANY];
    train(&n, 0, count, n.range[0].steps, together);
    for (int i = 0; i < NETWORKS; i++) assert_trained(&n, i, &together[i]);
    for (int i = 0; i < count; i++) {
      train(&n, i, 1, n.range[0].steps, other);
      assert_same_network(&n, i, &together[i], other);
    }
    train(&n, 0, count, 2, other);
    for (int i = 0; i < count; i++) assert_same_network(&n, i, &together[i], &other[i]);
    finish();
  }
}

/* A number that is too large for its terms is told of, wherever it is; the others' bits stay. */
KERNEL_TEST(test_overflow) {
  static const struct {
    int layer;
    bool bias;
    float value;
    bool told;
  } cases[] = {{0, false, 255.5f, false}, {0, false, -256, true},  {0, true, 1000, false},
               {0, true, 1100, true},     {1, false, 10, false},   {1, false, -1025, true},
               {1, true, 1024, true},     {2, false, 16400, true}, {2, true, 1e30f, false},
               {2, true, INFINITY, true}, {0, false, NAN, true}};
  needs_many();
  Team n = make_team(&kinds[5]);
  Trained before[NETWORKS], after[NETWORKS];
  n.range[1].learning_rate = 0;
  train(&n, 0, NETWORKS, 1, before);
  foreach (c, cases) {
    if (quick() && c > cases + 1) continue; /* racecheck is slow */
    float *at = n.start[1] + (c->bias ? n.config.network.bias : n.config.network.weight)[c->layer];
    const float usual = *at;
    *at = c->value;
    train(&n, 0, NETWORKS, 1, after);
    *at = usual;
    if ((after[1].sums.overflowed != 0) != c->told)
      fail_msg("layer %d, %s %g: %s", c->layer, c->bias ? "bias" : "weight", (double)c->value,
               c->told ? "not told" : "told");
    assert_same_network(&n, 0, &before[0], &after[0]);
    assert_same_network(&n, 2, &before[2], &after[2]);
  }
}

KERNEL_TEST(test_arguments_are_checked) {
  needs_many();
  const Team n = make_team(&kinds[2]);
  ResultSums *d_sums;
  ManyJob good = on_device(&n, 0, &d_sums);
  good.end = 60;
  ManyJob wrong[] = {good, good, good, good, good, good};
  wrong[0].d_work = NULL;
  wrong[1].d_overflowed = NULL;
  wrong[2].position = 1;
  wrong[3].position = 60;
  wrong[4].shape.hidden1 = 321;
  wrong[5].stride = 48;
  REFUSED(many, NULL);
  foreach (job, wrong) REFUSED(many, job);
}
