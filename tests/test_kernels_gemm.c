/* The gemms of kernels.h, unfused and with what levels layer and step fuse to them, against the
   float64 reference and cuBLAS, on shapes that divide nothing; and the updates of weights. */
#include "support/test.h"
#include "support/kernel_tests.h"

#ifdef HAVE_CUDA

/* ---- gemms ---------------------------------------------------------------------------------- */

/* z + b in every row, and through ReLU if `relu`: a new array. */
static double *add_bias(const double *z, const double *b, Shape s, bool relu) {
  double *y = copy_of(z, area(s.rows, s.out));
  for (size_t i = 0; i < area(s.rows, s.out); i++) y[i] += b[i % (size_t)s.out];
  if (relu) reference_relu(y, area(s.rows, s.out));
  return y;
}

static void check_forward(Shape s, uint64_t seed) {
  const size_t count = area(s.rows, s.out);
  const Values x = random_values(area(s.rows, s.in), seed);
  const Values w = random_values(area(s.out, s.in), seed + 1);
  const Values b = signed_values((size_t)s.out, seed + 2);
  double *z = host_doubles(count);
  reference_linear(x.host, w.host, NULL, s.rows, s.in, s.out, z);
  const double *library =
      library_gemm(CUBLAS_OP_N, x.d, s.in, CUBLAS_OP_T, w.d, s.in, s.rows, s.out, s.in);

  double limit = bound(s.in, GEMM_ROUNDING);
  float *d_z = poisoned_floats(count);
  CUDA_OK(launch_gemm(x.d, w.d, d_z, s.rows, s.in, s.out, stream));
  assert_near("gemm", s, d_z, z, count, limit);
  if (library) assert_near("gemm, cuBLAS", s, d_z, library, count, 2 * limit);

  for (int way = 0; way < 4; way++) {
    const int relu = way % 2, terms = 2 + way / 2;
    limit = bf16_bound(terms, s.in, GEMM_ROUNDING + BIAS_ROUNDING);
    float *d_y = poisoned_floats(count);
    const LayerInput input = {x.d, {.rows = s.rows}};
    CUDA_OK(launch_forward(input, w.d, b.d, d_y, s.in, s.out, relu, (Dropout){0}, terms, stream));
    assert_near("forward", s, d_y, add_bias(z, b.host, s, relu), count, limit);
    if (library)
      assert_near("forward, cuBLAS", s, d_y, add_bias(library, b.host, s, relu), count, 2 * limit);
  }
}

TESTS_WITH(kernels_open, kernels_close);

KERNEL_TEST(test_gemm_and_forward) {
  needs_gpu();
  for_all_shapes(check_forward);
}

/* The first layer: pixels of stored rows, shuffled in every other shape, some beyond the end. */
static void check_forward_pixels(Shape s, uint64_t seed) {
  const size_t count = area(s.rows, s.out);
  const Batch batch = make_batch(s.rows, s.in, 10, s.rows - s.rows / 3, seed % 2000 == 0, seed);
  const Values w = random_values(area(s.out, s.in), seed + 1);
  const Values b = signed_values((size_t)s.out, seed + 2);
  double *x = batch_input(&batch, s.in), *z = host_doubles(count);
  reference_linear(x, w.host, NULL, s.rows, s.in, s.out, z);
  const double *library = library_gemm(CUBLAS_OP_N, both_sides(x, area(s.rows, s.in)).d, s.in,
                                       CUBLAS_OP_T, w.d, s.in, s.rows, s.out, s.in);
  for (int way = 0; way < 4; way++) {
    const int relu = way % 2, terms = 2 + way / 2;
    const double limit = bf16_bound(terms, s.in, GEMM_ROUNDING + BIAS_ROUNDING + PIXEL_ROUNDINGS);
    float *d_y = poisoned_floats(count);
    const LayerInput input = {NULL, batch.view};
    CUDA_OK(launch_forward(input, w.d, b.d, d_y, s.in, s.out, relu, (Dropout){0}, terms, stream));
    assert_near("forward of pixels", s, d_y, add_bias(z, b.host, s, relu), count, limit);
    if (library)
      assert_near("forward of pixels, cuBLAS", s, d_y, add_bias(library, b.host, s, relu), count,
                  2 * limit);
  }
}

KERNEL_TEST(test_forward_pixels) {
  needs_gpu();
  for_all_shapes(check_forward_pixels);
}

static void check_backward(Shape s, uint64_t seed) {
  const size_t count = area(s.rows, s.in);
  const Values dz = random_values(area(s.rows, s.out), seed);
  const Values w = random_values(area(s.out, s.in), seed + 1);
  const Values a = signed_values(count, seed + 2);
  double *dx = host_doubles(count);
  reference_input_gradient(dz.host, w.host, s.rows, s.in, s.out, dx);
  double *library =
      library_gemm(CUBLAS_OP_N, dz.d, s.out, CUBLAS_OP_N, w.d, s.in, s.rows, s.in, s.out);
  double limit = bound(s.out, GEMM_ROUNDING);
  float *d_dx = poisoned_floats(count);
  CUDA_OK(launch_backward_gemm(dz.d, w.d, d_dx, s.rows, s.in, s.out, stream));
  assert_near("backward_gemm", s, d_dx, dx, count, limit);
  if (library) assert_near("backward_gemm, cuBLAS", s, d_dx, library, count, 2 * limit);

  reference_relu_mask(a.host, count, dx);
  if (library) reference_relu_mask(a.host, count, library);
  for (int terms = 2; terms <= 3; terms++) {
    limit = bf16_bound(terms, s.out, GEMM_ROUNDING);
    float *d_masked = poisoned_floats(count);
    CUDA_OK(launch_backward(dz.d, w.d, a.d, d_masked, s.rows, s.in, s.out, (Dropout){0}, terms,
                            stream));
    assert_near("backward", s, d_masked, dx, count, limit);
    if (library) assert_near("backward, cuBLAS", s, d_masked, library, count, 2 * limit);
  }
}

KERNEL_TEST(test_backward) {
  needs_gpu();
  for_all_shapes(check_backward);
}

/* ---- gradients and updates ------------------------------------------------------------------ */

/* Gradients of the rows a step has; the rows beyond have gradient 0, and a third are beyond. */
static Values random_gradients(const Batch *b, int out, uint64_t seed) {
  const size_t count = area(b->view.rows, out);
  double *dz = host_doubles(count);
  reference_fill(dz, count, -0.25, 1, seed);
  for (size_t i = area(b->filled, out); i < count; i++) dz[i] = 0;
  return both_sides(dz, count);
}

/* A layer to be updated, and by what gradient. */
typedef struct {
  Shape shape;
  bool pixels;     /* its input is the batch's pixels */
  Values x, dz;    /* x: of pixels, too */
  double *dw, *db; /* what the reference says */
  Parameters p;
} Layer;

static Layer make_layer(const Batch *batch, Shape s, bool pixels, uint64_t seed) {
  Layer l = {.shape = s, .pixels = pixels};
  l.x = pixels ? both_sides(batch_input(batch, s.in), area(s.rows, s.in))
               : random_values(area(s.rows, s.in), seed);
  l.dz = random_gradients(batch, s.out, seed + 1);
  l.dw = host_doubles(area(s.out, s.in));
  l.db = host_doubles((size_t)s.out);
  reference_weight_gradient(l.dz.host, l.x.host, s.rows, s.in, s.out, l.dw);
  reference_bias_gradient(l.dz.host, s.rows, s.out, l.db);
  l.p = random_parameters(s, seed + 2);
  return l;
}

static LayerUpdate update_of(const Layer *l) {
  return (LayerUpdate){.d_x = l->pixels ? NULL : l->x.d,
                       .d_dz = l->dz.d,
                       .d_w = l->p.w.d,
                       .d_b = l->p.b.d,
                       .d_vw = l->p.vw.d,
                       .d_vb = l->p.vb.d,
                       .in = l->shape.in,
                       .out = l->shape.out};
}

/* library: the weights' gradient by cuBLAS, or NULL. */
static void assert_layer_updated(const Layer *l, UpdateRule rule, int terms,
                                 const double *library) {
  const Shape s = l->shape;
  const UpdateRule bias_rule = {rule.momentum, 0};
  const double limit = bf16_bound(
      terms, s.rows, GEMM_ROUNDING + UPDATE_ROUNDINGS + (l->pixels ? PIXEL_ROUNDINGS : 0));
  const size_t weights = area(s.out, s.in);
  assert_updated("updates", s, l->p.w, l->p.vw, l->dw, weights, rule, limit);
  assert_updated("updates, bias", s, l->p.b, l->p.vb, l->db, (size_t)s.out, bias_rule, limit);
  if (library)
    assert_updated("updates, cuBLAS", s, l->p.w, l->p.vw, library, weights, rule, 2 * limit);
}

/* The gradient alone, stored; what would be updated by it may be missing. */
static void assert_gradient_stored(const BatchView *view, const Layer *l, int terms) {
  const Shape s = l->shape;
  const size_t weights = area(s.out, s.in);
  const double limit = bf16_bound(terms, s.rows, GEMM_ROUNDING + (l->pixels ? PIXEL_ROUNDINGS : 0));
  const LayerUpdate stored = {.d_x = l->pixels ? NULL : l->x.d,
                              .d_dz = l->dz.d,
                              .in = s.in,
                              .out = s.out,
                              .d_gw = poisoned_floats(weights),
                              .d_gb = poisoned_floats((size_t)s.out)};
  CUDA_OK(launch_updates(*view, rules[1], &stored, 1, terms, d_work, stream));
  assert_near("stored gradient", s, stored.d_gw, l->dw, weights, limit);
  assert_near("stored gradient, bias", s, stored.d_gb, l->db, (size_t)s.out, limit);
}

static void check_gradient(Shape s, bool pixels, uint64_t seed) {
  const UpdateRule rule = rules[seed / 1000 % 3];
  const size_t weights = area(s.out, s.in);
  const double limit = bound(s.rows, GEMM_ROUNDING);
  const Batch batch = make_batch(s.rows, s.in, 10, s.rows - s.rows / 3, seed % 2000 == 0, seed);
  Layer l = make_layer(&batch, s, pixels, seed + 2);
  const double *library =
      library_gemm(CUBLAS_OP_T, l.dz.d, s.out, CUBLAS_OP_N, l.x.d, s.in, s.out, s.in, s.rows);
  float *d_dw = poisoned_floats(weights), *d_db = poisoned_floats((size_t)s.out);
  CUDA_OK(launch_weight_gradient(l.dz.d, l.x.d, d_dw, s.rows, s.in, s.out, stream));
  CUDA_OK(launch_bias_gradient(l.dz.d, d_db, s.rows, s.out, stream));
  assert_near("weight_gradient", s, d_dw, l.dw, weights, limit);
  assert_near("bias_gradient", s, d_db, l.db, (size_t)s.out, limit);
  if (library) assert_near("weight_gradient, cuBLAS", s, d_dw, library, weights, 2 * limit);

  for (int terms = 2; terms <= 3; terms++) {
    l.p = random_parameters(s, seed + 4);
    const LayerUpdate update = update_of(&l);
    CUDA_OK(launch_updates(batch.view, rule, &update, 1, terms, d_work, stream));
    assert_layer_updated(&l, rule, terms, library);
    assert_gradient_stored(&batch.view, &l, terms);
  }
}

static void check_gradient_of_activations(Shape s, uint64_t seed) {
  check_gradient(s, false, seed);
}

static void check_gradient_of_pixels(Shape s, uint64_t seed) {
  check_gradient(s, true, seed);
}

KERNEL_TEST(test_gradient_and_update) {
  needs_gpu();
  for_all_shapes(check_gradient_of_activations);
}

KERNEL_TEST(test_gradient_and_update_of_pixels) {
  needs_gpu();
  for_all_shapes(check_gradient_of_pixels);
}

static void check_many_layers(const Batch *batch, const Shape shapes[MAX_UPDATES]) {
  Layer layers[MAX_UPDATES];
  LayerUpdate updates[MAX_UPDATES];
  for (int n = 0; n < MAX_UPDATES; n++) {
    layers[n] = make_layer(batch, shapes[n], n == 0, 100 * (uint64_t)n);
    updates[n] = update_of(&layers[n]);
  }
  CUDA_OK(launch_updates(batch->view, rules[2], updates, MAX_UPDATES, 3, d_work, stream));
  for (int n = 0; n < MAX_UPDATES; n++) assert_layer_updated(&layers[n], rules[2], 3, NULL);
}

KERNEL_TEST(test_updates_of_many_layers) {
  needs_gpu();
  for_many_layers(check_many_layers);
}

/* A step with no rows left changes nothing: momentum 0.9 and decay would move every value. */
KERNEL_TEST(test_no_step_updates_nothing) {
  needs_gpu();
  static const int lefts[] = {0, -1, -100};
  const Shape s = {64, 50, 33};
  const UpdateRule rule = {0.9f, 0.05f};
  for (size_t i = 0; i < sizeof lefts / sizeof *lefts; i++) {
    for (int pixels = 0; pixels < 2; pixels++) {
      const Batch batch = make_batch(s.rows, s.in, 10, lefts[i], true, 8);
      const Layer l = make_layer(&batch, s, pixels, 9);
      const LayerUpdate layer_update = update_of(&l);
      const Parameters p = l.p;
      const size_t weights = area(s.out, s.in);
      CUDA_OK(launch_update(batch.view, rule, p.w.d, p.vw.d, l.dz.d, weights, weights, stream));
      CUDA_OK(launch_updates(batch.view, rule, &layer_update, 1, 3, d_work, stream));
      assert_untouched(p.w, area(s.out, s.in));
      assert_untouched(p.vw, area(s.out, s.in));
      assert_untouched(p.b, (size_t)s.out);
      assert_untouched(p.vb, (size_t)s.out);
      finish();
    }
  }
}

static const size_t counts[] = {1, 31, 255, 256, 257, 10007};

static Values part_of(Values v, size_t first) {
  return (Values){v.host + first, v.d + first};
}

KERNEL_TEST(test_update) {
  needs_gpu();
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    for (size_t r = 0; r < RULES; r++) {
      const size_t count = counts[i];
      const Batch batch = make_batch(7, 5, 10, 1, false, 1);
      const Values w = values_between(1, 2, count, 5), v = random_values(count, 6);
      const Values g = random_values(count, 7);
      const size_t decayed = count - count / 3;
      const UpdateRule no_decay = {rules[r].momentum, 0};
      CUDA_OK(launch_update(batch.view, rules[r], w.d, v.d, g.d, count, decayed, stream));
      assert_updated("update", (Shape){0}, w, v, g.host, decayed, rules[r],
                     bound(0, UPDATE_ROUNDINGS));
      assert_updated("update without decay", (Shape){0}, part_of(w, decayed), part_of(v, decayed),
                     g.host + decayed, count - decayed, no_decay, bound(0, UPDATE_ROUNDINGS));
      finish();
    }
  }
}

#else

SKIPPED_WITHOUT_CUDA(test_kernels_gemm)

#endif
