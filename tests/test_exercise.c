/* The grader of the exercise passes right functions and finds wrong ones. The functions are
   checked as they stand in src/exercise/exercise_cpu.c and, where there is a GPU, in
   kernels/exercise.cu. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exercise/exercise.h"
#include "support/test.h"
#include "support/cuda.h"
#include "support/folder.h"

/* A backend for the host that times in no time. */
static ExerciseBackend quick_host(const ExerciseFunctions *functions) {
  ExerciseBackend backend = exercise_host(functions);
  backend.timed_rows = 2;
  return backend;
}

static void assert_right(const ExerciseBackend *backend, uint64_t seed) {
  ExerciseScore scores[TASKS];
  exercise_score(backend, seed, EXERCISE_SHAPES, scores);
  for (int task = 0; task < TASKS; task++) {
    if (!scores[task].right)
      fail_msg("seed %d, function %d: %s", (int)seed, task + 1, scores[task].wrong);
    assert_true(backend->on_gpu ? scores[task].launches >= 1 : scores[task].moved_bytes > 0);
    assert_true(scores[task].seconds[0] > 0 && scores[task].seconds[1] > 0);
  }
}

TEST(functions_on_the_host_are_right) {
  const ExerciseBackend backend = quick_host(&exercise_functions);
  for (uint64_t seed = 1; seed <= 2; seed++) assert_right(&backend, seed);
}

TEST(functions_on_a_gpu_are_right) {
  ExerciseBackend backend;
  Error error;
  needs_gpu();
  OK(exercise_gpu_open(&backend, &error));
  backend.timed_rows = 2;
  for (uint64_t seed = 1; seed <= 3; seed++) assert_right(&backend, seed);
  exercise_gpu_close(&backend);
}

TEST(shapes_are_small_and_large) {
  for (uint64_t seed = 0; seed < 50; seed++) {
    int most_rows = 0, most_out = 0, none_left = 0, fewer_left = 0;
    for (int i = 0; i < EXERCISE_SHAPES; i++) {
      const ExerciseShape s = exercise_shape(seed, i, true);
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
    assert_int_equal(exercise_shape(seed, 0, true).rows, 1);
    assert_int_equal(exercise_shape(seed, 0, true).in, 1);
    assert_int_equal(exercise_shape(seed, 0, true).out, 1);
  }
}

/* ---- wrong functions ------------------------------------------------------------------------ */

static void one_element_off(const float *x, const float *w, const float *b, float *z, float *y,
                            int rows, int in, int out, bool relu) {
  exercise_forward(x, w, b, z, y, rows, in, out, relu);
  if (rows > 1 && out > 2) y[out + 2] += 0.25f;
}

static void last_element_left_out(const float *x, const float *w, const float *b, float *z,
                                  float *y, int rows, int in, int out, bool relu) {
  float *mine = malloc((size_t)(rows * out) * sizeof *mine);
  assert_non_null(mine);
  exercise_forward(x, w, b, z, mine, rows, in, out, relu);
  memcpy(y, mine, (size_t)(rows * out - 1) * sizeof *y);
  free(mine);
}

static void one_element_too_many(const float *x, const float *w, const float *b, float *z, float *y,
                                 int rows, int in, int out, bool relu) {
  exercise_forward(x, w, b, z, y, rows, in, out, relu);
  y[rows * out] = y[rows * out] + 1;
}

static void always_relu(const float *x, const float *w, const float *b, float *z, float *y,
                        int rows, int in, int out, bool relu) {
  (void)relu;
  exercise_forward(x, w, b, z, y, rows, in, out, true);
}

static void maximum_from_0(const float *z, float *largest, float *sum, float *p, int rows,
                           int classes) {
  (void)sum;
  for (int r = 0; r < rows; r++) {
    const float *row = z + (size_t)r * (size_t)classes;
    float total = 0;
    largest[r] = 0;
    for (int c = 0; c < classes; c++) largest[r] = fmaxf(largest[r], row[c]);
    for (int c = 0; c < classes; c++) total += expf(row[c] - largest[r]);
    for (int c = 0; c < classes; c++)
      p[(size_t)r * (size_t)classes + (size_t)c] = (row[c] - largest[r]) - logf(total);
  }
}

static void log_sum_exp_in_one_number(const float *z, float *largest, float *sum, float *p,
                                      int rows, int classes) {
  exercise_softmax(z, largest, sum, p, rows, classes);
  for (int r = 0; r < rows; r++) {
    const size_t row = (size_t)r * (size_t)classes;
    float most = -INFINITY, total = 0;
    for (int c = 0; c < classes; c++) most = fmaxf(most, z[row + (size_t)c]);
    for (int c = 0; c < classes; c++) total += expf(z[row + (size_t)c] - most);
    for (int c = 0; c < classes; c++)
      p[row + (size_t)c] = z[row + (size_t)c] - (most + logf(total));
  }
}

/* Takes the last one of equal logits. */
static void last_of_equals(const float *z, const uint16_t *labels, float *largest, float *sum,
                           float *p, float *dz, float *loss, uint8_t *correct, int rows,
                           int classes) {
  exercise_loss(z, labels, largest, sum, p, dz, loss, correct, rows, classes);
  for (int r = 0; r < rows; r++) {
    const float *row = z + (size_t)r * (size_t)classes;
    int best = 0;
    for (int c = 1; c < classes; c++)
      if (row[c] >= row[best]) best = c;
    correct[r] = best == labels[r];
  }
}

static void loss_that_saturates(const float *z, const uint16_t *labels, float *largest, float *sum,
                                float *p, float *dz, float *loss, uint8_t *correct, int rows,
                                int classes) {
  exercise_loss(z, labels, largest, sum, p, dz, loss, correct, rows, classes);
  for (int r = 0; r < rows; r++) loss[r] = fminf(loss[r], -logf(1e-6f));
}

static void bias_with_decay(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db) {
  float *b = malloc((size_t)layer->out * sizeof *b);
  assert_non_null(b);
  memcpy(b, layer->b, (size_t)layer->out * sizeof *b);
  exercise_update(layer, rule, dw, db);
  for (int o = 0; o < layer->out; o++) {
    layer->vb[o] += rule.weight_decay * b[o];
    layer->b[o] -= rule.rate * rule.weight_decay * b[o];
  }
  free(b);
}

static void momentum_not_kept(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db) {
  float v;
  const size_t last = (size_t)layer->out * (size_t)layer->in - 1;
  memcpy(&v, layer->vw + last, sizeof v);
  exercise_update(layer, rule, dw, db);
  memcpy(layer->vw + last, &v, sizeof v);
}

static void assert_wrong(const ExerciseFunctions *functions, ExerciseTask task, const char *text) {
  const ExerciseBackend backend = quick_host(functions);
  ExerciseScore score;
  exercise_score_one(&backend, task, 1, EXERCISE_SHAPES, &score);
  if (score.right || !strstr(score.wrong, text)) fail_msg("'%s' is not in '%s'", text, score.wrong);
}

TEST(wrong_functions_are_found) {
  ExerciseFunctions f = exercise_functions;
  f.forward = one_element_off;
  assert_wrong(&f, TASK_FORWARD, "y (row 1, column 2): expected ");
  f.forward = last_element_left_out;
  assert_wrong(&f, TASK_FORWARD, "got nan; 1 of 1 is wrong: never written; rows 1, in 1, out 1");
  f.forward = one_element_too_many;
  assert_wrong(&f, TASK_FORWARD, "it read y[1], and y (1, 1) has elements 0 to 0");
  f.forward = always_relu;
  assert_wrong(&f, TASK_FORWARD, ", got 0; ");

  f = exercise_functions;
  f.softmax = maximum_from_0;
  assert_wrong(&f, TASK_SOFTMAX, "p (row ");
  f.softmax = log_sum_exp_in_one_number;
  assert_wrong(&f, TASK_SOFTMAX, "p (row ");

  f = exercise_functions;
  f.loss = last_of_equals;
  assert_wrong(&f, TASK_LOSS, "correct (row ");
  f.loss = loss_that_saturates;
  assert_wrong(&f, TASK_LOSS, ", got 13.8155107;");

  f = exercise_functions;
  f.update = bias_with_decay;
  assert_wrong(&f, TASK_UPDATE, "b (row 0, column ");
  f.update = momentum_not_kept;
  assert_wrong(&f, TASK_UPDATE, "vw (row 0, column 0)");
}

/* ---- the score ------------------------------------------------------------------------------ */

/* Returns what exercise_print writes, to be freed. */
static char *printed(const ExerciseBackend *backend, const ExerciseScore scores[TASKS],
                     const char *counters, ExerciseSum *sum) {
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  assert_non_null(file);
  *sum = exercise_print(file, backend, scores, counters);
  fclose(file);
  return text;
}

/* As the hand-out is: what it moves is what docs/exercise.md has students count. */
TEST(unfused_functions_move_what_is_counted) {
  const ExerciseBackend backend = quick_host(&exercise_functions);
  ExerciseScore scores[TASKS];
  exercise_score(&backend, 1, 1, scores);
  for (int task = 0; task < TASKS; task++) {
    const ExerciseShape shape = exercise_counted_shape(&backend, (ExerciseTask)task);
    const double counted = exercise_unfused_bytes((ExerciseTask)task, shape);
    if (!(fabs(scores[task].moved_bytes - counted) <= 0.05 * counted))
      fail_msg("function %d moved %g bytes, %g were counted: %s", task + 1,
               scores[task].moved_bytes, counted, scores[task].wrong);
    assert_true(scores[task].right);
    assert_false(scores[task].fused);
    assert_true(exercise_points(&scores[task]).fused == 0);
  }
}

TEST(our_functions_are_right_and_move_the_least) {
  const ExerciseBackend backend = quick_host(&exercise_fused);
  for (uint64_t seed = 1; seed <= 2; seed++) {
    ExerciseScore scores[TASKS];
    ExerciseSum sum;
    exercise_score(&backend, seed, EXERCISE_SHAPES, scores);
    for (int task = 0; task < TASKS; task++) {
      const ExerciseShape shape = exercise_counted_shape(&backend, (ExerciseTask)task);
      const double least = exercise_least_bytes((ExerciseTask)task, shape);
      if (!scores[task].right || !scores[task].fused)
        fail_msg("function %d: %s", task + 1, scores[task].wrong);
      assert_true(scores[task].moved_bytes >= least && scores[task].moved_bytes <= 1.1 * least);
    }
    char *text = printed(&backend, scores, NULL, &sum);
    assert_non_null(strstr(text, "\n4 of 4 right, 4 of 4 fused\n"));
    assert_null(strstr(text, " is not fused"));
    assert_true(sum.right == TASKS && sum.fused == TASKS);
    free(text);
  }
}

/* The same bytes each time, whatever else the machine does. */
TEST(bytes_are_the_same_each_time) {
  const ExerciseBackend backend = quick_host(&exercise_functions);
  for (int task = 0; task < TASKS; task++) {
    ExerciseScore first, again;
    exercise_score_one(&backend, (ExerciseTask)task, 1, 1, &first);
    exercise_score_one(&backend, (ExerciseTask)task, 2, 1, &again);
    assert_true(first.moved_bytes == again.moved_bytes);
  }
}

TEST(what_is_wrong_has_no_points) {
  ExerciseFunctions f = exercise_fused;
  f.softmax = maximum_from_0;
  const ExerciseBackend backend = quick_host(&f);
  ExerciseScore scores[TASKS];
  ExerciseSum sum;
  exercise_score(&backend, 1, EXERCISE_SHAPES, scores);
  char *text = printed(&backend, scores, NULL, &sum);
  assert_non_null(strstr(text, "\n2 is wrong: p (row "));
  assert_string_equal(strstr(text, "\n3 of 4 right"), "\n3 of 4 right, 3 of 4 fused\n");
  assert_true(exercise_points(&scores[TASK_SOFTMAX]).all == 0);
  const ExerciseScore fast = {.right = true, .fused = true, .seconds = {2, 9, 1}};
  assert_true(exercise_points(&fast).fast == 0.5 * POINTS_FAST);
  assert_true(exercise_points(&fast).all == POINTS_RIGHT + POINTS_FUSED + 0.5 * POINTS_FAST);
  const ExerciseScore faster = {.right = true, .seconds = {1, 9, 2}};
  assert_true(exercise_points(&faster).all == POINTS_RIGHT + POINTS_FAST);
  free(text);
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
TEST_WITH(counters_are_joined, folder_open, folder_close) {
  static const char head[] = "==PROF== Connected\n"
                             "\"ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric "
                             "Unit\",\"Metric Value\"\n";
#define LINE(kernel, metric, value)                                                                \
  "\"" kernel "\",\"f(int, float *)\",\"Metrics\",\"" metric "\",\"byte\",\"" value "\"\n"
  char text[4096];
  const char *path = folder_path("counters.csv");
  ExerciseScore scores[TASKS];
  for (int t = 0; t < TASKS; t++)
    scores[t] = (ExerciseScore){.launches = t == 0 ? 2 : 1, .dram_bytes = NAN, .cache_bytes = NAN};
  assert_string_equal(exercise_counters(path, scores), "Nsight Compute (ncu) was not found");

  snprintf(text, sizeof text, "%s%s", head,
           LINE("0", "dram__bytes_read.sum", "1,234,567") LINE("0", "lts__t_bytes.sum", "5"));
  folder_write(path, text);
  assert_non_null(strstr(exercise_counters(path, scores), "other kernels"));
  assert_true(isnan(scores[0].dram_bytes));

  folder_write(path, "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n");
  assert_non_null(strstr(exercise_counters(path, scores), "only root"));
  folder_write(path, "==ERROR== something\n");
  assert_non_null(strstr(exercise_counters(path, scores), "measured nothing"));

  snprintf(text, sizeof text, "%s%s%s%s", head,
           LINE("0", "dram__bytes_read.sum", "1,234,567") LINE("0", "lts__t_bytes.sum", "5"),
           LINE("1", "dram__bytes_write.sum", "3") LINE("1", "lts__t_bytes.sum", "6"),
           LINE("2", "dram__bytes_read.sum", "7") LINE("3", "dram__bytes_read.sum", "8")
               LINE("4", "lts__t_bytes.sum", "9"));
  folder_write(path, text);
  assert_null(exercise_counters(path, scores));
  assert_true(scores[0].dram_bytes == 1234570 && scores[0].cache_bytes == 11);
  assert_true(scores[1].dram_bytes == 7 && scores[2].dram_bytes == 8);
  assert_true(scores[3].dram_bytes == 0 && scores[3].cache_bytes == 9);
}
