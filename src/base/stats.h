/* What a few values have in common: measured times, or what networks know. */
#pragma once

typedef struct {
  double median, low, high, mean;
  double deviation; /* the standard deviation, by count - 1; 0 of one value */
} Stats;

/* Sorts the values, (count) from 1 on. */
Stats stats_of(double *values, int count);
