/* Shows the lines of a record as tables. */
#include "lab/harness.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/sizes.h"

/* The tables, as bits: timed by a GPU, counted by the emulator, of other sizes. */
enum { TIMED = 1, COUNTED = 2, OTHERS = 4, LADDER = TIMED | COUNTED };

/* A column is left out if neither the topic nor a row has its key (and the text, unless NULL). */
static const struct {
  TableColumn column; /* title NULL: the topic's sizes, or its unit */
  const char *key, *text;
} columns[] = {
    {.column = {"#", .key = "number", .format = "%.0f", .in = LADDER}},
    {.column = {NULL, .left = true, .key = "size", .in = OTHERS}},
    {.column = {"rung", .left = true, .key = "rung"}},
    {.column = {"point", .key = "point", .format = "%.0f", .in = LADDER}, .key = "point"},
    {.column = {"ms", .key = "ms", .small = "%.5f", .in = TIMED | OTHERS}},
    {.column = {NULL, .key = "rate", .in = TIMED | OTHERS}},
    {.column = {"% ceiling", .key = "percent", .format = "%.1f", .in = TIMED | OTHERS}},
    {.column = {"x first", .key = "times_first", .in = TIMED}},
    {.column = {"x library", .key = "times_library", .in = TIMED | OTHERS},
     .key = "kind",
     .text = "library"},
    {.column = {"blocks/SM", .key = "blocks_per_sm", .format = "%.0f", .in = TIMED}},
    {.column = {"regs", .key = "registers", .format = "%.0f", .in = TIMED}},
    {.column = {"local", .key = "local_bytes", .format = "%.0f", .in = TIMED},
     .key = "local_bytes"},
    {.column = {"MB", .key = "moved_mb", .in = COUNTED}},
    {.column = {"x least", .key = "times_least", .format = "%.2f", .in = COUNTED}},
    {.column = {"sectors", .key = "sectors", .format = "%.0f", .in = COUNTED}},
    {.column = {"a request", .key = "sectors_per_request", .format = "%.2f", .in = COUNTED}},
    {.column = {"turns", .key = "turns", .format = "%.0f", .in = COUNTED}},
    {.column = {"x least", .key = "turns_times_least", .format = "%.2f", .in = COUNTED}},
    {.column = {"predicted", .key = "predicted", .in = LADDER}, .key = "predicted_name"},
    {.column = {"counted", .key = "counted", .in = COUNTED}, .key = "counted"},
    {.column = {"ulp", .key = "ulp", .in = LADDER}, .key = "shows_ulp"},
    {.column = {"check", .left = true, .key = "check"}},
};
enum { COLUMNS = LENGTH(columns) };

static bool has(const LabLadder *l, const char *key, const char *text) {
  bool found = json_object_get(l->topic, key);
  foreach_line (row, &l->rows)
    found |= text ? text_is(*row, key, text) : json_object_get(*row, key) != NULL;
  return found;
}

static void print_table(const LabLadder *l, bool others, FILE *file, bool markdown) {
  const unsigned which = others ? OTHERS : has(l, "sectors", NULL) ? COUNTED : TIMED;
  const Table table = {.file = file, .markdown = markdown, .which = which};
  TableColumn shown[COLUMNS];
  int count = 0;
  for (int i = 0; i < COLUMNS; i++) {
    TableColumn *column = &shown[count];
    if (!others && columns[i].key && !has(l, columns[i].key, columns[i].text)) continue;
    *column = columns[i].column;
    count++;
    if (!column->title) column->title = text_of(l->topic, column->in == OTHERS ? "dims" : "unit");
  }
  table_print(&table, shown, count, others ? &l->others : &l->rows);
}

enum { WIDTH = 100 };

/* Explains the words in the check column. */
static void print_notes(const Lines *rows, FILE *file, bool markdown) {
  bool any = false;
  foreach_line (row, rows) {
    if (!*text_of(*row, "note")) continue;
    if (!any) putc('\n', file);
    any = true;
    fprintf(file, "%s%s, %s", markdown ? "- " : "", text_of(*row, "check"), text_of(*row, "rung"));
    if (isfinite(number_of(*row, "point"))) fprintf(file, " at %.0f", number_of(*row, "point"));
    fprintf(file, ": %s.\n", text_of(*row, "note"));
  }
}

/* Returns true if an earlier ladder of the topic, of another problem, has the rung. */
static bool shown_before(const LabLadder *l, const char *rung) {
  foreach_of (table, l->record, "table", "topic", text_of(l->topic, "topic")) {
    if (table == l->table) return false;
    foreach_in (row, json_object_get(table, "rows"))
      if (text_is(row, "rung", rung)) return true;
  }
  return false;
}

/* Prints a sentence for each rung of the table, under the rung's number, but once in a topic. */
static void print_lessons(const LabLadder *l, FILE *file, bool markdown) {
  const char *bold = markdown ? "**" : "";
  double last = 0;
  bool any = false;
  foreach_line (row, &l->rows) {
    const double number = number_of(*row, "number");
    if (number == last || shown_before(l, text_of(*row, "rung"))) continue;
    last = number;
    if (!any) putc('\n', file);
    any = true;
    const char *kind = text_is(*row, "kind", "rung") ? "" : text_of(*row, "kind");
    const ShortText text = text_format("%s%s%s%s%s: %s.", bold, text_of(*row, "rung"), bold,
                                       *kind ? ", " : "", kind, text_of(*row, "lesson"));
    fprintf(file, markdown ? "%.0f. " : "%2.0f  ", number);
    text_print_wrapped(file, text.text, 4, 4, markdown ? INT_MAX : WIDTH);
  }
}

static void print_head(const LabLadder *l, FILE *file, bool markdown) {
  const char *topic = text_of(l->topic, "topic"), *title = text_of(l->topic, "title");
  table_heading(file, markdown,
                text_format("%s%s%s: %s", topic, *l->problem ? ", " : "", l->problem, title).text);
  fprintf(file, "%s (%s) on %s; at least %.4g MB moved, %.4g MFLOP.\n", text_of(l->table, "size"),
          text_of(l->topic, "dims"), text_of(record_first(l->record, "machine"), "device"),
          number_of(l->table, "bytes") / 1e6, number_of(l->table, "operations") / 1e6);
  if (has(l, "sectors", NULL))
    fputs("MB: global memory, each byte once in a launch. sectors: of 32 bytes, and how many a "
          "request\nof a warp has. turns: of the banks of shared memory. x least: times what would "
          "do.\n",
          file);
  if (l->ceiling)
    fprintf(file, "Ceiling: %.0f %s, measured: %s.\n", number_of(l->ceiling, "value"),
            text_of(l->ceiling, "unit"), text_of(l->ceiling, "name"));
  if (has(l, "point", NULL)) fprintf(file, "Point: %s.\n", text_of(l->topic, "point_name"));
  if (json_object_get(l->topic, "predicted_name"))
    fprintf(file, "Predicted: %s.\n", text_of(l->topic, "predicted_name"));
  putc('\n', file);
}

void lab_print(const Record *record, const char *topic, const char *problem, FILE *file,
               bool markdown) {
  LabLadder l = lab_ladder_open(record, topic, problem);
  if (l.rows.count > 0) {
    print_head(&l, file, markdown);
    print_table(&l, false, file, markdown);
    print_notes(&l.rows, file, markdown);
    print_lessons(&l, file, markdown);
  }
  if (l.others.count > 0) {
    fputs("\nOther sizes:\n\n", file);
    print_table(&l, true, file, markdown);
    print_notes(&l.others, file, markdown);
  }
  foreach_of (table, record, "table", "topic", topic, "problem", problem)
    if (*text_of(table, "reason")) fprintf(file, "\n%s.\n", text_of(table, "reason"));
  lab_ladder_close(&l);
}
