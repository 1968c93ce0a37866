/* A problem on the device, and the functions of gpu.c or emulated.c that use it. */
#pragma once

#include "exercise/exercise.h"
#include "kernels.h"

/* A problem's arrays. Those that the problem lacks are NULL. */
typedef struct {
  const ExerciseProblem *problem;
  uint8_t *d_block[ARRAYS];
  void *d_array[ARRAYS];
  StepState *d_state;
  BatchView batch;
  UpdateRule rule;
  LayerUpdate layer;
} ExercisePlaced;

/* Queues the student's function. */
cudaError_t exercise_call(const ExercisePlaced *d, cudaStream_t stream);

/* Starts a process that calls functions. */
bool exercise_start(Error *error);
/* Calls the function once, on the stream of the process, and counts what it does. */
cudaError_t exercise_watched_call(const ExercisePlaced *d, ExerciseCall *call);
/* Times the function and ours. NULL on the emulator. */
bool exercise_time(ExercisePlaced *d, ExerciseCall *call, Error *error) __attribute__((weak));
