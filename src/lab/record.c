/* Writes the lines of mlp-lab's records and reads them again. */
#include "lab/harness.h"

#include <math.h>
#include <string.h>

/* ---- choosing lines ------------------------------------------------------------------------- */

const json_t *lab_topic_line(const Record *record, const char *topic) {
  return record_find(record, "topic", "topic", topic);
}

const json_t *lab_ceiling(const Record *record, const json_t *topic) {
  const bool on_host = number_of(topic, "on_host") > 0, moves = text_is(topic, "unit", "GB/s");
  return record_find(record, "ceiling", "name",
                     on_host ? "copy to the GPU, pinned"
                     : moves ? "copy on the GPU, read + write"
                             : "float32 multiply-adds alone");
}

int lab_problems(const Record *record, const char *topic, const char *problems[LAB_PROBLEMS]) {
  int count = 0;
  foreach_of (line, record, "table", "topic", topic) {
    int p = 0;
    while (p < count && !text_is(line, "problem", problems[p])) p++;
    if (p == count && count < LAB_PROBLEMS) problems[count++] = text_of(line, "problem");
  }
  return count;
}

/* ---- what follows from the rows of a table ----------------------------------------------------
 */

/* Returns the rung of that name and sets its number in the topic, from 1; NULL if there is none. */
static const json_t *find_rung(const json_t *topic, const char *name, size_t *number) {
  const json_t *rung;
  size_t i;
  json_array_foreach (json_object_get(topic, "rungs"), i, rung) {
    *number = i + 1;
    if (text_is(rung, "rung", name)) return rung;
  }
  return NULL;
}

/* Returns the ms of the first row of that kind, or of the fastest; NAN if none was timed. */
static double ms_of(const json_t *rows, const char *kind, bool best) {
  double found = NAN;
  const json_t *row;
  size_t i;
  json_array_foreach (rows, i, row)
    if (text_is(row, "kind", kind) && (best || isnan(found)))
      found = fmin(found, number_of(row, "ms")); /* of a number and NAN, the number */
  return found;
}

/* Sets what a row gets from its rung, its size and the other rows, none of which is in a file.
   Returns false if a rung is not of the topic. */
static bool complete(const Record *record, const json_t *topic, json_t *table, Error *error) {
  static const char *const of_rung[] = {"kind", "lesson"};
  const json_t *rows = json_object_get(table, "rows");
  const double amount = number_of(table, text_is(topic, "unit", "GB/s") ? "bytes" : "operations"),
               ceiling = number_of(lab_ceiling(record, topic), "value");
  json_t *row;
  size_t i, number = 0;
  json_array_foreach (rows, i, row) {
    const json_t *rung = find_rung(topic, text_of(row, "rung"), &number);
    if (!rung)
      return error_set(error, "%s has no rung '%s'", text_of(topic, "topic"), text_of(row, "rung"));
    record_number(row, "number", (double)number);
    record_text(row, "size", text_of(table, "size"));
    if (!*text_of(row, "check")) record_text(row, "check", lab_outcomes[LAB_RIGHT]);
    for (int k = 0; k < 2; k++) record_text(row, of_rung[k], text_of(rung, of_rung[k]));
  }
  const double first = ms_of(rows, "rung", false), library = ms_of(rows, "library", true);
  json_array_foreach (rows, i, row) {
    const double ms = number_of(row, "ms"), rate = amount / ms / 1e6;
    record_number(row, "rate", rate);
    record_number(row, "percent", 100 * rate / ceiling);
    record_number(row, "times_first", first / ms);
    record_number(row, "times_library", library / ms);
  }
  return true;
}

/* ---- writing -------------------------------------------------------------------------------- */

static json_t *flag(bool value) {
  return value ? json_true() : NULL;
}

void lab_add_topic(Record *record, const LabTopic *topic) {
  const LabTopic *t = topic;
  json_t *rungs = json_array();
  foreach_rung (rung, t)
    json_array_append_new(rungs, json_pack("{ss ss ss so*}", "rung", rung->name, "kind",
                                           lab_kinds[rung->kind], "lesson", rung->lesson, "sweep",
                                           flag(rung->points)));
  record_add(record,
             json_pack("{ss ss ss ss ss so* so* so* ss* ss* ss* so}", "case", "topic", "topic",
                       t->name, "title", t->title, "dims", t->dims, "unit",
                       t->unit == LAB_GB_PER_S ? "GB/s" : "GFLOP/s", "on_host", flag(t->on_host),
                       "alike", flag(t->alike), "shows_ulp", flag(t->shows_ulp), "predicted_name",
                       t->predicted_name, "measured_name", t->measured_name, "point_name",
                       t->point_name, "rungs", rungs));
}

static json_t *line_of_row(const LabTable *table, const LabRow *row) {
  const LabOccupancy *o = &row->occupancy;
  const EmulatorCounts *c = &row->counts;
  json_t *line = json_object();
  record_text(line, "rung", row->rung->name);
  if (row->rung->points) record_number(line, "point", (double)row->point);
  if (row->outcome != LAB_RIGHT) record_text(line, "check", lab_outcomes[row->outcome]);
  record_text(line, "note", *row->note ? row->note : NULL);
  record_number(line, "ms", 1e3 * row->seconds.median);
  record_number(line, "min_ms", 1e3 * row->seconds.low);
  record_number(line, "max_ms", 1e3 * row->seconds.high);
  record_number(line, "predicted", row->predicted);
  record_number(line, "counted", row->counted);
  record_number(line, "measured", row->measured);
  record_number(line, "ulp", row->ulp);
  if (c->sectors > 0) {
    record_number(line, "moved_mb", (double)c->bytes_once / 1e6);
    record_number(line, "times_least",
                  (double)c->bytes_once / lab_bytes(table->topic, table->problem, table->size));
    record_number(line, "sectors", (double)c->sectors);
    record_number(line, "sectors_per_request", (double)c->sectors / (double)c->requests);
    record_number(line, "turns", (double)c->turns);
    record_number(line, "turns_times_least", (double)c->turns / (double)c->least_turns);
  }
  if (o->blocks == 0) return line;
  record_number(line, "blocks_per_sm", o->blocks);
  record_text(line, "limit", o->limit);
  record_number(line, "registers", o->registers);
  if (o->local) record_number(line, "local_bytes", (double)o->local);
  return line;
}

void lab_add_table(Record *record, const LabTable *table) {
  const LabTopic *topic = table->topic;
  const LabProblem *problem = &topic->problems[table->problem];
  json_t *line = json_pack("{ss ss ss ss}", "case", "table", "topic", topic->name, "problem",
                           problem->name, "size", lab_size_text(topic, table->size).text);
  json_t *rows = json_array();
  Error unknown;
  if (*table->reason) {
    record_text(line, "reason", table->reason);
  } else {
    record_number(line, "bytes", lab_bytes(topic, table->problem, table->size));
    record_number(line, "operations", problem->operations(table->size));
  }
  for (int i = 0; !*table->reason && i < table->count; i++)
    json_array_append_new(rows, line_of_row(table, &table->rows[i]));
  json_object_set_new(line, "rows", rows);
  record_add(record, line);
  complete(record, lab_topic_line(record, topic->name), line, &unknown);
}

void lab_add_all(Record *record) {
  for (const LabTopic *const *t = lab_topics; *t; t++) {
    lab_add_topic(record, *t);
    for (int p = 0; p < (*t)->problem_count; p++) {
      const LabTable table = lab_table(*t, p, (*t)->sizes[0], false);
      lab_add_table(record, &table);
    }
  }
}

/* ---- reading -------------------------------------------------------------------------------- */

/* A topic is described before its tables. */
static bool check_line(const Record *record, json_t *line, Error *error) {
  const char *name = text_of(line, "topic"), *size = text_of(line, "size");
  const json_t *topic = lab_topic_line(record, name);
  LabSize ignored;
  if (!line_is(line, "table")) return true;
  if (!topic) return error_set(error, "it does not describe the topic '%s'", name);
  return lab_read_size(&(LabTopic){.dims = text_of(topic, "dims")}, size, &ignored)
             ? complete(record, topic, line, error)
             : error_set(error, "'%s' is no size of %s", size, name);
}

bool lab_read(Record *record, const char *path, Error *error) {
  return record_read(record, path, "mlp-lab", check_line, error) &&
         ((record_first(record, "machine") && record_first(record, "table")) ||
          error_set(error, "%s is no record of mlp-lab: it has no results", path));
}
