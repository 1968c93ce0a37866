/* The commands of mlp-train: it trains networks, or predicts with saved ones. */
#pragma once

#include "base/interrupt.h"
#include "cli/options.h"
#include "predict/predict.h"
#include "train/report.h"
#include "train/train_log.h"

/* Trains, and saves, logs and draws what the options say. from: the run to go on with, NULL for a
   new one. began: when the process started, in seconds_now. *signal is the signal that ended the
   run, 0 if none did: then what is left to say is in *error, and that is not a failure.
   ranks: that train together, NULL: one process does; then the first alone prints and writes files.
   train_command.c */
bool train_command(const Options *options, const Checkpoint *from, Ranks *ranks, Report *report,
                   double began, int *signal, Error *error);

/* The options of the trainer. train_command.c */
TrainerConfig trainer_config(const Options *options);

/* False if a file of rows is not there: *error says how to get it. run_files.c */
bool run_files_are_there(const Options *options, Error *error);

/* Runs first, first + step, ... below count of a command that trains several networks. Ranks share
   them out. many_runs.c */
typedef struct {
  const Options *options; /* that a run's are made of */
  Ranks *ranks;
  Report *report;
  Device device;
  int first, step, count;
  bool told;    /* how they are run */
  bool read;    /* what was read is told, too */
  bool several; /* they are, or were: many_runs says so */
  /* Makes *options those of the run, which the caller has checked, and returns its trainer's. */
  TrainerConfig (*config)(void *context, int run, Options *options);
  /* Trains it, beside others. */
  bool (*train)(void *context, int run, Trainer *trainer, Error *error);
  /* Takes what came of it: one after the other, in the order of runs, so that sums over them have
     the same bits however many train at once. */
  bool (*keep)(void *context, int run, const Trainer *trainer, const Options *options,
               Error *error);
  void *context;
} ManyRuns;

bool many_runs(ManyRuns *runs, Error *error);

/* Writes the options and the engine of a run, numbers and yes or no as in JSON. train_command.c */
bool run_log_header(TrainLog *log, const InUse *in_use, const Options *options, Error *error);

/* --sweep: trains networks of other options, and says which are best. sweep_command.c */
bool sweep_command(const Options *options, Report *report, Error *error);

/* --seeds: trains networks that differ in their seed, saves each in a file of its own if --save is
   given, and says how they differ. Ranks share them out. seeds_command.c */
bool seeds_command(const Options *options, Ranks *ranks, Report *report, Error *error);

/* --evaluate, --predict or --classify, of the networks in options->load; report: to say what was
   written. predict_command.c */
bool predict_command(const Options *options, Report *report, Error *error);

/* Settles --test auto of a run that trains: MNIST's file, if --train is MNIST's; else none, if
   validation rows judge. Looks for MNIST in data/, then in the user's cache, where mlp-train-fetch
   puts it. run_files.c */
void run_files_find_cached(Options *options);

/* Settles what the run reads and writes, before anything is opened. Leaves printing and all files
   that are written to the first rank, if this is another; but the networks of --seeds to those who
   train them. False if an output of the run is another of its files, its name promises another
   format, or the run has no rows for it. run_files.c */
bool run_files_settle(Options *options, const Ranks *ranks, Error *error);

/* Saves the trainer's network with these options in `path`, and before that in `best` unless that
   is "". run_files.c */
bool run_files_save(const Trainer *trainer, const Options *options, const char *best,
                    const char *path, Error *error);

/* The option that asks what the network makes of the rows to judge by, NULL: none. run_files.c */
const char *run_files_judged(const Options *options);

/* Tries what writing network and pictures will need, and leaves nothing behind. run_files.c */
bool run_files_can_be_written(const Options *options, Error *error);

enum { DERIVED_PATH = OPTIONS_PATH + 16 };

/* Sets path[DERIVED_PATH] to the index-th file, from 0, whose name the run makes from FILE of
   --save or --resume: that of each network of --seeds, FILE-SEED before FILE's ending; or
   FILE.best, the network of the best epoch of a run that may stop early. False and "" behind the
   last. run_files.c */
bool run_files_derived(const Options *options, int index, char *path);

/* Prints "wrote FILE" for a file that was written, and `what` behind it, unless it is "" or no
   regular file. run_files.c */
void run_files_say_wrote(Report *report, const char *path, const char *what);

/* Prints that line for each picture of an evaluation. run_files.c */
void run_files_say_drew(Report *report, const EvaluateConfig *drawn);

/* A TrainerEvents.stop of one process, whatever its context: a signal ends the run. */
static inline bool stop_on_signal(void *context) {
  (void)context;
  return interrupt_pending() != 0;
}

/* The options of an evaluation. Without test rows those to judge by are shown. */
static inline EvaluateConfig evaluate_config(const Options *options) {
  const char *test = options_test_file(options), *validation = options_validation_file(options);
  const bool judges = !test && (*options->mistakes || *options->confusion);
  const double hold_out = judges ? options_hold_out(options) : 0;
  return (EvaluateConfig){.rows = {.path = !judges        ? test
                                           : hold_out > 0 ? options->train
                                                          : validation,
                                   .label = options->label_column,
                                   .names = options->class_names,
                                   .hold_out = hold_out,
                                   .held_out = true,
                                   .seed = options->training.seed},
                          .weights = options->weights,
                          .mistakes = options->mistakes,
                          .confusion = options->confusion,
                          .html = options->html,
                          .names = options->class_names};
}
