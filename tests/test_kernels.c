/* Every launcher of kernels.h against the float64 reference and, where a product is inside,
   against cuBLAS as well, on shapes that divide nothing.

   Every buffer a kernel sees, input or output, stands between two guard zones, and all of it was
   poisoned before: every byte 0xFF, which as a float is NaN. So a value that was not written, or
   that was made from something outside an input, is NaN and passes no comparison; a write outside
   is found in the guards by finish().

   TEST_QUICK in the environment is for compute-sanitizer: all but small shapes are left out, and
   so are cuBLAS and the guard zones, for memcheck finds the first byte outside an allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef HAVE_CUDA

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cublas_v2.h>

#include "kernels.h"
#include "base/random.h"
#include "exercise/reference.h"

static cudaStream_t stream;
static cublasHandle_t cublas;
static void *d_work; /* of all the updates, one after the other, as an engine keeps it */
static bool quick;

/* ---- guarded memory ------------------------------------------------------------------------- */

enum { MAX_GUARD = 1024, POISON = 0xFF, MAX_BLOCKS = 256 };

static size_t guard = MAX_GUARD;

static struct {
  uint8_t *d_start; /* guard bytes, the data, guard bytes */
  size_t bytes;     /* of the data */
} blocks[MAX_BLOCKS];
static int block_count;
static void *host_blocks[MAX_BLOCKS];
static int host_count;

static void check(cudaError_t status, const char *call, int line) {
  if (status != cudaSuccess) fail_msg("line %d: %s: %s", line, call, cudaGetErrorString(status));
}
#define OK(call) check(call, #call, __LINE__)

/* Host memory that lives until finish(). */
static void *host(size_t bytes) {
  void *memory = malloc(bytes);
  assert_non_null(memory);
  assert_true(host_count < MAX_BLOCKS);
  host_blocks[host_count++] = memory;
  return memory;
}

static double *host_doubles(size_t count) {
  return host(count * sizeof(double));
}

/* Poisoned device memory between guards, until finish(). */
static void *poisoned(size_t bytes) {
  assert_true(block_count < MAX_BLOCKS);
  uint8_t *d_start = NULL;
  OK(cudaMalloc((void **)&d_start, bytes + 2 * guard));
  blocks[block_count].d_start = d_start;
  blocks[block_count++].bytes = bytes;
  OK(cudaMemsetAsync(d_start, POISON, bytes + 2 * guard, stream));
  return d_start + guard;
}

static float *poisoned_floats(size_t count) {
  return poisoned(count * sizeof(float));
}

static void *to_device(const void *data, size_t bytes) {
  void *d_data = poisoned(bytes);
  OK(cudaMemcpyAsync(d_data, data, bytes, cudaMemcpyHostToDevice, stream));
  OK(cudaStreamSynchronize(stream));
  return d_data;
}

/* Waits for the stream; a copy on the host, until finish(). */
static void *fetch(const void *d_data, size_t bytes) {
  void *copy = host(bytes);
  OK(cudaMemcpyAsync(copy, d_data, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  return copy;
}

static float *fetch_floats(const float *d_data, size_t count) {
  return fetch(d_data, count * sizeof(float));
}

static bool is_poison(const void *data, size_t bytes) {
  const uint8_t *byte = data;
  for (size_t i = 0; i < bytes; i++)
    if (byte[i] != POISON) return false;
  return true;
}

static int release(void **state) {
  (void)state;
  while (block_count > 0) cudaFree(blocks[--block_count].d_start);
  while (host_count > 0) free(host_blocks[--host_count]);
  return 0;
}

/* Ends a case: nobody wrote outside its buffer; frees everything. */
static void finish(void) {
  OK(cudaStreamSynchronize(stream));
  for (int b = 0; b < block_count; b++) {
    uint8_t before[MAX_GUARD], after[MAX_GUARD];
    const uint8_t *d_start = blocks[b].d_start;
    OK(cudaMemcpy(before, d_start, guard, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(after, d_start + guard + blocks[b].bytes, guard, cudaMemcpyDeviceToHost));
    if (!is_poison(before, guard) || !is_poison(after, guard))
      fail_msg("a kernel wrote outside buffer %d of this case, of %zu bytes", b, blocks[b].bytes);
  }
  release(NULL);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* The same values on both sides: float64, each exact in float32, and float32. */
typedef struct {
  double *host;
  float *d;
} Values;

static Values both_sides(double *values, size_t count) {
  float *rounded = host(count * sizeof *rounded);
  reference_to_float(values, count, rounded);
  reference_to_double(rounded, count, values);
  return (Values){values, to_device(rounded, count * sizeof *rounded)};
}

static Values values_between(double low, double high, size_t count, uint64_t seed) {
  double *values = host_doubles(count);
  reference_fill(values, count, low, high, seed);
  return both_sides(values, count);
}

/* Both signs, but a sum of products is seldom near 0, where a relative error means nothing. */
static Values random_values(size_t count, uint64_t seed) {
  return values_between(-0.25, 1, count, seed);
}

/* The relative error, in the Euclidean norm, allowed to a float32 sum of `terms` products.

   Adding one by one, the k-th rounding is up to 2^-24 of the k-th partial sum. Roundings are as
   good as random, so their squares add: about sqrt(terms) 2^-24 / 4 was measured for plain loops
   and less for sums of partial sums. sqrt(terms) 2^-24 leaves a correct kernel a factor of 4.
   `others`: roundings a value meets besides, each of up to 2^-24, all allowed to agree.

   It is float32 indeed that passes: tf32 rounds every factor by up to 2^-11, which is 2e-4 of the
   sum whatever the number of terms; the bound for 4096 terms is 4e-6. */
static double bound(int terms, int others) {
  return (sqrt(terms) + others) * 0x1p-24;
}

/* The same for a kernel that adds on the tensor cores. They add 16 products to a sum at once and
   cut off what it cannot hold (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA
   tensor cores", 2021), so that errors agree in sign and grow with terms: terms 2^-24 / 15 in a
   model that keeps 2 bits more than float32. terms / 4 leaves a factor of 4. With many terms tf32
   would pass, but the shapes with few of them are the same kernels, and there it does not. */
static double tensor_bound(int terms, int others) {
  return bound(terms, others) + terms / 4.0 * 0x1p-24;
}

/* Likewise of a kernel that multiplies floats as `terms` bf16 numbers: two of them are within 2^-18
   of a float, and the product of the two second ones, left out, is up to 2^-18 as well. tf32, 2^-11
   a factor, would not pass. */
static double terms_bound(int terms, int terms, int others) {
  return tensor_bound(terms, others) + (terms == 2 ? 3 * 0x1p-18 : 0);
}

enum { GEMM_ROUNDING = 1, PIXEL_ROUNDINGS = 2, BIAS_ROUNDING = 1, UPDATE_ROUNDINGS = 4 };

typedef struct {
  int rows, in, out;
} Shape;

static void assert_near(const char *what, Shape s, const float *d_out, const double *expected,
                        size_t count, double limit) {
  const double error = reference_relative_error(fetch_floats(d_out, count), expected, count);
  if (!(error <= limit))
    fail_msg("%s, rows %d, in %d, out %d: relative error %.3g, allowed %.3g", what, s.rows, s.in,
             s.out, error, limit);
}

static void assert_exact(const float *d_out, const float *expected, size_t count) {
  const float *out = fetch_floats(d_out, count);
  for (size_t i = 0; i < count; i++)
    if (!(out[i] == expected[i]))
      fail_msg("value %zu is %.9g, not %.9g", i, (double)out[i], (double)expected[i]);
}

static size_t area(int rows, int columns) {
  return (size_t)rows * (size_t)columns;
}

/* ---- shapes --------------------------------------------------------------------------------- */

enum { MAX_SHAPES = 80, RANDOM_SHAPES = 12 };

static const int sizes[][2] = {{1, 1}, {63, 65}, {784, 300}, {785, 301}, {17, 4096}, {4096, 17}};
static const int batches[] = {1, 7, 63, 64, 65, 200, 1000};

/* Tiles of 64 x 64 take over from 64 tiles on: both sides of that, in forward (rows, out) and in
   backward (rows, in), with ragged edges. */
static const Shape thresholds[] = {
    {448, 37, 576},  {449, 37, 512}, {448, 576, 37}, {449, 512, 37}, {448, 570, 570},
    {449, 505, 449}, {4032, 64, 64}, {4033, 63, 65}, {1, 33, 4033},  {65, 2000, 2017},
};

/* Multiples of 4 are read four at a time. */
static const Shape quick_shapes[] = {
    {1, 1, 1},    {1, 63, 65},   {7, 63, 65},   {65, 50, 10},  {61, 20, 36},
    {7, 132, 68}, {130, 65, 33}, {449, 5, 505}, {449, 504, 8},
};

/* Random in low .. high. */
static int pick(uint64_t counter, int word, int low, int high) {
  const RandomWords w = random_words(2024, 0, counter);
  return low + (int)(w.word[word] % (uint32_t)(high - low + 1));
}

static int list_shapes(Shape list[MAX_SHAPES]) {
  int count = 0;
  if (quick) {
    memcpy(list, quick_shapes, sizeof quick_shapes);
    return (int)(sizeof quick_shapes / sizeof *quick_shapes);
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
      list[count++] = (Shape){batches[b], sizes[i][0], sizes[i][1]};
  memcpy(list + count, thresholds, sizeof thresholds);
  count += (int)(sizeof thresholds / sizeof *thresholds);
  for (uint64_t i = 0; i < RANDOM_SHAPES; i++)
    list[count++] = (Shape){pick(i, 0, 1, 300), pick(i, 1, 1, 900), pick(i, 2, 1, 400)};
  assert_true(count <= MAX_SHAPES);
  return count;
}

static void for_all_shapes(void (*check_shape)(Shape s, uint64_t seed)) {
  Shape list[MAX_SHAPES];
  const int count = list_shapes(list);
  for (int i = 0; i < count; i++) {
    check_shape(list[i], 1000 * (uint64_t)i);
    finish();
  }
}

/* ---- the library ---------------------------------------------------------------------------- */

/* C (m, n) of row-major matrices as cuBLAS computes it in true float32, in float64; NULL when
   quick. cuBLAS is column-major: it is given C^T = op(B)^T op(A)^T, where ^T costs nothing. Each
   operand comes with the length of its rows. */
static double *library_product(cublasOperation_t left_operation, const float *d_left,
                               int left_columns, cublasOperation_t right_operation,
                               const float *d_right, int right_columns, int m, int n, int depth) {
  if (quick) return NULL;
  const float one = 1, zero = 0;
  float *d_c = poisoned_floats(area(m, n));
  assert_int_equal(cublasSgemm(cublas, right_operation, left_operation, n, m, depth, &one, d_right,
                               right_columns, d_left, left_columns, &zero, d_c, n),
                   CUBLAS_STATUS_SUCCESS);
  double *c = host_doubles(area(m, n));
  reference_to_double(fetch_floats(d_c, area(m, n)), area(m, n), c);
  return c;
}

static double *copy_of(const double *values, size_t count) {
  return memcpy(host_doubles(count), values, count * sizeof *values);
}

/* ---- a batch of stored rows ----------------------------------------------------------------- */

typedef struct {
  BatchView view;
  StepState state;
  uint8_t *pixels; /* as d_pixels, and so on */
  uint16_t *labels;
  uint32_t *order;
  uint32_t dataset_rows;
  int filled; /* rows of the batch that the step has */
} Batch;

enum { OFFSET = 3, FIRST_ROW = 4 };

static const float learning_rate = 0.001f;

static uint32_t batch_row(const Batch *b, int r) {
  uint32_t p = b->state.position + OFFSET + (uint32_t)r;
  if (p >= b->state.end) p = b->state.end - 1;
  return b->view.d_order ? b->order[p] : FIRST_ROW + p;
}

/* left: rows from the step's first to the end of the range; 0 or less: the range is over. The
   order is shuffled or a run of rows. Pixels fill the rows' stride, so that what follows a row's
   inputs is anything but 0. */
static Batch make_batch(int rows, int in, int classes, int left, bool shuffled, uint64_t seed) {
  const uint32_t end = (uint32_t)rows + 50;
  assert_true(left <= rows + 30);
  Batch b = {.dataset_rows = end + FIRST_ROW + 3};
  b.state = (StepState){(uint32_t)((int)end - OFFSET - left), end, learning_rate};
  b.filled = left < 0 ? 0 : left < rows ? left : rows;
  const size_t stride = ((size_t)in + 15) / 16 * 16;
  b.pixels = host(b.dataset_rows * stride);
  b.labels = host(b.dataset_rows * sizeof *b.labels);
  b.order = host(end * sizeof *b.order);
  reference_fill_pixels(b.pixels, b.dataset_rows * stride, seed);
  reference_fill_labels(b.labels, b.dataset_rows, classes, seed + 1);
  for (uint32_t p = 0; p < end; p++) b.order[p] = random_permute(p, b.dataset_rows, 77);
  b.view = (BatchView){
      .d_pixels = to_device(b.pixels, b.dataset_rows * stride),
      .d_labels = to_device(b.labels, b.dataset_rows * sizeof *b.labels),
      .d_order = shuffled ? to_device(b.order, end * sizeof *b.order) : NULL,
      .first_row = FIRST_ROW,
      .stride = stride,
      .d_state = to_device(&b.state, sizeof b.state),
      .offset = OFFSET,
      .rows = rows,
  };
  return b;
}

/* The batch's input, (rows, in), float64. */
static double *batch_input(const Batch *b, int in) {
  double *x = host_doubles(area(b->view.rows, in));
  for (int r = 0; r < b->view.rows; r++)
    reference_scale(b->pixels + batch_row(b, r) * b->view.stride, b->view.stride, 1, in,
                    x + area(r, in));
  return x;
}

/* ---- bookkeeping ---------------------------------------------------------------------------- */

/* A test's first line. */
static void needs_gpu(void) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return;
  print_message("no GPU is visible%s%s\n", status == cudaSuccess ? "" : ": ",
                status == cudaSuccess ? "" : cudaGetErrorString(status));
  skip();
}

static void test_order(void **state) {
  (void)state;
  needs_gpu();
  static const uint32_t counts[] = {1, 7, 256, 1000, 60001};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    for (int shuffled = 0; shuffled < 2; shuffled++) {
      const uint32_t rows = counts[i], first = 11;
      const uint64_t key = random_order_key(5, i);
      uint32_t *d_order = poisoned(rows * sizeof *d_order);
      OK(launch_order(d_order, first, rows, shuffled, key, stream));
      const uint32_t *order = fetch(d_order, rows * sizeof *order);
      uint8_t *seen = memset(host(rows), 0, rows);
      for (uint32_t p = 0; p < rows; p++) {
        assert_int_equal(order[p], first + (shuffled ? random_permute(p, rows, key) : p));
        assert_int_equal(seen[order[p] - first]++, 0);
      }
      finish();
    }
  }
}

static void test_begin_and_advance(void **state) {
  (void)state;
  needs_gpu();
  StepState *d_state = poisoned(sizeof *d_state);
  OK(launch_begin(d_state, 12, 60000, 0.25f, stream));
  const StepState *begun = fetch(d_state, sizeof *begun);
  assert_int_equal(begun->position, 12);
  assert_int_equal(begun->end, 60000);
  assert_true(begun->learning_rate == 0.25f);
  OK(launch_advance(d_state, 64, stream));
  OK(launch_advance(d_state, 59900, stream));
  const StepState *advanced = fetch(d_state, sizeof *advanced);
  assert_int_equal(advanced->position, 12 + 64 + 59900);
  assert_int_equal(advanced->end, 60000);
  assert_true(advanced->learning_rate == 0.25f);
  finish();
}

/* Sums are float64: for n values the error is at most n 2^-53 of the sum of positive terms. */
static void test_sum(void **state) {
  (void)state;
  needs_gpu();
  static const uint32_t ranges[][2] = {{0, 1},    {3, 3},       {3, 2055},
                                       {0, 1024}, {1023, 1025}, {0, 5000}};
  enum { POSITIONS = 5000 };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    const uint32_t first = ranges[i][0], end = ranges[i][1], rows = end - first;
    double *values = host_doubles(POSITIONS);
    reference_fill(values, POSITIONS, 0, 10, 90 + i);
    uint8_t *correct = host(POSITIONS);
    reference_fill_pixels(correct, POSITIONS, 91);
    for (int p = 0; p < POSITIONS; p++) correct[p] &= 1;
    const Values loss = both_sides(values, POSITIONS);
    const ResultSums before = {0.5, 7, 11};
    ResultSums *d_sums = to_device(&before, sizeof before);
    uint8_t *d_correct = to_device(correct, POSITIONS);
    /* what lies outside the range must not count: there it is NaN */
    if (first > 0) OK(cudaMemsetAsync(loss.d, POISON, first * sizeof(float), stream));
    if (end < POSITIONS)
      OK(cudaMemsetAsync(loss.d + end, POISON, (POSITIONS - end) * sizeof(float), stream));
    const RowResults results = {loss.d, d_correct};
    OK(launch_sum(d_sums, results, first, end, stream));
    OK(launch_sum(d_sums, results, first, end, stream));
    ResultSums expected = before;
    for (int twice = 0; twice < 2; twice++) {
      for (uint32_t p = first; p < end; p++) {
        expected.loss += loss.host[p];
        expected.correct += correct[p];
      }
      expected.rows += rows;
    }
    const ResultSums *sums = fetch(d_sums, sizeof *sums);
    assert_true(fabs(sums->loss - expected.loss) <= 2 * POSITIONS * 0x1p-53 * expected.loss);
    assert_int_equal(sums->correct, expected.correct);
    assert_int_equal(sums->rows, expected.rows);
    finish();
  }
}

/* ---- operations on single values ------------------------------------------------------------ */

static const size_t counts[] = {1, 31, 255, 256, 257, 10007};

static void test_scale_pixels(void **state) {
  (void)state;
  needs_gpu();
  static const Shape shapes[] = {{1, 1, 0}, {7, 50, 0}, {65, 784, 0}, {64, 785, 0}, {13, 4096, 0}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (int shuffled = 0; shuffled < 2; shuffled++) {
      const Shape s = shapes[i];
      const Batch b = make_batch(s.rows, s.in, 10, s.rows / 2, shuffled, i);
      float *d_x = poisoned_floats(area(s.rows, s.in));
      OK(launch_scale_pixels(b.view, d_x, s.in, stream));
      assert_near("scale_pixels", s, d_x, batch_input(&b, s.in), area(s.rows, s.in),
                  bound(0, PIXEL_ROUNDINGS));
      finish();
    }
  }
}

static void test_add_bias(void **state) {
  (void)state;
  needs_gpu();
  static const Shape shapes[] = {{1, 0, 1}, {7, 0, 10}, {65, 0, 301}, {3, 0, 4096}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const Shape s = shapes[i];
    const size_t count = area(s.rows, s.out);
    const Values z = random_values(count, 1), b = random_values((size_t)s.out, 2);
    float *expected = host(count * sizeof *expected);
    for (size_t j = 0; j < count; j++)
      expected[j] = (float)z.host[j] + (float)b.host[j % (size_t)s.out];
    OK(launch_add_bias(z.d, b.d, s.rows, s.out, stream));
    assert_exact(z.d, expected, count);
    finish();
  }
}

/* Values of both signs and zeros. */
static Values signed_values(size_t count, uint64_t seed) {
  double *values = host_doubles(count);
  reference_fill(values, count, -1, 1, seed);
  for (size_t i = 0; i < count; i += 5) values[i] = i % 2 ? 0.0 : -0.0;
  return both_sides(values, count);
}

static void test_relu_and_mask(void **state) {
  (void)state;
  needs_gpu();
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    const size_t count = counts[i];
    const Values z = signed_values(count, 3), da = random_values(count, 4);
    float *d_a = poisoned_floats(count);
    OK(launch_relu(z.d, d_a, count, stream));
    OK(launch_relu_mask(da.d, d_a, count, stream));
    reference_relu(z.host, count);
    reference_relu_mask(z.host, count, da.host);
    float *expected = host(count * sizeof *expected);
    reference_to_float(z.host, count, expected);
    assert_exact(d_a, expected, count);
    reference_to_float(da.host, count, expected);
    assert_exact(da.d, expected, count);
    finish();
  }
}

/* ---- products ------------------------------------------------------------------------------- */

/* z + b in every row, and through ReLU if asked for: a new array. */
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
      library_product(CUBLAS_OP_N, x.d, s.in, CUBLAS_OP_T, w.d, s.in, s.rows, s.out, s.in);

  double limit = bound(s.in, GEMM_ROUNDING);
  float *d_z = poisoned_floats(count);
  OK(launch_gemm(x.d, w.d, d_z, s.rows, s.in, s.out, stream));
  assert_near("product", s, d_z, z, count, limit);
  if (library) assert_near("product, cuBLAS", s, d_z, library, count, 2 * limit);

  for (int way = 0; way < 4; way++) {
    const int relu = way % 2, terms = 2 + way / 2;
    limit = terms_bound(terms, s.in, GEMM_ROUNDING + BIAS_ROUNDING);
    float *d_y = poisoned_floats(count);
    const LayerInput input = {x.d, {.rows = s.rows}};
    OK(launch_forward(input, w.d, b.d, d_y, s.in, s.out, relu, terms, stream));
    assert_near("forward", s, d_y, add_bias(z, b.host, s, relu), count, limit);
    if (library)
      assert_near("forward, cuBLAS", s, d_y, add_bias(library, b.host, s, relu), count, 2 * limit);
  }
}

static void test_product_and_forward(void **state) {
  (void)state;
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
  const double *library = library_product(CUBLAS_OP_N, both_sides(x, area(s.rows, s.in)).d, s.in,
                                          CUBLAS_OP_T, w.d, s.in, s.rows, s.out, s.in);
  for (int way = 0; way < 4; way++) {
    const int relu = way % 2, terms = 2 + way / 2;
    const double limit = terms_bound(terms, s.in, GEMM_ROUNDING + BIAS_ROUNDING + PIXEL_ROUNDINGS);
    float *d_y = poisoned_floats(count);
    const LayerInput input = {NULL, batch.view};
    OK(launch_forward(input, w.d, b.d, d_y, s.in, s.out, relu, terms, stream));
    assert_near("forward of pixels", s, d_y, add_bias(z, b.host, s, relu), count, limit);
    if (library)
      assert_near("forward of pixels, cuBLAS", s, d_y, add_bias(library, b.host, s, relu), count,
                  2 * limit);
  }
}

static void test_forward_pixels(void **state) {
  (void)state;
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
      library_product(CUBLAS_OP_N, dz.d, s.out, CUBLAS_OP_N, w.d, s.in, s.rows, s.in, s.out);
  double limit = bound(s.out, GEMM_ROUNDING);
  float *d_dx = poisoned_floats(count);
  OK(launch_backward_gemm(dz.d, w.d, d_dx, s.rows, s.in, s.out, stream));
  assert_near("backward_product", s, d_dx, dx, count, limit);
  if (library) assert_near("backward_product, cuBLAS", s, d_dx, library, count, 2 * limit);

  reference_relu_mask(a.host, count, dx);
  if (library) reference_relu_mask(a.host, count, library);
  for (int terms = 2; terms <= 3; terms++) {
    limit = terms_bound(terms, s.out, GEMM_ROUNDING);
    float *d_masked = poisoned_floats(count);
    OK(launch_backward(dz.d, w.d, a.d, d_masked, s.rows, s.in, s.out, terms, stream));
    assert_near("backward", s, d_masked, dx, count, limit);
    if (library) assert_near("backward, cuBLAS", s, d_masked, library, count, 2 * limit);
  }
}

static void test_backward(void **state) {
  (void)state;
  needs_gpu();
  for_all_shapes(check_backward);
}

/* ---- gradients and updates ------------------------------------------------------------------ */

static const UpdateRule rules[] = {{0.0f, 0.0f}, {0.9f, 0.0f}, {0.9f, 0.05f}};

/* A layer's trained values and their momenta. Values are at least 1, more than an update of any
   of the shapes takes away. */
typedef struct {
  Values w, b, vw, vb;
} Parameters;

static Parameters random_parameters(Shape s, uint64_t seed) {
  const size_t weights = area(s.out, s.in), out = (size_t)s.out;
  return (Parameters){values_between(1, 2, weights, seed), values_between(1, 2, out, seed + 1),
                      random_values(weights, seed + 2), random_values(out, seed + 3)};
}

/* What w, v (count values) become under gradient g, and that d_w, d_v became it. */
static void assert_updated(const char *what, Shape s, Values w, Values v, const double *g,
                           size_t count, UpdateRule rule, double limit) {
  double *new_w = copy_of(w.host, count), *new_v = copy_of(v.host, count);
  reference_update(new_w, new_v, g, count, (double)rule.momentum, (double)rule.weight_decay,
                   (double)learning_rate);
  assert_near(what, s, v.d, new_v, count, limit);
  assert_near(what, s, w.d, new_w, count, limit);
}

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
  const double limit = terms_bound(
      terms, s.rows, GEMM_ROUNDING + UPDATE_ROUNDINGS + (l->pixels ? PIXEL_ROUNDINGS : 0));
  const size_t weights = area(s.out, s.in);
  assert_updated("updates", s, l->p.w, l->p.vw, l->dw, weights, rule, limit);
  assert_updated("updates, bias", s, l->p.b, l->p.vb, l->db, (size_t)s.out, bias_rule, limit);
  if (library)
    assert_updated("updates, cuBLAS", s, l->p.w, l->p.vw, library, weights, rule, 2 * limit);
}

static void check_gradient(Shape s, bool pixels, uint64_t seed) {
  const UpdateRule rule = rules[seed / 1000 % 3];
  const size_t weights = area(s.out, s.in);
  const double limit = bound(s.rows, GEMM_ROUNDING);
  const Batch batch = make_batch(s.rows, s.in, 10, s.rows - s.rows / 3, seed % 2000 == 0, seed);
  Layer l = make_layer(&batch, s, pixels, seed + 2);
  const double *library =
      library_product(CUBLAS_OP_T, l.dz.d, s.out, CUBLAS_OP_N, l.x.d, s.in, s.out, s.in, s.rows);
  float *d_dw = poisoned_floats(weights), *d_db = poisoned_floats((size_t)s.out);
  OK(launch_weight_gradient(l.dz.d, l.x.d, d_dw, s.rows, s.in, s.out, stream));
  OK(launch_bias_gradient(l.dz.d, d_db, s.rows, s.out, stream));
  assert_near("weight_gradient", s, d_dw, l.dw, weights, limit);
  assert_near("bias_gradient", s, d_db, l.db, (size_t)s.out, limit);
  if (library) assert_near("weight_gradient, cuBLAS", s, d_dw, library, weights, 2 * limit);

  for (int terms = 2; terms <= 3; terms++) {
    l.p = random_parameters(s, seed + 4);
    const LayerUpdate update = update_of(&l);
    OK(launch_updates(batch.view, rule, &update, 1, terms, d_work, stream));
    assert_layer_updated(&l, rule, terms, library);
  }
}

static void check_gradient_of_activations(Shape s, uint64_t seed) {
  check_gradient(s, false, seed);
}

static void check_gradient_of_pixels(Shape s, uint64_t seed) {
  check_gradient(s, true, seed);
}

static void test_gradient_and_update(void **state) {
  (void)state;
  needs_gpu();
  for_all_shapes(check_gradient_of_activations);
}

static void test_gradient_and_update_of_pixels(void **state) {
  (void)state;
  needs_gpu();
  for_all_shapes(check_gradient_of_pixels);
}

/* As many layers in one launch as there may be, no two of one shape, in short and long batches. */
static void test_updates_of_many_layers(void **state) {
  (void)state;
  needs_gpu();
  static const int batch_rows[] = {7, 65, 449};
  static const int widths[MAX_UPDATES + 1] = {50, 33, 68, 7, 132, 1, 2, 65, 10};
  for (size_t b = 0; b < sizeof batch_rows / sizeof *batch_rows; b++) {
    const int rows = batch_rows[b];
    const Batch batch = make_batch(rows, widths[0], 10, rows, true, 40);
    Layer layers[MAX_UPDATES];
    LayerUpdate updates[MAX_UPDATES];
    for (int n = 0; n < MAX_UPDATES; n++) {
      const Shape s = {rows, widths[n], widths[n + 1]};
      layers[n] = make_layer(&batch, s, n == 0, 100 * (uint64_t)n);
      updates[n] = update_of(&layers[n]);
    }
    OK(launch_updates(batch.view, rules[2], updates, MAX_UPDATES, 3, d_work, stream));
    for (int n = 0; n < MAX_UPDATES; n++) assert_layer_updated(&layers[n], rules[2], 3, NULL);
    finish();
  }
}

static void test_update(void **state) {
  (void)state;
  needs_gpu();
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
      const size_t count = counts[i];
      const Batch batch = make_batch(7, 5, 10, 1, false, 1);
      const Values w = values_between(1, 2, count, 5), v = random_values(count, 6);
      const Values g = random_values(count, 7);
      OK(launch_update(batch.view, rules[r], w.d, v.d, g.d, count, stream));
      assert_updated("update", (Shape){0}, w, v, g.host, count, rules[r],
                     bound(0, UPDATE_ROUNDINGS));
      finish();
    }
  }
}

static void assert_untouched(Values v, size_t count) {
  float *before = host(count * sizeof *before);
  reference_to_float(v.host, count, before);
  assert_memory_equal(fetch_floats(v.d, count), before, count * sizeof *before);
}

/* A step with no rows left is no step: momentum 0.9 and decay would move every value. */
static void test_no_step_updates_nothing(void **state) {
  (void)state;
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
      OK(launch_update(batch.view, rule, p.w.d, p.vw.d, l.dz.d, area(s.out, s.in), stream));
      OK(launch_updates(batch.view, rule, &layer_update, 1, 3, d_work, stream));
      assert_untouched(p.w, area(s.out, s.in));
      assert_untouched(p.vw, area(s.out, s.in));
      assert_untouched(p.b, (size_t)s.out);
      assert_untouched(p.vb, (size_t)s.out);
      finish();
    }
  }
}

/* ---- softmax and cross-entropy -------------------------------------------------------------- */

typedef enum {
  RANDOM,
  LARGE,
  NEGATIVE,
  EQUAL,
  DOMINANT,
  HIDDEN,
  ALL_HIDDEN,
  ASCENDING,
  TIED,
  LOGIT_KINDS
} LogitKind;

/* Logit c of row r; u is uniform in [-1, 1). */
static double logit(LogitKind kind, int r, int c, int classes, double u) {
  switch (kind) {
  case LARGE:
    return 1e4 * u;
  case NEGATIVE:
    return 500 * u - 1000; /* a maximum begun at 0 is wrong here */
  case EQUAL:
    return -3.25;
  case DOMINANT:
    return c == r % classes ? 60 : u;
  case HIDDEN:
    return c == r % classes ? u : -1e30;
  case ALL_HIDDEN:
    return -1e30;
  case ASCENDING:
    return 0.01 * c + 0.001 * u; /* the running maximum grows at every class */
  case TIED: /* two largest; of 33 classes and more the second is seen by an earlier lane */
    return c == 1 || c == (classes > 32 ? 32 : classes - 1) ? 2 : u;
  case RANDOM:
  default:
    return 3 * u;
  }
}

/* The first or the last of the largest. */
static int largest(const double *z, int classes, bool last) {
  int best = 0;
  for (int c = 1; c < classes; c++)
    if (z[c] > z[best] || (last && z[c] == z[best])) best = c;
  return best;
}

typedef struct {
  Batch batch;
  Values z; /* (rows, classes) */
  int classes;
  double *loss, *p, *log_p; /* what the reference says: (rows), (rows, classes) twice */
} SoftmaxCase;

/* The reference adds the largest logit to the logarithm of a sum, where -1e30 swallows it: it is
   given z - max, which has the same softmax and loses nothing in float64. */
static void judge_by_reference(SoftmaxCase *s, int rows, const uint16_t *labels) {
  const int classes = s->classes;
  double *shifted = copy_of(s->z.host, area(rows, classes));
  for (int r = 0; r < rows; r++) {
    double *row = shifted + area(r, classes);
    const double top = row[largest(row, classes, false)];
    for (int c = 0; c < classes; c++) row[c] -= top;
  }
  s->loss = host_doubles((size_t)rows);
  s->p = host_doubles(area(rows, classes));
  s->log_p = shifted;
  reference_cross_entropy(shifted, labels, rows, classes, s->loss);
  reference_softmax(shifted, rows, classes, s->p);
  for (int r = 0; r < rows; r++) {
    double sum = 0;
    for (int c = 0; c < classes; c++) sum += exp(shifted[area(r, classes) + (size_t)c]);
    for (int c = 0; c < classes; c++) s->log_p[area(r, classes) + (size_t)c] -= log(sum);
  }
}

/* Labels: the first largest logit, the last largest, and two at random, in turn. */
static SoftmaxCase make_softmax_case(LogitKind kind, int rows, int classes, int left,
                                     bool shuffled) {
  const uint64_t seed = (uint64_t)kind + 100;
  SoftmaxCase s = {.batch = make_batch(rows, 16, classes, left, shuffled, seed),
                   .classes = classes};
  double *z = host_doubles(area(rows, classes));
  reference_fill(z, area(rows, classes), -1, 1, seed + 1);
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < classes; c++) {
      double *value = &z[area(r, classes) + (size_t)c];
      *value = logit(kind, r, c, classes, *value);
    }
  s.z = both_sides(z, area(rows, classes));
  uint16_t *labels = s.batch.labels, *of_row = host((size_t)rows * sizeof *of_row);
  for (int r = 0; r < rows; r++) {
    if (r < s.batch.filled && r % 4 < 2)
      labels[batch_row(&s.batch, r)] = (uint16_t)largest(z + area(r, classes), classes, r % 4 == 1);
    of_row[r] = labels[batch_row(&s.batch, r)];
  }
  s.batch.view.d_labels = to_device(labels, s.batch.dataset_rows * sizeof *labels);
  judge_by_reference(&s, rows, of_row);
  return s;
}

/* Allowed to a log-probability or a loss of this value, absolute. It is (z - max) - log(sum):
   two roundings relative to the value, besides the error of the sum, which its logarithm makes
   absolute: sqrt(classes) 2^-24 for the additions, as for products, and some units in the last
   place of expf and logf (2 and 1 by the CUDA manual), of the logarithm (at most 7) and of the
   rescaling of an online sum. A saturating log(max(p, 1e-6)) misses it by orders of magnitude. */
static double log_tolerance(double value, int classes) {
  return (4 * fabs(value) + 32 + sqrt(classes)) * 0x1p-24;
}

static void assert_within(const char *what, const SoftmaxCase *s, int r, int c, double value,
                          double expected, double tolerance) {
  if (!(fabs(value - expected) <= tolerance))
    fail_msg("%s, %d classes, row %d, class %d: %.9g, not %.9g, allowed +-%.3g", what, s->classes,
             r, c, value, expected, tolerance);
}

static void assert_log_softmax(const SoftmaxCase *s, const float *p) {
  for (int r = 0; r < s->batch.view.rows; r++)
    for (int c = 0; c < s->classes; c++) {
      const size_t i = area(r, s->classes) + (size_t)c;
      assert_within("log_softmax", s, r, c, (double)p[i], s->log_p[i],
                    log_tolerance(s->log_p[i], s->classes));
    }
}

/* A probability's relative error is the absolute one of its logarithm, whose term 4 |log p| is at
   most 4 / e after multiplying by p. */
static void assert_gradient(const char *what, const SoftmaxCase *s, const float *d_dz) {
  const int rows = s->batch.view.rows, filled = s->batch.filled;
  const float *dz = fetch_floats(d_dz, area(rows, s->classes));
  const double unit = 0x1p-24 / (filled ? filled : 1);
  for (int r = 0; r < rows; r++) {
    const int label = s->batch.labels[batch_row(&s->batch, r)];
    for (int c = 0; c < s->classes; c++) {
      const size_t i = area(r, s->classes) + (size_t)c;
      const double p = s->p[i];
      const double expected = r < filled ? (p - (c == label)) / filled : 0;
      const double allowed = r < filled ? unit * (4 + p * (32 + sqrt(s->classes))) : 0;
      assert_within(what, s, r, c, (double)dz[i], expected, allowed);
    }
  }
}

/* ranking: (rows, classes) whose first largest value must be the label for a correct row. */
static void assert_results(const char *what, const SoftmaxCase *s, RowResults d_results,
                           const float *ranking) {
  const uint32_t end = s->batch.state.end;
  const float *loss = fetch_floats(d_results.d_loss, end);
  const uint8_t *correct = fetch(d_results.d_correct, end);
  const uint32_t first = s->batch.state.position + OFFSET;
  double *row = host_doubles((size_t)s->classes);
  for (uint32_t p = 0; p < end; p++) {
    if (p < first || p - first >= (uint32_t)s->batch.filled) {
      assert_true(is_poison(loss + p, sizeof *loss));
      assert_int_equal(correct[p], POISON);
      continue;
    }
    const int r = (int)(p - first), label = s->batch.labels[batch_row(&s->batch, r)];
    assert_within(what, s, r, label, (double)loss[p], s->loss[r],
                  log_tolerance(s->loss[r], s->classes));
    reference_to_double(ranking + area(r, s->classes), (size_t)s->classes, row);
    assert_int_equal(correct[p], largest(row, s->classes, false) == label);
  }
}

static RowResults poisoned_results(const Batch *b) {
  return (RowResults){poisoned_floats(b->state.end), poisoned(b->state.end)};
}

/* Level none: three kernels. Its ranking is that of the log-probabilities. */
static void check_softmax_unfused(const SoftmaxCase *s) {
  const size_t count = area(s->batch.view.rows, s->classes);
  float *d_p = poisoned_floats(count), *d_dz = poisoned_floats(count);
  const RowResults results = poisoned_results(&s->batch);
  OK(launch_log_softmax(s->z.d, d_p, s->batch.view.rows, s->classes, stream));
  OK(launch_cross_entropy(s->batch.view, d_p, s->classes, results, stream));
  OK(launch_cross_entropy_gradient(s->batch.view, d_p, d_dz, s->classes, stream));
  const float *p = fetch_floats(d_p, count);
  assert_log_softmax(s, p);
  assert_results("cross_entropy", s, results, p);
  assert_gradient("cross_entropy_gradient", s, d_dz);
}

/* Level layer: one kernel; into another array, for evaluation, without results, and in place. */
static void check_softmax_fused(const SoftmaxCase *s) {
  const size_t count = area(s->batch.view.rows, s->classes);
  const BatchView view = s->batch.view;
  const RowResults none = {NULL, NULL};
  const float *z = fetch_floats(s->z.d, count);
  float *d_dz = poisoned_floats(count), *d_alone = poisoned_floats(count);
  const RowResults training = poisoned_results(&s->batch);
  const RowResults evaluation = poisoned_results(&s->batch);
  const RowResults in_place = poisoned_results(&s->batch);
  OK(launch_softmax(view, s->z.d, d_dz, s->classes, training, stream));
  const RowResults loss_alone = {evaluation.d_loss, NULL};
  const RowResults correct_alone = {NULL, evaluation.d_correct};
  OK(launch_softmax(view, s->z.d, NULL, s->classes, loss_alone, stream));
  OK(launch_softmax(view, s->z.d, NULL, s->classes, correct_alone, stream));
  OK(launch_softmax(view, s->z.d, d_alone, s->classes, none, stream));
  assert_untouched(s->z, count);
  OK(launch_softmax(view, s->z.d, s->z.d, s->classes, in_place, stream));
  assert_results("softmax", s, training, z);
  assert_results("softmax, evaluation", s, evaluation, z);
  assert_results("softmax, in place", s, in_place, z);
  assert_gradient("softmax", s, d_dz);
  assert_gradient("softmax without results", s, d_alone);
  assert_gradient("softmax, in place", s, s->z.d);
}

/* The same through launch_head: the identity turns its input into logits, bit for bit. */
static void check_softmax_in_head(const SoftmaxCase *s) {
  const int classes = s->classes, rows = s->batch.view.rows;
  const size_t count = area(rows, classes);
  if (!head_takes(classes, classes)) return;
  const float *z = fetch_floats(s->z.d, count);
  double *identity = host_doubles(area(classes, classes)), *zero = host_doubles((size_t)classes);
  reference_fill(identity, area(classes, classes), 0, 0, 1);
  reference_fill(zero, (size_t)classes, 0, 0, 1);
  for (int c = 0; c < classes; c++) identity[area(c, classes) + (size_t)c] = 1;
  const Values w = both_sides(identity, area(classes, classes)),
               b = both_sides(zero, (size_t)classes);
  float *d_z = poisoned_floats(count), *d_dz = poisoned_floats(count),
        *d_dx = poisoned_floats(count);
  const RowResults training = poisoned_results(&s->batch);
  const RowResults evaluation = poisoned_results(&s->batch);
  OK(launch_head(s->batch.view, s->z.d, w.d, b.d, NULL, d_dz, d_dx, classes, classes, training,
                 stream));
  OK(launch_head(s->batch.view, s->z.d, w.d, b.d, d_z, NULL, NULL, classes, classes, evaluation,
                 stream));
  assert_exact(d_z, z, count);
  assert_results("head", s, training, z);
  assert_results("head, evaluation", s, evaluation, z);
  assert_gradient("head", s, d_dz);
  float *masked = fetch_floats(d_dz, count);
  for (size_t i = 0; i < count; i++)
    if (z[i] <= 0) masked[i] = 0;
  assert_exact(d_dx, masked, count);
}

static void for_all_softmax_cases(void (*check_case)(const SoftmaxCase *s)) {
  static const int all_classes[] = {2, 10, 16, 33, 1000, 1024}, all_rows[] = {1, 7, 65, 200};
  for (size_t k = 0; k < sizeof all_classes / sizeof *all_classes; k++)
    for (size_t n = 0; n < sizeof all_rows / sizeof *all_rows; n++)
      for (int kind = 0; kind < LOGIT_KINDS; kind++) {
        const int rows = all_rows[n];
        if (quick && (rows > 65 || kind % 3 != 2)) continue;
        /* the batch full with more to follow, just full, short, or the range over */
        const int lefts[] = {rows + 9, rows, rows - rows / 3, kind % 2 ? 0 : -20};
        const SoftmaxCase s = make_softmax_case((LogitKind)kind, rows, all_classes[k],
                                                lefts[(size_t)(kind + (int)n) % 4], kind % 2);
        check_case(&s);
        finish();
      }
}

static void test_softmax_unfused(void **state) {
  (void)state;
  needs_gpu();
  for_all_softmax_cases(check_softmax_unfused);
}

static void test_softmax_fused(void **state) {
  (void)state;
  needs_gpu();
  for_all_softmax_cases(check_softmax_fused);
}

static void test_softmax_in_head(void **state) {
  (void)state;
  needs_gpu();
  for_all_softmax_cases(check_softmax_in_head);
}

/* Both products of the last layer, against float64; the one back from the gradients that it found
   itself. */
static void check_head_products(Shape s, uint64_t seed) {
  const size_t zs = area(s.rows, s.out), xs = area(s.rows, s.in);
  const Batch batch = make_batch(s.rows, 16, s.out, s.rows - s.rows / 3, true, seed);
  const Values x = signed_values(xs, seed), w = random_values(area(s.out, s.in), seed + 1);
  const Values b = signed_values((size_t)s.out, seed + 2);
  double *z = host_doubles(zs), *dz = host_doubles(zs), *dx = host_doubles(xs);
  float *d_z = poisoned_floats(zs), *d_dz = poisoned_floats(zs), *d_dx = poisoned_floats(xs);
  OK(launch_head(batch.view, x.d, w.d, b.d, d_z, d_dz, d_dx, s.in, s.out, poisoned_results(&batch),
                 stream));
  reference_linear(x.host, w.host, b.host, s.rows, s.in, s.out, z);
  assert_near("head, logits", s, d_z, z, zs, bound(s.in, GEMM_ROUNDING + BIAS_ROUNDING));
  reference_to_double(fetch_floats(d_dz, zs), zs, dz);
  reference_input_gradient(dz, w.host, s.rows, s.in, s.out, dx);
  reference_relu_mask(x.host, xs, dx);
  assert_near("head, input's gradient", s, d_dx, dx, xs, bound(s.out, GEMM_ROUNDING));
}

static void test_head_products(void **state) {
  (void)state;
  needs_gpu();
  static const Shape shapes[] = {{1, 1, 2},     {64, 100, 10}, {7, 31, 16},    {65, 33, 3},
                                 {200, 128, 9}, {66, 129, 16}, {130, 256, 10}, {3, 255, 2}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    check_head_products(shapes[i], 50 + i);
    finish();
  }
  assert_true(head_takes(256, 16) && head_takes(1, 1));
  assert_false(head_takes(257, 10) || head_takes(100, 17) || head_takes(0, 10) ||
               head_takes(10, 0));
}

/* ---- always true ---------------------------------------------------------------------------- */

/* Everything that a step computes, once; `out` receives the arrays and their lengths. */
typedef struct {
  const float *d;
  size_t count;
} AtomicFile;

enum { OUTPUTS = 14 };

static void compute_everything(const Batch *batch, Shape s, AtomicFile out[OUTPUTS]) {
  const BatchView view = batch->view;
  const UpdateRule rule = {0.9f, 0.05f};
  const size_t zs = area(s.rows, s.out), xs = area(s.rows, s.in), ws = area(s.out, s.in);
  const size_t outs = (size_t)s.out;
  const Parameters p = random_parameters(s, 21);
  const Values a = signed_values(xs, 25);
  float *d_x = poisoned_floats(xs), *d_z = poisoned_floats(zs), *d_y = poisoned_floats(zs);
  float *d_p = poisoned_floats(zs), *d_dz = poisoned_floats(zs), *d_fused = poisoned_floats(zs);
  float *d_dx = poisoned_floats(xs), *d_masked = poisoned_floats(xs);
  float *d_dw = poisoned_floats(ws), *d_db = poisoned_floats(outs);
  const RowResults results = poisoned_results(batch);
  const ResultSums zero = {0};
  ResultSums *d_sums = to_device(&zero, sizeof zero);
  OK(launch_scale_pixels(view, d_x, s.in, stream));
  OK(launch_gemm(d_x, p.w.d, d_z, s.rows, s.in, s.out, stream));
  OK(launch_forward((LayerInput){NULL, view}, p.w.d, p.b.d, d_y, s.in, s.out, 0, 3, stream));
  OK(launch_log_softmax(d_y, d_p, s.rows, s.out, stream));
  OK(launch_cross_entropy_gradient(view, d_p, d_dz, s.out, stream));
  OK(launch_softmax(view, d_y, d_fused, s.out, results, stream));
  OK(launch_sum(d_sums, results, batch->state.position + OFFSET, batch->state.end, stream));
  OK(launch_backward_gemm(d_dz, p.w.d, d_dx, s.rows, s.in, s.out, stream));
  OK(launch_backward(d_dz, p.w.d, a.d, d_masked, s.rows, s.in, s.out, 3, stream));
  OK(launch_weight_gradient(d_dz, d_x, d_dw, s.rows, s.in, s.out, stream));
  OK(launch_bias_gradient(d_dz, d_db, s.rows, s.out, stream));
  const LayerUpdate layer_update = {.d_dz = d_dz,
                                    .d_w = p.w.d,
                                    .d_b = p.b.d,
                                    .d_vw = p.vw.d,
                                    .d_vb = p.vb.d,
                                    .in = s.in,
                                    .out = s.out};
  OK(launch_updates(view, rule, &layer_update, 1, 3, d_work, stream));
  const AtomicFile outputs[OUTPUTS] = {
      {d_z, zs},      {d_y, zs},
      {d_p, zs},      {d_dz, zs},
      {d_fused, zs},  {d_dx, xs},
      {d_masked, xs}, {d_dw, ws},
      {d_db, outs},   {p.w.d, ws},
      {p.b.d, outs},  {p.vw.d, ws},
      {p.vb.d, outs}, {(float *)d_sums, sizeof zero / sizeof(float)},
  };
  memcpy(out, outputs, sizeof outputs);
}

static void test_same_bits_twice(void **state) {
  (void)state;
  needs_gpu();
  static const Shape shapes[] = {{7, 63, 10}, {449, 50, 505}, {200, 785, 301}, {1000, 784, 300}};
  for (size_t i = 0; i < (quick ? 2 : sizeof shapes / sizeof *shapes); i++) {
    const Shape s = shapes[i];
    const Batch batch = make_batch(s.rows, s.in, s.out, s.rows, true, 20);
    AtomicFile first[OUTPUTS], second[OUTPUTS];
    compute_everything(&batch, s, first);
    compute_everything(&batch, s, second);
    for (int o = 0; o < OUTPUTS; o++)
      assert_memory_equal(fetch_floats(first[o].d, first[o].count),
                          fetch_floats(second[o].d, second[o].count),
                          first[o].count * sizeof(float));
    finish();
  }
}

static void refused(cudaError_t status, const char *call, int line) {
  if (status != cudaErrorInvalidValue)
    fail_msg("line %d: %s returned %s", line, call, cudaGetErrorName(status));
}
#define REFUSED(call) refused(call, #call, __LINE__)

typedef struct {
  Batch batch;
  float *d; /* stands for every float array; poisoned, and so it stays */
  RowResults results;
} Arguments;

static void refuse_bookkeeping(const Arguments *a) {
  float *d = a->d;
  uint32_t *d_order = (uint32_t *)d;
  StepState *d_state = (StepState *)d;
  ResultSums *d_sums = (ResultSums *)d;
  REFUSED(launch_order(NULL, 0, 5, 1, 1, stream));
  REFUSED(launch_order(d_order, 0, 0, 1, 1, stream));
  REFUSED(launch_begin(NULL, 0, 5, 0.1f, stream));
  REFUSED(launch_begin(d_state, 0, 0, 0.1f, stream));
  REFUSED(launch_begin(d_state, 6, 5, 0.1f, stream));
  REFUSED(launch_advance(NULL, 5, stream));
  REFUSED(launch_sum(NULL, a->results, 0, 5, stream));
  REFUSED(launch_sum(d_sums, (RowResults){NULL, a->results.d_correct}, 0, 5, stream));
  REFUSED(launch_sum(d_sums, (RowResults){a->results.d_loss, NULL}, 0, 5, stream));
  REFUSED(launch_sum(d_sums, a->results, 6, 5, stream));
}

static void refuse_batches(const Arguments *a) {
  float *d = a->d;
  enum { WAYS = 6 };
  BatchView views[WAYS];
  for (int i = 0; i < WAYS; i++) views[i] = a->batch.view;
  views[0].d_pixels = NULL;
  views[1].d_labels = NULL;
  views[2].d_state = NULL;
  views[3].rows = 0;
  views[4].rows = -1;
  views[5].stride = 17;
  for (int i = 0; i < WAYS; i++) {
    const BatchView view = views[i];
    REFUSED(launch_scale_pixels(view, d, 5, stream));
    REFUSED(launch_cross_entropy(view, d, 5, a->results, stream));
    REFUSED(launch_cross_entropy_gradient(view, d, d, 5, stream));
    REFUSED(launch_update(view, rules[1], d, d, d, 5, stream));
    REFUSED(launch_forward((LayerInput){NULL, view}, d, d, d, 5, 5, 1, 3, stream));
    REFUSED(launch_softmax(view, d, d, 5, a->results, stream));
    REFUSED(launch_head(view, d, d, d, d, d, d, 5, 5, a->results, stream));
    const LayerUpdate layer = {d, d, d, d, d, d, 5, 5};
    REFUSED(launch_updates(view, rules[1], &layer, 1, 3, d, stream));
  }
}

/* Pointer number `missing` is NULL. */
static void refuse_pointers(const Arguments *a, int missing) {
  float *p[6];
  for (int i = 0; i < 6; i++) p[i] = i == missing ? NULL : a->d;
  const BatchView view = a->batch.view;
  const LayerInput input = {a->d, view};
  if (missing < 1) {
    REFUSED(launch_scale_pixels(view, p[0], 5, stream));
    REFUSED(launch_cross_entropy(view, p[0], 5, a->results, stream));
    REFUSED(launch_softmax(view, p[0], a->d, 5, a->results, stream));
  }
  if (missing < 2) {
    REFUSED(launch_add_bias(p[0], p[1], 5, 5, stream));
    REFUSED(launch_relu(p[0], p[1], 5, stream));
    REFUSED(launch_log_softmax(p[0], p[1], 5, 5, stream));
    REFUSED(launch_cross_entropy_gradient(view, p[0], p[1], 5, stream));
    REFUSED(launch_relu_mask(p[0], p[1], 5, stream));
    REFUSED(launch_bias_gradient(p[0], p[1], 5, 5, stream));
  }
  if (missing < 3) {
    REFUSED(launch_gemm(p[0], p[1], p[2], 5, 5, 5, stream));
    REFUSED(launch_backward_gemm(p[0], p[1], p[2], 5, 5, 5, stream));
    REFUSED(launch_weight_gradient(p[0], p[1], p[2], 5, 5, 5, stream));
    REFUSED(launch_update(view, rules[1], p[0], p[1], p[2], 5, stream));
    REFUSED(launch_forward(input, p[0], p[1], p[2], 5, 5, 1, 3, stream));
    REFUSED(launch_forward((LayerInput){NULL, view}, p[0], p[1], p[2], 5, 5, 1, 3, stream));
  }
  if (missing < 3)
    REFUSED(launch_head(view, p[0], p[1], p[2], a->d, a->d, a->d, 5, 5, a->results, stream));
  if (missing < 4) REFUSED(launch_backward(p[0], p[1], p[2], p[3], 5, 5, 5, 3, stream));
  const LayerUpdate layers[] = {{a->d, a->d, a->d, a->d, a->d, a->d, 5, 5},
                                {NULL, p[0], p[1], p[2], p[3], p[4], 5, 5}};
  REFUSED(launch_updates(view, rules[1], layers, 2, 3, p[5], stream));
}

/* Sizes, one of which is 0 or negative. */
static void refuse_sizes(const Arguments *a, int x, int y, int z) {
  float *d = a->d;
  const BatchView view = a->batch.view;
  if (x < 1) {
    REFUSED(launch_scale_pixels(view, d, x, stream));
    REFUSED(launch_cross_entropy(view, d, x, a->results, stream));
    REFUSED(launch_cross_entropy_gradient(view, d, d, x, stream));
    REFUSED(launch_softmax(view, d, d, x, a->results, stream));
  }
  if (x < 1 || y < 1) {
    BatchView rows = view;
    rows.rows = 5;
    REFUSED(launch_add_bias(d, d, x, y, stream));
    REFUSED(launch_log_softmax(d, d, x, y, stream));
    REFUSED(launch_bias_gradient(d, d, x, y, stream));
    REFUSED(launch_forward((LayerInput){d, rows}, d, d, d, x, y, 1, 3, stream));
    REFUSED(launch_forward((LayerInput){NULL, rows}, d, d, d, x, y, 1, 3, stream));
    const LayerUpdate layers[] = {{d, d, d, d, d, d, 5, 5}, {d, d, d, d, d, d, x, y}};
    REFUSED(launch_updates(view, rules[1], layers, 2, 3, d, stream));
  }
  REFUSED(launch_gemm(d, d, d, x, y, z, stream));
  REFUSED(launch_backward_gemm(d, d, d, x, y, z, stream));
  REFUSED(launch_weight_gradient(d, d, d, x, y, z, stream));
  REFUSED(launch_backward(d, d, d, d, x, y, z, 3, stream));
}

static void refuse_epochs(const Arguments *a) {
  const EpochPlan plan = {.shape = {784, 300, 100, 10, 64}, .groups = 1, .tiles = 1, .splits = 1};
  const BatchView view = a->batch.view;
  const EpochJob good = {.d_pixels = view.d_pixels,
                         .d_labels = view.d_labels,
                         .d_order = (uint32_t *)a->d,
                         .stride = view.stride,
                         .end = 5,
                         .d_parameters = a->d,
                         .d_momentum = a->d,
                         .results = a->results,
                         .d_mail = a->d,
                         .first_stamp = 1};
  enum { WAYS = 11 };
  EpochJob jobs[WAYS];
  for (int i = 0; i < WAYS; i++) jobs[i] = good;
  jobs[0].d_pixels = NULL;
  jobs[1].d_labels = NULL;
  jobs[2].d_order = NULL;
  jobs[3].d_parameters = NULL;
  jobs[4].d_momentum = NULL;
  jobs[5].results.d_loss = NULL;
  jobs[6].results.d_correct = NULL;
  jobs[7].d_mail = NULL;
  jobs[8].stride = 17;
  jobs[9].position = good.end;
  jobs[10].first_stamp = 0;
  REFUSED(launch_epoch(NULL, &good, stream));
  REFUSED(launch_epoch(&plan, NULL, stream));
  for (int i = 0; i < WAYS; i++) REFUSED(launch_epoch(&plan, &jobs[i], stream));

  /* Blocks that wait for each other must all be there: a grid that cannot be is never started. */
  EpochPlan vast = plan;
  vast.splits = 1 << 20;
  assert_int_equal(launch_epoch(&vast, &good, stream), cudaErrorCooperativeLaunchTooLarge);
  assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
}

static void test_wrong_arguments_are_refused(void **state) {
  (void)state;
  needs_gpu();
  enum { COUNT = 1000 };
  Arguments a = {.batch = make_batch(7, 5, 2, 7, false, 30), .d = poisoned_floats(COUNT)};
  a.results = poisoned_results(&a.batch);
  refuse_bookkeeping(&a);
  refuse_batches(&a);
  refuse_epochs(&a);
  for (int missing = 0; missing < 6; missing++) refuse_pointers(&a, missing);
  for (int size = -1; size < 1; size++) {
    refuse_sizes(&a, size, 5, 5);
    refuse_sizes(&a, 5, size, 5);
    refuse_sizes(&a, 5, 5, size);
  }
  const BatchView view = a.batch.view;
  REFUSED(launch_cross_entropy(view, a.d, 2, (RowResults){NULL, a.results.d_correct}, stream));
  REFUSED(launch_cross_entropy(view, a.d, 2, (RowResults){a.results.d_loss, NULL}, stream));
  const LayerUpdate layers[MAX_UPDATES + 1] = {{a.d, a.d, a.d, a.d, a.d, a.d, 5, 5}};
  REFUSED(launch_updates(view, rules[1], NULL, 1, 3, a.d, stream));
  REFUSED(launch_updates(view, rules[1], layers, 0, 3, a.d, stream));
  REFUSED(launch_updates(view, rules[1], layers, MAX_UPDATES + 1, 3, a.d, stream));
  for (int terms = 1; terms <= 4; terms += 3) {
    REFUSED(launch_forward((LayerInput){a.d, view}, a.d, a.d, a.d, 5, 5, 1, terms, stream));
    REFUSED(launch_backward(a.d, a.d, a.d, a.d, 5, 5, 5, terms, stream));
    REFUSED(launch_updates(view, rules[1], layers, 1, terms, a.d, stream));
  }
  REFUSED(launch_head(view, a.d, a.d, a.d, NULL, a.d, NULL, 5, 5, a.results, stream));
  REFUSED(launch_head(view, a.d, a.d, a.d, NULL, NULL, a.d, 5, 5, a.results, stream));
  REFUSED(launch_head(view, a.d, a.d, a.d, NULL, a.d, a.d, 257, 5, a.results, stream));
  REFUSED(launch_head(view, a.d, a.d, a.d, NULL, a.d, a.d, 5, 17, a.results, stream));
  REFUSED(launch_relu(a.d, a.d, 0, stream));
  REFUSED(launch_relu_mask(a.d, a.d, 0, stream));
  REFUSED(launch_update(view, rules[1], a.d, a.d, a.d, 0, stream));
  assert_true(is_poison(fetch_floats(a.d, COUNT), COUNT * sizeof(float)));
  assert_true(is_poison(fetch_floats(a.results.d_loss, a.batch.state.end),
                        a.batch.state.end * sizeof(float)));
  assert_int_equal(cudaGetLastError(), cudaSuccess);
  finish();
}

static int open_device(void **state) {
  (void)state;
  int devices = 0;
  quick = getenv("TEST_QUICK") != NULL;
  if (quick) guard = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 0;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
      cudaMalloc(&d_work, update_work_bytes()) != cudaSuccess ||
      cudaMemsetAsync(d_work, 0, update_work_bytes(), stream) != cudaSuccess)
    return -1;
  if (quick) return 0;
  return cublasCreate(&cublas) != CUBLAS_STATUS_SUCCESS ||
         cublasSetMathMode(cublas, CUBLAS_PEDANTIC_MATH) != CUBLAS_STATUS_SUCCESS ||
         cublasSetStream(cublas, stream) != CUBLAS_STATUS_SUCCESS;
}

static int close_device(void **state) {
  (void)state;
  if (cublas) cublasDestroy(cublas);
  cudaFree(d_work);
  if (stream) cudaStreamDestroy(stream);
  return 0;
}

#define TEST(function) cmocka_unit_test_teardown(function, release)

int main(void) {
  static const struct CMUnitTest tests[] = {
      TEST(test_order),
      TEST(test_begin_and_advance),
      TEST(test_sum),
      TEST(test_scale_pixels),
      TEST(test_add_bias),
      TEST(test_relu_and_mask),
      TEST(test_product_and_forward),
      TEST(test_forward_pixels),
      TEST(test_backward),
      TEST(test_gradient_and_update),
      TEST(test_gradient_and_update_of_pixels),
      TEST(test_updates_of_many_layers),
      TEST(test_update),
      TEST(test_no_step_updates_nothing),
      TEST(test_softmax_unfused),
      TEST(test_softmax_fused),
      TEST(test_softmax_in_head),
      TEST(test_head_products),
      TEST(test_same_bits_twice),
      TEST(test_wrong_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

#else

static void test_kernels(void **state) {
  (void)state;
  print_message("this build is without CUDA\n");
  skip();
}

int main(void) {
  static const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
