/* A set of rows of a file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t rows; /* of the file */
  uint8_t *bits; /* (rows + 7) / 8 bytes: row r is bit r % 8 of byte r / 8 */
} RowSet;

static inline void row_set_add(RowSet *set, uint64_t row) {
  set->bits[row / 8] = (uint8_t)(set->bits[row / 8] | 1u << row % 8);
}

static inline bool row_set_has(const RowSet *set, uint64_t row) {
  return set->bits[row / 8] >> row % 8 & 1;
}
