/* The learning-rate range test: an epoch in which the learning rate grows, and the training loss at
   every rate (Smith, "Cyclical learning rates for training neural networks", 2017). Where the loss
   falls the network learns; where it rises again the rate is too high. */
#pragma once

#include "train/trainer.h"

enum { RATE_TEST_RATES = 100 }; /* each as many times the one before */

typedef struct {
  double rate[RATE_TEST_RATES];
  double loss[RATE_TEST_RATES];   /* the mean over the rows that were trained on at that rate */
  double smooth[RATE_TEST_RATES]; /* the mean with two rates before it and two behind */
  int count;      /* of rates: fewer in an epoch of fewer steps, or where the loss diverged */
  uint64_t steps; /* of all rates */
  bool diverged; /* the loss rose far above its lowest, or was no finite number, at the last rate */
  double best;   /* the rate to train with: the lowest at which the smooth loss has fallen as far as
                    it does, but for 2% of that */
} RateTest;

/* Trains a new, resident trainer's network in shuffled order at rates from 1e-5 to 10, up to where
   the loss diverges. Fails if a file or the engine does, or if there are too few steps to find a
   rate by. */
TrainerResult rate_test_run(Trainer *trainer, const TrainerEvents *events, RateTest *test,
                            Error *error);
