/* The baseline: level step of our engine, with the matrix products of cuBLAS. */
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/cuda/cublas.h"
#include "engine/cuda/engine_cuda.h"

enum { WORKSPACE = 32 << 20 }; /* bytes, as cuBLAS takes on Hopper */

typedef struct {
  cublasHandle_t handle;
  cudaStream_t stream; /* that the handle works on */
  void *d_workspace;   /* with one of its own, cuBLAS would allocate inside the graphs */
} Cublas;

/* The first time: cublasSetStream takes the workspace away, so it is given afterwards. */
static cublasStatus_t use_stream(Cublas *c, cudaStream_t stream) {
  if (c->stream == stream) return CUBLAS_STATUS_SUCCESS;
  c->stream = stream;
  const cublasStatus_t status = cublasSetStream(c->handle, stream);
  return status == CUBLAS_STATUS_SUCCESS ? cublasSetWorkspace(c->handle, c->d_workspace, WORKSPACE)
                                         : status;
}

/* cuBLAS is column-major: it computes C^T = op(B)^T op(A)^T, where ^T costs nothing. */
static cudaError_t gemm(void *context, bool transpose_a, const float *d_a, int a_columns,
                        bool transpose_b, const float *d_b, int b_columns, float *d_c, int m, int n,
                        int depth, cudaStream_t stream) {
  Cublas *c = context;
  const float one = 1, zero = 0;
  cublasStatus_t status = use_stream(c, stream);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasSgemm(c->handle, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                         transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, depth, &one, d_b, b_columns,
                         d_a, a_columns, &zero, d_c, n);
  return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}

static void close_cublas(void *context) {
  Cublas *c = context;
  if (c->handle) cublasDestroy(c->handle);
  cudaFree(c->d_workspace);
  free(c);
}

Engine *bench_cublas_open(const EngineConfig *config, bool tf32, Error *error) {
  static const char what[] = "starting";
  const cublasMath_t mode = tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
  Cublas *c = calloc(1, sizeof *c);
  if (!c) {
    error_set(error, "out of memory for cuBLAS");
    return NULL;
  }
  if (cublas_done(cublasCreate(&c->handle), what, error) &&
      cuda_done(cudaMalloc(&c->d_workspace, WORKSPACE), "allocating", error) &&
      cublas_done(cublasSetMathMode(c->handle, mode), what, error))
    return engine_cuda_open_with(config, &(GemmLibrary){c, gemm, close_cublas}, error);
  close_cublas(c);
  return NULL;
}
