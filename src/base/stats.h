/* The median and the range of measured times. */
#pragma once

typedef struct {
  double median, low, high;
} Stats;

/* Sorts the values, (count) from 1 on. */
Stats stats_of(double *values, int count);
