/* Runs level epoch's unchanged kernel on the CPU, with random schedules, late mail, and networks
   and GPUs of several sizes. Planted faults show that these tests find faults. */
#include "base/clock.h"
#include "base/random.h"
#include "base/sizes.h"
#include "support/network_reference.h"
#include "support/test.h"

#ifdef HAVE_EMULATOR

#include "support/epoch_parts.h"
#include "support/schedules.h"

/* ---- a trial -------------------------------------------------------------------------------- */

typedef struct {
  int layers, size[TILES_LAYERS + 1], batch;
  int multiprocessors, kilobytes; /* multiprocessors of the GPU, and its shared memory per block */
  int kind;                       /* OPTIMIZER_... */
  float dropout, smoothing;
  uint32_t first_step; /* number of the first step to train */
  uint32_t rows;       /* number of rows of the shuffled epoch; training ends with its last row */
  uint32_t split; /* step at which runs with odd seeds begin a second launch; it is a multiple of
                     EPOCH_DIRECT; 0 means no second launch */
  uint64_t seed;  /* seed of the network and the rows */
} EpochCase;

/* Kilobytes of shared memory of a simulated GPU that runs one cluster of blocks at a time. Two
   hidden layers would need two clusters, so they send results to the head by mail. */
enum { HOPPER = 227 };

/* Bounds for float32 sums of hundreds of products. The largest measured errors are 3e-6 of the
   distance that training moved the weights, and 5e-7 of a row's loss. */
static const double WAY_BOUND = 2e-5, LOSS_BOUND = 1e-5;
/* Adam divides a gradient by its size, so a gradient near 0 moves a weight as far as any other
   gradient. Such a gradient is inexact, since it is a small difference of large products. */
static const double ADAM_BOUND = 4e-4;

/* The report of a run with a number that is too large for fp16. An engine would repeat the run. */
#define BEYOND_FP16 "a number is beyond fp16\n"

/* The output of a launch, in one block of memory. `state` holds the optimizer's arrays. */
typedef struct {
  float *parameters, *state, *loss;
  uint8_t *correct;
} Outcome;

/* A trial trains a random network on random rows for some steps, several times with different
   schedules. Each run is compared with float64 and, bit by bit, with the first run. */
static EpochCase trial;
static const float learning_rate = 0.01F, weight_decay = 1e-3F;
static TilesPlan plan;
static EngineConfig config;
static const Network *const network = &config.network;
static uint32_t end_step;
static size_t stride, outcome_bytes;
static uint8_t *pixels;
static uint16_t *labels;
static uint32_t *order, overflowed;
static Outcome start, now;
static void *first_outcome;          /* the first run's Outcome; NULL before that run */
static double *parameters, *moments; /* results of the reference */
static EngineSums first_step;        /* the reference's sums of the first step */

/* Returns zeroed memory that begins at a multiple of 128 bytes, as mail must. */
static void *aligned(size_t count, size_t size) {
  enum { BOUNDARY = 128 };
  const size_t bytes = round_up(count * size, BOUNDARY);
  return memset(keep(aligned_alloc(BOUNDARY, bytes)), 0, bytes);
}

static Outcome new_outcome(void) {
  const size_t floats = network->floats;
  float *block = aligned(outcome_bytes, 1),
        *loss = block + (1 + training_moments(&config.training)) * floats;
  return (Outcome){block, block + floats, loss, (uint8_t *)(loss + trial.rows)};
}

/* Draws the parameters and the rows. Four pixels in five are 0, as in pictures of digits. The first
   pixel of each row is 0. */
static void draw_rows(void) {
  network_initialise(network, trial.seed, start.parameters);
  double *values = allocate(network->floats, sizeof *values);
  reference_fill(values, network->floats, -0.01, 0.01, trial.seed + 1);
  for (int l = 0; l < network->layers; l++) { /* the padding stays 0 */
    const size_t out = (size_t)network->size[l + 1], bias = network->bias[l];
    reference_to_float(values + bias, out, start.parameters + bias);
  }
  /* Momenta start as denormal numbers, as after a thousand steps with gradient 0. Their bits must
     not depend on how a range is cut into launches. */
  for (size_t i = 0; i < network->floats; i++) start.state[i] = 1e-40F * (float)((int)(i % 3) - 1);
  pixels = aligned(trial.rows, stride);
  labels = aligned(trial.rows, sizeof *labels);
  order = aligned(trial.rows, sizeof *order);
  reference_fill_pixels(pixels, trial.rows * stride, trial.seed);
  for (size_t i = 0; i < trial.rows * stride; i++)
    if (i % stride == 0 || random_words(trial.seed, 1, i).word[0] % 5 != 0) pixels[i] = 0;
  reference_fill_labels(labels, trial.rows, trial.size[trial.layers], trial.seed);
  for (uint32_t p = 0; p < trial.rows; p++) order[p] = random_permute(p, trial.rows, trial.seed);
}

/* Trains the reference. Sets first_step to the sums of its first step. */
static void train_reference(void) {
  const size_t floats = network->floats;
  EngineSums others = {0};
  TrainRange range = {.rows = trial.rows,
                      .shuffled = true,
                      .key = trial.seed,
                      .first_step = trial.first_step,
                      .steps = 1,
                      .learning_rate = learning_rate,
                      .dropout_key = trial.seed};
  parameters = allocate(floats, sizeof(double));
  moments = allocate(training_states(&config.training) * floats, sizeof(double));
  reference_to_double(start.parameters, floats, parameters);
  reference_to_double(start.state, floats, moments);
  for (; range.first_step < end_step; range.first_step++) {
    range.updates = range.first_step;
    reference_train(&config, parameters, moments, pixels, stride, labels, &range,
                    range.first_step == trial.first_step ? &first_step : &others);
  }
}

/* Sets what launch_tiles needs besides the plan. */
static void plan_training(const EpochCase *of) {
  const PixelFactor by = training_pixel_factor(&config.training);
  plan.steps = EPOCH_DIRECT;
  plan.smoothing = of->smoothing;
  plan.pixel_factor = by.factor;
  plan.pixel_offset = by.offset;
  for (int l = 0; l < network->layers; l++) {
    plan.weight[l] = network->weight[l];
    plan.bias[l] = network->bias[l];
    plan.dropout[l] = l < network->layers - 1 ? of->dropout : 0;
  }
  plan.d_parameters = now.parameters;
  plan.d_first = now.state;
  plan.d_second = plan.shape.second ? now.state + network->floats : NULL;
  plan.results = (RowResults){now.loss, now.correct};
  plan.d_overflowed = &overflowed;
  plan.d_mail = aligned(plan.mail_bytes, 1);
  plan.d_work = aligned(tiles_work_bytes(&plan), 1);
}

/* Prepares a trial. Returns false and sets `error` if the plan refuses the case. */
static bool begin_trial(const EpochCase *of) {
  const int hopper = of->kilobytes == HOPPER;
  const GpuLimits limits = {.capability = hopper ? 90 : 80,
                            .multiprocessors = of->multiprocessors,
                            .shared_bytes = (size_t)of->kilobytes << 10,
                            .clusters = hopper};
  TilesShape shape = {.layers = of->layers,
                      .batch = of->batch,
                      .second = optimizer_has_second(of->kind),
                      .drops = of->dropout > 0};
  free_kept();
  memcpy(shape.size, of->size, sizeof shape.size);
  const char *why_not = plan_tiles(shape, &limits, &plan);
  if (why_not) return error_set(&error, "%s", why_not);
  trial = *of;
  first_outcome = NULL;
  first_step = (EngineSums){0};
  stride = round_up((size_t)of->size[0], 16);
  end_step = (uint32_t)ceil_div(of->rows, (uint32_t)of->batch);
  config.training = (Training){.batch = of->batch,
                               .label_smoothing = of->smoothing,
                               .dropout = {.share = {of->dropout}, .count = 1},
                               .rule = {.kind = of->kind,
                                        .momentum = 0.9F,
                                        .beta1 = 0.9F,
                                        .beta2 = 0.999F,
                                        .epsilon = 1e-8F,
                                        .weight_decay = of->split ? 0 : weight_decay}};
  OK(network_init(&config.network, of->size[0], of->size + 1, of->layers - 1, of->size[of->layers],
                  &error));
  outcome_bytes =
      ((1 + training_moments(&config.training)) * network->floats + of->rows) * sizeof(float) +
      of->rows;
  start = new_outcome();
  now = new_outcome();
  plan_training(of);
  draw_rows();
  train_reference();
  return true;
}

/* Trains steps first to last - 1. Returns false if training failed. */
static bool train_steps(uint32_t first, uint32_t last, FILE *said) {
  const uint32_t batch = (uint32_t)trial.batch, end = last * batch;
  const BatchView view = {
      .d_pixels = pixels, .d_labels = labels, .d_order = order, .stride = stride};
  const StepState state = {.position = first * batch,
                           .end = end < trial.rows ? end : trial.rows,
                           .learning_rate = learning_rate,
                           .dropout_key = trial.seed,
                           .rule = config.training.rule};
  const cudaError_t status = launch_tiles(&plan, view, state, NULL);
  if (status == cudaErrorLaunchFailure) fputs(schedules_report(), said);
  if (status == cudaErrorInvalidValue) fputs("the launcher refuses the job\n", said);
  return status == cudaSuccess;
}

/* Returns ||out - ref|| / (||ref - from|| + ||ref|| / 100). Training moved the values by ||ref -
   from||. The second term allows for rounding if that distance is tiny. */
static double way_error(const float *out, const double *ref, const float *from, size_t count) {
  double difference = 0, way = 0, size = 0;
  for (size_t i = 0; i < count; i++) {
    difference += ((double)out[i] - ref[i]) * ((double)out[i] - ref[i]);
    way += (ref[i] - (double)from[i]) * (ref[i] - (double)from[i]);
    size += ref[i] * ref[i];
  }
  return isfinite(difference) ? sqrt(difference) / (sqrt(way) + sqrt(size) / 100) : INFINITY;
}

static void judge(FILE *said, const char *of, const char *what, double off, double bound) {
  if (!(off <= bound))
    fprintf(said, "%s%s: error %.1e, at most %.1e is right\n", of, what, off, bound);
}

static void judge_tensor(FILE *said, const char *what, size_t at, size_t count) {
  const double bound = plan.shape.second ? ADAM_BOUND : WAY_BOUND;
  judge(said, "", what,
        way_error(now.parameters + at, parameters + at, start.parameters + at, count), bound);
  judge(said, "momentum of ", what, reference_relative_error(now.state + at, moments + at, count),
        WAY_BOUND);
}

static void judge_outcome(FILE *said) {
  for (int l = 0; l < network->layers; l++) {
    const size_t in = (size_t)network->size[l], out = (size_t)network->size[l + 1];
    judge_tensor(said, text_format("W%d", l + 1).text, network->weight[l], out * in);
    judge_tensor(said, text_format("b%d", l + 1).text, network->bias[l], out);
  }
  double loss = 0; /* sum over the first step's rows; all parameters contribute to it */
  uint64_t correct = 0;
  const uint32_t from = trial.first_step * (uint32_t)trial.batch;
  for (uint32_t p = from; p < from + (uint32_t)first_step.rows; p++) {
    loss += (double)now.loss[p];
    correct += now.correct[p];
  }
  judge(said, "", "loss", fabs(loss / first_step.loss - 1), LOSS_BOUND);
  if (correct != first_step.correct) fputs("rows that are right are others\n", said);
  if (!first_outcome)
    first_outcome = memcpy(allocate(outcome_bytes, 1), now.parameters, outcome_bytes);
  if (memcmp(now.parameters, first_outcome, outcome_bytes) != 0)
    fputs("other bits than under the first schedule\n", said);
}

/* Trains with the schedule and faults of `how`. Returns lines that say what went wrong, or "". */
static const char *run_trial(DrawnLaunch how) {
  const uint32_t last = end_step;
  const uint32_t split = how.seed % 2 && trial.split ? trial.split : last;
  FILE *said = text_open();
  memcpy(now.parameters, start.parameters, outcome_bytes);
  memset(plan.d_mail, 0, plan.mail_bytes);
  OK(open_tiles(&plan) == cudaSuccess); /* the first stamp again */
  overflowed = 0;
  memset(plan.d_work, 0xff, tiles_work_bytes(&plan)); /* NaN */
  schedules_draw(true);
  drawn_launch = how;
  drawn_launch.mail = plan.d_mail;
  drawn_launch.mail_bytes = plan.mail_bytes;
  drawn_launch.stamps = epoch_stamps(&plan);
  if (train_steps(trial.first_step, split, said) &&
      (split == last || train_steps(split, last, said)))
    overflowed ? fputs(BEYOND_FP16, said) : judge_outcome(said);
  return text_close(said);
}

static const struct {
  EpochCase of;
  uint32_t schedules;
} cases[] = {
    /* layers have one or two tiles, all partly empty; the last batch is short */
    {{2, {100, 12, 10}, 32, 8, 99, OPTIMIZER_SGD, .rows = 3 * 32 + 9, .seed = 1}, 4},
    /* few blocks for batches of 64 rows; the last batch has one row */
    {{2, {784, 20, 12}, 64, 5, 163, OPTIMIZER_NESTEROV, .rows = 2 * 64 + 1, .seed = 2}, 2},
    {{3, {50, 30, 20, 10}, 32, 12, 99, OPTIMIZER_SGD, .rows = 3 * 32, .seed = 3}, 4},
    {{3, {100, 45, 12, 9}, 64, 12, 99, OPTIMIZER_ADAM, .rows = 2 * 64 + 1, .seed = 4}, 2},
    {{4, {100, 24, 17, 9, 7}, 20, 11, 99, OPTIMIZER_ADAMW, .rows = 3 * 20, .seed = 5}, 2},
    /* dropout and label smoothing */
    {{3, {60, 24, 16, 3}, 32, 8, 163, OPTIMIZER_SGD, 0.3F, 0.1F, .rows = 90, .seed = 6}, 3},
    /* the kernel computes Z1 before W1 is known (tiles.cu); two layers need two clusters */
    {{3, {784, 20, 12, 10}, 64, 12, HOPPER, OPTIMIZER_SGD, .rows = 3 * 64 + 9, .seed = 7}, 3},
    {{4, {50, 12, 17, 5, 3}, 32, 12, HOPPER, OPTIMIZER_NESTEROV, .rows = 5 * 32, .seed = 8}, 3},
    {{3, {100, 45, 12, 9}, 64, 12, HOPPER, OPTIMIZER_ADAM, .rows = 2 * 64 + 1, .seed = 4}, 1},
    {{3, {50, 12, 5, 3}, 9, 18, HOPPER, .first_step = 62, .rows = 66 * 9, .split = 64, .seed = 5},
     4},
    /* one hidden layer of two clusters: its updates start after the next H */
    {{2, {60, 130, 12}, 64, 24, HOPPER, OPTIMIZER_SGD, .rows = 4 * 64 + 9, .seed = 17}, 3},
    {{2, {60, 130, 5}, 20, 19, HOPPER, .first_step = 61, .rows = 66 * 20, .seed = 18}, 2},
    /* 128 rows by mail, with one hidden layer of two clusters and with two hidden layers */
    {{2, {784, 130, 12}, 128, 24, HOPPER, OPTIMIZER_NESTEROV, .rows = 128 + 77, .seed = 9}, 2},
    {{3, {300, 20, 17, 10}, 128, 9, HOPPER, .dropout = 0.3F, .rows = 2 * 128 + 9, .seed = 10}, 3},
    {{4, {50, 12, 9, 5, 3}, 100, 12, HOPPER, .smoothing = 0.1F, .rows = 3 * 100, .seed = 11}, 3},
    /* no hidden layers: two tiles of classes, one tile, 128 rows, second moments */
    {{1, {784, 10}, 64, 2, HOPPER, OPTIMIZER_SGD, .rows = 5 * 64 + 9, .seed = 12}, 3},
    {{1, {50, 16}, 32, 2, HOPPER, OPTIMIZER_NESTEROV, .smoothing = 0.1F, .rows = 100, .seed = 13},
     3},
    {{1, {300, 5}, 64, 1, HOPPER, .first_step = 62, .rows = 66 * 64, .split = 64, .seed = 14}, 2},
    {{1, {60, 10}, 100, 2, HOPPER, OPTIMIZER_SGD, .rows = 3 * 100 + 7, .seed = 15}, 3},
    {{1, {60, 10}, 40, 2, HOPPER, OPTIMIZER_ADAM, .rows = 3 * 40 + 7, .seed = 16}, 3},
    /* a second launch */
    {{3, {50, 12, 5, 3}, 9, 18, 163, .first_step = 62, .rows = 66 * 9, .split = 64, .seed = 5}, 4},
};

TEST(test_schedules) {
  foreach (c, cases) {
    OK(begin_trial(&c->of));
    for (uint32_t seed = 0; seed < c->schedules; seed++) {
      const char *wrong = run_trial((DrawnLaunch){.seed = seed});
      if (*wrong) fail_msg("case %td, schedule %u: %s", c - cases, seed, wrong);
    }
  }
}

/* Every optimizer, with a hidden layer in the middle, a short batch and Z1 known late or early. */
TEST(test_every_optimizer) {
  for (int kind = 0; kind < OPTIMIZERS; kind++)
    foreach (kilobytes, VALUES(int, 163, HOPPER)) {
      OK(begin_trial(&(EpochCase){
          3, {50, 12, 17, 5}, 32, 12, *kilobytes, kind, .rows = 2 * 32 + 9, .seed = 10}));
      const char *wrong = run_trial((DrawnLaunch){.seed = 1});
      if (*wrong) fail_msg("optimizer %d with %d KB: %s", kind, *kilobytes, wrong);
    }
}

static uint64_t seed, counter; /* seed of the case; number of random numbers drawn so far */

/* Returns a random number from low to high, both included. */
static int draw_from(int low, int high) {
  const uint32_t word = random_words(seed, 0x6d61696c /* "mail" */, counter++).word[0];
  return low + (int)(word % (uint32_t)(high - low + 1));
}

static EpochCase draw_case(void) {
  static const int kilobytes[] = {99, 163, HOPPER};
  EpochCase of = {.seed = seed};
  counter = 0;
  of.layers = draw_from(1, 5);
  of.size[0] = draw_from(1, 784);
  for (int l = 1; l < of.layers; l++) of.size[l] = draw_from(1, draw_from(0, 3) ? 30 : 80);
  of.size[of.layers] = draw_from(2, 12);
  of.batch = draw_from(0, 1) ? 32 << draw_from(0, 2) : draw_from(1, 128);
  of.kind = draw_from(0, OPTIMIZERS - 1);
  of.dropout = draw_from(0, 3) ? 0.0F : 0.4F;
  of.smoothing = draw_from(0, 3) ? 0.0F : 0.1F;
  of.multiprocessors = draw_from(3, 30);
  of.kilobytes = kilobytes[draw_from(0, 2)];
  const int steps = draw_from(1, 5), first = draw_from(0, 1) ? 64 - draw_from(1, 3) : 0;
  of.first_step = (uint32_t)first;
  of.rows = (uint32_t)((first + steps - 1) * of.batch + draw_from(1, of.batch));
  of.split = first + steps > 64 ? 64 : 0;
  return of;
}

/* Runs random cases for $MINUTES minutes, or one case. $SEED is the seed of the first case; each
   later case has the next seed. */
TEST(test_random_cases) {
  const char *minutes = getenv("MINUTES"), *first = getenv("SEED");
  const double end = seconds_now() + (minutes ? 60 * atof(minutes) : 0);
  const uint32_t schedules = minutes ? 20 : 2; /* number of schedules per case */
  uint64_t planned = 0, beyond = 0;
  for (seed = first ? strtoull(first, NULL, 10) : 1; !planned || seconds_now() < end; seed++) {
    const EpochCase of = draw_case();
    if (!begin_trial(&of)) continue;
    planned++;
    for (uint32_t i = (uint32_t)seed; i < (uint32_t)seed + schedules; i++) {
      const char *wrong = run_trial((DrawnLaunch){.seed = i});
      beyond += strcmp(wrong, BEYOND_FP16) == 0;
      if (!*wrong || strcmp(wrong, BEYOND_FP16) == 0) continue;
      fail_msg("schedule %u:\n%s\nSEED=%llu repeats it", i, wrong, (unsigned long long)seed);
    }
  }
  printf("level epoch on the emulator: %llu schedules of %llu cases, %llu beyond fp16, the others "
         "right, %llu packets\n",
         (unsigned long long)(schedules * planned), (unsigned long long)planned,
         (unsigned long long)beyond, (unsigned long long)schedules_packets());
}

/* `little` is a small case. In `ahead`, the kernel computes Z1 before W1 is known (tiles.cu). */
static const EpochCase little = {3, {30, 40, 20, 3}, 32, 12, 99, .rows = 3 * 32, .seed = 5},
                       ahead = {3, {30, 40, 20, 3}, 32, 12, HOPPER, .rows = 5 * 32, .seed = 5};

/* Tries several schedules with seeds from how.seed on. One of them must find the fault, with a
   report that contains `as`. */
static void assert_found(const char *fault, const EpochCase *of, DrawnLaunch how,
                         uint32_t schedules, const char *as) {
  OK(begin_trial(of));
  for (uint32_t i = 0; i < schedules; i++, how.seed++) {
    const char *wrong = run_trial(how);
    if (!*wrong) continue;
    assert_in(wrong, as);
    return;
  }
  fail_msg("%s: %u schedules did not show it", fault, schedules);
}

TEST(test_finds_barrier_left_out) {
  foreach (barrier, epoch_barriers) {
    const DrawnLaunch how = {.barrier_left_out = barrier->id};
    assert_found(barrier->name, &ahead, how, 24, "");
    if (barrier->elsewhere) assert_found(barrier->name, &little, how, 8, "");
  }
}

/* With one buffer of mail instead of two, a thread that is a step ahead overwrites unread mail. */
TEST(test_finds_buffer_too_few) {
  for (int i = 0; i < EPOCH_BUFFERS; i++) {
    OK(begin_trial(&little));
    const EpochBuffers b = epoch_buffers(&plan, i);
    assert_found(b.name, &little, (DrawnLaunch){.buffer_at = b.first, .buffer = b.packets}, 24, "");
  }
}

/* Without hidden layers the chain needs a barrier of its own before it replaces K, and the tiles
   need two buffers of logits: (buffer, 8 rows, tile, lane). */
TEST(test_finds_faults_without_hidden_layers) {
  static const EpochCase of = {1, {30, 10}, 32, 2, HOPPER, .rows = 5 * 32, .seed = 5};
  const DrawnLaunch barrier = {.barrier_left_out = EPOCH_K_BARRIER},
                    buffer = {.buffer_at = 0, .buffer = 32 / 8 * 2 * 32};
  assert_found("K is replaced too early", &of, barrier, 24, "");
  assert_found("one buffer of logits", &of, buffer, 24, "");
}

/* If a packet is sent with the previous step's stamp, its reader waits forever. If a reader takes
   the previous step's packet for a new packet, the reader computes with old values. */
TEST(test_finds_old_mail) {
  const DrawnLaunch sent = {.stamp_too_low = schedules_packets() + 300},
                    read = {.read_too_early = 100};
  assert_found("a packet of the step before is sent", &little, sent, 1,
               "wait for mail, the first for packet ");
  assert_found("a packet of the step before is taken", &little, read, 4, "error");
}

#else

TEST(test_schedules) {
  skip_because("there is no C++ compiler");
}
#endif
