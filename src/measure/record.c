#include "measure/record.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- lines ---------------------------------------------------------------------------------- */

json_t *record_line(const char *kind) {
  json_t *line = json_object();
  record_text(line, "case", kind);
  return line;
}

/* Unchecked: what is not UTF-8 is replaced when the line is written. */
void record_text(json_t *line, const char *key, const char *text) {
  if (text) json_object_set_new_nocheck(line, key, json_string_nocheck(text));
}

void record_number(json_t *line, const char *key, double value) {
  if (isfinite(value)) json_object_set_new(line, key, json_real(value));
}

const char *text_of(const json_t *line, const char *key) {
  const char *text = json_string_value(json_object_get(line, key));
  return text ? text : "";
}

double number_of(const json_t *line, const char *key) {
  const json_t *value = json_object_get(line, key);
  if (json_is_boolean(value)) return json_is_true(value);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

bool text_is(const json_t *line, const char *key, const char *text) {
  return strcmp(text_of(line, key), text) == 0;
}

bool line_same(const json_t *a, const json_t *b, const char *key) {
  const double x = number_of(a, key), y = number_of(b, key);
  return text_is(a, key, text_of(b, key)) && (x == y || (isnan(x) && isnan(y)));
}

bool line_is(const json_t *line, const char *kind) {
  return text_is(line, "case", kind);
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool failed(const char *what, const char *path, Error *error) {
  return error_set(error, "cannot %s %s: %s", what, path, strerror(errno));
}

bool file_create(const char *path, FILE **file, Error *error) {
  *file = path ? fopen(path, "w") : NULL;
  return *file || !path || failed("create", path, error);
}

bool file_close(const char *path, FILE *file, bool good, Error *error) {
  if (!file) return good;
  const bool written = !ferror(file);
  if ((fclose(file) == 0 && written) || !good) return good;
  return failed("write", path, error);
}

static bool write_line(const Record *record, json_t *line, Error *error) {
  const char *key, *before = "{";
  json_t *value;
  json_object_foreach(line, key, value) {
    fprintf(record->file, "%s\"%s\":", before, key);
    if (json_is_string(value))
      json_text(json_string_value(value), record->file);
    else if (json_is_number(value))
      fprintf(record->file, "%.9g", json_number_value(value));
    else
      fputs(json_is_true(value) ? "true" : "null", record->file);
    before = ",";
  }
  fputs("}\n", record->file);
  return (fflush(record->file) == 0 && !ferror(record->file)) ||
         failed("write", record->path, error);
}

bool record_create(Record *record, const char *path, Error *error) {
  record->path = path;
  return file_create(path, &record->file, error);
}

static bool append(Record *record, json_t *line, Error *error) {
  if (!record->lines) record->lines = json_array();
  return json_array_append_new(record->lines, line) == 0 ||
         error_set(error, "no memory for a line of results");
}

void record_add(Record *record, json_t *line, bool measured) {
  Error error;
  if (measured) {
    record_text(line, "gpu", *record->machine.name ? record->machine.name : NULL);
    record_text(line, "sources", record->sources);
  }
  if (record->failed ||
      (append(record, line, &error) && (!record->file || write_line(record, line, &error))))
    return;
  record->failed = true;
  record->failure = error;
}

bool record_good(const Record *record, Error *error) {
  if (record->failed) *error = record->failure;
  return !record->failed;
}

bool record_close(Record *record, bool good, Error *error) {
  good = file_close(record->path, record->file, good && record_good(record, error), error);
  json_decref(record->lines);
  *record = (Record){0};
  return good;
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool read_line(Record *record, const char *text, RecordCheck *check, Error *error) {
  json_t *line = json_loads(text, 0, NULL);
  if (json_is_object(line) ? !check || check(record, line, error)
                           : error_set(error, "it is no JSON object"))
    return append(record, line, error);
  json_decref(line);
  return false;
}

bool record_read(Record *record, const char *path, const char *program, RecordCheck *check,
                 Error *error) {
  FILE *file = fopen(path, "r");
  if (!file) return failed("open", path, error);
  static char text[1 << 16]; /* a line */
  Error inner;
  bool good = true;
  for (int number = 1; good && fgets(text, sizeof text, file); number++) {
    const bool is_whole = strchr(text, '\n') || feof(file);
    if (!is_whole) error_set(&inner, "it is too long");
    good = is_whole && (!text[strspn(text, " \t\r\n")] || read_line(record, text, check, &inner));
    if (!good)
      error_set(error, "%s is no record of %s, line %d: %s", path, program, number, inner.text);
  }
  if (good && ferror(file)) good = failed("read", path, error);
  fclose(file);
  return good;
}

/* ---- choosing lines ------------------------------------------------------------------------- */

const json_t *record_next(const Record *record, size_t *at, const char *kind,
                          const char *const *pairs) {
  const json_t *line;
  while ((line = json_array_get(record->lines, (*at)++))) {
    const char *const *p = pairs;
    while (*p && (!p[1] || text_is(line, p[0], p[1]))) p += 2;
    if (!*p && line_is(line, kind)) break;
  }
  return line;
}

const json_t *record_first(const Record *record, const char *kind) {
  return record_find(record, kind, NULL);
}

Lines lines_open(const Record *record) {
  return (Lines){calloc(json_array_size(record->lines) + 1, sizeof(json_t *)), 0};
}

void lines_add(Lines *lines, const json_t *line) {
  if (lines->of) lines->of[lines->count++] = line;
}

Lines lines_of(const Record *record, const char *kind) {
  Lines lines = lines_open(record);
  foreach_of (line, record, kind, "reason", "") lines_add(&lines, line);
  return lines;
}

int lines_values(const Lines *lines, const char *key, double above, double *values, int most) {
  int count = 0;
  for (double last = above, next; count < most; values[count++] = last = next) {
    next = INFINITY;
    foreach_line (line, lines)
      if (number_of(*line, key) > last) next = fmin(next, number_of(*line, key));
    if (isinf(next)) break;
  }
  return count;
}
