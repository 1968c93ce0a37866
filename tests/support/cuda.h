/* For tests that need a GPU. Without one they are skipped; a call that fails is reported. */
#pragma once

#include "engine/engine.h"
#include "support/test.h"

/* The first line of such a test. */
static inline void needs_gpu(void) {
  Error why;
  if (engine_cuda_available(&why)) return;
  skip_because(why.text);
}

#ifndef ON_EMULATOR
#define ON_EMULATOR false /* the kernels run on the CPU: src/emulator */
#endif

/* Returns true for small cases: compute-sanitizer runs the tests with TEST_QUICK. */
static inline bool quick(void) {
  return ON_EMULATOR || getenv("TEST_QUICK") != NULL;
}
