/* The lines of mlp-lab's records: of what was measured, and read again. */
#include "lab/harness.h"

#include <math.h>
#include <string.h>

/* ---- lines ---------------------------------------------------------------------------------- */

static json_t *flag(bool value) {
  return value ? json_true() : NULL;
}

void lab_add_topic(Record *record, const LabTopic *topic) {
  const LabTopic *t = topic;
  json_t *line = json_pack(
      "{ss ss ss ss ss so* so* ss* ss* ss*}", "case", "lab-topic", "topic", t->name, "title",
      t->title, "dims", t->dims, "unit", t->unit == LAB_GB_PER_S ? "GB/s" : "GFLOP/s", "on_host",
      flag(t->on_host), "shows_ulp", flag(t->shows_ulp), "predicted_name", t->predicted_name,
      "measured_name", t->measured_name, "point_name", t->point_name);
  record_add(record, line, false);
  foreach_rung (rung, t) {
    line = json_pack("{ss ss ss ss ss so*}", "case", "lab-rung", "topic", t->name, "rung",
                     rung->name, "kind", lab_kinds[rung->kind], "lesson", rung->lesson, "sweep",
                     flag(rung->points));
    record_add(record, line, false);
  }
}

static json_t *line_of(const LabTable *t, const char *kind) {
  return json_pack("{ss ss ss ss}", "case", kind, "topic", t->topic->name, "problem",
                   t->topic->problems[t->problem].name, "size",
                   lab_size_text(t->topic, t->size).text);
}

/* Returns the seconds of the first row of a kind, or of its fastest; NAN where none was timed. */
static double seconds_of(const LabTable *table, LabKind kind, bool best) {
  double found = NAN;
  for (const LabRow *row = table->rows; row < table->rows + table->count; row++)
    if (row->rung->kind == kind && (best || isnan(found)))
      found = fmin(found, row->seconds.median); /* of a number and NAN, the number */
  return found;
}

/* amount: the bytes or operations that the topic's rates count. */
static json_t *line_of_row(const LabTable *table, const LabRow *row, double amount,
                           double ceiling) {
  const LabOccupancy *o = &row->occupancy;
  const double seconds = row->seconds.median, rate = amount / seconds / 1e9;
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
  record_number(line, table->topic->unit == LAB_GB_PER_S ? "gb_per_s" : "gflop_per_s", rate);
  record_number(line, "percent_of_ceiling", 100 * rate / ceiling);
  record_number(line, "times_first", seconds_of(table, LAB_RUNG, false) / seconds);
  record_number(line, "times_library", seconds_of(table, LAB_LIBRARY, true) / seconds);
  record_number(line, "predicted", row->predicted);
  record_number(line, "measured", row->measured);
  record_number(line, "ulp", row->ulp);
  const EmulatorCounts *c = &row->counts;
  if (c->sectors > 0) {
    const double bytes = (double)c->bytes_once, sectors = (double)c->sectors,
                 turns = (double)c->turns;
    record_number(line, "moved_mb", bytes / 1e6);
    record_number(line, "times_least",
                  bytes / lab_bytes(table->topic, table->problem, table->size));
    record_number(line, "sectors", sectors);
    record_number(line, "sectors_per_request", sectors / (double)c->requests);
    record_number(line, "turns", turns);
    record_number(line, "turns_times_least", turns / (double)c->least_turns);
  }
  if (o->blocks == 0) return line;
  record_number(line, "blocks_per_sm", o->blocks);
  record_text(line, "limit", o->limit);
  record_number(line, "registers", o->registers);
  if (o->local) record_number(line, "local_bytes", (double)o->local);
  record_number(line, "shared_bytes", (double)o->shared);
  record_number(line, "threads", o->threads);
  return line;
}

void lab_add_table(Record *record, const LabTable *table) {
  const LabTopic *topic = table->topic;
  json_t *line = line_of(table, *table->reason ? "lab" : "lab-problem");
  if (*table->reason) {
    record_text(line, "reason", table->reason);
    record_add(record, line, true);
    return;
  }
  const double bytes = lab_bytes(topic, table->problem, table->size),
               operations = topic->problems[table->problem].operations(table->size),
               ceiling = lab_ceiling(record, topic->name).value;
  record_number(line, "bytes", bytes);
  record_number(line, "operations", operations);
  record_add(record, line, false);
  for (int i = 0; i < table->count; i++)
    record_add(record,
               line_of_row(table, &table->rows[i], topic->unit == LAB_GB_PER_S ? bytes : operations,
                           ceiling),
               true);
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

/* ---- choosing lines ------------------------------------------------------------------------- */

const json_t *lab_rung(const Record *record, const json_t *row, int *number) {
  *number = 0;
  foreach_of (rung, record, "lab-rung", "topic", text_of(row, "topic")) {
    ++*number;
    if (text_is(rung, "rung", text_of(row, "rung"))) return rung;
  }
  return NULL;
}

static bool is_among(const char *text, const char *const *among, int count) {
  for (int i = 0; i < count; i++)
    if (strcmp(among[i], text) == 0) return true;
  return false;
}

int lab_problems(const Record *record, const char *topic, const char *problems[LAB_PROBLEMS]) {
  int count = 0;
  foreach_of (line, record, "lab", "topic", topic)
    if (count < LAB_PROBLEMS && !is_among(text_of(line, "problem"), problems, count))
      problems[count++] = text_of(line, "problem");
  return count;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Characters of a topic's name: pictures are named after topics. */
#define NAMES "abcdefghijklmnopqrstuvwxyz_"

/* Lines describe a topic before its rungs, and these before their rows. */
static bool check_line(const Record *record, json_t *line, Error *error) {
  const char *name = text_of(line, "topic"), *rung = text_of(line, "rung"),
             *size = text_of(line, "size");
  const json_t *topic = record_find(record, "lab-topic", "topic", name);
  const LabTopic known = {.dims = text_of(topic, "dims")};
  const bool is_row = line_is(line, "lab");
  if (name[strspn(name, NAMES)])
    return error_set(error, "'%s' is no topic: it has more than small letters and _", name);
  LabSize ignored;
  int number;
  if (line_is(line, "lab-rung"))
    return (topic && is_among(text_of(line, "kind"), lab_kinds, LAB_KINDS)) ||
           error_set(error, "the rung '%s' is of no topic before it, or of no kind", rung);
  if (!is_row && !line_is(line, "lab-problem")) return true;
  if (!topic)
    return error_set(
        error, "it does not describe the topic '%s': was it written by an older mlp-lab?", name);
  if (!lab_read_size(&known, size, &ignored))
    return error_set(error, "'%s' is no size of %s", size, name);
  return !is_row || *text_of(line, "reason") ||
         (lab_rung(record, line, &number) &&
          is_among(text_of(line, "check"), lab_outcomes, LAB_OUTCOMES)) ||
         error_set(error, "%s has no rung '%s', or it has no check", name, rung);
}

bool lab_read(Record *record, const char *path, Error *error) {
  return record_read(record, path, "mlp-lab", check_line, error) &&
         ((*text_of(record_first(record, "lab-machine"), "gpu") && record_first(record, "lab")) ||
          error_set(error, "%s is no record of mlp-lab: it has no results", path));
}
