/* A build without CUDA compiles this file in place of a test that needs CUDA. */
#include "support/cuda.h"

TEST(without_cuda) {
  needs_gpu();
}
