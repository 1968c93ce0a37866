#include "bench/trace.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "base/sizes.h"
#include "base/output.h"
#include "measure/table.h"

/* ---- adding --------------------------------------------------------------------------------- */

TraceEvent *trace_add(Trace *trace, TraceEvent event, const char *name) {
  if (trace->count == trace->room) {
    const int room = trace->room ? 2 * trace->room : 256;
    TraceEvent *events = realloc(trace->events, (size_t)room * sizeof *events);
    trace->no_memory |= !events;
    if (!events) return NULL;
    trace->events = events;
    trace->room = room;
  }
  TraceEvent *added = &trace->events[trace->count++];
  *added = event;
  snprintf(added->name, sizeof added->name, "%s", name);
  return added;
}

void trace_add_level(Trace *trace, const char *name, int range, double us_per_step,
                     double recorded_us_per_step) {
  if (!trace->head) trace->head = json_object();
  if (!trace_levels(trace)) json_object_set_new(trace->head, "levels", json_array());
  json_array_append_new(json_object_get(trace->head, "levels"),
                        json_pack("{ss si sf sf}", "name", name, "range", range, "us_per_step",
                                  us_per_step, "recorded_us_per_step", recorded_us_per_step));
}

json_t *trace_level(const Trace *trace, int level) {
  return json_array_get(json_object_get(trace->head, "levels"), (size_t)level);
}

int trace_levels(const Trace *trace) {
  return (int)json_array_size(json_object_get(trace->head, "levels"));
}

/* Tracks keep their order when events are sorted. */
void trace_add_track(Trace *trace, int level, int track, const char *name) {
  const int64_t start = INT64_MIN + trace->count;
  trace_add(trace, (TraceEvent){'M', level, track, -1, 0, start, start, ""}, name);
}

void trace_add_slice(Trace *trace, int level, int track, int step, int64_t start, int64_t end,
                     const char *name) {
  if (end > start) trace_add(trace, (TraceEvent){'X', level, track, step, 0, start, end, ""}, name);
}

void trace_add_arrow(Trace *trace, int level, int from_track, int64_t from, int to_track,
                     int64_t to, const char *name) {
  const int number = ++trace->arrows;
  trace_add(trace, (TraceEvent){'s', level, from_track, -1, number, from, from, ""}, name);
  trace_add(trace, (TraceEvent){'f', level, to_track, -1, number, to, to, ""}, name);
}

bool trace_whole(const Trace *trace, Error *error) {
  return !trace->no_memory ||
         error_set(error, "no memory for %d events of a trace", 2 * trace->room);
}

const TraceEvent *trace_next(const Trace *trace, const TraceEvent *e, int level, int from, int to) {
  for (e = e ? e + 1 : trace->events; e < trace->events + trace->count; e++)
    if (e->phase == 'X' && e->level == level && e->track >= from && e->track < to) return e;
  return NULL;
}

int trace_slices(const Trace *trace, int level, int from, int to, int step) {
  int count = 0;
  for (const TraceEvent *e = NULL; (e = trace_next(trace, e, level, from, to));)
    count += e->step == step;
  return count;
}

void trace_close(Trace *trace) {
  free(trace->events);
  json_decref(trace->head);
  *trace = (Trace){0};
}

/* ---- names ---------------------------------------------------------------------------------- */

void trace_kernel_name(const char *demangled, char *name, size_t size) {
  static const char hidden[] = "(anonymous namespace)::";
  const char *at = demangled, *end = demangled;
  for (; *end && *end != '<' && (*end != '(' || strncmp(end, hidden, strlen(hidden)) == 0); end++)
    if (*end == ' ' || *end == ':') at = end + 1;
  snprintf(name, size, "%.*s", (int)(end - at), at);
  char *last = strrchr(name, '_');
  if (last && last != name && strcmp(last, "_kernel") == 0) *last = '\0';
  while ((last = strchr(name, '_'))) *last = ' ';
}

/* ---- saving --------------------------------------------------------------------------------- */

/* By start; a slice before an arrow in it, a long before a short one, a tail before its head. */
static int compare(const void *left, const void *right) {
  const TraceEvent *a = left, *b = right;
#define BY(member)                                                                                 \
  if (a->member != b->member) return a->member < b->member ? -1 : 1
  BY(start);
  if (a->phase != b->phase) return a->phase == 'X' || b->phase == 'f' ? -1 : 1;
  if (a->end != b->end) return a->end > b->end ? -1 : 1;
  BY(level);
  BY(track);
  BY(arrow);
#undef BY
  return 0;
}

void trace_sort(Trace *trace) {
  if (trace->count) qsort(trace->events, (size_t)trace->count, sizeof *trace->events, compare);
}

/* Nanoseconds as microseconds. */
static json_t *us_of(int64_t ns) {
  return json_real((double)ns / 1e3);
}

/* A line that names a track or, track NULL, is of a whole level. */
static json_t *name_line(int level, json_t *track, const char *what, const char *key,
                         json_t *value) {
  return json_pack("{ss si so* ss s{so}}", "ph", "M", "pid", level + 1, "tid", track, "name", what,
                   "args", key, value);
}

static json_t *line_of_event(const TraceEvent *e) {
  const bool slice = e->phase == 'X';
  if (e->phase == 'M')
    return name_line(e->level, json_integer(e->track), "thread_name", "name", json_string(e->name));
  return json_pack(
      "{ss# si si so so* ss* ss* so* ss so*}", "ph", &e->phase, 1, "pid", e->level + 1, "tid",
      e->track, "ts", us_of(e->start), "dur", slice ? us_of(e->end - e->start) : NULL, "bp",
      e->phase == 'f' ? "e" : NULL, /* it ends at the slice that encloses it */
      "cat", slice ? NULL : "flow", "id", slice ? NULL : json_integer(e->arrow), "name", e->name,
      "args", slice && e->step >= 0 ? json_pack("{si}", "step", e->step) : NULL);
}

/* Writes a line behind the one before. */
static void put(json_t *line, const char **before, FILE *file) {
  fputs(*before, file);
  json_dumpf(line, file, JSON_COMPACT | JSON_REAL_PRECISION(15));
  json_decref(line);
  *before = ",\n";
}

bool trace_save(Trace *trace, const char *path, Error *error) {
  AtomicFile output;
  const char *before = "\n";
  trace_sort(trace);
  if (!atomic_file_open(&output, path, error)) return false;
  FILE *file = output.file;
  fputs("{\"displayTimeUnit\":\"ns\",\n\"otherData\":", file);
  json_dumpf(trace->head, file, JSON_COMPACT | JSON_REAL_PRECISION(6));
  fputs(",\n\"traceEvents\":[", file);
  for (int i = 0; i < trace_levels(trace); i++) { /* processes have names and an order */
    json_t *name = json_object_get(trace_level(trace, i), "name");
    put(name_line(i, NULL, "process_name", "name", json_incref(name)), &before, file);
    put(name_line(i, NULL, "process_sort_index", "sort_index", json_integer(i + 1)), &before, file);
  }
  foreach_event (e, trace) put(line_of_event(e), &before, file);
  fputs("\n]}\n", file);
  return atomic_file_close(&output, true, error);
}

/* ---- loading -------------------------------------------------------------------------------- */

/* A whole number from low to 1e9, or -1. */
static int count_of(const json_t *object, const char *key, int low) {
  const double value = number_of(object, key);
  return value >= low && value <= 1e9 ? (int)value : -1;
}

/* Nanoseconds; -1 where there is no such time of less than a day. */
static int64_t time_of(const json_t *object, const char *key) {
  const double us = number_of(object, key);
  return us >= 0 && us < 86400e6 ? llround(1e3 * us) : -1;
}

/* A name of a track, a slice, or half of an arrow; what else a trace may hold is passed over. */
static bool load_event(Trace *trace, const json_t *from, size_t number, Error *error) {
  const char *phase = text_of(from, "ph"), *name = text_of(from, "name");
  const json_t *arguments = json_object_get(from, "args");
  TraceEvent e = {.phase = *phase,
                  .level = count_of(from, "pid", 1) - 1,
                  .track = count_of(from, "tid", 1),
                  .step = count_of(arguments, "step", 0),
                  .start = time_of(from, "ts")};
  if (strcmp(phase, "M") == 0) {
    if (strcmp(name, "thread_name") == 0)
      trace_add_track(trace, e.level, e.track, text_of(arguments, "name"));
    return true;
  }
  if (strlen(phase) != 1 || !strchr("Xsf", *phase)) return true;
  const int64_t duration = e.phase == 'X' ? time_of(from, "dur") : 0;
  e.arrow = e.phase == 'X' ? 0 : count_of(from, "id", 1);
  e.end = e.start + duration;
  if (e.level < 0 || e.level >= trace_levels(trace) || e.track < 0 || e.start < 0 || duration < 0 ||
      e.arrow < 0)
    return error_set(error, "event %zu is on no track of a level, or at no time", number);
  trace_add(trace, e, name);
  return true;
}

static bool load(Trace *trace, const json_t *root, Error *error) {
  const json_t *events = json_object_get(root, "traceEvents"), *level, *entry;
  size_t i;
  trace->head = json_incref(json_object_get(root, "otherData"));
  if (!trace_levels(trace) || !json_array_size(events))
    return error_set(error, "it is not a trace that mlp-bench --trace has written");
  if (trace_levels(trace) > TRACE_LEVELS)
    return error_set(error, "a trace has at most %d levels", TRACE_LEVELS);
  for (int l = 0; (level = trace_level(trace, l)); l++)
    if (!*text_of(level, "name") || count_of(level, "range", 1) < 0 ||
        !(number_of(level, "us_per_step") > 0) || !(number_of(level, "recorded_us_per_step") > 0))
      return error_set(error, "level %d has no name, range or times", l + 1);
  json_array_foreach(events, i, entry) if (!load_event(trace, entry, i + 1, error)) return false;
  return trace_whole(trace, error);
}

/* For json_load_callback, which takes what is no size for a failure. */
static size_t read_some(void *buffer, size_t size, void *file) {
  const int count = gzread(file, buffer, (unsigned)size);
  return count < 0 ? (size_t)-1 : (size_t)count;
}

bool trace_load(Trace *trace, const char *path, Error *error) {
  json_error_t fault;
  Error reason;
  gzFile file = gzopen(path, "rb");
  if (!file) return error_set(error, "cannot read %s: %s", path, strerror(errno));
  json_t *root = json_load_callback(read_some, file, 0, &fault);
  gzclose(file);
  if (!root) return error_set(error, "%s, line %d: %s", path, fault.line, fault.text);
  const bool good = load(trace, root, &reason);
  json_decref(root);
  return good || error_set(error, "%s: %s", path, reason.text);
}

/* ---- printing ------------------------------------------------------------------------------- */

void trace_print(const Trace *trace, FILE *file) {
  static const TableColumn columns[] = {{"level", 7, true, .key = "name"},
                                        {"us per step", 11, .key = "us_per_step"},
                                        {"recorded", 9, .key = "recorded_us_per_step"},
                                        {"cost", 7, .key = "cost", .format = "%+.1f%%"},
                                        {"kernels", 8, .key = "kernels", .format = "%.0f"},
                                        {"launches", 9, .key = "launches", .format = "%.0f"}};
  const Table table = {.file = file};
  Record record = {.lines = json_array()};
  fprintf(file,
          "A step of %s on %s, driver %s.\n"
          "Recording has a price: CUPTI's at every level, and the stamps' in the epoch kernel.\n\n",
          text_of(trace->head, "network"), text_of(trace->head, "gpu"),
          text_of(trace->head, "driver"));
  for (int i = 0; i < trace_levels(trace); i++) {
    json_t *line = json_copy(trace_level(trace, i));
    record_text(line, "case", "level");
    record_number(
        line, "cost",
        100 * (number_of(line, "recorded_us_per_step") / number_of(line, "us_per_step") - 1));
    record_number(line, "kernels", trace_slices(trace, i, TRACE_GPU, TRACE_TEAM, TRACE_SHOWN));
    record_number(line, "launches", trace_slices(trace, i, TRACE_HOST, TRACE_GPU, TRACE_SHOWN));
    json_array_append_new(record.lines, line);
  }
  const Lines rows = lines_of(&record, "level");
  table_print(&table, columns, LENGTH(columns), &rows);
  free(rows.of);
  json_decref(record.lines);
  if (*trace->missing) fprintf(file, "\nNot recorded: %s.\n", trace->missing);
  if (trace->backwards)
    fprintf(file, "\n%d arrows are left out: the clocks of two blocks disagree on them.\n",
            trace->backwards);
}
