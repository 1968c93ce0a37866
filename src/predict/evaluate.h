/* Evaluates a network on every row of a file, and draws what came of it. */
#pragma once

#include "plot/figures.h"
#include "predict/predict.h"

/* Files' names; "" for a picture that is not wanted. */
typedef struct {
  DatasetConfig rows; /* labelled, see predict_open; path NULL: none, weights and html alone */
  const char *weights, *mistakes, *confusion; /* pictures to draw */
  const char *html;                           /* a page to draw on */
  const char *names;                          /* of the classes */
  DataSummary *read; /* becomes what is known of the rows; NULL: unwanted */
} EvaluateConfig;

/* Refuses pictures that cannot be drawn of this network's rows. */
bool evaluate_can(const Engine *engine, const EvaluateConfig *config, Error *error);

/* Predicts the rows of config->rows, if there is one, and counts how they compare with their
   labels, then draws the pictures. The engine's dataset is written over. *metrics is opened here;
   the caller closes it where this returns true. */
bool evaluate_file(Engine *engine, const EvaluateConfig *config, Metrics *metrics, Error *error);

/* ---- a network as one web page -------------------------------------------------------------- */

/* A browser's longest text holds so many float32 as base64: V8's is 2^29 - 24 characters. */
enum { DIGIT_PAGE_MOST = 100000000 };

/* Writes a page for a browser without a server or a network: it answers what is drawn on it. It is
   digit_page.html, which the Makefile makes a part of the program. The network's inputs are a
   square. parameters: (network.floats); float32, because float16 is off by up to 8e-4 in MNIST's
   probabilities. names: of the classes. */
bool digit_page_write(const EngineConfig *config, const float *parameters, const char *names,
                      const char *path, Error *error);
