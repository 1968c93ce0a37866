#include "device.h"

#include "options.h"

Engine *device_open(void *context, const EngineConfig *config, Error *error) {
  Device *device = context;
  if (device->choice == DEVICE_CPU) return engine_cpu_open(config, error);
  if (device->choice == DEVICE_AUTO && !engine_cuda_available(&device->reason))
    return engine_cpu_open(config, error);
  return engine_cuda_open(config, error);
}
