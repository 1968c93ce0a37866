/* The GPU of the tests of kernels where these run on the emulator. */
#include "engine/cuda/gpu_limits.h"
#include "engine/engine.h"

bool engine_cuda_available(Error *error) {
  (void)error;
  return true;
}

bool gpu_limits_read(GpuLimits *limits, Error *error) {
  (void)error;
  *limits = (GpuLimits){80, 108, 163 << 10, WIDE_WHERE_POSSIBLE, WIDE_BY_MMA};
  return true;
}
