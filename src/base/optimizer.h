/* The rules by which a training step changes a parameter w, given its gradient g. Everything that
   depends on the rule is in this file, for host and device. The CPU engine and the kernels of every
   level call these functions, so they cannot train by different rules. Only gemm_cpu_tile.h and
   many/backward.cuh have a copy of sgd, which adds in an order of its own, and no other rule gets
   there. A static_assert stands wherever a new optimizer has to be thought of: raise its number
   when the rule is there.

     sgd       v = momentum v + g + decay w; w = w - rate v: stochastic gradient descent with
               momentum (Sutskever, Martens, Dahl, Hinton 2013, in the form that PyTorch uses)
     nesterov  v as in sgd; w = w - rate (g + decay w + momentum v): Nesterov's momentum
     adam      m = beta1 m + (1 - beta1) g', v = beta2 v + (1 - beta2) g'^2, g' = g + decay w;
               w = w - rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) in update t,
               counted from 1 (Kingma and Ba 2015, algorithm 1)
     adamw     as adam, but g' = g, and w also loses rate decay w (Loshchilov and Hutter
               2019; the rate scales the decay, as in PyTorch) */
#pragma once

#include <assert.h>
#include <math.h>
#include <stdint.h>

#include "base/host_device.h"

#define EACH_OPTIMIZER(DO)                                                                         \
  DO(OPTIMIZER_SGD) DO(OPTIMIZER_NESTEROV) DO(OPTIMIZER_ADAM) DO(OPTIMIZER_ADAMW)

#define OPTIMIZER_IN_ENUM(KIND) KIND,
typedef enum { EACH_OPTIMIZER(OPTIMIZER_IN_ENUM) OPTIMIZERS } Optimizer;
#undef OPTIMIZER_IN_ENUM

typedef struct {
  Optimizer kind;
  float momentum, weight_decay;
  float beta1, beta2, epsilon; /* for adam and adamw; 0 <= beta < 1, epsilon > 0 */
} OptimizerRule;

/* Returns true for adam and adamw, which keep a second moment (v above). */
HOST_DEVICE int optimizer_has_second(Optimizer kind) {
  static_assert(OPTIMIZERS == 4, "does the new optimizer keep a second moment?");
  return kind == OPTIMIZER_ADAM || kind == OPTIMIZER_ADAMW;
}

/* Returns true if weight decay is part of the gradient, so that it goes through the moments, too.
   If not, it shrinks w itself, as in adamw. `second` is optimizer_has_second(kind). Level epoch
   knows it when it is compiled, and so has code for its own rules only. */
HOST_DEVICE int optimizer_couples(const int second, Optimizer kind) {
  static_assert(OPTIMIZERS == 4, "is the new optimizer's weight decay part of the gradient?");
  return !second || kind == OPTIMIZER_ADAM;
}

/* Returns the learning rate of --lr auto, for batches of at least 16 rows. */
static inline float optimizer_rate(Optimizer kind) {
  static const float rates[] = {0.05f, 0.05f, 0.001f, 0.001f};
  static_assert(sizeof rates / sizeof rates[0] == OPTIMIZERS, "every optimizer has a rate");
  return rates[kind];
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
  static_assert(OPTIMIZERS == 4, "does the new optimizer correct its moments' bias?");
  OptimizerStep step = {rate, rate, 1.0f};
  if (!optimizer_has_second(rule.kind)) return step;
  const float t = (float)updates + 1.0f;
  step.step = rate / -expm1f(t * logf(rule.beta1));
  step.second_root = 1.0f / sqrtf(-expm1f(t * logf(rule.beta2)));
  return step;
}

/* How a rule without second moments moves w: w loses m times the new momentum and g times the
   gradient, to which decay has been added. Level epoch relies on this form, and on the momentum in
   optimizer_moments(), when it computes products with W before the gradient is known. */
typedef struct {
  float m, g;
} OptimizerLinear;

HOST_DEVICE OptimizerLinear optimizer_linear(OptimizerRule rule, float rate) {
  static_assert(OPTIMIZERS == 4, "a new optimizer without second moments must have this form");
  OptimizerLinear of = {rate, 0.0f};
  if (rule.kind == OPTIMIZER_NESTEROV) of.m = rate * rule.momentum, of.g = rate;
  return of;
}

/* Returns a b + c, rounded once if `fused`; otherwise the compiler may choose. */
HOST_DEVICE float optimizer_multiply_add(const int fused, float a, float b, float c) {
  return fused ? fmaf(a, b, c) : a * b + c;
}

/* The first half of an update: adds decay w to *g or, unless optimizer_couples(), shrinks *w by its
   part `shrink`; then updates *m (the momentum, or the first moment) and *v (the second moment).
   `decay` is the rule's weight decay, or 0 for a bias. `shrink` is the rate times that. */
HOST_DEVICE void optimizer_moments(const int second, const int fused, const OptimizerRule *rule,
                                   float decay, float shrink, float *g, float *w, float *m,
                                   float *v) {
  static_assert(OPTIMIZERS == 4, "how does the new optimizer change the moments?");
  if (optimizer_couples(second, rule->kind))
    *g = optimizer_multiply_add(fused, decay, *w, *g);
  else
    *w = fused ? fmaf(-shrink, *w, *w) : *w - shrink * *w;
  if (!second) {
    *m = optimizer_multiply_add(fused, rule->momentum, *m, *g);
    return;
  }
  *m = optimizer_multiply_add(fused, rule->beta1, *m, (1.0f - rule->beta1) * *g);
  *v = optimizer_multiply_add(fused, rule->beta2, *v, (1.0f - rule->beta2) * *g * *g);
}

/* Returns the numerator n of the second half of an update, after optimizer_moments(). w then loses
   rate n or, with second moments, step n / (sqrt(v) second_root + epsilon). */
HOST_DEVICE float optimizer_numerator(const int second, const OptimizerRule *rule, float g,
                                      float m) {
  static_assert(OPTIMIZERS == 4, "along what does the new optimizer move the weight?");
  if (second) return m;
  return rule->kind == OPTIMIZER_NESTEROV ? g + rule->momentum * m : m;
}

/* Returns a b, rounded. Device compilers fuse a product and a subtraction in some places and not in
   others, so the bits would depend on the code around them. */
HOST_DEVICE float optimizer_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/* Updates *w, *m and, with second moments, *v. `decay` is the rule's weight decay; 0 for a bias. */
HOST_DEVICE void optimizer_value(OptimizerRule rule, OptimizerStep step, float decay, float g,
                                 float *w, float *m, float *v) {
  const float shrink = step.rate * decay;
  if (optimizer_has_second(rule.kind)) {
    optimizer_moments(1, 0, &rule, decay, shrink, &g, w, m, v);
    *w -= step.step * optimizer_numerator(1, &rule, g, *m) /
          (sqrtf(*v) * step.second_root + rule.epsilon);
  } else {
    optimizer_moments(0, 0, &rule, decay, shrink, &g, w, m, v);
    *w -= optimizer_product(step.rate, optimizer_numerator(0, &rule, g, *m));
  }
}

/* Returns the weight of the old value in update t = `updates` + 1 of an exponential moving average.
   The weight is min(decay, (1 + t) / (10 + t)), so that the average soon forgets the random start
   (as in TensorFlow's ExponentialMovingAverage with num_updates). */
HOST_DEVICE float optimizer_average_keeps(float decay, uint32_t updates) {
  const float t = (float)updates + 1.0f, at_first = (1.0f + t) / (10.0f + t);
  return decay < at_first ? decay : at_first;
}
