/* The settings of training. cli/options.c stores the value of an option directly in a field of
   these structs, in the type and the unit that an engine uses. */
#pragma once

#include <math.h>

#include "base/augment.h"
#include "base/optimizer.h"
#include "model/network.h"

typedef enum {
  SCHEDULE_STEP,     /* each epoch after the warm-up multiplies the rate by `decay` */
  SCHEDULE_CONSTANT, /* the rate is constant after the warm-up */
  SCHEDULE_COSINE,   /* the rate falls along half a cosine (Loshchilov and Hutter, "SGDR", 2017) */
  SCHEDULE_LINEAR,   /* the rate falls linearly towards 0 */
} LrScheduleKind;

typedef struct {
  LrScheduleKind kind;
  float rate; /* NAN means that training_base_rate chooses it */
  float decay;
  int warmup; /* number of warm-up epochs, in which the rate rises */
} LrSchedule;

typedef enum {
  FUSION_AUTO,     /* the fastest level that supports the network, the batch and the device */
  FUSION_NONE,     /* one kernel per operation */
  FUSION_LAYER,    /* one kernel per layer and direction (forward, backward) */
  FUSION_STEP,     /* all kernels of a step in one CUDA graph */
  FUSION_EPOCH,    /* all steps of an epoch in one kernel */
  FUSION_EXERCISE, /* the student's kernels (kernels/exercise.cu); FUSION_AUTO never picks this */
} Fusion;
static const char *const training_fusions[] = {
    [FUSION_AUTO] = "auto",      [FUSION_NONE] = "none",   [FUSION_LAYER] = "layer",
    [FUSION_STEP] = "step",      [FUSION_EPOCH] = "epoch", [FUSION_EXERCISE] = "exercise",
    [FUSION_EXERCISE + 1] = NULL}; /* the values of --fusion */

typedef enum {
  PRECISION_FP32, /* matrix products as accurate as float32 arithmetic */
  PRECISION_TF32, /* matrix products of tf32 accuracy or better, if they are faster */
} Precision;

/* The network reads a pixel p as (p / max - mean) / std. max 0 means 255, and std 0 means 1. */
typedef struct {
  float max, mean, std;
} PixelScale;

/* The share of a hidden layer's activations that a training step drops, at least 0 and below 1. If
   count is at most 1, all hidden layers use share[0]; otherwise each layer has its own share. */
typedef struct {
  int count;
  float share[NETWORK_MAX_LAYERS - 1];
} DropoutShares;

typedef enum {
  RESIDENT_AUTO, /* RESIDENT_YES if the rows fit in half of host memory and in device memory */
  RESIDENT_YES,
  RESIDENT_NO /* every epoch reads the files again */
} Residency;

typedef struct {
  HiddenSizes hidden;
  int classes, epochs;
  LrSchedule schedule;
  int early_stop; /* stop after this many epochs without a better result; 0 means never */
  Residency resident;
  int batch;             /* number of rows in a step, on all ranks together; at least 1 */
  uint64_t seed;         /* seed of the initial parameters, the row order and the augmentation */
  OptimizerRule rule;    /* weight decay applies to weights, not to biases */
  float label_smoothing; /* part of each target that is spread evenly over all classes */
  DropoutShares dropout;
  float ema; /* decay of the moving average of the parameters; 0 means no average */
  PixelScale pixels;
  AugmentStrengths augment; /* for training rows; all 0 means no augmentation */
  Fusion fusion;            /* the CPU engine ignores fusion, precision and device_memory */
  Precision precision;
  uint64_t device_memory; /* maximum bytes of GPU memory to use; 0 means no limit */
  int threads;            /* threads for readers and for the CPU engine; 0 means one per core */
} Training;

/* Returns the learning rate before the schedule changes it. For --lr auto, it depends on the
   optimizer and the batch. With batches below 16, momentum at its usual rate learns nothing. With
   batches of 1, 4 and 8, the best rate tried was 0.05 * batch / 64: accuracy was 95.4 to 95.6%
   after one epoch of MNIST. Adam with batches of 1 reached 95.7% at a quarter of its usual rate,
   but 92.2% at its usual rate. */
static inline float training_base_rate(const Training *training) {
  const Optimizer kind = training->rule.kind;
  const float rate = optimizer_rate(kind), batch = (float)training->batch;
  if (!isnan(training->schedule.rate)) return training->schedule.rate;
  if (training->batch >= 16) return rate;
  return optimizer_has_second(kind) ? rate * sqrtf(batch / 16) : rate * batch / 64;
}

/* Returns the learning rate of epoch `epoch`, counted from 0. Warm-up epoch e multiplies the rate
   by (e + 1) / (warmup + 1) (Goyal et al., "Accurate, large minibatch SGD", 2017). */
static inline double training_rate(const Training *training, int epoch) {
  static const double half_turn = 3.14159265358979323846;
  const LrSchedule *schedule = &training->schedule;
  const double done = (double)epoch / training->epochs;
  const int decays = epoch > schedule->warmup ? epoch - schedule->warmup : 0;
  double factor = 1.0;
  if (schedule->kind == SCHEDULE_STEP) factor = pow((double)schedule->decay, decays);
  if (schedule->kind == SCHEDULE_COSINE) factor = 0.5 * (1.0 + cos(half_turn * done));
  if (schedule->kind == SCHEDULE_LINEAR) factor = 1.0 - done;
  if (epoch < schedule->warmup) factor *= (double)(epoch + 1) / (schedule->warmup + 1);
  return (double)training_base_rate(training) * factor;
}

/* Returns the number of arrays that the optimizer keeps, each of network.floats values: 2 for adam
   and adamw (first and second moment), otherwise 1 (momentum). The arrays start as zeros. */
static inline size_t training_moments(const Training *training) {
  return optimizer_has_second(training->rule.kind) ? 2 : 1;
}

/* Returns how many arrays an engine keeps besides the network's parameters: the moments and, if the
   network is an average (ema > 0), the trained parameters. */
static inline size_t training_states(const Training *training) {
  return training_moments(training) + (training->ema > 0);
}

/* Returns the dropout share of hidden layer l, counted from 0. */
static inline float training_dropout(const Training *training, int l) {
  return training->dropout.share[training->dropout.count > 1 ? l : 0];
}

static inline bool training_drops(const Training *training) {
  for (int l = 0; l < NETWORK_MAX_LAYERS - 1; l++)
    if (training->dropout.share[l] > 0) return true;
  return false;
}

/* Returns the maximum of a pixel: training->pixels.max or, if that is 0, the default. */
static inline double training_white(const Training *training) {
  return training->pixels.max > 0 ? (double)training->pixels.max : 255;
}

/* The network reads pixel p as p * factor - offset. is_default means p / 255, which is faster. */
typedef struct {
  float factor, offset;
  bool is_default;
} PixelFactor;

static inline PixelFactor training_pixel_factor(const Training *training) {
  const PixelScale *p = &training->pixels;
  const double max = training_white(training), std = p->std > 0 ? (double)p->std : 1;
  const bool is_default = max == 255 && std == 1 && p->mean == 0;
  return (PixelFactor){(float)(1 / (max * std)), (float)((double)p->mean / std), is_default};
}
