/* The exercise on the emulator, which counts what a GPU would be asked for. */
#include "exercise/run.h"

#include <stdlib.h>

#include "engine/cuda/cuda_error.h"

bool cuda_done(cudaError_t status, const char *what, Error *error) {
  return status == cudaSuccess ||
         error_set(error, "%s failed: %s", what, cudaGetErrorString(status));
}

bool exercise_find(ExerciseBackend *backend, Error *error) {
  (void)error;
  const char *limit = getenv("MLP_TEST_LIMIT"); /* for tests of what does not end */
  *backend = (ExerciseBackend){.device = "the emulator, without a GPU",
                               .rows = {64, 1024, 1024, 64},
                               .limit = limit ? atof(limit) : 20};
  return true;
}

bool exercise_start(Error *error) {
  (void)error;
  return true;
}

static void name_arrays(const ExercisePlaced *d) {
  const ExerciseTask task = d->problem->task;
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArray *a = &d->problem->array[name];
    if (d->d_array[name])
      emulator_name(d->d_array[name], exercise_array_name(name), a->rows, a->columns, (int)a->size,
                    exercise_is_constant(task, name));
  }
  emulator_name(d->d_state, "state", 1, 1, sizeof *d->d_state, true);
}

void exercise_watch(const ExercisePlaced *d, ExerciseCall *call, bool start) {
  emulator_fence_host(start);
  if (start) {
    name_arrays(d);
    emulator_forget();
    return;
  }
  emulator_told(false, 8, call->found, sizeof call->found);
  emulator_told(true, 3, call->costs, sizeof call->costs);
  call->counts = emulator_counts();
  call->launches = (int)call->counts.launches;
  call->moved_bytes = (double)call->counts.bytes_once;
}

bool exercise_time(ExercisePlaced *d, ExerciseCall *call, Error *error) {
  (void)d, (void)call, (void)error;
  return true;
}
