/* CUB is not on the emulator. */
#include <cuda_runtime_api.h>
namespace cub {
struct DeviceReduce {
  template <class... Given> static cudaError_t Sum(Given...) {
    return cudaErrorNotSupported;
  }
};
} // namespace cub
