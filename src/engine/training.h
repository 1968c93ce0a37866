/* The settings of training. An option of cli/options.c writes its value straight into a field here,
   in the type and the unit that an engine uses. */
#pragma once

#include <math.h>

#include "base/augment.h"
#include "base/optimizer.h"
#include "model/network.h"

typedef enum {
  SCHEDULE_STEP,     /* each epoch after the warm-up multiplies the rate by `decay` */
  SCHEDULE_CONSTANT, /* constant after the warm-up */
  SCHEDULE_COSINE,   /* half a cosine, from 1 towards 0 (Loshchilov and Hutter, "SGDR", 2017) */
  SCHEDULE_LINEAR,   /* falls linearly from 1 towards 0 */
} LrScheduleKind;

typedef struct {
  LrScheduleKind kind;
  float rate, decay;
  int warmup; /* number of epochs at the start in which the rate rises to its full value */
} LrSchedule;

/* Returns the learning rate of epoch `epoch` of `epochs`, counted from 0. Warm-up epoch e of w has
   (e + 1) / (w + 1) of the full rate (Goyal et al., "Accurate, large minibatch SGD", 2017). */
static inline double lr_schedule_rate(const LrSchedule *schedule, int epochs, int epoch) {
  static const double half_turn = 3.14159265358979323846;
  const double done = (double)epoch / epochs;
  const int decays = epoch > schedule->warmup ? epoch - schedule->warmup : 0;
  double factor = schedule->kind == SCHEDULE_STEP     ? pow((double)schedule->decay, decays)
                  : schedule->kind == SCHEDULE_COSINE ? 0.5 * (1.0 + cos(half_turn * done))
                  : schedule->kind == SCHEDULE_LINEAR ? 1.0 - done
                                                      : 1.0;
  if (epoch < schedule->warmup) factor *= (double)(epoch + 1) / (schedule->warmup + 1);
  return (double)schedule->rate * factor;
}

typedef enum {
  FUSION_AUTO,     /* the fastest level that supports network, batch and device */
  FUSION_NONE,     /* one kernel per operation */
  FUSION_LAYER,    /* one kernel per layer and direction */
  FUSION_STEP,     /* the kernels of a step in one graph */
  FUSION_EPOCH,    /* all steps of an epoch in one kernel */
  FUSION_EXERCISE, /* kernels/exercise.cu, which the reader edits; auto never picks this level */
} Fusion;
static const char *const training_fusions[] = {
    [FUSION_AUTO] = "auto",      [FUSION_NONE] = "none",   [FUSION_LAYER] = "layer",
    [FUSION_STEP] = "step",      [FUSION_EPOCH] = "epoch", [FUSION_EXERCISE] = "exercise",
    [FUSION_EXERCISE + 1] = NULL}; /* the values of --fusion */

typedef enum {
  PRECISION_FP32, /* matrix products as accurate as float32 arithmetic */
  PRECISION_TF32, /* products at least as accurate as tf32, if they are faster than fp32 */
} Precision;

/* The network reads a pixel p as (p / max - mean) / std. Zeros mean the defaults 255, 0, 1. */
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
  RESIDENT_AUTO, /* RESIDENT_YES if rows fit in half the host's memory and in device memory */
  RESIDENT_YES,
  RESIDENT_NO /* every epoch reads the files again */
} Residency;

typedef struct {
  HiddenSizes hidden;
  int classes, epochs;
  LrSchedule schedule;
  int early_stop; /* stop after this many epochs without a better result; 0 never stops */
  Residency resident;
  int batch;             /* rows of a step over all ranks, at least 1 */
  uint64_t seed;         /* seeds the initial parameters, the order of rows, the augmentation */
  OptimizerRule rule;    /* its weight decay is applied to weights, not to biases */
  float label_smoothing; /* share of the target that all classes divide equally, at least 0 */
  DropoutShares dropout;
  float ema; /* decay of the average of parameters that is the network; 0 means no average */
  PixelScale pixels;
  AugmentStrengths augment; /* for training rows; all 0 means no augmentation */
  Fusion fusion;            /* the CPU engine ignores fusion, precision and device_memory */
  Precision precision;
  uint64_t device_memory; /* maximum bytes of GPU memory to use; 0 means no limit */
  int threads;            /* threads of readers and of the CPU engine; 0 means one per core */
} Training;

/* Returns how many arrays of network.floats values the optimizer keeps: the momentum or first
   moment and, for adam and adamw, the second moment. Their initial values are zeros. */
static inline size_t training_moments(const Training *training) {
  return optimizer_has_second(training->rule.kind) ? 2 : 1;
}

/* Returns how many arrays an engine keeps beside the network's parameters: the moments and, if the
   network is an average, the trained parameters. */
static inline size_t training_states(const Training *training) {
  return training_moments(training) + (training->ema > 0);
}

/* Returns the share of hidden layer l's activations that training drops; l counts from 0. */
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

/* The network reads pixel p as p * factor - offset. Fast code serves the default, p / 255. */
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
