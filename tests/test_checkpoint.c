/* What checkpoint.c saves and loads: every field, the bytes of the format, files of others, and
   saving in a file system that fails. What it refuses to load is in test_checkpoint_refused.c. */
#include "support/checkpoint_files.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };

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

/* ---- round trips ------------------------------------------------------------------------- */

static void assert_same_bits(double a, double b) {
  assert_memory_equal(&a, &b, sizeof a);
}

static void assert_same(const Checkpoint *a, const Checkpoint *b) {
  const size_t size = a->network.floats * sizeof *a->parameters;
  assert_memory_equal(&a->network, &b->network, sizeof a->network);
  assert_memory_equal(a->parameters, b->parameters, size);
  assert_int_equal(a->momentum == NULL, b->momentum == NULL);
  if (a->momentum) assert_memory_equal(a->momentum, b->momentum, size);
  assert_int_equal(a->second_moment == NULL, b->second_moment == NULL);
  if (a->second_moment) assert_memory_equal(a->second_moment, b->second_moment, size);
  assert_int_equal(a->raw == NULL, b->raw == NULL);
  if (a->raw) assert_memory_equal(a->raw, b->raw, size);
  assert_true(a->updates == b->updates);
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

static void round_trip(const Checkpoint *checkpoint, const char *path) {
  must_save(checkpoint, path);
  Checkpoint loaded = must_load(path);
  assert_same(checkpoint, &loaded);
  checkpoint_free(&loaded);
}

IN_FOLDER(every_field_comes_back) {
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

IN_FOLDER(networks_of_one_and_of_many_layers_come_back) {
  const int hidden[] = {33, 1, 300, 64, 2, 31, 65};
  for (int count = 0; count <= 7; count += 7) {
    Checkpoint checkpoint = {.options = strdup("")};
    Error error;
    assert_true(network_init(&checkpoint.network, 784, hidden, count, 10, &error));
    checkpoint.parameters = make_values(&checkpoint.network, 1);
    checkpoint.momentum = make_values(&checkpoint.network, 2);
    checkpoint.second_moment = make_values(&checkpoint.network, 3);
    checkpoint.raw = make_values(&checkpoint.network, 4);
    checkpoint.updates = UINT64_MAX - 1;
    round_trip(&checkpoint, model);
    checkpoint_free(&checkpoint);
  }
}

/* What is loaded is saved as the same bytes, and twice the same. */
IN_FOLDER(same_checkpoint_same_bytes) {
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

IN_FOLDER(file_is_as_the_format_says) {
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
      "\"best_epoch\":\"2147483647\",\"updates\":\"1000000\","
      "\"options\":\"[data]\\ntrain = a \\\"b\\\\c\\\" \xc3\xa4.csv\\n\"},";
  assert_memory_equal(header, metadata, sizeof metadata - 1);
  free(header);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

IN_FOLDER(without_momentum_there_is_none_in_the_file) {
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

/* Names, order, metadata and white space as PyTorch's users have them. All are the network
   3 - 2 - 2 with these tensors, wherever they lie in the file. */
IN_FOLDER(files_of_others) {
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

/* ---- saving in the file system ------------------------------------------------------------- */

static void assert_cannot_write(const Checkpoint *checkpoint, const char *path,
                                const char *message) {
  char expected[16384];
  Error error = {.text = ""};
  assert_false(checkpoint_save(checkpoint, path, &error));
  snprintf(expected, sizeof expected, "cannot write %s: %s", path, message);
  assert_string_equal(error.text, expected);
}

/* Nor does it promise to. */
static void assert_no_place(const Checkpoint *checkpoint, const char *path, const char *message) {
  char expected[16384];
  Error error = {.text = ""};
  assert_cannot_write(checkpoint, path, message);
  assert_false(checkpoint_probe(path, &error));
  snprintf(expected, sizeof expected, "cannot write %s: %s", path, message);
  assert_string_equal(error.text, expected);
}

/* Saving that fails half way, because a file may not grow so large, leaves the folder as it was. */
IN_FOLDER(failed_write_leaves_the_old_file) {
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
IN_FOLDER(save_reaches_the_disk) {
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
  assert_cannot_write(&checkpoint, model, strerror(EIO));
  assert_content(model, content);
  assert_int_equal(files_in_folder(), 1);
  disk.file_error = 0;
  disk.folder_error = EIO;
  char message[256];
  snprintf(message, sizeof message, "its folder cannot be written to the disk: %s", strerror(EIO));
  assert_cannot_write(&checkpoint, model, message);
  disk.folder_error = EINVAL; /* a file system without it */
  round_trip(&checkpoint, model);
  memset(&disk, 0, sizeof disk);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

IN_FOLDER(read_only_folder) {
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

IN_FOLDER(places_where_nothing_can_be_saved) {
  Checkpoint checkpoint = make_checkpoint();
  assert_no_place(&checkpoint, folder, "it is not a regular file");
  assert_no_place(&checkpoint, folder_path("none/model.safetensors"), "its folder does not exist");
  const char *pipe = folder_path("pipe");
  assert_int_equal(mkfifo(pipe, 0600), 0);
  assert_no_place(&checkpoint, pipe, "it is not a regular file");
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
IN_FOLDER(a_probe_leaves_no_trace) {
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

IN_FOLDER(options_that_cannot_be_saved) {
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

IN_FOLDER(permissions_are_as_the_umask_says) {
  static const mode_t masks[] = {022, 027, 0};
  Checkpoint checkpoint = make_checkpoint();
  for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
    unlink(model);
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
IN_FOLDER(old_file_is_replaced_not_overwritten) {
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
IN_FOLDER(links_and_leftovers) {
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
IN_FOLDER(name_without_a_folder) {
  char before[4096];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(folder), 0);
  Checkpoint checkpoint = make_checkpoint();
  round_trip(&checkpoint, "bare.safetensors");
  assert_int_equal(chdir(before), 0);
  checkpoint_free(&checkpoint);
}
