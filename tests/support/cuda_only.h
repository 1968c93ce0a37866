/* Included by tests that CUDA's headers are needed for: a build without them has
   without_cuda.c instead of such a test (Makefile). */
#pragma once

#include <cuda_runtime_api.h>

#include "support/cuda.h"

/* The call returns cudaSuccess. */
#define CUDA_OK(call) check_cuda((call), cudaSuccess, #call, __LINE__)

/* The launcher refuses its arguments. */
#define CUDA_REFUSED(call) check_cuda((call), cudaErrorInvalidValue, #call, __LINE__)

static inline void check_cuda(cudaError_t got, cudaError_t expected, const char *call, int line) {
  if (got != expected)
    fail_msg("line %d: %s: %s, not %s", line, call, cudaGetErrorString(got),
             cudaGetErrorName(expected));
}
