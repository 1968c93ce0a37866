/* The predictions of a trained network, or several, for a file of rows and for pictures.

   Rows stream through the engine's two staging buffers: dataset rows from 0 on are written over. */
#pragma once

#include "data/dataset.h"
#include "engine/engine.h"
#include "model/metrics.h"
#include "plot/figures.h"

/* Opens a file of rows that the network is to be asked about; its classes, the threads that read it
   and how far they read ahead are the engine's. */
DatasetReader *predict_open(const Engine *engine, DatasetConfig rows, Error *error);

/* Sees a row of a file, in file order: its number from 1, pixels (inputs), label and the logits
   (classes) of the network, valid during the call alone. Returns false to stop, with *error set. */
typedef bool PredictRow(void *context, uint64_t row, const uint8_t *pixels, int label,
                        const float *logits, Error *error);

/* Shows every remaining row of `reader` to `use`. */
bool predict_rows(Engine *engine, DatasetReader *reader, PredictRow *use, void *context,
                  Error *error);

/* Writes the prediction for every remaining row as CSV: ImageId (from 1), Label and, with
   `probabilities`, P0, P1, ... path "-" is standard output. A file is replaced once it is whole;
   what is not a regular file is written to at once. */
bool predict_to_file(Engine *engine, DatasetReader *reader, const char *path, bool probabilities,
                     Error *error);

/* Refuses logits (classes) that are not finite: the error names the row by its number, from 1, or
   its picture's `name` if that is not NULL. */
bool predict_check_logits(const float *logits, int classes, const char *name, uint64_t number,
                          Error *error);

/* Opens an engine of several trained networks that predict together: their probabilities are
   averaged (a committee, or ensemble: Ciresan, Meier, Gambardella, Schmidhuber 2011). It has
   `count` members, from 1, which have the same inputs, classes, batch and staging rows. Its logits
   are the logarithms of the mean probabilities, and not finite where a member's are not. config is
   the first member's. It has only the calls staging, upload, predict and close; the others are
   NULL. Owns the members from now on, also where it fails: NULL. */
Engine *committee_open(Engine *const *members, int count, Error *error);

/* ---- a file of labelled rows -------------------------------------------------------------- */

/* Evaluates a network on every row of a file, and draws what came of it. */

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

/* ---- pictures ----------------------------------------------------------------------------- */

/* Told of a picture that has no answer, while others follow. */
typedef void PictureFailed(void *context, const Error *error);

typedef struct {
  char *const *paths; /* (count) */
  int count;
  double confidence; /* an answer with a smaller probability is unsure */
  bool json;         /* a line of JSON for each picture, instead of text */
  const char *show;  /* a PNG of the first picture with an answer beside what the network saw; "":
                        none */
  const char *names; /* of the classes */
  FILE *file;        /* to write to */
  PictureFailed *failed;
  void *context;
} Pictures;

/* Writes a line for each digit of each picture (see photograph.h): the picture's name, the digit's
   box if there are several, then the likeliest class with its probability, and "unsure"
   where the first is less likely than `confidence`; then, if there are several digits, a line for
   each row of them as text. A picture that cannot be answered stops no other: then this returns
   false in the end, the last such picture's error in *error and those before it given to `failed`.
   What is not a picture's fault ends all. */
bool predict_pictures(Engine *engine, const Pictures *pictures, Error *error);
