/* Compares the products of wide layers (layer/wide.cu) with the float64 reference, on shapes that
   are no multiples of a tile. Tests the planes of fp16 terms that these kernels read and write. */
#include "support/kernel_tests.h"

#include "support/cublas.h"

TESTS_WITH(kernels_open, kernels_close);

/* Number of ways to multiply: as in a run, or by mma.sync with either of two tile sizes. */
enum { WAYS = 3 };

/* Returns the number of ways to try for a shape. To save time, it is 1 for large shapes. */
static int ways_of(Shape s) {
  return z_count(s) + x_count(s) + w_count(s) < 1000000 ? WAYS : 1;
}

/* Selects a way to multiply for later launches. Returns false if `way` is not below `ways`. */
static bool choose_way(int way, int ways) {
  static const int sides[WAYS] = {0, 64, 128};
  if (way < ways) wide_test_mma(sides[way]);
  return way < ways;
}

#define EACH_TERMS() for (int terms = 1; terms <= 2; terms++)
#define EACH_WAY(ways) for (int way = 0; choose_way(way, ways); way++)

/* Returns the largest absolute value, or 1 if all values are 0. */
static double largest_of(const double *values, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(values[i]));
  return largest > 0 ? largest : 1;
}

static Planes planes_of(Values v, int terms, int rows, int columns) {
  const Planes p = make_planes(terms, rows, columns, largest_of(v.host, area(rows, columns)));
  LAUNCH(split, v.d, p);
  LAUNCH(ones, p);
  return p;
}

/* Returns a layer's input as planes. Pixels need only one term. */
static Planes input_planes(const Batch *batch, Values x, bool pixels, int terms, Shape s) {
  if (!pixels) return planes_of(x, terms, s.rows, s.in);
  const float of_pixels = 255;
  Planes p = make_planes(1, s.rows, s.in, 1);
  p.d_scale = to_device(&of_pixels, sizeof of_pixels);
  LAUNCH(pixel_planes, batch->view, p);
  return p;
}

/* Returns the value of the fp16 number with these bits. */
static float term(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  const float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                          : exponent == 0 ? ldexpf((float)fraction, -24)
                                          : ldexpf((float)(fraction + 0x400), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/* Returns a device array (rows, columns) of the values that the terms in the planes add up to. */
static float *values_of(Planes p) {
  const size_t pitch = planes_pitch(p.columns);
  const uint16_t *bits = fetch(p.d, (size_t)p.terms * p.plane * sizeof *bits);
  const float scale = *fetch_floats((float *)p.d_scale, 1);
  float *values = host(area(p.rows, p.columns) * sizeof *values);
  for (size_t r = 0; r < (size_t)p.rows; r++)
    for (size_t c = 0; c < (size_t)p.columns; c++) {
      float sum = 0;
      for (int t = p.terms - 1; t >= 0; t--) sum += term(bits[(size_t)t * p.plane + r * pitch + c]);
      values[r * (size_t)p.columns + c] = sum / scale;
    }
  return to_device(values, area(p.rows, p.columns) * sizeof *values);
}

/* Returns the allowed error of a kernel that reads and writes planes of `terms` terms. Writing
   planes rounds each result once more. */
static double planes_bound(int terms, int k, int others) {
  return split_bound(fp16_split(terms), k, others) + (terms == 2 ? 0x1p-22 : 0x1p-11);
}

/* A term has 11 bits, which bounds the relative error. A term below fp16's normal range has an
   error of up to 2^-25. Divided by a scale of 2^11 or more, this is an error of up to 2^-36. */
static void assert_split(float value, float expected, int terms) {
  const float relative = terms == 2 ? 0x1p-22f : 0x1p-11f;
  assert_true(fabsf(value - expected) <= relative * fabsf(expected) + 0x1p-36f);
}

WALK_TEST(test_split, for_all_shapes, check_split, Shape s, uint64_t seed) {
  const size_t count = x_count(s);
  const Values x = signed_values(count, seed);
  const float *expected = fetch_floats(x.d, count);
  EACH_TERMS() {
    const float *rounded = fetch_floats(values_of(planes_of(x, terms, s.rows, s.in)), count);
    for (size_t i = 0; i < count; i++) assert_split(rounded[i], expected[i], terms);
  }
}

WALK_TEST(test_pixel_planes, for_all_shapes, check_pixel_planes, Shape s, uint64_t seed) {
  const Batch batch = short_batch(s, seed);
  const Planes p = input_planes(&batch, (Values){0}, true, 1, s);
  const size_t pitch = planes_pitch(s.in);
  const uint16_t *bits = fetch(p.d, p.plane * sizeof *bits);
  for (int r = 0; r < s.rows; r++) {
    const uint8_t *pixels = batch.pixels + batch_row(&batch, r) * batch.view.stride;
    for (int c = 0; c <= s.in; c++)
      if (term(bits[(size_t)r * pitch + (size_t)c]) != (float)(c < s.in ? pixels[c] : 1))
        fail_msg("rows %d, in %d: the pixel of row %d, column %d", s.rows, s.in, r, c);
  }
}

/* A scale brings an array's largest value to between 2^11 and 2^12, or as near as possible. A
   gradient's scale comes from a bound on the gradient of the logits. */
KERNEL_TEST(test_scales) {
  enum { COUNT = 1001, ARRAYS = 5 };
  static const float largest[ARRAYS] = {1, 3e-5f, 0, 1e30f, 0.5f}, bound = 0x1p-6f;
  float values[COUNT] = {0};
  ScaledArray arrays[ARRAYS];
  for (int i = 0; i < ARRAYS; i++) {
    values[250 * i] = -largest[i], values[77 * i + 1] = largest[i] / 2;
    arrays[i] = (ScaledArray){to_device(values, sizeof values), COUNT, poisoned_floats(1), i >= 3};
    values[250 * i] = values[77 * i + 1] = 0;
  }
  LAUNCH(scales, arrays, ARRAYS, bound, poisoned(ARRAYS * sizeof(uint32_t)));
  static const float expected[ARRAYS] = {0x1p11f, 0x1p27f, 0x1p11f, 0x1p-60f, 0x1p17f};
  for (int i = 0; i < ARRAYS; i++) assert_exact(arrays[i].d_scale, &expected[i], 1);
  REFUSED(scales, arrays, MAX_SCALED + 1, bound, poisoned(4));
}

/* Every kernel that writes planes must report a value of the array that is beyond fp16. It must not
   report what a tile computes at positions beyond the array's end. */
KERNEL_TEST(test_overflow) {
  const Shape s = {3, 5, 7};
  for (int too_large = 0; too_large < 2; too_large++) {
    float values[15] = {[14] = too_large ? -16.0f : 15.9f};
    const Planes p = make_planes(2, s.rows, s.in, 1);
    LAUNCH(split, to_device(values, sizeof values), p);
    assert_int_equal(*(uint32_t *)fetch(p.d_overflowed, sizeof(uint32_t)), too_large);
    if (!wide_by()) continue;
    float weights[35] = {[34] = 1.0f}, bias[7] = {0};
    const Planes x = make_planes(2, s.rows, s.in, 16), y = make_planes(2, s.rows, s.out, 1);
    const Planes w = make_planes(2, s.out, s.in, 1);
    values[14] = -values[14];
    LAUNCH(split, to_device(values, sizeof values), x);
    LAUNCH(split, to_device(weights, sizeof weights), w);
    LAUNCH(wide_forward, x, w, to_device(bias, sizeof bias), y, NULL, 1);
    assert_int_equal(*(uint32_t *)fetch(x.d_overflowed, sizeof(uint32_t)), 0);
    assert_int_equal(*(uint32_t *)fetch(y.d_overflowed, sizeof(uint32_t)), too_large);
  }
}

/* One weight or one row is far larger than the others, or all values are tiny. Sums of small values
   must be as exact as in the other tests. */
KERNEL_TEST(test_far_apart) {
  static const struct {
    double weight, row, all;
  } cases[] = {{1e4, 1, 1}, {1, 1e3, 1}, {1, 1, 1e-12}};
  const Shape s = {65, 300, 40};
  const size_t in = (size_t)s.in, out = (size_t)s.out, count = z_count(s);
  if (!wide_by()) skip();
  foreach (c, cases) {
    double *x = signed_values(x_count(s), 1).host, *w = random_values(w_count(s), 2).host;
    double *expected = host_doubles(count);
    for (size_t i = 0; i < x_count(s); i++) x[i] *= c->all * (i < in ? c->row : i % in > 0);
    w[0] = c->weight;
    const Values input = both_sides(x, x_count(s)), weights = both_sides(w, w_count(s));
    reference_linear(input.host, weights.host, NULL, s.rows, s.in, s.out, expected);
    EACH_WAY(WAYS) {
      const Planes of_x = planes_of(input, 2, s.rows, s.in),
                   none = {.rows = s.rows, .columns = s.out};
      const Values bias = values_between(0, 0, out, 3);
      float *d_y = poisoned_floats(count);
      LAUNCH(wide_forward, of_x, planes_of(weights, 2, s.out, s.in), bias.d, none, d_y, 0);
      assert_near("far apart", s, d_y + out, expected + out, count - out,
                  planes_bound(2, s.in, BIAS_ROUNDING));
    }
    finish();
  }
}

/* Tiles are 128 x 128 x 64. Some of these shapes end at or beside the edge of a tile. Others have
   more tiles than a GPU has multiprocessors, sums long enough to be split, or sums so short that
   the ring of stages holds several tiles. */
static const Shape wide_shapes[] = {
    {129, 65, 127},    {128, 64, 128},   {127, 128, 129}, {256, 192, 256},
    {1, 4096, 1},      {128, 2500, 52},  {61, 1000, 500}, {2049, 40, 2050},
    {1030, 129, 2100}, {1000, 300, 101}, {4096, 20, 33},  {64, 2304, 4096},
};

static void for_wide_shapes(CheckShape *check_shape) {
  uint64_t seed = 100000;
  if (!wide_by()) skip();
  for_shapes(wide_shapes, ON_EMULATOR ? 1 : quick() ? 3 : LENGTH(wide_shapes), check_shape, &seed);
}

static void for_all_wide_shapes(CheckShape *check_shape) {
  if (!wide_by()) skip();
  for_all_shapes(check_shape);
  for_wide_shapes(check_shape);
}

WALK_TEST(test_forward, for_all_wide_shapes, check_forward, Shape s, uint64_t seed) {
  const bool activates = seed / 1000 % 2;
  const size_t count = z_count(s);
  for (int pixels = 0; pixels < 2; pixels++) {
    const Forward f = make_forward(s, pixels, seed);
    const double *expected = add_bias(f.z, f.b.host, s, activates);
    EACH_TERMS() {
      const double limit = planes_bound(terms, s.in, f.roundings);
      const Planes x = input_planes(&f.batch, f.x, pixels, terms, s);
      const Planes w = planes_of(f.w, terms, s.out, s.in);
      EACH_WAY(ways_of(s)) {
        const Planes y = make_planes(terms, s.rows, s.out, largest_of(expected, count));
        const Planes none = {.rows = s.rows, .columns = s.out};
        float *d_y = poisoned_floats(count), *d_alone = poisoned_floats(count);
        LAUNCH(ones, y);
        LAUNCH(wide_forward, x, w, f.b.d, y, d_y, activates);
        assert_near("wide forward", s, d_y, expected, count, limit);
        assert_near("wide forward", s, values_of(y), expected, count, limit);
        LAUNCH(wide_forward, x, w, f.b.d, none, d_alone, activates);
        assert_exact(d_alone, fetch_floats(d_y, count), count);
        const uint16_t *bits = fetch(y.d, y.plane * sizeof *bits); /* the column of 1s must stay */
        for (int r = 0; r < s.rows; r++)
          assert_true(term(bits[(size_t)r * planes_pitch(s.out) + (size_t)s.out]) == 1);
      }
    }
  }
}

WALK_TEST(test_backward, for_all_wide_shapes, check_backward, Shape s, uint64_t seed) {
  const size_t count = x_count(s);
  const Values dz = random_values(z_count(s), seed);
  const Values w = random_values(w_count(s), seed + 1);
  const Values a = signed_values(count, seed + 2);
  double *dx = expect_input_gradient(dz.host, w.host, s);
  reference_activation_slope(a.host, count, dx);
  EACH_TERMS() {
    const Planes above = planes_of(dz, terms, s.rows, s.out);
    const Planes weights = planes_of(w, terms, s.out, s.in);
    const Planes masks = planes_of(a, terms, s.rows, s.in);
    EACH_WAY(ways_of(s)) {
      const Planes to = make_planes(terms, s.rows, s.in, largest_of(dx, count));
      LAUNCH(wide_backward, above, weights, masks, to);
      assert_near("wide backward", s, values_of(to), dx, count,
                  planes_bound(terms, s.out, GEMM_ROUNDING));
    }
  }
}

/* launch_wide_head must write the losses of launch_head, bit for bit. Its planes must hold the
   gradients that launch_head stores as floats. */
KERNEL_TEST(test_head) {
  static const Shape shapes[] = {{1, 1, 2},     {64, 100, 10},  {65, 33, 3},   {200, 131, 9},
                                 {37, 500, 10}, {128, 512, 16}, {65, 777, 10}, {131, 1024, 16}};
  for (size_t i = 0; i < LENGTH(shapes); i++) EACH_TERMS() {
      const Shape s = shapes[i];
      const uint64_t seed = 50 + i;
      const size_t zs = z_count(s), xs = x_count(s);
      const Batch batch = make_batch(s.rows, 16, s.out, s.rows - s.rows / 3, true, seed);
      const Values x = signed_values(xs, seed), w = random_values(w_count(s), seed + 1);
      const Values b = signed_values((size_t)s.out, seed + 2);
      float *d_dz = poisoned_floats(zs), *d_dx = poisoned_floats(xs);
      const Planes dz = make_planes(terms, s.rows, s.out, 1),
                   dx = make_planes(terms, s.rows, s.in, 1);
      const RowResults floats = poisoned_results(&batch), planes = poisoned_results(&batch);
      LAUNCH(head, batch.view, x.d, w.d, b.d, NULL, d_dz, d_dx, s.in, s.out, (Dropout){0}, floats);
      LAUNCH(wide_head, batch.view, x.d, w.d, b.d, dz, dx, planes);
      assert_same_arrays(planes.d_loss, floats.d_loss, batch.state.end * sizeof(float));
      const Planes to[] = {make_planes(terms, s.rows, s.out, 1),
                           make_planes(terms, s.rows, s.in, 1)};
      LAUNCH(split, d_dz, to[0]);
      LAUNCH(split, d_dx, to[1]);
      assert_exact(values_of(dz), fetch_floats(values_of(to[0]), zs), zs);
      assert_exact(values_of(dx), fetch_floats(values_of(to[1]), xs), xs);
      finish();
    }
}

typedef struct {
  Layer layer;
  int terms;
  WideUpdate update;
} WideLayer;

static WideLayer make_wide_layer(const Batch *batch, Layer layer, int terms) {
  const Shape s = layer.shape;
  WideLayer l = {.layer = layer, .terms = terms};
  l.update.x = input_planes(batch, layer.x, layer.pixels, terms, s);
  l.update.dz = planes_of(layer.dz, terms, s.rows, s.out);
  l.update.w = make_planes(terms, s.out, s.in, 4);
  l.update.at = update_of(&l.layer);
  return l;
}

static void assert_wide_layer_updated(const WideLayer *l, UpdateRule rule) {
  const size_t weights = w_count(l->layer.shape);
  assert_layer_updated("wide update", &l->layer, rule, fp16_split(l->terms));
  const float *w = fetch_floats(l->layer.p.w.d, weights); /* the planes must hold the new weights */
  const float *planes = fetch_floats(values_of(l->update.w), weights);
  for (size_t i = 0; i < weights; i++) assert_split(planes[i], w[i], l->terms);
}

/* A launch that only stores the gradient must not write weights. The next launch updates them. */
WALK_TEST(test_update, for_all_wide_shapes, check_update, Shape s, uint64_t seed) {
  const UpdateRule rule = rules[seed / 1000 % RULES];
  const Batch batch = short_batch(s, seed);
  EACH_TERMS() {
    Layer layer = make_layer(&batch, s, (seed / 1000 + (uint64_t)terms) % 2, seed + 2);
    EACH_WAY(ways_of(s)) {
      layer.p = random_parameters(s, seed + 3);
      WideLayer l = make_wide_layer(&batch, layer, terms);
      const LayerUpdate at = l.update.at;
      l.update.at = gradient_of(&layer);
      LAUNCH(wide_updates, with_momentum(&batch, rule), &l.update, 1);
      assert_layer_gradient(
          "wide gradient", &layer, &l.update.at,
          split_bound(fp16_split(terms), s.rows, GEMM_ROUNDING + PIXEL_ROUNDINGS));
      assert_unwritten(l.update.w.d, plane_bytes(l.update.w));
      l.update.at = at;
      LAUNCH(wide_updates, with_momentum(&batch, rule), &l.update, 1);
      assert_wide_layer_updated(&l, rule);
    }
  }
}

/* The products of float32, two terms each, must be near cuBLAS's: see check_as_cublas in
   test_kernels_gemm.c. */
static void check_as_cublas(Shape s, uint64_t seed) {
  const Products p = cublas_products(s, seed);
  const Batch batch = make_batch(s.rows, s.in, 10, s.rows, false, seed);
  const Layer layer = {.shape = s, .x = p.x, .dz = p.dz};
  const Planes w = planes_of(p.w, 2, s.out, s.in), none = {.rows = s.rows, .columns = s.out};
  const Planes active = planes_of(values_between(1, 1, x_count(s), 0), 2, s.rows, s.in);
  const Values no_bias = values_between(0, 0, (size_t)s.out, 0);
  const WideLayer l = make_wide_layer(&batch, layer, 2);
  EACH_WAY(ways_of(s)) {
    WideUpdate update = l.update;
    update.at = gradient_of(&layer);
    float *d_z = poisoned_floats(z_count(s));
    const Planes dx = make_planes(2, s.rows, s.in, largest_of(p.dx, x_count(s)));
    LAUNCH(wide_forward, l.update.x, w, no_bias.d, none, d_z, 0);
    LAUNCH(wide_backward, l.update.dz, w, active, dx);
    LAUNCH(wide_updates, batch.view, &update, 1);
    assert_as_cublas("wide: z", s, d_z, p.z, z_count(s), s.in,
                     planes_bound(2, s.in, GEMM_ROUNDING + BIAS_ROUNDING));
    assert_as_cublas("wide: dx", s, values_of(dx), p.dx, x_count(s), s.out,
                     planes_bound(2, s.out, GEMM_ROUNDING));
    assert_as_cublas("wide: dw", s, update.at.d_gw, p.dw, w_count(s), s.rows,
                     split_bound(fp16_split(2), s.rows, GEMM_ROUNDING));
  }
}

KERNEL_TEST(test_products_are_as_cublas) {
  needs_cublas();
  with_cublas(for_all_wide_shapes, check_as_cublas);
}

WALK_TEST(test_wide_updates_of_many_layers, for_many_layers, check_many_layers, const Batch *batch,
          const Layer *layers) {
  WideLayer wide[MAX_UPDATES];
  WideUpdate updates[MAX_UPDATES];
  if (!wide_by()) skip();
  EACH_WAY(WAYS) {
    for (int n = 0; n < MAX_UPDATES; n++) {
      Layer layer = layers[n];
      layer.p = random_parameters(layer.shape, 100 * (uint64_t)n + 1);
      wide[n] = make_wide_layer(batch, layer, 2);
      updates[n] = wide[n].update;
    }
    LAUNCH(wide_updates, with_momentum(batch, rules[2]), updates, MAX_UPDATES);
    foreach (layer, wide) assert_wide_layer_updated(layer, rules[2]);
  }
}

/* The partial sums of split-K must be added in a fixed order, whichever sum is ready last. */
KERNEL_TEST(test_same_bits) {
  if (!wide_by()) skip();
  if (ON_EMULATOR) skip_because("the emulator has one order");
  for (int run = 0; run < 10; run++)
    assert_same_bits_twice(check_forward, (Shape){100, 4096, 70}, 20);
}
