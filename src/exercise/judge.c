/* Finds what is wrong with what a function has left. */
#include "exercise/exercise.h"

#include <math.h>

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

/* Describes the first wrong element, then says how many there are and in which rows and columns. */
static void describe(const ExerciseArray *a, int name, size_t first, char *text, size_t size) {
  const size_t columns = (size_t)a->columns;
  const double value = got_value(a, first) + 0.0; /* 0 without a sign */
  size_t wrong = 0, unwritten = 0, last_row = 0, left = columns, right = 0;
  for (size_t i = first; i < count_of(a); i++) {
    if (is_right(a, i)) continue;
    const size_t column = i % columns;
    wrong++, unwritten += is_unwritten(a, i);
    last_row = i / columns;
    if (column < left) left = column;
    if (column > right) right = column;
  }
  int length = snprintf(text, size, "%s (row %zu, column %zu): expected ",
                        exercise_array_name(name), first / columns, first % columns);
  length += a->allowed[first] < 0
                ? snprintf(text + length, size - (size_t)length, "nothing to be written there")
                : snprintf(text + length, size - (size_t)length, "%.9g (float64, within %.2g)",
                           a->expected[first] + 0.0, a->allowed[first]);
  length += snprintf(text + length, size - (size_t)length,
                     isnan(value) ? ", got nan" : ", got %.9g", value);
  snprintf(text + length, size - (size_t)length,
           "; %zu of %zu wrong, in rows %zu to %zu, columns %zu to %zu%s", wrong, count_of(a),
           first / columns, last_row, left, right, unwritten == wrong ? ", never written" : "");
}

/* Looks for the first array that has a wrong element. Returns false if there is none. */
static bool find_wrong(const ExerciseProblem *problem, char *text, size_t size) {
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArray *a = &problem->array[name];
    for (size_t i = 0; a->expected && i < count_of(a); i++) {
      if (is_right(a, i)) continue;
      describe(a, name, i, text, size);
      return true;
    }
  }
  return false;
}

void exercise_judge(const ExerciseProblem *problem, const ExerciseCall *call, bool measured,
                    ExerciseScore *score) {
  char said[384];
  const double least = exercise_least_bytes(problem->task, problem->shape);
  snprintf(said, sizeof said, "%s", call->complaint);
  if (!*said && !find_wrong(problem, said, sizeof said) && isfinite(call->moved_bytes) &&
      problem->filled == problem->shape.rows && call->moved_bytes < least)
    /* Nobody reads inputs that have not been read, or leaves results that have not been written. */
    snprintf(said, sizeof said, "it moved %.0f bytes, fewer than it can", call->moved_bytes);
  if (*said)
    snprintf(score->wrong, sizeof score->wrong, "%s; rows %d, in %d, out %d%s", said,
             problem->shape.rows, problem->shape.in, problem->shape.out,
             measured ? "; as it was measured" : "");
}
