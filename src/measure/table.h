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
  int width; /* at least; 0: as wide as its widest text */
  bool left; /* text; numbers stand on the right, and are "-" where they are not there */
  const char *key;
  const char *format; /* printf's, of a number; NULL: as text_of_number writes it */
  const char *small;  /* the same of a number below 0.0995; NULL: as format or it says */
  double per;         /* the number is divided by this, 0: 1 */
  ShortText (*cell)(const TableCell *at); /* or NULL */
  unsigned in; /* bits of the tables that have the column, 0: all have it; for the function, those
                  of its table */
};

typedef struct {
  FILE *file;
  bool markdown;
  const Record *record; /* for the columns' functions */
  /* In text an empty line stands where one of these keys' values changes. The last one is NULL. */
  const char *const *group;
  unsigned which; /* the table's bit of TableColumn.in; several, for columns of either */
} Table;

void table_print(const Table *table, const TableColumn *columns, int count, const Lines *rows);
void table_heading(FILE *file, bool markdown, const char *text); /* of a section */
