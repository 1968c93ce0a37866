/* Augmentation: augment.h's arithmetic, its kernel against it, and training on what both engines
   make of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef HAVE_CUDA
#include "kernels.h"
#endif

#include "base/augment.h"
#include "engine/engine.h"
#include "support/cuda.h"
#include "exercise/reference.h"

enum { MOST_PIXELS = AUGMENT_MOST_SIDE * AUGMENT_MOST_SIDE };
enum { CONTROLS = AUGMENT_POINTS * AUGMENT_POINTS };

static Error error;

static const AugmentMap no_map = {1, 0, 0, 1, {0, 0}};
static const AugmentPoint no_control[CONTROLS];
static const int sides[] = {1, 5, 28, 31, 64};
enum { SIDES = sizeof sides / sizeof *sides };

/* Noise, so that no two pixels can be taken for each other. */
static void fill(uint8_t *pixels, int side, uint64_t seed) {
  reference_fill_pixels(pixels, (size_t)(side * side), seed);
}

/* A blot: ink that is smooth, and none near the border. */
static void draw_blot(uint8_t *pixels, int side) {
  const double centre = (side - 1) / 2.0, size = side / 8.0;
  for (int y = 0; y < side; y++)
    for (int x = 0; x < side; x++) {
      const double square = (x - centre) * (x - centre) + (y - centre) * (y - centre);
      pixels[y * side + x] = (uint8_t)(255 * exp(-square / (2 * size * size)) + 0.5);
    }
}

static int at(const uint8_t *pixels, int side, int x, int y) {
  return x < 0 || y < 0 || x >= side || y >= side ? 0 : pixels[y * side + x];
}

/* ---- maps that are given ----------------------------------------------------------------------
 */

static void test_identity(void **state) {
  (void)state;
  for (int i = 0; i < SIDES; i++) {
    uint8_t pixels[MOST_PIXELS], copy[MOST_PIXELS];
    fill(pixels, sides[i], 1);
    augment_picture(&no_map, no_control, pixels, copy, sides[i]);
    assert_memory_equal(copy, pixels, (size_t)(sides[i] * sides[i]));
    augment_row(0, 5, 6, pixels, copy, sides[i]);
    assert_memory_equal(copy, pixels, (size_t)(sides[i] * sides[i]));
  }
}

static void assert_shifted(const uint8_t *pixels, int side, int right, int down) {
  uint8_t copy[MOST_PIXELS];
  AugmentMap map = no_map;
  map.shift = (AugmentPoint){(float)right, (float)down};
  augment_picture(&map, no_control, pixels, copy, side);
  for (int y = 0; y < side; y++)
    for (int x = 0; x < side; x++)
      assert_int_equal(copy[y * side + x], at(pixels, side, x - right, y - down));
}

static void test_whole_pixels(void **state) {
  (void)state;
  for (int i = 0; i < SIDES; i++) {
    uint8_t pixels[MOST_PIXELS];
    fill(pixels, sides[i], 2);
    assert_shifted(pixels, sides[i], 2, -3);
    assert_shifted(pixels, sides[i], -1, 1);
    assert_shifted(pixels, sides[i], -100, 0); /* nothing is left of it */
  }
}

static void test_between_pixels(void **state) {
  (void)state;
  enum { SIDE = 9 };
  uint8_t pixels[SIDE * SIDE], copy[SIDE * SIDE];
  fill(pixels, SIDE, 3);
  AugmentMap map = no_map;
  map.shift = (AugmentPoint){-0.25f, -0.5f};
  augment_picture(&map, no_control, pixels, copy, SIDE);
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++) {
      const double mean =
          (0.75 * at(pixels, SIDE, x, y) + 0.25 * at(pixels, SIDE, x + 1, y) +
           0.75 * at(pixels, SIDE, x, y + 1) + 0.25 * at(pixels, SIDE, x + 1, y + 1)) /
          2;
      assert_int_equal(copy[y * SIDE + x], (int)floor(mean + 0.5));
    }
}

static void test_quarter_turn(void **state) {
  (void)state;
  for (int i = 0; i < SIDES; i++) {
    const int side = sides[i];
    uint8_t pixels[MOST_PIXELS], copy[MOST_PIXELS];
    fill(pixels, side, 4);
    const AugmentMap turn = {0, 1, -1, 0, {0, 0}};
    augment_picture(&turn, no_control, pixels, copy, side);
    for (int y = 0; y < side; y++)
      for (int x = 0; x < side; x++)
        assert_int_equal(copy[y * side + x], at(pixels, side, y, side - 1 - x));
  }
}

/* Half the size: nothing is left at the border, all is there in the middle. */
static void test_outside_is_zero(void **state) {
  (void)state;
  enum { SIDE = 28 };
  uint8_t pixels[SIDE * SIDE], copy[SIDE * SIDE];
  memset(pixels, 255, sizeof pixels);
  const AugmentMap half = {2, 0, 0, 2, {0, 0}};
  augment_picture(&half, no_control, pixels, copy, SIDE);
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++)
      assert_int_equal(
          copy[y * SIDE + x],
          x >= SIDE / 4 && x < SIDE - SIDE / 4 && y >= SIDE / 4 && y < SIDE - SIDE / 4 ? 255 : 0);
}

/* The cubic B-spline by its definition. */
static double b_spline(double distance) {
  const double d = fabs(distance);
  if (d >= 2) return 0;
  return d < 1 ? 2.0 / 3 - d * d + d * d * d / 2 : (2 - d) * (2 - d) * (2 - d) / 6;
}

static void test_splines(void **state) {
  (void)state;
  for (int i = 0; i < SIDES; i++)
    for (int pixel = 0; pixel < sides[i]; pixel++) {
      const AugmentSpline spline = augment_spline(pixel, sides[i]);
      const double place = (pixel + 0.5) * AUGMENT_CELLS / sides[i];
      assert_true(spline.first >= 0 && spline.first + 3 < AUGMENT_POINTS);
      for (int w = 0; w < 4; w++)
        assert_true(fabs((double)spline.weight[w] - b_spline(place - (spline.first + w - 1))) <
                    1e-6);
    }
}

/* Each control point moves its own neighbourhood, its own way. */
static void test_displacements(void **state) {
  (void)state;
  enum { SIDE = 28 };
  AugmentPoint control[CONTROLS];
  for (int p = 0; p < CONTROLS; p++) {
    const int column = p % AUGMENT_POINTS, row = p / AUGMENT_POINTS;
    control[p] = (AugmentPoint){(float)column, 10 * (float)row};
  }
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++) {
      const AugmentSpline down = augment_spline(y, SIDE), across = augment_spline(x, SIDE);
      AugmentPoint line[AUGMENT_POINTS];
      for (int p = 0; p < AUGMENT_POINTS; p++)
        line[p] = augment_blend(&down, control + p, AUGMENT_POINTS);
      const AugmentPoint moved = augment_blend(&across, line, 1);
      /* splines keep straight lines: point p stands at p - 1 cells */
      assert_true(fabs((double)moved.x - ((x + 0.5) / 7 + 1)) < 1e-5);
      assert_true(fabs((double)moved.y - 10 * ((y + 0.5) / 7 + 1)) < 1e-4);
    }
  uint8_t pixels[SIDE * SIDE], copy[SIDE * SIDE];
  fill(pixels, SIDE, 5);
  for (int p = 0; p < CONTROLS; p++) control[p] = (AugmentPoint){3, -2};
  augment_picture(&no_map, control, pixels, copy, SIDE);
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++)
      assert_true(abs(copy[y * SIDE + x] - at(pixels, SIDE, x + 3, y - 2)) <= 1);
}

static void test_side(void **state) {
  (void)state;
  assert_int_equal(augment_side(1), 1);
  assert_int_equal(augment_side(784), 28);
  assert_int_equal(augment_side(4096), 64);
  assert_int_equal(augment_side(783), 0);
  assert_int_equal(augment_side(2), 0);
}

/* ---- what is drawn ----------------------------------------------------------------------------
 */

enum { DRAWS = 4000 };

static double widest(double most, float value) {
  return fmax(most, fabs((double)value));
}

/* Uniform to the ends, and not beyond: of 4000 draws the largest is within 1 in 100. */
static void assert_reaches(double most, double limit) {
  assert_true(most <= limit * (1 + 1e-6));
  assert_true(most > 0.99 * limit);
}

static void test_each_kind_draws_its_own(void **state) {
  (void)state;
  double right = 0, down = 0, angle = 0, width = 0, height = 0, elastic = 0;
  int alike = 0; /* x and y have nothing to do with each other */
  for (uint32_t row = 0; row < DRAWS; row++) {
    const AugmentMap shift = augment_map(AUGMENT_SHIFT, 9, row, 56);
    const AugmentMap rotate = augment_map(AUGMENT_ROTATE, 9, row, 56);
    const AugmentMap scale = augment_map(AUGMENT_SCALE, 9, row, 56);
    const AugmentMap all = augment_map(AUGMENT_ALL, 9, row, 56);
    const AugmentPoint control = augment_control(AUGMENT_ELASTIC, 9, row, 56, (int)row % CONTROLS);
    const AugmentPoint none =
        augment_control(AUGMENT_ALL - AUGMENT_ELASTIC, 9, row, 56, (int)row % CONTROLS);
    assert_true(shift.xx == 1 && shift.xy == 0 && shift.yx == 0 && shift.yy == 1);
    assert_true(rotate.shift.x == 0 && rotate.shift.y == 0);
    assert_true(fabs(hypot((double)rotate.xx, (double)rotate.xy) - 1) < 1e-6);
    assert_true(rotate.xx == rotate.yy && rotate.xy == -rotate.yx);
    assert_true(scale.shift.x == 0 && scale.shift.y == 0 && scale.xy == 0 && scale.yx == 0);
    assert_true(none.x == 0 && none.y == 0);
    /* together they are the same as alone */
    assert_true(all.shift.x == shift.shift.x && all.shift.y == shift.shift.y);
    assert_true(fabs((double)(all.xx - rotate.xx * scale.xx)) < 1e-6);
    assert_true(fabs((double)(all.yx - rotate.yx * scale.yy)) < 1e-6);
    alike += shift.shift.x == shift.shift.y || scale.xx == scale.yy || control.x == control.y;
    right = widest(right, shift.shift.x);
    down = widest(down, shift.shift.y);
    angle = widest(angle, atan2f(rotate.xy, rotate.xx));
    width = widest(width, 1 / scale.xx - 1);
    height = widest(height, 1 / scale.yy - 1);
    elastic = widest(widest(elastic, control.x), control.y);
  }
  assert_true(alike < DRAWS / 100);
  assert_reaches(right, 2 * (double)AUGMENT_MOST_SHIFT); /* 56 is twice 28 */
  assert_reaches(down, 2 * (double)AUGMENT_MOST_SHIFT);
  assert_reaches(angle, (double)AUGMENT_MOST_ANGLE);
  assert_reaches(width, (double)AUGMENT_MOST_SCALE);
  assert_reaches(height, (double)AUGMENT_MOST_SCALE);
  assert_reaches(elastic, 2 * (double)AUGMENT_MOST_ELASTIC);
}

/* What augment.h says of the displacements' standard deviation. */
static void test_elastic_strength(void **state) {
  (void)state;
  double squares = 0, count = 0;
  for (uint32_t row = 0; row < DRAWS; row++) {
    AugmentPoint line[AUGMENT_POINTS], control[CONTROLS];
    for (int p = 0; p < CONTROLS; p++) control[p] = augment_control(AUGMENT_ELASTIC, 1, row, 28, p);
    const AugmentSpline down = augment_spline((int)row % 28, 28);
    for (int p = 0; p < AUGMENT_POINTS; p++)
      line[p] = augment_blend(&down, control + p, AUGMENT_POINTS);
    for (int x = 0; x < 28; x++, count++) {
      const AugmentSpline across = augment_spline(x, 28);
      const AugmentPoint moved = augment_blend(&across, line, 1);
      squares += (double)(moved.x * moved.x + moved.y * moved.y) / 2;
    }
  }
  const double expected = 0.48 * (double)AUGMENT_MOST_ELASTIC / sqrt(3);
  assert_true(fabs(sqrt(squares / count) / expected - 1) < 0.03);
}

static void test_ink_is_kept(void **state) {
  (void)state;
  for (int kinds = 1; kinds <= AUGMENT_ALL; kinds++) {
    uint8_t pixels[784], copy[784];
    double before = 0, after = 0;
    draw_blot(pixels, 28);
    for (uint32_t row = 0; row < 400; row++) {
      augment_row(kinds, 3, row, pixels, copy, 28);
      for (int i = 0; i < 784; i++) before += pixels[i], after += copy[i];
    }
    assert_true(fabs(after / before - 1) < 0.05);
  }
}

static void test_key_and_row_draw(void **state) {
  (void)state;
  uint8_t pixels[784], copy[784], again[784];
  draw_blot(pixels, 28);
  for (int kind = 1; kind < AUGMENT_ALL; kind *= 2) {
    augment_row(kind, 3, 7, pixels, copy, 28);
    assert_memory_not_equal(copy, pixels, sizeof copy);
    augment_row(kind, 3, 7, pixels, again, 28);
    assert_memory_equal(again, copy, sizeof copy);
    augment_row(kind, 4, 7, pixels, again, 28);
    assert_memory_not_equal(again, copy, sizeof copy);
    augment_row(kind, 3, 8, pixels, again, 28);
    assert_memory_not_equal(again, copy, sizeof copy);
  }
}

/* ---- engines ----------------------------------------------------------------------------------
 */

enum { SIDE = 6, INPUTS = SIDE * SIDE, CLASSES = 10, BATCH = 7, ROWS = 60, KEY = 11 };

typedef struct {
  uint8_t pixels[ROWS * INPUTS];
  uint16_t labels[ROWS];
} Data;

static Data make_data(uint64_t seed) {
  Data data;
  reference_fill_pixels(data.pixels, sizeof data.pixels, seed);
  reference_fill_labels(data.labels, ROWS, CLASSES, seed + 1);
  return data;
}

/* Row r of the window that starts at first_row becomes what (kinds, key, r) makes of it. */
static Data by_hand(const Data *data, int kinds, uint64_t key, uint64_t first_row) {
  Data copy = *data;
  for (uint64_t r = first_row; r < ROWS; r++)
    augment_row(kinds, key, (uint32_t)(r - first_row), data->pixels + r * INPUTS,
                copy.pixels + r * INPUTS, SIDE);
  return copy;
}

/* How an engine is opened; fusion FUSION_AUTO: the CPU's. */
typedef struct {
  Fusion fusion;
  int threads;
} Kind;

static const Kind cpu = {FUSION_AUTO, 2};

static EngineConfig config_of(Kind kind, int inputs, uint64_t dataset_rows) {
  EngineConfig config = {.batch = BATCH,
                         .seed = 4,
                         .momentum = 0.9f,
                         .fusion = kind.fusion,
                         .augment = true,
                         .threads = kind.threads,
                         .dataset_rows = dataset_rows,
                         .staging_rows = ROWS + BATCH};
  OK(network_init(&config.network, inputs, (const int[]){21, 11}, 2, CLASSES, &error));
  return config;
}

static void send(Engine *engine, const Data *data) {
  StagingBuffer staging;
  OK(engine->call->staging(engine, 0, &staging, &error));
  for (size_t r = 0; r < ROWS; r++)
    memcpy(staging.pixels + r * staging.stride, data->pixels + r * INPUTS, INPUTS);
  memcpy(staging.labels, data->labels, sizeof data->labels);
  OK(engine->call->upload(engine, 0, 0, ROWS, &error));
}

/* NULL: this level does not run the network on this GPU. */
static Engine *open_on(Kind kind, const Data *data) {
  const EngineConfig config = config_of(kind, INPUTS, ROWS);
  Engine *engine =
      kind.fusion ? engine_cuda_open(&config, &error) : engine_cpu_open(&config, &error);
  if (!engine && kind.fusion != FUSION_EPOCH) fail_msg("%s", error.text);
  if (engine) send(engine, data);
  return engine;
}

/* All the steps of a window. */
static TrainRange window(uint64_t first_row, uint64_t rows, int kinds, uint64_t key) {
  return (TrainRange){.first_row = first_row,
                      .rows = rows,
                      .shuffled = true,
                      .key = key + 1,
                      .steps = (rows + BATCH - 1) / BATCH,
                      .learning_rate = 0.05f,
                      .augment = kinds,
                      .augment_key = key};
}

static void train(Engine *engine, TrainRange range) {
  OK(engine->call->train(engine, &range, &error));
}

static void train_in_parts(Engine *engine, TrainRange range) {
  const uint64_t steps = range.steps;
  range.steps = 1;
  for (range.first_step = 0; range.first_step < steps; range.first_step++) train(engine, range);
}

static EngineSums collect(Engine *engine) {
  EngineSums sums;
  OK(engine->call->collect(engine, &sums, &error));
  return sums;
}

/* Parameters and momentum, (2 * floats); closes the engine. */
static float *close_with_weights(Engine *engine) {
  const size_t floats = engine->config.network.floats;
  float *weights = malloc(2 * floats * sizeof *weights);
  assert_non_null(weights);
  OK(engine->call->read(engine, weights, weights + floats, &error));
  engine->call->close(engine);
  return weights;
}

static size_t weight_count(void) {
  return 2 * config_of(cpu, INPUTS, ROWS).network.floats;
}

static void assert_same_weights(Engine *a, Engine *b) {
  float *of_a = close_with_weights(a), *of_b = close_with_weights(b);
  assert_memory_equal(of_a, of_b, weight_count() * sizeof *of_a);
  free(of_a);
  free(of_b);
}

/* The rows that an engine distorts and those that we do are the same bits on the CPU. On a GPU
   few bytes differ by one, which is 1e-5 of a gradient; another row's distortion is 0.1 of it and
   more. */
static void assert_alike(Kind kind, Engine *a, Engine *b) {
  if (!kind.fusion) {
    assert_same_weights(a, b);
    return;
  }
  const size_t count = weight_count();
  float *of_a = close_with_weights(a), *of_b = close_with_weights(b);
  double *expected = malloc(count * sizeof *expected);
  assert_non_null(expected);
  reference_to_double(of_b, count, expected);
  assert_true(reference_relative_error(of_a, expected, count) < 1e-3);
  free(of_a);
  free(of_b);
  free(expected);
}

static void check_parts(Kind kind) {
  const Data data = make_data(30);
  Engine *whole = open_on(kind, &data), *parts = open_on(kind, &data);
  if (!whole) return;
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    train(whole, window(0, ROWS, AUGMENT_ALL, epoch));
    train_in_parts(parts, window(0, ROWS, AUGMENT_ALL, epoch));
  }
  assert_same_weights(whole, parts);
}

/* Windows, keys and kinds that change, and rows that are not distorted between those that are. */
static void check_rows(Kind kind) {
  const Data data = make_data(31);
  static const struct {
    uint64_t first_row, rows;
    int kinds;
    uint64_t key;
  } turns[] = {{0, ROWS, AUGMENT_ALL, 1},
               {0, ROWS, AUGMENT_ALL, 2},
               {0, ROWS, AUGMENT_ROTATE, 2},
               {0, ROWS, 0, 2},
               {8, 20, AUGMENT_ALL, 2},
               {28, 20, AUGMENT_ALL, 2},
               {0, ROWS, 0, 1},
               {28, 20, AUGMENT_ALL, 2},
               {28, 25, AUGMENT_ALL, 2},
               {0, ROWS, AUGMENT_SHIFT, 1},
               {0, ROWS, AUGMENT_ELASTIC, 1}};
  Engine *engine = open_on(kind, &data), *plain = open_on(kind, &data);
  if (!engine) return;
  for (size_t t = 0; t < sizeof turns / sizeof *turns; t++) {
    TrainRange range = window(turns[t].first_row, turns[t].rows, turns[t].kinds, turns[t].key);
    const Data copy = by_hand(&data, range.augment, range.augment_key, range.first_row);
    train(engine, range);
    send(plain, &copy);
    range.augment = 0;
    train(plain, range);
  }
  assert_alike(kind, engine, plain);
}

/* Streaming: the same dataset row, the same key, other data. */
static void check_upload(Kind kind) {
  const Data first = make_data(32), second = make_data(33);
  Engine *engine = open_on(kind, &first), *plain = open_on(kind, &first);
  if (!engine) return;
  const Data copies[] = {by_hand(&first, AUGMENT_ALL, KEY, 0),
                         by_hand(&second, AUGMENT_ALL, KEY, 0)};
  train(engine, window(0, ROWS, AUGMENT_ALL, KEY));
  send(engine, &second);
  train(engine, window(0, ROWS, AUGMENT_ALL, KEY));
  for (int turn = 0; turn < 2; turn++) {
    send(plain, &copies[turn]);
    train(plain, window(0, ROWS, 0, KEY));
  }
  assert_alike(kind, engine, plain);
}

/* Nothing is learned, so the originals must be judged as before; what trains is not them. */
static void check_evaluation(Kind kind) {
  const Data data = make_data(34);
  Engine *engine = open_on(kind, &data);
  if (!engine) return;
  float before[ROWS * CLASSES], after[ROWS * CLASSES];
  TrainRange range = window(0, ROWS, AUGMENT_ALL, KEY);
  range.learning_rate = 0;
  OK(engine->call->evaluate(engine, 0, ROWS, &error));
  const EngineSums original = collect(engine);
  OK(engine->call->predict(engine, 0, ROWS, before, &error));
  train(engine, range);
  const EngineSums distorted = collect(engine);
  OK(engine->call->evaluate(engine, 0, ROWS, &error));
  const EngineSums evaluated = collect(engine);
  OK(engine->call->predict(engine, 0, ROWS, after, &error));
  assert_true(fabs(distorted.loss / original.loss - 1) > 1e-3);
  assert_true(evaluated.loss == original.loss && evaluated.correct == original.correct);
  assert_memory_equal(after, before, sizeof before);
  engine->call->close(engine);
}

/* Refused with a sentence; the engine can still be used. */
static void check_not_square(Kind kind) {
  const EngineConfig config = config_of(kind, INPUTS + 1, ROWS);
  Engine *engine =
      kind.fusion ? engine_cuda_open(&config, &error) : engine_cpu_open(&config, &error);
  if (!engine) return;
  const TrainRange range = window(0, ROWS, AUGMENT_ALL, KEY), plain = window(0, ROWS, 0, KEY);
  StagingBuffer staging;
  OK(engine->call->staging(engine, 0, &staging, &error));
  memset(staging.pixels, 1, ROWS * staging.stride);
  memset(staging.labels, 0, ROWS * sizeof *staging.labels);
  OK(engine->call->upload(engine, 0, 0, ROWS, &error));
  error.text[0] = '\0';
  assert_false(engine->call->train(engine, &range, &error));
  assert_non_null(strstr(error.text, "37 pixels are not square"));
  train(engine, plain);
  assert_int_equal(collect(engine).rows, ROWS);
  engine->call->close(engine);
}

static void check_engine(Kind kind) {
  check_parts(kind);
  check_rows(kind);
  check_upload(kind);
  check_evaluation(kind);
  check_not_square(kind);
}

static void test_cpu_engine(void **state) {
  (void)state;
  check_engine(cpu);
}

static void test_threads(void **state) {
  (void)state;
  const Data data = make_data(35);
  for (int threads = 1; threads <= 5; threads += 2) {
    Engine *two = open_on(cpu, &data), *others = open_on((Kind){FUSION_AUTO, threads}, &data);
    train(two, window(3, ROWS - 3, AUGMENT_ALL, KEY));
    train(others, window(3, ROWS - 3, AUGMENT_ALL, KEY));
    assert_same_weights(two, others);
  }
}

/* A store that can be had once and not twice. */
static void test_no_memory(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* a sanitizer takes address space as it likes */
#endif
  enum { STORE = 20000000 }; /* 960 MB of addresses, hardly any of them touched */
  const EngineConfig config = config_of(cpu, INPUTS, STORE);
  Engine *engine = engine_cpu_open(&config, &error);
  if (!engine) fail_msg("%s", error.text);
  unsigned long long pages = 0; /* of addresses in use */
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%llu", &pages), 1);
  assert_int_equal(fclose(file), 0);
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  const rlim_t used = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
  const struct rlimit less = {used + ((rlim_t)500 << 20), before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
  const TrainRange range = window(0, ROWS, AUGMENT_ALL, KEY);
  const bool first = engine->call->train(engine, &range, &error);
  const bool second = engine->call->train(engine, &range, &error);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  assert_false(first || second);
  assert_non_null(strstr(error.text, "MB of memory"));
  train(engine, window(0, ROWS, 0, KEY));
  engine->call->close(engine);
}

static void test_cuda_engine(void **state) {
  (void)state;
  needs_gpu();
  static const Fusion levels[] = {FUSION_NONE, FUSION_LAYER, FUSION_STEP, FUSION_EPOCH};
  for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) check_engine((Kind){levels[l], 1});
}

/* ---- the kernel -------------------------------------------------------------------------------
 */

#ifdef HAVE_CUDA

enum { GUARD = 1024, POISON = 0xA5 };

static bool is_poison(const uint8_t *bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (bytes[i] != POISON) return false;
  return true;
}

typedef struct {
  int side;
  uint32_t rows;
  size_t stride;
  int kinds;
} Shape;

/* d_from (rows, stride): pictures with anything but 0 between their rows. The copy, between
   GUARD bytes on either side that nobody may touch: (rows, stride). */
static uint8_t *run_kernel(Shape s, const uint8_t *pictures) {
  const size_t bytes = s.rows * s.stride;
  uint8_t *d_from, *d_to, *out = malloc(bytes + 2 * GUARD);
  assert_non_null(out);
  CUDA_OK(cudaMalloc((void **)&d_from, bytes));
  CUDA_OK(cudaMalloc((void **)&d_to, bytes + 2 * GUARD));
  CUDA_OK(cudaMemcpy(d_from, pictures, bytes, cudaMemcpyHostToDevice));
  CUDA_OK(cudaMemset(d_to, POISON, bytes + 2 * GUARD));
  CUDA_OK(launch_augment(d_from, d_to + GUARD, s.rows, s.stride, s.side, s.kinds, KEY, NULL));
  CUDA_OK(cudaMemcpy(out, d_to, bytes + 2 * GUARD, cudaMemcpyDeviceToHost));
  CUDA_OK(cudaFree(d_from));
  CUDA_OK(cudaFree(d_to));
  assert_true(is_poison(out, GUARD) && is_poison(out + GUARD + bytes, GUARD));
  memmove(out, out + GUARD, bytes);
  return out;
}

static uint8_t *make_pictures(Shape s) {
  uint8_t *pictures = malloc(s.rows * s.stride);
  assert_non_null(pictures);
  reference_fill_pixels(pictures, s.rows * s.stride, 40);
  return pictures;
}

/* Roundings of a place, some 1e-5 pixels, tip few bytes, and none by more than one. */
static void check_kernel(Shape s) {
  uint8_t *pictures = make_pictures(s), *copies = run_kernel(s, pictures);
  uint8_t *again = run_kernel(s, pictures);
  assert_memory_equal(again, copies, s.rows * s.stride);
  size_t tipped = 0;
  const size_t pixels = (size_t)(s.side * s.side);
  for (uint32_t r = 0; r < s.rows; r++) {
    uint8_t expected[MOST_PIXELS];
    augment_row(s.kinds, KEY, r, pictures + r * s.stride, expected, s.side);
    for (size_t i = 0; i < s.stride; i++) {
      const int difference = copies[r * s.stride + i] - (i < pixels ? expected[i] : 0);
      if (abs(difference) > (i < pixels && s.kinds ? 1 : 0))
        fail_msg("side %d, kinds %d, row %u, byte %zu of %zu is off by %d", s.side, s.kinds, r, i,
                 s.stride, difference);
      tipped += difference != 0;
    }
  }
  assert_true((double)tipped <= 2 + 0.0002 * (double)(s.rows * pixels));
  free(pictures);
  free(copies);
  free(again);
}

static void test_kernel(void **state) {
  (void)state;
  needs_gpu();
  static const uint32_t rows[] = {1, 3, 150};
  for (int i = 0; i < SIDES; i++)
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
      for (int kinds = 0; kinds <= AUGMENT_ALL; kinds += kinds < 8 ? 1 : 7) {
        const size_t stride = ((size_t)(sides[i] * sides[i]) + 15) / 16 * 16;
        check_kernel((Shape){sides[i], rows[r], stride + 16 * r, kinds});
      }
}

static void test_kernel_refuses(void **state) {
  (void)state;
  needs_gpu();
  uint8_t *d = NULL;
  CUDA_OK(cudaMalloc((void **)&d, 2 * 784));
  CUDA_OK(cudaMemset(d, POISON, 2 * 784));
  CUDA_REFUSED(launch_augment(NULL, d, 1, 784, 28, 1, 1, NULL));
  CUDA_REFUSED(launch_augment(d, NULL, 1, 784, 28, 1, 1, NULL));
  CUDA_REFUSED(launch_augment(d, d, 1, 784, 28, 1, 1, NULL));
  CUDA_REFUSED(launch_augment(d, d + 784, 0, 784, 28, 1, 1, NULL));
  CUDA_REFUSED(launch_augment(d, d + 784, 1, 783, 28, 1, 1, NULL));
  CUDA_REFUSED(launch_augment(d, d + 784, 1, 768, 28, 1, 1, NULL));
  CUDA_REFUSED(launch_augment(d, d + 784, 1, 784, 0, 1, 1, NULL));
  CUDA_REFUSED(launch_augment(d, d + 784, 1, 65 * 80, 65, 1, 1, NULL));
  CUDA_REFUSED(launch_augment(d, d + 784, 1, 784, 28, 16, 1, NULL));
  CUDA_REFUSED(launch_augment(d, d + 784, 1, 784, 28, -1, 1, NULL));
  uint8_t bytes[2 * 784];
  CUDA_OK(cudaMemcpy(bytes, d, sizeof bytes, cudaMemcpyDeviceToHost));
  assert_true(is_poison(bytes, sizeof bytes));
  CUDA_OK(cudaGetLastError());
  CUDA_OK(cudaFree(d));
}

#endif

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_identity),
      cmocka_unit_test(test_whole_pixels),
      cmocka_unit_test(test_between_pixels),
      cmocka_unit_test(test_quarter_turn),
      cmocka_unit_test(test_outside_is_zero),
      cmocka_unit_test(test_splines),
      cmocka_unit_test(test_displacements),
      cmocka_unit_test(test_side),
      cmocka_unit_test(test_each_kind_draws_its_own),
      cmocka_unit_test(test_elastic_strength),
      cmocka_unit_test(test_ink_is_kept),
      cmocka_unit_test(test_key_and_row_draw),
      cmocka_unit_test(test_cpu_engine),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_cuda_engine),
#ifdef HAVE_CUDA
      cmocka_unit_test(test_kernel),
      cmocka_unit_test(test_kernel_refuses),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
