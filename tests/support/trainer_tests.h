/* The tests of the trainer share tiny files, a spy in front of the CPU engine that records
   what the trainer asks of it, and runs that record what the trainer reports. */
#pragma once

#include "train/trainer.h"
#include "support/folder.h"

/* ---- files ---------------------------------------------------------------------------------- */

enum { PIXELS = 4, CLASSES = 3, BATCH = 4 }; /* 2 x 2: square, as augmentation wants it */

/* In the working folder, which is that of folder.h. */
static const char train_path[] = "train.csv", test_path[] = "test.csv";

/* Rows whose label is their greatest pixel's place; a bad one at `bad_row`, -1: none. */
void write_csv(const char *path, int rows, int pixels, int bad_row, uint64_t stream);
void write_files(int train_rows, int test_rows);

/* ---- a spy in the calls of the CPU engine --------------------------------------------------- */

enum { MOST_CALLS = 100 };

typedef struct {
  Engine *engine;          /* that the trainer has */
  EngineConfig config;     /* that it was last asked for */
  int opened, closed;      /* opened: tries */
  int trains, evaluations; /* calls */
  int bad_train, bad_test; /* the call whose loss is NaN, from 1; 0: none */
  TrainRange train[MOST_CALLS];
  int collected; /* evaluations whose sums were collected */
  struct {
    uint64_t first_row, rows;
  } evaluation[MOST_CALLS];
} Spy;

/* The spy of the last run. */
extern Spy spy;

/* ---- a run ---------------------------------------------------------------------------------- */

enum { MOST_EPOCHS = 8 };

typedef struct {
  /* wishes */
  bool shows_progress;
  double patience;
  int fail;         /* the epoch whose event fails, 0: none */
  int stop;         /* the call of the stop event that ends the run, from 1; 0: there is no event */
  int refused;      /* engines */
  uint32_t aligned; /* the engine's */
  int bad_train, bad_test; /* as of Spy */
  const Checkpoint *from;
  /* what happened */
  EpochResult epoch[MOST_EPOCHS];
  int epochs;   /* that were reported */
  int progress; /* calls in all */
  int progress_epoch;
  double done;    /* the last call's */
  int stop_calls; /* of the event that may stop the run */
  Checkpoint saved;
  bool resident;
  Error error;
} Run;

/* Declares a Run whose `saved` is freed at the end of its block. */
#define RUN __attribute__((cleanup(run_free))) Run
void run_free(Run *run);

/* Rows that stay on the device, and rows that are streamed. */
#define EACH_RESIDENCY(resident)                                                                   \
  for (int resident = RESIDENT_YES; resident <= RESIDENT_NO; resident++)

TrainerConfig tiny_run(int epochs, Residency resident);

/* Trains as *run wishes and adds what happened; false: it failed, run->error says why. */
bool run_trainer(const TrainerConfig *config, Run *run);

/* Train, and the test fails unless the run succeeds; or fails and says `says`. */
Run must_train(const TrainerConfig *config, bool shows_progress);
void must_fail(const TrainerConfig *config, Run run, const char *says);

/* Every epoch used so many rows, and its figures are possible. */
void assert_rows(const Run *run, uint64_t train_rows, uint64_t test_rows);
void assert_same_weights(const Run *a, const Run *b);
