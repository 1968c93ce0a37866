#include "data/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/sizes.h"

static int labels_that_occur(const DataSummary *s) {
  int count = 0;
  for (int c = 0; c < s->classes; c++) count += s->counts[c] > 0;
  return count;
}

bool data_is_sorted(const DataSummary *s, bool so_far) {
  enum { FEWEST = 64 }; /* with fewer expected label changes, a sorted order may be chance */
  const double rows = (double)s->rows;
  double changes = rows;
  for (int c = 0; c < s->classes; c++)
    changes -= (double)s->counts[c] * (double)s->counts[c] / fmax(rows, 1);
  if (so_far && labels_that_occur(s) == 1) return true;
  return changes >= FEWEST && 2 * (rows - 1 - (double)s->alike) < changes;
}

ShortText data_text(const DataSummary *s) {
  const int classes = labels_that_occur(s);
  const char *rows = s->rows == 1 ? "row" : "rows";
  return text_format("%" PRIu64 " %s, %d class%s, pixels %d to %d", s->rows, rows, classes,
                     classes == 1 ? "" : "es", s->least, s->greatest);
}

/* ---- JSON --------------------------------------------------------------------------------- */

/* Writes the names of the pixels as a list, or nothing if they are unknown. */
static void names_to_json(const DataSummary *s, FILE *file) {
  const char *name = s->names;
  if (!*name) return;
  for (const char *before = ", \"pixels\": ["; *name; before = ", ") {
    char text[DATASET_NAMES];
    const int length = (int)strcspn(name, "\n");
    snprintf(text, sizeof text, "%.*s", length, name);
    fputs(before, file);
    json_text(text, file);
    name += length + 1;
  }
  putc(']', file);
}

/* Does not use jansson, because jansson omits values if memory runs out. */
char *data_to_json(const DataSummary *s) {
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  if (!file) return NULL;
  fprintf(file,
          "{\"rows\": %" PRIu64 ", \"columns\": %d, \"inputs\": %d, \"header\": %s, \"alike\": "
          "%" PRIu64 ", \"least\": %d, \"greatest\": %d, \"mean\": %.17g, \"counts\": [",
          s->rows, s->columns, s->inputs, s->header ? "true" : "false", s->alike, s->least,
          s->greatest, s->mean);
  for (int c = 0; c < s->classes; c++) fprintf(file, "%s%" PRIu64, c ? ", " : "", s->counts[c]);
  fprintf(file, "], \"label\": %d, \"label_name\": ", s->label);
  json_text(s->label_name, file);
  fprintf(file, ", \"reordered\": %s", s->order >= ORDER_BY_NUMBER ? "true" : "false");
  if (s->words) fputs(", \"words\": true", file);
  names_to_json(s, file);
  fprintf(file, ", \"file_rows\": %" PRIu64 ", \"file_size\": %" PRIu64 "}", s->file_rows,
          s->file_size);
  const bool failed = ferror(file);
  if (fclose(file) == 0 && !failed) return text;
  free(text);
  return NULL;
}

/* Sets s->names from a list of `s->inputs` names. Leaves it empty if the list is another one. */
static void names_from_json(DataSummary *s, const json_t *list) {
  size_t length = 0, count = 0, i;
  json_t *name;
  json_array_foreach (list, i, name) {
    const char *text = json_string_value(name);
    if (!text || strchr(text, '\n')) break;
    length += strlen(text) + 1;
    count++;
  }
  if (count != (size_t)s->inputs || count != json_array_size(list) || length >= sizeof s->names)
    return;
  char *end = s->names;
  json_array_foreach (list, i, name) end += sprintf(end, "%s\n", json_string_value(name));
}

/* Reads what older versions of the program did not save. */
static void columns_from_json(DataSummary *s, json_t *root) {
  const char *label_name = "";
  json_t *names = NULL;
  int reordered = 0, words = 0;
  json_int_t file_rows = 0, file_size = 0;
  json_unpack(root, "{s?i, s?s, s?b, s?b, s?o, s?I, s?I}", "label", &s->label, "label_name",
              &label_name, "reordered", &reordered, "words", &words, "pixels", &names, "file_rows",
              &file_rows, "file_size", &file_size);
  s->words = words;
  if (s->label < 0 || s->label > s->columns) s->label = 0;
  text_append(s->label_name, "%s", label_name);
  names_from_json(s, names);
  s->order = reordered ? ORDER_BY_NUMBER : ORDER_KEPT;
  s->file_rows = (uint64_t)file_rows;
  s->file_size = (uint64_t)file_size;
}

static bool is_byte(int value) {
  return value >= 0 && value <= UINT8_MAX;
}

bool data_from_json(DataSummary *s, const char *text) {
  json_t *root = json_loads(text, 0, NULL), *counts = NULL;
  json_int_t rows = 0, alike = 0;
  int header = 0;
  *s = (DataSummary){0};
  const bool good =
      json_unpack(root, "{s:I, s:i, s:i, s:b, s:I, s:i, s:i, s:F, s:o}", "rows", &rows, "columns",
                  &s->columns, "inputs", &s->inputs, "header", &header, "alike", &alike, "least",
                  &s->least, "greatest", &s->greatest, "mean", &s->mean, "counts", &counts) == 0 &&
      json_array_size(counts) <= DATASET_MAX_CLASSES && is_byte(s->least) && is_byte(s->greatest);
  if (good) {
    s->rows = (uint64_t)rows;
    s->alike = (uint64_t)alike;
    s->header = header;
    s->classes = (int)json_array_size(counts);
    for (int c = 0; c < s->classes; c++)
      s->counts[c] = (uint64_t)json_integer_value(json_array_get(counts, (size_t)c));
    columns_from_json(s, root);
  } else {
    *s = (DataSummary){0};
  }
  json_decref(root);
  return good;
}

/* ---- remarks ------------------------------------------------------------------------------ */

/* Returns a remark, or "" if the remark does not apply. */
typedef ShortText Remark(const DataSummary *rows, const DataSummary *trained);

static const ShortText nothing = {""};

/* Remarks on training rows. */

static ShortText is_sorted(const DataSummary *s, const DataSummary *trained) {
  (void)trained;
  return !s->sorted || s->streamed /* the trainer warns of streamed rows */
             ? nothing
             : text_format("sorted by label: epoch 1 waits for all rows, and mixes them");
}

/* Remarks on the first range of labels that no row has, such as 2 to 9. */
static ShortText lacks_labels(const DataSummary *s, const DataSummary *trained) {
  (void)trained;
  int first = 0, end;
  while (first < s->classes && s->counts[first]) first++;
  for (end = first; end < s->classes && !s->counts[end];) end++;
  if (first == s->classes) return nothing;
  ShortText text = end - first == 1 ? text_format("label %d does not occur", first)
                                    : text_format("labels %d to %d do not occur", first, end - 1);
  text_append(text.text, ": --classes is %d", s->classes);
  if (s->label_found < LABEL_NAMED)
    text_append(text.text, ", --label-column says where labels are");
  return text;
}

/* Remarks if rows have three pixels for each pixel of a square, as pictures in colour have. */
static ShortText has_colours(const DataSummary *s, const DataSummary *trained) {
  enum { LEAST_SIDE = 8, COLOURS = 3 };
  (void)trained;
  const int side = (int)sqrt(s->inputs / (double)COLOURS);
  return side < LEAST_SIDE || COLOURS * side * side != s->inputs
             ? nothing
             : text_format("%d pixels seem to be %d x %d in 3 colours: they train as they are, but "
                           "--classify reads grey pictures only",
                           s->inputs, side, side);
}

/* Remarks if rows have slightly more pixels than a square: some columns may not be pixels. */
static ShortText is_no_square(const DataSummary *s, const DataSummary *trained) {
  enum { LEAST_SIDE = 8 };
  const int side = (int)sqrt(s->inputs), more = s->inputs - side * side;
  return side < LEAST_SIDE || more == 0 || more > side || *has_colours(s, trained).text
             ? nothing
             : text_format("%d pixels are not a square: %d column%s too many for %d x %d?",
                           s->inputs, more, plural(more), side, side);
}

static ShortText is_dim(const DataSummary *s, const DataSummary *trained) {
  (void)trained;
  return s->greatest == 0 || 4 * s->greatest > s->white + 3
             ? nothing
             : text_format("the largest pixel is %d: --pixel-max %d", s->greatest, s->greatest);
}

/* Remarks on a table of names, EMNIST's mapping, which can be read as rows: each class has one row,
   with one or two codes of characters. */
static ShortText is_mapping(const DataSummary *s, const DataSummary *trained) {
  (void)trained;
  return s->inputs <= 2 && s->rows == (uint64_t)labels_that_occur(s) && s->least >= ' ' &&
                 s->greatest <= '~'
             ? text_format("a row per class with the code of a character is EMNIST's mapping, not "
                           "rows to train on: --names reads it")
             : nothing;
}

/* Remarks on all rows. */

/* Returns the label's column in words, such as "column 65, 'label'". */
static ShortText label_text(const DataSummary *s) {
  ShortText text = text_format("column %d", s->label);
  if (*s->label_name) text_append(text.text, ", '%s'", text_shown(s->label_name).text);
  return text;
}

static ShortText is_reordered(const DataSummary *s, const DataSummary *trained) {
  static const char *const what[] = {
      [ORDER_DOUBTFUL] = "their numbers, but the network does not know its own: taken as they are",
      [ORDER_BY_NUMBER] = "their numbers: put into that order",
      [ORDER_AS_TRAINED] = "the training rows: put into that order"};
  (void)trained;
  return s->order == ORDER_KEPT
             ? nothing
             : text_format("its columns are not in the order of %s", what[s->order]);
}

static ShortText has_ids(const DataSummary *s, const DataSummary *trained) {
  (void)trained;
  if (!s->id) return nothing;
  return strchr(s->ids, ',') ? text_format("columns %s number the rows: left out", s->ids)
                             : text_format("column %d numbers the rows: left out", s->id);
}

static ShortText has_odd_label(const DataSummary *s, const DataSummary *trained) {
  return s->label_found == LABEL_ODD && !s->counts_up && (!trained || s->label != trained->label)
             ? text_format("%s, is taken for the label, because only its name has no number",
                           label_text(s).text)
             : nothing;
}

static ShortText has_two_labels(const DataSummary *s, const DataSummary *trained) {
  (void)trained;
  return s->label_found == LABEL_TOLD && s->header_label && s->header_label != s->label
             ? text_format("the label is column %d, as --label-column says, but the header calls "
                           "column %d so",
                           s->label, s->header_label)
             : nothing;
}

/* Remarks on ignored labels that cannot be labels. */
static ShortText ignores_no_label(const DataSummary *s, const DataSummary *trained) {
  enum { ENOUGH = 10 };
  (void)trained;
  if (s->rows < ENOUGH) return nothing;
  if (s->counts_up)
    return text_format("%s, was ignored as the label, but it counts up from %" PRIu64
                       ": leave out columns that are neither label nor pixel",
                       label_text(s).text, s->first_ignored);
  return s->constant && s->label_found < LABEL_NAMED
             ? text_format("%s, was ignored as the label, but it is %" PRIu64
                           " in all rows: --label-column says where labels are",
                           label_text(s).text, s->first_ignored)
             : nothing;
}

/* Remarks that compare rows with the training rows. */

bool data_are_equal(const DataSummary *a, const DataSummary *b) {
  return a->rows == b->rows && a->alike == b->alike && a->mean == b->mean &&
         memcmp(a->counts, b->counts, sizeof a->counts) == 0;
}

/* Returns true if the rows come from the file that the training rows came from, or from a copy. A
   file of another size has other rows by now. */
static bool is_training_file(const DataSummary *s, const DataSummary *trained) {
  const bool same = s->inode && s->inode == trained->inode && s->device == trained->device &&
                    s->file_size == trained->file_size,
             copy = s->file_rows > 0 && s->file_rows == trained->file_rows &&
                    s->mean == trained->mean && s->greatest > 0;
  return same || copy || data_are_equal(s, trained);
}

static ShortText was_trained_on(const DataSummary *s, const DataSummary *trained) {
  if (labels_that_occur(s) == 0 || !is_training_file(s, trained)) return nothing; /* no judging */
  if (trained->file_rows <= trained->rows)
    return text_format("these are the training rows: --validation 0.1 holds rows out");
  return text_format(
      "these are the training rows: %.0f%% of them were trained on, the rest were held out",
      100 * (double)trained->rows / (double)trained->file_rows);
}

static ShortText has_other_label_column(const DataSummary *s, const DataSummary *trained) {
  if (s->label == 0 || trained->label <= 0 || s->counts_up) return nothing;
  if (s->label_found == LABEL_AS_TRAINED && s->label != 1)
    return text_format("no header names the label: column %d, as in training", s->label);
  return s->label != trained->label ? text_format("the label is %s, in training %s",
                                                  label_text(s).text, label_text(trained).text)
                                    : nothing;
}

static ShortText has_numbers(const DataSummary *s, const DataSummary *trained) {
  (void)trained;
  return s->mapped ? text_format("labels are numbers, in training words: 0 is taken for 'zero', 1 "
                                 "for 'one', and so on")
                   : nothing;
}

/* Returns the name of the first pixel, as it can be printed. */
static ShortText first_pixel(const DataSummary *s) {
  return text_shown(text_format("%.*s", (int)strcspn(s->names, "\n"), s->names).text);
}

static ShortText has_other_names(const DataSummary *s, const DataSummary *trained) {
  if (trained->order >= ORDER_BY_NUMBER && !s->header)
    return text_format("it has no header, and the training rows had their columns in another order "
                       "than their numbers: columns are taken in the order of numbers");
  const ShortText own = first_pixel(s), other = first_pixel(trained);
  return *own.text && *other.text && strcasecmp(own.text, other.text) != 0
             ? text_format("the first pixel is '%.64s', in training '%.64s': columns are taken in "
                           "the order of their numbers",
                           own.text, other.text)
             : nothing;
}

static ShortText has_other_range(const DataSummary *s, const DataSummary *trained) {
  if (s->greatest == 0 ||
      (2 * s->greatest > trained->greatest && s->greatest < 2 * trained->greatest))
    return nothing;
  return text_format("pixels are %d to %d, in training %d to %d: multiply them by %.3g", s->least,
                     s->greatest, trained->least, trained->greatest,
                     (double)trained->greatest / s->greatest);
}

/* Remarks if pixels seem inverted: the mean is far from the training mean m, closer to most - m. */
static ShortText is_inverted(const DataSummary *s, const DataSummary *trained) {
  const double most = trained->greatest, off = fabs(s->mean - trained->mean);
  return off > most / 4 && fabs(s->mean - (most - trained->mean)) < off
             ? text_format("the mean pixel is %.3g, in training %.3g: subtract each from %d",
                           s->mean, trained->mean, trained->greatest)
             : nothing;
}

static ShortText has_new_label(const DataSummary *s, const DataSummary *trained) {
  for (int c = 0; c < s->classes; c++)
    if (s->counts[c] && !trained->counts[c])
      return text_format("label %d has %" PRIu64
                         " rows, but none in training: are these its labels?",
                         c, s->counts[c]);
  return nothing;
}

static ShortText is_on_side(const DataSummary *s, const DataSummary *trained) {
  (void)trained;
  return s->on_side
             ? text_format("EMNIST's pictures lie on their side, so a network that is trained "
                           "on them cannot read upright pictures with --classify")
             : nothing;
}

/* Which rows a remark is on: training rows, all rows, or rows that are compared with known training
   rows. */
typedef enum { OF_TRAINING, OF_ALL, COMPARED } RemarkOn;

static const struct {
  Remark *remark;
  RemarkOn on;
} remarks[] = {
    {is_sorted, OF_TRAINING},
    {lacks_labels, OF_TRAINING},
    {has_colours, OF_TRAINING},
    {is_no_square, OF_TRAINING},
    {is_dim, OF_TRAINING},
    {is_mapping, OF_TRAINING},
    {is_on_side, OF_TRAINING},
    {is_reordered, OF_ALL},
    {has_ids, OF_ALL},
    {has_odd_label, OF_ALL},
    {has_two_labels, OF_ALL},
    {ignores_no_label, OF_ALL},
    {was_trained_on, COMPARED},
    {has_other_label_column, COMPARED},
    {has_numbers, COMPARED},
    {has_other_names, COMPARED},
    {has_other_range, COMPARED},
    {is_inverted, COMPARED},
    {has_new_label, COMPARED},
};

void data_compare(const char *name, const DataSummary *rows, const DataSummary *trained,
                  void (*say)(void *context, const char *line), void *context) {
  const bool known = trained && trained->rows > 0;
  foreach (row, remarks) {
    if ((row->on == OF_TRAINING && trained) || (row->on == COMPARED && !known)) continue;
    const ShortText text = row->remark(rows, trained);
    if (rows->rows > 0 && *text.text)
      say(context, text_format("%.300s: %s", text_shown(name).text, text.text).text);
  }
}
