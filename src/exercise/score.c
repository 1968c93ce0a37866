#include "exercise/exercise.h"

#include <math.h>
#include <string.h>

enum { HIDDEN = EXERCISE_SHAPES, AGAIN, CALLS, INPUTS = 784, OUTPUTS = 300, CLASSES = 1000 };

/* ---- a function's process ------------------------------------------------------------------- */

/* A function, and what its process leaves of each call, in shared memory. A call of the measured
   shape is the last but, where it is timed, for one of the same shape on fresh values. */
typedef struct {
  Apart apart;
  bool started, may_ask; /* the GPU */
  int count, measured;   /* calls; which is measured */
  ExerciseProblem problems[CALLS];
  ExerciseCall *calls;
} Process;

/* Returns true if something was found: then it is wrong, and what other shapes find takes time and
   is not told. Barriers at two places may be two copies of one (emulator_lines). */
static bool is_over(const char *found) {
  for (const char *end; (end = strchr(found, '\n')); found = end + 1)
    if (strncmp(found, "barriers ", strlen("barriers ")) != 0) return true;
  return *found;
}

static void call_all(void *context) {
  Process *p = context;
  ExerciseCall *call = p->calls;
  Error error;
  bool good = exercise_start(&error) && apart_confine(p->may_ask, &error);
  for (int i = 0; good && i < p->count; i++, call++) {
    good = exercise_run(&p->problems[i], i == p->measured, call, &error);
    if (is_over(call->found)) return;
  }
  if (!good)
    snprintf(call[-(call > p->calls)].complaint, sizeof call->complaint, "%.380s", error.text);
}

/* Says what became of the calls of a process that has ended. */
static void judge_all(Process *p, const char *end, ExerciseScore *score) {
  int called = 0, launches = 0;
  for (; called < p->count && p->calls[called].called && !*score->wrong; called++) {
    const ExerciseCall *call = &p->calls[called];
    exercise_lines(call, false, 8, score->told, sizeof score->told);
    snprintf(score->wrong, sizeof score->wrong, "%.*s", (int)strcspn(score->told, "\n"),
             score->told);
    exercise_expect(&p->problems[called]);
    if (!*score->wrong)
      exercise_judge_call(&p->problems[called], call, called >= p->measured, score);
    if (call->launches > launches) launches = call->launches;
  }
  if (!*score->wrong && called < p->count)
    snprintf(score->wrong, sizeof score->wrong, "%.400s", p->calls[called].complaint);
  if (!*score->wrong) snprintf(score->wrong, sizeof score->wrong, "%s", end);
  score->right = !*score->wrong && called == p->count;
  score->call = p->calls[p->measured];
  if (score->right) exercise_lines(&score->call, true, 3, score->told, sizeof score->told);
  score->call.launches = launches;
  /* One kernel, which asks for little more than it needs where it has nothing else to be measured
   * by. */
  const double asked = 32 * (double)score->call.counts.sectors,
               least = exercise_least_bytes(score->task, score->measured);
  score->fused = score->right && launches == 1 && (score->task < TASKS || asked < 2 * least);
}

static ExerciseShape measured_shape(const ExerciseBackend *backend, ExerciseTask task) {
  const bool classes = task != TASK_FORWARD && task != TASK_UPDATE;
  const int rows = backend->rows[task < TASKS ? task : TASK_SOFTMAX];
  return (ExerciseShape){.rows = rows,
                         .in = classes ? 1 : INPUTS,
                         .out = classes ? CLASSES : OUTPUTS,
                         .relu = true,
                         .end = rows};
}

/* The index-th that is drawn from the seed, or one of the measured shape. */
static ExerciseProblem problem_of(ExerciseTask task, ExerciseShape measured, uint64_t seed,
                                  int index) {
  return exercise_problem(task, index >= HIDDEN ? measured : exercise_shape(seed, index),
                          seed * 1000 + (uint64_t)(10 * index) + (uint64_t)(index % 2));
}

static void start_task(Process *p, const ExerciseChoice *choice, ExerciseScore *score) {
  Error error = {.text = "no memory to share with a process"};
  const int first = choice->shape.rows > 0 ? HIDDEN : 0;
  bool printed = false;
  p->count = (score->backend->at_once ? AGAIN : CALLS) - first;
  p->measured = HIDDEN - first;
  p->may_ask = score->backend->on_gpu;
  p->calls = apart_memory(CALLS * sizeof *p->calls);
  for (int i = 0; i < p->count; i++) {
    p->problems[i] = problem_of(score->task, score->measured, choice->seed, first + i);
    const ExerciseShape *s = &p->problems[i].shape;
    p->problems[i].prints =
        !printed && (i == p->measured || (s->rows > 1 && s->out > 1 && p->problems[i].filled > 1));
    printed |= p->problems[i].prints; /* once is enough */
    if (p->calls) p->calls[i] = (ExerciseCall){.moved_bytes = NAN, .seconds = {NAN, NAN, NAN}};
  }
  p->started = p->calls && apart_start(&p->apart, call_all, p, score->backend->limit, &error);
  if (!p->started) snprintf(score->wrong, sizeof score->wrong, "%.400s", error.text);
}

static void end_task(Process *p, ExerciseScore *score) {
  char end[APART_TEXT];
  if (p->started) {
    apart_end(&p->apart, end);
    judge_all(p, end, score);
  }
  apart_release(p->calls, CALLS * sizeof *p->calls);
  for (int i = 0; i < p->count; i++) exercise_free(&p->problems[i]);
}

void exercise_score(const ExerciseBackend *backend, const ExerciseChoice *choice,
                    ExerciseScore *scores) {
  static const int handed_out[TASKS] = {3, 3, 5, 4}; /* kernels */
  static Process processes[ALL_TASKS];
  for (int i = 0; i < choice->count; i++) {
    const ExerciseTask task = (ExerciseTask)(choice->first + i);
    scores[i] = (ExerciseScore){.task = task,
                                .backend = backend,
                                .measured = choice->shape.rows > 0 ? choice->shape
                                                                   : measured_shape(backend, task),
                                .compares = choice->shape.rows == 0 && task < TASKS,
                                .handed_out = task < TASKS ? handed_out[task] : 0,
                                .dram_bytes = NAN,
                                .cache_bytes = NAN};
    start_task(&processes[i], choice, &scores[i]);
    if (!backend->at_once) end_task(&processes[i], &scores[i]);
  }
  for (int i = 0; i < choice->count && backend->at_once; i++) end_task(&processes[i], &scores[i]);
  if (choice->first > 0 || choice->count < TASKS) return;
  /* Function 3 calls 2, as it is handed out: what 2 saves is no work on 3. */
  ExerciseScore *loss = &scores[TASK_LOSS];
  const ExerciseScore *softmax = &scores[TASK_SOFTMAX];
  if (softmax->right) loss->handed_out = softmax->call.launches + 2;
  if (loss->follows_p && !softmax->right)
    strcat(loss->wrong, ". Nothing else is wrong with it: it is right for the p that function 2 "
                        "gives it, which is wrong");
}

bool exercise_once(const ExerciseBackend *backend, Error *error) {
  bool good = exercise_start(error);
  for (int task = 0; good && task < TASKS; task++) {
    ExerciseCall call = {0};
    ExerciseProblem problem =
        problem_of((ExerciseTask)task, measured_shape(backend, (ExerciseTask)task), 1, HIDDEN);
    good = exercise_run(&problem, false, &call, error);
    exercise_free(&problem);
  }
  return good;
}
