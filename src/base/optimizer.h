/* The rules by which a training step changes a parameter w, given its gradient g. They are the same
   on the host and on the device.

     sgd       v = momentum v + g + decay w; w = w - rate v: stochastic gradient descent with
               momentum (Sutskever, Martens, Dahl, Hinton 2013, in the form that PyTorch uses)
     nesterov  v as in sgd; w = w - rate (g + decay w + momentum v): Nesterov's momentum
     adam      m = beta1 m + (1 - beta1) g', v = beta2 v + (1 - beta2) g'^2, g' = g + decay w;
               w = w - rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) in update t,
               counted from 1 (Kingma and Ba 2015, algorithm 1)
     adamw     as adam, but g' = g, and w also loses rate decay w (Loshchilov and Hutter
               2019; the rate scales the decay, as in PyTorch) */
#pragma once

#include <math.h>
#include <stdint.h>

#include "base/host_device.h"

typedef enum {
  OPTIMIZER_SGD,
  OPTIMIZER_NESTEROV,
  OPTIMIZER_ADAM,
  OPTIMIZER_ADAMW,
  OPTIMIZERS
} Optimizer;

typedef struct {
  Optimizer kind;
  float momentum, weight_decay;
  float beta1, beta2, epsilon; /* for adam and adamw; 0 <= beta < 1, epsilon > 0 */
} OptimizerRule;

/* Returns true for adam and adamw, which keep a second moment (v above). */
HOST_DEVICE int optimizer_has_second(Optimizer kind) {
  return kind == OPTIMIZER_ADAM || kind == OPTIMIZER_ADAMW;
}

/* The coefficients of one update. */
typedef struct {
  float rate;
  float step;        /* for adam and adamw: rate / (1 - beta1^t) */
  float second_root; /* for adam and adamw: 1 / sqrt(1 - beta2^t) */
} OptimizerStep;

/* Returns the coefficients of update t = `updates` + 1. Computes 1 - beta^t as -expm1(t log(beta)),
   since 1 - powf(beta, t) loses digits while beta^t is near 1. */
HOST_DEVICE OptimizerStep optimizer_step(OptimizerRule rule, float rate, uint32_t updates) {
  OptimizerStep step = {rate, rate, 1.0f};
  if (!optimizer_has_second(rule.kind)) return step;
  const float t = (float)updates + 1.0f;
  step.step = rate / -expm1f(t * logf(rule.beta1));
  step.second_root = 1.0f / sqrtf(-expm1f(t * logf(rule.beta2)));
  return step;
}

/* Changes *w, *m (the momentum, or the first moment) and, for adam and adamw, *v (the second
   moment). `decay` is the rule's weight decay, or 0 for a bias. */
HOST_DEVICE void optimizer_value(OptimizerRule rule, OptimizerStep step, float decay, float g,
                                 float *w, float *m, float *v) {
  if (rule.kind != OPTIMIZER_ADAMW) g += decay * *w;
  if (!optimizer_has_second(rule.kind)) {
    *m = rule.momentum * *m + g;
    *w -= step.rate * (rule.kind == OPTIMIZER_NESTEROV ? g + rule.momentum * *m : *m);
    return;
  }
  if (rule.kind == OPTIMIZER_ADAMW) *w -= step.rate * decay * *w;
  *m = rule.beta1 * *m + (1.0f - rule.beta1) * g;
  *v = rule.beta2 * *v + (1.0f - rule.beta2) * g * g;
  *w -= step.step * *m / (sqrtf(*v) * step.second_root + rule.epsilon);
}

/* Returns the weight of the old value in update t = `updates` + 1 of an exponential moving average.
   The weight is min(decay, (1 + t) / (10 + t)), so that the average soon forgets the random start
   (as in TensorFlow's ExponentialMovingAverage with num_updates). */
HOST_DEVICE float optimizer_average_keeps(float decay, uint32_t updates) {
  const float t = (float)updates + 1.0f, at_first = (1.0f + t) / (10.0f + t);
  return decay < at_first ? decay : at_first;
}
