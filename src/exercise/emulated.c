/* The exercise on the emulator, which counts what a GPU would be asked for. */
#include "exercise/run.h"

#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
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

/* The last lines that do not fit are left out. */
static void copy_lines(char *to, size_t size, char *from) {
  if (strlen(from) >= size) from[size - 1] = '\0';
  char *end = strrchr(from, '\n');
  if (end) end[1] = '\0';
  strcpy(to, end ? from : "");
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
  char *record = emulator_record();
  copy_lines(call->record, sizeof call->record, record);
  free(record);
  call->launches = emulator_launches();
  call->moved_bytes = call->requests = call->sectors = call->turns = 0;
  for (int i = 0; i < call->launches; i++) {
    const EmulatorLaunch *l = emulator_launch(i);
    call->moved_bytes += (double)(l->read.once + l->written.once);
    call->requests += (double)(l->read.requests + l->written.requests);
    call->sectors += (double)(l->read.sectors + l->written.sectors);
    call->turns += (double)l->wavefronts, call->least_turns += (double)l->least_wavefronts;
    call->barriers += (double)l->barriers;
    call->lanes += (double)l->lanes, call->slots += (double)l->slots;
  }
}

bool exercise_time(ExercisePlaced *d, ExerciseCall *call, Error *error) {
  (void)d, (void)call, (void)error;
  return true;
}
