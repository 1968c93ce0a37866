/* The specification: the training step as plain float64 loops. Matrices are row-major, shapes stand
   as (rows, columns); in and out are a layer's widths. No two arguments may overlap unless the
   comment says so. Nothing is checked; a failed allocation aborts the program. */
#pragma once

#include "engine/engine.h"

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

/* x (in) = the pixels of a row, scaled; of a scale of zeros, pixel / 255. */
void reference_scale(PixelScale scale, const uint8_t *pixels, int in, double *x);

/* y (rows, out) = x (rows, in) W^T + bias, W (out, in), bias (out) or NULL for none. */
void reference_linear(const double *x, const double *weight, const double *bias, int rows, int in,
                      int out, double *y);

/* y = activate(y), in place. */
void reference_activate(double *y, size_t count);

/* Multiplies the gradient by the slope where the activation's output is y, in place. */
void reference_activation_slope(const double *y, size_t count, double *gradient);

/* dW (out, in) = dy^T x, dy (rows, out), x (rows, in): summed over rows, not averaged. */
void reference_weight_gradient(const double *dy, const double *x, int rows, int in, int out,
                               double *dweight);

/* db (out) = the sum of dy (rows, out) over its rows. */
void reference_bias_gradient(const double *dy, int rows, int out, double *dbias);

/* dx (rows, in) = dy (rows, out) W, W (out, in): the gradient of the layer's input. */
void reference_input_gradient(const double *dy, const double *weight, int rows, int in, int out,
                              double *dx);

/* p (rows, classes) = softmax of each row of logits; may be done in place. */
void reference_softmax(const double *logits, int rows, int classes, double *p);

/* loss (rows) = log-sum-exp(logits) - logits[label] of each row, natural logarithm. */
void reference_cross_entropy(const double *logits, const uint16_t *labels, int rows, int classes,
                             double *loss);

/* dlogits (rows, classes) = scale (softmax(logits) - one-hot(label)). May be done in place. */
void reference_cross_entropy_gradient(const double *logits, const uint16_t *labels, int rows,
                                      int classes, double scale, double *dlogits);

/* How many rows have their largest logit at the label; of equal logits the first counts. */
uint64_t reference_correct(const double *logits, const uint16_t *labels, int rows, int classes);

/* v = momentum v + g + weight_decay w, then w = w - learning_rate v. A bias's decay is 0. */
void reference_update(double *w, double *v, const double *g, size_t count, double momentum,
                      double weight_decay, double learning_rate);

/* Update number `update`, from 1, m: momentum or first moment; v: second moment. */
void reference_optimize(OptimizerRule rule, double *w, double *m, double *v, const double *g,
                        size_t count, double weight_decay, double learning_rate, uint64_t update);

/* The loss and, unless NULL, its gradient: x (rows, size[0]) is scaled already; parameters and
   gradient are flat arrays of network->floats in the layout of network.h. The gradient is of
   the MEAN loss over the rows, overwritten, its padding 0. Adds loss, correct and rows to *sums. */
void reference_gradient(const Network *network, const double *parameters, const double *x,
                        const uint16_t *labels, int rows, double *gradient, EngineSums *sums);

/* Trains in place on a range of steps (engine.h) over a dataset of rows at pixels + row * stride.
   parameters has network.floats values, state (training_states, network.floats). Adds to *sums. */
void reference_train(const EngineConfig *config, double *parameters, double *state,
                     const uint8_t *pixels, size_t stride, const uint16_t *labels,
                     const TrainRange *range, EngineSums *sums);

/* The forward pass over dataset rows [first_row, first_row + rows). Adds to *sums. */
void reference_evaluate(const EngineConfig *config, const double *parameters, const uint8_t *pixels,
                        size_t stride, const uint16_t *labels, uint64_t first_row, uint64_t rows,
                        EngineSums *sums);

/* Uniform in [low, high), a function of (seed, index) alone; every value is exact in float32. */
void reference_fill(double *out, size_t count, double low, double high, uint64_t seed);

/* Bytes 0 to 255, by the same. */
void reference_fill_pixels(uint8_t *out, size_t count, uint64_t seed);

/* Labels 0 to classes - 1. */
void reference_fill_labels(uint16_t *out, size_t count, int classes, uint64_t seed);

void reference_to_double(const float *in, size_t count, double *out);

void reference_to_float(const double *in, size_t count, float *out);

/* ||out - ref|| / ||ref||. INFINITY if anything is not finite, or ref alone is all zero. */
double reference_relative_error(const float *out, const double *ref, size_t count);
