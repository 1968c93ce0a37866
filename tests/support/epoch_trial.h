/* A trial of level epoch's kernel on the emulator: some training steps on a random network and
   random rows, under one schedule after the other, each judged against float64 and, bit by bit,
   against the first one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "emulator/emulator.h"
#include "kernels.h"

typedef struct {
  EpochShape shape;
  int multiprocessors, kilobytes; /* of the GPU that is planned for; KB of shared memory */
  uint32_t first_step;            /* trains from here */
  uint32_t rows;                  /* to here, of a shuffled epoch */
  uint32_t split;                 /* of every second trial, the step that a second launch begins
                                     with, a multiple of EPOCH_DIRECT; 0: one launch */
  uint64_t seed;                  /* of the network and the rows */
} EpochCase;

typedef struct EpochTrial EpochTrial;

/* NULL if the plan refuses the case: *why_not says why. */
EpochTrial *epoch_trial_new(const EpochCase *of, const char **why_not);
void epoch_trial_free(EpochTrial *trial);

const EpochPlan *epoch_trial_plan(const EpochTrial *trial);

/* Trains as `how` says (its mail is the trial's): NULL if all went well, or what did not, in lines,
   until the next call. */
const char *epoch_trial_run(EpochTrial *trial, Emulator how);
