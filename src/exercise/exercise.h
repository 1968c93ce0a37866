/* Checks, measures and scores the four functions of kernels/exercise.cu, on a GPU or on the
   emulator. A problem is one of the tasks on one shape. Each function runs in a process of its own.
   The expected results are computed afterwards, in this process. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "emulator/emulator.h"

/* ---- problems (problem.c) ---------------------------------------------------------- */

/* The four tasks of the exercise, then those of the warm-up. */
typedef int ExerciseTask;
enum { TASK_FORWARD, TASK_SOFTMAX, TASK_LOSS, TASK_UPDATE, TASKS };
enum { WARMUP_MAP = TASKS, WARMUP_INDEX, WARMUP_REVERSE, WARMUP_SUM, WARMUP_COPY, ALL_TASKS };

/* The arrays of all functions, with the names of the functions' parameters. Labels (uint16_t) are
   by stored row. order (uint32_t) gives the row at each position. loss and correct (uint8_t) are by
   position. */
enum { ARRAY_X, ARRAY_W, ARRAY_B, ARRAY_Z, ARRAY_Y, ARRAY_LABELS, ARRAY_ORDER, ARRAY_LARGEST };
enum { ARRAY_SUM = ARRAY_LARGEST + 1, ARRAY_P, ARRAY_DZ, ARRAY_LOSS, ARRAY_CORRECT, ARRAY_VW };
enum { ARRAY_VB = ARRAY_VW + 1, ARRAY_DW, ARRAY_DB, ARRAYS };

typedef struct {
  int rows, columns; /* rows is 0 if the problem lacks the array */
  size_t size;       /* bytes of a value: 4 for floats and ARRAY_ORDER, else less */
  void *given;       /* (rows, columns) before the call; NULL means poison */
  void *got;         /* the contents after the call, shared with its process; NULL for a constant */
  double *expected;  /* NULL if the contents are not judged */
  double *allowed;   /* the error of float32; if negative, the value must still be poison */
} ExerciseArray;

typedef struct {
  int rows, in, out; /* for softmax and loss, out is the number of classes and in is 1 */
  bool relu;
  int first, end; /* the step's rows are positions first .. min(first + rows, end) - 1 */
  int logits;     /* kind of the logits, from 0 */
} ExerciseShape;

typedef struct {
  float momentum, weight_decay, rate;
} ExerciseRule;

typedef struct {
  ExerciseTask task;
  ExerciseShape shape;
  ExerciseRule rule;
  int filled;  /* rows of the step; further rows have gradient 0 and no result */
  bool prints; /* show what the function prints */
  ExerciseArray array[ARRAYS];
} ExerciseProblem;

enum { EXERCISE_SHAPES = 14 };

/* Returns hidden shape `index`. The shapes have odd sizes, size 1, and more than a block's threads.
   In some, the step lacks rows or has none. */
ExerciseShape exercise_shape(uint64_t seed, int index);

/* Random values. */
ExerciseProblem exercise_problem(ExerciseTask task, ExerciseShape shape, uint64_t seed);
/* Computes the expected results by loops in float64. */
void exercise_expect(ExerciseProblem *problem);
void exercise_free(ExerciseProblem *problem);

static inline size_t count_of(const ExerciseArray *array) {
  return (size_t)array->rows * (size_t)array->columns;
}

static inline size_t exercise_bytes(const ExerciseArray *array) {
  return count_of(array) * array->size;
}

const char *exercise_array_name(int name); /* "x" for ARRAY_X */
/* Returns true if the function may read the array but not write it. */
bool exercise_is_constant(ExerciseTask task, int name);

/* Fills bytes with poison: as floats, signaling NaNs. A NaN that is computed from one has other
   bits. */
void exercise_poison(uint8_t *block, size_t count);
bool exercise_is_poison(const uint8_t *block, size_t from, size_t count);

/* Returns the bytes that an operation must move if it reads each input once and writes each output
   once. */
double exercise_least_bytes(ExerciseTask task, ExerciseShape shape);

/* A call, as recorded in the process of the function. */
typedef struct {
  bool called;
  int launches;
  char complaint[384]; /* "" if nothing is wrong with the call itself */
  EmulatorFinding found[EMULATOR_MOST], costs[EMULATOR_MOST]; /* errors; the costliest places */
  EmulatorCounts counts;
  double moved_bytes;           /* each byte counts once per kernel; NAN if not counted */
  double seconds, seconds_ours; /* of the function and of our fused version; NAN if not timed */
} ExerciseCall;

typedef struct {
  const char *device;
  bool on_gpu;     /* functions run and are timed one after the other; on the emulator they run at
                      the same time */
  int rows[TASKS]; /* rows of the measured shape */
  double limit;    /* seconds that a function's process may take */
} ExerciseBackend;

/* The findings about a function. */
typedef struct {
  ExerciseTask task;
  const ExerciseBackend *backend;
  ExerciseShape measured; /* the shape for which bytes and times are measured */
  int handed_out;         /* kernels that the version handed out launches; only fewer
                             earn points */
  bool right, fused;
  bool compares;     /* true if our fused version was measured on the same shape */
  char wrong[768];   /* why not right */
  char told[4096];   /* errors and costs, with source lines */
  ExerciseCall call; /* the call on the measured shape; launches: the maximum of all calls */
} ExerciseScore;

/* Sets score->wrong to what is wrong: the first wrong element, how many there are and where. Sets
   it to "" if nothing is wrong. */
void exercise_judge(const ExerciseProblem *problem, const ExerciseCall *call, bool measured,
                    ExerciseScore *score);

/* ---- a process of its own (apart.c), since a function may crash, hang or exit ---------------- */

enum { APART_TEXT = 96 };

typedef struct {
  pid_t process;
  FILE *said;
  bool *done;
  double limit;
} Apart;

/* Calls work(context) in a new process, which may take `limit` seconds of CPU time. Its results
   must lie in apart_memory. */
bool apart_start(Apart *apart, void (*work)(void *context), void *context, double limit,
                 Error *error);
/* Waits until the process has ended, and ends the processes that it started. `end` is "" if work()
   returned; otherwise it says how the process ended: "it called exit(3)". Prints the process's
   output, up to 4 KB, with a bar before each line. */
void apart_end(Apart *apart, char end[APART_TEXT]);

/* From now on this process may only compute, write and end. If `may_ask`, it may also use a
   device. */
bool apart_confine(bool may_ask, Error *error);

/* Returns zeroed memory that this process shares with the processes that it starts, or NULL without
   memory. */
void *apart_memory(size_t bytes);
void apart_release(void *memory, size_t bytes);

/* ---- the score (run.c; gpu.c or emulated.c) -------------------------------------------------- */

/* Fills *backend. Returns false with a one-sentence error if there is no GPU. A separate process
   looks for the GPU, because a process that forks must not have called CUDA. */
bool exercise_find(ExerciseBackend *backend, Error *error);

/* What is scored. */
typedef struct {
  uint64_t seed;
  int first, count;    /* tasks */
  ExerciseShape shape; /* of all calls; if its rows are 0, hidden shapes are drawn from the seed */
} ExerciseChoice;

/* Checks functions and measures them. */
void exercise_score(const ExerciseBackend *backend, const ExerciseChoice *choice,
                    ExerciseScore *scores);

/* Runs each function once on its measured shape, for a profiler. */
bool exercise_once(const ExerciseBackend *backend, Error *error);

/* ---- the report (report.c) ------------------------------------------------------------------- */

typedef struct {
  int right, fused, of; /* functions */
} ExerciseSum;

ExerciseSum exercise_print(FILE *file, const ExerciseScore *scores, int count);

/* Points of a function. The version that students get is right, but earns nothing. */
enum { POINTS_RIGHT = 10, POINTS_FUSED = 10, POINTS_FAST = 5 };
typedef struct {
  double right, fused, fast, all;
} ExercisePoints;
ExercisePoints exercise_points(const ExerciseScore *score);

/* Writes points, reasons and the scorecard's text as Gradescope's results.json. */
bool exercise_grade(const char *path, uint64_t seed, const ExerciseScore scores[TASKS],
                    const char *card, Error *error);
