/* What those parts of mlp-bench share that call CUDA themselves. */
#ifndef BENCH_CUDA_H
#define BENCH_CUDA_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "error.h"

/* For functions that return a cudaError_t: stops at the first failure and returns it. */
#define TRY(call)                                                                                  \
  do {                                                                                             \
    const cudaError_t status_ = (call);                                                            \
    if (status_ != cudaSuccess) return status_;                                                    \
  } while (0)

/* False with *error set if `status` is a failure. */
static inline bool cuda_done(cudaError_t status, const char *what, Error *error) {
  if (status == cudaSuccess) return true;
  cudaGetLastError(); /* told now: the next launch must not report it again */
  return error_set(error, "%s failed on the GPU: %s", what, cudaGetErrorString(status));
}

static inline bool cublas_done(cublasStatus_t status, const char *what, Error *error) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  return error_set(error, "%s failed in cuBLAS: %s", what, cublasGetStatusString(status));
}

#endif
