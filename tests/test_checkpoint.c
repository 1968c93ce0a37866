/* Tests saving and loading of checkpoints: every field, the bytes of the format, a file system that
   fails, truncated files. tests/scenarios/checkpoint.sh tests other programs' files and refused
   files, fuzz_checkpoint.c tests damaged files, test_output.c tests how a file is replaced. */
#include <fcntl.h>
#include <float.h>
#include <sys/stat.h>

#include "model/checkpoint.h"
#include "support/folder.h"

/* The fsync below replaces libc's. These fields say how it fails and record what it synced. */
static struct {
  int file_error, folder_error; /* errno of fsync; 0 means success */
  int interrupts;               /* number of calls that are interrupted before one succeeds */
  struct stat file;             /* state of the file when it was synced */
  ino_t target;                 /* inode of `path` when the folder was synced */
  const char *path;
} disk;

int fsync(int file) {
  struct stat status;
  errno = disk.interrupts-- > 0 ? EINTR : 0;
  assert_int_equal(fstat(file, &status), 0);
  if (!errno && S_ISDIR(status.st_mode)) {
    if (disk.path && stat(disk.path, &status) == 0) disk.target = status.st_ino;
    errno = disk.folder_error;
  } else if (!errno) {
    errno = disk.file_error;
    disk.file = status;
  }
  return errno ? -1 : 0;
}

/* A file in the working folder. It does not exist at first. */
static const char model[] = "model.safetensors";

/* Fills the first `count` arrays with different values. Padding gets zeros. */
static void make_arrays(Checkpoint *checkpoint, int count) {
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

static void must_save(const Checkpoint *checkpoint) {
  OK(checkpoint_save(checkpoint, model, &error));
}

static Checkpoint must_load(void) {
  Checkpoint checkpoint;
  OK(checkpoint_load(&checkpoint, model, &error));
  return checkpoint;
}

/* A checkpoint of a network 5 - 7 - 3 - 2 in which all values differ. Every test gets a new one.
   save_sample writes it to `model` and sets `saved` to the file's bytes. */
static Checkpoint sample;
static Content saved;

static int checkpoint_files_open(void **state) {
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

static int checkpoint_files_close(void **state) {
  checkpoint_free(&sample);
  return folder_close(state);
}

#define SAVING(name) TEST_WITH(name, checkpoint_files_open, checkpoint_files_close)

static void save_sample(void) {
  must_save(&sample);
  saved = read_content(model);
}

/* Checks that the sample cannot be saved. The error must be "cannot VERB PATH: MESSAGE", where VERB
   is save or write. */
static void assert_refuses_to_save(const char *verb, const char *path, const char *message) {
  error.text[0] = '\0';
  assert_false(checkpoint_save(&sample, path, &error));
  assert_string_equal(error.text, text_printf("cannot %s %s: %s", verb, path, message));
}

static void assert_content(Content expected) {
  const Content content = read_content(model);
  assert_int_equal(content.size, expected.size);
  assert_memory_equal(content.bytes, expected.bytes, expected.size);
}

/* Checks that saving, loading and saving again gives the same bytes. */
static void round_trip(const Checkpoint *checkpoint) {
  must_save(checkpoint);
  Content content = read_content(model);
  Checkpoint loaded = must_load();
  must_save(&loaded);
  assert_content(content);
  checkpoint_free(&loaded);
}

SAVING(every_field_comes_back) {
  round_trip(&sample);
  sample.parameters[0] = -0.0f;
  sample.parameters[1] = FLT_TRUE_MIN;
  sample.parameters[2] = -FLT_MAX;
  sample.loss = NAN;
  sample.best_accuracy = INFINITY;
  sample.test_accuracy = -0.0;
  sample.best_epoch = sample.epoch = 0;
  round_trip(&sample);
  sample.count = 1; /* only the parameters */
  memset(sample.kind, 0, sizeof sample.kind);
  sample.test_accuracy = sample.best_accuracy = NAN;
  sample.step = sample.correct = sample.rows = 0;
  *sample.options = 0;
  round_trip(&sample);
  checkpoint_free(&sample);
  assert_null(sample.parameters);
  checkpoint_free(&sample); /* does nothing, since `sample` is all zeros */
  assert_files(1);
}

SAVING(networks_of_one_and_of_many_layers_come_back) {
  const int hidden[] = {33, 1, 30, 64, 2, 31, 65};
  for (int count = 0; count <= 7; count += 7) {
    Checkpoint checkpoint = {.options = strdup("")};
    assert_true(network_init(&checkpoint.network, 784, hidden, count, 10, &error));
    make_arrays(&checkpoint, CHECKPOINT_ARRAYS);
    round_trip(&checkpoint);
    checkpoint_free(&checkpoint);
  }
}

SAVING(file_is_as_the_format_says) {
  const Network *n = &sample.network;
  uint8_t data[4 * 148]; /* little-endian, like this machine */
  size_t at = 0;
  FILE *header = text_open();
  fputs("{\"__metadata__\":{\"format\":\"mlp-train\",\"version\":\"1\",\"epoch\":\"12\","
        "\"step\":\"18446744073709551615\",\"loss\":\"0.33333333333333331\","
        "\"correct\":\"9007199254740993\",\"rows\":\"9223372036854775808\","
        "\"test_accuracy\":\"0.98765432109876539\",\"best_accuracy\":\"4.9406564584124654e-324\","
        "\"best_epoch\":\"2147483647\",\"updates\":\"1000000\","
        "\"options\":\"[data]\\ntrain = a \\\"b\\\\c\\\" \xc3\xa4.csv\\n\","
        "\"names\":\"no\\n\xc3\xa4 \\\"yes\\\"\"}",
        header);
  for (int i = 0; i < 12; i++) { /* weights and biases of three layers, then their momentum */
    static const char *const shapes[] = {"7,5", "7", "3,7", "3", "2,3", "2"};
    static const size_t counts[] = {35, 7, 21, 3, 6, 2};
    const int l = i % 6 / 2;
    const size_t end = at + 4 * counts[i % 6], first = i % 2 ? n->bias[l] : n->weight[l];
    fprintf(header, ",\"%s.%d.%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
            i < 6 ? "layers" : "momentum", l, i % 2 ? "bias" : "weight", shapes[i % 6], at, end);
    memcpy(data + at, checkpoint_array(&sample, (CheckpointArray)(i / 6)) + first, end - at);
    at = end;
  }
  const char *text = text_close(header);
  const size_t length = (strlen(text) + 8) / 8 * 8; /* with "}" and padding */
  save_sample();
  assert_int_equal(saved.size, 8 + length + at);
  assert_memory_equal(saved.bytes, &(uint64_t){length}, 8);
  assert_memory_equal(saved.bytes + 8, text_printf("%-*s", (int)length, text_printf("%s}", text)),
                      length);
  assert_memory_equal(saved.bytes + 8 + length, data, at);
}

/* ---- saving in the file system ------------------------------------------------------------- */

/* The file is synced before it is renamed. The folder is synced after the file is renamed. */
SAVING(save_reaches_the_disk) {
  memset(&disk, 0, sizeof disk);
  disk.path = model;
  disk.interrupts = 3;
  save_sample();
  assert_int_equal(disk.file.st_size, saved.size);
  assert_int_equal(disk.file.st_nlink, 1);
  assert_true(disk.target == disk.file.st_ino);

  sample.epoch++;
  disk.file_error = EIO;
  assert_refuses_to_save("write", model, strerror(EIO));
  assert_content(saved);
  assert_files(1);
  disk.file_error = 0;
  disk.folder_error = EIO;
  assert_refuses_to_save(
      "write", model, text_printf("its folder cannot be written to the disk: %s", strerror(EIO)));
  disk.folder_error = EINVAL; /* a file system that cannot sync folders */
  round_trip(&sample);
  memset(&disk, 0, sizeof disk);
}

SAVING(what_cannot_be_saved_is_said) {
  float *value = checkpoint_array(&sample, CHECKPOINT_MOMENTUM) + sample.network.bias[1] + 2;
  *value = NAN;
  assert_refuses_to_save("save", model,
                         "tensor momentum.1.bias has a value that is NaN or infinite");
  *value = 0;
  strcpy(sample.options, "train = \xe4.csv");
  assert_refuses_to_save("save", model, "the names of files in its options must be UTF-8");
  free(sample.options);
  sample.options = calloc((1 << 20) + 1, 1);
  memset(sample.options, 'o', 1 << 20);
  assert_refuses_to_save("save", model, "its options are too long (1048576 bytes)");
  assert_files(0);
}

/* A file that is truncated to any length is refused, and all memory is freed. */
SAVING(truncated_files_are_refused) {
  save_sample();
  for (size_t size = saved.size; size-- > 0;) {
    Checkpoint checkpoint;
    memset(&checkpoint, 0x55, sizeof checkpoint);
    assert_int_equal(truncate(model, (off_t)size), 0);
    const bool loaded = checkpoint_load(&checkpoint, model, &error);
    assert_in(error.text, model);
    FAILS(loaded, size < 8 ? "it has only" : "cut off");
    assert_true(!checkpoint.parameters && !checkpoint.count && !checkpoint.options);
  }
}
