/* CSV files for the tests of the reader: written, drawn at random, read whole into a table. The
   file is x.csv in the working folder, which is that of folder.h. */
#pragma once

#include "data/dataset.h"
#include "support/folder.h"

static const char path[] = "x.csv";

void write_file(const char *text, size_t length);

/* ---- what is read --------------------------------------------------------------------------- */

typedef struct {
  size_t rows, inputs;
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
  Error error; /* empty: none */
} Table;

/* A table without rows, and room for as many. */
Table new_table(size_t room, size_t inputs);

/* Appends up to `rows` of the reader's rows, and returns what dataset_read does. */
bool read_on(DatasetReader *reader, Table *table, size_t rows);

/* Numbers of threads to try. */
enum { THREAD_COUNTS = 4 };
extern const int thread_counts[THREAD_COUNTS];

/* How read_table opens the file but for what it is told: for 10 classes, unless a test sets it. */
extern DatasetConfig reading;

/* Reads the whole file into `got`, `block` rows at a time, with gaps between rows that must
 * survive.
 */
extern Table got;
void read_table(int threads, size_t ahead, size_t block);

void assert_read_rows(const Table *wanted);

/* A file and what reading it gives. */
typedef struct {
  const char *text;
  const char *rows; /* delivered: "label,pixel,...;" per row */
  int line, column; /* of the error; 0: its message names none */
  const char *what; /* the error's message behind path and place; NULL: no error */
} CsvCase;

void expect(CsvCase row);
void expect_bytes(size_t length, CsvCase row); /* of the text, which may hold zeros */

/* Opens the file for 10 classes; open_reader must not fail. */
DatasetReader *try_reader(int threads, size_t ahead, Error *why);
DatasetReader *open_reader(int threads, size_t ahead);

/* Returns `rows` rows of text, "1,2\n" each. */
char *repeat_row(size_t rows);

/* ---- files that are drawn ------------------------------------------------------------------- */

/* Not 0. Where draw() begins. */
extern uint64_t random_state;
unsigned draw(unsigned below);

typedef struct {
  char *text;
  size_t length;
} Text;

/* A valid file of `rows` random rows: its text, and what must be read from it. */
Text draw_file(size_t rows, size_t inputs, Table *table);

/* Draws a file with that seed and writes it: `wanted` is what must be read from it, `drawn` its
   text. */
void draw_csv(uint64_t seed, size_t rows, size_t inputs);
extern Table wanted;
extern Text drawn;

/* `text` as a gzip member of its own, behind what `archive` holds, and zeros behind it, which are
   none of it. */
enum { ZEROS = 2 << 20 };
void append_member(Text *archive, const char *text, size_t length);
