/* Tests the reference. Compares small cases with values computed by hand, and gradients with finite
   differences. test_engine_results.c compares whole training with the CPU engine. */
#include "base/random.h"
#include "support/network_reference.h"
#include "support/test.h"

static void near(const double *out, const double *expected, size_t count) {
  for (size_t i = 0; i < count; i++)
    assert_close(out[i], expected[i], 1e-12 * (1 + fabs(expected[i])));
}

/* Checks that `out` begins with the listed values, up to rounding. */
#define NEAR(out, ...)                                                                             \
  near(out, (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

/* ---- one layer, by hand ------------------------------------------------------------------ */

/* x23: two rows of three inputs; w23: weights of two outputs */
static const double x23[] = {1, 2, 3, -1, 0, 5};
static const double w23[] = {1, 0, -1, 2, 1, 0.5};

TEST(linear) {
  double y[4];
  reference_linear(x23, w23, (const double[]){10, 20}, 2, 3, 2, y);
  NEAR(y, 8, 25.5, 4, 20.5);
  reference_linear(x23, w23, NULL, 2, 3, 2, y);
  NEAR(y, -2, 5.5, -6, 0.5);
}

TEST(activation) {
  double y[] = {-1, 0, 2, -1e-300, 3}, gradient[] = {5, 6, 7, 8, 9};
  reference_activate(y, 5);
  NEAR(y, 0, 0, 2, 0, 3);
  reference_activation_slope(y, 5, gradient);
  NEAR(gradient, 0, 0, 7, 0, 9);
}

/* A weight of 1 is updated by gradients 0.5 and then -0.25 at rate 0.1. Adam's first step has the
   size of the rate. In step 2, m is 0.02 / 0.19 and v is 0.00031225 / 0.001999. */
TEST(optimizers_by_hand) {
  static const struct {
    Optimizer kind;
    double decay, first, second;
  } cases[] = {{OPTIMIZER_SGD, 0, 0.95, 0.95 - 0.1 * 0.2},
               {OPTIMIZER_NESTEROV, 0, 1 - 0.1 * 0.95, 0.905 - 0.1 * (-0.25 + 0.9 * 0.2)},
               {OPTIMIZER_ADAM, 0, 0.9, 0.9 - 0.1 * 0.26633738},
               {OPTIMIZER_ADAMW, 0, 0.9, 0.9 - 0.1 * 0.26633738},
               {OPTIMIZER_ADAM, 0.5, 0.9, NAN},
               {OPTIMIZER_ADAMW, 0.5, 0.85, 0.85 * 0.95 - 0.1 * 0.26633738}};
  foreach (of, cases) {
    const OptimizerRule rule = {of->kind, 0.9f, 0, 0.9f, 0.999f, 1e-16f};
    const double g[] = {0.5, -0.25}, decay = of->decay;
    double w = 1, m = 0, v = 0;
    reference_optimize(rule, &w, &m, &v, &g[0], 1, decay, 0.1, 1);
    assert_close(w, of->first, 1e-7);
    reference_optimize(rule, &w, &m, &v, &g[1], 1, decay, 0.1, 2);
    if (!isnan(of->second)) assert_close(w, of->second, 1e-6);
  }
}

TEST(loss_by_hand) {
  const double logits[] = {0, 0, 0, 0, log(1), log(2), log(3), log(4)};
  const uint16_t labels[] = {2, 1};
  double loss[2], gradient[8], p[8];
  reference_cross_entropy(logits, labels, 2, 4, loss);
  NEAR(loss, log(4), log(5));
  reference_softmax(logits, 2, 4, p);
  NEAR(p, .25, .25, .25, .25, .1, .2, .3, .4);
  reference_cross_entropy_gradient(logits, labels, 2, 4, 0.5, gradient);
  NEAR(gradient, .125, .125, -.375, .125, .05, -.4, .15, .2);
}

/* The loss of extreme logits neither overflows nor saturates. */
TEST(loss_of_extreme_logits) {
  const double logits[] = {1e4, -1e4, 0, -1e4, -1e4 - 1, -1e4 - 2, -900, -901, -902};
  const uint16_t labels[] = {1, 0, 2};
  double loss[3], gradient[9];
  const double tail = log(1 + exp(-1) + exp(-2));
  reference_cross_entropy(logits, labels, 3, 3, loss);
  NEAR(loss, 2e4, tail, 2 + tail);
  reference_cross_entropy_gradient(logits, labels, 3, 3, 1, gradient);
  NEAR(gradient, 1, -1, 0);
  for (int r = 0; r < 3; r++) /* the gradient of a row's logits sums to 0 */
    near((const double[]){gradient[3 * r] + gradient[3 * r + 1] + gradient[3 * r + 2]},
         (const double[]){0}, 1);
}

TEST(correct_is_the_first_of_equals) {
  const double logits[] = {1, 3, 3, -5, -5, -7, -9, -8, -8};
  assert_int_equal(reference_correct(logits, (const uint16_t[]){1, 0, 1}, 3, 3), 3);
  assert_int_equal(reference_correct(logits, (const uint16_t[]){2, 1, 2}, 3, 3), 0);
}

/* ---- the whole network ------------------------------------------------------------------- */

static double mean_loss(const Network *network, const double *parameters, const double *x,
                        const uint16_t *labels, int rows) {
  EngineSums sums = {0};
  reference_gradient(network, parameters, x, labels, rows, NULL, &sums);
  return sums.loss / rows;
}

/* Compares every gradient of networks of one to three layers with a central difference. The error
   of the difference is h^2 times a third derivative plus 1e-16 / h: about 1e-10 for h = 1e-5. */
TEST(gradient_against_finite_differences) {
  enum { ROWS = 6 };
  for (int count = 0; count <= 2; count++) {
    Network network;
    assert_true(network_init(&network, 7, (const int[]){5, 4}, count, 3, &error));
    double *parameters = allocate(network.floats, sizeof *parameters);
    double *gradient = allocate(network.floats, sizeof *gradient), x[ROWS * 7];
    uint16_t labels[ROWS];
    reference_fill(parameters, network.floats, -1, 1, 1); /* and padding, which must not matter */
    reference_fill(x, ROWS * 7, -1, 1, 2);
    reference_fill_labels(labels, ROWS, 3, 3);
    EngineSums sums = {0};
    reference_gradient(&network, parameters, x, labels, ROWS, gradient, &sums);
    assert_int_equal(sums.rows, ROWS);
    size_t nonzero = 0;
    for (size_t i = 0; i < network.floats; i++) {
      const double h = 1e-5, at = parameters[i];
      parameters[i] = at + h;
      const double above = mean_loss(&network, parameters, x, labels, ROWS);
      parameters[i] = at - h;
      const double below = mean_loss(&network, parameters, x, labels, ROWS);
      parameters[i] = at;
      assert_close((above - below) / (2 * h), gradient[i], 1e-8);
      nonzero += gradient[i] != 0;
    }
    assert_true(nonzero > network.parameters / 2 && nonzero <= network.parameters);
  }
}

TEST(fills) {
  enum { COUNT = 10000 };
  static double a[COUNT];
  static uint8_t pixels[COUNT];
  static uint16_t labels[COUNT];
  reference_fill(a, COUNT, -2, 3, 1);
  reference_fill_pixels(pixels, COUNT, 1);
  reference_fill_labels(labels, COUNT, 7, 1);
  double sum = 0, bright = 0, label = 0;
  for (int i = 0; i < COUNT; i++) {
    assert_true(a[i] >= -2 && a[i] < 3 && a[i] == (double)(float)a[i] && labels[i] < 7);
    sum += a[i], bright += pixels[i], label += labels[i];
  }
  assert_close(sum / COUNT, 0.5, 0.06);
  assert_close(bright / COUNT, 127.5, 3);
  assert_close(label / COUNT, 3, 0.1);
}

TEST(errors_are_measured) {
  const double ref[] = {3, 4, 0}, zero[] = {0, 0, 0};
  const float out[] = {3, 4, 1}, nan[] = {3, NAN, 0}, inf[] = {3, 4, INFINITY};
  NEAR((const double[]){reference_relative_error(out, ref, 3)}, 0.2);
  assert_true(reference_relative_error(out, ref, 2) == 0);
  assert_true(reference_relative_error(nan, ref, 3) == INFINITY);
  assert_true(reference_relative_error(inf, ref, 3) == INFINITY);
  assert_true(reference_relative_error(out, zero, 3) == INFINITY);
  assert_true(reference_relative_error((const float[]){0, 0, 0}, zero, 3) == 0);
}
