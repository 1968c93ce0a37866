/* The opponent: a training step of the best products there are, cuBLAS's, and of this project's
   small kernels for all between them, launched as level step launches its own. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "bench/cuda/cublas.h"
#include "kernels.h"

typedef struct {
  Engine engine; /* first: an Engine * of ours is a CublasEngine * */
  cudaStream_t stream;
  cublasHandle_t cublas;
  void *d_workspace; /* of cuBLAS: with one of its own it would allocate inside the graphs */
  cudaGraphExec_t one_step, many_steps;
  int forward_rows; /* rows the activations hold: the batch, or more for evaluation */
  StagingBuffer staging[2];

  uint8_t *d_pixels;
  uint16_t *d_labels;
  uint32_t *d_order;
  StepState *d_state;
  RowResults results;
  ResultSums *d_sums;
  float *d_parameters, *d_momentum, *d_gradient;
  float *d_x;                                  /* (forward_rows, inputs) */
  float *d_activation[NETWORK_MAX_LAYERS + 1]; /* of layer l's output, from 1: (rows, size[l]) */
  float *d_delta[NETWORK_MAX_LAYERS + 1];      /* its gradient: (batch, size[l]) */
} CublasEngine;

enum { GRAPH_STEPS = 64, EVALUATE_ROWS = 10240, WORKSPACE = 32 << 20 };

/* ---- a step --------------------------------------------------------------------------------- */

/* C (m, n) = op(A) op(B) of row-major matrices, given with the length of their rows. cuBLAS is
   column-major: it computes C^T = op(B)^T op(A)^T, where ^T costs nothing. */
static cudaError_t product(CublasEngine *e, cublasOperation_t a_operation, const float *d_a,
                           int a_columns, cublasOperation_t b_operation, const float *d_b,
                           int b_columns, float *d_c, int m, int n, int depth) {
  const float one = 1, zero = 0;
  const cublasStatus_t status = cublasSgemm(e->cublas, b_operation, a_operation, n, m, depth, &one,
                                            d_b, b_columns, d_a, a_columns, &zero, d_c, n);
  return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}

static cudaError_t forward(CublasEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const int rows = batch.rows;
  const float *d_x = e->d_x;
  TRY(launch_scale_pixels(batch, e->d_x, n->size[0], e->stream));
  for (int l = 0; l < n->layers; l++) {
    const int in = n->size[l], out = n->size[l + 1];
    float *d_z = e->d_activation[l + 1];
    TRY(gemm(e, CUBLAS_OP_N, d_x, in, CUBLAS_OP_T, e->d_parameters + n->weight[l], in, d_z, rows,
             out, in));
    TRY(launch_add_bias(d_z, e->d_parameters + n->bias[l], rows, out, e->stream));
    if (l < n->layers - 1) TRY(launch_relu(d_z, d_z, (size_t)rows * (size_t)out, e->stream));
    d_x = d_z;
  }
  return cudaSuccess;
}

/* One update for all tensors: they lie in one array, as do their gradients and momenta, and the
   padding's gradient is 0. */
static cudaError_t step(CublasEngine *e, BatchView batch) {
  const Network *n = &e->engine.config.network;
  const UpdateRule rule = {e->engine.config.momentum, 0.0f};
  const int rows = batch.rows;
  TRY(forward(e, batch));
  TRY(launch_softmax(batch, e->d_activation[n->layers], e->d_delta[n->layers], n->size[n->layers],
                     e->results, e->stream));
  for (int l = n->layers - 1; l >= 0; l--) {
    const int in = n->size[l], out = n->size[l + 1];
    const float *d_x = l > 0 ? e->d_activation[l] : e->d_x, *d_dz = e->d_delta[l + 1];
    TRY(gemm(e, CUBLAS_OP_T, d_dz, out, CUBLAS_OP_N, d_x, in, e->d_gradient + n->weight[l], out, in,
             rows));
    TRY(launch_bias_gradient(d_dz, e->d_gradient + n->bias[l], rows, out, e->stream));
    if (l == 0) break;
    TRY(gemm(e, CUBLAS_OP_N, d_dz, out, CUBLAS_OP_N, e->d_parameters + n->weight[l], in,
             e->d_delta[l], rows, in, out));
    TRY(launch_relu_mask(e->d_delta[l], e->d_activation[l], (size_t)rows * (size_t)in, e->stream));
  }
  return launch_update(batch, rule, e->d_parameters, e->d_momentum, e->d_gradient, n->floats,
                       e->stream);
}

static BatchView batch_view(const CublasEngine *e, int rows) {
  return (BatchView){.d_pixels = e->d_pixels,
                     .d_labels = e->d_labels,
                     .stride = e->staging[0].stride,
                     .d_state = e->d_state,
                     .rows = rows};
}

/* `count` steps; then the state moves on, so that the same graph trains on the next ones. */
static cudaError_t queue_steps(CublasEngine *e, int count) {
  BatchView view = batch_view(e, e->engine.config.batch);
  view.d_order = e->d_order;
  for (int s = 0; s < count; s++) {
    view.offset = (uint32_t)(s * view.rows);
    TRY(step(e, view));
  }
  return launch_advance(e->d_state, (uint32_t)(count * view.rows), e->stream);
}

static cudaError_t capture_steps(CublasEngine *e, int count, cudaGraphExec_t *out) {
  cudaGraph_t graph = NULL;
  TRY(cudaStreamBeginCapture(e->stream, cudaStreamCaptureModeThreadLocal));
  const cudaError_t queued = queue_steps(e, count);
  cudaError_t status = cudaStreamEndCapture(e->stream, &graph);
  if (queued != cudaSuccess) status = queued;
  if (status == cudaSuccess) status = cudaGraphInstantiate(out, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return status;
}

/* Captures the graphs. Before that goes a step outside of any graph, past the end of its range so
   that it changes nothing: cuBLAS may load its kernels in it, which a capture might refuse. */
static cudaError_t prepare(CublasEngine *e) {
  BatchView view = batch_view(e, e->engine.config.batch);
  view.d_order = e->d_order;
  TRY(launch_begin(e->d_state, 1, 1, 0.0f, e->stream));
  TRY(step(e, view));
  TRY(cudaStreamSynchronize(e->stream));
  TRY(capture_steps(e, 1, &e->one_step));
  return capture_steps(e, GRAPH_STEPS, &e->many_steps);
}

static cudaError_t run_steps(CublasEngine *e, uint64_t steps) {
  for (; steps >= GRAPH_STEPS; steps -= GRAPH_STEPS) TRY(cudaGraphLaunch(e->many_steps, e->stream));
  for (; steps > 0; steps--) TRY(cudaGraphLaunch(e->one_step, e->stream));
  return cudaSuccess;
}

/* ---- the seam ------------------------------------------------------------------------------- */

static bool cublas_staging(Engine *engine, int index, StagingBuffer *out, Error *error) {
  (void)error;
  *out = ((CublasEngine *)engine)->staging[index];
  return true;
}

/* At once: a copy from memory that is not pinned has left it when the call returns. */
static bool cublas_upload(Engine *engine, int index, uint64_t first_row, uint64_t rows,
                          Error *error) {
  CublasEngine *e = (CublasEngine *)engine;
  const StagingBuffer *s = &e->staging[index];
  if (rows > engine->config.staging_rows || first_row + rows > engine->config.dataset_rows)
    return error_set(error, "the rows do not fit the store");
  return cuda_done(cudaMemcpyAsync(e->d_pixels + first_row * s->stride, s->pixels, rows * s->stride,
                                   cudaMemcpyHostToDevice, e->stream),
                   "copying rows", error) &&
         cuda_done(cudaMemcpyAsync(e->d_labels + first_row, s->labels, rows * sizeof *s->labels,
                                   cudaMemcpyHostToDevice, e->stream),
                   "copying rows", error) &&
         cuda_done(cudaStreamSynchronize(e->stream), "copying rows", error);
}

static cudaError_t train(CublasEngine *e, const TrainRange *range) {
  const uint64_t batch = (uint64_t)e->engine.config.batch;
  const uint64_t end = (range->first_step + range->steps) * batch;
  const uint32_t position = (uint32_t)(range->first_step * batch);
  const uint32_t last = (uint32_t)(end < range->rows ? end : range->rows);
  TRY(launch_order(e->d_order, (uint32_t)range->first_row, (uint32_t)range->rows, range->shuffled,
                   range->key, e->stream));
  if (!e->one_step) TRY(prepare(e));
  TRY(launch_begin(e->d_state, position, last, range->learning_rate, e->stream));
  TRY(run_steps(e, range->steps));
  return launch_sum(e->d_sums, e->results, position, last, e->stream);
}

static bool cublas_train(Engine *engine, const TrainRange *range, Error *error) {
  return cuda_done(train((CublasEngine *)engine, range), "training through cuBLAS", error);
}

static cudaError_t evaluate(CublasEngine *e, uint64_t first_row, uint64_t rows) {
  const Network *n = &e->engine.config.network;
  for (uint64_t done = 0; done < rows; done += (uint64_t)e->forward_rows) {
    const uint64_t left = rows - done, chunk = (uint64_t)e->forward_rows;
    BatchView view = batch_view(e, (int)(left < chunk ? left : chunk));
    view.first_row = (uint32_t)(first_row + done);
    TRY(launch_begin(e->d_state, 0, (uint32_t)view.rows, 0.0f, e->stream));
    TRY(forward(e, view));
    TRY(launch_softmax(view, e->d_activation[n->layers], NULL, n->size[n->layers], e->results,
                       e->stream));
    TRY(launch_sum(e->d_sums, e->results, 0, (uint32_t)view.rows, e->stream));
  }
  return cudaSuccess;
}

static bool cublas_evaluate(Engine *engine, uint64_t first_row, uint64_t rows, Error *error) {
  return cuda_done(evaluate((CublasEngine *)engine, first_row, rows), "evaluating through cuBLAS",
                   error);
}

static bool cublas_collect(Engine *engine, EngineSums *out, Error *error) {
  CublasEngine *e = (CublasEngine *)engine;
  ResultSums sums;
  if (!cuda_done(cudaMemcpyAsync(&sums, e->d_sums, sizeof sums, cudaMemcpyDeviceToHost, e->stream),
                 "collecting results", error) ||
      !cuda_done(cudaMemsetAsync(e->d_sums, 0, sizeof sums, e->stream), "collecting results",
                 error) ||
      !cuda_done(cudaStreamSynchronize(e->stream), "training through cuBLAS", error))
    return false;
  *out = (EngineSums){sums.loss, sums.correct, sums.rows};
  return true;
}

static bool cublas_read(Engine *engine, float *parameters, float *momentum, Error *error) {
  CublasEngine *e = (CublasEngine *)engine;
  const size_t bytes = engine->config.network.floats * sizeof(float);
  if (!cuda_done(cudaStreamSynchronize(e->stream), "training through cuBLAS", error)) return false;
  return (!parameters ||
          cuda_done(cudaMemcpy(parameters, e->d_parameters, bytes, cudaMemcpyDeviceToHost),
                    "reading the parameters", error)) &&
         (!momentum || cuda_done(cudaMemcpy(momentum, e->d_momentum, bytes, cudaMemcpyDeviceToHost),
                                 "reading the momentum", error));
}

/* On the engine's stream, which does not wait for the default one. */
static bool cublas_write(Engine *engine, const float *parameters, const float *momentum,
                         Error *error) {
  CublasEngine *e = (CublasEngine *)engine;
  const size_t bytes = engine->config.network.floats * sizeof(float);
  return (!parameters || cuda_done(cudaMemcpyAsync(e->d_parameters, parameters, bytes,
                                                   cudaMemcpyHostToDevice, e->stream),
                                   "writing the parameters", error)) &&
         (!momentum || cuda_done(cudaMemcpyAsync(e->d_momentum, momentum, bytes,
                                                 cudaMemcpyHostToDevice, e->stream),
                                 "writing the momentum", error)) &&
         cuda_done(cudaStreamSynchronize(e->stream), "writing the parameters", error);
}

static void cublas_close(Engine *engine) {
  CublasEngine *e = (CublasEngine *)engine;
  if (!e) return;
  if (e->stream) cudaStreamSynchronize(e->stream);
  if (e->one_step) cudaGraphExecDestroy(e->one_step);
  if (e->many_steps) cudaGraphExecDestroy(e->many_steps);
  if (e->cublas) cublasDestroy(e->cublas);
  void *device[] = {e->d_workspace,  e->d_pixels,       e->d_labels,          e->d_order,
                    e->d_state,      e->results.d_loss, e->results.d_correct, e->d_sums,
                    e->d_parameters, e->d_momentum,     e->d_gradient,        e->d_x};
  for (size_t i = 0; i < sizeof device / sizeof *device; i++) cudaFree(device[i]);
  for (int l = 1; l <= NETWORK_MAX_LAYERS; l++) {
    cudaFree(e->d_activation[l]);
    cudaFree(e->d_delta[l]);
  }
  for (int s = 0; s < 2; s++) {
    free(e->staging[s].pixels);
    free(e->staging[s].labels);
  }
  if (e->stream) cudaStreamDestroy(e->stream);
  free(e);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Without predict: it is timed, and asked for nothing. */
static const EngineOperations OPERATIONS = {
    .staging = cublas_staging,
    .upload = cublas_upload,
    .train = cublas_train,
    .evaluate = cublas_evaluate,
    .collect = cublas_collect,
    .read = cublas_read,
    .write = cublas_write,
    .close = cublas_close,
};

/* Zeros: rows that are never written, padding and the first momentum. */
static bool device_array(CublasEngine *e, void *pointer, size_t count, size_t size, Error *error) {
  void **d_array = pointer;
  return cuda_done(cudaMalloc(d_array, count * size), "allocating", error) &&
         cuda_done(cudaMemsetAsync(*d_array, 0, count * size, e->stream), "clearing", error);
}

static bool allocate_store(CublasEngine *e, Error *error) {
  const EngineConfig *c = &e->engine.config;
  const size_t stride = ((size_t)c->network.size[0] + 15) / 16 * 16;
  for (int s = 0; s < 2; s++) {
    e->staging[s] = (StagingBuffer){malloc(c->staging_rows * stride),
                                    malloc(c->staging_rows * sizeof(uint16_t)), stride};
    if (!e->staging[s].pixels || !e->staging[s].labels)
      return error_set(error, "no memory for %llu rows", (unsigned long long)c->staging_rows);
  }
  const size_t rows =
      c->dataset_rows > (uint64_t)e->forward_rows ? c->dataset_rows : (size_t)e->forward_rows;
  return device_array(e, &e->d_pixels, c->dataset_rows, stride, error) &&
         device_array(e, &e->d_labels, c->dataset_rows, sizeof(uint16_t), error) &&
         device_array(e, &e->d_order, c->dataset_rows, sizeof(uint32_t), error) &&
         device_array(e, &e->results.d_loss, rows, sizeof(float), error) &&
         device_array(e, &e->results.d_correct, rows, 1, error) &&
         device_array(e, &e->d_state, 1, sizeof(StepState), error) &&
         device_array(e, &e->d_sums, 1, sizeof(ResultSums), error);
}

static bool allocate_network(CublasEngine *e, Error *error) {
  const Network *n = &e->engine.config.network;
  const size_t rows = (size_t)e->forward_rows, batch = (size_t)e->engine.config.batch;
  for (int l = 1; l <= n->layers; l++)
    if (!device_array(e, &e->d_activation[l], rows * (size_t)n->size[l], sizeof(float), error) ||
        !device_array(e, &e->d_delta[l], batch * (size_t)n->size[l], sizeof(float), error))
      return false;
  return device_array(e, &e->d_x, rows * (size_t)n->size[0], sizeof(float), error) &&
         device_array(e, &e->d_parameters, n->floats, sizeof(float), error) &&
         device_array(e, &e->d_momentum, n->floats, sizeof(float), error) &&
         device_array(e, &e->d_gradient, n->floats, sizeof(float), error);
}

static bool open_cublas(CublasEngine *e, bool tf32, Error *error) {
  static const char what[] = "starting";
  return cublas_done(cublasCreate(&e->cublas), what, error) &&
         cublas_done(cublasSetStream(e->cublas, e->stream), what, error) &&
         cuda_done(cudaMalloc(&e->d_workspace, WORKSPACE), "allocating", error) &&
         cublas_done(cublasSetWorkspace(e->cublas, e->d_workspace, WORKSPACE), what, error) &&
         cublas_done(
             cublasSetMathMode(e->cublas, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH),
             what, error);
}

static bool initialise(CublasEngine *e, Error *error) {
  const Network *n = &e->engine.config.network;
  float *parameters = malloc(n->floats * sizeof *parameters);
  if (!parameters) return error_set(error, "no memory for the initial parameters");
  network_initialise(n, e->engine.config.seed, parameters);
  const bool written = cublas_write(&e->engine, parameters, NULL, error);
  free(parameters);
  return written;
}

Engine *bench_cublas_open(const EngineConfig *config, bool tf32, Error *error) {
  CublasEngine *e = calloc(1, sizeof *e);
  if (!e) {
    error_set(error, "no memory for the engine");
    return NULL;
  }
  e->engine.call = &OPERATIONS;
  e->engine.config = *config;
  e->forward_rows = config->batch > EVALUATE_ROWS ? config->batch : EVALUATE_ROWS;
  if ((config->weight_decay == 0 ||
       error_set(error, "the cuBLAS level knows no weight decay: it must be 0")) &&
      engine_cuda_available(error) &&
      cuda_done(cudaStreamCreateWithFlags(&e->stream, cudaStreamNonBlocking), "creating a stream",
                error) &&
      open_cublas(e, tf32, error) && allocate_store(e, error) && allocate_network(e, error) &&
      initialise(e, error))
    return &e->engine;
  cublas_close(&e->engine);
  return NULL;
}
