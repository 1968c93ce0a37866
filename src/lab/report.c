/* Shows the lines of a record as tables. */
#include "lab/harness.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"

/* The results of one problem of a topic: the ladder and, as `others`, results at other sizes. */
typedef struct {
  const Record *record;
  const json_t *topic, *table; /* `table` is the ladder's table, or NULL */
  const char *problem;
  Lines rows, others; /* the ladder's rows; rows of other sizes */
} Ladder;

/* Bits of TableColumn.in: the ladder, a ladder that shows ulp, the table of other sizes. */
enum { LADDER = 1, ULP = 2, OTHERS = 4 };

static const TableColumn columns[] = {
    /* A title of NULL stands for the topic's dimensions or unit. */
    {"#", .key = "number", .format = "%.0f", .in = LADDER},
    {NULL, .left = true, .key = "size", .in = OTHERS},
    {"rung", .left = true, .key = "rung"},
    {"point", .key = "point", .format = "%.0f", .in = LADDER},
    {"ms", .key = "ms", .small = "%.5f"},
    {NULL, .key = "rate"},
    {"% ceiling", .key = "percent", .format = "%.1f"},
    {"% theory", .key = "percent_theory", .format = "%.1f"},
    {"x first", .key = "times_first", .in = LADDER},
    {"x library", .key = "times_library"},
    {"op/byte", .key = "intensity"},
    {"ms bytes", .key = "ms_bytes", .small = "%.5f"},
    {"ms op", .key = "ms_operations", .small = "%.5f"},
    {"blocks/SM", .key = "blocks_per_sm", .format = "%.0f", .in = LADDER},
    {"% warps", .key = "occupancy", .format = "%.0f", .in = LADDER},
    {"limit", .left = true, .key = "limit", .in = LADDER},
    {"regs", .key = "registers", .format = "%.0f", .in = LADDER},
    {"local", .key = "local_bytes", .format = "%.0f", .in = LADDER},
    {"MB", .key = "moved_mb"},
    {"x least", .key = "times_least", .format = "%.2f"},
    {"sectors", .key = "sectors", .format = "%.0f"},
    {"a request", .key = "sectors_per_request", .format = "%.2f"},
    {"turns", .key = "turns", .format = "%.0f"},
    {"x least", .key = "turns_times_least", .format = "%.2f"},
    {"predicted", .key = "predicted", .in = LADDER},
    {"counted", .key = "counted"},
    {"ulp", .key = "ulp", .in = ULP},
    {"check", .left = true, .key = "check"},
};
enum { COLUMNS = LENGTH(columns) };

static bool has(const Ladder *l, const char *key) {
  bool found = false;
  foreach_line (row, &l->rows) found |= json_object_get(*row, key) != NULL;
  return found;
}

static void print_table(const Ladder *l, bool others, bool markdown) {
  const unsigned ulp = json_object_get(l->topic, "shows_ulp") ? ULP : 0;
  const Table table = {
      .file = stdout, .markdown = markdown, .which = others ? OTHERS : LADDER | ulp};
  TableColumn titled[COLUMNS];
  memcpy(titled, columns, sizeof columns);
  for (TableColumn *c = titled; c < titled + COLUMNS; c++)
    if (!c->title) c->title = text_of(l->topic, c->in == OTHERS ? "dims" : "unit");
  table_print(&table, titled, COLUMNS, others ? &l->others : &l->rows);
}

enum { WIDTH = 100 };

/* Prints the rows' notes, which explain the words in the column "check". */
static void print_notes(const Lines *rows, bool markdown) {
  bool any = false;
  foreach_line (row, rows) {
    if (!*text_of(*row, "note")) continue;
    if (!any) putchar('\n');
    any = true;
    printf("%s%s, %s", markdown ? "- " : "", text_of(*row, "check"), text_of(*row, "rung"));
    if (isfinite(number_of(*row, "point"))) printf(" at %.0f", number_of(*row, "point"));
    printf(": %s.\n", text_of(*row, "note"));
  }
}

/* Prints why counted and predicted quantities differ, once for each rung. */
static void print_differences(const Lines *rows, bool markdown) {
  const char *last = "";
  foreach_line (row, rows) {
    if (!*text_of(*row, "differs") || text_is(*row, "rung", last)) continue;
    if (!*last) putchar('\n');
    last = text_of(*row, "rung");
    const ShortText at = isfinite(number_of(*row, "point"))
                             ? text_format(" at %.0f", number_of(*row, "point"))
                             : (ShortText){""};
    const ShortText text =
        text_format("%s%s%s, counted %s, predicted %s: %s.", markdown ? "- " : "", last, at.text,
                    text_of_number(number_of(*row, "counted")).text,
                    text_of_number(number_of(*row, "predicted")).text, text_of(*row, "differs"));
    text_print_wrapped(stdout, text.text, 0, 0, markdown ? INT_MAX : WIDTH);
  }
}

/* Returns true if an earlier ladder of the topic has the rung. */
static bool shown_before(const Ladder *l, const char *rung) {
  foreach_of (table, l->record, "table", "topic", text_of(l->topic, "topic")) {
    if (table == l->table) return false;
    foreach_in (row, json_object_get(table, "rows"))
      if (text_is(row, "rung", rung)) return true;
  }
  return false;
}

/* Prints the number and the lesson of each rung that no earlier ladder of the topic has. */
static void print_lessons(const Ladder *l, bool markdown) {
  const char *bold = markdown ? "**" : "";
  double last = 0;
  bool any = false;
  foreach_line (row, &l->rows) {
    const double number = number_of(*row, "number");
    if (number == last || shown_before(l, text_of(*row, "rung"))) continue;
    last = number;
    if (!any) putchar('\n');
    any = true;
    const char *kind = text_is(*row, "kind", "rung") ? "" : text_of(*row, "kind");
    const ShortText text = text_format("%s%s%s%s%s: %s.", bold, text_of(*row, "rung"), bold,
                                       *kind ? ", " : "", kind, text_of(*row, "lesson"));
    printf(markdown ? "%.0f. " : "%2.0f  ", number);
    text_print_wrapped(stdout, text.text, 4, 4, markdown ? INT_MAX : WIDTH);
  }
}

static void print_head(const Ladder *l, bool markdown) {
  const char *topic = text_of(l->topic, "topic"), *title = text_of(l->topic, "title");
  table_heading(stdout, markdown,
                text_format("%s%s%s: %s", topic, *l->problem ? ", " : "", l->problem, title).text);
  printf("%s (%s) on %s; at least %.4g MB moved, %.4g MFLOP.\n", text_of(l->table, "size"),
         text_of(l->topic, "dims"), text_of(record_first(l->record, "machine"), "device"),
         number_of(l->table, "bytes") / 1e6, number_of(l->table, "operations") / 1e6);
  if (has(l, "sectors"))
    fputs("MB: global memory, each byte once in a launch. sectors: of 32 bytes, and how many a "
          "request\nof a warp has. turns: of the banks of shared memory. x least: times what would "
          "do.\n",
          stdout);
  const json_t *ceiling = lab_ceiling(l->record, l->topic);
  if (ceiling)
    printf("Ceiling: %.0f %s, measured: %s.\n", number_of(ceiling, "value"),
           text_of(ceiling, "unit"), text_of(ceiling, "name"));
  if (has(l, "point")) printf("Point: %s.\n", text_of(l->topic, "point_name"));
  if (json_object_get(l->topic, "predicted_name"))
    printf("Predicted: %s.\n", text_of(l->topic, "predicted_name"));
  putchar('\n');
}

void lab_print(const Record *record, const char *topic, const char *problem, bool markdown) {
  Ladder l = {.record = record, .topic = lab_topic_line(record, topic), .problem = problem};
  foreach_of (table, record, "table", "topic", topic, "problem", problem) {
    foreach_in (row, json_object_get(table, "rows")) lines_add(l.table ? &l.others : &l.rows, row);
    if (!l.table) l.table = table;
  }
  if (l.rows.count > 0) {
    print_head(&l, markdown);
    print_table(&l, false, markdown);
    print_notes(&l.rows, markdown);
    print_differences(&l.rows, markdown);
    print_lessons(&l, markdown);
  }
  if (l.others.count > 0) {
    puts("\nOther sizes:\n");
    print_table(&l, true, markdown);
    print_notes(&l.others, markdown);
  }
  foreach_of (table, record, "table", "topic", topic, "problem", problem)
    if (*text_of(table, "reason")) printf("\n%s.\n", text_of(table, "reason"));
  free(l.rows.of);
  free(l.others.of);
}

void lab_print_device(const Record *record, bool markdown) {
  static const TableColumn properties[] = {{"property", .left = true, .key = "name"},
                                           {"value", .key = "value", .format = "%.0f"},
                                           {"unit", .left = true, .key = "unit"}};
  static const TableColumn limits[] = {{"limit", .left = true, .key = "name"},
                                       {"theory", .key = "theory"},
                                       {"measured", .key = "value"},
                                       {"unit", .left = true, .key = "unit"},
                                       {"% theory", .key = "percent", .format = "%.1f"}};
  const Table table = {.file = stdout, .markdown = markdown};
  Lines shown = {NULL, 0};
  json_t *rows = json_array();
  foreach_of (line, record, "device", NULL) lines_add(&shown, line);
  if (shown.count > 0) {
    putchar('\n');
    table_print(&table, properties, LENGTH(properties), &shown);
  }
  free(shown.of);
  shown = (Lines){NULL, 0};
  foreach_of (line, record, "ceiling", NULL) {
    const json_t *theory = record_find(record, "theory", "name", text_of(line, "name"));
    json_t *row = json_copy((json_t *)line);
    record_number(row, "theory", number_of(theory, "value"));
    record_number(row, "percent", 100 * number_of(line, "value") / number_of(theory, "value"));
    json_array_append_new(rows, row);
    lines_add(&shown, row);
  }
  putchar('\n');
  table_print(&table, limits, LENGTH(limits), &shown);
  free(shown.of);
  json_decref(rows);
}

/* Prints why a level was not run or is wrong. */
static void print_remark(const json_t *level, const char *what, const char *why, bool markdown) {
  const ShortText text =
      text_format("%s%s %s: %s.", markdown ? "- " : "", text_of(level, "fusion"), what, why);
  if (*why) text_print_wrapped(stdout, text.text, 0, 0, markdown ? INT_MAX : WIDTH);
}

static void print_kernels(const json_t *level, const Table *table) {
  static const TableColumn of_kernels[] = {
      {"kernel", .left = true, .key = "kernel"},
      {"launches", .key = "launches", .format = "%.0f"},
      {"MB", .key = "moved_mb", .format = "%.3f"},
      {"% of MB", .key = "percent", .format = "%.1f"},
      {"MB asked", .key = "asked_mb", .format = "%.3f"},
      {"a request", .key = "sectors_per_request", .format = "%.2f"},
      {"turns", .key = "turns", .format = "%.0f"}};
  Lines rows = {NULL, 0};
  foreach_in (row, json_object_get(level, "rows")) lines_add(&rows, row);
  if (rows.count > 0) {
    table_heading(table->file, table->markdown,
                  text_format("level %s", text_of(level, "fusion")).text);
    table_print(table, of_kernels, LENGTH(of_kernels), &rows);
  }
  free(rows.of);
}

void lab_print_levels(const Record *record, bool markdown) {
  static const TableColumn of_levels[] = {
      {"level", .left = true, .key = "fusion"},
      {"launches", .key = "launches", .format = "%.0f"},
      {"MB", .key = "moved_mb", .format = "%.2f"},
      {"MB asked", .key = "asked_mb", .format = "%.2f"},
      {"x MB", .key = "times_moved", .format = "%.2f"},
      {"a request", .key = "sectors_per_request", .format = "%.2f"},
      {"turns", .key = "turns", .format = "%.0f"},
      {"check", .left = true, .key = "check"}};
  const Table table = {.file = stdout, .markdown = markdown};
  const json_t *first = record_first(record, "level");
  Lines rows = {NULL, 0};
  foreach_of (line, record, "level", NULL)
    if (!*text_of(line, "reason")) lines_add(&rows, line);
  if (!first) return;
  table_heading(stdout, markdown,
                text_format("levels: one training step of %s at batch %.0f",
                            text_of(first, "network"), number_of(first, "batch"))
                    .text);
  fputs(
      "MB: global memory, each byte once in a launch. MB asked: the sectors of 32 bytes that warps "
      "ask\nfor, and how many a request has. turns: of the banks of shared memory.\n\n",
      stdout);
  table_print(&table, of_levels, LENGTH(of_levels), &rows);
  free(rows.of);
  putchar('\n');
  foreach_of (line, record, "level", NULL) {
    print_remark(line, "was not run", text_of(line, "reason"), markdown);
    print_remark(line, "is " LAB_WRONG, text_of(line, "note"), markdown);
  }
  foreach_of (line, record, "level", NULL) print_kernels(line, &table);
}
