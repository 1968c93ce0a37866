#include "engine/cuda/gpu_limits.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cuda/cuda_error.h"

/* Returns true if the text is a number; one too large for it is the largest. */
static bool is_number(const char *text, long *number) {
  char *end;
  *number = strtol(text, &end, 10);
  return end != text && !*end;
}

static bool lower_shared(GpuLimits *limits, Error *error) {
  const char *text = getenv("MLP_TEST_SHARED");
  long asked;
  if (!text) return true;
  if (!is_number(text, &asked) || (asked != 64 && asked != 99 && asked != 163))
    return error_set(error, "MLP_TEST_SHARED=%.40s: KB of shared memory must be 64, 99 or 163",
                     text);
  const size_t bytes = (size_t)asked << 10;
  if (bytes < limits->shared_bytes) limits->shared_bytes = bytes;
  return true;
}

static bool lower_multiprocessors(GpuLimits *limits, Error *error) {
  const char *text = getenv("MLP_TEST_PROCESSORS");
  long asked;
  if (!text) return true;
  if (!is_number(text, &asked) || asked < 1)
    return error_set(
        error, "MLP_TEST_PROCESSORS=%.40s: must be a number of multiprocessors, from 1", text);
  if (asked < limits->multiprocessors) limits->multiprocessors = (int)asked;
  return true;
}

static bool change_wide(GpuLimits *limits, Error *error) {
  const char *text = getenv("MLP_TEST_WIDE");
  if (!text || strcmp(text, "auto") == 0) return true;
  const bool always = strcmp(text, "always") == 0;
  if (!always && strcmp(text, "never") != 0)
    return error_set(error, "MLP_TEST_WIDE=%.40s: must be auto, always or never", text);
  if (limits->wide != WIDE_NEVER) limits->wide = always ? WIDE_WHERE_POSSIBLE : WIDE_NEVER;
  return true;
}

bool gpu_limits_lower(GpuLimits *limits, Error *error) {
  return lower_shared(limits, error) && lower_multiprocessors(limits, error) &&
         change_wide(limits, error);
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
