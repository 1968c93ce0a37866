/* Calls a function of kernels/exercise.cu on a problem, on a GPU or on the emulator. */
#include "exercise/run.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cuda/cuda_error.h"

enum { OFFSET = 3 /* of the batch after the state's position */ };

static cudaError_t place_array(ExercisePlaced *d, int name) {
  const ExerciseArray *a = &d->problem->array[name];
  if (a->rows == 0) return cudaSuccess;
  const size_t bytes = exercise_bytes(a), all = bytes + 2 * EXERCISE_GUARD;
  TRY(cudaMalloc((void **)&d->d_block[name], all));
  d->d_array[name] = d->d_block[name] + EXERCISE_GUARD;
  uint8_t *block = malloc(all);
  if (!block) return cudaErrorMemoryAllocation;
  exercise_poison(block, 0, all);
  if (a->given) memcpy(block + EXERCISE_GUARD, a->given, bytes);
  const cudaError_t status = cudaMemcpy(d->d_block[name], block, all, cudaMemcpyHostToDevice);
  free(block);
  return status;
}

static cudaError_t place(ExercisePlaced *d, const ExerciseProblem *problem) {
  const ExerciseShape *s = &problem->shape;
  const StepState state = {
      .position = (uint32_t)(s->first - (s->first > 0 ? OFFSET : 0)),
      .end = (uint32_t)s->end,
      .learning_rate = problem->rule.rate,
      .rule = {.momentum = problem->rule.momentum, .weight_decay = problem->rule.weight_decay}};
  void *const *a = d->d_array;
  *d = (ExercisePlaced){.problem = problem,
                        .rule = {problem->rule.momentum, problem->rule.weight_decay}};
  for (int name = 0; name < ARRAYS; name++) TRY(place_array(d, name));
  TRY(cudaMalloc((void **)&d->d_state, sizeof state));
  d->batch = (BatchView){.d_pixels = (const uint8_t *)d->d_state, /* nobody reads them */
                         .d_labels = a[ARRAY_LABELS] ? a[ARRAY_LABELS] : (void *)d->d_state,
                         .d_order = a[ARRAY_ORDER],
                         .stride = 16,
                         .d_state = d->d_state,
                         .offset = s->first > 0 ? OFFSET : 0,
                         .rows = s->rows};
  d->layer = (LayerUpdate){.d_x = a[ARRAY_X],
                           .d_dz = a[ARRAY_DZ],
                           .d_w = a[ARRAY_W],
                           .d_b = a[ARRAY_B],
                           .d_vw = a[ARRAY_VW],
                           .d_vb = a[ARRAY_VB],
                           .in = s->in,
                           .out = s->out};
  return cudaMemcpy(d->d_state, &state, sizeof state, cudaMemcpyHostToDevice);
}

static void discard(ExercisePlaced *d) {
  for (int name = 0; name < ARRAYS; name++) cudaFree(d->d_block[name]);
  cudaFree(d->d_state);
  cudaFree(d->d_work);
}

cudaError_t exercise_call(const ExercisePlaced *d, cudaStream_t stream) {
  const ExerciseShape *s = &d->problem->shape;
  void *const *a = d->d_array;
  switch (d->problem->task) {
  case TASK_FORWARD:
    return launch_exercise_forward(a[ARRAY_X], a[ARRAY_W], a[ARRAY_B], a[ARRAY_Z], a[ARRAY_Y],
                                   s->rows, s->in, s->out, s->relu, stream);
  case TASK_SOFTMAX:
    return launch_exercise_softmax(a[ARRAY_Z], a[ARRAY_LARGEST], a[ARRAY_SUM], a[ARRAY_P], s->rows,
                                   s->out, stream);
  case TASK_LOSS:
    return launch_exercise_loss(d->batch, a[ARRAY_Z], a[ARRAY_LARGEST], a[ARRAY_SUM], a[ARRAY_P],
                                a[ARRAY_DZ], s->out, (RowResults){a[ARRAY_LOSS], a[ARRAY_CORRECT]},
                                stream);
  case WARMUP_MAP:
    return launch_warmup_map(a[ARRAY_Z], a[ARRAY_Y], s->rows * s->out, stream);
  case WARMUP_INDEX:
    return launch_warmup_index(a[ARRAY_Z], a[ARRAY_B], a[ARRAY_Y], s->rows, s->out, stream);
  case WARMUP_REVERSE:
    return launch_warmup_reverse(a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out, stream);
  case WARMUP_SUM:
    return launch_warmup_sum(a[ARRAY_Z], a[ARRAY_SUM], s->rows, s->out, stream);
  case WARMUP_COPY:
    return launch_warmup_copy(a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out, stream);
  default:
    return launch_exercise_update(d->batch, d->rule, d->layer, a[ARRAY_DW], a[ARRAY_DB], stream);
  }
}

static void complain(ExerciseCall *call, const char *what, const char *of) {
  if (!*call->complaint) snprintf(call->complaint, sizeof call->complaint, "it %s%s", what, of);
}

/* Copies what the function left, and complains of guard zones that it wrote to. */
static cudaError_t fetch(const ExercisePlaced *d, ExerciseCall *call) {
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArray *a = &d->problem->array[name];
    const size_t bytes = exercise_bytes(a);
    const uint8_t *d_array = d->d_array[name];
    if (!d_array) continue;
    for (int after = 0; after < 2; after++) {
      uint8_t guard[EXERCISE_GUARD + 4] = {0}, *zone = guard + (after ? bytes % 4 : 0);
      const size_t from = after ? EXERCISE_GUARD + bytes : 0, length = EXERCISE_GUARD;
      TRY(cudaMemcpy(zone, d->d_block[name] + from, length, cudaMemcpyDeviceToHost));
      if (!exercise_is_poison(guard, (size_t)(zone - guard), length))
        complain(call, "wrote outside of ", exercise_array_name(name));
    }
    if (a->got) TRY(cudaMemcpy(a->got, d_array, bytes, cudaMemcpyDeviceToHost));
  }
  return cudaSuccess;
}

bool exercise_run(const ExerciseProblem *problem, bool measured, ExerciseCall *call, Error *error) {
  ExercisePlaced d;
  bool good = cuda_done(place(&d, problem), "placing a problem", error);
  if (good) {
    const cudaError_t status = exercise_watched_call(&d, call);
    cudaGetLastError();
    const cudaError_t ended = cudaDeviceSynchronize();
    if (status != cudaSuccess) complain(call, "answered ", cudaGetErrorString(status));
    good = cuda_done(ended, "a function of the exercise", error) &&
           cuda_done(fetch(&d, call), "fetching the results", error) &&
           (!measured || exercise_time(&d, call, error));
    call->called = good;
  }
  discard(&d);
  return good;
}
