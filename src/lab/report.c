/* Makes lines of measured tables, and shows the lines of a record as tables. */
#include "lab/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/table.h"

/* ---- lines ---------------------------------------------------------------------------------- */

LabCeiling lab_ceiling(const json_t *machine, const json_t *topic) {
  const bool bytes = text_is(topic, "unit", "GB/s");
  if (number_of(topic, "on_host") > 0)
    return (LabCeiling){"copy to the GPU, pinned", "GB/s", number_of(machine, "link_gb_per_s")};
  if (bytes)
    return (LabCeiling){"copy on the GPU, read + write", "GB/s",
                        number_of(machine, "copy_gb_per_s")};
  return (LabCeiling){"float32 multiply-adds alone", "GFLOP/s",
                      number_of(machine, "fma_gflop_per_s")};
}

static void put_flag(json_t *line, const char *key, bool value) {
  if (value) json_object_set_new(line, key, json_true());
}

bool lab_add_topic(Record *record, const LabTopic *topic, Error *error) {
  json_t *line = record_line("lab-topic");
  record_text(line, "topic", topic->name);
  record_text(line, "title", topic->title);
  record_text(line, "dims", topic->dims);
  record_text(line, "unit", topic->unit == LAB_GB_PER_S ? "GB/s" : "GFLOP/s");
  put_flag(line, "on_host", topic->on_host);
  put_flag(line, "shows_ulp", topic->shows_ulp);
  record_text(line, "predicted_name", topic->predicted_name);
  record_text(line, "measured_name", topic->measured_name);
  record_text(line, "point_name", topic->point_name);
  bool good = record_add(record, line, false, error);
  for (int i = 0; good && i < topic->rung_count; i++) {
    const LabRung *rung = &topic->rungs[i];
    line = record_line("lab-rung");
    record_text(line, "topic", topic->name);
    record_text(line, "rung", rung->name);
    record_text(line, "kind", lab_kinds[rung->kind]);
    record_text(line, "lesson", rung->lesson);
    put_flag(line, "sweep", rung->points != NULL);
    good = record_add(record, line, false, error);
  }
  return good;
}

/* Returns the seconds of the first row of a kind, or of its fastest; NAN where none was timed. */
static double seconds_of(const LabTable *table, LabKind kind, bool best) {
  double found = NAN;
  for (int i = 0; i < table->count; i++) {
    const LabRow *row = &table->rows[i];
    if (row->rung->kind == kind && (best || isnan(found)))
      found = fmin(found, row->seconds.median); /* of a number and NAN, the number */
  }
  return found;
}

/* A line of a table. */
static json_t *line_of(const LabTable *table, const char *kind) {
  json_t *line = record_line(kind);
  record_text(line, "topic", table->topic->name);
  record_text(line, "problem", table->topic->problems[table->problem].name);
  record_text(line, "size", lab_size_text(table->topic, table->size).text);
  return line;
}

static json_t *line_of_row(const Record *record, const LabTable *table, const LabRow *row) {
  const bool bytes = table->topic->unit == LAB_GB_PER_S;
  const double seconds = row->seconds.median;
  const double rate = (bytes ? table->bytes : table->operations) / seconds / 1e9;
  const LabCeiling ceiling =
      lab_ceiling(record_first(record, "lab-machine"),
                  record_find(record, "lab-topic", "topic", table->topic->name));
  json_t *line = line_of(table, "lab");
  record_text(line, "rung", row->rung->name);
  record_text(line, "kind", lab_kinds[row->rung->kind]);
  if (row->rung->points) record_number(line, "point", (double)row->point);
  record_text(line, "check", lab_outcomes[row->outcome]);
  record_text(line, "note", *row->note ? row->note : NULL);
  record_number(line, "ms", 1e3 * seconds);
  record_number(line, "min_ms", 1e3 * row->seconds.low);
  record_number(line, "max_ms", 1e3 * row->seconds.high);
  if (row->samples) record_number(line, "samples", row->samples);
  record_number(line, bytes ? "gb_per_s" : "gflop_per_s", rate);
  record_number(line, "percent_of_ceiling", 100 * rate / ceiling.value);
  record_number(line, "times_first", seconds_of(table, LAB_RUNG, false) / seconds);
  record_number(line, "times_library", seconds_of(table, LAB_LIBRARY, true) / seconds);
  record_number(line, "predicted", row->predicted);
  record_number(line, "measured", row->measured);
  record_number(line, "ulp", row->ulp);
  if (row->occupancy.blocks == 0) return line;
  record_number(line, "blocks_per_sm", row->occupancy.blocks);
  record_text(line, "limit", row->occupancy.limit);
  record_number(line, "registers", row->occupancy.registers);
  record_number(line, "shared_bytes", (double)row->occupancy.shared);
  record_number(line, "threads", row->occupancy.threads);
  return line;
}

bool lab_add_table(Record *record, const LabTable *table, Error *error) {
  json_t *line = line_of(table, table->count ? "lab-problem" : "lab");
  if (table->count == 0) {
    record_text(line, "reason", table->reason);
    return record_add(record, line, true, error);
  }
  record_number(line, "bytes", table->bytes);
  record_number(line, "operations", table->operations);
  bool good = record_add(record, line, false, error);
  for (int i = 0; good && i < table->count; i++)
    good = record_add(record, line_of_row(record, table, &table->rows[i]), true, error);
  return good;
}

/* ---- tables of a record --------------------------------------------------------------------- */

LabLadder lab_ladder_open(const Record *record, const char *topic, const char *problem) {
  LabLadder l = {.machine = record_first(record, "lab-machine"),
                 .topic = record_find(record, "lab-topic", "topic", topic),
                 .problem = problem,
                 .rungs = lines_open(record),
                 .rows = lines_open(record),
                 .others = lines_open(record)};
  size_t i;
  const json_t *line;
  json_array_foreach(record->lines, i, line) {
    if (!text_is(line, "topic", topic)) continue;
    if (line_is(line, "lab-rung")) lines_add(&l.rungs, line);
    const bool is_table = line_is(line, "lab-problem"), is_row = line_is(line, "lab");
    if ((!is_table && !is_row) || !text_is(line, "problem", problem)) continue;
    if (!l.size) l.size = text_of(line, "size");
    const bool first = text_is(line, "size", l.size);
    if (is_table && first) l.table = line;
    if (is_row && first && *text_of(line, "reason")) l.reason = text_of(line, "reason");
    if (is_row && !(first && l.reason)) lines_add(first ? &l.rows : &l.others, line);
  }
  return l;
}

void lab_ladder_close(LabLadder *ladder) {
  free(ladder->rungs.of);
  free(ladder->rows.of);
  free(ladder->others.of);
}

int lab_rung_number(const LabLadder *ladder, const json_t *row) {
  for (int i = 0; i < ladder->rungs.count; i++)
    if (text_is(ladder->rungs.of[i], "rung", text_of(row, "rung"))) return i + 1;
  return 0;
}

/* The line that describes the row's rung. */
static const json_t *rung_of(const LabLadder *l, const json_t *row) {
  const int number = lab_rung_number(l, row);
  return number ? l->rungs.of[number - 1] : NULL;
}

bool lab_is_sweep(const LabLadder *ladder, const json_t *row) {
  return number_of(rung_of(ladder, row), "sweep") > 0;
}

const char *lab_kind(const LabLadder *ladder, const json_t *row) {
  return text_of(rung_of(ladder, row), "kind");
}

/* ---- columns -------------------------------------------------------------------------------- */

static TableCell number_cell(const TableColumn *column, const json_t *row, const void *ladder) {
  (void)column;
  return table_cell("%d", lab_rung_number(ladder, row));
}

static TableCell milliseconds(const TableColumn *column, const json_t *row, const void *ladder) {
  (void)column, (void)ladder;
  const double ms = number_of(row, "ms");
  return ms < 0.0995 ? table_cell("%.5f", ms) : table_number(ms);
}

static TableCell rate_cell(const TableColumn *column, const json_t *row, const void *ladder) {
  (void)column, (void)ladder;
  const double bytes = number_of(row, "gb_per_s");
  return table_number(isfinite(bytes) ? bytes : number_of(row, "gflop_per_s"));
}

static TableCell occupancy(const TableColumn *column, const json_t *row, const void *ladder) {
  (void)column, (void)ladder;
  const double blocks = number_of(row, "blocks_per_sm");
  return blocks > 0 ? table_cell("%.0f %s", blocks, text_of(row, "limit")) : table_cell("-");
}

/* A column is shown always, or if the topic has a key, a rung has points, or a rung is a library.
 */
typedef enum { ALWAYS, WITH_KEY, WITH_POINTS, WITH_LIBRARY } Shown;

static const struct {
  TableColumn column; /* title NULL: the ceiling's unit */
  Shown shown;
  const char *key; /* of the topic */
} columns[] = {
    {{"#", .cell = number_cell}, ALWAYS, NULL},
    {{"rung", .left = true, .key = "rung"}, ALWAYS, NULL},
    {{"point", .key = "point", .digits = WHOLE}, WITH_POINTS, NULL},
    {{"ms", .cell = milliseconds}, ALWAYS, NULL},
    {{NULL, .cell = rate_cell}, ALWAYS, NULL},
    {{"% ceiling", .key = "percent_of_ceiling", .digits = TENTHS}, ALWAYS, NULL},
    {{"x first", .key = "times_first"}, ALWAYS, NULL},
    {{"x library", .key = "times_library"}, WITH_LIBRARY, NULL},
    {{"blocks/SM", .left = true, .cell = occupancy}, ALWAYS, NULL},
    {{"regs", .key = "registers", .digits = WHOLE}, ALWAYS, NULL},
    {{"predicted", .key = "predicted"}, WITH_KEY, "predicted_name"},
    {{"measured", .key = "measured"}, WITH_KEY, "measured_name"},
    {{"ulp", .key = "ulp"}, WITH_KEY, "shows_ulp"},
    {{"check", .left = true, .key = "check"}, ALWAYS, NULL},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static bool has_points(const LabLadder *l) {
  for (int i = 0; i < l->rows.count; i++)
    if (lab_is_sweep(l, l->rows.of[i])) return true;
  return false;
}

static bool has_library(const LabLadder *l) {
  for (int i = 0; i < l->rows.count; i++)
    if (strcmp(lab_kind(l, l->rows.of[i]), "library") == 0) return true;
  return false;
}

static bool is_shown(const LabLadder *l, int column) {
  switch (columns[column].shown) {
  case WITH_KEY:
    return json_object_get(l->topic, columns[column].key) != NULL;
  case WITH_POINTS:
    return has_points(l);
  case WITH_LIBRARY:
    return has_library(l);
  default:
    return true;
  }
}

static void print_ladder(const LabLadder *l, FILE *file, bool markdown) {
  const Table table = {file, markdown, l, NULL};
  TableColumn shown[COLUMNS];
  int count = 0;
  for (int i = 0; i < COLUMNS; i++) {
    if (!is_shown(l, i)) continue;
    shown[count] = columns[i].column;
    if (!shown[count].title) shown[count].title = lab_ceiling(l->machine, l->topic).unit;
    count++;
  }
  table_print(&table, shown, count, &l->rows);
}

/* ---- around the tables ---------------------------------------------------------------------- */

enum { WIDTH = 100 };

/* Words in lines of at most WIDTH columns, each behind `indent` columns; the first line's are
   there already. */
static void print_wrapped(FILE *file, int indent, const char *text) {
  int used = indent;
  for (const char *word = text; *word; word += strspn(word, " ")) {
    const int length = (int)strcspn(word, " ");
    if (used > indent && used + 1 + length > WIDTH) {
      fprintf(file, "\n%*s", indent, "");
      used = indent;
    } else if (used > indent) {
      putc(' ', file);
      used++;
    }
    fprintf(file, "%.*s", length, word);
    used += length;
    word += length;
  }
}

/* Says why a table is missing, and explains the words in its check column. An empty line comes
   before the first note of each table. */
static void print_notes(const LabLadder *l, const Lines *rows, FILE *file, bool markdown) {
  const char *size = "";
  for (int i = 0; i < rows->count; i++) {
    const json_t *row = rows->of[i];
    const char *note = text_of(row, "note"), *reason = text_of(row, "reason");
    if (*reason) fprintf(file, "\n%s.\n", reason);
    if (!*note) continue;
    if (!text_is(row, "size", size)) putc('\n', file);
    size = text_of(row, "size");
    fprintf(file, "%s%s, %s", markdown ? "- " : "", text_of(row, "check"), text_of(row, "rung"));
    if (lab_is_sweep(l, row)) fprintf(file, " at %.0f", number_of(row, "point"));
    fprintf(file, ": %s.\n", note);
  }
}

/* A sentence for each rung of the table, under the rung's number. */
static void print_lessons(const LabLadder *l, FILE *file, bool markdown) {
  const char *bold = markdown ? "**" : "";
  int last = 0;
  putc('\n', file);
  for (int i = 0; i < l->rows.count; i++) {
    const int number = lab_rung_number(l, l->rows.of[i]);
    if (number == last) continue;
    last = number;
    const json_t *rung = rung_of(l, l->rows.of[i]);
    const char *kind = text_is(rung, "kind", "rung") ? "" : text_of(rung, "kind");
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s%s%s: %s.", bold, text_of(rung, "rung"), bold,
             *kind ? ", " : "", kind, text_of(rung, "lesson"));
    fprintf(file, markdown ? "%d. " : "%2d  ", number);
    if (markdown)
      fputs(text, file);
    else
      print_wrapped(file, 4, text);
    putc('\n', file);
  }
}

/* "reduce, int32" */
static TableCell name_of(const LabLadder *l) {
  return table_cell("%s%s%s", text_of(l->topic, "topic"), *l->problem ? ", " : "", l->problem);
}

static void print_head(const LabLadder *l, FILE *file, bool markdown) {
  static const char *const named[][2] = {
      {"Point", "point_name"}, {"Predicted", "predicted_name"}, {"Measured", "measured_name"}};
  const LabCeiling ceiling = lab_ceiling(l->machine, l->topic);
  char title[256];
  snprintf(title, sizeof title, "%s: %s", name_of(l).text, text_of(l->topic, "title"));
  table_heading(file, markdown, title);
  fprintf(file, "%s (%s) on %s; at least %.4g MB moved, %.4g MFLOP.\n", l->size,
          text_of(l->topic, "dims"), text_of(l->machine, "gpu"), number_of(l->table, "bytes") / 1e6,
          number_of(l->table, "operations") / 1e6);
  if (isfinite(ceiling.value))
    fprintf(file, "Ceiling: %.0f %s, measured: %s.\n", ceiling.value, ceiling.unit, ceiling.name);
  for (int i = 0; i < 3; i++)
    if (json_object_get(l->topic, named[i][1]) && (i > 0 || has_points(l)))
      fprintf(file, "%s: %s.\n", named[i][0], text_of(l->topic, named[i][1]));
  putc('\n', file);
}

/* The other sizes, in one table. */
static void print_others(const LabLadder *l, FILE *file, bool markdown) {
  const TableColumn of_sizes[] = {{text_of(l->topic, "dims"), .left = true, .key = "size"},
                                  {"rung", .left = true, .key = "rung"},
                                  {"ms", .cell = milliseconds},
                                  {lab_ceiling(l->machine, l->topic).unit, .cell = rate_cell},
                                  {"% ceiling", .key = "percent_of_ceiling", .digits = TENTHS},
                                  {"x library", .key = "times_library"},
                                  {"check", .left = true, .key = "check"}};
  const Table table = {file, markdown, l, NULL};
  Lines rows = {calloc((size_t)l->others.count + 1, sizeof *rows.of), 0};
  for (int i = 0; i < l->others.count; i++)
    if (!*text_of(l->others.of[i], "reason")) lines_add(&rows, l->others.of[i]);
  fputs("\nOther sizes:\n\n", file);
  table_print(&table, of_sizes, sizeof of_sizes / sizeof *of_sizes, &rows);
  print_notes(l, &l->others, file, markdown);
  free(rows.of);
}

void lab_print(const Record *record, const char *topic, const char *problem, FILE *file,
               bool markdown) {
  LabLadder l = lab_ladder_open(record, topic, problem);
  if (l.reason) {
    table_heading(file, markdown, name_of(&l).text);
    fprintf(file, "%s.\n", l.reason);
  } else if (l.size) {
    print_head(&l, file, markdown);
    print_ladder(&l, file, markdown);
    print_notes(&l, &l.rows, file, markdown);
    print_lessons(&l, file, markdown);
  }
  if (l.others.count > 0) print_others(&l, file, markdown);
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
  fprintf(
      file,
      "- measured in this run: copy on the GPU %.0f GB/s, read + write; copy to the GPU, pinned "
      "%.1f GB/s;\n  float32 multiply-adds %.1f TFLOP/s\n",
      number_of(m, "copy_gb_per_s"), number_of(m, "link_gb_per_s"),
      number_of(m, "fma_gflop_per_s") / 1e3);
  fputs(
      "\nMedians after a warm-up, timed by the GPU (transfers by the host), on inputs that do not "
      "fit the\ncache. % ceiling: of the ceiling measured above. x first, x library: how many "
      "times "
      "faster than\nthe first rung and than the library. blocks/SM: how many blocks a "
      "multiprocessor holds at once, and\nwhat limits them. check: against a float64 or integer "
      "reference; caught: an intended mistake that\nthe check found.\n",
      file);
}
