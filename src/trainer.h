/* The epoch loop: reads the two files, trains and evaluates, and knows no device.

   Resident, the first epoch trains in file order on rows as they arrive; the rows stay in the
   engine's store, the test file's behind the training file's, and each later epoch is a fresh
   permutation of all of them. Streaming, every epoch reads both files through two slots of the
   store; from the second epoch on, the rows of a slot are permuted among themselves. */
#ifndef TRAINER_H
#define TRAINER_H

#include "engine.h"
#include "options.h"
#include "report.h"

typedef struct Trainer Trainer;

/* Opens an engine on the device of the caller's choice. */
typedef Engine *TrainerOpenEngine(void *context, const EngineConfig *config, Error *error);

/* Starts reading both files, then opens the engine while they are being parsed. With
   RESIDENT_AUTO the rows are resident if they take at most a quarter of the host's memory and
   the engine opens with room for them all. NULL on failure. */
Trainer *trainer_open(const Options *options, TrainerOpenEngine *open, void *context, Error *error);

Engine *trainer_engine(Trainer *trainer); /* the trainer's; NULL never */
bool trainer_is_resident(const Trainer *trainer);

typedef struct {
  /* Called after each epoch; returns false to stop, with *error set. */
  bool (*epoch)(void *context, const EpochResult *result, Error *error);
  /* Called while files are read, and about twenty times in an epoch if the one before took
     longer than `patience` seconds; epochs count from 1, done is 0 to 1. NULL: never. */
  void (*progress)(void *context, int epoch, int epochs, double done);
  double patience;
  void *context;
} TrainerEvents;

/* Trains all the epochs; to be called once. Fails when a file, the engine or an event does, or
   when the training loss is no longer a finite number. */
bool trainer_run(Trainer *trainer, const TrainerEvents *events, ReportTotals *totals, Error *error);

/* NULL is allowed. */
void trainer_close(Trainer *trainer);

#endif
