/* checkpoint.c. What it writes is read here by hand, without its reader and without JSON. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/checkpoint.h"
#include "support/folder.h"

enum { NOBODY = 65534 };

static const char *model; /* the path of a file in the folder, which is not there at first */

static int open_folder(void **state) {
  folder_open(state);
  model = folder_path("model.safetensors");
  return 0;
}

/* ---- files by hand ----------------------------------------------------------------------- */

typedef struct {
  uint8_t *bytes;
  size_t size;
} Content;

static Content read_content(const char *path) {
  Content content = {malloc(1 << 22), 0};
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  content.size = fread(content.bytes, 1, 1 << 22, file);
  assert_true(content.size < 1 << 22);
  fclose(file);
  return content;
}

static void write_content(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static void assert_content(const char *path, Content expected) {
  Content content = read_content(path);
  assert_int_equal(content.size, expected.size);
  assert_memory_equal(content.bytes, expected.bytes, expected.size);
  free(content.bytes);
}

/* A file of that header and that many bytes of data: the floats 1, 2, 3, ... */
static void forge(const char *path, const char *header, size_t data) {
  const size_t length = strlen(header), size = 8 + length + data;
  uint8_t *bytes = calloc(size + sizeof(float), 1);
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(length >> (8 * i));
  memcpy(bytes + 8, header, length);
  float value = 1;
  for (size_t i = 0; i < data; i += sizeof value, value++)
    memcpy(bytes + 8 + length + i, &value, sizeof value);
  write_content(path, bytes, size);
  free(bytes);
}

static int files_in_folder(void) {
  int count = 0;
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  while (readdir(directory)) count++;
  closedir(directory);
  return count - 2; /* . and .. */
}

static void assert_refuses_to_load(const char *path, const char *message) {
  Checkpoint checkpoint;
  Error error = {.text = ""};
  memset(&checkpoint, 0x55, sizeof checkpoint);
  if (checkpoint_load(&checkpoint, path, &error)) fail_msg("was loaded, not: %s", message);
  if (!strstr(error.text, path)) fail_msg("'%s' is not in: %s", path, error.text);
  if (!strstr(error.text, message)) fail_msg("'%s' is not in: %s", message, error.text);
  assert_null(checkpoint.parameters);
  assert_null(checkpoint.momentum);
  assert_null(checkpoint.options);
}

static void assert_refuses_to_save(const Checkpoint *checkpoint, const char *path,
                                   const char *message) {
  char expected[16384];
  Error error = {.text = ""};
  assert_false(checkpoint_save(checkpoint, path, &error));
  snprintf(expected, sizeof expected, "cannot save %s: %s", path, message);
  assert_string_equal(error.text, expected);
}

/* Nor does it promise to. */
static void assert_no_place(const Checkpoint *checkpoint, const char *path, const char *message) {
  char expected[16384];
  Error error = {.text = ""};
  assert_refuses_to_save(checkpoint, path, message);
  assert_false(checkpoint_probe(path, &error));
  snprintf(expected, sizeof expected, "cannot save %s: %s", path, message);
  assert_string_equal(error.text, expected);
}

static void must_save(const Checkpoint *checkpoint, const char *path) {
  Error error = {.text = ""};
  if (!checkpoint_save(checkpoint, path, &error)) fail_msg("%s", error.text);
}

static Checkpoint must_load(const char *path) {
  Checkpoint checkpoint;
  Error error = {.text = ""};
  if (!checkpoint_load(&checkpoint, path, &error)) fail_msg("%s", error.text);
  return checkpoint;
}

/* ---- fsync ------------------------------------------------------------------------------- */

/* Takes the place of libc's: fails as it is told, and records what it was given. */
static struct {
  int file_error, folder_error; /* 0: none */
  int interrupts;               /* so many calls are interrupted first */
  struct stat file;             /* as it was when it was synced */
  ino_t target;                 /* what `path` was when the folder was synced */
  const char *path;
} disk;

int fsync(int file) {
  struct stat status;
  int error = disk.interrupts-- > 0 ? EINTR : 0;
  assert_int_equal(fstat(file, &status), 0);
  if (!error && S_ISDIR(status.st_mode)) {
    error = disk.folder_error;
    if (disk.path && stat(disk.path, &status) == 0) disk.target = status.st_ino;
  } else if (!error) {
    error = disk.file_error;
    disk.file = status;
  }
  errno = error;
  return error ? -1 : 0;
}

/* ---- a checkpoint ------------------------------------------------------------------------ */

/* Every value differs from every other. Padding is zero. */
static float *make_values(const Network *network, float first) {
  float *values = calloc(network->floats, sizeof *values);
  for (int l = 0; l < network->layers; l++) {
    const int in = network->size[l], out = network->size[l + 1];
    for (int i = 0; i < in * out; i++) values[network->weight[l] + (size_t)i] = first++;
    for (int i = 0; i < out; i++) values[network->bias[l] + (size_t)i] = -(first++) / 3;
  }
  return values;
}

/* 5 - 7 - 3 - 2 */
static Checkpoint make_checkpoint(void) {
  Checkpoint checkpoint = {.epoch = 12,
                           .step = UINT64_MAX,
                           .loss = 1.0 / 3,
                           .correct = (1ull << 53) + 1,
                           .rows = 1ull << 63,
                           .test_accuracy = 0.98765432109876543,
                           .best_accuracy = DBL_TRUE_MIN,
                           .best_epoch = INT32_MAX,
                           .options = strdup("[data]\ntrain = a \"b\\c\" \xc3\xa4.csv\n")};
  Error error;
  assert_true(network_init(&checkpoint.network, 5, (const int[]){7, 3}, 2, 2, &error));
  checkpoint.parameters = make_values(&checkpoint.network, 1);
  checkpoint.momentum = make_values(&checkpoint.network, 1e-3f);
  return checkpoint;
}

static void assert_same_bits(double a, double b) {
  assert_memory_equal(&a, &b, sizeof a);
}

static void assert_same(const Checkpoint *a, const Checkpoint *b) {
  const size_t size = a->network.floats * sizeof *a->parameters;
  assert_memory_equal(&a->network, &b->network, sizeof a->network);
  assert_memory_equal(a->parameters, b->parameters, size);
  assert_int_equal(a->momentum == NULL, b->momentum == NULL);
  if (a->momentum) assert_memory_equal(a->momentum, b->momentum, size);
  assert_int_equal(a->epoch, b->epoch);
  assert_true(a->step == b->step);
  assert_same_bits(a->loss, b->loss);
  assert_true(a->correct == b->correct);
  assert_true(a->rows == b->rows);
  assert_same_bits(a->test_accuracy, b->test_accuracy);
  assert_same_bits(a->best_accuracy, b->best_accuracy);
  assert_int_equal(a->best_epoch, b->best_epoch);
  assert_string_equal(a->options, b->options);
}

/* ---- round trips ------------------------------------------------------------------------- */

static void round_trip(const Checkpoint *checkpoint, const char *path) {
  must_save(checkpoint, path);
  Checkpoint loaded = must_load(path);
  assert_same(checkpoint, &loaded);
  checkpoint_free(&loaded);
}

static void every_field_comes_back(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  round_trip(&checkpoint, model);
  checkpoint.parameters[0] = -0.0f;
  checkpoint.parameters[1] = FLT_TRUE_MIN;
  checkpoint.parameters[2] = -FLT_MAX;
  checkpoint.loss = NAN;
  checkpoint.best_accuracy = INFINITY;
  checkpoint.test_accuracy = -0.0;
  checkpoint.best_epoch = checkpoint.epoch = 0;
  round_trip(&checkpoint, model);
  free(checkpoint.momentum);
  checkpoint.momentum = NULL;
  checkpoint.test_accuracy = checkpoint.best_accuracy = NAN;
  checkpoint.step = checkpoint.correct = checkpoint.rows = 0;
  *checkpoint.options = 0;
  round_trip(&checkpoint, model);
  checkpoint_free(&checkpoint);
  assert_null(checkpoint.parameters);
  checkpoint_free(&checkpoint); /* zeros */
  assert_int_equal(files_in_folder(), 1);
}

static void networks_of_one_and_of_many_layers_come_back(void **state) {
  (void)state;
  const int hidden[] = {33, 1, 300, 64, 2, 31, 65};
  for (int count = 0; count <= 7; count += 7) {
    Checkpoint checkpoint = {.options = strdup("")};
    Error error;
    assert_true(network_init(&checkpoint.network, 784, hidden, count, 10, &error));
    checkpoint.parameters = make_values(&checkpoint.network, 1);
    checkpoint.momentum = make_values(&checkpoint.network, 2);
    round_trip(&checkpoint, model);
    checkpoint_free(&checkpoint);
  }
}

/* What is loaded is saved as the same bytes, and twice the same. */
static void same_checkpoint_same_bytes(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content first = read_content(model);
  Checkpoint loaded = must_load(model);
  must_save(&loaded, model);
  assert_content(model, first);
  free(first.bytes);
  checkpoint_free(&loaded);
  checkpoint_free(&checkpoint);
}

/* ---- the bytes, read independently --------------------------------------------------------- */

/* The header as text and where the data starts; checks the length, the padding and what follows
   from the format alone. */
static char *header_of(Content content, size_t *start) {
  uint64_t length = 0;
  assert_true(content.size > 8);
  for (int i = 7; i >= 0; i--) length = length << 8 | content.bytes[i];
  assert_int_equal(length % 8, 0);
  assert_true(length < content.size - 8);
  char *header = calloc(length + 1, 1);
  memcpy(header, content.bytes + 8, length);
  assert_int_equal(*header, '{');
  char *last = strrchr(header, '}');
  assert_non_null(last);
  assert_true(header + length - last <= 8);
  assert_int_equal(strspn(last + 1, " "), header + length - last - 1);
  *start = 8 + length;
  return header;
}

/* Checks a tensor against the values it should have and moves *next, where it must begin, to
   where it ends. */
static void assert_tensor(const char *header, const uint8_t *data, const char *name,
                          const char *shape, const float *values, size_t count, size_t *next) {
  char entry[256];
  snprintf(entry, sizeof entry,
           "\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", name, shape,
           *next, *next + 4 * count);
  if (!strstr(header, entry)) fail_msg("%s is not in %s", entry, header);
  for (size_t i = 0; i < count; i++) {
    const uint8_t *byte = data + *next + 4 * i;
    const uint32_t bits = (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
                          (uint32_t)byte[3] << 24;
    assert_memory_equal(&bits, &values[i], sizeof bits);
  }
  *next += 4 * count;
}

static void file_is_as_the_format_says(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  size_t start, next = 0;
  char *header = header_of(content, &start);
  const uint8_t *data = content.bytes + start;
  const Network *n = &checkpoint.network;
  const float *p = checkpoint.parameters, *m = checkpoint.momentum;
  assert_tensor(header, data, "layers.0.weight", "7,5", p + n->weight[0], 35, &next);
  assert_tensor(header, data, "layers.0.bias", "7", p + n->bias[0], 7, &next);
  assert_tensor(header, data, "layers.1.weight", "3,7", p + n->weight[1], 21, &next);
  assert_tensor(header, data, "layers.1.bias", "3", p + n->bias[1], 3, &next);
  assert_tensor(header, data, "layers.2.weight", "2,3", p + n->weight[2], 6, &next);
  assert_tensor(header, data, "layers.2.bias", "2", p + n->bias[2], 2, &next);
  assert_tensor(header, data, "momentum.0.weight", "7,5", m + n->weight[0], 35, &next);
  assert_tensor(header, data, "momentum.0.bias", "7", m + n->bias[0], 7, &next);
  assert_tensor(header, data, "momentum.1.weight", "3,7", m + n->weight[1], 21, &next);
  assert_tensor(header, data, "momentum.1.bias", "3", m + n->bias[1], 3, &next);
  assert_tensor(header, data, "momentum.2.weight", "2,3", m + n->weight[2], 6, &next);
  assert_tensor(header, data, "momentum.2.bias", "2", m + n->bias[2], 2, &next);
  assert_int_equal(start + next, content.size);
  const char metadata[] =
      "{\"__metadata__\":{\"format\":\"mlp-train\",\"version\":\"1\",\"epoch\":\"12\","
      "\"step\":\"18446744073709551615\",\"loss\":\"0.33333333333333331\","
      "\"correct\":\"9007199254740993\",\"rows\":\"9223372036854775808\","
      "\"test_accuracy\":\"0.98765432109876539\",\"best_accuracy\":\"4.9406564584124654e-324\","
      "\"best_epoch\":\"2147483647\","
      "\"options\":\"[data]\\ntrain = a \\\"b\\\\c\\\" \xc3\xa4.csv\\n\"},";
  assert_memory_equal(header, metadata, sizeof metadata - 1);
  free(header);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

static void without_momentum_there_is_none_in_the_file(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  free(checkpoint.momentum);
  checkpoint.momentum = NULL;
  must_save(&checkpoint, model);
  Content content = read_content(model);
  size_t start;
  char *header = header_of(content, &start);
  assert_null(strstr(header, "momentum"));
  assert_int_equal(content.size - start, 4 * checkpoint.network.parameters);
  free(header);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

/* ---- files of others ----------------------------------------------------------------------- */

#define F32(name, shape, begin, end)                                                               \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

/* Names, order, metadata and white space as PyTorch's users have them. All are the network
   3 - 2 - 2 with these tensors, wherever they lie in the file. */
static void files_of_others(void **state) {
  (void)state;
  /* clang-format off */
  static const struct {
    const char *header;
    float weight0, bias0, weight1, bias1; /* the first value of each */
  } cases[] = {
      {"{" F32("0.weight", "2,3", "0", "24") "," F32("0.bias", "2", "24", "32") ","
       F32("2.weight", "2,2", "32", "48") "," F32("2.bias", "2", "48", "56") "}",
       1, 7, 9, 13},
      /* the order of the numbers counts, not that of the names as text or of the data */
      {"{ \"__metadata__\" : {\"format\": \"pt\", \"epoch\": \"many\"},\n"
       F32("net.10.bias", "2", "0", "8") ", " F32("net.10.weight", "2,2", "8", "24") ", "
       F32("net.9.bias", "2", "24", "32") ", " F32("net.9.weight", "2,3", "32", "56") "}   ",
       9, 7, 3, 1},
      {"{\"__metadata__\":{}," F32("fc1.weight", "2,3", "0", "24") ","
       F32("fc2.bias", "2", "48", "56") "," F32("fc1.bias", "2", "24", "32") ","
       F32("fc2.weight", "2,2", "32", "48") "}",
       1, 7, 9, 13},
      {"{" F32("layers.0.weight", "2,3", "0", "24") "," F32("layers.0.bias", "2", "24", "32") ","
       F32("layers.1.weight", "2,2", "32", "48") "," F32("layers.1.bias", "2", "48", "56") "}",
       1, 7, 9, 13},
  };
  /* clang-format on */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    forge(model, cases[i].header, 56);
    Checkpoint c = must_load(model);
    assert_int_equal(c.network.layers, 2);
    assert_int_equal(c.network.size[0], 3);
    assert_int_equal(c.network.size[1], 2);
    assert_int_equal(c.network.size[2], 2);
    const float *const starts[] = {
        c.parameters + c.network.weight[0], c.parameters + c.network.bias[0],
        c.parameters + c.network.weight[1], c.parameters + c.network.bias[1]};
    const float firsts[] = {cases[i].weight0, cases[i].bias0, cases[i].weight1, cases[i].bias1};
    const int counts[] = {6, 2, 4, 2};
    for (int t = 0; t < 4; t++)
      for (int v = 0; v < counts[t]; v++) assert_true(starts[t][v] == firsts[t] + (float)v);
    assert_null(c.momentum);
    assert_string_equal(c.options, "");
    assert_true(isnan(c.test_accuracy) && isnan(c.best_accuracy));
    assert_true(c.epoch == 0 && c.step == 0 && c.loss == 0 && c.correct == 0 && c.rows == 0 &&
                c.best_epoch == 0);
    checkpoint_free(&c);
  }
}

/* ---- files that are refused ---------------------------------------------------------------- */

/* The tensors of 3 - 2, 32 bytes of data, to be completed. */
#define WEIGHT F32("0.weight", "2,3", "0", "24")
#define BIAS F32("0.bias", "2", "24", "32")

static void bad_tensors_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    const char *message;
  } cases[] = {
      /* JSON */
      {"{" WEIGHT "," BIAS, 32, "its header is not the JSON of a safetensors file: '}' expected"},
      {"{" WEIGHT "," BIAS "} x", 32, "end of file expected"},
      {"{" WEIGHT "," WEIGHT "," BIAS "}", 32, "duplicate object key near '\"0.weight\"'"},
      {"{\"0.weight\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2,3],"
       "\"data_offsets\":[0,24]}," BIAS "}",
       32, "duplicate object key near '\"dtype\"'"},
      {"{\"0.\xff\":1}", 32, "unable to decode byte 0xff"},
      {"[]", 32, "it is no safetensors file: its header does not start with {"},
      {" {" WEIGHT "," BIAS "}", 32, "its header does not start with {"},
      {"", 32, "its header does not start with {"},
      /* entries */
      {"{}", 0, "it has no tensor named like layers.0.weight"},
      {"{\"__metadata__\":{}}", 0, "it has no tensor named like layers.0.weight"},
      {"{\"0.weight\":7," BIAS "}", 32,
       "tensor 0.weight must have a dtype, a shape and data_offsets"},
      {"{\"0.weight\":{\"shape\":[2,3],\"data_offsets\":[0,24]}," BIAS "}", 32, "have a dtype"},
      {"{\"0.weight\":{\"dtype\":\"F32\",\"data_offsets\":[0,24]}," BIAS "}", 32, "have a dtype"},
      {"{\"0.weight\":{\"dtype\":\"F32\",\"shape\":[2,3]}," BIAS "}", 32, "have a dtype"},
      {"{\"0.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]}," BIAS "}", 32,
       "tensor 0.weight is of dtype BF16; only F32 can be read"},
      {"{\"__metadata__\":{\"epoch\":1}," WEIGHT "," BIAS "}", 32,
       "its __metadata__ must be a map of strings"},
      {"{\"__metadata__\":[]," WEIGHT "," BIAS "}", 32, "must be a map of strings"},
      /* names */
      {"{" WEIGHT "," BIAS "," F32("1.running_mean", "2", "32", "40") "}", 40,
       "tensor 1.running_mean is none of a network of linear layers"},
      {"{" WEIGHT "," BIAS "," F32("out.weight", "2,2", "32", "48") "}", 48,
       "tensor out.weight is"},
      {"{" WEIGHT "," BIAS "," F32("weight", "2,2", "32", "48") "}", 48, "tensor weight is none"},
      {"{" WEIGHT "," F32("9999999999.bias", "2", "24", "32") "}", 32, "9999999999.bias is none"},
      {"{" WEIGHT "," F32("a.0.bias", "2", "24", "32") "}", 32,
       "tensors 0.weight and a.0.bias must belong to one network"},
      {"{" F32("ab0.weight", "2,3", "0", "24") "," F32("ac0.bias", "2", "24", "32") "}", 32,
       "tensors ab0.weight and ac0.bias must belong to one network"},
      {"{" F32("ab0.weight", "2,3", "0", "24") "," F32("a0.bias", "2", "24", "32") "}", 32,
       "tensors ab0.weight and a0.bias must belong to one network"},
      {"{" WEIGHT "," BIAS "," F32("00.bias", "2", "32", "40") "}", 40,
       "tensors 0.bias and 00.bias are one and the same"},
      {"{" WEIGHT "}", 24, "tensor 0.weight has no bias beside it"},
      {"{" F32("0.bias", "2", "0", "8") "}", 8, "tensor 0.bias has no weight beside it"},
      {"{" WEIGHT "," F32("1.bias", "2", "24", "32") "}", 32, "0.weight has no bias beside it"},
      {"{" WEIGHT "," BIAS "," F32("\\u001b[2J\\n", "2", "32", "40") "}", 40, "tensor ?[2J? is"},
      /* shapes */
      {"{" F32("0.weight", "6", "0", "24") "," BIAS "}", 32,
       "tensor 0.weight has 1 dimensions, not 2"},
      {"{" F32("0.weight", "2,3,1", "0", "24") "," BIAS "}", 32, "has 3 dimensions, not 2"},
      {"{" WEIGHT "," F32("0.bias", "2,1", "24", "32") "}", 32, "has 2 dimensions, not 1"},
      {"{" WEIGHT "," F32("0.bias", "", "24", "28") "}", 28, "has 0 dimensions, not 1"},
      {"{" WEIGHT "," F32("0.bias", "3", "24", "36") "}", 36,
       "tensor 0.bias has 3 values, 0.weight wants 2"},
      {"{" WEIGHT "," BIAS
       "," F32("1.weight", "2,3", "32", "56") "," F32("1.bias", "2", "56", "64") "}",
       64, "tensor 1.weight takes 3 values, the layer before gives 2"},
      {"{" F32("0.weight", "0,3", "0", "0") "," F32("0.bias", "0", "0", "0") "}", 0,
       "tensor 0.weight: the sizes of its shape must be whole numbers, 1 to 16384"},
      {"{" F32("0.weight", "-2,-3", "0", "24") "," BIAS "}", 32, "must be whole numbers"},
      {"{" F32("0.weight", "2.0,3", "0", "24") "," BIAS "}", 32, "must be whole numbers"},
      {"{" F32("0.weight", "16385,1", "0", "65540") "," BIAS "}", 65540, "must be whole numbers"},
      {"{" F32("0.weight", "4294967296,4294967296", "0", "0") "," BIAS "}", 32, "must be whole"},
      {"{" F32("0.weight", "2147483648,2147483648", "0", "0") "," BIAS "}", 32, "must be whole"},
      {"{" F32("0.weight", "18446744073709551618,3", "0", "24") "," BIAS "}", 32, "integer"},
      {"{" F32("0.weight", "2,4097", "0", "32776") "," F32("0.bias", "2", "32776", "32784") "}",
       32784, "the number of inputs must be 1 to 4096, not 4097"},
      {"{" F32("0.weight", "1025,1", "0", "4100") "," F32("0.bias", "1025", "4100", "8200") "}",
       8200, "the number of classes must be 2 to 1024, not 1025"},
      {"{" F32("0.weight", "1,1", "0", "4") "," F32("0.bias", "1", "4", "8") "}", 8,
       "the number of classes must be 2 to 1024, not 1"},
      /* offsets */
      {"{" WEIGHT "," BIAS "}", 31,
       "tensor 0.bias ends at byte 32 of the data, of which there are "
       "only 31: the file was cut off or damaged"},
      {"{" F32("0.weight", "16384,16384", "0", "1073741824") "," BIAS "}", 32, "ends at byte 1073"},
      {"{" F32("0.weight", "16384,16384", "0", "32") "," BIAS "}", 32,
       "tensor 0.weight has 32 bytes, its shape wants 1073741824"},
      {"{" WEIGHT "," F32("0.bias", "2", "24", "28") "}", 28,
       "tensor 0.bias has 4 bytes, its shape wants 8"},
      {"{" WEIGHT "," F32("0.bias", "2", "9223372036854775800", "9223372036854775807") "}", 32,
       "0.bias ends at byte 9223372036854775807"},
      {"{" F32("0.weight", "2,3", "-8", "16") "," BIAS "}", 32, "must be two ascending whole"},
      {"{" F32("0.weight", "2,3", "24", "0") "," BIAS "}", 32, "must be two ascending whole"},
      {"{" F32("0.weight", "2,3", "0", "24.0") "," BIAS "}", 32, "must be two ascending whole"},
      {"{" F32("0.weight", "2,3", "0", "24,24") "," BIAS "}", 32, "must be two ascending whole"},
      {"{" WEIGHT "," F32("0.bias", "2", "16", "24") "}", 24,
       "tensors 0.weight and 0.bias overlap"},
      {"{" F32("0.bias", "2", "0", "8") "," F32("0.weight", "2,3", "4", "28") "}", 28,
       "tensors 0.bias and 0.weight overlap"},
      {"{" WEIGHT "," F32("0.bias", "2", "28", "36") "}", 36, "byte 24 of its data belongs to no"},
      {"{" F32("0.weight", "2,3", "4", "28") "," F32("0.bias", "2", "28", "36") "}", 36,
       "byte 0 of its data belongs to no tensor"},
      {"{" WEIGHT "," BIAS "}", 33, "byte 32 of its data belongs to no tensor"},
      /* momentum */
      {"{" F32("momentum.0.weight", "2,3", "0", "24") "," F32("momentum.0.bias", "2", "24",
                                                              "32") "}",
       32, "it has no tensor named like layers.0.weight"},
      {"{" WEIGHT "," BIAS "," F32("momentum.0.bias", "2", "32", "40") "}", 40,
       "tensor momentum.0.bias has no weight beside it"},
      {"{" WEIGHT "," BIAS "," F32("momentum.0.weight", "2,2", "32",
                                   "48") "," F32("momentum.0.bias", "2", "48", "56") "}",
       56, "its momentum has other shapes than its parameters"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    forge(model, cases[i].header, cases[i].data);
    assert_refuses_to_load(model, cases[i].message);
  }
}

static void too_many_layers_are_refused(void **state) {
  (void)state;
  char header[4096] = "{";
  for (int l = 0; l < 9; l++) {
    const size_t used = strlen(header);
    snprintf(header + used, sizeof header - used,
             "%s\"%d.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[%d,%d]},"
             "\"%d.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%d,%d]}",
             l ? "," : "", l, 24 * l, 24 * l + 16, l, 24 * l + 16, 24 * l + 24);
  }
  strcat(header, "}");
  forge(model, header, 24 * 9);
  assert_refuses_to_load(model, "it has more than 8 layers");
}

static void bad_files_are_refused(void **state) {
  (void)state;
  assert_refuses_to_load(model, "No such file or directory");
  assert_refuses_to_load(folder, "it is a folder");
  const char *pipe = folder_path("pipe");
  assert_int_equal(mkfifo(pipe, 0600), 0);
  assert_refuses_to_load(pipe, "it is no regular file"); /* and does not wait for a writer */

  write_content(model, "", 0);
  assert_refuses_to_load(model, "it is no safetensors file: it has only 0 bytes");
  write_content(model, "\x05\0\0\0\0\0\0", 7);
  assert_refuses_to_load(model, "it is no safetensors file: it has only 7 bytes");
  write_content(model, "\x03\0\0\0\0\0\0\0{}", 10);
  assert_refuses_to_load(model, "cut off: its header has 3 bytes, the whole file 10");
  write_content(model, "\x89PNG\r\n\x1a\n more of it", 20);
  assert_refuses_to_load(model, "it is no safetensors file of a network: its header would "
                                "have 727905341920923785 bytes, at most 1048576");
  write_content(model, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  assert_refuses_to_load(model, "would have 18446744073709551615 bytes");
}

/* A header of exactly the bound is read; a byte more is not, though the file has it. */
static void header_has_a_bound(void **state) {
  (void)state;
  const size_t bound = 1 << 20;
  char *header = calloc(bound + 2, 1);
  const char start[] = "{" WEIGHT "," BIAS "}";
  memset(header, ' ', bound);
  memcpy(header, start, sizeof start - 1);
  forge(model, header, 32);
  Checkpoint checkpoint = must_load(model);
  checkpoint_free(&checkpoint);
  header[bound] = ' ';
  forge(model, header, 32);
  assert_refuses_to_load(model, "its header would have 1048577 bytes, at most 1048576");
  free(header);
}

static void values_that_are_not_finite_are_refused(void **state) {
  (void)state;
  static const struct {
    float value;
    size_t at; /* in floats of the data */
    const char *message;
  } cases[] = {
      {NAN, 0, "tensor layers.0.weight has a value that is NaN or infinite"},
      {INFINITY, 41, "tensor layers.0.bias has a value"},
      {-INFINITY, 73, "tensor layers.2.bias has a value"},
      {-NAN, 74, "tensor momentum.0.weight has a value"},
  };
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t *value = content.bytes + content.size - 4 * 148 + 4 * cases[i].at, old[4];
    memcpy(old, value, 4);
    memcpy(value, &cases[i].value, 4);
    write_content(model, content.bytes, content.size);
    assert_refuses_to_load(model, cases[i].message);
    memcpy(value, old, 4);
  }

  write_content(model, content.bytes, content.size);
  checkpoint.momentum[checkpoint.network.bias[1] + 2] = NAN;
  assert_refuses_to_save(&checkpoint, model,
                         "tensor momentum.1.bias has a value that is NaN or infinite");
  assert_content(model, content);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

/* Our own metadata is believed only as a whole. Each change keeps the file's length. */
static void bad_metadata_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"\"version\":\"1\"", "\"version\":\"2\"", "another version of mlp-train: format 2, not 1"},
      {"\"version\"", "\"Version\"", "format unknown, not 1"},
      {"\"epoch\":\"12\"", "\"epoch\":\"-2\"", "its metadata has no valid epoch"},
      {"\"epoch\":\"12\"", "\"epoch\":\"1x\"", "no valid epoch"},
      {"\"epoch\":\"12\"", "\"epoch\": \"\" ", "no valid epoch"},
      {"\"epoch\":\"12\"", "\"Epoch\":\"12\"", "no valid epoch"},
      {"\"epoch\":\"12\"", "\"epoch\":\"+1\"", "no valid epoch"},
      {"\"best_epoch\":\"2147483647\"", "\"best_epoch\":\"2147483648\"", "no valid best_epoch"},
      {"\"18446744073709551615\"", "\"18446744073709551616\"", "no valid step"},
      {"\"0.33333333333333331\"", "\"0.3333333333333333x\"", "no valid loss"},
      {"\"0.33333333333333331\"", "\"\"                   ", "no valid loss"},
      {"\"options\"", "\"Options\"", "no valid options"},
  };
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  size_t start;
  char *header = header_of(content, &start);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const size_t length = strlen(cases[i].from);
    assert_int_equal(strlen(cases[i].to), length);
    const char *found = strstr(header, cases[i].from);
    if (!found) fail_msg("no %s", cases[i].from);
    uint8_t *at = content.bytes + 8 + (found - header);
    memcpy(at, cases[i].to, length);
    write_content(model, content.bytes, content.size);
    assert_refuses_to_load(model, cases[i].message);
    memcpy(at, cases[i].from, length);
  }
  free(header);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

/* However much of a file is missing, what is left is refused. */
static void truncated_files_are_refused(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  for (size_t size = content.size; size-- > 0;) {
    assert_int_equal(truncate(model, (off_t)size), 0);
    assert_refuses_to_load(model, size < 8 ? "it has only" : "cut off");
  }
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

/* A damaged header is refused or read, and what is read can be saved: the sanitizers watch. */
static void damaged_headers_do_no_harm(void **state) {
  (void)state;
  static const uint8_t changes[] = {0x01, 0x02, 0x10, 0x80};
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  const size_t data = 4 * 148;
  int refused = 0, count = 0;
  const int file = open(model, O_WRONLY);
  assert_true(file >= 0);
  for (size_t i = 0; i < content.size - data; i++)
    for (size_t c = 0; c < sizeof changes; c++, count++) {
      const uint8_t byte = content.bytes[i] ^ changes[c];
      Checkpoint loaded;
      Error error = {.text = ""};
      assert_int_equal(pwrite(file, &byte, 1, (off_t)i), 1);
      const bool good = checkpoint_load(&loaded, model, &error);
      refused += !good;
      assert_int_equal(good, *error.text == 0);
      checkpoint_free(&loaded);
      assert_int_equal(pwrite(file, &content.bytes[i], 1, (off_t)i), 1);
    }
  assert_true(refused > count / 2 && refused < count);
  close(file);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

/* ---- saving in the file system ------------------------------------------------------------- */

/* Saving that fails half way, because a file may not grow so large, leaves the folder as it was. */
static void failed_write_leaves_the_old_file(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  struct rlimit old, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
  checkpoint.epoch++;
  const size_t limits[] = {0, 100, content.size - 592, content.size - 1};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    small = (struct rlimit){limits[i], old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    Error error = {.text = ""};
    const bool saved = checkpoint_save(&checkpoint, model, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0); /* before anything else is written */
    assert_false(saved);
    assert_non_null(strstr(error.text, model));
    assert_non_null(strstr(error.text, strerror(EFBIG)));
    assert_content(model, content);
    assert_int_equal(files_in_folder(), 1);
  }
  signal(SIGXFSZ, handler);
  round_trip(&checkpoint, model); /* now it goes through */
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

/* The file is on the disk before it takes its place, and then the folder is. */
static void save_reaches_the_disk(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  memset(&disk, 0, sizeof disk);
  disk.path = model;
  disk.interrupts = 3;
  must_save(&checkpoint, model);
  Content content = read_content(model);
  assert_int_equal(disk.file.st_size, content.size);
  assert_int_equal(disk.file.st_nlink, 1);
  assert_true(disk.target == disk.file.st_ino);

  checkpoint.epoch++;
  disk.file_error = EIO;
  assert_refuses_to_save(&checkpoint, model, strerror(EIO));
  assert_content(model, content);
  assert_int_equal(files_in_folder(), 1);
  disk.file_error = 0;
  disk.folder_error = EIO;
  char message[256];
  snprintf(message, sizeof message, "its folder cannot be written to the disk: %s", strerror(EIO));
  assert_refuses_to_save(&checkpoint, model, message);
  disk.folder_error = EINVAL; /* a file system without it */
  round_trip(&checkpoint, model);
  memset(&disk, 0, sizeof disk);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

static void read_only_folder(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  const uid_t user = geteuid();
  assert_int_equal(chmod(folder, 0555), 0);
  if (user == 0) assert_int_equal(seteuid(NOBODY), 0); /* root may write everywhere */
  checkpoint.epoch++;
  Error error = {.text = ""};
  const bool saved = checkpoint_save(&checkpoint, model, &error);
  if (user == 0) assert_int_equal(seteuid(user), 0);
  assert_int_equal(chmod(folder, 0755), 0);
  assert_false(saved);
  assert_non_null(strstr(error.text, ": Permission denied"));
  assert_content(model, content);
  assert_int_equal(files_in_folder(), 1);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

static void places_where_nothing_can_be_saved(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  assert_no_place(&checkpoint, folder, "it is no regular file");
  assert_no_place(&checkpoint, folder_path("none/model.safetensors"), "its folder does not exist");
  const char *pipe = folder_path("pipe");
  assert_int_equal(mkfifo(pipe, 0600), 0);
  assert_no_place(&checkpoint, pipe, "it is no regular file");
  struct stat status;
  assert_int_equal(stat(pipe, &status), 0);
  assert_true(S_ISFIFO(status.st_mode));
  write_content(model, "", 0);
  assert_no_place(&checkpoint, folder_path("model.safetensors/model.safetensors"),
                  "Not a directory");
  assert_int_equal(files_in_folder(), 2);
  checkpoint_free(&checkpoint);
}

/* A probe needs what saving needs, and leaves everything as it was. */
static void a_probe_leaves_no_trace(void **state) {
  (void)state;
  Error error = {.text = ""};
  assert_true(checkpoint_probe(model, &error));
  assert_int_equal(files_in_folder(), 0);
  write_content(model, "old", 3);
  assert_true(checkpoint_probe(model, &error));
  assert_content(model, (Content){(uint8_t *)"old", 3});
  assert_int_equal(files_in_folder(), 1);

  const uid_t user = geteuid();
  assert_int_equal(chmod(folder, 0555), 0);
  if (user == 0) assert_int_equal(seteuid(NOBODY), 0); /* root may write everywhere */
  const bool promised = checkpoint_probe(model, &error);
  if (user == 0) assert_int_equal(seteuid(user), 0);
  assert_int_equal(chmod(folder, 0755), 0);
  assert_false(promised);
  assert_non_null(strstr(error.text, ": Permission denied"));
}

static void options_that_cannot_be_saved(void **state) {
  (void)state;
  Checkpoint checkpoint = make_checkpoint();
  strcpy(checkpoint.options, "train = \xe4.csv");
  assert_refuses_to_save(&checkpoint, model, "the names of files in its options must be UTF-8");
  free(checkpoint.options);
  checkpoint.options = calloc((1 << 20) + 1, 1);
  memset(checkpoint.options, 'o', 1 << 20);
  assert_refuses_to_save(&checkpoint, model, "its options are too long (1048576 bytes)");
  assert_int_equal(files_in_folder(), 0);
  checkpoint_free(&checkpoint);
}

static void permissions_are_as_the_umask_says(void **state) {
  (void)state;
  static const mode_t masks[] = {022, 027, 0};
  Checkpoint checkpoint = make_checkpoint();
  for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
    const mode_t old = umask(masks[i]);
    must_save(&checkpoint, model);
    umask(old);
    struct stat status;
    assert_int_equal(stat(model, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0666 & ~masks[i]);
  }
  checkpoint_free(&checkpoint);
}

/* The old file is not written to: whoever has it open goes on reading it. */
static void old_file_is_replaced_not_overwritten(void **state) {
  (void)state;
  write_content(model, "old", 3);
  FILE *old = fopen(model, "rb");
  assert_non_null(old);
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  char bytes[8] = "";
  assert_int_equal(fread(bytes, 1, sizeof bytes, old), 3);
  assert_string_equal(bytes, "old");
  fclose(old);
  checkpoint_free(&checkpoint);
}

/* A link stays one; a temporary file left behind by a process that died is stepped over. */
static void links_and_leftovers(void **state) {
  (void)state;
  char leftover[4200];
  const char *link = folder_path("latest");
  snprintf(leftover, sizeof leftover, "%s.tmp.%ld", model, (long)getpid());
  write_content(model, "old", 3);
  write_content(leftover, "left", 4);
  assert_int_equal(symlink("model.safetensors", link), 0);
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, link);
  struct stat status;
  assert_int_equal(lstat(link, &status), 0);
  assert_true(S_ISLNK(status.st_mode));
  Checkpoint loaded = must_load(model);
  assert_same(&checkpoint, &loaded);
  assert_content(leftover, (Content){(uint8_t *)"left", 4});
  assert_int_equal(files_in_folder(), 3);
  checkpoint_free(&loaded);
  checkpoint_free(&checkpoint);
}

/* A bare name lies in the working folder. */
static void name_without_a_folder(void **state) {
  (void)state;
  char before[4096];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(folder), 0);
  Checkpoint checkpoint = make_checkpoint();
  round_trip(&checkpoint, "bare.safetensors");
  assert_int_equal(chdir(before), 0);
  checkpoint_free(&checkpoint);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, open_folder, folder_close)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_FOLDER(every_field_comes_back),
      IN_FOLDER(networks_of_one_and_of_many_layers_come_back),
      IN_FOLDER(same_checkpoint_same_bytes),
      IN_FOLDER(file_is_as_the_format_says),
      IN_FOLDER(without_momentum_there_is_none_in_the_file),
      IN_FOLDER(files_of_others),
      IN_FOLDER(bad_tensors_are_refused),
      IN_FOLDER(too_many_layers_are_refused),
      IN_FOLDER(bad_files_are_refused),
      IN_FOLDER(header_has_a_bound),
      IN_FOLDER(values_that_are_not_finite_are_refused),
      IN_FOLDER(bad_metadata_is_refused),
      IN_FOLDER(truncated_files_are_refused),
      IN_FOLDER(damaged_headers_do_no_harm),
      IN_FOLDER(failed_write_leaves_the_old_file),
      IN_FOLDER(save_reaches_the_disk),
      IN_FOLDER(read_only_folder),
      IN_FOLDER(places_where_nothing_can_be_saved),
      IN_FOLDER(a_probe_leaves_no_trace),
      IN_FOLDER(options_that_cannot_be_saved),
      IN_FOLDER(permissions_are_as_the_umask_says),
      IN_FOLDER(old_file_is_replaced_not_overwritten),
      IN_FOLDER(links_and_leftovers),
      IN_FOLDER(name_without_a_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
