#include "bench/bench.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

typedef struct {
  const char *key;
  size_t offset, size; /* in BenchLine; size 0: a number */
} Field;

#define TEXT(key, member)                                                                          \
  { key, offsetof(BenchLine, member), sizeof((BenchLine *)0)->member }
#define NUMBER(member)                                                                             \
  { #member, offsetof(BenchLine, member), 0 }

/* In the order in which they are written. */
/* clang-format off */
static const Field fields[] = {
    TEXT("case", kind),        TEXT("fusion", fusion),
    TEXT("peer", peer),        TEXT("name", name),
    NUMBER(batch),             TEXT("precision", precision),
    NUMBER(epochs),            NUMBER(ms_per_epoch),
    NUMBER(min_ms),            NUMBER(max_ms),
    NUMBER(us_per_step),       NUMBER(launches_per_step),
    NUMBER(bytes_per_step),    NUMBER(test_accuracy),
    NUMBER(chosen),            NUMBER(value),
    TEXT("unit", unit),        NUMBER(share),
    NUMBER(bound),             TEXT("reason", reason),
    TEXT("driver", driver),    NUMBER(cores),
    TEXT("date", date),        TEXT("command", command),
    TEXT("gpu", gpu),          TEXT("sources", sources),
};
/* clang-format on */
enum { FIELDS = sizeof fields / sizeof *fields };

BenchLine bench_line(const char *kind) {
  BenchLine line = {0};
  for (int i = 0; i < FIELDS; i++)
    if (!fields[i].size) *(double *)((char *)&line + fields[i].offset) = NAN;
  snprintf(line.kind, sizeof line.kind, "%s", kind);
  return line;
}

/* ---- writing ------------------------------------------------------------------------------ */

static bool write_line(const BenchLine *line, FILE *file, Error *error) {
  const char *before = "{";
  for (int i = 0; i < FIELDS; i++) {
    const char *at = (const char *)line + fields[i].offset;
    double number = NAN;
    if (!fields[i].size) memcpy(&number, at, sizeof number);
    if (fields[i].size ? !*at : !isfinite(number)) continue;
    fprintf(file, "%s\"%s\":", before, fields[i].key);
    if (fields[i].size)
      json_text(at, file);
    else
      fprintf(file, "%.9g", number);
    before = ",";
  }
  fputs("}\n", file);
  if (fflush(file) == 0 && !ferror(file)) return true;
  return error_set(error, "cannot write the results as JSON: %s", strerror(errno));
}

static bool append(BenchLog *log, const BenchLine *line, Error *error) {
  if (log->count == log->room) {
    const int room = log->room ? 2 * log->room : 64;
    BenchLine *lines = realloc(log->lines, (size_t)room * sizeof *lines);
    if (!lines) return error_set(error, "no memory for %d lines of results", room);
    log->lines = lines;
    log->room = room;
  }
  log->lines[log->count++] = *line;
  return true;
}

bool bench_add(BenchLog *log, const BenchLine *line, Error *error) {
  BenchLine whole = *line;
  if (!*whole.gpu) memcpy(whole.gpu, log->gpu, sizeof whole.gpu);
  if (!*whole.sources) memcpy(whole.sources, log->sources, sizeof whole.sources);
  return append(log, &whole, error) && (!log->json || write_line(&whole, log->json, error));
}

bool bench_add_value(BenchLog *log, const char *kind, const char *name, double value,
                     const char *unit, Error *error) {
  BenchLine line = bench_line(kind);
  snprintf(line.name, sizeof line.name, "%s", name);
  snprintf(line.unit, sizeof line.unit, "%s", unit);
  line.value = value;
  return bench_add(log, &line, error);
}

void bench_close(BenchLog *log) {
  free(log->lines);
  *log = (BenchLog){0};
}

double bench_value(const BenchLog *log, const char *kind, const char *name) {
  for (int i = 0; i < log->count; i++)
    if (strcmp(log->lines[i].kind, kind) == 0 && strcmp(log->lines[i].name, name) == 0)
      return log->lines[i].value;
  return NAN;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Each of these reads on from *at and returns false where that is not what it wants. */

static void skip_space(const char **at) {
  while (isspace((unsigned char)**at)) (*at)++;
}

static bool take(const char **at, char wanted) {
  skip_space(at);
  if (**at != wanted) return false;
  (*at)++;
  return true;
}

static unsigned hexadecimal(char digit) {
  return (unsigned)(isdigit((unsigned char)digit) ? digit - '0' : (digit | 32) - 'a' + 10);
}

/* The character of an escape; one beyond ASCII becomes '?'. */
static bool take_escape(const char **at, char *out) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  const char name = *(*at)++;
  if (name == 'u') {
    unsigned code = 0;
    for (int i = 0; i < 4; i++, (*at)++) {
      if (!isxdigit((unsigned char)**at)) return false;
      code = 16 * code + hexadecimal(**at);
    }
    *out = (char)(code && code < 128 ? code : '?');
    return true;
  }
  const char *found = name ? strchr(names, name) : NULL;
  if (!found) return false;
  *out = values[found - names];
  return true;
}

/* What does not fit is cut. */
static bool take_text(const char **at, char *text, size_t size) {
  size_t length = 0;
  if (!take(at, '"')) return false;
  while (**at != '"') {
    char c = **at;
    if (!c) return false;
    (*at)++;
    if (c == '\\' && !take_escape(at, &c)) return false;
    if (length + 1 < size) text[length++] = c;
  }
  (*at)++;
  text[length] = '\0';
  return true;
}

static bool take_word(const char **at, const char *word, double value, double *out) {
  const size_t length = strlen(word);
  if (strncmp(*at, word, length) != 0) return false;
  *at += length;
  *out = value;
  return true;
}

/* A number, or true, false, null as 1, 0, NAN. */
static bool take_number(const char **at, double *number) {
  skip_space(at);
  if (take_word(at, "null", NAN, number) || take_word(at, "true", 1, number) ||
      take_word(at, "false", 0, number))
    return true;
  if (**at != '-' && !isdigit((unsigned char)**at)) return false;
  char *end;
  *number = strtod(*at, &end);
  *at = end;
  return true;
}

static const Field *find_field(const char *key) {
  for (int i = 0; i < FIELDS; i++)
    if (strcmp(fields[i].key, key) == 0) return &fields[i];
  return NULL;
}

/* "key": value. A null leaves a text as it is. */
static bool take_pair(const char **at, BenchLine *line) {
  char key[64], text[512];
  double number = NAN;
  if (!take_text(at, key, sizeof key) || !take(at, ':')) return false;
  const Field *field = find_field(key);
  skip_space(at);
  if (**at == '"') {
    char *to = field && field->size ? (char *)line + field->offset : text;
    if (field && !field->size) return false;
    return take_text(at, to, field ? field->size : sizeof text);
  }
  if (!take_number(at, &number)) return false;
  if (field && field->size) return isnan(number) != 0;
  if (field) memcpy((char *)line + field->offset, &number, sizeof number);
  return true;
}

static bool parse_line(const char *text, BenchLine *line) {
  *line = bench_line("");
  const char *at = text;
  if (!take(&at, '{')) return false;
  if (!take(&at, '}')) {
    do {
      if (!take_pair(&at, line)) return false;
    } while (take(&at, ','));
    if (!take(&at, '}')) return false;
  }
  skip_space(&at);
  return !*at && *line->kind;
}

bool bench_read(BenchLog *log, const char *path, Error *error) {
  FILE *file = fopen(path, "r");
  if (!file) return error_set(error, "cannot read %s: %s", path, strerror(errno));
  char text[8192];
  bool good = true;
  for (int number = 1; good && fgets(text, sizeof text, file); number++) {
    BenchLine line;
    if (!text[strspn(text, " \t\r\n")]) continue;
    good = parse_line(text, &line)
               ? append(log, &line, error)
               : error_set(error, "%s, line %d: the line is not a JSON object of results", path,
                           number);
  }
  if (good && ferror(file)) good = error_set(error, "cannot read %s: %s", path, strerror(errno));
  fclose(file);
  return good;
}
