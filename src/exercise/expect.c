#include "exercise/expect.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "exercise/reference.h"

/* Fills the array with values uniform in [low, high). */
static float *give(ExerciseArray *a, int name, double low, double high, uint64_t seed) {
  const size_t count = count_of(a);
  float *values = reference_zeros(count, sizeof *values);
  for (size_t i = 0; i < count; i += 4) {
    const RandomWords words = random_words(seed, (uint64_t)name, i);
    for (size_t k = 0; k < 4 && i + k < count; k++)
      values[i + k] = (float)(low + (high - low) * random_unit(words.word[k]));
  }
  return a->given = values;
}

void give_uniform(ExerciseProblem *p, uint64_t seed) {
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseRole role = exercise_tasks[p->task].uses[name].role;
    if (!exercise_arrays[name].whole && (role == INPUT || role == CHANGED))
      give(&p->array[name], name, -1, 1, seed);
  }
}

void give_update(ExerciseProblem *p, uint64_t seed) {
  ExerciseArray *a = &p->array[ARRAY_DZ];
  give_uniform(p, seed);
  float *dz = a->given;
  for (size_t i = (size_t)p->filled * (size_t)p->shape.out; i < count_of(a); i++) dz[i] = 0;
}

void give_gather(ExerciseProblem *p, uint64_t seed) {
  ExerciseArray *a = &p->array[ARRAY_ORDER];
  uint32_t *order = reference_zeros(count_of(a), sizeof *order);
  give_uniform(p, seed);
  for (uint32_t i = 0; i < count_of(a); i++)
    order[i] = random_permute(i, (uint32_t)count_of(a), seed + 1);
  a->given = order;
}

void give_keys(ExerciseProblem *p, uint64_t seed) {
  ExerciseArray *a = &p->array[ARRAY_KEYS], *of = &p->array[ARRAY_COUNTS];
  uint8_t *keys = reference_zeros(count_of(a), sizeof *keys);
  uint32_t *counts = reference_zeros(count_of(of), sizeof *counts);
  for (size_t i = 0; i < count_of(a); i++) {
    const uint32_t word = random_words(seed, ARRAY_KEYS, i).word[0];
    keys[i] = (uint8_t)(word & 1 ? word >> 8 : word >> 30); /* half of the keys are below 4 */
  }
  for (size_t i = 0; i < count_of(of); i++)
    counts[i] = random_words(seed, ARRAY_COUNTS, i).word[0] >> 20;
  a->given = keys, of->given = counts;
}

/* Fills the logits with multiples of 2^-10, so that no two logits are almost equal. shape.logits
   selects the range: around 0, negative, huge but close together, huge and far apart, or negative
   and far apart. Each of rows 4, 9, ... has equal logits. In rows 3, 8, ... the first and last
   logits are largest. */
static void give_logits(ExerciseProblem *p, uint64_t seed) {
  static const double range[][2] = {
      {-4, 4}, {-108, -100}, {999992, 1000000}, {-1e6, 1e6}, {-1e6, -1e5}};
  const double *r = range[p->shape.logits % 5];
  ExerciseArray *a = &p->array[ARRAY_Z];
  const size_t classes = (size_t)a->columns;
  float *z = give(a, ARRAY_Z, r[0], r[1], seed);
  for (size_t i = 0; i < count_of(a); i++) {
    const size_t row = i / classes;
    z[i] = row % 5 == 4 ? z[row * classes] : roundf(z[i] * 1024) / 1024;
    if (row % 5 == 3 && (i % classes == 0 || i % classes == classes - 1)) z[i] = (float)r[1];
  }
}

/* Fills `labels` (one per stored row) and `order` (the stored row at each position). */
static void give_labels(ExerciseProblem *p, uint64_t seed) {
  const int end = p->shape.end;
  uint16_t *labels = reference_zeros((size_t)end, sizeof *labels);
  uint32_t *order = reference_zeros((size_t)end, sizeof *order);
  for (uint32_t i = 0; i < (uint32_t)end; i++) {
    const uint64_t word = random_words(seed, ARRAY_LABELS, i).word[0];
    labels[i] = (uint16_t)(word * (uint64_t)p->shape.out >> 32);
    order[i] = p->shape.first > 0 ? random_permute(i, (uint32_t)end, seed) : i;
  }
  /* If a row's first and last logits are equal, its label is the first or the last class. */
  for (int row = 3; row < p->filled; row++) {
    const bool last = row / 5 % 2 == 1;
    if (row % 5 >= 3) labels[order[p->shape.first + row]] = (uint16_t)(last ? p->shape.out - 1 : 0);
  }
  p->array[ARRAY_LABELS].given = labels;
  p->array[ARRAY_ORDER].given = order;
}

void give_classes(ExerciseProblem *p, uint64_t seed) {
  give_logits(p, seed);
  give_labels(p, seed + 1); /* our softmax kernel also reads labels */
}

double *doubles_of(const ExerciseArray *a, bool magnitude) {
  double *values = reference_zeros(count_of(a), sizeof *values);
  reference_to_double(a->given, count_of(a), values);
  for (size_t i = 0; magnitude && i < count_of(a); i++) values[i] = fabs(values[i]);
  return values;
}

void expect_from(ExerciseArray *a) {
  a->expected = reference_zeros(count_of(a), sizeof *a->expected);
  a->allowed = reference_zeros(count_of(a), sizeof *a->allowed);
}

/* Returns x w^T (rows, out) or, for an update, dz^T x (out, in) in float64. If `magnitude`
   is true, uses the absolute values of x, w and dz. */
static double *product_of(const ExerciseProblem *p, bool magnitude) {
  const ExerciseShape *s = &p->shape;
  const bool update = p->task == TASK_UPDATE;
  double *x = doubles_of(&p->array[ARRAY_X], magnitude);
  double *other = doubles_of(&p->array[update ? ARRAY_DZ : ARRAY_W], magnitude);
  double *product =
      reference_zeros((size_t)s->out * (size_t)(update ? s->in : s->rows), sizeof *product);
  if (update)
    reference_weight_gradient(other, x, s->rows, s->in, s->out, product);
  else
    reference_linear(x, other, NULL, s->rows, s->in, s->out, product);
  free(x);
  free(other);
  return product;
}

void expect_forward(ExerciseProblem *p) {
  const ExerciseShape *s = &p->shape;
  ExerciseArray *y = &p->array[ARRAY_Y];
  const float *b = p->array[ARRAY_B].given;
  y->expected = product_of(p, false);
  y->allowed = product_of(p, true);
  for (size_t i = 0; i < count_of(y); i++) {
    const double bias = b[i % (size_t)s->out];
    y->expected[i] = s->relu && y->expected[i] + bias < 0 ? 0 : y->expected[i] + bias;
    y->allowed[i] = (s->in + 4) * ROUNDING * (y->allowed[i] + fabs(bias));
  }
}

/* Returns the column sums (out) of dz or, if `magnitude`, of dz's absolute values. */
static double *bias_gradient_of(const ExerciseProblem *p, bool magnitude) {
  double *dz = doubles_of(&p->array[ARRAY_DZ], magnitude);
  double *db = reference_zeros((size_t)p->shape.out, sizeof *db);
  reference_bias_gradient(dz, p->shape.rows, p->shape.out, db);
  free(dz);
  return db;
}

/* Computes the expected w and v after the update. gradient_of computes the gradient of w. */
static void expect_updated(ExerciseProblem *p, int w_name, int v_name, double decay,
                           double *(*gradient_of)(const ExerciseProblem *, bool)) {
  ExerciseArray *w = &p->array[w_name], *v = &p->array[v_name];
  const double momentum = EXERCISE_MOMENTUM, rate = EXERCISE_RATE;
  const float *old_w = w->given, *old_v = v->given;
  w->expected = doubles_of(w, false), v->expected = doubles_of(v, false);
  w->allowed = reference_zeros(count_of(w), sizeof(double));
  v->allowed = reference_zeros(count_of(w), sizeof(double));
  if (p->filled == 0) return; /* an empty step changes nothing */
  double *g = gradient_of(p, false), *magnitude = gradient_of(p, true);
  reference_update(w->expected, v->expected, g, count_of(w), momentum, decay, rate);
  for (size_t i = 0; i < count_of(w); i++) {
    const double old = fabs((double)old_w[i]),
                 terms = fabs(momentum * old_v[i]) + magnitude[i] + decay * old;
    v->allowed[i] = (p->shape.rows + 8) * ROUNDING * terms;
    w->allowed[i] = rate * v->allowed[i] + 4 * ROUNDING * (old + rate * terms);
  }
  free(g);
  free(magnitude);
}

void expect_update(ExerciseProblem *p) {
  expect_updated(p, ARRAY_W, ARRAY_VW, p->weight_decay, product_of);
  expect_updated(p, ARRAY_B, ARRAY_VB, 0, bias_gradient_of);
}

/* Returns the allowed error of z - max - log(sum(exp(z - max))), whose exact value is -below. */
static double log_allowed(double below, int classes) {
  return ROUNDING * (4 * below + 4 * (classes + 4));
}

void expect_softmax(ExerciseProblem *p) {
  const int classes = p->shape.out;
  ExerciseArray *a = &p->array[ARRAY_P];
  double *z = doubles_of(&p->array[ARRAY_Z], false);
  expect_from(a);
  for (int r = 0; r < p->shape.rows; r++) {
    const double *row = z + cell(r, classes, 0);
    double loss; /* the loss if the label is 0 */
    reference_cross_entropy(row, &(uint16_t){0}, 1, classes, &loss);
    for (int c = 0; c < classes; c++) {
      const double below = row[0] - row[c] + loss;
      a->expected[cell(r, classes, c)] = -below;
      a->allowed[cell(r, classes, c)] = log_allowed(below, classes);
    }
  }
  free(z);
}

void expect_loss(ExerciseProblem *p) {
  const int classes = p->shape.out;
  ExerciseArray *dz = &p->array[ARRAY_DZ], *loss = &p->array[ARRAY_LOSS];
  ExerciseArray *correct = &p->array[ARRAY_CORRECT];
  const uint16_t *labels = p->array[ARRAY_LABELS].given;
  const uint32_t *order = p->array[ARRAY_ORDER].given;
  double *z = doubles_of(&p->array[ARRAY_Z], false);
  expect_from(dz);
  expect_from(loss);
  expect_from(correct);
  for (int i = 0; i < p->shape.end; i++) /* rows outside of the step stay unwritten */
    loss->allowed[i] = correct->allowed[i] = -1;
  for (int r = 0; r < p->filled; r++) {
    const int at = p->shape.first + r;
    const size_t first = cell(r, classes, 0);
    const uint16_t label = labels[order[at]];
    reference_cross_entropy(z + first, &label, 1, classes, &loss->expected[at]);
    reference_cross_entropy_gradient(z + first, &label, 1, classes, 1.0 / p->filled,
                                     dz->expected + first);
    correct->expected[at] = (double)reference_correct(z + first, &label, 1, classes);
    correct->allowed[at] = 0;
    loss->allowed[at] = log_allowed(loss->expected[at], classes);
    for (int c = 0; c < classes; c++) {
      const double probability = dz->expected[first + (size_t)c] * p->filled + (c == label ? 1 : 0);
      dz->allowed[first + (size_t)c] = ROUNDING * (4 * (classes + 4) * probability + 4) / p->filled;
    }
  }
  free(z);
}

/* ---- the warm-up ----------------------------------------------------------------------------- */

/* Adds a term to the expected value of element `at`, and its absolute value to the allowed error,
   which allow() then multiplies by a number of roundings. */
static void add_term(ExerciseArray *a, size_t at, double term) {
  a->expected[at] += term;
  a->allowed[at] += fabs(term);
}

static void allow(ExerciseArray *a, int roundings) {
  for (size_t i = 0; i < count_of(a); i++) a->allowed[i] *= roundings * ROUNDING;
}

/* Returns y, prepared for expected values. */
static ExerciseArray *expected_y(ExerciseProblem *p) {
  expect_from(&p->array[ARRAY_Y]);
  return &p->array[ARRAY_Y];
}

void expect_map(ExerciseProblem *p) {
  const float *z = p->array[ARRAY_Z].given;
  ExerciseArray *y = expected_y(p);
  for (size_t i = 0; i < count_of(y); i++) y->expected[i] = fmax(z[i], 0);
}

void expect_index(ExerciseProblem *p) {
  const float *z = p->array[ARRAY_Z].given, *b = p->array[ARRAY_B].given;
  ExerciseArray *y = expected_y(p);
  for (size_t i = 0; i < count_of(y); i++) {
    add_term(y, i, z[i]);
    add_term(y, i, b[i % (size_t)y->columns]);
  }
  allow(y, 1);
}

void expect_reverse(ExerciseProblem *p) {
  const float *z = p->array[ARRAY_Z].given;
  ExerciseArray *y = expected_y(p);
  for (int r = 0; r < y->rows; r++)
    for (int c = 0; c < y->columns; c++)
      y->expected[cell(r, y->columns, c)] = z[cell(r, y->columns, y->columns - 1 - c)];
}

void expect_sum(ExerciseProblem *p) {
  const ExerciseArray *z = &p->array[ARRAY_Z];
  const float *values = z->given;
  ExerciseArray *sum = &p->array[ARRAY_SUM];
  expect_from(sum);
  for (size_t i = 0; i < count_of(z); i++) add_term(sum, i / (size_t)z->columns, values[i]);
  allow(sum, z->columns + 4);
}

void expect_copy(ExerciseProblem *p) {
  ExerciseArray *y = expected_y(p);
  reference_to_double(p->array[ARRAY_Z].given, count_of(y), y->expected);
}

void expect_axpy(ExerciseProblem *p) {
  const float *z = p->array[ARRAY_Z].given, *old = p->array[ARRAY_Y].given;
  ExerciseArray *y = expected_y(p);
  for (size_t i = 0; i < count_of(y); i++) {
    add_term(y, i, old[i]);
    add_term(y, i, (double)WARMUP_SCALE * z[i]);
  }
  allow(y, 2);
}

void expect_gather(ExerciseProblem *p) {
  const float *z = p->array[ARRAY_Z].given;
  const uint32_t *order = p->array[ARRAY_ORDER].given;
  ExerciseArray *y = expected_y(p);
  const size_t columns = (size_t)y->columns;
  for (size_t i = 0; i < count_of(y); i++) {
    const uint32_t from = order[i / columns];
    if (from < (uint32_t)p->shape.rows) y->expected[i] = z[from * columns + i % columns];
  }
}

void expect_stencil(ExerciseProblem *p) {
  const float *z = p->array[ARRAY_Z].given;
  ExerciseArray *y = expected_y(p);
  for (int r = 0; r < y->rows; r++)
    for (int c = 0; c < y->columns; c++)
      for (int from = c > 0 ? c - 1 : 0; from <= c + 1 && from < y->columns; from++)
        add_term(y, cell(r, y->columns, c), z[cell(r, y->columns, from)] / 3.0);
  allow(y, 5);
}

void expect_column_sum(ExerciseProblem *p) {
  const ExerciseArray *z = &p->array[ARRAY_Z];
  const float *values = z->given;
  ExerciseArray *sum = &p->array[ARRAY_SUM];
  expect_from(sum);
  for (size_t i = 0; i < count_of(z); i++) add_term(sum, i % (size_t)z->columns, values[i]);
  allow(sum, z->rows + 4);
}

void expect_block_sum(ExerciseProblem *p) {
  const ExerciseArray *z = &p->array[ARRAY_Z];
  const float *values = z->given;
  ExerciseArray *y = expected_y(p);
  for (int r = 0; r < z->rows; r++)
    for (int c = 0; c < z->columns; c++)
      add_term(y, cell(r / WARMUP_SIDE, y->columns, c / WARMUP_SIDE),
               values[cell(r, z->columns, c)]);
  allow(y, WARMUP_SIDE * WARMUP_SIDE);
}

void expect_transpose(ExerciseProblem *p) {
  const float *z = p->array[ARRAY_Z].given;
  ExerciseArray *y = expected_y(p);
  for (int r = 0; r < y->rows; r++)
    for (int c = 0; c < y->columns; c++)
      y->expected[cell(r, y->columns, c)] = z[cell(c, y->rows, r)];
}

/* Adds the product of two arrays to sum: the products of row r to element r. The second array has
   as many rows, or one. */
static void expect_products(ExerciseArray *sum, const ExerciseArray *a, const ExerciseArray *b) {
  const float *left = a->given, *right = b->given;
  expect_from(sum);
  for (size_t i = 0; i < count_of(a); i++)
    add_term(sum, i / (size_t)a->columns, (double)left[i] * right[i % count_of(b)]);
  allow(sum, a->columns + 4);
}

void expect_dot(ExerciseProblem *p) {
  expect_products(&p->array[ARRAY_SUM], &p->array[ARRAY_Z], &p->array[ARRAY_X]);
}

void expect_matvec(ExerciseProblem *p) {
  expect_products(&p->array[ARRAY_Y], &p->array[ARRAY_W], &p->array[ARRAY_X]);
}

void expect_histogram(ExerciseProblem *p) {
  const uint8_t *keys = p->array[ARRAY_KEYS].given;
  const uint32_t *old = p->array[ARRAY_COUNTS].given;
  ExerciseArray *counts = &p->array[ARRAY_COUNTS];
  expect_from(counts);
  for (size_t k = 0; k < count_of(counts); k++) counts->expected[k] = old[k];
  for (size_t i = 0; i < count_of(&p->array[ARRAY_KEYS]); i++) counts->expected[keys[i]]++;
}

void expect_scan(ExerciseProblem *p) {
  const float *z = p->array[ARRAY_Z].given;
  ExerciseArray *y = expected_y(p);
  for (int r = 0; r < y->rows; r++)
    for (int c = 0; c < y->columns; c++)
      for (int from = c / WARMUP_PIECE * WARMUP_PIECE; from <= c; from++)
        add_term(y, cell(r, y->columns, c), z[cell(r, y->columns, from)]);
  allow(y, WARMUP_PIECE);
}
