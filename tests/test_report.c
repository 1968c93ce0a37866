/* Tests what a run prints. Every line must fit in a terminal of 80 columns. */
#include "train/report.h"
#include "support/test.h"

static FILE *terminal;

/* Begins to capture standard output. printed() ends the capture and returns the text. */
static void capture(void) {
  terminal = stdout;
  stdout = text_open();
}

static const char *printed(void) {
  const char *text = text_close(stdout);
  stdout = terminal;
  return text;
}

static const EpochResult usual = {.train_loss = 0.0874,
                                  .train_accuracy = 0.9743,
                                  .test_loss = 0.0802,
                                  .test_accuracy = 0.9762,
                                  .train_seconds = 0.0061,
                                  .test_seconds = 0.00031,
                                  .train_rows = 60000,
                                  .test_rows = 10000};

/* Reports two epochs of a run of `epochs` epochs, and returns the text. */
static const char *show_epochs(EpochResult first, EpochResult second, int epochs) {
  Report report = {.percent = -1};
  capture();
  first.epochs = second.epochs = epochs;
  report_epoch(&report, &first, false);
  report_epoch(&report, &second, second.epoch == epochs);
  assert_false(report.failed);
  return printed();
}

TEST(columns_hold_large_and_small_numbers) {
  EpochResult first = usual, last = usual;
  first.epoch = 1;
  first.train_loss = 99.9989;
  first.train_accuracy = first.test_accuracy = 1;
  first.train_seconds = 86400;
  last.rows_before = 54000; /* this epoch is the rest of an interrupted epoch */
  first.test_seconds = 3599.6;
  last.epoch = 999999;
  last.test_loss = 12.3454;
  last.test_accuracy = 0.001;
  last.train_seconds = 0.9996;
  last.test_seconds = 0.0999;
  assert_string_equal(
      show_epochs(first, last, 999999),
      "                       loss     acc  test-loss  test-acc   train    eval  img/s\n"
      "epoch      1/999999  99.999  100.0%     0.0802    100.0%  86400s   3600s      1\n"
      "epoch 999999/999999  0.0874  97.43%     12.345     0.10%   1.00s  99.9ms   6.0k\n");
}

/* On a terminal, the next line replaces an epoch's progress. In a file, no progress is printed. */
TEST(a_line_replaces_the_progress) {
  Report report = {.shows_progress = true, .percent = -1}, without = {.percent = -1};
  capture();
  report_progress(&without, 3, 10, 0.25);
  report_progress(&report, 3, 10, 0.25);
  report_progress(&report, 3, 10, 0.251);
  report_note(&report, "a note");
  report_note(&report, "%s", "b");
  assert_false(report.failed);
  assert_string_equal(printed(), "\repoch  3/10  25%\033[K\r\033[Ka note\nb\n");
}

/* Returns what report_learning prints after epoch 9 of a network for 10 classes, of which the first
   judging class has 100 of 1000 rows. */
static const char *show_learning(double train_loss, double train_accuracy, double test_accuracy) {
  Report report = {.percent = -1};
  const Training training = {.classes = 10, .batch = 64};
  Trainer trainer = {.config.training = &training,
                     .judge.data = {.rows = 1000, .classes = 10},
                     .judge.path = "other.csv"};
  const EpochResult result = {.epoch = 9,
                              .epochs = 10,
                              .train_loss = train_loss,
                              .train_accuracy = train_accuracy,
                              .test_accuracy = test_accuracy,
                              .train_rows = 60000,
                              .test_rows = 1000};
  for (int c = 0; c < 10; c++) trainer.judge.data.counts[c] = 100;
  capture();
  report_learning(&report, &result, &trainer);
  return printed();
}

/* A large loss does not mean that a network learns nothing: it may be wrong, but sure, on few rows.
 */
TEST(a_network_is_judged_by_its_accuracy) {
#define NO_BETTER "note     after epoch 9 the network is no better than a constant answer: "
  static const char remark[] = NO_BETTER "try a lower or a higher --lr\n";
  assert_string_equal(show_learning(9.31, 0.11, 0.1), NO_BETTER "try a lower --lr\n");
  assert_string_equal(show_learning(2.31, 0.11, 0.1), remark);
  assert_string_equal(show_learning(2.31, 0.11, 0.09), remark);
  assert_string_equal(show_learning(2.29, 0.12, 0.1), remark);
  assert_string_equal(show_learning(2.29, 0.12, 0.09), "");
  assert_string_equal(show_learning(2.31, 0.11, 0.101), "");
  assert_string_equal(show_learning(2.31, 0.9, 0.95), "");
  assert_string_equal(show_learning(0.31, 0.9, 0.09),
                      NO_BETTER "do the labels of other.csv mean what those of the training rows "
                                "do?\n");
  assert_string_equal(show_learning(0.31, 0.9, 0.101), "");
}
