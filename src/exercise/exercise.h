/* Checks, times and scores the four functions of the exercise, kernels/exercise.cu on a GPU or
   src/exercise/exercise_cpu.c without one. A problem is one of the four tasks on one shape; a
   backend runs problems somewhere. Nothing here but the backends knows where. */
#ifndef EXERCISE_H
#define EXERCISE_H

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
  char complaint[256]; /* what a backend found wrong, "" if nothing */
} ExerciseProblem;

enum { EXERCISE_SHAPES = 14 };

/* Hidden shape `index` of EXERCISE_SHAPES: odd ones, 1, more than a block. batches: with a step's
   rows anywhere in the order of an epoch, too few or none left. */
ExerciseShape exercise_shape(uint64_t seed, int index, bool batches);

/* Random values, and what is expected of the function unless `judged` is false. */
ExerciseProblem exercise_problem(ExerciseTask task, ExerciseShape shape, uint64_t seed,
                                 bool judged);
void exercise_free(ExerciseProblem *problem);

/* What is expected of a problem of TASK_FORWARD or TASK_UPDATE by a product that somebody else
   has made, x w^T (rows, out) or dz^T x (out, in), in float32, too. */
void exercise_expect(ExerciseProblem *problem, const float *product);

/* True if nothing is wrong; else *text says what and where: the first wrong element. `judge`: by
   whom it is expected, "float64" or "cuBLAS". */
bool exercise_judge(const ExerciseProblem *problem, const char *judge, char *text, size_t size);

/* An array between two guard zones, in memory from malloc: EXERCISE_GUARD poisoned bytes, the
   array, EXERCISE_GUARD more. */
enum { EXERCISE_GUARD = 1024 };
size_t exercise_bytes(const ExerciseArray *array); /* without guards */
uint8_t *exercise_wrap(const ExerciseArray *array);
/* Takes what a function left in such a block as problem->array[name].got, complains of a guard zone
   that was written to, and frees the block. */
void exercise_unwrap(ExerciseProblem *problem, int name, uint8_t *block);

/* Bytes that a task moves: each operand of the one operation once, or each operand of each kernel
   of the function as it was before it was fused. */
double exercise_least_bytes(ExerciseTask task, ExerciseShape shape);
double exercise_unfused_bytes(ExerciseTask task, ExerciseShape shape);

/* ---- backends (gpu.c, host.c) --------------------------------------------- */

enum { RIVALS = 2 };

typedef struct {
  char device[128];
  const char *launches;      /* what is counted: "kernels" */
  const char *rival[RIVALS]; /* what a function is timed beside, NULL: nothing; the last is what its
                                speed is given in percent of */
  int timed_rows;
  bool batches;
  void *context;
  /* Runs the function on guarded copies of the arrays. A function that fails is complained of;
     false with *error set if nothing can be run any more. */
  bool (*run)(void *context, ExerciseProblem *problem, int *launches, Error *error);
  /* product, as exercise_expect wants it, by cuBLAS; NULL: there is none. */
  bool (*library)(void *context, const ExerciseProblem *problem, float *product, Error *error);
  /* Launches of the function, and median seconds of it and of its rivals; seconds NULL: it runs
     once and nothing else does. */
  bool (*time)(void *context, const ExerciseProblem *problem, int *launches,
               double seconds[1 + RIVALS], Error *error);
} ExerciseBackend;

/* Fails in one sentence where there is no GPU. One at a time. */
bool exercise_gpu_open(ExerciseBackend *backend, Error *error);
void exercise_gpu_close(ExerciseBackend *backend);

/* The four functions of exercise_cpu.h. */
typedef struct {
  void (*forward)(const float *x, const float *w, const float *b, float *z, float *y, int rows,
                  int in, int out, bool relu);
  void (*softmax)(const float *z, float *largest, float *sum, float *p, int rows, int classes);
  void (*loss)(const float *z, const uint16_t *labels, float *largest, float *sum, float *p,
               float *dz, float *loss, uint8_t *correct, int rows, int classes);
  void (*update)(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db);
} ExerciseFunctions;

extern const ExerciseFunctions exercise_functions; /* those that a student edits */
/* `functions` must outlive the backend. */
ExerciseBackend exercise_host(const ExerciseFunctions *functions);

/* ---- the score (score.c) ----------------------------------------------------------- */

typedef struct {
  bool right;
  char wrong[512]; /* why not */
  int launches;
  double seconds[1 + RIVALS];     /* NAN: not timed */
  double dram_bytes, cache_bytes; /* measured by hardware counters, NAN: not */
} ExerciseScore;

/* The shape that a task is timed on. */
ExerciseShape exercise_timed_shape(const ExerciseBackend *backend, ExerciseTask task);

/* Checks and times all tasks: `shapes` hidden shapes from 1, drawn from the seed. */
void exercise_score(const ExerciseBackend *backend, uint64_t seed, int shapes,
                    ExerciseScore scores[TASKS]);

/* Runs each function once on its timed shape, for a profiler to look at. */
bool exercise_once(const ExerciseBackend *backend, Error *error);

/* Adds what Nsight Compute wrote of exercise_once() as CSV: bytes by kernel. NULL, or why they are
   not known: one clause. */
const char *exercise_counters(const char *path, ExerciseScore scores[TASKS]);

/* counters: what exercise_counters said, or why it was not asked. Returns how many are right. */
int exercise_print(FILE *file, const ExerciseBackend *backend, const ExerciseScore scores[TASKS],
                   const char *counters);

#endif
