/* A trainer reads the files, then trains and evaluates the network in every epoch, on any device.

   After every epoch it judges the network by the judging rows: the test file, a validation file, or
   rows of the training file that are held out of training. To hold out rows, the trainer reads the
   training file twice: once for the training rows and once for the judging rows.

   Resident rows are read once and stay in the engine's dataset, training rows before judging rows.
   The first epoch trains on rows in file order as they arrive, unless the file is sorted by label.
   Every later epoch uses a new random order. Streamed rows are read in every epoch, through two
   staging buffers of the dataset. After the first epoch, each staging buffer is shuffled. */
#pragma once

#include "engine/loader.h"
#include "model/checkpoint.h"
#include "model/metrics.h"

/* A run's configuration. The caller owns the file names, which must outlive the trainer. */
typedef struct {
  const char *train, *test; /* test may be NULL */
  const char *validation;   /* file that judges instead of the test file, or NULL */
  const char *label_column, *ignore_columns, *names; /* see DatasetConfig */
  bool found_names;                                  /* see DatasetConfig */
  double hold_out; /* fraction of the training rows that is held out to judge the network */
  const char *rereads_test; /* name of an option that makes the run read the test file (if there is
                               none, the judging file) again after training, or NULL */
  const Training *training; /* the caller's; the engine's copy once the trainer is open, with the
                               fusion level, precision and threads in use */
  int threads; /* threads for readers and for the CPU engine; 0 means what `training` says */
  const Checkpoint *from; /* the run to continue, or NULL for a new run. The caller may free it once
                             the trainer is open */
  const char *from_name;  /* the file name of `from`, for messages */
  Ranks *ranks; /* processes that train together, each with its own trainer, or NULL. All ranks make
                   the same calls, and events->stop returns the same value in all ranks */
} TrainerConfig;

typedef struct {
  const char *path;      /* NULL if this is `judge` and there are no judging rows */
  bool judges;           /* true if the file's rows judge the network, false if they train it */
  DatasetReader *reader; /* NULL except during a pass over the file */
  struct stat stamp;     /* the file's status when it was first opened */
  uint64_t rows;         /* known after the first epoch */
  DataSummary data;      /* known after the first epoch, but its columns when it is first opened */
} TrainerFile;

/* A trainer. Other modules may read its fields but not write them. */
typedef struct {
  TrainerConfig config;
  bool resident;
  uint64_t staging_rows;
  double opened; /* when the trainer was opened, by seconds_now */
  JudgedBy judged_by;
  TrainerFile train, judge; /* files with the training and the judging rows */
  DataSummary before;       /* summary of the saved run's training rows; rows == 0 if unknown */
  Engine *engine;           /* never NULL once the trainer is open */
  Checkpoint position;      /* the state of the run, without arrays and options. Its accuracies are
                               measured on the judging rows. They are NAN until the first epoch
                               ends, and always if there are no judging rows */
  RunTotals totals;         /* totals of the run so far */
  bool stopped;             /* true if events->stop or a signal ended the run at `position` */
  bool diverged;            /* true if the run failed because a loss is not finite */
} Trainer;

/* trainer_open calls a function of this type, which chooses a device and opens an engine on it. */
typedef Engine *TrainerOpenEngine(void *context, const EngineConfig *config, Error *error);

/* Starts reading the files, then opens the engine while the files are being parsed. Returns NULL on
   failure. Before it opens the engine, it checks config->from. The saved network must have the
   layer sizes of this run. If it was saved within an epoch, the batch size must be the same. */
Trainer *trainer_open(const TrainerConfig *config, TrainerOpenEngine *open, void *context,
                      Error *error);

/* Opens a trainer that trains on the rows that `first` has read. The new trainer's engine is a
   member (engine.h) of first's engine. Returns NULL on failure. */
Trainer *trainer_join(const Trainer *first, const TrainerConfig *config, Error *error);

/* Returns true if the trainer's engine and rows can serve another run with the same files. The
   trainer must have read all rows, and the two runs may differ only in the seed and in settings
   such as the learning rate. */
bool trainer_serves(const Trainer *trainer, const TrainerConfig *config);

/* Prepares the trainer for another run, as if it had been opened for that run. If this fails, the
   trainer can only be closed. */
bool trainer_start_again(Trainer *trainer, const TrainerConfig *config, Error *error);

typedef struct TrainerEvents TrainerEvents;

/* Reads all rows into the engine's dataset without training: the training rows from row 0 on, then
   the judging rows. The trainer must be resident and new. Call trainer_start_again before
   trainer_run. Returns false after a failure or if events->stop or a signal ended the call. */
bool trainer_load(Trainer *trainer, const TrainerEvents *events, Error *error);

/* Waits for queued work, then copies the run's position and the engine's arrays into *checkpoint.
   The caller fills in the options and frees *checkpoint with checkpoint_free. On failure
   *checkpoint is all zeros. */
bool trainer_checkpoint(const Trainer *trainer, Checkpoint *checkpoint, Error *error);

struct TrainerEvents {
  /* Called after each epoch. If it returns false, it sets *error and the run fails. May be NULL. */
  bool (*epoch)(void *context, const EpochResult *result, Error *error);
  /* Shows progress while files are read. If the previous epoch took longer than `patience` seconds,
     it also shows progress about twenty times per epoch. May be NULL. */
  struct Report *report;
  /* Called often. Returns true to end the run. If `stop` is NULL, a signal ends the run. */
  bool (*stop)(void *context);
  int until; /* trainer_run returns after this epoch; 0 means after the last epoch */
  double patience;
  void *context;
};

/* Trains until all epochs are done, until *events or --early-stop ends the run, or until the run
   fails. A run
   fails if a file, the engine or events->epoch fails, or if a loss is not a finite number. The
   training loss is checked about every `patience` seconds. If it is not finite, the error names the
   steps since the previous check. Call trainer_run once after trainer_open, trainer_join or
   trainer_start_again. Returns false if the run failed. trainer->stopped is true if events->stop or
   a signal ended the run. */
bool trainer_run(Trainer *trainer, const TrainerEvents *events, Error *error);

/* Does nothing if `trainer` is NULL. */
void trainer_close(Trainer *trainer);

/* ---- functions of trainer_open.c for trainer_run.c ------------------------------------------ */

/* Starts to read the file. Fails if the file has changed since it was first opened. */
bool trainer_open_file(const Trainer *t, TrainerFile *file, Error *error);
void trainer_close_file(TrainerFile *file);

/* Returns the name, without dashes, of the option that chooses the judging rows. */
const char *trainer_judge_option(const Trainer *t);
