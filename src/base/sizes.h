/* Divides and rounds sizes and counts on the host and on the device, and allocates arrays. */
#ifndef SIZES_H
#define SIZES_H

#ifdef __cplusplus

#ifdef __CUDACC__
#define SIZES_FUNCTION __host__ __device__ constexpr
#else
#define SIZES_FUNCTION constexpr
#endif

/* Returns count / unit, rounded up, in the common type of both. Both are integers; count >= 0 and
   unit > 0. */
template <class Count, class Unit> SIZES_FUNCTION auto ceil_div(Count count, Unit unit) {
  return (count + unit - 1) / unit;
}

/* Returns `count`, rounded up to a multiple of `unit`. */
template <class Count, class Unit> SIZES_FUNCTION auto round_up(Count count, Unit unit) {
  return (count + unit - 1) / unit * unit;
}

/* Divides `count` elements into `parts` parts whose sizes differ by at most 1. Returns the index of
   the first element of part `part`. The part ends where part `part + 1` starts. */
template <class Count, class Part>
SIZES_FUNCTION Count part_start(Count count, Part part, Part parts) {
  return count * (Count)part / (Count)parts;
}

#else

#include <stdlib.h>

/* Returns `count` zeroed elements of type *pointer, or NULL if memory is short. The caller
   frees them. */
#define make_array(pointer, count) calloc((size_t)(count), sizeof *(pointer))

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* Loops over the rows of a table. Example: foreach(row, cases) expect(row->text, row->rows); */
#define foreach(row, table)                                                                        \
  for (const __typeof__(*(table)) *row = (table), *row##_end = row + LENGTH(table);                \
       row < row##_end; row++)

static inline size_t ceil_div(size_t count, size_t unit) {
  return (count + unit - 1) / unit;
}

static inline size_t round_up(size_t count, size_t unit) {
  return (count + unit - 1) / unit * unit;
}

static inline size_t part_start(size_t count, size_t part, size_t parts) {
  return count * part / parts;
}

static inline size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

static inline int min_int(int a, int b) {
  return a < b ? a : b;
}

static inline int max_int(int a, int b) {
  return a > b ? a : b;
}

#endif

#endif
