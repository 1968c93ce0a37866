/* The command line and the configuration file of mlp-train.

   One table has a row for every option. The command line (getopt_long), the keys of a configuration
   file (INI, read by inih), the defaults and `--help` all use the table, so they cannot disagree. A
   configuration file has a section for each group of `--help`; its keys are the long names. The
   command line wins over the file, no matter where --config stands. */
#pragma once

#include "cli/option_kinds.h"
#include "engine/engine.h"
#include "train/trainer.h"

enum { SEEDS_MOST = 1000, TRIALS_MOST = 10000 };

/* The values of all options. The name of a file that is not given is "". */
typedef struct {
  Training training;
  int seeds; /* number of networks, which differ only in their seed; 0 without --seeds */
  char sweep[OPTIONS_PATH];
  int trials; /* number of trials; 0 means all combinations, or 32 if there are ranges */
  char train[OPTIONS_PATH], test[OPTIONS_PATH];
  char label_column[OPTIONS_PATH];   /* see DatasetConfig */
  char ignore_columns[OPTIONS_PATH]; /* see DatasetConfig.left_out */
  char names[OPTIONS_PATH];          /* see class_names_read */
  char *class_names;                 /* class names; whoever calls class_names_read frees them */
  char validation[OPTIONS_PATH];     /* a fraction or a file; see options_hold_out */
  DeviceChoice device;
  bool quiet;
  char log[OPTIONS_PATH], plot[OPTIONS_PATH], weights[OPTIONS_PATH], mistakes[OPTIONS_PATH],
      confusion[OPTIONS_PATH], html[OPTIONS_PATH];
  char save[OPTIONS_PATH];
  float confidence; /* answers with a probability below this are marked as unsure */
  /* The fields below can only be set on the command line. */
  PathList load;
  char resume[OPTIONS_PATH], predict[OPTIONS_PATH], output[OPTIONS_PATH];
  char show[OPTIONS_PATH];
  bool evaluate, classify, json, probabilities, dry_run;
  PathList config;
  char *const *pictures; /* the pictures of --classify, in argv */
  int picture_count;
  ShortText gone; /* options of a saved run that this program lacks: "--monitor, --other" */
} Options;

extern const char *const options_optimizers[]; /* names, indexed by Optimizer */

/* The commands that may take an option. */
enum {
  FOR_TRAIN = 1,
  FOR_EVALUATE = 2,
  FOR_PREDICT = 4,
  FOR_CLASSIFY = 8,
  FOR_HTML = 16, /* turns a loaded network into a web page */
  FOR_SEEDS = 32,
  FOR_SWEEP = 64,
  ALL = 127,
  TRAINING = FOR_TRAIN | FOR_SEEDS | FOR_SWEEP,
};

/* Says whether --resume may change the value of an option that was saved with the run. */
typedef enum {
  ONE_RUN = 1,  /* not saved, because it only concerns what a run prints, draws, writes or loads */
  RANKS_FREE,   /* saved; may change, and may differ between ranks */
  RESUME_FREE,  /* saved; may change */
  RESUME_EPOCH, /* saved; may change only between epochs */
  RESUME_ROWS,  /* saved; may change only between epochs, and not at all if rows are held out,
                   because the option decides which rows were trained on */
  RESUME_SAME,  /* saved; may not change, or the saved parameters would lose their meaning */
} ResumeRule;

bool options_is_saved(const OptionRow *row);

/* Returns true if --sweep may try values of the option. The option must be saved, have a default
   and not name a file. --epochs, --resident and the options of the device are excluded, because all
   trials share their values. */
bool options_may_be_swept(const OptionRow *row);

/* Returns false if options contradict each other. With --sweep, each trial's options are checked
   later. */
bool options_check(Options *options, Error *error);

/* Returns the name of the first option whose values in the two structs differ and whose ResumeRule
   is from `first` to `last`, or NULL. */
const char *options_changed(const Options *options, const Options *others, ResumeRule first,
                            ResumeRule last);

/* Returns the fraction of the training rows that --validation holds out, or 0 if --validation names
   a file or none. options_validation_file returns the validation file, or NULL if there is none. */
double options_hold_out(const Options *options);
const char *options_validation_file(const Options *options);
/* Returns true if --validation gives a fraction above 0 or a file. */
bool options_validates(const Options *options);
/* Returns true if --test is auto. run_files_settle and predict_command replace auto by a file or
   none. options_test_file returns the file of --test, or NULL if --test is none or auto. */
bool options_test_is_auto(const Options *options);
const char *options_test_file(const Options *options);

extern const OptionTable options_table;

void options_default(Options *options);

/* Sets the options that a configuration file gives. `path` may also name an installed preset. Other
   options keep their value. Returns false for an unknown section or key, a key given twice, a bad
   value or a bad line; the error names file and line. */
bool options_read_file(Options *options, const char *path, Error *error);
/* Reads the text that options_print_config wrote for a saved run. Errors quote `name`. Refuses keys
   of options that are not saved. Lists unknown keys, perhaps from an older program, in
   options->gone, except keys whose value asks for what this program does in any case. */
bool options_read_text(Options *options, const char *text, const char *name, Error *error);
/* Returns a sentence that lists options->gone, the options of the run saved in `path` that this
   program lacks, or "" if `gone` is empty. */
ShortText options_gone_text(const Options *options, const char *path);

/* Sets the options in argv. Before that, reads the files of --config in their order. Each file
   overrides earlier files, and argv overrides all files. Other options keep their value in
   *options. May reorder argv as getopt_long does; options->pictures points into argv. Returns
   OPTIONS_USAGE if options contradict each other. */
OptionsResult options_parse(int argc, char **argv, Options *options, Error *error);

/* ---- text made from the table -------------------------------------------------------------- */

/* Prints a configuration file. If `whole`, also prints the options that a run does not save. */
void options_print_config(FILE *file, const Options *options, bool whole);

/* Returns a configuration file as text, or NULL if memory runs out. The caller frees the text. */
char *options_text(const Options *options, bool whole, Error *error);

/* Returns false if reading that text back from file `name` would change an option: a configuration
   file cuts lines at 198 bytes and values at " ;" or " #", drops blanks at a value's end, and is
   UTF-8. *error says which option. */
bool options_survive(const Options *options, bool whole, const char *name, Error *error);
