/* Evaluates a network on every row of a file, and draws what came of it. */
#ifndef EVALUATE_H
#define EVALUATE_H

#include "engine/engine.h"
#include "model/metrics.h"
#include "predict/predict.h"

/* Files' names; "" for a picture that is not wanted. */
typedef struct {
  const char *test; /* rows with labels; NULL: none, so only weights are drawn */
  double hold_out;  /* the share of them that dataset_split holds out for this seed, 0: all */
  uint64_t seed;
  const char *label_column;                   /* of them, see dataset_open */
  const char *weights, *mistakes, *confusion; /* pictures to draw */
  int threads;                                /* of the file's reader, 0: one per core */
  PredictRow *each;                           /* is shown every row, too; NULL: nobody is */
  void *context;                              /* of each */
} EvaluateConfig;

/* Refuses pictures that cannot be drawn of this network's rows. */
bool evaluate_can(const Engine *engine, const EvaluateConfig *config, Error *error);

/* Predicts the rows of config->test, if there is one, and counts how they compare with their
   labels, then draws the pictures. The engine's dataset is written over. *metrics is opened here;
   the caller closes it where this returns true. */
bool evaluate_file(Engine *engine, const EvaluateConfig *config, Metrics *metrics, Error *error);

#endif
