#include "train/own_rows.h"

#include <stdlib.h>

#include "base/random.h"
#include "base/sizes.h"

bool own_rows(const StreamedEpoch *epoch, int rank, int ranks, RowSet *set, Error *error) {
  const size_t part = (size_t)rank, parts = (size_t)ranks;
  *set = (RowSet){epoch->rows, calloc(epoch->rows / 8 + 1, 1)};
  if (!set->bits)
    return error_set(error, "no memory for the numbers of %llu rows",
                     (unsigned long long)epoch->rows);
  for (uint64_t first = 0; first < epoch->rows; first += epoch->window) {
    const uint64_t left = epoch->rows - first, rows = left < epoch->window ? left : epoch->window;
    const uint64_t key = random_order_key(epoch->order_key, first / epoch->window);
    for (uint64_t step = 0; step < rows; step += epoch->batch) {
      const uint64_t of_step = rows - step < epoch->batch ? rows - step : epoch->batch;
      const uint64_t end = step + part_start(of_step, part + 1, parts);
      for (uint64_t p = step + part_start(of_step, part, parts); p < end; p++)
        row_set_add(set, first + random_permute((uint32_t)p, (uint32_t)rows, key));
    }
  }
  return true;
}
