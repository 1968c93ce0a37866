/* CUB is not on the emulator. */
#include <cuda_runtime_api.h>
namespace cub {
struct DeviceHistogram {
  template <class... Given> static cudaError_t HistogramEven(Given...) {
    return cudaErrorNotSupported;
  }
};
} // namespace cub
