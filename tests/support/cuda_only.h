/* For tests that need CUDA's headers. A build without CUDA compiles without_cuda.c in place of such
   tests. */
#pragma once

#include <cuda_runtime_api.h>

#include "support/cuda.h"

/* Checks that the call returns cudaSuccess. */
#define CUDA_OK(call) check_cuda((call), cudaSuccess, #call, __LINE__)

/* Checks that a launcher's call returns cudaErrorInvalidValue. */
#define CUDA_REFUSED(call) check_cuda((call), cudaErrorInvalidValue, #call, __LINE__)

static inline void check_cuda(cudaError_t got, cudaError_t expected, const char *call, int line) {
  if (got != expected)
    fail_msg("line %d: %s: %s, not %s", line, call, cudaGetErrorString(got),
             cudaGetErrorName(expected));
}
