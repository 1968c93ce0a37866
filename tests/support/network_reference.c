#include "support/network_reference.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

void reference_scale(PixelScale scale, const uint8_t *pixels, int in, double *x) {
  const double max = scale.max > 0 ? scale.max : 255, std = scale.std > 0 ? scale.std : 1;
  for (int i = 0; i < in; i++) x[i] = (pixels[i] / max - scale.mean) / std;
}

/* A new optimizer needs its own loop here, written from the paper and not from optimizer.h. */
_Static_assert(OPTIMIZERS == 4, "every optimizer has its float64 rule in reference_optimize()");

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

/* The values of a training step that label smoothing and dropout need. */
typedef struct {
  const Training *training; /* for label_smoothing and dropout */
  uint64_t key;             /* random key of dropout */
  uint32_t first;           /* position of the step's first row in the epoch */
} Step;

/* Applies dropout to hidden layer l's output or its gradient, (rows, size). l counts from 1. */
static void drop(const Step *step, int l, int rows, int size, double *values) {
  const float share = training_dropout(step->training, l - 1);
  for (int r = 0; share > 0 && r < rows; r++)
    for (int n = 0; n < size; n++) {
      const RandomWords words =
          random_dropout(step->key, (uint32_t)l, step->first + (uint32_t)r, (uint32_t)(n / 4));
      values[cell(r, size, n)] *=
          random_drops(words.word[n % 4], share) ? 0 : 1 / (1 - (double)share);
    }
}

/* Computes all layers' outputs. y[0] is the input. Layer l writes y[l + 1] (rows, size[l + 1]), and
   a hidden layer also whole[l + 1], its output before dropout. */
static void forward(const Network *n, const Step *step, const double *parameters, int rows,
                    double *const *y, double *const *whole) {
  for (int l = 0; l < n->layers; l++) {
    const int out = n->size[l + 1];
    reference_linear(y[l], parameters + n->weight[l], parameters + n->bias[l], rows, n->size[l],
                     out, y[l + 1]);
    if (l + 1 == n->layers) break;
    reference_activate(y[l + 1], area(rows, out));
    memcpy(whole[l + 1], y[l + 1], area(rows, out) * sizeof *y[l + 1]);
    drop(step, l + 1, rows, out, y[l + 1]);
  }
}

/* Adds the loss, computed with smoothed labels, and the number of correct rows to *sums. */
static void add_loss(const Step *step, const double *logits, const uint16_t *labels, int rows,
                     int classes, EngineSums *sums) {
  double *loss = reference_zeros((size_t)rows, sizeof *loss);
  reference_cross_entropy(logits, labels, rows, classes, loss);
  for (int r = 0; r < rows; r++) {
    const double *row = logits + area(r, classes);
    double mean = 0;
    for (int c = 0; c < classes; c++) mean += row[c] / classes;
    sums->loss += loss[r] - step->training->label_smoothing * (mean - row[labels[r]]);
  }
  sums->correct += reference_correct(logits, labels, rows, classes);
  sums->rows += (uint64_t)rows;
  free(loss);
}

/* Computes the mean loss's gradient with respect to the logits. */
static double *loss_gradient(const Step *step, const double *logits, const uint16_t *labels,
                             int rows, int classes) {
  const double smoothing = step->training->label_smoothing;
  double *dy = reference_zeros(area(rows, classes), sizeof *dy);
  reference_cross_entropy_gradient(logits, labels, rows, classes, 1.0 / rows, dy);
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < classes; c++)
      dy[cell(r, classes, c)] += smoothing / rows * ((c == labels[r] ? 1.0 : 0.0) - 1.0 / classes);
  return dy;
}

/* Computes every layer's gradient from dy, the gradient of the logits, and frees dy. */
static void backward(const Network *n, const Step *step, const double *parameters, int rows,
                     double *const *y, double *const *whole, double *dy, double *gradient) {
  memset(gradient, 0, n->floats * sizeof *gradient);
  for (int l = n->layers - 1; l >= 0; l--) {
    const int in = n->size[l], out = n->size[l + 1];
    reference_weight_gradient(dy, y[l], rows, in, out, gradient + n->weight[l]);
    reference_bias_gradient(dy, rows, out, gradient + n->bias[l]);
    double *dx = reference_zeros(area(rows, in), sizeof *dx);
    if (l > 0) { /* the gradient of the pixels is not needed */
      reference_input_gradient(dy, parameters + n->weight[l], rows, in, out, dx);
      drop(step, l, rows, in, dx);
      reference_activation_slope(whole[l], area(rows, in), dx);
    }
    free(dy);
    dy = dx;
  }
  free(dy);
}

static void gradient_of(const Network *n, const Step *step, const double *parameters,
                        const double *x, const uint16_t *labels, int rows, double *gradient,
                        EngineSums *sums) {
  const int layers = n->layers, classes = n->size[layers];
  double *y[NETWORK_MAX_LAYERS + 1], *whole[NETWORK_MAX_LAYERS + 1];
  assert(layers > 0);
  for (int l = 0; l <= layers; l++) {
    y[l] = reference_zeros(area(rows, n->size[l]), sizeof(double));
    whole[l] = reference_zeros(area(rows, n->size[l]), sizeof(double));
  }
  memcpy(y[0], x, area(rows, n->size[0]) * sizeof *x);
  forward(n, step, parameters, rows, y, whole);
  add_loss(step, y[layers], labels, rows, classes, sums);
  if (gradient)
    backward(n, step, parameters, rows, y, whole,
             loss_gradient(step, y[layers], labels, rows, classes), gradient);
  for (int l = 0; l <= layers; l++) free(y[l]), free(whole[l]);
}

void reference_gradient(const Network *network, const double *parameters, const double *x,
                        const uint16_t *labels, int rows, double *gradient, EngineSums *sums) {
  const Step plain = {.training = &(Training){.batch = 0}};
  gradient_of(network, &plain, parameters, x, labels, rows, gradient, sums);
}

/* Updates every layer's parameters by `gradient`. `update` is the number of this update, from 1. */
static void update_network(const Network *n, const Training *training, double rate, uint64_t update,
                           double *parameters, double *state, const double *gradient) {
  double *v = training_moments(training) > 1 ? state + n->floats : state;
  for (int l = 0; l < n->layers; l++)
    for (int bias = 0; bias < 2; bias++) {
      const size_t at = bias ? n->bias[l] : n->weight[l], out = (size_t)n->size[l + 1];
      reference_optimize(training->rule, parameters + at, state + at, v + at, gradient + at,
                         bias ? out : out * (size_t)n->size[l],
                         bias ? 0 : training->rule.weight_decay, rate, update);
    }
}

/* Trains one step, on the rows at positions [first, first + rows) of the epoch. `update` is the
   number of this update, from 1. */
static void train_step(const EngineConfig *config, double *parameters, double *state,
                       const uint8_t *pixels, size_t stride, const uint16_t *labels,
                       const TrainRange *range, uint64_t first, int rows, uint64_t update,
                       EngineSums *sums) {
  const Network *n = &config->network;
  const Training *training = &config->training;
  double *average = training->ema > 0 ? parameters : NULL; /* moving average of the parameters */
  if (average) parameters = state + training_moments(training) * n->floats;
  double *x = reference_zeros(area(rows, n->size[0]), sizeof *x);
  double *gradient = reference_zeros(n->floats, sizeof *gradient);
  uint16_t *label = reference_zeros((size_t)rows, sizeof *label);
  for (int r = 0; r < rows; r++) {
    uint64_t row = first + (uint64_t)r;
    if (range->shuffled) row = random_permute((uint32_t)row, (uint32_t)range->rows, range->key);
    row += range->first_row;
    reference_scale(training->pixels, pixels + row * stride, n->size[0], x + area(r, n->size[0]));
    label[r] = labels[row];
  }
  const Step step = {training, range->dropout_key, (uint32_t)first};
  gradient_of(n, &step, parameters, x, label, rows, gradient, sums);
  update_network(n, training, range->learning_rate, update, parameters, state, gradient);
  const double t = (double)update, keeps = fmin(training->ema, (1 + t) / (10 + t));
  for (size_t i = 0; average && i < n->floats; i++)
    average[i] = keeps * average[i] + (1 - keeps) * parameters[i];
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

/* Returns 32 random bits that depend only on (seed, index). */
static uint32_t word_of(size_t i, uint64_t seed) {
  const RandomWords words = random_words(seed, 0x7465737473u /* "tests" */, i / 4);
  return words.word[i % 4];
}

void reference_fill(double *out, size_t count, double low, double high, uint64_t seed) {
  for (size_t i = 0; i < count; i++)
    out[i] = (float)(low + (high - low) * random_unit(word_of(i, seed)));
}

void reference_fill_pixels(uint8_t *out, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; i++) out[i] = (uint8_t)(word_of(i, seed) >> 24);
}

void reference_fill_labels(uint16_t *out, size_t count, int classes, uint64_t seed) {
  for (size_t i = 0; i < count; i++)
    out[i] = (uint16_t)(word_of(i, seed) * (uint64_t)classes >> 32);
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
