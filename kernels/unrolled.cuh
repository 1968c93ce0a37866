/* Loops whose body the compiler repeats. */
#pragma once

/* Runs its body for i from 0 to count - 1, unrolled: i is a constant in each copy, so that an array
   that it numbers stays in registers. */
#define unrolled(i, count) _Pragma("unroll") for (int i = 0; i < (count); i++)

/* The same for i = 0, step, 2 step, ... below count. */
#define unrolled_by(i, count, step) _Pragma("unroll") for (int i = 0; i < (count); i += (step))
