/* The results of a network's epochs, and counts of its predictions for labelled rows. */
#pragma once

#include <stdint.h>

#include "model/class_names.h"

/* The rows that measure a network's loss and accuracy after every epoch. */
typedef enum { JUDGED_BY_TEST, JUDGED_BY_VALIDATION, JUDGED_BY_NONE } JudgedBy;

/* The results of an epoch. Losses are means over the rows. Accuracies are fractions of 1. */
typedef struct {
  int epoch, epochs; /* this epoch, counted from 1; number of epochs in the run */
  double train_loss, train_accuracy;
  JudgedBy judged_by; /* the rows that test_loss, test_accuracy and test_rows describe */
  double test_loss, test_accuracy; /* NAN if no rows judge the network */
  double learning_rate;
  double train_seconds, test_seconds; /* by wall clock, including the wait for the device */
  uint64_t train_rows, test_rows;     /* number of rows trained on; number of rows tested */
  uint64_t seed;                      /* the run's seed */
  uint64_t rows_before; /* how many of train_rows an earlier run trained; train_seconds excludes
                           their time */
} EpochResult;

/* The times of a run, in seconds of wall clock. */
typedef struct {
  double load;        /* until training and test file are read; includes training in epoch 1 */
  double train, test; /* train_seconds and test_seconds, summed over the epochs */
} RunTotals;

/* Counts of predictions for each label, and totals over all rows. */
typedef struct {
  int classes;
  uint64_t *counts; /* (classes, classes), indexed by truth and prediction; owned */
  double loss;      /* sum of the rows' cross-entropies, by the natural logarithm */
  uint64_t rows, correct;
  const char *names; /* names of the classes, see class_names.h; metrics_open sets NULL */
} Metrics;

/* Sets all counts to 0. Fails if memory runs out. */
bool metrics_open(Metrics *metrics, int classes, Error *error);
void metrics_close(Metrics *metrics); /* *metrics may be all zeros */

/* Returns the class of the largest of `classes` logits. If several logits are the largest, returns
   the first of their classes, as engines do. */
int argmax(const float *logits, int classes);

/* Adds a row with logits (classes) and a label below classes. Returns the predicted class. */
int metrics_add(Metrics *metrics, const float *logits, int label);

/* Computes probabilities (classes) = softmax(logits), in float64. */
void softmax(const float *logits, int classes, double *probabilities);

/* Prints loss and accuracy. For each class, prints its number of rows, precision (right / all
   predictions of the class), recall (right predictions / rows of the class), F1 (the harmonic mean
   of precision and recall) and name. A fraction of 0 rows is "-". With up to 16 classes, also
   prints the confusion matrix. */
void metrics_print(const Metrics *metrics, FILE *file);

/* Prints a line of JSON: loss, accuracy, rows, names if there are any, and counts. counts[t][p] is
   the number of rows with label t that were predicted as p. */
void metrics_print_json(const Metrics *metrics, FILE *file);
