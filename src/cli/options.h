/* The command line and the configuration file of mlp-train.

   One table has a row for every option. The command line (getopt_long), the keys of a
   configuration file (INI, read by inih), the built-in defaults and `--help` all come from it,
   so they cannot disagree. A configuration file has a section for each group of `--help`; its
   keys are the long names. The command line wins over the file, wherever --config stands. */
#pragma once

#include "cli/option_kinds.h"
#include "engine/engine.h"
#include "train/trainer.h"

enum { SEEDS_MOST = 1000, TRIALS_MOST = 10000 };

/* A file's name is "" if no file is given. */
typedef struct {
  Training training;
  int seeds; /* networks that differ in their seed, 0: one alone */
  char sweep[OPTIONS_PATH];
  int trials; /* of --sweep, 0: all, or the usual number */
  char train[OPTIONS_PATH], test[OPTIONS_PATH];
  char label_column[OPTIONS_PATH]; /* see DatasetConfig */
  char names[OPTIONS_PATH];        /* see class_names_read */
  char *class_names;               /* of these or of a saved network; of whoever read them */
  char validation[OPTIONS_PATH];   /* a share or a file, see options_hold_out */
  DeviceChoice device;
  bool quiet;
  char log[OPTIONS_PATH], plot[OPTIONS_PATH], weights[OPTIONS_PATH], mistakes[OPTIONS_PATH],
      confusion[OPTIONS_PATH], html[OPTIONS_PATH];
  char save[OPTIONS_PATH];
  float confidence; /* of an answer to a picture; below it is unsure */
  /* only on the command line */
  PathList load;
  char resume[OPTIONS_PATH], predict[OPTIONS_PATH], output[OPTIONS_PATH];
  char show[OPTIONS_PATH];
  bool evaluate, classify, json, probabilities, dry_run;
  char config[OPTIONS_PATH];
  char *const *pictures; /* of --classify: words of argv */
  int picture_count;
  ShortText gone; /* options of a saved run that there are no longer: "--monitor, --other" */
} Options;

extern const char *const options_optimizers[]; /* names in the order of optimizer.h's Optimizer */
/* --lr auto, of the optimizer and the batch. */
float options_auto_rate(const Training *training);

/* The commands that may take an option. */
enum {
  FOR_TRAIN = 1,
  FOR_EVALUATE = 2,
  FOR_PREDICT = 4,
  FOR_CLASSIFY = 8,
  FOR_HTML = 16, /* of a loaded network */
  FOR_SEEDS = 32,
  FOR_SWEEP = 64,
  ALL = 127,
  TRAINING = FOR_TRAIN | FOR_SEEDS | FOR_SWEEP,
};

/* A rule says if a run that --resume continues may have another value than the saved one. */
typedef enum {
  ONE_RUN = 1,  /* not saved: it says what one run prints, draws, writes or loads */
  RANKS_FREE,   /* saved, and may change, from rank to rank too */
  RESUME_FREE,  /* saved, and may change */
  RESUME_EPOCH, /* may not change in the middle of an epoch */
  RESUME_ROWS,  /* nor, if rows are held out, at all: which rows were trained on depends on it */
  RESUME_SAME,  /* may not change: what is saved means nothing with another value */
} ResumeRule;

/* True if a saved run holds the option. */
bool options_is_saved(const OptionRow *row);

/* Returns true if --sweep may try values of the option: it is one of training and takes one value.
   Trials share the device, so its options are left out. */
bool options_may_be_swept(const OptionRow *row);

/* Refuses options that contradict each other. Gives --lr auto the optimizer's usual rate; --sweep
   leaves that to its trials, each of which is checked, too. */
bool options_check(Options *options, Error *error);

/* Returns the first option of rules `first` to `last` that differs; NULL if none does. */
const char *options_changed(const Options *options, const Options *others, ResumeRule first,
                            ResumeRule last);

/* --validation is a share of the training rows that is held out to judge by (0 if it is none), or
   the file to judge by (NULL if it is none). */
double options_hold_out(const Options *options);
const char *options_validation_file(const Options *options);
/* True if either is given. */
bool options_validates(const Options *options);
/* --test; NULL if it is none, or auto, which run_files_settle and predict_command settle. */
bool options_test_is_auto(const Options *options);
const char *options_test_file(const Options *options);

extern const OptionTable options_table;

/* The built-in defaults. */
void options_default(Options *options);

/* Sets what a configuration file, or the installed preset of that name, says and leaves the rest as
   it is. Returns false with an error that names file and line: an unknown section or key, a key
   given twice, a bad value, a bad line. */
bool options_read_file(Options *options, const char *path, Error *error);
/* Reads the text that options_print_config wrote for a saved run; name: for the error. Refuses the
   keys of options that a saved run does not hold, whoever wrote them. Lists unknown keys in
   options->gone, for older programs had other options, unless the value was the default. */
bool options_read_text(Options *options, const char *text, const char *name, Error *error);
/* The sentence about options->gone of the run saved in the file; "" if there are none. */
ShortText options_gone_text(const Options *options, const char *path);

/* Sets what argv says: first the file of --config is read if there is one, then the command line
   wins; what neither names keeps the value that it has in *options. May reorder argv as getopt_long
   does; the command and the pictures of --classify point into argv. Options that contradict each
   other are wrong usage. */
OptionsResult options_parse(int argc, char **argv, Options *options, Error *error);

/* ---- text made from the table -------------------------------------------------------------- */

/* Prints a configuration file; `whole` adds the options that a saved run does not hold. */
void options_print_config(FILE *file, const Options *options, bool whole);
