#include "engine/cuda/gpu_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "engine/cuda/cuda_error.h"

bool gpu_limits_lower(GpuLimits *limits, Error *error) {
  const char *size = getenv("MLP_TEST_GPU"), *wide = getenv("MLP_TEST_WIDE");
  int kilobytes = 64, multiprocessors = 1;
  char rest;
  if (size && (sscanf(size, "%d:%d%c", &kilobytes, &multiprocessors, &rest) != 2 ||
               kilobytes < 64 || kilobytes > 1024 || multiprocessors < 1))
    return error_set(error,
                     "MLP_TEST_GPU=%.40s: must be KB of shared memory, from 64, a colon and a "
                     "number of multiprocessors, from 1",
                     size);
  if (size) {
    const bool is_older = (size_t)kilobytes << 10 < limits->shared_bytes;
    limits->shared_bytes = min_size(limits->shared_bytes, (size_t)kilobytes << 10);
    limits->multiprocessors = min_int(limits->multiprocessors, multiprocessors);
    limits->clusters = is_older ? 0 : min_int(limits->clusters, multiprocessors / 16);
  }
  if (wide && strcmp(wide, "always") != 0 && strcmp(wide, "never") != 0)
    return error_set(error, "MLP_TEST_WIDE=%.40s: must be always or never", wide);
  if (wide && limits->wide != WIDE_NEVER)
    limits->wide = *wide == 'a' ? WIDE_WHERE_POSSIBLE : WIDE_NEVER;
  return true;
}

static cudaError_t ask_device(GpuLimits *limits) {
  int device, shared;
  TRY(cudaGetDevice(&device));
  TRY(cudaDeviceGetAttribute(&limits->multiprocessors, cudaDevAttrMultiProcessorCount, device));
  TRY(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  TRY(kernels_can_run(&limits->capability));
  limits->shared_bytes = (size_t)shared;
  limits->wide_by = wide_by();
  limits->clusters = limits->capability >= 90 ? tiles_clusters() : 0;
  limits->wide = limits->wide_by == WIDE_BY_NOTHING ? WIDE_NEVER : WIDE_WHERE_FASTER;
  return cudaSuccess;
}

bool gpu_limits_read(GpuLimits *limits, Error *error) {
  return cuda_done(ask_device(limits), "asking for its limits", error) &&
         gpu_limits_lower(limits, error);
}
