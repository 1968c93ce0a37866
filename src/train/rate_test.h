/* The learning-rate range test: an epoch in which the learning rate grows, and the training loss at
   every rate (Smith, "Cyclical learning rates for training neural networks", 2017). Where the loss
   falls the network learns; where it rises again the rate is too high. */
#pragma once

#include "plot/figures.h"
#include "train/trainer.h"

/* Trains a new, resident trainer's network in shuffled order at rates from 1e-5 to 10, up to where
   the loss diverges. Fails if a file or the engine does, or if there are too few steps to find a
   rate by. */
TrainerResult rate_test_run(Trainer *trainer, const TrainerEvents *events, RateTest *test,
                            Error *error);
