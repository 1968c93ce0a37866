/* The baseline of mlp-bench: cuBLAS computes matrix products, and small kernels do the rest. */
#include "bench/bench.h"
#include "engine/cuda/cuda_state.h"
#include "measure/cuda/rung.h"

#include <cublas_v2.h>

static bool cublas_done(cublasStatus_t status, const char *what, Error *error) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  return error_set(error, "%s failed in cuBLAS: %s", what, cublasGetStatusString(status));
}

bool bench_gpu(Record *record, const char *name, Error *error) {
  if (!gpu_add_machine(record, name, error)) return false;
  ceilings_add(record, CEILING_COPY, CEILINGS, error);
  return record_good(record, error);
}

enum { WORKSPACE = 32 << 20 }; /* bytes; cuBLAS's default on Hopper */

typedef struct {
  cublasHandle_t handle;
  cudaStream_t stream; /* the stream that the handle uses */
  void *d_workspace;   /* without it, cuBLAS would allocate memory inside the graphs */
} Cublas;

/* Sets the stream, then the workspace, because cublasSetStream resets the workspace. */
static cublasStatus_t use_stream(Cublas *c, cudaStream_t stream) {
  if (c->stream == stream) return CUBLAS_STATUS_SUCCESS;
  c->stream = stream;
  const cublasStatus_t status = cublasSetStream(c->handle, stream);
  return status == CUBLAS_STATUS_SUCCESS ? cublasSetWorkspace(c->handle, c->d_workspace, WORKSPACE)
                                         : status;
}

/* Queues C (m, n) = op(A) op(B), where op may transpose and each sum has `depth` terms. In memory,
   A has a_columns columns and B has b_columns. Our matrices are row-major, cuBLAS's column-major,
   so this computes C^T = op(B)^T op(A)^T. */
static cudaError_t gemm(const Pass *p, bool transpose_a, const float *d_a, int a_columns,
                        bool transpose_b, const float *d_b, int b_columns, float *d_c, int m, int n,
                        int depth) {
  Cublas *c = p->own;
  const float one = 1, zero = 0;
  cublasStatus_t status = use_stream(c, p->stream);
  static const cublasOperation_t op[] = {CUBLAS_OP_N, CUBLAS_OP_T};
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasSgemm(c->handle, op[transpose_b], op[transpose_a], n, m, depth, &one, d_b,
                         b_columns, d_a, a_columns, &zero, d_c, n);
  return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}

static cudaError_t forward(const Pass *p, int l) {
  const LayerUpdate at = layer_at(p, l);
  const int rows = p->batch.rows;
  float *d_y = p->arrays->d_activation[l + 1];
  TRY(gemm(p, false, at.d_x, at.in, true, at.d_w, at.in, d_y, rows, at.out, at.in));
  TRY(launch_add_bias(d_y, at.d_b, rows, at.out, p->stream));
  if (l == last_layer(p)) return cudaSuccess;
  return launch_activation(d_y, d_y, (size_t)rows * (size_t)at.out, p->stream);
}

static cudaError_t loss(const Pass *p) {
  const Network *n = &p->config->network;
  return launch_softmax(p->batch, p->arrays->d_activation[n->layers],
                        p->trains ? p->arrays->d_delta[n->layers] : NULL, n->size[n->layers],
                        p->results, p->stream);
}

static cudaError_t backward(const Pass *p, int l) {
  const LayerUpdate at = layer_at(p, l);
  const int rows = p->batch.rows;
  float *d_dx = p->arrays->d_delta[l];
  TRY(gemm(p, true, at.d_dz, at.out, false, at.d_x, at.in, at.d_gw, at.out, at.in, rows));
  TRY(launch_bias_gradient(at.d_dz, at.d_gb, rows, at.out, p->stream));
  if (l == 0) return cudaSuccess;
  TRY(gemm(p, false, at.d_dz, at.out, false, at.d_w, at.in, d_dx, rows, at.in, at.out));
  return launch_activation_slope(d_dx, at.d_x, (Dropout){0}, (size_t)rows * (size_t)at.in,
                                 p->stream);
}

/* One kernel updates the array of all parameters. The array has padding, whose gradient is 0. */
static cudaError_t update(const Pass *p, int first, int end) {
  (void)first, (void)end;
  const size_t count = p->config->network.floats;
  return launch_update(p->batch, p->d_parameters, p->d_momentum, p->arrays->d_gradient, count,
                       count, p->stream);
}

static void close_cublas(void *context) {
  Cublas *c = context;
  if (c->handle) cublasDestroy(c->handle);
  cudaFree(c->d_workspace);
  free(c);
}

static const Level level_cublas = {.input = scale_pixels,
                                   .forward = forward,
                                   .loss = loss,
                                   .backward = backward,
                                   .update = update,
                                   .unfused = true,
                                   .loads = true,
                                   .train = steps_by_graph,
                                   .close = close_cublas};

Engine *bench_cublas_open(const EngineConfig *config, Error *error) {
  static const char what[] = "starting";
  const bool tf32 = config->training.precision == PRECISION_TF32;
  Cublas *c = calloc(1, sizeof *c);
  if (!c) return error_null(error, "out of memory for cuBLAS");
  if (cublas_done(cublasCreate(&c->handle), what, error) &&
      cuda_done(cudaMalloc(&c->d_workspace, WORKSPACE), "allocating", error) &&
      cublas_done(
          cublasSetMathMode(c->handle, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH),
          what, error))
    return engine_cuda_open_with(config, &level_cublas, c, error);
  close_cublas(c);
  return NULL;
}
