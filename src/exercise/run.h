/* A problem on the device, and what gpu.c or emulated.c does with it. */
#pragma once

#include "exercise/exercise.h"
#include "kernels.h"

/* Bytes of poison around each array, which the emulator needs none of. A multiple of 4. */
#ifdef ON_EMULATOR
enum { EXERCISE_GUARD = 0 };
#else
enum { EXERCISE_GUARD = 1024 };
#endif

/* Arrays that the problem has not are NULL. */
typedef struct {
  const ExerciseProblem *problem;
  uint8_t *d_block[ARRAYS];
  void *d_array[ARRAYS];
  StepState *d_state;
  BatchView batch;
  UpdateRule rule;
  LayerUpdate layer;
  void *d_work; /* of the layer level's updates */
  int variant;  /* of gpu.c */
} ExercisePlaced;

/* Queues the student's function. */
cudaError_t exercise_call(const ExercisePlaced *d, cudaStream_t stream);

/* Calls it once, on the stream of the process, and counts what it does. */
cudaError_t exercise_watched_call(const ExercisePlaced *d, ExerciseCall *call);
bool exercise_time(ExercisePlaced *d, ExerciseCall *call, Error *error);
