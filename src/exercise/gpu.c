/* The exercise on a GPU, beside the same operations at levels none and layer. A student's kit has
   neither level, for both have kernels in them that are answers. */
#include "exercise/run.h"

#include <stdlib.h>

#include "measure/cuda/rung.h"

enum { LIMIT = 180 /* seconds for a function's process, the driver's start included */, CALLS = 5 };

#ifdef STUDENT_KIT

enum { VARIANTS = 1 };

static cudaError_t queue(void *context, cudaStream_t stream) {
  return exercise_call(context, stream);
}

#else

enum { EXERCISE, NONE, LAYER, VARIANTS, TERMS = 3 /* of a float32 */ };

static cudaError_t call_none(const ExercisePlaced *d, cudaStream_t stream) {
  const ExerciseShape *s = &d->problem->shape;
  void *const *a = d->d_array;
  const size_t values = (size_t)s->rows * (size_t)s->out, weights = (size_t)s->out * (size_t)s->in;
  switch (d->problem->task) {
  case TASK_FORWARD:
    TRY(launch_gemm(a[ARRAY_X], a[ARRAY_W], a[ARRAY_Z], s->rows, s->in, s->out, stream));
    TRY(launch_add_bias(a[ARRAY_Z], a[ARRAY_B], s->rows, s->out, stream));
    return launch_relu(a[ARRAY_Z], a[ARRAY_Y], values, stream);
  case TASK_SOFTMAX:
    return launch_log_softmax(a[ARRAY_Z], a[ARRAY_P], s->rows, s->out, stream);
  case TASK_LOSS:
    TRY(launch_log_softmax(a[ARRAY_Z], a[ARRAY_P], s->rows, s->out, stream));
    TRY(launch_cross_entropy(d->batch, a[ARRAY_P], s->out,
                             (RowResults){a[ARRAY_LOSS], a[ARRAY_CORRECT]}, stream));
    return launch_cross_entropy_gradient(d->batch, a[ARRAY_P], a[ARRAY_DZ], s->out, stream);
  default:
    TRY(launch_weight_gradient(a[ARRAY_DZ], a[ARRAY_X], a[ARRAY_DW], s->rows, s->in, s->out,
                               stream));
    TRY(launch_bias_gradient(a[ARRAY_DZ], a[ARRAY_DB], s->rows, s->out, stream));
    TRY(launch_update(d->batch, d->rule, a[ARRAY_W], a[ARRAY_VW], a[ARRAY_DW], weights, weights,
                      stream));
    return launch_update(d->batch, d->rule, a[ARRAY_B], a[ARRAY_VB], a[ARRAY_DB], (size_t)s->out, 0,
                         stream);
  }
}

/* Level layer has no softmax alone: its kernel makes the loss and the gradient as well. */
static cudaError_t call_layer(const ExercisePlaced *d, cudaStream_t stream) {
  const ExerciseShape *s = &d->problem->shape;
  void *const *a = d->d_array;
  const bool softmax = d->problem->task == TASK_SOFTMAX;
  switch (d->problem->task) {
  case TASK_FORWARD:
    return launch_forward((LayerInput){a[ARRAY_X], {.rows = s->rows}}, a[ARRAY_W], a[ARRAY_B],
                          a[ARRAY_Y], s->in, s->out, s->relu, (Dropout){0}, TERMS, stream);
  case TASK_UPDATE:
    return launch_updates(d->batch, &d->layer, 1, TERMS, d->d_work, stream);
  default:
    return launch_softmax(d->batch, a[ARRAY_Z], a[softmax ? ARRAY_P : ARRAY_DZ], s->out,
                          (RowResults){a[ARRAY_LOSS], a[ARRAY_CORRECT]}, stream);
  }
}

static cudaError_t queue(void *context, cudaStream_t stream) {
  static cudaError_t (*const call_of[VARIANTS])(const ExercisePlaced *, cudaStream_t) = {
      exercise_call, call_none, call_layer};
  const ExercisePlaced *d = context;
  return call_of[d->variant](d, stream);
}

#endif

void exercise_watch(const ExercisePlaced *d, ExerciseCall *call, bool start) {
  static uint64_t before;
  (void)d;
  if (start) before = launch_count();
  call->launches = (int)(launch_count() - before);
}

static cudaError_t place_work(ExercisePlaced *d) {
#ifdef STUDENT_KIT
  (void)d; /* only level layer works with it */
#else
  TRY(cudaMalloc(&d->d_work, update_work_bytes()));
  TRY(cudaMemset(d->d_work, 0, update_work_bytes()));
#endif
  return cudaDeviceSynchronize();
}

/* While the clock runs the learning rate is 0 and keeps weights and biases as they are. */
bool exercise_time(ExercisePlaced *d, ExerciseCall *call, Error *error) {
  const float none = 0;
  if (!cuda_done(cudaMemcpy(&d->d_state->learning_rate, &none, sizeof none, cudaMemcpyHostToDevice),
                 "placing a problem", error) ||
      !cuda_done(place_work(d), "placing a problem", error))
    return false;
  for (d->variant = 0; d->variant < VARIANTS; d->variant++) {
    Stats times;
    const Rung rung = {"timing a function of the exercise", queue, d, .calls = CALLS};
    if (!rung_time(&rung, RUNG_SAMPLES, &times, error)) return false;
    call->seconds[d->variant] = times.median;
  }
  return true;
}

/* ---- finding a GPU -------------------------------------------------------------------------- */

bool exercise_start(Error *error) {
  int count = 0;
  if (!cuda_done(cudaGetDeviceCount(&count), "looking for a GPU", error)) return false;
  return count > 0 || error_set(error, "no GPU was found");
}

/* The answer of a process that looked for a GPU to the one that sent it. */
typedef struct {
  char name[128];
  Error error;
} Found;

static void look(void *context) {
  Found *found = context;
  struct cudaDeviceProp properties;
  int device;
  if (exercise_start(&found->error) &&
      cuda_done(cudaGetDevice(&device), "finding the device", &found->error) &&
      cuda_done(cudaGetDeviceProperties(&properties, device), "finding the device", &found->error))
    snprintf(found->name, sizeof found->name, "%.127s", properties.name);
}

bool exercise_find(ExerciseBackend *backend, Error *error) {
  static Found *found; /* whose name the backend has */
  char end[APART_TEXT];
  found = apart_memory(sizeof *found);
  if (!found) return error_set(error, "no memory to share with a process");
  if (!apart_run(look, found, LIMIT, end, error)) return false;
  if (*end) return error_set(error, "the process that looked for a GPU does not answer: %s", end);
  if (*found->error.text) return error_set(error, "%s", found->error.text);
  *backend = (ExerciseBackend){.device = found->name,
                               .on_gpu = true,
#ifndef STUDENT_KIT
                               .rival = {"none", "layer"},
#endif
                               .rows = {16384, 16384, 16384, 16384},
                               .limit = LIMIT};
  return true;
}
