/* Loops whose body the compiler repeats. */
#pragma once

/* Runs its body for i from 0 to count - 1; i is a constant in each copy of it. */
#define unrolled(i, count) _Pragma("unroll") for (int i = 0; i < (count); i++)

/* The same for i = 0, step, 2 step, ... below count. */
#define unrolled_by(i, count, step) _Pragma("unroll") for (int i = 0; i < (count); i += (step))

/* Calls use(i, j) for terms of two sums of TERMS. The smallest products that count come first. */
template <int TERMS, class Use> __device__ inline void each_product(const Use &use) {
#pragma unroll
  for (int order = TERMS - 1; order >= 0; order--)
    unrolled (i, order + 1) use(i, order - i);
}
