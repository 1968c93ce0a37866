#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

Stats stats_of(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  const double above = values[count / 2], below = values[(count - 1) / 2];
  double mean = 0, squares = 0;
  for (int i = 0; i < count; i++) mean += values[i] / count;
  for (int i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
  return (Stats){(above + below) / 2, values[0], values[count - 1], mean,
                 count > 1 ? sqrt(squares / (count - 1)) : 0};
}
