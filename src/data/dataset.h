/* Reads CSV as bytes: each line is a row, with a label and pixels 0 to 255.

   A reader streams one source (source.h: a file, a pipe or standard input, packed by gzip or not)
   from front to back. Its threads take turns reading the next chunk of whole lines and parse their
   chunks in parallel, one libcsv parser per chunk; rows always come out in file order. A header
   line, LF or CRLF, a UTF-8 BOM, quoted fields and blank lines at the end are accepted. Anything
   else is an error that names file, line and column, always the first one in the file.

   csv_chunk.h says when the first line is a header. Every row must have as many fields as the first
   line, even if that is a header. */
#pragma once

#include "data/source.h"
#include "data/split.h"
#include "data/summary.h"

typedef struct DatasetReader DatasetReader;

/* A file to read, and how to read it. The first three fields must be set. Every other field may be
   zero. */
typedef struct {
  const char *path;  /* outlives the reader */
  int classes;       /* labels must be below this number, which is 2 to 1024 */
  int threads;       /* parser threads, at least 1 */
  const char *label; /* the label column: a number from 1, a header name or "last". NULL or "" means
                        the column that the header calls label, class, target, digit or y, or else
                        the first */
  const char *names; /* class names, see CsvColumns */
  int inputs;   /* pixels that a row must have, with or without a label; labels are then ignored and
                   become 0. 0 means that rows have any number of pixels, and a label */
  size_t ahead; /* rows that may be parsed before they are asked for. 0 means as many as half of
                   memory_available() holds. At least one chunk per thread */
  double hold_out; /* the share of rows that split.h holds out for `seed`; 0 holds out none */
  uint64_t seed;
  bool held_out; /* deliver only the held-out rows; if false, only the other rows */
} DatasetConfig;

/* Starts reading. Blocks only for the first chunk, whose first line fixes the number of columns.
   Returns NULL on failure: no such file, a directory, an empty file, a first line that is blank,
   binary or not of 2 to DATASET_MAX_COLUMNS fields. */
DatasetReader *dataset_open(const DatasetConfig *config, Error *error);

int dataset_inputs(const DatasetReader *reader); /* pixels per row */

/* Returns an upper bound of the number of rows. The bound of a file follows from its size. A pipe
   does not tell its length and an archive cannot be trusted, so their rows are counted. This waits
   until all are parsed. It gives up and returns most + 1 (`most` below 2^64 - 1) if there are more
   than `most` rows or if no more may be parsed ahead. */
uint64_t dataset_max_rows(DatasetReader *reader, uint64_t most);

/* Returns the source that is being read. Its stamp is the same in another reading of the same path
   unless the file was changed or replaced in between. */
const Source *dataset_source(const DatasetReader *reader);

/* Copies the next rows in file order and waits for the parsers: pixels[row * stride + i] and
   labels[row]. With a split, copies only rows of its side. Fills all `rows` unless the file ends;
   *filled is the count, 0 at the end. Returns false with the first error in file order, or if the
   file has no rows; it still delivers the *filled rows before an error. */
bool dataset_read(DatasetReader *reader, uint8_t *pixels, size_t stride, uint16_t *labels,
                  size_t rows, size_t *filled, Error *error);

/* Returns the summary of the delivered rows. Pixels are counted per chunk. */
const DataSummary *dataset_summary(DatasetReader *reader);

/* Returns the share of the file that has been delivered, 0 to 1; always 0 for a pipe. */
double dataset_progress(const DatasetReader *reader);

/* Stops the threads and frees everything. reader may be NULL. */
void dataset_close(DatasetReader *reader);
