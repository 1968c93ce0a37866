#include <math.h>

#include "bench/bench.h"

enum { FLOAT = 4, RESULTS = 5, LABEL = 2 }; /* bytes; results: a loss and a byte, by row */

/* Counts the floats that levels none and cublas both move: forward, gradients and masks. A value
   that one kernel writes and another one reads counts twice. */
static double floats_of_operations(const Network *n, double rows) {
  double floats = rows * n->size[0]; /* the scaled pixels, written */
  for (int l = 0; l < n->layers; l++) {
    const double in = n->size[l], out = n->size[l + 1], x = rows * in, y = rows * out;
    const double w = in * out;
    floats += x + w + y;                    /* Z = X W^T */
    floats += y + out + y;                  /* Z += b */
    if (l < n->layers - 1) floats += 2 * y; /* ReLU */
    floats += y + x + w;                    /* dW = dZ^T X */
    floats += y + out;                      /* db */
    if (l > 0) floats += y + w + x + 3 * x; /* dX = dZ W; masked by X */
  }
  return floats;
}

/* The layer kernels: X is bytes in the first layer; gradients of weights are never written; the
   last layer is one kernel there and back, which writes no logits. */
static double bytes_of_layers(const Network *n, double rows) {
  double bytes = 0;
  for (int l = 0; l < n->layers; l++) {
    const double in = n->size[l], out = n->size[l + 1], x = rows * in, y = rows * out;
    const double w = in * out, input = l > 0 ? FLOAT * x : x;
    const bool head = l == n->layers - 1;
    bytes += input + FLOAT * (w + out + y);       /* forward */
    bytes += input + FLOAT * (y + 4 * (w + out)); /* gradient, update: w, v read and written */
    if (head) bytes += FLOAT * x;                 /* and back */
    if (l > 0 && !head) bytes += FLOAT * (y + w + 2 * x); /* backward, masked */
  }
  return bytes + rows * (LABEL + RESULTS);
}

double bench_bytes(int level, const Network *n, int batch) {
  const double rows = batch, pixels = rows * n->size[0], logits = rows * n->size[n->layers];
  const double values = (double)n->parameters;
  const double softmax = 2 * FLOAT * logits + rows * (LABEL + RESULTS); /* in one kernel */
  switch (level) {
  case FUSION_NONE: /* log-softmax, loss, gradient; the update reads w, v, g and writes w, v */
    return pixels + FLOAT * (floats_of_operations(n, rows) + 5 * logits + 5 * values) +
           rows * (2 * LABEL + RESULTS);
  case BENCH_CUBLAS:
    return pixels + FLOAT * (floats_of_operations(n, rows) + 5 * (double)n->floats) + softmax;
  case FUSION_LAYER:
  case FUSION_STEP:
    return bytes_of_layers(n, rows);
  default: /* level epoch's weights and activations stay on the multiprocessors */
    return NAN;
  }
}

void bench_add_part(Record *record, const char *of, const char *name, double value,
                    const char *unit, double share) {
  record_add(record, json_pack("{ss ss ss sf ss sf}", "case", "part", "of", of, "name", name,
                               "value", value, "unit", unit, "share", share));
}
