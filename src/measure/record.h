/* A record of measurements: one JSON object per line, each with its kind under "case". Programs add
   lines while they measure. They make tables and charts only from lines, so both can be made again
   without a GPU.

     machine  device, driver, cores, date, command, sources (a digest); name: what was measured
     ceiling  name, value, unit: what the device can do at most
     peers    name: the versions of PyTorch and JAX; command
     epoch    hidden, batch, networks (that train at once), precision; fusion or peer;
              and the times of an epoch of one network, or the reason why there are none
     part     of (a run), name, value, unit, share: a part of the whole
     topic    a ladder of mlp-lab, with its rungs
     table    that ladder's results in one problem at one size: a row for each rung and point */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text.h"

typedef struct {
  json_t *lines;    /* array of objects; NULL means none */
  FILE *file;       /* where each line is written when it is added; NULL means nowhere */
  const char *path; /* the file's path, owned by the caller */
  bool failed;      /* a line is missing, here or in the file */
  Error failure;    /* why the first one is missing */
} Record;

json_t *record_line(const char *kind);
/* Set a key of a line, unless the text is NULL or the number is not finite. */
void record_text(json_t *line, const char *key, const char *text);
void record_number(json_t *line, const char *key, double value);

/* Returns the text of a key, or "" if the line has none. */
const char *text_of(const json_t *line, const char *key);
/* Returns the number of a key, or NAN if the line has none; true is 1. */
double number_of(const json_t *line, const char *key);
bool text_is(const json_t *line, const char *key, const char *text);
/* Returns true if the key has the same text or number in both lines, or in neither line. */
bool line_same(const json_t *a, const json_t *b, const char *key);
bool line_is(const json_t *line, const char *kind);

/* Creates a file for the lines that will be added. */
bool record_create(Record *record, const char *path, Error *error);
/* Takes the line and writes it to the file. As with a stream, record_good reports failures
   later. */
void record_add(Record *record, json_t *line);
/* Adds the line of the machine: with the command of this process, and the digest of the sources
   that the environment has as SOURCES. driver and name may be NULL. */
void record_add_machine(Record *record, const char *device, const char *driver, const char *name);
/* Prints "TITLE on DEVICE" as a heading, then what the lines of the machine and the peers say. */
void record_print_machine(const Record *record, const char *title, FILE *file, bool markdown);
/* Returns false if a line could not be added. */
bool record_good(const Record *record, Error *error);

/* Returns false if a line is not one of the program's. *error is one clause that says why. */
typedef bool RecordCheck(const Record *record, json_t *line, Error *error);
/* Adds the lines of a file that `program` has written. `check` may be NULL. */
bool record_read(Record *record, const char *path, const char *program, RecordCheck *check,
                 Error *error);
/* Closes the file and frees the lines. Returns `good`, or false if anything was not written. */
bool record_close(Record *record, bool good, Error *error);

/* Returns the next line of a kind from *at on, or NULL, and moves *at behind it. pairs: keys, each
   followed by the text that the line must have there, or NULL for any text. The list ends with
   NULL. */
const json_t *record_next(const Record *record, size_t *at, const char *kind,
                          const char *const *pairs);

#define RECORD_PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Return the first such line, and the first line of that kind, or NULL if there is none. */
#define record_find(RECORD, KIND, ...)                                                             \
  record_next(RECORD, &(size_t){0}, KIND, RECORD_PAIRS(__VA_ARGS__))
#define record_first(RECORD, KIND) record_find(RECORD, KIND, NULL)

/* Loops over such lines. */
#define foreach_of(LINE, RECORD, KIND, ...)                                                        \
  for (size_t LINE##_at = 0; LINE##_at < SIZE_MAX; LINE##_at = SIZE_MAX)                           \
    for (const json_t *LINE;                                                                       \
         (LINE = record_next(RECORD, &LINE##_at, KIND, RECORD_PAIRS(__VA_ARGS__)));)

/* Loops over the objects of an array. If it is NULL, there are none. */
#define foreach_in(ROW, ARRAY)                                                                     \
  for (size_t ROW##_at = 0; ROW##_at < json_array_size(ARRAY); ROW##_at = SIZE_MAX)                \
    for (json_t * ROW; (ROW = json_array_get(ARRAY, ROW##_at++));)

/* Lines in an order of their own. All zeros means no lines. The caller frees `of`. */
typedef struct {
  const json_t **of;
  int count;
} Lines;

#define foreach_line(LINE, LINES)                                                                  \
  for (const json_t **LINE = (LINES)->of; LINE < (LINES)->of + (LINES)->count; LINE++)

/* Appends a line, or leaves it out if memory runs out. */
void lines_add(Lines *lines, const json_t *line);
/* Returns the lines of a kind that hold a measurement rather than the reason why there is none. */
Lines lines_of(const Record *record, const char *kind);

/* Tables of a record, as plain text or as Markdown. Each row of a table is a line of the record. */
typedef struct TableColumn TableColumn;

/* A cell that a column's function shows. */
typedef struct {
  const TableColumn *column;
  const json_t *row;
  const Record *record;
} TableCell;

struct TableColumn {
  const char *title;
  bool left; /* it holds text; numbers are right-aligned, and a missing number is "-" */
  const char *key;
  const char *format; /* printf's format of a number; NULL means text_of_number's */
  const char *small;  /* printf's format of a number below 0.0995; NULL means the usual one */
  double per;         /* the number is divided by this, unless it is 0 */
  ShortText (*cell)(const TableCell *at); /* makes the cell; NULL means that the key does */
  unsigned in;                            /* bits of the tables that have the column; 0 means all */
  int width;                              /* set by table_print */
};

typedef struct {
  FILE *file;
  bool markdown;
  const Record *record; /* for the columns' functions */
  /* In text, an empty line separates rows in which one of these keys has different values. The list
     ends with NULL. */
  const char *const *group;
  unsigned which; /* the bits of TableColumn.in whose columns are shown */
} Table;

/* Prints a table. Leaves out columns whose key no row has. */
void table_print(const Table *table, const TableColumn *columns, int count, const Lines *rows);
void table_heading(FILE *file, bool markdown, const char *text); /* of a section */
