/* Many networks at once against the float64 reference: alone, together, and in parts; in clusters
   (kernels/many/), which the emulator has not, and by kernels of level layer that serve several. */
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
  ManyJob job;
  const uint8_t *d_pixels;
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
                    .d_labels = to_device(n.labels, k->rows * sizeof *n.labels),
                    .stride = stride};
  memcpy(n.job.layout.weight, n.config.network.weight, sizeof n.job.layout.weight);
  memcpy(n.job.layout.bias, n.config.network.bias, sizeof n.job.layout.bias);
  n.d_pixels = to_device(n.pixels, k->rows * stride);
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

/* Network i, before its training. */
static ManyNetwork on_device(const Team *n, int i) {
  const TrainRange *range = &n->range[i];
  const size_t floats = n->config.network.floats;
  const ResultSums none = {0};
  float *d_arrays = to_device(n->start[i], 2 * floats * sizeof(float));
  return (ManyNetwork){.d_pixels = n->d_pixels,
                       .rows = (uint32_t)range->rows,
                       .shuffled = range->shuffled,
                       .key = range->key,
                       .learning_rate = range->learning_rate,
                       .rule = n->rule[i],
                       .d_parameters = d_arrays,
                       .d_momentum = d_arrays + floats,
                       .results = {poisoned_floats(range->rows), poisoned(range->rows)},
                       .d_sums = to_device(&none, sizeof none)};
}

/* Trains networks first to first + count - 1 together, in launches of `piece` steps. */
static void train(const Team *n, int first, int count, uint64_t piece, Trained *trained) {
  const size_t floats = n->config.network.floats;
  const uint64_t rows = n->range[first].rows, steps = n->range[first].steps,
                 batch = (uint64_t)n->job.shape.batch;
  float *d_before = poisoned_floats(2 * floats);
  ManyNetwork networks[MANY];
  for (int i = 0; i < count; i++) networks[i] = on_device(n, first + i);
  void *d_many = poisoned(many_work_bytes((uint32_t)steps, count));
  for (uint64_t step = 0; step < steps; step += piece) {
    for (int i = 0; i < count; i++) {
      networks[i].position = (uint32_t)(step * batch);
      networks[i].end = (uint32_t)min_size(min_size(step + piece, steps) * batch, rows);
      for (int a = 0; a < 2; a++)
        networks[i].d_before[a] =
            i == count - 1 && step == 0 ? d_before + (size_t)a * floats : NULL;
    }
    LAUNCH(many, &n->job, networks, count, d_many);
  }
  for (int i = 0; i < count; i++)
    trained[i] = (Trained){fetch_floats(networks[i].d_parameters, 2 * floats),
                           fetch_floats(networks[i].results.d_loss, networks[i].end),
                           fetch(networks[i].results.d_correct, networks[i].end),
                           *(ResultSums *)fetch(networks[i].d_sums, sizeof(ResultSums))};
  const float *start = n->start[first + count - 1], *before = fetch_floats(d_before, 2 * floats);
  for (size_t p = 0; p < 2 * floats; p++) /* NaN: padding that nobody reads */
    assert_true(before[p] == start[p] || (isnan(before[p]) && start[p] == 0) || isnan(start[p]));
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

/* The first kind's are more than clusters, which share networks: where one's steps are done, it
   goes on with another one's. */
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

/* ---- by the kernels of level layer ----------------------------------------------------------- */

/* The arrays of a network in its block of device memory. */
typedef struct {
  float *arrays, *a[3], *dz[3], *loss; /* arrays: as Team.start; a: of inputs, NULL for pixels */
  StepState *state;
  uint32_t *order;
  uint8_t *correct;
  uint8_t *end; /* of the block */
} Block;

static void *take(uint8_t **at, size_t bytes) {
  void *array = *at;
  *at += round_up(bytes, 16);
  return array;
}

static Block block_at(const Team *n, uint8_t *at) {
  const Network *network = &n->config.network;
  const size_t rows = n->range[0].rows;
  Block b = {.arrays = take(&at, 2 * network->floats * sizeof(float))};
  for (int l = 0; l < 3; l++) {
    const size_t bytes = area(n->job.shape.batch, network->size[l + 1]) * sizeof(float);
    b.dz[l] = take(&at, bytes);
    if (l < 2) b.a[l + 1] = take(&at, bytes);
  }
  b.state = take(&at, sizeof *b.state);
  b.order = take(&at, rows * sizeof *b.order);
  b.loss = take(&at, rows * sizeof *b.loss);
  b.correct = take(&at, rows);
  b.end = at;
  return b;
}

/* Trains networks first to first + count - 1 together, the last one in the first block. */
static void train_by_layer(const Team *n, int first, int count, Trained *trained) {
  const EpochShape s = n->job.shape;
  const Network *network = &n->config.network;
  const size_t floats = network->floats, arrays = 2 * floats;
  const uint64_t rows = n->range[0].rows, steps = n->range[0].steps;
  const uint32_t batch = (uint32_t)s.batch, end = (uint32_t)min_size(steps * batch, rows);
  const Dropout none = {0};
  uint8_t *start = (uint8_t *)n->start[0]; /* of any block */
  Networks networks = {.apart = (size_t)(block_at(n, start).end - start), .count = count};
  start = poisoned((size_t)count * networks.apart);
  Block of[NETWORKS];
  for (int i = 0; i < count; i++) {
    const TrainRange *range = &n->range[first + i];
    const UpdateRule rule = n->rule[first + i];
    const uint64_t number = (uint64_t)(count - 1 - i);
    const Block b = of[i] = block_at(n, start + number * networks.apart);
    networks.numbers |= number << 4 * i;
    CUDA_OK(cudaMemcpyAsync(b.arrays, n->start[first + i], arrays * sizeof(float),
                            cudaMemcpyHostToDevice, stream));
    LAUNCH(order, b.order, 0, (uint32_t)rows, range->shuffled, range->key);
    LAUNCH(begin, b.state,
           (StepState){.end = end,
                       .learning_rate = range->learning_rate,
                       .rule = {.momentum = rule.momentum, .weight_decay = rule.weight_decay}});
  }
  const Block d = block_at(n, start);
  const RowResults results = {d.loss, d.correct};
  BatchView view = {.d_pixels = n->d_pixels,
                    .d_labels = n->job.d_labels,
                    .d_order = d.order,
                    .stride = n->job.stride,
                    .d_state = d.state,
                    .rows = s.batch,
                    .networks = networks};
  LayerUpdate layers[3];
  for (int l = 0; l < 3; l++) {
    float *w = d.arrays + network->weight[l], *b = d.arrays + network->bias[l];
    const int in = network->size[l], out = network->size[l + 1];
    layers[l] = (LayerUpdate){d.a[l], d.dz[l], w, b, w + floats, b + floats, in, out, NULL, NULL};
  }
  for (uint64_t step = 0; step < steps; step++) {
    for (int l = 0; l < 2; l++)
      LAUNCH(forward, (LayerInput){d.a[l], view}, layers[l].d_w, layers[l].d_b, d.a[l + 1],
             layers[l].in, layers[l].out, 1, none, 3);
    LAUNCH(head, view, d.a[2], layers[2].d_w, layers[2].d_b, NULL, d.dz[2], d.dz[1], s.hidden2,
           s.classes, none, results);
    LAUNCH(backward, view, d.dz[1], layers[1].d_w, d.a[1], d.dz[0], s.hidden1, s.hidden2, none, 3);
    LAUNCH(updates, view, layers, 3, 3, d_work);
    LAUNCH(advance, d.state, batch, networks);
  }
  for (int i = 0; i < count; i++) {
    trained[i] = (Trained){fetch_floats(of[i].arrays, arrays),
                           fetch_floats(of[i].loss, end),
                           fetch(of[i].correct, end),
                           {.rows = end}};
    for (uint32_t r = 0; r < end; r++) {
      trained[i].sums.loss += (double)trained[i].loss[r];
      trained[i].sums.correct += trained[i].correct[r];
    }
  }
}

/* A network has the same bits whoever shares its launches. */
KERNEL_TEST(test_networks_share_launches) {
  foreach (kind, kinds) {
    if ((quick() || ON_EMULATOR) && (int)kind->rows * kind->inputs > 10000) continue;
    Team n = make_team(kind);
    Trained together[NETWORKS], alone;
    train_by_layer(&n, 0, NETWORKS, together);
    for (int i = 0; i < NETWORKS; i++) {
      assert_trained(&n, i, &together[i]);
      train_by_layer(&n, i, 1, &alone);
      assert_same_network(&n, i, &together[i], &alone);
    }
    finish();
  }
}

/* ---- by clusters, at the edges --------------------------------------------------------------- */

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
  void *d_many = poisoned(many_work_bytes(9, 1));
  ManyNetwork network = on_device(&n, 0), wrong = network;
  ManyJob job = n.job;
  network.end = wrong.end = 60;
  REFUSED(many, NULL, &network, 1, d_many);
  REFUSED(many, &job, &network, 0, d_many);
  REFUSED(many, &job, &network, MANY_MOST + 1, d_many);
  REFUSED(many, &job, &network, 1, NULL);
  wrong.position = 1;
  REFUSED(many, &job, &wrong, 1, d_many);
  wrong = network, wrong.end = 61;
  REFUSED(many, &job, &wrong, 1, d_many);
  wrong = network, wrong.d_sums = NULL;
  REFUSED(many, &job, &wrong, 1, d_many);
  job.shape.hidden1 = 321;
  REFUSED(many, &job, &network, 1, d_many);
  job = n.job, job.stride = 48;
  REFUSED(many, &job, &network, 1, d_many);
}
