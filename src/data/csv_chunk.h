/* Parses CSV with libcsv. A chunk of text is whole lines, which become rows of bytes. The parser
   starts no thread and opens no file. Several threads can each parse a chunk at the same time.
   Lines of a chunk count from 0, because only the reader knows the number of earlier lines. */
#pragma once

#include <stddef.h>

#include "data/columns.h"

#define CSV_BLANK_LINE "a blank line, but more lines follow"

/* What the labels of some rows are, if they are ignored. */
typedef struct {
  uint64_t first, last;
  bool counts_up, constant; /* all are whole numbers: each is one more than the last; all are one */
} IgnoredLabels;

/* The rows of some whole lines of text, and the first fault in the lines. */
typedef struct Chunk {
  struct Chunk *next; /* the next chunk in a list; only dataset.c uses fields `next` to `offset` */
  bool parsed;
  bool cut_off;    /* reading the source failed after this chunk */
  uint64_t offset; /* bytes of the file that had been read when the chunk was filled */
  size_t rows;
  bool words;              /* a label is the name of a class */
  bool mapped;             /* a label is a number whose word is the name of a class */
  uint64_t lines;          /* number of lines that end in this chunk */
  uint8_t least, greatest; /* the least and the greatest pixel of the rows */
  uint64_t sum;            /* the sum of all pixels of the rows */
  IgnoredLabels ignored;   /* if the rows have labels that are ignored */
  uint64_t blank;          /* line number of the first blank line after the rows, or CSV_NONE */
  Error fault;             /* the error after the rows, if fault_line is not CSV_NONE */
  uint64_t fault_line;
  size_t fault_column; /* counted from 1; 0 means the whole line */
  uint32_t *ids;       /* (capacity): where in id_text the number of each row begins; NULL if rows
                          have no numbers or nobody wants them */
  char *id_text;       /* as long as the chunk's text */
  uint32_t id_end;     /* bytes of id_text in use */
  uint8_t *pixels;     /* (capacity, inputs) */
  uint16_t labels[];   /* (capacity); the array `pixels` follows in the same allocation */
} Chunk;

typedef struct {
  const CsvColumns *columns; /* not owned */
  struct csv_parser csv;
  Chunk *chunk;             /* the chunk that is being filled */
  uint8_t *row;             /* pixels of the row that is being parsed */
  uint8_t *pixel, *row_end; /* next pixel to fill; end of the pixels before (or after) the label */
  size_t passed, extra;     /* number of stops read in the row; number of surplus fields */
  bool row_on_line, carriage; /* a row began on this line; the line has a carriage return */
} ChunkParser;

/* Returns class names, given as one per line, with commas between, but the last one after "..." if
   they are many. */
ShortText csv_list_names(const char *names);

/* Refuses the file `name` if its first line shows another format or binary data. */
bool csv_check_text(const char *name, const char *line, size_t length, Error *error);

/* Sets up *parser, which must be all zeros. The caller frees parser->csv with csv_free. */
void chunk_parser_open(ChunkParser *parser, const CsvColumns *columns);

/* Records the place of an error. The chunk's rows end there. The caller sets the returned Error. */
Error *chunk_fault(Chunk *chunk, uint64_t line, size_t column);

static inline bool chunk_failed(const Chunk *chunk) {
  return chunk->fault_line != CSV_NONE;
}

/* Parses text[length], which is whole lines, into an empty chunk. The chunk must have room for one
   more row than the text can hold. An error in the text is stored in chunk->fault. */
void chunk_parse(ChunkParser *parser, Chunk *chunk, const char *text, size_t length);
