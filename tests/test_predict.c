/* Answers of a trained network to pictures. tests/scenarios/predict.sh asks about rows. */
#include "predict/evaluate.h"
#include "predict/pictures.h"
#include "support/pictures.h"

enum { PICTURES = 200, CLASSES = 10 };

/* Rows that pictures are drawn of, and the right answers. */
static uint8_t pixels[PICTURES][PIXELS];
static int labels[PICTURES];

static Engine *open_trained(void) {
  enum { TRAINED = 2400 };
  Network network;
  OK(network_init(&network, PIXELS, (const int[]){48}, 1, CLASSES, &error));
  Engine *engine = open_digits_engine(&network, TRAINED, TRAINED);
  train_on_digits(engine, TRAINED, (const float[]){0.02f, 0.02f, 0.02f, 0.02f, 0.02f, 0.02f}, 6);
  return engine;
}

static int prepare(void **state) {
  assert_int_equal(folder_enter(state), 0);
  for (int r = 0; r < PICTURES; r++)
    labels[r] = digits_draw(1, DIGITS_TEST, (uint64_t)r, pixels[r]);
  return 0;
}

TESTS_WITH(prepare, folder_close);

TEST(test_pages_that_no_browser_reads) {
  static const EvaluateConfig page = {.html = "p.html", .mistakes = "", .weights = ""};
  Engine engine = {0};
  OK(network_init(&engine.config.network, PIXELS, (const int[]){9700, 9700}, 2, CLASSES, &error));
  FAILS(evaluate_can(&engine, &page, &error),
        "a page of --html holds up to 100000000 parameters, but the network has 101811210");
}

/* ---- pictures ----------------------------------------------------------------------------- */

/* A row as a PNG: dark blue on yellowish paper, three times as large. */
static void write_picture(const char *path, const uint8_t *row) {
  Grey g = new_grey(3 * SIDE, 3 * SIDE, 0);
  for (int i = 0; i < 9 * PIXELS; i++) g.level[i] = row[i / g.width / 3 * SIDE + i % g.width / 3];
  write_coloured(path, &g, (Colours){{250, 244, 210}, {20, 30, 140}});
}

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

/* Pictures of rows get the rows' answers, 97 of 100 or more. */
TEST(test_pictures_are_answered_as_rows) {
  char *names[PICTURES];
  int expected[PICTURES], same = 0, right = 0;
  Engine *engine = open_trained();
  write_pictures(engine, names, expected);
  FILE *file = text_open();
  const Pictures pictures = {
      .paths = names, .count = PICTURES, .confidence = 0.5, .show = "", .file = file};
  OK(predict_pictures(engine, &pictures, &error));
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
