/* Whole lines of CSV to rows of bytes, by libcsv: the part of dataset.h that knows no threads and
   no files. A chunk of text is parsed alone, so that many can be parsed at once; lines count from 0
   within it, since only whoever puts the chunks in order knows how many lines went before. */
#pragma once

#include <stddef.h>

#include <csv.h>

#include "base/error.h"
#include "data/summary.h"

#define CSV_BLANK_LINE "a blank line, but more lines follow"

/* Stands for no line. */
#define CSV_NONE UINT64_MAX

/* The columns of a file: a label if `labelled`, and pixels. */
typedef struct {
  size_t columns, inputs;
  char separator;
  bool named;            /* the first line is a header */
  bool labelled, judged; /* judged: labels are read, else they may be anything and become 0 */
  size_t label;          /* which column, from 0; CSV_NONE: not named by the header */
  int classes;           /* labels are below it */
  const char *names;     /* of the classes, one a line, which labels may have for numbers; NULL */
} CsvColumns;

/* The result of parsing some whole lines of text. */
typedef struct Chunk {
  struct Chunk *next; /* of a queue; this and what follows up to `rows` are the reader's own */
  bool parsed;
  bool cut_off;    /* the source failed behind it */
  uint64_t offset; /* how far the file had been read for it */
  size_t rows;
  uint64_t lines;          /* that ended */
  uint8_t least, greatest; /* pixel of these rows, */
  uint64_t sum;            /* and the sum of all of them */
  uint64_t blank;          /* the first of the blank lines at the end, or CSV_NONE */
  Error fault;             /* what is wrong after these rows, if fault_line is not CSV_NONE, */
  uint64_t fault_line;
  size_t fault_column; /* from 1; 0: the line as a whole */
  uint8_t *pixels;     /* (capacity, inputs) */
  uint16_t labels[];   /* (capacity), with the pixels behind them */
} Chunk;

/* Parses any number of chunks, one after the other. */
typedef struct {
  const CsvColumns *columns; /* not owned */
  struct csv_parser csv;
  Chunk *chunk;               /* being filled */
  uint8_t *row;               /* pixels of the row that is being parsed */
  uint8_t *pixel, *row_end;   /* where its next pixel goes; equal: the next field is not a pixel */
  size_t passed, extra;       /* its fields that were labels; that were too many */
  bool row_on_line, carriage; /* the line has had a row, a carriage return */
} ChunkParser;

/* Refuses the file `name` of another format, or binary, which begins with this line. */
bool csv_check_text(const char *name, const char *line, size_t length, Error *error);

/* Learns the columns, the separator and the label's column from the first line of the file `name`.
   The line is a header if its first field starts as no number does, if it names the label's column,
   or if it counts its columns from 0 or 1, as pandas numbers them. wanted: the name of the label's
   column in any case; NULL: a usual one. Returns false if the line is blank or badly quoted, or if
   the header numbers the rows. */
bool csv_first_line(const char *name, const char *line, size_t length, const char *wanted,
                    CsvColumns *columns, Error *error);

void chunk_parser_open(ChunkParser *parser, const CsvColumns *columns);
void chunk_parser_close(ChunkParser *parser);

/* Empties the chunk: no rows, lines or faults. */
void chunk_clear(Chunk *chunk);

/* Notes a fault, which ends the chunk's rows. Returns the place for the caller's message. */
Error *chunk_fault(Chunk *chunk, uint64_t line, size_t column);

static inline bool chunk_failed(const Chunk *chunk) {
  return chunk->fault_line != CSV_NONE;
}

/* Parses text[length], whole lines, into a chunk that is clear and has room for the shortest rows
   that fit the text and one more. An error in the text becomes the chunk's fault. */
void chunk_parse(ChunkParser *parser, Chunk *chunk, const char *text, size_t length);
