/* The update of all parameters by another rule than the momentum rule, kernels/optimizer.cu:
   against float64, weights that decay beside biases that do not, a step without rows. */
#include "support/kernel_tests.h"

#ifdef HAVE_CUDA

#include <math.h>

/* Two layers over several blocks, the last of which is not full; the second one's weights, of which
   rows do not start on 16 bytes, end before its biases begin. */
enum { WEIGHT0 = 0, BIAS0 = 2400, WEIGHT1 = 2436, BIAS1 = 3072, COUNT = 3084 };
static const int matrices[][3] = {{3, 40, 60}, {2, 33, 19}}; /* terms, rows, columns */

typedef struct {
  Values w, m, v, g;
} Tensors;

/* Gradients of either sign, whose mean square could be what v is. */
static Tensors make_tensors(uint64_t seed) {
  return (Tensors){values_between(-1, 1, COUNT, seed), values_between(-0.1, 0.1, COUNT, seed + 1),
                   values_between(0.001, 0.01, COUNT, seed + 2),
                   values_between(-0.1, 0.1, COUNT, seed + 3)};
}

static FlatParameters flat(const Tensors *t, OptimizerRule rule) {
  return (FlatParameters){.d_w = t->w.d,
                          .d_m = t->m.d,
                          .d_v = optimizer_has_second(rule.kind) ? t->v.d : NULL,
                          .d_g = t->g.d,
                          .count = COUNT,
                          .layers = 2,
                          .weight = {WEIGHT0, WEIGHT1},
                          .bias = {BIAS0, BIAS1}};
}

/* Planes that were renewed are those that launch_split makes of the new weights. */
static void assert_split(const float *d_w, Planes p) {
  const Planes expected = make_planes(p.terms, p.rows, p.columns);
  LAUNCH(split, d_w, expected);
  assert_same_arrays(p.d, expected.d, plane_bytes(p));
}

static void check_rule(OptimizerRule rule, uint64_t seed) {
  const Shape s = {7, 5, 3};
  Tensors t = make_tensors(seed);
  Batch batch = make_batch(s.rows, s.in, s.out, s.rows, true, seed);
  batch.view.share = (RowShare){9, 1, 2}; /* a step of 9 rows over all ranks */
  FlatParameters p = flat(&t, rule);
  for (int l = 0; l < p.layers; l++)
    p.planes[l] = make_planes(matrices[l][0], matrices[l][1], matrices[l][2]);
  const uint64_t update = UPDATES + (batch.state.position + OFFSET) / 9 + 1;
  static const int ends[] = {WEIGHT0, BIAS0, WEIGHT1, BIAS1, COUNT};
  double *w = copy_of(t.w.host, COUNT), *m = copy_of(t.m.host, COUNT);
  double *v = copy_of(t.v.host, COUNT);
  LAUNCH(optimizer, batch.view, rule, &p);
  for (int i = 0; i < 4; i++) { /* weights, biases, weights, biases */
    const int at = ends[i];
    reference_optimize(rule, w + at, m + at, v + at, t.g.host + at, (size_t)(ends[i + 1] - at),
                       i % 2 ? 0 : (double)rule.weight_decay, (double)learning_rate, update);
  }
  assert_near("weights", s, t.w.d, w, COUNT, bound(8, UPDATE_ROUNDINGS));
  assert_near("momentum", s, t.m.d, m, COUNT, bound(2, UPDATE_ROUNDINGS));
  assert_near("second moment", s, t.v.d, v, COUNT, bound(2, UPDATE_ROUNDINGS));
  assert_untouched(t.g, COUNT);
  for (int l = 0; l < p.layers; l++) assert_split(t.w.d + p.weight[l], p.planes[l]);
  finish();
}

TESTS_WITH(kernels_open, kernels_close);

KERNEL_TEST(test_rules) {
  for (int kind = OPTIMIZER_SGD; kind <= OPTIMIZER_ADAMW; kind++) {
    check_rule((OptimizerRule){(Optimizer)kind, 0.9f, 0.05f, 0.9f, 0.999f, 1e-8f}, 1);
    check_rule((OptimizerRule){(Optimizer)kind, 0.0f, 0.0f, 0.0f, 0.5f, 0.1f}, 11);
  }
}

/* Past the end of the range nothing changes. */
KERNEL_TEST(test_a_step_without_rows) {
  const OptimizerRule rule = {OPTIMIZER_ADAMW, 0, 0.1f, 0.9f, 0.999f, 1e-8f};
  const Tensors t = make_tensors(1);
  const Batch batch = make_batch(7, 5, 3, 0, true, 1);
  const FlatParameters p = flat(&t, rule);
  LAUNCH(optimizer, batch.view, rule, &p);
  assert_untouched(t.w, COUNT);
  assert_untouched(t.m, COUNT);
  assert_untouched(t.v, COUNT);
  finish();
}

/* Early on the average keeps less than its decay. */
KERNEL_TEST(test_average) {
  const Shape s = {7, 5, 3};
  static const float decays[] = {0.99f, 0.01f};
  for (int i = 0; i < 2; i++) {
    const Tensors t = make_tensors(1);
    const Batch batch = make_batch(s.rows, s.in, s.out, s.rows, true, 1);
    const uint64_t update = UPDATES + (batch.state.position + OFFSET) / (uint64_t)s.rows + 1;
    const double at_first = (1 + (double)update) / (10 + (double)update);
    const double keeps = fmin((double)decays[i], at_first);
    double *expected = copy_of(t.m.host, COUNT);
    for (int n = 0; n < COUNT; n++) expected[n] = keeps * expected[n] + (1 - keeps) * t.w.host[n];
    LAUNCH(average, batch.view, decays[i], t.m.d, t.w.d, COUNT);
    assert_near("average", s, t.m.d, expected, COUNT, bound(2, UPDATE_ROUNDINGS));
    assert_untouched(t.w, COUNT);
    const Batch over = make_batch(s.rows, s.in, s.out, 0, true, 1);
    LAUNCH(average, over.view, decays[i], t.v.d, t.w.d, COUNT);
    assert_untouched(t.v, COUNT);
    REFUSED(average, batch.view, 1, t.v.d, t.w.d, COUNT);
    REFUSED(average, batch.view, 0, t.v.d, t.w.d, COUNT);
    REFUSED(average, batch.view, 0.5f, NULL, t.w.d, COUNT);
    REFUSED(average, batch.view, 0.5f, t.v.d, NULL, COUNT);
    REFUSED(average, batch.view, 0.5f, t.v.d, t.w.d, 0);
    finish();
  }
}

KERNEL_TEST(test_wrong_arguments_are_refused) {
  const OptimizerRule adam = {.kind = OPTIMIZER_ADAM}, nesterov = {.kind = OPTIMIZER_NESTEROV};
  const Tensors t = make_tensors(1);
  const Batch batch = make_batch(7, 5, 3, 7, true, 1);
  BatchView no_rows = batch.view;
  no_rows.rows = 0;
  const FlatParameters p = flat(&t, adam);
  FlatParameters bad[] = {p, p, p, p, p, p, p, p, p};
  bad[0].d_w = NULL;
  bad[1].d_m = NULL;
  bad[2].d_g = NULL;
  bad[3].count = 0;
  bad[4].layers = MAX_UPDATES + 1;
  bad[5].layers = 0;
  bad[6].weight[1]++;
  bad[7].count--;
  bad[8].planes[0] = (Planes){.d = (uint16_t *)t.v.d, .terms = 4};
  foreach (one, bad) REFUSED(optimizer, batch.view, adam, one);
  REFUSED(optimizer, batch.view, adam, NULL);
  REFUSED(optimizer, no_rows, adam, &p);
  const FlatParameters first_alone = flat(&t, nesterov);
  REFUSED(optimizer, batch.view, adam, &first_alone);
  assert_untouched(t.w, COUNT);
}

#else

SKIPPED_WITHOUT_CUDA(test_kernels_optimizer)

#endif
