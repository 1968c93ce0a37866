/* Asking a network that was saved, and the pictures of a run: mlp-train as a process on the CPU. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>

#include "model/checkpoint.h"
#include "plot/figures.h"
#include "predict/predict.h"
#include "support/test.h"
#include "support/pictures.h"
#include "support/program.h"
#include "support/stb_png.h"

enum { TRAIN_ROWS = 600, TEST_ROWS = 400, CLASSES = 10 };

/* A network that is right about four digits of five: there are more mistakes than a picture shows.
 */
static int open_folder(void **state) {
  program_open(state);
  program_write_digits("digits_train.csv", DIGITS_TRAIN, TRAIN_ROWS, true);
  program_write_digits("digits_test.csv", DIGITS_TEST, TEST_ROWS, true);
  program_write_digits("unlabelled.csv", DIGITS_TEST, TEST_ROWS, false);
  stbi_write_force_png_filter = 0; /* not to try all of them */
  stbi_write_png_compression_level = 1;
  RUN_WELL("--device", "cpu", "--train", "digits_train.csv", "--test", "digits_test.csv",
           "--hidden", "64", "--epochs", "8", "--save", "model.safetensors", "--log", "run.jsonl",
           "--plot", "curves.png", "--weights", "weights.png", "--mistakes", "mistakes.png",
           "--confusion", "confusion.png");
  return 0;
}

#define ASK "--device", "cpu", "--load", "model.safetensors"

/* ---- answers ------------------------------------------------------------------------------ */

/* The test accuracy of the last epoch, from the log. */
static double logged_accuracy(void) {
  char *text = program_read("run.jsonl", NULL), *line = text;
  for (char *end; (end = strchr(line, '\n')) && end[1];) line = end + 1;
  json_t *object = json_loads(line, 0, NULL);
  assert_true(json_is_object(object));
  assert_int_equal(json_integer_value(json_object_get(object, "epoch")), 8);
  const double accuracy = json_number_value(json_object_get(object, "test_accuracy"));
  json_decref(object);
  free(text);
  assert_true(accuracy > 0.6 && accuracy < 1);
  return accuracy;
}

static void draw_labels(int *labels) {
  for (uint64_t row = 0; row < TEST_ROWS; row++) {
    uint8_t pixels[DIGITS_PIXELS];
    labels[row] = digits_draw(1, DIGITS_TEST, row, pixels);
  }
}

/* Predictions of a file of predictions, whose head is `head`. */
static void read_answers(const char *path, const char *head, int *answers) {
  char *text = program_read(path, NULL), *line = text;
  assert_memory_equal(line, head, strlen(head));
  for (int row = 0; row < TEST_ROWS; row++) {
    int number;
    line = strchr(line, '\n') + 1;
    assert_int_equal(sscanf(line, "%d,%d", &number, &answers[row]), 2);
    assert_int_equal(number, row + 1);
  }
  assert_string_equal(strchr(line, '\n'), "\n");
  free(text);
}

TESTS_WITH(open_folder, program_close);

TEST(evaluation_says_what_training_did) {
  char expected[128];
  const double accuracy = logged_accuracy();
  RUN_WELL(ASK, "--evaluate", "--test", "digits_test.csv");
  snprintf(expected, sizeof expected, "^loss [0-9.]+  accuracy +%.2f%%  wrong %.0f of %d rows$",
           100 * accuracy, (1 - accuracy) * TEST_ROWS, TEST_ROWS);
  assert_int_equal(program_lines(expected), 1);
  assert_int_equal(program_lines("^ +[0-9] .*%$"), CLASSES);
}

TEST(predictions_are_evaluations) {
  int labels[TEST_ROWS], answers[TEST_ROWS], right = 0;
  draw_labels(labels);
  RUN_WELL(ASK, "--predict", "digits_test.csv", "--output", "answers.csv", "--quiet");
  assert_string_equal(program.out, "");
  read_answers("answers.csv", "ImageId,Label\n", answers);
  for (int row = 0; row < TEST_ROWS; row++) right += answers[row] == labels[row];
  assert_true((double)right / TEST_ROWS == logged_accuracy());
}

TEST(predictions_are_the_same_anywhere) {
  RUN_WELL(ASK, "--predict", "digits_test.csv", "--output", "answers.csv");
  RUN_WELL(ASK, "--predict", "unlabelled.csv", "--output", "others.csv");
  program_same_files("others.csv", "answers.csv");
  RUN_WELL(ASK, "--predict", "unlabelled.csv", "--output", "-");
  program_same_files(PROGRAM_OUT, "answers.csv");
  RUN_WELL(ASK, "--predict", "digits_test.csv");
  program_same_files(PROGRAM_OUT, "answers.csv");
  RUN_WELL(ASK, "--predict", "digits_test.csv", "--threads", "1");
  program_same_files(PROGRAM_OUT, "answers.csv");
}

TEST(probabilities_add_up_to_one) {
  static const char head[] = "ImageId,Label,P0,P1,P2,P3,P4,P5,P6,P7,P8,P9\n";
  int answers[TEST_ROWS];
  RUN_WELL(ASK, "--predict", "unlabelled.csv", "--output", "answers.csv", "--probabilities");
  read_answers("answers.csv", head, answers);
  char *text = program_read("answers.csv", NULL), *line = text;
  for (int row = 0; row < TEST_ROWS; row++) {
    double sum = 0, most = 0, that = 0;
    line = strchr(strchr(strchr(line, '\n') + 1, ',') + 1, ',');
    for (int c = 0; c < CLASSES; c++) {
      assert_int_equal(*line, ',');
      const double probability = strtod(line + 1, &line);
      assert_true(probability >= 0 && probability <= 1);
      sum += probability;
      most = fmax(most, probability);
      if (c == answers[row]) that = probability;
    }
    assert_int_equal(*line, '\n');
    assert_true(fabs(sum - 1) < 1e-5);
    assert_true(that == most);
  }
  free(text);
}

TEST(what_cannot_be_asked) {
  RUN(ASK, "--predict", "train.csv"); /* two pixels */
  program_failed(1, "train.csv, line 1: 3 fields, but the network takes 784 pixels a row");
  RUN(ASK, "--predict", "train.csv", "--output", "never.csv");
  program_failed(1, "train.csv, line 1: 3 fields");
  assert_int_equal(access("never.csv", F_OK), -1);
  RUN(ASK, "--evaluate", "--test", "train.csv");
  program_failed(1, "train.csv has 2 pixels a row, but the network takes 784");
  RUN(ASK, "--evaluate", "--test", "unlabelled.csv");
  program_failed(1, "unlabelled.csv");
  RUN(ASK, "--evaluate", "--test", "none.csv");
  program_failed(1, "none.csv: no such file");
  RUN(ASK, "--classify", "none.png");
  program_failed(1, "none.png");
  RUN("--evaluate", "--load", "none.safetensors");
  program_failed(1, "cannot load none.safetensors: No such file");
  RUN("--evaluate", "--load", "digits_test.csv");
  program_failed(1, "cannot load digits_test.csv: it is not a safetensors file");
  RUN("--evaluate", "--load", ".");
  program_failed(1, "cannot load .: it is a folder");
  assert_string_equal(program.out, "");
  RUN("--evaluate");
  assert_int_equal(program.status, 2);
  program_said("--evaluate needs a network: add --load FILE");
}

/* ---- pictures of digits ------------------------------------------------------------------- */

typedef struct {
  const char *name;
  int zoom;
  uint8_t paper[3], ink[3];
} Style;

static void write_picture(const char *path, const Style *style, const uint8_t *pixels) {
  enum { MOST = 3 * SIDE };
  static uint8_t rgb[MOST * MOST][3];
  const int width = style->zoom * SIDE;
  for (int i = 0; i < width * width; i++)
    for (int k = 0; k < 3; k++) {
      const int ink = pixels[i / width / style->zoom * SIDE + i % width / style->zoom];
      rgb[i][k] = (uint8_t)(style->paper[k] + (style->ink[k] - style->paper[k]) * ink / 255);
    }
  assert_true(stbi_write_png(path, width, width, 3, rgb, 0));
}

/* The digits of the test file once more, now as large in their box as MNIST's are: those of
   digits.h are so but nearly, and their pictures are sized and centred when they are read. */
static uint8_t digits[TEST_ROWS][DIGITS_PIXELS];

static void draw_digits(void) {
  static const Style grey = {"", 1, {0, 0, 0}, {255, 255, 255}};
  Error error;
  FILE *file = fopen("pictures.csv", "w");
  assert_non_null(file);
  for (int row = 0; row < TEST_ROWS; row++) {
    digits_draw(1, DIGITS_TEST, (uint64_t)row, digits[row]);
    write_picture("digit.png", &grey, digits[row]);
    assert_true(read_picture("digit.png", SIDE, digits[row], &error));
    for (int i = 0; i < DIGITS_PIXELS; i++)
      fprintf(file, "%d%c", digits[row][i], i + 1 < DIGITS_PIXELS ? ',' : '\n');
  }
  assert_int_equal(fclose(file), 0);
}

/* The digits as pictures, and the answers to them, which --classify prints behind their names. */
static void classify(const Style *style, int *answers) {
  static char names[TEST_ROWS][32];
  const char *arguments[TEST_ROWS + 8] = {ASK, "--classify"};
  int count = 0;
  while (arguments[count]) count++;
  for (int row = 0; row < TEST_ROWS; row++) {
    snprintf(names[row], sizeof names[row], "%s-%03d.png", style->name, row);
    write_picture(names[row], style, digits[row]);
    arguments[count++] = names[row];
  }
  program_end(program_start(PROGRAM_OUT, arguments), PROGRAM_OUT);
  assert_string_equal(program.error, "");
  assert_int_equal(program.status, 0);
  const char *line = program.out;
  for (int row = 0; row < TEST_ROWS; row++) {
    double first, second;
    int other, read;
    assert_memory_equal(line, names[row], strlen(names[row]));
    line += strlen(names[row]);
    assert_int_equal(
        sscanf(line, " %d %lf%% %d %lf%%%n", &answers[row], &first, &other, &second, &read), 4);
    assert_true(first >= second && first + second < 100.02);
    line = strchr(line, '\n') + 1;
  }
  assert_string_equal(line, "");
}

TEST(pictures_are_answered_as_rows) {
  static const Style styles[] = {
      {"grey", 1, {0, 0, 0}, {255, 255, 255}},
      {"inverted", 1, {255, 255, 255}, {0, 0, 0}},
      {"large", 3, {0, 0, 0}, {255, 255, 255}},
      {"colour", 3, {250, 244, 210}, {20, 30, 140}},
  };
  int rows[TEST_ROWS], pictures[TEST_ROWS];
  draw_digits();
  RUN_WELL(ASK, "--predict", "pictures.csv", "--output", "answers.csv");
  read_answers("answers.csv", "ImageId,Label\n", rows);
  for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
    int same = 0;
    classify(&styles[i], pictures);
    for (int row = 0; row < TEST_ROWS; row++) same += pictures[row] == rows[row];
    if (same * 100 < TEST_ROWS * 97)
      fail_msg("%s: %d of %d answers are the rows'", styles[i].name, same, TEST_ROWS);
  }
}

/* ---- photographs --------------------------------------------------------------------------- */

/* Two digits on a page, the first one pale and the page dark at one side. */
static void write_page(const char *path) {
  enum { PAGE = 400, ZOOM = 6 };
  static uint8_t level[PAGE * PAGE];
  for (int i = 0; i < PAGE * PAGE; i++) level[i] = (uint8_t)(250 - i % PAGE / 4);
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < ZOOM * ZOOM * DIGITS_PIXELS; i++) {
      const int x = i % (ZOOM * SIDE), y = i / (ZOOM * SIDE);
      uint8_t *at = &level[(y + 100) * PAGE + x + 20 + 190 * k];
      *at = (uint8_t)(*at * (255 - digits[k][y / ZOOM * SIDE + x / ZOOM] * (k ? 8 : 6) / 10) / 255);
    }
  assert_true(stbi_write_png(path, PAGE, PAGE, 1, level, PAGE));
}

TEST(digits_of_a_page_are_answered_one_by_one) {
  write_page("page.png");
  RUN_WELL(ASK, "--classify", "page.png");
  assert_int_equal(program_lines("^page.png  [0-9]+x[0-9]+[+][0-9]+[+][0-9]+ +[0-9] .*%"), 2);
  RUN_WELL(ASK, "--classify", "page.png", "--confidence", "1");
  assert_int_equal(program_lines("%  unsure$"), 2);
  RUN_WELL(ASK, "--classify", "page.png", "--confidence", "0");
  assert_int_equal(program_lines("unsure"), 0);
}

TEST(json_says_what_lines_say) {
  write_page("page.png");
  RUN(ASK, "--classify", "--json", "none.png", "page.png");
  program_failed(1, "cannot open none.png");
  json_t *bad = json_loads(program.out, JSON_DISABLE_EOF_CHECK, NULL);
  json_t *page = json_loads(strchr(program.out, '\n') + 1, 0, NULL);
  assert_string_equal(json_string_value(json_object_get(bad, "picture")), "none.png");
  assert_non_null(strstr(json_string_value(json_object_get(bad, "error")), "cannot open"));
  assert_string_equal(json_string_value(json_object_get(page, "picture")), "page.png");
  assert_int_equal(json_integer_value(json_object_get(page, "width")), 400);
  const json_t *list = json_object_get(page, "digits");
  assert_int_equal(json_array_size(list), 2);
  for (size_t i = 0; i < 2; i++) {
    const json_t *digit = json_array_get(list, i), *box = json_object_get(digit, "box");
    const json_t *all = json_object_get(digit, "probabilities");
    const size_t answer = (size_t)json_integer_value(json_object_get(digit, "answer"));
    double sum = 0;
    for (size_t c = 0; c < CLASSES; c++) sum += json_real_value(json_array_get(all, c));
    assert_true(fabs(sum - 1) < 1e-4);
    const double probability = json_number_value(json_array_get(all, answer));
    assert_int_equal(json_is_true(json_object_get(digit, "sure")), probability >= 0.5);
    assert_in_range(json_integer_value(json_array_get(box, 0)), 20 + 190 * i, 100 + 190 * i);
    assert_in_range(json_integer_value(json_array_get(box, 3)), 110, 130); /* 20 x 6 */
  }
  json_decref(bad);
  json_decref(page);
}

/* A line of standard error for each, in order. */
TEST(bad_pictures_stop_no_others) {
  write_page("page.png");
  RUN(ASK, "--classify", "none.png", "page.png", "train.csv");
  assert_int_equal(program.status, 1);
  assert_int_equal(program_lines("^page.png  "), 2);
  const char *first = strstr(program.error, "mlp-train: cannot open none.png");
  assert_ptr_equal(first, program.error);
  assert_non_null(strstr(first, "\nmlp-train: train.csv cannot be read as"));
}

TEST(what_the_network_saw_is_shown) {
  int width, height, channels;
  write_page("page.png");
  RUN_WELL(ASK, "--show", "seen.png", "--classify", "page.png");
  uint8_t *pixels = stbi_load("seen.png", &width, &height, &channels, 3);
  assert_non_null(pixels);
  assert_in_range(width, 600, 1200);
  assert_in_range(height, 500, 900);
  int blue = 0; /* of the boxes */
  for (int i = 0; i < width * height; i++)
    blue += pixels[3 * i] < 20 && pixels[3 * i + 1] > 100 && pixels[3 * i + 2] > 160;
  assert_true(blue > 500);
  stbi_image_free(pixels);
  RUN(ASK, "--show", "none/seen.png", "--classify", "page.png");
  program_failed(1, "none/seen.png");
  RUN(ASK, "--show", "page.png", "--classify", "page.png");
  assert_int_equal(program.status, 2);
  program_said("are the same file");
}

/* ---- pictures of the run ------------------------------------------------------------------ */

TEST(pictures_show_something) {
  static const char *const names[] = {"curves.png", "weights.png", "mistakes.png", "confusion.png"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    int width, height, channels;
    bool used[256] = {false};
    int colours = 0;
    uint8_t *pixels = stbi_load(names[i], &width, &height, &channels, 1);
    if (!pixels) fail_msg("%s: %s", names[i], stbi_failure_reason());
    assert_in_range(width, 300, 4000);
    assert_in_range(height, 300, 4000);
    for (int p = 0; p < width * height; p++) {
      colours += !used[pixels[p]];
      used[pixels[p]] = true;
    }
    assert_true(colours > 20);
    stbi_image_free(pixels);
  }
}

/* Training draws what evaluation draws of the network that was saved. */
TEST(pictures_can_be_drawn_later) {
  RUN_WELL(ASK, "--evaluate", "--test", "digits_test.csv", "--weights", "w.png", "--mistakes",
           "m.png", "--confusion", "c.png");
  program_same_files("w.png", "weights.png");
  program_same_files("m.png", "mistakes.png");
  program_same_files("c.png", "confusion.png");
}

typedef struct {
  uint8_t pixels[TEST_ROWS][DIGITS_PIXELS];
  Mistake list[TEST_ROWS];
  int count;
} Mistakes;

/* An PredictRow. */
static bool add_mistake(void *context, uint64_t row, const uint8_t *pixels, int label,
                        const float *logits, Error *error) {
  Mistakes *mistakes = context;
  double probabilities[CLASSES];
  const int answer = argmax(logits, CLASSES);
  (void)error;
  if (answer == label) return true;
  uint8_t *copy = mistakes->pixels[mistakes->count];
  memcpy(copy, pixels, DIGITS_PIXELS);
  softmax(logits, CLASSES, probabilities);
  mistakes->list[mistakes->count++] = (Mistake){copy, label, answer, probabilities[answer], row};
  return true;
}

static int more_confident(const void *a, const void *b) {
  const Mistake *first = a, *second = b;
  if (first->probability != second->probability)
    return first->probability > second->probability ? -1 : 1;
  return first->row < second->row ? -1 : 1;
}

/* All wrong answers of the network that was saved, the most confident first. */
static void find_mistakes(Mistakes *mistakes) {
  Error error;
  Checkpoint saved;
  Metrics scores;
  assert_true(checkpoint_load(&saved, "model.safetensors", &error));
  const EngineConfig config = {.network = saved.network,
                               .training = {.batch = 1, .threads = 1},
                               .dataset_rows = 2000,
                               .staging_rows = 1000};
  Engine *engine = engine_cpu_open(&config, &error);
  assert_non_null(engine);
  assert_true(engine->call->write(engine, saved.parameters, NULL, &error));
  checkpoint_free(&saved);
  DatasetReader *reader = predict_open(engine, "digits_test.csv", 1, &error);
  assert_non_null(reader);
  assert_true(metrics_open(&scores, CLASSES, &error));
  assert_true(predict_evaluate(engine, reader, &scores, add_mistake, mistakes, &error));
  metrics_close(&scores);
  dataset_close(reader);
  engine->call->close(engine);
  qsort(mistakes->list, (size_t)mistakes->count, sizeof *mistakes->list, more_confident);
}

TEST(the_most_confident_mistakes_are_shown) {
  enum { SHOWN = 64 };
  static Mistakes mistakes;
  Error error;
  find_mistakes(&mistakes);
  assert_in_range(mistakes.count, SHOWN + 1, TEST_ROWS);
  assert_true(plot_mistakes(mistakes.list, SHOWN, SIDE, "expected.png", &error));
  program_same_files("mistakes.png", "expected.png");
}

TEST(pictures_that_cannot_be_drawn) {
  RUN(ASK, "--evaluate", "--test", "digits_test.csv", "--confusion", "none/c.png");
  program_failed(1, "none/c.png");
  RUN(TINY, "--epochs", "1", "--mistakes", "m.png");
  program_failed(1, "--mistakes draws square pictures, but a row has 2 pixels");
  assert_string_equal(program.out, ""); /* and that is said before training */
}
