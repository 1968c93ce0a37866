/* Checkpoints and their files, for the tests of checkpoint.c: written, forged and read by hand,
   without its reader and without JSON. The folder is that of folder.h. */
#pragma once

#include <float.h>

#include "model/checkpoint.h"
#include "support/folder.h"

/* A file in the working folder, which does not exist at first. */
static const char model[] = "model.safetensors";

/* ---- checkpoints ---------------------------------------------------------------------------- */

/* Fills the first `count` arrays with values, and zeros as padding. */
static inline void make_arrays(Checkpoint *checkpoint, int count) {
  const Network *network = &checkpoint->network;
  checkpoint->count = count;
  checkpoint->parameters = calloc((size_t)count * network->floats, sizeof(float));
  for (int a = 0; a < count; a++) {
    float *values = checkpoint->parameters + (size_t)a * network->floats, next = a ? 1e-3f : 1;
    checkpoint->kind[a] = (CheckpointArray)a;
    for (int l = 0; l < network->layers; l++) {
      const int in = network->size[l], out = network->size[l + 1];
      for (int i = 0; i < in * out; i++) values[network->weight[l] + (size_t)i] = next++;
      for (int i = 0; i < out; i++) values[network->bias[l] + (size_t)i] = -(next++) / 3;
    }
  }
}

static inline void must_save(const Checkpoint *checkpoint) {
  OK(checkpoint_save(checkpoint, model, &error));
}

static inline Checkpoint must_load(void) {
  Checkpoint checkpoint;
  OK(checkpoint_load(&checkpoint, model, &error));
  return checkpoint;
}

/* Every test has a checkpoint of a network 5 - 7 - 3 - 2, every value of which differs from every
   other, and the bytes of the file that save_sample writes it to, which is `model`. */
static Checkpoint sample;
static Content saved;

static inline int checkpoint_files_open(void **state) {
  sample = (Checkpoint){.epoch = 12,
                        .step = UINT64_MAX,
                        .loss = 1.0 / 3,
                        .correct = (1ull << 53) + 1,
                        .rows = 1ull << 63,
                        .test_accuracy = 0.98765432109876543,
                        .best_accuracy = DBL_TRUE_MIN,
                        .best_epoch = INT32_MAX,
                        .updates = 1000000,
                        .options = strdup("[data]\ntrain = a \"b\\c\" \xc3\xa4.csv\n"),
                        .names = strdup("no\n\xc3\xa4 \"yes\"")};
  OK(network_init(&sample.network, 5, (const int[]){7, 3}, 2, 2, &error));
  make_arrays(&sample, 2);
  return folder_enter(state);
}

static inline int checkpoint_files_close(void **state) {
  checkpoint_free(&sample);
  return folder_close(state);
}

#define IN_FOLDER(name) TEST_WITH(name, checkpoint_files_open, checkpoint_files_close)

static inline void save_sample(void) {
  must_save(&sample);
  saved = read_content(model);
}

/* One sentence names the path and has `message` in it; nothing is allocated. */
static inline void assert_refuses_to_load(const char *path, const char *message) {
  Checkpoint checkpoint;
  memset(&checkpoint, 0x55, sizeof checkpoint);
  const bool loaded = checkpoint_load(&checkpoint, path, &error);
  assert_in(error.text, path);
  FAILS(loaded, message);
  assert_null(checkpoint.parameters);
  assert_int_equal(checkpoint.count, 0);
  assert_null(checkpoint.options);
}

/* Of the sample: the sentence is "cannot", that verb (save or write), the path and `message`. */
static inline void assert_refuses_to_save(const char *verb, const char *path, const char *message) {
  error.text[0] = '\0';
  assert_false(checkpoint_save(&sample, path, &error));
  assert_string_equal(error.text, text_printf("cannot %s %s: %s", verb, path, message));
}

/* ---- files by hand -------------------------------------------------------------------------- */

static inline void assert_content(Content expected) {
  const Content content = read_content(model);
  assert_int_equal(content.size, expected.size);
  assert_memory_equal(content.bytes, expected.bytes, expected.size);
}

/* Writes the header that the notation of forge() stands for. Returns where the last of its tensors
   ends. */
static inline size_t expand(const char *from, char *to) {
  size_t most = 0;
  const bool bare = *from == '<'; /* without the braces around all */
  if (bare) *to++ = '{';
  while (*from) {
    char name[64], shape[64], offsets[64];
    int end = 0;
    if (*from != '<') {
      *to++ = *from++;
      continue;
    }
    assert_int_equal(sscanf(from, "<%63[^ ] %63[^ ] %63[^>]>%n", name, shape, offsets, &end), 3);
    to += sprintf(to, "\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%s]}", name,
                  strcmp(shape, "-") == 0 ? "" : shape, offsets);
    from += end;
    const size_t last = strtoull(strchr(offsets, ',') + 1, NULL, 10);
    if (last > most) most = last;
    if (*from == '<') *to++ = ',';
  }
  strcpy(to, bare ? "}" : "");
  return most;
}

/* Writes `model` with this header and `data` bytes of data (0: as its tensors have), the floats 1,
   2, 3, ... In the header
   <0.weight 2,3 0,24> stands for the entry of a tensor: name, shape (- for none) and data_offsets.
   A header that begins with < consists of entries only: braces and commas are added.
   A ' stands for ". */
static inline void forge(const char *text, size_t data) {
  char *header = allocate(8 * strlen(text) + 64, 1);
  const size_t tensors = expand(folder_json(text), header);
  if (!data) data = tensors;
  const size_t length = strlen(header), size = 8 + length + data;
  uint8_t *bytes = allocate(size + sizeof(float), 1);
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(length >> (8 * i));
  memcpy(bytes + 8, header, length);
  float value = 1;
  for (size_t i = 0; i < data; i += sizeof value, value++)
    memcpy(bytes + 8 + length + i, &value, sizeof value);
  folder_write_bytes(model, bytes, size);
}

/* The header as text, and where the data starts; checks the length, the padding and what follows
   from the format alone. */
static inline char *header_of(Content content, size_t *start) {
  uint64_t length = 0;
  assert_true(content.size > 8);
  for (int i = 7; i >= 0; i--) length = length << 8 | content.bytes[i];
  assert_int_equal(length % 8, 0);
  assert_true(length < content.size - 8);
  char *header = memcpy(allocate(length + 1, 1), content.bytes + 8, length);
  assert_int_equal(*header, '{');
  char *last = strrchr(header, '}');
  assert_non_null(last);
  assert_true(header + length - last <= 8);
  assert_int_equal(strspn(last + 1, " "), header + length - last - 1);
  *start = 8 + length;
  return header;
}
