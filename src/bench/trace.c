#include "bench/trace.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/json.h"
#include "base/output.h"
#include "measure/table.h"

/* ---- adding --------------------------------------------------------------------------------- */

/* Returns the array with room for one more than `count`, NULL if there is no memory. */
static void *grown(void *array, int count, int *room, size_t size, Error *error) {
  const int more = count < *room ? *room : *room ? 2 * *room : 256;
  void *larger = more > *room ? realloc(array, (size_t)more * size) : array;
  if (larger)
    *room = more;
  else
    error_set(error, "no memory for %d events of a trace", more);
  return larger;
}

static bool add_event(Trace *trace, const TraceEvent *event, const char *name, Error *error) {
  void *events = grown(trace->events, trace->count, &trace->room, sizeof *event, error);
  if (!events) return false;
  trace->events = events;
  TraceEvent *added = &trace->events[trace->count++];
  *added = *event;
  snprintf(added->name, sizeof added->name, "%s", name);
  return true;
}

bool trace_add_level(Trace *trace, const TraceLevel *level, Error *error) {
  if (trace->levels == TRACE_LEVELS)
    return error_set(error, "a trace has at most %d levels", TRACE_LEVELS);
  trace->level[trace->levels++] = *level;
  return true;
}

bool trace_add_track(Trace *trace, int level, int track, const char *name, Error *error) {
  void *tracks =
      grown(trace->tracks, trace->track_count, &trace->track_room, sizeof *trace->tracks, error);
  if (!tracks) return false;
  trace->tracks = tracks;
  TraceTrack *added = &trace->tracks[trace->track_count++];
  *added = (TraceTrack){.level = level, .track = track};
  snprintf(added->name, sizeof added->name, "%s", name);
  return true;
}

bool trace_add_slice(Trace *trace, int level, int track, int step, int64_t start, int64_t end,
                     const char *name, Error *error) {
  const TraceEvent slice = {'X', level, track, step, 0, start, end, ""};
  return end <= start || add_event(trace, &slice, name, error);
}

bool trace_add_arrow(Trace *trace, int level, int from_track, int64_t from, int to_track,
                     int64_t to, const char *name, Error *error) {
  const int number = ++trace->arrows;
  const TraceEvent tail = {'s', level, from_track, -1, number, from, from, ""};
  const TraceEvent head = {'f', level, to_track, -1, number, to, to, ""};
  return add_event(trace, &tail, name, error) && add_event(trace, &head, name, error);
}

void trace_close(Trace *trace) {
  free(trace->events);
  free(trace->tracks);
  *trace = (Trace){0};
}

/* ---- names ---------------------------------------------------------------------------------- */

void trace_kernel_name(const char *demangled, char *name, size_t size) {
  static const char anonymous[] = "(anonymous namespace)::";
  const char *at = demangled, *hidden;
  while ((hidden = strstr(at, anonymous)) && hidden < at + strcspn(at, "<"))
    at = hidden + sizeof anonymous - 1;
  const char *end = at + strcspn(at, "<(");
  for (const char *c = at; c < end; c++)
    if (*c == ' ' || *c == ':') at = c + 1;
  snprintf(name, size, "%.*s", (int)(end - at), at);
  char *last = strrchr(name, '_');
  if (last && last != name && strcmp(last, "_kernel") == 0) *last = '\0';
  for (char *c = name; *c; c++)
    if (*c == '_') *c = ' ';
}

/* ---- saving --------------------------------------------------------------------------------- */

/* By start; a slice before an arrow in it, a long slice before a short one, a tail before its
   head. */
static int compare(const void *left, const void *right) {
  const TraceEvent *a = left, *b = right;
  if (a->start != b->start) return a->start < b->start ? -1 : 1;
  if (a->phase != b->phase) return a->phase == 'X' || b->phase == 'f' ? -1 : 1;
  if (a->end != b->end) return a->end > b->end ? -1 : 1;
  if (a->level != b->level) return a->level < b->level ? -1 : 1;
  if (a->track != b->track) return a->track < b->track ? -1 : 1;
  return a->arrow < b->arrow ? -1 : a->arrow > b->arrow;
}

/* Microseconds, to the nanosecond. */
static void put_time(const char *key, int64_t ns, FILE *file) {
  fprintf(file, ",\"%s\":%lld.%03d", key, (long long)(ns / 1000), (int)(ns % 1000));
}

static void put_event(const TraceEvent *e, FILE *file) {
  fprintf(file, "{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d", e->phase, e->level + 1, e->track);
  put_time("ts", e->start, file);
  if (e->phase == 'X') put_time("dur", e->end - e->start, file);
  if (e->phase == 'f') fputs(",\"bp\":\"e\"", file); /* it ends at the slice that encloses it */
  if (e->phase != 'X') fprintf(file, ",\"cat\":\"flow\",\"id\":%d", e->arrow);
  fputs(",\"name\":", file);
  json_text(e->name, file);
  if (e->phase == 'X' && e->step >= 0) fprintf(file, ",\"args\":{\"step\":%d}", e->step);
  putc('}', file);
}

static void put_text(const char *key, const char *text, FILE *file) {
  fprintf(file, "\"%s\":", key);
  json_text(text, file);
  putc(',', file);
}

/* The texts that describe a trace. */
#define HEAD(member)                                                                               \
  { #member, offsetof(Trace, member), sizeof((Trace *)0)->member }
static const struct {
  const char *key;
  size_t at, size;
} heads[] = {HEAD(gpu), HEAD(driver), HEAD(date), HEAD(network), HEAD(command), HEAD(sources)};
enum { HEADS = sizeof heads / sizeof *heads };

/* Writes what was recorded, and on what. */
static void put_head(const Trace *trace, FILE *file) {
  fputs("{\"displayTimeUnit\":\"ns\",\n\"otherData\":{", file);
  for (int i = 0; i < HEADS; i++) put_text(heads[i].key, (const char *)trace + heads[i].at, file);
  fputs("\"levels\":[", file);
  for (int i = 0; i < trace->levels; i++) {
    const TraceLevel *level = &trace->level[i];
    fprintf(file, "%s\n{", i ? "," : "");
    put_text("name", level->name, file);
    fprintf(file, "\"range\":%d,\"us_per_step\":%.6g,\"recorded_us_per_step\":%.6g}", level->range,
            level->us, level->recorded_us);
  }
  fputs("]},\n\"traceEvents\":[", file);
}

/* id: a process, and a track of it. */
static void put_name(const char *id, const char *kind, const char *name, FILE *file) {
  fprintf(file, "{\"ph\":\"M\",\"pid\":%s,\"name\":\"%s\",\"args\":{\"name\":", id, kind);
  json_text(name, file);
  fputs("}}", file);
}

/* Names of processes and tracks, and their order. */
static void put_names(const Trace *trace, FILE *file) {
  for (int i = 0; i < trace->levels; i++) {
    const TableCell id = table_cell("%d", i + 1);
    fputs(i ? ",\n" : "\n", file);
    put_name(id.text, "process_name", trace->level[i].name, file);
    fprintf(file,
            ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":"
            "{\"sort_index\":%d}}",
            i + 1, i + 1);
  }
  for (int i = 0; i < trace->track_count; i++) {
    const TraceTrack *t = &trace->tracks[i];
    fputs(",\n", file);
    put_name(table_cell("%d,\"tid\":%d", t->level + 1, t->track).text, "thread_name", t->name,
             file);
  }
}

bool trace_save(Trace *trace, const char *path, Error *error) {
  AtomicFile output;
  if (trace->count) qsort(trace->events, (size_t)trace->count, sizeof *trace->events, compare);
  if (!atomic_file_open(&output, path, error)) return false;
  put_head(trace, output.file);
  put_names(trace, output.file);
  for (int i = 0; i < trace->count; i++) {
    fputs(i || trace->levels ? ",\n" : "\n", output.file);
    put_event(&trace->events[i], output.file);
  }
  fputs("\n]}\n", output.file);
  const bool good = !ferror(output.file) || atomic_file_failed(&output, error);
  return atomic_file_close(&output, good, error);
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
  return trace_add_level(trace, &level, error);
}

/* A name of a track, a slice, or half of an arrow; what else a trace may hold is passed over. */
static bool load_event(Trace *trace, const json_t *from, Error *error) {
  const char *phase = text_of(from, "ph"), *name = text_of(from, "name");
  const int level = count_of(from, "pid", 1) - 1, track = count_of(from, "tid", 1);
  if (strcmp(phase, "M") == 0)
    return strcmp(name, "thread_name") != 0 ||
           trace_add_track(trace, level, track, text_of(json_object_get(from, "args"), "name"),
                           error);
  if (strlen(phase) != 1 || !strchr("Xsf", *phase)) return true;
  TraceEvent event = {
      .phase = *phase, .level = level, .track = track, .start = time_of(from, "ts")};
  const int64_t duration = event.phase == 'X' ? time_of(from, "dur") : 0;
  event.step = count_of(json_object_get(from, "args"), "step", 0);
  event.arrow = event.phase == 'X' ? 0 : count_of(from, "id", 1);
  event.end = event.start + duration;
  if (level < 0 || level >= trace->levels || track < 0 || event.start < 0 || duration < 0 ||
      event.arrow < 0)
    return error_set(error, "event %d is on no track of a level, or at no time", trace->count + 1);
  return add_event(trace, &event, name, error);
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
  json_array_foreach(events, i, entry) if (!load_event(trace, entry, error)) return false;
  return true;
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

static int count_slices(const Trace *trace, int level, int track, int step) {
  int count = 0;
  for (int i = 0; i < trace->count; i++) {
    const TraceEvent *e = &trace->events[i];
    count += e->phase == 'X' && e->level == level && e->step == step &&
             (e->track == TRACE_HOST ? track == TRACE_HOST
                                     : track == TRACE_GPU && e->track < TRACE_TEAM);
  }
  return count;
}

void trace_print(const Trace *trace, FILE *file) {
  static const TableColumn columns[] = {{"level", 7, true, .key = "name"},
                                        {"us per step", 11, .key = "us"},
                                        {"recorded", 9, .key = "recorded_us"},
                                        {"cost", 7, .key = "cost"},
                                        {"kernels", 8, .key = "kernels", .digits = WHOLE},
                                        {"launches", 9, .key = "launches", .digits = WHOLE}};
  const Table table = {.file = file};
  Record record = {.lines = NULL};
  Error ignored;
  fprintf(file,
          "A step of %s on %s, driver %s.\n"
          "Recording has a price: CUPTI's at every level, and the stamps' in the epoch kernel.\n\n",
          trace->network, trace->gpu, trace->driver);
  for (int i = 0; i < trace->levels; i++) {
    const TraceLevel *l = &trace->level[i];
    json_t *line = record_line("level");
    record_text(line, "name", l->name);
    record_number(line, "us", l->us);
    record_number(line, "recorded_us", l->recorded_us);
    record_text(line, "cost", table_cell("%+.1f%%", 100 * (l->recorded_us / l->us - 1)).text);
    record_number(line, "kernels", count_slices(trace, i, TRACE_GPU, TRACE_SHOWN));
    record_number(line, "launches", count_slices(trace, i, TRACE_HOST, TRACE_SHOWN));
    record_add(&record, line, false, &ignored);
  }
  const Lines rows = lines_of(&record, "level");
  table_print(&table, columns, sizeof columns / sizeof *columns, &rows);
  free(rows.of);
  record_close(&record, true, &ignored);
  if (*trace->missing) fprintf(file, "\nNot recorded: %s.\n", trace->missing);
  if (trace->backwards)
    fprintf(file, "\n%d arrows are left out: the clocks of two blocks disagree on them.\n",
            trace->backwards);
}
