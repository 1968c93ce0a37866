/* CSV files for the tests of the reader: written, drawn at random, read whole into a table. The
   file is x.csv in the folder of folder.h. */
#ifndef TESTS_CSV_H
#define TESTS_CSV_H

#include "data/dataset.h"
#include "support/test.h"
#include "support/folder.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* The path of the file, and the fixture that sets it; folder_close is the other one. */
extern const char *path;
int csv_open(void **state);

void write_file(const char *text, size_t length);

/* ---- what is read --------------------------------------------------------------------------- */

typedef struct {
  size_t rows, inputs;
  uint8_t *pixels; /* (rows, inputs) */
  uint16_t *labels;
  Error error; /* empty: none */
} Table;

void free_table(Table *table);

/* Numbers of threads to try. */
enum { THREAD_COUNTS = 4 };
extern const int thread_counts[THREAD_COUNTS];

/* If above 0, the inputs of the network for which read_table opens the file. */
extern int network_inputs;

/* Reads the whole file, `block` rows at a time, with gaps between rows that must survive. */
Table read_table(int classes, int threads, size_t ahead, size_t block);

void assert_same_rows(const Table *got, const Table *wanted);

/* The file of that text is delivered as `rows`, "label,pixel,...;" per row, then fails with
   `message` ("": it does not), where @ stands for the path. */
void expect(const char *text, size_t length, const char *rows, const char *message);

/* ---- files that are drawn ------------------------------------------------------------------- */

/* Not 0. Where draw() begins. */
extern uint64_t random_state;
unsigned draw(unsigned below);

typedef struct {
  char *text; /* malloc'ed */
  size_t length;
} Text;

/* A valid file of `rows` random rows: its text, and what must be read from it. */
Text draw_file(size_t rows, size_t inputs, Table *table);

/* `text` as a gzip member of its own, behind what `archive` holds. */
void append_member(Text *archive, const char *text, size_t length);

#endif
