/* Topics, sizes, and the lines of mlp-lab's records. */
#include "lab/harness.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"

/* A program that was built without CUDA has this empty list of topics. */
LAB_CUDA const LabTopic *const lab_topics[] = {NULL};

const LabTopic *lab_find(const char *name) {
  const LabTopic *const *topic = lab_topics;
  while (*topic && strcmp((*topic)->name, name) != 0) topic++;
  return *topic;
}

bool lab_belongs(const LabRung *rung, int problem) {
  return rung->problems == 0 || (rung->problems >> problem & 1);
}

int64_t lab_count(const LabTopic *topic, int problem, LabSize size, int array) {
  return topic->count ? topic->count(problem, size, array)
                      : size.dim[0] * size.dim[1] * size.dim[2];
}

int lab_width(const LabTopic *topic, int problem, int array) {
  static const int widths[] = {0, 4, 4, 2}; /* indexed by LabType */
  const LabProblem *p = &topic->problems[problem];
  return widths[array < 0 ? p->out : p->in[array]];
}

double lab_bytes(const LabTopic *topic, int problem, LabSize size) {
  double bytes = 0;
  if (topic->problems[problem].bytes) return topic->problems[problem].bytes(size);
  for (int a = -1; a < LAB_INPUTS; a++)
    if (lab_width(topic, problem, a))
      bytes += lab_width(topic, problem, a) * (double)lab_count(topic, problem, size, a);
  return bytes;
}

ShortText lab_refusal(const LabRung *rung, const LabCall *call) {
  const char *refused = rung->refuse ? rung->refuse(call) : NULL;
  const int needs = rung->capability, has = call->gpu->capability;
#ifdef ON_EMULATOR
  if (!refused && (rung->kind == LAB_LIBRARY || rung->kind == LAB_PART))
    refused = "a library has no sources that could be compiled for the emulator";
#elif defined WITHOUT_CUBLAS
  if (strncmp(rung->name, "cublas", strlen("cublas")) == 0) refused = WITHOUT_CUBLAS;
#endif
  if (needs > has)
    return text_format(
        "it needs compute capability %d.%d, but this GPU, or the code for it, has %d.%d",
        needs / 10, needs % 10, has / 10, has % 10);
  return text_format("%s", refused ? refused : "");
}

int lab_dims(const LabTopic *topic) {
  int dims = 1;
  for (const char *at = topic->dims; (at = strstr(at, " x ")); at++) dims++;
  return dims;
}

ShortText lab_size_text(const LabTopic *topic, LabSize size) {
  ShortText text = {""};
  for (int d = 0; d < lab_dims(topic); d++)
    text_append(text.text, "%s%lld", d ? "x" : "", (long long)size.dim[d]);
  return text;
}

/* Reads a size. Returns false if the text does not have the form of topic->dims. */
static bool read_size(const LabTopic *topic, const char *text, LabSize *size) {
  const int dims = lab_dims(topic);
  *size = (LabSize){{1, 1, 1}};
  for (int d = 0; d < dims; d++) {
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    size->dim[d] = strtoll(text, &end, 10); /* gives INT64_MAX if the number is too large */
    if (size->dim[d] < 1 || *end != (d < dims - 1 ? 'x' : '\0')) return false;
    text = end + 1;
  }
  return true;
}

bool lab_parse_size(const LabTopic *topic, const char *text, LabSize *size, Error *error) {
  static const int64_t MOST = (int64_t)1 << 40; /* maximum product of two dimensions */
  if (!read_size(topic, text, size))
    return error_set(error, "--size of %s must be '%s', as in %s, not '%s'", topic->name,
                     topic->dims, lab_size_text(topic, topic->sizes[0]).text, text);
  for (int a = 0; a < LAB_DIMS; a++)
    for (int b = 0; b < a; b++)
      if (size->dim[a] > MOST / size->dim[b])
        return error_set(error, "--size %s is larger than any memory", text);
  return true;
}

LabSize lab_small_size(const LabTopic *topic) {
  static const LabSize most[LAB_DIMS] = {{{1 << 16, 1, 1}}, {{1 << 16, 4096, 1}}, {{256, 256, 64}}};
  LabSize size = topic->tested;
  for (int d = 0; d < LAB_DIMS; d++) {
    const int64_t wanted = size.dim[d], limit = most[lab_dims(topic) - 1].dim[d];
    for (size.dim[d] = 1; 2 * size.dim[d] <= (wanted < limit ? wanted : limit);) size.dim[d] *= 2;
  }
  return size;
}

const json_t *lab_topic_line(const Record *record, const char *topic) {
  return record_find(record, "topic", "topic", topic);
}

static const char *const moved = "copy on the GPU, read + write",
                         *const moved_from_host = "copy to the GPU, pinned",
                         *const computed = "float32 multiply-adds alone";

const json_t *lab_roof(const Record *record, const json_t *topic, bool moves) {
  const bool on_host = number_of(topic, "on_host") > 0;
  const char *name = on_host ? moved_from_host : moved;
  return record_find(record, "ceiling", "name", moves ? name : computed);
}

const json_t *lab_ceiling(const Record *record, const json_t *topic) {
  return lab_roof(record, topic, text_is(topic, "unit", "GB/s"));
}

enum { WARP = 32, QUARTERS = 4, REGISTERS_AT_ONCE = 256, SHARED_AT_ONCE = 128 };

LabRoom lab_fitting(const LabRoom *has, const LabRoom *takes) {
  const int warps = (takes->threads + WARP - 1) / WARP,
            registers = (int)round_up((size_t)(takes->registers * WARP), REGISTERS_AT_ONCE),
            shared = (int)round_up((size_t)takes->shared, SHARED_AT_ONCE);
  return (LabRoom){.threads = has->threads / (warps * WARP),
                   .registers = QUARTERS * (has->registers / QUARTERS / registers) / warps,
                   .shared = shared ? has->shared / shared : INT_MAX,
                   .blocks = has->blocks};
}

ShortText lab_limit(const LabRoom *has, const LabRoom *takes) {
  const LabRoom fitting = lab_fitting(has, takes);
  const struct {
    const char *name;
    int blocks;
  } limits[] = {{"threads", fitting.threads},
                {"registers", fitting.registers},
                {"shared", fitting.shared},
                {"blocks", fitting.blocks}};
  ShortText text = {""};
  int least = INT_MAX;
  for (size_t i = 0; i < LENGTH(limits); i++) least = min_int(least, limits[i].blocks);
  for (size_t i = 0; i < LENGTH(limits); i++)
    if (limits[i].blocks == least)
      text_append(text.text, "%s%s", *text.text ? ", " : "", limits[i].name);
  return text;
}

double lab_occupancy(const LabRoom *has, const LabRoom *takes, int blocks) {
  const int warps = (takes->threads + WARP - 1) / WARP;
  return 100.0 * blocks * warps * WARP / has->threads;
}

/* Returns the rung with this name, or NULL. Sets *number to its place in the topic, from 1. */
static json_t *find_rung(const json_t *topic, const char *name, size_t *number) {
  *number = 0;
  foreach_in (rung, json_object_get(topic, "rungs")) {
    ++*number;
    if (text_is(rung, "rung", name)) return rung;
  }
  return NULL;
}

/* Returns the ms of a kind's first timed row or, if `best` is true, fastest row; NAN if none. */
static double ms_of(const json_t *rows, const char *kind, bool best) {
  double found = NAN;
  foreach_in (row, rows)
    if (text_is(row, "kind", kind) && (best || isnan(found)))
      found = fmin(found, number_of(row, "ms")); /* fmin ignores NAN */
  return found;
}

/* Adds the rung's fields, the rate and ratios to each row. Fails if a rung is unknown. */
static bool complete(const Record *record, json_t *table, Error *error) {
  const json_t *topic = lab_topic_line(record, text_of(table, "topic")),
               *rows = json_object_get(table, "rows");
  const json_t *ceiling = lab_ceiling(record, topic);
  const double bytes = number_of(table, "bytes"), operations = number_of(table, "operations"),
               amount = text_is(topic, "unit", "GB/s") ? bytes : operations,
               theory = number_of(record_find(record, "theory", "name", text_of(ceiling, "name")),
                                  "value"),
               moves = number_of(lab_roof(record, topic, true), "value"),
               computes = number_of(lab_roof(record, topic, false), "value");
  foreach_in (row, rows) {
    size_t number;
    json_t *rung = find_rung(topic, text_of(row, "rung"), &number);
    if (!rung)
      return error_set(error, "%s has no rung '%s'", text_of(topic, "topic"), text_of(row, "rung"));
    record_number(row, "number", (double)number);
    record_text(row, "size", text_of(table, "size"));
    json_object_update(row, rung);
    if (!*text_of(row, "check")) record_text(row, "check", LAB_RIGHT);
  }
  const double first = ms_of(rows, "rung", false), library = ms_of(rows, "library", true);
  foreach_in (row, rows) {
    const double ms = number_of(row, "ms"), rate = amount / ms / 1e6;
    record_number(row, "rate", rate);
    record_number(row, "percent", 100 * rate / number_of(ceiling, "value"));
    record_number(row, "percent_theory", 100 * rate / theory);
    record_number(row, "times_first", first / ms);
    record_number(row, "times_library", library / ms);
    if (isnan(ms)) continue;
    record_number(row, "intensity", operations / bytes);
    record_number(row, "ms_bytes", bytes / moves / 1e6);
    record_number(row, "ms_operations", operations / computes / 1e6);
  }
  return true;
}

static const char *const kinds[] = {"rung", "library", "part"}; /* indexed by LabKind */

static json_t *flag(bool value) {
  return value ? json_true() : NULL;
}

void lab_add_topic(Record *record, const LabTopic *topic) {
  const LabTopic *t = topic;
  json_t *rungs = json_array();
  foreach_rung (rung, t)
    json_array_append_new(rungs, json_pack("{ss ss ss}", "rung", rung->name, "kind",
                                           kinds[rung->kind], "lesson", rung->lesson));
  record_add(record, json_pack("{ss ss ss ss ss so* so* ss* ss* so}", "case", "topic", "topic",
                               t->name, "title", t->title, "dims", t->dims, "unit",
                               t->unit == LAB_GB_PER_S ? "GB/s" : "GFLOP/s", "on_host",
                               flag(t->on_host), "shows_ulp", flag(t->shows_ulp), "predicted_name",
                               t->predicted_name, "point_name", t->point_name, "rungs", rungs));
}

json_t *lab_table(const LabTopic *topic, int problem, LabSize size) {
  const LabProblem *p = &topic->problems[problem];
  json_t *rows = json_array();
  foreach_rung (rung, topic)
    for (int i = 0; lab_belongs(rung, problem) && i < (rung->points ? rung->point_count : 1); i++) {
      json_t *row = json_pack("{ss ss}", "rung", rung->name, "check", LAB_UNCHECKED);
      if (rung->points) record_number(row, "point", (double)rung->points[i]);
      json_array_append_new(rows, row);
    }
  json_t *table = json_pack("{ss ss ss ss}", "case", "table", "topic", topic->name, "problem",
                            p->name, "size", lab_size_text(topic, size).text);
  record_number(table, "bytes", lab_bytes(topic, problem, size));
  record_number(table, "operations", p->operations(size));
  json_object_set_new(table, "rows", rows);
  return table;
}

bool lab_table_good(const json_t *table) {
  foreach_in (row, json_object_get(table, "rows"))
    if (text_is(row, "check", LAB_WRONG)) return false;
  return true;
}

bool lab_levels_good(const Record *record) {
  return !record_find(record, "level", "check", LAB_WRONG);
}

void lab_add_table(Record *record, json_t *table) {
  Error unknown;
  record_add(record, table);
  if (record_good(record, &unknown)) complete(record, table, &unknown);
}

void lab_add_all(Record *record) {
  for (const LabTopic *const *t = lab_topics; *t; t++) {
    lab_add_topic(record, *t);
    for (int p = 0; p < (*t)->problem_count; p++)
      lab_add_table(record, lab_table(*t, p, (*t)->sizes[0]));
  }
}

/* Completes the line if it is a table. Fails if no earlier line describes the table's topic. */
static bool check_line(const Record *record, json_t *line, Error *error) {
  if (!text_is(line, "case", "table")) return true;
  return lab_topic_line(record, text_of(line, "topic"))
             ? complete(record, line, error)
             : error_set(error, "it does not describe the topic '%s'", text_of(line, "topic"));
}

bool lab_read(Record *record, const char *path, Error *error) {
  return record_read(record, path, "mlp-lab", check_line, error) &&
         ((record_first(record, "machine") &&
           (record_first(record, "table") || record_first(record, "device") ||
            record_first(record, "level"))) ||
          error_set(error, "%s is not a record of mlp-lab: it has no results", path)) &&
         record_make_printable(record, error);
}
