/* Which rows of a streamed file a rank trains on, and that its reader parses no others. */

#include "base/random.h"
#include "data/dataset.h"
#include "support/folder.h"
#include "train/own_rows.h"

enum { RANKS = 4 };

TESTS_WITH(folder_open, folder_close);

/* Every row is one rank's, that of its position in the order of its window. */
TEST(ranks_have_rows_of_their_own) {
  static const StreamedEpoch epochs[] = {{100, 40, 8, 7}, {80, 40, 8, 8}, {3, 64, 64, 9}};
  Error error;
  for (size_t e = 0; e < sizeof epochs / sizeof *epochs; e++)
    for (int ranks = 1; ranks <= RANKS; ranks++) {
      const StreamedEpoch *epoch = &epochs[e];
      int owners[100] = {0}, rank_of[100];
      for (int rank = 0; rank < ranks; rank++) {
        RowSet set;
        assert_true(own_rows(epoch, rank, ranks, &set, &error));
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

/* Reads rows of one pixel, of which some are wanted; returns how many were read, and whether all
   went well. Row r is "r % 10, r % 251". */
static bool read_some(const RowSet *wanted, int threads, uint64_t *rows, Error *error) {
  enum { AT_ONCE = 64 };
  uint8_t pixels[AT_ONCE];
  uint16_t labels[AT_ONCE];
  size_t filled;
  const DatasetConfig config = {
      .path = folder_path("some.csv"), .classes = 10, .threads = threads, .wanted = wanted};
  DatasetReader *reader = dataset_open(&config, error);
  assert_non_null(reader);
  *rows = 0;
  bool good;
  while ((good = dataset_read(reader, pixels, 1, labels, AT_ONCE, &filled, error)) && filled > 0)
    for (size_t i = 0; i < filled; i++, ++*rows) {
      const bool has = row_set_has(wanted, *rows);
      assert_int_equal(labels[i], has ? *rows % 10 : 0);
      assert_int_equal(pixels[i], has ? *rows % 251 : 0);
    }
  dataset_close(reader);
  return good;
}

TEST(rows_of_others_are_not_parsed) {
  enum { MANY = 200000, WRONG = 150001 }; /* some chunks of text */
  uint64_t rows;
  Error error;
  RowSet wanted = {MANY, calloc(MANY / 8 + 1, 1)};
  FILE *file = fopen(folder_path("some.csv"), "w");
  assert_non_null(file);
  fputs("label,pixel\r\n", file);
  for (int r = 0; r < MANY; r++)
    fprintf(file, r == WRONG ? "a,bad,\"line\r\n" : "%d,%d\r\n", r % 10, r % 251);
  fputs("\r\n\n", file);
  assert_int_equal(fclose(file), 0);
  for (uint64_t r = 0; r < MANY; r++)
    if (r % 3 == 0 || r % 1000 > 900) row_set_add(&wanted, r);
  assert_false(row_set_has(&wanted, WRONG));
  for (int threads = 1; threads <= 3; threads++) {
    assert_true(read_some(&wanted, threads, &rows, &error));
    assert_int_equal(rows, MANY);
  }
  row_set_add(&wanted, WRONG);
  assert_false(read_some(&wanted, 2, &rows, &error));
  assert_non_null(strstr(error.text, "some.csv, line 150003"));
  free(wanted.bits);
}
