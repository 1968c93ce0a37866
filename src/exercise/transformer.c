/* The values of the set `transformer`, and what its functions must compute from them. */
#include <math.h>
#include <stdlib.h>

#include "base/sizes.h"
#include "class/transformer.h"
#include "exercise/expect.h"
#include "exercise/reference.h"

/* Rounding errors of a sum of n values are as often positive as negative, so that they add up to
   about sqrt(n) roundings, not n (Higham and Mary, 2019). We allow four times as many. The values
   below have random last digits, or digits so few that sums are exact. */
static double roundings_of_sum(int n) {
  return 4 * sqrt(n) + 4;
}

/* ---- 1: gelu --------------------------------------------------------------------------------- */

void give_gelu(ExerciseProblem *p, uint64_t seed) {
  static const double range[] = {4, 0.5, 40};
  ExerciseArray *x = &p->array[ARRAY_X];
  give_uniform(p, seed);
  float *values = x->given;
  for (size_t i = 0; i < count_of(x); i++)
    values[i] *= (float)range[(i / (size_t)x->columns + (size_t)p->shape.logits) % LENGTH(range)];
}

void expect_gelu(ExerciseProblem *p) {
  const float *x = p->array[ARRAY_X].given, *b = p->array[ARRAY_B].given;
  ExerciseArray *y = &p->array[ARRAY_Y];
  expect_from(y);
  for (size_t i = 0; i < count_of(y); i++) {
    const double bias = b[i % (size_t)y->columns], z = x[i] + bias;
    y->expected[i] = 0.5 * z * erfc(-(double)GELU_SCALE * z * sqrt(0.5));
    y->allowed[i] = ROUNDING * (8 * fabs(z) + 2 * (fabs((double)x[i]) + fabs(bias)));
  }
}

/* ---- 2 and 3: norm, residual ----------------------------------------------------------------- */

/* Gives the rows of x, and of the residual if there is one, four kinds of values: around 0; near
   1024, where E[x^2] - E[x]^2 has no digit right; all the same; in a wide range. */
void give_rows(ExerciseProblem *p, uint64_t seed) {
  static const struct {
    float middle, spread;
  } kinds[] = {{0, 1}, {1024, 0.25f}, {0, 0}, {100, 200}};
  static const int names[] = {ARRAY_X, ARRAY_R};
  give_uniform(p, seed);
  foreach (name, names) {
    const ExerciseArray *a = &p->array[*name];
    float *values = a->given;
    for (size_t i = 0; values && i < count_of(a); i++) {
      const size_t columns = (size_t)a->columns, row = i / columns;
      const int kind = (int)((row + (size_t)p->shape.logits) % LENGTH(kinds));
      float middle = kinds[kind].middle;
      if (kinds[kind].spread == 0) middle = roundf(16 * values[row * columns]) / 16;
      if (*name == ARRAY_R) middle = 0;
      values[i] = middle + kinds[kind].spread * values[i];
    }
  }
}

/* Computes the expected y of a row z that has an error of at most z_error in each value. */
static void expect_row(ExerciseProblem *p, int row, const double *z, double z_error) {
  const float *gain = p->array[ARRAY_GAIN].given, *b = p->array[ARRAY_B].given;
  ExerciseArray *y = &p->array[ARRAY_Y];
  const int n = y->columns;
  double mean = 0, size = 0, variance = 0;
  for (int c = 0; c < n; c++) mean += z[c] / n, size += fabs(z[c]) / n;
  for (int c = 0; c < n; c++) variance += (z[c] - mean) * (z[c] - mean) / n;
  const double root = sqrt(variance + (double)NORM_EPS);
  /* The errors of a deviation from the mean, in units of the root, and of the root. */
  const double off = (ROUNDING * roundings_of_sum(n) * size + 2 * z_error) / root;
  const double root_off = 2 * off + off * off + ROUNDING * (roundings_of_sum(n) + 8);
  for (int c = 0; c < n; c++) {
    const double g = (double)GAIN_OFFSET + gain[c], x = (z[c] - mean) / root;
    const double gains = fabs((double)GAIN_OFFSET) + fabs((double)gain[c]);
    const size_t at = cell(row, n, c);
    y->expected[at] = g * x + b[c];
    y->allowed[at] =
        gains * (off + fabs(x) * (root_off + 8 * ROUNDING)) + 2 * ROUNDING * fabs((double)b[c]);
  }
}

void expect_norm(ExerciseProblem *p) {
  double *x = doubles_of(&p->array[ARRAY_X], false);
  expect_from(&p->array[ARRAY_Y]);
  for (int r = 0; r < p->shape.rows; r++) expect_row(p, r, x + cell(r, p->shape.out, 0), 0);
  free(x);
}

void expect_residual(ExerciseProblem *p) {
  const float *x = p->array[ARRAY_X].given, *added = p->array[ARRAY_R].given;
  ExerciseArray *z = &p->array[ARRAY_Z];
  expect_from(z);
  expect_from(&p->array[ARRAY_Y]);
  for (size_t i = 0; i < count_of(z); i++) {
    const double scaled = (double)RESIDUAL_SCALE * x[i];
    z->expected[i] = scaled + added[i];
    z->allowed[i] = 2 * ROUNDING * (fabs(scaled) + fabs((double)added[i]));
  }
  for (int r = 0; r < p->shape.rows; r++) {
    const double *allowed = z->allowed + cell(r, z->columns, 0);
    double z_error = 0;
    for (int c = 0; c < z->columns; c++) z_error = fmax(z_error, allowed[c]);
    expect_row(p, r, z->expected + cell(r, z->columns, 0), z_error);
  }
}

/* ---- 4: adam --------------------------------------------------------------------------------- */

/* Every eighth weight has gradients and moments so small that epsilon matters; as many have 0. */
void give_adam(ExerciseProblem *p, uint64_t seed) {
  static const int names[] = {ARRAY_G, ARRAY_M, ARRAY_V};
  give_uniform(p, seed);
  foreach (name, names) {
    float *values = p->array[*name].given;
    for (size_t i = 0; i < count_of(&p->array[*name]); i++) {
      const float small = *name == ARRAY_V ? 1e-16f : 1e-8f;
      if (*name == ARRAY_V) values[i] = fabsf(values[i]);
      if (i % 8 == 3) values[i] *= small;
      if (i % 8 == 5) values[i] = 0;
    }
  }
}

/* Returns the relative error of m / (1 - beta^step), where beta^step may be a product of `step`
   factors. */
static double correction_off(double beta, int step) {
  const double power = pow(beta, step);
  return ROUNDING * ((step + 8) * power / (1 - power) + 4);
}

void expect_adam(ExerciseProblem *p) {
  const int step = exercise_step(&p->shape);
  const float *g = p->array[ARRAY_G].given, *old_m = p->array[ARRAY_M].given,
              *old_v = p->array[ARRAY_V].given, *old_w = p->array[ARRAY_W].given;
  ExerciseArray *m = &p->array[ARRAY_M], *v = &p->array[ARRAY_V], *w = &p->array[ARRAY_W];
  const double beta1 = EXERCISE_BETA1, beta2 = EXERCISE_BETA2, rate = EXERCISE_RATE;
  const double left1 = 1 - pow(beta1, step), left2 = 1 - pow(beta2, step);
  const double off1 = correction_off(beta1, step), off2 = correction_off(beta2, step);
  expect_from(m);
  expect_from(v);
  expect_from(w);
  for (size_t i = 0; i < count_of(w); i++) {
    const double before = old_w[i], gradient = g[i];
    m->expected[i] = beta1 * old_m[i] + (1 - beta1) * gradient;
    v->expected[i] = beta2 * old_v[i] + (1 - beta2) * gradient * gradient;
    m->allowed[i] = 4 * ROUNDING * (beta1 * fabs((double)old_m[i]) + (1 - beta1) * fabs(gradient));
    v->allowed[i] = 6 * ROUNDING * v->expected[i];
    const double mh = m->expected[i] / left1;
    const double below = sqrt(v->expected[i] / left2) + (double)EXERCISE_EPSILON;
    const double change = mh / below, shrink = (double)ADAM_DECAY * before;
    w->expected[i] = before - rate * (change + shrink);
    w->allowed[i] =
        rate * (m->allowed[i] / left1 / below + fabs(change) * (off1 + off2 + 10 * ROUNDING)) +
        4 * ROUNDING * (fabs(before) + rate * (fabs(change) + fabs(shrink)));
  }
}
