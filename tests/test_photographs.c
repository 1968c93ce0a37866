/* Digits in pictures: answered as rows are; in photographs found, ordered and answered, whatever
   they are written on. tests/scenarios/predict.sh asks about rows. The network is
   trained here on drawn digits. With NETWORK=FILE and DIGITS=FILE, a saved network and a CSV file
   of labelled rows, it answers PICTURES=N pictures of each ground, and N tilted pages of each kind,
   made of those instead, and prints how many digits were right. */
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
  GROUND_LINED,   /* ruled paper, not quite straight */
  GROUND_SQUARED, /* squared paper */
  GROUND_DESK,    /* dark or light, at one side of the page */
  GROUND_BOARD,   /* chalk on a blackboard, unevenly lit */
  GROUNDS
} Ground;

static const char *const ground_names[GROUNDS] = {"plain",   "falloff", "shadow", "lined",
                                                  "squared", "desk",    "board"};

/* A page, its light, what is printed on it, and the desk beside it. */
typedef struct {
  Ground ground;
  uint64_t number; /* of the picture, which decides light, pen, places and noise */
  uint8_t digits[MOST_DIGITS][PIXELS];
  int count;  /* 1 to MOST_DIGITS, side by side in up to two lines */
  bool pairs; /* each second digit touches the one before it */
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

/* ---- the scene ---------------------------------------------------------------------------- */

/* Straight, at a distance of `at` from the origin along (x, y), a unit vector nearly. */
typedef struct {
  float x, y, at;
} Edge;

typedef struct {
  Ground ground;
  float paper, ink;                         /* share of light given back; of it taken by ink */
  float falloff, centre_x, centre_y;        /* of the light: share lost at a distance of WIDTH */
  Edge shadow;                              /* dark beyond it */
  float shadow_light, penumbra;             /* the shadow's light; pixels */
  float spacing, slope, first, thick, rule; /* of rules: pixels; share of light taken */
  Edge desk;
  float desk_light, grain;
} Scene;

static Edge edge_through(Dice *dice, float x, float y, float steepness) {
  const float slope = between(dice, -steepness, steepness);
  const float length = sqrtf(1 + slope * slope);
  const Edge edge = {1 / length, slope / length, 0};
  return (Edge){edge.x, edge.y, edge.x * x + edge.y * y};
}

static float beyond(Edge edge, float x, float y) {
  return edge.x * x + edge.y * y - edge.at;
}

/* Returns the edge turned to the right, the bottom, the left or the top. */
static Edge turn(Edge edge, int quarter) {
  const Edge down = {edge.y, edge.x, edge.at * HEIGHT / WIDTH};
  const Edge turned = quarter % 2 ? down : edge;
  if (quarter < 2) return turned;
  const float far = turned.x * WIDTH + turned.y * HEIGHT;
  return (Edge){-turned.x, -turned.y, turned.at - far};
}

static Scene scene_of(Ground ground, Dice *dice) {
  Scene s = {.ground = ground,
             .paper = between(dice, 0.7f, 0.95f),
             .ink = between(dice, 0.55f, 0.9f),
             .falloff = between(dice, 0, 0.1f),
             .centre_x = between(dice, 0, WIDTH),
             .centre_y = between(dice, 0, HEIGHT)};
  if (ground == GROUND_FALLOFF || ground == GROUND_BOARD) s.falloff = between(dice, 0.3f, 0.65f);
  s.shadow = edge_through(dice, between(dice, 0.35f, 0.65f) * WIDTH, HEIGHT / 2.0f, 1);
  s.shadow_light = between(dice, 0.4f, 0.65f);
  s.penumbra = between(dice, 3, 25);
  s.spacing = ground == GROUND_LINED ? between(dice, 24, 48) : between(dice, 18, 32);
  s.slope = between(dice, -0.035f, 0.035f);
  s.first = between(dice, 0, 30);
  s.thick = between(dice, 1, 2.5f);
  s.rule = between(dice, 0.12f, 0.4f);
  const float part = between(dice, 0.8f, 0.92f);
  s.desk = edge_through(dice, part * WIDTH, HEIGHT / 2.0f, 0.05f);
  s.desk = turn(s.desk, (int)between(dice, 0, 3.999f));
  s.desk_light = between(dice, 0.08f, 0.5f);
  s.grain = between(dice, 1, 3.5f);
  return s;
}

/* Returns how much of a pixel a rule covers, along one direction. */
static float rule_at(const Scene *s, float along, float across) {
  const float place = across + s->slope * along + s->first;
  const float nearest = place - s->spacing * floorf(place / s->spacing + 0.5f);
  return fminf(1, fmaxf(0, 0.5f * s->thick + 0.5f - fabsf(nearest)));
}

/* Returns the share of the light that the empty scene gives back at a pixel. */
static float reflected(const Scene *s, float x, float y) {
  if (s->ground == GROUND_BOARD) return 0.18f;
  float share = s->paper;
  if (s->ground == GROUND_LINED || s->ground == GROUND_SQUARED)
    share *= 1 - s->rule * rule_at(s, x, y);
  if (s->ground == GROUND_SQUARED) share *= 1 - s->rule * rule_at(s, -y, x);
  if (s->ground == GROUND_DESK) {
    const float past = fminf(1, fmaxf(0, beyond(s->desk, x, y)));
    const float wood = s->desk_light * (1 + 0.1f * rule_at(s, 0.3f * x, y + x));
    share += past * (wood - share);
  }
  return share;
}

static float light_at(const Scene *s, float x, float y) {
  const float dx = (x - s->centre_x) / WIDTH, dy = (y - s->centre_y) / WIDTH;
  float light = 1 - s->falloff * fminf(1, sqrtf(dx * dx + dy * dy));
  if (s->ground == GROUND_SHADOW) {
    const float depth = fminf(1, fmaxf(0, beyond(s->shadow, x, y) / s->penumbra + 0.5f));
    light *= 1 - (1 - s->shadow_light) * depth;
  }
  return light;
}

/* ---- digits ------------------------------------------------------------------------------- */

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
  return (1 - fy) *
             ((1 - fx) * pixel(placed->pixels, i, j) + fx * pixel(placed->pixels, i + 1, j)) +
         fy * ((1 - fx) * pixel(placed->pixels, i, j + 1) +
               fx * pixel(placed->pixels, i + 1, j + 1));
}

/* Returns how many columns right of one digit's page another's lies, so that their ink touches. */
static int touching(const uint8_t *left, const uint8_t *right) {
  int apart = 0;
  for (int y = 0; y < SIDE; y++) {
    int last = SIDE - 1, first = 0;
    while (last >= 0 && left[y * SIDE + last] < 128) last--;
    while (first < SIDE && right[y * SIDE + first] < 128) first++;
    if (last >= 0 && first < SIDE) apart = max_int(apart, last - first);
  }
  return apart;
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
    if (!page->pairs || i % 2 == 0) continue;
    placed[i] = placed[i - 1];
    placed[i].pixels = page->digits[i];
    placed[i].left += placed[i].zoom * (float)touching(page->digits[i - 1], page->digits[i]);
  }
}

/* Draws a page into `level` (HEIGHT, WIDTH): a function of its arguments, the same on every
 * machine. */
static void draw_page(const Page *page, uint8_t *level) {
  const float angle = page->tilt * 0.017453293f, sine = sinf(angle), cosine = cosf(angle);
  Dice dice = {(uint64_t)page->ground, page->number << 16};
  const Scene scene = scene_of(page->ground, &dice);
  Placed placed[MOST_DIGITS];
  place(&dice, page, placed);
  EACH_PIXEL(x, y, WIDTH, HEIGHT) {
    const float px = (float)x + 0.5f, py = (float)y + 0.5f;
    const float dx = px - WIDTH / 2.0f, dy = py - HEIGHT / 2.0f; /* from what turns */
    const float u = WIDTH / 2.0f + cosine * dx + sine * dy,      /* on the page */
        v = HEIGHT / 2.0f + cosine * dy - sine * dx;
    float ink = 0;
    for (int i = 0; i < page->count; i++) ink = fmaxf(ink, ink_at(&placed[i], u, v));
    float share = reflected(&scene, u, v);
    share = page->ground == GROUND_BOARD ? share + ink * scene.ink * (0.9f - share)
                                         : share * (1 - ink * scene.ink);
    const int i = y * WIDTH + x;
    const float value = 255 * share * light_at(&scene, px, py) +
                        scene.grain * grain(page->number * GROUNDS + page->ground, (uint64_t)i);
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

/* A row as a PNG: dark blue on yellowish paper, three times as large. */
static void write_picture(const char *path, const uint8_t *row) {
  Grey g = new_grey(3 * SIDE, 3 * SIDE, 0);
  for (int i = 0; i < 9 * PIXELS; i++) g.level[i] = row[i / g.width / 3 * SIDE + i % g.width / 3];
  write_coloured(path, &g, (Colours){{250, 244, 210}, {20, 30, 140}});
}

/* Pictures of rows get the rows' answers, 97 of 100 or more. A row's digit fills its box as MNIST's
   do, which those of digits.h do nearly: hence each is read once before. */
TEST(pictures_are_answered_as_rows) {
  enum { PICTURES = 200 };
  static float logits[PICTURES][CLASSES];
  int labels[PICTURES], same = 0, right = 0;
  char *names[PICTURES];
  StagingBuffer staging;
  if (rows) skip();
  OK(engine->call->staging(engine, 0, &staging, &error));
  for (uint64_t i = 0; i < PICTURES; i++) {
    uint8_t digit[PIXELS], *row = staging.pixels + i * staging.stride;
    labels[i] = digits_draw(1, DIGITS_TEST, i, digit);
    names[i] = text_printf("%d.png", (int)i);
    write_picture(names[i], digit);
    OK(read_picture(names[i], SIDE, row, &error));
    write_picture(names[i], row);
    staging.labels[i] = 0;
  }
  OK(engine->call->upload(engine, 0, 0, PICTURES, &error));
  OK(engine->call->predict(engine, 0, PICTURES, logits[0], &error));
  FILE *file = text_open();
  const Pictures pictures = {
      .paths = names, .count = PICTURES, .confidence = 0.5, .show = "", .file = file};
  OK(predict_pictures(engine, &pictures, &error));
  const char *line = text_close(file);
  for (int i = 0; i < PICTURES; i++) {
    const size_t length = strlen(names[i]);
    assert_memory_equal(line, names[i], length);
    const int answer = atoi(line + length);
    same += answer == argmax(logits[i], CLASSES);
    right += answer == labels[i];
    line = strchr(line, '\n') + 1;
  }
  assert_string_equal(line, "");
  if (same * 100 < PICTURES * 97 || right * 100 < PICTURES * 85)
    fail_msg("of %d pictures %d were answered as rows, %d right", PICTURES, same, right);
}

/* ---- photographs -------------------------------------------------------------------------- */

/* What is written on a page: digits, or what should be unsure. */
typedef enum { DIGITS, PAIRS, LETTERS, SCRIBBLES } Writing;

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

/* Letters that no digit looks like. */
static const char *const letters[] = {
    "M10 98 S30 50 C50 2 S70 50 S90 98 M26 64 S50 64 S74 64",             /* A */
    "M84 4 S50 4 C20 4 S20 50 C20 98 S50 98 S86 98 M20 50 S46 50 S72 50", /* E */
    "M84 4 S50 4 C20 4 S20 50 S20 98 M20 48 S46 48 S72 48",               /* F */
    "M18 2 S18 50 S18 98 M82 2 S82 50 S82 98 M18 50 S50 50 S82 50",       /* H */
    "M20 2 S20 50 S20 98 M80 4 S50 30 C22 54 S50 74 S84 98",              /* K */
    "M8 98 S10 50 C14 4 S32 40 C50 70 S68 40 C86 4 S90 50 S92 98",        /* M */
    "M16 98 S16 50 C16 2 S50 50 C84 98 S84 50 S84 2",                     /* N */
    "M20 98 S20 50 C20 2 S70 4 S84 26 S70 48 C20 52 S50 74 S86 98",       /* R */
    "M6 2 S16 50 C28 98 S40 60 C50 24 S60 60 C72 98 S84 50 S94 2",        /* W */
    "M16 2 S50 50 S84 98 M84 2 S50 50 S16 98",                            /* X */
};

static uint32_t random_below(uint64_t number, uint64_t counter, uint32_t end) {
  return random_words(19, number, counter).word[0] % end;
}

/* Draws a letter, or a stroke through 5 to 10 random points. */
static void draw_other(Writing writing, uint64_t number, uint8_t *pixels) {
  char path[256] = "";
  size_t length = 0;
  for (uint64_t p = 0; p < 5 + random_below(number, 0, 6); p++)
    length += (size_t)snprintf(path + length, sizeof path - length, "%c%u %u ",
                               p ? "SSC"[random_below(number, 3 * p + 1, 3)] : 'M',
                               random_below(number, 3 * p + 2, 101),
                               random_below(number, 3 * p + 3, 101));
  digits_draw_path(writing == LETTERS ? letters[number % LENGTH(letters)] : path, number, pixels);
}

/* Draws picture `number` of a ground, with `count` digits or others. */
static void draw(Writing writing, Ground ground, uint64_t number, int count, float tilt) {
  Page page = {ground, number, .count = count, .pairs = writing == PAIRS, .tilt = tilt};
  char *text = drawn.text;
  for (int i = 0; i < count; i++) {
    if (count > 4 && i == (count + 1) / 2) *text++ = ' ';
    if (writing > PAIRS)
      draw_other(writing, 8 * number + (uint64_t)i, page.digits[i]);
    else
      *text = (char)('0' + next_digit(page.digits[i]));
    if (writing != DIGITS) *text = '?';
    text += writing != PAIRS || i % 2;
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

/* One digit, several in two lines, and pages that are turned by up to 20 degrees either way. Of
   pairs, letters and scribbles the share that is taken for digits is bounded, not small. */
TEST(pages_of_every_ground) {
  static const struct {
    const char *name;
    Writing writing;
    int things, pages; /* on a page; of a ground */
    bool tilted;
    double confidence;
    int least_right, least_of_a_ground, most_answered; /* percent */
  } cases[] = {
      {"one digit", DIGITS, 1, 10, false, 0, 90, 90, 100},
      {"six digits", DIGITS, 6, 2, false, 0, 90, 90, 100},
      {"tilted digits", DIGITS, 8, 5, true, 0, 95, 85, 101},
      {"sure digits", DIGITS, 8, 2, true, 0.9, 85, 65, 100},
      {"pairs", PAIRS, 8, 2, true, 0.9, 0, 0, 25},
      {"letters", LETTERS, 8, 1, true, 0.9, 0, 0, 75},
      {"scribbles", SCRIBBLES, 8, 1, true, 0.9, 0, 0, 60},
  };
  const char *wanted = getenv("PICTURES");
  bool good = true;
  foreach (row, cases) {
    Count sum = {0};
    for (Ground ground = 0; ground < GROUNDS; ground++) {
      const Count before = sum;
      for (int i = 0; i < (rows && wanted ? atoi(wanted) / row->things : row->pages); i++) {
        const int tilt = (7 * i + 3 * (int)ground) % 21 * (i % 2 ? -1 : 1);
        draw(row->writing, ground, (uint64_t)i, row->things, row->tilted ? (float)tilt : 0);
        add_answers(row->confidence, &sum);
      }
      const int all = sum.all - before.all, right = sum.right - before.right;
      if (rows && !row->tilted)
        print_message("%s, %s: %d of %d\n", row->name, ground_names[ground], right, all);
      good = good && 100 * right >= row->least_of_a_ground * all;
    }
    good = good && 100 * sum.right >= row->least_right * sum.all &&
           100 * sum.answered <= row->most_answered * sum.all;
    if (rows || !good)
      print_message("%s: of %d, %d answered, %d right\n", row->name, sum.all, sum.answered,
                    sum.right);
    assert_true(rows || good);
  }
}

/* ---- parts and neighbours ----------------------------------------------------------------- */

typedef struct {
  int left, top, width, height;
} Bar;

enum { BARS = 6 };

/* The boxes that are found of black bars on white paper, as text; "?" follows a doubtful one. */
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
  foreach (row, cases) {
    const Grey page = new_grey(WIDTH, HEIGHT, 255);
    for (const Bar *b = row->bars; b < row->bars + BARS; b++)
      draw_bar(&page, b->left, b->top, b->width, b->height, 0);
    const Image image = {WIDTH, HEIGHT, page.level, 1, WIDTH, HEIGHT};
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
    assert_string_equal(text, row->boxes);
  }
}

TEST(pages_that_no_browser_reads) {
  static const EvaluateConfig page = {.html = "p.html", .mistakes = "", .weights = ""};
  Engine large = {0};
  OK(network_init(&large.config.network, PIXELS, (const int[]){9700, 9700}, 2, CLASSES, &error));
  FAILS(evaluate_can(&large, &page, &error),
        "a page of --html holds up to 100000000 parameters, but the network has 101811210");
}
