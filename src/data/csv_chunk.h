/* Whole lines of CSV to rows of bytes, by libcsv: the part of dataset.h that knows no threads and
   no files. A chunk of text is parsed alone, so that many can be parsed at once; lines count from 0
   within it, since only whoever puts the chunks in order knows how many lines went before. */
#pragma once

#include <stddef.h>

#include <csv.h>

#include "data/split.h"

#define CSV_BLANK_LINE "a blank line, but more lines follow"

/* Stands for no line. */
#define CSV_NONE UINT64_MAX

/* The columns of a file. */
typedef struct {
  size_t columns, inputs;
  char separator;
  bool labelled; /* one column is a label, all others are pixels */
  size_t label;  /* which, from 0 */
  int classes;   /* labels are below it */
} CsvColumns;

/* The result of parsing some whole lines of text. */
typedef struct Chunk {
  struct Chunk *next; /* of a queue; this and what follows up to `rows` are the reader's own */
  bool parsed;
  bool cut_off;    /* the source failed behind it */
  uint64_t offset; /* how far the file had been read for it */
  uint64_t first;  /* the number of its first row in the file, where only some rows are wanted */
  size_t rows;
  uint64_t lines;          /* that ended */
  uint8_t least, greatest; /* of the pixels, and their sum; of all rows but where some are wanted */
  uint64_t sum;
  uint64_t blank; /* the first of the blank lines at the end, or CSV_NONE */
  Error fault;    /* what is wrong after these rows, if fault_line is not CSV_NONE, */
  uint64_t fault_line;
  size_t fault_column; /* from 1; 0: the line as a whole */
  uint8_t *pixels;     /* (capacity, inputs) */
  uint16_t labels[];   /* (capacity), with the pixels behind them */
} Chunk;

/* Parses any number of chunks, one after the other. */
typedef struct {
  const CsvColumns *columns; /* not owned */
  const RowSet *wanted;      /* not owned; NULL: all rows */
  struct csv_parser csv;
  Chunk *chunk;               /* being filled */
  uint8_t *row;               /* pixels of the row that is being parsed */
  uint8_t *pixel, *row_end;   /* where its next pixel goes; equal: the next field is not a pixel */
  size_t others;              /* its fields that were no pixels: a label, fields too many */
  bool row_on_line, carriage; /* the line has had a row, a carriage return */
} ChunkParser;

/* Refuses the binary file `name`, which begins with this line, with a better message than a parser
   could give. */
bool csv_check_text(const char *name, const char *line, size_t length, Error *error);

/* The first line of a file, header or row. */
typedef struct {
  const char *wanted;  /* the name of the label's column in any case, NULL: a usual one */
  CsvColumns *columns; /* columns, separator and label are set here: CSV_NONE is not named */
  bool named;          /* a header: the first field starts as no number does, or label's is named */
  int rank;            /* of the label's name, 0: the wanted one */
  bool nameless;       /* a header whose first field is empty */
} CsvFirstLine;

/* Reads the first line of the file `name` to *first, whose `wanted` and `columns` are set. False
   with *error set: the line is blank or badly quoted. */
bool csv_first_line(const char *name, const char *line, size_t length, CsvFirstLine *first,
                    Error *error);

void chunk_parser_open(ChunkParser *parser, const CsvColumns *columns, const RowSet *wanted);
void chunk_parser_close(ChunkParser *parser);

/* Empties the chunk: no rows, lines or faults. */
void chunk_clear(Chunk *chunk);

/* Notes a fault, which ends the chunk's rows. Returns the place for the caller's message. */
Error *chunk_fault(Chunk *chunk, uint64_t line, size_t column);

static inline bool chunk_failed(const Chunk *chunk) {
  return chunk->fault_line != CSV_NONE;
}

/* Parses text[length], whole lines, into a chunk that is clear and has room for a row per 2 *
   columns bytes and one more. An error in the text becomes the chunk's fault. A row that is not
   wanted is skipped up to its line feed and becomes zeros. */
void chunk_parse(ChunkParser *parser, Chunk *chunk, const char *text, size_t length);
