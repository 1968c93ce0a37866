#include "exercise/exercise.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/sizes.h"

/* Returns a random size between half of a limit and the limit. The three sizes of a shape use
   different limits. The largest limit gives sizes above a block's 256 threads. */
static int draw(uint64_t seed, int index, int which) {
  static const int limits[] = {3, 40, 300, 700};
  const int limit = limits[(index + which) % 4], half = limit / 2;
  const RandomWords words = random_words(seed, 0x73697a65u /* "size" */, (uint64_t)index);
  return limit - (int)(words.word[which] % (uint32_t)(limit - half));
}

ExerciseShape exercise_shape(uint64_t seed, int index) {
  ExerciseShape s = {.rows = draw(seed, index, 0),
                     .in = draw(seed, index, 1),
                     .out = draw(seed, index, 2),
                     .relu = index % 3 != 1,
                     .logits = index};
  if (index == 0 || index == 1) s.rows = 1;
  if (index == 0 || index == 2) s.in = 1;
  if (index == 0 || index == 3) s.out = 1;
  if (index == EXERCISE_SHAPES - 1) /* more columns than a block may have threads */
    s.rows = 2, s.in = 3, s.out += 1024;
  const int left[] = {s.rows + 4, 2 * s.rows / 3, s.rows, s.rows + 1, s.rows, 0};
  s.first = 5;
  s.end = s.first + left[index % 6];
  return s;
}

static int side_of(const ExerciseShape *s, char side) {
  switch (side) {
  case 'r':
    return s->rows;
  case 'i':
    return s->in;
  case 'o':
    return s->out;
  case 'e':
    return s->end;
  case 'R':
    return (s->rows + WARMUP_SIDE - 1) / WARMUP_SIDE;
  case 'O':
    return (s->out + WARMUP_SIDE - 1) / WARMUP_SIDE;
  case 'p':
    return s->rows + 1;
  case 'k':
    return WARMUP_KEYS;
  default:
    return 1;
  }
}

/* Returns the problem's arrays without values. */
static ExerciseProblem without_values(ExerciseTask task, ExerciseShape shape) {
  const ExerciseTaskRow *row = &exercise_tasks[task];
  ExerciseProblem p = {.task = task, .shape = shape};
  if (row->in == 1) p.shape.in = 1;
  if (!row->of_steps) p.shape.first = 0, p.shape.end = shape.rows;
  const int left = p.shape.end - p.shape.first;
  p.filled = left < shape.rows ? left : shape.rows;
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArrayRow *array = &exercise_arrays[name];
    const char *sides = row->uses[name].shape;
    if (row->uses[name].role != UNUSED)
      p.array[name] = (ExerciseArray){.name = array->name,
                                      .rows = side_of(&p.shape, sides[0]),
                                      .columns = side_of(&p.shape, sides[1]),
                                      .size = array->size,
                                      .whole = array->whole};
  }
  return p;
}

static bool may_write(ExerciseTask task, int name) {
  return exercise_tasks[task].uses[name].role >= CHANGED;
}

ExerciseProblem exercise_problem(ExerciseTask task, ExerciseShape shape, uint64_t seed) {
  ExerciseProblem p = without_values(task, shape);
  p.weight_decay = seed % 2 ? 0.01f : 0.0f;
  for (int name = 0; name < ARRAYS; name++) {
    ExerciseArray *a = &p.array[name];
    if (may_write(task, name) && !(a->got = apart_memory(exercise_bytes(a)))) abort();
  }
  exercise_tasks[task].give(&p, seed);
  return p;
}

ExerciseProblem exercise_vast_problem(ExerciseTask task) {
  static uint8_t none;
  const int rows = exercise_tasks[task].vast_rows, side = exercise_tasks[task].vast_side;
  ExerciseProblem p =
      without_values(task, (ExerciseShape){.rows = rows, .in = side, .out = side, .end = rows});
  for (int name = 0; name < ARRAYS; name++)
    if (may_write(task, name)) p.array[name].got = &none;
  return p;
}

void exercise_expect(ExerciseProblem *problem) {
  exercise_tasks[problem->task].expect(problem);
}

void exercise_free(ExerciseProblem *problem) {
  foreach (a, problem->array) {
    apart_release(a->got, exercise_bytes(a));
    free(a->given);
    free(a->expected);
    free(a->allowed);
  }
}

static uint8_t poison_at(size_t i) {
  return i % 4 == 3 ? 0xFF : 0xBF;
}

void exercise_poison(uint8_t *block, size_t count) {
  for (size_t i = 0; i < count; i++) block[i] = poison_at(i);
}

bool exercise_is_poison(const uint8_t *block, size_t from, size_t count) {
  for (size_t i = from; i < from + count; i++)
    if (block[i] != poison_at(i)) return false;
  return true;
}

double exercise_least_bytes(ExerciseTask task, ExerciseShape shape) {
  double bytes = 0;
  shape.end = shape.rows; /* counts only the step's rows, since other rows need not be read */
  for (int name = 0; name < ARRAYS; name++) {
    static const int times[] = {[INPUT] = 1, [CHANGED] = 2, [RESULT] = 1, [SCRATCH] = 0};
    const ExerciseUse *use = &exercise_tasks[task].uses[name];
    if (times[use->role] > 0)
      bytes += (double)exercise_arrays[name].size * times[use->role] *
               side_of(&shape, use->shape[0]) * side_of(&shape, use->shape[1]);
  }
  return bytes;
}

static double got_value(const ExerciseArray *a, size_t i) {
  if (!a->whole) return ((const float *)a->got)[i];
  return a->size == 1 ? ((const uint8_t *)a->got)[i] : ((const uint32_t *)a->got)[i];
}

static bool is_unwritten(const ExerciseArray *a, size_t i) {
  return exercise_is_poison(a->got, i * a->size, a->size);
}

static bool is_right(const ExerciseArray *a, size_t i) {
  if (a->allowed[i] < 0) return is_unwritten(a, i);
  return fabs(got_value(a, i) - a->expected[i]) <= a->allowed[i]; /* false for a NaN */
}

static ShortText expected_text(const ExerciseArray *a, size_t i) {
  if (a->allowed[i] < 0) return text_format("nothing to be written there");
  return text_format("%.9g (float64, within %.2g)", a->expected[i] + 0.0, a->allowed[i]);
}

/* Describes the first wrong element, and the number, rows and columns of all wrong elements. */
static ShortText describe(const ExerciseArray *a, size_t first) {
  const size_t columns = (size_t)a->columns;
  const double value = got_value(a, first) + 0.0; /* + 0.0 removes the sign of -0 */
  size_t wrong = 0, unwritten = 0, last_row = 0, left = columns, right = 0;
  for (size_t i = first; i < count_of(a); i++) {
    if (is_right(a, i)) continue;
    const size_t column = i % columns;
    wrong++, unwritten += is_unwritten(a, i);
    last_row = i / columns;
    if (column < left) left = column;
    if (column > right) right = column;
  }
  const char *never = unwritten == wrong ? ", never written" : "";
  return text_format("%s (row %zu, column %zu): expected %s, got %s; %zu of %zu wrong, in rows %zu "
                     "to %zu, columns %zu to %zu%s",
                     a->name, first / columns, first % columns, expected_text(a, first).text,
                     isnan(value) ? "nan" : text_format("%.9g", value).text, wrong, count_of(a),
                     first / columns, last_row, left, right, never);
}

/* Describes the first array with a wrong element. Returns "" if all elements are right. */
static ShortText find_wrong(const ExerciseProblem *problem) {
  foreach (a, problem->array)
    for (size_t i = 0; a->expected && i < count_of(a); i++)
      if (!is_right(a, i)) return describe(a, i);
  return (ShortText){""};
}

void exercise_judge(const ExerciseProblem *problem, const ExerciseCall *call, bool measured,
                    ExerciseScore *score) {
  const double least = exercise_least_bytes(problem->task, problem->shape);
  ShortText said = *call->complaint ? text_format("%s", call->complaint) : find_wrong(problem);
  if (!*said.text && isfinite(call->moved_bytes) && problem->filled == problem->shape.rows &&
      call->moved_bytes < least)
    /* To be right, a function must move all input and output bytes. If fewer were counted, it has
       evaded the count. */
    said = text_format("it moved %.0f bytes, fewer than it can", call->moved_bytes);
  /* A sector has 32 bytes. Who asks for less than the results need has accesses that were not
   * counted. */
  if (!*said.text && isfinite(call->moved_bytes) && problem->filled == problem->shape.rows &&
      32 * (double)call->counts.sectors < least)
    said = text_format("it asked for %.0f bytes, fewer than it can",
                       32 * (double)call->counts.sectors);
  if (*said.text)
    snprintf(score->wrong, sizeof score->wrong, "%.690s; rows %d, in %d, out %d%s", said.text,
             problem->shape.rows, problem->shape.in, problem->shape.out,
             measured ? "; as it was measured" : "");
}

/* Returns what a warm-up wastes, or "". */
static ShortText wasted(const EmulatorCounts *n, double least) {
  /* Atomic operations on the same word have to wait for each other. */
  const double turns = (double)(n->turns - n->atomic_turns) / (double)n->least_turns;
  const double asked = 32 * (double)n->sectors;
  if (asked >= 2 * least)
    return text_format("it asks for %.1f times the bytes that it needs", asked / least);
  if (turns >= 2) /* false if there are none */
    return text_format("its requests to shared memory take %.1f times the turns that they need: "
                       "bank conflicts",
                       turns);
  return (ShortText){""};
}

ShortText exercise_not_fused(const ExerciseScore *score) {
  /* The student's state, order and labels are not among the least bytes, and small shapes have few
   * bytes. */
  enum { OTHER_BYTES = 4096, FEWEST_AT_WORK = 16 };
  static const double MOST_MOVED = 1.05;
  const ExerciseCall *call = &score->call;
  const double least = exercise_least_bytes(score->task, score->measured);
  const ExerciseSet *set = exercise_set_of(score->task);
  if (call->launches != 1)
    return text_format("it launches %d kernels; to begin: make %s ONLY=%d HINT=1", call->launches,
                       set->target, exercise_number(score->task));
  if (!set->graded) return wasted(&call->counts, least);
  if (!isfinite(call->moved_bytes)) return (ShortText){""};
  if (call->moved_bytes > MOST_MOVED * least + OTHER_BYTES)
    return text_format(
        "its kernel moves %.2f times the least bytes, so values still go through memory",
        call->moved_bytes / least);
  const double at_work = (double)call->counts.lane_steps / (double)call->counts.depth;
  if (score->compares && at_work < FEWEST_AT_WORK)
    return text_format("on average only %.3g of its threads are at work at a time", at_work);
  return (ShortText){""};
}
