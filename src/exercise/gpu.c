/* Runs the exercise on a GPU and times its functions and what they are compared with. */
#include "exercise/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/stats.h"
#include "engine/cuda/cuda_error.h"
#include "measure/cuda/rung.h"

enum { LIMIT = 180 /* maximum CPU seconds of a function's process */, ROUNDS = 45 };

/* All calls use this stream, so that a function cannot tell timed calls from checked calls. */
static cudaStream_t the_stream;

#ifndef STUDENT_KIT
enum { TERMS = 3 /* a float32 is the sum of 3 bf16 values */ };

static cudaError_t our_forward(const ExercisePlaced *d) {
  const ExerciseShape *s = &d->problem->shape;
  void *const *a = d->d_array;
  return launch_forward((LayerInput){a[ARRAY_X], {.rows = s->rows}}, a[ARRAY_W], a[ARRAY_B],
                        a[ARRAY_Y], s->in, s->out, s->relu, (Dropout){0}, TERMS, the_stream);
}

/* Our softmax kernel computes p, the loss and the gradient. Stores p, or else the gradient, in
   `result`. */
static cudaError_t our_softmax_into(const ExercisePlaced *d, int result) {
  void *const *a = d->d_array;
  return launch_softmax(d->batch, a[ARRAY_Z], a[result], d->problem->shape.out,
                        (RowResults){a[ARRAY_LOSS], a[ARRAY_CORRECT]}, the_stream);
}

static cudaError_t our_softmax(const ExercisePlaced *d) {
  return our_softmax_into(d, ARRAY_P);
}

static cudaError_t our_loss(const ExercisePlaced *d) {
  return our_softmax_into(d, ARRAY_DZ);
}

/* The first call allocates memory. It is not timed. */
static cudaError_t our_update(const ExercisePlaced *d) {
  static void *d_work;
  if (!d_work) {
    TRY(cudaMalloc(&d_work, update_work_bytes()));
    TRY(cudaMemset(d_work, 0, update_work_bytes()));
    TRY(cudaDeviceSynchronize());
  }
  return launch_updates(d->batch, &d->layer, 1, TERMS, d_work, the_stream);
}

#endif

/* Copies the least bytes of the task, since no function that moves them can be much faster. */
static cudaError_t copy_least(const ExercisePlaced *d) {
  static void *d_work; /* allocated in the first call, which is not timed */
  const size_t half = (size_t)exercise_least_bytes(d->problem->task, d->problem->shape) / 2;
  if (!d_work) TRY(cudaMalloc(&d_work, 2 * half));
  return cudaMemcpyAsync(d_work, (uint8_t *)d_work + half, half, cudaMemcpyDeviceToDevice,
                         the_stream);
}

/* What the student's function is compared with: our kernels, which --fusion layer uses, or a copy.
   NULL: nothing. */
static cudaError_t (*const our_calls[TASKS])(const ExercisePlaced *) = {
#ifndef STUDENT_KIT
    [TASK_FORWARD] = our_forward,
    [TASK_SOFTMAX] = our_softmax,
    [TASK_LOSS] = our_loss,
    [TASK_UPDATE] = our_update,
#endif
    [TRANSFORMER_GELU] = copy_least,
    [TRANSFORMER_NORM] = copy_least,
    [TRANSFORMER_RESIDUAL] = copy_least,
    [TRANSFORMER_ADAM] = copy_least};

cudaError_t exercise_watched_call(const ExercisePlaced *d, ExerciseCall *call) {
  TRY(cudaDeviceSynchronize()); /* waits for the arrays' copies, which ran on another stream */
  const uint64_t before = launch_count();
  const cudaError_t status = exercise_call(d, the_stream);
  call->launches = (int)(launch_count() - before);
  return status;
}

/* Replaces emulator_lines of the emulator. On a GPU the text is always empty. */
void emulator_lines(const EmulatorFinding found[EMULATOR_MOST], int most, char *text, size_t size) {
  (void)found, (void)most, (void)size;
  *text = '\0';
}

/* Resets what the function may write: to the given contents or, if none are given, to 0xFF. */
static cudaError_t place_again(const ExercisePlaced *d) {
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArray *a = &d->problem->array[name];
    const size_t bytes = exercise_bytes(a);
    if (!a->got) continue;
    TRY(a->given
            ? cudaMemcpyAsync(d->d_array[name], a->given, bytes, cudaMemcpyHostToDevice, the_stream)
            : cudaMemsetAsync(d->d_array[name], 0xFF, bytes, the_stream));
  }
  return cudaSuccess;
}

/* Compares one random element of the result with the same element of the checked call's result. */
static cudaError_t look_again(const ExercisePlaced *d, int round, ExerciseCall *call) {
  const int name = exercise_tasks[d->problem->task].result;
  const ExerciseArray *a = &d->problem->array[name];
  const RandomWords words =
      random_words((uint64_t)(1e9 * seconds_now()), (uint64_t)round, (uint64_t)name);
  const size_t at = words.word[0] % count_of(a) * a->size;
  uint8_t value[4];
  TRY(cudaMemcpy(value, (uint8_t *)d->d_array[name] + at, a->size, cudaMemcpyDeviceToHost));
  if (memcmp(value, (uint8_t *)a->got + at, a->size) != 0 && !*call->complaint)
    snprintf(call->complaint, sizeof call->complaint,
             "it does not do when it is timed what it did when it was checked");
  return cudaSuccess;
}

/* Stores the median time of ROUNDS calls of `ours`, after a warm-up call. If `ours` is NULL, times
   the student's function instead. */
static cudaError_t time_calls(const ExercisePlaced *d, cudaError_t (*ours)(const ExercisePlaced *),
                              const cudaEvent_t clock[2], ExerciseCall *call) {
  double seconds[ROUNDS];
  for (int round = -1; round < ROUNDS; round++) {
    float ms;
    TRY(place_again(d));
    TRY(cudaEventRecord(clock[0], the_stream));
    TRY(ours ? ours(d) : exercise_call(d, the_stream));
    TRY(cudaEventRecord(clock[1], the_stream));
    TRY(cudaEventSynchronize(clock[1]));
    TRY(cudaEventElapsedTime(&ms, clock[0], clock[1]));
    if (!ours) TRY(look_again(d, round, call));
    if (round >= 0) seconds[round] = ms / 1e3;
  }
  *(ours ? &call->seconds_ours : &call->seconds) = stats_of(seconds, ROUNDS).median;
  return cudaSuccess;
}

static cudaError_t time_both(const ExercisePlaced *d, ExerciseCall *call) {
  cudaEvent_t clock[2];
  TRY(cudaDeviceSynchronize());
  for (int i = 0; i < 2; i++) TRY(cudaEventCreate(&clock[i]));
  TRY(time_calls(d, NULL, clock, call));
  if (our_calls[d->problem->task]) TRY(time_calls(d, our_calls[d->problem->task], clock, call));
  return cudaSuccess;
}

bool exercise_time(ExercisePlaced *d, ExerciseCall *call, Error *error) {
  return cuda_done(time_both(d, call), "timing a function of the exercise", error);
}

bool exercise_start(Error *error) {
  int count = 0;
  if (!cuda_done(cudaGetDeviceCount(&count), "looking for a GPU", error)) return false;
  return (count > 0 || error_set(error, "no GPU was found")) &&
         cuda_done(cudaStreamCreateWithFlags(&the_stream, cudaStreamNonBlocking),
                   "creating a stream", error);
}

/* The result of the process that looks for a GPU. */
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

bool exercise_find(EmulatedGpu gpu, ExerciseBackend *backend, Error *error) {
  (void)gpu;
  static Found *found; /* static, because backend->device points into it */
  Apart apart;
  found = apart_memory(sizeof *found);
  if (!found) return error_set(error, "no memory to share with a process");
  if (!apart_start(&apart, look, found, LIMIT, error)) return false;
  const ShortText end = apart_end(&apart);
  if (*end.text)
    return error_set(error, "the process that looked for a GPU does not answer: %s", end.text);
  if (*found->error.text) return error_set(error, "%s", found->error.text);
  *backend =
      (ExerciseBackend){.device = found->name, .on_gpu = true, .rows = 16384, .limit = LIMIT};
  return true;
}
