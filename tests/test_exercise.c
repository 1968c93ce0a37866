/* What the grader of the exercise says of what a function has left. That it runs functions, counts
   them and finds what is wrong with them: tests/scenarios/exercise.sh. */
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
static const char *judged(ExerciseProblem *p) {
  static char text[448];
  *text = '\0';
  const bool right = exercise_judge(p, text, sizeof text);
  assert_int_equal(right, *text == '\0');
  return text;
}

TEST(what_is_expected_is_right) {
  for (int task = 0; task < TASKS; task++) {
    PROBLEM p = answered((ExerciseTask)task);
    assert_string_equal(judged(&p), "");
  }
  PROBLEM nobody = exercise_problem(TASK_SOFTMAX, exercise_shape(1, 0), 1);
  assert_string_equal(judged(&nobody), "nobody has worked out what is expected");
}

/* Wrong where `is_wrong` says so, by `off`; off 0: never written. */
static void assert_wrong(ExerciseTask task, int name, size_t first, size_t step, float off,
                         const char *as) {
  PROBLEM p = answered(task);
  const ExerciseArray *a = &p.array[name];
  float *got = a->got;
  for (size_t i = first; i < exercise_bytes(a) / a->size; i += step) {
    if (off == 0)
      exercise_poison(a->got, i * sizeof *got, sizeof *got);
    else
      got[i] += off;
  }
  assert_in(judged(&p), as);
}

TEST(what_is_wrong_is_described) {
  const size_t columns = (size_t)exercise_shape(1, 12).out;
  assert_wrong(TASK_FORWARD, ARRAY_Y, columns + 2, SIZE_MAX / 2, 0.25f,
               "y (row 1, column 2): expected ");
  assert_wrong(TASK_FORWARD, ARRAY_Y, columns - 1, columns, 0.25f, ": the last column");
  assert_wrong(TASK_FORWARD, ARRAY_Y, 3, 32, 0.25f, ": every 32nd, as a lane of a warp has them");
  assert_wrong(TASK_SOFTMAX, ARRAY_P, 0, 1, 0, ": all, never written");
  assert_wrong(TASK_SOFTMAX, ARRAY_P, 5, SIZE_MAX / 2, NAN, ", got nan; 1 of ");
  assert_wrong(TASK_LOSS, ARRAY_LOSS, 0, 1, 1, "loss (row 0, column 0): expected nothing to be ");
  assert_wrong(TASK_UPDATE, ARRAY_VW, 0, SIZE_MAX / 2, -0.01f, "vw (row 0, column 0)");
}

/* One byte fewer than all operands have is too few, of a step that has all its rows. */
TEST(fewer_bytes_than_can_be_are_wrong) {
  PROBLEM p = answered(TASK_FORWARD);
  ExerciseScore score = {0};
  p.filled = p.shape.rows;
  ExerciseCall call = {.moved_bytes = exercise_least_bytes(TASK_FORWARD, p.shape)};
  exercise_judge_call(&p, &call, false, &score);
  assert_string_equal(score.wrong, "");
  const char *as = text_printf("it moved %.0f bytes, fewer than it can; rows ", --call.moved_bytes);
  exercise_judge_call(&p, &call, true, &score);
  assert_memory_equal(score.wrong, as, strlen(as));
  assert_in(score.wrong, "; as it was measured");
}

/* What is handed out is right, and fast where a function has little to do: it earns nothing. */
TEST(points_are_for_what_was_fused) {
  const ExerciseBackend gpu = {.on_gpu = true}, counted = {0};
  ExerciseScore s = {TASK_FORWARD,    &gpu,
                     .right = true,   .compares = true,
                     .handed_out = 3, .call = {.launches = 3, .seconds = {1, 9, 2}}};
  assert_true(exercise_points(&s).all == 0);
  s.call.launches = 2;
  assert_true(exercise_points(&s).all == POINTS_RIGHT);
  s.call.launches = 1, s.fused = true;
  assert_true(exercise_points(&s).all == POINTS_RIGHT + POINTS_FUSED + POINTS_FAST);
  s.call.seconds[0] = 4;
  assert_true(exercise_points(&s).fast == 0.5 * POINTS_FAST);
  s.call.counts.sectors = 2 * 384000;
  s.task = TASK_SOFTMAX, s.backend = &counted;
  assert_true(exercise_points(&s).fast == 0.5 * POINTS_FAST);
  s.right = false;
  assert_true(exercise_points(&s).all == 0);
}

/* Rows 2, in 3, out 5, by hand. */
TEST(bytes_are_counted_by_operand) {
  const ExerciseShape s = {.rows = 2, .in = 3, .out = 5, .relu = true, .end = 2};
  static const double least[TASKS] = {4 * (6 + 15 + 5 + 10), 4 * (10 + 10), 4 * (10 + 10) + 2 * 7,
                                      4 * (6 + 10 + 4 * (15 + 5))};
  static const double unfused[TASKS] = {
      4 * (6 + 15 + 10 + 10 + 5 + 10 + 10 + 10),
      4 * (10 + 2 + 10 + 2 + 2 + 10 + 2 + 2 + 10),
      4 * (10 + 2 + 10 + 2 + 2 + 10 + 2 + 2 + 10 + 10 + 10 + 10) + 2 * 9,
      4 * (10 + 6 + 15 + 10 + 5 + 5 * 20),
  };
  for (int t = 0; t < TASKS; t++) {
    assert_true(exercise_least_bytes((ExerciseTask)t, s) == least[t]);
    assert_true(exercise_unfused_bytes((ExerciseTask)t, s) == unfused[t]);
  }
}

/* Nsight Compute's output has commas in the names of kernels and in thousands. */
IN_FOLDER(counters_are_joined) {
#define HEAD                                                                                       \
  "==PROF== Connected\n\"ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\","   \
  "\"Metric Value\"\n"
#define LINE(kernel, metric, value)                                                                \
  "\"" kernel "\",\"f(int, float *)\",\"Metrics\",\"" metric "\",\"byte\",\"" value "\"\n"
#define ONE LINE("0", "dram__bytes_read.sum", "1,234,567") LINE("0", "lts__t_bytes.sum", "5")
  ExerciseScore scores[TASKS];
  for (int t = 0; t < TASKS; t++)
    scores[t] =
        (ExerciseScore){.call.launches = t == 0 ? 2 : 1, .dram_bytes = NAN, .cache_bytes = NAN};
  assert_string_equal(exercise_counters("counters.csv", scores),
                      "Nsight Compute (ncu) was not found");

  foreach (row,
           VALUES(Pair, {HEAD ONE, "other kernels"},
                  {"==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "only root"},
                  {"==ERROR== something\n", "measured nothing"})) {
    folder_write("counters.csv", row->given);
    assert_in(exercise_counters("counters.csv", scores), row->wanted);
    assert_true(isnan(scores[0].dram_bytes));
  }
  folder_write("counters.csv",
               HEAD ONE LINE("1", "dram__bytes_write.sum", "3") LINE("1", "lts__t_bytes.sum", "6")
                   LINE("2", "dram__bytes_read.sum", "7") LINE("3", "dram__bytes_read.sum", "8")
                       LINE("4", "lts__t_bytes.sum", "9"));
  assert_null(exercise_counters("counters.csv", scores));
  assert_true(scores[0].dram_bytes == 1234570 && scores[0].cache_bytes == 11);
  assert_true(scores[1].dram_bytes == 7 && scores[2].dram_bytes == 8);
  assert_true(scores[3].dram_bytes == 0 && scores[3].cache_bytes == 9);
}
