/* What docs/recipes.md tells of other data sets: IDX files, plain and packed, become CSV, and
   networks of as many classes as EMNIST has train on it. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"
#include "support/folder.h"
#include "support/process.h"

enum { HEIGHT = 4, WIDTH = 3, PIXELS = HEIGHT * WIDTH };

static char output[1 << 16];

static void write_number(FILE *file, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) putc((int)(number >> shift & 255), file);
}

/* The class of picture i is i % classes; its pixels are the class in binary, bright and dark, and
   its number at the end. */
static int pixel(int i, int classes, int p) {
  const int label = i % classes;
  return p == PIXELS - 1 ? i % 256 : (label >> (p % 6) & 1) ? 255 : 0;
}

static void write_idx(int count, int classes) {
  FILE *images = fopen(folder_path("images"), "wb"), *labels = fopen(folder_path("labels"), "wb");
  assert_true(images && labels);
  write_number(images, 0x803);
  write_number(images, (uint32_t)count);
  write_number(images, HEIGHT);
  write_number(images, WIDTH);
  write_number(labels, 0x801);
  write_number(labels, (uint32_t)count);
  for (int i = 0; i < count; i++) {
    putc(i % classes, labels);
    for (int p = 0; p < PIXELS; p++) putc(pixel(i, classes, p), images);
  }
  assert_int_equal(fclose(images), 0);
  assert_int_equal(fclose(labels), 0);
}

static int convert(const char *options, const char *images, const char *labels) {
  return process_run(output, sizeof output,
                     "p=$PWD/scripts/idx_to_csv; cd '%s' && \"$p\" %s %s %s >a.csv", folder,
                     options, images, labels);
}

/* The CSV file is those pictures, transposed or not. */
static void assert_csv(int count, int classes, bool transposed) {
  FILE *file = fopen(folder_path("a.csv"), "r");
  assert_non_null(file);
  for (int i = 0; i < count; i++) {
    int value;
    assert_int_equal(fscanf(file, "%d", &value), 1);
    assert_int_equal(value, i % classes);
    for (int p = 0; p < PIXELS; p++) {
      const int x = p / HEIGHT, y = p % HEIGHT; /* transposed, a line is a column of the picture */
      assert_int_equal(fscanf(file, ",%d", &value), 1);
      assert_int_equal(value, pixel(i, classes, transposed ? y * WIDTH + x : p));
    }
    assert_int_equal(fgetc(file), '\n');
  }
  assert_int_equal(fgetc(file), EOF);
  fclose(file);
}

#define IN_FOLDER(name) TEST_WITH(name, folder_open, folder_close)

IN_FOLDER(idx_becomes_csv) {
  write_idx(100, 47);
  if (convert("", "images", "labels") != 0) fail_msg("%s", output);
  assert_csv(100, 47, false);
  if (convert("--transpose", "images", "labels") != 0) fail_msg("%s", output);
  assert_csv(100, 47, true);
  assert_int_equal(process_run(output, sizeof output, "cd '%s' && gzip -k images labels", folder),
                   0);
  if (convert("", "images.gz", "labels.gz") != 0) fail_msg("%s", output);
  assert_csv(100, 47, false);
}

IN_FOLDER(wrong_idx_files_are_named) {
  static const struct {
    const char *images, *labels;
    int status;
    const char *says;
  } wrong[] = {
      {"none", "labels", 1, "cannot read none"},
      {"labels", "images", 1, "labels is not an IDX file of pictures"},
      {"images", "images", 1, "images is not an IDX file of labels"},
      {"images", "few", 1, "images has 20 pictures, few has 19 labels"},
      {"short", "labels", 1, "short is not whole"},
      {"empty", "labels", 1, "empty is not an IDX file of pictures"},
      {"images", "", 2, "usage: idx_to_csv [--transpose] IMAGES LABELS"},
      {"--help", "", 2, "usage: "},
  };
  write_idx(19, 10);
  assert_int_equal(process_run(output, sizeof output, "cd '%s' && mv labels few", folder), 0);
  write_idx(20, 10);
  assert_int_equal(
      process_run(output, sizeof output, "cd '%s' && head -c 99 images >short && : >empty", folder),
      0);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(convert("", wrong[i].images, wrong[i].labels), wrong[i].status);
    if (!strstr(output, wrong[i].says)) fail_msg("%s: %s", wrong[i].says, output);
  }
}

/* As EMNIST has: balanced, and by class. */
IN_FOLDER(many_classes_train) {
  static const int classes[] = {47, 62};
  for (int i = 0; i < 2; i++) {
    write_idx(2000, classes[i]);
    if (convert("", "images", "labels") != 0) fail_msg("%s", output);
    if (process_run(output, sizeof output,
                    PROGRAM_FOLDER "/mlp-train --device cpu --threads 1 --train '%s/a.csv' "
                                   "--classes %d --validation 0.2 --epochs 30 --hidden 64 --quiet",
                    folder, classes[i]) != 0)
      fail_msg("%s", output);
    double accuracy = 0;
    const char *line = strstr(output, "epoch 30/30 ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "epoch 30/30 %*s %*s %*s %lf%%", &accuracy), 1);
    if (accuracy < 95) fail_msg("%d classes: %g%%", classes[i], accuracy);
  }
}
