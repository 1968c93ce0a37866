/* Reads what lab_json_machine, lab_json_topic and lab_json have written. */
#include "lab/harness.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOPICS = 64, MAX_RUNGS = 64, MAX_PROBLEMS = 16, MAX_POINTS = 256 };

/* A topic and what it points to. */
typedef struct {
  LabTopic topic;
  LabRung rungs[MAX_RUNGS];
  int64_t points[MAX_RUNGS][MAX_POINTS];
  LabProblem problems[MAX_PROBLEMS];
} Topic;

/* All that a replay points to: texts belong to the lines. */
typedef struct {
  json_t *lines; /* an array of objects */
  Topic *topic[MAX_TOPICS];
  const LabTopic *list[MAX_TOPICS + 1];
  int topics;
} Memory;

/* ---- one line ------------------------------------------------------------------------------- */

/* "" if there is no such text. */
static const char *text_of(const json_t *line, const char *key) {
  const char *text = json_string_value(json_object_get(line, key));
  return text ? text : "";
}

static const char *text_or_null(const json_t *line, const char *key) {
  return json_string_value(json_object_get(line, key));
}

/* NAN if there is no such number. */
static double number_of(const json_t *line, const char *key) {
  const json_t *value = json_object_get(line, key);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* A count; 0 if there is none, or none that an int holds. */
static int count_of(const json_t *line, const char *key) {
  const double value = number_of(line, key);
  return value >= 0 && value <= 1e9 ? (int)value : 0;
}

static bool is(const json_t *line, const char *kind) {
  return strcmp(text_of(line, "case"), kind) == 0;
}

/* The place of the text among `count`; -1: it is not there. */
static int place_of(const char *text, const char *const *among, int count) {
  for (int i = 0; i < count; i++)
    if (strcmp(among[i], text) == 0) return i;
  return -1;
}

/* ---- topics --------------------------------------------------------------------------------- */

static Topic *topic_of(const Memory *m, const json_t *line) {
  for (int i = 0; i < m->topics; i++)
    if (strcmp(m->topic[i]->topic.name, text_of(line, "topic")) == 0) return m->topic[i];
  return NULL;
}

static bool add_topic(Memory *m, const json_t *line, Error *error) {
  Topic *t = m->topics < MAX_TOPICS ? calloc(1, sizeof *t) : NULL;
  if (!t) return error_set(error, "no room for so many topics");
  t->topic = (LabTopic){.name = text_of(line, "topic"),
                        .title = text_of(line, "title"),
                        .dims = text_of(line, "dims"),
                        .unit = strcmp(text_of(line, "unit"), "GB/s") == 0 ? LAB_GB_PER_S
                                                                           : LAB_GFLOP_PER_S,
                        .problems = t->problems,
                        .rungs = t->rungs,
                        .on_host = json_is_true(json_object_get(line, "on_host")),
                        .shows_ulp = json_is_true(json_object_get(line, "shows_ulp")),
                        .predicted_name = text_or_null(line, "predicted_name"),
                        .measured_name = text_or_null(line, "measured_name"),
                        .point_name = text_or_null(line, "point_name")};
  m->topic[m->topics] = t;
  m->list[m->topics++] = &t->topic;
  return true;
}

static bool add_rung(Memory *m, const json_t *line, Error *error) {
  Topic *t = topic_of(m, line);
  const int kind = place_of(text_of(line, "kind"), lab_kinds, LAB_KINDS);
  if (!t || kind < 0 || t->topic.rung_count == MAX_RUNGS)
    return error_set(error, "the rung '%s' is of no topic before it, or of no kind",
                     text_of(line, "rung"));
  const int i = t->topic.rung_count++;
  t->rungs[i] =
      (LabRung){.name = text_of(line, "rung"),
                .lesson = text_of(line, "lesson"),
                .kind = (LabKind)kind,
                .points = json_is_true(json_object_get(line, "sweep")) ? t->points[i] : NULL};
  return true;
}

/* The problem's place in the topic, added if it is new; -1: there is no room. */
static int problem_of(Topic *t, const char *name) {
  int i = 0;
  while (i < t->topic.problem_count && strcmp(t->problems[i].name, name) != 0) i++;
  if (i == MAX_PROBLEMS) return -1;
  if (i == t->topic.problem_count) t->problems[t->topic.problem_count++].name = name;
  return i;
}

/* ---- tables --------------------------------------------------------------------------------- */

/* The table that the line is of: the last one, or a new one; NULL with *error set if there is none.
 */
static LabTable *table_of(LabReplay *replay, Topic *t, const json_t *line, Error *error) {
  const int problem = problem_of(t, text_of(line, "problem"));
  LabSize size;
  if (problem < 0) {
    error_set(error, "%s has too many problems", t->topic.name);
    return NULL;
  }
  if (!lab_read_size(&t->topic, text_of(line, "size"), &size)) {
    error_set(error, "'%s' is no size of %s", text_of(line, "size"), t->topic.name);
    return NULL;
  }
  LabTable *last = replay->count ? &replay->tables[replay->count - 1] : NULL;
  if (last && last->topic == &t->topic && last->problem == problem &&
      memcmp(&last->size, &size, sizeof size) == 0)
    return last;
  const bool extra = last && last->topic == &t->topic && last->problem == problem;
  LabTable *more = realloc(replay->tables, ((size_t)replay->count + 1) * sizeof *replay->tables);
  if (!more) {
    error_set(error, "no memory for %d tables", replay->count + 1);
    return NULL;
  }
  replay->tables = more;
  more[replay->count] =
      (LabTable){.topic = &t->topic, .problem = problem, .size = size, .extra = extra};
  return &more[replay->count++];
}

static LabOccupancy occupancy_of(const json_t *line) {
  return (LabOccupancy){.blocks = count_of(line, "blocks_per_sm"),
                        .limit = text_of(line, "limit"),
                        .registers = count_of(line, "registers"),
                        .shared = (size_t)count_of(line, "shared_bytes"),
                        .threads = count_of(line, "threads")};
}

static bool add_row(LabTable *table, Topic *t, const json_t *line, Error *error) {
  const char *name = text_of(line, "rung");
  int number = 0;
  while (number < t->topic.rung_count && strcmp(t->rungs[number].name, name) != 0) number++;
  const int outcome = place_of(text_of(line, "check"), lab_outcomes, LAB_OUTCOMES);
  if (number == t->topic.rung_count || outcome < 0)
    return error_set(error, "%s has no rung '%s', or it has no check", t->topic.name, name);
  LabRung *rung = &t->rungs[number];
  LabRow *rows = realloc(table->rows, ((size_t)table->count + 1) * sizeof *rows);
  if (!rows) return error_set(error, "no memory for the rungs of %s", t->topic.name);
  table->rows = rows;
  LabRow *row = &rows[table->count++];
  *row = (LabRow){.rung = rung,
                  .number = number + 1,
                  .outcome = (LabOutcome)outcome,
                  .ulp = number_of(line, "ulp"),
                  .seconds = {number_of(line, "ms") / 1e3, number_of(line, "min_ms") / 1e3,
                              number_of(line, "max_ms") / 1e3},
                  .samples = count_of(line, "samples"),
                  .predicted = number_of(line, "predicted"),
                  .measured = number_of(line, "measured"),
                  .occupancy = occupancy_of(line)};
  snprintf(row->note, sizeof row->note, "%s", text_of(line, "note"));
  if (!rung->points) return true;
  const double point = number_of(line, "point");
  row->point = fabs(point) < 1e15 ? (int64_t)point : 0; /* a NaN is not */
  if (rung->point_count < MAX_POINTS && !table->extra)
    t->points[number][rung->point_count++] = row->point;
  return true;
}

/* A row, or why a table has none. */
static bool add_result(LabReplay *replay, const json_t *line, Error *error) {
  Topic *t = topic_of(replay->memory, line);
  if (!t)
    return error_set(error,
                     "it does not describe the topic '%s': was it written by an older "
                     "mlp-lab?",
                     text_of(line, "topic"));
  LabTable *table = table_of(replay, t, line, error);
  if (!table) return false;
  snprintf(table->reason, sizeof table->reason, "%s", text_of(line, "reason"));
  return *table->reason || add_row(table, t, line, error);
}

/* The bytes and operations of a table, which stands before its rows. */
static bool add_problem(LabReplay *replay, const json_t *line, Error *error) {
  Topic *t = topic_of(replay->memory, line);
  if (!t) return error_set(error, "a problem is of no topic before it");
  LabTable *table = table_of(replay, t, line, error);
  if (!table) return false;
  table->bytes = number_of(line, "bytes");
  table->operations = number_of(line, "operations");
  return true;
}

static void set_machine(LabMachine *m, const json_t *line) {
  snprintf(m->gpu, sizeof m->gpu, "%s", text_of(line, "gpu"));
  snprintf(m->driver, sizeof m->driver, "%s", text_of(line, "driver"));
  snprintf(m->date, sizeof m->date, "%s", text_of(line, "date"));
  snprintf(m->command, sizeof m->command, "%s", text_of(line, "command"));
  snprintf(m->sources, sizeof m->sources, "%s", text_of(line, "sources"));
  m->copy = 1e9 * number_of(line, "copy_gb_per_s");
  m->link = 1e9 * number_of(line, "link_gb_per_s");
  m->fma = 1e9 * number_of(line, "fma_gflop_per_s");
}

/* ---- the record ----------------------------------------------------------------------------- */

static bool add_line(LabReplay *replay, const json_t *line, Error *error) {
  Memory *m = replay->memory;
  if (is(line, "lab-machine")) set_machine(&replay->machine, line);
  if (is(line, "lab-topic")) return add_topic(m, line, error);
  if (is(line, "lab-rung")) return add_rung(m, line, error);
  if (is(line, "lab-problem")) return add_problem(replay, line, error);
  return !is(line, "lab") || add_result(replay, line, error);
}

static bool read_line(LabReplay *replay, const char *text, Error *error) {
  Memory *m = replay->memory;
  json_t *line = json_loads(text, 0, NULL);
  if (!json_is_object(line)) {
    json_decref(line);
    return error_set(error, "it is no JSON object");
  }
  if (json_array_append_new(m->lines, line) != 0) return error_set(error, "no memory for it");
  return add_line(replay, line, error);
}

static bool read_lines(LabReplay *replay, FILE *file, const char *path, Error *error) {
  char *text = NULL;
  size_t room = 0;
  Error inner;
  bool good = true;
  for (int number = 1; good && getline(&text, &room, file) >= 0; number++) {
    good = read_line(replay, text, &inner);
    if (!good)
      error_set(error, "%s is no record of mlp-lab, line %d: %s", path, number, inner.text);
  }
  free(text);
  if (good && ferror(file)) return error_set(error, "cannot read %s: %s", path, strerror(errno));
  if (good && (!*replay->machine.gpu || replay->count == 0))
    return error_set(error, "%s is no record of mlp-lab: it has no results", path);
  return good;
}

bool lab_replay_open(LabReplay *replay, const char *path, Error *error) {
  *replay = (LabReplay){.machine = {.copy = NAN, .link = NAN, .fma = NAN}};
  FILE *file = fopen(path, "r");
  if (!file) return error_set(error, "cannot open %s: %s", path, strerror(errno));
  Memory *m = calloc(1, sizeof *m);
  replay->memory = m;
  if (m) m->lines = json_array();
  const bool good = m && m->lines ? read_lines(replay, file, path, error)
                                  : error_set(error, "no memory for %s", path);
  fclose(file);
  if (m) replay->topics = m->list;
  return good;
}

void lab_replay_close(LabReplay *replay) {
  Memory *m = replay->memory;
  for (int i = 0; i < replay->count; i++) lab_table_close(&replay->tables[i]);
  free(replay->tables);
  for (int i = 0; m && i < m->topics; i++) free(m->topic[i]);
  if (m) json_decref(m->lines);
  free(m);
  *replay = (LabReplay){0};
}
