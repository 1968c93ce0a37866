#include "exercise/exercise.h"

#include <math.h>
#include <string.h>

enum { MEASURED = EXERCISE_SHAPES, CALLS }; /* the last one is measured */

/* ---- a function's process ------------------------------------------------------------------- */

/* A function, and what its process leaves of each call, in shared memory. */
typedef struct {
  ExerciseProblem problems[CALLS];
  ExerciseCall *calls;
} Process;

static void call_all(void *context) {
  Process *p = context;
  ExerciseCall *call = p->calls;
  Error error;
  bool good = exercise_start(&error);
  for (int i = 0; good && i < CALLS; i++, call++)
    good = exercise_run(&p->problems[i], i == MEASURED, call, &error);
  if (!good)
    snprintf(call[-(call > p->calls)].complaint, sizeof call->complaint, "%.380s", error.text);
}

/* Says what became of the calls of a process that has ended. */
static void judge_all(Process *p, const char *end, ExerciseScore *score) {
  int called = 0, launches = 0;
  for (; called < CALLS && p->calls[called].called && !*score->wrong; called++) {
    const ExerciseCall *call = &p->calls[called];
    strcpy(score->told, call->found);
    snprintf(score->wrong, sizeof score->wrong, "%.*s", (int)strcspn(call->found, "\n"),
             call->found);
    exercise_expect(&p->problems[called]);
    if (!*score->wrong) exercise_judge_call(&p->problems[called], call, called == MEASURED, score);
    if (call->launches > launches) launches = call->launches;
  }
  if (!*score->wrong && called < CALLS)
    snprintf(score->wrong, sizeof score->wrong, "%.400s", p->calls[called].complaint);
  if (!*score->wrong) snprintf(score->wrong, sizeof score->wrong, "%s", end);
  score->right = !*score->wrong && called == CALLS;
  score->call = p->calls[MEASURED];
  if (score->right) strcpy(score->told, score->call.costs);
  score->call.launches = launches;
  score->fused = score->right && launches == 1;
}

/* The index-th that is drawn from the seed, or the measured one. */
static ExerciseProblem problem_of(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed,
                                  int index) {
  const ExerciseShape shape =
      index == MEASURED ? exercise_measured_shape(backend, task) : exercise_shape(seed, index);
  return exercise_problem(task, shape,
                          seed * 1000 + (uint64_t)(10 * index) + (uint64_t)(index % 2));
}

static void score_task(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed,
                       ExerciseScore *score) {
  char end[APART_TEXT];
  Error error = {.text = "no memory to share with a process"};
  Process p = {.calls = apart_memory(CALLS * sizeof *p.calls)};
  for (int i = 0; i < CALLS; i++) {
    p.problems[i] = problem_of(backend, task, seed, i);
    if (p.calls) p.calls[i] = (ExerciseCall){.moved_bytes = NAN, .seconds = {NAN, NAN, NAN}};
  }
  *score = (ExerciseScore){task, backend, .dram_bytes = NAN, .cache_bytes = NAN};
  if (p.calls && apart_run(call_all, &p, backend->limit, end, &error))
    judge_all(&p, end, score);
  else
    snprintf(score->wrong, sizeof score->wrong, "%.400s", error.text);
  apart_release(p.calls, CALLS * sizeof *p.calls);
  for (int i = 0; i < CALLS; i++) exercise_free(&p.problems[i]);
}

void exercise_score(const ExerciseBackend *backend, uint64_t seed, ExerciseScore scores[TASKS]) {
  for (int task = 0; task < TASKS; task++)
    score_task(backend, (ExerciseTask)task, seed, &scores[task]);
  /* Function 3 calls 2, as it is handed out. */
  ExerciseScore *loss = &scores[TASK_LOSS];
  if (loss->follows_p && !scores[TASK_SOFTMAX].right)
    strcat(loss->wrong, ". Nothing else is wrong with it: it is right for the p that function 2 "
                        "gives it, which is wrong");
}

bool exercise_once(const ExerciseBackend *backend, Error *error) {
  bool good = exercise_start(error);
  for (int task = 0; good && task < TASKS; task++) {
    ExerciseCall call = {0};
    ExerciseProblem problem = problem_of(backend, (ExerciseTask)task, 1, MEASURED);
    good = exercise_run(&problem, false, &call, error);
    exercise_free(&problem);
  }
  return good;
}
