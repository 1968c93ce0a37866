#include "support/photographs.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/sizes.h"

enum { WIDTH = PHOTOGRAPH_WIDTH, HEIGHT = PHOTOGRAPH_HEIGHT, SIDE = 28 };

const char *const ground_names[GROUNDS] = {"plain",   "falloff", "shadow", "lined",
                                           "squared", "desk",    "board"};

/* ---- random numbers ----------------------------------------------------------------------- */

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

void photograph_draw(const Page *page, uint8_t *level) {
  const float angle = page->tilt * 0.017453293f, sine = sinf(angle), cosine = cosf(angle);
  Dice dice = {(uint64_t)page->ground, page->number << 16};
  const Scene scene = scene_of(page->ground, &dice);
  Placed placed[PHOTOGRAPH_DIGITS];
  place(&dice, page, placed);
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++) {
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
