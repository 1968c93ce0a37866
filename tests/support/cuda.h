/* Shared by tests that need a GPU. Without a GPU, the tests are skipped. */
#pragma once

#include "engine/engine.h"
#include "support/test.h"

/* Skips the running test if there is no GPU. A test that needs a GPU calls this first. */
static inline void needs_gpu(void) {
  Error why;
  if (engine_cuda_available(&why)) return;
  skip_because(why.text);
}

#ifndef ON_EMULATOR
#define ON_EMULATOR false /* true if src/emulator runs the kernels on the CPU */
#endif

/* Returns true if tests run only small cases: on the emulator, or with TEST_QUICK set. */
static inline bool quick(void) {
  return ON_EMULATOR || getenv("TEST_QUICK") != NULL;
}
