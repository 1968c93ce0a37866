#include "data/csv_chunk.h"

#include <string.h>
#include <strings.h>

#include "base/formats.h"
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

/* True if a list with commas has the column's name, or its number from 1. */
static bool is_listed(const char *list, const char *text, size_t length, size_t number) {
  for (; *list; list += strcspn(list, ","), list += *list == ',') {
    const size_t item = strcspn(list, ",");
    char *end;
    if ((item == length && strncasecmp(list, text, item) == 0) ||
        (strtoul(list, &end, 10) == number && end == list + item))
      return true;
  }
  return false;
}

/* Finds out if the field goes on counting; and if it is a number, or its k-th repetition as 0.1. */
static void see_number(CsvFirstLine *first, const char *text, size_t length) {
  char copy[16] = "", *end;
  const long column = (long)first->columns->columns;
  memcpy(copy, text, min_size(length, sizeof copy - 1));
  const bool is_number = length < sizeof copy && *copy >= '0' && *copy <= '9';
  const long number = strtol(copy, &end, 10);
  if (column == 0) first->from = length == 0 ? -1 : number;
  first->counts &= column == 0 ? first->from <= 1 && (length == 0 || is_number)
                               : is_number && !*end && number == first->from + column;
  first->numbers &= column == 0 || is_number;
  first->numbered &= column == 0 || (!*end && (number == column - 1 || number == column));
  const long times = *end == '.' ? strtol(end + 1, &end, 10) : 0;
  first->repeats &= is_number && !*end && number < (long)sizeof first->seen && times < UINT8_MAX &&
                    times == first->seen[number];
  first->renamed |= times > 0;
  if (first->repeats) first->seen[number]++;
}

static void see_field(void *text, size_t length, void *context) {
  static const char ids[] = "id,imageid,index,unnamed: 0";
  CsvFirstLine *first = context;
  CsvColumns *columns = first->columns;
  const size_t column = columns->columns;
  if (column == 0) {
    first->named = is_name(text, length), first->nameless = length == 0;
    first->word = first->named;
    first->counts = first->repeats = first->numbers = first->numbered = true;
  } else if (is_name(text, length) && first->nameless)
    first->named = true;
  see_number(first, text, length);
  see_name(first, text, length, first->wanted, 0);
  for (int i = 0; i < LABEL_NAMES; i++) see_name(first, text, length, label_names[i], i + 1);
  const bool listed = is_listed(first->left_out, text, length, column + 1),
             is_id = is_listed(ids, text, length, 0) || (column == 0 && length == 0);
  first->listed += listed;
  const bool is_label = first->columns->label == column;
  if ((listed || is_id) && !is_label && columns->stop_count < CSV_LEFT_OUT)
    columns->stops[columns->stop_count++] = column;
  columns->columns++;
}

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

bool csv_first_line(const char *name, const char *line, size_t length, CsvFirstLine *first,
                    Error *error) {
  struct csv_parser csv;
  CsvColumns *columns = first->columns;
  enum { COUNTED = 9 }; /* columns that count; fewer could be a row */
  int items = *first->left_out != '\0';
  first->rank = LABEL_NAMES + 1;
  columns->label = CSV_NONE;
  columns->separator = ' ';
  for (const char *c = "\t;,"; *c; c++) /* the last of these that the line has */
    if (memchr(line, *c, length)) columns->separator = *c;
  csv_init(&csv, CSV_OPTIONS);
  csv_set_delim(&csv, (unsigned char)columns->separator);
  const bool parsed = csv_parse(&csv, line, length, see_field, NULL, first) == length &&
                      csv_fini(&csv, see_field, NULL, first) == 0;
  const bool is_text_wrong = csv_error(&csv) == CSV_EPARSE;
  csv_free(&csv);
  if (!parsed && !is_text_wrong) return error_set(error, "no memory to read %s", name);
  if (!parsed)
    return error_set(error, "%s, line 1, column %zu: " STRAY_QUOTE, name, columns->columns + 1);
  if ((first->counts && columns->columns >= COUNTED) || (first->repeats && first->renamed))
    first->named = true;
  if (first->word && columns->columns >= COUNTED && first->rank > LABEL_NAMES &&
      columns->stop_count == 0 && first->numbers && !first->numbered)
    return error_set(error,
                     "%s, line 1: a word before numbers is no header: labels that are words "
                     "need one, such as label,pixel0,...",
                     name);
  for (const char *c = first->left_out; *c; c++) items += *c == ',';
  if (first->listed < items)
    return error_set(error, "%s, line 1: it has only %d of the columns of --ignore-columns %s",
                     name, first->listed, first->left_out);
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
  return parser->passed + parser->extra + (size_t)(parser->pixel - parser->row);
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

/* Gathers the word, if there is room. */
static bool gather(LabelWords *words, const char *word, size_t length) {
  int at = words->count;
  if (length == 0 || length >= sizeof *words->word) return false;
  const ShortText text = text_format("%.*s", (int)length, word);
  while (at > 0 && strcmp(words->word[at - 1], text.text) > 0) at--;
  if (at > 0 && strcmp(words->word[at - 1], text.text) == 0) return true;
  if (words->count == DATASET_MAX_CLASSES) return false;
  memmove(words->word[at + 1], words->word[at],
          (size_t)(words->count++ - at) * sizeof *words->word);
  strcpy(words->word[at], text.text);
  return true;
}

/* Sets *value to the class of a label, which is a number or a name. */
static bool parse_label(const CsvColumns *c, const unsigned char *field, size_t length,
                        unsigned *value) {
  const char *text = (const char *)field;
  if (parse_whole(field, length, (unsigned)c->classes, value)) return true;
  *value = 0;
  if (c->words) return gather(c->words, text, length);
  for (const char *name = c->names; name; name = strchr(name, '\n'), name += name != NULL, ++*value)
    if (strcspn(name, "\n") == length && memcmp(name, text, length) == 0) return true;
  return false;
}

/* True if the next field of the row is its label. */
static bool is_at_label(const ChunkParser *parser) {
  return parser->columns->judged && fields(parser) == parser->columns->label;
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
  const int most = is_label ? parser->columns->classes - 1 : UINT8_MAX;
  const double number = parse_float(field, length);
  unsigned class;
  ShortText cure = {""};
  if (is_label && parse_whole(field, length, DATASET_MAX_CLASSES, &class))
    cure = text_format(": --classes %u takes it", class + 1);
  else if (!is_label && number > 0 && number < 1)
    cure = text_format(": multiply pixels of 0 to 1 by 255");
  error_set(fault, "'%s%s' is not %s from 0 to %d%s", shown, count < length ? "..." : "",
            is_label ? "a label" : "an integer", most, cure.text);
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

/* Takes a field that is not a pixel, or is one too many. Returns false if the field is a pixel. */
static bool take_stop(ChunkParser *parser, const unsigned char *text, size_t length) {
  const CsvColumns *c = parser->columns;
  const size_t at = fields(parser);
  unsigned value = 0;
  if (chunk_failed(parser->chunk) || (at == 0 && !begin_row(parser))) return true;
  if (at == 0) parser->chunk->labels[parser->chunk->rows] = 0;
  const bool is_pixel = at == 0 && c->stops[0] > 0;
  if (!is_pixel && (parser->extra || c->stops[parser->passed] != at || at == c->columns)) {
    parser->extra++; /* end_row says how many there were */
    return true;
  }
  const bool is_label = !is_pixel && is_at_label(parser);
  if ((is_label && !parse_label(c, text, length, &value)) ||
      (!is_pixel && memchr(text, CSV_LF, length))) {
    not_an_integer(parser, text, length);
    return true;
  }
  if (is_label) parser->chunk->labels[parser->chunk->rows] = (uint16_t)value;
  parser->passed += !is_pixel;
  parser->row_end = parser->row + c->stops[parser->passed] - parser->passed;
  return !is_pixel;
}

/* Takes a field that is not a pixel of digits alone; none matters after a fault. */
__attribute__((noinline)) static void take_other(ChunkParser *parser, const unsigned char *text,
                                                 size_t length) {
  unsigned value;
  if (parser->pixel == parser->row_end && take_stop(parser, text, length)) return;
  if (parse_whole(text, length, 256, &value))
    *parser->pixel++ = (uint8_t)value;
  else
    not_an_integer(parser, text, length);
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
  parser->passed = parser->extra = 0;
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
