/* Tests softmax, cross-entropy and their gradient: unfused, fused, and in the last layer's kernel.
   Compares with the float64 reference for logits that overflow, underflow and tie. */
#include "support/kernel_tests.h"

/* A logit is scale * u + offset, with u uniform in [-1, 1). In row r, class r % classes takes scale
   and offset from `peak`, the other classes from `usual`. If `tied`, the same two classes take them
   from `peak` in all rows. */
typedef struct {
  double scale, offset;
} Line;
static const struct {
  Line usual, peak;
  double slope; /* c * slope is added to the logit of class c */
  bool tied;
} kinds[] = {
    {{3, 0}, {3, 0}, 0, false},
    {{1e4, 0}, {1e4, 0}, 0, false},
    {{500, -1000}, {500, -1000}, 0, false}, /* a kernel whose running maximum starts at 0 fails */
    {{0, -3.25}, {0, -3.25}, 0, false},
    {{1, 0}, {0, 60}, 0, false},
    {{0, -1e30}, {1, 0}, 0, false},
    {{0, -1e30}, {0, -1e30}, 0, false},
    {{0.001, 0}, {0.001, 0}, 0.01, false}, /* the running maximum grows at every class */
    {{1, 0}, {0, 2}, 0, true},
};

/* Returns a logit. If `tied`, class 1 and class 32 (without class 32: the last class) have the
   largest logit. Lane c % 32 of a warp reads class c, so lane 0 reads class 32, the later class. */
static double logit(size_t kind, int r, int c, int classes, double u) {
  const bool ties = c == 1 || c == (classes > 32 ? 32 : classes - 1);
  const bool peaks = kinds[kind].tied ? ties : c == r % classes;
  const Line line = peaks ? kinds[kind].peak : kinds[kind].usual;
  return line.scale * u + line.offset + kinds[kind].slope * c;
}

/* Returns the class with the largest logit: the first such class or, if `last`, the last one. */
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
  double *log_p; /* log-probabilities (rows, classes), in float64 */
} SoftmaxCase;

/* Subtracts a row's largest logit first. A logit of -1e30 minus log(sum) would round to -1e30. */
static double *log_softmax(const double *z, int rows, int classes) {
  double *log_p = copy_of(z, area(rows, classes));
  for (int r = 0; r < rows; r++) {
    double *row = log_p + area(r, classes), sum = 0;
    const double top = row[largest(row, classes, false)];
    for (int c = 0; c < classes; c++) sum += exp(row[c] -= top);
    for (int c = 0; c < classes; c++) row[c] -= log(sum);
  }
  return log_p;
}

/* The label of rows 0, 4, ... is the first class with the largest logit. The label of rows 1, 5,
   ... is the last such class. Other labels are random. */
static SoftmaxCase make_softmax_case(size_t kind, int rows, int classes, int left, bool shuffled) {
  const uint64_t seed = kind + 100;
  SoftmaxCase s = {.batch = make_batch(rows, 16, classes, left, shuffled, seed),
                   .classes = classes};
  double *z = host_doubles(area(rows, classes));
  reference_fill(z, area(rows, classes), -1, 1, seed + 1);
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < classes; c++) {
      double *value = &z[cell(r, classes, c)];
      *value = logit(kind, r, c, classes, *value);
    }
  s.z = both_sides(z, area(rows, classes));
  s.log_p = log_softmax(z, rows, classes);
  uint16_t *labels = s.batch.labels;
  for (int r = 0; r < s.batch.filled; r++)
    if (r % 4 < 2)
      labels[batch_row(&s.batch, r)] = (uint16_t)largest(z + area(r, classes), classes, r % 4 == 1);
  s.batch.view.d_labels = to_device(labels, s.batch.dataset_rows * sizeof *labels);
  return s;
}

/* Returns the allowed absolute error of a log-probability or loss of this value. Kernels compute it
   as (z - max) - log(sum), and both subtractions round relative to the value. A relative error of
   the sum becomes an absolute error of log(sum). The sum's additions cause sqrt(classes) * 2^-24.
   Another 32 * 2^-24 covers three errors: of expf and logf (2 and 1 units in the last place by the
   CUDA manual), of rounding log(sum), which is at most 7, and of rescaling an online sum. A kernel
   that computes log(max(p, 1e-6)) has an error that is larger by orders of magnitude. */
static double log_tolerance(double value, int classes) {
  return (4 * fabs(value) + 32 + sqrt(classes)) * 0x1p-24;
}

static void assert_within(const char *what, const SoftmaxCase *s, int r, int c, double value,
                          double expected, double tolerance) {
  if (!(fabs(value - expected) <= tolerance))
    fail_msg("%s, %d classes, row %d, class %d: %.9g, not %.9g, allowed +-%.3g", what, s->classes,
             r, c, value, expected, tolerance);
}

/* The error of p is p times the error of log p, which log_tolerance() bounds. Its term 4 |log p|
   times p is at most 4 / e, so this function uses 4 in its place. */
static void assert_gradient(const char *what, const SoftmaxCase *s, const float *d_dz) {
  const int rows = s->batch.view.rows, filled = s->batch.filled;
  const float *dz = fetch_floats(d_dz, area(rows, s->classes));
  const double unit = 0x1p-24 / (filled ? filled : 1);
  for (int r = 0; r < rows; r++) {
    const int label = s->batch.labels[batch_row(&s->batch, r)];
    for (int c = 0; c < s->classes; c++) {
      const size_t i = cell(r, s->classes, c);
      const double p = exp(s->log_p[i]);
      const double expected = r < filled ? (p - (c == label)) / filled : 0;
      const double allowed = r < filled ? unit * (4 + p * (32 + sqrt(s->classes))) : 0;
      assert_within(what, s, r, c, (double)dz[i], expected, allowed);
    }
  }
}

/* A row is correct if its label is the first class with the row's largest value in `ranking`. */
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
    const double expected = -s->log_p[cell(r, s->classes, label)];
    assert_within(what, s, r, label, (double)loss[p], expected,
                  log_tolerance(expected, s->classes));
    reference_to_double(ranking + area(r, s->classes), (size_t)s->classes, row);
    assert_int_equal(correct[p], largest(row, s->classes, false) == label);
  }
}

/* Three ways to compute the loss and the gradient of the logits: several kernels (level none), one
   kernel (level layer), or the kernel of the whole last layer, if that layer is small. */
enum { UNFUSED, FUSED, HEAD, WAYS };
static const char *const names[WAYS] = {"cross_entropy", "softmax", "head"};

typedef struct {
  float *d_dz[WAYS]; /* (rows, classes) each */
  float *d_p, *d_dx; /* d_p: log-probabilities of UNFUSED; d_dx: input gradient of HEAD */
} Outputs;

/* Runs the last layer's kernel with weights that make the logits equal the input, bit for bit. */
static void run_head(BatchView view, const float *d_z, int classes, float *d_logits, float *d_dz,
                     float *d_dx, RowResults results) {
  const size_t count = area(classes, classes);
  double *w = host_doubles(count), *b = host_doubles((size_t)classes);
  for (size_t i = 0; i < count; i++) w[i] = i % ((size_t)classes + 1) == 0;
  for (int c = 0; c < classes; c++) b[c] = 0;
  const Values weights = both_sides(w, count), biases = both_sides(b, (size_t)classes);
  LAUNCH(head, view, d_z, weights.d, biases.d, d_logits, d_dz, d_dx, classes, classes, (Dropout){0},
         results);
}

/* Runs all ways on the logits d_z (rows, classes). Writes losses and correct rows to `results`.
   Returns new arrays with the gradients. */
static Outputs run_ways(BatchView view, const float *d_z, int classes,
                        const RowResults results[WAYS]) {
  const size_t count = area(view.rows, classes);
  Outputs o = {.d_p = poisoned_floats(count), .d_dx = poisoned_floats(count)};
  for (int way = 0; way < WAYS; way++) o.d_dz[way] = poisoned_floats(count);
  LAUNCH(log_softmax, d_z, o.d_p, view.rows, classes);
  LAUNCH(cross_entropy, view, o.d_p, classes, results[UNFUSED]);
  LAUNCH(cross_entropy_gradient, view, o.d_p, o.d_dz[UNFUSED], classes);
  LAUNCH(softmax, view, d_z, o.d_dz[FUSED], classes, results[FUSED]);
  if (head_takes(classes, classes))
    run_head(view, d_z, classes, NULL, o.d_dz[HEAD], o.d_dx, results[HEAD]);
  return o;
}

#define NEW_RESULTS(batch)                                                                         \
  { poisoned_results(batch), poisoned_results(batch), poisoned_results(batch) }

static void check_ways(const SoftmaxCase *s, const float *z) {
  const size_t classes = (size_t)s->classes, count = area(s->batch.view.rows, s->classes);
  const bool head = head_takes(s->classes, s->classes);
  const RowResults results[WAYS] = NEW_RESULTS(&s->batch);
  const Outputs o = run_ways(s->batch.view, s->z.d, s->classes, results);
  const float *p = fetch_floats(o.d_p, count);
  float *d_in_place = to_device(z, count * sizeof *z);
  LAUNCH(softmax, s->batch.view, d_in_place, d_in_place, s->classes, (RowResults){NULL, NULL});
  assert_same_arrays(d_in_place, o.d_dz[FUSED], count * sizeof *z);
  for (size_t i = 0; i < count; i++)
    assert_within("log_softmax", s, (int)(i / classes), (int)(i % classes), (double)p[i],
                  s->log_p[i], log_tolerance(s->log_p[i], s->classes));
  for (int way = 0; way < (head ? WAYS : HEAD); way++) {
    assert_results(names[way], s, results[way], way == UNFUSED ? p : z);
    assert_gradient(names[way], s, o.d_dz[way]);
  }
  if (!head) return;
  float *masked = fetch_floats(o.d_dz[HEAD], count);
  for (size_t n = 0; n < count; n++)
    if (z[n] <= 0) masked[n] = 0;
  assert_exact(o.d_dx, masked, count);
}

TESTS_WITH(kernels_open, kernels_close);

KERNEL_TEST(test_softmax) {
  static const int all_rows[] = {1, 7, 65, 200};
  foreach (classes, VALUES(int, 2, 10, 16, 33, 1000, 1024))
    for (size_t n = 0; n < LENGTH(all_rows); n++)
      for (size_t kind = 0; kind < LENGTH(kinds); kind++) {
        const int rows = all_rows[n];
        if (quick() && (rows > 65 || kind % 3 != 2)) continue;
        /* rows left: more than a step, exactly a step, two thirds of a step, or none */
        const int lefts[] = {rows + 9, rows, rows - rows / 3, kind % 2 ? 0 : -20};
        const SoftmaxCase s =
            make_softmax_case(kind, rows, *classes, lefts[(kind + n) % 4], kind % 2);
        const float *z = fetch_floats(s.z.d, area(rows, s.classes));
        check_ways(&s, z);
        finish();
      }
}

/* Each rank computes some rows of a step. Their results must have the same bits as if one rank
   computed all rows. Gradients are divided by the number of rows of all ranks. */
KERNEL_TEST(test_ranks_share_a_step) {
  enum { ROWS = 65, CLASSES = 10, COUNT = ROWS * CLASSES, RANKS = 3, MOST = 22 };
  foreach (left, VALUES(int, 95, 65, 60, 43, 30, 1, 0)) { /* in some cases, ranks have no rows */
    const SoftmaxCase s = make_softmax_case(0, ROWS, CLASSES, *left, true);
    const RowResults whole[WAYS] = NEW_RESULTS(&s.batch), parts[WAYS] = NEW_RESULTS(&s.batch);
    const Outputs all = run_ways(s.batch.view, s.z.d, CLASSES, whole);
    assert_gradient("softmax of all ranks", &s, all.d_dz[FUSED]);
    static const float zeros[MOST * CLASSES];
    for (size_t r = 0; r < RANKS; r++) {
      const size_t first = part_start((size_t)s.batch.filled, r, RANKS) * CLASSES;
      const size_t mine = part_start((size_t)s.batch.filled, r + 1, RANKS) * CLASSES - first;
      BatchView view = s.batch.view;
      view.rows = MOST;
      view.share = (RowShare){ROWS, (uint32_t)r, RANKS};
      const Outputs o = run_ways(view, s.z.d + first, CLASSES, parts);
      for (int way = 0; way < WAYS; way++) {
        const float *part = fetch_floats(o.d_dz[way], MOST * CLASSES);
        assert_memory_equal(part, fetch_floats(all.d_dz[way], COUNT) + first, mine * sizeof *part);
        assert_memory_equal(part + mine, zeros, (MOST * CLASSES - mine) * sizeof *part);
      }
    }
    const uint32_t end = s.batch.state.end;
    for (int way = 0; way < WAYS; way++) {
      assert_same_arrays(parts[way].d_loss, whole[way].d_loss, end * sizeof(float));
      assert_same_arrays(parts[way].d_correct, whole[way].d_correct, end);
    }
    finish();
  }
}

/* Compares both gemms in the last layer's kernel with float64. The reference of the backward gemm
   uses the kernel's gradient of the logits. */
static void check_head_gemms(Shape s, uint64_t seed) {
  const size_t zs = z_count(s), xs = x_count(s);
  const Batch batch = make_batch(s.rows, 16, s.out, s.rows - s.rows / 3, true, seed);
  const Values x = signed_values(xs, seed), w = random_values(w_count(s), seed + 1);
  const Values b = signed_values((size_t)s.out, seed + 2);
  double *z = host_doubles(zs), *dz = host_doubles(zs);
  float *d_z = poisoned_floats(zs), *d_dz = poisoned_floats(zs), *d_dx = poisoned_floats(xs);
  LAUNCH(head, batch.view, x.d, w.d, b.d, d_z, d_dz, d_dx, s.in, s.out, (Dropout){0},
         poisoned_results(&batch));
  reference_linear(x.host, w.host, b.host, s.rows, s.in, s.out, z);
  assert_near("head, logits", s, d_z, z, zs, bound(s.in, GEMM_ROUNDING + BIAS_ROUNDING));
  reference_to_double(fetch_floats(d_dz, zs), zs, dz);
  double *dx = expect_input_gradient(dz, w.host, s);
  reference_activation_slope(x.host, xs, dx);
  assert_near("head, input's gradient", s, d_dx, dx, xs, bound(s.out, GEMM_ROUNDING));
}

KERNEL_TEST(test_head_gemms) {
  static const Shape shapes[] = {
      {1, 1, 2},      {64, 100, 10}, {7, 31, 16},  {65, 33, 3},   {200, 128, 9},   {66, 129, 16},
      {130, 256, 10}, {3, 255, 2},   {65, 257, 3}, {37, 500, 10}, {128, 512, 16},  {512, 131, 10},
      {513, 500, 10}, {65, 513, 10}, {7, 777, 16}, {3, 1023, 2},  {128, 1024, 16}, {515, 641, 9}};
  for (size_t i = 0; i < LENGTH(shapes); i++)
    assert_same_bits_twice(check_head_gemms, shapes[i], 50 + i);
  assert_true(head_takes(1024, 16) && head_takes(1, 1));
  assert_false(head_takes(1025, 10) || head_takes(100, 17) || head_takes(0, 10) ||
               head_takes(10, 0));
}
