/* Failures of the CUDA runtime as sentences. */
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "cuda_try.h"

/* True if `status` is cudaSuccess. Otherwise false with *error set: one sentence that says what
   failed, `what` being as in "training" or "copying rows", and what can be done; error->of_gpu is
   true. The runtime forgets the failure, if it can. */
bool cuda_done(cudaError_t status, const char *what, Error *error);
