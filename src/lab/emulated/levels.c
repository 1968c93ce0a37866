/* Runs one training step at levels none and layer on the emulator, which counts what each kernel
   asks of memory. The functions of the levels are those of the CUDA engine. */
#include "lab/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/sizes.h"
#include "engine/cuda/around.h"
#include "measure/cuda/rung.h"

enum { INPUTS = 784, CLASSES = 10, SECTOR = 32 };
enum { ARRAYS = 2 * NETWORK_MAX_LAYERS + 16 };

/* The arrays of one run of a step. */
typedef struct {
  EngineConfig config;
  Pass pass;
  LayerArrays arrays;
  Around around;
  void *taken[ARRAYS];
  int count;
} Step;

/* Returns device memory with `count` elements of 4 bytes, which are zeros. Findings use its name.
 */
static void *take(Step *s, const char *name, size_t rows, size_t columns) {
  void *memory = NULL;
  if (cudaMalloc(&memory, rows * columns * 4) != cudaSuccess) return NULL;
  memset(memory, 0, rows * columns * 4); /* device memory is host memory here */
  emulator_name(memory, name, (int)rows, (int)columns, 4, false);
  return s->taken[s->count++] = memory;
}

/* Fills in a batch of random pixels, and its labels. */
static bool take_rows(Step *s, size_t rows) {
  BatchView *batch = &s->pass.batch;
  batch->stride = engine_row_stride(INPUTS);
  batch->rows = (int)rows;
  uint8_t *pixels = take(s, "pixels", rows, batch->stride / 4);
  uint16_t *labels = take(s, "labels", rows, 1);
  uint32_t *order = take(s, "order", rows, 1);
  if (!pixels || !labels || !order) return false;
  for (size_t r = 0; r < rows; r++) {
    for (size_t i = 0; i < INPUTS; i++) {
      const uint32_t random = random_words(1, r, i).word[0];
      pixels[r * batch->stride + i] = random % 5 ? 0 : (uint8_t)(random >> 24); /* most are black */
    }
    labels[r] = (uint16_t)(r % CLASSES);
    order[r] = (uint32_t)r;
  }
  batch->d_pixels = pixels, batch->d_labels = labels, batch->d_order = order;
  return true;
}

/* Allocates what the engine would (engine_cuda_open.c). */
static bool open_step(Step *s, const Level *level) {
  const Network *n = &s->config.network;
  const size_t rows = (size_t)s->config.training.batch;
  Pass *p = &s->pass;
  LayerArrays *a = &s->arrays;
  *p = (Pass){.config = &s->config,
              .level = level,
              .inner = level,
              .around = &s->around,
              .trains = true,
              .precision = PRECISION_FP32,
              .arrays = a};
  if (!take_rows(s, rows)) return false;
  for (int l = 1; l <= n->layers; l++) {
    a->d_activation[l] = take(s, "activations", rows, (size_t)n->size[l]);
    a->d_delta[l] = take(s, "gradient of activations", rows, (size_t)n->size[l]);
    if (!a->d_activation[l] || !a->d_delta[l]) return false;
  }
  if (level->unfused) {
    a->d_x = take(s, "pixels as floats", rows, INPUTS);
    a->d_gradient = take(s, "gradient of weights", n->floats, 1);
    if (!a->d_x || !a->d_gradient) return false;
  }
  StepState *state = take(s, "state", sizeof *state / 4, 1);
  a->d_scratch = take(s, "scratch", ceil_div(level->scratch(&s->config, (int)rows), 4), 1);
  p->d_parameters = take(s, "weights", n->floats, 1);
  p->d_momentum = take(s, "momentum", n->floats, 1);
  p->results.d_loss = take(s, "losses", rows, 1);
  p->results.d_correct = take(s, "correct", rows, 1);
  p->batch.d_state = state;
  if (!state || !a->d_scratch || !p->d_parameters || !p->d_momentum || !p->results.d_loss ||
      !p->results.d_correct)
    return false;
  network_initialise(n, 1, p->d_parameters);
  *state = (StepState){.end = (uint32_t)rows,
                       .learning_rate = training_base_rate(&s->config.training),
                       .rule = s->config.training.rule};
  return true;
}

static void close_step(const Step *s) {
  for (int i = 0; i < s->count; i++) cudaFree(s->taken[i]);
}

/* ---- counts ---------------------------------------------------------------------------------- */

static json_t *kernels;       /* of the step that runs: a row for each kernel */
static EmulatorCounts before; /* the counts before the launch that has ended */

static void add(json_t *row, const char *key, double more) {
  const double sum = number_of(row, key);
  record_number(row, key, more + (isnan(sum) ? 0 : sum));
}

/* Adds the counts of a launch to the kernel's row. */
static void count_launch(const char *kernel) {
  const EmulatorCounts now = emulator_counts();
  json_t *found = NULL;
  foreach_in (row, kernels)
    if (text_is(row, "kernel", kernel)) found = row;
  if (!found) {
    found = json_pack("{ss}", "kernel", kernel);
    json_array_append_new(kernels, found);
  }
  add(found, "launches", (double)(now.launches - before.launches));
  add(found, "moved_mb", (double)(now.bytes_once - before.bytes_once) / 1e6);
  add(found, "asked_mb", SECTOR * (double)(now.sectors - before.sectors) / 1e6);
  add(found, "requests", (double)(now.requests - before.requests));
  add(found, "turns", (double)(now.turns - before.turns));
  before = now;
}

static void count_step(json_t *line) {
  const EmulatorCounts c = emulator_counts();
  const double moved = (double)c.bytes_once / 1e6, asked = SECTOR * (double)c.sectors / 1e6;
  record_number(line, "launches", (double)c.launches);
  record_number(line, "moved_mb", moved);
  record_number(line, "asked_mb", asked);
  record_number(line, "times_moved", asked / moved);
  record_number(line, "sectors_per_request", (double)c.sectors / (double)c.requests);
  record_number(line, "turns", (double)c.turns);
  foreach_in (row, kernels) {
    record_number(row, "percent", 100 * number_of(row, "moved_mb") / moved);
    record_number(row, "sectors_per_request",
                  number_of(row, "asked_mb") * 1e6 / SECTOR / number_of(row, "requests"));
    json_object_del(row, "requests");
  }
  json_object_set(line, "rows", kernels);
}

/* ---- the levels ------------------------------------------------------------------------------ */

static const struct {
  Fusion fusion;
  const Level *level; /* NULL if the emulator cannot run the level */
  const char *reason;
} levels[] = {
    {FUSION_NONE, &level_none, NULL},
    {FUSION_LAYER, &level_layer, NULL},
    {FUSION_STEP, NULL,
     "it runs the kernels of level layer, so it moves the same bytes; the emulator has no "
     "CUDA graphs, which save launches of the host"},
    {FUSION_EPOCH, NULL,
     "its blocks wait for each other's mail, but the emulator runs one block after "
     "another, and has no clusters"}};

/* Sets "check": WRONG if a kernel broke a rule, or if the weights are not those of level none. One
   hidden value that is rounded to the other side of 0 may change a row's part of a gradient. */
static void judge(json_t *line, const Step *s, const float *expected) {
  static const double ALLOWED = 0.01;
  char note[sizeof(ShortText)];
  double apart = 0, moved = 0;
  float *start = malloc(s->config.network.floats * sizeof *start);
  if (!start) return;
  network_initialise(&s->config.network, 1, start);
  for (size_t i = 0; i < s->config.network.floats; i++) {
    apart += pow((double)s->pass.d_parameters[i] - (double)expected[i], 2);
    moved += pow((double)expected[i] - (double)start[i], 2);
  }
  free(start);
  emulator_told(false, 1, note, sizeof note);
  note[strcspn(note, "\n")] = '\0';
  if (!*note && !(sqrt(apart) <= ALLOWED * sqrt(moved)))
    strcpy(note, "its weights are not those of level none");
  record_text(line, "check", *note ? LAB_WRONG : LAB_RIGHT);
  record_text(line, "note", *note ? note : NULL);
}

/* Runs one step and adds its counts to the line. The first level's weights become *expected. */
static bool run_level(json_t *line, const Level *level, const EngineConfig *config,
                      float **expected, Error *error) {
  Step step = {.config = *config};
  const size_t bytes = config->network.floats * sizeof **expected;
  bool good = open_step(&step, level);
  if (!good) error_set(error, "no memory for a step of %s", network_text(&config->network).text);
  kernels = json_array();
  before = (EmulatorCounts){0};
  emulator_forget();
  emulator_after_launch(count_launch);
  good = good && cuda_done(level->train(&step.pass, 1), "a training step", error);
  emulator_after_launch(NULL);
  if (good) {
    count_step(line);
    if (!*expected && (*expected = malloc(bytes))) memcpy(*expected, step.pass.d_parameters, bytes);
    if (*expected) judge(line, &step, *expected);
  }
  json_decref(kernels);
  close_step(&step);
  return good;
}

bool lab_count_levels(Record *record, const HiddenSizes *hidden, int batch, Error *error) {
  static const double MOST = 2.5e8; /* multiply-adds: minutes on the emulator, and wide on a GPU */
  EngineConfig config = {.training = {.batch = batch,
                                      .schedule.rate = NAN,
                                      .rule = {.kind = OPTIMIZER_SGD, .momentum = 0.9f}}};
  const Network *n = &config.network;
  float *expected = NULL;
  bool good = network_init(&config.network, INPUTS, hidden->size, hidden->count, CLASSES, error);
  if (good && (double)n->parameters * batch > MOST)
    good = error_set(error,
                     "%s at batch %d would take the emulator long: rows times parameters may be "
                     "at most %.0f million; give a smaller --batch or --hidden",
                     network_text(n).text, batch, MOST / 1e6);
  for (size_t i = 0; good && i < LENGTH(levels); i++) {
    json_t *line =
        json_pack("{ss ss ss si}", "case", "level", "fusion", training_fusions[levels[i].fusion],
                  "network", network_text(n).text, "batch", batch);
    record_text(line, "reason", levels[i].reason);
    good = !levels[i].level || run_level(line, levels[i].level, &config, &expected, error);
    record_add(record, line);
  }
  free(expected);
  return good && record_good(record, error);
}
