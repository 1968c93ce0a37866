#include "data/summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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
  return text_format("%" PRIu64 " row%s, %d class%s, pixels %d to %d", s->rows,
                     s->rows == 1 ? "" : "s", classes, classes == 1 ? "" : "es", s->least,
                     s->greatest);
}

/* ---- JSON --------------------------------------------------------------------------------- */

/* Does not use jansson, because jansson omits values if memory runs out. */
char *data_to_json(const DataSummary *s) {
  enum { ROOM = 32 * (DATASET_MAX_CLASSES + 16) };
  char *text = calloc(ROOM, 1);
  if (!text) return NULL;
  text_append_to(text, ROOM,
                 "{\"rows\": %" PRIu64
                 ", \"columns\": %d, \"inputs\": %d, \"header\": %s, \"alike\": "
                 "%" PRIu64 ", \"least\": %d, \"greatest\": %d, \"mean\": %.17g, \"counts\": [",
                 s->rows, s->columns, s->inputs, s->header ? "true" : "false", s->alike, s->least,
                 s->greatest, s->mean);
  for (int c = 0; c < s->classes; c++)
    text_append_to(text, ROOM, "%s%" PRIu64, c ? ", " : "", s->counts[c]);
  text_append_to(text, ROOM, "]}");
  return text;
}

bool data_from_json(DataSummary *s, const char *text) {
  json_t *root = json_loads(text, 0, NULL), *counts = NULL;
  json_int_t rows, alike;
  int header;
  *s = (DataSummary){0};
  const bool good =
      json_unpack(root, "{s:I, s:i, s:i, s:b, s:I, s:i, s:i, s:F, s:o}", "rows", &rows, "columns",
                  &s->columns, "inputs", &s->inputs, "header", &header, "alike", &alike, "least",
                  &s->least, "greatest", &s->greatest, "mean", &s->mean, "counts", &counts) == 0 &&
      json_array_size(counts) <= DATASET_MAX_CLASSES;
  if (good) {
    s->rows = (uint64_t)rows;
    s->alike = (uint64_t)alike;
    s->header = header;
    s->classes = (int)json_array_size(counts);
    for (int c = 0; c < s->classes; c++)
      s->counts[c] = (uint64_t)json_integer_value(json_array_get(counts, (size_t)c));
  }
  json_decref(root);
  return good;
}

/* ---- remarks ------------------------------------------------------------------------------ */

/* Returns a remark, or "" if the remark does not apply. */
typedef ShortText Remark(const DataSummary *rows, const DataSummary *trained);

static const ShortText nothing = {""};

static ShortText is_sorted(const DataSummary *s, const DataSummary *trained) {
  return trained || !s->sorted || s->streamed /* the trainer warns of streamed rows */
             ? nothing
             : text_format("sorted by label: epoch 1 waits for all rows, and mixes them");
}

/* Remarks on the first range of labels that no row has, such as 2 to 9. */
static ShortText lacks_labels(const DataSummary *s, const DataSummary *trained) {
  int first = 0, end;
  while (first < s->classes && s->counts[first]) first++;
  for (end = first; end < s->classes && !s->counts[end];) end++;
  if (trained || first == s->classes) return nothing;
  ShortText text = end - first == 1 ? text_format("label %d does not occur", first)
                                    : text_format("labels %d to %d do not occur", first, end - 1);
  text_append(text.text, ": --classes is %d, --label-column says where labels are", s->classes);
  return text;
}

/* Remarks if rows have slightly more pixels than a square: some columns may not be pixels. */
static ShortText is_no_square(const DataSummary *s, const DataSummary *trained) {
  enum { LEAST_SIDE = 8 };
  const int side = (int)sqrt(s->inputs), more = s->inputs - side * side;
  return trained || side < LEAST_SIDE || more == 0 || more > side
             ? nothing
             : text_format("%d pixels are not a square: %d columns too many for %d x %d?",
                           s->inputs, more, side, side);
}

static ShortText is_dim(const DataSummary *s, const DataSummary *trained) {
  return trained || s->greatest == 0 || 4 * s->greatest > s->white + 3
             ? nothing
             : text_format("the largest pixel is %d: --pixel-max %d", s->greatest, s->greatest);
}

bool data_are_equal(const DataSummary *a, const DataSummary *b) {
  return (a->inode && a->inode == b->inode && a->device == b->device) ||
         (a->rows == b->rows && a->alike == b->alike && a->mean == b->mean &&
          memcmp(a->counts, b->counts, sizeof a->counts) == 0);
}

static ShortText was_trained_on(const DataSummary *s, const DataSummary *trained) {
  return trained && data_are_equal(s, trained)
             ? text_format("these are the training rows: --validation 0.1 holds rows out")
             : nothing;
}

static ShortText has_other_range(const DataSummary *s, const DataSummary *trained) {
  if (!trained || s->greatest == 0 ||
      (2 * s->greatest > trained->greatest && s->greatest < 2 * trained->greatest))
    return nothing;
  return text_format("pixels are %d to %d, in training %d to %d: multiply them by %.3g", s->least,
                     s->greatest, trained->least, trained->greatest,
                     (double)trained->greatest / s->greatest);
}

/* Remarks if pixels seem inverted: the mean is far from the training mean m, closer to most - m. */
static ShortText is_inverted(const DataSummary *s, const DataSummary *trained) {
  if (!trained) return nothing;
  const double most = trained->greatest, off = fabs(s->mean - trained->mean);
  return off > most / 4 && fabs(s->mean - (most - trained->mean)) < off
             ? text_format("the mean pixel is %.3g, in training %.3g: subtract each from %d",
                           s->mean, trained->mean, trained->greatest)
             : nothing;
}

static ShortText has_new_label(const DataSummary *s, const DataSummary *trained) {
  for (int c = 0; trained && c < s->classes; c++)
    if (s->counts[c] && !trained->counts[c])
      return text_format("label %d has %" PRIu64
                         " rows, but none in training: are these its labels?",
                         c, s->counts[c]);
  return nothing;
}

static Remark *const remarks[] = {is_sorted,      lacks_labels,    is_no_square, is_dim,
                                  was_trained_on, has_other_range, is_inverted,  has_new_label};

void data_compare(const char *name, const DataSummary *rows, const DataSummary *trained,
                  void (*say)(void *context, const char *line), void *context) {
  foreach (remark, remarks) {
    const ShortText text = (*remark)(rows, trained);
    if (rows->rows > 0 && *text.text)
      say(context, text_format("%.300s: %s", text_shown(name).text, text.text).text);
  }
}
