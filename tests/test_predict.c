/* A trained network: evaluation, predictions and pictures, on the CPU. */
#include "predict/evaluate.h"
#include "predict/pictures.h"
#include "predict/predict.h"
#include "support/pictures.h"

/* The buffers' rows divide nothing: the last buffer is short, and not the first of the ring. */
enum { ROWS = 500, SLOT = 64, CLASSES = 10 };

static const char labelled[] = "labelled.csv", output[] = "output.csv";
static Network network;
static float *trained; /* (network.floats) */

/* The rows that the network is asked about, and the right answers. */
static uint8_t pixels[ROWS][PIXELS];
static int labels[ROWS], answers[ROWS];
static float logits[ROWS][CLASSES];
static EngineSums sums;

/* ---- the network -------------------------------------------------------------------------- */

static void train_network(void) {
  OK(network_init(&network, PIXELS, (const int[]){48}, 1, CLASSES, &error));
  trained = allocate(network.floats, sizeof *trained);
  enum { TRAINED = 2400 };
  Engine *engine = open_digits_engine(&network, TRAINED, TRAINED);
  train_on_digits(engine, TRAINED, (const float[]){0.02f, 0.02f, 0.02f, 0.02f, 0.02f, 0.02f}, 6);
  OK(engine->call->read(engine, trained, 1, &error));
  engine->call->close(engine);
}

static Engine *open_trained(uint64_t dataset_rows, uint64_t staging_rows) {
  Engine *engine = open_digits_engine(&network, dataset_rows, staging_rows);
  OK(engine->call->write(engine, trained, 1, &error));
  return engine;
}

/* By the engine's evaluation of all rows at once. */
static void find_answers(void) {
  Engine *engine = open_trained(ROWS, ROWS);
  upload_digits(engine, DIGITS_TEST, ROWS);
  OK(engine_evaluate(engine, 0, ROWS, &error));
  OK(engine->call->collect(engine, &sums, &error));
  OK(engine->call->predict(engine, 0, ROWS, logits[0], &error));
  engine->call->close(engine);
  for (int r = 0; r < ROWS; r++)
    for (int c = 1; c < CLASSES; c++)
      if (logits[r][c] > logits[r][answers[r]]) answers[r] = c;
  assert_true(sums.correct > ROWS * 85 / 100 && sums.correct < ROWS);
}

static void write_csv(void) {
  FILE *file = folder_create(labelled);
  for (int r = 0; r < ROWS; r++) {
    fprintf(file, "%d", labels[r]);
    for (int i = 0; i < PIXELS; i++) fprintf(file, ",%d", pixels[r][i]);
    fputc('\n', file);
  }
  close_file(file);
}

static int prepare(void **state) {
  assert_int_equal(folder_enter(state), 0);
  for (int r = 0; r < ROWS; r++) labels[r] = digits_draw(1, DIGITS_TEST, (uint64_t)r, pixels[r]);
  train_network();
  find_answers();
  write_csv();
  return 0;
}

/* ---- evaluation --------------------------------------------------------------------------- */

static DatasetReader *open_reader(const Engine *engine) {
  const DatasetConfig rows = {.path = labelled, .inputs = PIXELS};
  DatasetReader *reader = predict_open(engine, rows, &error);
  OK(reader != NULL);
  return reader;
}

typedef struct {
  uint64_t rows, last; /* seen; to be seen */
  Metrics scores;
} Seen;

/* An PredictRow: a row is the file's, and its logits are those of all rows at once. */
static bool see(void *context, uint64_t row, const uint8_t *row_pixels, int label,
                const float *row_logits, Error *why) {
  Seen *seen = context;
  assert_int_equal(row, ++seen->rows);
  assert_memory_equal(row_pixels, pixels[row - 1], PIXELS);
  assert_int_equal(label, labels[row - 1]);
  assert_memory_equal(row_logits, logits[row - 1], sizeof *logits);
  metrics_add(&seen->scores, row_logits, label);
  return row < seen->last || error_set(why, "seen enough");
}

TESTS_WITH(prepare, folder_close);

TEST(test_same_as_the_engine) {
  static const uint64_t buffers[][2] = {{2 * SLOT, SLOT}, {ROWS, 4096}, {2, 1}};
  foreach (buffer, buffers) {
    Engine *engine = open_trained((*buffer)[0], (*buffer)[1]);
    DatasetReader *reader = open_reader(engine);
    Seen seen = {.last = ROWS + 1};
    Metrics *scores = &seen.scores;
    OK(metrics_open(scores, CLASSES, &error));
    OK(predict_rows(engine, reader, see, &seen, &error));
    assert_int_equal(seen.rows, ROWS);
    assert_int_equal(scores->correct, sums.correct);
    assert_true(fabs(scores->loss / sums.loss - 1) < 1e-6);
    uint64_t expected[CLASSES][CLASSES] = {{0}};
    for (int r = 0; r < ROWS; r++) expected[labels[r]][answers[r]]++;
    assert_memory_equal(scores->counts, expected, sizeof expected);
    metrics_close(scores);
    dataset_close(reader);
    engine->call->close(engine);
  }
}

static bool count_row(void *context, uint64_t row, const uint8_t *row_pixels, int label,
                      const float *row_logits, Error *why) {
  (void)row_pixels, (void)label, (void)row_logits, (void)why;
  *(uint64_t *)context = row;
  return true;
}

TEST(test_evaluation_may_be_stopped) {
  Engine *engine = open_trained(2 * SLOT, SLOT);
  DatasetReader *reader = open_reader(engine);
  Seen seen = {.last = SLOT + 3};
  uint64_t left = 0;
  OK(metrics_open(&seen.scores, CLASSES, &error));
  assert_false(predict_rows(engine, reader, see, &seen, &error));
  assert_string_equal(error.text, "seen enough");
  assert_int_equal(seen.rows, SLOT + 3);
  OK(predict_rows(engine, reader, count_row, &left, &error));
  assert_true(left > 0 && seen.rows + left < ROWS);
  metrics_close(&seen.scores);
  dataset_close(reader);
  engine->call->close(engine);
}

TEST(test_pages_that_no_browser_reads) {
  static const EvaluateConfig page = {.html = "p.html", .mistakes = "", .weights = ""};
  Engine engine = {0};
  OK(network_init(&engine.config.network, PIXELS, (const int[]){9700, 9700}, 2, CLASSES, &error));
  FAILS(evaluate_can(&engine, &page, &error),
        "a page of --html holds up to 100000000 parameters, but the network has 101811210");
}

/* ---- prediction --------------------------------------------------------------------------- */

/* tests/scenarios/predict.sh has rows without labels, and files that are replaced. */
static bool predict(void) {
  Engine *engine = open_trained(2 * SLOT, SLOT);
  DatasetReader *reader = open_reader(engine);
  const bool good =
      predict_to_file(engine, reader, &(PredictFormat){output, true, false, NULL}, &error);
  dataset_close(reader);
  engine->call->close(engine);
  return good;
}

/* Half of float32's range in each weight of layers.1: whatever the row, its sums overflow. */
TEST(test_logits_that_overflow) {
  const size_t size = network.floats * sizeof *trained;
  float *copy = memcpy(allocate(size, 1), trained, size);
  for (int i = 0; i < network.size[1] * network.size[2]; i++)
    trained[network.weight[1] + (size_t)i] = 1e38f;
  FAILS(predict(), "row 1: the output of layers.1 is not a finite number: the weights are too "
                   "large");
  memcpy(trained, copy, size);
}

TEST(test_probabilities) {
  static const char heading[] = "ImageId,Label,P0,P1,P2,P3,P4,P5,P6,P7,P8,P9\n";
  OK(predict());
  char *at = folder_read(output);
  assert_memory_equal(at, heading, strlen(heading));
  at += strlen(heading);
  for (int r = 0; r < ROWS; r++) {
    assert_int_equal(strtol(at, &at, 10), r + 1);
    assert_int_equal(strtol(at + 1, &at, 10), answers[r]);
    double expected[CLASSES];
    softmax(logits[r], CLASSES, expected);
    for (int c = 0; c < CLASSES; c++) {
      assert_int_equal(*at, ',');
      assert_true(fabs(strtod(at + 1, &at) / expected[c] - 1) < 1e-5);
    }
    assert_int_equal(*at++, '\n');
  }
  assert_string_equal(at, "");
}

/* ---- pictures ----------------------------------------------------------------------------- */

/* A row as a PNG: dark blue on yellowish paper, three times as large. */
static void write_picture(const char *path, const uint8_t *row) {
  Grey g = new_grey(3 * SIDE, 3 * SIDE, 0);
  for (int i = 0; i < 9 * PIXELS; i++) g.level[i] = row[i / g.width / 3 * SIDE + i % g.width / 3];
  write_coloured(path, &g, (Colours){{250, 244, 210}, {20, 30, 140}});
}

enum { PICTURES = 200 };

/* Files of pictures, and what the network answers to the rows that they show: digits that fill
   their box as MNIST's do, which those of digits.h do nearly. */
static void write_pictures(Engine *engine, char **names, int *expected) {
  float row_logits[PICTURES][CLASSES];
  StagingBuffer staging;
  OK(engine->call->staging(engine, 0, &staging, &error));
  for (int i = 0; i < PICTURES; i++) {
    uint8_t *row = staging.pixels + (size_t)i * staging.stride;
    names[i] = text_printf("%d.png", i);
    write_picture(names[i], pixels[i]);
    OK(read_picture(names[i], SIDE, row, &error));
    write_picture(names[i], row);
    staging.labels[i] = 0;
  }
  OK(engine->call->upload(engine, 0, 0, PICTURES, &error));
  OK(engine->call->predict(engine, 0, PICTURES, row_logits[0], &error));
  for (int i = 0; i < PICTURES; i++) expected[i] = argmax(row_logits[i], CLASSES);
}

static bool ask(Engine *engine, char *const *paths, int count, FILE *file) {
  const Pictures pictures = {
      .paths = paths, .count = count, .confidence = 0.5, .show = "", .file = file};
  return predict_pictures(engine, &pictures, &error);
}

/* Pictures of rows get the rows' answers, 97 of 100 or more. */
TEST(test_pictures_are_answered_as_rows) {
  char *names[PICTURES];
  int expected[PICTURES], same = 0, right = 0;
  Engine *engine = open_trained(PICTURES, PICTURES);
  write_pictures(engine, names, expected);
  FILE *file = text_open();
  OK(ask(engine, names, PICTURES, file));
  const char *line = text_close(file);
  for (int i = 0; i < PICTURES; i++) {
    const size_t length = strlen(names[i]);
    assert_memory_equal(line, names[i], length);
    const int answer = atoi(line + length);
    same += answer == expected[i];
    right += answer == labels[i];
    line = strchr(line, '\n') + 1;
    remove(names[i]);
  }
  assert_string_equal(line, "");
  if (same * 100 < PICTURES * 97 || right * 100 < PICTURES * 85)
    fail_msg("of %d pictures %d were answered as rows, %d right", PICTURES, same, right);
  engine->call->close(engine);
}

/* A network whose logits are its biases: what it says of any picture is known. */
static Engine *open_biased(int inputs, int classes, const float *biases) {
  Network biased;
  OK(network_init(&biased, inputs, NULL, 0, classes, &error));
  Engine *engine = open_digits_engine(&biased, 2, 1);
  float *parameters = allocate(biased.floats, sizeof *parameters);
  memcpy(parameters + biased.bias[0], biases, (size_t)classes * sizeof *biases);
  OK(engine->call->write(engine, parameters, 1, &error));
  return engine;
}

static void assert_classified(Engine *engine, char *const *paths, int count, const char *expected) {
  FILE *file = text_open();
  OK(ask(engine, paths, count, file));
  assert_string_equal(text_close(file), expected);
}

TEST(test_lines) {
  char first[] = "a.png", second[] = "longer.png", *paths[] = {first, second};
  write_picture(first, pixels[0]);
  write_picture(second, pixels[1]);
  float biases[12] = {0};
  biases[11] = logf(80), biases[3] = logf(9.5f); /* 80 + 9.5 + 10 = 99.5 */
  Engine *engine = open_biased(PIXELS, 12, biases);
  assert_classified(engine, paths, 2,
                    "a.png       11  80.40%   3   9.55%   0   1.01%\n"
                    "longer.png  11  80.40%   3   9.55%   0   1.01%\n");
  engine->call->close(engine);
  biases[0] = 40, biases[1] = 0; /* two classes, and a smaller picture */
  engine = open_biased(100, 2, biases);
  assert_classified(engine, paths, 1, "a.png  0 100.00%  1   0.00%\n");
  assert_classified(engine, paths, 0, "");
  engine->call->close(engine);
  remove(first), remove(second);
}

TEST(test_refused_pictures) {
  const float biases[2] = {0};
  char file_name[] = "a.png", *name = file_name;
  write_picture(name, pixels[0]);
  Engine *engine = open_biased(PIXELS, 2, biases);
  FILE *file = fopen("/dev/full", "w");
  assert_false(ask(engine, &name, 1, file));
  fclose(file);
  assert_non_null(strstr(error.text, "No space left"));
  engine->call->close(engine);
  engine = open_biased(8, 2, biases);
  assert_false(ask(engine, &name, 1, stdout));
  assert_string_equal(error.text, "the network takes 8 pixels, which do not make a square picture");
  engine->call->close(engine);
  remove(name);
}
