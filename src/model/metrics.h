/* Results of a network: results of its epochs, and its predictions compared with the truth. */
#pragma once

#include <stdint.h>

#include "model/class_names.h"

/* The rows that a network is judged by after every epoch. */
typedef enum { JUDGED_BY_TEST, JUDGED_BY_VALIDATION, JUDGED_BY_NONE } JudgedBy;

/* The results of an epoch. Losses are means over the rows, accuracies fractions of 1. */
typedef struct {
  int epoch, epochs; /* this epoch, from 1; the number of epochs */
  double train_loss, train_accuracy;
  JudgedBy judged_by;              /* the rows behind test_loss, test_accuracy and test_rows */
  double test_loss, test_accuracy; /* NAN if there are none */
  double learning_rate;
  double train_seconds, test_seconds; /* wall clock, including the wait for the device */
  uint64_t train_rows, test_rows;     /* that were used */
  uint64_t seed;                      /* of the run */
  uint64_t rows_before;               /* the part of train_rows that an earlier run trained;
                                         train_seconds excludes it */
} EpochResult;

/* The times of a run, in seconds of wall clock. */
typedef struct {
  double load;        /* from opening the files until both were read; training runs meanwhile */
  double train, test; /* sums over the epochs */
} RunTotals;

/* Counts of predictions: truth against prediction. */
typedef struct {
  int classes;
  uint64_t *counts; /* (classes, classes): truth, prediction; owned */
  double loss;      /* sum of the cross-entropies, natural logarithm */
  uint64_t rows, correct;
  const char *names; /* names of the classes, see class_names.h; NULL at first */
} Metrics;

/* Starts with all counts 0. Fails without memory. */
bool metrics_open(Metrics *metrics, int classes, Error *error);
void metrics_close(Metrics *metrics); /* *metrics may be all zeros */

/* Returns the class of the largest of `classes` logits. Among equals it is the first, as in
   engines. */
int argmax(const float *logits, int classes);

/* Counts a row: logits (classes), label below classes. Returns the prediction. */
int metrics_add(Metrics *metrics, const float *logits, int label);

/* Computes probabilities (classes) = softmax(logits), in float64. */
void softmax(const float *logits, int classes, double *probabilities);

/* Prints loss, accuracy, and for each class: rows, precision (the share of its predictions that are
   right), recall (the share of its rows that are found) and F1 (their harmonic mean). 0 of 0 is
   "-". With up to 16 classes, also prints the confusion matrix. Class names end the lines. */
void metrics_print(const Metrics *metrics, FILE *file);

/* Prints a line of JSON: loss, accuracy, rows, names if there are any, and counts, which has for
   each truth a list of the number of each prediction. */
void metrics_print_json(const Metrics *metrics, FILE *file);
