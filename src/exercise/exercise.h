/* Checks, times and scores the four functions of the exercise, kernels/exercise.cu on a GPU or
   src/exercise/exercise_cpu.c without one. A problem is one of the four tasks on one shape; a
   backend runs problems somewhere. Nothing here but the backends knows where. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "exercise/exercise_cpu.h"

/* ---- problems (problem.c) ---------------------------------------------------------- */

typedef enum { TASK_FORWARD, TASK_SOFTMAX, TASK_LOSS, TASK_UPDATE, TASKS } ExerciseTask;

/* Every array that a function may have, named as in its face. */
enum {
  ARRAY_X,
  ARRAY_W,
  ARRAY_B,
  ARRAY_Z,
  ARRAY_Y,
  ARRAY_LABELS, /* by stored row, uint16_t */
  ARRAY_ORDER,  /* position -> stored row, uint32_t */
  ARRAY_LARGEST,
  ARRAY_SUM,
  ARRAY_P,
  ARRAY_DZ,
  ARRAY_LOSS,    /* by position */
  ARRAY_CORRECT, /* by position, uint8_t */
  ARRAY_VW,
  ARRAY_VB,
  ARRAY_DW,
  ARRAY_DB,
  ARRAYS
};

typedef struct {
  int rows, columns; /* 0 rows: the problem has no such array */
  size_t size;       /* bytes of a value: 4, of a float but for ARRAY_ORDER, or less */
  void *given;       /* (rows, columns) before the call; NULL: poison */
  void *got;         /* after the call, NULL until there was one */
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
  ExerciseTask task;
  ExerciseShape shape;
  ExerciseRule rule;
  int filled; /* rows that the step has; those beyond have gradient 0 and no result */
  ExerciseArray array[ARRAYS];
  char complaint[384]; /* what a backend found wrong, "" if nothing */
} ExerciseProblem;

enum { EXERCISE_SHAPES = 14 };

/* Hidden shape `index` of EXERCISE_SHAPES: odd ones, 1, more than a block. batches: with a step's
   rows anywhere in the order of an epoch, too few or none left. */
ExerciseShape exercise_shape(uint64_t seed, int index, bool batches);

/* Random values, and what is expected of the function unless `judged` is false. */
ExerciseProblem exercise_problem(ExerciseTask task, ExerciseShape shape, uint64_t seed,
                                 bool judged);
void exercise_free(ExerciseProblem *problem);

/* Sets the expectations of a TASK_FORWARD or TASK_UPDATE problem from a float32 product that
   somebody else has made: x w^T (rows, out) or dz^T x (out, in). */
void exercise_expect(ExerciseProblem *problem, const float *product);

size_t exercise_bytes(const ExerciseArray *array);
const char *exercise_array_name(int name); /* "x" of ARRAY_X */
/* The function may read the array, and nothing else. */
bool exercise_is_constant(ExerciseTask task, int name);

/* Bytes [from, from + count) of poison, counted from an array's start. As floats it is a signaling
   NaN: whatever is computed from it is a NaN, too, but another one, so that even a value made of
   poison is not taken for poison. */
void exercise_poison(uint8_t *block, size_t from, size_t count);
bool exercise_is_poison(const uint8_t *block, size_t from, size_t count);

/* An array between two guard zones, in memory from malloc: EXERCISE_GUARD poisoned bytes, the
   array, EXERCISE_GUARD more. */
enum { EXERCISE_GUARD = 1024 };
uint8_t *exercise_wrap(const ExerciseArray *array);
/* Takes what a function left in such a block as problem->array[name].got, complains of a guard zone
   that was written to, and frees the block. */
void exercise_unwrap(ExerciseProblem *problem, int name, uint8_t *block);

/* Bytes that a task moves: each operand of the one operation once, or each operand of each kernel
   of the function as it was before it was fused. */
double exercise_least_bytes(ExerciseTask task, ExerciseShape shape);
double exercise_unfused_bytes(ExerciseTask task, ExerciseShape shape);
/* The most bytes that a fused function on the CPU moves; and the most that are counted at all. */
double exercise_fused_bytes(ExerciseTask task, ExerciseShape shape);
double exercise_counted_bytes(ExerciseTask task, ExerciseShape shape);

/* ---- judging (judge.c) -------------------------------------------------------------- */

/* True if nothing is wrong; else *text says what: the first wrong element, what was expected and
   how exactly, how many are wrong, and whether they lie in a pattern. `judge`: by whom it is
   expected, "float64" or "cuBLAS". */
bool exercise_judge(const ExerciseProblem *problem, const char *judge, char *text, size_t size);

/* Returns true if loss, correct and dz of a TASK_LOSS problem that was run follow from its
   log-probabilities p, within float32. Then a mistake in them is that of the function that made p.
 */
bool exercise_follows_p(const ExerciseProblem *problem);

/* ---- backends (gpu.c, host.c) ------------------------------------------------------- */

/* The four functions of exercise_cpu.h. */
typedef struct {
  void (*forward)(const float *x, const float *w, const float *b, float *z, float *y, int rows,
                  int in, int out, bool relu);
  void (*softmax)(const float *z, float *largest, float *sum, float *p, int rows, int classes);
  void (*loss)(const float *z, const uint16_t *labels, float *largest, float *sum, float *p,
               float *dz, float *loss, uint8_t *correct, int rows, int classes);
  void (*update)(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db);
} ExerciseFunctions;

enum { RIVALS = 2 };

/* The findings about a function. */
typedef struct {
  bool right, fused;
  char wrong[768];                /* why not right */
  int launches;                   /* 0: not counted */
  double moved_bytes;             /* as fence.h counts them, NAN: not */
  double seconds[1 + RIVALS];     /* of it and of its rivals, NAN: not timed */
  double dram_bytes, cache_bytes; /* measured by hardware counters, NAN: not */
} ExerciseScore;

typedef struct ExerciseBackend {
  char device[128];
  bool on_gpu;
  const char *rival[RIVALS]; /* what a function is timed beside, NULL: nothing; the last is our
                                fused version, which its speed is given in percent of */
  int timed_rows;
  bool batches;
  const ExerciseFunctions *functions; /* of the CPU */
  void *context;                      /* of the GPU */
  /* NULL: `run` guards against what a function may do. Else each function is scored in a process
     of its own, which opens the backend first. */
  bool (*open)(struct ExerciseBackend *backend, Error *error);
  double limit; /* seconds that a function has, with all that is done with it in one process */
  /* Runs the function on guarded copies of the arrays. What is wrong with it is complained of;
     false with *error set if nothing can be run any more. */
  bool (*run)(const struct ExerciseBackend *backend, ExerciseProblem *problem, int *launches,
              Error *error);
  /* product, as exercise_expect wants it, by cuBLAS; NULL: there is none. */
  bool (*library)(const struct ExerciseBackend *backend, const ExerciseProblem *problem,
                  float *product, Error *error);
  /* Counts what a right function launches, moves and takes, and judges it again; may find it wrong.
     timed false: it runs once and nothing else does. */
  bool (*measure)(const struct ExerciseBackend *backend, ExerciseTask task, uint64_t seed,
                  bool timed, ExerciseScore *score, Error *error);
} ExerciseBackend;

/* Fails in one sentence where there is no GPU. One at a time. */
bool exercise_gpu_open(ExerciseBackend *backend, Error *error);
void exercise_gpu_close(ExerciseBackend *backend);
/* The same backend, to be opened by each function's own process: this one makes no call of CUDA,
   which a process that forks must not have done. */
bool exercise_gpu_find(ExerciseBackend *backend, Error *error);

extern const ExerciseFunctions exercise_functions; /* those that a student edits */
#ifndef STUDENT_KIT
extern const ExerciseFunctions exercise_fused; /* our answers, fused.c */
#endif
/* `functions` must outlive the backend. Each call is made by a process of its own. */
ExerciseBackend exercise_host(const ExerciseFunctions *functions);

/* ---- the score (score.c) ----------------------------------------------------------- */

/* The shape that a task is timed on. */
ExerciseShape exercise_timed_shape(const ExerciseBackend *backend, ExerciseTask task);
/* The shape that the bytes of the scorecard are of: on the CPU one that has its arrays go through
   the window of fence.h several times over. */
ExerciseShape exercise_counted_shape(const ExerciseBackend *backend, ExerciseTask task);

/* Checks and measures one function: `shapes` hidden shapes from 1, drawn from the seed. */
void exercise_score_one(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed,
                        int shapes, ExerciseScore *score);
/* All of them; one that is wrong for the sake of another says so. */
void exercise_score(const ExerciseBackend *backend, uint64_t seed, int shapes,
                    ExerciseScore scores[TASKS]);

/* Runs each function once on its timed shape, for a profiler to look at. */
bool exercise_once(const ExerciseBackend *backend, Error *error);

/* ---- what is said of it (counters.c, report.c) ------------------------------------------ */

/* Adds what Nsight Compute wrote of exercise_once() as CSV: bytes by kernel. NULL, or why they are
   not known: one clause. */
const char *exercise_counters(const char *path, ExerciseScore scores[TASKS]);

typedef struct {
  int right, fused; /* functions */
} ExerciseSum;

/* "1 forward", by task, in tables and for autograders. */
extern const char *const exercise_names[TASKS];
/* All that is known of a function, as an object: the row of a table, a part of a grade. */
json_t *exercise_line(const ExerciseBackend *backend, ExerciseTask task, const ExerciseScore *s);
/* counters: what exercise_counters said, or why it was not asked. */
ExerciseSum exercise_print(FILE *file, const ExerciseBackend *backend,
                           const ExerciseScore scores[TASKS], const char *counters);

/* Points of a function: for being right, for being fused, and for its speed as a share of our
   version's on this machine. Nothing of it counts unless it is right. */
enum { POINTS_RIGHT = 10, POINTS_FUSED = 10, POINTS_FAST = 5 };
typedef struct {
  double right, fused, fast, all;
} ExercisePoints;
ExercisePoints exercise_points(const ExerciseScore *score);

typedef enum { GRADE_GRADESCOPE, GRADE_PLAIN } ExerciseGrade;
/* Writes the points and why: as Gradescope's results.json, or as plain JSON. docs/teaching. */
bool exercise_grade(const char *path, ExerciseGrade form, const ExerciseBackend *backend,
                    uint64_t seed, const ExerciseScore scores[TASKS], Error *error);

#endif
