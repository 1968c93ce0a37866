/* Rows that are held out: as many of each class as the share says, the others all trained on, and
   the same ones however the file is read. Which rows of a streamed file a rank trains on, and that
   its reader parses no others. */
#include "base/random.h"
#include "data/split.h"
#include "train/trainer.h"
#include "support/csv.h"

enum { ROWS = 5000, MOST_CLASSES = 10 };

static int labels[ROWS];

/* Classes of very different sizes. */
static void draw_labels(void) {
  random_state = 7;
  for (int row = 0; row < ROWS; row++) {
    labels[row] = (int)draw(MOST_CLASSES);
    if (labels[row] == 1 && draw(50) > 0) labels[row] = 0;
  }
}

static void choose(double share, uint64_t seed, bool held_out, bool taken[ROWS]) {
  Split split;
  assert_true(split_open(&split, share, seed, held_out, MOST_CLASSES, &error));
  for (int row = 0; row < ROWS; row++) taken[row] = split_takes(&split, labels[row]);
  split_close(&split);
}

TEST(every_class_gives_its_share) {
  draw_labels();
  foreach (each, VALUES(double, 1e-3, 0.1, 0.2, 0.25, 0.3, 0.37, 0.5, 0.7, 0.9))
    for (uint64_t seed = 0; seed < 3; seed++) {
      bool held[ROWS], trained[ROWS];
      int rows[MOST_CLASSES] = {0}, of[MOST_CLASSES] = {0};
      uint64_t all = 0;
      choose(*each, seed, true, held);
      choose(*each, seed, false, trained);
      for (int row = 0; row < ROWS; row++) {
        assert_true(held[row] != trained[row]);
        rows[labels[row]]++;
        of[labels[row]] += held[row];
        all += held[row];
      }
      for (int c = 0; c < MOST_CLASSES; c++) {
        const double share = *each * rows[c];
        if (of[c] < share - 1 || of[c] > share + 1)
          fail_msg("%d of %d rows at %g", of[c], rows[c], *each);
      }
      const Split bounds[] = {{*each, seed, true, MOST_CLASSES, NULL},
                              {*each, seed, false, MOST_CLASSES, NULL}};
      assert_in_range(split_most(&bounds[0], ROWS), all, all + 2 * MOST_CLASSES + 1);
      assert_in_range(split_most(&bounds[1], ROWS), ROWS - all, ROWS - all + 2 * MOST_CLASSES + 1);
    }
}

/* Nothing of the file's order is left: neighbours and ends are as likely as others. */
TEST(a_seed_is_a_choice) {
  enum { SEEDS = 200 };
  static bool one[ROWS], other[ROWS];
  static int times[ROWS];
  draw_labels();
  choose(0.1, 0, true, one);
  choose(0.1, 0, true, other);
  assert_memory_equal(one, other, sizeof one);
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    choose(0.1, seed, true, one);
    for (int row = 0; row < ROWS; row++) times[row] += one[row];
  }
  for (int row = 0; row < ROWS; row++) /* 20 on average, a standard deviation of 4.2 */
    if (times[row] == 0 || times[row] > 50) fail_msg("row %d: %d times", row, times[row]);
}

/* The reader delivers both parts of the file, whatever the threads and the blocks. */
TEST(the_reader_delivers_both_parts) {
  enum { FILE_ROWS = 3000, INPUTS = 30 };
  draw_csv(3, FILE_ROWS, INPUTS);
  reading = (DatasetConfig){.classes = 256, .hold_out = 0.3, .seed = 5};
  foreach (threads, thread_counts)
    for (int held = 0; held < 2; held++) {
      Split split;
      OK(split_open(&split, 0.3, 5, held, 256, &error));
      reading.held_out = held;
      read_table(*threads, 0, 77);
      assert_string_equal(got.error.text, "");
      for (size_t i = 0, row = 0; i < got.rows; i++, row++) {
        while (!split_takes(&split, wanted.labels[row])) row++;
        assert_int_equal(got.labels[i], wanted.labels[row]);
        assert_memory_equal(got.pixels + i * INPUTS, wanted.pixels + row * INPUTS, INPUTS);
      }
      assert_in_range(got.rows, FILE_ROWS * (held ? 3 : 7) / 10 - 256, FILE_ROWS * 7 / 10 + 256);
      split_close(&split);
    }
}

/* Every row is one rank's, that of its position in the order of its window. */
TEST(ranks_have_rows_of_their_own) {
  enum { RANKS = 4 };
  foreach (epoch, VALUES(StreamedEpoch, {100, 40, 8, 7}, {80, 40, 8, 8}, {3, 64, 64, 9}))
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
  FILE *file = folder_create(path);
  fputs("label,pixel\r\n", file);
  for (int r = 0; r < MANY; r++)
    fprintf(file, r == WRONG ? "a,bad,\"line\r\n" : "%d,%d\r\n", r % 10, r % 251);
  fputs("\r\n\n", file);
  close_file(file);
  for (uint64_t r = 0; r < MANY; r++)
    if (r % 3 == 0 || r % 1000 > 900) row_set_add(&set, r);
  assert_false(row_set_has(&set, WRONG));
  reading = (DatasetConfig){.classes = 10, .wanted = &set};
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
  assert_in(got.error.text, "x.csv, line 150003");
  free(set.bits);
}
