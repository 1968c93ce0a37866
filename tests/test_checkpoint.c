/* Checkpoints that are saved and loaded: every field, the bytes of the format, files of other
   programs, and saving in a file system that fails. test_checkpoint_refused.c has what is refused,
   test_output.c how a file is replaced. */
#include "support/checkpoint_files.h"

#include <float.h>
#include <sys/stat.h>

/* ---- fsync ------------------------------------------------------------------------------- */

/* Takes the place of libc's: fails as `disk` says, and records what it was given. */
static struct {
  int file_error, folder_error; /* 0: none */
  int interrupts;               /* so many calls are interrupted first */
  struct stat file;             /* as it was when it was synced */
  ino_t target;                 /* what `path` was when the folder was synced */
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

/* ---- round trips ------------------------------------------------------------------------- */

static void assert_same(const Checkpoint *a, const Checkpoint *b) {
  static const size_t sizes[] = {
      [FIELD_INT] = sizeof(int), [FIELD_COUNT] = sizeof(uint64_t), [FIELD_REAL] = sizeof(double)};
  const size_t size = (size_t)a->count * a->network.floats * sizeof *a->parameters;
  assert_memory_equal(&a->network, &b->network, sizeof a->network);
  assert_int_equal(a->count, b->count);
  assert_memory_equal(a->kind, b->kind, sizeof a->kind);
  assert_memory_equal(a->parameters, b->parameters, size);
  foreach (field, checkpoint_fields)
    assert_memory_equal((const char *)a + field->offset, (const char *)b + field->offset,
                        sizes[field->kind]);
  assert_string_equal(a->options, b->options);
  assert_string_equal(a->names ? a->names : "none", b->names ? b->names : "none");
}

/* What is loaded is the same, and is saved as the same bytes. */
static void round_trip(const Checkpoint *checkpoint) {
  must_save(checkpoint);
  Content content = read_content(model);
  Checkpoint loaded = must_load();
  assert_same(checkpoint, &loaded);
  must_save(&loaded);
  assert_content(content);
  checkpoint_free(&loaded);
}

IN_FOLDER(every_field_comes_back) {
  round_trip(&sample);
  sample.parameters[0] = -0.0f;
  sample.parameters[1] = FLT_TRUE_MIN;
  sample.parameters[2] = -FLT_MAX;
  sample.loss = NAN;
  sample.best_accuracy = INFINITY;
  sample.test_accuracy = -0.0;
  sample.best_epoch = sample.epoch = 0;
  round_trip(&sample);
  sample.count = 1; /* the parameters alone */
  memset(sample.kind, 0, sizeof sample.kind);
  sample.test_accuracy = sample.best_accuracy = NAN;
  sample.step = sample.correct = sample.rows = 0;
  *sample.options = 0;
  round_trip(&sample);
  checkpoint_free(&sample);
  assert_null(sample.parameters);
  checkpoint_free(&sample); /* zeros */
  assert_files(1);
}

IN_FOLDER(networks_of_one_and_of_many_layers_come_back) {
  const int hidden[] = {33, 1, 300, 64, 2, 31, 65};
  for (int count = 0; count <= 7; count += 7) {
    Checkpoint checkpoint = {.options = strdup("")};
    assert_true(network_init(&checkpoint.network, 784, hidden, count, 10, &error));
    make_arrays(&checkpoint, CHECKPOINT_ARRAYS);
    checkpoint.updates = UINT64_MAX - 1;
    round_trip(&checkpoint);
    checkpoint_free(&checkpoint);
  }
}

/* ---- the bytes, read independently --------------------------------------------------------- */

/* Checks a tensor against the values it should have and moves *next, where it must begin, to
   where it ends. */
static void assert_tensor(const char *header, const uint8_t *data, const char *prefix, int layer,
                          const char *name, const char *shape, const float *values, size_t count,
                          size_t *next) {
  const char *entry =
      text_printf("\"%s.%d.%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                  prefix, layer, name, shape, *next, *next + 4 * count);
  assert_in(header, entry);
  assert_memory_equal(data + *next, values, 4 * count); /* the lowest byte first, as here */
  *next += 4 * count;
}

IN_FOLDER(file_is_as_the_format_says) {
  save_sample();
  size_t start, next = 0;
  char *header = header_of(saved, &start);
  const uint8_t *data = saved.bytes + start;
  for (int array = 0; array < 2; array++)
    for (int l = 0; l < 3; l++) {
      static const char *const shapes[] = {"7,5", "3,7", "2,3"}, *const rows[] = {"7", "3", "2"};
      static const size_t counts[] = {35, 21, 6};
      const float *values = checkpoint_array(&sample, (CheckpointArray)array);
      const char *prefix = array ? "momentum" : "layers";
      assert_tensor(header, data, prefix, l, "weight", shapes[l], values + sample.network.weight[l],
                    counts[l], &next);
      assert_tensor(header, data, prefix, l, "bias", rows[l], values + sample.network.bias[l],
                    (size_t)atoi(rows[l]), &next);
    }
  assert_int_equal(start + next, saved.size);
  const char metadata[] =
      "{\"__metadata__\":{\"format\":\"mlp-train\",\"version\":\"1\",\"epoch\":\"12\","
      "\"step\":\"18446744073709551615\",\"loss\":\"0.33333333333333331\","
      "\"correct\":\"9007199254740993\",\"rows\":\"9223372036854775808\","
      "\"test_accuracy\":\"0.98765432109876539\",\"best_accuracy\":\"4.9406564584124654e-324\","
      "\"best_epoch\":\"2147483647\",\"updates\":\"1000000\","
      "\"options\":\"[data]\\ntrain = a \\\"b\\\\c\\\" \xc3\xa4.csv\\n\","
      "\"names\":\"no\\n\xc3\xa4 \\\"yes\\\"\"},";
  assert_memory_equal(header, metadata, sizeof metadata - 1);
}

/* One of eight lengths in a row needs no padding; header_of checks that it gets none. Without
   momentum there is none in the file. */
IN_FOLDER(headers_are_padded_to_eight_bytes) {
  sample.count = 1;
  memset(sample.kind, 0, sizeof sample.kind);
  for (size_t less = 0; less < 8; less++) {
    size_t start;
    strcpy(sample.options, &"12345678"[less]);
    must_save(&sample);
    const Content content = read_content(model);
    assert_null(strstr(header_of(content, &start), "momentum"));
    assert_int_equal(content.size - start, 4 * sample.network.parameters);
  }
}

/* ---- files of others ----------------------------------------------------------------------- */

/* Names, order, metadata and white space as PyTorch's users have them. All are the network
   3 - 2 - 2 with these tensors, wherever they lie in the file. */
IN_FOLDER(files_of_others) {
  static const struct {
    const char *header;
    float first[4]; /* values of the weights and biases of the two layers */
  } cases[] = {
      {"<0.weight 2,3 0,24><0.bias 2 24,32><2.weight 2,2 32,48><2.bias 2 48,56>", {1, 7, 9, 13}},
      /* the order of the numbers counts, not that of the names as text or of the data */
      {"{ '__metadata__' : {'format': 'pt', 'epoch': 'many'},\n"
       "<net.10.bias 2 0,8>, <net.10.weight 2,2 8,24>, "
       "<net.9.bias 2 24,32>, <net.9.weight 2,3 32,56>}   ",
       {9, 7, 3, 1}},
      {"{'__metadata__':{},<fc1.weight 2,3 0,24>,<fc2.bias 2 48,56>,"
       "<fc1.bias 2 24,32>,<fc2.weight 2,2 32,48>}",
       {1, 7, 9, 13}},
      {"<layers.0.weight 2,3 0,24><layers.0.bias 2 24,32>"
       "<layers.1.weight 2,2 32,48><layers.1.bias 2 48,56>",
       {1, 7, 9, 13}},
  };
  foreach (row, cases) {
    forge(row->header, 0);
    Checkpoint c = must_load();
    assert_int_equal(c.network.layers, 2);
    assert_memory_equal(c.network.size, ((const int[]){3, 2, 2}), 3 * sizeof(int));
    const float *const starts[] = {
        c.parameters + c.network.weight[0], c.parameters + c.network.bias[0],
        c.parameters + c.network.weight[1], c.parameters + c.network.bias[1]};
    const int counts[] = {6, 2, 4, 2};
    for (int t = 0; t < 4; t++)
      for (int v = 0; v < counts[t]; v++) assert_true(starts[t][v] == row->first[t] + (float)v);
    assert_int_equal(c.count, 1);
    assert_string_equal(c.options, "");
    assert_true(isnan(c.test_accuracy) && isnan(c.best_accuracy));
    assert_true(c.epoch == 0 && c.step == 0 && c.loss == 0 && c.correct == 0 && c.rows == 0 &&
                c.best_epoch == 0);
    checkpoint_free(&c);
  }
}

/* ---- saving in the file system ------------------------------------------------------------- */

/* The file is on the disk before it takes its place, and then the folder is. */
IN_FOLDER(save_reaches_the_disk) {
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
  disk.folder_error = EINVAL; /* a file system without it */
  round_trip(&sample);
  memset(&disk, 0, sizeof disk);
}

/* Saving and the probe before it say the same; other places are of test_output.c. */
IN_FOLDER(places_where_nothing_can_be_saved) {
  static const char no_file[] = "it is not a regular file", none[] = "its folder does not exist";
  static const Pair places[] = {
      {".", no_file}, {"pipe", no_file}, {"none/model.safetensors", none}};
  assert_true(checkpoint_probe(model, NULL));
  assert_files(0);
  assert_int_equal(mkfifo("pipe", 0600), 0);
  foreach (place, places) {
    Error saving, probing;
    assert_refuses_to_save("write", place->given, place->wanted);
    assert_false(checkpoint_save(&sample, place->given, &saving));
    assert_false(checkpoint_probe(place->given, &probing));
    assert_string_equal(probing.text, saving.text);
  }
  struct stat status;
  assert_int_equal(stat("pipe", &status), 0);
  assert_true(S_ISFIFO(status.st_mode));
  assert_files(1);
}

IN_FOLDER(options_that_cannot_be_saved) {
  strcpy(sample.options, "train = \xe4.csv");
  assert_refuses_to_save("save", model, "the names of files in its options must be UTF-8");
  free(sample.options);
  sample.options = calloc((1 << 20) + 1, 1);
  memset(sample.options, 'o', 1 << 20);
  assert_refuses_to_save("save", model, "its options are too long (1048576 bytes)");
  assert_files(0);
}
