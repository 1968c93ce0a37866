/* Loading a checkpoint: a whole file is checked before any of it is believed. */
#include "model/checkpoint.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "model/checkpoint_format.h"

void checkpoint_free(Checkpoint *checkpoint) {
  free(checkpoint->parameters);
  free(checkpoint->options);
  *checkpoint = (Checkpoint){0};
}

/* ---- numbers in __metadata__ --------------------------------------------------------------- */

static bool parse_field(Checkpoint *checkpoint, const Field *field, const char *text) {
  void *value = (char *)checkpoint + field->offset;
  char *end;
  if (field->kind == FIELD_REAL) {
    *(double *)value = strtod(text, &end);
    return end != text && !*end;
  }
  if (!isdigit((unsigned char)*text)) return false; /* strtoull would take a sign */
  errno = 0;
  const unsigned long long whole = strtoull(text, &end, 10);
  if (*end || errno || (field->kind == FIELD_INT && whole > INT_MAX)) return false;
  if (field->kind == FIELD_INT)
    *(int *)value = (int)whole;
  else
    *(uint64_t *)value = whole;
  return true;
}

/* ---- loading: the header ------------------------------------------------------------------- */

typedef struct {
  json_t *root;   /* an object */
  uint64_t start; /* of the data, in bytes of the file */
  uint64_t bytes; /* of the data */
} Header;

static bool read_at(int file, uint64_t offset, void *bytes, size_t size, Error *error) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = pread(file, (char *)bytes + done, size - done, (off_t)(offset + done));
    if (got == 0) return error_set(error, "it became shorter while it was read");
    if (got < 0 && errno != EINTR) return error_set(error, "%s", strerror(errno));
    if (got > 0) done += (size_t)got;
  }
  return true;
}

/* jansson may go on without memory, a letter of a string less, so it is seen here. */
static _Thread_local bool no_memory;

static void *allocate_json(size_t size) {
  void *block = malloc(size);
  if (!block) no_memory = true;
  return block;
}

/* Sets header->root, also if it returns false. */
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

static bool read_header(int file, Header *header, Error *error) {
  struct stat status;
  if (fstat(file, &status) != 0) return error_set(error, "%s", strerror(errno));
  if (S_ISDIR(status.st_mode)) return error_set(error, "it is a folder");
  if (!S_ISREG(status.st_mode)) return error_set(error, "it is not a regular file");
  const uint64_t size = (uint64_t)status.st_size;
  uint64_t length;
  if (size < sizeof length)
    return error_set(error, "it is not a safetensors file: it has only %d bytes", (int)size);
  if (!read_at(file, 0, &length, sizeof length, error)) return false;
  if (memcmp(&length, "PK\3\4", 4) == 0) /* a ZIP archive */
    return error_set(error, "it is a file of torch.save, not safetensors: docs/formats.md has the "
                            "lines that convert it");
  if (length > CHECKPOINT_HEADER_MAX)
    return error_set(error,
                     "it is not a safetensors file of a network: its header would have %llu bytes, "
                     "at most %d are allowed",
                     (unsigned long long)length, CHECKPOINT_HEADER_MAX);
  if (length > size - sizeof length)
    return error_set(error, "it was cut off: its header has %llu bytes, the whole file %llu",
                     (unsigned long long)length, (unsigned long long)size);
  char *text = malloc((size_t)length + 1);
  if (!text) return error_set(error, "no memory for its header");
  header->start = sizeof length + length;
  header->bytes = size - header->start;
  const bool good = read_at(file, sizeof length, text, (size_t)length, error) &&
                    parse_header(text, (size_t)length, header, error);
  free(text);
  return good;
}

/* ---- loading: tensors ---------------------------------------------------------------------- */

typedef struct {
  const char *name;  /* in the header; NULL: the file has none */
  int rows, columns; /* columns 1: a bias */
  uint64_t begin;    /* in bytes of the data */
} Tensor;

typedef struct {
  uint64_t number;  /* in the tensors' names */
  Tensor tensor[2]; /* weight, bias */
} Layer;

/* An array of the checkpoint. */
typedef struct {
  const char *first; /* a tensor's name; its first `prefix` bytes are those of all others */
  size_t prefix;
  int count;
  Layer layers[NETWORK_MAX_LAYERS]; /* ascending by number */
} Stack;

static uint64_t tensor_count(const Tensor *tensor) {
  return (uint64_t)tensor->rows * (uint64_t)tensor->columns;
}

/* A name is a prefix, a number and ".weight" or ".bias". */
typedef struct {
  size_t prefix; /* its length */
  uint64_t number;
  bool bias;
} Name;

static bool parse_name(const char *text, Name *name) {
  const char *dot = strrchr(text, '.');
  if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0)) return false;
  const char *digits = dot;
  while (digits > text && isdigit((unsigned char)digits[-1])) digits--;
  if (digits == dot || dot - digits > 9) return false;
  *name = (Name){(size_t)(digits - text), strtoull(digits, NULL, 10), dot[1] == 'b'};
  return true;
}

/* The layer of that number, made where it is new; NULL: there are too many. */
static Layer *layer_of(Stack *stack, uint64_t number) {
  int at = 0;
  while (at < stack->count && stack->layers[at].number < number) at++;
  Layer *layer = &stack->layers[at];
  if (at < stack->count && layer->number == number) return layer;
  if (stack->count == NETWORK_MAX_LAYERS) return NULL;
  memmove(layer + 1, layer, (size_t)(stack->count - at) * sizeof *layer);
  stack->count++;
  *layer = (Layer){.number = number};
  return layer;
}

static bool parse_shape(Tensor *tensor, const json_t *shape, bool bias, Error *error) {
  const size_t dimensions = json_array_size(shape), wanted = bias ? 1 : 2;
  if (dimensions != wanted)
    return error_set(error, "tensor %.99s has %zu dimensions, not %zu", tensor->name, dimensions,
                     wanted);
  int size[2] = {0, 1};
  for (size_t d = 0; d < dimensions; d++) {
    const json_int_t value = json_integer_value(json_array_get(shape, d)); /* 0 if it is none */
    if (value < 1 || value > NETWORK_MAX_HIDDEN)
      return error_set(error, "tensor %.99s: the sizes of its shape must be whole numbers, 1 to %d",
                       tensor->name, NETWORK_MAX_HIDDEN);
    size[d] = (int)value;
  }
  tensor->rows = size[0];
  tensor->columns = size[1];
  return true;
}

static bool parse_offsets(Tensor *tensor, const json_t *offsets, uint64_t bytes, Error *error) {
  const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
  const json_int_t begin = json_integer_value(first), end = json_integer_value(second);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second) ||
      begin < 0 || end < begin)
    return error_set(error, "tensor %.99s: its data_offsets must be two ascending whole numbers",
                     tensor->name);
  if ((uint64_t)end > bytes)
    return error_set(error,
                     "tensor %.99s ends at byte %lld of the data, of which there are only %llu: "
                     "the file was cut off or damaged",
                     tensor->name, (long long)end, (unsigned long long)bytes);
  const uint64_t wanted = tensor_count(tensor) * sizeof(float);
  if ((uint64_t)(end - begin) != wanted)
    return error_set(error, "tensor %.99s has %lld bytes, its shape wants %llu", tensor->name,
                     (long long)(end - begin), (unsigned long long)wanted);
  tensor->begin = (uint64_t)begin;
  return true;
}

static bool parse_tensor(Tensor *tensor, const json_t *entry, bool bias, uint64_t bytes,
                         Error *error) {
  const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
  const json_t *offsets = json_object_get(entry, "data_offsets");
  if (!json_is_string(dtype) || !json_is_array(shape) || !json_is_array(offsets))
    return error_set(error, "tensor %.99s must have a dtype, a shape and data_offsets",
                     tensor->name);
  if (strcmp(json_string_value(dtype), "F32") != 0)
    return error_set(error, "tensor %.99s is of dtype %.16s; only F32 can be read: convert it",
                     tensor->name, json_string_value(dtype));
  return parse_shape(tensor, shape, bias, error) && parse_offsets(tensor, offsets, bytes, error);
}

/* Returns the place of a tensor by its name; NULL: it has none. */
static Tensor *place_tensor(const char *text, const Name *name, Stack stacks[CHECKPOINT_ARRAYS],
                            Error *error) {
  int array = CHECKPOINT_ARRAYS - 1; /* parameters have any other name */
  while (array > CHECKPOINT_PARAMETERS && !(name->prefix == strlen(prefixes[array]) &&
                                            strncmp(text, prefixes[array], name->prefix) == 0))
    array--;
  Stack *stack = &stacks[array];
  if (!stack->first) stack->first = text, stack->prefix = name->prefix;
  if (stack->prefix != name->prefix || strncmp(text, stack->first, name->prefix) != 0) {
    error_set(error,
              "tensors %.99s and %.99s must belong to one network: the same name but for "
              "the number before .weight or .bias",
              stack->first, text);
    return NULL;
  }
  Layer *layer = layer_of(stack, name->number);
  Tensor *tensor = layer ? &layer->tensor[name->bias] : NULL;
  if (!tensor)
    error_set(error, "it has more than %d layers", NETWORK_MAX_LAYERS);
  else if (tensor->name) {
    error_set(error, "tensors %.99s and %.99s are one and the same", tensor->name, text);
    return NULL;
  } else
    tensor->name = text;
  return tensor;
}

static bool find_tensors(const Header *header, Stack stacks[CHECKPOINT_ARRAYS], Error *error) {
  const char *text;
  json_t *entry;
  json_object_foreach(header->root, text, entry) {
    if (strcmp(text, "__metadata__") == 0) continue;
    Name name;
    if (!parse_name(text, &name))
      return error_set(error,
                       "tensor %.99s is none of a network of linear layers, named like 0.weight, "
                       "0.bias, 2.weight",
                       text);
    Tensor *tensor = place_tensor(text, &name, stacks, error);
    if (!tensor || !parse_tensor(tensor, entry, name.bias, header->bytes, error)) return false;
  }
  return true;
}

/* ---- loading: the network ------------------------------------------------------------------ */

static bool shape_network(const Stack *stack, Network *network, Error *error) {
  if (!stack->count) return error_set(error, "it has no tensor named like layers.0.weight");
  int size[NETWORK_MAX_LAYERS + 1] = {stack->layers[0].tensor[0].columns};
  for (int l = 0; l < stack->count; l++) {
    const Tensor *weight = stack->layers[l].tensor, *bias = weight + 1;
    if (!weight->name) return error_set(error, "tensor %.99s has no weight beside it", bias->name);
    if (!bias->name) return error_set(error, "tensor %.99s has no bias beside it", weight->name);
    if (bias->rows != weight->rows)
      return error_set(error, "tensor %.99s has %d values, %.99s wants %d", bias->name, bias->rows,
                       weight->name, weight->rows);
    if (weight->columns != size[l])
      return error_set(error, "tensor %.99s takes %d values, the layer before gives %d",
                       weight->name, weight->columns, size[l]);
    size[l + 1] = weight->rows;
  }
  return network_init(network, size[0], size + 1, stack->count - 1, size[stack->count], error);
}

/* The arrays beside the parameters. */
static bool check_others(const Stack stacks[CHECKPOINT_ARRAYS], const Network *network,
                         Error *error) {
  for (int a = CHECKPOINT_PARAMETERS + 1; a < CHECKPOINT_ARRAYS; a++) {
    Network other = {0};
    if (!stacks[a].count) continue;
    if (!shape_network(&stacks[a], &other, error)) return false;
    if (other.layers != network->layers ||
        memcmp(other.size, network->size, sizeof other.size) != 0)
      return error_set(error, "its %.*s has other shapes than its parameters",
                       (int)strlen(prefixes[a]) - 1, prefixes[a]);
  }
  return true;
}

static int by_begin(const void *a, const void *b) {
  const uint64_t x = (*(const Tensor *const *)a)->begin, y = (*(const Tensor *const *)b)->begin;
  return (x > y) - (x < y);
}

/* Every byte of the data belongs to one tensor. */
static bool check_cover(const Stack stacks[CHECKPOINT_ARRAYS], uint64_t bytes, Error *error) {
  const Tensor *tensors[CHECKPOINT_TENSORS_MAX];
  size_t count = 0;
  for (int a = 0; a < CHECKPOINT_ARRAYS; a++)
    for (int t = 0; t < 2 * stacks[a].count; t++)
      tensors[count++] = &stacks[a].layers[t / 2].tensor[t % 2];
  qsort(tensors, count, sizeof *tensors, by_begin);
  uint64_t next = 0;
  for (size_t i = 0; i < count; i++) {
    if (tensors[i]->begin < next)
      return error_set(error, "tensors %.99s and %.99s overlap", tensors[i - 1]->name,
                       tensors[i]->name);
    if (tensors[i]->begin > next) break;
    next += tensor_count(tensors[i]) * sizeof(float);
  }
  return next == bytes ||
         error_set(error, "byte %llu of its data belongs to no tensor", (unsigned long long)next);
}

/* Reads an array of the checkpoint to values, laid out as network.h says. */
static bool read_stack(int file, uint64_t start, const Stack *stack, const Network *network,
                       float *values, Error *error) {
  for (int t = 0; t < 2 * network->layers; t++) {
    const Tensor *tensor = &stack->layers[t / 2].tensor[t % 2];
    const size_t count = (size_t)tensor_count(tensor);
    float *to = values + (t % 2 ? network->bias : network->weight)[t / 2];
    if (!read_at(file, start + tensor->begin, to, count * sizeof *to, error)) return false;
    if (!all_finite(to, count))
      return error_set(error, "tensor %.99s has a value that is NaN or infinite", tensor->name);
  }
  return true;
}

/* ---- loading: the rest --------------------------------------------------------------------- */

static bool is_map_of_strings(json_t *map) {
  const char *key;
  json_t *value;
  json_object_foreach(map, key, value) if (!json_is_string(value)) return false;
  return json_is_object(map);
}

static bool read_metadata(Checkpoint *checkpoint, const Header *header, Error *error) {
  json_t *metadata = json_object_get(header->root, "__metadata__");
  if (metadata && !is_map_of_strings(metadata))
    return error_set(error, "its __metadata__ must be a map of strings");
  const char *format = json_string_value(json_object_get(metadata, "format"));
  const bool ours = format && strcmp(format, CHECKPOINT_FORMAT) == 0;
  checkpoint->test_accuracy = checkpoint->best_accuracy = NAN;
  if (ours) {
    const char *version = json_string_value(json_object_get(metadata, "version"));
    if (!version || strcmp(version, CHECKPOINT_VERSION) != 0)
      return error_set(error, "it is of another version of mlp-train: format %.32s, not %s",
                       version ? version : "unknown", CHECKPOINT_VERSION);
  }
  for (int f = 0; ours && f < FIELDS; f++) {
    const char *text = json_string_value(json_object_get(metadata, fields[f].name));
    if (!text && fields[f].may_be_left) continue;
    if (!text || !parse_field(checkpoint, &fields[f], text))
      return error_set(error, "its metadata has no valid %s", fields[f].name);
  }
  const char *options = ours ? json_string_value(json_object_get(metadata, "options")) : "";
  if (!options) return error_set(error, "its metadata has no valid options");
  checkpoint->options = strdup(options);
  return checkpoint->options || error_set(error, "no memory for its options");
}

static bool load_described(Checkpoint *checkpoint, int file, const Header *header, Error *error) {
  Stack stacks[CHECKPOINT_ARRAYS] = {{0}};
  Network *network = &checkpoint->network;
  if (!find_tensors(header, stacks, error) ||
      !shape_network(&stacks[CHECKPOINT_PARAMETERS], network, error) ||
      !check_others(stacks, network, error) || !check_cover(stacks, header->bytes, error) ||
      !read_metadata(checkpoint, header, error))
    return false;
  for (int a = 0; a < CHECKPOINT_ARRAYS; a++)
    if (stacks[a].count) checkpoint->kind[checkpoint->count++] = (CheckpointArray)a;
  checkpoint->parameters = calloc((size_t)checkpoint->count * network->floats, sizeof(float));
  if (!checkpoint->parameters)
    return error_set(error, "no memory for its %zu parameters", network->parameters);
  for (int a = 0; a < checkpoint->count; a++)
    if (!read_stack(file, header->start, &stacks[checkpoint->kind[a]], network,
                    checkpoint->parameters + (size_t)a * network->floats, error))
      return false;
  return true;
}

bool checkpoint_load(Checkpoint *checkpoint, const char *path, Error *error) {
  *checkpoint = (Checkpoint){0};
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
  if (file < 0) return error_set(error, "cannot load %s: %s", path, strerror(errno));
  Error cause;
  Header header = {0};
  const bool loaded =
      read_header(file, &header, &cause) && load_described(checkpoint, file, &header, &cause);
  json_decref(header.root);
  close(file);
  if (loaded) return true;
  checkpoint_free(checkpoint);
  return error_set(error, "cannot load %s: %s", path, cause.text);
}
