/* Loops whose body the compiler repeats. */
#pragma once

/* Runs its body for i from 0 to count - 1; i is a constant in each copy of the body. */
#define unrolled(i, count) _Pragma("unroll") for (int i = 0; i < (count); i++)

/* Runs its body for i = 0, step, 2 step, ... below count. */
#define unrolled_by(i, count, step) _Pragma("unroll") for (int i = 0; i < (count); i += (step))

/* Multiplies two numbers, each a sum of TERMS terms: calls use(i, j) for the product of terms i and
   j if i + j < TERMS. The other products are too small to matter. Small products come first. */
template <int TERMS, class Use> __device__ inline void each_product(const Use &use) {
#pragma unroll
  for (int order = TERMS - 1; order >= 0; order--)
    unrolled (i, order + 1) use(i, order - i);
}
