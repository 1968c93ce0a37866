/* Digits in photographs: found, ordered and answered, whatever they are written on. The network is
   trained here on drawn digits. With NETWORK=FILE and DIGITS=FILE, a saved network and a CSV file
   of labelled rows, it answers PICTURES=N digits of each ground, made of those instead, and prints
   how many were right. */
#include "base/random.h"
#include "engine/engine_cpu.h"
#include "model/checkpoint.h"
#include "predict/evaluate.h"
#include "predict/pictures.h"
#include "support/pictures.h"

enum { CLASSES = 10, WIDTH = 640, HEIGHT = 480, MOST_DIGITS = 8 };

/* ---- pictures as a telephone takes them ----------------------------------------------------- */

typedef enum {
  GROUND_PLAIN,
  GROUND_FALLOFF, /* the light falls by 30 to 65% to one side or the corners */
  GROUND_SHADOW,  /* with a soft edge across the digits */
  GROUND_DESK,    /* dark or light, at one side of the page */
  GROUND_BOARD,   /* chalk on a blackboard, unevenly lit */
  GROUNDS
} Ground;

static const char *const ground_names[GROUNDS] = {"plain", "falloff", "shadow", "desk", "board"};

/* A page, its light, what is printed on it, and the desk beside it. */
typedef struct {
  Ground ground;
  uint64_t number; /* of the picture, which decides light, pen, places and noise */
  uint8_t digits[MOST_DIGITS][PIXELS];
  int count;  /* 1 to MOST_DIGITS, side by side in up to two lines */
  float tilt; /* of the page, in degrees clockwise */
} Page;

typedef struct {
  uint64_t stream, counter;
} Dice;

static float between(Dice *dice, float low, float high) {
  return low + (high - low) * random_unit(random_words(17, dice->stream, dice->counter++).word[0]);
}

/* Returns a nearly normal number of standard deviation 1. */
static float grain(uint64_t number, uint64_t pixel) {
  const RandomWords words = random_words(18, number, pixel);
  float sum = -2;
  for (int i = 0; i < 4; i++) sum += random_unit(words.word[i]);
  return 1.7320508f * sum;
}

static float within_1(float value) {
  return fminf(1, fmaxf(0, value));
}

/* The place and size of a digit's page. */
typedef struct {
  const uint8_t *pixels;
  float left, top, zoom;
} Placed;

static float pixel(const uint8_t *pixels, int x, int y) {
  return x < 0 || y < 0 || x >= SIDE || y >= SIDE ? 0 : (float)pixels[y * SIDE + x] / 255;
}

/* Interpolates between the pixels around (x, y). */
static float ink_at(const Placed *placed, float x, float y) {
  const float u = (x - placed->left) / placed->zoom - 0.5f;
  const float v = (y - placed->top) / placed->zoom - 0.5f;
  if (u < -1 || v < -1 || u > SIDE || v > SIDE) return 0;
  const int i = (int)(u + 1) - 1, j = (int)(v + 1) - 1;
  const float fx = u - (float)i, fy = v - (float)j;
  const uint8_t *p = placed->pixels;
  return (1 - fy) * ((1 - fx) * pixel(p, i, j) + fx * pixel(p, i + 1, j)) +
         fy * ((1 - fx) * pixel(p, i, j + 1) + fx * pixel(p, i + 1, j + 1));
}

/* Places a digit somewhere in each cell of one or two lines in the middle of the picture. */
static void place(Dice *dice, const Page *page, Placed *placed) {
  const int lines = page->count > 4 ? 2 : 1, columns = (page->count + lines - 1) / lines;
  const float cell_width = 0.6f * WIDTH / (float)columns,
              cell_height = 0.6f * HEIGHT / (float)lines;
  const float most = fminf(cell_width / 22, cell_height / 22); /* so that digits do not touch */
  for (int i = 0; i < page->count; i++) {
    const int row = i / columns;
    const float zoom = most * between(dice, 0.75f, 0.95f);
    const float x = 0.2f * WIDTH + ((float)(i % columns) + 0.5f) * cell_width;
    const float y = 0.2f * HEIGHT + ((float)row + 0.5f) * cell_height;
    placed[i] = (Placed){page->digits[i], x - 0.5f * SIDE * zoom, y - 0.5f * SIDE * zoom, zoom};
  }
}

/* Draws a page into `level` (HEIGHT, WIDTH): a function of its arguments, the same on every
   machine. Beyond an edge, from top to bottom, lies a shadow on what is there or the desk. */
static void draw_page(const Page *page, uint8_t *level) {
  const Ground ground = page->ground;
  const bool uneven = ground == GROUND_FALLOFF || ground == GROUND_BOARD,
             desk = ground == GROUND_DESK;
  const float angle = page->tilt * 0.017453293f, sine = sinf(angle), cosine = cosf(angle);
  Dice dice = {(uint64_t)ground, page->number << 16};
  const float paper = between(&dice, 0.7f, 0.95f), pen = between(&dice, 0.55f, 0.9f),
              falloff = uneven ? between(&dice, 0.3f, 0.65f) : between(&dice, 0, 0.1f),
              centre_x = between(&dice, 0, WIDTH), centre_y = between(&dice, 0, HEIGHT),
              edge = WIDTH * (desk ? between(&dice, 0.8f, 0.92f) : between(&dice, 0.35f, 0.65f)),
              slope = between(&dice, -1, 1) * (desk ? 0.05f : 1),
              soft = desk ? 1 : between(&dice, 3, 25),
              dark = desk ? between(&dice, 0.08f, 0.5f) : between(&dice, 0.4f, 0.65f),
              noise = between(&dice, 1, 3.5f);
  Placed placed[MOST_DIGITS];
  place(&dice, page, placed);
  EACH_PIXEL(x, y, WIDTH, HEIGHT) {
    const float px = (float)x + 0.5f, py = (float)y + 0.5f;
    const float dx = px - WIDTH / 2.0f, dy = py - HEIGHT / 2.0f; /* from what turns */
    const float u = WIDTH / 2.0f + cosine * dx + sine * dy,      /* on the page */
        v = HEIGHT / 2.0f + cosine * dy - sine * dx;
    const float beyond = within_1((px + slope * dy - edge) / soft + 0.5f);
    float ink = 0, share = ground == GROUND_BOARD ? 0.18f : paper; /* of the light given back */
    float light = 1 - falloff * within_1(hypotf(px - centre_x, py - centre_y) / WIDTH);
    for (int i = 0; i < page->count; i++) ink = fmaxf(ink, pen * ink_at(&placed[i], u, v));
    if (desk) share += beyond * (dark - share);
    if (ground == GROUND_SHADOW) light *= 1 - (1 - dark) * beyond;
    share += ground == GROUND_BOARD ? ink * (0.9f - share) : -ink * share;
    const int i = y * WIDTH + x;
    const float value =
        255 * share * light + noise * grain(page->number * GROUNDS + ground, (uint64_t)i);
    level[i] = (uint8_t)fminf(255, fmaxf(0, value + 0.5f));
  }
}

static Engine *engine;
static FILE *rows; /* of DIGITS; NULL: digits are drawn */

enum { TRAINED = 24000, BATCH = 32 };

static void train(void) {
  static const float rates[] = {0.05f, 0.05f, 0.05f, 0.05f, 0.01f};
  StagingBuffer staging;
  OK(engine->call->staging(engine, 0, &staging, &error));
  for (uint64_t r = 0; r < TRAINED; r++)
    staging.labels[r] =
        (uint16_t)digits_draw(1, DIGITS_TRAIN, r, staging.pixels + r * staging.stride);
  OK(engine->call->upload(engine, 0, 0, TRAINED, &error));
  for (uint64_t epoch = 0; epoch < LENGTH(rates); epoch++) {
    const TrainRange range = {.rows = TRAINED,
                              .shuffled = true,
                              .key = random_order_key(1, epoch),
                              .steps = TRAINED / BATCH,
                              .learning_rate = rates[epoch]};
    OK(engine->call->train(engine, &range, &error));
  }
}

static int prepare(void **state) {
  const char *network = getenv("NETWORK"), *digits = getenv("DIGITS");
  Checkpoint saved = {0};
  EngineConfig config = {
      .training = {.batch = BATCH, .seed = 1, .rule.momentum = 0.9f, .threads = 2},
      .dataset_rows = TRAINED,
      .staging_rows = TRAINED};
  if (network) {
    OK(checkpoint_load(&saved, network, &error));
    config.network = saved.network;
  } else {
    OK(network_init(&config.network, PIXELS, (const int[]){100}, 1, CLASSES, &error));
  }
  engine = engine_cpu_open(&config, &error);
  OK(engine != NULL);
  if (network)
    OK(engine->call->write(engine, saved.parameters, 1, &error));
  else
    train();
  checkpoint_free(&saved);
  if (digits) {
    rows = fopen(digits, "r");
    assert_non_null(rows);
  }
  return folder_enter(state);
}

static int clean_up(void **state) {
  engine->call->close(engine);
  if (rows) fclose(rows);
  return folder_close(state);
}

TESTS_WITH(prepare, clean_up);

/* ---- photographs -------------------------------------------------------------------------- */

static struct {
  uint8_t level[WIDTH * HEIGHT];
  char text[2 * MOST_DIGITS]; /* as it should be read, with a space between lines */
} drawn;                      /* as it was drawn last */

static int next_digit(uint8_t *pixels) {
  static uint64_t row;
  int label;
  if (!rows) return digits_draw(1, DIGITS_TEST, row++, pixels);
  assert_int_equal(fscanf(rows, "%d", &label), 1);
  for (int i = 0; i < PIXELS; i++) {
    int level;
    assert_int_equal(fscanf(rows, ",%d", &level), 1);
    pixels[i] = (uint8_t)level;
  }
  return label;
}

/* Draws picture `number` of a ground, with `count` digits. */
static void draw(Ground ground, uint64_t number, int count, float tilt) {
  Page page = {ground, number, .count = count, .tilt = tilt};
  char *text = drawn.text;
  for (int i = 0; i < count; i++) {
    if (count > 4 && i == (count + 1) / 2) *text++ = ' ';
    *text++ = (char)('0' + next_digit(page.digits[i]));
  }
  *text = '\0';
  draw_page(&page, drawn.level);
}

/* Answers the picture as --classify does: '?' for what is unsure, a space between lines. */
static void read_lines(double confidence, char *text) {
  char path[] = "picture.pgm";
  FILE *file = folder_create(path);
  fprintf(file, "P5 %d %d 255 ", WIDTH, HEIGHT);
  fwrite(drawn.level, 1, sizeof drawn.level, file);
  close_file(file);
  file = text_open();
  const Pictures pictures = {.paths = (char *[]){path},
                             .count = 1,
                             .confidence = confidence,
                             .json = true,
                             .show = "",
                             .file = file};
  OK(predict_pictures(engine, &pictures, &error));
  const char *json = text_close(file);
  for (const char *at = strstr(json, "\"rows\":") + strlen("\"rows\":"); *at; at++)
    if (strchr("0123456789?", *at) || (*at == ' ' && at[-1] == ',')) *text++ = *at;
  *text = '\0';
}

typedef struct {
  int all, right; /* things; those that are read so, in their order */
  int answered;   /* as a digit */
} Count;

static void add_answers(double confidence, Count *sum) {
  char text[2 * PHOTOGRAPH_MOST];
  int common[2 * PHOTOGRAPH_MOST] = {0}; /* things in order of the truth so far and text so far */
  read_lines(confidence, text);
  const int length = (int)strlen(text);
  for (const char *truth = drawn.text; *truth; truth++) {
    sum->all += *truth != ' ';
    for (int i = 0, above_left = 0; i < length; i++) {
      const int above = common[i + 1];
      common[i + 1] =
          max_int(max_int(above, common[i]), above_left + (text[i] == *truth && *truth != ' '));
      above_left = above;
    }
  }
  sum->right += common[length];
  for (int i = 0; i < length; i++) sum->answered += text[i] >= '0' && text[i] <= '9';
}

/* One digit, several in two lines, and pages that are tilted by up to 10 degrees either way. */
TEST(pages_of_every_ground) {
  static const struct {
    const char *name;
    int things, pages; /* on a page; of a ground */
    bool tilted;
    double confidence;
    int least_right, least_of_a_ground; /* percent */
  } cases[] = {
      {"one digit", 1, 10, false, 0, 90, 80},
      {"six digits", 6, 2, false, 0, 90, 80},
      {"tilted digits", 8, 5, true, 0, 95, 85},
      {"sure digits", 8, 2, true, 0.9, 85, 65},
  };
  const char *wanted = getenv("PICTURES");
  bool good = true;
  foreach (row, cases) {
    Count sum = {0};
    for (Ground ground = 0; ground < GROUNDS; ground++) {
      const Count before = sum;
      for (int i = 0; i < (rows && wanted ? atoi(wanted) / row->things : row->pages); i++) {
        const int tilt = (7 * i + 3 * (int)ground) % 11 * (i % 2 ? -1 : 1);
        draw(ground, (uint64_t)i, row->things, row->tilted ? (float)tilt : 0);
        add_answers(row->confidence, &sum);
      }
      const int all = sum.all - before.all, right = sum.right - before.right;
      if (rows) print_message("%s, %s: %d of %d\n", row->name, ground_names[ground], right, all);
      good = good && 100 * right >= row->least_of_a_ground * all;
    }
    good = good && 100 * sum.right >= row->least_right * sum.all;
    if (rows || !good)
      print_message("%s: of %d, %d answered, %d right\n", row->name, sum.all, sum.answered,
                    sum.right);
  }
  assert_true(rows || good);
}

/* ---- parts and neighbours ----------------------------------------------------------------- */

typedef struct {
  int left, top, width, height;
} Bar;

enum { BARS = 6 };

/* The boxes that are found of black bars on white paper, as text. */
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
      {{{300, 70, 20, 100}, {100, 90, 20, 100}, {400, 250, 20, 100}, {120, 240, 20, 100}},
       "20x100+100+90 20x100+300+70 20x100+120+240 20x100+400+250"},
      /* lines that fall by 10 degrees: the first ends where the second begins */
      {{{60, 60, 20, 60},
        {220, 88, 20, 60},
        {380, 116, 20, 60},
        {60, 160, 20, 60},
        {220, 188, 20, 60},
        {540, 144, 20, 60}},
       "20x60+60+60 20x60+220+88 20x60+380+116 20x60+540+144 20x60+60+160 20x60+220+188"},
      /* likewise: the first line begins lower than the second */
      {{{560, 158, 20, 60}, {60, 150, 20, 60}, {220, 178, 20, 60}, {380, 206, 20, 60}},
       "20x60+560+158 20x60+60+150 20x60+220+178 20x60+380+206"},
      /* cut off by the picture's edge, beside a whole one, and alone there */
      {{{0, 100, 15, 100}, {300, 100, 15, 100}}, "15x100+300+100"},
      {{{0, 100, 15, 100}}, "15x100+0+100"},
      /* an underline */
      {{{200, 100, 20, 100}, {260, 100, 20, 100}, {150, 260, 200, 6}},
       "20x100+200+100 20x100+260+100"},
      /* a line as thin as the rest of an edge */
      {{{200, 100, 20, 100}, {300, 60, 4, 161}}, "20x100+200+100"},
      {{{200, 100, 20, 100}, {300, 60, 4, 160}}, "20x100+200+100 4x160+300+60"},
      /* a desk along an edge */
      {{{0, 0, 640, 60}, {200, 100, 20, 100}}, "20x100+200+100"},
      /* a part has less than two thirds of the height, and a gap of a twelfth of it */
      {{{200, 100, 20, 100}, {228, 110, 20, 66}}, "48x100+200+100"},
      {{{200, 100, 20, 100}, {229, 110, 20, 66}}, "20x100+200+100 20x66+229+110"},
      {{{200, 100, 20, 100}, {228, 110, 20, 67}}, "20x100+200+100 20x67+228+110"},
      {{{200, 100, 20, 100}, {200, 208, 20, 49}}, "20x157+200+100"},
      {{{200, 100, 20, 100}, {200, 209, 20, 49}}, "20x100+200+100 20x49+200+209"},
      /* two fifths of the largest are a digit */
      {{{200, 100, 20, 100}, {300, 100, 20, 40}}, "20x100+200+100 20x40+300+100"},
      {{{200, 100, 20, 100}, {300, 100, 20, 39}}, "20x100+200+100"},
  };
  if (rows) skip();
  foreach (row, cases) {
    const Grey page = new_grey(WIDTH, HEIGHT, 255);
    for (const Bar *b = row->bars; b < row->bars + BARS; b++)
      draw_bar(&page, b->left, b->top, b->width, b->height, 0);
    const Image image = {WIDTH, HEIGHT, page.level, 1, WIDTH, HEIGHT};
    Photograph found;
    char text[512] = "";
    if (photograph_find(&image, "it", SIDE, &found, &error)) {
      for (int i = 0; i < found.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%dx%d+%d+%d", i ? " " : "",
                 found.box[i].width, found.box[i].height, found.box[i].left, found.box[i].top);
      photograph_free(&found);
    } else {
      snprintf(text, sizeof text, "%.500s", error.text);
    }
    assert_string_equal(text, row->boxes);
  }
}

/* Bars of 20 x 100 pixels are 4 x 20 in a row of MNIST, also of a page that is tilted. */
TEST(tilted_digits_are_turned_upright) {
  foreach (tilt, VALUES(int, 0, 10, -10)) {
    const Grey page = new_grey(WIDTH, HEIGHT, 255);
    const double sine = sin(*tilt * 0.017453293), cosine = cos(*tilt * 0.017453293);
    EACH_PIXEL(x, y, WIDTH, HEIGHT) {
      const double right = x - 320, down = y - 240;
      const double u = fabs(cosine * right + sine * down), v = cosine * down - sine * right;
      if ((u < 10 || fabs(u - 150) < 10) && fabs(v) < 50) *pixel_at(&page, x, y) = 0;
    }
    const Image image = {WIDTH, HEIGHT, page.level, 1, WIDTH, HEIGHT};
    Photograph found;
    OK(photograph_find(&image, "it", SIDE, &found, &error));
    assert_int_equal(found.count, 3);
    for (int i = 0; i < 3; i++) {
      const Extent ink = extent_of(&(Grey){SIDE, SIDE, found.pixels + i * PIXELS}, 100, 255);
      assert_in_range(ink.right - ink.left, 3, 5);
      assert_in_range(ink.bottom - ink.top, 19, 20);
    }
    photograph_free(&found);
  }
}

TEST(pages_that_no_browser_reads) {
  static const EvaluateConfig page = {.html = "p.html", .mistakes = "", .weights = ""};
  Engine large = {0};
  OK(network_init(&large.config.network, PIXELS, (const int[]){9700, 9700}, 2, CLASSES, &error));
  FAILS(evaluate_can(&large, &page, &error),
        "a page of --html holds up to 100000000 parameters, but the network has 101811210");
}
