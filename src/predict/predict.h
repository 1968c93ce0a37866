/* Predicts the classes of rows and of pictures, with one trained network or several.

   Rows pass through the engine's two staging buffers and overwrite its dataset from row 0 on. */
#pragma once

#include "data/dataset.h"
#include "engine/engine.h"
#include "model/metrics.h"
#include "plot/figures.h"

/* Opens a file of rows to predict. engine->config gives the number of pixels and classes, of reader
   threads and of rows to read ahead. */
DatasetReader *predict_open(const Engine *engine, DatasetConfig rows, Error *error);

/* Writes the prediction for every remaining row as CSV: ImageId (the file's own, or
   else from 1), Label (a number or, with `names`, a name) and, with
   `probabilities`, P0, P1, ... "-" means standard output. A regular file is replaced only when the
   new file is complete. Anything else is written directly. */
bool predict_to_file(Engine *engine, DatasetReader *reader, const char *path, const char *names,
                     bool probabilities, Error *error);

/* Returns false if a logit of logits (classes) is not finite. The error names the picture `name`,
   or, if `name` is NULL, the row `number`, which counts from 1. */
bool predict_check_logits(const float *logits, int classes, const char *name, uint64_t number,
                          Error *error);

/* Opens an engine that averages the probabilities of several trained networks (a committee, or
   ensemble: Ciresan, Meier, Gambardella, Schmidhuber 2011). The `count` members, at least 1, have
   equal inputs, classes, batch and staging rows. The logits are logarithms of the mean
   probabilities, or NAN where a member's logit is not finite. The engine has the config of its
   first member, and only the calls staging, upload, predict and close; other calls are NULL. It
   owns the members. If committee_open fails, it closes the members and returns NULL. */
Engine *committee_open(Engine *const *members, int count, Error *error);

/* Uploads a picture, ink (inputs) from 0 (paper) to 255, to dataset row 0. Each network gets it
   scaled to 0 to its own --pixel-max, also if the engine is a committee. */
bool picture_upload(Engine *engine, const uint8_t *ink, Error *error);

/* ---- a file of labelled rows -------------------------------------------------------------- */

/* The rows to evaluate and the pictures to draw. A file name of "" means no picture. */
typedef struct {
  DatasetConfig rows; /* labelled rows; rows.path may be NULL if only weights and html are wanted */
  const char *weights, *mistakes, *confusion; /* file names of the pictures to draw */
  const char *html;                           /* file name of a web page to draw digits on */
  DataSummary *read; /* evaluate_file stores the rows' summary here, unless NULL */
} EvaluateConfig;

/* Returns false if a wanted picture or the web page cannot be made for this network. */
bool evaluate_can(const Engine *engine, const EvaluateConfig *config, Error *error);

/* If config->rows has a path, predicts its rows and compares the predictions with the labels. Then
   draws the pictures. Overwrites the engine's dataset. Opens *metrics, which the caller closes if
   evaluate_file returns true. */
bool evaluate_file(Engine *engine, const EvaluateConfig *config, Metrics *metrics, Error *error);

/* ---- a network as one web page -------------------------------------------------------------- */

/* Maximum number of parameters. Their base64 must fit in a V8 string (2^29 - 24 characters). */
enum { DIGIT_PAGE_MOST = 100000000 };

/* Writes a web page that needs no server and names the digit that a user draws on it. The Makefile
   makes the page's source, digit_page.html, a part of the program. The network's inputs must be a
   square. parameters (network.floats) are written as float32, because float16 changes MNIST's
   probabilities by up to 8e-4. `names` are the class names. */
bool digit_page_write(const EngineConfig *config, const float *parameters, const char *names,
                      const char *path, Error *error);

/* ---- pictures ----------------------------------------------------------------------------- */

typedef struct {
  char *const *paths; /* (count) */
  int count;
  double confidence; /* an answer with a lower probability is unsure */
  bool json;         /* print a line of JSON per picture instead of text */
  const char *show;  /* PNG file that plot_seen draws for the first answered picture, or "" */
  const char *names; /* class names */
  struct Report *report;
} Pictures;

/* Prints a line for each digit of each picture (see photograph.h): the picture's name, the digit's
   box if there are several digits, the likeliest class with its probability, and "unsure" if the
   probability is below `confidence`. If a picture has several digits, adds a line of text for each
   row of digits. Continues after a picture without an answer, but then returns false: *error is the
   last such error, and `report` prints the earlier ones. Any other error ends the call. */
bool predict_pictures(Engine *engine, const Pictures *pictures, Error *error);
