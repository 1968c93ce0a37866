/* What the grader of the exercise says of what a function has left. That it runs functions, counts
   them and finds what is wrong with them: tests/scenarios/exercise.sh and mistakes.sh. */
#include "exercise/exercise.h"
#include "support/folder.h"

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

/* Freed at the end of its block. */
#define PROBLEM __attribute__((cleanup(exercise_free))) ExerciseProblem

/* A problem, and what a right function leaves of it. */
static ExerciseProblem answered(ExerciseTask task) {
  ExerciseProblem p = exercise_problem(task, exercise_shape(1, 12), 7);
  exercise_expect(&p);
  for (int name = 0; name < ARRAYS; name++) {
    ExerciseArray *a = &p.array[name];
    const size_t bytes = exercise_bytes(a);
    if (!a->got) continue;
    uint8_t *got = a->got;
    exercise_poison(got, 0, bytes);
    for (size_t i = 0; a->expected && i < bytes / a->size; i++) {
      if (a->allowed[i] < 0) continue;
      if (a->size == 1)
        got[i] = (uint8_t)a->expected[i];
      else
        ((float *)a->got)[i] = (float)a->expected[i];
    }
  }
  return p;
}

/* Returns what is wrong; "" if nothing is. */
static const char *judged(ExerciseProblem *p, double moved_bytes) {
  static ExerciseScore score;
  score = (ExerciseScore){0};
  exercise_judge(p, &(ExerciseCall){.moved_bytes = moved_bytes}, true, &score);
  return score.wrong;
}

TEST(what_is_expected_is_right) {
  for (int task = 0; task < ALL_TASKS; task++) {
    PROBLEM p = answered((ExerciseTask)task);
    assert_string_equal(judged(&p, NAN), "");
  }
}

/* One byte fewer than all operands have is too few, of a step that has all its rows. */
TEST(fewer_bytes_than_can_be_are_wrong) {
  PROBLEM p = answered(TASK_FORWARD);
  p.filled = p.shape.rows;
  const double least = exercise_least_bytes(TASK_FORWARD, p.shape);
  assert_string_equal(judged(&p, least), "");
  assert_in(judged(&p, least - 1),
            text_printf("it moved %.0f bytes, fewer than it can; rows ", least - 1));
}

/* What is handed out is right, and fast where a function has little to do: it earns nothing. */
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
  s.call.counts.sectors = 2 * 384000;
  s.task = TASK_SOFTMAX, s.backend = &counted;
  assert_true(exercise_points(&s).fast == 0.5 * POINTS_FAST);
  s.right = false;
  assert_true(exercise_points(&s).all == 0);
}
