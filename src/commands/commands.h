/* The commands of mlp-train: they train networks, or predict with saved ones. */
#pragma once

#include "base/interrupt.h"
#include "commands/train_log.h"
#include "predict/predict.h"
#include "train/report.h"

/* Trains one network, and saves, logs and draws what the options say. from: the run to continue, or
   NULL for a new run. began: when the process started, by seconds_now. ranks: the processes that
   train together, or NULL. Only the first of them prints and writes files. *signal becomes the
   signal that ended the run, or 0. A signal is not a failure; *error then holds the last line to
   print. train_command.c */
bool train_command(const Options *options, const Checkpoint *from, Ranks *ranks, Report *report,
                   double began, int *signal, Error *error);

/* Returns the trainer's configuration from the options. train_command.c */
TrainerConfig trainer_config(const Options *options);

/* Returns false if a file of rows is missing. *error then says how to get it. run_files.c */
bool run_files_are_there(const Options *options, Error *error);

/* The runs, numbered 0 to count - 1, of a command that trains several networks. Rank r of n has the
   runs r, r + n, ... many_runs.c */
typedef struct {
  const Options *options; /* the options that each run's options start from */
  Ranks *ranks;
  Report *report;
  Device device;
  int count;
  bool told;    /* the number of runs at once, and their device, have been printed */
  bool several; /* several runs are, or were, under way; many_runs sets this */
  /* Sets *options to the run's options. The caller has checked these options. Returns the run's
     configuration. */
  TrainerConfig (*config)(void *context, int run, Options *options);
  /* Trains the run while other runs train. */
  bool (*train)(void *context, int run, Trainer *trainer, Error *error);
  /* Takes the result of a run. Calls come one at a time and in the order of runs, so that sums over
     runs have the same bits for any number of runs at once. */
  bool (*keep)(void *context, int run, const Trainer *trainer, const Options *options,
               Error *error);
  void *context;
} ManyRuns;

bool many_runs(ManyRuns *runs, Error *error);

/* --sweep: trains networks with different options and prints the best. sweep_command.c */
bool sweep_command(const Options *options, Report *report, Error *error);

/* --seeds: trains networks that differ in their seed, saves each in its own file if --save is
   given, and prints how they differ. Ranks divide the networks. seeds_command.c */
bool seeds_command(const Options *options, Ranks *ranks, Report *report, Error *error);

/* Runs --evaluate, --predict or --classify with the networks in options->load. `report` prints
   which files were written. predict_command.c */
bool predict_command(const Options *options, Report *report, Error *error);

/* Decides what --test auto means in a run that trains. It is MNIST's test file if --train is
   MNIST's file, and none if validation rows judge. Looks for MNIST in data/, then in the user's
   cache, where mlp-train-fetch puts it. run_files.c */
void run_files_find_cached(Options *options);

/* Decides what the run reads and writes, before any file is opened. Only the first rank prints and
   writes files, but each rank saves its own networks of --seeds. Returns false if an output is also
   another file of the run, if its name promises another format, or if the run lacks rows for it.
   run_files.c */
bool run_files_settle(Options *options, const Ranks *ranks, Error *error);

/* Saves the trainer's network with these options in `path`. Unless `best` is "", saves it there
   first. run_files.c */
bool run_files_save(const Trainer *trainer, const Options *options, const char *best,
                    const char *path, Error *error);

/* Returns the option that needs the network's results on the judging rows, or NULL. run_files.c */
const char *run_files_judged(const Options *options);

/* Tests whether network and pictures can be written, and leaves nothing behind. run_files.c */
bool run_files_can_be_written(const Options *options, Error *error);

enum { DERIVED_PATH = OPTIONS_PATH + 16 };

/* Sets path[DERIVED_PATH] to the index-th file name, from 0, that the run derives from FILE of
   --save or --resume. Each network of --seeds has FILE-SEED, with the seed before FILE's ending. A
   run that may stop early has FILE.best for its best epoch. After the last name it returns false
   and "". run_files.c */
bool run_files_derived(const Options *options, int index, char *path);

/* Prints "wrote FILE" and then `what`, unless `what` is "" or FILE is not a regular file.
   run_files.c */
void run_files_say_wrote(Report *report, const char *path, const char *what);

/* Prints "wrote FILE" for each picture of an evaluation. run_files.c */
void run_files_say_drew(Report *report, const EvaluateConfig *drawn);

/* Returns the options of an evaluation. If there are no test rows, it shows rows of the file that
   judges. */
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
                          .html = options->html};
}
