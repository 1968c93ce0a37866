/* Checks calls of cuBLAS. */
#ifndef BENCH_CUBLAS_H
#define BENCH_CUBLAS_H

#include <cublas_v2.h>

#include "measure/cuda/gpu_rates.h"

static inline bool cublas_done(cublasStatus_t status, const char *what, Error *error) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  return error_set(error, "%s failed in cuBLAS: %s", what, cublasGetStatusString(status));
}

#endif
