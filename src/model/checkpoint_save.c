/* Saving a checkpoint as safetensors. */
#include "model/checkpoint.h"

#include <errno.h>
#include <string.h>

#include <jansson.h>

#include "base/output.h"
#include "model/checkpoint_format.h"

/* ---- numbers in __metadata__ --------------------------------------------------------------- */

static json_t *field_text(const Checkpoint *checkpoint, const Field *field) {
  const void *value = (const char *)checkpoint + field->offset;
  char text[32] = "";
  switch (field->kind) {
  case FIELD_INT:
    snprintf(text, sizeof text, "%d", *(const int *)value);
    break;
  case FIELD_COUNT:
    snprintf(text, sizeof text, "%llu", (unsigned long long)*(const uint64_t *)value);
    break;
  case FIELD_REAL: /* 17 digits tell every double from its neighbours */
    snprintf(text, sizeof text, "%.17g", *(const double *)value);
    break;
  }
  return json_string(text);
}

/* ---- saving: what is written --------------------------------------------------------------- */

typedef struct {
  char name[32];
  int rows, columns; /* columns 0: a bias */
  const float *values;
  size_t count;
} Piece;

/* A file: the head, then the values of every piece. */
typedef struct {
  uint8_t *head; /* length and header; owned */
  size_t head_size;
  Piece pieces[CHECKPOINT_TENSORS_MAX];
  int count;
} Content;

static void list_pieces(const Checkpoint *checkpoint, Content *content) {
  const Network *network = &checkpoint->network;
  for (int a = 0; a < checkpoint->count; a++) {
    const float *values = checkpoint->parameters + (size_t)a * network->floats;
    const char *prefix = prefixes[checkpoint->kind[a]];
    for (int l = 0; l < network->layers; l++) {
      const int in = network->size[l], out = network->size[l + 1];
      Piece *weight = &content->pieces[content->count++];
      Piece *bias = &content->pieces[content->count++];
      *weight = (Piece){"", out, in, values + network->weight[l], (size_t)out * (size_t)in};
      *bias = (Piece){"", out, 0, values + network->bias[l], (size_t)out};
      snprintf(weight->name, sizeof weight->name, "%s%d.weight", prefix, l);
      snprintf(bias->name, sizeof bias->name, "%s%d.bias", prefix, l);
    }
  }
}

static json_t *describe_metadata(const Checkpoint *checkpoint) {
  json_t *metadata =
      json_pack("{s:s, s:s}", "format", CHECKPOINT_FORMAT, "version", CHECKPOINT_VERSION);
  int failed = 0;
  for (int f = 0; f < FIELDS; f++)
    if (checkpoint->resident || fields[f].offset != offsetof(Checkpoint, resident))
      failed |= json_object_set_new(metadata, fields[f].name, field_text(checkpoint, &fields[f]));
  failed |= json_object_set_new(metadata, "options", json_string(checkpoint->options));
  if (!failed) return metadata;
  json_decref(metadata);
  return NULL;
}

/* json_dumps grows its text as it goes, and drops what there is no memory for without a word. */
static char *text_of(const json_t *root) {
  const size_t size = json_dumpb(root, NULL, 0, JSON_COMPACT);
  char *text = size ? malloc(size + 1) : NULL;
  if (!text) return NULL;
  text[size] = '\0';
  if (json_dumpb(root, text, size, JSON_COMPACT) == size) return text;
  free(text);
  return NULL;
}

static char *describe(const Checkpoint *checkpoint, const Content *content) {
  json_t *root = json_object();
  int failed = json_object_set_new(root, "__metadata__", describe_metadata(checkpoint));
  json_int_t begin = 0;
  for (int i = 0; i < content->count; i++) {
    const Piece *p = &content->pieces[i];
    const json_int_t end = begin + (json_int_t)(p->count * sizeof *p->values);
    json_t *shape =
        p->columns ? json_pack("[i,i]", p->rows, p->columns) : json_pack("[i]", p->rows);
    failed |= json_object_set_new(root, p->name,
                                  json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", shape,
                                            "data_offsets", begin, end));
    begin = end;
  }
  char *text = failed ? NULL : text_of(root);
  json_decref(root);
  return text;
}

/* The header is padded so that the data starts on 8 bytes. */
static bool make_head(const Checkpoint *checkpoint, Content *content, Error *error) {
  errno = 0;
  json_t *options = json_string(checkpoint->options);
  json_decref(options);
  if (!options && errno != ENOMEM) /* json_string knows no other reason */
    return error_set(error, "the names of files in its options must be UTF-8");
  char *text = describe(checkpoint, content);
  const size_t length = text ? strlen(text) : 0;
  const uint64_t padded = (length + 7) / 8 * 8;
  if (text) content->head = malloc(sizeof padded + padded);
  if (content->head) {
    content->head_size = sizeof padded + padded;
    memcpy(content->head, &padded, sizeof padded);
    memset(content->head + sizeof padded, ' ', padded);
    memcpy(content->head + sizeof padded, text, length);
  }
  free(text);
  if (padded > CHECKPOINT_HEADER_MAX)
    return error_set(error, "its options are too long (%zu bytes)", strlen(checkpoint->options));
  return content->head || error_set(error, "no memory for its header");
}

/* ---- saving: where it goes ----------------------------------------------------------------- */

/* A device or a pipe could not be loaded again. */
static bool check_target(const char *path, Error *error) {
  FileTarget target;
  if (!file_target_find(&target, path) || target.kind == TARGET_NEW ||
      target.kind == TARGET_REGULAR)
    return true; /* what cannot be found is told by who writes it */
  return error_set(error, "cannot write %s: it is not a regular file", path);
}

static bool write_content(const AtomicFile *output, const Content *content, Error *error) {
  size_t wrote = fwrite(content->head, 1, content->head_size, output->file);
  bool good = wrote == content->head_size;
  for (int i = 0; good && i < content->count; i++) {
    const Piece *piece = &content->pieces[i];
    wrote = fwrite(piece->values, sizeof *piece->values, piece->count, output->file);
    good = wrote == piece->count;
  }
  return good || atomic_file_failed(output, error);
}

static bool check_finite(const Content *content, Error *error) {
  for (int i = 0; i < content->count; i++)
    if (!all_finite(content->pieces[i].values, content->pieces[i].count))
      return error_set(error, "tensor %s has a value that is NaN or infinite",
                       content->pieces[i].name);
  return true;
}

bool checkpoint_save(const Checkpoint *checkpoint, const char *path, Error *error) {
  Content content = {0};
  Error cause;
  list_pieces(checkpoint, &content);
  AtomicFile output;
  bool good = (check_finite(&content, &cause) && make_head(checkpoint, &content, &cause)) ||
              error_set(error, "cannot save %s: %s", path, cause.text);
  good = good && check_target(path, error) && atomic_file_open(&output, path, error) &&
         atomic_file_close(&output, write_content(&output, &content, error), error);
  free(content.head);
  return good;
}

bool checkpoint_probe(const char *path, Error *error) {
  return check_target(path, error) && atomic_file_probe(path, error);
}
