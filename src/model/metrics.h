/* Results of a network: its epochs, and its predictions compared with the truth. */
#pragma once

#include <stdint.h>

#include "model/class_names.h"

/* The rows that a network is judged by after every epoch. */
typedef enum { JUDGED_BY_TEST, JUDGED_BY_VALIDATION, JUDGED_BY_NONE } JudgedBy;

/* The results of an epoch. Losses are means over the rows, accuracies fractions of 1. */
typedef struct {
  int epoch, epochs; /* this one, from 1, of how many */
  double train_loss, train_accuracy;
  JudgedBy judged_by;              /* the rows behind test_loss, test_accuracy and test_rows */
  double test_loss, test_accuracy; /* NAN if there are none */
  double learning_rate;
  double train_seconds, test_seconds; /* wall clock, until the device had finished */
  uint64_t train_rows, test_rows;     /* that were used */
  uint64_t seed;                      /* of the run */
  uint64_t rows_before;               /* of train_rows: outside of train_seconds, by another run */
} EpochResult;

/* The times of a run, in seconds of wall clock. */
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
  const char *names; /* of the classes, see class_names.h; NULL at first */
} Metrics;

/* Starts with nothing counted. Fails without memory. */
bool metrics_open(Metrics *metrics, int classes, Error *error);
void metrics_close(Metrics *metrics); /* one of zeros is allowed */

/* Returns the class of the largest logit (classes), the first of equals, as engines predict it. */
int argmax(const float *logits, int classes);

/* Counts a row: logits (classes), label below classes. Returns the prediction. */
int metrics_add(Metrics *metrics, const float *logits, int label);

/* Computes probabilities (classes) = softmax(logits), in float64. */
void softmax(const float *logits, int classes, double *probabilities);

/* Prints loss, accuracy, and for each class: rows, precision (how many of its predictions are
   right), recall (how many of its rows are found) and F1 (their harmonic mean), "-" for 0 of 0. Up
   to 16 classes stand in the confusion matrix. Names end the lines. */
void metrics_print(const Metrics *metrics, FILE *file);

/* Prints the same as a line of JSON: loss, accuracy, rows, names if there are any, and counts, a
   list for each truth of a number for each answer. */
void metrics_print_json(const Metrics *metrics, FILE *file);
