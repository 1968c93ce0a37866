#include "engine/cuda/gpu_limits.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cuda/cuda_error.h"

bool gpu_limits_lower(GpuLimits *limits, Error *error) {
  const char *shared = getenv("MLP_TEST_SHARED"), *processors = getenv("MLP_TEST_PROCESSORS"),
             *wide = getenv("MLP_TEST_WIDE");
  char *end = "";
  const size_t kilobytes = shared ? strtoul(shared, &end, 10) : 0;
  if (shared && (*end || (kilobytes != 64 && kilobytes != 99 && kilobytes != 163)))
    return error_set(error, "MLP_TEST_SHARED=%.40s: KB of shared memory must be 64, 99 or 163",
                     shared);
  if (shared && kilobytes << 10 < limits->shared_bytes) limits->shared_bytes = kilobytes << 10;
  const long most = processors ? strtol(processors, &end, 10) : limits->multiprocessors;
  if (processors && (*end || most < 1))
    return error_set(error,
                     "MLP_TEST_PROCESSORS=%.40s: must be a number of multiprocessors, from 1",
                     processors);
  if (most < limits->multiprocessors) limits->multiprocessors = (int)most;
  if (!wide || strcmp(wide, "auto") == 0) return true;
  const bool always = strcmp(wide, "always") == 0;
  if (!always && strcmp(wide, "never") != 0)
    return error_set(error, "MLP_TEST_WIDE=%.40s: must be auto, always or never", wide);
  if (limits->wide != WIDE_NEVER) limits->wide = always ? WIDE_WHERE_POSSIBLE : WIDE_NEVER;
  return true;
}

static cudaError_t ask_device(GpuLimits *limits) {
  int device, major, minor, shared, compiled_for;
  TRY(cudaGetDevice(&device));
  TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  TRY(cudaDeviceGetAttribute(&limits->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  TRY(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  TRY(kernels_can_run(&compiled_for));
  limits->capability = 10 * major + minor;
  if (compiled_for < limits->capability) limits->capability = compiled_for;
  limits->shared_bytes = (size_t)shared;
  limits->wide_by = wide_by();
  limits->wide = limits->wide_by == WIDE_BY_NOTHING ? WIDE_NEVER : WIDE_WHERE_FASTER;
  return cudaSuccess;
}

bool gpu_limits_read(GpuLimits *limits, Error *error) {
  return cuda_done(ask_device(limits), "asking for its limits", error) &&
         gpu_limits_lower(limits, error);
}
