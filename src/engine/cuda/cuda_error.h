/* Turns failures of the CUDA runtime into error messages. */
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "cuda_try.h"

/* Returns true if `status` is cudaSuccess. Otherwise clears the runtime's error if possible, and
   sets *error and error->of_gpu. The message says what failed (`what`), why, and a remedy. */
bool cuda_done(cudaError_t status, const char *what, Error *error);
