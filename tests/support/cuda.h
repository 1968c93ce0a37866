/* The head of a test that wants a GPU: without one it is skipped, and a call that fails says why.
 */
#pragma once

#include "engine/engine.h"
#include "support/test.h"

/* A test's first line. */
static inline void needs_gpu(void) {
  Error why;
  if (engine_cuda_available(&why)) return;
  skip_because(why.text);
}

#ifndef ON_EMULATOR
#define ON_EMULATOR false /* the kernels run on the CPU: src/emulator */
#endif

/* TEST_QUICK is in the environment: compute-sanitizer runs the tests, and small cases will do. */
static inline bool quick(void) {
  return ON_EMULATOR || getenv("TEST_QUICK") != NULL;
}

#ifdef HAVE_CUDA
#include <cuda_runtime_api.h>

/* The call returns cudaSuccess. */
#define CUDA_OK(call) check_cuda((call), cudaSuccess, #call, __LINE__)

/* The launcher refuses its arguments. */
#define CUDA_REFUSED(call) check_cuda((call), cudaErrorInvalidValue, #call, __LINE__)

static inline void check_cuda(cudaError_t got, cudaError_t expected, const char *call, int line) {
  if (got != expected)
    fail_msg("line %d: %s: %s, not %s", line, call, cudaGetErrorString(got),
             cudaGetErrorName(expected));
}
#else
/* The whole of a program whose tests a build without CUDA does not have. */
#define SKIPPED_WITHOUT_CUDA(name)                                                                 \
  TEST(name) {                                                                                     \
    needs_gpu();                                                                                   \
  }
#endif
