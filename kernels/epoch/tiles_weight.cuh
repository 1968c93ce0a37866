/* The update of a weight that stays on its multiprocessor. It follows the rules of
   base/optimizer.h, with factors that are computed once. Weights, momenta, averages, gradients and
   second moments are kept multiplied by `scale`, a power of two. */
#pragma once

#include "batch.cuh"
#include "ptx.cuh"

namespace tiles {

/* Factors that are the same in every update. By sgd and nesterov a weight loses of_m m + of_g g,
   where m is the new momentum. Before the gradient g is known, the weight loses known_m m + known_w
   w, with the old m and w. When g is known, it also loses of_gradient g. */
struct Rule {
  OptimizerRule is;
  float rate, of_m, of_g, known_m, known_w, of_gradient;
  bool averages;
};

/* Factors that change with the step: OptimizerStep's step and second_root; how far averages
   move. */
struct StepNumbers {
  float step, second_root, moves;
};

struct Weight {
  float w, m, v, a; /* v: second moment, a: average; 0 if unused */
};

/* Updates a weight and its moments, not its average. `decays` is false for a bias. */
template <bool SECOND>
__device__ __forceinline__ void update(const Rule &rule, const StepNumbers &now, float scale,
                                       bool decays, float g, Weight &x) {
  const float decay = decays ? rule.is.weight_decay : 0.0f;
  if constexpr (SECOND) {
    if (rule.is.kind == OPTIMIZER_ADAM)
      g = fmaf(decay, x.w, g);
    else
      x.w = fmaf(-rule.rate * decay, x.w, x.w);
    x.m = fmaf(rule.is.beta1, x.m, (1 - rule.is.beta1) * g);
    x.v = fmaf(rule.is.beta2, x.v, (1 - rule.is.beta2) * g * (g / scale));
    const float root = sqrt_approximate(x.v / scale);
    x.w -= now.step * __fdividef(x.m, fmaf(root, now.second_root, rule.is.epsilon));
  } else {
    g = fmaf(decay, x.w, g);
    x.m = fmaf(rule.is.momentum, x.m, g);
    x.w = fmaf(-rule.of_m, x.m, fmaf(-rule.of_g, g, x.w));
  }
}

__device__ __forceinline__ void move_average(const StepNumbers &now, float w, float &a) {
  a = fmaf(now.moves, w - a, a);
}

__device__ __forceinline__ float known_of(const Rule &rule, bool decays, float w, float m) {
  return fmaf(-rule.known_m, m, decays ? fmaf(-rule.known_w, w, w) : w);
}

/* The flat arrays of a launch. *d_overflowed becomes 1 if a stored weight is not finite. */
struct FlatArrays {
  float *d_w, *d_m, *d_v, *d_average;
  uint32_t *d_overflowed;
};

/* Returns the weight at offset `at`, or zeros if `at` is below 0: then there is no such weight. */
template <bool SECOND>
__device__ inline Weight load_weight(const FlatArrays &of, long long at, float scale) {
  if (at < 0) return {};
  return {of.d_w[at] * scale, of.d_m[at] * scale, SECOND ? of.d_v[at] * scale : 0.0f,
          of.d_average ? of.d_average[at] * scale : 0.0f};
}

template <bool SECOND>
__device__ inline void store_weight(const FlatArrays &of, long long at, float scale,
                                    const Weight &x) {
  if (at < 0) return;
  of.d_w[at] = x.w / scale;
  of.d_m[at] = x.m / scale;
  if (SECOND) of.d_v[at] = x.v / scale;
  if (of.d_average) of.d_average[at] = x.a / scale;
  if (!isfinite(x.w)) *of.d_overflowed = 1;
}

} // namespace tiles
