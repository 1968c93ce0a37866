/* What a series of measured times says. */
#ifndef STATS_H
#define STATS_H

typedef struct {
  double median, low, high;
} Stats;

Stats stats_of(double *values, int count); /* sorts them; count from 1 */

#endif
