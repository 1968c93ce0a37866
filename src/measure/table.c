#include "measure/table.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

void table_heading(FILE *file, bool markdown, const char *text) {
  fprintf(file, markdown ? "\n## %s\n\n" : "\n%s\n\n", text);
}

static TableCell cell_of(const Table *t, const TableColumn *c, const json_t *row) {
  if (c->cell) return c->cell(c, row, t->context);
  const char *text = json_string_value(json_object_get(row, c->key));
  if (text || c->left) return table_cell("%s", text ? text : "");
  const double value = number_of(row, c->key) / (c->per != 0 ? c->per : 1);
  if (c->digits == THREE_DIGITS || !isfinite(value)) return table_number(value);
  return table_cell("%s%.*f%s", c->before ? c->before : "", (int)c->digits - WHOLE, value,
                    c->after ? c->after : "");
}

static int width_of(const Table *t, const TableColumn *column, const Lines *rows) {
  int width = (int)strlen(column->title);
  for (int r = 0; r < rows->count; r++) {
    const int length = (int)strlen(cell_of(t, column, rows->of[r]).text);
    if (length > width) width = length;
  }
  return width;
}

enum { MAX_COLUMNS = 32 };

/* row NULL: the titles. No blanks stand at the end of a plain line. */
static void put_row(const Table *t, const TableColumn *columns, const int *widths, int count,
                    const json_t *row) {
  for (int i = 0; i < count; i++) {
    const TableColumn *c = &columns[i];
    const int width = !c->left ? widths[i] : !t->markdown && i == count - 1 ? 0 : -widths[i];
    const TableCell cell = row ? cell_of(t, c, row) : table_cell("%s", c->title);
    fprintf(t->file, "%s%*s", t->markdown ? (i ? " | " : "| ") : (i ? "  " : ""), width, cell.text);
  }
  fputs(t->markdown ? " |\n" : "\n", t->file);
}

void table_print(const Table *table, const TableColumn *columns, int count, const Lines *rows) {
  const Table *t = table;
  int widths[MAX_COLUMNS] = {0};
  for (int i = 0; i < count; i++)
    widths[i] = columns[i].width ? columns[i].width : width_of(t, &columns[i], rows);
  put_row(t, columns, widths, count, NULL);
  for (int i = 0; t->markdown && i < count; i++)
    fputs(columns[i].left ? "| :--- " : "| ---: ", t->file);
  if (t->markdown) fputs("|\n", t->file);
  for (int r = 0; r < rows->count; r++) {
    if (t->group && !t->markdown && r &&
        number_of(rows->of[r], t->group) != number_of(rows->of[r - 1], t->group))
      putc('\n', t->file);
    put_row(t, columns, widths, count, rows->of[r]);
  }
}
