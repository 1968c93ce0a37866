#include "lab/harness.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/table.h"

/* ---- rates ---------------------------------------------------------------------------------- */

LabCeiling lab_ceiling(const LabMachine *machine, const LabTopic *topic) {
  if (topic->on_host)
    return (LabCeiling){"copy to the GPU, pinned", "GB/s", machine->link / 1e9, 1e9};
  if (topic->unit == LAB_GB_PER_S)
    return (LabCeiling){"copy on the GPU, read + write", "GB/s", machine->copy / 1e9, 1e9};
  return (LabCeiling){"float32 multiply-adds alone", "GFLOP/s", machine->fma / 1e9, 1e9};
}

/* What the rate counts. */
static double amount(const LabTable *table) {
  return table->topic->unit == LAB_GB_PER_S ? table->bytes : table->operations;
}

double lab_rate(const LabTable *table, const LabRow *row) {
  return amount(table) / row->seconds.median;
}

/* NAN where nothing of that kind was timed. best: the fastest, else the first. */
static double seconds_of(const LabTable *table, LabKind kind, bool best) {
  double found = NAN;
  for (int i = 0; i < table->count; i++) {
    const LabRow *row = &table->rows[i];
    if (row->rung->kind == kind && (best || isnan(found)))
      found = fmin(found, row->seconds.median); /* of a number and NAN, the number */
  }
  return found;
}

static double times_first(const LabTable *table, const LabRow *row) {
  return seconds_of(table, LAB_RUNG, false) / row->seconds.median;
}

static double times_library(const LabTable *table, const LabRow *row) {
  return seconds_of(table, LAB_LIBRARY, true) / row->seconds.median;
}

static double percent(const LabMachine *machine, const LabTable *table, const LabRow *row) {
  const LabCeiling ceiling = lab_ceiling(machine, table->topic);
  return 100 * lab_rate(table, row) / (ceiling.value * ceiling.scale);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* "reduce, int32" */
static TableCell name_of(const LabTable *table) {
  const char *problem = table->topic->problems[table->problem].name;
  return table_cell("%s%s%s", table->topic->name, *problem ? ", " : "", problem);
}

static TableCell occupancy(const LabRow *row) {
  if (row->occupancy.blocks == 0) return table_cell("-");
  return table_cell("%d %s", row->occupancy.blocks, row->occupancy.limit);
}

static TableCell percentage(double value) {
  return isfinite(value) ? table_cell("%.1f", value) : table_cell("-");
}

static TableCell milliseconds(const LabRow *row) {
  const double ms = 1e3 * row->seconds.median;
  return ms < 0.0995 ? table_cell("%.5f", ms) : table_number(ms);
}

/* ---- the ladder ----------------------------------------------------------------------------- */

enum { MAX_COLUMNS = 16, MAX_ROWS = 512 };

/* A table that is laid out before it is printed. */
typedef struct {
  TableColumn columns[MAX_COLUMNS];
  TableCell cells[MAX_ROWS][MAX_COLUMNS];
  int count, rows;
} Layout;

static void add_column(Layout *l, const char *title, bool left) {
  l->columns[l->count++] = (TableColumn){title, (int)strlen(title), left};
}

/* The next cell of the row that is being filled. */
static void put(Layout *l, int *column, TableCell text) {
  l->cells[l->rows][*column] = text;
  const int width = (int)strlen(text.text);
  if (width > l->columns[*column].width) l->columns[*column].width = width;
  ++*column;
}

static void print_layout(const Layout *l, FILE *file, bool markdown) {
  const Table table = {file, markdown, l->columns, l->count};
  table_begin(&table);
  for (int r = 0; r < l->rows; r++) table_row(&table, l->cells[r]);
}

static bool has_kind(const LabTable *table, LabKind kind) {
  for (int i = 0; i < table->count; i++)
    if (table->rows[i].rung->kind == kind) return true;
  return false;
}

static bool has_points(const LabTable *table) {
  for (int i = 0; i < table->count; i++)
    if (table->rows[i].rung->points) return true;
  return false;
}

static void ladder_columns(Layout *l, const LabTable *table, const LabCeiling *ceiling) {
  const LabTopic *topic = table->topic;
  add_column(l, "#", false);
  add_column(l, "rung", true);
  if (has_points(table)) add_column(l, "point", false);
  add_column(l, "ms", false);
  add_column(l, ceiling->unit, false);
  add_column(l, "% ceiling", false);
  add_column(l, "x first", false);
  if (has_kind(table, LAB_LIBRARY)) add_column(l, "x library", false);
  add_column(l, "blocks/SM", true);
  add_column(l, "regs", false);
  if (topic->predicted_name) add_column(l, "predicted", false);
  if (topic->measured_name) add_column(l, "measured", false);
  if (topic->shows_ulp) add_column(l, "ulp", false);
  add_column(l, "check", true);
}

static void put_ladder_row(Layout *l, const LabMachine *machine, const LabTable *table,
                           const LabRow *row) {
  const LabTopic *topic = table->topic;
  int c = 0;
  put(l, &c, table_cell("%d", row->number));
  put(l, &c, table_cell("%s", row->rung->name));
  if (has_points(table))
    put(l, &c, row->rung->points ? table_cell("%lld", (long long)row->point) : table_cell("-"));
  put(l, &c, milliseconds(row));
  put(l, &c, table_number(lab_rate(table, row) / lab_ceiling(machine, topic).scale));
  put(l, &c, percentage(percent(machine, table, row)));
  put(l, &c, table_number(times_first(table, row)));
  if (has_kind(table, LAB_LIBRARY)) put(l, &c, table_number(times_library(table, row)));
  put(l, &c, occupancy(row));
  put(l, &c, row->occupancy.blocks ? table_cell("%d", row->occupancy.registers) : table_cell("-"));
  if (topic->predicted_name) put(l, &c, table_number(row->predicted));
  if (topic->measured_name) put(l, &c, table_number(row->measured));
  if (topic->shows_ulp) put(l, &c, table_number(row->ulp));
  put(l, &c, table_cell("%s", lab_outcomes[row->outcome]));
  l->rows++;
}

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

/* What is behind the words in the table. */
static void print_notes(const LabTable *table, FILE *file, bool markdown) {
  bool any = false;
  for (int i = 0; i < table->count; i++) {
    const LabRow *row = &table->rows[i];
    if (!*row->note) continue;
    if (!any) putc('\n', file);
    any = true;
    fprintf(file, "%s%s, %s", markdown ? "- " : "", lab_outcomes[row->outcome], row->rung->name);
    if (row->rung->points) fprintf(file, " at %lld", (long long)row->point);
    fprintf(file, ": %s.\n", row->note);
  }
}

/* A sentence for each rung of the table, under the rung's number. */
static void print_lessons(const LabTable *table, FILE *file, bool markdown) {
  int last = 0;
  putc('\n', file);
  for (int i = 0; i < table->count; i++) {
    const LabRow *row = &table->rows[i];
    if (row->number == last) continue;
    last = row->number;
    char text[1024];
    const char *kind = row->rung->kind == LAB_RUNG ? "" : lab_kinds[row->rung->kind];
    snprintf(text, sizeof text, "%s%s%s%s%s: %s.", markdown ? "**" : "", row->rung->name,
             markdown ? "**" : "", *kind ? ", " : "", kind, row->rung->lesson);
    if (markdown) {
      fprintf(file, "%d. %s\n", row->number, text);
      continue;
    }
    fprintf(file, "%2d  ", row->number);
    print_wrapped(file, 4, text);
    putc('\n', file);
  }
}

static void print_head(const LabMachine *machine, const LabTable *table, FILE *file,
                       bool markdown) {
  const LabTopic *topic = table->topic;
  const LabCeiling ceiling = lab_ceiling(machine, topic);
  char title[256];
  snprintf(title, sizeof title, "%s: %s", name_of(table).text, topic->title);
  table_heading(file, markdown, title);
  fprintf(file, "%s (%s) on %s; at least %.4g MB moved, %.4g MFLOP.\n",
          lab_size_text(topic, table->size).text, topic->dims, machine->gpu, table->bytes / 1e6,
          table->operations / 1e6);
  if (isfinite(ceiling.value))
    fprintf(file, "Ceiling: %.0f %s, measured: %s.\n", ceiling.value, ceiling.unit, ceiling.name);
  if (topic->point_name && has_points(table)) fprintf(file, "Point: %s.\n", topic->point_name);
  if (topic->predicted_name) fprintf(file, "Predicted: %s.\n", topic->predicted_name);
  if (topic->measured_name) fprintf(file, "Measured: %s.\n", topic->measured_name);
  putc('\n', file);
}

static void print_ladder(const LabMachine *machine, const LabTable *table, FILE *file,
                         bool markdown) {
  static Layout layout; /* too large for a stack */
  const LabCeiling ceiling = lab_ceiling(machine, table->topic);
  print_head(machine, table, file, markdown);
  layout.count = layout.rows = 0;
  ladder_columns(&layout, table, &ceiling);
  for (int i = 0; i < table->count && layout.rows < MAX_ROWS; i++)
    put_ladder_row(&layout, machine, table, &table->rows[i]);
  print_layout(&layout, file, markdown);
  print_notes(table, file, markdown);
  print_lessons(table, file, markdown);
}

/* ---- more sizes ----------------------------------------------------------------------------- */

static void put_extra_rows(Layout *l, const LabMachine *machine, const LabTable *table) {
  for (int i = 0; i < table->count && l->rows < MAX_ROWS; i++) {
    const LabRow *row = &table->rows[i];
    int c = 0;
    put(l, &c, table_cell("%s", lab_size_text(table->topic, table->size).text));
    put(l, &c, table_cell("%s", row->rung->name));
    put(l, &c, milliseconds(row));
    put(l, &c, table_number(lab_rate(table, row) / lab_ceiling(machine, table->topic).scale));
    put(l, &c, percentage(percent(machine, table, row)));
    put(l, &c, table_number(times_library(table, row)));
    put(l, &c, table_cell("%s", lab_outcomes[row->outcome]));
    l->rows++;
  }
}

static void print_extra(const LabMachine *machine, const LabTable *tables, int count, FILE *file,
                        bool markdown) {
  static Layout layout;
  layout.count = layout.rows = 0;
  add_column(&layout, tables->topic->dims, true);
  add_column(&layout, "rung", true);
  add_column(&layout, "ms", false);
  add_column(&layout, lab_ceiling(machine, tables->topic).unit, false);
  add_column(&layout, "% ceiling", false);
  add_column(&layout, "x library", false);
  add_column(&layout, "check", true);
  for (int i = 0; i < count; i++) put_extra_rows(&layout, machine, &tables[i]);
  fputs("\nOther sizes:\n\n", file);
  print_layout(&layout, file, markdown);
  for (int i = 0; i < count; i++) {
    if (*tables[i].reason) fprintf(file, "\n%s.\n", tables[i].reason);
    print_notes(&tables[i], file, markdown);
  }
}

void lab_print(const LabMachine *machine, const LabTable *tables, int count, FILE *file,
               bool markdown) {
  if (*tables->reason) {
    table_heading(file, markdown, name_of(tables).text);
    fprintf(file, "%s.\n", tables->reason);
  } else
    print_ladder(machine, tables, file, markdown);
  if (count > 1) print_extra(machine, tables + 1, count - 1, file, markdown);
}

void lab_print_machine(const LabMachine *machine, FILE *file, bool markdown) {
  const LabMachine *m = machine;
  if (!markdown) {
    fprintf(file, "%s, driver %s\n", m->gpu, m->driver);
    return;
  }
  fprintf(file, "# The kernel lab on %s\n\n- %s, driver %s; %s\n- command `%s`\n", m->gpu, m->gpu,
          m->driver, m->date, m->command);
  if (*m->sources) fprintf(file, "- sources `%s`\n", m->sources);
  if (!isfinite(m->copy)) return;
  fprintf(
      file,
      "- measured in this run: copy on the GPU %.0f GB/s, read + write; copy to the GPU, pinned "
      "%.1f GB/s;\n  float32 multiply-adds %.1f TFLOP/s\n",
      m->copy / 1e9, m->link / 1e9, m->fma / 1e12);
  fputs(
      "\nMedians after a warm-up, timed by the GPU (transfers by the host), on inputs that do not "
      "fit the\ncache. % ceiling: of the ceiling measured above. x first, x library: how many "
      "times "
      "faster than\nthe first rung and than the library. blocks/SM: how many blocks a "
      "multiprocessor holds at once, and\nwhat limits them. check: against a float64 or integer "
      "reference; caught: an intended mistake that\nthe check found.\n",
      file);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_key(const char *key, const char *text, FILE *file) {
  fprintf(file, ",\"%s\":", key);
  json_text(text, file);
}

static void json_number(const char *key, double value, FILE *file) {
  if (isfinite(value)) fprintf(file, ",\"%s\":%.9g", key, value);
}

static void json_end(const LabMachine *machine, FILE *file) {
  json_key("gpu", machine->gpu, file);
  if (*machine->sources) json_key("sources", machine->sources, file);
  fputs("}\n", file);
}

void lab_json_machine(const LabMachine *machine, FILE *file) {
  fputs("{\"case\":\"lab-machine\"", file);
  json_key("driver", machine->driver, file);
  json_key("date", machine->date, file);
  json_key("command", machine->command, file);
  json_number("copy_gb_per_s", machine->copy / 1e9, file);
  json_number("link_gb_per_s", machine->link / 1e9, file);
  json_number("fma_gflop_per_s", machine->fma / 1e9, file);
  json_end(machine, file);
}

static void json_flag(const char *key, bool value, FILE *file) {
  if (value) fprintf(file, ",\"%s\":true", key);
}

void lab_json_topic(const LabTopic *topic, FILE *file) {
  fputs("{\"case\":\"lab-topic\"", file);
  json_key("topic", topic->name, file);
  json_key("title", topic->title, file);
  json_key("dims", topic->dims, file);
  json_key("unit", topic->unit == LAB_GB_PER_S ? "GB/s" : "GFLOP/s", file);
  json_flag("on_host", topic->on_host, file);
  json_flag("shows_ulp", topic->shows_ulp, file);
  if (topic->predicted_name) json_key("predicted_name", topic->predicted_name, file);
  if (topic->measured_name) json_key("measured_name", topic->measured_name, file);
  if (topic->point_name) json_key("point_name", topic->point_name, file);
  fputs("}\n", file);
  for (int i = 0; i < topic->rung_count; i++) {
    fputs("{\"case\":\"lab-rung\"", file);
    json_key("topic", topic->name, file);
    json_key("rung", topic->rungs[i].name, file);
    json_key("kind", lab_kinds[topic->rungs[i].kind], file);
    json_key("lesson", topic->rungs[i].lesson, file);
    json_flag("sweep", topic->rungs[i].points != NULL, file);
    fputs("}\n", file);
  }
}

static void json_occupancy(const LabOccupancy *o, FILE *file) {
  if (o->blocks == 0) return;
  json_number("blocks_per_sm", o->blocks, file);
  json_key("limit", o->limit, file);
  json_number("registers", o->registers, file);
  json_number("shared_bytes", (double)o->shared, file);
  json_number("threads", o->threads, file);
}

static void json_row(const LabMachine *machine, const LabTable *table, const LabRow *row,
                     FILE *file) {
  const bool bytes = table->topic->unit == LAB_GB_PER_S;
  fputs("{\"case\":\"lab\"", file);
  json_key("topic", table->topic->name, file);
  json_key("problem", table->topic->problems[table->problem].name, file);
  json_key("size", lab_size_text(table->topic, table->size).text, file);
  json_key("rung", row->rung->name, file);
  json_key("kind", lab_kinds[row->rung->kind], file);
  if (row->rung->points) json_number("point", (double)row->point, file);
  json_key("check", lab_outcomes[row->outcome], file);
  if (*row->note) json_key("note", row->note, file);
  json_number("ms", 1e3 * row->seconds.median, file);
  json_number("min_ms", 1e3 * row->seconds.low, file);
  json_number("max_ms", 1e3 * row->seconds.high, file);
  if (row->samples) json_number("samples", row->samples, file);
  json_number(bytes ? "gb_per_s" : "gflop_per_s", lab_rate(table, row) / 1e9, file);
  json_number("percent_of_ceiling", percent(machine, table, row), file);
  json_number("times_first", times_first(table, row), file);
  json_number("times_library", times_library(table, row), file);
  json_number("predicted", row->predicted, file);
  json_number("measured", row->measured, file);
  json_number("ulp", row->ulp, file);
  json_occupancy(&row->occupancy, file);
  json_end(machine, file);
}

/* What a row does not say of its table. */
static void json_table(const LabTable *table, FILE *file) {
  fputs("{\"case\":\"lab-problem\"", file);
  json_key("topic", table->topic->name, file);
  json_key("problem", table->topic->problems[table->problem].name, file);
  json_key("size", lab_size_text(table->topic, table->size).text, file);
  json_number("bytes", table->bytes, file);
  json_number("operations", table->operations, file);
  fputs("}\n", file);
}

void lab_json(const LabMachine *machine, const LabTable *table, FILE *file) {
  if (table->count) json_table(table, file);
  for (int i = 0; i < table->count; i++) json_row(machine, table, &table->rows[i], file);
  if (table->count) return;
  fputs("{\"case\":\"lab\"", file);
  json_key("topic", table->topic->name, file);
  json_key("problem", table->topic->problems[table->problem].name, file);
  json_key("size", lab_size_text(table->topic, table->size).text, file);
  json_key("reason", table->reason, file);
  json_end(machine, file);
}
