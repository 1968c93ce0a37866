/* Failures of the CUDA runtime as sentences. */
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "cuda_try.h"

/* Returns true if `status` is cudaSuccess, else sets *error, of_gpu too, to what failed (`what`:
   "training") and what can be done, and makes the runtime forget the failure, if it can. */
bool cuda_done(cudaError_t status, const char *what, Error *error);
