/* Shows the lines of a record as tables. */
#include "lab/harness.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/sizes.h"

/* ---- tables of a record --------------------------------------------------------------------- */

LabCeiling lab_ceiling(const Record *record, const char *topic) {
  const json_t *m = record_first(record, "lab-machine"),
               *t = record_find(record, "lab-topic", "topic", topic);
  const LabCeiling all[] = {
      {"copy to the GPU, pinned", "GB/s", number_of(m, "link_gb_per_s")},
      {"copy on the GPU, read + write", "GB/s", number_of(m, "copy_gb_per_s")},
      {"float32 multiply-adds alone", "GFLOP/s", number_of(m, "fma_gflop_per_s")}};
  return all[number_of(t, "on_host") > 0 ? 0 : text_is(t, "unit", "GB/s") ? 1 : 2];
}

LabLadder lab_ladder_open(const Record *record, const char *topic, const char *problem) {
  LabLadder l = {.record = record,
                 .machine = record_first(record, "lab-machine"),
                 .topic = record_find(record, "lab-topic", "topic", topic),
                 .table = record_find(record, "lab-problem", "topic", topic, "problem", problem),
                 .problem = problem,
                 .ceiling = lab_ceiling(record, topic),
                 .rows = lines_open(record),
                 .others = lines_open(record),
                 .all_others = lines_open(record)};
  foreach_of (line, record, "lab", "topic", topic, "problem", problem) {
    const char *size = text_of(line, "size"), *reason = text_of(line, "reason");
    const bool of_ladder = !l.size || strcmp(size, l.size) == 0;
    if (!l.size) l.size = size;
    if (of_ladder && *reason) l.reason = reason;
    if (!*reason) lines_add(of_ladder ? &l.rows : &l.others, line);
    if (!of_ladder) lines_add(&l.all_others, line);
  }
  return l;
}

void lab_ladder_close(LabLadder *ladder) {
  free(ladder->rows.of);
  free(ladder->others.of);
  free(ladder->all_others.of);
}

/* ---- columns -------------------------------------------------------------------------------- */

static ShortText number_cell(const TableCell *at) {
  int number;
  lab_rung(at->record, at->row, &number);
  return text_format("%d", number);
}

static ShortText occupancy(const TableCell *at) {
  const double blocks = number_of(at->row, "blocks_per_sm");
  return blocks > 0 ? text_format("%.0f %s", blocks, text_of(at->row, "limit")) : text_format("-");
}

/* The tables, as bits: the ladder where a GPU has timed it or the emulator has counted, and the
   table of the other sizes. */
enum { TIMED = 1, COUNTED = 2, OTHERS = 4, LADDER = TIMED | COUNTED };

/* The ladder's columns are left out where neither the topic nor a row has the key, with that text
   unless it is NULL. */
static const struct {
  TableColumn column; /* title NULL: the topic's sizes, or the ceiling's unit */
  const char *key, *text;
} columns[] = {
    {.column = {"#", .cell = number_cell, .in = LADDER}},
    {.column = {NULL, .left = true, .key = "size", .in = OTHERS}},
    {.column = {"rung", .left = true, .key = "rung"}},
    {.column = {"point", .key = "point", .format = "%.0f", .in = LADDER}, .key = "point"},
    {.column = {"ms", .key = "ms", .small = "%.5f", .in = TIMED | OTHERS}},
    {.column = {NULL, .key = "gb_per_s", .in = TIMED | OTHERS}},
    {.column = {"% ceiling", .key = "percent_of_ceiling", .format = "%.1f", .in = TIMED | OTHERS}},
    {.column = {"x first", .key = "times_first", .in = TIMED}},
    {.column = {"x library", .key = "times_library", .in = TIMED | OTHERS},
     .key = "kind",
     .text = "library"},
    {.column = {"blocks/SM", .left = true, .cell = occupancy, .in = TIMED}},
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
    {.column = {"measured", .key = "measured", .in = TIMED}, .key = "measured_name"},
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

static bool is_counted(const LabLadder *l) {
  return json_object_get(l->machine, "counted") != NULL;
}

static void print_table(const LabLadder *l, bool others, FILE *file, bool markdown) {
  const Table table = {.file = file,
                       .markdown = markdown,
                       .record = l->record,
                       .which = others          ? OTHERS
                                : is_counted(l) ? COUNTED
                                                : TIMED};
  TableColumn shown[COLUMNS];
  int count = 0;
  for (int i = 0; i < COLUMNS; i++) {
    TableColumn *column = &shown[count];
    if (!others && columns[i].key && !has(l, columns[i].key, columns[i].text)) continue;
    *column = columns[i].column;
    count++;
    if (column->title) continue;
    column->title = column->in == OTHERS ? text_of(l->topic, "dims") : l->ceiling.unit;
    if (strcmp(column->title, "GFLOP/s") == 0) column->key = "gflop_per_s";
  }
  table_print(&table, shown, count, others ? &l->others : &l->rows);
}

/* ---- around the tables ---------------------------------------------------------------------- */

enum { WIDTH = 100 };

/* Says why a table is missing, and explains the words in its check column. An empty line comes
   before the first note of each table. */
static void print_notes(const Lines *rows, FILE *file, bool markdown) {
  const char *size = "";
  foreach_line (row, rows) {
    const char *note = text_of(*row, "note"), *reason = text_of(*row, "reason");
    const double point = number_of(*row, "point");
    if (*reason) fprintf(file, "\n%s.\n", reason);
    if (!*note) continue;
    if (!text_is(*row, "size", size)) putc('\n', file);
    size = text_of(*row, "size");
    fprintf(file, "%s%s, %s", markdown ? "- " : "", text_of(*row, "check"), text_of(*row, "rung"));
    if (isfinite(point)) fprintf(file, " at %.0f", point);
    fprintf(file, ": %s.\n", note);
  }
}

/* A sentence for each rung of the table, under the rung's number. */
static void print_lessons(const LabLadder *l, FILE *file, bool markdown) {
  const char *bold = markdown ? "**" : "";
  int last = 0, number;
  putc('\n', file);
  foreach_line (row, &l->rows) {
    const json_t *rung = lab_rung(l->record, *row, &number);
    if (number == last) continue;
    last = number;
    const char *kind = text_is(rung, "kind", "rung") ? "" : text_of(rung, "kind");
    const ShortText text = text_format("%s%s%s%s%s: %s.", bold, text_of(rung, "rung"), bold,
                                       *kind ? ", " : "", kind, text_of(rung, "lesson"));
    fprintf(file, markdown ? "%d. " : "%2d  ", number);
    text_print_wrapped(file, text.text, 4, 4, markdown ? INT_MAX : WIDTH);
  }
}

/* "reduce, int32" */
static ShortText name_of(const LabLadder *l) {
  return text_format("%s%s%s", text_of(l->topic, "topic"), *l->problem ? ", " : "", l->problem);
}

static void print_head(const LabLadder *l, FILE *file, bool markdown) {
  static const char *const named[][2] = {
      {"Point", "point_name"}, {"Predicted", "predicted_name"}, {"Measured", "measured_name"}};
  const LabCeiling *ceiling = &l->ceiling;
  const ShortText title = text_format("%s: %s", name_of(l).text, text_of(l->topic, "title"));
  table_heading(file, markdown, title.text);
  fprintf(file, "%s (%s) on %s; at least %.4g MB moved, %.4g MFLOP.\n", l->size,
          text_of(l->topic, "dims"), text_of(l->machine, "gpu"), number_of(l->table, "bytes") / 1e6,
          number_of(l->table, "operations") / 1e6);
  if (is_counted(l))
    fputs("MB: global memory, each byte once in a launch. sectors: of 32 bytes, and how many a "
          "request "
          "of a\nwarp has. turns: of the banks of shared memory. x least: times what would do.\n",
          file);
  if (isfinite(ceiling->value))
    fprintf(file, "Ceiling: %.0f %s, measured: %s.\n", ceiling->value, ceiling->unit,
            ceiling->name);
  for (int i = 0; i < 3; i++)
    if (json_object_get(l->topic, named[i][1]) && (i > 0 || has(l, "point", NULL)))
      fprintf(file, "%s: %s.\n", named[i][0], text_of(l->topic, named[i][1]));
  putc('\n', file);
}

void lab_print(const Record *record, const char *topic, const char *problem, FILE *file,
               bool markdown) {
  LabLadder l = lab_ladder_open(record, topic, problem);
  if (l.reason) {
    table_heading(file, markdown, name_of(&l).text);
    fprintf(file, "%s.\n", l.reason);
  } else if (l.size) {
    print_head(&l, file, markdown);
    print_table(&l, false, file, markdown);
    print_notes(&l.rows, file, markdown);
    print_lessons(&l, file, markdown);
  }
  if (l.all_others.count > 0) {
    fputs("\nOther sizes:\n\n", file);
    print_table(&l, true, file, markdown);
    print_notes(&l.all_others, file, markdown);
  }
  lab_ladder_close(&l);
}

void lab_print_machine(const Record *record, FILE *file, bool markdown) {
  const json_t *m = record_first(record, "lab-machine");
  const char *gpu = text_of(m, "gpu"), *driver = text_of(m, "driver");
  if (!markdown) {
    fprintf(file, "%s, driver %s\n", gpu, driver);
    return;
  }
  fprintf(file, "# The kernel lab on %s\n\n- %s, driver %s; %s\n- command `%s`\n", gpu, gpu, driver,
          text_of(m, "date"), text_of(m, "command"));
  if (*text_of(m, "sources")) fprintf(file, "- sources `%s`\n", text_of(m, "sources"));
  if (!isfinite(number_of(m, "copy_gb_per_s"))) return;
  fprintf(file,
          "- measured in this run: copy on the GPU %.0f GB/s, read + write; copy to the GPU, "
          "pinned %.1f GB/s;\n  float32 multiply-adds %.1f TFLOP/s\n",
          number_of(m, "copy_gb_per_s"), number_of(m, "link_gb_per_s"),
          number_of(m, "fma_gflop_per_s") / 1e3);
  fputs(
      "\nMedians after a warm-up, timed by the GPU (transfers by the host), on inputs that do not "
      "fit the\ncache. % ceiling: of the ceiling measured above. x first, x library: how many "
      "times faster than\nthe first rung and than the library. blocks/SM: how many blocks a "
      "multiprocessor holds at once, and\nwhat limits them. check: against a float64 or integer "
      "reference; caught: an intended mistake that\nthe check found.\n",
      file);
}
