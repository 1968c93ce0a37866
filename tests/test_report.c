/* The output of a run: every line and every progress bar fits a terminal of 80 columns. */
#include "train/report.h"
#include "support/test.h"

static FILE *terminal;

/* What is printed until the next call of printed() is its text. */
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

/* Two epochs, the second one the last if it has that number. */
static const char *show_epochs(bool quiet, EpochResult first, EpochResult second, int epochs) {
  Report report = {.quiet = quiet, .percent = -1};
  capture();
  first.epochs = second.epochs = epochs;
  report_epoch(&report, &first, false);
  report_epoch(&report, &second, second.epoch == epochs);
  assert_false(report.failed);
  return printed();
}

TEST(epochs_are_a_table) {
  EpochResult third = usual, fourth = usual;
  third.epoch = 3;
  fourth.epoch = 4;
  fourth.rows_before = 54000; /* the rest of an epoch that was interrupted */
  assert_string_equal(show_epochs(false, third, fourth, 10),
                      "               loss     acc  test-loss  test-acc   train    eval  img/s\n"
                      "epoch  3/10  0.0874  97.43%     0.0802    97.62%  6.10ms  0.31ms   9.8M\n"
                      "epoch  4/10  0.0874  97.43%     0.0802    97.62%  6.10ms  0.31ms   984k\n");
  fourth.epoch = 10;
  const char *text = show_epochs(true, third, fourth, 10); /* quiet: the last epoch alone */
  assert_memory_equal(text, "               loss ", 20);
  assert_in(text, "\nepoch 10/10 ");
  assert_null(strstr(text, " 3/10"));
}

TEST(columns_hold_large_and_small_numbers) {
  EpochResult first = usual, last = usual;
  first.epoch = 1;
  first.train_loss = 99.9989;
  first.train_accuracy = first.test_accuracy = 1;
  first.train_seconds = 86400;
  first.test_seconds = 3599.6;
  last.epoch = 999999;
  last.test_loss = 12.3454;
  last.test_accuracy = 0.001;
  last.train_seconds = 0.9996;
  last.test_seconds = 0.0999;
  assert_string_equal(
      show_epochs(false, first, last, 999999),
      "                       loss     acc  test-loss  test-acc   train    eval  img/s\n"
      "epoch      1/999999  99.999  100.0%     0.0802    100.0%  86400s   3600s      1\n"
      "epoch 999999/999999  0.0874  97.43%     12.345     0.10%   1.00s  99.9ms    60k\n");
}

/* What is shown of an epoch so far; a bar starts with a carriage return. */
static const char *show(Report *report, int epoch, int epochs, double done, double loss) {
  capture();
  report_progress(report, epoch, epochs, done, loss);
  return printed();
}

TEST(a_bar_says_how_far_it_is) {
  static const struct {
    double done, loss;
    const char *bar;
  } shown[] = {{0.25, NAN, "\repoch  3/10  [##      ]  25%\033[K"},
               {0.251, 0.5, ""},
               {0.5, 0.5, "\repoch  3/10  [####    ]  50%  loss 0.5000  0:00 of 0:00 left\033[K"},
               {1, 0.25, "\repoch  3/10  [########] 100%  loss 0.2500  0:00 of 0:00 left\033[K"}};
  Report report = {.has_bar = true, .percent = -1}, without = {.percent = -1};
  foreach (row, shown) {
    assert_string_equal(show(&report, 3, 10, row->done, row->loss), row->bar);
    assert_string_equal(show(&without, 3, 10, row->done, row->loss), ""); /* no terminal */
  }
}

TEST(time_left_follows_the_pace_and_fits_a_terminal) {
  Report report = {.has_bar = true, .percent = -1};
  show(&report, 1, 2, 0.5, NAN);
  report.since -= 600; /* a quarter took ten minutes: another one is left */
  assert_in(show(&report, 1, 2, 0.75, NAN), " 75%  10:00 of 50:00 left\033");
  show(&report, 999999, 1000000, 0, 12.345);
  report.since -= 1e9;
  report.percent = -1;
  const char *bar = show(&report, 999999, 1000000, 1e-9, 12.345);
  assert_in(bar, "  loss 12.345  99:59:59 of 99:59:59 left\033[K");
  assert_in_range(strcspn(bar, "\033") - 1, 60, 79); /* a cursor stands behind it */
}

TEST(a_line_replaces_the_bar) {
  Report report = {.has_bar = true, .percent = -1};
  show(&report, 1, 1, 0.5, NAN);
  capture();
  report_note(&report, "a note");
  report_note(&report, "%s", "b");
  assert_false(report.failed);
  assert_string_equal(printed(), "\r\033[Ka note\nb\n");
}
