/* Tests held-out rows. The given fraction of each class must be held out. All other rows must be
   for training. tests/scenarios/validation.sh tests whole runs. */
#include "base/random.h"
#include "data/split.h"
#include "support/test.h"

enum { ROWS = 5000, MOST_CLASSES = 10 };

static int labels[ROWS];

/* Draws labels for classes of very different sizes. */
static void draw_labels(void) {
  for (int row = 0; row < ROWS; row++) {
    const RandomWords drawn = random_words(7, 0, (uint64_t)row);
    labels[row] = (int)(drawn.word[0] % MOST_CLASSES);
    if (labels[row] == 1 && drawn.word[1] % 50 > 0) labels[row] = 0;
  }
}

static void choose(double share, uint64_t seed, bool held_out, bool taken[ROWS]) {
  Split split = {share, seed, held_out, MOST_CLASSES, {{0}}};
  for (int row = 0; row < ROWS; row++) taken[row] = split_takes(&split, labels[row]);
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
      const Split bounds[] = {{*each, seed, true, MOST_CLASSES, {{0}}},
                              {*each, seed, false, MOST_CLASSES, {{0}}}};
      assert_in_range(split_most(&bounds[0], ROWS), all, all + 2 * MOST_CLASSES + 1);
      assert_in_range(split_most(&bounds[1], ROWS), ROWS - all, ROWS - all + 2 * MOST_CLASSES + 1);
    }
}
