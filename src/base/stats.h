/* Statistics of a few values, such as measured times or accuracies. */
#pragma once

typedef struct {
  double median, low, high, mean;
  double deviation; /* the standard deviation, with divisor count - 1; 0 for a single value */
} Stats;

/* Sorts values (count) and returns their statistics. Needs count >= 1. */
Stats stats_of(double *values, int count);
