/* What is known of the rows of a file once they were read. The reader fills a summary; a run prints
   it, logs it and saves it with the network; and one function compares two of them. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"

enum { DATASET_MAX_COLUMNS = 4097, DATASET_MAX_CLASSES = 1024 };

typedef struct {
  uint64_t rows;                        /* that were delivered */
  uint64_t counts[DATASET_MAX_CLASSES]; /* rows of each label */
  uint64_t alike;                       /* rows whose label is that of the row before */
  int columns, inputs, classes;         /* fields of a line; pixels of a row; labels are below */
  int least, greatest;                  /* pixel of the file */
  double mean;                          /* of its pixels */
  bool header, sorted;                  /* sorted: neighbours have one label far too often */
  dev_t device;
  ino_t inode; /* of the file. A saved summary has neither: other machines give other numbers */

  /* What the run makes of the rows: set by who trains on them. */
  int white;     /* the pixel that is 1 to the network, 0: unknown */
  bool streamed; /* every epoch keeps the file's order, but for the rows of a staging buffer */
} DataSummary;

/* Returns true if labels change less than half as often from row to row as they would in random
   order (Wald and Wolfowitz, "On a test whether two samples are from the same population", 1940,
   count such runs). so_far: more rows may follow, so that a single label counts as sorted. */
bool data_is_sorted(const DataSummary *summary, bool so_far);

/* Returns "60000 rows, 10 classes, pixels 0 to 255". */
ShortText data_text(const DataSummary *summary);

/* Returns a JSON object for a log or a checkpoint, to be freed, NULL without memory; and reads it
   back. False if it is none. */
char *data_to_json(const DataSummary *summary);
bool data_from_json(DataSummary *summary, const char *text);

/* Says what the summary of file `name` shows of itself and, unless `trained` is NULL, beside that
   of the rows that the network was trained on: a line for each remark, with the cure. */
void data_compare(const char *name, const DataSummary *rows, const DataSummary *trained,
                  void (*say)(void *context, const char *line), void *context);
