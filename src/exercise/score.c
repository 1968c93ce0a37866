#include "exercise/exercise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exercise/apart.h"

enum { INPUTS = 784, OUTPUTS = 300, CLASSES = 1000 };

ExerciseShape exercise_timed_shape(const ExerciseBackend *backend, ExerciseTask task) {
  const bool classes = task == TASK_SOFTMAX || task == TASK_LOSS;
  const int rows = backend->timed_rows;
  return (ExerciseShape){.rows = rows,
                         .in = classes ? 1 : INPUTS,
                         .out = classes ? CLASSES : OUTPUTS,
                         .relu = true,
                         .end = rows};
}

/* Large arrays go through the window of fence.h more than three times. Arrays that a step reads
   over and over (the weights in 1, the batch in 4) stay in it. */
ExerciseShape exercise_counted_shape(const ExerciseBackend *backend, ExerciseTask task) {
  static const ExerciseShape shapes[TASKS] = {{.rows = 4096, .in = 16, .out = 256},
                                              {.rows = 1024, .in = 1, .out = CLASSES},
                                              {.rows = 1024, .in = 1, .out = CLASSES},
                                              {.rows = 8, .in = 1024, .out = 1024}};
  if (backend->on_gpu) return exercise_timed_shape(backend, task);
  ExerciseShape shape = shapes[task];
  shape.relu = true;
  shape.end = shape.rows;
  return shape;
}

/* ---- checking ------------------------------------------------------------------------------- */

/* By the float64 reference and, where there is one, by a library's product. */
static bool judge(const ExerciseBackend *backend, ExerciseProblem *p, char *text, size_t size,
                  Error *error) {
  if (!exercise_judge(p, "float64", text, size)) return true;
  if (!backend->library || (p->task != TASK_FORWARD && p->task != TASK_UPDATE)) return true;
  const ExerciseArray *like = &p->array[p->task == TASK_FORWARD ? ARRAY_Y : ARRAY_W];
  float *product = malloc(exercise_bytes(like));
  if (!product) return error_set(error, "no memory for a product");
  const bool good = backend->library(backend, p, product, error);
  if (good) {
    exercise_expect(p, product);
    exercise_judge(p, "cuBLAS", text, size);
  }
  free(product);
  return good;
}

static const char follows_p[] = ". Nothing else is wrong with it: it is right for the p that "
                                "function 2 gives it, which is wrong";

/* On one hidden shape; *score->wrong says what is wrong. False with *error set if nothing can be
   run any more. */
static bool check_shape(const ExerciseBackend *backend, ExerciseTask task, ExerciseShape shape,
                        uint64_t seed, ExerciseScore *score, Error *error) {
  ExerciseProblem p = exercise_problem(task, shape, seed, true);
  char text[448] = "";
  int launches = 0;
  const bool good =
      backend->run(backend, &p, &launches, error) && judge(backend, &p, text, sizeof text, error);
  if (launches > score->launches) score->launches = launches;
  if (!good || *text) {
    char step[48] = "";
    if (backend->batches) snprintf(step, sizeof step, "; the step has %d of the rows", p.filled);
    snprintf(score->wrong, sizeof score->wrong, "%.440s; rows %d, in %d, out %d%s%s",
             good ? text : error->text, shape.rows, p.shape.in, p.shape.out, step,
             good && task == TASK_LOSS && exercise_follows_p(&p) ? follows_p : "");
  }
  exercise_free(&p);
  return good;
}

static bool check_task(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed, int shapes,
                       ExerciseScore *score, Error *error) {
  for (int i = 0; i < shapes; i++) {
    const uint64_t values = seed * 1000 + (uint64_t)(10 * i) + (uint64_t)(i % 2);
    const ExerciseShape shape = exercise_shape(seed, i, backend->batches);
    if (!check_shape(backend, task, shape, values, score, error)) return false;
    if (*score->wrong) return true;
  }
  score->right = true;
  return true;
}

/* Scores a function in this process. */
static bool score_task(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed, int shapes,
                       ExerciseScore *score) {
  Error error;
  const bool good = check_task(backend, task, seed, shapes, score, &error) &&
                    (!score->right || backend->measure(backend, task, seed, true, score, &error));
  if (good || *score->wrong) return good;
  score->right = score->fused = false;
  snprintf(score->wrong, sizeof score->wrong, "%.400s; when it was timed", error.text);
  return false;
}

/* A function's process, and what it leaves. */
typedef struct {
  ExerciseBackend backend;
  ExerciseTask task;
  uint64_t seed;
  int shapes;
  ExerciseScore *score; /* shared */
} Process;

static void score_in_process(void *context) {
  Process *p = context;
  Error error;
  const int rows = p->backend.timed_rows;
  if (!p->backend.open(&p->backend, &error)) {
    snprintf(p->score->wrong, sizeof p->score->wrong, "%.400s", error.text);
    return;
  }
  p->backend.timed_rows = rows;
  score_task(&p->backend, p->task, p->seed, p->shapes, p->score);
}

static void score_apart(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed,
                        int shapes, ExerciseScore *score) {
  Apart apart;
  Error error;
  Process p = {*backend, task, seed, shapes, apart_memory(sizeof *score)};
  bool good = p.score != NULL;
  if (!good) error_set(&error, "no memory to share with a process");
  if (good) *p.score = *score;
  good = good && apart_run(score_in_process, &p, backend->limit, &apart, &error);
  if (good) *score = *p.score;
  if (good && apart.end == APART_DONE) {
    apart_release(p.score, sizeof *score);
    return;
  }
  score->right = score->fused = false;
  if (good)
    apart_describe(&apart, backend->limit, score->wrong, sizeof score->wrong);
  else
    snprintf(score->wrong, sizeof score->wrong, "%.400s", error.text);
  apart_release(p.score, sizeof *score);
}

/* Function 3 calls 2, as it is handed out: that it is right for what 2 gives it matters only where
   2 is wrong. */
static void forget_p(ExerciseScore scores[TASKS]) {
  char *said = strstr(scores[TASK_LOSS].wrong, follows_p);
  if (said && scores[TASK_SOFTMAX].right) *said = '\0';
}

void exercise_score_one(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed,
                        int shapes, ExerciseScore *score) {
  *score = (ExerciseScore){.moved_bytes = NAN, .dram_bytes = NAN, .cache_bytes = NAN};
  for (int i = 0; i <= RIVALS; i++) score->seconds[i] = NAN;
  if (backend->open)
    score_apart(backend, task, seed, shapes, score);
  else
    score_task(backend, task, seed, shapes, score);
}

void exercise_score(const ExerciseBackend *backend, uint64_t seed, int shapes,
                    ExerciseScore scores[TASKS]) {
  for (int task = 0; task < TASKS; task++)
    exercise_score_one(backend, (ExerciseTask)task, seed, shapes, &scores[task]);
  forget_p(scores);
}

bool exercise_once(const ExerciseBackend *backend, Error *error) {
  bool good = true;
  for (int task = 0; good && task < TASKS; task++) {
    ExerciseScore score = {.right = true};
    good = backend->measure(backend, (ExerciseTask)task, 1, false, &score, error);
  }
  return good;
}
