/* Checks, measures and scores the four functions of kernels/exercise.cu, on a GPU or on the
   emulator. A problem is one of the tasks on one shape. Each function runs in a process of its own;
   what is expected of it is worked out afterwards, elsewhere. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "emulator/emulator.h"

/* ---- problems (problem.c) ---------------------------------------------------------- */

/* The four of the exercise, then those of the warm-up. */
typedef int ExerciseTask;
enum { TASK_FORWARD, TASK_SOFTMAX, TASK_LOSS, TASK_UPDATE, TASKS };
enum { WARMUP_MAP = TASKS, WARMUP_INDEX, WARMUP_REVERSE, WARMUP_SUM, WARMUP_COPY, ALL_TASKS };

/* Every array that a function may have, named as in its face. Labels (uint16_t) are by stored row,
   order (uint32_t) says which row is at a position, loss and correct (uint8_t) are by position. */
enum { ARRAY_X, ARRAY_W, ARRAY_B, ARRAY_Z, ARRAY_Y, ARRAY_LABELS, ARRAY_ORDER, ARRAY_LARGEST };
enum { ARRAY_SUM = ARRAY_LARGEST + 1, ARRAY_P, ARRAY_DZ, ARRAY_LOSS, ARRAY_CORRECT, ARRAY_VW };
enum { ARRAY_VB = ARRAY_VW + 1, ARRAY_DW, ARRAY_DB, ARRAYS };

typedef struct {
  int rows, columns; /* 0 rows: the problem has no such array */
  size_t size;       /* bytes of a value: 4, of a float but for ARRAY_ORDER, or less */
  void *given;       /* (rows, columns) before the call; NULL: poison */
  void *got;         /* what the call left, shared with its process; NULL: a constant */
  double *expected;  /* NULL: nobody judges what is left there */
  double *allowed;   /* the error that float32 may have; below 0: must still be poison */
} ExerciseArray;

typedef struct {
  int rows, in, out; /* of tasks softmax and loss: out is classes, in is 1 */
  bool relu;
  int first, end; /* the step's rows are positions first .. min(first + rows, end) - 1 */
  int logits;     /* which kind of them, from 0 */
} ExerciseShape;

typedef struct {
  float momentum, weight_decay, rate;
} ExerciseRule;

typedef struct {
  ExerciseTask task;
  ExerciseShape shape;
  ExerciseRule rule;
  int filled;  /* rows that the step has; those beyond have gradient 0 and no result */
  bool prints; /* show what the function prints */
  ExerciseArray array[ARRAYS];
} ExerciseProblem;

enum { EXERCISE_SHAPES = 14 };

/* Hidden shape `index`: odd ones, 1, more than a block; too few or no rows of a step left. */
ExerciseShape exercise_shape(uint64_t seed, int index);

/* Random values. */
ExerciseProblem exercise_problem(ExerciseTask task, ExerciseShape shape, uint64_t seed);
/* The results that are expected of the function, by loops in float64. */
void exercise_expect(ExerciseProblem *problem);
void exercise_free(ExerciseProblem *problem);

static inline size_t count_of(const ExerciseArray *array) {
  return (size_t)array->rows * (size_t)array->columns;
}

static inline size_t exercise_bytes(const ExerciseArray *array) {
  return count_of(array) * array->size;
}

const char *exercise_array_name(int name); /* "x" of ARRAY_X */
/* The function may read the array, and nothing else. */
bool exercise_is_constant(ExerciseTask task, int name);

/* Poison: signaling NaNs as floats. What is computed from one is a NaN of another kind. */
void exercise_poison(uint8_t *block, size_t from, size_t count);
bool exercise_is_poison(const uint8_t *block, size_t from, size_t count);

/* Bytes that an operation must move: every input read once, every output written once. */
double exercise_least_bytes(ExerciseTask task, ExerciseShape shape);

/* A call as the process of the function saw it. */
typedef struct {
  bool called;
  int launches;
  char complaint[384]; /* "" if nothing is wrong with the call itself */
  EmulatorFinding found[EMULATOR_MOST], costs[EMULATOR_MOST]; /* errors; what costs most */
  EmulatorCounts counts;
  double moved_bytes;           /* NAN: not counted; each byte once in a kernel */
  double seconds, seconds_ours; /* of it and of our fused version, NAN: not timed */
} ExerciseCall;

typedef struct {
  const char *device;
  bool on_gpu;     /* functions are timed, one after the other; on the emulator, called at once */
  int rows[TASKS]; /* of the shape that is measured */
  double limit;    /* seconds of a function's process */
} ExerciseBackend;

/* The findings about a function. */
typedef struct {
  ExerciseTask task;
  const ExerciseBackend *backend;
  ExerciseShape measured; /* that bytes and times are of */
  int handed_out;         /* kernels that earn nothing: what is handed out has as many */
  bool right, fused;
  bool compares;     /* measured is what ours was measured on */
  char wrong[768];   /* why not right */
  char told[4096];   /* errors and costs, with lines of the source */
  ExerciseCall call; /* of the measured shape; launches: the most of all */
} ExerciseScore;

/* Says in score->wrong what is wrong, "" if nothing is: the first element, how many and where. */
void exercise_judge(const ExerciseProblem *problem, const ExerciseCall *call, bool measured,
                    ExerciseScore *score);

/* ---- a process of its own (apart.c): for what may crash, hang or exit ------------------------ */

enum { APART_TEXT = 96 };

typedef struct {
  pid_t process;
  FILE *said;
  bool *done;
  double limit;
} Apart;

/* Calls work(context) in a new process, for `limit` seconds. Results lie in apart_memory. */
bool apart_start(Apart *apart, void (*work)(void *context), void *context, double limit,
                 Error *error);
/* Waits until it has ended, and ends whatever it has started itself. end: "" once it has returned,
   else how it ended: "it called exit(3)". Prints what it printed, up to 4 KB, each line after a
   bar. */
void apart_end(Apart *apart, char end[APART_TEXT]);

/* From now on this process may compute, write and end; may_ask: and ask a device. */
bool apart_confine(bool may_ask, Error *error);

/* Zeros that this process shares with those that it starts; NULL: there is no memory. */
void *apart_memory(size_t bytes);
void apart_release(void *memory, size_t bytes);

/* ---- the score (run.c; gpu.c or emulated.c) -------------------------------------------------- */

/* Fails in one sentence where there is no GPU. A process of its own looks for it: one that forks
   must not have made any call of CUDA. */
bool exercise_find(ExerciseBackend *backend, Error *error);

/* What is scored. */
typedef struct {
  uint64_t seed;
  int first, count;    /* tasks */
  ExerciseShape shape; /* of all calls; 0 rows: hidden ones, drawn from the seed */
} ExerciseChoice;

/* Checks functions and measures them. */
void exercise_score(const ExerciseBackend *backend, const ExerciseChoice *choice,
                    ExerciseScore *scores);

/* Runs each function once on its measured shape, for a profiler to look at. */
bool exercise_once(const ExerciseBackend *backend, Error *error);

/* ---- what is said of it (report.c) ----------------------------------------------------------- */

typedef struct {
  int right, fused, of; /* functions */
} ExerciseSum;

ExerciseSum exercise_print(FILE *file, const ExerciseScore *scores, int count);

/* Points of a function. What is handed out is right, and earns nothing. */
enum { POINTS_RIGHT = 10, POINTS_FUSED = 10, POINTS_FAST = 5 };
typedef struct {
  double right, fused, fast, all;
} ExercisePoints;
ExercisePoints exercise_points(const ExerciseScore *score);

/* Writes the points, why, and the scorecard's text, as Gradescope's results.json. */
bool exercise_grade(const char *path, uint64_t seed, const ExerciseScore scores[TASKS],
                    const char *card, Error *error);
