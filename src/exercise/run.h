/* A problem on the device, and the functions of gpu.c or emulated.c that use it. */
#pragma once

#include "exercise/exercise.h"
#include "kernels.h"

/* A problem's arrays on the device. Arrays that the problem does not use are NULL. */
typedef struct {
  const ExerciseProblem *problem;
  uint8_t *d_block[ARRAYS];
  void *d_array[ARRAYS];
  StepState *d_state;
  BatchView batch;
  LayerUpdate layer;
} ExercisePlaced;

/* Allocates the problem's arrays and the step's state. If `given`, the arrays get their values. */
cudaError_t exercise_place(ExercisePlaced *d, const ExerciseProblem *problem, bool given);
/* Queues the student's function. */
cudaError_t exercise_call(const ExercisePlaced *d, cudaStream_t stream);

/* Prepares this process for calls of the student's functions. */
bool exercise_start(Error *error);
/* Calls the student's function once. Stores counts and the emulator's findings in *call. */
cudaError_t exercise_watched_call(const ExercisePlaced *d, ExerciseCall *call);
/* Calls the student's function with exercise_vast_problem(), and stores what is found in *call.
   Must be the process's last call. NULL on a GPU. */
void exercise_vast_call(ExerciseTask task, ExerciseCall *call) __attribute__((weak));
/* Times the student's function and ours. exercise_time is NULL on the emulator. */
bool exercise_time(ExercisePlaced *d, ExerciseCall *call, Error *error) __attribute__((weak));
