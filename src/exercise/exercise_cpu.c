/* The exercise without a GPU: four functions to be fused. This file is yours; docs/exercise.md is
   the handout, src/exercise/exercise_cpu.h says what each function must do.

       make exercise-cpu     # right or wrong, passes, bytes, time: the scorecard

   Each function is right, and made of passes: loop nests that go once over their arrays, what would
   be kernels on a GPU. Each reads what the last one wrote. Make ONE pass of each, and keep it right
   for every shape: 1 row, 1 class. Nothing has to be declared: the bytes that you move are counted
   as they move, on arrays that are larger than the cache.

   The signatures stay as they are: scratch arrays that you no longer need stay arguments. Memory is
   what you are given, and a little on the stack: no allocation, no large static arrays. Of the C
   library you may call <math.h>, <string.h> and printf. */
#include "exercise/exercise_cpu.h"

#include <math.h>
#include <stddef.h>

/* The place of (row, column) in a matrix of `columns` columns. */
static size_t at(int row, int column, int columns) {
  return (size_t)row * (size_t)columns + (size_t)column;
}

/* ---- 1: forward ----------------------------------------------------------------------------- */

/* z = x w^T.

   TASK   Fuse the ReLU into the product, then the bias.
   COUNT  How often does a value of z cross the memory bus between the product and y?
   HINT   Where is a value of z when the loop over k ends? */
static void gemm(const float *x, const float *w, float *z, int rows, int in, int out) {
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      float sum = 0.0f;
      for (int k = 0; k < in; k++) sum += x[at(r, k, in)] * w[at(o, k, in)];
      z[at(r, o, out)] = sum;
    }
}

static void add_bias(float *z, const float *b, int rows, int out) {
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) z[at(r, o, out)] += b[o];
}

static void relu_all(const float *z, float *y, int rows, int out) {
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) y[at(r, o, out)] = z[at(r, o, out)] < 0 ? 0 : z[at(r, o, out)];
}

void exercise_forward(const float *x, const float *w, const float *b, float *z, float *y, int rows,
                      int in, int out, bool relu) {
  float *sum = relu ? z : y;
  gemm(x, w, sum, rows, in, out);
  add_bias(sum, b, rows, out);
  if (relu) relu_all(z, y, rows, out);
}

/* ---- 2: log-softmax ------------------------------------------------------------------------- */

/* The maximum of each row of z.

   TASK   Maximum and sum in one pass (online softmax: Milakov and Gimelshein, 2018), then all of it
          row by row, while the row is in the cache.
   COUNT  How often is z read now, and how often must it be?
   HINT   Whoever has seen some of the row's logits knows their maximum m and the sum s of
          exp(z - m). The next logit may be above m: by which factor is s then wrong?
   HINT   m starts at -INFINITY, for rows of negative numbers.
   HINT   (z - m) - log(s) is right for a row of millions; z - (m + log(s)) is not. Why? */
static void row_largest(const float *z, float *largest, int rows, int classes) {
  for (int r = 0; r < rows; r++) {
    largest[r] = -INFINITY;
    for (int c = 0; c < classes; c++)
      if (z[at(r, c, classes)] > largest[r]) largest[r] = z[at(r, c, classes)];
  }
}

static void row_sum(const float *z, const float *largest, float *sum, int rows, int classes) {
  for (int r = 0; r < rows; r++) {
    sum[r] = 0.0f;
    for (int c = 0; c < classes; c++) sum[r] += expf(z[at(r, c, classes)] - largest[r]);
  }
}

static void log_probabilities(const float *z, const float *largest, const float *sum, float *p,
                              int rows, int classes) {
  for (int r = 0; r < rows; r++) {
    const float log_sum = logf(sum[r]);
    for (int c = 0; c < classes; c++)
      p[at(r, c, classes)] = (z[at(r, c, classes)] - largest[r]) - log_sum;
  }
}

void exercise_softmax(const float *z, float *largest, float *sum, float *p, int rows, int classes) {
  row_largest(z, largest, rows, classes);
  row_sum(z, largest, sum, rows, classes);
  log_probabilities(z, largest, sum, p, rows, classes);
}

/* ---- 3: softmax, cross-entropy and its gradient --------------------------------------------- */

/* Loss and correctness from log-probabilities.

   TASK   One pass from logits to results and gradient; p is never written.
   COUNT  How many matrices of (rows, classes) does the unfused way read and write? And yours?
   HINT   The loss is log(s) + (m - z[label]): no probability whose logarithm could be of 0.
   HINT   `correct` wants the first class that has the largest logit. */
static void cross_entropy(const float *p, const uint16_t *labels, float *loss, uint8_t *correct,
                          int rows, int classes) {
  for (int r = 0; r < rows; r++) {
    int best = 0;
    for (int c = 1; c < classes; c++)
      if (p[at(r, c, classes)] > p[at(r, best, classes)]) best = c;
    loss[r] = -p[at(r, labels[r], classes)];
    correct[r] = best == labels[r];
  }
}

static void cross_entropy_gradient(const float *p, const uint16_t *labels, float *dz, int rows,
                                   int classes) {
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < classes; c++)
      dz[at(r, c, classes)] =
          (expf(p[at(r, c, classes)]) - (c == labels[r] ? 1.0f : 0.0f)) / (float)rows;
}

void exercise_loss(const float *z, const uint16_t *labels, float *largest, float *sum, float *p,
                   float *dz, float *loss, uint8_t *correct, int rows, int classes) {
  exercise_softmax(z, largest, sum, p, rows, classes);
  cross_entropy(p, labels, loss, correct, rows, classes);
  cross_entropy_gradient(p, labels, dz, rows, classes);
}

/* ---- 4: gradient and update ----------------------------------------------------------------- */

/* dw = dz^T x: a row of dw is finished before the next one is begun.

   TASK   One pass: the gradient is used where it is made, and never goes to memory and back.
   COUNT  Bytes a weight now: the gradient written; read again, w and v read, w and v written. And
          fused?
   HINT   When the loop over r ends, row o of dw is in the cache. What else is to be done with it?
   HINT   The first row of dw is scratch enough.
   HINT   The bias is the weight of an input that is always 1. It has no weight decay. */
static void weight_gradient(const float *dz, const float *x, float *dw, int rows, int in, int out) {
  for (int o = 0; o < out; o++) {
    for (int i = 0; i < in; i++) dw[at(o, i, in)] = 0.0f;
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < in; i++) dw[at(o, i, in)] += dz[at(r, o, out)] * x[at(r, i, in)];
  }
}

static void bias_gradient(const float *dz, float *db, int rows, int out) {
  for (int o = 0; o < out; o++) db[o] = 0.0f;
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) db[o] += dz[at(r, o, out)];
}

static void update(float *w, float *v, const float *g, size_t count, ExerciseRule rule) {
  for (size_t i = 0; i < count; i++) {
    v[i] = rule.momentum * v[i] + (g[i] + rule.weight_decay * w[i]);
    w[i] -= rule.rate * v[i];
  }
}

void exercise_update(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db) {
  const int rows = layer->rows, in = layer->in, out = layer->out;
  const ExerciseRule bias_rule = {rule.momentum, 0.0f, rule.rate};
  weight_gradient(layer->dz, layer->x, dw, rows, in, out);
  bias_gradient(layer->dz, db, rows, out);
  update(layer->w, layer->vw, dw, (size_t)out * (size_t)in, rule);
  update(layer->b, layer->vb, db, (size_t)out, bias_rule);
}
