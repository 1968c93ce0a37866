/* What mlp-train does with its options: it trains a network, or predicts with a saved one. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "cli/options.h"
#include "model/checkpoint.h"
#include "predict/evaluate.h"
#include "train/report.h"

/* Trains, and saves, logs and draws what the options say. from: the run to go on with, NULL for a
   new one. began: when the process started, in seconds_now. *signal is the signal that ended the
   run, 0 if none did: then what is left to say is in *error, and that is not a failure.
   train_command.c
 */
bool train_command(const Options *options, const Checkpoint *from, Report *report, double began,
                   int *signal, Error *error);

/* --evaluate, --predict or --classify, of the network in options->load. predict_command.c */
bool predict_command(const Options *options, Error *error);

/* False if an output of the run is another of its files: before anything is opened. run_files.c */
bool run_files_differ(const Options *options, Error *error);

/* Tries what writing the network and the pictures will need; nothing is left behind. */
bool run_files_can_be_written(const Options *options, Error *error);

/* What the options say to an evaluation. */
static inline EvaluateConfig evaluate_config(const Options *options) {
  return (EvaluateConfig){.test = options->test,
                          .weights = options->weights,
                          .mistakes = options->mistakes,
                          .confusion = options->confusion,
                          .threads = options->threads};
}

#endif
