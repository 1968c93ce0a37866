#include "exercise/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "activation.h"

void *reference_zeros(size_t count, size_t size) {
  void *zeros = calloc(count ? count : 1, size);
  if (!zeros) abort();
  return zeros;
}

/* Each function does one operation. Students get these loops, and find out themselves how to fuse
   them. */

void reference_linear(const double *x, const double *weight, const double *bias, int rows, int in,
                      int out, double *y) {
#pragma omp parallel for
  for (int r = 0; r < rows; r++) {
    for (int o = 0; o < out; o++) {
      double sum = 0;
      for (int i = 0; i < in; i++) sum += x[cell(r, in, i)] * weight[cell(o, in, i)];
      y[cell(r, out, o)] = sum;
    }
  }
  for (int r = 0; bias && r < rows; r++)
    for (int o = 0; o < out; o++) y[cell(r, out, o)] += bias[o];
}

void reference_activate(double *y, size_t count) {
  for (size_t i = 0; i < count; i++) y[i] = activate_float64(y[i]);
}

void reference_activation_slope(const double *y, size_t count, double *gradient) {
  for (size_t i = 0; i < count; i++) gradient[i] = activation_slope_float64(y[i], gradient[i]);
}

void reference_weight_gradient(const double *dy, const double *x, int rows, int in, int out,
                               double *dweight) {
  memset(dweight, 0, area(out, in) * sizeof *dweight);
#pragma omp parallel /* one thread adds all rows of a sum, so the order is fixed */
  for (int r = 0; r < rows; r++)
#pragma omp for schedule(static) nowait
    for (int o = 0; o < out; o++)
      for (int i = 0; i < in; i++)
        dweight[cell(o, in, i)] += dy[cell(r, out, o)] * x[cell(r, in, i)];
}

void reference_bias_gradient(const double *dy, int rows, int out, double *dbias) {
  memset(dbias, 0, (size_t)out * sizeof *dbias);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) dbias[o] += dy[cell(r, out, o)];
}

void reference_input_gradient(const double *dy, const double *weight, int rows, int in, int out,
                              double *dx) {
  memset(dx, 0, area(rows, in) * sizeof *dx);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++)
      for (int i = 0; i < in; i++)
        dx[cell(r, in, i)] += dy[cell(r, out, o)] * weight[cell(o, in, i)];
}

/* Returns the index of the largest value. If several are largest, returns the first index. */
static int argmax(const double *values, int count) {
  int best = 0;
  for (int i = 1; i < count; i++)
    if (values[i] > values[best]) best = i;
  return best;
}

static double log_sum_exp(const double *logits, int count) {
  const double largest = logits[argmax(logits, count)];
  double sum = 0;
  for (int i = 0; i < count; i++) sum += exp(logits[i] - largest);
  return largest + log(sum);
}

void reference_softmax(const double *logits, int rows, int classes, double *p) {
  for (int r = 0; r < rows; r++) {
    const size_t first = cell(r, classes, 0);
    const double normaliser = log_sum_exp(logits + first, classes);
    for (int c = 0; c < classes; c++)
      p[first + (size_t)c] = exp(logits[first + (size_t)c] - normaliser);
  }
}

void reference_cross_entropy(const double *logits, const uint16_t *labels, int rows, int classes,
                             double *loss) {
  for (int r = 0; r < rows; r++) {
    const double *row = logits + area(r, classes);
    loss[r] = log_sum_exp(row, classes) - row[labels[r]];
  }
}

void reference_cross_entropy_gradient(const double *logits, const uint16_t *labels, int rows,
                                      int classes, double scale, double *dlogits) {
  reference_softmax(logits, rows, classes, dlogits);
  for (int r = 0; r < rows; r++) {
    double *row = dlogits + area(r, classes);
    row[labels[r]] -= 1;
    for (int c = 0; c < classes; c++) row[c] *= scale;
  }
}

uint64_t reference_correct(const double *logits, const uint16_t *labels, int rows, int classes) {
  uint64_t correct = 0;
  for (int r = 0; r < rows; r++) correct += argmax(logits + area(r, classes), classes) == labels[r];
  return correct;
}

void reference_update(double *w, double *v, const double *g, size_t count, double momentum,
                      double weight_decay, double learning_rate) {
  for (size_t i = 0; i < count; i++) {
    v[i] = momentum * v[i] + g[i] + weight_decay * w[i];
    w[i] -= learning_rate * v[i];
  }
}

void reference_to_double(const float *in, size_t count, double *out) {
  for (size_t i = 0; i < count; i++) out[i] = in[i];
}
