/* Digits in photographs, found, ordered and answered, whatever they are written on. The network is
   trained here on drawn digits. With NETWORK=FILE and DIGITS=FILE, a saved network and a CSV file
   of labelled rows, it answers PICTURES=N pictures of each ground made of those instead, and prints
   how many digits were right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "data/digits.h"
#include "data/photograph.h"
#include "engine/engine_cpu.h"
#include "model/checkpoint.h"
#include "model/metrics.h"
#include "support/test.h"
#include "support/photographs.h"

enum { SIDE = DIGITS_SIDE, PIXELS = DIGITS_PIXELS, CLASSES = 10 };
enum { WIDTH = PHOTOGRAPH_WIDTH, HEIGHT = PHOTOGRAPH_HEIGHT };

static Engine *engine;
static FILE *rows; /* of DIGITS; NULL: digits are drawn */

/* ---- the network -------------------------------------------------------------------------- */

enum { TRAINED = 12000, EPOCHS = 6, BATCH = 32 };

static void open_engine(const Network *network) {
  const EngineConfig config = {
      .network = *network,
      .training = {.batch = BATCH, .seed = 1, .rule.momentum = 0.9f, .threads = 2},
      .dataset_rows = TRAINED,
      .staging_rows = TRAINED};
  engine = engine_cpu_open(&config, &error);
  OK(engine != NULL);
}

static void train_network(void) {
  Network network;
  OK(network_init(&network, PIXELS, (const int[]){100}, 1, CLASSES, &error));
  open_engine(&network);
  StagingBuffer staging;
  OK(engine->call->staging(engine, 0, &staging, &error));
  for (uint64_t r = 0; r < TRAINED; r++)
    staging.labels[r] =
        (uint16_t)digits_draw(1, DIGITS_TRAIN, r, staging.pixels + r * staging.stride);
  OK(engine->call->upload(engine, 0, 0, TRAINED, &error));
  for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
    const TrainRange range = {.rows = TRAINED,
                              .shuffled = true,
                              .key = random_order_key(1, epoch),
                              .steps = TRAINED / BATCH,
                              .learning_rate = epoch < 4 ? 0.05f : 0.01f};
    OK(engine->call->train(engine, &range, &error));
  }
}

static void load_network(const char *path) {
  Checkpoint saved;
  OK(checkpoint_load(&saved, path, &error));
  open_engine(&saved.network);
  OK(engine->call->write(engine, saved.parameters, 1, &error));
  checkpoint_free(&saved);
}

static int answer_to(const uint8_t *pixels) {
  float logits[CLASSES];
  StagingBuffer staging;
  OK(engine->call->staging(engine, 0, &staging, &error));
  memcpy(staging.pixels, pixels, PIXELS);
  OK(engine->call->upload(engine, 0, 0, 1, &error));
  OK(engine->call->predict(engine, 0, 1, logits, &error));
  return argmax(logits, CLASSES);
}

static int prepare(void **state) {
  (void)state;
  const char *network = getenv("NETWORK"), *digits = getenv("DIGITS");
  if (network)
    load_network(network);
  else
    train_network();
  if (digits) {
    rows = fopen(digits, "r");
    assert_non_null(rows);
  }
  return 0;
}

static int clean_up(void **state) {
  (void)state;
  engine->call->close(engine);
  if (rows) fclose(rows);
  return 0;
}

/* ---- pictures ----------------------------------------------------------------------------- */

typedef struct {
  Image image;
  int labels[PHOTOGRAPH_DIGITS], count;
} Scene;

static int next_digit(uint8_t *pixels) {
  static uint64_t drawn;
  int label;
  if (!rows) return digits_draw(1, DIGITS_TEST, drawn++, pixels);
  assert_int_equal(fscanf(rows, "%d", &label), 1);
  for (int i = 0; i < PIXELS; i++) {
    int level;
    assert_int_equal(fscanf(rows, ",%d", &level), 1);
    pixels[i] = (uint8_t)level;
  }
  return label;
}

/* Draws picture `number` of a ground, with `count` digits. */
static Scene draw(Ground ground, uint64_t number, int count, float tilt) {
  static uint8_t level[WIDTH * HEIGHT], pixels[PHOTOGRAPH_DIGITS][PIXELS];
  const uint8_t *digits[PHOTOGRAPH_DIGITS];
  Scene scene = {.count = count};
  for (int i = 0; i < count; i++) {
    digits[i] = pixels[i];
    scene.labels[i] = next_digit(pixels[i]);
  }
  photograph_draw(ground, number, digits, count, tilt, level);
  scene.image = (Image){.width = WIDTH,
                        .height = HEIGHT,
                        .level = level,
                        .shrunk = 1,
                        .file_width = WIDTH,
                        .file_height = HEIGHT};
  return scene;
}

/* Counts digits that were found in their place and answered right. */
static int count_right(const Scene *scene) {
  Photograph found;
  int right = 0;
  if (!photograph_find(&scene->image, "it", SIDE, &found, &error)) return 0;
  for (int i = 0; found.count == scene->count && i < found.count; i++)
    right += answer_to(found.pixels + (size_t)i * PIXELS) == scene->labels[i];
  photograph_free(&found);
  return right;
}

static void answer_pictures(int pictures, int digits, int wanted_percent) {
  for (Ground ground = 0; ground < GROUNDS; ground++) {
    int right = 0;
    for (int i = 0; i < pictures; i++) {
      const Scene scene = draw(ground, (uint64_t)i, digits, 0);
      right += count_right(&scene);
    }
    if (rows) print_message("%-8s %d of %d\n", ground_names[ground], right, pictures * digits);
    if (!rows && right * 100 < wanted_percent * pictures * digits)
      fail_msg("%s: %d of %d digits are right", ground_names[ground], right, pictures * digits);
  }
}

static int pictures_wanted(int otherwise) {
  const char *pictures = getenv("PICTURES");
  return rows && pictures ? atoi(pictures) : otherwise;
}

TESTS_WITH(prepare, clean_up);

TEST(one_digit_on_every_ground) {
  answer_pictures(pictures_wanted(10), 1, 90);
}

TEST(several_digits_on_every_ground) {
  answer_pictures(pictures_wanted(12) / 6, 6, 90);
}

/* Two lines of digits, on a page turned by 20 degrees either way. */
TEST(lines_tilt) {
  if (rows) skip();
  int right = 0;
  for (int tilt = -20; tilt <= 20; tilt += 4) {
    const Scene scene = draw(GROUND_PLAIN, (uint64_t)(50 + tilt), 6, (float)tilt);
    right += count_right(&scene);
  }
  if (right < 63) fail_msg("%d of 66 digits are right and in order", right);
}

/* Boxes hold the ink of the plain picture and little else. */
TEST(boxes_are_around_the_ink) {
  if (rows) skip();
  for (uint64_t number = 0; number < 4; number++) {
    const Scene scene = draw(GROUND_PLAIN, number, 1, 0);
    Photograph found;
    OK(photograph_find(&scene.image, "it", SIDE, &found, &error));
    assert_int_equal(found.count, 1);
    const PhotographBox box = found.box[0];
    int left = WIDTH, right = 0, top = HEIGHT, bottom = 0;
    for (int y = 0; y < HEIGHT; y++)
      for (int x = 0; x < WIDTH; x++) {
        if (scene.image.level[y * WIDTH + x] > 120) continue;
        left = x < left ? x : left, right = x + 1 > right ? x + 1 : right;
        top = y < top ? y : top, bottom = y + 1 > bottom ? y + 1 : bottom;
      }
    assert_in_range(left - box.left, 0, 20);
    assert_in_range(top - box.top, 0, 20);
    assert_in_range(box.left + box.width - right, 0, 20);
    assert_in_range(box.top + box.height - bottom, 0, 20);
    photograph_free(&found);
  }
}

/* ---- parts and neighbours ----------------------------------------------------------------- */

typedef struct {
  int left, top, width, height;
} Bar;

enum { BARS = 6 };

/* Compares the boxes that are found of black bars on white paper, written as text; "?" follows a
   doubtful one. */
static void assert_boxes(const Bar *bars, const char *expected) {
  static uint8_t level[WIDTH * HEIGHT];
  memset(level, 255, sizeof level);
  for (int i = 0; i < BARS; i++)
    for (int y = 0; y < bars[i].height; y++)
      memset(level + (bars[i].top + y) * WIDTH + bars[i].left, 0, (size_t)bars[i].width);
  const Image image = {WIDTH, HEIGHT, level, 1, WIDTH, HEIGHT};
  Photograph found;
  char text[512] = "";
  if (photograph_find(&image, "it", SIDE, &found, &error)) {
    for (int i = 0; i < found.count; i++)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%dx%d+%d+%d%s", i ? " " : "",
               found.box[i].width, found.box[i].height, found.box[i].left, found.box[i].top,
               found.doubtful[i] ? "?" : "");
    photograph_free(&found);
  } else {
    snprintf(text, sizeof text, "%.500s", error.text);
  }
  assert_string_equal(text, expected);
}

TEST(pieces_become_digits) {
  static const struct {
    Bar bars[BARS];
    const char *boxes;
  } cases[] = {
      /* a roof, a dot of dust */
      {{{200, 200, 20, 120}, {200, 180, 60, 12}, {400, 300, 4, 4}}, "60x140+200+180"},
      /* a digit above another */
      {{{200, 100, 20, 100}, {200, 230, 20, 100}}, "20x100+200+100 20x100+200+230"},
      /* two lines, the first one slanted */
      {{{300, 60, 20, 100}, {100, 90, 20, 100}, {400, 250, 20, 100}, {120, 240, 20, 100}},
       "20x100+100+90 20x100+300+60 20x100+120+240 20x100+400+250"},
      /* cut off by the picture's edge, beside a whole one */
      {{{0, 100, 15, 100}, {300, 100, 15, 100}}, "15x100+300+100"},
      /* alone there */
      {{{0, 100, 15, 100}}, "15x100+0+100"},
      /* an underline */
      {{{200, 100, 20, 100}, {260, 100, 20, 100}, {150, 260, 200, 6}},
       "20x100+200+100 20x100+260+100"},
      /* a desk along an edge */
      {{{0, 0, 640, 60}, {200, 100, 20, 100}}, "20x100+200+100"},
      /* above each other, if they share half of the width: a narrow gap joins, 1 in 12 at most */
      {{{200, 100, 20, 100}, {210, 208, 20, 100}}, "30x208+200+100"},
      {{{200, 100, 20, 100}, {210, 209, 20, 100}}, "20x100+200+100 20x100+210+209"},
      /* and a wide one, 1 in 5 at most, if one of them is less than half as high */
      {{{200, 100, 20, 100}, {200, 220, 20, 49}}, "20x169+200+100"},
      {{{200, 100, 20, 100}, {200, 221, 20, 49}}, "20x100+200+100 20x49+200+221"},
      {{{200, 100, 20, 100}, {200, 220, 20, 50}}, "20x100+200+100 20x50+200+220"},
      /* beside each other: a part, of less than two thirds of the height */
      {{{200, 100, 20, 100}, {228, 110, 20, 66}}, "48x100+200+100"},
      {{{200, 100, 20, 100}, {229, 110, 20, 66}}, "20x100+200+100 20x66+229+110"},
      {{{200, 100, 20, 100}, {228, 110, 20, 67}}, "20x100+200+100 20x67+228+110"},
      /* too small: two fifths of the largest are a digit */
      {{{200, 100, 20, 100}, {300, 100, 20, 40}}, "20x100+200+100 20x40+300+100"},
      {{{200, 100, 20, 100}, {300, 100, 20, 39}}, "20x100+200+100"},
      /* doubtful: as wide as two digits that touch, or as thin as the edge of a page */
      {{{200, 100, 125, 100}}, "125x100+200+100"},
      {{{200, 100, 126, 100}}, "126x100+200+100?"},
      {{{200, 100, 5, 125}}, "5x125+200+100"},
      {{{200, 100, 5, 126}}, "5x126+200+100?"},
  };
  if (rows) skip();
  foreach (row, cases) assert_boxes(row->bars, row->boxes);
}
