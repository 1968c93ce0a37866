/* Turns failures of the CUDA runtime into sentences. */
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "cuda_try.h"

/* Returns true if `status` is cudaSuccess. Otherwise sets *error and of_gpu, says what failed
   (`what`, as in "training") and what to do, and clears the runtime's error if it can. */
bool cuda_done(cudaError_t status, const char *what, Error *error);
