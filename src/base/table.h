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

/* Formats a cell; what does not fit is cut. */
TableCell table_cell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Formats a number with three digits or more; "-" if it is not finite. */
TableCell table_number(double value);

void table_begin(const Table *table); /* writes the titles of the columns */
void table_row(const Table *table, const TableCell *cells);
void table_heading(FILE *file, bool markdown, const char *text); /* writes a section's title */

#endif
