#include "support/network_reference.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "activation.h"
#include "base/random.h"

/* ---- one layer ------------------------------------------------------------------------- */

void reference_scale(PixelScale scale, const uint8_t *pixels, int in, double *x) {
  const double max = scale.max > 0 ? scale.max : 255, std = scale.std > 0 ? scale.std : 1;
  for (int i = 0; i < in; i++) x[i] = (pixels[i] / max - scale.mean) / std;
}

void reference_activate(double *y, size_t count) {
  for (size_t i = 0; i < count; i++) y[i] = activate_float64(y[i]);
}

void reference_input_gradient(const double *dy, const double *weight, int rows, int in, int out,
                              double *dx) {
  memset(dx, 0, area(rows, in) * sizeof *dx);
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++)
      for (int i = 0; i < in; i++)
        dx[cell(r, in, i)] += dy[cell(r, out, o)] * weight[cell(o, in, i)];
}

void reference_activation_slope(const double *y, size_t count, double *gradient) {
  for (size_t i = 0; i < count; i++) gradient[i] = activation_slope_float64(y[i], gradient[i]);
}

/* ---- the whole network ----------------------------------------------------------------- */

/* The settings that make a training step another function than the plain network. */
typedef struct {
  Training training; /* of it label_smoothing and dropout */
  uint64_t key;      /* of dropout */
  uint32_t first;    /* position of the first row */
} Step;

/* Dropout of hidden layer l, from 1, or of its gradient: values (rows, size). */
static void drop(const Step *step, int l, int rows, int size, double *values) {
  const float share = training_dropout(&step->training, l - 1);
  for (int r = 0; share > 0 && r < rows; r++)
    for (int n = 0; n < size; n++) {
      const RandomWords words =
          random_dropout(step->key, (uint32_t)l, step->first + (uint32_t)r, (uint32_t)(n / 4));
      values[cell(r, size, n)] *=
          random_drops(words.word[n % 4], share) ? 0 : 1 / (1 - (double)share);
    }
}

/* Each row's loss with a smoothed target, instead of that with its label alone. */
static void smooth_loss(const double *logits, const uint16_t *labels, int rows, int classes,
                        double smoothing, double *loss) {
  for (int r = 0; r < rows; r++) {
    const double *row = logits + area(r, classes);
    double mean = 0;
    for (int c = 0; c < classes; c++) mean += row[c] / classes;
    loss[r] -= smoothing * (mean - row[labels[r]]);
  }
}

/* Adds the smoothed part to the gradient of the logits, `scale` times that of a row's loss. */
static void smooth_gradient(const uint16_t *labels, int rows, int classes, double smoothing,
                            double scale, double *dlogits) {
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < classes; c++)
      dlogits[cell(r, classes, c)] +=
          scale * smoothing * ((c == labels[r] ? 1.0 : 0.0) - 1.0 / classes);
}

static void gradient_of(const Network *network, const Step *step, const double *parameters,
                        const double *x, const uint16_t *labels, int rows, double *gradient,
                        EngineSums *sums) {
  const int layers = network->layers;
  const int *size = network->size;
  double *y[NETWORK_MAX_LAYERS + 1] = {NULL}; /* y[l] (rows, size[l]): layer l's input */
  assert(layers > 0);
  for (int l = 0; l <= layers; l++) y[l] = reference_zeros(area(rows, size[l]), sizeof(double));
  memcpy(y[0], x, area(rows, size[0]) * sizeof *x);
  for (int l = 0; l < layers; l++) {
    reference_linear(y[l], parameters + network->weight[l], parameters + network->bias[l], rows,
                     size[l], size[l + 1], y[l + 1]);
    if (l + 1 == layers) break;
    reference_activate(y[l + 1], area(rows, size[l + 1]));
    drop(step, l + 1, rows, size[l + 1], y[l + 1]);
  }

  const int classes = size[layers];
  double *loss = reference_zeros((size_t)rows, sizeof(double));
  reference_cross_entropy(y[layers], labels, rows, classes, loss);
  smooth_loss(y[layers], labels, rows, classes, step->training.label_smoothing, loss);
  for (int r = 0; r < rows; r++) sums->loss += loss[r];
  sums->correct += reference_correct(y[layers], labels, rows, classes);
  sums->rows += (uint64_t)rows;
  free(loss);

  if (gradient) {
    memset(gradient, 0, network->floats * sizeof *gradient);
    double *dy = reference_zeros(area(rows, classes), sizeof(double));
    reference_cross_entropy_gradient(y[layers], labels, rows, classes, 1.0 / rows, dy);
    smooth_gradient(labels, rows, classes, step->training.label_smoothing, 1.0 / rows, dy);
    for (int l = layers - 1; l >= 0; l--) {
      reference_weight_gradient(dy, y[l], rows, size[l], size[l + 1],
                                gradient + network->weight[l]);
      reference_bias_gradient(dy, rows, size[l + 1], gradient + network->bias[l]);
      if (l == 0) break; /* nobody asks for the gradient of the pixels */
      double *dx = reference_zeros(area(rows, size[l]), sizeof(double));
      reference_input_gradient(dy, parameters + network->weight[l], rows, size[l], size[l + 1], dx);
      drop(step, l, rows, size[l], dx);
      reference_activation_slope(y[l], area(rows, size[l]), dx);
      free(dy);
      dy = dx;
    }
    free(dy);
  }
  for (int l = 0; l <= layers; l++) free(y[l]);
}

void reference_gradient(const Network *network, const double *parameters, const double *x,
                        const uint16_t *labels, int rows, double *gradient, EngineSums *sums) {
  gradient_of(network, &(Step){0}, parameters, x, labels, rows, gradient, sums);
}

void reference_optimize(OptimizerRule rule, double *w, double *m, double *v, const double *g,
                        size_t count, double weight_decay, double learning_rate, uint64_t update) {
  const double momentum = rule.momentum, epsilon = rule.epsilon;
  const double beta1 = rule.beta1, beta2 = rule.beta2;
  const double first = 1 - pow(beta1, (double)update), second = 1 - pow(beta2, (double)update);
  if (rule.kind == OPTIMIZER_SGD) {
    reference_update(w, m, g, count, momentum, weight_decay, learning_rate);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    const double decay = weight_decay * w[i];
    const double gradient = rule.kind == OPTIMIZER_ADAMW ? g[i] : g[i] + decay;
    if (rule.kind == OPTIMIZER_NESTEROV) {
      m[i] = momentum * m[i] + gradient;
      w[i] -= learning_rate * (gradient + momentum * m[i]);
      continue;
    }
    if (rule.kind == OPTIMIZER_ADAMW) w[i] -= learning_rate * decay;
    m[i] = beta1 * m[i] + (1 - beta1) * gradient;
    v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    w[i] -= learning_rate * (m[i] / first) / (sqrt(v[i] / second) + epsilon);
  }
}

/* One step on the rows at positions [first, first + rows) of the range's window, and the `update`th
   of the run. */
static void train_step(const EngineConfig *config, double *parameters, double *state,
                       const uint8_t *pixels, size_t stride, const uint16_t *labels,
                       const TrainRange *range, uint64_t first, int rows, uint64_t update,
                       EngineSums *sums) {
  const Network *network = &config->network;
  const size_t in = (size_t)network->size[0];
  double *average =
      config->training.ema > 0 ? parameters : NULL; /* the network is that of the trained ones */
  if (average) parameters = state + training_moments(&config->training) * network->floats;
  double *x = reference_zeros((size_t)rows * in, sizeof(double)),
         *gradient = reference_zeros(network->floats, sizeof(double));
  uint16_t *label = reference_zeros((size_t)rows, sizeof *label);
  for (int r = 0; r < rows; r++) {
    const uint32_t position = (uint32_t)(first + (uint64_t)r);
    const uint64_t row =
        range->first_row +
        (range->shuffled ? random_permute(position, (uint32_t)range->rows, range->key) : position);
    reference_scale(config->training.pixels, pixels + row * stride, (int)in, x + (size_t)r * in);
    label[r] = labels[row];
  }
  const Step step = {config->training, range->dropout_key, (uint32_t)first};
  gradient_of(network, &step, parameters, x, label, rows, gradient, sums);
  const OptimizerRule rule = config->training.rule;
  const double rate = range->learning_rate, decay = rule.weight_decay;
  double *v = training_moments(&config->training) > 1 ? state + network->floats : state;
  for (int l = 0; l < network->layers; l++) {
    const size_t w = network->weight[l], b = network->bias[l];
    const size_t out = (size_t)network->size[l + 1];
    reference_optimize(rule, parameters + w, state + w, v + w, gradient + w,
                       out * (size_t)network->size[l], decay, rate, update);
    reference_optimize(rule, parameters + b, state + b, v + b, gradient + b, out, 0, rate, update);
  }
  const double t = (double)update, keeps = fmin(config->training.ema, (1 + t) / (10 + t));
  for (size_t n = 0; average && n < network->floats; n++)
    average[n] = keeps * average[n] + (1 - keeps) * parameters[n];
  free(label);
  free(gradient);
  free(x);
}

void reference_train(const EngineConfig *config, double *parameters, double *state,
                     const uint8_t *pixels, size_t stride, const uint16_t *labels,
                     const TrainRange *range, EngineSums *sums) {
  const uint64_t batch = (uint64_t)config->training.batch;
  for (uint64_t s = range->first_step; s < range->first_step + range->steps; s++) {
    const uint64_t first = s * batch;
    const uint64_t rows = range->rows - first < batch ? range->rows - first : batch;
    train_step(config, parameters, state, pixels, stride, labels, range, first, (int)rows,
               range->updates + s - range->first_step + 1, sums);
  }
}

void reference_evaluate(const EngineConfig *config, const double *parameters, const uint8_t *pixels,
                        size_t stride, const uint16_t *labels, uint64_t first_row, uint64_t rows,
                        EngineSums *sums) {
  const Network *network = &config->network;
  double *x = reference_zeros((size_t)network->size[0], sizeof(double));
  for (uint64_t r = first_row; r < first_row + rows; r++) {
    reference_scale(config->training.pixels, pixels + r * stride, network->size[0], x);
    reference_gradient(network, parameters, x, labels + r, 1, NULL, sums);
  }
  free(x);
}

/* ---- values ---------------------------------------------------------------------------- */

void reference_fill(double *out, size_t count, double low, double high, uint64_t seed) {
  for (size_t i = 0; i < count; i++)
    out[i] = (float)(low + (high - low) * random_unit(reference_word(i, seed)));
}

void reference_fill_pixels(uint8_t *out, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; i++) out[i] = (uint8_t)(reference_word(i, seed) >> 24);
}

void reference_to_float(const double *in, size_t count, float *out) {
  for (size_t i = 0; i < count; i++) out[i] = (float)in[i];
}

double reference_relative_error(const float *out, const double *ref, size_t count) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < count; i++) {
    const double d = out[i] - ref[i];
    difference += d * d;
    norm += ref[i] * ref[i];
  }
  if (!isfinite(difference) || !isfinite(norm)) return INFINITY;
  if (difference == 0) return 0;
  return norm == 0 ? INFINITY : sqrt(difference / norm);
}
