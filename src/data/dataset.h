/* CSV to bytes: one row a line, a label and pixels 0 to 255.

   A reader streams one source (source.h: a file, a pipe or standard input, packed by gzip or not)
   from front to back. Its threads take turns reading the next chunk of whole lines and parse their
   chunks in parallel, one libcsv parser a chunk; rows come out in file order whatever the threads
   did. A header line, LF or CRLF, a UTF-8 BOM, quoted fields and blank lines at the end are
   accepted. Anything else is an error that names file, line and column, always the first one in the
   file.

   csv_chunk.h says when the first line is a header. Header or row, every row must have as many
   fields as the first line. */
#pragma once

#include "data/source.h"
#include "data/split.h"
#include "data/summary.h"

typedef struct DatasetReader DatasetReader;

/* A file to read, and how to read it. Zeros are usual values but for the first line. */
typedef struct {
  const char *path;  /* outlives the reader */
  int classes;       /* labels must be below it: 2 to 1024 */
  int threads;       /* parsers, from 1 */
  const char *label; /* the column of the labels, a number from 1, a name of the header or "last";
                        NULL or "": the one that the header calls label, class, target, digit or y,
                        else the first */
  const char *names; /* of the classes, see CsvColumns */
  int inputs; /* pixels that a row must have, with a label or without: labels are not looked at, and
                 are 0; 0: any number, and a label */
  size_t ahead;    /* rows that may be parsed before anybody asks for them, 0: as many as half of
                      memory_available() holds; at least one chunk per thread */
  double hold_out; /* the share of the rows that split.h holds out for `seed`, 0: none */
  uint64_t seed;
  bool held_out; /* delivers these rows alone, else only the others */
} DatasetConfig;

/* Starts reading. Blocks only for the first chunk, whose first line fixes the number of columns.
   Returns NULL on failure: no such file, a directory, an empty file, a first line that is blank,
   binary or not of 2 to DATASET_MAX_COLUMNS fields. */
DatasetReader *dataset_open(const DatasetConfig *config, Error *error);

int dataset_inputs(const DatasetReader *reader); /* pixels a row */

/* Returns an upper bound of the number of rows. The bound of a file follows from its size. A pipe
   does not tell its length and an archive cannot be trusted, so their rows are counted: this waits
   until all are parsed, and gives up with most + 1 (`most` below 2^64 - 1) if there are more than
   that or if no more may be parsed ahead. */
uint64_t dataset_max_rows(DatasetReader *reader, uint64_t most);

/* Returns the source that is being read; another reading of its path has the same stamp unless the
   file was changed or replaced in between. */
const Source *dataset_source(const DatasetReader *reader);

/* Copies the next rows in file order (of a split, those that are taken), waiting for the parsers:
   pixels[row * stride + i] and labels[row]. Fills all `rows` unless the file ends before. Stores
   the count in *filled (0: the end). Returns false with the first error in file order, or when the
   file has no row; the *filled rows before the error are delivered all the same. */
bool dataset_read(DatasetReader *reader, uint8_t *pixels, size_t stride, uint16_t *labels,
                  size_t rows, size_t *filled, Error *error);

/* Returns what is known of the rows that have been delivered. Pixels count by chunks. */
const DataSummary *dataset_summary(DatasetReader *reader);

/* The part of the file that has been delivered, 0 to 1; of a pipe always 0. */
double dataset_progress(const DatasetReader *reader);

/* Stops the threads, frees everything. NULL is allowed. */
void dataset_close(DatasetReader *reader);
