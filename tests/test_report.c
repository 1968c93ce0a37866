/* The output of a run: every line and every progress bar fits a terminal of 80 columns. */
#include <math.h>

#include "train/report.h"
#include "support/process.h"
#include "support/test.h"

static const char *printed;

/* Standard output is a file in memory between the two calls; then its text is `printed`. */
static FILE *capture(void) {
  FILE *before = stdout;
  stdout = text_open();
  return before;
}

static void release(FILE *before) {
  printed = text_close(stdout);
  stdout = before;
}

static EpochResult result_of(int epoch, int epochs) {
  return (EpochResult){.epoch = epoch,
                       .epochs = epochs,
                       .train_loss = 0.0874,
                       .train_accuracy = 0.9743,
                       .test_loss = 0.0802,
                       .test_accuracy = 0.9762,
                       .train_seconds = 0.0061,
                       .test_seconds = 0.00031,
                       .train_rows = 60000,
                       .test_rows = 10000};
}

static void print_epochs(Report *report, const EpochResult *results, int count) {
  FILE *before = capture();
  for (int i = 0; i < count; i++)
    report_epoch(report, &results[i], results[i].epoch == results[i].epochs);
  release(before);
  assert_false(report->failed);
}

TEST(epochs_are_a_table) {
  EpochResult results[] = {result_of(3, 10), result_of(4, 10)};
  results[1].rows_before = 54000; /* the rest of an epoch that was interrupted */
  Report report = {.percent = -1};
  print_epochs(&report, results, 2);
  assert_string_equal(printed,
                      "               loss     acc  test-loss  test-acc   train    eval  img/s\n"
                      "epoch  3/10  0.0874  97.43%     0.0802    97.62%  6.10ms  0.31ms   9.8M\n"
                      "epoch  4/10  0.0874  97.43%     0.0802    97.62%  6.10ms  0.31ms   984k\n");
}

TEST(columns_hold_large_and_small_numbers) {
  EpochResult results[] = {result_of(1, 999999), result_of(999999, 999999)};
  results[0].train_loss = 99.9989;
  results[0].train_accuracy = results[0].test_accuracy = 1;
  results[0].train_seconds = 86400;
  results[0].test_seconds = 3599.6;
  results[1].test_loss = 12.3454;
  results[1].test_accuracy = 0.001;
  results[1].train_seconds = 0.9996;
  results[1].test_seconds = 0.0999;
  Report report = {.percent = -1};
  print_epochs(&report, results, 2);
  assert_non_null(strstr(printed,
                         "\nepoch      1/999999  99.999  100.0%     0.0802    100.0%  86400s"
                         "   3600s      1\n"));
  assert_non_null(strstr(printed,
                         "\nepoch 999999/999999  0.0874  97.43%     12.345     0.10%   1.00s"
                         "  99.9ms    60k\n"));
  assert_in_range(process_longest_line(printed), 70, 80);
}

TEST(quiet_is_the_last_epoch) {
  const EpochResult results[] = {result_of(1, 2), result_of(2, 2)};
  Report report = {.quiet = true, .percent = -1};
  print_epochs(&report, results, 2);
  assert_memory_equal(printed, "             loss ", 18);
  assert_non_null(strstr(printed, "\nepoch 2/2 "));
  assert_null(strstr(printed, "epoch 1/2"));
}

/* The bars that are shown for an epoch; each starts with a carriage return. */
static void show_bars(Report *report, int epoch, int epochs, const double (*bars)[2], int count) {
  FILE *before = capture();
  for (int i = 0; i < count; i++) report_progress(report, epoch, epochs, bars[i][0], bars[i][1]);
  release(before);
}

TEST(a_bar_says_how_far_it_is) {
  static const double bars[][2] = {{0.25, NAN}, {0.251, 0.5}, {0.5, 0.5}, {1, 0.25}};
  Report report = {.has_bar = true, .percent = -1};
  show_bars(&report, 3, 10, bars, 4);
  assert_string_equal(printed, "\repoch  3/10  [##      ]  25%\033[K"
                               "\repoch  3/10  [####    ]  50%  loss 0.5000  0:00 of 0:00 left"
                               "\033[K"
                               "\repoch  3/10  [########] 100%  loss 0.2500  0:00 of 0:00 left"
                               "\033[K");
}

TEST(time_left_follows_the_pace) {
  static const double half[][2] = {{0.5, NAN}}, more[][2] = {{0.75, NAN}};
  Report report = {.has_bar = true, .percent = -1};
  show_bars(&report, 1, 2, half, 1);
  report.since -= 600; /* a quarter took ten minutes: another one is left */
  show_bars(&report, 1, 2, more, 1);
  assert_non_null(strstr(printed, " 75%  10:00 of 50:00 left\033"));
  report.since -= 9000;
  show_bars(&report, 1, 2, (const double[][2]){{0.6, NAN}}, 1);
  assert_non_null(strstr(printed, " 60%  10:40:00 of 37:20:00 left\033"));
  show_bars(&report, 2, 2, more, 1); /* another epoch, and its pace is not known yet */
  assert_non_null(strstr(printed, " 75%\033"));
}

TEST(a_bar_fits_a_terminal) {
  static const double bars[][2] = {{0, 12.345}, {1e-9, 12.345}, {1, 12.345}};
  Report report = {.has_bar = true, .percent = -1};
  show_bars(&report, 999999, 1000000, bars, 1);
  report.since -= 1e9;
  report.percent = -1;
  show_bars(&report, 999999, 1000000, &bars[1], 1);
  assert_non_null(strstr(printed, "  loss 12.345  99:59:59 of 99:59:59 left\033[K"));
  assert_in_range(strcspn(printed, "\033") - 1, 60, 79); /* a cursor stands behind it */
}

TEST(no_bar_without_a_terminal) {
  static const double bars[][2] = {{0.25, 1}, {0.5, 1}};
  Report report = {.percent = -1};
  show_bars(&report, 1, 1, bars, 2);
  assert_string_equal(printed, "");
}

TEST(a_line_replaces_the_bar) {
  static const double bars[][2] = {{0.5, NAN}};
  Report report = {.has_bar = true, .percent = -1};
  show_bars(&report, 1, 1, bars, 1);
  FILE *before = capture();
  report_note(&report, "a note");
  report_note(&report, "%s", "b");
  release(before);
  assert_false(report.failed);
  assert_string_equal(printed, "\r\033[Ka note\nb\n");
}
