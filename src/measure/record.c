#include "measure/record.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/sizes.h"

json_t *record_line(const char *kind) {
  json_t *line = json_object();
  record_text(line, "case", kind);
  return line;
}

void record_text(json_t *line, const char *key, const char *text) {
  if (text)
    json_object_set_new(line, key, json_string(text_is_utf8(text) ? text : text_shown(text).text));
}

/* Stores a whole number as an integer, which JSON shows without a decimal point. */
void record_number(json_t *line, const char *key, double value) {
  const bool is_whole = fabs(value) < 1e15 && value == floor(value);
  if (isfinite(value))
    json_object_set_new(line, key, is_whole ? json_integer((json_int_t)value) : json_real(value));
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

static bool failed(const char *what, const char *path, Error *error) {
  return error_set(error, "cannot %s %s: %s", what, path, strerror(errno));
}

enum { DIGITS = 7 }; /* of a number in a record's file */

static bool write_line(const Record *record, const json_t *line, Error *error) {
  FILE *file = record->output.file;
  json_dumpf(line, file, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
  putc('\n', file);
  return (fflush(file) == 0 && !ferror(file)) || atomic_file_failed(&record->output, error);
}

bool record_create(Record *record, const char *path, Error *error) {
  return !path || atomic_file_open(&record->output, path, error);
}

/* Calls `visit` for a value and for every value in it. Returns false if memory runs out or a call
   returns false. */
static bool visit_all(json_t *root, bool (*visit)(json_t *value)) {
  json_t *values = json_array(); /* values to visit: each adds the values in it */
  bool good = json_array_append(values, root) == 0;
  for (size_t i = 0; good && i < json_array_size(values); i++) {
    json_t *value = json_array_get(values, i), *inner;
    const char *key;
    good = visit(value);
    json_object_foreach (value, key, inner) good = good && json_array_append(values, inner) == 0;
    foreach_in (element, value) good = good && json_array_append(values, element) == 0;
  }
  json_decref(values);
  return good;
}

static bool append(Record *record, json_t *line, Error *error) {
  if (!record->lines) record->lines = json_array();
  return json_array_append_new(record->lines, line) == 0 ||
         error_set(error, "no memory for a line of results");
}

/* Gives a number the digits that the file has. Otherwise a table that is printed now could differ,
   in the last digit that it shows, from the same table when it is printed from the file. */
static bool round_number(json_t *value) {
  if (!json_is_real(value)) return true;
  const ShortText text = text_format("%.*g", DIGITS, json_real_value(value));
  return json_real_set(value, strtod(text.text, NULL)) == 0;
}

void record_add(Record *record, json_t *line) {
  Error *failure = &record->failure;
  if (!*failure->text && !visit_all(line, round_number))
    error_set(failure, "no memory for a line of results");
  if (*failure->text)
    json_decref(line);
  else if (append(record, line, failure) && record->output.file)
    write_line(record, line, failure);
}

bool record_good(const Record *record, Error *error) {
  if (*record->failure.text) *error = record->failure;
  return !*record->failure.text;
}

/* Returns the command line of this process. */
static ShortText own_command(void) {
  ShortText words = {""};
  FILE *file = fopen("/proc/self/cmdline", "r");
  const size_t length = file ? fread(words.text, 1, sizeof words.text - 1, file) : 0;
  if (file) fclose(file);
  for (size_t i = 0; i + 1 < length; i++)
    if (!words.text[i]) words.text[i] = ' ';
  return words;
}

void record_add_machine(Record *record, const char *device, const char *driver, const char *name) {
  const ShortText command = own_command();
  const time_t now = time(NULL);
  char today[32];
  strftime(today, sizeof today, "%Y-%m-%d", gmtime(&now));
  json_t *line = record_line("machine");
  const char *const texts[][2] = {
      {"name", name},  {"device", device},        {"driver", driver},
      {"date", today}, {"command", command.text}, {"sources", getenv("SOURCES")}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    record_text(line, texts[i][0], texts[i][1]);
  record_number(line, "cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
  record_add(record, line);
}

bool record_close(Record *record, bool good, Error *error) {
  good = good && record_good(record, error);
  if (record->output.file) good = atomic_file_close(&record->output, good, error);
  json_decref(record->lines);
  *record = (Record){0};
  return good;
}

static bool read_line(Record *record, const char *text, RecordCheck *check, Error *error) {
  json_t *line = json_loads(text, 0, NULL);
  if (json_is_object(line) ? !check || check(record, line, error)
                           : error_set(error, "it is not a JSON object"))
    return append(record, line, error);
  json_decref(line);
  return false;
}

bool record_read(Record *record, const char *path, const char *program, RecordCheck *check,
                 Error *error) {
  FILE *file = fopen(path, "r");
  if (!file) return failed("open", path, error);
  static char text[1 << 17]; /* one line; longer lines are refused */
  Error inner;
  bool good = true;
  for (int number = 1; good && fgets(text, sizeof text, file); number++) {
    const bool is_whole = strchr(text, '\n') || feof(file);
    if (!is_whole) error_set(&inner, "it is too long");
    good = is_whole && (!text[strspn(text, " \t\r\n")] || read_line(record, text, check, &inner));
    if (!good)
      error_set(error, "%s is not a record of %s, line %d: %s", path, program, number, inner.text);
  }
  if (good && ferror(file)) good = failed("read", path, error);
  fclose(file);
  return good;
}

/* Replaces a text by its printable form. Returns false if memory runs out. */
static bool make_text_printable(json_t *text) {
  const size_t length = text_printable(NULL, 0, json_string_value(text));
  if (length == json_string_length(text)) return true;
  char *shown = malloc(length + 1);
  if (!shown) return false;
  text_printable(shown, length + 1, json_string_value(text));
  const bool good = json_string_set(text, shown) == 0;
  free(shown);
  return good;
}

static bool make_printable(json_t *value) {
  return !json_is_string(value) || make_text_printable(value);
}

bool record_make_printable(Record *record, Error *error) {
  return visit_all(record->lines, make_printable) || error_set(error, "no memory for a record");
}

const json_t *record_next(const Record *record, size_t *at, const char *kind,
                          const char *const *pairs) {
  const json_t *line;
  while ((line = json_array_get(record->lines, (*at)++))) {
    const char *const *p = pairs;
    while (*p && (!p[1] || text_is(line, p[0], p[1]))) p += 2;
    if (!*p && text_is(line, "case", kind)) break;
  }
  return line;
}

void lines_add(Lines *lines, const json_t *line) {
  const json_t **longer = realloc(lines->of, (size_t)(lines->count + 1) * sizeof *longer);
  if (!longer) return;
  lines->of = longer;
  lines->of[lines->count++] = line;
}

Lines lines_of(const Record *record, const char *kind) {
  Lines lines = {NULL, 0};
  foreach_of (line, record, kind, "reason", "") lines_add(&lines, line);
  return lines;
}

void record_print_machine(const Record *record, const char *title, FILE *file, bool markdown) {
  const json_t *m = record_first(record, "machine");
  const char *quote = markdown ? "`" : "", *driver = text_of(m, "driver");
  if (!m) return;
  fprintf(file, "%s%s on %s\n\n", markdown ? "# " : "", title, text_of(m, "device"));
  fprintf(file, "- %s%s%s; ", text_of(m, "device"), *driver ? ", driver " : "", driver);
  if (number_of(m, "cores") > 0) fprintf(file, "%g CPU cores; ", number_of(m, "cores"));
  fprintf(file, "%s\n", text_of(m, "date"));
  if (*text_of(m, "name")) fprintf(file, "- %s\n", text_of(m, "name"));
  foreach_of (line, record, "machine", NULL)
    fprintf(file, "- command %s%s%s\n", quote, text_shown(text_of(line, "command")).text, quote);
  foreach_of (line, record, "peers", NULL)
    fprintf(file, "- peers %s: %s%s%s\n", text_shown(text_of(line, "name")).text, quote,
            text_shown(text_of(line, "command")).text, quote);
  if (*text_of(m, "sources"))
    fprintf(file, "- sources %s%s%s\n", quote, text_of(m, "sources"), quote);
}

void table_heading(FILE *file, bool markdown, const char *text) {
  fprintf(file, markdown ? "\n## %s\n\n" : "\n%s\n\n", text);
}

static ShortText cell_of(const Table *t, const TableColumn *c, const json_t *row) {
  if (c->cell) return c->cell(&(TableCell){row, t->record});
  const char *text = json_string_value(json_object_get(row, c->key));
  if (text || c->left) return text_shown(text ? text : "");
  const double value = number_of(row, c->key) / (c->per != 0 ? c->per : 1);
  const char *format = c->small && value < 0.0995 ? c->small : c->format;
  return format && isfinite(value) ? text_format(format, value) : text_of_number(value);
}

enum { MAX_COLUMNS = 32 };

/* Prints a row or, if `row` is NULL, the titles. A line of plain text does not end with blanks. */
static void put_row(const Table *t, const TableColumn *columns, int count, const json_t *row) {
  static const char *const between[2][2] = {{"", "  "}, {"| ", " | "}};
  for (int i = 0; i < count; i++) {
    const TableColumn *c = &columns[i];
    const bool ends = c->left && !t->markdown && i == count - 1;
    const int width = c->left ? -c->width : c->width;
    const ShortText cell = row ? cell_of(t, c, row) : text_format("%s", c->title);
    fputs(between[t->markdown][i > 0], t->file);
    fprintf(t->file, "%*s", ends ? 0 : width, cell.text);
  }
  fputs(t->markdown ? " |\n" : "\n", t->file);
}

/* Returns true if the two rows differ in a key of t->group. */
static bool is_break(const Table *t, const json_t *a, const json_t *b) {
  for (const char *const *key = t->group; key && *key; key++)
    if (!line_same(a, b, *key)) return true;
  return false;
}

/* Returns true if the column belongs to the table and has a value in some row. */
static bool is_shown(const Table *t, const TableColumn *c, const Lines *rows) {
  bool any = c->cell || rows->count == 0;
  foreach_line (row, rows) any = any || *text_of(*row, c->key) || isfinite(number_of(*row, c->key));
  return any && (!c->in || c->in & t->which);
}

void table_print(const Table *t, const TableColumn *columns, int all, const Lines *rows) {
  TableColumn shown[MAX_COLUMNS] = {{0}};
  int count = 0;
  for (const TableColumn *c = columns; c < columns + all; c++) {
    if (!is_shown(t, c, rows)) continue;
    TableColumn *to = &shown[count++];
    *to = *c;
    to->width = (int)strlen(c->title);
    foreach_line (row, rows) to->width = max_int(to->width, (int)strlen(cell_of(t, c, *row).text));
  }
  put_row(t, shown, count, NULL);
  for (int i = 0; t->markdown && i < count; i++)
    fputs(shown[i].left ? "| :--- " : "| ---: ", t->file);
  if (t->markdown) fputs("|\n", t->file);
  for (int r = 0; r < rows->count; r++) {
    if (!t->markdown && r && is_break(t, rows->of[r], rows->of[r - 1])) putc('\n', t->file);
    put_row(t, shown, count, rows->of[r]);
  }
}
