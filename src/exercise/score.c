#include "exercise/exercise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "exercise/apart.h"

enum { CALLS = EXERCISE_SHAPES + 1 };

/* ---- a function's process ------------------------------------------------------------------- */

/* A function, and what its process leaves of each call, the measured one last. */
typedef struct {
  const ExerciseBackend *backend;
  ExerciseTask task;
  uint64_t seed;
  int shapes;
  Error error;
  ExerciseCall *calls;          /* [shapes + 1], shared */
  uint8_t *left[CALLS][ARRAYS]; /* shared; NULL: the array is constant, or there is none */
} Process;

static ExerciseProblem problem_of(const Process *p, int i) {
  const uint64_t values = p->seed * 1000 + (uint64_t)(10 * i) + (uint64_t)(i % 2);
  return exercise_problem(p->task,
                          i < p->shapes ? exercise_shape(p->seed, i)
                                        : exercise_measured_shape(p->backend, p->task),
                          values);
}

static void call_all(void *context) {
  Process *p = context;
  ExerciseCall *call = p->calls;
  Error error;
  bool good = exercise_start(&error);
  for (int i = 0; good && i <= p->shapes; i++, call++) {
    ExerciseProblem problem = problem_of(p, i);
    good = exercise_run(&problem, p->left[i], i == p->shapes, call, &error);
    exercise_free(&problem);
  }
  if (!good)
    snprintf(call[-(call > p->calls)].complaint, sizeof call->complaint, "%.380s", error.text);
}

/* One block of shared memory; NULL: there is none. */
static uint8_t *share(Process *p, size_t *bytes) {
  uint8_t *block = NULL;
  for (int pass = 0; pass < 2; pass++) {
    *bytes = (size_t)(p->shapes + 1) * sizeof *p->calls;
    for (int i = 0; i <= p->shapes; i++) {
      ExerciseProblem problem = problem_of(p, i);
      for (int name = 0; name < ARRAYS; name++) {
        const ExerciseArray *a = &problem.array[name];
        if (a->rows == 0 || exercise_is_constant(p->task, name)) continue;
        if (pass == 1) p->left[i][name] = block + *bytes;
        *bytes += (exercise_bytes(a) + 63) / 64 * 64;
      }
      exercise_free(&problem);
    }
    if (pass == 0 && !(block = apart_memory(*bytes))) return NULL;
  }
  p->calls = (ExerciseCall *)(void *)block;
  return block;
}

/* ---- judging -------------------------------------------------------------------------------- */

static const char follows_p[] = ". Nothing else is wrong with it: it is right for the p that "
                                "function 2 gives it, which is wrong";

static void judge_call(const Process *p, int i, ExerciseScore *score) {
  const ExerciseCall *call = &p->calls[i];
  ExerciseProblem problem = problem_of(p, i);
  char text[448] = "";
  for (int name = 0; name < ARRAYS; name++) problem.array[name].got = p->left[i][name];
  exercise_expect(&problem);
  if (*call->complaint)
    snprintf(text, sizeof text, "%s", call->complaint);
  else
    exercise_judge(&problem, text, sizeof text);
  /* Nobody reads inputs that have not been read, or leaves results that have not been written. */
  if (!*text && isfinite(call->moved_bytes) && problem.filled == problem.shape.rows &&
      call->moved_bytes < exercise_least_bytes(p->task, problem.shape))
    snprintf(text, sizeof text, "it moved %.0f bytes, fewer than it can", call->moved_bytes);
  if (*text)
    snprintf(score->wrong, sizeof score->wrong, "%.440s; rows %d, in %d, out %d%s%s", text,
             problem.shape.rows, problem.shape.in, problem.shape.out,
             i == p->shapes ? "; as it was measured" : "",
             !*call->complaint && p->task == TASK_LOSS && exercise_follows_p(&problem) ? follows_p
                                                                                       : "");
  exercise_free(&problem);
}

static void tell(const ExerciseCall *call, bool costs, ExerciseScore *score) {
#ifdef ON_EMULATOR
  char *told = emulator_told(call->record, costs, costs ? 3 : 8);
  const size_t used = strlen(score->told);
  snprintf(score->told + used, sizeof score->told - used, "%s", told);
  if (*told && !costs && !*score->wrong) {
    snprintf(score->wrong, sizeof score->wrong, "%.*s", (int)strcspn(told, "\n"), told);
  }
  free(told);
#else
  (void)call, (void)costs, (void)score;
#endif
}

static void score_task(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed, int shapes,
                       ExerciseScore *score) {
  Apart apart;
  Error error;
  size_t bytes;
  Process p = {.backend = backend, .task = task, .seed = seed, .shapes = shapes};
  *score = (ExerciseScore){.dram_bytes = NAN, .cache_bytes = NAN};
  uint8_t *block = share(&p, &bytes);
  for (int i = 0; block && i <= shapes; i++) {
    p.calls[i].moved_bytes = NAN;
    for (int k = 0; k <= RIVALS; k++) p.calls[i].seconds[k] = NAN;
  }
  if (!block || !apart_run(call_all, &p, backend->limit, &apart, &error)) {
    snprintf(score->wrong, sizeof score->wrong, "%.400s",
             block ? error.text : "no memory to share with a process");
    apart_release(block, bytes);
    return;
  }
  int called = 0, launches = 0;
  for (; called <= shapes && p.calls[called].called && !*score->wrong; called++) {
    tell(&p.calls[called], false, score);
    if (!*score->wrong) judge_call(&p, called, score);
    if (p.calls[called].launches > launches) launches = p.calls[called].launches;
  }
  if (!*score->wrong && called <= shapes && *p.calls[called].complaint)
    snprintf(score->wrong, sizeof score->wrong, "%.400s", p.calls[called].complaint);
  if (!*score->wrong && apart.end != APART_DONE)
    apart_describe(&apart, backend->limit, score->wrong, sizeof score->wrong);
  score->right = !*score->wrong && called > shapes;
  if (score->right) tell(&p.calls[shapes], true, score);
  score->call = p.calls[shapes];
  score->call.launches = launches;
  score->fused = score->right && launches == 1;
  apart_release(block, bytes);
}

/* Function 3 calls 2, as it is handed out: that it is right for what 2 gives it matters only where
   2 is wrong. */
static void forget_p(ExerciseScore scores[TASKS]) {
  char *said = strstr(scores[TASK_LOSS].wrong, follows_p);
  if (said && scores[TASK_SOFTMAX].right) *said = '\0';
}

void exercise_score(const ExerciseBackend *backend, uint64_t seed, int shapes,
                    ExerciseScore scores[TASKS]) {
  for (int task = 0; task < TASKS; task++)
    score_task(backend, (ExerciseTask)task, seed, shapes, &scores[task]);
  forget_p(scores);
}

bool exercise_once(const ExerciseBackend *backend, Error *error) {
  bool good = exercise_start(error);
  for (int task = 0; good && task < TASKS; task++) {
    ExerciseCall call = {0};
    uint8_t *const left[ARRAYS] = {NULL};
    ExerciseProblem problem = exercise_problem(
        (ExerciseTask)task, exercise_measured_shape(backend, (ExerciseTask)task), 1);
    good = exercise_run(&problem, left, false, &call, error);
    exercise_free(&problem);
  }
  return good;
}
