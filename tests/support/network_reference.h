/* The rest of the specification, of which exercise/reference.h has what the exercise is judged by:
   in float64, the other operations of a layer and the whole network, for tests alone. */
#pragma once

#include "engine/engine.h"
#include "exercise/reference.h"

/* ---- one layer ------------------------------------------------------------------------- */

/* x (in) = the pixels of a row, scaled; of a scale of zeros, pixel / 255. */
void reference_scale(PixelScale scale, const uint8_t *pixels, int in, double *x);

/* y = activate(y), in place. */
void reference_activate(double *y, size_t count);

/* dx (rows, in) = dy (rows, out) W, W (out, in): the gradient of the layer's input. */
void reference_input_gradient(const double *dy, const double *weight, int rows, int in, int out,
                              double *dx);

/* Multiplies the gradient by the slope where the activation's output is y, in place. */
void reference_activation_slope(const double *y, size_t count, double *gradient);

/* ---- the whole network ----------------------------------------------------------------- */

/* Update number `update`, from 1, by any rule of optimizer.h: m is the momentum or the first
   moment, v the second moment, unused where there is none. */
void reference_optimize(OptimizerRule rule, double *w, double *m, double *v, const double *g,
                        size_t count, double weight_decay, double learning_rate, uint64_t update);

/* The loss and, unless NULL, its gradient: x (rows, size[0]) is scaled already; parameters and
   gradient are flat arrays of network->floats in the layout of network.h. The gradient is of
   the MEAN loss over the rows, overwritten, its padding 0. Adds loss, correct and rows to *sums. */
void reference_gradient(const Network *network, const double *parameters, const double *x,
                        const uint16_t *labels, int rows, double *gradient, EngineSums *sums);

/* Trains in place on a range of steps, as engine.h defines it, over a dataset of rows at pixels +
   row * stride. Of config only network, batch and what makes a step's loss and update are read.
   parameters has network.floats values, state (training_states, network.floats). Adds to *sums. */
void reference_train(const EngineConfig *config, double *parameters, double *state,
                     const uint8_t *pixels, size_t stride, const uint16_t *labels,
                     const TrainRange *range, EngineSums *sums);

/* The forward pass over dataset rows [first_row, first_row + rows). Of config only network and
   pixels are read. Adds to *sums. */
void reference_evaluate(const EngineConfig *config, const double *parameters, const uint8_t *pixels,
                        size_t stride, const uint16_t *labels, uint64_t first_row, uint64_t rows,
                        EngineSums *sums);

/* ---- values ---------------------------------------------------------------------------- */

/* Uniform in [low, high), a function of (seed, index) alone; every value is exact in float32, so
   that both sides of a comparison start from the same numbers. */
void reference_fill(double *out, size_t count, double low, double high, uint64_t seed);

/* Bytes 0 to 255, by the same. */
void reference_fill_pixels(uint8_t *out, size_t count, uint64_t seed);

void reference_to_float(const double *in, size_t count, float *out);

/* ||out - ref|| / ||ref||, Euclidean norms. INFINITY if anything is NaN or infinite, and if ref
   is all zero but out is not: a NaN never passes `error < bound`. */
double reference_relative_error(const float *out, const double *ref, size_t count);
