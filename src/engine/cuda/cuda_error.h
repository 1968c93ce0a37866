/* Failures of the CUDA runtime as sentences. */
#ifndef CUDA_ERROR_H
#define CUDA_ERROR_H

#include <cuda_runtime_api.h>

#include "base/error.h"

/* For functions that return a cudaError_t: stops at the first failure and returns it. */
#define TRY(call)                                                                                  \
  do {                                                                                             \
    const cudaError_t status_ = (call);                                                            \
    if (status_ != cudaSuccess) return status_;                                                    \
  } while (0)

/* True if `status` is cudaSuccess. Otherwise false with *error set: one sentence that says what
   failed, `what` being as in "training" or "copying rows", and what can be done; error->of_gpu is
   true. The runtime forgets the failure, if it can. */
bool cuda_done(cudaError_t status, const char *what, Error *error);

#endif
