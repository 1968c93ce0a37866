/* How good a network's answers are: counts of truth against answer, and what follows from them. */
#ifndef METRICS_H
#define METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

typedef struct {
  int classes;
  uint64_t *counts; /* (classes, classes): truth, answer; owned */
  double loss;      /* sum of the cross-entropies, natural logarithm */
  uint64_t rows, correct;
} Metrics;

/* Nothing counted yet. Fails when there is no memory. */
bool metrics_open(Metrics *scores, int classes, Error *error);
void metrics_close(Metrics *scores); /* one of zeros is allowed */

/* The answer that logits (classes) give: the first of the largest, as engines judge. */
int argmax(const float *logits, int classes);

/* Counts a row: logits (classes), label below classes. Returns the answer. */
int metrics_add(Metrics *scores, const float *logits, int label);

/* probabilities (classes) = softmax(logits), in float64. */
void softmax(const float *logits, int classes, double *probabilities);

/* Loss, accuracy, and of each class: rows, precision (how many of its answers are right), recall
   (how many of its rows are found) and F1 (their harmonic mean), "-" for 0 of 0. Up to 16 classes
   stand in the confusion matrix; of more, the ten most frequent confusions follow. */
void metrics_print(const Metrics *scores, FILE *file);

#endif
