/* Which rows of a streamed file a rank trains on, and that its reader parses no others. */

#include "base/random.h"
#include "support/csv.h"
#include "train/trainer.h"

enum { RANKS = 4 };

TESTS_WITH(csv_open, csv_close);

/* Every row is one rank's, that of its position in the order of its window. */
TEST(ranks_have_rows_of_their_own) {
  static const StreamedEpoch epochs[] = {{100, 40, 8, 7}, {80, 40, 8, 8}, {3, 64, 64, 9}};
  Error error;
  foreach (epoch, epochs)
    for (int ranks = 1; ranks <= RANKS; ranks++) {
      int owners[100] = {0}, rank_of[100];
      for (int rank = 0; rank < ranks; rank++) {
        RowSet set;
        OK(own_rows(epoch, rank, ranks, &set, &error));
        for (uint64_t row = 0; row < epoch->rows; row++)
          if (row_set_has(&set, row)) owners[row]++, rank_of[row] = rank;
        free(set.bits);
      }
      for (uint64_t p = 0; p < epoch->rows; p++) {
        const uint64_t window = p / epoch->window, first = window * epoch->window;
        const uint64_t end =
            first + epoch->window < epoch->rows ? first + epoch->window : epoch->rows;
        const uint64_t step = first + (p - first) / epoch->batch * epoch->batch;
        const uint64_t of_step = step + epoch->batch < end ? epoch->batch : end - step;
        const uint64_t row = first + random_permute((uint32_t)(p - first), (uint32_t)(end - first),
                                                    random_order_key(epoch->order_key, window));
        const uint64_t rank = (uint64_t)rank_of[row];
        assert_int_equal(owners[row], 1);
        assert_true(p - step >= of_step * rank / (uint64_t)ranks &&
                    p - step < of_step * (rank + 1) / (uint64_t)ranks);
      }
    }
}

/* Row r is "r % 10, r % 251". */
TEST(rows_of_others_are_not_parsed) {
  enum { MANY = 200000, WRONG = 150001 }; /* some chunks of text */
  RowSet set = {MANY, calloc(MANY / 8 + 1, 1)};
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("label,pixel\r\n", file);
  for (int r = 0; r < MANY; r++)
    fprintf(file, r == WRONG ? "a,bad,\"line\r\n" : "%d,%d\r\n", r % 10, r % 251);
  fputs("\r\n\n", file);
  assert_int_equal(fclose(file), 0);
  for (uint64_t r = 0; r < MANY; r++)
    if (r % 3 == 0 || r % 1000 > 900) row_set_add(&set, r);
  assert_false(row_set_has(&set, WRONG));
  reading.wanted = &set;
  for (int threads = 1; threads <= 3; threads++) {
    read_table(threads, 0, 64);
    assert_string_equal(got.error.text, "");
    assert_int_equal(got.rows, MANY);
    for (size_t r = 0; r < MANY; r++) {
      const bool has = row_set_has(&set, r);
      assert_int_equal(got.labels[r], has ? r % 10 : 0);
      assert_int_equal(got.pixels[r], has ? r % 251 : 0);
    }
  }
  row_set_add(&set, WRONG);
  read_table(2, 0, 64);
  assert_non_null(strstr(got.error.text, "x.csv, line 150003"));
  free(set.bits);
}
