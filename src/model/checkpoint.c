/* Saves and loads a checkpoint as safetensors. A file is checked completely before it is used. */
#include "model/checkpoint.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/formats.h"
#include "base/output.h"
#include "base/sizes.h"

enum {
  HEADER_MAX = 1 << 20, /* maximum size of a header in bytes; usual headers have a few thousand */
  TENSORS_MAX = 2 * CHECKPOINT_ARRAYS * NETWORK_MAX_LAYERS, /* a weight and a bias per layer */
};

#define FORMAT "mlp-train"
#define VERSION "1"

/* A field of __metadata__. It is a text, or a number written as text. */
typedef struct {
  const char *name;
  size_t offset; /* the field's offset in Checkpoint */
  enum { FIELD_TEXT, FIELD_INT, FIELD_COUNT, FIELD_REAL } kind; /* char *, int, uint64_t, double */
  bool may_be_left;                                             /* the file may lack the field */
} CheckpointField;

#define FIELD(name, kind, may_be_left)                                                             \
  { #name, offsetof(Checkpoint, name), kind, may_be_left }
static const CheckpointField checkpoint_fields[] = {
    FIELD(epoch, FIELD_INT, false),          FIELD(step, FIELD_COUNT, false),
    FIELD(loss, FIELD_REAL, false),          FIELD(correct, FIELD_COUNT, false),
    FIELD(rows, FIELD_COUNT, false),         FIELD(test_accuracy, FIELD_REAL, false),
    FIELD(best_accuracy, FIELD_REAL, false), FIELD(best_epoch, FIELD_INT, false),
    FIELD(updates, FIELD_COUNT, true),       FIELD(resident, FIELD_INT, true),
    FIELD(options, FIELD_TEXT, false),       FIELD(names, FIELD_TEXT, true),
    FIELD(activation, FIELD_TEXT, true),     FIELD(data, FIELD_TEXT, true),
};

/* The names of an array's tensors start with the array's prefix. In another program's file, the
   parameters may have any prefix. */
static const char *const prefixes[CHECKPOINT_ARRAYS] = {"layers.", "momentum.", "second_moment.",
                                                        "raw."};

void checkpoint_free(Checkpoint *checkpoint) {
  free(checkpoint->parameters);
  free(checkpoint->options);
  free(checkpoint->names);
  free(checkpoint->activation);
  free(checkpoint->data);
  *checkpoint = (Checkpoint){0};
}

/* A tensor in a file. */
typedef struct {
  const char *name;  /* the name in the header: a prefix, a number, and ".weight" or ".bias" */
  char saved_as[32]; /* memory for `name` when saving */
  size_t prefix;     /* the length of the name's prefix */
  int number;        /* the layer's number in the name */
  bool bias;
  int array;         /* a CheckpointArray */
  int rows, columns; /* a bias has 1 column */
  uint64_t begin;    /* offset of the values from the start of the data, in bytes */
} Tensor;

static size_t tensor_count(const Tensor *tensor) {
  return (size_t)tensor->rows * (size_t)tensor->columns;
}

/* Returns a pointer to a tensor's values in the checkpoint. t->number must be the layer's index. */
static float *values_of(const Checkpoint *checkpoint, const Tensor *t) {
  const Network *network = &checkpoint->network;
  return checkpoint_array(checkpoint, (CheckpointArray)t->array) +
         (t->bias ? network->bias : network->weight)[t->number];
}

static bool all_finite(const Checkpoint *checkpoint, const Tensor *tensor, Error *error) {
  const float *values = values_of(checkpoint, tensor);
  for (size_t i = 0; i < tensor_count(tensor); i++)
    if (!isfinite(values[i]))
      return error_set(error, "tensor %.99s has a value that is NaN or infinite", tensor->name);
  return true;
}

/* ---- saving --------------------------------------------------------------------------------- */

static json_t *field_text(const Checkpoint *checkpoint, const CheckpointField *field) {
  const void *value = (const char *)checkpoint + field->offset;
  if (field->kind == FIELD_TEXT) return json_string(*(const char *const *)value);
  if (field->kind == FIELD_REAL) /* 17 digits tell any two doubles apart */
    return json_string(text_format("%.17g", *(const double *)value).text);
  const uint64_t whole =
      field->kind == FIELD_INT ? (uint64_t) * (const int *)value : *(const uint64_t *)value;
  return json_string(text_format("%" PRIu64, whole).text);
}

/* Sets *tensor to tensor t (from 0) of a file to be saved. Returns false after the last tensor. */
static bool find_tensor(const Checkpoint *checkpoint, int t, Tensor *tensor) {
  const Network *network = &checkpoint->network;
  const int a = t / (2 * network->layers), l = t / 2 % network->layers;
  const bool bias = t % 2;
  if (a == checkpoint->count) return false;
  *tensor = (Tensor){.name = tensor->saved_as,
                     .number = l,
                     .bias = bias,
                     .array = (int)checkpoint->kind[a],
                     .rows = network->size[l + 1],
                     .columns = bias ? 1 : network->size[l]};
  snprintf(tensor->saved_as, sizeof tensor->saved_as, "%s%d.%s", prefixes[tensor->array], l,
           bias ? "bias" : "weight");
  return true;
}

/* Returns the header as JSON, or NULL if memory runs out. */
static json_t *describe(const Checkpoint *checkpoint) {
  json_t *root = json_object(),
         *metadata = json_pack("{s:s, s:s}", "format", FORMAT, "version", VERSION);
  int failed = json_object_set(root, "__metadata__", metadata);
  foreach (f, checkpoint_fields)
    if (f->offset != offsetof(Checkpoint, resident) && /* `resident` is saved as an option */
        (f->kind != FIELD_TEXT || *(char *const *)((const char *)checkpoint + f->offset)))
      failed |= json_object_set_new(metadata, f->name, field_text(checkpoint, f));
  json_decref(metadata);
  json_int_t begin = 0;
  Tensor p;
  for (int t = 0; find_tensor(checkpoint, t, &p); t++) {
    const json_int_t end = begin + (json_int_t)(tensor_count(&p) * sizeof(float));
    json_t *shape = json_pack(p.bias ? "[i]" : "[i,i]", p.rows, p.columns);
    failed |= json_object_set_new(root, p.name,
                                  json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", shape,
                                            "data_offsets", begin, end));
    begin = end;
  }
  if (!failed) return root;
  json_decref(root);
  return NULL;
}

/* Returns the header, which the caller frees, or NULL if the checkpoint cannot be saved. */
static char *make_header(const Checkpoint *checkpoint, Error *error) {
  Tensor p;
  for (int t = 0; find_tensor(checkpoint, t, &p); t++)
    if (!all_finite(checkpoint, &p, error)) return NULL;
  if (!text_is_utf8(checkpoint->options))
    return error_null(error, "the names of files in its options must be UTF-8");
  json_t *root = describe(checkpoint);
  char *text = calloc(HEADER_MAX + 1, 1);
  /* json_dumps is not used, because it silently drops text if memory runs out. */
  const size_t size = root && text ? json_dumpb(root, text, HEADER_MAX, JSON_COMPACT) : 0;
  json_decref(root);
  if (size > 0 && size <= HEADER_MAX) return text;
  if (size > 0)
    error_set(error, "its options are too long (%zu bytes)", strlen(checkpoint->options));
  else
    error_set(error, "no memory for its header");
  free(text);
  return NULL;
}

/* Refuses a device or a pipe, which could not be loaded again. */
static bool check_target(const char *path, Error *error) {
  return !output_is_in_place(path) ||
         error_set(error, "cannot write %s: it is not a regular file", path);
}

/* Writes header and data. Pads the header, so that the data starts at a multiple of 8 bytes. */
static bool write_all(const AtomicFile *output, const Checkpoint *checkpoint, const char *header,
                      Error *error) {
  const size_t length = strlen(header);
  const uint64_t padded = round_up(length, 8);
  Tensor p;
  bool good = fwrite(&padded, sizeof padded, 1, output->file) == 1 &&
              fprintf(output->file, "%s%*s", header, (int)(padded - length), "") >= 0;
  for (int t = 0; good && find_tensor(checkpoint, t, &p); t++)
    good = fwrite(values_of(checkpoint, &p), sizeof(float), tensor_count(&p), output->file) ==
           tensor_count(&p);
  return good || atomic_file_failed(output, error);
}

bool checkpoint_save(const Checkpoint *checkpoint, const char *path, Error *error) {
  Error cause;
  AtomicFile output;
  char *header = make_header(checkpoint, &cause);
  if (!header) return error_set(error, "cannot save %s: %s", path, cause.text);
  const bool good =
      check_target(path, error) && atomic_file_open(&output, path, error) &&
      atomic_file_close(&output, write_all(&output, checkpoint, header, error), error);
  free(header);
  return good;
}

bool checkpoint_probe(const char *path, Error *error) {
  return check_target(path, error) && atomic_file_probe(path, error);
}

/* ---- loading: the header ------------------------------------------------------------------- */

typedef struct {
  FILE *file;
  json_t *root;   /* the header, a JSON object */
  uint64_t start; /* offset of the data from the start of the file, in bytes */
  uint64_t bytes; /* size of the data in bytes */
  Tensor tensors[TENSORS_MAX];
  int count;
} Header;

static bool read_at(const Header *header, uint64_t offset, void *bytes, size_t size, Error *error) {
  errno = 0;
  if (fseeko(header->file, (off_t)offset, SEEK_SET) == 0 &&
      fread(bytes, 1, size, header->file) == size)
    return true;
  return error_set(error, "%s", errno ? strerror(errno) : "it became shorter while it was read");
}

/* True once an allocation has failed. jansson may then go on with a string that lacks a letter. */
static _Thread_local bool no_memory;

static void *allocate_json(size_t size) {
  void *block = malloc(size);
  if (!block) no_memory = true;
  return block;
}

/* Parses the header. Sets header->root even if it returns false. */
static bool parse_header(const char *text, size_t length, Header *header, Error *error) {
  if (length == 0 || *text != '{')
    return error_set(error, "it is not a safetensors file: its header does not start with {");
  json_error_t cause;
  no_memory = false;
  json_set_alloc_funcs(allocate_json, free);
  header->root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &cause);
  if (no_memory) return error_set(error, "no memory for its header");
  return header->root ||
         error_set(error, "its header is not the JSON of a safetensors file: %s (byte %d)",
                   cause.text, cause.position);
}

static bool read_header(uint64_t size, Header *header, Error *error) {
  uint64_t length;
  if (size < sizeof length)
    return error_set(error, "it is not a safetensors file: it has only %d bytes", (int)size);
  if (!read_at(header, 0, &length, sizeof length, error)) return false;
  char start[FORMAT_START];
  const size_t known = min_size(sizeof start, (size_t)size);
  if (length > HEADER_MAX && (!read_at(header, 0, start, known, error) ||
                              !format_check("it", start, known, FORMAT_NETWORK, error)))
    return false;
  if (length > HEADER_MAX)
    return error_set(error,
                     "it is not a safetensors file of a network: its header would have %" PRIu64
                     " bytes, at most %d are allowed",
                     length, HEADER_MAX);
  if (length > size - sizeof length)
    return error_set(error,
                     "it was cut off: its header has %" PRIu64 " bytes, the whole file %" PRIu64,
                     length, size);
  char *text = malloc(length + 1);
  if (!text) return error_set(error, "no memory for its header");
  header->start = sizeof length + length;
  header->bytes = size - header->start;
  const bool good = read_at(header, sizeof length, text, length, error) &&
                    parse_header(text, length, header, error);
  free(text);
  return good;
}

/* ---- loading: tensors ---------------------------------------------------------------------- */

/* Splits tensor->name into prefix, number and bias, and finds its array. */
static bool parse_name(Tensor *tensor, Error *error) {
  const char *text = tensor->name, *dot = strrchr(text, '.'), *digits = dot;
  while (dot && digits > text && isdigit((unsigned char)digits[-1])) digits--;
  if (digits == dot || dot - digits > 9 ||
      (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
    return error_set(
        error,
        "tensor %.99s does not belong to a network of linear layers, named like 0.weight, "
        "0.bias, 2.weight",
        text);
  tensor->prefix = (size_t)(digits - text);
  tensor->number = atoi(digits);
  tensor->bias = dot[1] == 'b';
  tensor->array = CHECKPOINT_ARRAYS - 1; /* an unknown prefix means parameters */
  while (tensor->array > CHECKPOINT_PARAMETERS &&
         !(tensor->prefix == strlen(prefixes[tensor->array]) &&
           strncmp(text, prefixes[tensor->array], tensor->prefix) == 0))
    tensor->array--;
  return true;
}

static bool parse_tensor(Tensor *tensor, json_t *entry, uint64_t bytes, Error *error) {
  const char *dtype;
  json_t *shape;
  json_int_t rows, columns = 1, begin, end;
  const int sides = tensor->bias ? 1 : 2;
  if (json_unpack(entry, "{s:s, s:o, s:[I,I!]}", "dtype", &dtype, "shape", &shape, "data_offsets",
                  &begin, &end) != 0 ||
      json_unpack(shape, sides == 1 ? "[I!]" : "[I,I!]", &rows, &columns) != 0)
    return error_set(error,
                     "tensor %.99s must have a dtype, a shape of %d whole numbers and two "
                     "data_offsets",
                     tensor->name, sides);
  if (strcmp(dtype, "F32") != 0)
    return error_set(error, "tensor %.99s is of dtype %.16s; only F32 can be read: convert it",
                     tensor->name, dtype);
  if (rows < 1 || rows > NETWORK_MAX_HIDDEN || columns < 1 || columns > NETWORK_MAX_HIDDEN)
    return error_set(error, "tensor %.99s: the sizes of its shape must be from 1 to %d",
                     tensor->name, NETWORK_MAX_HIDDEN);
  tensor->rows = (int)rows;
  tensor->columns = (int)columns;
  tensor->begin = (uint64_t)begin;
  const size_t wanted = tensor_count(tensor) * sizeof(float);
  return (begin >= 0 && end >= begin && (size_t)(end - begin) == wanted && (size_t)end <= bytes) ||
         error_set(error,
                   "tensor %.99s: its data_offsets must span %zu of the %" PRIu64
                   " bytes of data: the file was cut off or damaged",
                   tensor->name, wanted, bytes);
}

static bool find_tensors(Header *header, Error *error) {
  Tensor tensor;
  json_t *entry;
  json_object_foreach (header->root, tensor.name, entry) {
    if (strcmp(tensor.name, "__metadata__") == 0) continue;
    if (!parse_name(&tensor, error) || !parse_tensor(&tensor, entry, header->bytes, error))
      return false;
    if (header->count == TENSORS_MAX)
      return error_set(error, "it has more than %d layers", NETWORK_MAX_LAYERS);
    header->tensors[header->count++] = tensor;
  }
  return true;
}

/* ---- loading: the network ------------------------------------------------------------------ */

static int by_place(const void *a, const void *b) {
  const Tensor *x = a, *y = b;
  if (x->array != y->array) return x->array - y->array;
  return x->number != y->number ? x->number - y->number : x->bias - y->bias;
}

static int by_begin(const void *a, const void *b) {
  const uint64_t x = ((const Tensor *)a)->begin, y = ((const Tensor *)b)->begin;
  return (x > y) - (x < y);
}

/* Returns true if the two tensors are the weight and the bias of one layer, and if their names have
   the same prefix as `first`, the array's first tensor. */
static bool are_layer(const Tensor *first, const Tensor *weight, const Tensor *bias) {
  const size_t prefix = first->prefix;
  return !weight->bias && bias->bias && bias->array == weight->array &&
         bias->number == weight->number && weight->prefix == prefix && bias->prefix == prefix &&
         strncmp(first->name, weight->name, prefix) == 0 &&
         strncmp(first->name, bias->name, prefix) == 0;
}

/* Sets *network to the shape of the array that starts with tensor `first`, and renumbers its layers
   from 0. */
static bool shape_network(Tensor *first, const Tensor *end, Network *network, Error *error) {
  int size[NETWORK_MAX_LAYERS + 1] = {first->columns}, layers = 0;
  for (Tensor *weight = first; weight < end && weight->array == first->array; weight += 2) {
    Tensor *bias = weight + 1;
    if (layers == NETWORK_MAX_LAYERS)
      return error_set(error, "it has more than %d layers", NETWORK_MAX_LAYERS);
    if (bias == end || !are_layer(first, weight, bias))
      return error_set(error,
                       "tensor %.99s has no weight or bias beside it, of the same name but for "
                       "the number as %.99s",
                       weight->name, first->name);
    if (bias->rows != weight->rows || weight->columns != size[layers])
      return error_set(error, "the shapes of tensors %.99s and %.99s do not fit the layer before",
                       weight->name, bias->name);
    weight->number = bias->number = layers;
    size[++layers] = weight->rows;
  }
  return network_init(network, size[0], size + 1, layers - 1, size[layers], error);
}

/* Checks that every array has the shape of the parameters, and sets the network to this shape. */
static bool shape_arrays(Checkpoint *checkpoint, Header *header, Error *error) {
  Network *network = &checkpoint->network, other;
  Tensor *tensors = header->tensors, *end = tensors + header->count;
  qsort(tensors, (size_t)header->count, sizeof *tensors, by_place);
  if (tensors == end || tensors->array != CHECKPOINT_PARAMETERS)
    return error_set(error, "it has no tensor named like layers.0.weight");
  for (Tensor *t = tensors; t < end; t += 2 * network->layers) {
    if (!shape_network(t, end, &other, error)) return false;
    if (t == tensors) *network = other;
    if (memcmp(other.size, network->size, sizeof other.size) != 0)
      return error_set(error, "its %.*s has shapes that differ from those of its parameters",
                       (int)strlen(prefixes[t->array]) - 1, prefixes[t->array]);
    checkpoint->kind[checkpoint->count++] = (CheckpointArray)t->array;
  }
  return true;
}

/* Checks that every byte of the data belongs to exactly one tensor. */
static bool check_cover(Header *header, Error *error) {
  uint64_t next = 0;
  bool good = true;
  qsort(header->tensors, (size_t)header->count, sizeof *header->tensors, by_begin);
  for (const Tensor *t = header->tensors; good && t < header->tensors + header->count; t++) {
    good = t->begin == next;
    if (good) next += tensor_count(t) * sizeof(float);
  }
  return (good && next == header->bytes) ||
         error_set(error, "byte %" PRIu64 " of its data must belong to one tensor", next);
}

/* ---- loading: the rest --------------------------------------------------------------------- */

static bool parse_field(Checkpoint *checkpoint, const CheckpointField *field, const char *text) {
  void *value = (char *)checkpoint + field->offset;
  char *end;
  if (field->kind == FIELD_TEXT) return (*(char **)value = strdup(text));
  if (field->kind == FIELD_REAL) {
    *(double *)value = strtod(text, &end);
    return end != text && !*end;
  }
  if (!isdigit((unsigned char)*text)) return false; /* strtoull would accept a sign */
  errno = 0;
  const unsigned long long whole = strtoull(text, &end, 10);
  if (*end || errno || (field->kind == FIELD_INT && whole > INT_MAX)) return false;
  if (field->kind == FIELD_INT)
    *(int *)value = (int)whole;
  else
    *(uint64_t *)value = whole;
  return true;
}

static bool is_map_of_strings(json_t *map) {
  const char *key;
  json_t *value;
  json_object_foreach (map, key, value)
    if (!json_is_string(value)) return false;
  return json_is_object(map);
}

/* Refuses a network that has another function between its layers than this program. */
static bool check_activation(json_t *metadata, Error *error) {
  const char *name = json_string_value(json_object_get(metadata, "activation"));
  return !name || strcasecmp(name, CHECKPOINT_ACTIVATION) == 0 ||
         error_set(error, "its activation is %.32s, but mlp-train has only %s", name,
                   CHECKPOINT_ACTIVATION);
}

static bool read_metadata(Checkpoint *checkpoint, const Header *header, Error *error) {
  json_t *metadata = json_object_get(header->root, "__metadata__");
  if (metadata && !is_map_of_strings(metadata))
    return error_set(error, "its __metadata__ must be a map of strings");
  const char *format = "", *version = "unknown";
  json_unpack(metadata, "{s?s, s?s}", "format", &format, "version", &version);
  checkpoint->test_accuracy = checkpoint->best_accuracy = NAN;
  if (!check_activation(metadata, error)) return false;
  if (strcmp(format, FORMAT) != 0) {
    const char *activation = json_string_value(json_object_get(metadata, "activation"));
    checkpoint->options = strdup("");
    checkpoint->activation = activation ? strdup(activation) : NULL;
    return (checkpoint->options && (checkpoint->activation || !activation)) ||
           error_set(error, "no memory for its options");
  }
  if (strcmp(version, VERSION) != 0)
    return error_set(error, "it is from a different version of mlp-train: format %.32s, not %s",
                     version, VERSION);
  foreach (f, checkpoint_fields) {
    const char *text = json_string_value(json_object_get(metadata, f->name));
    if (!text && f->may_be_left) continue;
    if (!text || !parse_field(checkpoint, f, text))
      return error_set(error,
                       text && f->kind == FIELD_TEXT ? "no memory for its %s"
                                                     : "its metadata has no valid %s",
                       f->name);
  }
  return !checkpoint->names ||
         class_names_settle(checkpoint->names, network_classes(&checkpoint->network), "its names",
                            error);
}

static bool load_described(Checkpoint *checkpoint, Header *header, Error *error) {
  const Network *network = &checkpoint->network;
  if (!find_tensors(header, error) || !shape_arrays(checkpoint, header, error) ||
      !check_cover(header, error) || !read_metadata(checkpoint, header, error))
    return false;
  checkpoint->parameters = calloc((size_t)checkpoint->count * network->floats, sizeof(float));
  if (!checkpoint->parameters)
    return error_set(error, "no memory for its %zu parameters", network->parameters);
  for (const Tensor *t = header->tensors; t < header->tensors + header->count; t++) {
    if (!read_at(header, header->start + t->begin, values_of(checkpoint, t),
                 tensor_count(t) * sizeof(float), error) ||
        !all_finite(checkpoint, t, error))
      return false;
  }
  return true;
}

bool checkpoint_load(Checkpoint *checkpoint, const char *path, Error *error) {
  Error cause;
  Header header = {0};
  struct stat status;
  *checkpoint = (Checkpoint){0};
  const bool found = stat(path, &status) == 0, is_file = found && S_ISREG(status.st_mode);
  if (found && !is_file) return error_set(error, "cannot load %s: it is not a regular file", path);
  if (!found || !(header.file = fopen(path, "rbe")))
    return error_set(error, "cannot load %s: %s", path, strerror(errno));
  const bool loaded = read_header((uint64_t)status.st_size, &header, &cause) &&
                      load_described(checkpoint, &header, &cause);
  json_decref(header.root);
  fclose(header.file);
  if (loaded) return true;
  checkpoint_free(checkpoint);
  return error_set(error, "cannot load %s: %s", path, cause.text);
}
