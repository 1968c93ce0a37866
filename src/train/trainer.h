/* The epoch loop: reads the files, trains and evaluates. It does not depend on the device.

   It judges the network after every epoch: by the test file, by a validation file, or by a share of
   the training file that is held out of training. In the last case a pass reads the training file
   twice, once for each part.

   If rows are resident, the first epoch trains on them in file order as they arrive. They stay in
   the engine's dataset, training rows before judging rows, and each later epoch is a new
   permutation. If rows are streamed, every epoch reads both files through two staging buffers of
   the dataset; from the second epoch on, the rows of a staging buffer are permuted among
   themselves. */
#pragma once

#include "engine/loader.h"
#include "model/checkpoint.h"
#include "model/metrics.h"

/* A run's configuration. The caller owns the file names, which outlive the trainer. */
typedef struct {
  const char *train, *test;         /* test may be NULL */
  const char *validation;           /* the file to judge by instead; may be NULL */
  const char *label_column, *names; /* see DatasetConfig */
  double hold_out;                  /* share of the training file to judge by instead, or 0 */
  const char *rereads_test; /* the option that reads the test file again after training, or the
                               judging file if there is no test file; may be NULL */
  Training training;
  const Checkpoint *from; /* the run to continue, or NULL for a new run; the caller keeps it until
                             the trainer is open */
  const char *from_name;  /* the file of `from`, for messages */
  Ranks *ranks; /* processes that train together, each with its own trainer; NULL if there is one
                   process. All make the same calls, and events->stop returns the same to all */
} TrainerConfig;

/* A file of a run, and its rows' summary. */
typedef struct {
  const char *path;      /* NULL if there is no such file */
  bool judges;           /* its rows judge the network; if false, they train it */
  DatasetReader *reader; /* open from the start of a pass over the file to its end */
  struct stat stamp;     /* the file's stamp when it was first opened */
  uint64_t rows;         /* known after the first epoch */
  DataSummary data;      /* known after the first epoch */
} TrainerFile;

/* A trainer. Other modules may read its fields but not write them. */
typedef struct {
  TrainerConfig config;
  bool resident;
  uint64_t staging_rows;
  double opened; /* when the trainer was opened, in seconds_now */
  JudgedBy judged_by;
  TrainerFile train, judge; /* the files of rows to train on and to judge by */
  bool joined;              /* the trainer uses the rows of another one */
  Engine *engine;           /* never NULL once the trainer is open */
  Checkpoint position; /* the state of the run, without arrays and options. Its accuracies are of
                          the rows to judge by; they are NAN without such rows or before the first
                          epoch ends */
  RunTotals totals;    /* totals of the run so far */
  bool stopped;        /* events->stop ended the run; the position says where */
  bool diverged;       /* the run failed because a loss is not a finite number */
} Trainer;

/* Opens an engine on the device of the caller's choice. */
typedef Engine *TrainerOpenEngine(void *context, const EngineConfig *config, Error *error);

/* Starts reading the files, then opens the engine while they are being parsed. Returns NULL on
   failure. If the run to continue has another network, or another batch in the middle of an epoch,
   it fails before it opens an engine. */
Trainer *trainer_open(const TrainerConfig *config, TrainerOpenEngine *open, void *context,
                      Error *error);

/* Opens a trainer that trains on the rows that `first` has read. Its engine is a member of first's
   engine. Returns NULL on failure. */
Trainer *trainer_join(const Trainer *first, const TrainerConfig *config, Error *error);

/* Returns true if the trainer's engine and rows can serve another run: the trainer's own run has
   ended, the files are the same, and only the seed and settings such as learning rate and momentum
   differ. */
bool trainer_serves(const Trainer *trainer, const TrainerConfig *config);

/* Prepares the trainer for another run, as if it had been opened for that run. If this fails, the
   trainer can only be closed. */
bool trainer_start_again(Trainer *trainer, const TrainerConfig *config, Error *error);

typedef struct TrainerEvents TrainerEvents;

/* Reads trainer->train.rows training rows into the engine's dataset, from row 0 on, then the rows
   to judge by. Trains on no row. The trainer must be resident and new. It cannot run afterwards,
   unless it starts again. Returns false if it failed or was stopped. */
bool trainer_load(Trainer *trainer, const TrainerEvents *events, Error *error);

/* Waits for queued work, then copies position, parameters and momentum of the run into *checkpoint.
   The caller fills in its options and frees it with checkpoint_free. On failure *checkpoint is all
   zeros. */
bool trainer_checkpoint(const Trainer *trainer, Checkpoint *checkpoint, Error *error);

struct TrainerEvents {
  /* Called after each epoch. Returns false with *error set to stop the run. May be NULL. */
  bool (*epoch)(void *context, const EpochResult *result, Error *error);
  /* Shows progress while files are read, and about twenty times per epoch if the previous epoch
     took longer than `patience` seconds. May be NULL. */
  struct Report *report;
  /* Called throughout the run. If it returns true, the run ends there. If NULL, a signal ends it.
   */
  bool (*stop)(void *context);
  int until; /* the run pauses after this epoch; 0 means that it does not pause */
  double patience;
  void *context;
};

/* Trains until all epochs are done, something in *events or --early-stop ends the run, or it fails:
   a file, the engine, an event, or a loss that is not a finite number. It checks the training loss
   about every `patience` seconds; the error names the steps. Call it once per open or start again.
   Returns false if it failed; trainer->stopped says whether it was stopped. */
bool trainer_run(Trainer *trainer, const TrainerEvents *events, Error *error);

/* trainer may be NULL. */
void trainer_close(Trainer *trainer);

/* ---- what trainer_run.c uses of trainer_open.c ---------------------------------------------- */

/* Starts to read the file. Fails if the file has changed since it was first opened. */
bool trainer_open_file(const Trainer *t, TrainerFile *file, Error *error);
void trainer_close_file(TrainerFile *file);

/* Returns the option, without its dashes, that names the rows to judge by. */
const char *trainer_judge_option(const Trainer *t);
