/* The specification: the training step as plain float64 loops. Matrices are row-major, with shapes
   written (rows, columns); in and out are a layer's widths. Arguments must not overlap unless the
   comment says so. Nothing is checked, and a failed allocation aborts the program. */
#pragma once

#include "engine/engine.h"

/* Returns the number of elements in a matrix (rows, columns). */
static inline size_t area(int rows, int columns) {
  return (size_t)rows * (size_t)columns;
}

/* Returns the index of element (row, column) in a matrix with `columns` columns. */
static inline size_t cell(int row, int columns, int column) {
  return (size_t)row * (size_t)columns + (size_t)column;
}

/* Returns `count` zeroed elements of `size` bytes, which the caller frees. */
void *reference_zeros(size_t count, size_t size);

/* y (rows, out) = x (rows, in) W^T + bias, with W (out, in) and bias (out). bias may be NULL. */
void reference_linear(const double *x, const double *weight, const double *bias, int rows, int in,
                      int out, double *y);

/* Replaces each element y[i] by activate_float64(y[i]) (activation.h). */
void reference_activate(double *y, size_t count);

/* Multiplies the gradient, in place, by the slope of the activation whose output is y. */
void reference_activation_slope(const double *y, size_t count, double *gradient);

/* dweight (out, in) = dy^T x, with dy (rows, out) and x (rows, in): a sum over rows, not a mean. */
void reference_weight_gradient(const double *dy, const double *x, int rows, int in, int out,
                               double *dweight);

/* dbias (out) = the column sums of dy (rows, out). */
void reference_bias_gradient(const double *dy, int rows, int out, double *dbias);

/* dx (rows, in) = dy (rows, out) W, with W (out, in): the gradient of the layer's input. */
void reference_input_gradient(const double *dy, const double *weight, int rows, int in, int out,
                              double *dx);

/* p (rows, classes) = softmax of each row of logits. p and logits may be the same array. */
void reference_softmax(const double *logits, int rows, int classes, double *p);

/* For each row, loss = log-sum-exp(logits) - logits[label], with natural logarithms. */
void reference_cross_entropy(const double *logits, const uint16_t *labels, int rows, int classes,
                             double *loss);

/* dlogits (rows, classes) = scale (softmax(logits) - one-hot(label)). dlogits and logits may be the
   same array. */
void reference_cross_entropy_gradient(const double *logits, const uint16_t *labels, int rows,
                                      int classes, double scale, double *dlogits);

/* Returns how many rows have their largest logit at the label. If several logits are the largest,
   the first of them is used. */
uint64_t reference_correct(const double *logits, const uint16_t *labels, int rows, int classes);

/* v = momentum v + g + weight_decay w, then w = w - learning_rate v. For biases, the decay is 0. */
void reference_update(double *w, double *v, const double *g, size_t count, double momentum,
                      double weight_decay, double learning_rate);

void reference_to_double(const float *in, size_t count, double *out);
