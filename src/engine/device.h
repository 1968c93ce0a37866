/* The device that --device asks for. */
#pragma once

#include "engine/engine.h"

typedef enum { DEVICE_AUTO, DEVICE_CUDA, DEVICE_CPU } DeviceChoice;

typedef struct {
  DeviceChoice choice; /* the first engine that is opened turns DEVICE_AUTO into DEVICE_CPU where
                          there is no GPU */
  bool looked;         /* for one */
  Error reason;        /* why `auto` took the CPU, "" if it did not */
} Device;

/* A TrainerOpenEngine; context: the Device. With ranks all of them take a GPU, or all the CPU. */
Engine *device_open(void *context, const EngineConfig *config, Error *error);

/* After a failure. True if it was the GPU's, --device auto stands and `able`, that is, what was
   begun can be begun again: then what is opened from now on is the CPU, and the reason is the
   failure. Else false, and *error says what does without a GPU if that was what failed. */
bool device_fall_back(Device *device, bool able, Error *error);
