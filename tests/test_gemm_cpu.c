/* Tests the gemm tiles of the CPU engine, for every instruction set that this machine has. */
#include "engine/gemm_cpu.h"
#include "support/network_reference.h"
#include "support/test.h"

enum {
  P = GEMM_PANEL,
  MOST_TERMS = 90,
  B_ROWS = 2 * MOST_TERMS, /* `index` picks one row of each pair */
  ROW = 160,               /* floats in a row; wider than a tile, to find writes beside a tile */
  OUTPUT = 128 * ROW,      /* 128 rows; `copy` needs a row for each column of a tile */
};

/* The allowed error of a sum of up to 90 products of numbers below 1. A rounding has an error of
   about 6e-8; the expected error of a sum of n products is sqrt(n) times as large. */
static const double bound = 3e-6;

typedef struct {
  _Alignas(64) float b[B_ROWS * ROW], start[ROW], y[OUTPUT], w[OUTPUT], v[OUTPUT], out[OUTPUT],
      copy[OUTPUT];
  float a[P * MOST_TERMS];
  uint32_t index[MOST_TERMS];
  double sum[P * ROW]; /* expected sums of a tile's terms, before `start` is added */
} Operands;

static void fill(float *out, size_t count, uint64_t seed) {
  double *values = allocate(count, sizeof *values);
  reference_fill(values, count, -1, 1, seed);
  reference_to_float(values, count, out);
}

/* Fills operands of `terms` terms. Array o->a is (P, terms) or, if packed, (terms, P). */
static GemmTerms prepare(Operands *o, size_t terms, bool packed) {
  fill(o->a, P * MOST_TERMS, 1);
  fill(o->b, B_ROWS * ROW, 2);
  fill(o->start, ROW, 3);
  fill(o->y, OUTPUT, 4);
  fill(o->w, OUTPUT, 5);
  fill(o->v, OUTPUT, 6);
  for (size_t i = 0; i < OUTPUT; i++) o->out[i] = o->copy[i] = NAN;
  const size_t a_row = packed ? 1 : terms, a_term = packed ? P : 1;
  for (size_t j = 0; j < terms; j++) o->index[j] = (uint32_t)(2 * j + (j & 1));
  memset(o->sum, 0, sizeof o->sum);
  for (size_t m = 0; m < P; m++)
    for (size_t j = 0; j < terms; j++)
      for (size_t n = 0; n < ROW; n++)
        o->sum[m * ROW + n] +=
            (double)o->a[m * a_row + j * a_term] * (double)o->b[o->index[j] * (size_t)ROW + n];
  return (GemmTerms){.a = o->a,
                     .a_row = a_row,
                     .a_term = a_term,
                     .index = o->index,
                     .terms = terms,
                     .b = o->b,
                     .b_row = ROW};
}

static void close_to(float out, double expected) {
  assert_close(out, expected, bound * (1 + fabs(expected)));
}

static const GemmKernels *kernels; /* the kernels under test */

/* Tests the forward product with and without ReLU, and the backward product. */
static void products(Operands *o, const GemmTerms *terms, size_t columns) {
  enum { PLAIN, RELU, BACKWARD, WAYS };
  o->y[0] = o->y[ROW + 5] = 0; /* the gradient must be 0 where the output is 0 */
  for (int way = PLAIN; way < WAYS; way++) {
    for (size_t i = 0; i < OUTPUT; i++) o->out[i] = NAN;
    if (way == BACKWARD)
      kernels->backward(terms, columns, o->y, 1, o->out, ROW);
    else
      kernels->forward(terms, columns, o->start, way == RELU, o->out, ROW);
    for (size_t i = 0; i < P * ROW; i++) {
      const double sum = o->sum[i] + (way == BACKWARD ? 0 : (double)o->start[i % ROW]);
      const bool passes = way == PLAIN || (way == RELU ? sum >= 0 : o->y[i] > 0);
      if (i % ROW >= columns)
        assert_true(isnan(o->out[i]));
      else
        close_to(o->out[i], passes ? sum : 0);
    }
  }
}

static void update(Operands *o, const GemmTerms *terms, size_t columns) {
  static Operands before;
  before = *o;
  const OptimizerRule by = {.momentum = 0.9f, .weight_decay = 0.01f};
  const float rate = 0.125f;
  for (int copied = 0; copied < 2; copied++) {
    memcpy(o->w, before.w, sizeof o->w);
    memcpy(o->v, before.v, sizeof o->v);
    kernels->update(terms, columns, &by, rate, o->w, o->v, ROW, copied ? o->copy + 8 : NULL, ROW);
    for (size_t m = 0; m < P; m++) {
      for (size_t n = 0; n < ROW; n++) {
        const size_t i = m * ROW + n;
        double w = (double)before.w[i], v = (double)before.v[i];
        if (n < columns)
          reference_update(&w, &v, &o->sum[i], 1, (double)by.momentum, (double)by.weight_decay,
                           (double)rate);
        close_to(o->w[i], w);
        close_to(o->v[i], v);
        if (n >= columns) continue;
        const float copy = o->copy[8 + n * ROW + m];
        assert_true(copied ? copy == o->w[i] : isnan(copy));
      }
    }
    assert_memory_equal(o->w + P * ROW, before.w + P * ROW, sizeof o->w - P * ROW * sizeof(float));
  }
  for (size_t n = 0; n < columns; n++) {
    assert_true(isnan(o->copy[8 + n * ROW - 1]));
    assert_true(isnan(o->copy[8 + n * ROW + P]));
  }
}

static Operands operands __attribute__((aligned(64)));
/* Loops over the kernels that this machine can run. */
#define EACH_KERNELS() for (int k = 0; (kernels = gemm_kernels(k)); k++)

TEST(every_shape_against_reference) {
  EACH_KERNELS() {
    assert_int_equal(kernels->width % GEMM_ALIGN, 0);
    for (size_t columns = GEMM_ALIGN; columns <= kernels->width; columns += GEMM_ALIGN)
      foreach (count, VALUES(size_t, 0, 1, 2, 37, MOST_TERMS))
        for (int packed = 0; packed < 2; packed++) {
          const GemmTerms of = prepare(&operands, *count, packed);
          products(&operands, &of, columns);
          update(&operands, &of, columns);
        }
  }
}

/* ReLU must return NaN for NaN, so that a diverged network is noticed. */
TEST(nan_is_not_hidden) {
  Operands *o = &operands;
  EACH_KERNELS() {
    const GemmTerms terms = prepare(o, 3, true);
    o->a[0] = NAN;
    kernels->forward(&terms, GEMM_ALIGN, o->start, true, o->out, ROW);
    assert_true(isnan(o->out[0]) && !isnan(o->out[ROW]));
  }
}
