/* Reads CSV. Each line is a row of a label and pixels. Pixels are from 0 to 255.

   A reader reads one source from front to back: a file, a pipe or standard input, packed by gzip or
   not. One thread at a time reads a chunk of whole lines. The threads parse their chunks in
   parallel, each with its own libcsv parser. Rows are delivered in file order. A header line, LF or
   CRLF, a UTF-8 BOM, quoted fields and blank lines at the end are accepted. Anything else is an
   error. The reader reports the file's first error, with the file's name, line and column.

   columns.h says when the first line is a header, and what each column is. Every row must have as
   many fields as the first line has, even if the first line is a header. */
#pragma once

#include "data/source.h"
#include "data/split.h"
#include "data/summary.h"

typedef struct DatasetReader DatasetReader;

/* A file to read, and how to read it. The first three fields must be set. Every other field may be
   zero. */
typedef struct {
  const char *path;     /* must outlive the reader */
  int classes;          /* labels must be below this number, which is 2 to 1024 */
  int threads;          /* parser threads, at least 1 */
  const char *label;    /* the label column: a number from 1, a header name or "last". NULL or ""
                           leaves the choice to columns.h */
  const char *left_out; /* columns to leave out, see ColumnsKnown, or NULL */
  const char *names;    /* class names, see CsvColumns */
  bool found_names;     /* the labels of training rows gave the names, not --names */
  int inputs;           /* number of pixels of a row; if 0, line 1 gives the number */
  bool predicts; /* a row may lack a label. Labels are ignored and read as 0. Needs `inputs` */
  bool trains;   /* rows train a network, so they need two classes */
  const DataSummary *trained; /* the training rows of the network that gets the rows, or NULL */
  size_t ahead;    /* maximum number of rows parsed ahead of the caller, but at least a chunk per
                      thread. 0 means as many rows as fit in half of memory_available() */
  double hold_out; /* fraction of the rows that split.h holds out, or 0 */
  uint64_t seed;   /* the seed that chooses the held-out rows */
  bool held_out;   /* true delivers only the held-out rows, false only the other rows */
} DatasetConfig;

/* Starts reading. Waits only for the first chunk, whose first line gives the number of columns.
   Returns NULL if there is no such file, or if it is a directory or empty. Also returns NULL if the
   first line is blank or binary, or does not have 2 to DATASET_MAX_COLUMNS fields. */
DatasetReader *dataset_open(const DatasetConfig *config, Error *error);

int dataset_inputs(const DatasetReader *reader); /* pixels per row */

/* Returns an upper bound of the number of rows. For a file that is not packed, the bound follows
   from the file's size. The rows of a pipe or an archive are counted, so the call waits until they
   are parsed. The call returns most + 1 once it has counted more than `most` rows, or if parsing
   must pause for lack of free chunks. `most` must be below 2^64 - 1. */
uint64_t dataset_max_rows(DatasetReader *reader, uint64_t most);

/* Returns the source that is being read. If the file is opened again later and source->stamp
   differs, the file was changed or replaced in between. */
const Source *dataset_source(const DatasetReader *reader);

/* Waits for the parsers and copies the next rows in file order to pixels[row * stride + i] and
   labels[row]. With hold_out, it copies only the rows that `held_out` chooses. It copies `rows`
   rows unless the file ends, and sets *filled to the number copied, which is 0 at the end. Returns
   false if the file has no rows, or if the file has an error after the *filled rows. At the end,
   also returns false if ten rows or more all have one label although they train, or are compared
   with training rows by labels whose column is a guess. */
bool dataset_read(DatasetReader *reader, uint8_t *pixels, size_t stride, uint16_t *labels,
                  size_t rows, size_t *filled, Error *error);

/* Returns the number in the file, from 1, of row `index` of the last call of dataset_read. A header
   has no number. */
uint64_t dataset_number(const DatasetReader *reader, size_t index);

/* Returns the id of the next row that the last call of dataset_read delivered, beginning with the
   first: the text of the column that numbers the rows. Returns NULL if there is no such column,
   without `predicts`, or if memory ran out. The text is valid until the next dataset_read. */
const char *dataset_next_id(DatasetReader *reader);

/* Returns the summary of the delivered rows. The least, greatest and mean pixel cover every chunk
   whose rows have all been delivered. They also cover rows that the split leaves out. */
const DataSummary *dataset_summary(DatasetReader *reader);

/* Returns the fraction of the file that has been delivered, from 0 to 1, or 0 for a pipe. */
double dataset_progress(const DatasetReader *reader);

/* Stops the threads and frees everything. reader may be NULL. */
void dataset_close(DatasetReader *reader);
