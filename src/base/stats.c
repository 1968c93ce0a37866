#include "base/stats.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

Stats stats_of(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  const double above = values[count / 2], below = values[(count - 1) / 2];
  return (Stats){(above + below) / 2, values[0], values[count - 1]};
}
