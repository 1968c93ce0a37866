/* The log of a run, for other programs to read. The ending of the file's name decides the format:

   .jsonl  one object per line: first {"kind": "run", ...} with the fields of the header, then
           {"kind": "data", ...} with a summary of the rows of each file that was read
           {"kind": "epoch", ...} with the numbers of each epoch
   .csv    the names of the columns, then one line per epoch; the fields of the header are left out

   The numbers of an epoch are named as in EpochResult. Names of validation results begin with val_;
   if there are validation rows, the test results are NAN. A number can be read back bit for bit
   (the learning rate as a float32). NAN and infinity are null in JSON and empty in CSV. A line
   is in the file when its function returns, so a run that is killed loses no line. An old log is
   emptied for the first header, so a run that fails earlier leaves it unchanged. The file is locked
   as long as the log is open, so that two runs do not mix their lines.

   The functions do nothing if the log has no path. They return false with *error set if the file
   cannot be written. */
#pragma once

#include "base/output.h"
#include "cli/options.h"

typedef struct {
  const char *path; /* the file's name, not copied; "" if there is no log or it is not open */
  bool append, csv;
  LineFile lines; /* lines.file is NULL before the first header */
} TrainLog;

/* Opens a log that replaces the file or, if `append`, continues it. A continued log ends a line
   that was cut short, and does not repeat the column names of a .csv file. Returns false if another
   run writes to the file. */
bool train_log_open(TrainLog *log, const char *path, bool append, Error *error);

/* Writes the options and the device of the run. Call it once the first epoch has ended, before
   anything else is logged. Call it again if the run continues on another device; the epochs that
   follow replace earlier ones with the same number. */
bool train_log_header(TrainLog *log, const Engine *engine, const Options *options, Error *error);

/* Writes the summary of a file's rows if the log is JSON and file->path is not NULL. `role` is
   "train", "validation" or "test". */
bool train_log_data(TrainLog *log, const char *role, const TrainerFile *file, Error *error);

/* Writes the line of an epoch. A result without training rows is the final test of a run that has
   validation rows. The JSON line of this test is {"kind": "test", ...}. */
bool train_log_epoch(TrainLog *log, const EpochResult *result, Error *error);

/* A trial of a sweep. */
typedef struct {
  int place, number; /* its place among all trials; its number in the order they were drawn */
  double accuracy;   /* on the validation rows; NAN if it diverged */
  int epochs;        /* number of epochs trained */
  int options;       /* number of options that the sweep tries */
  const char *const *name, *const *value; /* (options) */
} LoggedTrial;

/* Writes the line of a trial: {"kind": "trial", ...} or, in CSV, a line of a table whose columns
   are those of a sweep. A log of trials has no other lines. */
bool train_log_trial(TrainLog *log, const LoggedTrial *trial, Error *error);

/* Closes the log in any case. Returns false if the file could not be written. */
bool train_log_close(TrainLog *log, Error *error);
