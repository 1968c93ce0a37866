/* Our answers to exercise_cpu.c, which a student's time is compared with: not for students. Each
   value of a matrix of the size of the batch is read once and written once; what a row needs twice
   is read twice while it is in the cache. */
#include "exercise/exercise.h"

#include <math.h>

static size_t at(int row, int column, int columns) {
  return (size_t)row * (size_t)columns + (size_t)column;
}

/* Eight partial sums, which the compiler keeps in one vector: a single one would have each addition
   wait for the last. */
static float dot(const float *a, const float *b, int count) {
  enum { LANES = 8 };
  float sums[LANES] = {0}, sum = 0.0f;
  int k = 0;
  for (; k + LANES <= count; k += LANES)
    for (int l = 0; l < LANES; l++) sums[l] += a[k + l] * b[k + l];
  for (; k < count; k++) sum += a[k] * b[k];
  for (int l = 0; l < LANES; l++) sum += sums[l];
  return sum;
}

static void fused_forward(const float *x, const float *w, const float *b, float *z, float *y,
                          int rows, int in, int out, bool relu) {
  (void)z;
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < out; o++) {
      const float sum = dot(x + at(r, 0, in), w + at(o, 0, in), in) + b[o];
      y[at(r, o, out)] = relu && sum < 0 ? 0 : sum;
    }
}

/* The maximum of a row and the sum of exp(z - maximum), in one pass. */
static void online(const float *z, int classes, float *largest, float *sum) {
  float m = -INFINITY, s = 0.0f;
  for (int c = 0; c < classes; c++) {
    if (z[c] > m) {
      s *= expf(m - z[c]);
      m = z[c];
    }
    s += expf(z[c] - m);
  }
  *largest = m;
  *sum = s;
}

static void fused_softmax(const float *z, float *largest, float *sum, float *p, int rows,
                          int classes) {
  (void)largest;
  (void)sum;
  for (int r = 0; r < rows; r++) {
    const float *row = z + at(r, 0, classes);
    float m, s;
    online(row, classes, &m, &s);
    const float log_sum = logf(s);
    for (int c = 0; c < classes; c++) p[at(r, c, classes)] = (row[c] - m) - log_sum;
  }
}

static void fused_loss(const float *z, const uint16_t *labels, float *largest, float *sum, float *p,
                       float *dz, float *loss, uint8_t *correct, int rows, int classes) {
  (void)largest;
  (void)sum;
  (void)p;
  for (int r = 0; r < rows; r++) {
    const float *row = z + at(r, 0, classes);
    const int label = labels[r];
    int best = 0;
    float m, s;
    online(row, classes, &m, &s);
    while (row[best] < m) best++;
    loss[r] = logf(s) + (m - row[label]);
    correct[r] = best == label;
    for (int c = 0; c < classes; c++)
      dz[at(r, c, classes)] = (expf(row[c] - m) / s - (c == label ? 1.0f : 0.0f)) / (float)rows;
  }
}

static void apply(float *w, float *v, float g, float momentum, float decay, float rate) {
  *v = momentum * *v + (g + decay * *w);
  *w -= rate * *v;
}

/* The first row of dw holds the sums of the row of w that is at work. */
static void fused_update(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db) {
  const int rows = layer->rows, in = layer->in, out = layer->out;
  (void)db;
  for (int o = 0; o < out; o++) {
    float *w = layer->w + at(o, 0, in), *v = layer->vw + at(o, 0, in), bias = 0.0f;
    for (int i = 0; i < in; i++) dw[i] = 0.0f;
    for (int r = 0; r < rows; r++) {
      const float dz = layer->dz[at(r, o, out)];
      const float *x = layer->x + at(r, 0, in);
      bias += dz;
      for (int i = 0; i < in; i++) dw[i] += dz * x[i];
    }
    for (int i = 0; i < in; i++)
      apply(&w[i], &v[i], dw[i], rule.momentum, rule.weight_decay, rule.rate);
    apply(&layer->b[o], &layer->vb[o], bias, rule.momentum, 0.0f, rule.rate);
  }
}

const ExerciseFunctions exercise_fused = {fused_forward, fused_softmax, fused_loss, fused_update};
