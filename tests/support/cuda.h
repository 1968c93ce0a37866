/* The head of a test that wants a GPU: without one it is skipped; a call that fails says why. */
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
