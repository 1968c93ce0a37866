/* Digits that are drawn instead of downloaded; tests/scenarios/digits.sh has the program. */
#include "support/pictures.h"

/* Labels are equally likely. As in MNIST, ink lies in 20 x 20 pixels, its centre in pixel 14. */
TEST(test_labels_size_and_place) {
  int count[10] = {0};
  for (uint64_t row = 0; row < 10000; row++) {
    uint8_t pixels[PIXELS];
    const int label = digits_draw(4, DIGITS_TRAIN, row, pixels);
    assert_in_range(label, 0, 9);
    count[label]++;
    const Grey picture_of = {SIDE, SIDE, pixels};
    const Extent ink = extent_of(&picture_of, 1, 255), dark = extent_of(&picture_of, 200, 255);
    const int width = ink.right - ink.left, height = ink.bottom - ink.top;
    assert_in_range(width > height ? width : height, DIGITS_BOX - 3, DIGITS_BOX);
    assert_close(ink.x, 14, 0.5);
    assert_close(ink.y, 14, 0.5);
    assert_true(dark.mass > 0);
    assert_in_range((int)(ink.mass / 255), 20, 300); /* black pixels */
  }
  for (int label = 0; label < 10; label++)
    assert_in_range(count[label], 850, 1150); /* five standard deviations of 30 */
}

/* The mean picture of each class tells most test digits apart, as it does with MNIST (82%), and
   not all of them: the drawings vary. */
TEST(test_task_is_honest) {
  enum { TRAIN = 4000, TEST = 1000 };
  static double mean[10][PIXELS];
  uint8_t pixels[PIXELS];
  int count[10] = {0}, right = 0;
  for (uint64_t row = 0; row < TRAIN; row++) {
    const int label = digits_draw(5, DIGITS_TRAIN, row, pixels);
    count[label]++;
    for (int i = 0; i < PIXELS; i++) mean[label][i] += pixels[i];
  }
  for (int label = 0; label < 10; label++)
    for (int i = 0; i < PIXELS; i++) mean[label][i] /= count[label];
  for (uint64_t row = 0; row < TEST; row++) {
    const int truth = digits_draw(5, DIGITS_TEST, row, pixels);
    double distance[10] = {0}, least = 1e300;
    for (int label = 0; label < 10; label++) {
      for (int i = 0; i < PIXELS; i++) distance[label] += pow(pixels[i] - mean[label][i], 2);
      least = fmin(least, distance[label]);
    }
    right += distance[truth] == least;
  }
  assert_in_range(right, TEST * 70 / 100, TEST * 92 / 100);
}
