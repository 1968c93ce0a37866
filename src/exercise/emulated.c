/* Runs the exercise on the emulator, which counts the requests that a GPU would get. */
#include "exercise/run.h"

#include <stdlib.h>

/* One thread that does all the work of function 1 takes 50 million steps on the measured shape. */
enum { STEPS_OF_BLOCK = 100000000, STEPS_OF_ALL = 2000000000 };

bool exercise_find(EmulatedGpu gpu, ExerciseBackend *backend, Error *error) {
  static const struct {
    const char *device;
    size_t shared_kb; /* dynamic shared memory that cudaFuncSetAttribute can allow a block */
  } gpus[] = {[AS_H100] = {"the emulator as an H100, without a GPU", 227},
              [AS_A100] = {"the emulator as an A100, without a GPU", 163},
              [AS_T4] = {"the emulator as a T4, without a GPU", 64}};
  (void)error;
  emulator_shared(gpus[gpu].shared_kb << 10);
  const char *limit = getenv("MLP_TEST_LIMIT"); /* set by tests whose functions never end */
  *backend =
      (ExerciseBackend){.device = gpus[gpu].device, .rows = 64, .limit = limit ? atof(limit) : 300};
  return true;
}

bool exercise_start(Error *error) {
  (void)error;
  emulator_start(text_format("%s.cu", exercise_linked()->name).text);
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

/* Stands for a stream. Nothing reads it, but a launch must not forget it. */
#define THE_STREAM ((cudaStream_t)call_it)

/* The context of call_it: a call of the student's function, and its result. */
typedef struct {
  const ExercisePlaced *placed;
  cudaError_t status;
} Called;

static void call_it(void *context) {
  Called *c = context;
  c->status = exercise_call(c->placed, THE_STREAM);
}

cudaError_t exercise_watched_call(const ExercisePlaced *d, ExerciseCall *call) {
  Called called = {d, cudaErrorLaunchFailure};
  const ExerciseShape *s = &d->problem->shape;
  char heading[64];
  snprintf(heading, sizeof heading, "rows %d, in %d, out %d:", s->rows, s->in, s->out);
  emulator_print(d->problem->prints ? heading : NULL);
  name_arrays(d);
  emulator_forget();
  emulator_call(call_it, &called, THE_STREAM);
  emulator_found(false, call->found);
  emulator_found(true, call->costs);
  call->counts = emulator_counts();
  call->launches = (int)call->counts.launches;
  call->moved_bytes = (double)call->counts.bytes_once;
  return called.status;
}

void exercise_vast_call(ExerciseTask task, ExerciseCall *call) {
  enum { STEPS = 20000000 };
  const ExerciseProblem problem = exercise_vast_problem(task);
  ExercisePlaced d;
  emulator_only_last_block(STEPS);
  if (exercise_place(&d, &problem, false) == cudaSuccess) exercise_watched_call(&d, call);
}
