/* Level epoch's kernel as it is, on the CPU: random schedules, mail that comes late, networks and
   GPUs of several sizes. Planted faults show that what could go wrong would be seen. */
#include "base/clock.h"
#include "base/random.h"
#include "base/sizes.h"
#include "exercise/reference.h"
#include "support/test.h"

#ifdef HAVE_EMULATOR

#include "support/epoch_parts.h"
#include "support/schedules.h"

/* ---- a trial -------------------------------------------------------------------------------- */

typedef struct {
  EpochShape shape;
  int multiprocessors, kilobytes; /* of the GPU that is planned for; KB of shared memory */
  uint32_t first_step;            /* trains from here */
  uint32_t rows;                  /* to here, of a shuffled epoch */
  uint32_t split;                 /* of every second trial, the step that a second launch begins
                                     with, a multiple of EPOCH_DIRECT; 0: one launch */
  uint64_t seed;                  /* of the network and the rows */
} EpochCase;

/* float32 sums of some hundred products: measured was at most 3e-6 of the way that training went,
   and 5e-7 of a row's loss. */
static const double WAY_BOUND = 2e-5, LOSS_BOUND = 1e-5;

/* What a launch writes, in one block of memory. */
typedef struct {
  float *parameters, *momentum, *loss;
  uint8_t *correct;
} Outcome;

/* A trial: some training steps on a random network and random rows, under one schedule after the
   other, each judged against float64 and, bit by bit, against the first one. */
static EpochCase trial;
static const UpdateRule rule = {0.9F, 1e-3F};
static const float learning_rate = 0.05F;
static EpochPlan plan;
static EngineConfig config;
static const Network *const network = &config.network;
static uint32_t end_step;
static size_t stride, outcome_bytes;
static uint8_t *pixels;
static uint16_t *labels;
static uint32_t *order;
static float *gram;
static void *mail;
static Outcome start, now;
static void *first_outcome;           /* all of it; NULL: there was none yet */
static double *parameters, *momentum; /* the reference's */
static EngineSums first_step;         /* what the reference counts in it */

/* Returns zeros on a boundary that mail may begin at. */
static void *aligned(size_t count, size_t size) {
  enum { BOUNDARY = 128 };
  const size_t bytes = round_up(count * size, BOUNDARY);
  return memset(keep(aligned_alloc(BOUNDARY, bytes)), 0, bytes);
}

static Outcome new_outcome(void) {
  const size_t floats = network->floats;
  float *block = aligned(outcome_bytes, 1), *loss = block + 2 * floats;
  return (Outcome){block, block + floats, loss, (uint8_t *)(loss + trial.rows)};
}

/* The network, its momentum, and rows of which four pixels in five are 0, as in a picture. */
static void draw_rows(void) {
  network_initialise(network, trial.seed, start.parameters);
  double *values = allocate(network->floats, sizeof *values);
  reference_fill(values, network->floats, -0.01, 0.01, trial.seed + 1);
  for (int l = 0; l < network->layers; l++) { /* the padding stays 0 */
    const size_t out = (size_t)network->size[l + 1], in = (size_t)network->size[l];
    const size_t weight = network->weight[l], bias = network->bias[l];
    reference_to_float(values + weight, out * in, start.momentum + weight);
    reference_to_float(values + bias, out, start.momentum + bias);
    reference_to_float(values + bias, out, start.parameters + bias);
  }
  pixels = aligned(trial.rows, stride);
  labels = aligned(trial.rows, sizeof *labels);
  order = aligned(trial.rows, sizeof *order);
  reference_fill_pixels(pixels, trial.rows * stride, trial.seed);
  for (size_t i = 0; i < trial.rows * stride; i++)
    if (random_words(trial.seed, 1, i).word[0] % 5 != 0) pixels[i] = 0;
  reference_fill_labels(labels, trial.rows, trial.shape.classes, trial.seed);
  for (uint32_t p = 0; p < trial.rows; p++) order[p] = random_permute(p, trial.rows, trial.seed);
}

/* Trains the steps, the first of which it counts. */
static void train_reference(void) {
  const size_t floats = network->floats;
  EngineSums others = {0};
  TrainRange range = {.rows = trial.rows,
                      .shuffled = true,
                      .key = trial.seed,
                      .first_step = trial.first_step,
                      .steps = 1,
                      .learning_rate = learning_rate};
  parameters = allocate(floats, sizeof(double));
  momentum = allocate(floats, sizeof(double));
  reference_to_double(start.parameters, floats, parameters);
  reference_to_double(start.momentum, floats, momentum);
  for (; range.first_step < end_step; range.first_step++)
    reference_train(&config, parameters, momentum, pixels, stride, labels, &range,
                    range.first_step == trial.first_step ? &first_step : &others);
}

/* False if the plan refuses the case: `error` says why. */
static bool begin_trial(const EpochCase *of) {
  const GpuLimits limits = {80,         of->multiprocessors, (size_t)of->kilobytes << 10,
                            WIDE_NEVER, WIDE_BY_NOTHING,     0};
  const EpochShape shape = of->shape;
  const char *why_not;
  free_kept();
  plan_epoch(shape, &limits, &plan, &why_not);
  if (why_not) return error_set(&error, "%s", why_not);
  trial = *of;
  first_outcome = NULL;
  first_step = (EngineSums){0};
  stride = round_up((size_t)shape.inputs, 16);
  end_step = (uint32_t)ceil_div(of->rows, (uint32_t)shape.batch);
  config.training = (Training){
      .batch = shape.batch, .rule.momentum = rule.momentum, .rule.weight_decay = rule.weight_decay};
  OK(network_init(&config.network, shape.inputs, (int[]){shape.hidden1, shape.hidden2}, 2,
                  shape.classes, &error));
  outcome_bytes = (2 * network->floats + of->rows) * sizeof(float) + of->rows;
  start = new_outcome();
  now = new_outcome();
  gram = aligned((size_t)end_step * EPOCH_GRAM, sizeof *gram);
  mail = aligned(plan.mail_bytes, 1);
  draw_rows();
  train_reference();
  return true;
}

/* Steps first to last - 1; their stamps are one more than their numbers. Returns false if they were
   not trained. */
static bool train_steps(uint32_t first, uint32_t last, FILE *said) {
  const uint32_t batch = (uint32_t)trial.shape.batch, end = last * batch;
  EpochJob job = {.d_pixels = pixels,
                  .d_labels = labels,
                  .d_order = order,
                  .stride = stride,
                  .position = first * batch,
                  .end = end < trial.rows ? end : trial.rows,
                  .learning_rate = learning_rate,
                  .rule = rule,
                  .d_parameters = now.parameters,
                  .d_momentum = now.momentum,
                  .results = {now.loss, now.correct},
                  .d_gram = gram,
                  .d_mail = mail,
                  .first_stamp = first + 1};
  for (int l = 0; l < 3; l++) {
    job.layout.weight[l] = network->weight[l];
    job.layout.bias[l] = network->bias[l];
  }
  cudaError_t status = launch_gram(&plan, &job, NULL);
  if (status == cudaSuccess) status = launch_epoch(&plan, &job, NULL);
  if (status == cudaErrorLaunchFailure) fputs(schedules_report(), said);
  if (status == cudaErrorInvalidValue) fputs("the launcher refuses the job\n", said);
  return status == cudaSuccess;
}

/* ||out - ref|| in parts of ||ref - from||, the way that training went; what storing a weight as
   float32 takes is added to it, for a way may be short. */
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
  judge(said, "", what,
        way_error(now.parameters + at, parameters + at, start.parameters + at, count), WAY_BOUND);
  judge(said, "momentum of ", what,
        reference_relative_error(now.momentum + at, momentum + at, count), WAY_BOUND);
}

static void judge_outcome(FILE *said) {
  static const char *const names[] = {"W1", "W2", "W3", "b1", "b2", "b3"};
  for (int l = 0; l < network->layers; l++) {
    const size_t in = (size_t)network->size[l], out = (size_t)network->size[l + 1];
    judge_tensor(said, names[l], network->weight[l], out * in);
    judge_tensor(said, names[3 + l], network->bias[l], out);
  }
  double loss = 0; /* of the first step's rows, which every parameter has a part in */
  uint64_t correct = 0;
  const uint32_t from = trial.first_step * (uint32_t)trial.shape.batch;
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

/* Trains as `how` says (its mail is the trial's). Returns what did not go well, in lines. */
static const char *run_trial(DrawnLaunch how) {
  const uint32_t last = end_step;
  const uint32_t split = how.seed % 2 && trial.split ? trial.split : last;
  FILE *said = text_open();
  memcpy(now.parameters, start.parameters, outcome_bytes);
  memset(mail, 0, plan.mail_bytes);
  memset(gram, 0xff, (size_t)last * EPOCH_GRAM * sizeof *gram); /* NaN */
  schedules_draw(true);
  drawn_launch = how;
  drawn_launch.mail = mail;
  drawn_launch.mail_bytes = plan.mail_bytes;
  if (train_steps(trial.first_step, split, said) &&
      (split == last || train_steps(split, last, said)))
    judge_outcome(said);
  return text_close(said);
}

static const struct {
  EpochCase of;
  uint32_t schedules;
} cases[] = {
    /* one group; a short last batch */
    {{{100, 60, 40, 10, 64}, 20, 227, .rows = 3 * 64 + 32, .seed = 1}, 5},
    /* two groups, of three tiles; a last batch of one row */
    {{{100, 90, 40, 9, 64}, 40, 227, .rows = 2 * 64 + 1, .seed = 2}, 3},
    /* matrix blocks of four tiles */
    {{{100, 60, 40, 10, 64}, 17, 99, .rows = 96, .seed = 3}, 3},
    /* those of two groups, in eight splits, with warps that have no or one k-step; a last batch of
       one row */
    {{{100, 90, 40, 9, 64}, 60, 99, .rows = 2 * 64 + 1, .seed = 7}, 2},
    /* as much of everything but groups as there may be */
    {{{1279, 60, 120, 12, 64}, 24, 99, .rows = 96, .seed = 10}, 1},
    /* row blocks of eight rows: the same, and as many groups as there may be */
    {{{1279, 60, 120, 12, 64}, 16, 99, .rows = 96, .seed = 11}, 1},
    {{{100, 600, 40, 12, 64}, 90, 99, .rows = 64 + 32, .seed = 12}, 1},
    /* three tiles, which leave two of eight blocks without patches; a last batch of one row */
    {{{100, 45, 119, 9, 64}, 10, 99, .rows = 2 * 64 + 1, .seed = 13}, 2},
    /* the five groups of the default network, as on 64 and 84 multiprocessors */
    {{{100, 300, 100, 10, 64}, 64, 99, .rows = 2 * 64, .seed = 14}, 1},
    {{{100, 300, 100, 10, 64}, 84, 99, .rows = 64 + 32, .seed = 15}, 1},
    /* inputs that eight splits share; all that is left over in packets and tiles */
    {{{784, 40, 119, 7, 64}, 32, 227, .rows = 96, .seed = 4}, 3},
    /* the five groups of the default network */
    {{{100, 300, 100, 10, 64}, 132, 227, .rows = 2 * 64 + 32, .seed = 8}, 1},
    /* from a step within a window over its next direct one, in one launch and in two */
    {{{50, 12, 5, 3, 9}, 18, 163, .first_step = 62, .rows = 66 * 9, .split = 64, .seed = 5}, 4},
    {{{50, 12, 5, 3, 9}, 10, 99, .first_step = 62, .rows = 66 * 9, .split = 64, .seed = 5}, 4},
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

static uint64_t seed, counter; /* of the case; how often it drew */

/* From low to high. */
static int draw_from(int low, int high) {
  const uint32_t word = random_words(seed, 0x6d61696c /* "mail" */, counter++).word[0];
  return low + (int)(word % (uint32_t)(high - low + 1));
}

static EpochCase draw_case(void) {
  static const int kilobytes[] = {99, 163, 227};
  EpochCase of = {.seed = seed};
  counter = 0;
  of.shape = (EpochShape){draw_from(1, draw_from(0, 3) ? 200 : 1300),
                          draw_from(1, draw_from(0, 7) ? 90 : 600), draw_from(1, 128),
                          draw_from(2, 12), draw_from(0, 1) ? 64 : draw_from(1, 64)};
  of.multiprocessors = draw_from(0, 7) ? draw_from(9, 44) : draw_from(9, 170);
  of.kilobytes = kilobytes[draw_from(0, 2)];
  const int batch = of.shape.batch, steps = draw_from(1, 6);
  const int first = draw_from(0, 1) ? 64 - draw_from(1, 3) : 0;
  of.first_step = (uint32_t)first;
  of.rows = (uint32_t)((first + steps - 1) * batch + draw_from(1, batch));
  of.split = first + steps > 64 ? 64 : 0;
  return of;
}

/* For $MINUTES, or one: case N of seed S is case 0 of seed S + N. */
TEST(test_random_cases) {
  const char *minutes = getenv("MINUTES"), *first = getenv("SEED");
  const double end = seconds_now() + (minutes ? 60 * atof(minutes) : 0);
  const uint32_t schedules = minutes ? 20 : 2; /* of a case */
  uint64_t planned = 0;
  for (seed = first ? strtoull(first, NULL, 10) : 1; !planned || seconds_now() < end; seed++) {
    const EpochCase of = draw_case();
    const EpochShape *s = &of.shape;
    if (!begin_trial(&of)) continue;
    planned++;
    for (uint32_t i = (uint32_t)seed; i < (uint32_t)seed + schedules; i++) {
      const char *wrong = run_trial((DrawnLaunch){.seed = i});
      if (!*wrong) continue;
      fail_msg("%d-%d-%d-%d, batch %d, to row %u from step %u on, a second launch from step %u "
               "on, %d multiprocessors, %d KB, schedule %u:\n%s\nSEED=%llu repeats it",
               s->inputs, s->hidden1, s->hidden2, s->classes, s->batch, of.rows, of.first_step,
               of.split, of.multiprocessors, of.kilobytes, i, wrong, (unsigned long long)seed);
    }
  }
  printf("level epoch on the emulator: %llu schedules of %llu cases are right, %llu packets\n",
         (unsigned long long)(schedules * planned), (unsigned long long)planned,
         (unsigned long long)schedules_packets());
}

/* Three steps of little networks, of one group, with two or four tiles in a matrix block, and with
   eight rows in a row block; and of two groups. */
static const EpochCase one_group = {{30, 60, 12, 3, 64}, 20, 227, .rows = 140, .seed = 5},
                       four_tiles = {{100, 60, 12, 3, 64}, 20, 99, .rows = 140, .seed = 5},
                       eight_rows = {{100, 60, 12, 3, 64}, 12, 99, .rows = 140, .seed = 5},
                       two_groups = {{30, 90, 40, 3, 64}, 40, 227, .rows = 140, .seed = 6};

/* Under one of so many schedules from how.seed on the fault is seen; what is said holds `as`. */
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
  for (int i = 0; i < EPOCH_BARRIERS; i++) {
    const DrawnLaunch how = {.barrier_left_out = epoch_barriers[i].id};
    assert_found(epoch_barriers[i].name, &one_group, how, 4, "");
    assert_found(epoch_barriers[i].name, &four_tiles, how, 4, "");
    assert_found(epoch_barriers[i].name, &eight_rows, how, 4, "");
  }
}

/* One buffer instead of two in turns: somebody who is a step ahead overwrites what a reader has not
   read, who then waits for ever. */
TEST(test_finds_buffer_too_few) {
  for (int i = 0; i < EPOCH_BUFFERS; i++) {
    OK(begin_trial(&two_groups));
    const EpochBuffers b = epoch_buffers(&plan, i);
    assert_found(b.name, &two_groups, (DrawnLaunch){.buffer_at = b.first, .buffer = b.packets}, 24,
                 "wait for mail, the first for packet ");
  }
}

/* Who takes a packet of the step before computes with old values. */
TEST(test_finds_old_mail) {
  const DrawnLaunch sent = {.stamp_too_low = schedules_packets() + 5000},
                    read = {.read_too_early = 1000};
  assert_found("a packet with the stamp before its own", &one_group, sent, 1,
               "wait for mail, the first for packet ");
  assert_found("a packet of the step before is taken", &one_group, read, 1, "W1: error");
}

#else

TEST(test_schedules) {
  skip_because("there is no C++ compiler");
}
#endif
