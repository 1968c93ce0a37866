/* The specification: plain float64 loops that every engine and kernel is judged against.

   Matrices are row-major, shapes stand as (rows, columns); in and out are a layer's widths. No
   two arguments may overlap unless the comment says so. Nothing here is fast or checks its
   arguments; a failed allocation aborts the program. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* ---- shapes ---------------------------------------------------------------------------- */

/* How many values (rows, columns) has. */
static inline size_t area(int rows, int columns) {
  return (size_t)rows * (size_t)columns;
}

/* Where a value stands in rows of so many columns. */
static inline size_t cell(int row, int columns, int column) {
  return (size_t)row * (size_t)columns + (size_t)column;
}

/* To be freed. */
void *reference_zeros(size_t count, size_t size);

/* ---- one layer ------------------------------------------------------------------------- */

/* y (rows, out) = x (rows, in) W^T + bias, W (out, in), bias (out) or NULL for none. */
void reference_linear(const double *x, const double *weight, const double *bias, int rows, int in,
                      int out, double *y);

/* dW (out, in) = dy^T x, dy (rows, out), x (rows, in): summed over rows, not averaged. */
void reference_weight_gradient(const double *dy, const double *x, int rows, int in, int out,
                               double *dweight);

/* db (out) = the sum of dy (rows, out) over its rows. */
void reference_bias_gradient(const double *dy, int rows, int out, double *dbias);

/* ---- the loss -------------------------------------------------------------------------- */

/* p (rows, classes) = softmax of each row of logits; may be done in place. */
void reference_softmax(const double *logits, int rows, int classes, double *p);

/* loss (rows) = log-sum-exp(logits) - logits[label] of each row, natural logarithm. */
void reference_cross_entropy(const double *logits, const uint16_t *labels, int rows, int classes,
                             double *loss);

/* dlogits (rows, classes) = scale (softmax(logits) - one-hot(label)); scale is 1 / rows for the
   gradient of the mean loss. May be done in place. */
void reference_cross_entropy_gradient(const double *logits, const uint16_t *labels, int rows,
                                      int classes, double scale, double *dlogits);

/* How many rows have their largest logit at the label; of equal logits the first counts. */
uint64_t reference_correct(const double *logits, const uint16_t *labels, int rows, int classes);

/* ---- the update ------------------------------------------------------------------------ */

/* v = momentum v + g + weight_decay w, then w = w - learning_rate v. A bias's decay is 0. */
void reference_update(double *w, double *v, const double *g, size_t count, double momentum,
                      double weight_decay, double learning_rate);

/* ---- values ---------------------------------------------------------------------------- */

/* 32 random bits, a function of (seed, index) alone. */
uint32_t reference_word(size_t index, uint64_t seed);

/* Labels 0 to classes - 1. */
void reference_fill_labels(uint16_t *out, size_t count, int classes, uint64_t seed);

void reference_to_double(const float *in, size_t count, double *out);
