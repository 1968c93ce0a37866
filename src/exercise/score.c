#include "exercise/exercise.h"

#include <math.h>
#include <string.h>

#include "exercise/apart.h"

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

/* One block of memory, for calls and for what they leave; NULL: there is none. */
static uint8_t *share(Process *p, size_t *bytes) {
  uint8_t *block = NULL;
  for (int pass = 0; pass < 2; pass++) {
    *bytes = CALLS * sizeof *p->calls;
    for (int i = 0; i < CALLS * ARRAYS; i++) {
      ExerciseArray *a = &p->problems[i / ARRAYS].array[i % ARRAYS];
      if (a->rows == 0 || exercise_is_constant(p->problems->task, i % ARRAYS)) continue;
      if (pass == 1) a->got = block + *bytes;
      *bytes += (exercise_bytes(a) + 63) / 64 * 64;
    }
    if (pass == 0 && !(block = apart_memory(*bytes))) return NULL;
  }
  p->calls = (ExerciseCall *)(void *)block;
  return block;
}

static void tell(const ExerciseCall *call, bool costs, ExerciseScore *score) {
#ifdef ON_EMULATOR
  const size_t used = strlen(score->told);
  char *told = score->told + used;
  emulator_told(&call->record, costs, costs ? 3 : 8, told, sizeof score->told - used);
  if (*told && !costs && !*score->wrong)
    snprintf(score->wrong, sizeof score->wrong, "%.*s", (int)strcspn(told, "\n"), told);
#else
  (void)call, (void)costs, (void)score;
#endif
}

/* Says what became of the calls of a process that has ended. */
static void judge_all(Process *p, const Apart *apart, double limit, ExerciseScore *score) {
  int called = 0, launches = 0;
  for (; called < CALLS && p->calls[called].called && !*score->wrong; called++) {
    const ExerciseCall *call = &p->calls[called];
    tell(call, false, score);
    exercise_expect(&p->problems[called]);
    if (!*score->wrong) exercise_judge_call(&p->problems[called], call, called == MEASURED, score);
    if (call->launches > launches) launches = call->launches;
  }
  if (!*score->wrong && called < CALLS)
    snprintf(score->wrong, sizeof score->wrong, "%.400s", p->calls[called].complaint);
  if (!*score->wrong && apart->end != APART_DONE)
    apart_describe(apart, limit, score->wrong, sizeof score->wrong);
  score->right = !*score->wrong && called == CALLS;
  score->call = p->calls[MEASURED];
  if (score->right) tell(&score->call, true, score);
  score->call.launches = launches;
  score->fused = score->right && launches == 1;
}

static void score_task(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed,
                       ExerciseScore *score) {
  Apart apart;
  Error error;
  size_t bytes;
  Process p;
  for (int i = 0; i < CALLS; i++)
    p.problems[i] = exercise_problem(
        task, i < MEASURED ? exercise_shape(seed, i) : exercise_measured_shape(backend, task),
        seed * 1000 + (uint64_t)(10 * i) + (uint64_t)(i % 2));
  *score = (ExerciseScore){.dram_bytes = NAN, .cache_bytes = NAN};
  uint8_t *block = share(&p, &bytes);
  for (int i = 0; block && i < CALLS; i++) {
    p.calls[i].moved_bytes = NAN;
    for (int k = 0; k <= RIVALS; k++) p.calls[i].seconds[k] = NAN;
  }
  if (!block) error_set(&error, "no memory to share with a process");
  if (block && apart_run(call_all, &p, backend->limit, &apart, &error))
    judge_all(&p, &apart, backend->limit, score);
  else
    snprintf(score->wrong, sizeof score->wrong, "%.400s", error.text);
  apart_release(block, bytes);
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
    ExerciseProblem problem = exercise_problem(
        (ExerciseTask)task, exercise_measured_shape(backend, (ExerciseTask)task), 1);
    good = exercise_run(&problem, false, &call, error);
    exercise_free(&problem);
  }
  return good;
}
