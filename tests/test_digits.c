/* Drawn digits, and mlp-digits as a process. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/digits.h"
#include "support/test.h"
#include "support/folder.h"
#include "support/process.h"
#include "base/random.h"

/* ---- pictures ---------------------------------------------------------------------------- */

typedef struct {
  int label;
  uint8_t pixels[DIGITS_PIXELS];
} Digit;

static Digit draw(uint64_t seed, DigitsSeries series, uint64_t row) {
  Digit digit;
  digit.label = digits_draw(seed, series, row, digit.pixels);
  return digit;
}

static bool same_pixels(const Digit *a, const Digit *b) {
  return memcmp(a->pixels, b->pixels, DIGITS_PIXELS) == 0;
}

TEST(test_arguments_decide_the_picture) {
  const Digit digit = draw(1, DIGITS_TRAIN, 7), again = draw(1, DIGITS_TRAIN, 7);
  assert_int_equal(digit.label, again.label);
  assert_true(same_pixels(&digit, &again));
  const Digit others[] = {draw(2, DIGITS_TRAIN, 7), draw(1, DIGITS_TEST, 7),
                          draw(1, DIGITS_TRAIN, 8), draw(1 + ((uint64_t)1 << 32), DIGITS_TRAIN, 7)};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    assert_false(same_pixels(&digit, &others[i]));
}

/* FNV-1a (Fowler, Noll, Vo) over labels and pixels: other compilers, other machines and other
   optimisation give the same. Drawing differently is a change for users: then, and only then,
   write the new value here. */
TEST(test_same_bytes_on_every_machine) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint64_t row = 0; row < 2000; row++) {
    const Digit digit = draw(1, row % 2 ? DIGITS_TEST : DIGITS_TRAIN, row);
    hash = (hash ^ (uint64_t)digit.label) * 0x100000001b3u;
    for (int i = 0; i < DIGITS_PIXELS; i++) hash = (hash ^ digit.pixels[i]) * 0x100000001b3u;
  }
  assert_int_equal(hash, 0x4569e5d96b6f4850);
}

TEST(test_labels_are_equally_likely) {
  enum { ROWS = 10000 };
  int count[10] = {0};
  for (uint64_t row = 0; row < ROWS; row++) {
    const int label = draw(3, DIGITS_TRAIN, row).label;
    assert_in_range(label, 0, 9);
    count[label]++;
  }
  for (int label = 0; label < 10; label++)
    assert_in_range(count[label], 850, 1150); /* five standard deviations of 30 */
}

/* As MNIST: ink within 20 x 20, its centre of mass in pixel 14. */
TEST(test_size_and_place) {
  for (uint64_t row = 0; row < 3000; row++) {
    const Digit digit = draw(4, DIGITS_TRAIN, row);
    int left = DIGITS_SIDE, right = -1, top = DIGITS_SIDE, bottom = -1, darkest = 0;
    double mass = 0, x_mass = 0, y_mass = 0;
    for (int y = 0; y < DIGITS_SIDE; y++)
      for (int x = 0; x < DIGITS_SIDE; x++) {
        const int value = digit.pixels[y * DIGITS_SIDE + x];
        if (!value) continue;
        if (x < left) left = x;
        if (x > right) right = x;
        if (y < top) top = y;
        if (y > bottom) bottom = y;
        if (value > darkest) darkest = value;
        mass += value;
        x_mass += value * x;
        y_mass += value * y;
      }
    const int width = right - left + 1, height = bottom - top + 1;
    assert_in_range(width > height ? width : height, DIGITS_BOX - 3, DIGITS_BOX);
    const double x_off = x_mass / mass - 14, y_off = y_mass / mass - 14;
    assert_true(x_off >= -0.5 && x_off <= 0.5 && y_off >= -0.5 && y_off <= 0.5);
    assert_in_range(darkest, 200, 255);
    assert_in_range((int)(mass / 255), 20, 300); /* black pixels */
  }
}

static int nearest_mean(const double mean[10][DIGITS_PIXELS], const uint8_t *pixels) {
  int nearest = 0;
  double least = 1e300;
  for (int label = 0; label < 10; label++) {
    double distance = 0;
    for (int i = 0; i < DIGITS_PIXELS; i++) {
      const double difference = pixels[i] - mean[label][i];
      distance += difference * difference;
    }
    if (distance < least) {
      least = distance;
      nearest = label;
    }
  }
  return nearest;
}

/* The mean picture of each class tells most test digits apart, as it does with MNIST (82%), and
   not all of them: the drawings vary. */
TEST(test_task_is_honest) {
  enum { TRAIN = 4000, TEST = 1000 };
  static double mean[10][DIGITS_PIXELS];
  int count[10] = {0}, right = 0;
  for (uint64_t row = 0; row < TRAIN; row++) {
    const Digit digit = draw(5, DIGITS_TRAIN, row);
    count[digit.label]++;
    for (int i = 0; i < DIGITS_PIXELS; i++) mean[digit.label][i] += digit.pixels[i];
  }
  for (int label = 0; label < 10; label++)
    for (int i = 0; i < DIGITS_PIXELS; i++) mean[label][i] /= count[label];
  for (uint64_t row = 0; row < TEST; row++) {
    const Digit digit = draw(5, DIGITS_TEST, row);
    right += nearest_mean(mean, digit.pixels) == digit.label;
  }
  assert_in_range(right, TEST * 70 / 100, TEST * 92 / 100);
}

/* ---- the program ------------------------------------------------------------------------- */

#define MLP_DIGITS PROGRAM_FOLDER "/mlp-digits"

static char output[4096];

static int entries(void) {
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(directory));)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(directory);
  return count;
}

static int run_digits(const char *options) {
  return process_run(output, sizeof output, MLP_DIGITS " --output-dir '%s' %s", folder, options);
}

static void check_file(const char *name, uint64_t seed, DigitsSeries series, size_t rows) {
  Error error;
  DatasetReader *reader = dataset_open(folder_path(name), 10, 2, 0, &error);
  assert_non_null(reader);
  assert_int_equal(dataset_inputs(reader), DIGITS_PIXELS);
  uint8_t *pixels = malloc((rows + 1) * DIGITS_PIXELS);
  uint16_t *labels = malloc((rows + 1) * sizeof *labels);
  size_t filled;
  assert_true(dataset_read(reader, pixels, DIGITS_PIXELS, labels, rows + 1, &filled, &error));
  assert_int_equal(filled, rows);
  for (size_t row = 0; row < rows; row++) {
    const Digit digit = draw(seed, series, row);
    assert_int_equal(labels[row], digit.label);
    assert_memory_equal(pixels + row * DIGITS_PIXELS, digit.pixels, DIGITS_PIXELS);
  }
  free(pixels);
  free(labels);
  dataset_close(reader);
}

#define IN_FOLDER(name) TEST_WITH(name, folder_open, folder_close)

IN_FOLDER(test_files_hold_the_digits) {
  assert_int_equal(run_digits("--train-rows 700 --test-rows 1 --seed 9"), 0);
  check_file("digits_train.csv", 9, DIGITS_TRAIN, 700);
  check_file("digits_test.csv", 9, DIGITS_TEST, 1);
  assert_non_null(strstr(output, "digits_train.csv: 700 drawn digits\n"));
  assert_int_equal(run_digits("--train-rows 3 --test-rows 2"), 0); /* replaces them */
  check_file("digits_train.csv", 1, DIGITS_TRAIN, 3);
  assert_int_equal(entries(), 2);
}

IN_FOLDER(test_no_such_folder) {
  assert_int_equal(run_digits("--output-dir /nowhere/at-all"), 1);
  assert_non_null(strstr(output, "cannot write /nowhere/at-all/"));
  assert_non_null(strstr(output, "its folder does not exist"));
}

/* One file leads to the other: only the digits of one would be left. */
IN_FOLDER(test_files_that_are_one) {
  assert_int_equal(symlink("digits_train.csv", folder_path("digits_test.csv")), 0);
  assert_int_equal(run_digits("--train-rows 3 --test-rows 2"), 2);
  assert_non_null(strstr(output, "are the same file"));
  assert_int_equal(entries(), 1);
}

/* A file that cannot grow stands for a full disk. What was there stays. */
IN_FOLDER(test_full_disk) {
  assert_int_equal(run_digits("--train-rows 2 --test-rows 2"), 0);
  const int status = process_run(
      output, sizeof output,
      "trap '' XFSZ; ulimit -f 100; " MLP_DIGITS " --output-dir '%s' --train-rows 1000", folder);
  assert_int_equal(status, 1);
  assert_non_null(strstr(output, "digits_train.csv: File too large"));
  assert_int_equal(entries(), 2);
  check_file("digits_train.csv", 1, DIGITS_TRAIN, 2);
}

IN_FOLDER(test_signal_leaves_nothing) {
  const int status = process_run(output, sizeof output,
                                 MLP_DIGITS " --output-dir '%s' --train-rows 100000000 & "
                                            "until ls -A '%s' | grep -q .; do sleep 0.01; done; "
                                            "kill $!; wait $!",
                                 folder, folder);
  assert_int_equal(status, 128 + 15);
  assert_int_equal(entries(), 0);
}
