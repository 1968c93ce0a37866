#include "bench/trace.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/text.h"
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
  *trace = (Trace){0};
}

/* ---- names ---------------------------------------------------------------------------------- */

void trace_kernel_name(const char *demangled, char *name, size_t size) {
  static const char hidden[] = "(anonymous namespace)::";
  char text[1024], *at = text;
  snprintf(text, sizeof text, "%s", demangled);
  for (char *found; (found = strstr(text, hidden));)
    memmove(found, found + strlen(hidden), strlen(found + strlen(hidden)) + 1);
  text[strcspn(text, "<(")] = '\0';
  for (char *c = text; *c; c++)
    if (*c == ' ' || *c == ':') at = c + 1;
  char *last = strrchr(at, '_');
  if (last && last != at && strcmp(last, "_kernel") == 0) *last = '\0';
  while ((last = strchr(at, '_'))) *last = ' ';
  snprintf(name, size, "%s", at);
}

/* ---- saving --------------------------------------------------------------------------------- */

/* By start; a slice before an arrow in it, a long slice before a short one, a tail before its
   head. */
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

static json_t *line_of_event(const TraceEvent *e) {
  const bool slice = e->phase == 'X';
  if (e->phase == 'M')
    return json_pack("{ss si si ss s{ss}}", "ph", "M", "pid", e->level + 1, "tid", e->track, "name",
                     "thread_name", "args", "name", e->name);
  return json_pack(
      "{ss# si si so so* ss* ss* so* ss so*}", "ph", &e->phase, 1, "pid", e->level + 1, "tid",
      e->track, "ts", us_of(e->start), "dur", slice ? us_of(e->end - e->start) : NULL, "bp",
      e->phase == 'f' ? "e" : NULL, /* it ends at the slice that encloses it */
      "cat", slice ? NULL : "flow", "id", slice ? NULL : json_integer(e->arrow), "name", e->name,
      "args", slice && e->step >= 0 ? json_pack("{si}", "step", e->step) : NULL);
}

/* The texts that describe a trace. */
#define HEAD(key, member)                                                                          \
  { key, offsetof(Trace, member), sizeof((Trace *)0)->member }
static const struct {
  const char *key;
  size_t at, size;
} heads[] = {HEAD("gpu", machine.name), HEAD("driver", machine.driver), HEAD("date", machine.date),
             HEAD("network", network),  HEAD("command", command),       HEAD("sources", sources)};
enum { HEADS = sizeof heads / sizeof *heads };

/* The machine, the network and the levels of the record. */
static json_t *describe(const Trace *trace) {
  json_t *head = json_object(), *levels = json_array();
  for (int i = 0; i < HEADS; i++)
    record_text(head, heads[i].key, (const char *)trace + heads[i].at);
  for (const TraceLevel *l = trace->level; l < trace->level + trace->levels; l++)
    json_array_append_new(levels,
                          json_pack("{ss si sf sf}", "name", l->name, "range", l->range,
                                    "us_per_step", l->us, "recorded_us_per_step", l->recorded_us));
  json_object_set_new(head, "levels", levels);
  return head;
}

/* Writes a value, with so many digits, and what follows it. */
static void put(json_t *value, size_t digits, const char *behind, FILE *file) {
  json_dumpf(value, file, JSON_COMPACT | JSON_REAL_PRECISION(digits));
  fputs(behind, file);
  json_decref(value);
}

bool trace_save(Trace *trace, const char *path, Error *error) {
  AtomicFile output;
  trace_sort(trace);
  if (!atomic_file_open(&output, path, error)) return false;
  FILE *file = output.file;
  fputs("{\"displayTimeUnit\":\"ns\",\n\"otherData\":", file);
  put(describe(trace), 6, ",\n\"traceEvents\":[\n", file);
  for (int i = 0; i < trace->levels; i++) { /* processes have names and an order */
    put(json_pack("{ss si ss s{ss}}", "ph", "M", "pid", i + 1, "name", "process_name", "args",
                  "name", trace->level[i].name),
        0, ",\n", file);
    put(json_pack("{ss si ss s{si}}", "ph", "M", "pid", i + 1, "name", "process_sort_index", "args",
                  "sort_index", i + 1),
        0, i + 1 < trace->levels || trace->count ? ",\n" : "\n", file);
  }
  for (int i = 0; i < trace->count; i++)
    put(line_of_event(&trace->events[i]), 15, i + 1 < trace->count ? ",\n" : "\n", file);
  fputs("]}\n", file);
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

static bool load_level(Trace *trace, const json_t *from, Error *error) {
  TraceLevel level = {.range = count_of(from, "range", 1),
                      .us = number_of(from, "us_per_step"),
                      .recorded_us = number_of(from, "recorded_us_per_step")};
  snprintf(level.name, sizeof level.name, "%s", text_of(from, "name"));
  if (level.range < 1 || !*level.name || !(level.us > 0) || !(level.recorded_us > 0))
    return error_set(error, "level %d has no name, range or times", trace->levels + 1);
  if (trace->levels == TRACE_LEVELS)
    return error_set(error, "a trace has at most %d levels", TRACE_LEVELS);
  trace->level[trace->levels++] = level;
  return true;
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
  if (e.level < 0 || e.level >= trace->levels || e.track < 0 || e.start < 0 || duration < 0 ||
      e.arrow < 0)
    return error_set(error, "event %zu is on no track of a level, or at no time", number);
  trace_add(trace, e, name);
  return true;
}

static bool load(Trace *trace, const json_t *root, Error *error) {
  const json_t *head = json_object_get(root, "otherData"), *levels, *events, *entry;
  size_t i;
  levels = json_object_get(head, "levels");
  events = json_object_get(root, "traceEvents");
  if (!json_array_size(levels) || !json_array_size(events))
    return error_set(error, "it is not a trace that mlp-bench --trace has written");
  for (int h = 0; h < HEADS; h++)
    snprintf((char *)trace + heads[h].at, heads[h].size, "%s", text_of(head, heads[h].key));
  json_array_foreach(levels, i, entry) if (!load_level(trace, entry, error)) return false;
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
                                        {"us per step", 11, .key = "us"},
                                        {"recorded", 9, .key = "recorded_us"},
                                        {"cost", 7, .key = "cost"},
                                        {"kernels", 8, .key = "kernels", .format = "%.0f"},
                                        {"launches", 9, .key = "launches", .format = "%.0f"}};
  const Table table = {.file = file};
  Record record = {.lines = json_array()};
  fprintf(file,
          "A step of %s on %s, driver %s.\n"
          "Recording has a price: CUPTI's at every level, and the stamps' in the epoch kernel.\n\n",
          trace->network, trace->machine.name, trace->machine.driver);
  for (int i = 0; i < trace->levels; i++) {
    const TraceLevel *l = &trace->level[i];
    const TableCell cost = table_cell("%+.1f%%", 100 * (l->recorded_us / l->us - 1));
    json_array_append_new(
        record.lines,
        json_pack("{ss,ss,sf,sf,ss,si,si}", "case", "level", "name", l->name, "us", l->us,
                  "recorded_us", l->recorded_us, "cost", cost.text, "kernels",
                  trace_slices(trace, i, TRACE_GPU, TRACE_TEAM, TRACE_SHOWN), "launches",
                  trace_slices(trace, i, TRACE_HOST, TRACE_GPU, TRACE_SHOWN)));
  }
  const Lines rows = lines_of(&record, "level");
  table_print(&table, columns, sizeof columns / sizeof *columns, &rows);
  free(rows.of);
  json_decref(record.lines);
  if (*trace->missing) fprintf(file, "\nNot recorded: %s.\n", trace->missing);
  if (trace->backwards)
    fprintf(file, "\n%d arrows are left out: the clocks of two blocks disagree on them.\n",
            trace->backwards);
}
