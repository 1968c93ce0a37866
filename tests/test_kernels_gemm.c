/* Compares the gemms of kernels.h, unfused and fused (levels layer and step), with the float64
   reference and with cuBLAS. Shapes are no multiples of a tile. Tests updates by every rule:
   weights decay, biases do not, and a step without rows changes nothing. */
#include "support/kernel_tests.h"

#include "support/cublas.h"

TESTS_WITH(kernels_open, kernels_close);

/* Tests launch_gemm. Tests launch_forward with two and three terms, with and without activation.
   Inputs are activations or pixels of stored rows. A third of the rows are past the range's end. */
WALK_TEST(test_gemm_and_forward, for_all_shapes, check_forward, Shape s, uint64_t seed) {
  const size_t count = z_count(s);
  for (int pixels = 0; pixels < 2; pixels++) {
    const Forward f = make_forward(s, pixels, seed);
    if (!pixels) {
      float *d_z = poisoned_floats(count);
      LAUNCH(gemm, f.x.d, f.w.d, d_z, s.rows, s.in, s.out);
      assert_near("gemm", s, d_z, f.z, count, bound(s.in, GEMM_ROUNDING));
    }
    for (int way = 0; way < 4; way++) {
      const int activates = way % 2, terms = 2 + way / 2;
      float *d_y = poisoned_floats(count);
      LAUNCH(forward, f.input, f.w.d, f.b.d, d_y, s.in, s.out, activates, (Dropout){0}, terms);
      assert_near(pixels ? "forward of pixels" : "forward", s, d_y,
                  add_bias(f.z, f.b.host, s, activates), count,
                  split_bound(bf16_split(terms), s.in, f.roundings));
    }
  }
}

WALK_TEST(test_backward, for_all_shapes, check_backward, Shape s, uint64_t seed) {
  const size_t count = x_count(s);
  const Values dz = random_values(z_count(s), seed);
  const Values w = random_values(w_count(s), seed + 1);
  const Values a = signed_values(count, seed + 2);
  double *dx = expect_input_gradient(dz.host, w.host, s);
  float *d_dx = poisoned_floats(count);
  LAUNCH(backward_gemm, dz.d, w.d, d_dx, s.rows, s.in, s.out);
  assert_near("backward_gemm", s, d_dx, dx, count, bound(s.out, GEMM_ROUNDING));

  reference_activation_slope(a.host, count, dx);
  for (int terms = 2; terms <= 3; terms++) {
    float *d_masked = poisoned_floats(count);
    LAUNCH(backward, (BatchView){.rows = s.rows}, dz.d, w.d, a.d, d_masked, s.in, s.out,
           (Dropout){0}, terms);
    assert_near("backward", s, d_masked, dx, count,
                split_bound(bf16_split(terms), s.out, GEMM_ROUNDING));
  }
}

/* ---- against cuBLAS ------------------------------------------------------------------------- */

/* Every product of a layer at every shape, as levels none and layer compute it, must be near
   cuBLAS's. No bias is added, every activation passes its gradient, and all rows belong to the
   step, so that what is left of the fused kernels is their product. */
static void check_as_cublas(Shape s, uint64_t seed) {
  const Products p = cublas_products(s, seed);
  const Batch batch = make_batch(s.rows, s.in, 10, s.rows, false, seed);
  const Layer layer = {.shape = s, .x = p.x, .dz = p.dz};
  float *d_z = poisoned_floats(z_count(s)), *d_dx = poisoned_floats(x_count(s));
  LayerUpdate dw = gradient_of(&layer);
  LAUNCH(gemm, p.x.d, p.w.d, d_z, s.rows, s.in, s.out);
  LAUNCH(backward_gemm, p.dz.d, p.w.d, d_dx, s.rows, s.in, s.out);
  LAUNCH(weight_gradient, p.dz.d, p.x.d, dw.d_gw, s.rows, s.in, s.out);
  assert_as_cublas("none: z", s, d_z, p.z, z_count(s), s.in, bound(s.in, GEMM_ROUNDING));
  assert_as_cublas("none: dx", s, d_dx, p.dx, x_count(s), s.out, bound(s.out, GEMM_ROUNDING));
  assert_as_cublas("none: dw", s, dw.d_gw, p.dw, w_count(s), s.rows, bound(s.rows, GEMM_ROUNDING));

  const Values no_bias = values_between(0, 0, (size_t)s.out, 0);
  const Values active = values_between(1, 1, x_count(s), 0);
  dw = gradient_of(&layer);
  d_z = poisoned_floats(z_count(s)), d_dx = poisoned_floats(x_count(s));
  for (int terms = 2; terms <= 3; terms++) {
    const double split = bf16_split(terms);
    LAUNCH(forward, (LayerInput){p.x.d, {.rows = s.rows}}, p.w.d, no_bias.d, d_z, s.in, s.out, 0,
           (Dropout){0}, terms);
    LAUNCH(backward, (BatchView){.rows = s.rows}, p.dz.d, p.w.d, active.d, d_dx, s.in, s.out,
           (Dropout){0}, terms);
    LAUNCH(updates, batch.view, &dw, 1, terms, d_work);
    assert_as_cublas("layer: z", s, d_z, p.z, z_count(s), s.in,
                     split_bound(split, s.in, GEMM_ROUNDING + BIAS_ROUNDING));
    assert_as_cublas("layer: dx", s, d_dx, p.dx, x_count(s), s.out,
                     split_bound(split, s.out, GEMM_ROUNDING));
    assert_as_cublas("layer: dw", s, dw.d_gw, p.dw, w_count(s), s.rows,
                     split_bound(split, s.rows, GEMM_ROUNDING));
  }
}

KERNEL_TEST(test_products_are_as_cublas) {
  needs_cublas();
  with_cublas(for_all_shapes, check_as_cublas);
}

/* ---- gradients and updates ------------------------------------------------------------------ */

WALK_TEST(test_gradient_and_update, for_all_shapes, check_gradient, Shape s, uint64_t seed) {
  const UpdateRule rule = rules[seed / 1000 % RULES];
  for (int pixels = 0; pixels < 2; pixels++) {
    const Batch batch = short_batch(s, seed);
    Layer l = make_layer(&batch, s, pixels, seed + 2);
    const LayerUpdate unfused = gradient_of(&l);
    LAUNCH(weight_gradient, l.dz.d, l.x.d, unfused.d_gw, s.rows, s.in, s.out);
    LAUNCH(bias_gradient, l.dz.d, unfused.d_gb, s.rows, s.out);
    assert_layer_gradient("weight_gradient", &l, &unfused, bound(s.rows, GEMM_ROUNDING));
    for (int terms = 2; terms <= 3; terms++) {
      l.p = random_parameters(s, seed + 4);
      LayerUpdate update = update_of(&l);
      LAUNCH(updates, with_momentum(&batch, rule), &update, 1, terms, d_work);
      assert_layer_updated("updates", &l, rule, bf16_split(terms));
      /* now the launcher only stores the gradient; the arrays to update are NULL */
      update = gradient_of(&l);
      LAUNCH(updates, batch.view, &update, 1, terms, d_work);
      assert_layer_gradient(
          "stored gradient", &l, &update,
          split_bound(bf16_split(terms), s.rows, GEMM_ROUNDING + (pixels ? PIXEL_ROUNDINGS : 0)));
    }
  }
}

KERNEL_TEST(test_same_bits_twice) {
  static const Shape shapes[] = {{7, 63, 10}, {449, 50, 505}, {200, 785, 301}, {1000, 784, 300}};
  static CheckShape *const checks[] = {check_forward, check_backward, check_gradient};
  for (size_t i = 0; i < (ON_EMULATOR ? 1 : quick() ? 2 : LENGTH(shapes)); i++)
    foreach (check, checks) assert_same_bits_twice(*check, shapes[i], 20);
}

WALK_TEST(test_updates_of_many_layers, for_many_layers, check_many_layers, const Batch *batch,
          const Layer *layers) {
  LayerUpdate updates[MAX_UPDATES];
  for (int n = 0; n < MAX_UPDATES; n++) updates[n] = update_of(&layers[n]);
  LAUNCH(updates, with_momentum(batch, rules[2]), updates, MAX_UPDATES, 3, d_work);
  for (int n = 0; n < MAX_UPDATES; n++) assert_layer_updated("updates", &layers[n], rules[2], 0);
}

/* A step without rows changes no weight, although it has momentum 0.9 and weight decay. */
KERNEL_TEST(test_no_step_updates_nothing) {
  const Shape s = {64, 50, 33};
  const size_t weights = w_count(s);
  foreach (left, VALUES(int, 0, -1, -100))
    for (int pixels = 0; pixels < 2; pixels++) {
      const Batch batch = make_batch(s.rows, s.in, 10, *left, true, 8);
      const Layer l = make_layer(&batch, s, pixels, 9);
      const LayerUpdate update = update_of(&l);
      LAUNCH(update, with_momentum(&batch, rules[2]), l.p.w.d, l.p.vw.d, l.dz.d, weights, weights);
      LAUNCH(updates, with_momentum(&batch, rules[2]), &update, 1, 3, d_work);
      assert_layer_untouched(&l);
      finish();
    }
}

/* Weights decay. Biases, which follow the weights in memory, do not decay. */
KERNEL_TEST(test_update) {
  foreach (one, VALUES(size_t, 1, 257, 10007))
    foreach (rule, rules) {
      const size_t count = *one, decayed = count - count / 3;
      const Batch batch = make_batch(7, 5, 10, 1, false, 1);
      const Values w = values_between(1, 2, count, 5), v = random_values(count, 6);
      const Values g = random_values(count, 7);
      LAUNCH(update, with_momentum(&batch, *rule), w.d, v.d, g.d, count, decayed);
      for (size_t at = 0, end = decayed; at < count; at = end, end = count)
        assert_updated("update", (Shape){0}, (Values){w.host + at, w.d + at},
                       (Values){v.host + at, v.d + at}, g.host + at, end - at,
                       (UpdateRule){rule->momentum, at ? 0 : rule->weight_decay},
                       bound(0, UPDATE_ROUNDINGS));
      finish();
    }
}

/* ---- other rules than sgd (optimizer.cu) -------------------------------------- */

/* The arrays of two layers. COUNT values need several blocks of threads, and the last block is not
   full. Rows of the second layer's weights are not aligned to 16 bytes. Padding follows these
   weights. */
enum { WEIGHT0 = 0, BIAS0 = 2400, WEIGHT1 = 2436, BIAS1 = 3072, COUNT = 3084 };
static const int matrices[][3] = {{2, 40, 60}, {1, 33, 19}}; /* terms, rows, columns */

typedef struct {
  Values w, m, v, g;
} Tensors;

/* Returns an optimizer's arrays. Gradients g have both signs. Mean squares v are positive. */
static Tensors make_tensors(uint64_t seed) {
  return (Tensors){values_between(-1, 1, COUNT, seed), values_between(-0.1, 0.1, COUNT, seed + 1),
                   values_between(0.001, 0.01, COUNT, seed + 2),
                   values_between(-0.1, 0.1, COUNT, seed + 3)};
}

static void check_rule(OptimizerRule rule, uint64_t seed) {
  const Shape s = {7, 5, 3};
  Tensors t = make_tensors(seed);
  Batch batch = make_batch(s.rows, s.in, s.out, s.rows, true, seed);
  const Batch over = make_batch(s.rows, s.in, s.out, 0, true, seed); /* a step without rows */
  batch.view.share = (RowShare){9, 1, 2}; /* all ranks together have 9 rows in the step */
  FlatParameters p = {.d_w = t.w.d,
                      .d_m = t.m.d,
                      .d_v = optimizer_has_second(rule.kind) ? t.v.d : NULL,
                      .d_g = t.g.d,
                      .count = COUNT,
                      .layers = 2,
                      .weight = {WEIGHT0, WEIGHT1},
                      .bias = {BIAS0, BIAS1}};
  for (int l = 0; l < p.layers; l++)
    p.planes[l] = make_planes(matrices[l][0], matrices[l][1], matrices[l][2], 4);
  const uint64_t update = UPDATES + (batch.state.position + OFFSET) / 9 + 1;
  static const int ends[] = {WEIGHT0, BIAS0, WEIGHT1, BIAS1, COUNT};
  double *w = copy_of(t.w.host, COUNT), *m = copy_of(t.m.host, COUNT);
  double *v = copy_of(t.v.host, COUNT);
  LAUNCH(optimizer, with_rule(&over, rule), &p);
  foreach (values, VALUES(Values, t.w, t.m, t.v)) assert_untouched(*values, COUNT);
  LAUNCH(optimizer, with_rule(&batch, rule), &p);
  for (int i = 0; i < 4; i++) { /* weights and biases of layer 0, then of layer 1 */
    const int at = ends[i];
    reference_optimize(rule, w + at, m + at, v + at, t.g.host + at, (size_t)(ends[i + 1] - at),
                       i % 2 ? 0 : (double)rule.weight_decay, (double)learning_rate, update);
  }
  assert_near("weights", s, t.w.d, w, COUNT, bound(8, UPDATE_ROUNDINGS));
  assert_near("momentum", s, t.m.d, m, COUNT, bound(2, UPDATE_ROUNDINGS));
  assert_near("second moment", s, t.v.d, v, COUNT, bound(2, UPDATE_ROUNDINGS));
  assert_untouched(t.g, COUNT);
  for (int l = 0; l < p.layers; l++) { /* launch_split must write the same planes */
    const Planes split = make_planes(p.planes[l].terms, p.planes[l].rows, p.planes[l].columns, 4);
    LAUNCH(split, t.w.d + p.weight[l], split);
    assert_same_arrays(p.planes[l].d, split.d, plane_bytes(split));
  }
  finish();
}

KERNEL_TEST(test_optimizers) {
  for (int kind = OPTIMIZER_SGD; kind < OPTIMIZERS; kind++) {
    check_rule((OptimizerRule){(Optimizer)kind, 0.9f, 0.05f, 0.9f, 0.999f, 1e-8f}, 1);
    check_rule((OptimizerRule){(Optimizer)kind, 0.0f, 0.0f, 0.0f, 0.5f, 0.1f}, 11);
  }
}

/* In the first updates, the average keeps a smaller fraction of its old value than `decay`. */
KERNEL_TEST(test_average) {
  const Shape s = {7, 5, 3};
  foreach (decay, VALUES(float, 0.99f, 0.01f)) {
    const Tensors t = make_tensors(1);
    const Batch batch = make_batch(s.rows, s.in, s.out, s.rows, true, 1);
    const uint64_t update = UPDATES + (batch.state.position + OFFSET) / (uint64_t)s.rows + 1;
    const double at_first = (1 + (double)update) / (10 + (double)update);
    const double keeps = fmin((double)*decay, at_first);
    double *expected = copy_of(t.m.host, COUNT);
    for (int n = 0; n < COUNT; n++) expected[n] = keeps * expected[n] + (1 - keeps) * t.w.host[n];
    LAUNCH(average, batch.view, *decay, t.m.d, t.w.d, COUNT);
    assert_near("average", s, t.m.d, expected, COUNT, bound(2, UPDATE_ROUNDINGS));
    assert_untouched(t.w, COUNT);
    const Batch over = make_batch(s.rows, s.in, s.out, 0, true, 1);
    LAUNCH(average, over.view, *decay, t.v.d, t.w.d, COUNT);
    assert_untouched(t.v, COUNT);
    finish();
  }
}
