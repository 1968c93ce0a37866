/* A build without CUDA has this instead of a test that wants it. */
#include "support/cuda.h"

TEST(without_cuda) {
  needs_gpu();
}
