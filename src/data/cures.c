/* Cures of files that cannot be read. A cure is offered only if its condition holds for the file as
   a whole, so this reads the file again, apart from the fast reader. */
#include "data/cures.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/sizes.h"
#include "data/csv_chunk.h"
#include "data/source.h"

enum {
  LOOK_BYTES = 1 << 28
}; /* a longer file is judged by its start, so that this takes seconds */

/* The values of a column that may hold labels. */
typedef struct {
  uint64_t rows, empty;
  bool whole;        /* all values are whole numbers from 0 to DATASET_MAX_CLASSES - 1 */
  bool counts_up;    /* each value is the last one and 1 */
  bool signs;        /* all values are -1 or 1 */
  unsigned greatest; /* of the whole numbers */
  unsigned last;
  bool seen[DATASET_MAX_CLASSES];
} Values;

/* What a second reading of the file found. */
typedef struct {
  const CsvColumns *c;
  uint64_t fault_line; /* from 1 */
  size_t fault_column; /* from 0; CSV_NONE means the whole line */

  uint64_t line; /* the line that is being read, from 1 */
  size_t at;     /* number of its fields so far */
  bool is_empty; /* its last field is empty */

  char start[8];           /* the file's first bytes */
  ShortText begin[2];      /* the first field of line 1, and of the refused line */
  ShortText head;          /* the refused column's field in line 1 */
  ShortText bad;           /* the refused field */
  size_t truths;           /* number of fields of its line that are True or False */
  uint64_t rows;           /* number of lines after a header */
  uint64_t longer;         /* number of these that have one field more than line 1 */
  size_t fields;           /* number of fields of line 2 */
  bool ragged;             /* a later line has another number of fields */
  uint64_t open_end;       /* number of lines whose last field is empty */
  bool numbers;            /* all pixels are numbers */
  bool whole_later;        /* the pixels after line 1 are whole numbers from 0 to 255 */
  uint64_t pixels, bright; /* number of pixels; number of those above 255 */
  double least, greatest;  /* of the pixels */
  Values label, end;       /* the label's column; the last column */
} Look;

static bool parse_number(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return end != text && !*end && text[strspn(text, "0123456789.eE+-")] == '\0';
}

static bool is_truth(const char *text) {
  return strcasecmp(text, "True") == 0 || strcasecmp(text, "False") == 0;
}

static void see_value(Values *v, const char *text) {
  double number;
  const bool is_number = parse_number(text, &number);
  v->empty += !*text;
  v->signs &= is_number && (number == -1 || number == 1);
  if (!is_number || number < 0 || number >= DATASET_MAX_CLASSES || number != floor(number)) {
    v->whole = v->counts_up = false;
  } else {
    const unsigned value = (unsigned)number;
    v->counts_up &= v->rows == 0 || value == v->last + 1;
    v->greatest = value > v->greatest ? value : v->greatest;
    v->seen[v->last = value] = true;
  }
  v->rows++;
}

static void see_pixel(Look *l, const char *text) {
  double number = 0;
  const bool is_number = parse_number(text, &number);
  l->numbers &= is_number;
  if (l->line > 1)
    l->whole_later &= is_number && number >= 0 && number <= 255 && fmod(number, 1) == 0;
  if (!is_number) return;
  l->pixels++;
  l->bright += number > 255;
  l->least = fmin(l->least, number);
  l->greatest = fmax(l->greatest, number);
}

static void see_field(void *field, size_t length, void *context) {
  Look *l = context;
  const CsvColumns *c = l->c;
  const bool is_text = length > 0 && !memchr(field, '\0', length);
  ShortText text = text_format(length ? "?" : "");
  if (is_text) text = text_format("%.*s", (int)min_size(length, 1000), (char *)field);
  const size_t at = l->at++;
  l->is_empty = length == 0;
  if (at == 0 && l->line == 1) l->begin[0] = text;
  if (at == 0 && l->line == l->fault_line) l->begin[1] = text;
  if (at == l->fault_column && l->line == 1) l->head = text;
  if (at == l->fault_column && l->line == l->fault_line) l->bad = text;
  l->truths += l->line == l->fault_line && is_truth(text.text);
  if ((c->named && l->line == 1) || at >= c->columns) return;
  const bool is_label = c->labelled && at == c->label_at;
  if (is_label) see_value(&l->label, text.text);
  if (at == c->columns - 1) see_value(&l->end, text.text);
  if (!columns_stop(c, at)) see_pixel(l, text.text);
}

static void see_end(int terminator, void *context) {
  Look *l = context;
  if (terminator == CSV_CR) return;
  if (l->at > 0) {
    l->rows += !(l->c->named && l->line == 1);
    l->longer += l->at == l->c->columns + 1;
    l->open_end += l->is_empty;
    l->ragged |= l->line > 2 && l->at != l->fields;
  }
  if (l->line == 2) l->fields = l->at;
  l->line++;
  l->at = 0;
}

static bool look(Look *l, Source *source) {
  struct csv_parser csv;
  char text[1 << 14];
  size_t length = source_read(source, text, sizeof text), total = 0;
  csv_init(&csv, CSV_REPALL_NL);
  csv_set_delim(&csv, (unsigned char)l->c->separator);
  memcpy(l->start, text, min_size(length, sizeof l->start - 1));
  while (length > 0 && csv_parse(&csv, text, length, see_field, see_end, l) == length) {
    total += length;
    length = total < LOOK_BYTES ? source_read(source, text, sizeof text) : 0;
  }
  const bool good = csv_error(&csv) == 0 && csv_fini(&csv, see_field, see_end, l) == 0;
  csv_free(&csv);
  return good && l->rows > 0;
}

/* ---- cures ---------------------------------------------------------------------------------- */

/* Returns what to do, or "" if the cure does not apply. */
typedef ShortText Cure(const Look *l);

static const ShortText nothing = {""};

#define WITHOUT_LINE_1 "remove it, as tail -n +2 does"

static bool is_of_label(const Look *l) {
  return l->c->judged && l->fault_column == l->c->label_at;
}

static bool is_of_number(const Look *l) {
  return is_of_label(l) && !l->c->words;
}

static bool is_of_pixel(const Look *l) {
  return l->fault_column != CSV_NONE && !columns_stop(l->c, l->fault_column);
}

static ShortText has_separator_line(const Look *l) {
  return strncasecmp(l->start, "sep=", 4) == 0
             ? text_format("line 1 is only for Excel: " WITHOUT_LINE_1)
             : nothing;
}

/* The lines after the comment must be rows. If the comment has blanks, but no commas, rows with
   commas are split as if they had blanks, too, so that they are one field. */
static ShortText has_comment(const Look *l) {
  const bool are_rows = !l->ragged && (l->fields > 1 || strpbrk(l->begin[1].text, ",;\t"));
  return *l->start == '#' && l->c->named && l->fault_line == 2 && are_rows
             ? text_format("line 1 is a comment: " WITHOUT_LINE_1)
             : nothing;
}

static ShortText has_second_header(const Look *l) {
  return l->c->named && l->fault_line > 1 && *l->bad.text &&
                 strcmp(l->bad.text, l->head.text) == 0 &&
                 strcmp(l->begin[0].text, l->begin[1].text) == 0
             ? text_format("the header comes again: remove this line")
             : nothing;
}

/* pandas makes names such as 0, 0.1, 0.2 of a first row that it took for a header. */
static ShortText has_row_as_header(const Look *l) {
  return l->fault_line == 1 && strchr(l->bad.text, '.') && l->rows > 1 && l->whole_later
             ? text_format("line 1 is a header that pandas made of a row: " WITHOUT_LINE_1)
             : nothing;
}

static ShortText has_row_names(const Look *l) {
  return l->c->named && l->longer == l->rows
             ? text_format("the first field has no name in line 1: write the rows without names, "
                           "as R's write.table(..., row.names = FALSE) does")
             : nothing;
}

static ShortText has_open_ends(const Look *l) {
  return l->open_end == l->rows + l->c->named && !is_of_label(l)
             ? text_format(
                   "all lines end with a separator: remove it, as sed 's/[ ,;\\t]*$//' does")
             : nothing;
}

static ShortText has_truth(const Look *l) {
  return is_of_label(l) && is_truth(l->bad.text) && l->truths > 1
             ? text_format("columns of True and False are a one-hot label: write the number of the "
                           "class in one column, as numpy's argmax(axis=1) gives it")
             : nothing;
}

static ShortText has_picture(const Look *l) {
  static const char *const endings[] = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff"};
  const char *ending = strrchr(l->bad.text, '.');
  for (size_t i = 0; ending && i < LENGTH(endings); i++)
    if (strcasecmp(ending, endings[i]) == 0)
      return text_format("the rows name pictures: write the pixels of each into its row, "
                         "or give the pictures to --classify");
  return nothing;
}

static ShortText has_list(const Look *l) {
  enum { MANY = 9 };
  size_t count = 0;
  const char *text = l->bad.text;
  for (char *end; strtod(text, &end), end != text; text = end) count++;
  return l->c->separator != ' ' && count >= MANY
             ? text_format("pixels are all in one field: write each in a field of its own, as "
                           "pandas' str.split(expand=True) does")
             : nothing;
}

static ShortText has_no_labels(const Look *l) {
  return is_of_label(l) && l->label.empty == l->label.rows
             ? text_format("no row has a label, so that they can only be given to --predict")
             : nothing;
}

/* Returns true if most numbers from 0 to the greatest value occur, as they do for labels. */
static bool are_dense(const Values *v) {
  unsigned count = 0;
  for (unsigned i = 0; i <= v->greatest; i++) count += v->seen[i];
  return v->whole && v->greatest > 0 && 4 * count >= 3 * (v->greatest + 1);
}

static ShortText has_signs(const Look *l) {
  return is_of_number(l) && l->label.signs && l->label.seen[1]
             ? text_format("labels are -1 and 1: write 0 for -1")
             : nothing;
}

/* Returns true if all lines have as many fields as line 1, but the network takes another number. */
static bool is_of_width(const Look *l) {
  return l->fault_column == CSV_NONE && !l->ragged && l->fields == l->c->columns;
}

static ShortText counts_rows(const Look *l) {
  enum { ENOUGH = 10 };
  return (is_of_number(l) || is_of_width(l)) && l->label.counts_up && l->label.rows >= ENOUGH
             ? text_format("column %zu numbers the rows: --ignore-columns %zu leaves it out",
                           l->c->label_at + 1, l->c->label_at + 1)
             : nothing;
}

/* Returns true if the last column could be the label rather than the first one. */
static bool may_be_last(const Look *l) {
  return l->c->label_at == 0 && are_dense(&l->end) && l->end.greatest < (unsigned)l->c->classes;
}

static ShortText has_labels_last(const Look *l) {
  return is_of_number(l) && l->label.whole && !are_dense(&l->label) && may_be_last(l)
             ? text_format("it looks like a pixel, and the last column, 0 to %u, like the label: "
                           "--label-column last",
                           l->end.greatest)
             : nothing;
}

static ShortText has_more_classes(const Look *l) {
  if (!is_of_number(l) || !l->label.whole || l->label.greatest < (unsigned)l->c->classes)
    return nothing;
  ShortText text = text_format("labels go up to %u: --classes %u takes them", l->label.greatest,
                               l->label.greatest + 1);
  if (may_be_last(l))
    text_append(text.text, "; if the last column, 0 to %u, is the label: --label-column last",
                l->end.greatest);
  return text;
}

static ShortText has_words(const Look *l) {
  if (!is_of_label(l) || !isalpha((unsigned char)*l->bad.text)) return nothing;
  if (l->c->names)
    return text_format("no class has this name: %s", csv_list_names(l->c->names).text);
  return text_format("--names lists words that are labels, in the order of classes");
}

static ShortText is_scaled(const Look *l) {
  return is_of_pixel(l) && l->numbers && l->least >= 0 && l->greatest > 0 && l->greatest <= 1
             ? text_format("multiply pixels of 0 to 1 by 255")
             : nothing;
}

/* The network computes (p / 255 - mean) / std, so that it can have the numbers as they are. */
static ShortText is_shifted(const Look *l) {
  const double range = l->greatest - l->least;
  return is_of_pixel(l) && l->numbers && l->least < 0 && range > 0
             ? text_format("pixels are %.5g to %.5g: write round((p + %.5g) * %.5g), and give "
                           "--mean %.4g --std %.4g for the same numbers",
                           l->least, l->greatest, -l->least, 255 / range, -l->least / range,
                           1 / range)
             : nothing;
}

static ShortText has_fractions(const Look *l) {
  enum { DIM = 64 };
  const double greatest = ceil(l->greatest);
  if (!is_of_pixel(l) || !l->numbers || l->least < 0 || l->greatest <= 1 || greatest > 255)
    return nothing;
  return greatest < DIM
             ? text_format("round pixels to whole numbers, and give --pixel-max %g", greatest)
             : text_format("round pixels to whole numbers");
}

static ShortText is_too_bright(const Look *l) {
  enum { PART = 100, MOST = 65535 }; /* fewer than a hundredth are mistakes, no scale */
  return is_of_pixel(l) && l->numbers && l->least >= 0 && l->greatest <= MOST &&
                 PART * l->bright > l->pixels
             ? text_format("pixels go up to %.8g: write round(p * %.6g)", l->greatest,
                           255 / l->greatest)
             : nothing;
}

/* The first cure that applies is offered. */
static Cure *const cures[] = {
    has_separator_line, has_comment, has_second_header, has_row_as_header, has_row_names,
    has_open_ends,      has_truth,   has_picture,       has_list,          has_no_labels,
    has_signs,          counts_rows, has_labels_last,   has_more_classes,  has_words,
    is_scaled,          is_shifted,  has_fractions,     is_too_bright};

void cures_append(const char *path, const CsvColumns *columns, uint64_t line, size_t column,
                  Error *error) {
  Source source = {.file = -1};
  Error why;
  Look *l = source_can_repeat(path) ? calloc(1, sizeof *l) : NULL;
  if (!l) return;
  *l = (Look){.c = columns,
              .fault_line = line,
              .fault_column = column > 0 ? column - 1 : CSV_NONE,
              .line = 1,
              .numbers = true,
              .whole_later = true,
              .least = INFINITY,
              .greatest = -INFINITY,
              .label = {.whole = true, .counts_up = true, .signs = true},
              .end = {.whole = true}};
  ShortText cure = nothing;
  if (source_open(&source, path, &why) && look(l, &source))
    for (size_t i = 0; i < LENGTH(cures) && !*cure.text; i++) cure = cures[i](l);
  source_close(&source);
  free(l);
  if (*cure.text) text_append(error->text, ": %s", cure.text);
}
