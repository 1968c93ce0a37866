/* Learning rates over the epochs of a run. */
#pragma once

#include <math.h>

typedef enum {
  SCHEDULE_STEP,     /* times `decay` after each epoch behind the warm-up */
  SCHEDULE_CONSTANT, /* as it is */
  SCHEDULE_COSINE,   /* half a cosine, from 1 towards 0 (Loshchilov and Hutter, "SGDR", 2017) */
  SCHEDULE_LINEAR,   /* from 1 towards 0 */
} LrScheduleKind;

typedef struct {
  LrScheduleKind kind;
  float rate, decay;
  int warmup; /* epochs at the start in which the rate rises to what it would be */
} LrSchedule;

/* Returns the learning rate of epoch `epoch`, from 0, of `epochs`. The first of w warm-up epochs
   has 1 / (w + 1) of it (Goyal et al., "Accurate, large minibatch SGD", 2017). */
static inline double lr_schedule_rate(const LrSchedule *schedule, int epochs, int epoch) {
  static const double half_turn = 3.14159265358979323846;
  const double done = (double)epoch / epochs;
  const int decays = epoch > schedule->warmup ? epoch - schedule->warmup : 0;
  double factor = schedule->kind == SCHEDULE_STEP     ? pow((double)schedule->decay, decays)
                  : schedule->kind == SCHEDULE_COSINE ? 0.5 * (1.0 + cos(half_turn * done))
                  : schedule->kind == SCHEDULE_LINEAR ? 1.0 - done
                                                      : 1.0;
  if (epoch < schedule->warmup) factor *= (double)(epoch + 1) / (schedule->warmup + 1);
  return (double)schedule->rate * factor;
}
