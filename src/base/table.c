#include "base/table.h"

#include <math.h>
#include <stdarg.h>

TableCell table_cell(const char *format, ...) {
  TableCell c;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c.text, sizeof c.text, format, arguments);
  va_end(arguments);
  return c;
}

TableCell table_number(double value) {
  if (!isfinite(value)) return table_cell("-");
  const double size = fabs(value);
  return table_cell("%.*f", size < 0.0995 ? 4 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0, value);
}

/* Writes text i of a row as wide as its column; a plain line ends without blanks. */
static void put_text(const Table *t, int i, const char *text) {
  int width = t->columns[i].left ? -t->columns[i].width : t->columns[i].width;
  if (!t->markdown && width < 0 && i == t->count - 1) width = 0;
  fprintf(t->file, "%s%*s", t->markdown ? (i ? " | " : "| ") : (i ? "  " : ""), width, text);
}

static void end_row(const Table *t) {
  fputs(t->markdown ? " |\n" : "\n", t->file);
}

void table_row(const Table *table, const TableCell *cells) {
  for (int i = 0; i < table->count; i++) put_text(table, i, cells[i].text);
  end_row(table);
}

void table_begin(const Table *table) {
  for (int i = 0; i < table->count; i++) put_text(table, i, table->columns[i].title);
  end_row(table);
  for (int i = 0; table->markdown && i < table->count; i++)
    fputs(table->columns[i].left ? "| :--- " : "| ---: ", table->file);
  if (table->markdown) fputs("|\n", table->file);
}

void table_heading(FILE *file, bool markdown, const char *text) {
  fprintf(file, markdown ? "\n## %s\n\n" : "\n%s\n\n", text);
}
