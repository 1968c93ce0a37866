/* Tests metrics: the answers and losses that they count, and the exact text that they print. */
#include "model/metrics.h"
#include "support/test.h"

/* Declares metrics that are closed at the end of their block. */
#define SCORES __attribute__((cleanup(metrics_close))) Metrics

static Metrics open_scores(int classes) {
  Metrics scores;
  OK(metrics_open(&scores, classes, &error));
  assert_int_equal(scores.classes, classes);
  return scores;
}

/* Counts `times` rows with this truth and this answer. */
static void add(Metrics *scores, int truth, int answer, int times) {
  static float logits[1024];
  logits[answer] = 1;
  for (int i = 0; i < times; i++) assert_int_equal(metrics_add(scores, logits, truth), answer);
  logits[answer] = 0;
}

/* `counts` is (truth, answer). If several logits are largest, the answer is the first of them. */
TEST(test_where_rows_are_counted) {
  SCORES scores = open_scores(3);
  assert_int_equal(metrics_add(&scores, (const float[]){-1, -2, -3}, 2), 0);
  assert_int_equal(metrics_add(&scores, (const float[]){1, 3, 3}, 1), 1);
  assert_int_equal(metrics_add(&scores, (const float[]){1, 3, 3}, 2), 1);
  static const uint64_t expected[] = {0, 0, 0, 0, 1, 0, 1, 1, 0};
  assert_memory_equal(scores.counts, expected, sizeof expected);
  assert_int_equal(scores.correct, 1);
  metrics_close(&scores); /* closing twice is harmless */
}

/* Extreme logits do not overflow, and the largest possible loss is finite. */
TEST(test_extreme_logits) {
  const float logits[] = {1e30f, -1e30f, 1e30f};
  double probabilities[3];
  softmax(logits, 3, probabilities);
  assert_true(probabilities[0] == 0.5 && probabilities[1] == 0 && probabilities[2] == 0.5);
  SCORES scores = open_scores(3);
  metrics_add(&scores, logits, 1);
  assert_true(scores.loss == (double)1e30f - (double)-1e30f);
}

static const char *print(const Metrics *scores) {
  return PRINTED(file, metrics_print(scores, file));
}

/* The matrix's columns are as wide as the largest count. Class 2 is never the answer, and class 3
   has no rows. */
TEST(test_matrix) {
  SCORES scores = open_scores(4);
  add(&scores, 0, 0, 30);
  add(&scores, 0, 1, 10);
  add(&scores, 1, 1, 19);
  add(&scores, 1, 3, 1);
  add(&scores, 2, 0, 20);
  scores.loss = 12.34;
  assert_string_equal(print(&scores),
                      "loss 0.1542  accuracy  61.25%  wrong 31 of 80 rows\n"
                      "\n"
                      "truth  answer\n"
                      "         0    1    2    3     rows  precision   recall       F1\n"
                      "    0   30   10    .    .       40     60.00%   75.00%   66.67%\n"
                      "    1    .   19    .    1       20     65.52%   95.00%   77.55%\n"
                      "    2   20    .    .    .       20          -    0.00%    0.00%\n"
                      "    3    .    .    .    .        0      0.00%        -    0.00%\n"
                      " mean                           80     31.38%   42.50%   36.05%\n");
  scores.counts[0] = 123456;
  assert_in(print(&scores),
            "answer\n"
            "           0      1      2      3     rows  precision   recall       F1\n"
            "    0 123456     10      .      .   123466     99.98%   99.99%   99.99%\n");
}

/* Tests the largest number of classes. For more than 16 classes, no matrix is printed. */
TEST(test_1024_classes) {
  SCORES scores = open_scores(1024);
  for (int c = 0; c < 1024; c++) add(&scores, c, c, 1);
  const char *text = print(&scores);
  assert_in(text, "\n\nclass     rows  precision   recall       F1\n");
  assert_in(text, "\n 1023        1    100.00%  100.00%  100.00%\n");
}
