/* The CSV reader on random and damaged files, against a parser that is too simple to be wrong. */
#include "support/csv.h"

enum { REFERENCE_COLUMNS = 80 };

/* One line by the rules of the header, character by character, nothing clever. */
typedef struct {
  size_t fields;                /* before the line's end or its first error */
  int value[REFERENCE_COLUMNS]; /* of a field: -1 is not an integer below 2^16, or empty */
  char first;                   /* the first character of the first field, or 0 */
  size_t bad_quote;             /* the column of a quote that is wrong, or 0 */
  bool named;                   /* a field behind the first begins as no number does */
  bool carriage_return;         /* that does not end the line */
} ReferenceLine;

static int reference_value(const char *text, size_t length) {
  const char *point = length > 0 && *text != '.' ? memchr(text, '.', length) : NULL;
  if (point) { /* zeros may follow it */
    const size_t digits = (size_t)(point - text);
    while (length > digits + 1 && text[length - 1] == '0') length--;
    if (length == digits + 1) length = digits;
  }
  int value = length > 0 ? 0 : -1;
  for (size_t i = 0; i < length && value >= 0; i++) {
    value = text[i] >= '0' && text[i] <= '9' ? value * 10 + text[i] - '0' : -1;
    if (value > 65535) value = -1;
  }
  return value;
}

static char separator; /* of the file's fields, by its first line */

static bool is_blank(char c) {
  return (c == ' ' || c == '\t') && c != separator;
}

static char separator_of(const char *text, size_t length) {
  return memchr(text, ',', length) ? ',' : memchr(text, '\t', length) ? '\t' : ' ';
}

static ReferenceLine reference_line(const char *at, const char *end) {
  ReferenceLine line = {0};
  while (at < end && is_blank(*at)) at++;
  bool more = at < end && *at != '\r';
  while (more) {
    static char field[1 << 19];
    size_t length = 0;
    while (at < end && is_blank(*at)) at++;
    if (at < end && *at == '"') {
      for (at++; at < end && (*at != '"' || (at + 1 < end && at[1] == '"')); at++) {
        if (*at == '"') at++;
        field[length++] = *at;
      }
      const bool closed = at < end;
      if (closed) at++;
      while (at < end && is_blank(*at)) at++;
      if (!closed || (at < end && *at != separator && *at != '\r'))
        line.bad_quote = line.fields + 1;
    } else {
      for (; at < end && *at != separator && *at != '\r'; at++) {
        if (*at == '"') line.bad_quote = line.fields + 1;
        field[length++] = *at;
      }
      while (length > 0 && is_blank(field[length - 1])) length--;
    }
    if (line.bad_quote) return line;
    if (line.fields == 0 && length > 0) line.first = field[0];
    if (line.fields > 0 && length > 0) line.named |= !strchr("0123456789+-.", field[0]);
    if (line.fields < REFERENCE_COLUMNS) line.value[line.fields] = reference_value(field, length);
    line.fields++;
    more = at < end && *at == separator;
    if (more) at++;
  }
  for (; at < end; at++)
    if (*at != '\r' && !is_blank(*at)) line.carriage_return = true;
  return line;
}

/* What must be read, and where the error is: line 0: none that has a line. */
static Table expected;
static size_t bad_line, bad_column;
static bool failed;

static void fail_at(size_t line, size_t column) {
  failed = true;
  bad_line = line;
  bad_column = column;
}

/* The first line; returns false if it is not a row. */
static bool reference_first_line(const ReferenceLine *line, const char *text, size_t length) {
  while (length > 0 && text[length - 1] == '\r') length--;
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)text[i] < 32 && text[i] != '\t') fail_at(1, 0);
  if (failed) return false;
  if (line->bad_quote) fail_at(1, line->bad_quote);
  if (line->fields < 2 || (line->first == 0 && line->named)) fail_at(1, line->bad_quote);
  expected.inputs = line->fields - 1;
  return !failed && (line->first == 0 || strchr("0123456789+-.", line->first));
}

static void reference_row(const ReferenceLine *line, size_t number) {
  const size_t columns = expected.inputs + 1;
  for (size_t i = 0; i < line->fields && i < columns; i++) {
    if (line->value[i] < 0 || line->value[i] >= (i == 0 ? 10 : 256)) {
      fail_at(number, i + 1);
      return;
    }
    if (i == 0)
      expected.labels[expected.rows] = (uint16_t)line->value[i];
    else
      expected.pixels[expected.rows * expected.inputs + i - 1] = (uint8_t)line->value[i];
  }
  if (line->bad_quote) {
    fail_at(number, line->bad_quote);
  } else if (line->fields > 0 && line->fields != columns) {
    fail_at(number, 0);
  } else {
    expected.rows += line->fields > 0;
    if (line->carriage_return) fail_at(number, 0);
  }
}

static void reference_read(const char *text, size_t length) {
  const char *end = text + length;
  expected = new_table(length + REFERENCE_COLUMNS, 1);
  bad_line = bad_column = 0;
  failed = length >= 4 && memcmp(text, "\0\0\10", 3) == 0;
  size_t number = 0, blank = 0;
  for (const char *at = text; at < end && !failed;) {
    const char *feed = memchr(at, '\n', (size_t)(end - at));
    const char *stop = feed ? feed : end;
    if (number == 0) separator = separator_of(at, (size_t)(stop - at));
    const ReferenceLine line = reference_line(at, stop);
    number++;
    const bool empty = line.fields == 0 && !line.bad_quote && !line.carriage_return;
    if (number == 1 && !reference_first_line(&line, at, (size_t)(stop - at))) {
      blank = 0; /* a header, or an error */
    } else if (empty) {
      if (blank == 0) blank = number;
    } else if (blank > 0) {
      fail_at(blank, 0);
    } else {
      reference_row(&line, number);
    }
    at = stop + (feed ? 1 : 0);
  }
  if (expected.rows == 0) failed = true;
}

static void compare_with_reference(const char *text, size_t length, int threads) {
  write_file(text, length);
  reference_read(text, length);
  read_table(threads, 0, 1 + draw(2000));
  const char *column = bad_column ? text_printf(", column %zu", bad_column) : "";
  const char *place = bad_line ? text_printf("x.csv, line %zu%s: ", bad_line, column) : "x.csv";
  if (failed != (got.error.text[0] != '\0') || got.rows != expected.rows ||
      (failed && !strstr(got.error.text, place))) {
    print_error("got %zu rows, \"%s\"; wanted %zu rows, %s\n", got.rows, got.error.text,
                expected.rows, failed ? place : "no error");
    print_error("%.*s\n", (int)(length < 400 ? length : 400), text);
    fail();
  }
  if (got.rows > 0) assert_read_rows(&expected);
}

/* Small valid files with up to two characters changed, inserted or removed. */
TEST(test_random_damage) {
  static const char alphabet[] = "0159,,\"\"\n\n\r\r x\0";
  random_state = 9;
  for (int i = 0; i < 3000; i++) {
    Table table;
    Text text = draw_file(1 + draw(6), 1 + draw(4), &table);
    for (unsigned damage = draw(3); damage > 0 && text.length > 1; damage--) {
      char *at = text.text + draw((unsigned)text.length);
      const size_t behind = (size_t)(text.text + text.length - at);
      const size_t kind = draw(3), cut = kind < 2, put = kind != 1;
      memmove(at + put, at + cut, behind - cut);
      if (put) *at = alphabet[draw(sizeof alphabet - 1)];
      text.length += put - cut;
    }
    compare_with_reference(text.text, text.length, 1);
  }
}

/* Files of several chunks, damaged in one place, read by several threads. */
TEST(test_random_damage_in_long_files) {
  static const char alphabet[] = "0159,\"\n\r x";
  random_state = 10;
  Table table;
  Text text = draw_file(6000, 60, &table);
  for (int i = 0; i < 24; i++) {
    char *at = text.text + draw((unsigned)text.length);
    const char before = *at;
    *at = alphabet[draw(sizeof alphabet - 1)];
    compare_with_reference(text.text, text.length, thread_counts[draw(LENGTH(thread_counts))]);
    *at = before;
  }
}
