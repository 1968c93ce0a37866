/* Trials of level epoch's kernel. */
#include "support/epoch_trial.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "exercise/reference.h"

/* float32 sums of some hundred products: measured was at most 3e-6 of the way that training went,
   and 5e-7 of a row's loss. */
static const double WAY_BOUND = 2e-5, LOSS_BOUND = 1e-5;

/* What a launch writes, in one block of memory. */
typedef struct {
  float *parameters, *momentum, *loss;
  uint8_t *correct;
} Outcome;

enum { MOST_BLOCKS = 16 };

struct EpochTrial {
  EpochCase of;
  EpochPlan plan;
  EngineConfig config;
  TrainRange range;
  size_t stride, outcome_bytes;
  uint8_t *pixels;
  uint16_t *labels;
  uint32_t *order;
  float *gram;
  void *mail;
  Outcome start, first, now;
  double *start64, *parameters64, *momentum64;
  EngineSums first_step; /* what the reference counts in it */
  bool has_first;
  char said[4096];
  void *blocks[MOST_BLOCKS]; /* all that was allocated */
  int block_count;
};

/* Returns zeros on a boundary that mail may begin at, until the trial is freed. */
static void *allocate(EpochTrial *t, size_t count, size_t size) {
  void **memory = &t->blocks[t->block_count++];
  if (posix_memalign(memory, 128, count * size) != 0) abort();
  return memset(*memory, 0, count * size);
}

static Outcome new_outcome(EpochTrial *t) {
  const size_t floats = t->config.network.floats;
  float *block = allocate(t, t->outcome_bytes, 1), *loss = block + 2 * floats;
  return (Outcome){block, block + floats, loss, (uint8_t *)(loss + t->of.rows)};
}

static uint32_t steps_of(const EpochCase *of) {
  return (of->rows + (uint32_t)of->shape.batch - 1) / (uint32_t)of->shape.batch;
}

/* The network, its momentum, and rows of which four pixels in five are 0, as in a picture. */
static void draw(EpochTrial *t) {
  const Network *network = &t->config.network;
  const EpochCase *of = &t->of;
  network_initialise(network, of->seed, t->start.parameters);
  double *values = t->parameters64; /* for now */
  reference_fill(values, network->floats, -0.01, 0.01, of->seed + 1);
  for (int l = 0; l < network->layers; l++) { /* the padding stays 0 */
    const size_t out = (size_t)network->size[l + 1], in = (size_t)network->size[l];
    reference_to_float(values + network->weight[l], out * in,
                       t->start.momentum + network->weight[l]);
    reference_to_float(values + network->bias[l], out, t->start.momentum + network->bias[l]);
    reference_to_float(values + network->bias[l], out, t->start.parameters + network->bias[l]);
  }
  t->pixels = allocate(t, of->rows, t->stride);
  t->labels = allocate(t, of->rows, sizeof *t->labels);
  t->order = allocate(t, of->rows, sizeof *t->order);
  reference_fill_pixels(t->pixels, of->rows * t->stride, of->seed);
  for (size_t i = 0; i < of->rows * t->stride; i++)
    if (random_words(of->seed, 1, i).word[0] % 5 != 0) t->pixels[i] = 0;
  reference_fill_labels(t->labels, of->rows, of->shape.classes, of->seed);
  for (uint32_t p = 0; p < of->rows; p++) t->order[p] = random_permute(p, of->rows, of->seed);
}

static void train_reference(EpochTrial *t) {
  const size_t floats = t->config.network.floats;
  EngineSums others = {0};
  TrainRange range = t->range;
  reference_to_double(t->start.parameters, floats, t->start64);
  reference_to_double(t->start.parameters, floats, t->parameters64);
  reference_to_double(t->start.momentum, floats, t->momentum64);
  range.steps = 1;
  reference_train(&t->config, t->parameters64, t->momentum64, t->pixels, t->stride, t->labels,
                  &range, &t->first_step);
  range.first_step++;
  range.steps = t->range.steps - 1;
  reference_train(&t->config, t->parameters64, t->momentum64, t->pixels, t->stride, t->labels,
                  &range, &others);
}

EpochTrial *epoch_trial_new(const EpochCase *of, const char **why_not) {
  const GpuLimits limits = {80, of->multiprocessors, (size_t)of->kilobytes << 10, WIDE_NEVER,
                            WIDE_BY_NOTHING};
  const EpochShape shape = of->shape;
  EpochPlan plan;
  Error error;
  plan_epoch(shape, &limits, &plan, why_not);
  if (*why_not) return NULL;
  EpochTrial *t = calloc(1, sizeof *t);
  if (!t) abort();
  t->of = *of;
  t->plan = plan;
  t->stride = ((size_t)shape.inputs + 15) / 16 * 16;
  t->config = (EngineConfig){
      .training = {.batch = shape.batch, .rule.momentum = 0.9F, .rule.weight_decay = 1e-3F}};
  if (!network_init(&t->config.network, shape.inputs, (int[]){shape.hidden1, shape.hidden2}, 2,
                    shape.classes, &error))
    abort();
  t->range = (TrainRange){.rows = of->rows,
                          .shuffled = true,
                          .key = of->seed,
                          .first_step = of->first_step,
                          .steps = steps_of(of) - of->first_step,
                          .learning_rate = 0.05F};
  const size_t floats = t->config.network.floats;
  t->outcome_bytes = (2 * floats + of->rows) * sizeof(float) + of->rows;
  t->start = new_outcome(t);
  t->first = new_outcome(t);
  t->now = new_outcome(t);
  t->start64 = allocate(t, floats, sizeof(double));
  t->parameters64 = allocate(t, floats, sizeof(double));
  t->momentum64 = allocate(t, floats, sizeof(double));
  t->gram = allocate(t, (size_t)steps_of(of) * EPOCH_GRAM, sizeof *t->gram);
  t->mail = allocate(t, t->plan.mail_bytes, 1);
  draw(t);
  train_reference(t);
  return t;
}

void epoch_trial_free(EpochTrial *t) {
  while (t->block_count > 0) free(t->blocks[--t->block_count]);
  free(t);
}

const EpochPlan *epoch_trial_plan(const EpochTrial *t) {
  return &t->plan;
}

/* ---- a run ----------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(EpochTrial *t, const char *format, ...) {
  const size_t used = strlen(t->said);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(t->said + used, sizeof t->said - used, format, arguments);
  va_end(arguments);
}

/* Steps first to last - 1; their stamps are one more than their numbers. */
static cudaError_t train_steps(EpochTrial *t, uint32_t first, uint32_t last) {
  const Network *network = &t->config.network;
  const uint32_t batch = (uint32_t)t->of.shape.batch, end = last * batch;
  EpochJob job = {.d_pixels = t->pixels,
                  .d_labels = t->labels,
                  .d_order = t->order,
                  .stride = t->stride,
                  .position = first * batch,
                  .end = end < t->of.rows ? end : t->of.rows,
                  .learning_rate = t->range.learning_rate,
                  .rule = {t->config.training.rule.momentum, t->config.training.rule.weight_decay},
                  .d_parameters = t->now.parameters,
                  .d_momentum = t->now.momentum,
                  .results = {t->now.loss, t->now.correct},
                  .d_gram = t->gram,
                  .d_mail = t->mail,
                  .first_stamp = first + 1};
  for (int l = 0; l < 3; l++) {
    job.layout.weight[l] = network->weight[l];
    job.layout.bias[l] = network->bias[l];
  }
  cudaError_t status = launch_gram(&t->plan, &job, NULL);
  if (status == cudaSuccess) status = launch_epoch(&t->plan, &job, NULL);
  if (status == cudaErrorLaunchFailure) say(t, "%s", emulator_report());
  if (status == cudaErrorInvalidValue) say(t, "the launcher refuses the job\n");
  return status;
}

/* ||out - ref|| in parts of ||ref - start||, the way that training went; what storing a weight as
   float32 takes is added to it, for a way may be short. */
static double way_error(const float *out, const double *ref, const double *start, size_t count) {
  double difference = 0, way = 0, size = 0;
  for (size_t i = 0; i < count; i++) {
    difference += ((double)out[i] - ref[i]) * ((double)out[i] - ref[i]);
    way += (ref[i] - start[i]) * (ref[i] - start[i]);
    size += ref[i] * ref[i];
  }
  return isfinite(difference) ? sqrt(difference) / (sqrt(way) + sqrt(size) / 100) : INFINITY;
}

static void judge(EpochTrial *t, const char *what, double error, double bound) {
  if (!(error <= bound)) say(t, "%s: error %.1e, at most %.1e is right\n", what, error, bound);
}

static void judge_tensor(EpochTrial *t, const char *what, size_t at, size_t count) {
  char name[32];
  judge(t, what, way_error(t->now.parameters + at, t->parameters64 + at, t->start64 + at, count),
        WAY_BOUND);
  snprintf(name, sizeof name, "momentum of %s", what);
  judge(t, name, reference_relative_error(t->now.momentum + at, t->momentum64 + at, count),
        WAY_BOUND);
}

/* The loss of the first step's rows, which every parameter has a part in. */
static void judge_loss(EpochTrial *t) {
  const uint32_t first = t->of.first_step * (uint32_t)t->of.shape.batch;
  double loss = 0;
  uint64_t correct = 0;
  for (uint32_t p = first; p < first + (uint32_t)t->first_step.rows; p++) {
    loss += (double)t->now.loss[p];
    correct += t->now.correct[p];
  }
  judge(t, "loss", fabs(loss / t->first_step.loss - 1), LOSS_BOUND);
  if (correct != t->first_step.correct) say(t, "rows that are right are others\n");
}

const char *epoch_trial_run(EpochTrial *t, Emulator how) {
  static const char *const names[] = {"W1", "W2", "W3", "b1", "b2", "b3"};
  const Network *network = &t->config.network;
  const uint32_t last = steps_of(&t->of), split = how.seed % 2 && t->of.split ? t->of.split : last;
  t->said[0] = '\0';
  memcpy(t->now.parameters, t->start.parameters, t->outcome_bytes);
  memset(t->mail, 0, t->plan.mail_bytes);
  memset(t->gram, 0xff, (size_t)last * EPOCH_GRAM * sizeof *t->gram); /* NaN */
  emulator = how;
  emulator.mail = t->mail;
  emulator.mail_bytes = t->plan.mail_bytes;
  if (train_steps(t, t->of.first_step, split) != cudaSuccess ||
      (split < last && train_steps(t, split, last) != cudaSuccess))
    return t->said;
  for (int l = 0; l < network->layers; l++) {
    const size_t in = (size_t)network->size[l], out = (size_t)network->size[l + 1];
    judge_tensor(t, names[l], network->weight[l], out * in);
    judge_tensor(t, names[3 + l], network->bias[l], out);
  }
  judge_loss(t);
  if (!t->has_first) memcpy(t->first.parameters, t->now.parameters, t->outcome_bytes);
  if (memcmp(t->now.parameters, t->first.parameters, t->outcome_bytes) != 0)
    say(t, "other bits than under the first schedule\n");
  t->has_first = true;
  return *t->said ? t->said : NULL;
}
