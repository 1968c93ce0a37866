#include "engine/cuda/cuda_error.h"

/* Returns advice on a failure, or "" if there is none. */
static const char *advice(cudaError_t status) {
  if (status == cudaErrorDevicesUnavailable)
    return ": another process holds it exclusively; wait until that process ends";
  if (status == cudaErrorInvalidConfiguration || status == cudaErrorLaunchOutOfResources ||
      status == cudaErrorCooperativeLaunchTooLarge)
    return ": the launch was refused; try a different --fusion or a smaller --batch";
  const bool is_broken =
      status == cudaErrorIllegalAddress || status == cudaErrorLaunchTimeout ||
      status == cudaErrorECCUncorrectable || status == cudaErrorAssert ||
      (status >= cudaErrorHardwareStackError && status <= cudaErrorLaunchFailure);
  return is_broken ? ": the GPU can no longer be used by this process; restart the program" : "";
}

bool cuda_done(cudaError_t status, const char *what, Error *error) {
  if (status == cudaSuccess) return true;
  int driver = 0, runtime = 0, device;
  struct cudaDeviceProp properties = {.name = "GPU"};
  cudaGetLastError(); /* clears the error, so that the next launch does not report it again */
  switch (status) {
  case cudaErrorInsufficientDriver:
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver); /* 0 if there is no driver */
    if (driver == 0)
      error_set(error, "no NVIDIA driver is installed");
    else
      error_set(
          error,
          "the GPU's driver supports CUDA %d.%d, but this program was built with %d.%d: update "
          "the driver, or build with that CUDA Toolkit",
          driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    break;
  case cudaErrorNoDevice:
    error_set(error, "no GPU is visible (CUDA_VISIBLE_DEVICES can hide one)");
    break;
  case cudaErrorNoKernelImageForDevice:
  case cudaErrorUnsupportedPtxVersion:
    if (cudaGetDevice(&device) == cudaSuccess) cudaGetDeviceProperties(&properties, device);
    error_set(error,
              "this program has no code for the %.100s (compute capability %d.%d): build it on "
              "this machine with make, or for every GPU since Turing with make ARCH=all",
              properties.name, properties.major, properties.minor);
    break;
  case cudaErrorMemoryAllocation:
    error_set(error, "%s failed on the GPU: it is out of memory", what);
    break;
  default:
    error_set(error, "%s failed on the GPU: %s%s", what, cudaGetErrorString(status),
              advice(status));
  }
  if (error) error->of_gpu = true;
  return false;
}
