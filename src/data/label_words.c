#include "data/label_words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "data/csv_chunk.h"

typedef struct {
  CsvColumns columns;
  bool decided;   /* the first row was seen */
  bool are_words; /* its label is a word */
  bool has_row;   /* its other fields are no words */
  bool is_header, out_of_memory;
  size_t at; /* number of the row's fields so far */
  size_t count;
  char *word[DATASET_MAX_CLASSES + 1]; /* (count): in ascending order */
} Words;

/* Adds a word unless it is there. */
static void add(Words *w, const char *text, size_t length) {
  size_t low = 0, high = w->count;
  char *word = strndup(text, length);
  w->out_of_memory |= !word;
  while (word && low < high) {
    const size_t middle = (low + high) / 2;
    const int order = strcmp(word, w->word[middle]);
    if (order == 0) break;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  if (!word || low < high || w->count > DATASET_MAX_CLASSES) {
    free(word);
    return;
  }
  memmove(w->word + low + 1, w->word + low, (w->count - low) * sizeof *w->word);
  w->word[low] = word;
  w->count++;
}

/* Returns true if a word can begin so: with a letter, or a byte of UTF-8 beyond ASCII. */
static bool begins_word(const char *text) {
  return isalpha((unsigned char)*text) || (unsigned char)*text >= 0x80;
}

static void see_field(void *field, size_t length, void *context) {
  Words *w = context;
  const char *text = field;
  const size_t at = w->at++;
  if (w->is_header) return;
  if (!w->decided && !columns_stop(&w->columns, at)) w->has_row &= length > 0 && !begins_word(text);
  if (at != w->columns.label_at) return;
  if (!w->decided) w->are_words = length > 0 && begins_word(text);
  if (w->are_words && length > 0 && w->count <= DATASET_MAX_CLASSES) add(w, text, length);
}

static void see_end(int terminator, void *context) {
  Words *w = context;
  if (terminator == CSV_CR) return;
  if (!w->is_header && !w->decided) {
    w->decided = true;
    w->are_words &= w->has_row && w->at == w->columns.columns;
  }
  w->is_header = false;
  w->at = 0;
}

static const char *or_empty(const char *text) {
  return text ? text : "";
}

/* Learns the columns from the first line. Returns false if the reader will refuse the file. */
static bool decide(Words *w, const DatasetConfig *c, const char *text, size_t length) {
  Error why;
  DataSummary *summary = calloc(1, sizeof *summary);
  const char *end = memchr(text, '\n', length);
  const ColumnsKnown known = {.file = c->path,
                              .label = or_empty(c->label),
                              .left_out = or_empty(c->left_out),
                              .inputs = c->inputs};
  const bool good =
      summary && end && csv_check_text(c->path, text, (size_t)(end - text), &why) &&
      columns_decide(&known, text, (size_t)(end - text) + 1, &w->columns, summary, &why);
  w->is_header = w->columns.named;
  w->has_row = true;
  free(w->columns.order);
  free(summary);
  return good && w->columns.labelled;
}

static void gather(Words *w, const DatasetConfig *c, Source *source, char *text, size_t size) {
  struct csv_parser csv;
  size_t length = source_read(source, text, size);
  const size_t mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  if (!decide(w, c, text + mark, length - mark)) return;
  memmove(text, text + mark, length -= mark);
  csv_init(&csv, CSV_REPALL_NL);
  csv_set_delim(&csv, (unsigned char)w->columns.separator);
  while (length > 0 && csv_parse(&csv, text, length, see_field, see_end, w) == length &&
         (w->are_words || !w->decided))
    length = source_read(source, text, size);
  w->out_of_memory |= csv_error(&csv) == CSV_ENOMEM;
  csv_fini(&csv, see_field, see_end, w);
  csv_free(&csv);
}

bool label_words(const DatasetConfig *config, char **words, Error *error) {
  enum { TEXT = 1 << 18 };
  Source source = {.file = -1};
  Error why;
  *words = NULL;
  if (!source_can_repeat(config->path)) return true;
  Words *w = calloc(1, sizeof *w);
  char *text = malloc(TEXT);
  if (w && text && source_open(&source, config->path, &why)) gather(w, config, &source, text, TEXT);
  if (source.name) source_close(&source);
  size_t size = 0;
  bool good = w && text && !w->out_of_memory;
  const size_t count = good && w->are_words ? w->count : 0;
  for (size_t i = 0; i < count; i++) size += strlen(w->word[i]) + 1;
  if (good && size > 0) *words = calloc(1, size);
  if (!good || (size > 0 && !*words)) {
    good = error_set(error, "no memory to read %s", config->path);
  } else if (count > DATASET_MAX_CLASSES) {
    good = error_set(error,
                     "%s: more than %d different words as labels: --label-column says where "
                     "labels are",
                     config->path, DATASET_MAX_CLASSES);
  } else {
    for (size_t i = 0; *words && i < count; i++) {
      if (i > 0) strcat(*words, "\n");
      strcat(*words, w->word[i]);
    }
  }
  for (size_t i = 0; w && i < w->count; i++) free(w->word[i]);
  if (!good) {
    free(*words);
    *words = NULL;
  }
  free(text);
  free(w);
  return good;
}
