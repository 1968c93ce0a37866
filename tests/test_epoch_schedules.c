/* Level epoch's kernel as it is, on the CPU: random schedules, mail that comes late, networks and
   GPUs of several sizes. Planted faults show that what could go wrong would be seen. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "support/test.h"

#ifdef HAVE_EMULATOR

#include "support/epoch_parts.h"
#include "support/epoch_trial.h"

static const struct {
  EpochCase of;
  uint32_t schedules;
} cases[] = {
    /* one group; a short last batch */
    {{{100, 60, 40, 10, 64}, 20, 227, .rows = 3 * 64 + 32, .seed = 1}, 5},
    /* two groups, of three tiles; a last batch of one row */
    {{{100, 90, 40, 9, 64}, 40, 227, .rows = 2 * 64 + 1, .seed = 2}, 3},
    /* matrix blocks of four tiles */
    {{{100, 60, 40, 10, 64}, 17, 99, .rows = 96, .seed = 3}, 3},
    /* those of two groups, in eight splits, with warps that have no or one k-step; a last batch of
       one row */
    {{{100, 90, 40, 9, 64}, 60, 99, .rows = 2 * 64 + 1, .seed = 7}, 2},
    /* as much of everything but groups as there may be */
    {{{1279, 60, 120, 12, 64}, 24, 99, .rows = 96, .seed = 10}, 1},
    /* row blocks of eight rows: the same, and as many groups as there may be */
    {{{1279, 60, 120, 12, 64}, 16, 99, .rows = 96, .seed = 11}, 1},
    {{{100, 600, 40, 12, 64}, 90, 99, .rows = 64 + 32, .seed = 12}, 1},
    /* three tiles, which leave two of eight blocks without patches; a last batch of one row */
    {{{100, 45, 119, 9, 64}, 10, 99, .rows = 2 * 64 + 1, .seed = 13}, 2},
    /* the five groups of the default network, as on 64 and 84 multiprocessors */
    {{{100, 300, 100, 10, 64}, 64, 99, .rows = 2 * 64, .seed = 14}, 1},
    {{{100, 300, 100, 10, 64}, 84, 99, .rows = 64 + 32, .seed = 15}, 1},
    /* inputs that eight splits share; all that is left over in packets and tiles */
    {{{784, 40, 119, 7, 64}, 32, 227, .rows = 96, .seed = 4}, 3},
    /* the five groups of the default network */
    {{{100, 300, 100, 10, 64}, 132, 227, .rows = 2 * 64 + 32, .seed = 8}, 1},
    /* from a step within a window over its next direct one, in one launch and in two */
    {{{50, 12, 5, 3, 9}, 18, 163, .first_step = 62, .rows = 66 * 9, .split = 64, .seed = 5}, 4},
    {{{50, 12, 5, 3, 9}, 10, 99, .first_step = 62, .rows = 66 * 9, .split = 64, .seed = 5}, 4},
};
enum { CASES = sizeof cases / sizeof *cases };

static EpochTrial *new_trial(const EpochCase *of) {
  const char *why_not;
  EpochTrial *trial = epoch_trial_new(of, &why_not);
  if (!trial) fail_msg("the case is refused: %s", why_not);
  return trial;
}

TEST(test_schedules) {
  for (size_t i = 0; i < CASES; i++) {
    EpochTrial *trial = new_trial(&cases[i].of);
    for (uint32_t seed = 0; seed < cases[i].schedules; seed++) {
      const char *wrong = epoch_trial_run(trial, (Emulator){.seed = seed});
      if (wrong) fail_msg("case %zu, schedule %u: %s", i, seed, wrong);
    }
    epoch_trial_free(trial);
  }
}

/* ---- random cases --------------------------------------------------------------------------- */

static uint64_t seed, counter; /* of the case; how often it drew */

/* From low to high. */
static int draw_from(int low, int high) {
  const uint32_t word = random_words(seed, 0x6d61696c /* "mail" */, counter++).word[0];
  return low + (int)(word % (uint32_t)(high - low + 1));
}

static EpochCase draw_case(void) {
  static const int kilobytes[] = {99, 163, 227};
  EpochCase of = {.seed = seed};
  counter = 0;
  of.shape = (EpochShape){draw_from(1, draw_from(0, 3) ? 200 : 1300),
                          draw_from(1, draw_from(0, 7) ? 90 : 600), draw_from(1, 128),
                          draw_from(2, 12), draw_from(0, 1) ? 64 : draw_from(1, 64)};
  of.multiprocessors = draw_from(0, 7) ? draw_from(9, 44) : draw_from(9, 170);
  of.kilobytes = kilobytes[draw_from(0, 2)];
  const int batch = of.shape.batch, steps = draw_from(1, 6);
  const int first = draw_from(0, 1) ? 64 - draw_from(1, 3) : 0;
  of.first_step = (uint32_t)first;
  of.rows = (uint32_t)((first + steps - 1) * batch + draw_from(1, batch));
  of.split = first + steps > 64 ? 64 : 0;
  return of;
}

/* For $MINUTES, or one: case N of seed S is case 0 of seed S + N. */
TEST(test_random_cases) {
  const char *minutes = getenv("MINUTES"), *first = getenv("SEED"), *why_not;
  const double end = seconds_now() + (minutes ? 60 * atof(minutes) : 0);
  const uint32_t schedules = minutes ? 20 : 2; /* of a case */
  uint64_t planned = 0;
  for (seed = first ? strtoull(first, NULL, 10) : 1; !planned || seconds_now() < end; seed++) {
    const EpochCase of = draw_case();
    const EpochShape *s = &of.shape;
    EpochTrial *trial = epoch_trial_new(&of, &why_not);
    if (!trial) continue;
    planned++;
    for (uint32_t i = (uint32_t)seed; i < (uint32_t)seed + schedules; i++) {
      const char *wrong = epoch_trial_run(trial, (Emulator){.seed = i});
      if (!wrong) continue;
      fail_msg("%d-%d-%d-%d, batch %d, to row %u from step %u on, a second launch from step %u "
               "on, %d multiprocessors, %d KB, schedule %u:\n%s\nSEED=%llu repeats it",
               s->inputs, s->hidden1, s->hidden2, s->classes, s->batch, of.rows, of.first_step,
               of.split, of.multiprocessors, of.kilobytes, i, wrong, (unsigned long long)seed);
    }
    epoch_trial_free(trial);
  }
  printf("level epoch on the emulator: %llu schedules of %llu cases are right, %llu packets\n",
         (unsigned long long)(schedules * planned), (unsigned long long)planned,
         (unsigned long long)emulator_counts().packets);
}

/* ---- faults --------------------------------------------------------------------------------- */

/* Three steps of little networks, of one group, with two or four tiles in a matrix block, and with
   eight rows in a row block; and of two groups. */
static const EpochCase one_group = {{30, 60, 12, 3, 64}, 20, 227, .rows = 140, .seed = 5},
                       four_tiles = {{100, 60, 12, 3, 64}, 20, 99, .rows = 140, .seed = 5},
                       eight_rows = {{100, 60, 12, 3, 64}, 12, 99, .rows = 140, .seed = 5},
                       two_groups = {{30, 90, 40, 3, 64}, 40, 227, .rows = 140, .seed = 6};

/* Under one of so many schedules from how.seed on the fault is seen, and what is said of it holds
   `as`. */
static void assert_found(const char *fault, const EpochCase *of, Emulator how, uint32_t schedules,
                         const char *as) {
  EpochTrial *trial = new_trial(of);
  for (uint32_t i = 0; i < schedules; i++, how.seed++) {
    const char *wrong = epoch_trial_run(trial, how);
    if (!wrong) continue;
    if (!strstr(wrong, as)) fail_msg("%s: \"%s\" is not in: %s", fault, as, wrong);
    epoch_trial_free(trial);
    return;
  }
  fail_msg("%s: %u schedules did not show it", fault, schedules);
}

TEST(test_finds_barrier_left_out) {
  for (int i = 0; i < EPOCH_BARRIERS; i++) {
    const Emulator how = {.barrier_left_out = epoch_barriers[i].id};
    assert_found(epoch_barriers[i].name, &one_group, how, 4, "");
    assert_found(epoch_barriers[i].name, &four_tiles, how, 4, "");
    assert_found(epoch_barriers[i].name, &eight_rows, how, 4, "");
  }
}

/* One buffer instead of two in turns: somebody who is a step ahead overwrites what a reader has not
   read, who then waits for ever. */
TEST(test_finds_buffer_too_few) {
  EpochTrial *trial = new_trial(&two_groups);
  EpochBuffers buffers[EPOCH_BUFFERS];
  for (int i = 0; i < EPOCH_BUFFERS; i++) buffers[i] = epoch_buffers(epoch_trial_plan(trial), i);
  epoch_trial_free(trial);
  for (int i = 0; i < EPOCH_BUFFERS; i++)
    assert_found(buffers[i].name, &two_groups,
                 (Emulator){.buffer_at = buffers[i].first, .buffer = buffers[i].packets}, 24,
                 "wait for mail, the first for packet ");
}

TEST(test_finds_stamp_too_low) {
  const uint64_t next = emulator_counts().packets + 5000;
  assert_found("a packet with the stamp before its own", &one_group,
               (Emulator){.stamp_too_low = next}, 1, "wait for mail, the first for packet ");
}

/* Who takes a packet of the step before computes with old values. */
TEST(test_finds_old_mail_read) {
  assert_found("a packet of the step before is taken", &one_group,
               (Emulator){.read_too_early = 1000}, 1, "W1: error");
}

#else

TEST(test_schedules) {
  skip_because("there is no C++ compiler");
}
#endif
