/* The struct that trainer_open.c, which opens and closes a trainer, shares with trainer_run.c,
   which trains. */
#ifndef TRAINER_PRIVATE_H
#define TRAINER_PRIVATE_H

#include "data/dataset.h"
#include "data/source.h"
#include "train/own_rows.h"
#include "train/trainer.h"

struct Trainer {
  TrainerConfig config;
  bool resident;
  uint64_t staging_rows;
  double opened; /* when, in seconds_now */
  JudgedBy judged_by;
  const char *judge;           /* the file with the rows to judge by, NULL: none */
  DatasetReader *train, *test; /* open from the start of a pass over the file to its end;
                                  test: of the rows to judge by */
  RowSet own; /* what `train` is opened for, once the number of rows is known; bits NULL: all */
  SourceStamp train_stamp, test_stamp; /* of both files when they were first opened */
  Engine *engine;
  uint64_t train_rows, test_rows; /* known after the first epoch */
  Checkpoint position;            /* without arrays and options */
  bool diverged;
};

/* Opens the file to train on, or `judges` that to judge by. */
DatasetReader *trainer_open_reader(const Trainer *t, bool judges, Error *error);
void trainer_close_reader(DatasetReader **reader);

/* The option, without its dashes, that names the rows to judge by. */
const char *trainer_judge_option(const Trainer *t);

#endif
