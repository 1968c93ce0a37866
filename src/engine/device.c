/* The choice between engines: the device that --device asks for. */
#include "engine/engine.h"

/* Looks for a GPU that can be used; with ranks, each needs one. Sets device->reason to why not. */
static bool look(Device *device, Ranks *ranks, Error *error) {
  const bool mine = engine_cuda_available(&device->reason);
  double lacks = !mine; /* ranks */
  device->looked = true;
  if (!ranks_sum_doubles(ranks, &lacks, 1, error)) return false;
  if (mine && lacks > 0) error_set(&device->reason, "another rank has no GPU");
  if (lacks > 0) device->choice = DEVICE_CPU;
  return true;
}

Engine *device_open(void *context, const EngineConfig *config, Error *error) {
  Device *device = context;
  /* With one queue for launches the driver makes a context 60 ms sooner and takes it down 50 ms
     sooner. Copies run beside kernels all the same; ranks, whose sums do, keep their queues. */
  if (!config->ranks) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
  if (device->choice != DEVICE_CPU && config->ranks && !engine_cuda_take(config->ranks, error))
    return NULL;
  if (device->choice == DEVICE_AUTO && !device->looked && !look(device, config->ranks, error))
    return NULL;
  Engine *engine =
      (device->choice == DEVICE_CPU ? engine_cpu_open : engine_cuda_open)(config, error);
  return config->ranks ? engine_ranks_open(engine, config->ranks, error) : engine;
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
