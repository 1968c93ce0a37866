/* Runs kernels/exercise.cu, beside the same operations at levels none and layer, and cuBLAS. A
   student's kit has neither level, for both have kernels in them that are answers. */

#include "exercise/exercise.h"

#ifndef HAVE_CUDA

bool exercise_gpu_open(ExerciseBackend *backend, Error *error) {
  (void)backend;
  return error_set(error, "this program was built without CUDA: `make exercise-cpu` checks the "
                          "exercise in plain C");
}

void exercise_gpu_close(ExerciseBackend *backend) {
  (void)backend;
}

bool exercise_gpu_find(ExerciseBackend *backend, Error *error) {
  return exercise_gpu_open(backend, error);
}

#else

#include <cublas_v2.h>
#include <math.h>
#include <stdlib.h>

#include "engine/cuda/cuda_error.h"
#include "exercise/apart.h"
#include "kernels.h"
#include "measure/cuda/rung.h"
#include "measure/cuda/launch_count.h"

enum { OFFSET = 3, TERMS = 3 }; /* of the batch after the state's position; of a float32 */

#ifdef STUDENT_KIT
typedef enum { EXERCISE, VARIANTS } Variant;
#else
typedef enum { EXERCISE, NONE, LAYER, VARIANTS } Variant;
#endif

/* A problem on the device; arrays that it has not are NULL. */
typedef struct {
  Variant variant; /* what queue() queues */
  const ExerciseProblem *problem;
  uint8_t *d_block[ARRAYS];
  void *d_array[ARRAYS];
  StepState *d_state;
  void *d_work; /* of the layer level's updates */
} Placed;

/* ---- placing -------------------------------------------------------------------------------- */

static cudaError_t place_array(Placed *d, int name) {
  const ExerciseArray *a = &d->problem->array[name];
  if (a->rows == 0) return cudaSuccess;
  const size_t bytes = exercise_bytes(a) + 2 * EXERCISE_GUARD;
  TRY(cudaMalloc((void **)&d->d_block[name], bytes));
  d->d_array[name] = d->d_block[name] + EXERCISE_GUARD;
  uint8_t *block = exercise_wrap(a);
  const cudaError_t status = cudaMemcpy(d->d_block[name], block, bytes, cudaMemcpyHostToDevice);
  free(block);
  return status;
}

static cudaError_t place(Placed *d, const ExerciseProblem *problem) {
  const ExerciseShape *s = &problem->shape;
  const StepState state = {.position = (uint32_t)(s->first - (s->first > 0 ? OFFSET : 0)),
                           .end = (uint32_t)s->end,
                           .learning_rate = problem->rule.rate};
  *d = (Placed){.problem = problem};
  for (int name = 0; name < ARRAYS; name++) TRY(place_array(d, name));
  TRY(cudaMalloc((void **)&d->d_state, sizeof state));
  return cudaMemcpy(d->d_state, &state, sizeof state, cudaMemcpyHostToDevice);
}

static void discard(Placed *d) {
  for (int name = 0; name < ARRAYS; name++) cudaFree(d->d_block[name]);
  cudaFree(d->d_state);
  cudaFree(d->d_work);
}

/* ---- calling -------------------------------------------------------------------------------- */

static BatchView batch_of(const Placed *d) {
  const ExerciseShape *s = &d->problem->shape;
  const uint16_t *d_labels = d->d_array[ARRAY_LABELS];
  return (BatchView){.d_pixels = (const uint8_t *)d->d_state, /* nobody reads them */
                     .d_labels = d_labels ? d_labels : (const uint16_t *)d->d_state,
                     .d_order = d->d_array[ARRAY_ORDER],
                     .stride = 16,
                     .d_state = d->d_state,
                     .offset = s->first > 0 ? OFFSET : 0,
                     .rows = s->rows};
}

static cudaError_t call_forward(const Placed *d, cudaStream_t stream) {
  const ExerciseShape *s = &d->problem->shape;
  const float *d_x = d->d_array[ARRAY_X], *d_w = d->d_array[ARRAY_W], *d_b = d->d_array[ARRAY_B];
  float *d_z = d->d_array[ARRAY_Z], *d_y = d->d_array[ARRAY_Y];
  switch (d->variant) {
#ifndef STUDENT_KIT
  case NONE:
    TRY(launch_gemm(d_x, d_w, d_z, s->rows, s->in, s->out, stream));
    TRY(launch_add_bias(d_z, d_b, s->rows, s->out, stream));
    return launch_relu(d_z, d_y, (size_t)s->rows * (size_t)s->out, stream);
  case LAYER:
    return launch_forward((LayerInput){d_x, {.rows = s->rows}}, d_w, d_b, d_y, s->in, s->out,
                          s->relu, (Dropout){0}, TERMS, stream);
#endif
  default:
    return launch_exercise_forward(d_x, d_w, d_b, d_z, d_y, s->rows, s->in, s->out, s->relu,
                                   stream);
  }
}

/* Level layer has no softmax alone: its kernel makes the loss and the gradient as well. */
static cudaError_t call_softmax(const Placed *d, cudaStream_t stream) {
  const ExerciseShape *s = &d->problem->shape;
  const float *d_z = d->d_array[ARRAY_Z];
  float *d_p = d->d_array[ARRAY_P];
  switch (d->variant) {
#ifndef STUDENT_KIT
  case NONE:
    return launch_log_softmax(d_z, d_p, s->rows, s->out, stream);
  case LAYER:
    return launch_softmax(batch_of(d), d_z, d_p, s->out, (RowResults){NULL, NULL}, stream);
#endif
  default:
    return launch_exercise_softmax(d_z, d->d_array[ARRAY_LARGEST], d->d_array[ARRAY_SUM], d_p,
                                   s->rows, s->out, stream);
  }
}

static cudaError_t call_loss(const Placed *d, cudaStream_t stream) {
  const ExerciseShape *s = &d->problem->shape;
  const BatchView batch = batch_of(d);
  const float *d_z = d->d_array[ARRAY_Z];
  float *d_p = d->d_array[ARRAY_P], *d_dz = d->d_array[ARRAY_DZ];
  const RowResults results = {d->d_array[ARRAY_LOSS], d->d_array[ARRAY_CORRECT]};
  switch (d->variant) {
#ifndef STUDENT_KIT
  case NONE:
    TRY(launch_log_softmax(d_z, d_p, s->rows, s->out, stream));
    TRY(launch_cross_entropy(batch, d_p, s->out, results, stream));
    return launch_cross_entropy_gradient(batch, d_p, d_dz, s->out, stream);
  case LAYER:
    return launch_softmax(batch, d_z, d_dz, s->out, results, stream);
#endif
  default:
    return launch_exercise_loss(batch, d_z, d->d_array[ARRAY_LARGEST], d->d_array[ARRAY_SUM], d_p,
                                d_dz, s->out, results, stream);
  }
}

#ifndef STUDENT_KIT
static cudaError_t update_unfused(const Placed *d, const LayerUpdate *layer, UpdateRule rule,
                                  cudaStream_t stream) {
  const BatchView batch = batch_of(d);
  const int in = layer->in, out = layer->out;
  float *d_dw = d->d_array[ARRAY_DW], *d_db = d->d_array[ARRAY_DB];
  TRY(launch_weight_gradient(layer->d_dz, layer->d_x, d_dw, batch.rows, in, out, stream));
  TRY(launch_bias_gradient(layer->d_dz, d_db, batch.rows, out, stream));
  const size_t weights = (size_t)out * (size_t)in;
  TRY(launch_update(batch, rule, layer->d_w, layer->d_vw, d_dw, weights, weights, stream));
  return launch_update(batch, rule, layer->d_b, layer->d_vb, d_db, (size_t)out, 0, stream);
}
#endif

static cudaError_t call_update(const Placed *d, cudaStream_t stream) {
  const ExerciseProblem *p = d->problem;
  const UpdateRule rule = {p->rule.momentum, p->rule.weight_decay};
  const LayerUpdate layer = {.d_x = d->d_array[ARRAY_X],
                             .d_dz = d->d_array[ARRAY_DZ],
                             .d_w = d->d_array[ARRAY_W],
                             .d_b = d->d_array[ARRAY_B],
                             .d_vw = d->d_array[ARRAY_VW],
                             .d_vb = d->d_array[ARRAY_VB],
                             .in = p->shape.in,
                             .out = p->shape.out};
  switch (d->variant) {
#ifndef STUDENT_KIT
  case NONE:
    return update_unfused(d, &layer, rule, stream);
  case LAYER:
    return launch_updates(batch_of(d), rule, &layer, 1, TERMS, d->d_work, stream);
#endif
  default:
    return launch_exercise_update(batch_of(d), rule, layer, d->d_array[ARRAY_DW],
                                  d->d_array[ARRAY_DB], stream);
  }
}

/* A Rung's run. */
static cudaError_t queue(void *context, cudaStream_t stream) {
  static cudaError_t (*const call_task[TASKS])(const Placed *, cudaStream_t) = {
      call_forward, call_softmax, call_loss, call_update};
  const Placed *d = context;
  return call_task[d->problem->task](d, stream);
}

/* ---- running -------------------------------------------------------------------------------- */

/* Queues the function once. A launch that was refused is not a failure of the device. */
static bool call_once(Placed *d, ExerciseProblem *complained, int *launches, Error *error) {
  const uint64_t before = launch_count();
  const cudaError_t status = queue(d, NULL);
  *launches = (int)(launch_count() - before);
  cudaGetLastError();
  if (status != cudaSuccess && complained)
    snprintf(complained->complaint, sizeof complained->complaint, "it answered \"%s\"",
             cudaGetErrorString(status));
  return cuda_done(cudaDeviceSynchronize(), "a function of the exercise", error);
}

static cudaError_t take_back(const Placed *d, ExerciseProblem *problem) {
  for (int name = 0; name < ARRAYS; name++) {
    const ExerciseArray *a = &problem->array[name];
    if (a->rows == 0) continue;
    uint8_t *block = exercise_wrap(a);
    const cudaError_t status = cudaMemcpy(
        block, d->d_block[name], exercise_bytes(a) + 2 * EXERCISE_GUARD, cudaMemcpyDeviceToHost);
    exercise_unwrap(problem, name, block);
    TRY(status);
  }
  return cudaSuccess;
}

/* A copy of the problem, of what `variant` makes of it. */
static bool run_variant(Variant variant, ExerciseProblem *problem, int *launches, Error *error) {
  Placed d;
  bool good = cuda_done(place(&d, problem), "placing a problem", error);
  d.variant = variant;
  good = good && call_once(&d, problem, launches, error) &&
         cuda_done(take_back(&d, problem), "fetching the results", error);
  discard(&d);
  return good;
}

static bool run(const ExerciseBackend *backend, ExerciseProblem *problem, int *launches,
                Error *error) {
  (void)backend;
  return run_variant(EXERCISE, problem, launches, error);
}

static cudaError_t place_work(Placed *d) {
#ifdef STUDENT_KIT
  (void)d; /* only level layer works with it */
#else
  TRY(cudaMalloc(&d->d_work, update_work_bytes()));
  TRY(cudaMemset(d->d_work, 0, update_work_bytes()));
#endif
  return cudaDeviceSynchronize();
}

enum { CALLS = 5 };

static bool time_variants(Placed *d, double seconds[1 + RIVALS], Error *error) {
  if (!cuda_done(place_work(d), "placing a problem", error)) return false;
  for (int v = 0; v < VARIANTS; v++) {
    Stats times;
    d->variant = (Variant)v;
    const Rung rung = {"timing a function of the exercise", queue, d, .calls = CALLS};
    if (!rung_time(&rung, RUNG_SAMPLES, &times, error)) return false;
    seconds[v] = times.median;
  }
  return true;
}

#ifdef STUDENT_KIT

static bool check_timed(ExerciseTask task, ExerciseShape shape, uint64_t seed, ExerciseScore *score,
                        Error *error) {
  (void)task, (void)shape, (void)seed, (void)score, (void)error;
  return true; /* there is nothing to compare with: float64 would take a minute */
}

#else

/* The first element of got that is not as in like. They have summed up to 16384 products in other
   orders: what is skipped or forgotten is off by far more than they are. */
static void compare(const ExerciseArray *got, const ExerciseArray *like, int name,
                    ExerciseScore *score) {
  const float *a = got->got, *b = like->got;
  for (size_t i = 0; i < exercise_bytes(got) / sizeof *a; i++) {
    if (fabsf(a[i] - b[i]) <= 0.01f * (1 + fabsf(b[i]))) continue;
    score->right = false;
    snprintf(
        score->wrong, sizeof score->wrong,
        "%s (row %zu, column %zu): expected %.9g (level none), got %.9g; as it was timed: rows "
        "%d",
        exercise_array_name(name), i / (size_t)got->columns, i % (size_t)got->columns, (double)b[i],
        (double)a[i], got->rows);
    return;
  }
}

/* Checks that the function also does its work on the shape that it was timed on, with other values
   than those. While the clock runs the learning rate is 0 and keeps weights
   and biases as they are; here they change. */
static bool check_timed(ExerciseTask task, ExerciseShape shape, uint64_t seed, ExerciseScore *score,
                        Error *error) {
  enum { MOST = 4 };
  static const struct {
    int count, name[MOST];
  } written[TASKS] = {{1, {ARRAY_Y}},
                      {1, {ARRAY_P}},
                      {2, {ARRAY_DZ, ARRAY_LOSS}},
                      {4, {ARRAY_W, ARRAY_B, ARRAY_VW, ARRAY_VB}}};
  ExerciseProblem mine = exercise_problem(task, shape, seed, false);
  ExerciseProblem like = exercise_problem(task, shape, seed, false);
  int launches;
  mine.rule.rate = like.rule.rate = 0.05f;
  const bool good =
      run_variant(EXERCISE, &mine, &launches, error) && run_variant(NONE, &like, &launches, error);
  for (int i = 0; good && i < written[task].count && score->right; i++) {
    const int name = written[task].name[i];
    compare(&mine.array[name], &like.array[name], name, score);
  }
  if (good && *mine.complaint && score->right) {
    score->right = false;
    snprintf(score->wrong, sizeof score->wrong, "%s; as it was timed", mine.complaint);
  }
  exercise_free(&mine);
  exercise_free(&like);
  return good;
}

#endif

static bool measure(const ExerciseBackend *backend, ExerciseTask task, uint64_t seed, bool timed,
                    ExerciseScore *score, Error *error) {
  const ExerciseShape shape = exercise_timed_shape(backend, task);
  ExerciseProblem problem = exercise_problem(task, shape, seed, false);
  Placed d;
  const bool good = cuda_done(place(&d, &problem), "placing a problem", error) &&
                    call_once(&d, NULL, &score->launches, error) &&
                    (!timed || (time_variants(&d, score->seconds, error) &&
                                check_timed(task, shape, seed + 2, score, error)));
  discard(&d);
  exercise_free(&problem);
  score->fused = good && score->right && score->launches == 1;
  return good;
}

/* ---- the library ---------------------------------------------------------------------------- */

/* Row-major, and cuBLAS is column-major: it is given the transposed product, where ^T costs
   nothing. */
static cublasStatus_t multiply(cublasHandle_t cublas, const Placed *d, float *d_product) {
  const ExerciseShape *s = &d->problem->shape;
  const float one = 1, zero = 0;
  const float *d_x = d->d_array[ARRAY_X];
  if (d->problem->task == TASK_UPDATE)
    return cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_T, s->in, s->out, s->rows, &one, d_x, s->in,
                       d->d_array[ARRAY_DZ], s->out, &zero, d_product, s->in);
  return cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, s->out, s->rows, s->in, &one,
                     d->d_array[ARRAY_W], s->in, d_x, s->in, &zero, d_product, s->out);
}

static bool library(const ExerciseBackend *backend, const ExerciseProblem *problem, float *product,
                    Error *error) {
  const bool update = problem->task == TASK_UPDATE;
  const ExerciseArray *like = &problem->array[update ? ARRAY_W : ARRAY_Y];
  const size_t bytes = exercise_bytes(like);
  float *d_product = NULL;
  Placed d;
  bool good = cuda_done(place(&d, problem), "placing a problem", error) &&
              cuda_done(cudaMalloc((void **)&d_product, bytes), "allocating", error);
  if (good && multiply((cublasHandle_t)backend->context, &d, d_product) != CUBLAS_STATUS_SUCCESS)
    good = error_set(error, "cuBLAS failed at a product of the exercise");
  good = good && cuda_done(cudaMemcpy(product, d_product, bytes, cudaMemcpyDeviceToHost),
                           "multiplying", error);
  cudaFree(d_product);
  discard(&d);
  return good;
}

/* ---- the backend ---------------------------------------------------------------------------- */

enum { LIMIT = 180 /* seconds for a function's process, the driver's start included */ };

static bool available(Error *error) {
  int count = 0;
  if (!cuda_done(cudaGetDeviceCount(&count), "looking for a GPU", error)) return false;
  return count > 0 || error_set(error, "no GPU was found");
}

bool exercise_gpu_open(ExerciseBackend *backend, Error *error) {
  cublasHandle_t cublas;
  struct cudaDeviceProp properties;
  int device;
  if (!available(error) || !cuda_done(cudaGetDevice(&device), "finding the device", error) ||
      !cuda_done(cudaGetDeviceProperties(&properties, device), "finding the device", error))
    return false;
  if (cublasCreate(&cublas) != CUBLAS_STATUS_SUCCESS)
    return error_set(error, "cuBLAS does not start on this GPU");
  *backend = (ExerciseBackend){.on_gpu = true,
#ifndef STUDENT_KIT
                               .rival = {"none", "layer"},
#endif
                               .timed_rows = 16384,
                               .batches = true,
                               .context = cublas,
                               .limit = LIMIT,
                               .run = run,
                               .library = library,
                               .measure = measure};
  snprintf(backend->device, sizeof backend->device, "%.127s", properties.name);
  return true;
}

void exercise_gpu_close(ExerciseBackend *backend) {
  cublasDestroy((cublasHandle_t)backend->context);
}

/* The answer of a process that looked for a GPU to the one that sent it. */
typedef struct {
  ExerciseBackend backend;
  Error error;
  bool found;
} Found;

static void look(void *context) {
  Found *found = context;
  found->found = exercise_gpu_open(&found->backend, &found->error);
}

bool exercise_gpu_find(ExerciseBackend *backend, Error *error) {
  Found *found = apart_memory(sizeof *found);
  Apart apart;
  if (!found) return error_set(error, "no memory to share with a process");
  bool good = apart_run(look, found, LIMIT, &apart, error);
  if (good && apart.end != APART_DONE) {
    char text[96];
    apart_describe(&apart, LIMIT, text, sizeof text);
    good = error_set(error, "the process that looked for a GPU does not answer: %s", text);
  }
  if (good && !found->found) good = error_set(error, "%s", found->error.text);
  if (good) {
    *backend = found->backend; /* its functions are here, too: this is the same program */
    backend->context = NULL;
    backend->open = exercise_gpu_open;
  }
  apart_release(found, sizeof *found);
  return good;
}

#endif
