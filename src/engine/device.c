#include "engine/device.h"

Engine *device_open(void *context, const EngineConfig *config, Error *error) {
  Device *device = context;
  if (device->choice == DEVICE_AUTO && !device->looked) {
    device->looked = true;
    if (!engine_cuda_available(&device->reason)) device->choice = DEVICE_CPU;
  }
  return (device->choice == DEVICE_CPU ? engine_cpu_open : engine_cuda_open)(config, error);
}

bool device_fall_back(Device *device, bool able, Error *error) {
  if (!error->of_gpu) return false;
  device->reason = *error;
  if (device->choice == DEVICE_AUTO && able) {
    device->choice = DEVICE_CPU;
    return true;
  }
  return error_set(error, "%.400s; --device cpu does without a GPU", device->reason.text);
}
