#include "data/columns.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/sizes.h"

enum { KEPT = DATASET_MAX_COLUMNS + COLUMNS_LEFT_OUT + 1 };

#define DIGITS "0123456789"

/* The fields of the first line. */
typedef struct {
  size_t count;            /* number of fields, without those that are left out */
  size_t all;              /* number of fields */
  uint16_t column[KEPT];   /* (count): where the field stands in the line, from 0 */
  const char *field[KEPT]; /* (count, but at most KEPT) */
  char *end;               /* where the next field's text goes */
  char text[];
} FirstLine;

static void keep_field(void *field, size_t length, void *context) {
  FirstLine *first = context;
  first->all++;
  if (first->count++ >= KEPT) return;
  first->field[first->count - 1] = first->end;
  first->column[first->count - 1] = (uint16_t)(first->count - 1);
  if (length > 0) memcpy(first->end, field, length); /* libcsv may give NULL for an empty field */
  first->end[length] = '\0';
  for (char *c = first->end; *c; c += text_character(c) ? text_character(c) : 1)
    if (!text_character(c)) *c = '?'; /* a name is saved as JSON, which is UTF-8 */
  first->end += length + 1;
}

/* Returns the fields, which the caller frees, or NULL. */
static FirstLine *split_line(const char *file, const char *line, size_t length, CsvColumns *c,
                             Error *error) {
  struct csv_parser csv;
  FirstLine *first = malloc(sizeof *first + 2 * length + 2);
  if (!first) return error_null(error, "no memory to read %s", file);
  first->count = first->all = 0;
  first->end = first->text;
  c->separator = ' ';
  for (const char *s = "\t;,"; *s; s++) /* prefers a comma, then a semicolon, then a tab */
    if (memchr(line, *s, length)) c->separator = *s;
  csv_init(&csv, CSV_OPTIONS);
  csv_set_delim(&csv, (unsigned char)c->separator);
  const bool parsed = csv_parse(&csv, line, length, keep_field, NULL, first) == length &&
                      csv_fini(&csv, keep_field, NULL, first) == 0;
  const bool is_text_wrong = csv_error(&csv) == CSV_EPARSE;
  csv_free(&csv);
  if (parsed && first->count > 0) return first;
  if (parsed)
    error_set(error, "%s, line 1: a blank line", file);
  else if (is_text_wrong)
    error_set(error, "%s, line 1, column %zu: " STRAY_QUOTE, file, first->count + 1);
  else
    error_set(error, "no memory to read %s", file);
  free(first);
  return NULL;
}

/* ---- the header ---------------------------------------------------------------------------- */

/* Returns the column that --label-column gives as a number or "last". The result counts from 0 and
   may be too large. Returns CSV_NONE if --label-column gives a name or nothing. */
static size_t numbered_column(const char *label, size_t columns) {
  char *end;
  if (strcmp(label, "last") == 0) return columns - 1;
  const unsigned long number = strtoul(label, &end, 10);
  if (!isdigit((unsigned char)*label) || *end) return CSV_NONE;
  return number > 0 ? number - 1 : columns;
}

static bool is_word(const char *field) {
  return *field && !strchr(DIGITS "+-.", *field);
}

/* Returns the next column, from `begin` on, that is called `name`, in upper or lower case, or
   CSV_NONE. */
static size_t find_name_from(const FirstLine *first, size_t begin, const char *name) {
  for (size_t i = begin; i < first->count && i < KEPT; i++)
    if (*name && strcasecmp(first->field[i], name) == 0) return i;
  return CSV_NONE;
}

static size_t find_name(const FirstLine *first, const char *name) {
  return find_name_from(first, 0, name);
}

/* Returns the column with the name that --label-column gives, or CSV_NONE. */
static size_t find_told_name(const FirstLine *first, const char *label) {
  return numbered_column(label, 1) == CSV_NONE ? find_name(first, label) : CSV_NONE;
}

/* Returns the column that has one of the usual names of a label, or CSV_NONE. */
static size_t find_usual_name(const FirstLine *first) {
  static const char *const usual[] = {"label", "class", "target", "digit", "y"};
  size_t column = CSV_NONE;
  for (size_t i = 0; i < LENGTH(usual) && column == CSV_NONE; i++)
    column = find_name(first, usual[i]);
  return column;
}

/* Returns true if the fields are the numbers of the columns, from 0 or 1: in ascending order, or
   sorted as texts (0, 1, 10, 11, 2). The first field may be a word or empty. */
static bool numbers_columns(const FirstLine *first) {
  enum { COUNTED = 9 }; /* a line with fewer fields could count 0, 1, 2, ... by chance */
  const size_t begin = is_word(first->field[0]) || !*first->field[0], count = first->count;
  bool counts = true, sorted = true;
  uint64_t sum = 0;
  long number = 0, start = 0;
  if (count < COUNTED || count > DATASET_MAX_COLUMNS) return false;
  for (size_t i = begin; i < count; i++) {
    char *end;
    const long before = number;
    const char *field = first->field[i];
    number = strtol(field, &end, 10);
    if (!isdigit((unsigned char)*field) || *end || number > (long)count) return false;
    if (i == begin) start = number;
    counts &= i == begin || number == before + 1;
    sorted &= i == begin || strcmp(first->field[i - 1], field) < 0;
    sum += (uint64_t)number;
  }
  /* Sorted texts differ. The numbers from `start` on are all there if they also have this sum. */
  const uint64_t n = count - begin, whole = n * (n - 1) / 2 + n * (uint64_t)start;
  return start <= 1 && (counts || (sorted && sum == whole));
}

/* Returns true if the first line is a header. */
static bool is_header(const FirstLine *first, const char *label) {
  bool words = is_word(first->field[0]);
  for (size_t i = 1; i < first->count && i < KEPT; i++)
    words |= !*first->field[0] && is_word(first->field[i]);
  return words || find_told_name(first, label) != CSV_NONE || find_usual_name(first) != CSV_NONE ||
         numbers_columns(first);
}

/* Refuses a first line that looks like a row whose label is a word. */
static bool check_header(const FirstLine *first, const ColumnsKnown *known, Error *error) {
  enum { MANY = 9 };
  bool numbers = is_word(first->field[0]) && first->count >= MANY && !numbers_columns(first);
  for (size_t i = 1; i < first->count && i < KEPT; i++)
    numbers &= *first->field[i] && !is_word(first->field[i]);
  if (numbers && find_usual_name(first) == CSV_NONE &&
      find_told_name(first, known->label) == CSV_NONE)
    return error_set(
        error,
        "%s, line 1: a word before numbers is not a header; labels that are words need "
        "one, such as label,pixel0,...",
        known->file);
  return true;
}

/* ---- columns that are left out ------------------------------------------------------------- */

/* Leaves out the field at `place`. */
static bool leave_out(FirstLine *first, size_t place, StopKind kind, CsvColumns *c,
                      const ColumnsKnown *known, Error *error) {
  if (c->stops == COLUMNS_LEFT_OUT)
    return error_set(error, "%s: more than %d columns to leave out: cut can remove them",
                     known->file, COLUMNS_LEFT_OUT);
  c->stop[c->stops++] = (ColumnStop){.column = first->column[place], .kind = kind};
  first->count--;
  for (size_t i = place; i < first->count && i + 1 < KEPT; i++) {
    first->field[i] = first->field[i + 1];
    first->column[i] = first->column[i + 1];
  }
  return true;
}

/* Returns the place among first->field of a column of the file, or CSV_NONE if it is left out. */
static size_t place_of(const FirstLine *first, size_t column) {
  for (size_t i = 0; i < first->count && i < KEPT; i++)
    if (first->column[i] == column) return i;
  return column < first->all ? CSV_NONE : column;
}

/* Leaves out the columns that --ignore-columns lists. */
static bool leave_out_told(FirstLine *first, CsvColumns *c, const ColumnsKnown *known,
                           Error *error) {
  for (const char *at = known->left_out; *at; at += strcspn(at, ","), at += *at == ',') {
    const ShortText item = text_format("%.*s", (int)strcspn(at, ","), at);
    const size_t number = numbered_column(item.text, first->all),
                 place = number == CSV_NONE ? find_name(first, item.text) : place_of(first, number);
    if (place >= first->count)
      return error_set(error, "%s, line 1: no column '%s' to leave out, as --ignore-columns says",
                       known->file, item.text);
    if (!leave_out(first, place, STOP_OTHER, c, known, error)) return false;
  }
  return true;
}

/* Leaves out the columns whose names say that they number the rows. The first one numbers them. */
static bool leave_out_numbers(FirstLine *first, CsvColumns *c, const ColumnsKnown *known,
                              Error *error) {
  static const char *const names[] = {"id",  "imageid", "image_id",  "row",
                                      "idx", "index",   "unnamed: 0"};
  const size_t told = find_told_name(first, known->label);
  bool is_first = true;
  for (size_t i = 0; c->named && i < first->count && i < KEPT;) {
    bool numbers = i == 0 && !*first->field[0];
    for (size_t n = 0; n < LENGTH(names); n++)
      numbers |= strcasecmp(first->field[i], names[n]) == 0;
    if (!numbers || i == told || first->column[i] == numbered_column(known->label, first->all)) {
      i++;
      continue;
    }
    if (!leave_out(first, i, is_first ? STOP_ID : STOP_ALSO_ID, c, known, error)) return false;
    is_first = false;
  }
  return true;
}

static int by_column(const void *a, const void *b) {
  const ColumnStop *x = a, *y = b;
  return (x->column > y->column) - (x->column < y->column);
}

/* Adds the label to c->stop, sorts the stops and counts the pixels before each. */
static void settle_stops(const FirstLine *first, CsvColumns *c, DataSummary *s) {
  if (c->labelled) {
    c->label_at = first->column[c->label];
    c->stop[c->stops++] = (ColumnStop){.column = c->label_at, .kind = STOP_LABEL};
    if (s->label) s->label = (int)c->label_at + 1;
  }
  qsort(c->stop, c->stops, sizeof *c->stop, by_column);
  for (size_t i = 0; i < c->stops; i++) {
    c->stop[i].pixels = c->stop[i].column - i;
    const int column = (int)c->stop[i].column + 1;
    if (c->stop[i].kind == STOP_ID) s->id = column;
    if (c->stop[i].kind == STOP_ID || c->stop[i].kind == STOP_ALSO_ID)
      text_append(s->ids, *s->ids ? ", %d" : "%d", column);
  }
}

const ColumnStop *columns_stop(const CsvColumns *c, size_t column) {
  for (size_t i = 0; i < c->stops; i++)
    if (c->stop[i].column == column) return &c->stop[i];
  return NULL;
}

/* ---- the label ----------------------------------------------------------------------------- */

/* Returns the number of bytes of a name without the digits at its end. */
static size_t stem(const char *name) {
  size_t length = strlen(name);
  while (length > 0 && isdigit((unsigned char)name[length - 1])) length--;
  return length;
}

/* Returns the only column whose name does not end in a digit, or CSV_NONE. If another column has
   the same name and a number, it is a pixel: pandas numbers equal names so (pixel, pixel.1). */
static size_t find_odd_name(const FirstLine *first) {
  enum { LEAST = 3 };
  size_t odd = CSV_NONE;
  for (size_t i = 0; i < first->count && i < KEPT; i++) {
    const char *name = first->field[i];
    if (name[stem(name)]) continue;
    if (odd != CSV_NONE || !*name) return CSV_NONE;
    odd = i;
  }
  if (odd == CSV_NONE || first->count < LEAST) return CSV_NONE;
  const char *name = first->field[odd], *other = first->field[odd == 0];
  const size_t length = strlen(name);
  const bool is_same =
      strncasecmp(name, other, length) == 0 && !isalpha((unsigned char)other[length]);
  return is_same ? CSV_NONE : odd;
}

/* Sets s->label and how it was found, as columns_decide describes, for a file that has labels. */
static bool find_label(const FirstLine *first, const CsvColumns *c, const ColumnsKnown *known,
                       DataSummary *s, Error *error) {
  const char *label = known->label;
  const DataSummary *trained = known->trained;
  const size_t number = numbered_column(label, c->columns), usual = find_usual_name(first);
  const size_t told = find_told_name(first, label);
  const size_t numbered = number == CSV_NONE ? CSV_NONE : place_of(first, number);
  const size_t odd = c->named ? find_odd_name(first) : CSV_NONE;
  const size_t same = c->named && trained ? find_name(first, trained->label_name) : CSV_NONE;
  const struct {
    LabelFound found;
    bool here;
    size_t column;
  } ways[] = {
      {LABEL_TOLD, *label, number != CSV_NONE ? numbered : told},
      {LABEL_NAMED, same != CSV_NONE, same},
      {LABEL_NAMED, usual != CSV_NONE, usual},
      {LABEL_ODD, odd != CSV_NONE, odd},
      {LABEL_AS_TRAINED,
       trained && trained->label &&
           (trained->label == LABEL_DIFFERS || trained->columns == s->columns),
       trained ? place_of(first, (size_t)trained->label - 1) : 0},
      {LABEL_FIRST, true, 0},
  };
  size_t way = 0;
  while (!ways[way].here) way++;
  s->label = (int)ways[way].column + 1;
  s->label_found = ways[way].found;
  s->header_label = usual != CSV_NONE ? first->column[usual] + 1 : 0;
  if (way == 0 && number != CSV_NONE && numbered == CSV_NONE)
    return error_set(error, "%s: --ignore-columns leaves out the label, column %s", known->file,
                     label);
  if (way == 0 && ways[way].column == CSV_NONE)
    return error_set(error, "%s, line 1: %s '%s': --label-column takes a number or last, too",
                     known->file, c->named ? "no field is" : "no header names the column", label);
  if (s->label_found == LABEL_AS_TRAINED && trained->label == LABEL_DIFFERS)
    return error_set(error,
                     "%s does not say where its labels are, and the networks had them in different "
                     "columns: --label-column says which",
                     known->file);
  if (ways[way].column >= first->count)
    return error_set(error, "%s, line 1: %zu fields, but --label-column is %s", known->file,
                     c->columns, label);
  if (!c->named) return true;
  const char *name = first->field[ways[way].column];
  const size_t other = find_name_from(first, ways[way].column + 1, name);
  text_append(s->label_name, "%s", name);
  return numbered != CSV_NONE || other == CSV_NONE ||
         error_set(error,
                   "%s, line 1: columns %d and %d are both called '%s': leave one out, as cut does",
                   known->file, first->column[ways[way].column] + 1, first->column[other] + 1,
                   name);
}

/* Returns true if the header says that one of its columns is a label. */
static bool names_label(const FirstLine *first, const CsvColumns *c, const ColumnsKnown *known) {
  return c->named && (find_told_name(first, known->label) != CSV_NONE ||
                      find_usual_name(first) != CSV_NONE || find_odd_name(first) != CSV_NONE);
}

/* Refuses a file that seems to have pixels only: its columns are a square, but without one column
   for the label they are not. */
static bool check_square(const CsvColumns *c, const ColumnsKnown *known, const DataSummary *s,
                         Error *error) {
  enum { LEAST_SIDE = 8 }; /* smaller tables are seldom pictures */
  const size_t columns = c->inputs + c->labelled, side = (size_t)sqrt((double)columns);
  const DataSummary *trained = known->trained;
  const bool fits = trained && ((size_t)trained->inputs == columns || /* refused by the caller */
                                (size_t)trained->inputs + 1 == columns);
  return s->label_found != LABEL_FIRST || fits || side < LEAST_SIDE || side * side != columns ||
         error_set(error,
                   "%s: its %zu columns seem to be %zu x %zu pixels and no label: rows without "
                   "labels are for --predict; if one of the columns is the label, --label-column "
                   "says which",
                   known->file, columns, side, side);
}

static bool find_pixels_and_label(const FirstLine *first, CsvColumns *c, const ColumnsKnown *known,
                                  DataSummary *s, Error *error) {
  const size_t columns = first->count, inputs = (size_t)known->inputs;
  const char *plural_ending = plural((int)columns);
  c->columns = first->all;
  c->labelled = known->lines == LINES_OF_TEXT
                    ? inputs == 0 || columns != inputs || names_label(first, c, known)
                    : known->lines == LINES_OF_LABELLED_PICTURES;
  c->judged = c->labelled && !known->predicts;
  c->inputs = columns - c->labelled;
  s->columns = (int)first->all;
  s->inputs = (int)c->inputs;
  if (inputs > 0 && columns == inputs && !c->labelled && !known->predicts)
    return error_set(error,
                     "%s has no label column: its %zu columns are the network's %zu pixels; rows "
                     "without labels are for --predict",
                     known->file, columns, inputs);
  if (inputs > 0 && c->inputs != inputs && known->predicts && known->lines == LINES_OF_TEXT)
    return error_set(error,
                     "%s, line 1: %zu field%s, but the network takes %zu pixels a row, with or "
                     "without a label",
                     known->file, columns, plural_ending, inputs);
  if (inputs > 0 && c->inputs != inputs)
    return error_set(error, "%s has %zu pixel%s a row, but the network takes %zu", known->file,
                     c->inputs, plural((int)c->inputs), inputs);
  if (inputs == 0 && (columns < 2 || columns > DATASET_MAX_COLUMNS))
    return error_set(error, "%s, line 1: %zu field%s, but a row is a label and 1 to %d pixels%s",
                     known->file, columns, plural_ending, DATASET_MAX_COLUMNS - 1,
                     columns > 2 ? ": make pictures 64 x 64 at most" : "");
  if (!c->labelled) return true;
  if (known->lines != LINES_OF_TEXT) {
    s->label_found = LABEL_NAMED; /* it is in no column, but in another file */
    return true;
  }
  if (!find_label(first, c, known, s, error)) return false;
  c->label = (size_t)s->label - 1;
  return check_square(c, known, s, error);
}

/* ---- the order of pixels ------------------------------------------------------------------- */

/* A column of pixels. */
typedef struct {
  const char *name;
  size_t at;       /* the pixel's index in its list, from 0 */
  unsigned column; /* its column in the file, from 0 */
} Pixel;

static int by_name(const void *a, const void *b) {
  return strcasecmp(((const Pixel *)a)->name, ((const Pixel *)b)->name);
}

/* Compares names as by_name, but the numbers in them as numbers: pixel2 is below pixel10. */
static int by_number(const void *a, const void *b) {
  const char *s = ((const Pixel *)a)->name, *t = ((const Pixel *)b)->name;
  for (; *s && *t; s++, t++) {
    if (isdigit((unsigned char)*s) && isdigit((unsigned char)*t)) {
      char *after_s, *after_t;
      const unsigned long long i = strtoull(s, &after_s, 10), j = strtoull(t, &after_t, 10);
      if (i != j) return i < j ? -1 : 1;
      s = after_s - 1;
      t = after_t - 1;
    } else if (tolower((unsigned char)*s) != tolower((unsigned char)*t)) {
      return tolower((unsigned char)*s) - tolower((unsigned char)*t);
    }
  }
  return (*s != '\0') - (*t != '\0');
}

/* Returns true if no two pixels that are beside each other in the list are in the wrong order. */
static bool is_ascending(const Pixel *list, size_t count,
                         int (*compare)(const void *, const void *)) {
  for (size_t i = 1; i < count; i++)
    if (compare(&list[i - 1], &list[i]) >= 0) return false;
  return true;
}

/* Returns true if all names are the same word with numbers at the end. */
static bool is_one_stem(const Pixel *list, size_t count) {
  const size_t length = stem(list[0].name);
  for (size_t i = 0; i < count; i++)
    if (!list[i].name[length] || stem(list[i].name) != length ||
        strncasecmp(list[i].name, list[0].name, length) != 0)
      return false;
  return true;
}

/* Returns true if the names, in ascending order, count without a gap from 0 or from 1. */
static bool is_count(const Pixel *list, size_t count) {
  const size_t length = stem(list[0].name);
  const long start = strtol(list[0].name + length, NULL, 10);
  for (size_t i = 0; i < count; i++)
    if (strtol(list[i].name + length, NULL, 10) != start + (long)i) return false;
  return start >= 0 && start <= 1;
}

/* Splits a text of `count` lines into `count` texts. Returns false if it has another number. */
static bool split_names(char *text, Pixel *list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char *end = strchr(text, '\n');
    if (!end) return false;
    *end = '\0';
    list[i] = (Pixel){.name = text, .at = i};
    text = end + 1;
  }
  return !*text;
}

/* Returns true if the lists, which are both sorted by number, count the same word from 0 and 1. */
static bool counts_alike(const Pixel *a, const Pixel *b, size_t count) {
  return is_one_stem(a, count) && is_one_stem(b, count) && is_count(a, count) &&
         is_count(b, count) && stem(a[0].name) == stem(b[0].name) &&
         strncasecmp(a[0].name, b[0].name, stem(a[0].name)) == 0;
}

bool columns_alike(const char *names, const char *others) {
  size_t count = 0;
  if (!*names || !*others || strcasecmp(names, others) == 0) return true;
  for (const char *c = names; *c; c++) count += *c == '\n';
  char *a = strdup(names), *b = strdup(others);
  Pixel *list = calloc(2 * count + 1, sizeof *list);
  const bool alike = count > 0 && a && b && list && split_names(a, list, count) &&
                     split_names(b, list + count, count) && counts_alike(list, list + count, count);
  free(a);
  free(b);
  free(list);
  return alike;
}

/* Three lists of all pixels: in the order of the file, sorted, and the training rows' sorted. */
typedef struct {
  size_t count;
  Pixel *file, *sorted, *trained;
} PixelLists;

/* Sets c->order if the file has the names of the training rows. If it has other names, returns
   false, with the first that differs. */
static bool order_as_trained(const PixelLists *l, const ColumnsKnown *known, const CsvColumns *c,
                             Error *error) {
  const size_t count = l->count;
  const char *wanted = l->trained[0].name;
  size_t other = count; /* the first pixel of the file, in its order, with another name */
  qsort(l->sorted, count, sizeof *l->sorted, by_number);
  if (!counts_alike(l->sorted, l->trained, count)) {
    qsort(l->sorted, count, sizeof *l->sorted, by_name);
    qsort(l->trained, count, sizeof *l->trained, by_name);
    for (size_t i = 0; i < count; i++)
      if (!bsearch(&l->file[i], l->trained, count, sizeof *l->file, by_name) && other == count)
        other = i;
    for (size_t i = 0; i < count && other == count; i++)
      if (by_name(&l->sorted[i], &l->trained[i]) != 0 ||
          (i > 0 && by_name(&l->sorted[i - 1], &l->sorted[i]) == 0))
        other = l->sorted[i].at;
  }
  for (size_t i = 0; i < count; i++) {
    c->order[l->sorted[i].at] = (uint16_t)l->trained[i].at;
    if (l->trained[i].at == other) wanted = l->trained[i].name;
  }
  return other == count ||
         error_set(error,
                   "%s, line 1: column %u is '%.60s', but the training rows have '%.60s' there; if "
                   "these are the same pixels in the same order, remove the header line",
                   known->file, l->file[other].column + 1u, l->file[other].name, wanted);
}

/* Returns true if all names differ in numbers only. Names such as 0a, in hexadecimal, do not. */
static bool differ_in_numbers(const Pixel *list, size_t count) {
  for (size_t i = 1; i < count; i++) {
    const char *s = list[0].name, *t = list[i].name;
    while (*s && *t && (isdigit((unsigned char)*s) != 0) == (isdigit((unsigned char)*t) != 0)) {
      if (!isdigit((unsigned char)*s) && tolower((unsigned char)*s) != tolower((unsigned char)*t))
        return false;
      const size_t digits = strspn(s, DIGITS), others = strspn(t, DIGITS);
      s += digits ? digits : 1;
      t += others ? others : 1;
    }
    if (*s || *t) return false;
  }
  return true;
}

/* Sets order[count] if the names have numbers whose order is not that of the columns. Names with
   several numbers, such as 2x10, could be row and column or column and row, so that their order is
   only changed if the names were sorted as texts. */
static void order_by_number(const PixelLists *l, uint16_t *order) {
  const bool sorted_as_text =
      differ_in_numbers(l->file, l->count) && is_ascending(l->file, l->count, by_name);
  qsort(l->sorted, l->count, sizeof *l->sorted, by_number);
  const bool use = is_ascending(l->sorted, l->count, by_number) &&
                   (is_one_stem(l->file, l->count) || sorted_as_text);
  for (size_t i = 0; i < l->count; i++) order[use ? l->sorted[i].at : i] = (uint16_t)i;
}

/* Sets s->names to the names in the network's order, or to "" if they are too long. */
static void keep_names(const PixelLists *l, const uint16_t *order, DataSummary *s) {
  size_t length = 0;
  for (size_t i = 0; i < l->count; i++) {
    l->sorted[order[i]] = l->file[i];
    length += strlen(l->file[i].name) + 1;
  }
  *s->names = '\0';
  char *end = s->names;
  for (size_t i = 0; i < l->count && length < sizeof s->names; i++)
    end += sprintf(end, "%s\n", l->sorted[i].name);
}

/* Returns true if the file has the names of the training rows, in the same order. */
static bool is_same_list(const PixelLists *l) {
  for (size_t i = 0; i < l->count; i++)
    if (by_name(&l->file[i], &l->trained[i]) != 0) return false;
  return true;
}

/* Decides the order of the pixels of a file with a header. */
static bool order_pixels(const FirstLine *first, CsvColumns *c, const ColumnsKnown *known,
                         DataSummary *s, Error *error) {
  const DataSummary *trained = known->trained;
  const size_t count = c->inputs;
  char *text = strdup(trained ? trained->names : "");
  Pixel *lists = calloc(3 * count, sizeof *lists);
  const PixelLists l = {count, lists, lists + count, lists + 2 * count};
  c->order = calloc(count, sizeof *c->order);
  bool good = text && lists && c->order;
  if (!good) error_set(error, "no memory to read %s", known->file);
  for (size_t i = 0; good && i < count; i++) {
    const size_t place = i + (c->labelled && i >= c->label);
    l.file[i] = l.sorted[i] = (Pixel){first->field[place], i, first->column[place]};
    c->order[i] = (uint16_t)i;
  }
  /* A network of an older version has no names. It was trained on the columns as they were. */
  const bool unknown = trained && trained->header && !*trained->names;
  const bool as_trained = good && *text && split_names(text, l.trained, count);
  s->order = ORDER_KEPT;
  if (as_trained)
    good = is_same_list(&l) || order_as_trained(&l, known, c, error);
  else if (good)
    order_by_number(&l, c->order);
  for (size_t i = 0; good && i < count && s->order == ORDER_KEPT; i++)
    if (c->order[i] != i) s->order = as_trained ? ORDER_AS_TRAINED : ORDER_BY_NUMBER;
  if (s->order == ORDER_BY_NUMBER && unknown) {
    s->order = ORDER_DOUBTFUL;
    for (size_t i = 0; i < count; i++) c->order[i] = (uint16_t)i;
  }
  if (good) keep_names(&l, c->order, s);
  free(text);
  free(lists);
  return good;
}

/* ---- all of it ----------------------------------------------------------------------------- */

bool columns_decide(const ColumnsKnown *known, const char *line, size_t length, CsvColumns *c,
                    DataSummary *s, Error *error) {
  FirstLine *first = split_line(known->file, line, length, c, error);
  if (!first) return false;
  const bool is_text = known->lines == LINES_OF_TEXT;
  s->header = c->named = is_text && is_header(first, known->label);
  bool good = check_header(first, known, error) &&
              (!is_text || leave_out_told(first, c, known, error)) &&
              leave_out_numbers(first, c, known, error) &&
              find_pixels_and_label(first, c, known, s, error) &&
              (!c->named || order_pixels(first, c, known, s, error));
  if (good) settle_stops(first, c, s);
  free(first);
  if (good && s->order >= ORDER_BY_NUMBER) return true;
  free(c->order);
  c->order = NULL;
  return good;
}
