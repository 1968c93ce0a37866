/* Tests the exercise's hidden shapes and points. tests/scenarios/exercise.sh and mistakes.sh test
   how functions are run, counted and judged. */
#include "exercise/exercise.h"

#include <math.h>
#include "support/test.h"

TEST(shapes_are_small_and_large) {
  for (uint64_t seed = 0; seed < 50; seed++) {
    int most_rows = 0, most_out = 0, wide = 0, none_left = 0, fewer_left = 0;
    for (int i = 0; i < EXERCISE_SHAPES; i++) {
      const ExerciseShape s = exercise_shape(seed, i);
      assert_in_range(s.rows, 1, 700);
      assert_in_range(s.in, 1, 700);
      assert_in_range(s.out, 1, 1024 + 700);
      wide += s.out > 1024;
      if (s.rows > most_rows) most_rows = s.rows;
      if (s.out > most_out) most_out = s.out;
      none_left += s.end == s.first;
      fewer_left += s.end > s.first && s.end - s.first < s.rows;
    }
    assert_true(most_rows > 256 && most_out > 256);
    assert_int_equal(wide, 1); /* no block has a thread for each column */
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
  s.call.counts.depth = 64 * 404; /* a warp may be 16 times as deep as our longest */
  assert_true(exercise_points(&s).fast == 0.25 * POINTS_FAST);
  s.right = false;
  assert_true(exercise_points(&s).all == 0);
}

/* One launch is not fusion: the bytes and the threads must show it. */
TEST(a_kernel_is_fused_if_bytes_move_once_and_threads_share_the_work) {
  const ExerciseShape shape = {.rows = 64, .in = 784, .out = 300, .end = 64};
  const double least = exercise_least_bytes(TASK_FORWARD, shape);
  ExerciseScore s = {
      .task = TASK_FORWARD, .measured = shape, .compares = true, .call = {.launches = 1}};
  s.call.moved_bytes = 1.04 * least;
  s.call.counts = (EmulatorCounts){.depth = 1000, .lane_steps = 64000};
  assert_string_equal(exercise_not_fused(&s).text, "");
  s.call.counts.lane_steps = 1000; /* <<<1, 1>>> */
  assert_string_equal(exercise_not_fused(&s).text,
                      "on average only 1 of its threads are at work at a time");
  s.call.moved_bytes = 1.13 * least; /* the kernels of the hand-out, pasted */
  assert_string_equal(
      exercise_not_fused(&s).text,
      "its kernel moves 1.13 times the least bytes, so values still go through memory");
  s.call.moved_bytes = NAN; /* on a GPU */
  assert_string_equal(exercise_not_fused(&s).text, "");
  s.call.launches = 2;
  assert_string_equal(exercise_not_fused(&s).text,
                      "it launches 2 kernels; to begin: make exercise ONLY=1 HINT=1");
}
