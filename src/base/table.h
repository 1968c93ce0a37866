/* Tables, as plain text or as Markdown. */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
  const char *title;
  int width;
  bool left; /* text; numbers stand on the right */
} TableColumn;

typedef struct {
  char text[112];
} TableCell;

typedef struct {
  FILE *file;
  bool markdown;
  const TableColumn *columns;
  int count;
} Table;

/* What does not fit is cut. */
TableCell table_cell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As many decimals as leave three digits or more; "-" for a number that is not there. */
TableCell table_number(double value);

void table_begin(const Table *table); /* the titles */
void table_row(const Table *table, const TableCell *cells);
void table_heading(FILE *file, bool markdown, const char *text); /* of a section */

#endif
