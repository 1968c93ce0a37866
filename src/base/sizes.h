/* Dividing and rounding up, for sizes and counts; the same on the host and on the device. The
   smaller and the larger, which the device has. */
#ifndef SIZES_H
#define SIZES_H

#ifdef __cplusplus

#ifdef __CUDACC__
#define SIZES_FUNCTION __host__ __device__ constexpr
#else
#define SIZES_FUNCTION constexpr
#endif

/* How many units cover `count`: count / unit, rounded up. Of integers, count >= 0 and unit > 0; in
   the type that the two have together. */
template <class Count, class Unit> SIZES_FUNCTION auto ceil_div(Count count, Unit unit) {
  return (count + unit - 1) / unit;
}

/* The first multiple of `unit` that is not below `count`. */
template <class Count, class Unit> SIZES_FUNCTION auto round_up(Count count, Unit unit) {
  return (count + unit - 1) / unit * unit;
}

/* Where part `part` of `parts` equal ones of `count` begins, equal up to 1; part + 1 is its end. */
template <class Count, class Part>
SIZES_FUNCTION Count part_start(Count count, Part part, Part parts) {
  return count * (Count)part / (Count)parts;
}

#else

#include <stddef.h>

static inline size_t ceil_div(size_t count, size_t unit) {
  return (count + unit - 1) / unit;
}

static inline size_t round_up(size_t count, size_t unit) {
  return (count + unit - 1) / unit * unit;
}

static inline size_t part_start(size_t count, size_t part, size_t parts) {
  return count * part / parts;
}

static inline int min_int(int a, int b) {
  return a < b ? a : b;
}

static inline int max_int(int a, int b) {
  return a > b ? a : b;
}

#endif

#endif
