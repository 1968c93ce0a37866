#include "data/csv_chunk.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/formats.h"
#include "base/sizes.h"

#define UNENDED_QUOTE "a quoted field that does not end on its line"

bool csv_check_text(const char *name, const char *line, size_t length, Error *error) {
  if (!format_check(name, line, length, FORMAT_ROWS, error)) return false;
  while (length > 0 && (line[length - 1] == CSV_LF || line[length - 1] == CSV_CR)) length--;
  for (size_t i = 0; i < length; i++) {
    const unsigned char byte = (unsigned char)line[i];
    if (byte < CSV_SPACE && byte != CSV_TAB) {
      return error_set(error, "%s, line 1: byte %zu is 0x%02x: no text with LF or CRLF lines", name,
                       i + 1, byte);
    }
  }
  return true;
}

/* ---- a chunk ------------------------------------------------------------------------------- */

void chunk_parser_open(ChunkParser *parser, const CsvColumns *columns) {
  parser->columns = columns;
  csv_init(&parser->csv, CSV_OPTIONS);
  csv_set_delim(&parser->csv, (unsigned char)columns->separator);
}

Error *chunk_fault(Chunk *chunk, uint64_t line, size_t column) {
  chunk->fault_line = line;
  chunk->fault_column = column;
  return &chunk->fault;
}

/* Records a fault. The rest of the row is then ignored. */
static Error *fault_at(ChunkParser *parser, uint64_t line, size_t column) {
  parser->pixel = parser->row_end = parser->row;
  return chunk_fault(parser->chunk, line, column);
}

static size_t fields(const ChunkParser *parser) {
  return parser->passed + parser->extra + (size_t)(parser->pixel - parser->row);
}

/* Parses a number that has only digits and is below `limit`. */
static inline bool parse_integer(const unsigned char *text, size_t length, unsigned limit,
                                 unsigned *value) {
  unsigned sum = 0;
  for (size_t i = 0; i < length; i++) {
    const unsigned digit = text[i] - (unsigned)'0';
    sum = sum * 10 + digit;
    if (digit > 9 || sum >= limit) return false;
  }
  *value = sum;
  return length > 0;
}

/* Parses a number in the notation of %f or %e. Returns -1 if the text is not a number. */
static double parse_float(const unsigned char *text, size_t length) {
  char copy[32], *end;
  if (length == 0 || length >= sizeof copy || *text < '0' || *text > '9') return -1;
  memcpy(copy, text, length);
  copy[length] = '\0';
  if (strspn(copy, "0123456789.eE+-") != length) return -1;
  const double value = strtod(copy, &end);
  return *end ? -1 : value;
}

/* Parses a whole number below `limit`. The text may have decimals, such as 5.0. */
static bool parse_whole(const unsigned char *text, size_t length, unsigned limit, unsigned *value) {
  if (parse_integer(text, length, limit, value)) return true;
  const double number = parse_float(text, length);
  if (!(number >= 0 && number < limit)) return false;
  *value = (unsigned)number;
  return *value == number;
}

/* Sets *value to the class whose name is text[length], in upper or lower case if `any_case`. */
static bool find_class(const char *names, const char *text, size_t length, bool any_case,
                       unsigned *value) {
  *value = 0;
  for (const char *name = names; name; name = strchr(name, '\n'), name += name != NULL, ++*value)
    if (strcspn(name, "\n") == length &&
        (any_case ? strncasecmp(name, text, length) : memcmp(name, text, length)) == 0)
      return true;
  return false;
}

/* Sets *value to the class whose name is the English word of a number, such as eight. */
static bool find_word_of(const char *names, unsigned number, unsigned *value) {
  static const char *const words[] = {"zero", "one", "two",   "three", "four",
                                      "five", "six", "seven", "eight", "nine"};
  return number < LENGTH(words) &&
         find_class(names, words[number], strlen(words[number]), true, value);
}

/* Sets *value to the class of a label, which is a number or a class name. */
static bool parse_label(const CsvColumns *c, const unsigned char *field, size_t length,
                        unsigned *value, Chunk *chunk) {
  unsigned number;
  if (!c->words && parse_whole(field, length, (unsigned)c->classes, value)) return true;
  if (find_class(c->names, (const char *)field, length, false, value)) return chunk->words = true;
  return c->words && parse_whole(field, length, DATASET_MAX_CLASSES, &number) &&
         find_word_of(c->names, number, value) && (chunk->mapped = true);
}

ShortText csv_list_names(const char *names) {
  enum { ROOM = 100 };
  const char *last = strrchr(names, '\n');
  ShortText text = {""};
  for (const char *name = names; *name && strlen(text.text) < ROOM; name += *name == '\n') {
    const int length = (int)strcspn(name, "\n");
    text_append(text.text, "%s%.*s", *text.text ? ", " : "", length, name);
    name += length;
    if (!*name) last = NULL;
  }
  if (last) text_append(text.text, ", ... %s", last + 1);
  return text_shown(text.text);
}

static void not_an_integer(ChunkParser *parser, const void *field, size_t length) {
  const unsigned char *text = field;
  const bool is_label = parser->columns->judged && fields(parser) == parser->columns->label_at;
  Error *fault = fault_at(parser, parser->chunk->lines, fields(parser) + 1);
  if (memchr(text, CSV_LF, length)) {
    error_set(fault, UNENDED_QUOTE);
    return;
  }
  enum { SHOWN = 24 };
  char shown[SHOWN + 1];
  const size_t count = min_size(length, SHOWN);
  memcpy(shown, text, count);
  shown[count] = '\0';
  for (size_t i = 0; i < count; i++)
    if (shown[i] < ' ' || shown[i] > '~') shown[i] = '?';
  unsigned number;
  if (is_label && parser->columns->words &&
      parse_whole(text, length, DATASET_MAX_CLASSES, &number)) {
    error_set(fault,
              "'%s' is a number, but the labels in training were words: %s; write these, or give "
              "--names in the order of the numbers",
              shown, csv_list_names(parser->columns->names).text);
    return;
  }
  const int most = is_label ? parser->columns->classes - 1 : UINT8_MAX;
  const char *rest = count < length ? "..." : "";
  error_set(fault, "'%s%s' is not %s from 0 to %d", shown, rest,
            is_label ? "a label" : "an integer", most);
}

/* Records a fault if no row may begin here. Returns false after any fault. */
static bool begin_row(ChunkParser *parser) {
  const Chunk *chunk = parser->chunk;
  if (chunk->blank != CSV_NONE)
    error_set(fault_at(parser, chunk->blank, 0), CSV_BLANK_LINE);
  else if (parser->carriage)
    error_set(fault_at(parser, chunk->lines, 0), "a carriage return inside the line");
  return !chunk_failed(chunk);
}

/* Notes whether the ignored labels of the chunk's rows count up, or are all the same number. */
static void see_ignored(Chunk *chunk, const unsigned char *text, size_t length) {
  enum { DIGITS = 18 };
  IgnoredLabels *seen = &chunk->ignored;
  uint64_t value = 0;
  bool whole = length > 0 && length <= DIGITS;
  for (size_t i = 0; whole && i < length; i++) {
    whole = isdigit(text[i]);
    value = 10 * value + (uint64_t)(text[i] - '0');
  }
  if (chunk->rows == 0) *seen = (IgnoredLabels){value, value, true, true};
  seen->counts_up &= whole && (chunk->rows == 0 || value == seen->last + 1);
  seen->constant &= whole && value == seen->first;
  seen->last = value;
}

/* Lets pixels follow up to the next stop or the end of the row. */
static void expect_pixels(ChunkParser *parser) {
  const CsvColumns *c = parser->columns;
  parser->row_end =
      parser->row + (parser->passed < c->stops ? c->stop[parser->passed].pixels : c->inputs);
}

/* Keeps a row's number, which may be any text. */
static void keep_id(Chunk *chunk, const unsigned char *text, size_t length) {
  if (!chunk->ids) return;
  chunk->ids[chunk->rows] = chunk->id_end;
  if (length > 0) memcpy(chunk->id_text + chunk->id_end, text, length);
  chunk->id_end += (uint32_t)length;
  chunk->id_text[chunk->id_end++] = '\0';
}

static void take_label(ChunkParser *parser, const unsigned char *text, size_t length) {
  const CsvColumns *c = parser->columns;
  Chunk *chunk = parser->chunk;
  unsigned value = 0;
  if ((c->judged && !parse_label(c, text, length, &value, chunk)) || memchr(text, CSV_LF, length)) {
    not_an_integer(parser, text, length);
    return;
  }
  if (!c->judged) see_ignored(chunk, text, length);
  chunk->labels[chunk->rows] = (uint16_t)value;
}

/* Handles columns that are not pixels, surplus fields and the start of a row. Returns false if the
   field is a pixel. */
static bool take_stop(ChunkParser *parser, const unsigned char *text, size_t length) {
  const CsvColumns *c = parser->columns;
  Chunk *chunk = parser->chunk;
  const bool begins = fields(parser) == 0;
  if (chunk_failed(chunk) || (begins && !begin_row(parser))) return true;
  if (begins) {
    chunk->labels[chunk->rows] = 0;
    expect_pixels(parser);
    if (parser->row_end != parser->row) return false;
  }
  if (parser->passed == c->stops || parser->extra) {
    parser->extra++; /* end_row will report that there are too many fields */
    return true;
  }
  const ColumnStop *stop = &c->stop[parser->passed];
  if (stop->kind == STOP_LABEL)
    take_label(parser, text, length);
  else if (memchr(text, CSV_LF, length))
    not_an_integer(parser, text, length);
  else if (stop->kind == STOP_ID)
    keep_id(chunk, text, length);
  if (chunk_failed(chunk)) return true;
  parser->passed++;
  expect_pixels(parser);
  return true;
}

/* Handles the fields that take_field does not handle. Ignores all fields after a fault. */
__attribute__((noinline)) static void take_other(ChunkParser *parser, const unsigned char *text,
                                                 size_t length) {
  unsigned value;
  if (parser->pixel == parser->row_end && take_stop(parser, text, length)) return;
  if (parse_whole(text, length, 256, &value))
    *parser->pixel++ = (uint8_t)value;
  else
    not_an_integer(parser, text, length);
}

/* libcsv calls this for each of MNIST's 50 million fields. Most are integer pixels, tried first. */
static void take_field(void *text, size_t length, void *context) {
  ChunkParser *parser = context;
  unsigned value;
  if (parser->pixel != parser->row_end && parse_integer(text, length, 256, &value))
    *parser->pixel++ = (uint8_t)value;
  else
    take_other(parser, text, length);
}

/* libcsv calls this at a carriage return, a line feed or the end of the text. */
static void end_row(int terminator, void *context) {
  ChunkParser *parser = context;
  Chunk *chunk = parser->chunk;
  const size_t count = fields(parser), columns = parser->columns->columns;
  if (chunk_failed(chunk)) return;
  if (count > 0 && count != columns) {
    error_set(fault_at(parser, chunk->lines, 0), "%zu field%s, but line 1 has %zu", count,
              count == 1 ? "" : "s", columns);
    return;
  }
  if (count > 0) {
    chunk->rows++;
    parser->row_on_line = true;
    parser->row = parser->pixel = parser->row_end;
    parser->passed = parser->extra = 0;
  }
  if (terminator == CSV_CR) {
    parser->carriage = true;
    return;
  }
  if (!parser->row_on_line && chunk->blank == CSV_NONE) chunk->blank = chunk->lines;
  parser->row_on_line = parser->carriage = false;
  chunk->lines++;
}

void chunk_parse(ChunkParser *parser, Chunk *chunk, const char *text, size_t length) {
  parser->chunk = chunk;
  parser->row = parser->pixel = parser->row_end = chunk->pixels;
  parser->passed = parser->extra = 0;
  parser->row_on_line = parser->carriage = false;
  const bool parsed = csv_parse(&parser->csv, text, length, take_field, end_row, parser) == length;
  if (parsed && csv_fini(&parser->csv, take_field, end_row, parser) == 0) return;
  if (chunk_failed(chunk) || (fields(parser) == 0 && !begin_row(parser))) return;
  Error *fault = fault_at(parser, chunk->lines, fields(parser) + 1);
  if (csv_error(&parser->csv) != CSV_EPARSE)
    error_set(fault, "no memory for this field");
  else
    error_set(fault, "%s", parsed ? UNENDED_QUOTE : STRAY_QUOTE);
}
