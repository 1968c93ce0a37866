/* A record of measurements. Each line is a JSON object, whose kind is under "case". Programs add
   lines while they measure. Tables and charts need only these lines, so they can be made again
   without a GPU. The kinds of lines, and their keys:

     machine  device, driver, cores, date, command, sources (a digest), name (what was measured)
     ceiling  name, value, unit: a measured limit of the device
     theory   name (of a ceiling), value, unit: the same limit as clocks and widths allow it
     device   name, value, unit: a property of the device
     peers    name (the versions of PyTorch and JAX), command
     epoch    hidden, batch, networks (trained at once), precision, fusion or peer; also the times
              of one network's epoch or, if nothing was measured, the reason
     part     name, value, unit, share: a part of the run that the key "of" describes
     topic    a ladder of mlp-lab, with its rungs
     table    results of a topic for one problem at one size: a row for each rung and point
     level    what a training step asks of memory at a level of fusion ("fusion"), counted by the
              emulator, with a row for each kernel; or, if it was not run, the reason */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/output.h"
#include "base/text.h"

typedef struct {
  json_t *lines;     /* JSON array of the lines; NULL if there are none */
  AtomicFile output; /* record_add also writes lines to output.file, unless it is NULL */
  Error failure;     /* the first error of adding or writing a line, or "" */
} Record;

json_t *record_line(const char *kind);
/* Set a key of a line. A NULL text or a number that is not finite changes nothing. */
void record_text(json_t *line, const char *key, const char *text);
void record_number(json_t *line, const char *key, double value);

/* Returns the text of a key, or "" if the key has no text. */
const char *text_of(const json_t *line, const char *key);
/* Returns the number of a key, or NAN if the key has no number. `true` counts as 1. */
double number_of(const json_t *line, const char *key);
bool text_is(const json_t *line, const char *key, const char *text);
/* Returns true if the key has the same text or number in both lines, or is missing in both. */
bool line_same(const json_t *a, const json_t *b, const char *key);

/* Creates the file to which record_add writes lines. The file `path` gets them when record_close
   finds the record complete. A NULL path means no file. */
bool record_create(Record *record, const char *path, Error *error);
/* Adds the line, which the record then owns, and writes it. Rounds its numbers to the seven digits
   that the file has, so that both hold the same. record_good reports failures. */
void record_add(Record *record, json_t *line);
/* Adds a line "machine", with this process's command line and the environment variable SOURCES (a
   digest of the sources). driver and name may be NULL. */
void record_add_machine(Record *record, const char *device, const char *driver, const char *name);
/* Prints "TITLE on DEVICE" as a heading, then the contents of the lines "machine" and "peers". */
void record_print_machine(const Record *record, const char *title, FILE *file, bool markdown);
/* Returns false, with the first failure in *error, if a line could not be added or written. */
bool record_good(const Record *record, Error *error);

/* Returns false if record_read's `program` cannot have written the line. *error gives the reason in
   one clause. */
typedef bool RecordCheck(const Record *record, json_t *line, Error *error);
/* Adds the lines of a file that `program` wrote. If `check` is not NULL, it checks each line. */
bool record_read(Record *record, const char *path, const char *program, RecordCheck *check,
                 Error *error);
/* Escapes control characters in the texts of all lines (see text_printable), so that a record from
   a stranger cannot command the terminal that its tables are printed on. */
bool record_make_printable(Record *record, Error *error);
/* Closes the file and frees the lines. If `good` is false, an older file keeps its content. Returns
   true if `good` and all lines were written. */
bool record_close(Record *record, bool good, Error *error);

/* Returns the first matching line of a kind at index *at or later, or NULL. Sets *at to the index
   after that line. `pairs` lists keys, each followed by the text that the line must have under the
   key. A NULL text matches any text. A NULL key ends the list. */
const json_t *record_next(const Record *record, size_t *at, const char *kind,
                          const char *const *pairs);

#define RECORD_PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* record_find(RECORD, KIND, pairs as in record_next) returns the first matching line, or NULL. */
#define record_find(RECORD, KIND, ...)                                                             \
  record_next(RECORD, &(size_t){0}, KIND, RECORD_PAIRS(__VA_ARGS__))
#define record_first(RECORD, KIND) record_find(RECORD, KIND, NULL)

/* Loops over the lines that record_next would return. */
#define foreach_of(LINE, RECORD, KIND, ...)                                                        \
  for (size_t LINE##_at = 0; LINE##_at < SIZE_MAX; LINE##_at = SIZE_MAX)                           \
    for (const json_t *LINE;                                                                       \
         (LINE = record_next(RECORD, &LINE##_at, KIND, RECORD_PAIRS(__VA_ARGS__)));)

/* Loops over the objects of an array. A NULL array has no objects. */
#define foreach_in(ROW, ARRAY)                                                                     \
  for (size_t ROW##_at = 0; ROW##_at < json_array_size(ARRAY); ROW##_at = SIZE_MAX)                \
    for (json_t * ROW; (ROW = json_array_get(ARRAY, ROW##_at++));)

/* A list of lines, in any order. All zeros is an empty list. The caller frees `of`. */
typedef struct {
  const json_t **of;
  int count;
} Lines;

#define foreach_line(LINE, LINES)                                                                  \
  for (const json_t **LINE = (LINES)->of; LINE < (LINES)->of + (LINES)->count; LINE++)

/* Appends a line. If memory runs out, does nothing. */
void lines_add(Lines *lines, const json_t *line);
/* Returns the lines of a kind that have a measurement. Lines without one have a "reason". */
Lines lines_of(const Record *record, const char *kind);

/* Tables of a record, as plain text or as Markdown. Each row of a table is a line of the record. */

/* The argument of TableColumn.cell. */
typedef struct {
  const json_t *row;
  const Record *record;
} TableCell;

typedef struct {
  const char *title;
  bool left; /* true: texts, aligned left; false: numbers, aligned right ("-" if missing) */
  const char *key;
  const char *format; /* printf format of a number; NULL means text_of_number */
  const char *small;  /* printf format of a number below 0.0995; NULL means `format` */
  double per;         /* divisor of the number; 0 means 1 */
  ShortText (*cell)(const TableCell *at); /* gives the text; if NULL, row[key] is shown */
  unsigned in; /* bits of the tables that have this column; 0 means all tables */
  int width;   /* set by table_print */
} TableColumn;

typedef struct {
  FILE *file;
  bool markdown;
  const Record *record; /* passed to TableColumn.cell */
  /* In plain text, an empty line separates rows that differ in one of these keys. NULL ends the
     list of keys. */
  const char *const *group;
  unsigned which; /* shows only columns that have one of these bits in TableColumn.in */
} Table;

/* Prints a table, without columns that are empty in all rows. */
void table_print(const Table *table, const TableColumn *columns, int count, const Lines *rows);
void table_heading(FILE *file, bool markdown, const char *text); /* prints a section's heading */
