/* Tests that digits in photographs are found in order and, in any light, look as on clean paper.
   tests/scenarios/predict.sh tests the predictions for photographs. */
#include "base/random.h"
#include "support/pictures.h"

enum { WIDTH = 640, HEIGHT = 480, MOST_DIGITS = 8 };

/* ---- pictures as from a telephone ----------------------------------------------------------- */

typedef enum {
  GROUND_CLEAN, /* even light, no noise */
  GROUND_PLAIN,
  GROUND_FALLOFF, /* light falls by 30 to 65% towards a side or the corners */
  GROUND_SHADOW,  /* a shadow with a soft edge lies across the digits */
  GROUND_DESK,    /* a dark or light desk at one side of the page */
  GROUND_BOARD,   /* chalk on a blackboard, unevenly lit */
  GROUNDS
} Ground;

static const char *const ground_names[GROUNDS] = {"clean",  "plain", "falloff",
                                                  "shadow", "desk",  "board"};

/* A page, its light, its printed digits, and the desk beside it. */
typedef struct {
  Ground ground;
  uint64_t number; /* seed of the picture's light, pen, places and noise */
  uint8_t digits[MOST_DIGITS][PIXELS];
  int count;  /* number of digits, 1 to MOST_DIGITS, in one or two lines */
  float tilt; /* how far the page is turned, in degrees clockwise */
} Page;

typedef struct {
  uint64_t stream, counter;
} Dice;

static float between(Dice *dice, float low, float high) {
  return low + (high - low) * random_unit(random_words(17, dice->stream, dice->counter++).word[0]);
}

/* Returns a random number with mean 0 and standard deviation 1, almost normally distributed. */
static float grain(uint64_t number, uint64_t pixel) {
  const RandomWords words = random_words(18, number, pixel);
  float sum = -2;
  for (int i = 0; i < 4; i++) sum += random_unit(words.word[i]);
  return 1.7320508f * sum;
}

static float within_1(float value) {
  return fminf(1, fmaxf(0, value));
}

/* A digit's 28 x 28 pixels, their place on the page, and the size of a pixel there (`zoom`). */
typedef struct {
  const uint8_t *pixels;
  float left, top, zoom;
} Placed;

static float pixel(const uint8_t *pixels, int x, int y) {
  return x < 0 || y < 0 || x >= SIDE || y >= SIDE ? 0 : (float)pixels[y * SIDE + x] / 255;
}

/* Returns the ink at (x, y), interpolated between the pixels around it. */
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

/* Places the digits in one or two lines in the middle of the picture. Their sizes are random. */
static void place(Dice *dice, const Page *page, Placed *placed) {
  const int lines = page->count > 4 ? 2 : 1, columns = (page->count + lines - 1) / lines;
  const float cell_width = 0.6f * WIDTH / (float)columns,
              cell_height = 0.6f * HEIGHT / (float)lines;
  const float most = fminf(cell_width / 22, cell_height / 22); /* larger digits could touch */
  for (int i = 0; i < page->count; i++) {
    const int row = i / columns;
    const float zoom = most * between(dice, 0.75f, 0.95f);
    const float x = 0.2f * WIDTH + ((float)(i % columns) + 0.5f) * cell_width;
    const float y = 0.2f * HEIGHT + ((float)row + 0.5f) * cell_height;
    placed[i] = (Placed){page->digits[i], x - 0.5f * SIDE * zoom, y - 0.5f * SIDE * zoom, zoom};
  }
}

/* Draws a page into `level` (HEIGHT, WIDTH). The same arguments give the same picture on every
   machine. An edge from top to bottom separates the page from a shadow or the desk. */
static void draw_page(const Page *page, uint8_t *level) {
  const Ground ground = page->ground;
  const bool clean = ground == GROUND_CLEAN,
             uneven = ground == GROUND_FALLOFF || ground == GROUND_BOARD,
             desk = ground == GROUND_DESK;
  const float angle = page->tilt * 0.017453293f, sine = sinf(angle), cosine = cosf(angle);
  Dice dice = {(uint64_t)ground, page->number << 16}, places = {GROUNDS, page->number << 16};
  const float paper = between(&dice, 0.7f, 0.95f), pen = between(&dice, 0.55f, 0.9f),
              falloff = clean    ? 0
                        : uneven ? between(&dice, 0.3f, 0.65f)
                                 : between(&dice, 0, 0.1f),
              centre_x = between(&dice, 0, WIDTH), centre_y = between(&dice, 0, HEIGHT),
              edge = WIDTH * (desk ? between(&dice, 0.8f, 0.92f) : between(&dice, 0.35f, 0.65f)),
              slope = between(&dice, -1, 1) * (desk ? 0.05f : 1),
              soft = desk ? 1 : between(&dice, 3, 25),
              dark = desk ? between(&dice, 0.08f, 0.5f) : between(&dice, 0.4f, 0.65f),
              noise = clean ? 0 : between(&dice, 1, 3.5f);
  Placed placed[MOST_DIGITS];
  place(&places, page, placed);
  EACH_PIXEL(x, y, WIDTH, HEIGHT) {
    const float px = (float)x + 0.5f, py = (float)y + 0.5f;
    const float dx = px - WIDTH / 2.0f, dy = py - HEIGHT / 2.0f; /* offset from the centre */
    const float u = WIDTH / 2.0f + cosine * dx + sine * dy,      /* position on the page */
        v = HEIGHT / 2.0f + cosine * dy - sine * dx;
    const float beyond = within_1((px + slope * dy - edge) / soft + 0.5f);
    float ink = 0, share = ground == GROUND_BOARD ? 0.18f : paper; /* share: reflectance */
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

/* ---- what is found ------------------------------------------------------------------------ */

static Photograph find_on(const Grey *page) {
  const Image image = {WIDTH, HEIGHT, page->level, 1, WIDTH, HEIGHT};
  Photograph found;
  OK(photograph_find(&image, "it", SIDE, &found, &error));
  return found;
}

static Photograph find(const Page *page) {
  static uint8_t level[WIDTH * HEIGHT];
  draw_page(page, level);
  return find_on(&(Grey){WIDTH, HEIGHT, level});
}

/* Returns true if two rows of MNIST look alike: the cosine between their pixels is above 0.8. */
static bool is_alike(const uint8_t *a, const uint8_t *b) {
  double both = 0, square_a = 0, square_b = 0;
  for (int i = 0; i < PIXELS; i++) {
    both += a[i] * b[i];
    square_a += a[i] * a[i];
    square_b += b[i] * b[i];
  }
  return both > 0.8 * sqrt(square_a * square_b);
}

/* Tests pages with one digit, pages with several digits in two lines, and pages turned by up to 10
   degrees. At least 90% of the digits must be found in order and look as on a clean, level page. */
TEST(pages_of_every_ground) {
  static const struct {
    int things, pages; /* digits per page; pages per ground */
    bool tilted;
  } cases[] = {{1, 12, false}, {6, 4, false}, {8, 6, true}};
  uint64_t next = 0;
  foreach (row, cases)
    for (Ground ground = GROUND_PLAIN; ground < GROUNDS; ground++) {
      int right = 0;
      const int all = row->pages * row->things;
      for (int i = 0; i < row->pages; i++) {
        Page page = {ground, (uint64_t)i, .count = row->things};
        for (int d = 0; d < row->things; d++) digits_draw(1, DIGITS_TEST, next++, page.digits[d]);
        page.ground = GROUND_CLEAN;
        Photograph clean = find(&page);
        assert_int_equal(clean.count, row->things);
        page.ground = ground;
        if (row->tilted) page.tilt = (float)((7 * i + 3 * (int)ground) % 11 * (i % 2 ? -1 : 1));
        Photograph found = find(&page);
        for (int d = 0; found.count == clean.count && d < found.count; d++)
          right += found.row[d] == clean.row[d] &&
                   is_alike(found.pixels + d * PIXELS, clean.pixels + d * PIXELS);
      }
      print_message("%d on a page, %s: %d of %d\n", row->things, ground_names[ground], right, all);
      assert_true(100 * right >= 90 * all);
    }
}

/* ---- parts and neighbours ----------------------------------------------------------------- */

typedef struct {
  int left, top, width, height;
} Bar;

enum { BARS = 6 };

/* Tests which black bars on white paper count as digits. `boxes` lists the digits as text. */
TEST(pieces_become_digits) {
  static const struct {
    Bar bars[BARS];
    const char *boxes;
  } cases[] = {
      /* a digit with a top bar that does not touch it, and dust */
      {{{200, 200, 20, 120}, {200, 180, 60, 12}, {400, 300, 4, 4}}, "60x140+200+180"},
      /* one digit above another */
      {{{200, 100, 20, 100}, {200, 230, 20, 100}}, "20x100+200+100 20x100+200+230"},
      /* two lines that fall by 10 degrees; line 2 begins at the height where line 1 ends */
      {{{60, 60, 20, 60},
        {220, 88, 20, 60},
        {380, 116, 20, 60},
        {60, 160, 20, 60},
        {220, 188, 20, 60},
        {540, 144, 20, 60}},
       "20x60+60+60 20x60+220+88 20x60+380+116 20x60+540+144 20x60+60+160 20x60+220+188"},
      /* a bar at the picture's edge counts only if there is no other bar */
      {{{0, 100, 15, 100}, {300, 100, 15, 100}}, "15x100+300+100"},
      {{{0, 100, 15, 100}}, "15x100+0+100"},
      /* an underline */
      {{{200, 100, 20, 100}, {260, 100, 20, 100}, {150, 260, 200, 6}},
       "20x100+200+100 20x100+260+100"},
      /* a desk along an edge */
      {{{0, 0, 640, 60}, {200, 100, 20, 100}}, "20x100+200+100"},
      /* a loose bar joins a digit if its longer side is below 2/3 of the digit's height and the gap
         at most 1/12 of the digit's height */
      {{{200, 100, 20, 100}, {228, 110, 20, 66}}, "48x100+200+100"},
      {{{200, 100, 20, 100}, {229, 110, 20, 66}}, "20x100+200+100 20x66+229+110"},
      {{{200, 100, 20, 100}, {200, 208, 20, 49}}, "20x157+200+100"},
      /* a bar counts if its longer side is at least 2/5 of the longest side of any bar */
      {{{200, 100, 20, 100}, {300, 100, 20, 40}}, "20x100+200+100 20x40+300+100"},
      {{{200, 100, 20, 100}, {300, 100, 20, 39}}, "20x100+200+100"},
  };
  foreach (row, cases) {
    const Grey page = new_grey(WIDTH, HEIGHT, 255);
    for (const Bar *b = row->bars; b < row->bars + BARS; b++)
      draw_bar(&page, b->left, b->top, b->width, b->height, 0);
    Photograph found = find_on(&page);
    char text[512] = "";
    for (int i = 0; i < found.count; i++)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%dx%d+%d+%d", i ? " " : "",
               box_width(found.box[i]), box_height(found.box[i]), found.box[i].left,
               found.box[i].top);
    assert_string_equal(text, row->boxes);
  }
}

/* Even on a tilted page, bars of 20 x 100 pixels become upright bars of 4 x 20 in MNIST's size. */
TEST(tilted_digits_are_turned_upright) {
  foreach (tilt, VALUES(int, 0, 10, -10)) {
    const Grey page = new_grey(WIDTH, HEIGHT, 255);
    const double sine = sin(*tilt * 0.017453293), cosine = cos(*tilt * 0.017453293);
    EACH_PIXEL(x, y, WIDTH, HEIGHT) {
      const double right = x - 320, down = y - 240;
      const double u = fabs(cosine * right + sine * down), v = cosine * down - sine * right;
      if ((u < 10 || fabs(u - 150) < 10) && fabs(v) < 50) *pixel_at(&page, x, y) = 0;
    }
    Photograph found = find_on(&page);
    assert_int_equal(found.count, 3);
    for (int i = 0; i < 3; i++) {
      int columns = 0, rows = 0;
      for (int k = 0; k < SIDE; k++) { /* along the middle row and the middle column */
        columns += found.pixels[i * PIXELS + SIDE / 2 * SIDE + k] > 100;
        rows += found.pixels[i * PIXELS + k * SIDE + SIDE / 2] > 100;
      }
      assert_in_range(columns, 3, 5);
      assert_in_range(rows, 19, 20);
    }
  }
}
