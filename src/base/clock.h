/* Wall clock for durations. */
#pragma once

#include <time.h>

/* Returns the seconds since an arbitrary moment. This clock is never set back. */
static inline double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
