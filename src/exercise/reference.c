#include "exercise/reference.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

static double *allocate(size_t count) {
  double *values = calloc(count ? count : 1, sizeof *values);
  if (!values) abort();
  return values;
}

/* ---- one layer ------------------------------------------------------------------------- */

void reference_scale(const uint8_t *pixels, size_t stride, int rows, int in, double *x) {
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < in; i++)
      x[(size_t)r * (size_t)in + (size_t)i] = pixels[(size_t)r * stride + (size_t)i] / 255.0;
}

void reference_linear(const double *x, const double *weight, const double *bias, int rows, int in,
                      int out, double *y) {
  for (int r = 0; r < rows; r++) {
    for (int o = 0; o < out; o++) {
      double sum = bias ? bias[o] : 0;
      for (int i = 0; i < in; i++)
        sum += x[(size_t)r * (size_t)in + (size_t)i] * weight[(size_t)o * (size_t)in + (size_t)i];
      y[(size_t)r * (size_t)out + (size_t)o] = sum;
    }
  }
}

void reference_relu(double *y, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (y[i] < 0) y[i] = 0;
}

void reference_input_gradient(const double *dy, const double *weight, int rows, int in, int out,
                              double *dx) {
  memset(dx, 0, (size_t)rows * (size_t)in * sizeof *dx);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++)
      for (int i = 0; i < in; i++)
        dx[(size_t)r * (size_t)in + (size_t)i] +=
            dy[(size_t)r * (size_t)out + (size_t)o] * weight[(size_t)o * (size_t)in + (size_t)i];
}

void reference_relu_mask(const double *y, size_t count, double *gradient) {
  for (size_t i = 0; i < count; i++)
    if (y[i] <= 0) gradient[i] = 0;
}

void reference_weight_gradient(const double *dy, const double *x, int rows, int in, int out,
                               double *dweight) {
  memset(dweight, 0, (size_t)out * (size_t)in * sizeof *dweight);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++)
      for (int i = 0; i < in; i++)
        dweight[(size_t)o * (size_t)in + (size_t)i] +=
            dy[(size_t)r * (size_t)out + (size_t)o] * x[(size_t)r * (size_t)in + (size_t)i];
}

void reference_bias_gradient(const double *dy, int rows, int out, double *dbias) {
  memset(dbias, 0, (size_t)out * sizeof *dbias);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) dbias[o] += dy[(size_t)r * (size_t)out + (size_t)o];
}

/* ---- the loss -------------------------------------------------------------------------- */

/* The index of the largest value, the first of equals. */
static int argmax(const double *values, int count) {
  int best = 0;
  for (int i = 1; i < count; i++)
    if (values[i] > values[best]) best = i;
  return best;
}

static double log_sum_exp(const double *logits, int classes) {
  const double largest = logits[argmax(logits, classes)];
  double sum = 0;
  for (int c = 0; c < classes; c++) sum += exp(logits[c] - largest);
  return largest + log(sum);
}

void reference_softmax(const double *logits, int rows, int classes, double *p) {
  for (int r = 0; r < rows; r++) {
    const size_t row = (size_t)r * (size_t)classes;
    const double normaliser = log_sum_exp(logits + row, classes);
    for (int c = 0; c < classes; c++)
      p[row + (size_t)c] = exp(logits[row + (size_t)c] - normaliser);
  }
}

void reference_cross_entropy(const double *logits, const uint16_t *labels, int rows, int classes,
                             double *loss) {
  for (int r = 0; r < rows; r++) {
    const double *row = logits + (size_t)r * (size_t)classes;
    loss[r] = log_sum_exp(row, classes) - row[labels[r]];
  }
}

void reference_cross_entropy_gradient(const double *logits, const uint16_t *labels, int rows,
                                      int classes, double scale, double *dlogits) {
  reference_softmax(logits, rows, classes, dlogits);
  for (int r = 0; r < rows; r++) {
    double *row = dlogits + (size_t)r * (size_t)classes;
    row[labels[r]] -= 1;
    for (int c = 0; c < classes; c++) row[c] *= scale;
  }
}

uint64_t reference_correct(const double *logits, const uint16_t *labels, int rows, int classes) {
  uint64_t correct = 0;
  for (int r = 0; r < rows; r++)
    correct += argmax(logits + (size_t)r * (size_t)classes, classes) == labels[r];
  return correct;
}

/* ---- the whole network ----------------------------------------------------------------- */

void reference_update(double *w, double *v, const double *g, size_t count, double momentum,
                      double weight_decay, double learning_rate) {
  for (size_t i = 0; i < count; i++) {
    v[i] = momentum * v[i] + g[i] + weight_decay * w[i];
    w[i] -= learning_rate * v[i];
  }
}

void reference_gradient(const Network *network, const double *parameters, const double *x,
                        const uint16_t *labels, int rows, double *gradient, EngineSums *sums) {
  const int layers = network->layers;
  const int *size = network->size;
  double *y[NETWORK_MAX_LAYERS + 1] = {NULL}; /* y[l] (rows, size[l]): layer l's input */
  assert(layers > 0);
  for (int l = 0; l <= layers; l++) y[l] = allocate((size_t)rows * (size_t)size[l]);
  memcpy(y[0], x, (size_t)rows * (size_t)size[0] * sizeof *x);
  for (int l = 0; l < layers; l++) {
    reference_linear(y[l], parameters + network->weight[l], parameters + network->bias[l], rows,
                     size[l], size[l + 1], y[l + 1]);
    if (l + 1 < layers) reference_relu(y[l + 1], (size_t)rows * (size_t)size[l + 1]);
  }

  const int classes = size[layers];
  double *loss = allocate((size_t)rows);
  reference_cross_entropy(y[layers], labels, rows, classes, loss);
  for (int r = 0; r < rows; r++) sums->loss += loss[r];
  sums->correct += reference_correct(y[layers], labels, rows, classes);
  sums->rows += (uint64_t)rows;
  free(loss);

  if (gradient) {
    memset(gradient, 0, network->floats * sizeof *gradient);
    double *dy = allocate((size_t)rows * (size_t)classes);
    reference_cross_entropy_gradient(y[layers], labels, rows, classes, 1.0 / rows, dy);
    for (int l = layers - 1; l >= 0; l--) {
      reference_weight_gradient(dy, y[l], rows, size[l], size[l + 1],
                                gradient + network->weight[l]);
      reference_bias_gradient(dy, rows, size[l + 1], gradient + network->bias[l]);
      if (l == 0) break; /* nobody asks for the gradient of the pixels */
      double *dx = allocate((size_t)rows * (size_t)size[l]);
      reference_input_gradient(dy, parameters + network->weight[l], rows, size[l], size[l + 1], dx);
      reference_relu_mask(y[l], (size_t)rows * (size_t)size[l], dx);
      free(dy);
      dy = dx;
    }
    free(dy);
  }
  for (int l = 0; l <= layers; l++) free(y[l]);
}

/* One step on the rows at positions [first, first + rows) of the range's window. */
static void train_step(const EngineConfig *config, double *parameters, double *momentum,
                       const uint8_t *pixels, size_t stride, const uint16_t *labels,
                       const TrainRange *range, uint64_t first, int rows, EngineSums *sums) {
  const Network *network = &config->network;
  const size_t in = (size_t)network->size[0];
  double *x = allocate((size_t)rows * in), *gradient = allocate(network->floats);
  uint16_t *label = malloc((size_t)rows * sizeof *label);
  if (!label) abort();
  for (int r = 0; r < rows; r++) {
    const uint32_t position = (uint32_t)(first + (uint64_t)r);
    const uint64_t row =
        range->first_row +
        (range->shuffled ? random_permute(position, (uint32_t)range->rows, range->key) : position);
    reference_scale(pixels + row * stride, stride, 1, network->size[0], x + (size_t)r * in);
    label[r] = labels[row];
  }
  reference_gradient(network, parameters, x, label, rows, gradient, sums);
  const double rate = (double)range->learning_rate, friction = (double)config->momentum;
  for (int l = 0; l < network->layers; l++) {
    const size_t w = network->weight[l], b = network->bias[l];
    const size_t out = (size_t)network->size[l + 1];
    reference_update(parameters + w, momentum + w, gradient + w, out * (size_t)network->size[l],
                     friction, (double)config->weight_decay, rate);
    reference_update(parameters + b, momentum + b, gradient + b, out, friction, 0, rate);
  }
  free(label);
  free(gradient);
  free(x);
}

void reference_train(const EngineConfig *config, double *parameters, double *momentum,
                     const uint8_t *pixels, size_t stride, const uint16_t *labels,
                     const TrainRange *range, EngineSums *sums) {
  const uint64_t batch = (uint64_t)config->batch;
  for (uint64_t s = range->first_step; s < range->first_step + range->steps; s++) {
    const uint64_t first = s * batch;
    const uint64_t rows = range->rows - first < batch ? range->rows - first : batch;
    train_step(config, parameters, momentum, pixels, stride, labels, range, first, (int)rows, sums);
  }
}

void reference_evaluate(const Network *network, const double *parameters, const uint8_t *pixels,
                        size_t stride, const uint16_t *labels, uint64_t first_row, uint64_t rows,
                        EngineSums *sums) {
  double *x = allocate((size_t)network->size[0]);
  for (uint64_t r = first_row; r < first_row + rows; r++) {
    reference_scale(pixels + r * stride, stride, 1, network->size[0], x);
    reference_gradient(network, parameters, x, labels + r, 1, NULL, sums);
  }
  free(x);
}

/* ---- what tests share ------------------------------------------------------------------ */

static uint32_t word_at(size_t i, uint64_t seed) {
  const RandomWords words = random_words(seed, 0x7465737473u /* "tests" */, i / 4);
  return words.word[i % 4];
}

void reference_fill(double *out, size_t count, double low, double high, uint64_t seed) {
  for (size_t i = 0; i < count; i++)
    out[i] = (double)(float)(low + (high - low) * (double)random_unit(word_at(i, seed)));
}

void reference_fill_pixels(uint8_t *out, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; i++) out[i] = (uint8_t)(word_at(i, seed) >> 24);
}

void reference_fill_labels(uint16_t *out, size_t count, int classes, uint64_t seed) {
  for (size_t i = 0; i < count; i++)
    out[i] = (uint16_t)((uint64_t)word_at(i, seed) * (uint64_t)classes >> 32);
}

void reference_to_float(const double *in, size_t count, float *out) {
  for (size_t i = 0; i < count; i++) out[i] = (float)in[i];
}

void reference_to_double(const float *in, size_t count, double *out) {
  for (size_t i = 0; i < count; i++) out[i] = (double)in[i];
}

double reference_relative_error(const float *out, const double *ref, size_t count) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < count; i++) {
    const double d = (double)out[i] - ref[i];
    difference += d * d;
    norm += ref[i] * ref[i];
  }
  if (!isfinite(difference) || !isfinite(norm)) return INFINITY;
  if (difference == 0) return 0;
  return norm == 0 ? INFINITY : sqrt(difference / norm);
}

double reference_max_error(const float *out, const double *ref, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; i++) {
    const double d = fabs((double)out[i] - ref[i]);
    if (!isfinite(d)) return INFINITY;
    if (d > largest) largest = d;
  }
  return largest;
}
