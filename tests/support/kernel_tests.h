/* Shared by the tests of kernels.h: guarded device memory, equal values on host and device, shapes,
   batches of stored rows, and how far a result may be from the float64 reference.

   Every buffer that a kernel reads or writes lies between two guard zones. Buffer and zones are
   poisoned first: every byte is 0xFF. Four such bytes are a NaN as a float. So a value that was not
   written, or was computed from bytes outside of an input, is NaN and fails every comparison.
   finish() checks that no kernel wrote to a guard zone.

   If the environment variable TEST_QUICK is set, as for compute-sanitizer, only small shapes are
   tested. Then there are no guard zones, since memcheck finds the first byte out of bounds. */
#pragma once

#include "base/random.h"
#include "base/sizes.h"
#include "kernels.h"
#include "support/cuda_only.h"
#include "support/network_reference.h"

static cudaStream_t stream;
static void *d_work; /* work memory of all launches that update, as in an engine */

/* ---- guarded memory ------------------------------------------------------------------------- */

enum { POISON = 0xFF, MAX_GUARD = 1024, MAX_BLOCKS = 1024 };

static size_t guard = MAX_GUARD;

static struct {
  uint8_t *d_start; /* the first guard zone; the data and the second guard zone follow */
  size_t bytes;     /* size of the data */
} blocks[MAX_BLOCKS];
static int block_count;

/* Returns uninitialized host memory, which finish() frees. */
static inline void *host(size_t bytes) {
  return keep(malloc(bytes));
}

static inline double *host_doubles(size_t count) {
  return host(count * sizeof(double));
}

static inline double *copy_of(const double *values, size_t count) {
  return memcpy(host_doubles(count), values, count * sizeof *values);
}

/* Returns poisoned device memory between guard zones. finish() frees the memory. */
static inline void *poisoned(size_t bytes) {
  assert_true(block_count < MAX_BLOCKS);
  uint8_t *d_start = NULL;
  CUDA_OK(cudaMalloc((void **)&d_start, bytes + 2 * guard));
  blocks[block_count].d_start = d_start;
  blocks[block_count++].bytes = bytes;
  CUDA_OK(cudaMemsetAsync(d_start, POISON, bytes + 2 * guard, stream));
  return d_start + guard;
}

static inline float *poisoned_floats(size_t count) {
  return poisoned(count * sizeof(float));
}

static inline void *to_device(const void *data, size_t bytes) {
  void *d_data = poisoned(bytes);
  CUDA_OK(cudaMemcpyAsync(d_data, data, bytes, cudaMemcpyHostToDevice, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  return d_data;
}

/* Waits for the stream and returns a copy on the host, which finish() frees. */
static inline void *fetch(const void *d_data, size_t bytes) {
  void *copy = host(bytes);
  CUDA_OK(cudaMemcpyAsync(copy, d_data, bytes, cudaMemcpyDeviceToHost, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  return copy;
}

static inline float *fetch_floats(const float *d_data, size_t count) {
  return fetch(d_data, count * sizeof(float));
}

static inline bool is_poison(const void *data, size_t bytes) {
  const uint8_t *byte = data;
  for (size_t i = 0; i < bytes; i++)
    if (byte[i] != POISON) return false;
  return true;
}

static inline FIXTURE(kernels_release) {
  while (block_count > 0) cudaFree(blocks[--block_count].d_start);
  free_kept();
  return 0;
}

/* Ends a case: checks that no guard zone was written, and frees all memory of the case. */
static inline void finish(void) {
  CUDA_OK(cudaStreamSynchronize(stream));
  for (int b = 0; b < block_count; b++) {
    uint8_t before[MAX_GUARD], after[MAX_GUARD];
    const uint8_t *d_start = blocks[b].d_start;
    CUDA_OK(cudaMemcpy(before, d_start, guard, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaMemcpy(after, d_start + guard + blocks[b].bytes, guard, cudaMemcpyDeviceToHost));
    if (!is_poison(before, guard) || !is_poison(after, guard))
      fail_msg("a kernel wrote outside buffer %d of this case, of %zu bytes", b, blocks[b].bytes);
  }
  kernels_release(NULL);
}

/* ---- fixtures ------------------------------------------------------------------------------- */

/* The fixtures around all tests of a program. */
static inline FIXTURE(kernels_open) {
  int devices = 0;
  if (quick() && !ON_EMULATOR) guard = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 0;
  return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
         cudaMalloc(&d_work, update_work_bytes()) != cudaSuccess ||
         cudaMemsetAsync(d_work, 0, update_work_bytes(), stream) != cudaSuccess;
}

static inline FIXTURE(kernels_close) {
  cudaFree(d_work);
  if (stream) cudaStreamDestroy(stream);
  return 0;
}

/* Defines a test that needs a GPU and ends with finish(). */
#define KERNEL_TEST(name)                                                                          \
  static void on_gpu_##name(void);                                                                 \
  TEST_WITH(name, NULL, kernels_release) {                                                         \
    needs_gpu();                                                                                   \
    on_gpu_##name();                                                                               \
    finish();                                                                                      \
  }                                                                                                \
  static void on_gpu_##name(void)

/* Defines a test that calls walk(check). `walk` is, for example, for_all_shapes or for_many_layers.
   The macro's last arguments are the parameters of `check`. */
#define WALK_TEST(name, walk, check, ...)                                                          \
  static void check(__VA_ARGS__);                                                                  \
  KERNEL_TEST(name) {                                                                              \
    walk(check);                                                                                   \
  }                                                                                                \
  static void check(__VA_ARGS__)

/* LAUNCH checks that launch_<name> returns cudaSuccess. REFUSED checks that it returns
   cudaErrorInvalidValue. */
#define LAUNCH(name, ...) CUDA_OK(launch_##name(__VA_ARGS__, stream))
#define REFUSED(name, ...) CUDA_REFUSED(launch_##name(__VA_ARGS__, stream))

/* ---- values --------------------------------------------------------------------------------- */

/* The same values twice: as float64 on the host and as float32 on the device. */
typedef struct {
  double *host;
  float *d;
} Values;

/* Rounds `values` in place to float32 values and copies them to the device. */
static inline Values both_sides(double *values, size_t count) {
  float *rounded = host(count * sizeof *rounded);
  reference_to_float(values, count, rounded);
  reference_to_double(rounded, count, values);
  return (Values){values, to_device(rounded, count * sizeof *rounded)};
}

static inline Values values_between(double low, double high, size_t count, uint64_t seed) {
  double *values = host_doubles(count);
  reference_fill(values, count, low, high, seed);
  return both_sides(values, count);
}

/* Returns values of both signs, most of them positive, so that sums of their products are seldom
   near 0. (A relative error near 0 means nothing.) */
static inline Values random_values(size_t count, uint64_t seed) {
  return values_between(-0.25, 1, count, seed);
}

/* Returns values of both signs. Every fifth value is 0 or -0. */
static inline Values signed_values(size_t count, uint64_t seed) {
  double *values = host_doubles(count);
  reference_fill(values, count, -1, 1, seed);
  for (size_t i = 0; i < count; i += 5) values[i] = i % 2 ? 0.0 : -0.0;
  return both_sides(values, count);
}

typedef struct {
  int rows, in, out;
} Shape;

/* The numbers of values in a layer's input, output and weights. */
#define x_count(s) area((s).rows, (s).in)
#define z_count(s) area((s).rows, (s).out)
#define w_count(s) area((s).out, (s).in)

/* ---- comparisons ---------------------------------------------------------------------------- */

/* Returns the allowed relative error, in the Euclidean norm, of a float32 sum of `terms` products
   that is rounded `others` more times. When products are added one by one, the k-th rounding error
   is up to 2^-24 of the k-th partial sum. The errors are almost random, so their squares add. The
   measured error of plain loops is a quarter of sqrt(terms) 2^-24. Each further rounding adds up to
   2^-24, and all may have the same sign. A tf32 kernel exceeds the bound, which is 4e-6 for 4096
   terms: it rounds each factor by up to 2^-11, so its error is 2e-4 for any number of terms. */
static inline double bound(int terms, int others) {
  return (sqrt(terms) + others) * 0x1p-24;
}

/* Returns the bound for a kernel on tensor cores that splits floats into sums of fp16 or bf16
   terms. `split` is the relative error of the splits. Tensor cores add 16 products at once and
   truncate the sum (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores",
   2021). So errors have the same sign and grow with `terms`. If sums keep 2 bits more than float32,
   the error should be terms * 2^-24 / 15. The bound allows terms * 2^-24 / 4. If `terms` is small,
   a kernel that uses tf32 by mistake exceeds the bound. */
static inline double split_bound(double split, int terms, int others) {
  return bound(terms, others) + terms / 4.0 * 0x1p-24 + split;
}

/* The relative error of a product of two floats, each split into `terms` bf16 or fp16 numbers. A
   sum of two bf16 is within 2^-18 of the float, a sum of three is exact. A sum of two fp16 is
   within 2^-22, a single fp16 within 2^-11. To skip the product of the last terms adds as much. */
#define bf16_split(terms) ((terms) == 2 ? 3 * 0x1p-18 : 0)
#define fp16_split(terms) ((terms) == 2 ? 3 * 0x1p-22 : 2 * 0x1p-11)

enum { GEMM_ROUNDING = 1, PIXEL_ROUNDINGS = 2, BIAS_ROUNDING = 1, UPDATE_ROUNDINGS = 4 };

/* Checks that the relative error is at most `limit`, in the Euclidean norm. */
static inline void assert_near(const char *what, Shape s, const float *d_out,
                               const double *expected, size_t count, double limit) {
  const double off = reference_relative_error(fetch_floats(d_out, count), expected, count);
  if (!(off <= limit))
    fail_msg("%s, rows %d, in %d, out %d: relative error %.3g, allowed %.3g", what, s.rows, s.in,
             s.out, off, limit);
}

static inline void assert_exact(const float *d_out, const float *expected, size_t count) {
  const float *out = fetch_floats(d_out, count);
  for (size_t i = 0; i < count; i++)
    if (!(out[i] == expected[i]))
      fail_msg("value %zu is %.9g, not %.9g", i, (double)out[i], (double)expected[i]);
}

/* Checks that the values on the device still equal the values on the host. */
static inline void assert_untouched(Values v, size_t count) {
  float *before = host(count * sizeof *before);
  reference_to_float(v.host, count, before);
  assert_memory_equal(fetch_floats(v.d, count), before, count * sizeof *before);
}

/* Checks that two arrays on the device have the same bytes. */
static inline void assert_same_arrays(const void *d_a, const void *d_b, size_t bytes) {
  assert_memory_equal(fetch(d_a, bytes), fetch(d_b, bytes), bytes);
}

/* Checks that an array on the device is still poisoned. */
static inline void assert_unwritten(const void *d_data, size_t bytes) {
  assert_true(is_poison(fetch(d_data, bytes), bytes));
}

typedef void CheckShape(Shape s, uint64_t seed);

/* Calls `compute` twice. Checks that both calls leave the same bytes in the device memory that they
   allocate. Then calls finish(). */
static inline void assert_same_bits_twice(CheckShape *compute, Shape s, uint64_t seed) {
  const int first = block_count;
  compute(s, seed);
  const int count = block_count - first;
  compute(s, seed);
  assert_int_equal(block_count - first, 2 * count);
  for (int b = first; b < first + count; b++) {
    assert_int_equal(blocks[b].bytes, blocks[b + count].bytes);
    assert_same_arrays(blocks[b].d_start + guard, blocks[b + count].d_start + guard,
                       blocks[b].bytes);
  }
  finish();
}

/* ---- the reference's gemms ------------------------------------------------------------------ */

/* Number of rows that a thread computes at a time. */
enum { RUN = 16 };

static inline double *expect_input_gradient(const double *dz, const double *w, Shape s) {
  double *dx = host_doubles(x_count(s));
#pragma omp parallel for schedule(dynamic)
  for (int r = 0; r < s.rows; r += RUN)
    reference_input_gradient(dz + area(r, s.out), w, min_int(RUN, s.rows - r), s.in, s.out,
                             dx + area(r, s.in));
  return dx;
}

/* Returns a new array: z with b added to each row and, if `activates`, with ReLU applied. */
static inline double *add_bias(const double *z, const double *b, Shape s, bool activates) {
  double *y = copy_of(z, z_count(s));
  for (size_t i = 0; i < z_count(s); i++) y[i] += b[i % (size_t)s.out];
  if (activates) reference_activate(y, z_count(s));
  return y;
}

/* ---- a batch of stored rows ----------------------------------------------------------------- */

typedef struct {
  BatchView view;
  StepState state;
  uint8_t *pixels; /* pixels, labels and order are host copies of the device arrays in `view` */
  uint16_t *labels;
  uint32_t *order;
  uint32_t dataset_rows;
  int filled; /* number of the batch's rows that belong to the step */
} Batch;

enum { OFFSET = 3, UPDATES = 5, FIRST_ROW = 4 };

static const float learning_rate = 0.001f; /* the learning rate in every batch's state */

/* Returns the dataset index of row r of the batch. */
static inline uint32_t batch_row(const Batch *b, int r) {
  uint32_t p = b->state.position + OFFSET + (uint32_t)r;
  if (p >= b->state.end) p = b->state.end - 1;
  return b->view.d_order ? b->order[p] : FIRST_ROW + p;
}

/* Returns a batch. `left` is the number of rows from the step's first row to the end of the range.
   If `left` is 0 or less, the step has no rows. Rows are in shuffled or ascending order. Random
   pixels fill the whole stride, so that the bytes after a row's inputs are not all 0. */
static inline Batch make_batch(int rows, int in, int classes, int left, bool shuffled,
                               uint64_t seed) {
  const uint32_t end = (uint32_t)rows + 50;
  assert_true(left <= rows + 30);
  Batch b = {.dataset_rows = end + FIRST_ROW + 3};
  b.state = (StepState){(uint32_t)((int)end - OFFSET - left), end, learning_rate, UPDATES, 1, {0}};
  b.filled = min_int(max_int(left, 0), rows);
  const size_t stride = round_up((size_t)in, 16);
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

/* Returns the batch's view with the optimizer rule `rule` in its state. */
static inline BatchView with_rule(const Batch *b, OptimizerRule rule) {
  StepState state = b->state;
  BatchView view = b->view;
  state.rule = rule;
  view.d_state = to_device(&state, sizeof state);
  return view;
}

static inline BatchView with_momentum(const Batch *b, UpdateRule rule) {
  return with_rule(b,
                   (OptimizerRule){.momentum = rule.momentum, .weight_decay = rule.weight_decay});
}

/* Returns a batch of ten classes. The last third of its rows does not belong to the step. Its rows
   are shuffled for every second shape of for_all_shapes(). */
static inline Batch short_batch(Shape s, uint64_t seed) {
  return make_batch(s.rows, s.in, 10, s.rows - s.rows / 3, seed % 2000 == 0, seed);
}

/* Returns the batch's input, (rows, in), in float64. */
static inline double *batch_input(const Batch *b, int in) {
  double *x = host_doubles(area(b->view.rows, in));
  for (int r = 0; r < b->view.rows; r++)
    reference_scale((PixelScale){0}, b->pixels + batch_row(b, r) * b->view.stride, in,
                    x + area(r, in));
  return x;
}

static inline RowResults poisoned_results(const Batch *b) {
  return (RowResults){poisoned_floats(b->state.end), poisoned(b->state.end)};
}

/* ---- planes --------------------------------------------------------------------------------- */

static inline size_t plane_bytes(Planes p) {
  return (size_t)p.terms * p.plane * sizeof *p.d;
}

/* Returns poisoned planes, so that a value that is read before it is written is NaN. `largest` is
   the largest absolute value that the planes will hold. */
static inline Planes make_planes(int terms, int rows, int columns, double largest) {
  const float scale = (float)exp2(12 - ilogb(largest));
  const uint32_t overflowed = 0;
  Planes p = {.plane = (size_t)rows * planes_pitch(columns),
              .terms = terms,
              .rows = rows,
              .columns = columns,
              .d_scale = to_device(&scale, sizeof scale),
              .d_overflowed = to_device(&overflowed, sizeof overflowed)};
  p.d = poisoned(plane_bytes(p));
  return p;
}

/* ---- a layer -------------------------------------------------------------------------------- */

/* The data of a forward pass of a layer. */
typedef struct {
  Batch batch;
  LayerInput input; /* the pixels of `batch`, or the float input x.d */
  Values x, w, b;   /* if the input is pixels, x holds the scaled pixels */
  double *z;        /* (rows, out): the reference's product of x and w, without b */
  int roundings;    /* roundings of an output value besides its sum's: `others` of bound() */
} Forward;

/* Makes a layer's data. If the input is pixels, the last third of the rows does not belong to the
   step. z is computed from scaled pixels that are not rounded to float32. */
static inline Forward make_forward(Shape s, bool pixels, uint64_t seed) {
  const size_t count = x_count(s);
  Forward f = {.batch = short_batch(s, seed),
               .w = random_values(w_count(s), seed + 1),
               .b = signed_values((size_t)s.out, seed + 2),
               .roundings = GEMM_ROUNDING + BIAS_ROUNDING + (pixels ? PIXEL_ROUNDINGS : 0)};
  double *x = pixels ? batch_input(&f.batch, s.in) : random_values(count, seed).host;
  f.z = host_doubles(z_count(s));
#pragma omp parallel for schedule(dynamic)
  for (int r = 0; r < s.rows; r += RUN)
    reference_linear(x + area(r, s.in), f.w.host, NULL, min_int(RUN, s.rows - r), s.in, s.out,
                     f.z + area(r, s.out));
  f.x = both_sides(x, count);
  f.input = pixels ? (LayerInput){NULL, f.batch.view} : (LayerInput){f.x.d, {.rows = s.rows}};
  return f;
}

/* A layer's parameters (w and b) and their momenta (vw and vb). Parameters are from 1 to 2, so that
   an update, which changes them by less than 1, does not make them 0. */
typedef struct {
  Values w, b, vw, vb;
} Parameters;

static inline Parameters random_parameters(Shape s, uint64_t seed) {
  const size_t weights = w_count(s), out = (size_t)s.out;
  return (Parameters){values_between(1, 2, weights, seed), values_between(1, 2, out, seed + 1),
                      random_values(weights, seed + 2), random_values(out, seed + 3)};
}

enum { RULES = 3 };
static const UpdateRule rules[RULES] = {{0.0f, 0.0f}, {0.9f, 0.0f}, {0.9f, 0.05f}};

/* Checks that w and v on the device are near the reference's w and v after an update by gradient g.
   Each array has `count` values. */
static inline void assert_updated(const char *what, Shape s, Values w, Values v, const double *g,
                                  size_t count, UpdateRule rule, double limit) {
  double *new_w = copy_of(w.host, count), *new_v = copy_of(v.host, count);
  reference_update(new_w, new_v, g, count, (double)rule.momentum, (double)rule.weight_decay,
                   (double)learning_rate);
  assert_near(what, s, v.d, new_v, count, limit);
  assert_near(what, s, w.d, new_w, count, limit);
}

/* A layer to be updated, with its input, its output gradient and the expected gradient. */
typedef struct {
  Shape shape;
  bool pixels;     /* true if the input is the batch's pixels */
  Values x, dz;    /* input (see Forward); output gradient, 0 from row batch->filled on */
  double *dw, *db; /* the reference's gradients of w and b */
  Parameters p;
} Layer;

/* Makes a layer whose parameters are random_parameters(s, seed + 2). */
static inline Layer make_layer(const Batch *batch, Shape s, bool pixels, uint64_t seed) {
  Layer l = {.shape = s, .pixels = pixels};
  l.x = pixels ? both_sides(batch_input(batch, s.in), x_count(s)) : random_values(x_count(s), seed);
  double *dz = host_doubles(z_count(s));
  reference_fill(dz, z_count(s), -0.25, 1, seed + 1);
  for (size_t i = area(batch->filled, s.out); i < z_count(s); i++) dz[i] = 0;
  l.dz = both_sides(dz, z_count(s));
  double *transposed = host_doubles(z_count(s)); /* dZ^T, with which
                                                    expect_input_gradient computes dW = dZ^T X */
  for (int r = 0; r < s.rows; r++)
    for (int o = 0; o < s.out; o++) transposed[cell(o, s.rows, r)] = dz[cell(r, s.out, o)];
  l.dw = expect_input_gradient(transposed, l.x.host, (Shape){s.out, s.in, s.rows});
  l.db = host_doubles((size_t)s.out);
  reference_bias_gradient(l.dz.host, s.rows, s.out, l.db);
  l.p = random_parameters(s, seed + 2);
  return l;
}

/* Checks W, b and their momenta after an update. See split_bound about `split`. */
static inline void assert_layer_updated(const char *what, const Layer *l, UpdateRule rule,
                                        double split) {
  const Shape s = l->shape;
  const UpdateRule bias_rule = {rule.momentum, 0};
  const double limit = split_bound(
      split, s.rows, GEMM_ROUNDING + UPDATE_ROUNDINGS + (l->pixels ? PIXEL_ROUNDINGS : 0));
  assert_updated(what, s, l->p.w, l->p.vw, l->dw, w_count(s), rule, limit);
  assert_updated("bias", s, l->p.b, l->p.vb, l->db, (size_t)s.out, bias_rule, limit);
}

static inline void assert_layer_untouched(const Layer *l) {
  const size_t weights = w_count(l->shape), out = (size_t)l->shape.out;
  assert_untouched(l->p.w, weights);
  assert_untouched(l->p.vw, weights);
  assert_untouched(l->p.b, out);
  assert_untouched(l->p.vb, out);
}

/* Checks that the gradient in *stored is near the reference's gradient. */
static inline void assert_layer_gradient(const char *what, const Layer *l,
                                         const LayerUpdate *stored, double limit) {
  const Shape s = l->shape;
  assert_near(what, s, stored->d_gw, l->dw, w_count(s), limit);
  assert_near("its bias", s, stored->d_gb, l->db, (size_t)s.out, limit);
}

/* update_of returns the argument that makes a launcher update the layer. gradient_of returns the
   argument that makes a launcher only store the gradient, in new arrays. */
static inline LayerUpdate update_of(const Layer *l) {
  return (LayerUpdate){.d_x = l->pixels ? NULL : l->x.d,
                       .d_dz = l->dz.d,
                       .d_w = l->p.w.d,
                       .d_b = l->p.b.d,
                       .d_vw = l->p.vw.d,
                       .d_vb = l->p.vb.d,
                       .in = l->shape.in,
                       .out = l->shape.out};
}

static inline LayerUpdate gradient_of(const Layer *l) {
  LayerUpdate u = update_of(l);
  u.d_w = u.d_b = u.d_vw = u.d_vb = NULL;
  u.d_gw = poisoned_floats(area(u.out, u.in));
  u.d_gb = poisoned_floats((size_t)u.out);
  return u;
}

/* ---- shapes --------------------------------------------------------------------------------- */

/* Shapes chosen by hand. RANDOM_SHAPES random shapes are tested, too. With TEST_QUICK, only the
   first QUICK_SHAPES of the list are tested. Kernels read four values at once if a size is a
   multiple of 4, and use tiles of 64 x 64 if there are at least 64 such tiles. The list has shapes
   with more and with fewer tiles, forward (rows, out) and backward (rows, in), and with partial
   tiles at the edges. Some shapes, all with multiples of 4, use medium tiles. */
enum { QUICK_SHAPES = 9, RANDOM_SHAPES = 24 };
static const Shape listed[] = {
    {1, 1, 1},        {1, 63, 65},    {7, 63, 65},    {65, 50, 10},     {61, 20, 36},
    {7, 132, 68},     {130, 65, 33},  {449, 5, 505},  {449, 504, 8},    {448, 37, 576},
    {449, 37, 512},   {448, 576, 37}, {449, 512, 37}, {448, 570, 570},  {449, 505, 449},
    {4032, 64, 64},   {4033, 63, 65}, {1, 33, 4033},  {65, 2000, 2017}, {128, 784, 1000},
    {128, 1000, 500}, {64, 17, 4096}, {63, 4096, 17}, {1, 784, 300},    {200, 785, 301},
    {1000, 784, 300}, {1000, 1, 1},   {1000, 63, 65},
};

/* Returns a random number from low to high, both included. */
static inline int pick(uint64_t counter, int word, int low, int high) {
  const RandomWords w = random_words(2024, 0, counter);
  return low + (int)(w.word[word] % (uint32_t)(high - low + 1));
}

/* For each shape, calls check_shape(shape, *seed) and finish(), then adds 1000 to *seed. */
static inline void for_shapes(const Shape *shapes, size_t count, CheckShape *check_shape,
                              uint64_t *seed) {
  for (size_t i = 0; i < count; i++, *seed += 1000) {
    check_shape(shapes[i], *seed);
    finish();
  }
}

/* Calls for_shapes with all listed and random shapes or, with TEST_QUICK, only QUICK_SHAPES. */
static inline void for_all_shapes(CheckShape *check_shape) {
  uint64_t seed = 0;
  for_shapes(listed, quick() ? QUICK_SHAPES : LENGTH(listed), check_shape, &seed);
  for (uint64_t i = 0; i < (quick() ? 0 : RANDOM_SHAPES); i++)
    for_shapes(&(Shape){pick(i, 0, 1, 300), pick(i, 1, 1, 900), pick(i, 2, 1, 400)}, 1, check_shape,
               &seed);
}

/* Calls `check`, then finish(), for batches of 7 to 1500 rows. Each call gets MAX_UPDATES layers of
   different widths, the most that one launch may update. */
static inline void for_many_layers(void (*check)(const Batch *batch, const Layer *layers)) {
  static const int batch_rows[] = {7, 65, 449, 1500};
  static const int widths[MAX_UPDATES + 1] = {50, 333, 68, 207, 132, 1, 2, 165, 10};
  for (size_t b = 0; b < LENGTH(batch_rows) - ON_EMULATOR; b++) {
    const int rows = batch_rows[b];
    const Batch batch = make_batch(rows, widths[0], 10, rows, true, 40);
    Layer layers[MAX_UPDATES];
    for (int n = 0; n < MAX_UPDATES; n++)
      layers[n] =
          make_layer(&batch, (Shape){rows, widths[n], widths[n + 1]}, n == 0, 100 * (uint64_t)n);
    check(&batch, layers);
    finish();
  }
}
