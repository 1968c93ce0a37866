/* Measures durations by a clock that is never set back. */
#pragma once

#include <time.h>

/* Returns the seconds since an arbitrary moment. */
static inline double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
