/* The log of a run, for other programs to read. The ending of the file's name decides the format:

   .jsonl  one object per line: first {"kind": "run", ...} with the fields of the header, then
           {"kind": "data", ...} with what is known of the rows of each file that was read
           {"kind": "epoch", ...} with the numbers of each epoch
   .csv    the names of the columns, then one line per epoch; the fields of the header are left out

   The numbers of an epoch are named as in EpochResult. Names of validation numbers begin with val_;
   with validation rows the test numbers are NAN. A number is read back bit for bit, the learning
   rate as float32. NAN and infinity are null in JSON and empty in CSV. Every line is in the file
   when the function returns, so a run that is killed loses nothing. The file is opened when the
   first epoch is logged: a run that fails before that leaves an old log as it was.

   Functions on a log take NULL and then do nothing. They return false with *error set if the file
   cannot be written. */
#pragma once

#include "data/summary.h"
#include "model/metrics.h"

typedef struct TrainLog TrainLog;

/* A log that is to replace the file, or with `append` continues it: a last line that was cut short
   is ended first, and the columns of a .csv are not named again. NULL with *error set if the ending
   is neither of the two or the file cannot be written. */
TrainLog *train_log_open(const char *path, bool append, Error *error);

typedef struct {
  const char *name, *value; /* the name as an option has it: its - are written _; any text */
  bool is_json;             /* the value is written as it is: a number, true or false */
} TrainLogField;

/* Writes the options and the device of the run: to be called before the first epoch, and again if
   the run continues on another device. Epochs that are trained again follow it, and replace the
   earlier ones of the same number. */
bool train_log_header(TrainLog *log, const TrainLogField *fields, int count, Error *error);

/* Writes what is known of the rows of a file, in JSON alone; role: "train", "validation", "test".
 */
bool train_log_data(TrainLog *log, const char *role, const char *path, const DataSummary *summary,
                    Error *error);

/* Writes the line of an epoch. A result without training rows is the test after result->epoch of a
   run that validation rows judged: {"kind": "test", ...} in JSON. */
bool train_log_epoch(TrainLog *log, const EpochResult *result, Error *error);

/* Frees the log even if it fails. */
bool train_log_close(TrainLog *log, Error *error);
