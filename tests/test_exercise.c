/* Tests the exercise's hidden shapes and points. tests/scenarios/exercise.sh and mistakes.sh test
   how functions are run, counted and judged. */
#include "exercise/exercise.h"
#include "support/test.h"

TEST(shapes_are_small_and_large) {
  for (uint64_t seed = 0; seed < 50; seed++) {
    int most_rows = 0, most_out = 0, none_left = 0, fewer_left = 0;
    for (int i = 0; i < EXERCISE_SHAPES; i++) {
      const ExerciseShape s = exercise_shape(seed, i);
      assert_in_range(s.rows, 1, 700);
      assert_in_range(s.in, 1, 700);
      assert_in_range(s.out, 1, 700);
      if (s.rows > most_rows) most_rows = s.rows;
      if (s.out > most_out) most_out = s.out;
      none_left += s.end == s.first;
      fewer_left += s.end > s.first && s.end - s.first < s.rows;
    }
    assert_true(most_rows > 256 && most_out > 256);
    assert_true(none_left > 0 && fewer_left > 0);
    const ExerciseShape first = exercise_shape(seed, 0);
    assert_true(first.rows == 1 && first.in == 1 && first.out == 1);
  }
}

/* The functions handed out to students are right, and some are fast, but they must earn no points.
   So points require fewer launches than these functions make. */
TEST(points_are_for_what_was_fused) {
  const ExerciseBackend gpu = {.on_gpu = true}, counted = {0};
  ExerciseScore s = {TASK_FORWARD,    &gpu,
                     .right = true,   .compares = true,
                     .handed_out = 3, .call = {.launches = 3, .seconds = 1, .seconds_ours = 2}};
  assert_true(exercise_points(&s).all == 0);
  s.call.launches = 2;
  assert_true(exercise_points(&s).all == POINTS_RIGHT);
  s.call.launches = 1, s.fused = true;
  assert_true(exercise_points(&s).all == POINTS_RIGHT + POINTS_FUSED + POINTS_FAST);
  s.call.seconds = 4;
  assert_true(exercise_points(&s).fast == 0.5 * POINTS_FAST);
  s.call.counts.sectors = 2 * 24000;
  s.task = TASK_SOFTMAX, s.backend = &counted;
  assert_true(exercise_points(&s).fast == 0.5 * POINTS_FAST);
  s.right = false;
  assert_true(exercise_points(&s).all == 0);
}
