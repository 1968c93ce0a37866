/* Predicts with a trained network, or several, for a file of rows and for pictures.

   Rows stream through the engine's two staging buffers: dataset rows from 0 on are overwritten. */
#pragma once

#include "data/dataset.h"
#include "engine/engine.h"
#include "model/metrics.h"
#include "plot/figures.h"

/* Opens a file of rows to predict. The engine sets its classes, its reader threads and how far they
   read ahead. */
DatasetReader *predict_open(const Engine *engine, DatasetConfig rows, Error *error);

/* Writes the prediction for every remaining row as CSV: ImageId (from 1), Label and, with
   `probabilities`, P0, P1, ... "-" means standard output. A regular file is replaced once the new
   one is whole; anything else is written to at once. */
bool predict_to_file(Engine *engine, DatasetReader *reader, const char *path, bool probabilities,
                     Error *error);

/* Returns false if logits (classes) are not finite. The error names the row by its number, from 1,
   or the picture by its `name` if that is not NULL. */
bool predict_check_logits(const float *logits, int classes, const char *name, uint64_t number,
                          Error *error);

/* Opens an engine that averages the probabilities of several trained networks (a committee, or
   ensemble: Ciresan, Meier, Gambardella, Schmidhuber 2011). The `count` members, at least 1, have
   equal inputs, classes, batch and staging rows. The logits are logarithms of the mean
   probabilities. They are not finite if a member's are not. config is the first member's. Only the
   calls staging, upload, predict and close are not NULL. Owns the members even if it fails and
   returns NULL. */
Engine *committee_open(Engine *const *members, int count, Error *error);

/* ---- a file of labelled rows -------------------------------------------------------------- */

/* Evaluates a network on every row of a file, and draws the results. */

/* The rows to evaluate and the pictures to draw. A picture with the file name "" is not drawn. */
typedef struct {
  DatasetConfig rows; /* labelled, see predict_open; without a path, only weights and html work */
  const char *weights, *mistakes, *confusion; /* pictures to draw */
  const char *html;                           /* a web page to draw digits on */
  DataSummary *read;                          /* receives the summary of the rows; may be NULL */
} EvaluateConfig;

/* Returns false if a wanted picture cannot be drawn from this network's rows. */
bool evaluate_can(const Engine *engine, const EvaluateConfig *config, Error *error);

/* Predicts the rows of config->rows, if it has a path, compares them with their labels, then draws
   the pictures. Overwrites the engine's dataset. Opens *metrics; if it returns true, the caller
   closes *metrics. */
bool evaluate_file(Engine *engine, const EvaluateConfig *config, Metrics *metrics, Error *error);

/* ---- a network as one web page -------------------------------------------------------------- */

/* A browser can hold this many float32 as base64 text: V8's limit is 2^29 - 24 characters. */
enum { DIGIT_PAGE_MOST = 100000000 };

/* Writes a web page that needs no server and names the digit that a user draws on it. The Makefile
   makes its source, digit_page.html, a part of the program. The network's inputs must be a square.
   parameters: (network.floats), as float32, because float16 is off by up to 8e-4 in MNIST's
   probabilities. names: class names. */
bool digit_page_write(const EngineConfig *config, const float *parameters, const char *names,
                      const char *path, Error *error);

/* ---- pictures ----------------------------------------------------------------------------- */

typedef struct {
  char *const *paths; /* (count) */
  int count;
  double confidence; /* an answer is unsure if its probability is smaller */
  bool json;         /* print a line of JSON per picture instead of text */
  const char *show;  /* a PNG of the first answered picture, beside what the network saw, or "" */
  const char *names; /* class names */
  struct Report *report;
} Pictures;

/* Prints a line for each digit of each picture (see photograph.h): the picture's name, the digit's
   box if there are several, the likeliest class with its probability, and "unsure" if that is below
   `confidence`. If there are several digits, it adds a line of text for each row of them. Pictures
   without an answer do not stop the others: the function returns false at the end, with the last
   one's error in *error; `report` prints the earlier ones. Any other error stops it. */
bool predict_pictures(Engine *engine, const Pictures *pictures, Error *error);
