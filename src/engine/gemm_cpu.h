/* The CPU engine's three products, a tile at a time, each fused with what follows it. A tile is
   GEMM_PANEL rows by up to `width` columns of c(m, n) = sum over j of a(m, j) b(index[j], n), held
   in registers. Terms are added in order of j, so a tile's bits do not depend on its width or
   thread. `index` skips terms that are 0 in a panel, as four fifths of MNIST's pixels are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/optimizer.h"

enum {
  GEMM_PANEL = 4,  /* rows of a tile: 4 x 4 vectors hide a multiply-add's latency */
  GEMM_ALIGN = 16, /* floats: columns, and every row's length and address, are multiples */
};

typedef struct {
  const float *a; /* a(m, j) = a[m * a_row + j * a_term] */
  size_t a_row, a_term;
  const uint32_t *index; /* (terms) rows of b */
  size_t terms;
  const float *b; /* b(i, n) = b[i * b_row + n] */
  size_t b_row;
} GemmTerms;

typedef struct {
  const char *name; /* name of the instruction set */
  size_t width;     /* maximum columns of a tile, a multiple of GEMM_ALIGN */

  /* y(m, n) = c(m, n) + bias[n], then activate() if `activates`; rows are y_row floats apart. */
  void (*forward)(const GemmTerms *terms, size_t columns, const float *bias, bool activates,
                  float *y, size_t y_row);

  /* dx(m, n) = c(m, n) * the activation's slope at output y; rows are `row` floats apart. */
  void (*backward)(const GemmTerms *terms, size_t columns, const float *y, float *dx, size_t row);

  /* c is the gradient of weights w: v = momentum v + c + weight_decay w, then w = w - rate v; rows
     are `row` floats apart. Unless it is NULL, copy(n, m) = w(m, n), with rows copy_row floats
     apart. */
  void (*update)(const GemmTerms *terms, size_t columns, const OptimizerRule *rule, float rate,
                 float *w, float *v, size_t row, float *copy, size_t copy_row);
} GemmKernels;

/* Returns the machine's i-th kernels, from 0, fastest first; NULL after the last. */
const GemmKernels *gemm_kernels(int i);
