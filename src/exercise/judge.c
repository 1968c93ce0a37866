/* Finds what is wrong with what a function has left. */
#include "exercise/exercise.h"

#include <math.h>

#include "base/text.h"

static double got_value(const ExerciseArray *a, size_t i) {
  return a->size == 1 ? ((const uint8_t *)a->got)[i] : (double)((const float *)a->got)[i];
}

static bool is_unwritten(const ExerciseArray *a, size_t i) {
  return exercise_is_poison(a->got, i * a->size, a->size);
}

static bool is_right(const ExerciseArray *a, size_t i) {
  if (a->allowed[i] < 0) return is_unwritten(a, i);
  return fabs(got_value(a, i) - a->expected[i]) <= a->allowed[i]; /* a NaN is never right */
}

/* ---- patterns ------------------------------------------------------------------------------- */

/* Returns true if the wrong elements are those of an index that is, divided by `by` and modulo
   `period`, one of [first, end), and no other. */
static bool are_wrong(const ExerciseArray *a, size_t by, size_t period, size_t first, size_t end) {
  for (size_t i = 0; i < count_of(a); i++) {
    const size_t at = i / by % period;
    if (is_right(a, i) == (at >= first && at < end)) return false;
  }
  return true;
}

/* Rows or columns, of which there are `all`: is [first, end) what is wrong? */
static ShortText find_lines(const ExerciseArray *a, const char *what, size_t by, size_t all,
                            size_t first, size_t end) {
  if (all < 2 || !are_wrong(a, by, all, first, end)) return text_format("%s", "");
  return end > first + 1 ? text_format(": %ss %zu to %zu", what, first, end - 1)
         : end == all    ? text_format(": the last %s", what)
                         : text_format(": %s %zu", what, first);
}

static ShortText find_period(const ExerciseArray *a, size_t first) {
  size_t period = 2;
  while (period <= 1024 && !are_wrong(a, 1, period, first % period, first % period + 1))
    period *= 2;
  return period == 32 ? text_format(": every 32nd, as a lane of a warp has them")
         : period > 1024
             ? text_format("%s", "")
             : text_format(": every %zu%s, from the %zu%s", period, period == 2 ? "nd" : "th",
                           first % period + 1, first % period ? "th" : "st");
}

/* How the `wrong` wrong elements lie, the first of which is `first`; "" if there is no pattern. */
static ShortText describe_pattern(const ExerciseArray *a, size_t first, size_t wrong) {
  const size_t rows = (size_t)a->rows, columns = (size_t)a->columns, row = first / columns,
               column = first % columns;
  size_t unwritten = 0;
  ShortText text = text_format(count_of(a) > 1 && wrong == count_of(a) ? ": all" : "");
  for (size_t i = 0; i < count_of(a); i++)
    unwritten += a->allowed[i] >= 0 && is_unwritten(a, i) && !is_right(a, i);
  if (!*text.text) text = find_lines(a, "row", columns, rows, row, row + wrong / columns);
  if (!*text.text && rows > 1) text = find_lines(a, "column", 1, columns, column, column + 1);
  if (!*text.text && wrong > 1) text = find_period(a, first);
  if (unwritten == wrong)
    text_append(text.text, sizeof text.text, "%s never written", *text.text ? "," : ":");
  return text;
}

/* ---- judging -------------------------------------------------------------------------------- */

static void describe(const ExerciseArray *a, int name, size_t first, char *text, size_t size) {
  const double value = got_value(a, first) + 0.0;
  size_t wrong = 0;
  for (size_t i = 0; i < count_of(a); i++) wrong += !is_right(a, i);
  const ShortText expected = a->allowed[first] < 0
                                 ? text_format("nothing to be written there")
                                 : text_format("%.9g (float64, within %.2g)",
                                               a->expected[first] + 0.0, a->allowed[first]),
                  got = text_format(isnan(value) ? "nan" : "%.9g", value); /* no sign */
  snprintf(text, size, "%s (row %zu, column %zu): expected %s, got %s; %zu of %zu %s wrong%s",
           exercise_array_name(name), first / (size_t)a->columns, first % (size_t)a->columns,
           expected.text, got.text, wrong, count_of(a), wrong == 1 ? "is" : "are",
           describe_pattern(a, first, wrong).text);
}

bool exercise_judge(const ExerciseProblem *problem, char *text, size_t size) {
  bool judged = false;
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArray *a = &problem->array[name];
    judged |= a->expected != NULL;
    for (size_t i = 0; a->expected && i < count_of(a); i++) {
      if (is_right(a, i)) continue;
      describe(a, name, i, text, size);
      return false;
    }
  }
  if (!judged) snprintf(text, size, "nobody has worked out what is expected");
  return judged;
}

/* ---- whose fault ---------------------------------------------------------------------------- */

/* Returns true if two ways to the same number differ by no more than float32 makes them. */
static bool is_near(double a, double b) {
  return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-4 * (1 + fabs(b));
}

/* p, dz: of row r. */
static bool row_follows(const ExerciseProblem *problem, const float *p, const float *dz, int r) {
  const int classes = problem->shape.out, label = exercise_label(problem, r);
  const size_t position = (size_t)(problem->shape.first + r);
  int best = 0;
  for (int c = 1; c < classes; c++)
    if (p[c] > p[best]) best = c;
  const double loss = got_value(&problem->array[ARRAY_LOSS], position);
  bool follows = is_near(loss, -(double)p[label]) &&
                 got_value(&problem->array[ARRAY_CORRECT], position) == (best == label);
  for (int c = 0; follows && c < classes; c++)
    follows =
        is_near((double)dz[c] * problem->filled, exp((double)p[c]) - (c == label ? 1.0 : 0.0));
  return follows;
}

/* Returns true if loss, correct and dz of a TASK_LOSS problem that was run follow from its
   log-probabilities p, within float32. Then a mistake in them is that of who made p. */
static bool follows_p(const ExerciseProblem *problem) {
  const ExerciseArray *a = problem->array;
  const size_t classes = (size_t)problem->shape.out;
  if (!a[ARRAY_P].got || problem->filled == 0) return false;
  const float *p = a[ARRAY_P].got, *dz = a[ARRAY_DZ].got;
  for (int r = 0; r < problem->filled; r++) {
    const size_t row = (size_t)r * classes;
    if (exercise_is_poison(a[ARRAY_P].got, row * sizeof *p, classes * sizeof *p)) return false;
    if (!row_follows(problem, p + row, dz + row, r)) return false;
  }
  return true;
}

void exercise_judge_call(const ExerciseProblem *problem, const ExerciseCall *call, bool measured,
                         ExerciseScore *score) {
  ShortText said = text_format("%s", call->complaint);
  if (!*said.text) exercise_judge(problem, said.text, sizeof said.text);
  /* Nobody reads inputs that have not been read, or leaves results that have not been written. */
  if (!*said.text && isfinite(call->moved_bytes) && problem->filled == problem->shape.rows &&
      call->moved_bytes < exercise_least_bytes(problem->task, problem->shape))
    said = text_format("it moved %.0f bytes, fewer than it can", call->moved_bytes);
  if (*said.text)
    snprintf(score->wrong, sizeof score->wrong, "%.440s; rows %d, in %d, out %d%s", said.text,
             problem->shape.rows, problem->shape.in, problem->shape.out,
             measured ? "; as it was measured" : "");
  score->follows_p =
      *said.text && !*call->complaint && problem->task == TASK_LOSS && follows_p(problem);
}
