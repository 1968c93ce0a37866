/* Runs the exercise on the emulator, which counts the requests that a GPU would get. */
#include "exercise/run.h"

#include <stdlib.h>

/* One thread that does all the work of function 1 takes 50 million steps on the measured shape. */
enum { STEPS_OF_BLOCK = 100000000, STEPS_OF_ALL = 2000000000 };

bool exercise_find(ExerciseBackend *backend, Error *error) {
  (void)error;
  const char *limit = getenv("MLP_TEST_LIMIT"); /* set by tests whose functions never end */
  *backend = (ExerciseBackend){.device = "the emulator, without a GPU",
                               .rows = {64, 64, 64, 64},
                               .limit = limit ? atof(limit) : 300};
  return true;
}

bool exercise_start(Error *error) {
  (void)error;
  emulator_start();
  emulator_limit(STEPS_OF_BLOCK, STEPS_OF_ALL);
  return true;
}

static void name_arrays(const ExercisePlaced *d) {
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArray *a = &d->problem->array[name];
    if (d->d_array[name])
      emulator_name(d->d_array[name], a->name, a->rows, a->columns, (int)a->size, !a->got);
  }
  emulator_name(d->d_state, "state", 1, 1, sizeof *d->d_state, true);
}

/* The context of call_it: a call of the student's function, and its result. */
typedef struct {
  const ExercisePlaced *placed;
  cudaError_t status;
} Called;

static void call_it(void *context) {
  Called *c = context;
  c->status = exercise_call(c->placed, NULL);
}

cudaError_t exercise_watched_call(const ExercisePlaced *d, ExerciseCall *call) {
  Called called = {d, cudaErrorLaunchFailure};
  const ExerciseShape *s = &d->problem->shape;
  char heading[64];
  snprintf(heading, sizeof heading, "rows %d, in %d, out %d:", s->rows, s->in, s->out);
  emulator_print(d->problem->prints ? heading : NULL);
  name_arrays(d);
  emulator_forget();
  emulator_call(call_it, &called);
  emulator_found(false, call->found);
  emulator_found(true, call->costs);
  call->counts = emulator_counts();
  call->launches = (int)call->counts.launches;
  call->moved_bytes = (double)call->counts.bytes_once;
  return called.status;
}
