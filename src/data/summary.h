/* A summary of the rows of a file that was read. The reader fills the summary; a run prints it,
   logs it and saves it with the network; data_compare compares two summaries. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"

enum { DATASET_MAX_COLUMNS = 4097, DATASET_MAX_CLASSES = 1024 };

typedef struct {
  uint64_t rows;                        /* number of rows that the reader delivered */
  uint64_t counts[DATASET_MAX_CLASSES]; /* number of rows with each label */
  uint64_t alike;                       /* number of rows with the previous row's label */
  int columns, inputs, classes;         /* fields per line; pixels per row; number of classes */
  int least, greatest;                  /* the least and the greatest pixel value */
  double mean;                          /* the mean pixel value */
  bool header, sorted;                  /* true if line 1 is a header; true if data_is_sorted */
  dev_t device;
  ino_t inode; /* device and inode identify the file on this machine, so they are not saved */

  /* The code that trains on the rows sets the next two fields. */
  int white;     /* the pixel value that the network reads as 1; 0 if unknown */
  bool streamed; /* rows are shuffled only within a staging buffer, not within the file */
} DataSummary;

/* Returns true if labels change from row to row less than half as often as in random order (a runs
   test: Wald and Wolfowitz, "On a test whether two samples are from the same population", 1940). If
   `so_far`, more rows may follow; then rows of a single label also count as sorted. */
bool data_is_sorted(const DataSummary *summary, bool so_far);

/* Returns a text such as "60000 rows, 10 classes, pixels 0 to 255". */
ShortText data_text(const DataSummary *summary);

/* data_to_json returns a JSON object, which the caller frees. It returns NULL if memory runs out.
   data_from_json reads such an object. It returns false if `text` is not a summary. */
char *data_to_json(const DataSummary *summary);
bool data_from_json(DataSummary *summary, const char *text);

/* Returns true if both summarise the same file, or have the same row counts and mean pixel. */
bool data_are_equal(const DataSummary *a, const DataSummary *b);

/* Calls `say` with a line for each remark on the rows of file `name`; the line says what to do.
   Compares `rows` with `trained`, the summary of the training rows, unless `trained` is NULL. */
void data_compare(const char *name, const DataSummary *rows, const DataSummary *trained,
                  void (*say)(void *context, const char *line), void *context);
