/* What is measured of a network: its epochs, and how its predictions compare with the truth. */
#ifndef METRICS_H
#define METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* The rows that a network is judged by after every epoch. */
typedef enum { JUDGED_BY_TEST, JUDGED_BY_VALIDATION, JUDGED_BY_NONE } JudgedBy;

/* What an epoch measured. Losses are means over the rows, accuracies fractions of 1. */
typedef struct {
  int epoch, epochs; /* this one, from 1, of how many */
  double train_loss, train_accuracy;
  JudgedBy judged_by;              /* what follows as test_ is of those rows */
  double test_loss, test_accuracy; /* NAN if there are none */
  double learning_rate;
  double train_seconds, test_seconds; /* wall clock, until the device had finished */
  uint64_t train_rows, test_rows;     /* that were used */
} EpochResult;

/* What a run took, in seconds of wall clock. */
typedef struct {
  double load;        /* from opening the files until both were read; training goes on meanwhile */
  double train, test; /* sums over the epochs */
} RunTotals;

/* Counts of predictions: truth against prediction. */
typedef struct {
  int classes;
  uint64_t *counts; /* (classes, classes): truth, prediction; owned */
  double loss;      /* sum of the cross-entropies, natural logarithm */
  uint64_t rows, correct;
} Metrics;

/* Nothing counted yet. Fails when there is no memory. */
bool metrics_open(Metrics *metrics, int classes, Error *error);
void metrics_close(Metrics *metrics); /* one of zeros is allowed */

/* The class of the largest logit (classes), the first of equals, as engines predict it. */
int argmax(const float *logits, int classes);

/* Counts a row: logits (classes), label below classes. Returns the prediction. */
int metrics_add(Metrics *metrics, const float *logits, int label);

/* probabilities (classes) = softmax(logits), in float64. */
void softmax(const float *logits, int classes, double *probabilities);

/* Loss, accuracy, and of each class: rows, precision (how many of its predictions are right),
   recall (how many of its rows are found) and F1 (their harmonic mean), "-" for 0 of 0. Up to 16
   classes stand in the confusion matrix; of more, the ten most frequent confusions follow. */
void metrics_print(const Metrics *metrics, FILE *file);

#endif
