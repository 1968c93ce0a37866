/* The epoch loop: reads the files, trains and evaluates, and knows no device.

   It judges the network after every epoch: by the test file, by a validation file, or by a share
   of the training file that is held out of training. That file is then read twice in a pass, once
   for each part.

   Resident, the first epoch trains in file order on rows as they arrive; the rows stay in the
   engine's dataset, those to judge by behind those to train on, and each later epoch is a fresh
   permutation of all of them. Streaming, every epoch reads both files through two staging buffers
   of the dataset; from the second epoch on, the rows of a staging buffer are permuted among
   themselves. */
#pragma once

#include "base/random.h"
#include "engine/loader.h"
#include "model/checkpoint.h"
#include "model/metrics.h"

/* A run. Names of files are the caller's and outlive the trainer. */
typedef struct {
  const char *train, *test;         /* test may be NULL */
  const char *validation;           /* the file to judge by instead, NULL: none */
  const char *label_column, *names; /* see DatasetConfig */
  double hold_out;                  /* or the share of the training file to judge by, 0: none */
  const char *rereads_test; /* the option that reads the test file, or else the file to judge
                               by, again after training; may be NULL */
  Training training;
  const Checkpoint *from; /* the run to continue; NULL starts one. The caller keeps it until the
                             trainer is open */
  const char *from_name;  /* its file, for messages */
  Ranks *ranks; /* processes that train together, each with its own trainer; NULL means one process.
                   They make the same calls, and events->stop returns the same to all */
} TrainerConfig;

/* A file of a run, and what is known of its rows. */
typedef struct {
  const char *path;      /* NULL: there is none */
  bool judges;           /* else it is trained on */
  DatasetReader *reader; /* open from the start of a pass over the file to its end */
  struct stat stamp;     /* of the file when it was first opened */
  uint64_t rows;         /* known after the first epoch */
  DataSummary data;      /* likewise */
} TrainerFile;

/* A trainer's fields are for others to read. */
typedef struct {
  TrainerConfig config;
  bool resident;
  uint64_t staging_rows;
  double opened; /* when, in seconds_now */
  JudgedBy judged_by;
  TrainerFile train, judge; /* with the rows to train on, and with those to judge by */
  bool joined;              /* on the rows of another one */
  Engine *engine;           /* never NULL once the trainer is open */
  Checkpoint position; /* where the run stands, without arrays and options; the accuracies are those
                          of the rows to judge by, NAN before the first epoch's end, and without
                          such rows */
  RunTotals totals;    /* of the run so far */
  bool diverged;       /* the run failed because a loss is not a finite number */
} Trainer;

/* Opens an engine on the device of the caller's choice. */
typedef Engine *TrainerOpenEngine(void *context, const EngineConfig *config, Error *error);

/* Starts reading the files, then opens the engine while they are being parsed. Returns NULL on
   failure; it fails before it opens an engine if the run to continue has another network, or
   another batch in the middle of an epoch. */
Trainer *trainer_open(const TrainerConfig *config, TrainerOpenEngine *open, void *context,
                      Error *error);

/* Opens a trainer that trains on the rows of another one, which were read, by a member of its
   engine. NULL on failure. */
Trainer *trainer_join(const Trainer *first, const TrainerConfig *config, Error *error);

/* Returns true if the trainer's engine and the rows in it can serve another run of this
   configuration, of the same files: its own has ended, and only the seed and the settings of
   learning rate, momentum and the like differ. */
bool trainer_serves(const Trainer *trainer, const TrainerConfig *config);

/* Prepares the trainer for another run, as if it had been opened for that run. If this fails, the
   trainer can only be closed. */
bool trainer_start_again(Trainer *trainer, const TrainerConfig *config, Error *error);

typedef struct TrainerEvents TrainerEvents;

typedef enum {
  TRAINER_FAILED,  /* *error says why */
  TRAINER_STOPPED, /* events->stop ended it */
  TRAINER_DONE
} TrainerResult;

/* Reads trainer->train.rows training rows into the engine's dataset, from row 0 on, then the rows
   to judge by. Trains on no row. The trainer must be resident and new. It cannot run afterwards,
   unless it starts again. */
TrainerResult trainer_load(Trainer *trainer, const TrainerEvents *events, Error *error);

/* Waits for queued work, then copies position, parameters and momentum of the run into *checkpoint.
   The caller fills in its options and frees it with checkpoint_free. On failure *checkpoint is all
   zeros. */
bool trainer_checkpoint(const Trainer *trainer, Checkpoint *checkpoint, Error *error);

struct TrainerEvents {
  /* Called after each epoch; returns false to stop, with *error set. NULL: never. */
  bool (*epoch)(void *context, const EpochResult *result, Error *error);
  /* Called while files are read, and about twenty times in an epoch if the one before took
     longer than `patience` seconds; epochs count from 1, done is 0 to 1. NULL: never. */
  void (*progress)(void *context, int epoch, int epochs, double done);
  /* Takes a line on the rows that cannot wait for the end of the epoch. NULL: nobody does. */
  void (*remark)(void *context, const char *line);
  /* Called throughout the run; true ends it there. NULL: never. */
  bool (*stop)(void *context);
  double patience;
  void *context;
};

/* Trains all the epochs, or until it is stopped, --early-stop ends it, or a file, the engine or an
   event fails, or a loss is no longer a finite number: the last two are failures. The training loss
   is looked at about every `patience` seconds, and the error names the steps. To be called once for
   each time that the trainer was opened or starts again. */
TrainerResult trainer_run(Trainer *trainer, const TrainerEvents *events, Error *error);

/* NULL is allowed. */
void trainer_close(Trainer *trainer);

/* ---- what trainer_run.c takes from trainer_open.c ------------------------------------------- */

/* Starts to read the file, again if it was read before, unless it has become another one. */
bool trainer_open_file(const Trainer *t, TrainerFile *file, Error *error);
void trainer_close_file(TrainerFile *file);

/* A pass over the rows of a file, window after window. Rows that have stayed in the dataset are
   taken from there, others from the file. */
typedef struct {
  TrainerFile *file;
  int epoch;     /* from 0 */
  uint64_t most; /* rows of a window of rows that have stayed */
  bool began;
  Loader loader;   /* of the file; its window is the pass's; reader NULL: the rows have stayed */
  uint64_t number; /* of the window, from 0 */
} TrainerPass;

/* Goes on to the next window; loader.rows 0 means that the pass has ended. Fails if the file cannot
   be read, has become another one, or has no rows. */
bool trainer_next(Trainer *t, TrainerPass *pass, Error *error);

/* Reads all rows of a file into the dataset. */
bool trainer_load_rows(Trainer *t, TrainerFile *file, Error *error);

/* The key of an epoch's order. */
static inline uint64_t trainer_order_key(const Trainer *t, int epoch) {
  return random_order_key(t->config.training.seed, (uint64_t)epoch);
}

/* Returns the option, without its dashes, that names the rows to judge by. */
const char *trainer_judge_option(const Trainer *t);
