/* The one printer of tables, as plain text or as Markdown. A table is data: a row is a line of a
   record, a column names a key of it or has a function. */
#pragma once

#include "base/text.h"
#include "measure/record.h"

typedef struct TableColumn TableColumn;

/* A cell, as a column's function is asked to show it. */
typedef struct {
  const TableColumn *column;
  const json_t *row;
  const Record *record;
} TableCell;

struct TableColumn {
  const char *title;
  int width; /* the least; 0 means as wide as its widest text */
  bool left; /* it holds text; numbers stand on the right, and one that is missing is "-" */
  const char *key;
  const char *format; /* printf's, of a number; NULL means text_of_number's */
  const char *small;  /* printf's, of a number below 0.0995; NULL means as any other number */
  double per;         /* the number is divided by this, unless it is 0 */
  ShortText (*cell)(const TableCell *at); /* makes the cell; NULL: the key does */
  unsigned in; /* bits of the tables that have the column; 0 means all. A cell's function sees the
                  bits of its own table */
};

typedef struct {
  FILE *file;
  bool markdown;
  const Record *record; /* for the columns' functions */
  /* In text an empty line stands where one of these keys' values changes. The last one is NULL. */
  const char *const *group;
  unsigned which; /* the bits of TableColumn.in whose columns are shown */
} Table;

void table_print(const Table *table, const TableColumn *columns, int count, const Lines *rows);
void table_heading(FILE *file, bool markdown, const char *text); /* of a section */
