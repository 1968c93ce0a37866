/* Evaluates a network on every row of a file, and draws what came of it. */
#pragma once

#include "engine/engine.h"
#include "model/metrics.h"
#include "predict/predict.h"

/* Files' names; "" for a picture that is not wanted. */
typedef struct {
  DatasetConfig
      rows; /* with labels; path NULL: none, so only weights and html are drawn. See predict_open */
  const char *weights, *mistakes, *confusion; /* pictures to draw */
  const char *html;                           /* a page to draw on */
  const char *names;                          /* of the classes */
  PredictRow *each;                           /* is shown every row, too; NULL: nobody is */
  void *context;                              /* of each */
} EvaluateConfig;

/* Refuses pictures that cannot be drawn of this network's rows. */
bool evaluate_can(const Engine *engine, const EvaluateConfig *config, Error *error);

/* Predicts the rows of config->rows, if there is one, and counts how they compare with their
   labels, then draws the pictures. The engine's dataset is written over. *metrics is opened here;
   the caller closes it where this returns true. */
bool evaluate_file(Engine *engine, const EvaluateConfig *config, Metrics *metrics, Error *error);
