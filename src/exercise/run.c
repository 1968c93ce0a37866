/* Calls the functions of a set, each in its own process, and scores them. */
#include "exercise/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "engine/cuda/cuda_error.h"

enum { HIDDEN = EXERCISE_SHAPES, AGAIN, CALLS };
enum { OFFSET = 3 /* BatchView's offset, which is added to the position in *d_state */ };

/* Bytes of poison around each array, a multiple of 4. The emulator checks addresses instead. */
#ifdef ON_EMULATOR
enum { GUARD = 0 };
#else
enum { GUARD = 1024 };
#endif

static cudaError_t place_array(ExercisePlaced *d, int name, bool given) {
  const ExerciseArray *a = &d->problem->array[name];
  if (a->rows == 0) return cudaSuccess;
  const size_t bytes = exercise_bytes(a), all = bytes + 2 * GUARD;
  TRY(cudaMalloc((void **)&d->d_block[name], all));
  d->d_array[name] = d->d_block[name] + GUARD;
  if (!given) return cudaSuccess;
  uint8_t *block = malloc(all);
  if (!block) return cudaErrorMemoryAllocation;
  exercise_poison(block, all);
  if (a->given) memcpy(block + GUARD, a->given, bytes);
  const cudaError_t status = cudaMemcpy(d->d_block[name], block, all, cudaMemcpyHostToDevice);
  free(block);
  return status;
}

cudaError_t exercise_place(ExercisePlaced *d, const ExerciseProblem *problem, bool given) {
  const ExerciseShape *s = &problem->shape;
  const StepState state = {
      .position = (uint32_t)(s->first - (s->first > 0 ? OFFSET : 0)),
      .end = (uint32_t)s->end,
      .learning_rate = EXERCISE_RATE,
      .rule = {.momentum = EXERCISE_MOMENTUM, .weight_decay = problem->weight_decay}};
  void *const *a = d->d_array;
  const void *d_labels;
  *d = (ExercisePlaced){.problem = problem};
  for (int name = 0; name < ARRAYS; name++) TRY(place_array(d, name, given));
  TRY(cudaMalloc((void **)&d->d_state, sizeof state));
  d_labels = a[ARRAY_LABELS] ? a[ARRAY_LABELS] : (void *)d->d_state;
  d->batch = (BatchView){.d_pixels = (const uint8_t *)d->d_state, /* not NULL, but never read */
                         .d_labels = d_labels,
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
}

static void complain(ExerciseCall *call, const char *what, const char *of) {
  if (!*call->complaint) snprintf(call->complaint, sizeof call->complaint, "it %s%s", what, of);
}

/* Copies the results, and complains if the poison around an array was overwritten. */
static cudaError_t fetch(const ExercisePlaced *d, ExerciseCall *call) {
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArray *a = &d->problem->array[name];
    const size_t bytes = exercise_bytes(a);
    const uint8_t *d_array = d->d_array[name];
    if (!d_array) continue;
    for (int after = 0; after < 2; after++) {
      uint8_t guard[GUARD + 4] = {0}, *zone = guard + (after ? bytes % 4 : 0);
      const size_t from = after ? GUARD + bytes : 0, length = GUARD;
      TRY(cudaMemcpy(zone, d->d_block[name] + from, length, cudaMemcpyDeviceToHost));
      if (!exercise_is_poison(guard, (size_t)(zone - guard), length))
        complain(call, "wrote outside of ", a->name);
    }
    if (a->got) TRY(cudaMemcpy(a->got, d_array, bytes, cudaMemcpyDeviceToHost));
  }
  return cudaSuccess;
}

/* Calls the function and copies its results. If this fails, the process must make no more calls. */
static bool run(const ExerciseProblem *problem, bool measured, ExerciseCall *call, Error *error) {
  ExercisePlaced d;
  bool good = cuda_done(exercise_place(&d, problem, true), "placing a problem", error);
  if (good) {
    const cudaError_t status = exercise_watched_call(&d, call);
    cudaGetLastError();
    const cudaError_t ended = cudaDeviceSynchronize();
    if (status != cudaSuccess) complain(call, "answered ", cudaGetErrorString(status));
    good = cuda_done(ended, "a function of the exercise", error) &&
           cuda_done(fetch(&d, call), "fetching the results", error) &&
           (!measured || !exercise_time || exercise_time(&d, call, error));
    call->called = good;
  }
  discard(&d);
  return good;
}

/* A process that calls one function with `count` problems. On a GPU, the last problem has the shape
   of the measured problem, but other values. */
typedef struct {
  Apart apart;
  bool started, may_ask; /* may_ask: true if the process may use the GPU */
  int count, measured;   /* number of calls; index of the measured call */
  bool vast;             /* true if exercise_vast_call() follows; its result is calls[count] */
  ExerciseProblem problems[CALLS];
  ExerciseCall *calls;
} Process;

/* Returns true if the emulator found an error after which further calls would only take time. */
static bool is_over(const ExerciseCall *call) {
  foreach (found, call->found)
    if (*found->kind) return true;
  return false;
}

static void call_all(void *context) {
  Process *p = context;
  ExerciseCall *call = p->calls;
  Error error;
  bool good = exercise_start(&error) && apart_confine(p->may_ask, &error);
  for (int i = 0; good && i < p->count; i++, call++) {
    good = run(&p->problems[i], i == p->measured, call, &error);
    if (is_over(call)) return;
  }
  if (good && p->vast) exercise_vast_call(p->problems[0].task, call);
  if (!good)
    snprintf(call[-(call > p->calls)].complaint, sizeof call->complaint, "%.380s", error.text);
}

/* Waits for the process and judges its calls. */
static void judge_all(Process *p, ExerciseScore *score) {
  const ShortText end = apart_end(&p->apart);
  int called = 0, launches = 0;
  for (; called < p->count && p->calls[called].called && !*score->wrong; called++) {
    const ExerciseCall *call = &p->calls[called];
    emulator_lines(call->found, 8, score->told, sizeof score->told);
    snprintf(score->wrong, sizeof score->wrong, "%.*s", (int)strcspn(score->told, "\n"),
             score->told);
    exercise_expect(&p->problems[called]);
    if (!*score->wrong) exercise_judge(&p->problems[called], call, called >= p->measured, score);
    if (call->launches > launches) launches = call->launches;
  }
  if (!*score->wrong && called == p->count && p->vast) {
    emulator_lines(p->calls[called].found, 1, score->wrong, sizeof score->wrong);
    score->wrong[strcspn(score->wrong, "\n")] = '\0';
  }
  const char *why = called < p->count ? p->calls[called].complaint : "";
  if (!*score->wrong) snprintf(score->wrong, sizeof score->wrong, "%.400s", *why ? why : end.text);
  score->right = !*score->wrong && called == p->count;
  score->call = p->calls[p->measured];
  if (score->right) emulator_lines(score->call.costs, 3, score->told, sizeof score->told);
  score->call.launches = launches;
  if (score->right)
    snprintf(score->not_fused, sizeof score->not_fused, "%.180s", exercise_not_fused(score).text);
  score->fused = score->right && !*score->not_fused;
}

static ExerciseShape measured_shape(const ExerciseBackend *backend, ExerciseTask task) {
  const ExerciseTaskRow *row = &exercise_tasks[task];
  return (ExerciseShape){
      .rows = backend->rows, .in = row->in, .out = row->out, .relu = true, .end = backend->rows};
}

/* Returns problem `index`. Its shape is from the seed if index < HIDDEN, otherwise `measured`. */
static ExerciseProblem problem_of(ExerciseTask task, ExerciseShape measured, uint64_t seed,
                                  int index) {
  return exercise_problem(task, index >= HIDDEN ? measured : exercise_shape(seed, index),
                          seed * 1000 + (uint64_t)(10 * index) + (uint64_t)(index % 2));
}

static void start_task(Process *p, const ExerciseChoice *choice, ExerciseScore *score) {
  Error error = {.text = "no memory to share with a process"};
  const int first = choice->shape.rows > 0 ? HIDDEN : 0;
  bool printed = false;
  p->count = (score->backend->on_gpu ? CALLS : AGAIN) - first;
  p->measured = HIDDEN - first;
  p->may_ask = score->backend->on_gpu;
  p->vast = exercise_vast_call && exercise_tasks[score->task].vast_rows > 0 && first == 0;
  p->calls = apart_memory((CALLS + 1) * sizeof *p->calls);
  for (int i = 0; i < p->count; i++) {
    p->problems[i] = problem_of(score->task, score->measured, choice->seed, first + i);
    const ExerciseShape *s = &p->problems[i].shape;
    p->problems[i].prints =
        !printed && (i == p->measured || (s->rows > 1 && s->out > 1 && p->problems[i].filled > 1));
    printed |= p->problems[i].prints; /* only one call shows its output */
    if (p->calls)
      p->calls[i] = (ExerciseCall){.moved_bytes = NAN, .seconds = NAN, .seconds_ours = NAN};
  }
  p->started = p->calls && apart_start(&p->apart, call_all, p, score->backend->limit, &error);
  if (!p->started) snprintf(score->wrong, sizeof score->wrong, "%.400s", error.text);
}

static void end_task(Process *p, ExerciseScore *score) {
  if (p->started) judge_all(p, score);
  apart_release(p->calls, (CALLS + 1) * sizeof *p->calls);
  for (int i = 0; i < p->count; i++) exercise_free(&p->problems[i]);
}

/* In the version that students get, a caller's function calls the previous one. Fewer kernels in
   the previous function earn no points for the caller. */
static void judge_caller(const ExerciseScore *previous, ExerciseScore *caller) {
  if (previous->right)
    caller->handed_out += previous->call.launches - previous->handed_out;
  else if (!caller->right && caller->call.launches > 1) {
    const size_t said = strlen(caller->wrong);
    snprintf(caller->wrong + said, sizeof caller->wrong - said,
             ". If it calls function %d, which is wrong, repair that first",
             exercise_number(previous->task));
  }
}

void exercise_score(const ExerciseBackend *backend, const ExerciseChoice *choice,
                    ExerciseScore *scores) {
  static Process processes[TASKS];
  for (int i = 0; i < choice->count; i++) {
    const ExerciseTask task = choice->first + i;
    const bool own_shape = choice->shape.rows > 0;
    scores[i] =
        (ExerciseScore){.task = task,
                        .backend = backend,
                        .measured = own_shape ? choice->shape : measured_shape(backend, task),
                        .compares = !own_shape && exercise_tasks[task].cost > 0,
                        .handed_out = exercise_tasks[task].handed_out};
    start_task(&processes[i], choice, &scores[i]);
    if (backend->on_gpu) end_task(&processes[i], &scores[i]);
  }
  for (int i = 0; i < choice->count && !backend->on_gpu; i++) end_task(&processes[i], &scores[i]);
  for (int i = 1; i < choice->count; i++)
    if (exercise_tasks[scores[i].task].calls_previous) judge_caller(&scores[i - 1], &scores[i]);
}

bool exercise_once(const ExerciseBackend *backend, Error *error) {
  const ExerciseSet *set = exercise_linked();
  bool good = exercise_start(error);
  for (ExerciseTask task = set->first; good && task < set->first + set->count; task++) {
    ExerciseCall call = {0};
    ExerciseProblem problem = problem_of(task, measured_shape(backend, task), 1, HIDDEN);
    good = run(&problem, false, &call, error);
    exercise_free(&problem);
  }
  return good;
}
