/* soak_schedules MINUTES [SEED]: level epoch's kernel on the emulator, for random networks, GPUs
   and ranges of steps under random schedules.

   Case N of seed S is case 0 of seed S + N. The first case that fails ends the program. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "support/epoch_trial.h"

enum { SCHEDULES = 20 }; /* of a case */

static uint64_t seed, counter; /* of the case; how often it drew */

/* From low to high. */
static int draw(int low, int high) {
  const uint32_t word = random_words(seed, 0x6d61696c /* "mail" */, counter++).word[0];
  return low + (int)(word % (uint32_t)(high - low + 1));
}

static EpochCase draw_case(void) {
  static const int kilobytes[] = {99, 163, 227};
  EpochCase of = {.seed = seed};
  counter = 0;
  of.shape = (EpochShape){draw(1, draw(0, 3) ? 200 : 1300), draw(1, draw(0, 7) ? 90 : 600),
                          draw(1, 128), draw(2, 12), draw(0, 1) ? 64 : draw(1, 64)};
  of.multiprocessors = draw(0, 7) ? draw(9, 44) : draw(9, 170);
  of.kilobytes = kilobytes[draw(0, 2)];
  const int batch = of.shape.batch, steps = draw(1, 6), first = draw(0, 1) ? 64 - draw(1, 3) : 0;
  of.first_step = (uint32_t)first;
  of.rows = (uint32_t)((first + steps - 1) * batch + draw(1, batch));
  of.split = first + steps > 64 ? 64 : 0;
  return of;
}

/* Returns whether all is right. */
static bool run_case(const EpochCase *of, uint64_t *schedules, uint64_t *cases) {
  const char *why_not;
  EpochTrial *trial = epoch_trial_new(of, &why_not);
  if (!trial) return true; /* no plan for it */
  const EpochShape *s = &of->shape;
  for (uint32_t i = 0; i < SCHEDULES; i++, ++*schedules) {
    const char *wrong = epoch_trial_run(trial, (Emulator){.seed = (uint32_t)seed + i});
    if (!wrong) continue;
    printf("FAILED: %d-%d-%d-%d, batch %d, to row %u from step %u on, a second launch from step %u "
           "on, %d multiprocessors, %d KB, schedule %u:\n%s\nSEED=%llu repeats it\n",
           s->inputs, s->hidden1, s->hidden2, s->classes, s->batch, of->rows, of->first_step,
           of->split, of->multiprocessors, of->kilobytes, (uint32_t)seed + i, wrong,
           (unsigned long long)seed);
    return false;
  }
  epoch_trial_free(trial);
  ++*cases;
  return true;
}

int main(int argc, char **argv) {
  const double minutes = argc > 1 ? atof(argv[1]) : 0, began = seconds_now();
  uint64_t schedules = 0, cases = 0;
  if (minutes <= 0) {
    fprintf(stderr, "usage: soak_schedules MINUTES [SEED]\n");
    return 2;
  }
  for (seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1; seconds_now() - began < 60 * minutes;
       seed++) {
    const EpochCase of = draw_case();
    if (!run_case(&of, &schedules, &cases)) return 1;
  }
  const EmulatorCounts counts = emulator_counts();
  printf("level epoch on the emulator: %llu schedules of %llu cases are right, %llu packets\n",
         (unsigned long long)schedules, (unsigned long long)cases,
         (unsigned long long)counts.packets);
  return 0;
}
