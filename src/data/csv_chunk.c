#include "data/csv_chunk.h"

#include <string.h>
#include <strings.h>

#include "base/sizes.h"

/* REPALL_NL: blank lines are reported, too. */
enum { CSV_OPTIONS = CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL };

#define UNENDED_QUOTE "a quoted field that does not end on its line"
#define STRAY_QUOTE "a stray quote"

/* ---- the first line ------------------------------------------------------------------------ */

/* Names of a label's column, the surest first. */
static const char *const label_names[] = {"label", "class", "target", "digit", "y"};
enum { LABEL_NAMES = LENGTH(label_names) };

static void see_name(CsvFirstLine *first, const char *text, size_t length, const char *name,
                     int rank) {
  if (!name || rank >= first->rank || strlen(name) != length ||
      strncasecmp(text, name, length) != 0)
    return;
  first->rank = rank;
  first->columns->label = first->columns->columns;
  first->named = true;
}

/* True if the field starts as no number does. */
static bool is_name(const char *text, size_t length) {
  return length > 0 && !strchr("0123456789+-.", *text);
}

static void see_field(void *text, size_t length, void *context) {
  CsvFirstLine *first = context;
  if (first->columns->columns == 0)
    first->named = is_name(text, length), first->nameless = length == 0;
  else if (is_name(text, length) && first->nameless)
    first->named = true;
  see_name(first, text, length, first->wanted, 0);
  for (int i = 0; i < LABEL_NAMES; i++) see_name(first, text, length, label_names[i], i + 1);
  first->columns->columns++;
}

/* Files that are taken for CSV, by their first three bytes. */
static const struct {
  char begins[4];
  const char *what;
} other_formats[] = {
    {"\x93NU",
     "a NumPy array: np.savetxt(\"rows.csv\", rows, fmt=\"%d\", delimiter=\",\") writes CSV"},
    {"PK\x03", "a ZIP archive or .npz: unzip it, and give the CSV file that is in it"},
    {"\x89PN", "a PNG picture: --classify reads pictures"},
};

bool csv_check_text(const char *name, const char *line, size_t length, Error *error) {
  foreach (format, other_formats)
    if (length >= 3 && memcmp(line, format->begins, 3) == 0)
      return error_set(error, "%s is %s", name, format->what);
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

bool csv_first_line(const char *name, const char *line, size_t length, CsvFirstLine *first,
                    Error *error) {
  struct csv_parser csv;
  CsvColumns *columns = first->columns;
  first->rank = LABEL_NAMES + 1;
  columns->label = CSV_NONE;
  columns->separator = memchr(line, ',', length) || !memchr(line, ';', length) ? ',' : ';';
  csv_init(&csv, CSV_OPTIONS);
  csv_set_delim(&csv, (unsigned char)columns->separator);
  const bool parsed = csv_parse(&csv, line, length, see_field, NULL, first) == length &&
                      csv_fini(&csv, see_field, NULL, first) == 0;
  const bool is_text_wrong = csv_error(&csv) == CSV_EPARSE;
  csv_free(&csv);
  if (!parsed && !is_text_wrong) return error_set(error, "no memory to read %s", name);
  if (!parsed)
    return error_set(error, "%s, line 1, column %zu: " STRAY_QUOTE, name, columns->columns + 1);
  if (first->nameless && first->named)
    return error_set(
        error, "%s, line 1, column 1: no name: an index column? to_csv(index=False) leaves it out",
        name);
  if (columns->columns == 1 && memchr(line, CSV_TAB, length))
    return error_set(error, "%s, line 1: tabs between fields: tr '\\t' , makes CSV of them", name);
  if (columns->columns == 0) return error_set(error, "%s, line 1: a blank line", name);
  return true;
}

/* ---- a chunk ------------------------------------------------------------------------------- */

void chunk_parser_open(ChunkParser *parser, const CsvColumns *columns, const RowSet *wanted) {
  memset(parser, 0, sizeof *parser);
  parser->columns = columns;
  parser->wanted = wanted;
  csv_init(&parser->csv, CSV_OPTIONS);
  csv_set_delim(&parser->csv, (unsigned char)columns->separator);
}

void chunk_parser_close(ChunkParser *parser) {
  csv_free(&parser->csv);
}

void chunk_clear(Chunk *chunk) {
  chunk->rows = 0;
  chunk->lines = 0;
  chunk->blank = chunk->fault_line = CSV_NONE;
}

Error *chunk_fault(Chunk *chunk, uint64_t line, size_t column) {
  chunk->fault_line = line;
  chunk->fault_column = column;
  return &chunk->fault;
}

/* Notes a fault, after which the rest of the row is not taken. */
static Error *fault_at(ChunkParser *parser, uint64_t line, size_t column) {
  parser->pixel = parser->row_end = parser->row;
  return chunk_fault(parser->chunk, line, column);
}

static size_t fields(const ChunkParser *parser) {
  return parser->others + (size_t)(parser->pixel - parser->row);
}

/* Parses a number of digits alone, below `limit`. */
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

/* Parses a number, as printed by %.18e: -1 if it is none. */
static double parse_float(const unsigned char *text, size_t length) {
  char copy[32], *end;
  if (length == 0 || length >= sizeof copy || *text < '0' || *text > '9') return -1;
  memcpy(copy, text, length);
  copy[length] = '\0';
  if (strspn(copy, "0123456789.eE+-") != length) return -1;
  const double value = strtod(copy, &end);
  return *end ? -1 : value;
}

/* Parses a whole number below `limit`, with or without a point behind it. */
static bool parse_whole(const unsigned char *text, size_t length, unsigned limit, unsigned *value) {
  if (parse_integer(text, length, limit, value)) return true;
  const double number = parse_float(text, length);
  if (!(number >= 0 && number < limit)) return false;
  *value = (unsigned)number;
  return *value == number;
}

/* True if the next field of the row is its label. */
static bool is_at_label(const ChunkParser *parser) {
  return parser->columns->labelled && fields(parser) == parser->columns->label;
}

static void not_an_integer(ChunkParser *parser, const void *field, size_t length) {
  const char *text = field;
  const bool is_label = is_at_label(parser);
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
  const double number = is_label ? -1 : parse_float(field, length);
  error_set(fault, "'%s%s' is not %s from 0 to %d%s", shown, count < length ? "..." : "",
            is_label ? "a label" : "an integer", is_label ? parser->columns->classes - 1 : 255,
            number > 0 && number < 1 ? ": multiply pixels of 0 to 1 by 255" : "");
}

/* Called before a row's first field. Returns false after a fault, or if no row may begin here. */
static bool begin_row(ChunkParser *parser) {
  const Chunk *chunk = parser->chunk;
  if (chunk->blank != CSV_NONE)
    error_set(fault_at(parser, chunk->blank, 0), CSV_BLANK_LINE);
  else if (parser->carriage)
    error_set(fault_at(parser, chunk->lines, 0), "a carriage return inside the line");
  return !chunk_failed(chunk);
}

/* Takes a row's first field, label, bad pixel, or a field too many; none matters after a fault. */
__attribute__((noinline)) static void take_other(ChunkParser *parser, const unsigned char *text,
                                                 size_t length) {
  const CsvColumns *columns = parser->columns;
  unsigned value;
  if (parser->pixel != parser->row_end) {
    if (parse_whole(text, length, 256, &value))
      *parser->pixel++ = (uint8_t)value;
    else
      not_an_integer(parser, text, length);
    return;
  }
  const bool is_first = fields(parser) == 0, is_label = is_at_label(parser);
  if (chunk_failed(parser->chunk) || (is_first && !begin_row(parser))) return;
  if (!is_first && !is_label) {
    parser->others++; /* a field too many: end_row says how many there were */
    return;
  }
  if (!parse_whole(text, length, is_label ? (unsigned)columns->classes : 256, &value)) {
    not_an_integer(parser, text, length);
    return;
  }
  const bool is_next = columns->labelled && !is_label; /* the label follows some pixels */
  parser->chunk->labels[parser->chunk->rows] = is_label ? (uint16_t)value : 0;
  parser->row_end = parser->row + (is_next ? columns->label : columns->inputs);
  if (is_label)
    parser->others = 1;
  else
    *parser->pixel++ = (uint8_t)value;
}

/* Called by libcsv for a field: fifty million times in MNIST, so pixels go first. */
static void take_field(void *text, size_t length, void *context) {
  ChunkParser *parser = context;
  unsigned value;
  if (parser->pixel != parser->row_end && parse_integer(text, length, 256, &value))
    *parser->pixel++ = (uint8_t)value;
  else
    take_other(parser, text, length);
}

/* Called by libcsv at a carriage return, a line feed or the end of the text, after fields or not */
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
    parser->others = 0;
  }
  if (terminator == CSV_CR) {
    parser->carriage = true;
    return;
  }
  if (!parser->row_on_line && chunk->blank == CSV_NONE) chunk->blank = chunk->lines;
  parser->row_on_line = parser->carriage = false;
  chunk->lines++;
}

static bool parse(ChunkParser *parser, const char *text, size_t length) {
  return csv_parse(&parser->csv, text, length, take_field, end_row, parser) == length;
}

/* Parses line by line and skips those that are not wanted. Lines behind the last row are blank. */
static bool parse_wanted(ChunkParser *parser, const char *text, size_t length) {
  const RowSet *wanted = parser->wanted;
  const char *end = text + length;
  while (text < end) {
    const char *feed = memchr(text, CSV_LF, (size_t)(end - text));
    const uint64_t row = parser->chunk->first + parser->chunk->rows;
    const size_t line = feed ? (size_t)(feed - text) + 1 : (size_t)(end - text);
    if (row < wanted->rows && !row_set_has(wanted, row)) { /* it becomes zeros */
      memset(parser->row, 0, parser->columns->inputs);
      parser->row = parser->pixel = parser->row_end = parser->row + parser->columns->inputs;
      parser->chunk->labels[parser->chunk->rows++] = 0;
      parser->chunk->lines++;
    } else if (!parse(parser, text, line))
      return false;
    text += line;
  }
  return true;
}

void chunk_parse(ChunkParser *parser, Chunk *chunk, const char *text, size_t length) {
  parser->chunk = chunk;
  parser->row = parser->pixel = parser->row_end = chunk->pixels;
  parser->others = 0;
  parser->row_on_line = parser->carriage = false;
  const bool parsed =
      parser->wanted ? parse_wanted(parser, text, length) : parse(parser, text, length);
  if (parsed && csv_fini(&parser->csv, take_field, end_row, parser) == 0) return;
  if (chunk_failed(chunk) || (fields(parser) == 0 && !begin_row(parser))) return;
  Error *fault = fault_at(parser, chunk->lines, fields(parser) + 1);
  if (csv_error(&parser->csv) != CSV_EPARSE)
    error_set(fault, "no memory for this field");
  else
    error_set(fault, "%s", parsed ? UNENDED_QUOTE : STRAY_QUOTE);
}
