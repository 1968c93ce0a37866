/* Compares a network that trains in one cluster (kernels/many/) with the float64 reference. One
   launch must give the same bits as several launches. */
#include "support/kernel_tests.h"

TESTS_WITH(kernels_open, kernels_close);

typedef struct {
  int inputs, hidden[2], classes, batch;
  uint32_t rows;
  uint64_t steps;
} Kind;

static const Kind kinds[] = {
    {784, {300, 100}, 10, 64, 1000, 8}, /* the steps use half of the rows */
    {784, {300, 100}, 10, 64, 200, 4},  {64, {61, 7}, 3, 7, 60, 9},
    {784, {320, 100}, 10, 63, 126, 2},  {144, {16, 33}, 10, 1, 5, 5},
    {784, {15, 8}, 2, 64, 10, 1},
};

/* A network, its training rows and its update rule. */
typedef struct {
  EngineConfig config;
  TrainRange range;
  uint8_t *pixels;
  uint16_t *labels;
  ManyJob job;  /* without the arrays that training writes */
  float *start; /* initial parameters, then momenta */
} Case;

static void needs_many(void) {
  if (!many_clusters()) skip_because("it needs a GPU of compute capability 9.0 and code for it");
}

/* Returns case `number` of a kind. Cases differ in seed, order of rows, learning rate and rule. */
static Case make_case(const Kind *k, int number) {
  Case c = {.config.training.batch = k->batch};
  Network *n = &c.config.network;
  OK(network_init(n, k->inputs, k->hidden, 2, k->classes, &error));
  const size_t stride = round_up((size_t)k->inputs, 16), floats = n->floats;
  c.pixels = memset(host(k->rows * stride), 0, k->rows * stride);
  c.labels = host(k->rows * sizeof *c.labels);
  for (uint32_t r = 0; r < k->rows; r++)
    reference_fill_pixels(c.pixels + r * stride, (size_t)k->inputs, r);
  reference_fill_labels(c.labels, k->rows, k->classes, 2);
  c.range = (TrainRange){.rows = k->rows,
                         .shuffled = number > 0,
                         .key = random_order_key(3, (uint64_t)number),
                         .steps = k->steps,
                         .learning_rate = 0.01f * (float)(1 + number)};
  c.config.training.rule.momentum = number == 1 ? 0.9f : 0.5f;
  c.config.training.rule.weight_decay = number > 0 ? 0.01f : 0;
  double *momenta = host_doubles(floats);
  c.start = host(2 * floats * sizeof(float));
  network_initialise(n, (uint64_t)number, c.start);
  reference_fill(momenta, floats, -0.01, 0.01, (uint64_t)number);
  for (size_t p = 0; p < floats; p++) /* momenta of padding and biases start at 0 */
    c.start[floats + p] = c.start[p] != 0 ? (float)momenta[p] : 0;
  c.job = (ManyJob){.shape = {k->inputs, k->hidden[0], k->hidden[1], k->classes, k->batch},
                    .d_pixels = to_device(c.pixels, k->rows * stride),
                    .d_labels = to_device(c.labels, k->rows * sizeof *c.labels),
                    .stride = stride,
                    .learning_rate = c.range.learning_rate,
                    .rule = {c.config.training.rule.momentum, c.config.training.rule.weight_decay}};
  memcpy(c.job.weight, n->weight, sizeof c.job.weight);
  memcpy(c.job.bias, n->bias, sizeof c.job.bias);
  uint32_t *d_order = poisoned(k->rows * sizeof *d_order);
  LAUNCH(order, d_order, 0, k->rows, c.range.shuffled, c.range.key);
  c.job.d_order = d_order;
  return c;
}

typedef struct {
  const float *arrays, *loss; /* arrays: parameters, then momenta; loss: one loss per row */
  const uint8_t *correct;
  size_t rows;
  ResultSums sums;
} Trained;

/* Trains the network in launches of `piece` steps. */
static Trained train(const Case *c, uint64_t piece) {
  const size_t floats = c->config.network.floats;
  const uint64_t batch = (uint64_t)c->job.shape.batch, steps = c->range.steps;
  const ResultSums none = {0};
  ResultSums *d_sums = to_device(&none, sizeof none);
  ManyJob job = c->job;
  job.d_parameters = to_device(c->start, 2 * floats * sizeof(float));
  job.d_momentum = job.d_parameters + floats;
  job.results = (RowResults){poisoned_floats(c->range.rows), poisoned(c->range.rows)};
  job.d_overflowed = &d_sums->overflowed;
  job.d_work = poisoned(many_work_bytes((uint32_t)piece));
  for (uint64_t step = 0; step < steps; step += piece) {
    job.position = (uint32_t)(step * batch);
    job.end = (uint32_t)min_size(min_size(step + piece, steps) * batch, c->range.rows);
    LAUNCH(many, &job);
    LAUNCH(sum, d_sums, job.results, job.position, job.end, (RowShare){0});
  }
  return (Trained){fetch_floats(job.d_parameters, 2 * floats),
                   fetch_floats(job.results.d_loss, job.end), fetch(job.results.d_correct, job.end),
                   job.end, *(ResultSums *)fetch(d_sums, sizeof *d_sums)};
}

static void assert_trained(const Case *c, const Trained *got) {
  const Network *network = &c->config.network;
  const size_t floats = network->floats;
  double *expected = host_doubles(2 * floats);
  reference_to_double(c->start, 2 * floats, expected);
  EngineSums sums = {0};
  reference_train(&c->config, expected, expected + floats, c->pixels, c->job.stride, c->labels,
                  &c->range, &sums);
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
        fail_msg("%s, layer %d, %s: errors %.1e and %.1e", network_text(network).text, l,
                 moments ? "momentum" : "parameters", w, b);
    }
  assert_close(got->sums.loss, sums.loss, 1e-5 * sums.loss);
  assert_int_equal(got->sums.correct, sums.correct);
  assert_int_equal(got->sums.rows, sums.rows);
  assert_int_equal(got->sums.overflowed, 0);
}

KERNEL_TEST(test_networks) {
  needs_many();
  foreach (kind, kinds)
    for (int number = 0; number < 3; number++) {
      if (quick() && (int)kind->rows * kind->inputs > 100000) continue;
      const Case c = make_case(kind, number);
      const Trained whole = train(&c, kind->steps), parts = train(&c, 2);
      assert_trained(&c, &whole);
      assert_memory_equal(whole.arrays, parts.arrays, 2 * c.config.network.floats * sizeof(float));
      assert_memory_equal(whole.loss, parts.loss, whole.rows * sizeof(float));
      assert_memory_equal(whole.correct, parts.correct, whole.rows);
      finish();
    }
}

/* A number that is too large for fp16 terms is reported, wherever it occurs. */
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
  Case n = make_case(&kinds[5], 1);
  n.job.learning_rate = 0;
  foreach (c, cases) {
    if (quick() && c > cases + 1) continue; /* racecheck is slow */
    float *at = n.start + (c->bias ? n.config.network.bias : n.config.network.weight)[c->layer];
    const float usual = *at;
    *at = c->value;
    const Trained after = train(&n, 1);
    *at = usual;
    if ((after.sums.overflowed != 0) != c->told)
      fail_msg("layer %d, %s %g: %s", c->layer, c->bias ? "bias" : "weight", (double)c->value,
               c->told ? "not told" : "told");
  }
}

KERNEL_TEST(test_arguments_are_checked) {
  needs_many();
  ManyJob good = make_case(&kinds[2], 0).job;
  good.end = 60;
  good.d_work = good.d_parameters = good.d_momentum = poisoned_floats(1);
  good.results = (RowResults){good.d_parameters, poisoned(1)};
  good.d_overflowed = poisoned(sizeof *good.d_overflowed);
  ManyJob wrong[] = {good, good, good, good, good, good};
  wrong[0].d_work = NULL;
  wrong[1].position = 1;
  wrong[2].position = 60;
  wrong[3].stride = 48;
  wrong[4].shape.hidden1 = 321;
  wrong[5].d_overflowed = NULL;
  REFUSED(many, NULL);
  foreach (job, wrong) REFUSED(many, job);
}
