/* Tests the exercise's hidden shapes and points. tests/scenarios/exercise.sh and mistakes.sh test
   how functions are run, counted and judged. */
#include "exercise/exercise.h"

#include <math.h>
#include <string.h>

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

/* Sets the values of a problem's array. */
static void set(ExerciseProblem *p, int name, const float *values) {
  memcpy(p->array[name].given, values, exercise_bytes(&p->array[name]));
}

static double expected(ExerciseProblem *p, int name, int i) {
  return p->array[name].expected[i];
}

/* Results by hand, since everything else is compared with these loops. */
TEST(the_transformer_is_expected_as_the_papers_say) {
  const ExerciseShape shape = {.rows = 1, .in = 1, .out = 2, .end = 1};
  ExerciseProblem p = exercise_problem(TRANSFORMER_GELU, shape, 1);
  set(&p, ARRAY_X, (float[]){1, -3}), set(&p, ARRAY_B, (float[]){0, 1});
  exercise_expect(&p);
  assert_true(fabs(expected(&p, ARRAY_Y, 0) - 0.8413447461) < 1e-9); /* Phi(1) */
  assert_true(fabs(expected(&p, ARRAY_Y, 1) + 2 * 0.0227501319) < 1e-9);
  exercise_free(&p);

  p = exercise_problem(TRANSFORMER_RESIDUAL, shape, 1);
  set(&p, ARRAY_X, (float[]){1000, 1}), set(&p, ARRAY_R, (float[]){24, 1027});
  set(&p, ARRAY_GAIN, (float[]){1, 2}), set(&p, ARRAY_B, (float[]){0, 5});
  exercise_expect(&p);
  assert_true(expected(&p, ARRAY_Z, 0) == 1024 && expected(&p, ARRAY_Z, 1) == 1028);
  assert_true(fabs(expected(&p, ARRAY_Y, 0) + 2 / sqrt(4.00001)) < 1e-9);
  assert_true(fabs(expected(&p, ARRAY_Y, 1) - 4 / sqrt(4.00001) - 5) < 1e-9);
  exercise_free(&p);

  p = exercise_problem(TRANSFORMER_ADAM, shape, 1); /* step 1 */
  set(&p, ARRAY_W, (float[]){1, 2}), set(&p, ARRAY_G, (float[]){0.5f, -1e-8f});
  set(&p, ARRAY_M, (float[]){0, 0}), set(&p, ARRAY_V, (float[]){0, 0});
  exercise_expect(&p);
  assert_true(fabs(expected(&p, ARRAY_M, 0) - 0.05) < 1e-6);
  assert_true(fabs(expected(&p, ARRAY_V, 0) - 0.00025) < 1e-6);
  assert_true(fabs(expected(&p, ARRAY_W, 0) - 0.95) < 1e-6);  /* the rate, whatever the gradient */
  assert_true(fabs(expected(&p, ARRAY_W, 1) - 2.025) < 1e-6); /* half of it: epsilon is as large */
  exercise_free(&p);
}

/* Computes the problem's norm in float32, with the variance as E[x^2] - E[x]^2 or in two passes. */
static void norm(ExerciseProblem *p, bool one_pass) {
  const float *gain = p->array[ARRAY_GAIN].given, *b = p->array[ARRAY_B].given;
  const int n = p->shape.out;
  for (int r = 0; r < p->shape.rows; r++) {
    const float *x = (const float *)p->array[ARRAY_X].given + (size_t)r * (size_t)n;
    float *y = (float *)p->array[ARRAY_Y].got + (size_t)r * (size_t)n, mean = 0, square = 0;
    for (int c = 0; c < n; c++) mean += x[c];
    mean /= (float)n;
    const float centre = one_pass ? 0 : mean;
    for (int c = 0; c < n; c++) square += (x[c] - centre) * (x[c] - centre);
    const float variance = square / (float)n - (one_pass ? mean * mean : 0);
    for (int c = 0; c < n; c++) y[c] = gain[c] * (x[c] - mean) / sqrtf(variance + 1e-5f) + b[c];
  }
}

/* Every shape with a row near 1024 finds the one-pass variance, and two passes are always right. */
TEST(a_variance_of_one_pass_is_found_in_float32) {
  int found = 0, of = 0;
  for (uint64_t seed = 0; seed < 3; seed++)
    for (int i = 0; i < EXERCISE_SHAPES; i++) {
      ExerciseProblem p = exercise_problem(TRANSFORMER_NORM, exercise_shape(seed, i), seed + 1);
      const ExerciseCall call = {.moved_bytes = NAN};
      ExerciseScore two = {0}, one = {0};
      exercise_expect(&p);
      norm(&p, false);
      exercise_judge(&p, &call, false, &two);
      assert_string_equal(two.wrong, "");
      norm(&p, true);
      exercise_judge(&p, &call, false, &one);
      if (p.shape.rows >= 4 && p.shape.out > 1) of++, found += *one.wrong != '\0';
      exercise_free(&p);
    }
  assert_true(of > 20);
  assert_int_equal(found, of);
}
