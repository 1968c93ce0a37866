/* What a series of measured times says. */
#ifndef TIMES_H
#define TIMES_H

typedef struct {
  double median, low, high;
} Times;

Times times_of(double *values, int count); /* sorts them; count from 1 */

#endif
