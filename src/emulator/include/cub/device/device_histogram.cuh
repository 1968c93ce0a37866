/* The emulator has no CUB. */
#pragma once
#include <cuda_runtime_api.h>
namespace cub {
struct DeviceHistogram {
  template <class... Given> static cudaError_t HistogramEven(Given...) {
    return cudaErrorNotSupported;
  }
};
struct DeviceReduce {
  template <class... Given> static cudaError_t Sum(Given...) {
    return cudaErrorNotSupported;
  }
  template <class... Given> static cudaError_t Min(Given...) {
    return cudaErrorNotSupported;
  }
  template <class... Given> static cudaError_t Max(Given...) {
    return cudaErrorNotSupported;
  }
};
} // namespace cub
