/* Checks, measures and scores the functions of a set of tasks, such as kernels/exercise.cu, on a
   GPU or on the emulator. A problem is a task with a shape. Each function runs in its own process.
   The parent process computes the expected results and compares. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/text.h"
#include "emulator/emulator.h"

/* ---- tasks (tasks.c) --------------------------------------------------------------- */

/* A task is an index into exercise_tasks. To add a task, add its name here, its row in tasks.c,
   what it must compute in expect.c, and how it is called in calls.c. */
typedef int ExerciseTask;
enum {
  TASK_FORWARD,
  TASK_SOFTMAX,
  TASK_LOSS,
  TASK_UPDATE,
  TRANSFORMER_GELU,
  TRANSFORMER_NORM,
  TRANSFORMER_RESIDUAL,
  TRANSFORMER_ADAM,
  WARMUP_MAP,
  WARMUP_INDEX,
  WARMUP_REVERSE,
  WARMUP_SUM,
  WARMUP_COPY,
  WARMUP_AXPY,
  WARMUP_GATHER,
  WARMUP_STENCIL,
  WARMUP_COLUMN_SUM,
  WARMUP_BLOCK_SUM,
  WARMUP_TRANSPOSE,
  WARMUP_DOT,
  WARMUP_MATVEC,
  WARMUP_HISTOGRAM,
  WARMUP_SCAN,
  TASKS
};

/* Sizes of the warm-up: a side of block_sum's blocks, the values of histogram's keys, the values of
   a piece of scan. */
enum { WARMUP_SIDE = 16, WARMUP_KEYS = 256, WARMUP_PIECE = 256 };

/* The arrays of all functions, named like the functions' parameters. The row at position p of an
   epoch is stored row order[p] (uint32_t). labels (uint16_t) has a value per stored row; loss and
   correct (uint8_t) have a value per position. */
/* clang-format off */
enum { ARRAY_X, ARRAY_W, ARRAY_B, ARRAY_Z, ARRAY_Y, ARRAY_LABELS, ARRAY_ORDER, ARRAY_LARGEST,
       ARRAY_SUM, ARRAY_P, ARRAY_DZ, ARRAY_LOSS, ARRAY_CORRECT, ARRAY_VW, ARRAY_VB, ARRAY_DW,
       ARRAY_DB, ARRAY_R, ARRAY_GAIN, ARRAY_MEAN, ARRAY_SCALE, ARRAY_G, ARRAY_M, ARRAY_V, ARRAY_MH,
       ARRAY_VH, ARRAY_KEYS, ARRAY_COUNTS, ARRAYS };
/* clang-format on */

/* What a task does with an array. The least bytes count a value once if it is INPUT or RESULT and
   twice if it is CHANGED. They do not count OPTIONAL, which is constant but need not be read. */
typedef enum { UNUSED, INPUT, OPTIONAL, CHANGED, RESULT, SCRATCH } ExerciseRole;

/* The shape has a letter for each side: r (rows), i (in), o (out), e (end), R or O (blocks of 16
   rows or columns), p (rows + 1, the last one for padding), k (256 values of a key) or 1. */
typedef struct {
  ExerciseRole role;
  const char *shape;
} ExerciseUse;

typedef struct ExerciseProblem ExerciseProblem;

typedef struct {
  const char *name; /* for example "forward" */
  ExerciseUse uses[ARRAYS];
  int result;    /* the array in which timed calls on a GPU are compared with the checked call */
  int in, out;   /* widths of the measured shape; in is 1 if the task has no input width */
  bool of_steps; /* true if the rows are a step's, which may have fewer rows than the arrays */
  int vast_rows, vast_side; /* sizes of exercise_vast_problem(); 0 if the task is not called so */
  void (*give)(ExerciseProblem *problem, uint64_t seed); /* fills the inputs with values */
  void (*expect)(ExerciseProblem *problem);              /* computes the expected results */
  int handed_out;      /* kernels in the version that students get; fewer kernels earn points */
  bool calls_previous; /* true if that version calls the function of the previous task */
  double cost, depth;  /* emulated sectors + turns, and depth, of our solution; 0 if not compared */
} ExerciseTaskRow;

extern const ExerciseTaskRow exercise_tasks[TASKS];

/* A set of tasks is a file of kernels, all of whose functions `make TARGET` scores. */
typedef struct {
  const char *name;   /* the functions are named launch_NAME_TASK */
  const char *target; /* what make is given to score the set */
  ExerciseTask first; /* the tasks of a set follow each other */
  int count;
  bool graded; /* true if functions earn points for fused kernels; false if they only have to ask
                  for less than twice the least bytes */
} ExerciseSet;

enum { EXERCISE_SETS = 3 };
extern const ExerciseSet exercise_sets[EXERCISE_SETS];

/* Returns the set to which the task belongs. */
const ExerciseSet *exercise_set_of(ExerciseTask task);
/* Returns the task's number within its set, counted from 1. */
int exercise_number(ExerciseTask task);
/* Returns the set whose functions this program is linked with (calls.c). */
const ExerciseSet *exercise_linked(void);

/* Names and types of the arrays. Values are float32 or, if `whole`, unsigned whole numbers. */
typedef struct {
  const char *name; /* for example "x" for ARRAY_X */
  size_t size;      /* bytes of a value */
  bool whole;
} ExerciseArrayRow;

extern const ExerciseArrayRow exercise_arrays[ARRAYS];

/* ---- problems (problem.c) ---------------------------------------------------------- */

typedef struct {
  const char *name;
  int rows, columns; /* rows is 0 if the problem does not use the array */
  size_t size;
  bool whole;
  void *given;      /* the contents before the call; NULL means poison (exercise_poison) */
  void *got;        /* the contents after the call, in shared memory; NULL for a constant,
                       which the function may read but not write */
  double *expected; /* the right contents; NULL if the array is not checked */
  double *allowed;  /* allowed error of each value; negative if the function must not write it */
} ExerciseArray;

typedef struct {
  int rows, in, out; /* for softmax and loss, out is the number of classes and in is 1 */
  bool relu;
  int first, end; /* the step's rows are at positions first .. min(first + rows, end) - 1 */
  int logits;     /* selects the range of the logits (give_logits) and of other inputs */
} ExerciseShape;

/* The scale of axpy; the update's momentum and learning rate. */
static const float WARMUP_SCALE = -0.75f;
static const float EXERCISE_MOMENTUM = 0.9f, EXERCISE_RATE = 0.05f;

/* Adam's coefficients. Its rate is EXERCISE_RATE, too. */
static const float EXERCISE_BETA1 = 0.9f, EXERCISE_BETA2 = 0.999f, EXERCISE_EPSILON = 1e-8f;
/* Returns the number of Adam's step, counted from 1. */
static inline int exercise_step(const ExerciseShape *shape) {
  return 1 + shape->logits * shape->logits;
}

struct ExerciseProblem {
  ExerciseTask task;
  ExerciseShape shape;
  float weight_decay;
  int filled;  /* number of rows in the step; later rows have gradient 0 and no results */
  bool prints; /* if true, shows the function's output */
  ExerciseArray array[ARRAYS];
};

enum { EXERCISE_SHAPES = 14 };

/* Returns shape `index` (below EXERCISE_SHAPES) of the shapes drawn from the seed. Some sizes are
   1, others are above 256, and one is above 1024. Some steps have fewer rows than the arrays, or no
   rows. */
ExerciseShape exercise_shape(uint64_t seed, int index);

/* Returns a problem whose largest arrays have more than 2^31 elements, but no values. */
ExerciseProblem exercise_vast_problem(ExerciseTask task);
/* Returns a problem with random values. */
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

/* Fills a block with poison: signaling NaNs, if read as floats. A NaN that a function computes has
   other bits, so exercise_is_poison tells whether a value was never written. */
void exercise_poison(uint8_t *block, size_t count);
bool exercise_is_poison(const uint8_t *block, size_t from, size_t count);

/* Returns the bytes that a task moves if it reads each input once and writes each output once. */
double exercise_least_bytes(ExerciseTask task, ExerciseShape shape);

/* The results of a call, written by the process that runs the function. */
typedef struct {
  bool called;
  int launches;
  char complaint[384]; /* what is wrong with the call itself, or "" */
  EmulatorFinding found[EMULATOR_MOST], costs[EMULATOR_MOST]; /* errors; costly source lines */
  EmulatorCounts counts;
  double moved_bytes;           /* each byte counts once per kernel; NAN if not counted */
  double seconds, seconds_ours; /* times of the student's and of our function; NAN if unknown */
} ExerciseCall;

typedef struct {
  const char *device;
  bool on_gpu;  /* true: on a GPU, one function at a time; false: emulated, all at once */
  int rows;     /* number of rows with which tasks are measured */
  double limit; /* maximum CPU seconds of a function's process */
} ExerciseBackend;

/* The results of a function. */
typedef struct {
  ExerciseTask task;
  const ExerciseBackend *backend;
  ExerciseShape measured; /* the shape with which bytes and times are measured */
  int handed_out;         /* kernels in the version that students get; fewer kernels earn points */
  bool right, fused;
  bool compares;       /* true if we know the cost of our fused version for this shape */
  char wrong[768];     /* why the result is not right */
  char not_fused[192]; /* why the function is right but not fused */
  char told[4096];     /* if `right`: costly source lines; otherwise: source lines with errors */
  ExerciseCall call;   /* the measured call; `launches` is the maximum over all calls */
} ExerciseScore;

/* Returns why a right function counts as not fused, or "". On the emulator one launch is not
   enough: its kernel must move hardly more bytes than it must, and threads must share the work. */
ShortText exercise_not_fused(const ExerciseScore *score);

/* If the call has errors, sets score->wrong to a description of the first error. If elements are
   wrong, the description also gives their number and places. */
void exercise_judge(const ExerciseProblem *problem, const ExerciseCall *call, bool measured,
                    ExerciseScore *score);

/* ---- separate processes (apart.c), because a function may crash, hang or exit ---------------- */

typedef struct {
  pid_t process;
  FILE *said;
  bool *done;
  double limit;
} Apart;

/* Calls work(context) in a new process, which may use `limit` seconds of CPU time. work() can
   return results only through apart_memory. */
bool apart_start(Apart *apart, void (*work)(void *context), void *context, double limit,
                 Error *error);
/* Waits until the process has ended, and ends the processes that it started. Returns "" if work()
   returned; otherwise the text says how the process ended, for example "it called exit(3)". Prints
   the process's output, up to 4 KB, with a bar before each line. */
ShortText apart_end(Apart *apart);

/* Lets this process only compute, print, exit and, if `may_ask` is true, use a GPU. */
bool apart_confine(bool may_ask, Error *error);

/* Returns zeroed memory, shared with all processes that this process starts, or NULL on failure. */
void *apart_memory(size_t bytes);
void apart_release(void *memory, size_t bytes);

/* ---- the score (run.c; gpu.c or emulated.c) -------------------------------------------------- */

typedef enum { AS_H100, AS_A100, AS_T4 } EmulatedGpu;

/* Fills *backend. The version for a GPU (gpu.c) fails if there is no GPU. It looks for the GPU in
   another process, because a process must not use CUDA before it forks. `gpu` is what the emulator
   is (emulated.c). */
bool exercise_find(EmulatedGpu gpu, ExerciseBackend *backend, Error *error);

/* The functions to score. */
typedef struct {
  uint64_t seed;
  int first, count;    /* the first task; the number of tasks */
  ExerciseShape shape; /* shape of all calls; if rows is 0, shapes are drawn from the seed */
} ExerciseChoice;

/* Checks and measures the chosen functions. `scores` has one element per function. */
void exercise_score(const ExerciseBackend *backend, const ExerciseChoice *choice,
                    ExerciseScore *scores);

/* Runs each function of the linked set once on its measured shape, for a profiler. */
bool exercise_once(const ExerciseBackend *backend, Error *error);

/* ---- the report (report.c) ------------------------------------------------------------------- */

typedef struct {
  int right, fused, of; /* numbers of right functions, fused functions and all functions */
} ExerciseSum;

ExerciseSum exercise_print(FILE *file, const ExerciseScore *scores, int count);

/* Maximum points of a function. A function that the student did not change earns 0 points, although
   it is right. */
enum { POINTS_RIGHT = 10, POINTS_FUSED = 10, POINTS_FAST = 5 };
typedef struct {
  double right, fused, fast, all;
} ExercisePoints;
ExercisePoints exercise_points(const ExerciseScore *score);

/* Writes points, reasons and the scorecard `card` to `path`, a results.json file for Gradescope. */
bool exercise_grade(const char *path, uint64_t seed, const ExerciseScore *scores, int count,
                    const char *card, Error *error);
