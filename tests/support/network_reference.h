/* Trains a network in float64 with the functions of exercise/reference.h. As in that file, matrices
   are row-major and arguments are not checked. */
#pragma once

#include "exercise/reference.h"

/* Sets the `in` values of x to the scaled pixels of a row. If the scale is all zeros, x = pixel /
 * 255. */
void reference_scale(PixelScale scale, const uint8_t *pixels, int in, double *x);

/* Updates w. `update` counts updates from 1. m: momentum or first moment. v: second moment. */
void reference_optimize(OptimizerRule rule, double *w, double *m, double *v, const double *g,
                        size_t count, double weight_decay, double learning_rate, uint64_t update);

/* Computes the loss and, unless `gradient` is NULL, the gradient of the MEAN loss over the rows.
   x (rows, size[0]) holds scaled pixels. `parameters` and `gradient` have network->floats values in
   the layout of network.h. All of `gradient` is overwritten; its padding becomes 0. Adds the loss,
   the number of correct rows and the number of rows to *sums. */
void reference_gradient(const Network *network, const double *parameters, const double *x,
                        const uint16_t *labels, int rows, double *gradient, EngineSums *sums);

/* Trains `parameters` and `state` in place on a range of steps (engine.h). Row r of the dataset is
   at pixels + r * stride. `parameters` has network.floats values; `state` is (training_states,
   network.floats). Adds the results to *sums. */
void reference_train(const EngineConfig *config, double *parameters, double *state,
                     const uint8_t *pixels, size_t stride, const uint16_t *labels,
                     const TrainRange *range, EngineSums *sums);

/* Evaluates dataset rows [first_row, first_row + rows). Adds the results to *sums. */
void reference_evaluate(const EngineConfig *config, const double *parameters, const uint8_t *pixels,
                        size_t stride, const uint16_t *labels, uint64_t first_row, uint64_t rows,
                        EngineSums *sums);

/* Fills an array with values uniform in [low, high). Value i depends only on (seed, i), and is
   exact in float32. */
void reference_fill(double *out, size_t count, double low, double high, uint64_t seed);

/* Fills an array with random pixels from 0 to 255. */
void reference_fill_pixels(uint8_t *out, size_t count, uint64_t seed);

/* Fills an array with random labels from 0 to classes - 1. */
void reference_fill_labels(uint16_t *out, size_t count, int classes, uint64_t seed);

void reference_to_float(const double *in, size_t count, float *out);

/* Returns ||out - ref|| / ||ref||. Returns INFINITY if a value is not finite, or if ref is all
   zeros and out is not. */
double reference_relative_error(const float *out, const double *ref, size_t count);
