/* The update of a weight that stays on its multiprocessor. The rules are those of base/optimizer.h,
   with factors that the host computes once. What is here is only how level epoch divides, takes
   roots and scales. Weights and averages are kept multiplied by a power of two. Gradients and
   moments are not scaled. So a moment near 0 keeps its bits when it is stored between two
   launches. */
#pragma once

#include "batch.cuh"
#include "ptx.cuh"

namespace tiles {

/* Factors of all weights, or of all biases. `scale` is the power of two by which weights are
   multiplied. Without second moments, an update subtracts m times the new momentum and g times the
   gradient from the weight (OptimizerLinear). The part of the update that does not need the
   gradient is known_m times the old momentum plus known_w times the weight. `decay` is an argument
   of optimizer_moments(): `decay`, or `shrink` if the rule does not couple decay. */
struct Factors {
  float scale, m, g, known_m, known_w, decay;
};

/* The numbers that are the same in every step. Without second moments, an update subtracts
   `of_gradient` times the gradient from a weight without a scale, besides the known part. */
struct Rule {
  OptimizerRule is;
  Factors weights, biases;
  float of_gradient;
  bool averages;
};

/* Factors that change with the step. step and second_root come from OptimizerStep. An average
   moves towards its weight by the fraction `moves` of the distance. */
struct StepNumbers {
  float step, second_root, moves;
};

struct Weight {
  float w, m, v, a; /* weight, momentum, second moment and average; v and a are 0 if unused */
};

/* Updates a weight and its moments, but not its average. g is the gradient. */
template <bool SECOND>
__device__ __forceinline__ void update(const Rule &rule, const Factors &by, const StepNumbers &now,
                                       float g, Weight &x) {
  optimizer_moments(SECOND, true, &rule.is, by.decay, by.decay, &g, &x.w, &x.m, &x.v);
  if constexpr (SECOND) {
    const float n = optimizer_numerator(SECOND, &rule.is, g, x.m), root = sqrt_approximate(x.v);
    x.w -= by.scale * now.step * __fdividef(n, fmaf(root, now.second_root, rule.is.epsilon));
  } else {
    x.w = fmaf(-by.m, x.m, fmaf(-by.g, g, x.w));
  }
}

__device__ __forceinline__ void move_average(const StepNumbers &now, float w, float &a) {
  a = fmaf(now.moves, w - a, a);
}

__device__ __forceinline__ float known_of(const Factors &by, float w, float m) {
  return fmaf(-by.known_m, m, fmaf(-by.known_w, w, w));
}

/* The flat arrays of all parameters. *d_overflowed becomes 1 if a stored weight is not finite. */
struct FlatArrays {
  float *d_w, *d_m, *d_v, *d_average;
  uint32_t *d_overflowed;
};

/* Returns the weight at offset `at` and its moments and average, or zeros if `at` is negative. */
template <bool SECOND>
__device__ inline Weight load_weight(const FlatArrays &of, long long at, float scale) {
  if (at < 0) return {};
  return {of.d_w[at] * scale, of.d_m[at], SECOND ? of.d_v[at] : 0.0f,
          of.d_average ? of.d_average[at] * scale : 0.0f};
}

template <bool SECOND>
__device__ inline void store_weight(const FlatArrays &of, long long at, float scale,
                                    const Weight &x) {
  if (at < 0) return;
  of.d_w[at] = x.w / scale;
  of.d_m[at] = x.m;
  if (SECOND) of.d_v[at] = x.v;
  if (of.d_average) of.d_average[at] = x.a / scale;
  if (!isfinite(x.w)) *of.d_overflowed = 1;
}

} // namespace tiles
