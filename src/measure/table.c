#include "measure/table.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"

void table_heading(FILE *file, bool markdown, const char *text) {
  fprintf(file, markdown ? "\n## %s\n\n" : "\n%s\n\n", text);
}

static ShortText cell_of(const Table *t, const TableColumn *c, const json_t *row) {
  if (c->cell) return c->cell(&(TableCell){c, row, t->record});
  const char *text = json_string_value(json_object_get(row, c->key));
  if (text || c->left) return text_format("%s", text ? text : "");
  const double value = number_of(row, c->key) / (c->per != 0 ? c->per : 1);
  const char *format = c->small && value < 0.0995 ? c->small : c->format;
  return format && isfinite(value) ? text_format(format, value) : text_of_number(value);
}

enum { MAX_COLUMNS = 32 };

/* Prints a row, or the titles if it is NULL. No blanks stand at the end of a plain line. */
static void put_row(const Table *t, const TableColumn *columns, int count, const json_t *row) {
  for (int i = 0; i < count; i++) {
    const TableColumn *c = &columns[i];
    const int width = !c->left ? c->width : !t->markdown && i == count - 1 ? 0 : -c->width;
    const ShortText cell = row ? cell_of(t, c, row) : text_format("%s", c->title);
    fprintf(t->file, "%s%*s", t->markdown ? (i ? " | " : "| ") : (i ? "  " : ""), width, cell.text);
  }
  fputs(t->markdown ? " |\n" : "\n", t->file);
}

/* Returns true if the rows differ in a key of the group. */
static bool is_break(const Table *t, const json_t *a, const json_t *b) {
  for (const char *const *key = t->group; key && *key; key++)
    if (!line_same(a, b, *key)) return true;
  return false;
}

/* Adds the column to those that are shown, as wide as its widest text unless it has a width. */
static void show(const Table *t, TableColumn column, const Lines *rows, TableColumn *shown) {
  *shown = column;
  shown->in = t->which;
  for (int r = -1; !column.width && r < rows->count; r++)
    shown->width = max_int(shown->width,
                           (int)strlen(r < 0 ? shown->title : cell_of(t, shown, rows->of[r]).text));
}

void table_print(const Table *t, const TableColumn *columns, int all, const Lines *rows) {
  TableColumn shown[MAX_COLUMNS] = {{0}};
  int count = 0;
  for (const TableColumn *c = columns; c < columns + all; c++)
    if (!c->in || c->in & t->which) show(t, *c, rows, &shown[count++]);
  put_row(t, shown, count, NULL);
  for (int i = 0; t->markdown && i < count; i++)
    fputs(shown[i].left ? "| :--- " : "| ---: ", t->file);
  if (t->markdown) fputs("|\n", t->file);
  for (int r = 0; r < rows->count; r++) {
    if (!t->markdown && r && is_break(t, rows->of[r], rows->of[r - 1])) putc('\n', t->file);
    put_row(t, shown, count, rows->of[r]);
  }
}
