/* The commands of mlp-train, which train networks or predict with saved networks. */
#pragma once

#include "base/interrupt.h"
#include "commands/train_log.h"
#include "predict/predict.h"
#include "train/report.h"

/* Trains one network, and saves, logs and draws what the options ask for. `from` is the run to
   continue, or NULL for a new run. `began` is when the process started, by seconds_now. `ranks` are
   the processes that train together, or NULL; only the first rank prints and writes files. Sets
   *signal to the signal that ended the run, or 0. After a signal, the command returns true and
   *error holds the last line to print. See train_command.c. */
bool train_command(const Options *options, const Checkpoint *from, Ranks *ranks, Report *report,
                   double began, int *signal, Error *error);

/* Returns the trainer's configuration from the options. See train_command.c. */
TrainerConfig trainer_config(const Options *options);

/* Returns false if a file of rows is missing. *error then says how to get it. See run_files.c. */
bool run_files_are_there(const Options *options, Error *error);

/* The runs of a command that trains several networks, numbered 0 to count - 1. Rank r of n ranks
   trains the runs r, r + n, r + 2 n, ... See many_runs.c. */
typedef struct {
  const Options *options; /* the options common to all runs */
  Ranks *ranks;
  Report *report;
  Device device;
  int count;
  bool told;    /* set once the device and the number of parallel runs are printed */
  bool several; /* set once many_runs was called with a count above 1 */
  /* Turns *options, a copy of the common options, into the checked options of run `run`. Returns
     the run's configuration. */
  TrainerConfig (*config)(void *context, int run, Options *options);
  /* Trains one run. Several threads call this function at the same time, each for another run. */
  bool (*train)(void *context, int run, Trainer *trainer, Error *error);
  /* Takes the result of a run. The calls come one by one, in the order of runs, so that sums over
     runs have the same bits for any number of workers. */
  bool (*keep)(void *context, int run, const Trainer *trainer, const Options *options,
               Error *error);
  void *context;
} ManyRuns;

bool many_runs(ManyRuns *runs, Error *error);

/* --sweep: trains networks with different options and prints the best. See sweep_command.c. */
bool sweep_command(const Options *options, Report *report, Error *error);

/* --seeds: trains networks that differ in their seed, and prints how their results differ. With
   --save, each network gets its own file. Each rank trains some networks. See seeds_command.c. */
bool seeds_command(const Options *options, Ranks *ranks, Report *report, Error *error);

/* Runs --evaluate, --predict or --classify with the networks in options->load. `report` prints the
   names of written files. See predict_command.c. */
bool predict_command(const Options *options, Report *report, Error *error);

/* Replaces --test auto in a run that trains. If --train is MNIST's file, --test becomes MNIST's
   test file. Otherwise, if there are validation rows, --test becomes none. Looks for MNIST in
   data/, then in the user's cache, where mlp-train-fetch puts the files. See run_files.c. */
void run_files_find_cached(Options *options);

/* Decides which files the run reads and writes, before any file is opened. Only the first rank
   prints and writes files, but with --seeds each rank saves its own networks. Returns false if an
   output is also another file of the run, if an output's ending belongs to another format, or if
   the run lacks rows that an option needs. See run_files.c. */
bool run_files_settle(Options *options, const Ranks *ranks, Error *error);

/* Saves the trainer's network with these options, first to `best` (unless `best` is ""), then to
   `path`. See run_files.c. */
bool run_files_save(const Trainer *trainer, const Options *options, const char *best,
                    const char *path, Error *error);

/* Returns a remark on what is assumed of a saved network that another program wrote, or "". The
   options say how its pixels are scaled. See run_files.c. */
ShortText run_files_assumed(const Options *options, const Checkpoint *network, const char *path);

/* Returns the name of an option that was given and needs test or validation rows, or NULL if there
   is none. See run_files.c. */
const char *run_files_judged(const Options *options);

/* Tests whether the network, the log and the pictures could be written. Writes nothing. See
   run_files.c. */
bool run_files_can_be_written(const Options *options, Error *error);

enum { DERIVED_PATH = OPTIONS_PATH + 16 };

/* Sets path[DERIVED_PATH] to the derived file name with number `index`, from 0. If there is none,
   sets path to "" and returns false. Names derive from FILE, the file of --save or --resume. With
   --seeds, each network has a name FILE-SEED, with the seed before FILE's ending. A run that may
   stop early saves the network of its best epoch as FILE.best. See run_files.c. */
bool run_files_derived(const Options *options, int index, char *path);

/* Prints "wrote FILE" and then `what`. Prints nothing if `path` is "", a device or a pipe. See
   run_files.c. */
void run_files_say_wrote(Report *report, const char *path, const char *what);

/* Prints "wrote FILE" for each picture of an evaluation. See run_files.c. */
void run_files_say_drew(Report *report, const EvaluateConfig *drawn);

/* Returns the configuration of an evaluation. If there are no test rows, the pictures show
   validation rows. */
static inline EvaluateConfig evaluate_config(const Options *options) {
  const char *test = options_test_file(options), *validation = options_validation_file(options);
  const bool judges = !test && (options->evaluate || *options->mistakes || *options->confusion);
  const double hold_out = judges ? options_hold_out(options) : 0;
  if (judges) test = hold_out > 0 ? options->train : validation;
  return (EvaluateConfig){.rows = {.path = test,
                                   .label = options->label_column,
                                   .left_out = options->ignore_columns,
                                   .names = options->class_names,
                                   .found_names = !*options->names,
                                   .hold_out = hold_out,
                                   .held_out = true,
                                   .seed = options->training.seed},
                          .weights = options->weights,
                          .mistakes = options->mistakes,
                          .confusion = options->confusion,
                          .html = options->html};
}
