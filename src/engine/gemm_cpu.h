/* The CPU engine's three matrix products. Each call computes a tile and applies the operation after
   the product. A tile is GEMM_PANEL rows by up to `width` columns of c(m, n) = sum over j of a(m,
   j) b(index[j], n), held in registers. Terms are added in order of j, so the bits do not depend on
   the tile's width or the thread. `index` can skip terms that are 0 in all rows of a panel; four
   fifths of MNIST's pixels are 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/optimizer.h"

enum {
  GEMM_PANEL = 4,  /* rows of a tile: 4 x 4 vectors of sums hide the latency of a multiply-add */
  GEMM_ALIGN = 16, /* column counts, row lengths and row addresses are multiples of 16 floats */
};

typedef struct {
  const float *a; /* a(m, j) = a[m * a_row + j * a_term] */
  size_t a_row, a_term;
  const uint32_t *index; /* (terms): index[j] is the row of b for term j */
  size_t terms;
  const float *b; /* b(i, n) = b[i * b_row + n] */
  size_t b_row;
} GemmTerms;

typedef struct {
  const char *name; /* name of the instruction set */
  size_t width;     /* maximum columns of a tile, a multiple of GEMM_ALIGN */

  /* Computes y(m, n) = c(m, n) + bias[n], activated if `activates`. Rows are y_row floats apart. */
  void (*forward)(const GemmTerms *terms, size_t columns, const float *bias, bool activates,
                  float *y, size_t y_row);

  /* Computes dx(m, n) = c(m, n) * activation_slope(y(m, n), scale). Rows are `row` floats apart. */
  void (*backward)(const GemmTerms *terms, size_t columns, const float *y, float scale, float *dx,
                   size_t row);

  /* The product c is the gradient of weights w. Applies optimizer.h's rule `sgd` in vectors, as v =
     momentum v + c + weight_decay w, w = w - rate v. The order of additions is its own. Rows are
     `row` floats apart. If copy is not NULL, sets copy(n, m) = w(m, n); its rows are copy_row
     floats apart. */
  void (*update)(const GemmTerms *terms, size_t columns, const OptimizerRule *rule, float rate,
                 float *w, float *v, size_t row, float *copy, size_t copy_row);
} GemmKernels;

/* Returns the machine's i-th fastest set of kernels, or NULL after the last. i counts from 0. */
const GemmKernels *gemm_kernels(int i);
