/* A run's log for other programs to read, a file whose ending says what it is:

   .jsonl  an object a line: first {"kind": "run", ...} with the header's fields, all of them text,
           then {"kind": "epoch", ...} with the epoch's numbers
   .csv    lines `# name: value` with the header's fields, where a backslash, a line feed and a
           carriage return are written \\, \n and \r; then the columns' names, then a line an epoch

   The names of an epoch's numbers are those of EpochResult. A number is read back bit for bit; one
   that is not finite is null in JSON and empty in CSV. What is logged is in the file once the
   function returns, so a run that is killed has lost nothing.

   Every function but train_log_open returns false with *error set when the file cannot be written.
 */
#ifndef TRAIN_LOG_H
#define TRAIN_LOG_H

#include "base/error.h"
#include "model/metrics.h"

typedef struct TrainLog TrainLog;

/* A new file; one of that name is replaced. NULL if the ending is another or the file cannot be
   created. */
TrainLog *train_log_open(const char *path, Error *error);

typedef struct {
  const char *name, *value; /* the name as an option has it, the value any text */
} TrainLogField;

/* What the run is made of: to be called before the first epoch, and again where the run goes on
   on another device; epochs that are trained again follow, with the numbers that count. */
bool train_log_header(TrainLog *log, const TrainLogField *fields, int count, Error *error);

bool train_log_epoch(TrainLog *log, const EpochResult *result, Error *error);

/* Frees the log even if it fails. NULL is allowed. */
bool train_log_close(TrainLog *log, Error *error);

#endif
