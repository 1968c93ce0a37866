/* Checks calls of cuBLAS. */
#pragma once

#include <cublas_v2.h>

#include "engine/cuda/cuda_error.h"

static inline bool cublas_done(cublasStatus_t status, const char *what, Error *error) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  return error_set(error, "%s failed in cuBLAS: %s", what, cublasGetStatusString(status));
}
