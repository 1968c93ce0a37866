/* Tests the launchers of kernels.h that compute neither gemm nor softmax. Results must be near the
   float64 reference, or equal to it. Also tests that all launchers refuse wrong arguments.
   test_kernels_gemm.c and test_kernels_softmax.c test the other launchers. */
#include "support/kernel_tests.h"
#include "base/augment.h"
#include "engine/cuda/gpu_limits.h"

TESTS_WITH(kernels_open, kernels_close);

/* ---- bookkeeping ---------------------------------------------------------------------------- */

KERNEL_TEST(test_order) {
  foreach (count, VALUES(uint32_t, 1, 7, 256, 1000, 60001))
    for (int shuffled = 0; shuffled < 2; shuffled++) {
      const uint32_t rows = *count, first = 11;
      const uint64_t key = random_order_key(5, rows);
      uint32_t *d_order = poisoned(rows * sizeof *d_order);
      LAUNCH(order, d_order, first, rows, shuffled, key);
      const uint32_t *order = fetch(d_order, rows * sizeof *order);
      for (uint32_t p = 0; p < rows; p++)
        assert_int_equal(order[p], first + (shuffled ? random_permute(p, rows, key) : p));
      finish();
    }
}

KERNEL_TEST(test_begin_and_advance) {
  StepState *d_state = poisoned(sizeof *d_state), wanted = {12, 60000, 0.25f, 7, 9, {0}};
  LAUNCH(begin, d_state, wanted);
  foreach (rows, VALUES(uint32_t, 0, 64, 59900)) {
    if (*rows) LAUNCH(advance, d_state, *rows);
    wanted.position += *rows;
    const StepState *state = fetch(d_state, sizeof *state);
    assert_int_equal(state->position, wanted.position);
    assert_int_equal(state->end, wanted.end);
    assert_true(state->learning_rate == wanted.learning_rate);
    assert_int_equal(state->updates, wanted.updates);
    assert_int_equal(state->dropout_key, wanted.dropout_key);
  }
}

/* Sums the results from `first` to end - 1. Then sums the results of rank 1 of 3, with steps of 29
   rows. All other results are NaN. A float64 sum of n positive values has a relative error of at
   most n 2^-53. */
KERNEL_TEST(test_sum) {
  enum { POSITIONS = 5000 };
  typedef uint32_t Range[2];
  foreach (range, VALUES(Range, {0, 1}, {3, 3}, {3, 2055}, {1023, 1025}, {0, 5000})) {
    const uint32_t first = (*range)[0], end = (*range)[1];
    double *values = host_doubles(POSITIONS);
    uint8_t *correct = host(POSITIONS);
    reference_fill(values, POSITIONS, 0, 10, 90);
    for (uint32_t p = 0; p < POSITIONS; p++) {
      correct[p] = p % 3 == 0;
      if (p < first || p >= end) values[p] = NAN;
    }
    const RowResults results = {both_sides(values, POSITIONS).d, to_device(correct, POSITIONS)};
    ResultSums expected = {0.5, 7, 11, 0};
    ResultSums *d_sums = to_device(&expected, sizeof expected);
    LAUNCH(sum, d_sums, results, first, end, (RowShare){0});
    LAUNCH(sum, d_sums, results, first, end, (RowShare){29, 1, 3});
    for (uint32_t p = first; p < end; p++) {
      const uint32_t in_step = (p - first) % 29;
      const size_t of_step = min_size(29, end - (p - in_step));
      const bool mine = in_step >= part_start(of_step, 1, 3) && in_step < part_start(of_step, 2, 3);
      expected.loss += (1 + mine) * values[p];
      expected.correct += (1u + mine) * correct[p];
      expected.rows += 1u + mine;
    }
    const ResultSums *sums = fetch(d_sums, sizeof *sums);
    assert_close(sums->loss, expected.loss, 2 * POSITIONS * 0x1p-53 * expected.loss);
    assert_int_equal(sums->correct, expected.correct);
    assert_int_equal(sums->rows, expected.rows);
    finish();
  }
}

/* ---- operations on single values ------------------------------------------------------------ */

static void check_scale_pixels(Shape s, uint64_t seed) {
  const Batch b = make_batch(s.rows, s.in, 10, s.rows / 2, seed % 2, seed);
  float *d_x = poisoned_floats(x_count(s));
  LAUNCH(scale_pixels, b.view, d_x, s.in, 1.0f / 255, 0);
  double *expected = batch_input(&b, s.in);
  assert_near("scale_pixels", s, d_x, expected, x_count(s), bound(0, PIXEL_ROUNDINGS));
  for (size_t p = 0; p < x_count(s); p++) expected[p] = 255 * expected[p] / 16 + 0.5;
  LAUNCH(scale_pixels, b.view, d_x, s.in, 1.0f / 16, -0.5f);
  assert_near("scale_pixels", s, d_x, expected, x_count(s), bound(0, PIXEL_ROUNDINGS));
}

KERNEL_TEST(test_scale_pixels) {
  foreach (s, VALUES(Shape, {1, 1, 0}, {7, 50, 0}, {65, 784, 0}, {64, 785, 0}, {13, 4096, 0}))
    for (uint64_t seed = 0; seed < 2; seed++) assert_same_bits_twice(check_scale_pixels, *s, seed);
}

KERNEL_TEST(test_add_bias) {
  foreach (shape, VALUES(Shape, {1, 0, 1}, {7, 0, 10}, {65, 0, 301}, {3, 0, 4096})) {
    const Shape s = *shape;
    const size_t count = z_count(s);
    const Values z = random_values(count, 1), b = random_values((size_t)s.out, 2);
    float *expected = host(count * sizeof *expected);
    for (size_t j = 0; j < count; j++)
      expected[j] = (float)z.host[j] + (float)b.host[j % (size_t)s.out];
    LAUNCH(add_bias, z.d, b.d, s.rows, s.out);
    assert_exact(z.d, expected, count);
    finish();
  }
}

KERNEL_TEST(test_activation) {
  foreach (of, VALUES(size_t, 1, 31, 255, 256, 257, 10007)) {
    const size_t count = *of;
    const Values z = signed_values(count, 3), da = random_values(count, 4);
    float *d_a = poisoned_floats(count);
    LAUNCH(activation, z.d, d_a, count);
    LAUNCH(activation_slope, da.d, d_a, (Dropout){0}, count);
    reference_activate(z.host, count);
    reference_activation_slope(z.host, count, da.host);
    float *expected = host(count * sizeof *expected);
    reference_to_float(z.host, count, expected);
    assert_exact(d_a, expected, count);
    reference_to_float(da.host, count, expected);
    assert_exact(da.d, expected, count);
    finish();
  }
}

static uint8_t *augmented(const uint8_t *d_from, uint32_t rows, size_t stride, int side,
                          AugmentStrengths strengths) {
  uint8_t *d_to = poisoned(rows * stride);
  LAUNCH(augment, d_from, d_to, rows, stride, side, strengths, 11);
  return fetch(d_to, rows * stride);
}

/* Checks augmented pictures (rows, stride); the bytes between rows are not 0. Rounding moves the
   source of a pixel by about 1e-5 pixels, which may change a few bytes by 1. */
static void check_augment(int side, uint32_t rows, size_t stride, AugmentStrengths strengths) {
  const size_t pixels = (size_t)(side * side), bytes = rows * stride;
  uint8_t *pictures = host(bytes), *expected = host(pixels);
  reference_fill_pixels(pictures, bytes, 40);
  const uint8_t *d_from = to_device(pictures, bytes);
  const uint8_t *copies = augmented(d_from, rows, stride, side, strengths);
  assert_memory_equal(augmented(d_from, rows, stride, side, strengths), copies, bytes);
  size_t tipped = 0;
  for (uint32_t r = 0; r < rows; r++) {
    augment_row(strengths, 11, r, pictures + r * stride, expected, side);
    for (size_t i = 0; i < stride; i++) {
      const int difference = copies[r * stride + i] - (i < pixels ? expected[i] : 0);
      if (abs(difference) > (i < pixels && augment_any(strengths) ? 1 : 0))
        fail_msg("side %d, row %u, byte %zu of %zu is off by %d", side, r, i, stride, difference);
      tipped += difference != 0;
    }
  }
  assert_true((double)tipped <= 2 + 0.0002 * (double)(rows * pixels));
  finish();
}

KERNEL_TEST(test_augment) {
  static const uint32_t rows[] = {1, 3, 150};
  foreach (side, VALUES(int, 1, 5, 28, 31, 64))
    for (size_t r = 0; r < LENGTH(rows); r++)
      foreach (each, VALUES(int, 0, 1, 2, 4, 8, 16, 13, 31)) {
        AugmentStrengths strengths = AUGMENT_USUAL;
        for (int k = 0; k < AUGMENT_KINDS; k++)
          if (!(*each >> k & 1)) strengths.most[k] = 0;
        check_augment(*side, rows[r], round_up((size_t)(*side * *side), 16) + 16 * r, strengths);
      }
  check_augment(28, 150, 784, (AugmentStrengths){{3, 45, 0.4f, 0.5f, 7}});
}

/* Every launcher refuses a wrong batch, pointer or size. A row TAKES(...) says if a launcher takes
   a batch, how many pointers and sizes it takes, and how to call the launcher. */
KERNEL_TEST(test_wrong_arguments_are_refused) {
  enum { COUNT = 1000, BATCH, POINTER, SIZE };
  static const int ways[] = {5, 6, 3};
  static const Dropout none;
  const AugmentStrengths usual = AUGMENT_USUAL;
  const Batch batch = make_batch(7, 5, 2, 7, false, 30);
  const RowResults results = poisoned_results(&batch);
  float *d = poisoned_floats(COUNT); /* passed for every float array; must stay poisoned */
  for (int kind = BATCH; kind <= SIZE; kind++)
    for (int way = 0; way < ways[kind - BATCH]; way++) {
      float *p[6]; /* pointers that must not be NULL */
      int n[3];    /* sizes that must not be 0 */
      BatchView view = batch.view;
      for (int i = 0; i < 6; i++) p[i] = kind == POINTER && i == way ? NULL : d;
      for (int i = 0; i < 3; i++) n[i] = kind == SIZE && i == way ? 0 : 5;
      if (kind == BATCH && way == 0) view.d_pixels = NULL;
      if (kind == BATCH && way == 1) view.d_labels = NULL;
      if (kind == BATCH && way == 2) view.d_state = NULL;
      if (kind == BATCH && way == 3) view.stride = 17;
      if (kind == BATCH && way == 4) view.rows = 0;
#define TAKES(takes_batch, pointers, sizes, ...)                                                   \
  if (way < (const int[]){ways[0] * takes_batch, pointers, sizes}[kind - BATCH])                   \
  REFUSED(__VA_ARGS__)
      const LayerInput pixels = {NULL, view}, floats = {d, view};
      const LayerUpdate layers[] = {{d, d, d, d, d, d, 5, 5, NULL, NULL},
                                    {NULL, p[0], p[1], p[2], p[3], p[4], n[0], n[1], NULL, NULL}};
      const LayerUpdate stored = {d, p[0], NULL, NULL, NULL, NULL, 5, 5, p[1], p[2]};
      const FlatParameters flat = {.d_w = p[0], .d_m = p[1], .d_g = p[2], .count = (size_t)n[0]};
      const RowResults of_rows = {p[1], (uint8_t *)p[2]};
      TAKES(0, 1, 1, order, (uint32_t *)p[0], 0, (uint32_t)n[0], 1, 1);
      TAKES(0, 1, 1, begin, (StepState *)p[0], (StepState){.end = (uint32_t)n[0]});
      TAKES(0, 1, 0, advance, (StepState *)p[0], 5);
      TAKES(0, 3, 0, sum, (ResultSums *)p[0], of_rows, 0, 5, (RowShare){0});
      TAKES(0, 1, 1, augment, (uint8_t *)p[0], (uint8_t *)d + 1, (uint32_t)n[0], 784, 28, usual, 1);
      TAKES(1, 1, 1, scale_pixels, view, p[0], n[0], 1.0f / 255, 0);
      TAKES(1, 3, 1, cross_entropy, view, p[0], n[0], of_rows);
      TAKES(1, 2, 1, cross_entropy_gradient, view, p[0], p[1], n[0]);
      TAKES(1, 1, 1, softmax, view, p[0], d, n[0], results);
      TAKES(0, 2, 2, add_bias, p[0], p[1], n[0], n[1]);
      TAKES(0, 2, 2, log_softmax, p[0], p[1], n[0], n[1]);
      TAKES(0, 2, 2, bias_gradient, p[0], p[1], n[0], n[1]);
      TAKES(0, 2, 1, activation, p[0], p[1], (size_t)n[0]);
      TAKES(0, 2, 1, activation_slope, p[0], p[1], none, (size_t)n[0]);
      TAKES(0, 3, 3, gemm, p[0], p[1], p[2], n[0], n[1], n[2]);
      TAKES(0, 3, 3, backward_gemm, p[0], p[1], p[2], n[0], n[1], n[2]);
      TAKES(0, 3, 3, weight_gradient, p[0], p[1], p[2], n[0], n[1], n[2]);
      TAKES(1, 3, 1, update, view, p[0], p[1], p[2], (size_t)n[0], 0);
      TAKES(1, 3, 1, optimizer, view, &flat);
      TAKES(1, 2, 1, average, view, 0.5f, p[0], p[1], (size_t)n[0]);
      TAKES(1, 3, 2, forward, pixels, p[0], p[1], p[2], n[0], n[1], 1, none, 3);
      TAKES(0, 3, 2, forward, floats, p[0], p[1], p[2], n[0], n[1], 1, none, 3);
      TAKES(1, 3, 2, head, view, p[0], p[1], p[2], d, d, d, n[0], n[1], none, results);
      TAKES(0, 4, 3, backward, (BatchView){.rows = n[0]}, p[0], p[1], p[2], p[3], n[1], n[2], none,
            3);
      TAKES(1, 6, 2, updates, view, layers, 2, 3, p[5]);
      TAKES(1, 3, 0, updates, view, &stored, 1, 3, d);
#undef TAKES
    }
  assert_unwritten(d, COUNT * sizeof(float));
  assert_unwritten(results.d_loss, batch.state.end * sizeof(float));
  CUDA_OK(cudaGetLastError());
}

/* Blocks that wait for each other must all run at once. So a launch whose grid has more blocks than
   can run at once is refused. */
KERNEL_TEST(test_a_grid_too_large_is_refused) {
  const TilesShape shape = {.layers = 2, .size = {784, 128, 10}, .batch = 64};
  TilesPlan plan;
  GpuLimits gpu;
  OK(gpu_limits_read(&gpu, &error));
  const char *why_not = plan_tiles(shape, &gpu, &plan);
  if (why_not) skip_because(why_not);
  const Batch batch = make_batch(64, 784, 10, 64, true, 30);
  float *d = poisoned_floats(1000);
  plan.steps = EPOCH_DIRECT;
  plan.blocks = 1 << 20;
  plan.pixel_factor = 1.0f / 255;
  plan.d_parameters = plan.d_first = d;
  plan.results = poisoned_results(&batch);
  plan.d_overflowed = poisoned(sizeof(uint32_t));
  plan.d_mail = d;
  plan.d_work = poisoned(tiles_work_bytes(&plan));
  CUDA_OK(open_tiles(&plan));
  assert_int_equal(launch_tiles(&plan, batch.view, (StepState){.end = 5}, stream),
                   cudaErrorCooperativeLaunchTooLarge);
}
